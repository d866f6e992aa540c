//! The state of the node at one moment, for status, metrics and tools. Plain data, ready for JSON; the keys are a
//! contract.

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
    /// Links of this node may be impaired.
    pub lab: bool,
    /// How often the root key of the network was replaced, as far as the node knows: the number of the newest root.
    pub root: u8,
    /// The serial number of its certificate.
    pub certificate_serial: u32,
    /// The number of the root that signed its certificate, or that signed the delegation of the certificate's issuer;
    /// null if the node knows no such root.
    pub certificate_root: Option<u8>,
    /// Last second at which its certificate is valid, in seconds since 1970. The limit is the certificate's own end, or
    /// that of the root that signed it.
    pub certificate_not_after_s: u64,
    /// The certificate ends soon: within a sixth of its lifetime, at most 30 days.
    pub certificate_expires_soon: bool,
    /// The number of the root that signed the list of revocations.
    pub revocations_root: u8,
    /// The version of the list of revocations; 0 for none. A list of a newer root takes precedence over all versions of
    /// older roots.
    pub revocations_version: u32,
    /// Open client sockets.
    pub sockets: usize,
    /// The addresses at which neighbours see the node on the underlay network, as they report with `direct_links`.
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
    /// The relays and links that are suspected to drop packets between this node and others.
    pub suspects: Vec<SuspectStatus>,
    /// How often a path was found to deliver less than its links promise.
    pub paths_bad: u64,
    /// Nodes that have renewed their records more often than allowed: the first few.
    pub flooders: Vec<FlooderStatus>,
    /// Nodes whose key is in use on two hosts at once: this node and its neighbours.
    pub doubles: Vec<DoubleStatus>,
    /// The packets that wait here for their predecessors.
    pub held: HeldStatus,
    /// Nodes in the link-state database.
    pub database_nodes: usize,
    /// The state of finding links automatically; null if the node does not do this.
    pub finding: Option<FindingStatus>,
}

/// The state of finding links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FindingStatus {
    /// Other nodes that offer themselves as neighbours.
    pub offers: usize,
    /// Offering nodes whose round trip over a link was measured within the last day.
    pub measured: usize,
    /// Links that were made to measure a node.
    pub trials: u64,
    /// Nodes to which this node wants a link by its own choice.
    pub kept: usize,
    /// Links that neither end keeps, and that traffic still uses or has used until just now.
    pub unkept: usize,
    /// Links that this node has ended because neither end kept them.
    pub dropped: u64,
}

/// The address at which a neighbour sees this node.
#[derive(Clone, Debug, Serialize)]
pub struct SeenStatus {
    /// The neighbour.
    pub by: String,
    /// The address and port from which the neighbour receives this node's datagrams.
    pub at: String,
    /// The neighbour receives them through a byte stream, and `at` is where this node may accept streams.
    pub by_stream: bool,
}

/// A node that renews its records more often than allowed.
#[derive(Clone, Debug, Serialize)]
pub struct FlooderStatus {
    /// The node.
    pub node: String,
    /// Records of the node that this node dropped for that reason.
    pub dropped: u64,
}

/// A node whose key is in use on two hosts at once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DoubleStatus {
    /// The node.
    pub node: String,
    /// The node is this one.
    pub is_own: bool,
    /// Where a neighbour was heard last with each of its two starts; empty for this node, which does not know that.
    pub at: Vec<String>,
    /// Seconds since the change between the two hosts was last seen.
    pub ago_s: f64,
}

/// How packets to and from another node are sealed from end to end.
#[derive(Clone, Debug, Serialize)]
pub struct EndStatus {
    /// The other node.
    pub node: String,
    /// The node reports that it seals; if not, nodes on the path can read what is sent to it.
    pub seals: bool,
    /// Seconds since the present session was made; null without a session, because none was needed recently.
    pub session_age_s: Option<f64>,
    /// The keys of the present session also come from ML-KEM, so that a quantum computer cannot open what is recorded
    /// now.
    pub post_quantum: bool,
    /// Why there can be no session with the node, in words; null if no obstacle is known.
    pub reason: Option<String>,
    /// Packets sealed for it.
    pub sealed: u64,
    /// Packets from the node that were opened.
    pub opened: u64,
    /// Packets in the node's name that could not be opened.
    pub refused: u64,
    /// Coded repair of what is sent to the node; null unless `protect` is `end-to-end` and packets have passed.
    pub repair: Option<EndRepairStatus>,
    /// Packets from the node that coded repair between the two nodes has restored.
    pub restored: u64,
}

/// Coded repair between the two ends of a path.
#[derive(Clone, Debug, Serialize)]
pub struct EndRepairStatus {
    /// Repair packets per packet, in percent; 0 if none are sent.
    pub repair_pct: f64,
    /// Why the repair is not better, in words.
    pub reason: String,
    /// Packet loss on the path before repair, as the other end reports.
    pub lost_pct: f64,
    /// Packet loss that is predicted to remain.
    pub predicted_pct: f64,
    /// Packet loss that remained under the plan in force; null before the other end has reported it.
    pub measured_pct: Option<f64>,
    /// Packet loss that may remain.
    pub target_pct: f64,
    /// Repair packets sent.
    pub sent: u64,
}

/// A relay or link whose paths to a node deliver less than their links promise. Packets avoid it.
#[derive(Clone, Debug, Serialize)]
pub struct SuspectStatus {
    /// The suspect.
    #[serde(flatten)]
    pub suspect: KnownSuspect,
    /// The destination of the paths.
    pub path_to: String,
    /// Number of suspects, this one included, among which the culprit is.
    pub among: usize,
    /// How often paths with it were found bad.
    pub strikes: u32,
    /// Seconds for which it has been suspected.
    pub for_s: f64,
}

/// The packets that a node holds until their predecessors arrive, because delivery is in order.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HeldStatus {
    /// Packets.
    pub packets: usize,
    /// Their bytes, with the overhead of holding them.
    pub bytes: usize,
    /// The limit for `bytes`.
    pub bytes_limit: usize,
    /// The limit for the bytes of one flow.
    pub flow_bytes_limit: usize,
    /// Gaps that were given up because the limit was reached.
    pub given_up: u64,
    /// Gaps that were given up for this reason within the last one to two minutes.
    pub given_up_lately: u64,
    /// The flows that hold most, or that have given up gaps: the first few.
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
    /// Gaps that were given up for lack of room.
    pub given_up: u64,
}

/// The state of one link.
#[derive(Clone, Debug, Serialize)]
pub struct LinkStatus {
    /// The neighbour's name.
    pub name: String,
    /// The neighbour's overlay address.
    pub peer: String,
    /// The address at which the neighbour is reached or dialled.
    pub at: Option<String>,
    /// The address in the configuration; null if the neighbour dials this node.
    pub dialled_at: Option<String>,
    /// `udp`, or `tcp` while the link's datagrams travel inside a byte stream because UDP gets no answer.
    pub over: &'static str,
    /// The keys of the present session on the path in use also come from ML-KEM, so that a quantum computer cannot open
    /// what is recorded now.
    pub post_quantum: bool,
    /// `up`, `probing`, `silent` (the other end is not heard, and packets without another path try the link), `down` or
    /// `no-session`.
    pub state: &'static str,
    /// Why this link exists, in words.
    pub why: String,
    /// The cost that the link's recent outages add to a path over it, in milliseconds of latency.
    pub price_ms: f64,
    /// The time until this price has gone, if the link does not fail again.
    pub price_ends_in_s: Option<f64>,
    /// Why the link is not up, in words; null while it is up.
    pub reason: Option<String>,
    /// Seconds since the link came up or went down.
    pub since_s: f64,
    /// Round trip.
    pub rtt_ms: Option<f64>,
    /// The shortest round trip of the last seconds.
    pub rtt_least_ms: Option<f64>,
    /// The amount by which half of the round trips exceed that shortest one.
    pub rtt_varies_ms: f64,
    /// The trouble of the link: `outage`, `queue` or `loss`, the worst of them; null for none.
    pub trouble: Option<&'static str>,
    /// Packet loss from the neighbour to this node, in percent.
    pub loss_in_pct: f64,
    /// The number of packets over which that was measured: the fewer, the less certain it is.
    pub loss_in_packets: u64,
    /// Packet loss from this node to the neighbour, in percent, as the neighbour measures it.
    pub loss_out_pct: f64,
    /// Mean length of a run of losses from the neighbour to this node, in packets; 1 without any.
    pub loss_run_in: f64,
    /// The same from this node to the neighbour, as the neighbour reports it.
    pub loss_run_out: f64,
    /// Seconds since anything arrived from the neighbour, which is the age of the numbers above. Null if nothing has
    /// arrived.
    pub heard_s: Option<f64>,
    /// The latency that this node has announced for the link.
    pub announced_latency_ms: Option<f64>,
    /// The packet loss that this node has announced for the link, in percent.
    pub announced_loss_pct: Option<f64>,
    /// The longest datagram that the link carries to the neighbour, as UDP counts its bytes.
    pub mtu_bytes: u16,
    /// The number of physical links to the neighbour, as probed or configured.
    pub hops: Option<NonZeroU8>,
    /// The link carries data.
    pub active: bool,
    /// The emulated network in the direction to the neighbour.
    pub impairment: Option<String>,
    /// Its paths, the one in use first.
    pub paths: Vec<PathStatus>,
    /// Totals of what the link has carried.
    #[serde(flatten)]
    pub counts: crate::link::Counts,
    /// The real-time lane.
    pub realtime: LaneStatus,
    /// The reliable lane.
    pub reliable: ReliableStatus,
}

/// The condition of a path, for a decision of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathHealth {
    /// The node's own socket by which packets on the path leave, if the node knows its sockets.
    pub from: Option<UnderlayAddr>,
    /// The neighbour's address on the path.
    pub at: UnderlayAddr,
    /// The state of the other end.
    pub state: hello::State,
    /// Time since anything arrived by the path; `None` if nothing ever has.
    pub silence: Option<Duration>,
    /// This node sends by this path.
    pub in_use: bool,
}

/// The state of one path of a link.
#[derive(Clone, Debug, Serialize)]
pub struct PathStatus {
    /// The path's number; it stays the same while paths change places.
    pub number: u8,
    /// The own address from which packets on the path leave, if the node knows its sockets.
    pub from: Option<String>,
    /// The neighbour's address on the path.
    pub at: Option<String>,
    /// The state; the values are those of a link.
    pub state: &'static str,
    /// This node sends by this path.
    pub in_use: bool,
    /// Bulk data takes this path beside the path in use: streams, and connections of `sinew cp`.
    pub shares: bool,
    /// The path carries data, in at least one direction.
    pub active: bool,
    /// Round trip.
    pub rtt_ms: Option<f64>,
    /// Packet loss from the neighbour to this node, in percent.
    pub loss_in_pct: f64,
    /// Packet loss from this node to the neighbour, in percent, as the neighbour measures it.
    pub loss_out_pct: f64,
    /// Bytes of all datagrams that were sent by the path.
    pub out_bytes: u64,
    /// Bytes of all datagrams that were received by the path.
    pub in_bytes: u64,
    /// The longest datagram that the path carries to the neighbour, as UDP counts its bytes.
    pub mtu_bytes: u16,
    /// The path's cost in the choice among the link's paths: milliseconds of expected latency, with loss and recent
    /// outages.
    pub cost_ms: f64,
    /// Seconds since anything arrived by the path; null if nothing has.
    pub heard_s: Option<f64>,
    /// Why the node took this path in place of another one, and how many seconds ago; null for other paths, and for a
    /// first one.
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
    /// Packets that overran in this way within the last one to two minutes.
    pub overrun_lately: u64,
    /// The rate limit of the lane while it meets congestion.
    pub brake_bps: Option<u64>,
    /// Repair packets made.
    pub repairs: u64,
    /// Packets restored from repair packets of the neighbour.
    pub decoded: u64,
    /// How packets to the neighbour are protected.
    pub protection: ProtectionStatus,
}

/// How the packets of a real-time lane to a neighbour are protected.
#[derive(Clone, Debug, Serialize)]
pub struct ProtectionStatus {
    /// `none`, `requests`, `repair` in addition to requests, or `copies` that follow later in addition to requests.
    pub plan: &'static str,
    /// Why the lane has this protection, and no more.
    pub reason: &'static str,
    /// Repair packets per hundred packets that are covered.
    pub repair_pct: f64,
    /// The maximum number of packets that one repair packet covers.
    pub window: u32,
    /// The number of newest packets that a repair packet leaves to later ones.
    pub lag: u32,
    /// Packet loss that may remain, in percent.
    pub target_pct: f64,
    /// The flow that sets this target, as `from > to`; null if it is the node's own target.
    pub target_of: Option<String>,
    /// The maximum number of repair packets per hundred packets.
    pub most_pct: f64,
    /// Packet loss that is expected to remain, in percent.
    pub predicted_pct: f64,
    /// Packet loss that is expected to remain with requests alone.
    pub requests_pct: f64,
    /// The additional time per packet with which requests alone would suffice; null if they never would, or already do.
    pub requests_lack_ms: Option<u64>,
    /// Packets lost for good or late under the plan, in percent, as the neighbour reports; null before its report.
    pub measured_pct: Option<f64>,
    /// The number of packets over which that was measured.
    pub measured_packets: u64,
    /// The bytes of repair under this plan, in percent of the bytes of real-time packets under it.
    pub cost_pct: f64,
    /// Number of times that the plan has changed.
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
    /// The smoothed round trip of the lane, including the queues below it.
    pub srtt_ms: Option<f64>,
    /// Packets sent for the first time.
    pub originals: u64,
    /// Packets sent again.
    pub retransmissions: u64,
    /// Retransmissions that proved unnecessary.
    pub spurious: u64,
    /// Number of times that the timer expired because nothing was heard.
    pub timeouts: u64,
    /// Number of times that the window was cut after a loss.
    pub cuts: u64,
    /// Packets marked as having met congestion.
    pub marked: u64,
    /// Packets dropped because the queue was full.
    pub overflows: u64,
    /// Packets received for the first time.
    pub received: u64,
    /// Received packets that filled a gap.
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
    /// The next neighbour on the route.
    pub next_hop: String,
    /// The cost in the metric's own unit.
    pub cost: f64,
    /// The path's latency.
    pub latency_ms: f64,
}

/// A flow that begins here, passes, or ends here.
#[derive(Clone, Debug, Serialize)]
pub struct FlowStatus {
    /// The role of this node: `originates`, `forwards` or `delivers`.
    pub role: &'static str,
    /// The link protocol that it uses.
    pub link: &'static str,
    /// How the flow is routed: a metric, `stamped`, or, at the source, the scheme of the stamps.
    pub routing: &'static str,
    /// Its priority.
    pub priority: u8,
    /// The deadline of its packets, which is known at the source.
    pub deadline_ms: Option<f64>,
    /// The packet loss that may remain on a link, in percent, as the flow's sender asks; null if each node's settings
    /// decide.
    pub target_pct: Option<f64>,
    /// The maximum number of repair packets per hundred packets, as the flow's sender asks; null if each node's
    /// settings decide.
    pub most_pct: Option<f64>,
    /// The paths of its packets from this node on, by address, this node first. Empty for passing packets with a stamp,
    /// which only the source knows, for floods, and without a route.
    pub paths: Vec<Vec<String>>,
    /// Source node and port.
    pub from: String,
    /// Destination node and port.
    pub to: String,
    /// The next neighbour, if the flow continues.
    pub next_hop: Option<String>,
    /// Why this node does not carry the flow at present; null if it does.
    pub refused: Option<String>,
    /// Packets.
    pub packets: u64,
    /// Bytes with the overlay header.
    pub bytes: u64,
    /// Packets that had arrived here before.
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
    /// `calling`, `waiting` to be accepted, `open`, or `closing`: the client has gone, and what it wrote is still on
    /// its way.
    pub state: &'static str,
    /// The content of the stream: `bytes`, `messages` or `expiring messages`.
    pub framing: &'static str,
    /// The link protocol of its packets.
    pub link: &'static str,
    /// How its packets are routed.
    pub routing: &'static str,
    /// Their priority.
    pub priority: u8,
    /// Bytes that the peer has acknowledged.
    pub sent: u64,
    /// Bytes that were written and are not acknowledged yet.
    pub unacknowledged: u64,
    /// Bytes that have arrived in order.
    pub received: u64,
    /// Bytes that have arrived in order and that the application has not taken yet.
    pub unread: u64,
    /// The congestion window in bytes.
    pub window: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// The smoothed round trip.
    pub srtt_ms: Option<f64>,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Messages of this end that were given up because they had expired.
    pub given_up: u64,
    /// Messages of the peer that did not arrive because they had expired.
    pub missed: u64,
}
