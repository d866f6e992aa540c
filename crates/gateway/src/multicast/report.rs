//! The reports of a bridge: plain values for logs, the status page and people.

use super::bridge::{Counters, Tally};
use super::hello::{Rank, Role};
use super::notice::Notice;
use base::{Duration, NodeAddr};
use client::Error;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The state of the bridge.
#[derive(Clone, Debug)]
pub struct Report {
    /// The interface's name.
    pub interface: String,
    /// Whether the interface exists.
    pub is_here: bool,
    /// The role of the bridge among those of its network.
    pub role: Role,
    /// Whether this bridge sends the queries.
    pub is_querier: bool,
    /// The other router that queries instead, and its version of IGMP.
    pub other_querier: Option<(Ipv4Addr, u8)>,
    /// The other router that queries by MLD instead, and the version of IGMP that corresponds to its MLD.
    pub other_querier_v6: Option<(Ipv6Addr, u8)>,
    /// Whether the node is connected.
    pub connected: bool,
    /// Number of groups that have members on the network.
    pub groups: usize,
    /// Whether the node is unreachable, or reaches no other node.
    pub is_cut_off: bool,
    /// Number of groups that the node was told to join, and has not refused.
    pub joined: usize,
    /// Number of groups that are wanted, but that the node refuses; the bridge asks again.
    pub refused: usize,
    /// Number of groups to which hosts send, but whose packets the node does not take.
    pub refused_sends: usize,
    /// The first of the overlay groups of which packets were seen, in order of address.
    pub carried: Vec<Carried>,
    /// The first of the groups that have members, in order of address.
    pub members: Vec<GroupReport>,
    /// The counters of packets.
    pub counters: Counters,
    /// Processor time of the bridge's thread.
    pub cpu: Duration,
    /// Sequence number of this report; 0 is the initial report, which is empty.
    pub reported: u64,
}

/// The sources of one group that its members want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupReport {
    /// The group.
    pub group: IpAddr,
    /// The only sources that the members want; `None` if they want all sources except for some.
    pub sources: Option<Vec<IpAddr>>,
}

/// Counters of the packets of one overlay group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The overlay group.
    pub by: NodeAddr,
    /// The IP group of the last packet.
    pub ip: IpAddr,
    /// Numbers of packets that crossed, and that did not.
    pub tally: Tally,
}

impl Default for Report {
    fn default() -> Report {
        Report {
            interface: String::new(),
            is_here: false,
            role: Role::Listening,
            is_querier: false,
            other_querier: None,
            other_querier_v6: None,
            connected: false,
            groups: 0,
            is_cut_off: false,
            joined: 0,
            refused: 0,
            refused_sends: 0,
            carried: Vec::new(),
            members: Vec::new(),
            counters: Counters::default(),
            cpu: Duration::ZERO,
            reported: 0,
        }
    }
}

/// An event of the bridge.
#[derive(Debug)]
pub enum Event {
    /// A frequent problem, reported once.
    Notice(Notice),
    /// The bridge carries, or no longer carries.
    Role {
        /// The new role.
        role: Role,
        /// The bridge that carries, if it is another one.
        forwarder: Option<Rank>,
    },
    /// The interface has appeared or disappeared.
    Interface {
        /// The name of the interface.
        name: String,
        /// Whether the interface has appeared.
        is_here: bool,
    },
    /// The node reaches other nodes, or no longer does.
    Reach(bool),
    /// The node refused a request, such as a join.
    Refused(String),
    /// The node takes no packets that hosts send to a group.
    NotSent(String),
    /// The connection to the node was lost; the bridge tries to reconnect.
    NodeAway(Error),
    /// The node is connected again.
    NodeBack,
    /// Another condition that the operator should know.
    Warning(String),
}

impl Event {
    /// Returns a word for programs.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Event::Notice(_) => "notice",
            Event::Role { .. } => "role",
            Event::Interface { .. } => "interface",
            Event::Reach(_) => "reach",
            Event::Refused(_) => "refused",
            Event::NotSent(_) => "not_sent",
            Event::NodeAway(_) => "node_away",
            Event::NodeBack => "node_back",
            Event::Warning(_) => "warning",
        }
    }
}

impl Role {
    /// Returns a word for programs.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Role::Listening => "listening",
            Role::Forwarding => "forwarding",
            Role::Standby => "standby",
            Role::Leaving => "leaving",
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Notice(notice) => notice.fmt(f),
            Event::Role { role, forwarder } => match (role, forwarder) {
                (Role::Forwarding, _) => f.write_str("this bridge carries"),
                (Role::Standby, Some(rank)) => write!(
                    f,
                    "the bridge of node {} carries for this network; this one stands by",
                    rank.node
                ),
                (Role::Standby, None) => {
                    f.write_str("another bridge will carry; this one stands by")
                }
                (role, _) => f.write_str(role.label()),
            },
            Event::Interface {
                name,
                is_here: true,
            } => write!(f, "{name} is there"),
            Event::Interface { name, .. } => write!(f, "{name} is gone, or down: it is looked for"),
            Event::Reach(true) => f.write_str("the node reaches others"),
            Event::Reach(false) => f.write_str(
                "the node reaches no other node: another bridge of this network carries, if there is one",
            ),
            Event::Refused(text) => write!(f, "the node refused: {text}; it is asked again"),
            Event::NotSent(text) => write!(f, "what hosts send stays here: {text}"),
            Event::NodeAway(error) => write!(f, "the node is away: {error}"),
            Event::NodeBack => f.write_str("the node is back"),
            Event::Warning(text) => f.write_str(text),
        }
    }
}
