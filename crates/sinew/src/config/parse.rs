//! Parsers for fields whose values TOML does not have itself, with their error messages.

use super::{Accept, Exit, Exits, Neighbor};
use crate::authority::is_endpoint;
use base::NodeAddr;
use gateway::allow::Rule;
use host::control::AskedWays;
use host::mapping::Wish;
use serde::{Deserialize, Deserializer, de};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::SocketAddr;
use std::num::NonZeroU8;
use std::str::FromStr;

/// Most UDP sockets of a node. Choice: one for each address of a host with several uplinks.
const MAX_LISTEN: usize = 16;

pub(super) fn yes() -> bool {
    true
}

pub(super) fn default_mode() -> u32 {
    0o660
}

fn parse<T: FromStr<Err: Display>, E: de::Error>(text: &str) -> Result<T, E> {
    text.parse()
        .map_err(|error| E::custom(format!("`{text}`: {error}")))
}

/// Reads whether a port is to be mapped.
pub(super) fn wish<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Wish, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "`true`, `false` or \"auto\"")]
    enum Form {
        Flag(bool),
        Word(String),
    }
    match Form::deserialize(deserializer)? {
        Form::Flag(true) => Ok(Wish::Yes),
        Form::Flag(false) => Ok(Wish::No),
        Form::Word(word) if word == "auto" => Ok(Wish::Auto),
        Form::Word(word) => Err(de::Error::custom(format!(
            "`{word}`: expected `true`, `false` or \"auto\""
        ))),
    }
}

pub(super) fn one_text<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    parse(&String::deserialize(deserializer)?)
}

pub(super) fn text<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    one_text(deserializer).map(Some)
}

pub(super) fn listen<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<SocketAddr>, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "an address with a port, like \"0.0.0.0:7700\", or a list of such"
    )]
    enum Form {
        One(String),
        More(Vec<String>),
    }
    let texts = match Form::deserialize(deserializer)? {
        Form::One(one) => vec![one],
        Form::More(more) => more,
    };
    if texts.is_empty() || texts.len() > MAX_LISTEN {
        return Err(de::Error::custom(format!(
            "`listen` needs 1 to {MAX_LISTEN} addresses, like [\"0.0.0.0:7700\"]"
        )));
    }
    texts.iter().map(|text| parse(text)).collect()
}

pub(super) fn key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
    let text = String::deserialize(deserializer)?;
    client::remote::from_hex(&text)
        .ok_or_else(|| de::Error::custom(format!("`{text}`: not a key of 64 hexadecimal digits")))
}

pub(super) fn some_listen<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<SocketAddr>>, D::Error> {
    listen(deserializer).map(Some)
}

pub(super) fn mode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let mode = u32::deserialize(deserializer)?;
    if mode > 0o777 {
        return Err(de::Error::custom("permissions are 0 to 0o777, like 0o660"));
    }
    Ok(mode)
}

impl<'de> Deserialize<'de> for Exits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Exits, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Form {
            #[serde(default, deserialize_with = "exit_port")]
            port: Option<u16>,
            #[serde(default, deserialize_with = "exit_target")]
            to: Option<String>,
            #[serde(default, deserialize_with = "exit_rules")]
            allow: Option<Vec<Rule>>,
        }
        let mut exits = Exits::default();
        for form in Vec::<Form>::deserialize(deserializer)? {
            match form {
                Form {
                    port: Some(port),
                    to: Some(to),
                    allow: None,
                } => exits.ports.push(Exit { port, to }),
                Form {
                    port: None,
                    to: None,
                    allow: Some(rules),
                } => exits.allow.extend(rules),
                _ => {
                    return Err(de::Error::custom(
                        "an `[[exit]]` has either `port` and `to`, or `allow`",
                    ));
                }
            }
        }
        Ok(exits)
    }
}

/// Reads a list of targets that may be dialled.
pub(super) fn rules<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Rule>, D::Error> {
    Ok(exit_rules(deserializer)?.unwrap_or_default())
}

fn exit_rules<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Rule>>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let rules: Result<Vec<Rule>, D::Error> = texts.iter().map(|text| parse(text)).collect();
    rules.map(Some)
}

fn exit_port<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u16>, D::Error> {
    let port = u16::deserialize(deserializer)?;
    let first = overlay::sockets::RESERVED_PORTS;
    if port < first {
        return Err(de::Error::custom(format!(
            "virtual ports below {first} belong to the node: choose a higher one"
        )));
    }
    Ok(Some(port))
}

fn exit_target<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let target = crate::forward::exit_target(&text).map_err(de::Error::custom);
    target.map(Some)
}

pub(super) fn strikes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u8>, D::Error> {
    let strikes = u8::deserialize(deserializer)?;
    let most = overlay::realtime::MAX_STRIKES;
    if strikes > most {
        return Err(de::Error::custom(format!(
            "{strikes} strikes: choose 0 to {most}"
        )));
    }
    Ok(Some(strikes))
}

pub(super) fn congestion<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<overlay::reliable::Family>, D::Error> {
    one_text(deserializer).map(Some)
}

pub(super) fn flows<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let flows = usize::deserialize(deserializer)?;
    let most = overlay::reliable::FLOWS_MAX;
    if !(1..=most).contains(&flows) {
        return Err(de::Error::custom(format!(
            "{flows} flows: choose 1 to {most}"
        )));
    }
    Ok(Some(flows))
}

pub(super) fn hops<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<NonZeroU8>, D::Error> {
    let hops = u64::deserialize(deserializer)?;
    let fits = u8::try_from(hops).ok().and_then(NonZeroU8::new);
    let fits = fits.ok_or_else(|| {
        de::Error::custom(format!(
            "{hops} hops: write 1 to 255, the routers on the way and one more"
        ))
    })?;
    Ok(Some(fits))
}

pub(super) fn node_address<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<NodeAddr, D::Error> {
    let address: NodeAddr = one_text(deserializer)?;
    if !address.is_node() {
        return Err(de::Error::custom(format!(
            "{address} is not the address of a node; choose one below 224.0.0.0"
        )));
    }
    Ok(address)
}

/// Reads the paths of a group. The word `default` takes back what `group set` has set. In a file it would be a second
/// way to leave a key out, and the other keys of a group do not have it either.
pub(super) fn ways<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<AskedWays>, D::Error> {
    match AskedWays::deserialize(deserializer)? {
        AskedWays::Word(word) if word == "default" => Err(de::Error::custom(
            "ways `default`: write 1, 2, targeted or auto, or leave the key out",
        )),
        ways => Ok(Some(ways)),
    }
}

/// Reads a group, a group with its source, or a range of groups, and returns the overlay's group or range. The part
/// after the slash is checked with the rest of the entry.
pub(super) fn group_address<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<String, D::Error> {
    let word = String::deserialize(deserializer)?;
    let word = crate::groups::set_groups(&word).map_err(de::Error::custom)?;
    let address = word.split('/').next().unwrap_or_default();
    let address = address.parse::<NodeAddr>();
    if !address.is_ok_and(wire::groups::is_group) {
        return Err(de::Error::custom(format!(
            "{word} is no group: write an address like 239.1.1.1, or a range like 239.192.0.0/14"
        )));
    }
    Ok(word)
}

pub(super) fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let word = String::deserialize(deserializer)?;
    let rate = base::impair::rate(&word);
    let rate = rate.ok_or_else(|| de::Error::custom("write a rate like \"20mbit\""))?;
    Ok(Some(rate))
}

pub(super) fn span<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<base::Duration>, D::Error> {
    let word = String::deserialize(deserializer)?;
    let span = base::impair::span(&word);
    let span = span.ok_or_else(|| de::Error::custom("write a time like \"500ms\""))?;
    Ok(Some(span))
}

/// Reads the values of `[settings]` as text, whatever their TOML type is.
pub(super) fn settings<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    let values = BTreeMap::<String, toml::Value>::deserialize(deserializer)?;
    let mut profile = overlay::Settings::modern();
    let text = |(key, value): (String, toml::Value)| {
        let value = match value {
            toml::Value::String(text) => text,
            other => other.to_string(),
        };
        // Whether a value is valid does not depend on the profile.
        profile.set(&key, &value).map_err(de::Error::custom)?;
        Ok((key, value))
    };
    values.into_iter().map(text).collect()
}

pub(super) fn neighbors<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Neighbor>, D::Error> {
    let spanned = Vec::<toml::Spanned<Neighbor>>::deserialize(deserializer)?;
    let placed = |spanned: toml::Spanned<Neighbor>| {
        let offset = spanned.span().start;
        Neighbor {
            offset,
            ..spanned.into_inner()
        }
    };
    Ok(spanned.into_iter().map(placed).collect())
}

pub(super) fn one_or_more<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "a text like \"fra.example.net:7700\", or a list of such"
    )]
    enum Form {
        One(String),
        More(Vec<String>),
    }
    let endpoints = match Form::deserialize(deserializer)? {
        Form::One(one) => vec![one],
        Form::More(more) => more,
    };
    match endpoints.iter().find(|text| !is_endpoint(text)) {
        None => Ok(endpoints),
        Some(bad) => Err(de::Error::custom(format!(
            "endpoint `{bad}`: write a host name or address and a port, like fra.example.net:7700 \
             or [2001:db8::7]:7700"
        ))),
    }
}

impl<'de> Deserialize<'de> for Accept {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Accept, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "\"any\", or a list of overlay addresses like [\"10.7.0.2\"]"
        )]
        enum Form {
            Word(String),
            List(Vec<String>),
        }
        match Form::deserialize(deserializer)? {
            Form::Word(word) if word == "any" => Ok(Accept::Any),
            Form::Word(word) => Err(de::Error::custom(format!(
                "`{word}`: write \"any\", or a list of overlay addresses like [\"10.7.0.2\"]"
            ))),
            Form::List(list) => {
                let list: Result<Vec<NodeAddr>, D::Error> =
                    list.iter().map(|text| parse(text)).collect();
                list.map(Accept::Only)
            }
        }
    }
}
