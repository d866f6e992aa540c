//! The configuration file of a node: TOML, checked once, with errors that name file, line and what
//! was expected.
//!
//! ```toml
//! certificate = "node.cert"          # paths are relative to this file
//! key = "node.key"
//! network = "network.pub"
//! listen = ["0.0.0.0:7700"]
//!
//! [[neighbor]]
//! name = "fra"
//! address = "10.7.0.2"               # its overlay address
//! endpoint = "fra.example.net:7700"  # where to dial it, or a list; without, it dials this node
//!
//! [[exit]]                           # streams to port 2022 leave the overlay to this target
//! port = 2022
//! to = "127.0.0.1:22"
//!
//! [[exit]]                           # `sinew gateway socks --exit` may leave the overlay to these
//! allow = ["10.1.0.0/16:443", "example.org:80"]
//!
//! [clients]                          # clients on other hosts, who have the token
//! listen = "10.0.0.1:7443"
//! token_file = "clients.token"
//! ```

use crate::authority::is_endpoint;
use base::NodeAddr;
use gateway::allow::Rule;
use serde::{Deserialize, Deserializer, de};
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// UDP sockets of a node. Choice: one for each address of a host with several uplinks.
const MAX_LISTEN: usize = 16;

/// What the file says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The node's certificate.
    pub certificate: PathBuf,
    /// The node's secret keys.
    pub key: PathBuf,
    /// The network's root public key.
    pub network: PathBuf,
    /// The list of revoked certificates; kept up to date by the node.
    #[serde(default)]
    pub revocations: Option<PathBuf>,
    /// UDP addresses to listen on.
    #[serde(deserialize_with = "listen")]
    pub listen: Vec<SocketAddr>,
    /// The clients' socket file.
    #[serde(default)]
    pub client_socket: Option<PathBuf>,
    /// Permissions of that file, like `0o660`.
    #[serde(default = "default_mode", deserialize_with = "mode")]
    pub client_socket_mode: u32,
    /// The operator's socket file.
    #[serde(default)]
    pub control_socket: Option<PathBuf>,
    /// Where to serve metrics and status by HTTP.
    #[serde(default, deserialize_with = "text")]
    pub metrics: Option<SocketAddr>,
    /// `modern` or `paper`.
    #[serde(default)]
    pub profile: Profile,
    /// Ask for real-time scheduling.
    #[serde(default = "yes")]
    pub realtime_priority: bool,
    /// Allow links to be impaired.
    #[serde(default)]
    pub lab: bool,
    /// Neighbours that may dial this node: `"any"`, or a list of overlay addresses.
    #[serde(default)]
    pub accept: Accept,
    /// Receive and send bursts whole, where the kernel can.
    #[serde(default = "yes")]
    pub offload: bool,
    /// Neighbours.
    #[serde(default, rename = "neighbor", deserialize_with = "neighbors")]
    pub neighbors: Vec<Neighbor>,
    /// Targets that streams and datagrams may leave the overlay to; none unless listed.
    #[serde(default, rename = "exit")]
    pub exits: Exits,
    /// Clients on other hosts; none unless configured.
    #[serde(default)]
    pub clients: Option<Clients>,
    /// Changes to the profile's numbers of the real-time lane.
    #[serde(default)]
    pub realtime: Realtime,
    /// Changes to the profile's numbers of the reliable lane.
    #[serde(default)]
    pub reliable: Reliable,
}

/// A neighbour.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Neighbor {
    /// Its name.
    pub name: String,
    /// Its overlay address.
    #[serde(deserialize_with = "node_address")]
    pub address: NodeAddr,
    /// Host name or address, and UDP port; several are tried in turn.
    #[serde(default, rename = "endpoint", deserialize_with = "one_or_more")]
    pub endpoints: Vec<String>,
    /// The impairment of the link to it from the start, like `loss=5% delay=10ms` (lab only).
    #[serde(default, deserialize_with = "text")]
    pub impair: Option<base::impair::Model>,
    /// Where it stands in the file.
    #[serde(skip)]
    offset: usize,
    /// The same as a line.
    #[serde(skip)]
    pub line: usize,
}

/// What `[[exit]]` lists: ports with one target each, and what gateways may ask for.
#[derive(Clone, Debug, Default)]
pub struct Exits {
    /// Each with its target.
    pub ports: Vec<Exit>,
    /// The targets of all lists.
    pub allow: Vec<Rule>,
}

/// A virtual port of the node behind which is a TCP target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The virtual port.
    pub port: u16,
    /// The only host and port that its streams are carried to.
    pub to: String,
}

/// Clients on other hosts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clients {
    /// The TCP address to take them at.
    #[serde(deserialize_with = "one_text")]
    pub listen: SocketAddr,
    /// The file of the token that lets them in.
    pub token_file: PathBuf,
}

/// The real-time lane.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Realtime {
    /// How often a lost packet is asked for, at most.
    #[serde(default, deserialize_with = "strikes")]
    pub strikes: Option<u8>,
}

/// The reliable lane.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reliable {
    /// The congestion control of what this node sends.
    #[serde(default, deserialize_with = "congestion")]
    pub congestion: Option<overlay::reliable::Family>,
    /// A link that carries n flows behaves like n of them, up to this number.
    #[serde(default, deserialize_with = "flows")]
    pub flows: Option<usize>,
}

/// Timers and thresholds.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// The defaults.
    #[default]
    Modern,
    /// The papers' numbers, for comparison.
    Paper,
}

/// Who may dial.
#[derive(Clone, Debug, Default)]
pub enum Accept {
    /// Every node of the network.
    #[default]
    Any,
    /// These nodes.
    Only(Vec<NodeAddr>),
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}; `sinew net add` makes a node's directory")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("{path}: {error}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Line, column and what was expected.
        error: Box<toml::de::Error>,
    },
    /// A value contradicts another.
    #[error("{path}, line {line}: {what}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Where the neighbour begins that is meant.
        line: usize,
        /// What, and what to do.
        what: String,
    },
}

impl Config {
    /// Reads and checks a file; relative paths in it become relative to where it stands.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| ConfigError::Read {
            path: path.to_owned(),
            error,
        })?;
        let mut config: Config = toml::from_str(&text).map_err(|error| ConfigError::Parse {
            path: path.to_owned(),
            error: Box::new(error),
        })?;
        config
            .check()
            .map_err(|(offset, what)| ConfigError::Invalid {
                path: path.to_owned(),
                line: line_of(&text, offset),
                what,
            })?;
        config.resolve(path.parent().unwrap_or(Path::new(".")));
        for neighbor in &mut config.neighbors {
            neighbor.line = line_of(&text, neighbor.offset);
        }
        Ok(config)
    }

    /// What is wrong between the neighbours, and where the one begins that is to be changed.
    fn check(&self) -> Result<(), (usize, String)> {
        for (i, neighbor) in self.neighbors.iter().enumerate() {
            let Neighbor { name, address, .. } = neighbor;
            let wrong = |what: String| Err((neighbor.offset, what));
            let before = &self.neighbors[..i];
            if before.iter().any(|n| n.address == *address) {
                return wrong(format!("neighbor {address} is listed twice"));
            }
            if neighbor.impair.is_some() && !self.lab {
                return wrong(format!("`impair` of neighbor `{name}` needs `lab = true`"));
            }
        }
        Ok(())
    }

    /// The impairments of links from the start.
    pub fn impairments(&self) -> impl Iterator<Item = (NodeAddr, base::impair::Model)> {
        self.neighbors
            .iter()
            .filter_map(|n| Some((n.address, n.impair.clone()?)))
    }

    fn resolve(&mut self, dir: &Path) {
        let paths = [&mut self.certificate, &mut self.key, &mut self.network];
        let options = [
            &mut self.revocations,
            &mut self.client_socket,
            &mut self.control_socket,
        ];
        let token_file = self.clients.as_mut().map(|clients| &mut clients.token_file);
        for path in paths
            .into_iter()
            .chain(options.into_iter().filter_map(Option::as_mut))
            .chain(token_file)
        {
            if path.is_relative() {
                *path = dir.join(&*path);
            }
        }
    }
}

fn yes() -> bool {
    true
}

fn default_mode() -> u32 {
    0o660
}

fn parse<T: FromStr<Err: Display>, E: de::Error>(text: &str) -> Result<T, E> {
    text.parse()
        .map_err(|error| E::custom(format!("`{text}`: {error}")))
}

fn one_text<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    parse(&String::deserialize(deserializer)?)
}

fn text<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    one_text(deserializer).map(Some)
}

fn line_of(text: &str, offset: usize) -> usize {
    let before = text.get(..offset).unwrap_or(text);
    before.matches('\n').count() + 1
}

fn listen<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SocketAddr>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    if texts.is_empty() || texts.len() > MAX_LISTEN {
        return Err(de::Error::custom(format!(
            "`listen` needs 1 to {MAX_LISTEN} addresses, like [\"0.0.0.0:7700\"]"
        )));
    }
    texts.iter().map(|text| parse(text)).collect()
}

fn mode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
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

fn strikes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u8>, D::Error> {
    let strikes = u8::deserialize(deserializer)?;
    let most = overlay::realtime::MAX_STRIKES;
    if strikes > most {
        return Err(de::Error::custom(format!(
            "{strikes} strikes: choose 0 to {most}"
        )));
    }
    Ok(Some(strikes))
}

fn congestion<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<overlay::reliable::Family>, D::Error> {
    one_text(deserializer).map(Some)
}

fn flows<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let flows = usize::deserialize(deserializer)?;
    let most = overlay::reliable::FLOWS_MAX;
    if !(1..=most).contains(&flows) {
        return Err(de::Error::custom(format!(
            "{flows} flows: choose 1 to {most}"
        )));
    }
    Ok(Some(flows))
}

fn node_address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NodeAddr, D::Error> {
    let address: NodeAddr = one_text(deserializer)?;
    if !address.is_node() {
        return Err(de::Error::custom(format!(
            "{address} is not the address of a node; choose one below 224.0.0.0"
        )));
    }
    Ok(address)
}

fn neighbors<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Neighbor>, D::Error> {
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

fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "certificate = 'a'\nkey = 'b'\nnetwork = 'c'\nlisten = ['127.0.0.1:7700']\n";

    fn load(text: &str) -> Result<Config, String> {
        let dir = crate::testing::directory("config");
        let path = dir.join("node.toml");
        std::fs::write(&path, text).unwrap();
        let loaded = Config::load(&path).map_err(|error| error.to_string());
        std::fs::remove_dir_all(&dir).unwrap();
        loaded
    }

    #[test]
    fn the_least_configuration_is_enough() {
        let config = load(GOOD).unwrap();
        assert!(config.realtime_priority && !config.lab);
    }

    #[test]
    fn every_mistake_names_file_line_and_what_was_expected() {
        let neighbor = "[[neighbor]]\nname = 'x'\naddress = '10.1.1.1'\n";
        let neighbor = |more: &str| format!("{neighbor}{more}");
        for (extra, line, expected) in [
            ("listne = []".to_owned(), 5, "unknown field `listne`"),
            ("lab".into(), 5, "expected"),
            ("lab = true\nlab = true".into(), 6, "duplicate key"),
            ("metrics = 'here'".into(), 5, "`here`: "),
            ("profile = 'fast'".into(), 5, "`modern` or `paper`"),
            ("lab = 'yes'".into(), 5, "boolean"),
            ("accept = 'none'".into(), 5, "any"),
            ("accept = ['10.7.0']".into(), 5, "10.7.0.3"),
            ("accept = 7".into(), 5, "[\"10.7.0.2\"]"),
            ("client_socket_mode = 'rw'".into(), 5, "expected u32"),
            ("client_socket_mode = 0o1777".into(), 5, "0o660"),
            ("client_socket_mode = -1".into(), 5, "expected u32"),
            ("[realtime]\nstrikes = 9".into(), 6, "choose 0 to 5"),
            ("[realtime]\nstrike = 1".into(), 6, "`strikes`"),
            ("[reliable]\nflows = 0".into(), 6, "choose 1 to 64"),
            ("[reliable]\ncongestion = 'bbr'".into(), 6, "newreno"),
            (
                "[[neighbor]]\nname = 'x'".into(),
                5,
                "missing field `address`",
            ),
            (
                "[[neighbor]]\nname = 'x'\naddress = '10.7.0.300'".into(),
                7,
                "10.7.0.3",
            ),
            (
                "[[neighbor]]\nname = 'x'\naddress = '239.1.1.1'".into(),
                7,
                "below 224.0.0.0",
            ),
            (neighbor("impair = 'loss=5'"), 8, "5%"),
            (neighbor("impair = 'loss=5%'"), 5, "lab = true"),
            (neighbor("endpoint = 5"), 8, "fra.example.net"),
            (neighbor("endpoint = 'fra'"), 8, "and a port"),
            (
                neighbor("endpoint = ['1.2.3.4:5', '1.2.3.4']"),
                8,
                "and a port",
            ),
            (neighbor(&neighbor("")), 8, "listed twice"),
            ("[[exit]]\nallow = ['10.1:80']".into(), 6, "example.org:80"),
            ("[[exit]]\nport = 99".into(), 5, "either `port` and `to`"),
            ("[clients]\nlisten = 'here'".into(), 6, "`here`"),
            ("[clients]\nlisten = '10.0.0.1:1'".into(), 5, "token_file"),
        ] {
            let message = load(&format!("{GOOD}{extra}")).unwrap_err();
            for expected in ["node.toml", &format!("line {line}"), expected] {
                assert!(message.contains(expected), "{extra}: {expected}: {message}");
            }
        }
        let none = GOOD.replace("'127.0.0.1:7700'", "");
        let message = load(&none).unwrap_err();
        assert!(
            message.contains("line 4") && message.contains("1 to 16"),
            "{message}"
        );
        let message = load("certificate = 'a'").unwrap_err();
        assert!(message.contains("missing field `key`"), "{message}");
    }
}
