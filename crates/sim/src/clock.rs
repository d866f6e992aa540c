//! What a host's clock shows while the world's time runs: it is ahead by a constant, and fast or slow by some parts in
//! a million. It calculates with whole numbers only, so that a drift rounds the same on every machine.

use base::{Duration, Time};

/// Fastest and slowest clock: 1000 ppm are 86 s per day. Quartz is within 100 ppm, and NTP slews by at most 500.
pub const DRIFT_PPM_MAX: i32 = 1_000;

const MILLION: i128 = 1_000_000;

/// A host's clock, as seen from the world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    ahead: Duration,
    drift_ppm: i32,
}

impl Clock {
    /// Creates a clock that is `ahead` at the world's beginning and gains `drift_ppm` microseconds per second; a clock
    /// with a negative value loses time. Values beyond [`DRIFT_PPM_MAX`] are limited to it.
    pub fn new(ahead: Duration, drift_ppm: i32) -> Clock {
        Clock {
            ahead,
            drift_ppm: drift_ppm.clamp(-DRIFT_PPM_MAX, DRIFT_PPM_MAX),
        }
    }

    /// Returns what the clock shows at the world's `now`.
    pub fn shows(&self, now: Time) -> Time {
        if self.drift_ppm == 0 {
            return now + self.ahead;
        }
        let ns = i128::from(now.as_nanos());
        let gained = (ns * i128::from(self.drift_ppm)).div_euclid(MILLION);
        Time::from_nanos(saturated(ns + gained)) + self.ahead
    }

    /// Returns the world's first moment at which the clock shows `at` or more.
    pub fn reaches(&self, at: Time) -> Time {
        let shown = at - self.ahead;
        if self.drift_ppm == 0 || at == Time::FAR {
            return shown;
        }
        let ns = i128::from(shown.as_nanos());
        // At a drift of at most a thousandth, the division is off by at most one. The shown time never runs backwards,
        // so stepping finds the first moment.
        let mut first = saturated(ns * MILLION / (MILLION + i128::from(self.drift_ppm)));
        while self.shows(Time::from_nanos(first)) < at {
            first += 1;
        }
        while first > 0 && self.shows(Time::from_nanos(first - 1)) >= at {
            first -= 1;
        }
        Time::from_nanos(first)
    }
}

fn saturated(ns: i128) -> u64 {
    u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_day_at_a_hundred_parts_in_a_million() {
        let clock = Clock::new(Duration::from_secs(5), 100);
        let day = Time::ZERO + Duration::from_secs(86_400);
        let shown = day + Duration::from_secs(5) + Duration::from_millis(8_640);
        assert_eq!(clock.shows(day), shown);
        assert_eq!(Clock::new(Duration::ZERO, -100).shows(day), {
            day - Duration::from_millis(8_640)
        });
        assert_eq!(clock.reaches(Time::FAR), Time::FAR - Duration::from_secs(5));
        assert_eq!(clock.reaches(Time::ZERO), Time::ZERO);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// A timer that is set for what the clock shows is due when it fires, and not before.
        #[test]
        fn the_first_moment_is_found(
            at in 0u64..1 << 50, ahead in 0u64..1 << 40, drift in -2_000i32..2_000,
        ) {
            let clock = Clock::new(Duration::from_nanos(ahead), drift);
            let at = Time::from_nanos(at);
            let first = clock.reaches(at);
            prop_assert!(clock.shows(first) >= at);
            if first > Time::ZERO {
                prop_assert!(clock.shows(first - Duration::from_nanos(1)) < at);
            }
        }
    }
}
