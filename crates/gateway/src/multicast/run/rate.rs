//! Detects when packets come so fast that it pays to let them gather.

use base::{Duration, Time};

/// How long packets gather while they come fast. Twice this time, for both bridges, is 0.1 % of a deadline of 500 ms.
pub(super) const GATHER: core::time::Duration = core::time::Duration::from_micros(250);
/// The rate that counts as fast: at this rate, five packets gather in this time.
const FAST_PPS: u64 = 20_000;
/// The period over which packets are counted.
const RATE_SPAN: Duration = Duration::from_millis(20);

/// The current rate of packets, and whether it is fast.
pub(super) struct Rate {
    since: Time,
    packets: u64,
    pub(super) is_fast: bool,
}

impl Rate {
    pub(super) fn new() -> Rate {
        Rate {
            since: Time::ZERO,
            packets: 0,
            is_fast: false,
        }
    }

    /// Records that packets came now.
    pub(super) fn note(&mut self, now: Time, packets: usize) {
        self.packets += packets as u64;
        let span = now.since(self.since);
        if span >= RATE_SPAN {
            self.is_fast = self.packets * 1_000_000 > FAST_PPS * span.as_micros();
            (self.since, self.packets) = (now, 0);
        }
    }
}
