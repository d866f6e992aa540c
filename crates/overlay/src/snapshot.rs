//! The node as it is at one moment, for status, metrics and tools. Plain data, ready for JSON; the
//! keys are a contract.

mod groups;
mod network;

pub use groups::{
    GroupSource, GroupStatus, GroupTotals, IgnoredStatus, PermitStatus, ReceptionStatus,
    SecondStatus, SettingStatus, SourceTotals, StarvedStatus, TroubleStatus, WaysStatus,
};
pub use network::{
    DampingRule, Hold, InForce, KnownAims, KnownBulk, KnownDiversion, KnownLane, KnownLink,
    KnownSuspect, NamedNode, NetworkSnapshot, PendingChange,
};

use crate::hello;
use base::{Duration, UnderlayAddr};
use core::num::NonZeroU8;
use serde::Serialize;

/// Everything about a node.
#[derive(Clone, Debug, Serialize)]
pub struct Snapshot {
    /// The node's name.
    pub name: String,
    /// Its overlay address.
    pub address: String,
    /// Seconds since its start.
    pub uptime_s: f64,
    /// `modern` or `paper`.
    pub profile: &'static str,
    /// Links may be impaired.
    pub lab: bool,
    /// How often the root key of the network was replaced, as far as the node knows: the number of the newest root.
    pub root: u8,
    /// The number of its certificate.
    pub certificate_serial: u32,
    /// The number of the root that signed its certificate, or the delegation of its issuer; null if none did that the node
    /// knows.
    pub certificate_root: Option<u8>,
    /// Last second at which its certificate counts, in seconds since 1970: its own end, or that of the root that signed it.
    pub certificate_not_after_s: u64,
    /// The certificate ends within 30 days.
    pub certificate_expires_soon: bool,
    /// The number of the root that signed the list of revocations.
    pub revocations_root: u8,
    /// The version of the list of revocations; 0 for none. A list of a newer root counts before all versions of older ones.
    pub revocations_version: u32,
    /// Open client sockets.
    pub sockets: usize,
    /// Where neighbours see it on the network below, as they tell with `direct_links`.
    pub seen: Vec<SeenStatus>,
    /// Its links.
    pub links: Vec<LinkStatus>,
    /// Its routes, one per destination and metric.
    pub routes: Vec<RouteStatus>,
    /// The flows that begin here, pass, or end here.
    pub flows: Vec<FlowStatus>,
    /// The streams that end here.
    pub streams: Vec<StreamStatus>,
    /// How packets to and from other nodes are sealed from end to end.
    pub ends: Vec<EndStatus>,
    /// What is suspected to swallow packets between this node and others.
    pub suspects: Vec<SuspectStatus>,
    /// How often a path was found to deliver less than its links promise.
    pub paths_bad: u64,
    /// Nodes that have renewed their records more often than they may: the first few.
    pub flooders: Vec<FlooderStatus>,
    /// What waits here for its predecessors.
    pub held: HeldStatus,
    /// Nodes in the link-state database.
    pub database_nodes: usize,
    /// How finding links by itself stands; null if the node does not.
    pub finding: Option<FindingStatus>,
}

/// How finding links stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FindingStatus {
    /// Other nodes that offer themselves as neighbours.
    pub offers: usize,
    /// Those whose round trip over a link was measured within a day.
    pub measured: usize,
    /// Links that were made to measure a node.
    pub trials: u64,
    /// Nodes to which this one wants a link by its own choice.
    pub kept: usize,
    /// Links that neither end keeps, and that traffic still uses or has used until just now.
    pub unkept: usize,
    /// Links that this node has ended because neither end kept them.
    pub dropped: u64,
}

/// Where a neighbour sees this node.
#[derive(Clone, Debug, Serialize)]
pub struct SeenStatus {
    /// The neighbour.
    pub by: String,
    /// The address and port from which it gets datagrams of this node.
    pub at: String,
    /// It gets them through a byte stream, and that is where this node may take streams.
    pub by_stream: bool,
}

/// A node that renews its records more often than it may.
#[derive(Clone, Debug, Serialize)]
pub struct FlooderStatus {
    /// Who.
    pub node: String,
    /// Its records that were dropped here for that.
    pub dropped: u64,
}

/// How packets to and from another node are sealed from end to end.
#[derive(Clone, Debug, Serialize)]
pub struct EndStatus {
    /// The other node.
    pub node: String,
    /// It says that it seals; if not, nodes on the way can read what goes to it.
    pub seals: bool,
    /// Seconds since the present session was made; null without one: none was needed of late.
    pub session_age_s: Option<f64>,
    /// The keys of the present session come from ML-KEM too, so that a quantum computer does not open what is recorded now.
    pub post_quantum: bool,
    /// Why there can be no session with it, in words; null if nothing is known against one.
    pub reason: Option<String>,
    /// Packets sealed for it.
    pub sealed: u64,
    /// Packets of it that were opened.
    pub opened: u64,
    /// Packets in its name that did not open.
    pub refused: u64,
    /// Coded repair of what goes to it, null unless `protect` is `end-to-end` and packets have passed.
    pub repair: Option<EndRepairStatus>,
    /// Packets of it that coded repair between the two has restored.
    pub restored: u64,
}

/// Coded repair between the two ends of a way.
#[derive(Clone, Debug, Serialize)]
pub struct EndRepairStatus {
    /// Repair packets per packet, in percent; 0 if none are sent.
    pub repair_pct: f64,
    /// Why no better, in words.
    pub reason: String,
    /// What is lost on the way, before repair, as the other end reports.
    pub lost_pct: f64,
    /// What is predicted to stay lost.
    pub predicted_pct: f64,
    /// What stayed lost under the plan in force; null before the other end has reported of it.
    pub measured_pct: Option<f64>,
    /// What may stay lost.
    pub target_pct: f64,
    /// Repair packets sent.
    pub sent: u64,
}

/// A relay or link whose paths to a node deliver less than their links promise. Packets go around it.
#[derive(Clone, Debug, Serialize)]
pub struct SuspectStatus {
    /// What it is.
    #[serde(flatten)]
    pub suspect: KnownSuspect,
    /// Where the paths lead.
    pub path_to: String,
    /// It is one of so many.
    pub among: usize,
    /// How often paths with it were found bad.
    pub strikes: u32,
    /// For so many seconds.
    pub for_s: f64,
}

/// What waits at a node for its predecessors, for it is to be delivered in order.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HeldStatus {
    /// Packets.
    pub packets: usize,
    /// Their bytes, with what it takes to hold them.
    pub bytes: usize,
    /// As many may be.
    pub bytes_limit: usize,
    /// As many may be of one flow.
    pub flow_bytes_limit: usize,
    /// Gaps that were given up because as much was held as may be.
    pub given_up: u64,
    /// The same of the last one to two minutes.
    pub given_up_lately: u64,
    /// Who holds most, or has given up gaps: the first few.
    pub holders: Vec<HolderStatus>,
}

/// A flow that waits at a node for packets that are missing.
#[derive(Clone, Debug, Serialize)]
pub struct HolderStatus {
    /// Source node and port.
    pub from: String,
    /// Destination node or group, and port.
    pub to: String,
    /// Packets that wait.
    pub packets: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Gaps that were given up for want of room.
    pub given_up: u64,
}

/// One link.
#[derive(Clone, Debug, Serialize)]
pub struct LinkStatus {
    /// The neighbour's name.
    pub name: String,
    /// The neighbour's overlay address.
    pub peer: String,
    /// Where it is reached, or where it is dialled.
    pub at: Option<String>,
    /// Where the configuration says that it is; null if it dials this node.
    pub dialled_at: Option<String>,
    /// `udp`, or `tcp` while its datagrams travel inside a byte stream, because UDP has no answer.
    pub over: &'static str,
    /// The keys of the present session on the path in use come from ML-KEM too, so that a quantum computer does not open
    /// what is recorded now.
    pub post_quantum: bool,
    /// `up`, `probing`, `silent` (the other end is not heard, and what has no other way tries the link),
    /// `down` or `no-session`.
    pub state: &'static str,
    /// Why there is this link, in words.
    pub why: String,
    /// What its outages of late cost a path that takes it, in milliseconds of latency.
    pub price_ms: f64,
    /// That is gone after so long, if the link does not fail again.
    pub price_ends_in_s: Option<f64>,
    /// Why it is not up, in words; null while it is.
    pub reason: Option<String>,
    /// Seconds since the link came up or went down.
    pub since_s: f64,
    /// Round trip.
    pub rtt_ms: Option<f64>,
    /// The shortest of the last seconds.
    pub rtt_least_ms: Option<f64>,
    /// By how much half of the round trips are longer than that.
    pub rtt_varies_ms: f64,
    /// What the link suffers: `outage`, `queue` or `loss`, the worst of them; null for nothing.
    pub trouble: Option<&'static str>,
    /// Lost on the way from the neighbour, in percent.
    pub loss_in_pct: f64,
    /// The packets over which that was measured: the fewer, the less sure it is.
    pub loss_in_packets: u64,
    /// Lost on the way to the neighbour, in percent, as it measures.
    pub loss_out_pct: f64,
    /// Mean length of a run of losses on the way from the neighbour, in packets; 1 without any.
    pub loss_run_in: f64,
    /// The same on the way to the neighbour, as it tells.
    pub loss_run_out: f64,
    /// Seconds since anything came from the neighbour: as old are the numbers above. Null before.
    pub heard_s: Option<f64>,
    /// What others have been told of the link: latency.
    pub announced_latency_ms: Option<f64>,
    /// What others have been told of the link: loss in percent.
    pub announced_loss_pct: Option<f64>,
    /// The longest datagram that it carries to the neighbour, as UDP counts its bytes.
    pub mtu_bytes: u16,
    /// The physical links that it crosses to the neighbour, as probed or configured.
    pub hops: Option<NonZeroU8>,
    /// The link carries data.
    pub active: bool,
    /// The emulated network on the way to the neighbour.
    pub impairment: Option<String>,
    /// Its paths, the one in use first.
    pub paths: Vec<PathStatus>,
    /// What it has carried.
    #[serde(flatten)]
    pub counts: crate::link::Counts,
    /// The real-time lane.
    pub realtime: LaneStatus,
    /// The reliable lane.
    pub reliable: ReliableStatus,
}

/// How a path fares, for a decision of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathHealth {
    /// The own socket by which it leaves, as far as the node is told of its sockets.
    pub from: Option<UnderlayAddr>,
    /// Where the neighbour is reached by it.
    pub at: UnderlayAddr,
    /// What is known of the other end.
    pub state: hello::State,
    /// For how long nothing has come by it; none if nothing ever has.
    pub silence: Option<Duration>,
    /// What this node sends takes it.
    pub in_use: bool,
}

/// One path of a link.
#[derive(Clone, Debug, Serialize)]
pub struct PathStatus {
    /// Its number; it keeps it while paths change places.
    pub number: u8,
    /// The own address that it leaves from, as far as the node is told of its sockets.
    pub from: Option<String>,
    /// Where the neighbour is reached by it.
    pub at: Option<String>,
    /// As of a link.
    pub state: &'static str,
    /// What this node sends takes it.
    pub in_use: bool,
    /// Bulk data takes it beside the path in use: streams, and connections of `sinew cp`.
    pub shares: bool,
    /// It carries data, one way or the other.
    pub active: bool,
    /// Round trip.
    pub rtt_ms: Option<f64>,
    /// Lost on the way from the neighbour, in percent.
    pub loss_in_pct: f64,
    /// Lost on the way to the neighbour, in percent, as it measures.
    pub loss_out_pct: f64,
    /// Bytes of all datagrams that went by it, and that came.
    pub out_bytes: u64,
    /// See `out_bytes`.
    pub in_bytes: u64,
    /// The longest datagram that it carries to the neighbour, as UDP counts its bytes.
    pub mtu_bytes: u16,
    /// What it costs in the choice among the link's paths: milliseconds of expected latency, with loss and outages of
    /// late.
    pub cost_ms: f64,
    /// Seconds since anything came by it; null before.
    pub heard_s: Option<f64>,
    /// Why it was taken in place of another one, and how many seconds ago; null of others, and of a first one.
    pub chosen: Option<(String, f64)>,
}

/// The real-time lane of a link, both directions.
#[derive(Clone, Debug, Serialize)]
pub struct LaneStatus {
    /// Packets received, recovered ones included.
    pub received: u64,
    /// Packets found missing.
    pub missing: u64,
    /// Packets recovered.
    pub recovered: u64,
    /// Packets given up.
    pub given_up: u64,
    /// Duplicates dropped.
    pub duplicates: u64,
    /// Requests sent.
    pub requests: u64,
    /// Packets sent for the first time.
    pub originals: u64,
    /// Packets sent again.
    pub retransmissions: u64,
    /// Requests not answered because the budget was used up.
    pub throttled: u64,
    /// Requests not answered because the packet would have come too late.
    pub too_late: u64,
    /// Packets sent twice without a request, because delays vary too much for one.
    pub ahead: u64,
    /// Tail probes sent.
    pub probes: u64,
    /// Packets that could not be kept for repair as long as their deadlines, because the history has no more room.
    pub overrun: u64,
    /// The same of the last one to two minutes.
    pub overrun_lately: u64,
    /// The rate that the lane keeps to while it meets congestion.
    pub brake_bps: Option<u64>,
    /// Repair packets made.
    pub repairs: u64,
    /// Packets that repair packets of the neighbour have told.
    pub decoded: u64,
    /// What protects packets to the neighbour.
    pub protection: ProtectionStatus,
}

/// How the packets of a real-time lane to a neighbour are protected.
#[derive(Clone, Debug, Serialize)]
pub struct ProtectionStatus {
    /// `none`, `requests`, `repair` beside requests, or `copies` that come later beside them.
    pub plan: &'static str,
    /// Why that, and no more.
    pub reason: &'static str,
    /// Repair packets per hundred packets that are covered.
    pub repair_pct: f64,
    /// Packets in a repair packet at most.
    pub window: u32,
    /// Packets that a repair packet leaves to later ones.
    pub lag: u32,
    /// What may stay lost, in percent.
    pub target_pct: f64,
    /// The flow whose target that is, as `from > to`; null if it is the node's own.
    pub target_of: Option<String>,
    /// Repair packets per hundred packets at most.
    pub most_pct: f64,
    /// What is expected to stay lost, in percent.
    pub predicted_pct: f64,
    /// The same with requests alone.
    pub requests_pct: f64,
    /// With so much more time for its packets requests alone would do; null if they would never, or do already.
    pub requests_lack_ms: Option<u64>,
    /// What has stayed lost or came too late under the plan, as the neighbour tells; null before it has.
    pub measured_pct: Option<f64>,
    /// Of so many packets.
    pub measured_packets: u64,
    /// The bytes of repair under this plan, in percent of those of the real-time packets under it.
    pub cost_pct: f64,
    /// Times that the plan has changed.
    pub changes: u64,
}

/// The reliable lane of a link, both directions.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ReliableStatus {
    /// The rule for the window.
    pub congestion: &'static str,
    /// Packets that may be in flight.
    pub window: f64,
    /// Flows that the window stands for.
    pub flows: usize,
    /// Packets in flight.
    pub in_flight: usize,
    /// Packets that wait for the window.
    pub queued: usize,
    /// Their bytes.
    pub queued_bytes: usize,
    /// The smoothed round trip of the lane, with what queues below add.
    pub srtt_ms: Option<f64>,
    /// Packets sent for the first time.
    pub originals: u64,
    /// Packets sent again.
    pub retransmissions: u64,
    /// Of those, the ones that proved unnecessary.
    pub spurious: u64,
    /// Times that nothing was heard until the timer ran out.
    pub timeouts: u64,
    /// Times that the window was cut for a loss.
    pub cuts: u64,
    /// Packets marked as having met congestion.
    pub marked: u64,
    /// Packets dropped because the queue was full.
    pub overflows: u64,
    /// Packets received for the first time.
    pub received: u64,
    /// Of those, the ones that filled a gap.
    pub recovered: u64,
    /// Packets received again.
    pub duplicates: u64,
}

/// One route.
#[derive(Clone, Debug, Serialize)]
pub struct RouteStatus {
    /// The destination.
    pub to: String,
    /// The metric.
    pub metric: &'static str,
    /// The neighbour that is next.
    pub next_hop: String,
    /// The cost in the metric's own unit.
    pub cost: f64,
    /// The path's latency.
    pub latency_ms: f64,
}

/// One flow that begins here, passes, or ends here.
#[derive(Clone, Debug, Serialize)]
pub struct FlowStatus {
    /// What this node does: `originates`, `forwards` or `delivers`.
    pub role: &'static str,
    /// The link protocol that it uses.
    pub link: &'static str,
    /// What routes it: a metric, `stamped`, or, where it begins, the scheme of the stamps.
    pub routing: &'static str,
    /// Its priority.
    pub priority: u8,
    /// The deadline of its packets, known where it begins.
    pub deadline_ms: Option<f64>,
    /// What may stay lost of its packets on a link, in percent, and repair packets per hundred packets at most, as its sender
    /// says; null for what each node's settings say.
    pub target_pct: Option<f64>,
    /// See `target_pct`.
    pub most_pct: Option<f64>,
    /// The paths that its packets take from this node on, by address, this node first. Empty for
    /// what passes with a stamp, which only its source knows, for floods, and without a route.
    pub paths: Vec<Vec<String>>,
    /// Source node and port.
    pub from: String,
    /// Destination node and port.
    pub to: String,
    /// The neighbour that is next, if the flow goes on.
    pub next_hop: Option<String>,
    /// Why this node does not carry the flow at present; null if it does.
    pub refused: Option<String>,
    /// Packets.
    pub packets: u64,
    /// Bytes with the overlay header.
    pub bytes: u64,
    /// Packets that were here before.
    pub duplicates: u64,
    /// Packets past their deadline.
    pub expired: u64,
    /// Seconds since the last packet.
    pub idle_s: f64,
}

/// One end of a stream.
#[derive(Clone, Debug, Serialize)]
pub struct StreamStatus {
    /// This node and the port of this end.
    pub from: String,
    /// The peer's node and port.
    pub to: String,
    /// `calling`, `waiting` to be accepted, `open`, or `closing`: its client is gone, and what was
    /// written is still on its way.
    pub state: &'static str,
    /// What it carries: `bytes`, `messages` or `expiring messages`.
    pub framing: &'static str,
    /// The link protocol of its packets.
    pub link: &'static str,
    /// What routes them.
    pub routing: &'static str,
    /// Their priority.
    pub priority: u8,
    /// Bytes that the peer has acknowledged.
    pub sent: u64,
    /// Bytes that are written and not acknowledged.
    pub unacknowledged: u64,
    /// Bytes that have come in order.
    pub received: u64,
    /// Those of them that the application has not taken.
    pub unread: u64,
    /// The congestion window in bytes.
    pub window: u64,
    /// Bytes of it in flight.
    pub in_flight: u64,
    /// The smoothed round trip.
    pub srtt_ms: Option<f64>,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Messages of this end that were given up because they had expired.
    pub given_up: u64,
    /// Messages of the peer that have not come because of that.
    pub missed: u64,
}
