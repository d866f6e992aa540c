//! What the bridge tells of itself: plain values, for logs, status and people.

use super::bridge::{Counters, Tally};
use super::hello::{Rank, Role};
use super::notice::Notice;
use base::{Duration, NodeAddr};
use client::Error;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The bridge so far.
#[derive(Clone, Debug)]
pub struct Report {
    /// The interface's name.
    pub interface: String,
    /// It is there.
    pub is_here: bool,
    /// What the bridge does among those of its network.
    pub role: Role,
    /// It asks for members.
    pub is_querier: bool,
    /// Who asks in its place, and by which version of IGMP.
    pub other_querier: Option<(Ipv4Addr, u8)>,
    /// Who asks by MLD in its place, and by which version's like of IGMP.
    pub other_querier_v6: Option<(Ipv6Addr, u8)>,
    /// The node is connected.
    pub connected: bool,
    /// Groups that have members on the network.
    pub groups: usize,
    /// The node is away, or reaches no other node.
    pub is_cut_off: bool,
    /// Groups that the node was told to join, and has not refused.
    pub joined: usize,
    /// Groups that are wanted and that the node refuses: it is asked again.
    pub refused: usize,
    /// Groups to which hosts send, and of which the node takes nothing.
    pub refused_sends: usize,
    /// The first of the overlay's groups whose packets were seen, by address.
    pub carried: Vec<Carried>,
    /// The first of the groups that have members, by address.
    pub members: Vec<GroupReport>,
    /// What crossed.
    pub counters: Counters,
    /// Processor time of the bridge's thread.
    pub cpu: Duration,
    /// How many reports there were before.
    pub reported: u64,
}

/// Who wants what of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupReport {
    /// The group.
    pub group: IpAddr,
    /// These sources only; `None` for all but some.
    pub sources: Option<Vec<IpAddr>>,
}

/// What was done with the packets of one of the overlay's groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The overlay's group.
    pub by: NodeAddr,
    /// The group of IP of the last packet.
    pub ip: IpAddr,
    /// How many crossed, and did not.
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

/// Something that happened.
#[derive(Debug)]
pub enum Event {
    /// What usually bites people, once.
    Notice(Notice),
    /// The bridge carries, or does not any more.
    Role {
        /// What it does.
        role: Role,
        /// The bridge that carries, if it is another one.
        forwarder: Option<Rank>,
    },
    /// The interface has come or gone.
    Interface {
        /// Its name.
        name: String,
        /// It has come.
        is_here: bool,
    },
    /// The node reaches other nodes, or does not any more.
    Reach(bool),
    /// The node refused something, such as to join a group.
    Refused(String),
    /// The node takes nothing that hosts send to a group.
    NotSent(String),
    /// The node went away; it is looked for.
    NodeAway(Error),
    /// It is back.
    NodeBack,
    /// Another thing that the operator should know.
    Warning(String),
}

impl Event {
    /// A word for programs.
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
    /// A word for programs.
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
