//! What a bridge is told, and what it tells.

use crate::multicast::drops::Drops;
use crate::multicast::flood::Limit;
use crate::multicast::hello::{self, Rank, Role};
use crate::multicast::igmp::Timing;
use crate::multicast::igmp::querier::HOST_GROUPS;
use crate::multicast::notice::Notice;
use crate::multicast::rules::Rules;
use base::NodeAddr;
use core::net::{IpAddr, Ipv4Addr};

/// What a bridge is to do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This gateway's node.
    pub node: NodeAddr,
    /// Groups that may cross.
    pub rules: Rules,
    /// How often members are asked for.
    pub timing: Timing,
    /// Ask for members, and tell switches that a router is here.
    pub asks: bool,
    /// Groups that are joined on the network whatever members say: of these sources, or all.
    pub wants: Vec<(IpAddr, Vec<IpAddr>)>,
    /// Drop packets with TTL 1.
    pub router_ttl: bool,
    /// Groups that one host may be the first to join.
    pub host_groups: usize,
    /// What one source may send.
    pub limit: Limit,
    /// The place among bridges of one network, lower first.
    pub priority: u8,
    /// For moments and names that shall differ between bridges.
    pub seed: u64,
}

impl Settings {
    /// What most need.
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

/// The interface that the bridge is at, as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its address of IPv4 and the bits of its network.
    pub address: Option<(Ipv4Addr, u8)>,
    /// Longest packet that it takes.
    pub mtu: usize,
    /// Programs of this host are behind it, and the kernel drops what comes from sources that it
    /// would not answer here.
    pub filters_path: bool,
}

/// Where a bridge puts what it wants done.
pub trait Outlet {
    /// Sends a frame onto the network.
    fn transmit(&mut self, frame: &[u8]);
    /// Members of this network want the group, or do not any more.
    fn member(&mut self, group: NodeAddr, is_wanted: bool);
    /// Something that the operator should know.
    fn notice(&mut self, notice: Notice);
    /// What this bridge does among those of its network has changed.
    fn role(&mut self, role: Role, forwarder: Option<Rank>);
}

/// What was done with the packets of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets that went to the overlay.
    pub captured: u64,
    /// Packets that were put onto the network.
    pub injected: u64,
    /// What did not cross.
    pub drops: Drops,
}

/// What crossed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that went to the overlay.
    pub captured: u64,
    /// Their bytes.
    pub captured_bytes: u64,
    /// Packets that were put onto the network.
    pub injected: u64,
    /// Their bytes.
    pub injected_bytes: u64,
    /// Packets that were cut in parts for the network.
    pub fragmented: u64,
    /// IGMP and MLD messages heard, right ones.
    pub igmp: u64,
    /// What did not cross.
    pub drops: Drops,
}
