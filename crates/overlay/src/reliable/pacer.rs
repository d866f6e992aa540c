//! The pacer decides when the next packet may leave, so that a window that opens is not sent at line rate.
//!
//! The pace is window / round trip, plus a quarter, so that the window and not the pace is the limit. In slow start it
//! is twice window / round trip, as in kernels. A control with a model of the path gives the rate itself. Pace that was
//! not used for a moment is kept as credit, so packets leave in small bursts, which the layers below handle most
//! efficiently.

use base::{Duration, Time};

/// The credit that is kept: it covers the lateness of timers and makes a burst. At 2 Gbit/s it is 178 packets of 1400
/// bytes.
const CREDIT: Duration = Duration::from_millis(1);
/// The number of packets that may always leave at once.
const BURST_MIN: u64 = 4;
/// The shortest wait for the pace: timers that fire for each packet cost more than their smoothing is worth.
const GRANULE: Duration = Duration::from_micros(250);

/// The pace of one lane.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pacer {
    /// When the next packet is due. After a pause this lies in the past, by at most the credit.
    due: Time,
    interval: Duration,
}

impl Pacer {
    /// Sets the pace for `window` packets per round trip.
    pub(super) fn set(&mut self, window: f64, rtt: Duration, is_slow_start: bool) {
        let gain = if is_slow_start { 2.0 } else { 1.25 };
        self.interval = rtt.mul_f64(1.0 / (gain * window.max(1.0)));
    }

    /// Sets the pace for so many packets per second.
    pub(super) fn set_rate(&mut self, packets_per_s: f64) {
        self.interval = Duration::from_secs_f64(1.0 / packets_per_s.max(1.0));
    }

    /// Returns the packets per second; 0 before the first round trip is known.
    pub(super) fn rate(&self) -> f64 {
        match self.interval {
            Duration::ZERO => 0.0,
            interval => 1.0 / interval.as_secs_f64(),
        }
    }

    fn credit(&self) -> Duration {
        CREDIT.max(self.interval * (BURST_MIN - 1))
    }

    /// Whether a packet may leave now.
    pub(super) fn allows(&self, now: Time) -> bool {
        self.due <= now
    }

    /// Returns when the next packet may leave.
    pub(super) fn next(&self, now: Time) -> Time {
        self.due.max(now + GRANULE)
    }

    /// Takes in that a packet has left.
    pub(super) fn on_sent(&mut self, now: Time) {
        self.due = self.due.max(now - self.credit()) + self.interval;
    }
}
