//! The groups of the network as one node knows them. Plain data, ready for JSON both ways; the keys
//! are a contract.

use crate::groups::Admission;
use serde::{Deserialize, Serialize};

/// One group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupStatus {
    /// Its address.
    pub group: String,
    /// `multicast` or `anycast`.
    pub kind: String,
    /// Who builds its tree: `link-state` or `scribe`.
    pub tree: String,
    /// The nodes that have members, by address, as records tell; of a group of Scribe none.
    pub members: Vec<String>,
    /// Joins of this node's clients.
    pub clients: usize,
    /// How it is to be carried, if that is set.
    pub setting: Option<SettingStatus>,
    /// Why this node is in no tree of Scribe that it wants to be in, if so.
    pub refused: Option<String>,
    /// What passes here, by source.
    pub sources: Vec<GroupSource>,
    /// Whether what it asks for fits the links, if it asks for anything. Only where one group was
    /// asked for.
    pub admission: Option<Admission>,
    /// Who may send and receive, as nodes say; all of them count together.
    #[serde(default)]
    pub permits: Vec<PermitStatus>,
    /// The members that may not receive.
    #[serde(default)]
    pub kept_out: Vec<String>,
    /// What this node sends there is sealed from end to end. Of anycast groups, and of old nodes, none.
    #[serde(default)]
    pub sealed: Option<bool>,
    /// The members that could not open it; of a group of Scribe the nodes.
    #[serde(default)]
    pub cannot_open: Vec<String>,
    /// Nodes that this node has told the key of its own packets.
    #[serde(default)]
    pub keys_told: usize,
    /// Members to which this node sends each of its packets a second time, because the tree brings them too few.
    #[serde(default)]
    pub starved: Vec<StarvedStatus>,
    /// Nodes that say how the group is carried, or who may, and have no right to: they are ignored.
    #[serde(default)]
    pub ignored: Vec<IgnoredStatus>,
}

/// A member that gets the packets of this node's sources a second time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StarvedStatus {
    /// The member.
    pub node: String,
    /// The share that the tree lost when that began.
    pub lost: f64,
    /// And since then.
    pub lost_since: f64,
    /// Since when, in seconds.
    pub for_s: f64,
    /// Packets that it got so.
    pub packets: u64,
}

/// What a node says of groups without the right to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct IgnoredStatus {
    /// The node.
    pub said_by: String,
    /// The group or range of groups.
    pub group: String,
}

/// Who may send to a group and who may receive, as one node says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermitStatus {
    /// The node that says so.
    pub said_by: String,
    /// The group or range of groups.
    pub group: String,
    /// Words for who may send; none for everybody.
    pub send: Option<Vec<String>>,
    /// Words for who may receive; none for everybody.
    pub receive: Option<Vec<String>>,
}

/// How a group is to be carried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SettingStatus {
    /// The node that has said so.
    pub set_by: String,
    /// The link protocol of its packets.
    pub link: String,
    /// What routes them.
    pub routing: String,
    /// Their priority.
    pub priority: u8,
    /// How soon they must be there.
    pub deadline_ms: Option<u16>,
    /// What may stay lost of them on a link, in percent; null for what each node's settings say.
    pub target_pct: Option<f64>,
    /// Repair packets per hundred packets at most; null for the same.
    pub most_pct: Option<f64>,
    /// What its sources may send.
    pub rate_kbps: Option<u32>,
    /// Along how many trees its packets go: 1 or 2.
    #[serde(default)]
    pub ways: u8,
    /// What it says of ways: `auto` nothing, `1`, `targeted`, `2`.
    #[serde(default)]
    pub asked_ways: String,
    /// `as-it-comes`, `in-order` or `as-sent`, if the group says it for all members.
    #[serde(default)]
    pub delivery: Option<String>,
    /// Of `as-sent`: how long after its sending each packet is handed over; none for as late as repairs need.
    #[serde(default)]
    pub release_ms: Option<u64>,
}

/// A source's packets to a group, as they pass a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupSource {
    /// The node where they begin.
    pub source: String,
    /// What makes the tree short; of a group of Scribe `scribe`.
    pub metric: String,
    /// The neighbour that they come from; none where they begin.
    pub upstream: Option<String>,
    /// The neighbours that they go to.
    pub branches: Vec<String>,
    /// Packets.
    pub packets: u64,
    /// Bytes, with the headers of the overlay.
    pub bytes: u64,
    /// Seconds since the last packet.
    pub idle_s: f64,
    /// Nodes below this one that receive them, this one included.
    pub receivers: u32,
    /// What the worst of them have got, as they told within the last seconds.
    pub receptions: Vec<ReceptionStatus>,
    /// The links of the whole tree, from and to; of two trees those of both. Only where one group was asked for.
    pub links: Vec<(String, String)>,
    /// The two ways to each member, the first 64. Only of two trees, and where one group was asked for.
    #[serde(default)]
    pub ways: Vec<WaysStatus>,
    /// Where members in trouble get a second way: what this node knows of that.
    #[serde(default)]
    pub second: Option<SecondStatus>,
    /// Packets for members here that came after what follows them had been handed over.
    #[serde(default)]
    pub late: u64,
    /// Packets that members here have waited for in vain.
    #[serde(default)]
    pub given_up: u64,
}

/// The second ways of a group's packets, as one node finds them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondStatus {
    /// The neighbours that packets go to at present besides the branches of the tree.
    pub branches: Vec<String>,
    /// Copies that went so, since the tree was first used.
    pub packets: u64,
    /// Members that the tree leads to through trouble, the first 64.
    pub trouble: Vec<TroubleStatus>,
}

/// Trouble on the tree's path to a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TroubleStatus {
    /// The member.
    pub member: String,
    /// `source`, `middle`, `destination`: on links of the source, of relays, of the member.
    pub places: Vec<String>,
}

/// The two ways of a group's packets to a member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaysStatus {
    /// The member.
    pub member: String,
    /// The nodes of each way, from the source on, the cheaper way first.
    pub ways: [Vec<String>; 2],
    /// Nodes between the ends that both have, because there is no way round them.
    pub common_nodes: Vec<String>,
    /// Links that both have.
    pub common_links: Vec<(String, String)>,
}

/// What groups come to at a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupTotals {
    /// Groups that clients of the node are in.
    pub joined: usize,
    /// Trees of link state that packets take here, one per source, metric and group.
    pub link_state_trees: usize,
    /// Trees of Scribe that pass here.
    pub scribe_trees: usize,
    /// What clients of this node send to multicast groups: the first 64, by group.
    pub sources: Vec<SourceTotals>,
    /// What nodes say of groups without the right to: the first 64.
    #[serde(default)]
    pub ignored: Vec<IgnoredStatus>,
    /// Members that get packets of this node a second time, by group.
    #[serde(default)]
    pub starved: usize,
    /// How often a tree was found to bring a member less than its links promise.
    #[serde(default)]
    pub starved_found: u64,
    /// Packets that were sent a second time because of that.
    #[serde(default)]
    pub starved_packets: u64,
}

/// What a node's clients send to a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceTotals {
    /// The group.
    pub group: String,
    /// Packets.
    pub packets: u64,
    /// Bytes, with the headers of the overlay.
    pub bytes: u64,
    /// Nodes that receive them, as far as they have told.
    pub receivers: u32,
    /// Lost for good, by the receiver that lost most.
    pub worst_lost_pct: f64,
    /// They are sealed from end to end.
    #[serde(default)]
    pub sealed: bool,
}

/// What a node has got of a source's packets to a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReceptionStatus {
    /// The node.
    pub node: String,
    /// Packets received.
    pub received: u32,
    /// Of them, those that were lost on a hop and recovered there.
    pub recovered: u32,
    /// Packets that have not come.
    pub lost: u32,
    /// Lost on some hop, before recovery.
    pub lost_before_pct: f64,
    /// Lost for good.
    pub lost_after_pct: f64,
}
