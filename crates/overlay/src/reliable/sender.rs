//! The sender's side of a reliable lane: it numbers packets, keeps copies, finds losses, and decides when to send.
//!
//! ```text
//!   entries   base                                        next
//!             | sent | acked | lost | sent | sent | sent |
//!   sent      5  6  9  10  11 ...     transmissions in the order in which they left
//!   lost      to be sent again, in the order in which they were found
//! ```
//!
//! Numbers, copies and the queue belong to the lane. Each path of the link has its own window, pace, round trip and
//! order of transmissions ([`Way`]). Most links have one path.
//!
//! A transmission is lost if one that left later has arrived, and the transmission is three places or a quarter of a
//! round trip behind it [RFC 8985]. Retransmissions take a new place in the order, so the same rule finds their losses.
//! Once the sender has seen reordering, it no longer counts places, and the time that it allows grows.

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
    /// Retransmissions that proved unnecessary.
    pub spurious: u64,
    /// Probes for the last packets before a silence.
    pub probes: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Times that a window was cut for a loss.
    pub cuts: u64,
    /// Packets marked as having met congestion.
    pub marked: u64,
    /// Acknowledgements of packets that were never sent.
    pub bogus: u64,
    /// Packets for which there was no room.
    pub overflows: u64,
}

/// The bytes of a packet as a congestion control assumes them.
const SEGMENT_BYTES: f64 = 1460.0;
/// The rate below which a flow counts as thin: one packet in ten milliseconds [RFC 4828 §4.1].
const THIN_PACKETS_PER_S: f64 = 100.0;

/// The packets of each [`YIELDING_EVERY`] of a round trip that a lane may have under way while calls catch up after a
/// stall, and the least number. Choice: with it, a stream whose messages are as long as those of a call keeps up, and a
/// long path carries as much as a short one.
const YIELDING: usize = 2;
const YIELDING_EVERY: Duration = Duration::from_millis(50);

/// With a smaller window, in packets, the sender has to wait for each acknowledgement.
const WAIT_LEAST: usize = 4;

#[derive(Debug)]
struct Entry {
    /// The copy, until it is acknowledged.
    packet: Option<Packet>,
    /// The way of its last transmission, and the place of that transmission in the way's order.
    way: u8,
    order: u64,
    sent_at: Time,
    stamp: Stamp,
    transmissions: u8,
    state: State,
    /// The packet was sent again because the arrival of later packets showed its loss.
    by_loss: bool,
}

/// The number of new packets that follow the first answer to a retransmission after a timeout. [RFC 5682 §2.1]
const NEW_FIRST: u8 = 2;

/// Where the last transmission of a packet is believed to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The packet has not been sent yet.
    Waiting,
    InFlight,
    /// Later transmissions have overtaken it.
    Lost,
    /// A timeout passed without any acknowledgement.
    Expired,
}

/// Returns the delay from the neighbour to a node, if it is known.
pub type RestOfPath<'a> = &'a dyn Fn(NodeAddr) -> Option<Duration>;

/// A packet that leaves now.
#[derive(Debug)]
pub struct Outgoing<'a> {
    /// Overlay header, as it goes on the wire, and payload.
    pub bytes: &'a [u8],
    /// It is a retransmission.
    pub is_again: bool,
    /// It is a packet of this node.
    pub is_own: bool,
}

/// The packets on their way to one neighbour.
#[derive(Debug)]
pub struct Sender {
    /// The ways, by the numbers of their paths.
    ways: Vec<Way>,
    /// The way of the path in use.
    used: usize,
    /// The path in use is in doubt, and there are others: only probes leave by it.
    used_rests: bool,
    /// Calls catch up after a stall, and their packets go first.
    yields: bool,
    /// When they had caught up.
    yielded: Option<Time>,
    /// The receiver knows that acknowledgements may wait for a packet that is expected.
    acks_wait: bool,
    /// When the last packet left, by any way: the receiver sees the packets of all ways.
    last_left: Time,
    drain: Drain,
    queue: Queue,
    base: u64,
    entries: VecDeque<Entry>,
    lost: VecDeque<u64>,
    /// The number of packets that were given up because they could not arrive in time.
    overdue: u32,
    /// The packet that leaves next, if it was chosen already.
    chosen: Option<u64>,
    /// The average bytes of a packet.
    packet_bytes: f64,
    /// The receiver takes only numbers below this.
    limit: u64,
    /// The ranges of the last acknowledgement above its `next`, from the highest down.
    told: Vec<(u64, u64)>,
    /// A list that is kept to reuse its memory.
    told_before: Vec<(u64, u64)>,
    told_end: u64,
    /// The rate that the receiver measured last.
    receive_rate_bps: Option<u64>,
    /// The number of packets that the receiver got more than once, as it reported last.
    repeated: Option<u16>,
    /// The most flows at once in this half second, and in the one before.
    flows: [usize; 2],
    flows_since: Time,
    last_used: Time,
    /// When a packet was last acknowledged, or came to an empty queue.
    progress: Time,
    /// Whether packets wait that are due, and since when without a pause.
    is_busy: bool,
    busy_since: Time,
    /// When to try again, because there was no buffer to send from.
    again_at: Option<Time>,
    /// The receiver must not wait for numbers below this; and whether the sender has to tell it so.
    skip_to: Option<u64>,
    skip_due: bool,
    settings: Settings,
    stats: SenderStats,
}

impl Sender {
    /// Creates an empty lane.
    pub fn new(settings: Settings) -> Sender {
        Sender {
            ways: vec![Way::new(settings)],
            used: 0,
            used_rests: false,
            yields: false,
            yielded: None,
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

    /// Sets, for each path by its number, the round trip from which on calls beside this lane wait in a queue. None for
    /// a path without calls.
    ///
    /// Slow start then ends when the queue begins, not when the queue overflows. After an outage, the data of a stream
    /// may arrive a little later and is still of use; the speech of a call is not. This works like HyStart++ [RFC
    /// 9406], with the round trips from before the outage.
    pub fn spare_calls(&mut self, queues_from: [Option<Duration>; WAYS_MAX]) {
        for (way, queue_from) in self.ways.iter_mut().zip(queues_from) {
            way.own_queue.set_from(queue_from);
        }
    }

    /// Sets whether calls beside this lane catch up after a stall, or have caught up a moment ago. Then the queue in
    /// front of a bottleneck consists of their packets. Until these have left, the lane adds hardly anything to it by
    /// the path in use.
    pub(crate) fn set_yields(&mut self, now: Time, yields: bool) {
        if self.yields && !yields {
            self.yielded = Some(now);
        }
        self.yields = yields;
    }

    /// Takes in what the receiver says about the other direction: whether acknowledgements may wait there at present.
    pub(super) fn on_peer(&mut self, lets_wait: bool) {
        self.acks_wait |= lets_wait;
    }

    /// Whether acknowledgements may wait for a packet that is expected. They may if the windows do not hold that packet
    /// back until the acknowledgements come.
    pub(crate) fn lets_wait(&self) -> bool {
        let told = self.limit.saturating_sub(self.base);
        let mut ways = self.ways.iter().enumerate();
        // A lane that yields has a smaller window.
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

    /// Returns the bytes of a packet that is not acknowledged.
    fn held(&self, seq: u64) -> Option<&Vec<u8>> {
        self.entry(seq)?.packet.as_ref().map(|packet| &packet.bytes)
    }

    /// Returns the number of packets that wait for the window.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Returns the bytes of the packets that wait.
    pub fn queued_bytes(&self) -> usize {
        self.queue.bytes()
    }

    /// Returns the number of packets that are in flight.
    pub fn in_flight(&self) -> usize {
        self.ways.iter().map(|way| way.in_flight).sum()
    }

    /// Whether no packet waits and none is on its way.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.entries.is_empty()
    }

    /// Returns the number of packets that may be in flight, on all open ways together.
    pub fn congestion_window(&self) -> f64 {
        let ways = self.ways.iter().enumerate();
        let counts = ways.filter(|(at, way)| *at == self.used || way.is_open);
        counts.map(|(_, way)| way.controls.window()).sum()
    }

    /// Returns the rule for the window.
    pub fn family(&self) -> congestion::Family {
        self.settings.family
    }

    /// Returns the number of flows that the window stands for.
    pub fn flows(&self) -> usize {
        self.ways[self.used].controls.flows()
    }

    /// Returns the round trip of the path in use, with the delay of the network's queues.
    pub fn rtt(&self) -> &Rtt {
        &self.ways[self.used].rtt
    }

    /// Returns the counters.
    pub fn stats(&self) -> SenderStats {
        self.stats
    }
}
