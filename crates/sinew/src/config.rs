//! The configuration file of a node: TOML, checked once when it is read. Errors have the file, the line and the
//! expected value.
//!
//! ```toml
//! certificate = "node.cert"          # paths are relative to this file
//! key = "node.key"
//! network = "network.pub"
//! listen = ["0.0.0.0:7700"]
//! tcp = ["0.0.0.0:443"]              # TCP addresses for links whose UDP is blocked, beside those of `listen`
//!
//! [[neighbor]]
//! name = "fra"
//! address = "10.7.0.2"               # its overlay address
//! endpoint = "fra.example.net:7700"  # where to dial it, or a list; without, it dials this node
//! tcp = "fra.example.net:443"        # and by TCP, where UDP is blocked; the endpoint unless given
//!
//! [[group]]                          # how a group is carried, in the whole network
//! address = "239.1.1.1"
//! rate = "12mbit"
//! deadline = "500ms"
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
//! udp_port = 7443                    # for their datagrams; the port of `listen` unless given, 0 for none
//!
//! [relay]                            # bulk data: `sinew cp` through and to this node
//! roots = ["/srv/data"]              # what it keeps and gives; nothing unless listed. One that only
//!                                    # gives: { path = "/srv/pub", write = false }
//! transfers = 64                     # how many at the same time; 0: none at all
//! probe = 268435456                  # bytes that it may send to find out what a segment carries
//! passes = true                      # it relays for other nodes; false: for none; ["ams", "tag:lab"]: what
//!                                    # ams begins, and nodes whose certificates have that tag
//! allow = ["10.1.0.0/16:7700"]       # dialled for other nodes beside the neighbours; nothing unless listed
//!
//! [issuer]                           # hosts that `sinew invite` has invited become nodes here
//! delegation = "node.delegation"     # what it may certify: `sinew net delegate` makes it
//! books = "issuer"                   # the directory of its invitations and members
//! endpoints = ["ams.example.net:7700"]
//! renews = ["renews-lon.delegation"] # what it may certify again that another issuer has certified
//!
//! [[issuer.renewed_by]]              # who may do so with what it has certified; its members are told
//! from = ["fra.example.net:7700"]
//! key = "5f03b2…"
//!
//! [renewal]                          # who issued this node's certificate issues the next one
//! from = ["ams.example.net:7700"]
//! key = "d75a98…"                    # the issuer's public key
//!
//! [[renewal.others]]                 # who is asked if that one cannot be reached
//! from = ["fra.example.net:7700"]
//! key = "5f03b2…"
//! ```

mod groups;
mod issuer;
mod parse;
mod relay;

pub use self::relay::{Passes, Relay, Root, RootRights};
pub use groups::{Group, Multicast};
pub use issuer::{Issuer, OtherIssuer, Renewal};

use base::NodeAddr;
use gateway::allow::Rule;
use host::log::Level;
use host::mapping::Wish;
use parse::{
    congestion, default_mode, flows, hops, listen, mode, neighbors, node_address, one_or_more,
    one_text, rate, settings, strikes, text, wish, yes,
};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU8;
use std::path::{Path, PathBuf};
use wire::relay::join::{ENDPOINTS_MAX, ISSUERS_MAX};

/// The content of the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The node's certificate.
    pub certificate: PathBuf,
    /// The node's secret keys.
    pub key: PathBuf,
    /// The network's root public key.
    pub network: PathBuf,
    /// The list of revoked certificates. The node keeps it up to date.
    #[serde(default)]
    pub revocations: Option<PathBuf>,
    /// UDP addresses to listen on.
    #[serde(deserialize_with = "listen")]
    pub listen: Vec<SocketAddr>,
    /// TCP addresses to listen on for links whose UDP is blocked, beside those for bulk data.
    #[serde(default, deserialize_with = "listen")]
    pub tcp: Vec<SocketAddr>,
    /// Use TLS over TCP for links if UDP is blocked, and accept such links.
    #[serde(default = "yes")]
    pub tcp_links: bool,
    /// The clients' socket file.
    #[serde(default)]
    pub client_socket: Option<PathBuf>,
    /// Permissions of that file, like `0o660`.
    #[serde(default = "default_mode", deserialize_with = "mode")]
    pub client_socket_mode: u32,
    /// The operator's socket file.
    #[serde(default)]
    pub control_socket: Option<PathBuf>,
    /// The address of the HTTP server for metrics and status.
    #[serde(default, deserialize_with = "text")]
    pub metrics: Option<SocketAddr>,
    /// Host names that requests for the metrics may use, besides addresses, `localhost` and the host's own name.
    #[serde(default)]
    pub metrics_hosts: Vec<String>,
    /// The least severe level that is logged: `error`, `warning` or `info`.
    #[serde(default, deserialize_with = "text")]
    pub log_level: Option<Level>,
    /// The log file; by default, the log goes to standard error.
    #[serde(default)]
    pub log_file: Option<PathBuf>,
    /// `modern` or `paper`.
    #[serde(default)]
    pub profile: Profile,
    /// When nodes on the path may read what this node's programs send: `always`, `if-needed` or `never`. By default,
    /// the profile decides.
    pub relays_can_read: Option<RelaysCanRead>,
    /// Ask for real-time scheduling.
    #[serde(default = "yes")]
    pub realtime_priority: bool,
    /// Allow links to be impaired.
    #[serde(default)]
    pub lab: bool,
    /// Neighbours that may dial this node: `"any"`, or a list of overlay addresses.
    #[serde(default)]
    pub accept: Accept,
    /// Receive and send bursts in one system call, if the kernel can.
    #[serde(default = "yes")]
    pub offload: bool,
    /// Mark packets with their class for routers (DSCP).
    #[serde(default)]
    pub dscp: bool,
    /// Make a link of its own to each node with which this node's programs exchange packets.
    #[serde(default)]
    pub direct_links: bool,
    /// Offer this node as a neighbour, and find nodes to which a link is useful.
    #[serde(default)]
    pub find_links: bool,
    /// Ask the router in front of the host to forward a port to this node: `true`, `false` or `"auto"`.
    #[serde(default, deserialize_with = "wish")]
    pub map_port: Wish,
    /// Measure how many physical links lead to each neighbour.
    #[serde(default = "yes")]
    pub probe_hops: bool,
    /// Neighbours.
    #[serde(default, rename = "neighbor", deserialize_with = "neighbors")]
    pub neighbors: Vec<Neighbor>,
    /// Targets outside the overlay for streams and datagrams; none by default.
    #[serde(default, rename = "exit")]
    pub exits: Exits,
    /// How the network carries groups.
    #[serde(default, rename = "group")]
    pub groups: Vec<Group>,
    /// A bridge for IP multicast that runs in the node itself.
    #[serde(default)]
    pub multicast: Option<Multicast>,
    /// Access for clients on other hosts; none by default.
    #[serde(default)]
    pub clients: Option<Clients>,
    /// Bulk data.
    #[serde(default)]
    pub relay: Relay,
    /// The settings of an issuer, which certifies invited hosts.
    #[serde(default)]
    pub issuer: Option<Issuer>,
    /// The issuers from which the node gets its next certificate.
    #[serde(default)]
    pub renewal: Option<Renewal>,
    /// Changes to the profile's timers and thresholds, by key.
    #[serde(default, deserialize_with = "settings")]
    pub settings: BTreeMap<String, String>,
    /// Changes to the profile's numbers of the real-time lane.
    #[serde(default)]
    pub realtime: Realtime,
    /// Changes to the profile's numbers of the reliable lane.
    #[serde(default)]
    pub reliable: Reliable,
    /// The whole file as written, to find out what has changed.
    #[serde(skip)]
    pub written: toml::Table,
}

/// A neighbour.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Neighbor {
    /// The neighbour's name.
    pub name: String,
    /// The neighbour's overlay address.
    #[serde(deserialize_with = "node_address")]
    pub address: NodeAddr,
    /// Host name or address, and UDP port. If there are several, the node tries them in turn.
    #[serde(default, rename = "endpoint", deserialize_with = "one_or_more")]
    pub endpoints: Vec<String>,
    /// Host name or address, and TCP port, which the node dials if UDP is blocked; the endpoints by default.
    #[serde(default, deserialize_with = "one_or_more")]
    pub tcp: Vec<String>,
    /// With `find_links`: the node enters the network by this neighbour, and dials it as long as it has too few other
    /// neighbours.
    #[serde(default)]
    pub first: bool,
    /// The impairment of the link to the neighbour from the start, like `loss=5% delay=10ms` (lab only).
    #[serde(default, deserialize_with = "text")]
    pub impair: Option<base::impair::Model>,
    /// The capacity of the link to the neighbour, like `20mbit`. It limits the groups that ask for a rate.
    #[serde(default, deserialize_with = "rate")]
    pub capacity: Option<u64>,
    /// Number of physical links to the neighbour: one more than the routers on the path. If it is given, the node does
    /// not measure it.
    #[serde(default, deserialize_with = "hops")]
    pub hops: Option<NonZeroU8>,
    /// The congestion control of reliable traffic to the neighbour; by default, that of `[reliable]`.
    #[serde(default, deserialize_with = "congestion")]
    pub congestion: Option<overlay::reliable::Family>,
    /// The number of flows that the link behaves like; by default, that of `[reliable]`.
    #[serde(default, deserialize_with = "flows")]
    pub flows: Option<usize>,
    /// What a random packet loss costs; by default, as in `[reliable]`.
    #[serde(default)]
    pub random_losses: Option<RandomLosses>,
    /// The position of the entry in the file.
    #[serde(skip)]
    offset: usize,
    /// The line of the entry in the file.
    #[serde(skip)]
    pub line: usize,
}

impl Neighbor {
    /// Returns the capacity of the link in kbit/s; 0 if it is not known.
    pub fn capacity_kbps(&self) -> u32 {
        let kbps = self.capacity.unwrap_or(0) / 1_000;
        u32::try_from(kbps).unwrap_or(u32::MAX)
    }

    /// Returns how the reliable lane to the neighbour differs from `[reliable]`.
    pub fn reliable(&self) -> overlay::reliable::LinkSettings {
        overlay::reliable::LinkSettings {
            family: self.congestion,
            flows_max: self.flows,
            spares_random_losses: self.random_losses.map(|it| it == RandomLosses::Spared),
        }
    }
}

/// The entries of `[[exit]]`: ports with one target each, and targets that gateways may ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exits {
    /// The ports, each with its target.
    pub ports: Vec<Exit>,
    /// The targets of all `allow` lists.
    pub allow: Vec<Rule>,
}

/// A virtual port of the node that leads to a TCP target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The virtual port.
    pub port: u16,
    /// Host and port of the only target of its streams.
    pub to: String,
}

/// Access for clients on other hosts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clients {
    /// The TCP address to which clients connect.
    #[serde(deserialize_with = "one_text")]
    pub listen: SocketAddr,
    /// The file of the token that clients need.
    pub token_file: PathBuf,
    /// The file of the token that lets its holder look at the node, as `sinew status` does; without it, nobody may.
    #[serde(default)]
    pub observer_token_file: Option<PathBuf>,
    /// The file of the token that lets its holder do everything that the operator's socket can; without it, nobody may.
    #[serde(default)]
    pub operator_token_file: Option<PathBuf>,
    /// The UDP port for the clients' datagrams; by default, that of `listen`. 0 for none: then all datagrams go inside
    /// TLS.
    #[serde(default)]
    pub udp_port: Option<u16>,
}

impl Clients {
    fn token_files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let more = [&mut self.observer_token_file, &mut self.operator_token_file];
        let more = more.into_iter().filter_map(Option::as_mut);
        core::iter::once(&mut self.token_file).chain(more)
    }
}

/// Settings of the real-time lane.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Realtime {
    /// The most requests for a lost packet.
    #[serde(default, deserialize_with = "strikes")]
    pub strikes: Option<u8>,
}

/// Settings of the reliable lane.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reliable {
    /// The congestion control of what this node sends.
    #[serde(default, deserialize_with = "congestion")]
    pub congestion: Option<overlay::reliable::Family>,
    /// A link that carries n flows behaves like n of them, up to this number.
    #[serde(default, deserialize_with = "flows")]
    pub flows: Option<usize>,
    /// What a random packet loss costs, which is no sign of congestion.
    #[serde(default)]
    pub random_losses: Option<RandomLosses>,
}

/// What a random packet loss costs, which is no sign of congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RandomLosses {
    /// Only the retransmission.
    Spared,
    /// A part of the window, like any other loss.
    Cut,
}

/// The set of default timers and thresholds.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// The program's defaults.
    #[default]
    Modern,
    /// The papers' numbers, for comparison.
    Paper,
}

/// When nodes on the path can read what programs send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RelaysCanRead {
    /// If the other end does not encrypt, and for packets to groups.
    IfNeeded,
    /// Never: programs may not send what cannot be sealed.
    Never,
    /// Always: nothing is sealed from end to end.
    Always,
}

/// The nodes that may dial this node.
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
        /// The error of the kernel.
        error: std::io::Error,
    },
    /// The content of the file is invalid.
    #[error("{path}: {error}{hint}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// The key that was probably meant.
        hint: String,
        /// Line, column and the expected value.
        error: Box<toml::de::Error>,
    },
    /// A value contradicts another.
    #[error("{path}, line {line}: {what}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The line where the wrong neighbour's entry begins.
        line: usize,
        /// What is wrong, and what to do.
        what: String,
    },
}

impl Config {
    /// Reads and checks a file. Relative paths in it become relative to the file's directory.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| ConfigError::Read {
            path: path.to_owned(),
            error,
        })?;
        let wrong = |error: toml::de::Error| ConfigError::Parse {
            path: path.to_owned(),
            hint: hint(error.message()),
            error: Box::new(error),
        };
        let mut config: Config = toml::from_str(&text).map_err(wrong)?;
        config.written = toml::from_str(&text).map_err(wrong)?;
        config.listen = host::addresses::possible(&config.listen, net::udp::has_ipv6());
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

    /// Returns the first error between neighbours, and the position of the entry that must be changed.
    fn check(&self) -> Result<(), (usize, String)> {
        for (i, neighbor) in self.neighbors.iter().enumerate() {
            let Neighbor { name, address, .. } = neighbor;
            let wrong = |what: String| Err((neighbor.offset, what));
            let before = &self.neighbors[..i];
            if before.iter().any(|n| n.address == *address) {
                return wrong(format!("neighbour {address} is listed twice"));
            }
            if neighbor.impair.is_some() && !self.lab {
                return wrong(format!("`impair` of neighbour `{name}` needs `lab = true`"));
            }
        }
        let endpoints = self.issuer.as_ref().map(|issuer| issuer.endpoints.len());
        if endpoints.is_some_and(|count| !(1..=ENDPOINTS_MAX).contains(&count)) {
            let what = format!("`[issuer] endpoints` needs 1 to {ENDPOINTS_MAX} addresses");
            return Err((0, what));
        }
        let told = self.issuer.as_ref().map_or(&[][..], |it| &it.renewed_by);
        if told.len() > ISSUERS_MAX || told.iter().any(|it| it.from.len() > ENDPOINTS_MAX) {
            let what = format!(
                "`[[issuer.renewed_by]]`: at most {ISSUERS_MAX} issuers with {ENDPOINTS_MAX} addresses each"
            );
            return Err((0, what));
        }
        if let Some(file) = self.issuer.as_ref().and_then(Issuer::doubled) {
            let file = file.display();
            let what = format!(
                "`[issuer] renews`: another file has the name of {file}, and both would write the same books: give each a name of its own"
            );
            return Err((0, what));
        }
        if let Some((inner, outer)) = self.relay.at_odds() {
            let (inner, outer) = (inner.display(), outer.display());
            let what = format!(
                "`[relay] roots`: {inner} is in {outer}, and a link in there could lead around its `read`, `write` or `from`: give both the same, or move one"
            );
            return Err((0, what));
        }
        if let Some((word, why)) = self.relay.misnamed() {
            return Err((0, format!("`[relay]` names nodes by `{word}`: {why}")));
        }
        for group in &self.groups {
            let wanted = group.wanted();
            if let Err(why) = wanted.operations() {
                return Err((0, format!("group {}: {why}", group.address)));
            }
        }
        Ok(())
    }

    /// Returns the impairments that links have from the start.
    pub fn impairments(&self) -> impl Iterator<Item = (NodeAddr, base::impair::Model)> {
        self.neighbors
            .iter()
            .filter_map(|n| Some((n.address, n.impair.clone()?)))
    }

    /// Returns the number of physical links to those neighbours for which it is configured.
    pub fn hops(&self) -> impl Iterator<Item = (NodeAddr, NonZeroU8)> {
        self.neighbors
            .iter()
            .filter_map(|n| Some((n.address, n.hops?)))
    }

    fn resolve(&mut self, dir: &Path) {
        let paths = [&mut self.certificate, &mut self.key, &mut self.network];
        let options = [
            &mut self.revocations,
            &mut self.client_socket,
            &mut self.control_socket,
            &mut self.log_file,
        ];
        let token_files = self.clients.as_mut().map(Clients::token_files);
        let issuer = self.issuer.as_mut();
        let issuer = issuer.map(Issuer::paths);
        for path in paths
            .into_iter()
            .chain(options.into_iter().filter_map(Option::as_mut))
            .chain(token_files.into_iter().flatten())
            .chain(issuer.into_iter().flatten())
            .chain(self.relay.roots.iter_mut().map(Root::path_mut))
        {
            if path.is_relative() {
                *path = dir.join(&*path);
            }
        }
    }
}

/// Returns a hint with the key that was probably meant, if the parser's message names an unknown key and lists the
/// known ones.
fn hint(message: &str) -> String {
    let mut words = message.split('`').skip(1).step_by(2);
    let Some(unknown) = words.next() else {
        return String::new();
    };
    let known: Vec<&str> = match message.split_once("use one of ") {
        Some((_, settings)) if message.starts_with("no setting ") => {
            settings.trim_end().split(", ").collect()
        }
        _ if message.starts_with("unknown ") => words.collect(),
        _ => return String::new(),
    };
    let meant = tools::spelling::nearest(unknown, &known);
    meant.map_or_else(String::new, |meant| format!("did you mean `{meant}`?"))
}

fn line_of(text: &str, offset: usize) -> usize {
    let before = text.get(..offset).unwrap_or(text);
    before.matches('\n').count() + 1
}

#[cfg(test)]
mod tests;
