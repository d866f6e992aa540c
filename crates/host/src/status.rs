//! Everything about a running node at one moment: the engine's snapshot, the counters, and what only the host knows. It
//! is plain data, ready for JSON; the keys are a contract.

use crate::admission::ends_s;
use crate::counters::Counters;
use base::{Duration, NodeAddr, Time};
use overlay::link_state::Database;
use overlay::snapshot::{GroupTotals, Snapshot};
use secure::network::EXPIRY_NOTICE_S;
use secure::{Delegation, Network};
use serde::Serialize;
use std::collections::BTreeMap;
use wire::certificate::Certificate;

/// The metric of the snapshot's routes that shows how near a node is.
const EXPECTED_LATENCY: &str = "expected-latency";

/// A running node.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// The engine.
    pub snapshot: Snapshot,
    /// Counters of what has happened.
    pub counters: Counters,
    /// The loop and its sockets.
    pub host: HostStatus,
    /// The nodes of the network whose records are known, including this one.
    pub nodes: Vec<KnownNode>,
    /// The groups whose packets this node carries.
    pub groups: GroupsStatus,
    /// The multicast bridges that live in this node.
    pub bridges: Vec<BridgeStatus>,
    /// The relay service, unless it is switched off.
    pub bulk: Option<BulkStatus>,
    /// The gate for clients on other hosts, if there is one.
    pub gate: Option<GateStatus>,
    /// The router's port mapping for the node.
    pub mapping: Option<MappingStatus>,
    /// The node's rights to issue, if it is an issuer.
    pub issuer: Option<IssuerStatus>,
}

/// The times until which an issuer may certify.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct IssuerStatus {
    /// The last second in which it may invite and renew.
    pub delegation_not_after_s: u64,
    /// True if that second is within [`EXPIRY_NOTICE_S`], or has passed.
    pub delegation_ends_soon: bool,
    /// The last second in which it may renew members of all other issuers for which it has a delegation.
    pub renews_not_after_s: Option<u64>,
    /// True if that second is within [`EXPIRY_NOTICE_S`], or has passed.
    pub renews_end_soon: bool,
}

impl IssuerStatus {
    /// Computes the status at second `unix_s` from what the node knows of its network, for its own delegation and for
    /// those by which it renews members of other issuers.
    pub(crate) fn of(
        (own, others): (&Delegation, &[Delegation]),
        network: &Network,
        unix_s: u64,
    ) -> IssuerStatus {
        let is_soon = |not_after_s: u64| unix_s + EXPIRY_NOTICE_S >= not_after_s;
        let delegation_not_after_s = ends_s(own, network);
        let renews_not_after_s = others.iter().map(|it| ends_s(it, network)).min();
        IssuerStatus {
            delegation_not_after_s,
            delegation_ends_soon: is_soon(delegation_not_after_s),
            renews_not_after_s,
            renews_end_soon: renews_not_after_s.is_some_and(is_soon),
        }
    }
}

/// The router's port mapping for the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MappingStatus {
    /// `map_port`: `auto`, `true` or `false`.
    pub wanted: &'static str,
    /// `off`, `asking`, `mapped`, `lost`, `refused`, `double-nat` or `silent`.
    pub state: &'static str,
    /// Why it is off, refused, or of no use.
    pub why: Option<String>,
    /// The router that the node asks.
    pub gateway: Option<String>,
    /// The node's own address and port.
    pub own: Option<String>,
    /// The address and port outside that lead to the node.
    pub at: Option<String>,
    /// `PCP`, `NAT-PMP` or `UPnP`.
    pub by: Option<&'static str>,
    /// The second in which the mapping ends unless it is renewed, since 1970.
    pub until_s: Option<u64>,
    /// Number of ignored answers, by reason: `malformed`, `nonce`, `port`, `stranger`, `unasked`; with UPnP also
    /// `closed`, `elsewhere`, `status`, `timeout`.
    pub ignored: BTreeMap<&'static str, u64>,
}

/// The gate for clients on other hosts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GateStatus {
    /// TLS connections: one for each socket, and for each stream that a listener accepts.
    pub connections: usize,
    /// Number of connections that were admitted.
    pub welcomed: u64,
    /// Number of connections that were refused, by reason.
    pub turned_away: BTreeMap<&'static str, u64>,
    /// The UDP port for datagrams; none if all datagrams travel inside TLS.
    pub udp_port: Option<u16>,
    /// Number of sockets that have requested UDP.
    pub ways: usize,
    /// The first of these sockets.
    pub ways_told: Vec<GateWay>,
    /// Datagrams received from clients by UDP.
    pub received: u64,
    /// Datagrams sent to clients by UDP.
    pub sent: u64,
    /// Datagrams sent by TLS to clients that have requested UDP.
    pub sent_by_tls: u64,
    /// Datagrams that arrived by UDP and were dropped, by reason.
    pub drops: BTreeMap<&'static str, u64>,
}

/// How the datagrams of a socket of a client on another host travel.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GateWay {
    /// `udp` or `tls`.
    pub way: &'static str,
    /// The client's address for UDP.
    pub at: Option<String>,
    /// The round trip by UDP, as the client has measured it.
    pub rtt_ms: Option<f64>,
    /// The share of the client's UDP datagrams that did not arrive.
    pub loss_pct: f64,
}

/// The groups whose packets a node carries.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GroupsStatus {
    /// The engine's totals.
    #[serde(flatten)]
    pub totals: GroupTotals,
    /// Scribe, while it runs.
    pub scribe: Option<ScribeStatus>,
}

/// Scribe at a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ScribeStatus {
    /// True if the node is in the ring.
    pub in_ring: bool,
    /// Size of its leaf set.
    pub leaves: usize,
    /// Number of nodes for which it keeps state: leaves, parents, children.
    pub peers: usize,
    /// Number of groups in whose trees it is.
    pub trees: usize,
    /// Joins that no parent has accepted yet.
    pub pending: usize,
    /// Messages that it has received.
    pub received: u64,
    /// Messages that it has sent.
    pub sent: u64,
    /// Children that it has refused, one per group.
    pub refused: u64,
    /// Parents that were lost and replaced, one per group.
    pub repaired: u64,
    /// Messages that were dropped, by reason.
    pub drops: BTreeMap<&'static str, u64>,
}

/// A multicast bridge that lives in a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BridgeStatus {
    /// Its interface.
    pub interface: String,
    /// True if the interface exists.
    pub is_here: bool,
    /// The role of the bridge among the bridges of its network: `forwarding`, `standby` or `listening`.
    pub role: &'static str,
    /// True if it sends the queries for members.
    pub is_querier: bool,
    /// Number of groups that have members on its network.
    pub groups: usize,
    /// True if the node reaches no other node.
    pub is_cut_off: bool,
    /// Number of groups that it has joined in the overlay.
    pub joined: usize,
    /// Number of wanted groups that the node refuses.
    pub refused: usize,
    /// Number of groups to which hosts of its network send, but whose packets the node refuses.
    pub refused_sends: usize,
    /// The first groups whose packets it has seen, sorted by the overlay's group.
    pub groups_told: Vec<BridgeGroup>,
    /// Packets sent to the overlay.
    pub captured: u64,
    /// Their bytes.
    pub captured_bytes: u64,
    /// Packets sent to the network.
    pub injected: u64,
    /// Their bytes.
    pub injected_bytes: u64,
    /// Packets that were fragmented for the network.
    pub fragmented: u64,
    /// Valid IGMP and MLD messages received.
    pub igmp: u64,
    /// Packets that did not cross, by reason; reasons that did not occur are missing.
    pub drops: BTreeMap<&'static str, u64>,
}

/// A bridge's counters of the packets of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BridgeGroup {
    /// The overlay's group.
    pub group: String,
    /// The IP group of the last packet.
    pub ip: String,
    /// Packets sent to the overlay.
    pub captured: u64,
    /// Packets sent to the network.
    pub injected: u64,
    /// Packets that did not cross, by reason.
    pub drops: BTreeMap<&'static str, u64>,
}

/// A node's relay service.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BulkStatus {
    /// Number of running transfers.
    pub active: usize,
    /// Largest number of running transfers.
    pub limit: usize,
    /// Transfers that have succeeded.
    pub done: u64,
    /// Transfers that have failed, by kind; kinds that did not occur are missing, here and below.
    pub failed: BTreeMap<&'static str, u64>,
    /// Transfers that were refused before they began, by kind.
    pub refused: BTreeMap<&'static str, u64>,
    /// TCP connections that have not yet sent what they want.
    pub greeting: usize,
    /// Connections that were closed, by reason.
    pub turned_away: BTreeMap<&'static str, u64>,
    /// Bytes sent on to next nodes, including the heads of frames, here and below.
    pub passed_bytes: u64,
    /// Bytes received by sinks at this node.
    pub taken_bytes: u64,
    /// Bytes sent by sources at this node.
    pub given_bytes: u64,
    /// The running transfers.
    pub transfers: Vec<BulkTransferStatus>,
}

/// A transfer at a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BulkTransferStatus {
    /// Its name, which is the same at all nodes.
    pub id: String,
    /// The role of the node in it: `relay`, `sink` or `source`.
    pub role: &'static str,
    /// The node that data comes from. If a local command sends the data, it is this node itself; at a source it is
    /// none.
    pub from: Option<String>,
    /// The nodes that data goes to.
    pub to: Vec<String>,
    /// Bytes that it has moved; at a sink, bytes that it has received.
    pub bytes: u64,
    /// The rate of the last second.
    pub rate_bps: u64,
    /// True if it gives way to other traffic.
    pub scavenge: bool,
    /// The segment that the others wait for: the least idle one among those that begin at this node, or farther
    /// from the node that began the transfer.
    pub slowest: Option<BulkSegmentStatus>,
}

/// The state of a segment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BulkSegmentStatus {
    /// The node that sends.
    pub from: String,
    /// The node that receives.
    pub to: String,
    /// The rate of the last second.
    pub rate_bps: u64,
    /// The smoothed round trip.
    pub rtt_ms: f64,
    /// Number of retransmitted TCP segments.
    pub resent: u32,
    /// The share of the last second, in 1000ths, in which the receiving end took nothing.
    pub waited_permille: u16,
    /// The share of the last second, in 1000ths, in which there was nothing to send.
    pub starved_permille: u16,
}

/// A node of the network, as described by its certificate and its record.
#[derive(Clone, Debug, Serialize)]
pub struct KnownNode {
    /// Its overlay address.
    pub address: String,
    /// Its name, if its certificate has arrived.
    pub name: Option<String>,
    /// The last second in which that certificate is valid.
    pub certificate_not_after_s: Option<u64>,
    /// The domains that it may serve: those in its certificate, while that is valid.
    pub domains: Vec<String>,
    /// The words by which rules name it, under the same condition.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The ranges of groups that it may set, according to its certificate.
    #[serde(default)]
    pub may_set_groups: Vec<String>,
    /// The expected latency of the path to it; none if there is no path, zero for this node itself.
    pub expected_latency_ms: Option<f64>,
    /// For how long there has been a path to it without a break; none if there is no path.
    pub reachable_s: Option<f64>,
    /// Number of links in its record.
    pub links: usize,
    /// The version of the program that it runs; none if it runs an older version, which does not report it.
    pub version: Option<String>,
    /// By how many seconds its clock is ahead of this host's clock; negative if it is behind.
    pub clock_ahead_s: Option<i64>,
}

/// The loop and its sockets.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HostStatus {
    /// The version of the program.
    pub version: &'static str,
    /// Its process id.
    pub pid: u32,
    /// The addresses on which it listens in the underlay.
    pub listen: Vec<String>,
    /// The clients' socket file, as an absolute path.
    pub client_socket: Option<String>,
    /// Connected clients.
    pub clients: usize,
    /// Byte streams (TLS over TCP) that carry links, or recently did.
    pub tunnels: usize,
    /// The scheduling class of the loop's thread.
    pub scheduling: String,
    /// Processor time that the loop's thread has used.
    pub cpu_s: f64,
    /// How often the loop woke up.
    pub wakeups: u64,
    /// Large packet buffers in use.
    pub buffers_large: usize,
    /// Small packet buffers in use.
    pub buffers_small: usize,
    /// Bytes of waiting packets that have memory of their own.
    pub kept_bytes: usize,
    /// Largest number of such bytes.
    pub kept_bytes_limit: usize,
    /// The underlay sockets, all together.
    pub udp: UdpStatus,
}

/// Counters of the underlay sockets since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UdpStatus {
    /// Datagrams received.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Number of receive calls. The number of datagrams divided by it is the mean batch.
    pub receive_calls: u64,
    /// Send calls.
    pub send_calls: u64,
    /// Datagrams that the kernel dropped because this node did not read in time.
    pub dropped_by_kernel: u64,
    /// Datagrams dropped because all packet buffers were in use.
    pub dropped_no_buffer: u64,
    /// Datagrams dropped because the send queue was full.
    pub dropped_queue_full: u64,
    /// Datagrams dropped because they were longer than the path takes.
    pub dropped_too_long: u64,
    /// Datagrams dropped because the kernel has no route to the destination.
    pub dropped_unreachable: u64,
    /// Datagrams dropped because a firewall or policy of this machine forbids them.
    pub dropped_forbidden: u64,
    /// Datagrams dropped because of another kernel error.
    pub dropped_failed: u64,
    /// How often the kernel's send buffer was full.
    pub blocked: u64,
    /// Errors that routers or neighbours reported (ICMP).
    pub icmp_errors: u64,
}

impl KnownNode {
    /// Returns all nodes in a database at time `now`, second `unix_s`, with the paths to them from `snapshot`, and how
    /// long each has been reachable.
    pub(crate) fn all(
        database: &Database,
        snapshot: &Snapshot,
        (now, unix_s): (Time, u64),
        reachable_for: impl Fn(NodeAddr) -> Option<Duration>,
    ) -> Vec<KnownNode> {
        let ways: BTreeMap<&str, f64> = snapshot
            .routes
            .iter()
            .filter(|route| route.metric == EXPECTED_LATENCY)
            .map(|route| (route.to.as_str(), route.cost))
            .chain([(snapshot.address.as_str(), 0.0)])
            .collect();
        let known = |node| {
            let certificate = database.certificate(node).map(Certificate::parse);
            let certificate = certificate.and_then(Result::ok);
            // Rights are shown only while the certificate is valid.
            let counts = |c: &Certificate<'_>| (c.not_before_s..=c.not_after_s).contains(&unix_s);
            let counting = certificate.filter(counts);
            let address = node.to_string();
            KnownNode {
                name: certificate.map(|c| c.subject.name.to_owned()),
                certificate_not_after_s: certificate.map(|c| c.not_after_s),
                domains: listed(counting.map(|c| c.subject.domains.iter())),
                tags: listed(counting.map(|c| c.options.tags().iter())),
                may_set_groups: counting.map_or_else(Vec::new, |c| {
                    c.groups().iter().map(ToString::to_string).collect()
                }),
                expected_latency_ms: ways.get(address.as_str()).copied(),
                reachable_s: reachable_for(node).map(Duration::as_secs_f64),
                links: database.links_of(node).map_or(0, <[_]>::len),
                version: database.version_of(node).map(str::to_owned),
                clock_ahead_s: database
                    .clock_of(now, node)
                    .map(|clock_s| clock_s.cast_signed() - unix_s.cast_signed()),
                address,
            }
        };
        database.nodes().map(known).collect()
    }
}

fn listed<'a>(words: Option<impl Iterator<Item = &'a str>>) -> Vec<String> {
    words.into_iter().flatten().map(str::to_owned).collect()
}

impl UdpStatus {
    /// Adds the counters of one socket, and of what was dropped before it.
    pub(crate) fn add(
        &mut self,
        counters: &net::udp::Counters,
        kernel_drops: u32,
        queue_drops: u64,
    ) {
        self.received += counters.recv_datagrams;
        self.received_bytes += counters.recv_bytes;
        self.sent += counters.send_datagrams;
        self.sent_bytes += counters.send_bytes;
        self.receive_calls += counters.recv_calls;
        self.send_calls += counters.send_calls;
        self.dropped_by_kernel += u64::from(kernel_drops);
        self.dropped_no_buffer += counters.recv_no_slot;
        self.dropped_queue_full += queue_drops;
        self.dropped_too_long += counters.send_too_long;
        self.dropped_unreachable += counters.send_unreachable;
        self.dropped_forbidden += counters.send_forbidden;
        self.dropped_failed += counters.send_failed + counters.send_no_buffers;
        self.blocked += counters.send_blocked;
        self.icmp_errors += counters.icmp_errors;
    }
}
