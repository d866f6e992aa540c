//! The rate of a lane while it is held back: what is known about the reason, and which packets it admits.
//!
//! A bucket fills at the rate, and holds a burst. The higher the priority of a packet, the more of the bucket it may
//! use.

use super::answer::Cut;
use base::{Duration, Time};

/// The capacity of the bucket: a burst of this time at the rate, but never less than [`BURST_PACKETS`] packets.
const BURST: Duration = Duration::from_millis(100);
const BURST_PACKETS: f64 = 4.0;
/// The share of the drain rate that the lane sends again; the rest empties the queue.
pub(super) const DRAINING: f64 = 0.95;
/// The maximum length of a modelled queue. Choice: a second of excess traffic proves more than enough.
const MODELLED_MOST: Duration = Duration::from_secs(1);
/// Number of priorities, 0 the lowest. Packets of the highest may empty the bucket, those of the next one leave an
/// eighth, and so on.
const PRIORITIES: f64 = 8.0;

/// A rate limit that holds at present.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    pub(super) rate_bps: f64,
    level_bytes: f64,
    filled: Time,
    /// When the limit began.
    pub(super) began: Time,
    /// When the rate fell last.
    pub(super) fell: Time,
    /// The drain rate of the queue when it grew, and the part of it that was not the lane's.
    pub(super) leaves: Option<(f64, f64)>,
    /// The first estimate of the drain rate.
    pub(super) first_bps: f64,
    /// By how much round trips varied when the limit began.
    pub(super) jitter: Duration,
    /// Losses until this time belong to packets that were sent before the rate fell.
    pub(super) deaf_until: Time,
    /// A queue has stood since the rate fell.
    pub(super) has_stood: bool,
    /// The queue has reacted to the lower rate.
    pub(super) is_proved: bool,
    /// The losses for which the rate fell, while it is not known whether they react.
    pub(super) cut: Option<Cut>,
    /// From this time on the lane may test again whether losses react.
    pub(super) asks_from: Time,
    /// A time, and the length at that time of the queue that the lane's packets would make if the drain rate were not
    /// higher than known.
    modelled: (Time, Duration),
    /// The state before the last higher drain rate was found.
    pub(super) raised: Option<Raised>,
    /// Number of answers in a row that show no higher drain rate.
    pub(super) denied: u32,
    /// Number of answers in a row that show a higher drain rate.
    pub(super) found: u32,
}

/// The state of a queue before a higher drain rate was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raised {
    /// When the higher drain rate was found.
    pub(super) at: Time,
    leaves: (f64, f64),
    pub(super) first_bps: f64,
}

impl Limit {
    pub(super) fn new(now: Time, rate_bps: f64, jitter: Duration) -> Limit {
        Limit {
            rate_bps,
            // The bucket is full: its capacity depends on the rate.
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

    /// Returns how long a packet that is sent now would wait behind the lane's packets if the drain rate were not
    /// higher than known.
    pub(super) fn modelled(&self, now: Time) -> Duration {
        let (at, length) = self.modelled;
        length.saturating_sub(now.since(at))
    }

    /// Records that the lane sends a packet.
    pub(super) fn on_sent(&mut self, now: Time, bytes: usize) {
        let length = self.modelled(now) + self.takes(bytes);
        self.modelled = (now, length.min(MODELLED_MOST));
    }

    /// Returns how long a packet takes to leave, as far as it is known.
    pub(super) fn takes(&self, bytes: usize) -> Duration {
        let (leaves_bps, _) = self.leaves.unwrap_or((f64::MAX, 0.0));
        Duration::from_secs_f64(bytes as f64 * 8.0 / leaves_bps.max(1.0))
    }

    /// Returns the rate that the lane may send without making a queue, as far as it is known.
    pub(super) fn known_bps(&self) -> Option<f64> {
        let (leaves, others) = self.leaves?;
        Some((leaves - others).max(0.0) * DRAINING)
    }

    /// Records a higher drain rate.
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

    /// Ends a try that made a queue: withdraws the drain rate that was found last and is not confirmed.
    pub(super) fn lower(&mut self) {
        (self.denied, self.found) = (0, 0);
        if let Some(before) = self.raised.take() {
            (self.leaves, self.first_bps) = (Some(before.leaves), before.first_bps);
        }
    }

    /// Returns whether a packet fits into the share of `left_bps`.
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
        // Half of the bucket is shared by all flows, in the order of priority.
        let left = full * 0.5 * above / PRIORITIES;
        if self.level_bytes < bytes + left {
            return false;
        }
        self.level_bytes -= bytes;
        true
    }
}
