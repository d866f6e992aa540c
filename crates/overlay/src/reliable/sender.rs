//! The sender's side of a reliable lane: numbers, copies, what is lost, and when to send.
//!
//! ```text
//!   entries   base                                        next
//!             | sent | acked | lost | sent | sent | sent |
//!   sent      5  6  9  10  11 ...     transmissions in the order in which they left
//!   lost      to be sent again, in the order in which they were found
//! ```
//!
//! A transmission is lost when one that left later has arrived and it is three places or a
//! quarter of a round trip behind [RFC 8985]. Since retransmissions take a new place in the order,
//! their losses are found by the same rule. Once reordering has been seen places count no more, and
//! the time that is allowed grows.

mod acknowledge;
mod depart;
mod troubles;

use super::controls::Controls;
use super::drain::Drain;
use super::own_queue::OwnQueue;
use super::pacer::Pacer;
use super::queue::{Packet, Queue};
use super::{Settings, WINDOW_MAX};
use crate::estimate::Rtt;
use base::{Duration, NodeAddr, Time};
use congestion::delivery::{Sampler, Stamp};
use std::collections::VecDeque;

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

#[derive(Debug)]
struct Entry {
    /// The copy, until it is acknowledged.
    packet: Option<Packet>,
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
    controls: Controls,
    sampler: Sampler,
    pacer: Pacer,
    drain: Drain,
    rtt: Rtt,
    queue: Queue,
    base: u64,
    entries: VecDeque<Entry>,
    /// (order, number) of transmissions that may still be outstanding.
    sent: VecDeque<(u64, u64)>,
    lost: VecDeque<u64>,
    /// Packets that were given up because they could not be in time: to where, and whether they were own ones.
    overdue: Vec<(NodeAddr, bool)>,
    /// What leaves next, once it was looked at.
    chosen: Option<u64>,
    in_flight: usize,
    /// Bytes of a packet, averaged.
    packet_bytes: f64,
    next_order: u64,
    /// The latest transmission that has arrived, and when it was sent.
    highest: Option<(u64, Time)>,
    /// The queue in which calls beside this lane wait.
    own_queue: OwnQueue,
    /// The receiver takes numbers below this.
    limit: u64,
    /// What the last acknowledgement told above its `next`, from the highest down.
    told: Vec<(u64, u64)>,
    /// Kept for its memory.
    told_before: Vec<(u64, u64)>,
    told_end: u64,
    /// When the next transmission is lost if nothing comes, and when the timeout is.
    reorder_at: Option<Time>,
    timeout_at: Option<Time>,
    probes: u8,
    backoff: u32,
    /// The first packet that was not acknowledged at the last timeout.
    expired: Option<u64>,
    /// What was taken for lost was so at a timeout, and not because the link was gone.
    has_timed_out: bool,
    /// After a timeout: so many packets go that are new, before those that it took for lost. If the next that comes is
    /// one of these, the timeout was none.
    new_first: Option<u8>,
    /// As the receiver measured it last.
    receive_rate_bps: Option<u64>,
    /// One packet may be sent whatever the window.
    grant: bool,
    /// The window kept packets back lately.
    is_limited: bool,
    /// By how many quarters of a round trip packets may be overtaken, and the cuts since that was too few.
    reorder_quarters: u64,
    cuts_right: u32,
    /// Packets that the receiver has had more than once, as it told last.
    repeated: Option<u16>,
    /// The most flows at once in this half second, and in the one before.
    flows: [usize; 2],
    flows_since: Time,
    last_sent: Time,
    last_used: Time,
    /// When something was acknowledged, or came to an empty queue.
    progress: Time,
    /// Since when packets wait without a pause.
    busy_since: Time,
    /// The pace lets the next packet leave then.
    pace_at: Option<Time>,
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
            controls: Controls::new(settings),
            sampler: Sampler::default(),
            pacer: Pacer::default(),
            drain: Drain::default(),
            rtt: Rtt::default(),
            queue: Queue::default(),
            base: 0,
            entries: VecDeque::new(),
            sent: VecDeque::new(),
            lost: VecDeque::new(),
            overdue: Vec::new(),
            chosen: None,
            in_flight: 0,
            packet_bytes: SEGMENT_BYTES,
            next_order: 0,
            highest: None,
            own_queue: OwnQueue::default(),
            limit: WINDOW_MAX as u64,
            told: Vec::new(),
            told_before: Vec::new(),
            told_end: 0,
            reorder_at: None,
            timeout_at: None,
            probes: 0,
            backoff: 0,
            expired: None,
            has_timed_out: false,
            new_first: None,
            receive_rate_bps: None,
            grant: false,
            is_limited: false,
            reorder_quarters: 0,
            cuts_right: 0,
            repeated: None,
            flows: [0; 2],
            flows_since: Time::ZERO,
            last_sent: Time::ZERO,
            last_used: Time::ZERO,
            progress: Time::ZERO,
            busy_since: Time::ZERO,
            pace_at: None,
            skip_to: None,
            skip_due: false,
            settings,
            stats: SenderStats::default(),
        }
    }

    fn window(&self) -> usize {
        (self.wide_window() as usize).clamp(1, WINDOW_MAX)
    }

    /// The window in packets. A flow of small ones may have as many bytes on the way as one of large ones, as
    /// long as it sends no more than a hundred a second [RFC 4828 §4]: or a path on which a bulk stream has two
    /// megabits per second leaves a stream of speech too little. A queue in which calls beside it wait is not made longer
    /// for that.
    fn wide_window(&self) -> f64 {
        let window = self.controls.window();
        let of_bytes = window * (SEGMENT_BYTES / self.packet_bytes).max(1.0);
        let rtt = self.rtt.smoothed().unwrap_or_default();
        let rtt = self.own_queue.without(rtt);
        let of_thin = THIN_PACKETS_PER_S * rtt.as_secs_f64() * self.controls.flows() as f64;
        window.max(of_bytes.min(of_thin))
    }

    /// Calls go over the link beside this lane: round trips from here on tell of a queue that they wait in. None where
    /// none go.
    ///
    /// A slow start ends at the queue then, not where the queue overflows: what a stream makes up for after an outage is
    /// in time a little later as well, what a call says meanwhile is not. As HyStart++ does [RFC 9406], with the
    /// round trips of before the outage.
    pub fn spare_calls(&mut self, queue_from: Option<Duration>) {
        self.own_queue.set_from(queue_from);
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
        self.in_flight
    }

    /// Nothing waits and nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.entries.is_empty()
    }

    /// Packets that may be in flight.
    pub fn congestion_window(&self) -> f64 {
        self.controls.window()
    }

    /// The rule for the window.
    pub fn family(&self) -> congestion::Family {
        self.settings.family
    }

    /// Flows that the window stands for.
    pub fn flows(&self) -> usize {
        self.controls.flows()
    }

    /// The round trip, with what the network's queues add.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// The counters.
    pub fn stats(&self) -> SenderStats {
        self.stats
    }
}
