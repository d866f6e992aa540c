//! The groups of the network as one node knows them. Plain data, ready for JSON both ways; the keys
//! are a contract.

use crate::groups::Admission;
use serde::{Deserialize, Serialize};

/// The state of one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupStatus {
    /// Its address.
    pub group: String,
    /// `multicast` or `anycast`.
    pub kind: String,
    /// The protocol that builds its tree: `link-state` or `scribe`.
    pub tree: String,
    /// The nodes that have members, by address, as records report; empty for a group of Scribe.
    pub members: Vec<String>,
    /// Joins of this node's clients.
    pub clients: usize,
    /// How the group is to be carried, if that is set.
    pub setting: Option<SettingStatus>,
    /// Why this node is not in a tree of Scribe that it wants to join, if that is so.
    pub refused: Option<String>,
    /// The packets that pass here, by source.
    pub sources: Vec<GroupSource>,
    /// Whether the links have room for what the group asks for, if it asks for anything. Present only if one group was
    /// requested.
    pub admission: Option<Admission>,
    /// The permits to send and to receive, as nodes have set them; all permits apply together.
    #[serde(default)]
    pub permits: Vec<PermitStatus>,
    /// The members that may not receive.
    #[serde(default)]
    pub kept_out: Vec<String>,
    /// True if this node seals its packets to the group from end to end. None for anycast groups, and from old nodes.
    #[serde(default)]
    pub sealed: Option<bool>,
    /// The members that could not open sealed packets; for a group of Scribe, the nodes.
    #[serde(default)]
    pub cannot_open: Vec<String>,
    /// Nodes that have received the key of this node's own packets.
    #[serde(default)]
    pub keys_told: usize,
    /// Members to which this node sends each of its packets a second time, because the tree delivers too few.
    #[serde(default)]
    pub starved: Vec<StarvedStatus>,
    /// Nodes that set how the group is carried, or who may use it, without the right to do so: they are ignored.
    #[serde(default)]
    pub ignored: Vec<IgnoredStatus>,
    /// Packets of this node's clients to the group that the node has dropped, because it may not send to the group; 0 if
    /// it may send now.
    #[serde(default)]
    pub refused_packets: u64,
}

/// A member that gets the packets of this node's sources a second time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StarvedStatus {
    /// The member.
    pub node: String,
    /// The share of packets that the tree lost when the second sending began.
    pub lost: f64,
    /// The share of packets that the tree has lost since then.
    pub lost_since: f64,
    /// Seconds since the second sending began.
    pub for_s: f64,
    /// Packets that were sent to the member in this way.
    pub packets: u64,
}

/// A setting or permit for groups from a node that has no right to set it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct IgnoredStatus {
    /// The node.
    pub said_by: String,
    /// The group or range of groups.
    pub group: String,
}

/// The nodes that may send to a group and the nodes that may receive, as one node has set it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermitStatus {
    /// The node that has set the permit.
    pub said_by: String,
    /// The group or range of groups.
    pub group: String,
    /// Words for the nodes that may send; none for everybody.
    pub send: Option<Vec<String>>,
    /// Words for the nodes that may receive; none for everybody.
    pub receive: Option<Vec<String>>,
}

/// How a group is to be carried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SettingStatus {
    /// The node that has set this.
    pub set_by: String,
    /// The link protocol of its packets.
    pub link: String,
    /// How its packets are routed.
    pub routing: String,
    /// Their priority.
    pub priority: u8,
    /// The deadline of its packets.
    pub deadline_ms: Option<u16>,
    /// Packet loss that may remain on a link, in percent; null if each node's settings decide.
    pub target_pct: Option<f64>,
    /// The maximum number of repair packets per hundred packets; null if each node's settings decide.
    pub most_pct: Option<f64>,
    /// The rate that its sources may send.
    pub rate_kbps: Option<u32>,
    /// The number of trees along which its packets go: 1 or 2.
    #[serde(default)]
    pub ways: u8,
    /// The ways that the setting asks for: `auto` (no wish), `1`, `targeted` or `2`.
    #[serde(default)]
    pub asked_ways: String,
    /// `as-it-comes`, `in-order` or `as-sent`, if the group sets it for all members.
    #[serde(default)]
    pub delivery: Option<String>,
    /// For `as-sent`: the time after its sending at which each packet is handed over; none for as late as repairs need.
    #[serde(default)]
    pub release_ms: Option<u64>,
}

/// A source's packets to a group, as they pass a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupSource {
    /// The node where the packets begin.
    pub source: String,
    /// The metric that the tree minimizes; for a group of Scribe, `scribe`.
    pub metric: String,
    /// The neighbour from which the packets arrive; none at the source.
    pub upstream: Option<String>,
    /// The neighbours to which the packets are sent.
    pub branches: Vec<String>,
    /// Packets.
    pub packets: u64,
    /// Bytes, with the headers of the overlay.
    pub bytes: u64,
    /// Seconds since the last packet.
    pub idle_s: f64,
    /// Nodes downstream of this one that receive the packets, this one included.
    pub receivers: u32,
    /// Reception at the nodes with the worst reception, as they reported within the last seconds.
    pub receptions: Vec<ReceptionStatus>,
    /// The links of the whole tree, from and to; for two trees, the links of both. Present only if one group was
    /// requested.
    pub links: Vec<(String, String)>,
    /// The two ways to each member, the first 64. Present only for two trees, and if one group was requested.
    #[serde(default)]
    pub ways: Vec<WaysStatus>,
    /// The state of second ways, if members in trouble get one, as far as this node knows.
    #[serde(default)]
    pub second: Option<SecondStatus>,
    /// Packets for members here that arrived after their successors had been handed over.
    #[serde(default)]
    pub late: u64,
    /// Packets for which members here have waited in vain.
    #[serde(default)]
    pub given_up: u64,
}

/// The second ways of a group's packets, as one node finds them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondStatus {
    /// The neighbours to which packets are sent at present in addition to the branches of the tree.
    pub branches: Vec<String>,
    /// Copies that were sent in this way since the tree was first used.
    pub packets: u64,
    /// Members whose path in the tree is in trouble, the first 64.
    pub trouble: Vec<TroubleStatus>,
}

/// Trouble on the tree's path to a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TroubleStatus {
    /// The member.
    pub member: String,
    /// `source`, `middle`, `destination`: the trouble is on links of the source, of relays, of the member.
    pub places: Vec<String>,
}

/// The two ways of a group's packets to a member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaysStatus {
    /// The member.
    pub member: String,
    /// The nodes of each way, from the source on, the cheaper way first.
    pub ways: [Vec<String>; 2],
    /// Nodes between the ends that are on both ways, because no way avoids them.
    pub common_nodes: Vec<String>,
    /// Links that are on both ways.
    pub common_links: Vec<(String, String)>,
}

/// Totals of the groups at a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupTotals {
    /// Groups that clients of the node are in.
    pub joined: usize,
    /// Trees of link state that packets take here, one per source, metric and group.
    pub link_state_trees: usize,
    /// Trees of Scribe that pass through the node.
    pub scribe_trees: usize,
    /// Packets that clients of this node send to multicast groups: the first 64 groups.
    pub sources: Vec<SourceTotals>,
    /// Settings and permits for groups from nodes without the right to set them: the first 64.
    #[serde(default)]
    pub ignored: Vec<IgnoredStatus>,
    /// Members that get packets of this node a second time, counted per group.
    #[serde(default)]
    pub starved: usize,
    /// Number of times that a tree was found to deliver less to a member than its links promise.
    #[serde(default)]
    pub starved_found: u64,
    /// Packets that were sent a second time for that reason.
    #[serde(default)]
    pub starved_packets: u64,
}

/// The packets that a node's clients send to a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceTotals {
    /// The group.
    pub group: String,
    /// Packets.
    pub packets: u64,
    /// Bytes, with the headers of the overlay.
    pub bytes: u64,
    /// Nodes that receive the packets, as far as they have reported.
    pub receivers: u32,
    /// Packets lost for good, in percent, at the receiver that lost most.
    pub worst_lost_pct: f64,
    /// The packets are sealed from end to end.
    #[serde(default)]
    pub sealed: bool,
}

/// A node's reception of a source's packets to a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReceptionStatus {
    /// The node.
    pub node: String,
    /// Packets received.
    pub received: u32,
    /// Packets that were lost on a hop and recovered there.
    pub recovered: u32,
    /// Packets that did not arrive.
    pub lost: u32,
    /// Packets lost on some hop, before recovery.
    pub lost_before_pct: f64,
    /// Packets lost for good.
    pub lost_after_pct: f64,
    /// Seconds since these numbers last changed in a report; none for the reception of the asked node itself.
    #[serde(default)]
    pub age_s: Option<f64>,
}
