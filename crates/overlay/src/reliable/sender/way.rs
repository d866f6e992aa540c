//! What a lane knows of one path of its link: its window and pace, its round trip, and what is in flight on it.
//!
//! ```text
//!              ┌─ way 0, the path in use   window, pace, round trip, order of transmissions ─▶
//!   queue ─────┤
//!              └─ way 1, a spare           the same of its own ─▶   only packets that others of their flow wait behind
//! ```
//! Each way has a window of its own, so each carries what its path does, and the shares are in proportion without anybody
//! counting. Transmissions are overtaken by those of their own way alone: that a path is longer is no loss.

use super::super::controls::Controls;
use super::super::own_queue::OwnQueue;
use super::super::pacer::Pacer;
use super::super::{ACK_DELAY, Settings, WINDOW_MAX};
use crate::estimate::Rtt;
use base::{Duration, Time};
use congestion::delivery::Sampler;
use std::collections::VecDeque;

/// Ways of one lane: the paths that its link can have.
pub(crate) const WAYS_MAX: usize = crate::link::MAX_PATHS;

/// What a packet may take at present, and what is known of it before the lane has measured it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Open {
    /// The number of the path.
    pub(crate) way: u8,
    /// Its round trip, zero if it is not known.
    pub(crate) rtt: Duration,
    /// The longest packet that it carries, headers and tag of the link apart.
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
    /// (order, number) of transmissions that may still be outstanding.
    pub(super) sent: VecDeque<(u64, u64)>,
    pub(super) in_flight: usize,
    pub(super) next_order: u64,
    /// The latest transmission that has arrived, and when it was sent.
    pub(super) highest: Option<(u64, Time)>,
    /// When the next transmission is lost if nothing comes, and when the timeout is.
    pub(super) reorder_at: Option<Time>,
    pub(super) timeout_at: Option<Time>,
    pub(super) probes: u8,
    pub(super) backoff: u32,
    /// The first packet that was not acknowledged at the last timeout.
    pub(super) expired: Option<u64>,
    /// What was taken for lost was so at a timeout, and not because the link was gone.
    pub(super) has_timed_out: bool,
    /// After a timeout: so many packets go that are new, before those that it took for lost. If the next that comes is
    /// one of these, the timeout was none.
    pub(super) new_first: Option<u8>,
    /// One packet may be sent whatever the window.
    pub(super) grant: bool,
    /// A timeout has passed that nobody was told of.
    pub(super) is_overdue: bool,
    /// The window kept packets back lately.
    pub(super) is_limited: bool,
    /// By how many quarters of a round trip packets may be overtaken, and the cuts since that was too few.
    pub(super) reorder_quarters: u64,
    pub(super) cuts_right: u32,
    pub(super) last_sent: Time,
    /// Its acknowledgement may wait so long for the next packet.
    pub(super) ack_wait: Duration,
    /// The pace lets the next packet leave then.
    pub(super) pace_at: Option<Time>,
    /// Packets may take it, so long ones.
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
            reorder_quarters: 0,
            cuts_right: 0,
            last_sent: Time::ZERO,
            ack_wait: ACK_DELAY,
            pace_at: None,
            is_open: false,
            packet_bytes: usize::MAX,
        }
    }

    /// The window in packets, where those of the lane have so many bytes. A flow of small ones may have as many bytes on
    /// the way as one of large ones, as long as it sends no more than a hundred a second [RFC 4828 §4]: or a path on which
    /// a bulk stream has two megabits per second leaves a stream of speech too little. A queue in which calls beside it
    /// wait is not made longer for that.
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

    /// A first guess of the round trip, of who has measured it otherwise.
    pub(super) fn seed_rtt(&mut self, now: Time, rtt: Duration) {
        if self.rtt.samples() == 0 && rtt > Duration::ZERO {
            self.rtt.on_sample(now, rtt);
        }
    }

    /// Losses of before say nothing of what the path carries now: the window begins anew, as that of a new connection.
    pub(super) fn begin_anew(&mut self, settings: Settings) {
        self.begin_controls(settings);
        self.backoff = 0;
        self.probes = 0;
        (self.has_timed_out, self.new_first) = (false, None);
        self.timeout_at = None;
    }

    /// The path is as good as another one, for so many flows: nothing of before says what it carries. What goes on is the
    /// order of transmissions, and what is in flight. Those of before may be acknowledged still, even after they were
    /// taken for lost; where the order began anew, all that leaves next would look overtaken by them.
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

    /// For the flows of before. What was in flight then says nothing of the new windows, and cuts none.
    pub(super) fn begin_controls(&mut self, settings: Settings) {
        let flows = self.controls.flows();
        self.controls = Controls::new(settings, self.next_order);
        self.controls.set_flows(flows, self.next_order);
    }

    /// Nothing of it is in flight any more.
    pub(super) fn clear(&mut self) {
        self.sent.clear();
        self.in_flight = 0;
        self.reorder_at = None;
        self.timeout_at = None;
        (self.has_timed_out, self.new_first) = (false, None);
        self.grant = false;
    }

    /// Quarters of a round trip by which it turned out that packets are overtaken: one more.
    pub(super) fn is_too_hasty(&mut self, most: u64) {
        let quarters = self.reorder_quarters + 1;
        self.reorder_quarters = quarters.min(most);
        self.cuts_right = 0;
    }
}
