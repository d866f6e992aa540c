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
//! ```

use crate::authority::is_endpoint;
use base::NodeAddr;
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
    #[serde(deserialize_with = "texts")]
    pub listen: Vec<SocketAddr>,
    /// The clients' socket file.
    #[serde(default)]
    pub client_socket: Option<PathBuf>,
    /// Permissions of that file, like `0o660`.
    #[serde(default = "default_mode")]
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
    #[serde(default, rename = "neighbor")]
    pub neighbors: Vec<Neighbor>,
    /// Changes to the profile's numbers of the real-time lane.
    #[serde(default)]
    pub realtime: Realtime,
}

/// A neighbour.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Neighbor {
    /// Its name.
    pub name: String,
    /// Its overlay address.
    #[serde(deserialize_with = "one_text")]
    pub address: NodeAddr,
    /// Host name or address, and UDP port; several are tried in turn.
    #[serde(default, rename = "endpoint", deserialize_with = "one_or_more")]
    pub endpoints: Vec<String>,
    /// The impairment of the link to it from the start, like `loss=5% delay=10ms` (lab only).
    #[serde(default, deserialize_with = "text")]
    pub impair: Option<base::impair::Model>,
}

/// The real-time lane.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Realtime {
    /// How often a lost packet is asked for, at most.
    pub strikes: Option<u8>,
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
    #[error("{path}: {what}")]
    Invalid {
        /// The file.
        path: PathBuf,
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
        config.check().map_err(|what| ConfigError::Invalid {
            path: path.to_owned(),
            what,
        })?;
        config.resolve(path.parent().unwrap_or(Path::new(".")));
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        if self.listen.is_empty() || self.listen.len() > MAX_LISTEN {
            return Err("`listen` needs 1 to 16 addresses, like [\"0.0.0.0:7700\"]".into());
        }
        if self.client_socket_mode > 0o777 {
            return Err("`client_socket_mode` is permissions, like 0o660".into());
        }
        for (i, neighbor) in self.neighbors.iter().enumerate() {
            if !neighbor.address.is_node() {
                return Err(format!(
                    "neighbor `{}`: {} is not the address of a node; choose one below 224.0.0.0",
                    neighbor.name, neighbor.address
                ));
            }
            if self.neighbors[..i]
                .iter()
                .any(|n| n.address == neighbor.address)
            {
                return Err(format!("neighbor {} is listed twice", neighbor.address));
            }
            if let Some(bad) = neighbor.endpoints.iter().find(|text| !is_endpoint(text)) {
                return Err(format!(
                    "neighbor `{}`: endpoint `{bad}`: write a host name or address and a port, like \
                     fra.example.net:7700 or [2001:db8::7]:7700",
                    neighbor.name
                ));
            }
            if neighbor.impair.is_some() && !self.lab {
                return Err("`impair` needs `lab = true`".into());
            }
        }
        match self.realtime.strikes {
            Some(strikes) if strikes > overlay::realtime::MAX_STRIKES => Err(format!(
                "`realtime.strikes` is {strikes}: choose 0 to {}",
                overlay::realtime::MAX_STRIKES
            )),
            _ => Ok(()),
        }
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
        for path in paths
            .into_iter()
            .chain(options.into_iter().filter_map(Option::as_mut))
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

fn texts<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| parse(text)).collect()
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
    Ok(match Form::deserialize(deserializer)? {
        Form::One(one) => vec![one],
        Form::More(more) => more,
    })
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

    fn error(extra: &str) -> String {
        let text = format!("{GOOD}{extra}");
        match toml::from_str::<Config>(&text) {
            Ok(config) => config.check().unwrap_err(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_least_configuration_is_enough() {
        let config: Config = toml::from_str(GOOD).unwrap();
        assert_eq!(config.check(), Ok(()));
        assert!(config.realtime_priority && !config.lab);
    }

    #[test]
    fn every_mistake_names_its_line_or_key() {
        for (extra, expected) in [
            ("listne = []", "unknown field `listne`"),
            ("metrics = 'here'", "line 5"),
            ("profile = 'fast'", "`modern` or `paper`"),
            ("lab = 'yes'", "line 5"),
            ("accept = 'none'", "any"),
            ("accept = ['10.7.0']", "10.7.0.3"),
            ("[[neighbor]]\nname = 'x'", "missing field `address`"),
            ("[[neighbor]]\nname = 'x'\naddress = '10.7.0.300'", "line 7"),
            (
                "[[neighbor]]\nname = 'x'\naddress = '239.1.1.1'",
                "not the address of a node",
            ),
            (
                "[[neighbor]]\nname = 'x'\naddress = '10.1.1.1'\nimpair = 'loss=5'",
                "line 8",
            ),
            (
                "[[neighbor]]\nname = 'x'\naddress = '10.1.1.1'\nimpair = 'loss=5%'",
                "lab = true",
            ),
            ("[realtime]\nstrikes = 9", "choose 0 to 5"),
            ("client_socket_mode = 'rw'", "line 5"),
            ("client_socket_mode = 0o1777", "0o660"),
            ("accept = 7", "[\"10.7.0.2\"]"),
            (
                "[[neighbor]]\nname = 'x'\naddress = '10.1.1.1'\nendpoint = 5",
                "fra.example.net",
            ),
            (
                "[[neighbor]]\nname = 'x'\naddress = '10.1.1.1'\nendpoint = 'fra'",
                "and a port",
            ),
            (
                "[[neighbor]]\nname = 'x'\naddress = '10.1.1.1'\n\
                 [[neighbor]]\nname = 'y'\naddress = '10.1.1.1'",
                "listed twice",
            ),
        ] {
            let message = error(extra);
            assert!(message.contains(expected), "{extra}: {message}");
        }
    }
}
