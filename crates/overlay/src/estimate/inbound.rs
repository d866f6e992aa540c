//! How much later than usual packets from the neighbour arrive: the part of a round trip that does not belong to this
//! node's sending direction.
//!
//! ```text
//!   neighbour's clock   10.000   10.100   10.200        stamps of its hellos
//!   own clock           73.020   73.120   73.260        difference 63.02  63.02  63.06
//!                                                       excess      0      0     0.04
//! ```
//! Neither clock needs to be right. Only their drift against each other within the window is an error.

use base::{Duration, Time};

/// Half of the window for the smallest difference. Choice: clocks that drift by 100 ppm, as cheap ones do, cause an
/// error of 1 ms, and a path that has become longer is the usual one after ten seconds.
const LEAST_HALF: Duration = Duration::from_secs(5);
/// A difference that jumps by more than this comes from a clock that was set.
const JUMP_US: i32 = 5_000_000;

/// The smallest recent difference, and the last one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inbound {
    least_us: [Option<i32>; 2],
    half_since: Time,
    last_us: i32,
}

impl Inbound {
    /// A hello with a stamp of the sender's clock has arrived.
    pub fn on_stamp(&mut self, now: Time, stamp_us: u32) {
        // Differences are 32-bit numbers that wrap, and so are differences of differences.
        let difference_us = (now.as_micros() as u32).wrapping_sub(stamp_us) as i32;
        let jumped = difference_us.wrapping_sub(self.last_us).unsigned_abs() > JUMP_US as u32;
        if jumped || now.since(self.half_since) >= LEAST_HALF {
            let before = if jumped { None } else { self.least_us[0] };
            self.least_us = [None, before];
            self.half_since = now;
        }
        self.last_us = difference_us;
        let least_us = self.least_us[0].unwrap_or(difference_us);
        self.least_us[0] = Some(match difference_us.wrapping_sub(least_us) < 0 {
            true => difference_us,
            false => least_us,
        });
    }

    /// Returns how much later than usual the last hello was.
    pub fn excess(&self) -> Duration {
        let excess_us = |least_us: &i32| self.last_us.wrapping_sub(*least_us).max(0);
        let most_us = self.least_us.iter().flatten().map(excess_us).max();
        Duration::from_micros(u64::from(most_us.unwrap_or(0).unsigned_abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_late_beyond_the_usual_counts_whatever_the_clocks_say() {
        for ahead_us in [0u32, 1 << 31, u32::MAX - 50_000] {
            let mut inbound = Inbound::default();
            let mut excesses = Vec::new();
            for i in 0..300u64 {
                // 20 ms on the way, and from 10 s on 70, for good.
                let way = if i < 100 { 20_000 } else { 70_000 };
                let sent_us = 1_000_000 + i * 100_000;
                let stamp = (sent_us as u32).wrapping_add(ahead_us);
                inbound.on_stamp(Time::ZERO + Duration::from_micros(sent_us + way), stamp);
                excesses.push(inbound.excess().as_millis());
            }
            assert!(excesses[..100].iter().all(|ms| *ms == 0), "{ahead_us}");
            assert!(excesses[100..145].iter().all(|ms| *ms == 50), "{ahead_us}");
            assert!(excesses[205..].iter().all(|ms| *ms == 0), "{ahead_us}");
        }
    }
}
