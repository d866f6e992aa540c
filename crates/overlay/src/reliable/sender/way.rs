//! The state of a lane for one path of its link: window, pace, round trip, and the packets in flight on it.
//!
//! ```text
//!              ┌─ way 0, the path in use   window, pace, round trip, order of transmissions ─▶
//!   queue ─────┤
//!              └─ way 1, a spare           the same of its own ─▶   only packets that others of their flow wait behind
//! ```
//! Each way has a window of its own. So each carries as much as its path can, and the shares come out in proportion
//! without any counting. Only later transmissions of the same way can show a loss: a longer path does not count as a
//! loss.

use super::super::controls::Controls;
use super::super::own_queue::OwnQueue;
use super::super::pacer::Pacer;
use super::super::{ACK_DELAY, Settings, WINDOW_MAX};
use crate::estimate::Rtt;
use base::{Duration, Time};
use congestion::delivery::Sampler;
use std::collections::VecDeque;

/// The most ways of one lane: the number of paths that its link can have.
pub(crate) const WAYS_MAX: usize = crate::link::MAX_PATHS;

/// The least time by which a transmission may be overtaken, because of bursts, timers and threads.
const REORDER_MIN: Duration = Duration::from_micros(500);
/// The least quarter of a round trip, so that the lane stops counting places on the shortest paths, too.
const QUARTER_LEAST: Duration = Duration::from_micros(1);
/// The most quarters of a round trip by which packets may be overtaken.
const REORDER_QUARTERS_MAX: u64 = 6;

/// A path that packets may take at present, with what is known about it before the lane has measured it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Open {
    /// The number of the path.
    pub(crate) way: u8,
    /// Its round trip; zero if it is not known.
    pub(crate) rtt: Duration,
    /// The longest packet that it carries, without the link's headers and tag.
    pub(crate) packet_bytes: usize,
}

#[derive(Debug)]
pub(super) struct Way {
    pub(super) controls: Controls,
    pub(super) sampler: Sampler,
    pub(super) pacer: Pacer,
    pub(super) rtt: Rtt,
    /// The queue in which calls beside this lane wait.
    pub(super) own_queue: OwnQueue,
    /// The transmissions that may still be outstanding, as (order, number).
    pub(super) sent: VecDeque<(u64, u64)>,
    pub(super) in_flight: usize,
    pub(super) next_order: u64,
    /// The latest transmission that has arrived, and when it was sent.
    pub(super) highest: Option<(u64, Time)>,
    /// When the next transmission counts as lost if nothing comes, and when the probe or the timeout is due.
    pub(super) reorder_at: Option<Time>,
    pub(super) timeout_at: Option<Time>,
    pub(super) probes: u8,
    pub(super) backoff: u32,
    /// The first packet that was not acknowledged at the last timeout.
    pub(super) expired: Option<u64>,
    /// The packets in state `Expired` expired at a timeout, and not because the link was down.
    pub(super) has_timed_out: bool,
    /// After a timeout: the number of new packets that leave before those that the timeout took for lost. If one of the
    /// latter arrives without having been sent again, the timeout was wrong.
    pub(super) new_first: Option<u8>,
    /// One packet may be sent regardless of the window.
    pub(super) grant: bool,
    /// A timeout has passed that [`Sender::take_timeout`](super::Sender::take_timeout) has not reported yet.
    pub(super) is_overdue: bool,
    /// The window held packets back lately.
    pub(super) is_limited: bool,
    /// By how much longer than a quarter of the least round trip packets may be overtaken, and the number of cuts since
    /// this last proved too small. Choice: a time and not a number of round trips, because a path that has become longer
    /// does not reorder by more.
    pub(super) overtaken: Duration,
    pub(super) cuts_right: u32,
    pub(super) last_sent: Time,
    /// How long the acknowledgement of its last packet may wait for the next packet.
    pub(super) ack_wait: Duration,
    /// When the pace lets the next packet leave.
    pub(super) pace_at: Option<Time>,
    /// Whether packets may take this way, and the longest that may.
    pub(super) is_open: bool,
    pub(super) packet_bytes: usize,
}

impl Way {
    pub(super) fn new(settings: Settings) -> Way {
        Way {
            controls: Controls::new(settings, 0),
            sampler: Sampler::default(),
            pacer: Pacer::default(),
            rtt: Rtt::default(),
            own_queue: OwnQueue::default(),
            sent: VecDeque::new(),
            in_flight: 0,
            next_order: 0,
            highest: None,
            reorder_at: None,
            timeout_at: None,
            probes: 0,
            backoff: 0,
            expired: None,
            has_timed_out: false,
            new_first: None,
            grant: false,
            is_overdue: false,
            is_limited: false,
            overtaken: Duration::ZERO,
            cuts_right: 0,
            last_sent: Time::ZERO,
            ack_wait: ACK_DELAY,
            pace_at: None,
            is_open: false,
            packet_bytes: usize::MAX,
        }
    }

    /// Returns the window in packets if the lane's packets have `packet_bytes` on average. A flow of small packets may
    /// have as many bytes in flight as a flow of large ones, as long as it sends no more than a hundred packets a
    /// second [RFC 4828 §4]. Otherwise a path that gives a bulk stream two megabits per second would give a stream of
    /// speech too little. This does not lengthen a queue in which calls beside the lane wait.
    pub(super) fn wide_window(&self, packet_bytes: f64) -> f64 {
        let window = self.controls.window();
        let of_bytes = window * (super::SEGMENT_BYTES / packet_bytes).max(1.0);
        let rtt = self.rtt.smoothed().unwrap_or_default();
        let rtt = self.own_queue.without(rtt);
        let of_thin = super::THIN_PACKETS_PER_S * rtt.as_secs_f64() * self.controls.flows() as f64;
        window.max(of_bytes.min(of_thin))
    }

    pub(super) fn window(&self, packet_bytes: f64) -> usize {
        (self.wide_window(packet_bytes) as usize).clamp(1, WINDOW_MAX)
    }

    /// Returns by how many steps the window of a lane that has yielded until then may have grown since: one per round trip
    /// of a short path, and as often on a long one.
    pub(super) fn steps(&self, now: Time, since: Time) -> usize {
        let parts = self.yielding_parts() as u64;
        let rtt = self.rtt.present().unwrap_or_default();
        let each = rtt.div(parts).max(Duration::from_millis(1));
        (now.since(since).as_micros() / each.as_micros()) as usize
    }

    fn yielding_parts(&self) -> usize {
        // A queue makes round trips longer, and must not let more be added to it.
        let rtt = self.rtt.least().unwrap_or_default();
        ((rtt.as_micros() / super::YIELDING_EVERY.as_micros()) as usize).max(1)
    }

    /// Returns the window in packets while the lane yields to calls that catch up, or so many steps later.
    pub(super) fn yielding_window(&self, steps: usize) -> usize {
        super::YIELDING * self.yielding_parts() * (1 + steps)
    }

    /// Takes a first estimate of the round trip, measured elsewhere.
    pub(super) fn seed_rtt(&mut self, now: Time, rtt: Duration) {
        if self.rtt.samples() == 0 && rtt > Duration::ZERO {
            self.rtt.on_sample(now, rtt);
        }
    }

    /// Begins anew with the window of a new connection, because earlier losses say nothing about what the path carries
    /// now.
    pub(super) fn begin_anew(&mut self, settings: Settings) {
        self.begin_controls(settings);
        self.backoff = 0;
        self.probes = 0;
        (self.has_timed_out, self.new_first) = (false, None);
        self.timeout_at = None;
    }

    /// Treats the path as a new one, for so many flows: no earlier measurement says what it carries. Only the order of
    /// transmissions and the packets in flight stay. Earlier transmissions may still be acknowledged, even after they
    /// were taken for lost. If the order began anew, they would seem to have overtaken everything that leaves next.
    pub(super) fn renew(&mut self, settings: Settings, flows: usize) {
        let mut fresh = Way {
            sent: core::mem::take(&mut self.sent),
            in_flight: self.in_flight,
            next_order: self.next_order,
            sampler: core::mem::take(&mut self.sampler),
            ..Way::new(settings)
        };
        fresh.controls = Controls::new(settings, fresh.next_order);
        fresh.controls.set_flows(flows, fresh.next_order);
        *self = fresh;
    }

    /// Creates new controls for the same number of flows. Packets already in flight say nothing about the new windows,
    /// and their loss cuts none.
    pub(super) fn begin_controls(&mut self, settings: Settings) {
        let flows = self.controls.flows();
        self.controls = Controls::new(settings, self.next_order);
        self.controls.set_flows(flows, self.next_order);
    }

    /// Takes note that no packet is in flight on this way any more.
    pub(super) fn clear(&mut self) {
        self.sent.clear();
        self.in_flight = 0;
        self.reorder_at = None;
        self.timeout_at = None;
        (self.has_timed_out, self.new_first) = (false, None);
        self.grant = false;
    }

    /// Allows one more quarter of a round trip, because packets turned out to be overtaken by more than assumed.
    pub(super) fn is_too_hasty(&mut self) {
        let quarter = self.quarter();
        let most = (quarter * REORDER_QUARTERS_MAX).max(self.overtaken);
        self.overtaken = (self.overtaken + quarter).min(most);
        self.cuts_right = 0;
    }

    /// Allows a quarter of a round trip less.
    pub(super) fn is_too_patient(&mut self) {
        // A path may have become much shorter.
        let less = self.quarter().max(self.overtaken.div(REORDER_QUARTERS_MAX));
        self.overtaken = self.overtaken.saturating_sub(less);
        self.cuts_right = 0;
    }

    /// Choice: RFC 8985 takes quarters of the least round trip, which says little if delays vary by many times that.
    fn quarter(&self) -> Duration {
        let usual = self.rtt.smoothed().unwrap_or_default();
        usual.div(4).max(QUARTER_LEAST)
    }

    /// Returns how much later a transmission may arrive than one that left after it.
    pub(super) fn reorder(&self) -> Duration {
        let least = self.rtt.least().unwrap_or_default();
        let usual = self.rtt.smoothed().unwrap_or_default();
        let most = usual.max(self.rtt.deviation() * 4);
        (least.div(4) + self.overtaken.min(most)).max(REORDER_MIN)
    }
}
