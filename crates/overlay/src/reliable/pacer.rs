//! When the next packet may leave: a window that opens does not leave at line rate.
//!
//! The pace is window / round trip, a quarter more so that the window and not the pace decides, and
//! twice that in slow start, as kernels have it; a control that goes by a model says itself how fast. What was not used for a moment is kept as credit,
//! so packets leave in small bursts, which is what the layers below like best.

use base::{Duration, Time};

/// Credit that is kept: what timers are late, and what makes a burst. 2 Gbit/s are 178 packets of
/// 1400 bytes in it.
const CREDIT: Duration = Duration::from_millis(1);
/// So many packets may always leave at once.
const BURST_MIN: u64 = 4;
/// The shortest wait for the pace: timers that fire for each packet cost more than they spread.
const GRANULE: Duration = Duration::from_micros(250);

/// The pace of one lane.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pacer {
    /// When the next packet is due; it may leave earlier by the credit.
    due: Time,
    interval: Duration,
}

impl Pacer {
    /// The pace for `window` packets per round trip.
    pub(super) fn set(&mut self, window: f64, rtt: Duration, is_slow_start: bool) {
        let gain = if is_slow_start { 2.0 } else { 1.25 };
        self.interval = rtt.mul_f64(1.0 / (gain * window.max(1.0)));
    }

    /// The pace for so many packets per second.
    pub(super) fn set_rate(&mut self, packets_per_s: f64) {
        self.interval = Duration::from_secs_f64(1.0 / packets_per_s.max(1.0));
    }

    /// Packets per second; none before the first round trip is known.
    pub(super) fn rate(&self) -> f64 {
        match self.interval {
            Duration::ZERO => 0.0,
            interval => 1.0 / interval.as_secs_f64(),
        }
    }

    fn credit(&self) -> Duration {
        CREDIT.max(self.interval * (BURST_MIN - 1))
    }

    /// A packet may leave now.
    pub(super) fn allows(&self, now: Time) -> bool {
        self.due <= now
    }

    /// When the next one may.
    pub(super) fn next(&self, now: Time) -> Time {
        self.due.max(now + GRANULE)
    }

    /// A packet has left.
    pub(super) fn on_sent(&mut self, now: Time) {
        self.due = self.due.max(now - self.credit()) + self.interval;
    }
}
