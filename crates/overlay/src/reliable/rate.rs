//! The rate at which the data of a lane arrives, for senders whose window depends on it. [Papadimitriou06 §3.1]
//!
//! ```text
//!   packets  | | | | | | | | | | | |      a wave lasts for a round trip; its rate is its bytes
//!            '──── wave ────'── wave ──   over its time, told once
//! ```
//!
//! State: when the wave began, its bytes so far, and the rate that has not been reported yet.

use base::{Duration, Time};
use wire::control::ReliableRate;

/// The shortest wave. Choice: on a short link, a wave of one round trip would be only a few packets.
const WAVE_MIN: Duration = Duration::from_millis(10);

/// The measurement of one lane.
#[derive(Debug, Default)]
pub(super) struct Rate {
    began: Option<Time>,
    bytes: u64,
    untold: Option<ReliableRate>,
}

impl Rate {
    /// Takes in that a packet has come over a link with this round trip.
    pub(super) fn on_packet(&mut self, now: Time, bytes: usize, rtt: Duration) {
        let span = now.since(*self.began.get_or_insert(now));
        if span >= rtt.max(WAVE_MIN) {
            let kbps = self.bytes as f64 * 8.0 / 1e3 / span.as_secs_f64();
            self.untold = Some(ReliableRate {
                kbps: (kbps as u32).max(1),
            });
            (self.began, self.bytes) = (Some(now), 0);
        }
        self.bytes += bytes as u64;
    }

    /// Returns the rate of the last wave, once.
    pub(super) fn poll(&mut self) -> Option<ReliableRate> {
        self.untold.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wave_is_told_once_at_its_rate() {
        let mut rate = Rate::default();
        let mut told = Vec::new();
        // 1000 bytes each millisecond are 8 Mbit/s. After 100 ms it is half the rate.
        for n in 0..200_u64 {
            let at = if n < 100 { n } else { 2 * n - 100 };
            let now = Time::ZERO + Duration::from_millis(at);
            rate.on_packet(now, 1_000, Duration::from_millis(50));
            told.extend(rate.poll());
        }
        let kbps: Vec<u32> = told.iter().map(|rate| rate.kbps).collect();
        assert_eq!(kbps, [8_000, 8_000, 4_000, 4_000, 4_000]);
        assert_eq!(rate.poll(), None);
    }
}
