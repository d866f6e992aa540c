//! The rate of a lane while it is held back: what it is known to be for, and what it admits.
//!
//! A bucket fills at the rate, and holds a burst. The higher the priority, the more of it a packet may take.

use super::answer::Cut;
use base::{Duration, Time};

/// What the bucket holds: a burst of so much time at the rate, but never less than
/// [`BURST_PACKETS`] packets.
const BURST: Duration = Duration::from_millis(100);
const BURST_PACKETS: f64 = 4.0;
/// The share of what leaves a queue that the lane gives it again: the rest empties it.
pub(super) const DRAINING: f64 = 0.95;
/// The longest that a queue is modelled. Choice: a second of what was sent too much proves more than enough.
const MODELLED_MOST: Duration = Duration::from_secs(1);
/// Priorities, 0 the lowest. The highest may empty the bucket; one below leaves an eighth, ...
const PRIORITIES: f64 = 8.0;

/// A rate that holds at present.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    pub(super) rate_bps: f64,
    level_bytes: f64,
    filled: Time,
    /// Since when there is one.
    pub(super) began: Time,
    /// When it fell last.
    pub(super) fell: Time,
    /// What left the queue when it grew, and what of that was not the lane's.
    pub(super) leaves: Option<(f64, f64)>,
    /// The first of what was thought to leave it.
    pub(super) first_bps: f64,
    /// By how much round trips differed when it began.
    pub(super) jitter: Duration,
    /// Losses until then are of what was sent before it fell.
    pub(super) deaf_until: Time,
    /// A queue has stood since it fell.
    pub(super) has_stood: bool,
    /// The queue has answered to what it fell to.
    pub(super) is_proved: bool,
    /// The losses that it fell for, while it is not known whether they answer.
    pub(super) cut: Option<Cut>,
    /// From then on they may be asked for one.
    pub(super) asks_from: Time,
    /// A queue as the lane's packets would make it if no more left than is known, and when it was that long.
    modelled: (Time, Duration),
    /// What was known before more was found last.
    pub(super) raised: Option<Raised>,
    /// Answers in a row by which nothing more leaves.
    pub(super) denied: u32,
    /// Answers in a row by which more leaves.
    pub(super) found: u32,
}

/// What was known of a queue before more was found to leave it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raised {
    /// When more was found.
    pub(super) at: Time,
    leaves: (f64, f64),
    pub(super) first_bps: f64,
}

impl Limit {
    pub(super) fn new(now: Time, rate_bps: f64, jitter: Duration) -> Limit {
        Limit {
            rate_bps,
            // Full: what a full bucket is depends on the rate.
            level_bytes: f64::MAX,
            filled: now,
            began: now,
            fell: now,
            leaves: None,
            first_bps: 0.0,
            jitter,
            deaf_until: now,
            has_stood: false,
            is_proved: false,
            cut: None,
            asks_from: now,
            modelled: (now, Duration::ZERO),
            raised: None,
            denied: 0,
            found: 0,
        }
    }

    /// How long a packet that is sent now would wait behind the lane's if no more left than is known.
    pub(super) fn modelled(&self, now: Time) -> Duration {
        let (at, length) = self.modelled;
        length.saturating_sub(now.since(at))
    }

    /// The lane sends a packet.
    pub(super) fn on_sent(&mut self, now: Time, bytes: usize) {
        let length = self.modelled(now) + self.takes(bytes);
        self.modelled = (now, length.min(MODELLED_MOST));
    }

    /// How long a packet takes to leave, as far as it is known.
    pub(super) fn takes(&self, bytes: usize) -> Duration {
        let (leaves_bps, _) = self.leaves.unwrap_or((f64::MAX, 0.0));
        Duration::from_secs_f64(bytes as f64 * 8.0 / leaves_bps.max(1.0))
    }

    /// What the lane may give without making a queue, as far as it is known.
    pub(super) fn known_bps(&self) -> Option<f64> {
        let (leaves, others) = self.leaves?;
        Some((leaves - others).max(0.0) * DRAINING)
    }

    /// More leaves than was known.
    pub(super) fn raise(&mut self, now: Time, known: (f64, f64), leaves_bps: f64) {
        self.raised = Some(Raised {
            at: now,
            leaves: known,
            first_bps: self.first_bps,
        });
        self.leaves = Some((leaves_bps, known.1));
        self.first_bps = leaves_bps;
        self.rate_bps = self.rate_bps.max(self.known_bps().unwrap_or(0.0));
    }

    /// A try has ended at a queue: what was found last has not been seen to leave.
    pub(super) fn lower(&mut self) {
        (self.denied, self.found) = (0, 0);
        if let Some(before) = self.raised.take() {
            (self.leaves, self.first_bps) = (Some(before.leaves), before.first_bps);
        }
    }

    /// Whether a packet has its share of `left_bps`.
    pub(super) fn admits(
        &mut self,
        now: Time,
        bytes: f64,
        priority: u8,
        packet_bytes: f64,
        left_bps: f64,
    ) -> bool {
        let full = (left_bps / 8.0 * BURST.as_secs_f64()).max(BURST_PACKETS * packet_bytes);
        let gained = left_bps / 8.0 * now.since(self.filled).as_secs_f64();
        self.level_bytes = (self.level_bytes + gained).min(full);
        self.filled = now;
        let above = PRIORITIES - 1.0 - f64::from(priority).min(PRIORITIES - 1.0);
        // Half of the bucket is everybody's to fight for, in the order of priority.
        let left = full * 0.5 * above / PRIORITIES;
        if self.level_bytes < bytes + left {
            return false;
        }
        self.level_bytes -= bytes;
        true
    }
}
