//! The settings and the outputs of a bridge.

use crate::multicast::drops::Drops;
use crate::multicast::flood::Limit;
use crate::multicast::hello::{self, Rank, Role};
use crate::multicast::igmp::Timing;
use crate::multicast::igmp::querier::HOST_GROUPS;
use crate::multicast::notice::Notice;
use crate::multicast::rules::Rules;
use base::NodeAddr;
use core::net::{IpAddr, Ipv4Addr};

/// The settings of a bridge.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The node of this gateway.
    pub node: NodeAddr,
    /// Groups that may cross.
    pub rules: Rules,
    /// The timers for queries of members.
    pub timing: Timing,
    /// Whether the bridge queries members, and announces to switches that a router is here.
    pub asks: bool,
    /// Groups that the bridge joins on the network, independently of members; only for these sources, if there are any.
    pub wants: Vec<(IpAddr, Vec<IpAddr>)>,
    /// Whether packets with TTL 1 are dropped.
    pub router_ttl: bool,
    /// Maximum number of groups that one host may be the first to join.
    pub host_groups: usize,
    /// The limit on what one source may send.
    pub limit: Limit,
    /// The priority among bridges of one network; lower is better.
    pub priority: u8,
    /// The seed of random times and names, which should differ between bridges.
    pub seed: u64,
}

impl Settings {
    /// Returns the usual settings.
    #[must_use]
    pub fn new(node: NodeAddr, seed: u64) -> Settings {
        Settings {
            node,
            rules: Rules::default(),
            timing: Timing::default(),
            asks: true,
            wants: Vec::new(),
            router_ttl: false,
            host_groups: HOST_GROUPS,
            limit: Limit::default(),
            priority: hello::PRIORITY,
            seed,
        }
    }
}

/// The current state of the bridge's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// The IPv4 address of the interface, and the prefix length of its network.
    pub address: Option<(Ipv4Addr, u8)>,
    /// Maximum length of a packet that the interface takes.
    pub mtu: usize,
    /// Programs of this host are behind the interface, and the kernel drops packets from sources that it would not
    /// reach through it.
    pub filters_path: bool,
}

/// Receives the outputs of a bridge.
pub trait Outlet {
    /// Sends a frame onto the network.
    fn transmit(&mut self, frame: &[u8]);
    /// Reports that members of this network want the group, or no longer want it.
    fn member(&mut self, group: NodeAddr, is_wanted: bool);
    /// Reports a condition that the operator should know.
    fn notice(&mut self, notice: Notice);
    /// Reports that the role of this bridge has changed.
    fn role(&mut self, role: Role, forwarder: Option<Rank>);
}

/// Counters of the packets of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets that went to the overlay.
    pub captured: u64,
    /// Packets that were put onto the network.
    pub injected: u64,
    /// Numbers of packets that did not cross.
    pub drops: Drops,
}

/// The counters of a bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that went to the overlay.
    pub captured: u64,
    /// Bytes of these packets.
    pub captured_bytes: u64,
    /// Packets that were put onto the network.
    pub injected: u64,
    /// Bytes of these packets.
    pub injected_bytes: u64,
    /// Packets that were fragmented for the network.
    pub fragmented: u64,
    /// Valid IGMP and MLD messages that were received.
    pub igmp: u64,
    /// Numbers of frames and packets that did not cross.
    pub drops: Drops,
}
