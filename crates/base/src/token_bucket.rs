//! Token buckets: budgets that are refilled by time or by traffic.
//!
//! ```text
//!   time:     rate_per_s ──▶ ┌───────┐          traffic:   ratio per original ──▶ ┌───────┐
//!                            │ burst │ ──▶ try_take                               │ burst │ ──▶ try_take
//!                            └───────┘                                            └───────┘
//! ```
//!
//! [`TokenBucket`] limits a rate (handshakes per second, bytes per second). [`RatioBucket`] limits the ratio of
//! retransmissions to originals on a real-time lane [Amir06 §IV-A]. Both start full, so the first request is never
//! refused, and both hold at most `burst` tokens.

use crate::time::Time;

/// A budget that grows with time.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate_per_s: f64,
    burst: f64,
    level: f64,
    filled: Time,
}

impl TokenBucket {
    /// Creates a full bucket that gains `rate_per_s` tokens per second up to `burst`. Negative numbers and NaN count as
    /// zero.
    pub fn new(rate_per_s: f64, burst: f64, now: Time) -> TokenBucket {
        let burst = sane(burst);
        TokenBucket {
            rate_per_s: sane(rate_per_s),
            burst,
            level: burst,
            filled: now,
        }
    }

    /// Takes `n` tokens if there are enough; otherwise takes none.
    pub fn try_take(&mut self, now: Time, n: f64) -> bool {
        self.fill(now);
        take(&mut self.level, n)
    }

    /// Adds `n` tokens, for instance if what they paid for was not done after all.
    pub fn credit(&mut self, n: f64) {
        self.level = (self.level + sane(n)).min(self.burst);
    }

    /// Returns the number of tokens that could be taken at `now`.
    pub fn available(&self, now: Time) -> f64 {
        let gained = self.rate_per_s * now.since(self.filled).as_secs_f64();
        (self.level + gained).min(self.burst)
    }

    /// Returns the first time at which `n` tokens can be taken if nobody takes any before; [`Time::FAR`] if never.
    pub fn ready_at(&self, now: Time, n: f64) -> Time {
        let missing = n - self.available(now);
        if missing <= 0.0 {
            return now;
        }
        if n > self.burst || self.rate_per_s == 0.0 {
            return Time::FAR;
        }
        // Rounded up by a nanosecond, so that the tokens are available at that time.
        Time::from_nanos(
            now.as_nanos()
                .saturating_add((missing / self.rate_per_s * 1e9).ceil() as u64)
                .saturating_add(1),
        )
    }

    fn fill(&mut self, now: Time) {
        self.level = self.available(now);
        self.filled = self.filled.max(now);
    }
}

/// A budget that grows with the traffic of which it is a share: `ratio` tokens per original, with at most `burst`
/// saved. [Amir06 §IV-A]
#[derive(Clone, Debug)]
pub struct RatioBucket {
    ratio: f64,
    burst: f64,
    level: f64,
}

impl RatioBucket {
    /// Creates a full bucket that gains `ratio` tokens per original up to `burst`. Negative numbers and NaN count as
    /// zero.
    pub fn new(ratio: f64, burst: f64) -> RatioBucket {
        let burst = sane(burst);
        RatioBucket {
            ratio: sane(ratio),
            burst,
            level: burst,
        }
    }

    /// Notes that `n` originals (packets or bytes, as the caller counts) were sent.
    pub fn on_original(&mut self, n: f64) {
        self.level = (self.level + self.ratio * sane(n)).min(self.burst);
    }

    /// Takes `n` tokens if there are enough; otherwise takes none.
    pub fn try_take(&mut self, n: f64) -> bool {
        take(&mut self.level, n)
    }

    /// Returns the number of tokens that could be taken.
    pub fn available(&self) -> f64 {
        self.level
    }
}

/// The part of a token that rounding may lose: a bucket that gains tenths reaches ten tenths.
const SLACK: f64 = 1e-9;

fn take(level: &mut f64, n: f64) -> bool {
    let enough = n >= 0.0 && *level + SLACK >= n;
    if enough {
        *level = (*level - n).max(0.0);
    }
    enough
}

fn sane(x: f64) -> f64 {
    // `max` also turns NaN into zero.
    x.max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;
    use proptest::prelude::*;

    #[test]
    fn a_bucket_starts_full_and_fills_with_time() {
        let mut bucket = TokenBucket::new(10.0, 2.0, Time::ZERO);
        assert!(bucket.try_take(Time::ZERO, 2.0) && !bucket.try_take(Time::ZERO, 1.0));
        let tenth = Time::ZERO + Duration::from_millis(100);
        assert_eq!(bucket.ready_at(Time::ZERO, 1.0).since(tenth).as_micros(), 0);
        assert!(bucket.try_take(tenth, 1.0) && !bucket.try_take(tenth, 0.5));
        let later = tenth + Duration::from_secs(3600);
        assert!(
            (bucket.available(later) - 2.0).abs() < 1e-6,
            "never above the burst"
        );
        assert_eq!(
            bucket.ready_at(later, 2.5),
            Time::FAR,
            "more than it can hold"
        );
    }

    #[test]
    fn time_that_runs_backwards_gives_nothing() {
        let mut bucket = TokenBucket::new(1.0, 1.0, Time::ZERO + Duration::from_secs(5));
        assert!(bucket.try_take(Time::ZERO, 1.0) && !bucket.try_take(Time::ZERO, 1.0));
        assert!(!bucket.try_take(Time::ZERO + Duration::from_secs(5), 1.0));
        assert!(bucket.try_take(Time::ZERO + Duration::from_secs(6), 1.0));
    }

    #[test]
    fn nonsense_takes_and_gives_nothing() {
        let mut bucket = TokenBucket::new(f64::NAN, 1.0, Time::ZERO);
        assert!(!bucket.try_take(Time::FAR, f64::NAN) && !bucket.try_take(Time::FAR, -1.0));
        bucket.credit(f64::NAN);
        bucket.credit(7.0);
        assert!(!bucket.try_take(Time::FAR, 1.5) && bucket.try_take(Time::FAR, 1.0));
        assert_eq!(
            bucket.ready_at(Time::FAR, 1.0),
            Time::FAR,
            "no rate, no tokens"
        );
    }

    #[test]
    fn retransmissions_keep_to_their_share_of_the_originals() {
        let mut bucket = RatioBucket::new(0.1, 3.0);
        let mut resent = 0;
        for _ in 0..1000 {
            bucket.on_original(1.0);
            resent += u32::from(bucket.try_take(1.0));
        }
        // The first original adds to a full bucket: 3 + 999 / 10 tokens in all.
        assert_eq!(resent, 102);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn never_more_than_burst_plus_rate_times_time(
            steps in proptest::collection::vec((0u64..50_000_000, 0.0f64..3.0), 1..200),
        ) {
            let (rate, burst) = (20.0, 5.0);
            let mut bucket = TokenBucket::new(rate, burst, Time::ZERO);
            let (mut now, mut taken) = (Time::ZERO, 0.0);
            for (wait_ns, n) in steps {
                now += Duration::from_nanos(wait_ns);
                if bucket.try_take(now, n) { taken += n; }
                prop_assert!(taken <= burst + rate * now.as_secs_f64() + 1e-5);
                let ready = bucket.ready_at(now, n);
                prop_assert!(bucket.clone().try_take(ready, n));
            }
        }
    }
}
