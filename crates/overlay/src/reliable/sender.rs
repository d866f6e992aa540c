//! The sender's side of a reliable lane: numbers, copies, what is lost, and when to send.
//!
//! ```text
//!   entries   base                                        next
//!             | sent | acked | lost | sent | sent | sent |
//!   sent      5  6  9  10  11 ...     transmissions in the order in which they left
//!   lost      to be sent again, in the order in which they were found
//! ```
//!
//! Numbers, copies and the queue are the lane's. Window, pace, round trip and order belong to each path of the link
//! ([`Way`]): mostly there is one.
//!
//! A transmission is lost when one that left later has arrived and it is three places or a
//! quarter of a round trip behind [RFC 8985]. Since retransmissions take a new place in the order,
//! their losses are found by the same rule. Once reordering has been seen places count no more, and
//! the time that is allowed grows.

mod acknowledge;
mod depart;
mod troubles;
mod way;

pub(crate) use way::Open;

use super::drain::Drain;
use super::queue::{Packet, Queue};
use super::{Settings, WINDOW_MAX};
use crate::estimate::Rtt;
use base::{Duration, NodeAddr, Time};
use congestion::delivery::Stamp;
use std::collections::VecDeque;
use way::{WAYS_MAX, Way};

/// Counters of a [`Sender`], since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Packets sent for the first time.
    pub sent: u64,
    /// Packets sent again.
    pub retransmissions: u64,
    /// Of those, the ones that proved unnecessary.
    pub spurious: u64,
    /// Probes for the end of the lane.
    pub probes: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Times that a window was cut for a loss.
    pub cuts: u64,
    /// Packets marked as having met congestion.
    pub marked: u64,
    /// Acknowledgements of what was never sent.
    pub bogus: u64,
    /// Packets for which there was no room.
    pub overflows: u64,
}

/// What a control takes for a packet.
const SEGMENT_BYTES: f64 = 1460.0;
/// [RFC 4828 §4.1]: one in ten milliseconds.
const THIN_PACKETS_PER_S: f64 = 100.0;

/// The window, in packets, of a lane that yields to what calls catch up with. Choice: a stream of messages as long as
/// those of a call keeps up where a round trip is shorter than that of a queue in which calls are late.
const YIELDING: usize = 2;

/// A smaller window, in packets, waits for each acknowledgement.
const WAIT_LEAST: usize = 4;

#[derive(Debug)]
struct Entry {
    /// The copy, until it is acknowledged.
    packet: Option<Packet>,
    /// The way of its last transmission, and its place in the order there.
    way: u8,
    order: u64,
    sent_at: Time,
    stamp: Stamp,
    transmissions: u8,
    state: State,
    /// It was sent again because its loss was found by what arrived.
    by_loss: bool,
}

/// New packets after the first answer to what a timeout has sent again. [RFC 5682 §2.1]
const NEW_FIRST: u8 = 2;

/// Where the last transmission of a packet is believed to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There was none yet.
    Waiting,
    InFlight,
    /// Others have overtaken it.
    Lost,
    /// Nothing at all has been heard.
    Expired,
}

/// The delay from the neighbour to a node, if it is known.
pub type RestOfPath<'a> = &'a dyn Fn(NodeAddr) -> Option<Duration>;

/// A packet that leaves now.
#[derive(Debug)]
pub struct Outgoing<'a> {
    /// Overlay header, as it goes on the wire, and payload.
    pub bytes: &'a [u8],
    /// It has been sent before.
    pub is_again: bool,
    /// It is one of this node's own.
    pub is_own: bool,
}

/// The packets on their way to one neighbour.
#[derive(Debug)]
pub struct Sender {
    /// By the numbers of their paths.
    ways: Vec<Way>,
    /// The way of the path in use.
    used: usize,
    /// The path in use is in doubt, and there are others: nothing leaves by it but questions.
    used_rests: bool,
    /// What calls catch up with goes first.
    yields: bool,
    /// The receiver knows that acknowledgements may wait for a packet that is to be expected.
    acks_wait: bool,
    /// When a packet left last, by any way: the receiver sees the packets of all.
    last_left: Time,
    drain: Drain,
    queue: Queue,
    base: u64,
    entries: VecDeque<Entry>,
    lost: VecDeque<u64>,
    /// So many packets were given up because they could not be in time.
    overdue: u32,
    /// What leaves next, once it was looked at.
    chosen: Option<u64>,
    /// Bytes of a packet, averaged.
    packet_bytes: f64,
    /// The receiver takes numbers below this.
    limit: u64,
    /// What the last acknowledgement told above its `next`, from the highest down.
    told: Vec<(u64, u64)>,
    /// Kept for its memory.
    told_before: Vec<(u64, u64)>,
    told_end: u64,
    /// As the receiver measured it last.
    receive_rate_bps: Option<u64>,
    /// Packets that the receiver has had more than once, as it told last.
    repeated: Option<u16>,
    /// The most flows at once in this half second, and in the one before.
    flows: [usize; 2],
    flows_since: Time,
    last_used: Time,
    /// When something was acknowledged, or came to an empty queue.
    progress: Time,
    /// Packets wait that are due, and since when without a pause.
    is_busy: bool,
    busy_since: Time,
    /// There was no buffer to send from.
    again_at: Option<Time>,
    /// The receiver must not wait for numbers below this, and is to be told so.
    skip_to: Option<u64>,
    skip_due: bool,
    settings: Settings,
    stats: SenderStats,
}

impl Sender {
    /// An empty lane.
    pub fn new(settings: Settings) -> Sender {
        Sender {
            ways: vec![Way::new(settings)],
            used: 0,
            used_rests: false,
            yields: false,
            acks_wait: false,
            last_left: Time::ZERO,
            drain: Drain::default(),
            queue: Queue::default(),
            base: 0,
            entries: VecDeque::new(),
            lost: VecDeque::new(),
            overdue: 0,
            chosen: None,
            packet_bytes: SEGMENT_BYTES,
            limit: WINDOW_MAX as u64,
            told: Vec::new(),
            told_before: Vec::new(),
            told_end: 0,
            receive_rate_bps: None,
            repeated: None,
            flows: [0; 2],
            flows_since: Time::ZERO,
            last_used: Time::ZERO,
            progress: Time::ZERO,
            is_busy: false,
            busy_since: Time::ZERO,
            again_at: None,
            skip_to: None,
            skip_due: false,
            settings,
            stats: SenderStats::default(),
        }
    }

    /// Calls go beside this lane, by the paths of these numbers: round trips from here on tell of a queue that they wait in.
    /// None where no calls go.
    ///
    /// A slow start ends at the queue then, not where the queue overflows: what a stream makes up for after an outage is
    /// in time a little later as well, what a call says meanwhile is not. As HyStart++ does [RFC 9406], with the
    /// round trips of before the outage.
    pub fn spare_calls(&mut self, queues_from: [Option<Duration>; WAYS_MAX]) {
        for (way, queue_from) in self.ways.iter_mut().zip(queues_from) {
            way.own_queue.set_from(queue_from);
        }
    }

    /// Calls beside this lane catch up with a stall, or have caught up a moment ago: what stands in front of a narrow
    /// place is theirs. Until it has left, hardly anything is added to it by the path in use.
    pub(crate) fn set_yields(&mut self, yields: bool) {
        self.yields = yields;
    }

    /// What the receiver says of the other direction: whether acknowledgements may wait there at present.
    pub(super) fn on_peer(&mut self, lets_wait: bool) {
        self.acks_wait |= lets_wait;
    }

    /// Acknowledgements may wait for a packet that is to be expected: the windows do not keep that one back until they come.
    pub(crate) fn lets_wait(&self) -> bool {
        let told = self.limit.saturating_sub(self.base);
        let mut ways = self.ways.iter().enumerate();
        // What yields has a smaller window.
        !self.yields
            && told >= WAIT_LEAST as u64
            && ways.all(|(at, way)| {
                let is_closed = at != self.used && !way.is_open;
                is_closed || way.window(self.packet_bytes) >= WAIT_LEAST
            })
    }

    fn next_seq(&self) -> u64 {
        self.base + self.entries.len() as u64
    }

    fn entry(&self, seq: u64) -> Option<&Entry> {
        self.entries.get(seq.checked_sub(self.base)? as usize)
    }

    /// The bytes of a packet that is not acknowledged.
    fn held(&self, seq: u64) -> Option<&Vec<u8>> {
        self.entry(seq)?.packet.as_ref().map(|packet| &packet.bytes)
    }

    /// Packets that wait for the window.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Their bytes.
    pub fn queued_bytes(&self) -> usize {
        self.queue.bytes()
    }

    /// Packets sent and not heard of.
    pub fn in_flight(&self) -> usize {
        self.ways.iter().map(|way| way.in_flight).sum()
    }

    /// Nothing waits and nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.entries.is_empty()
    }

    /// Packets that may be in flight, by all ways that are open.
    pub fn congestion_window(&self) -> f64 {
        let ways = self.ways.iter().enumerate();
        let counts = ways.filter(|(at, way)| *at == self.used || way.is_open);
        counts.map(|(_, way)| way.controls.window()).sum()
    }

    /// The rule for the window.
    pub fn family(&self) -> congestion::Family {
        self.settings.family
    }

    /// Flows that the window stands for.
    pub fn flows(&self) -> usize {
        self.ways[self.used].controls.flows()
    }

    /// The round trip of the path in use, with what the network's queues add.
    pub fn rtt(&self) -> &Rtt {
        &self.ways[self.used].rtt
    }

    /// The counters.
    pub fn stats(&self) -> SenderStats {
        self.stats
    }
}
