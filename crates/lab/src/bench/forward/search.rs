//! The search for the highest rate that is carried: up in steps until one fails, then halving.

/// The factor of a step upwards.
const STEP: f64 = 1.5;
/// The precision of the limit, as a factor.
const PRECISION: f64 = 1.04;
/// A contender that does not carry this rate carries nothing.
const RATE_MIN: f64 = 100.0;

/// One search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    next: f64,
    carried: f64,
    failed: Option<f64>,
}

impl Search {
    /// Creates a search that begins at `rate_pps`.
    pub(crate) fn from(rate_pps: u64) -> Search {
        Search {
            next: rate_pps as f64,
            carried: 0.0,
            failed: None,
        }
    }

    /// Returns the rate to try next; `None` when the limit is known.
    pub(crate) fn next(&self) -> Option<u64> {
        let known = self
            .failed
            .is_some_and(|failed| failed < self.carried * PRECISION);
        (!known && self.next >= RATE_MIN).then_some(self.next as u64)
    }

    /// Notes whether the rate was carried, and the rate that the sender achieved.
    pub(crate) fn tell(&mut self, carried: bool, achieved_pps: u64) {
        let achieved = achieved_pps as f64;
        if !carried {
            self.failed = Some(self.next);
        } else if achieved < self.next / PRECISION {
            // The sender cannot send faster: this is the highest limit that can be found.
            self.carried = self.carried.max(achieved);
            self.failed = Some(self.carried);
        } else {
            self.carried = self.next;
        }
        self.next = match self.failed {
            None => self.carried * STEP,
            Some(failed) if self.carried == 0.0 => failed / 2.0,
            Some(failed) => (failed * self.carried).sqrt(),
        };
    }

    /// Returns the highest rate that was carried.
    pub(crate) fn best(&self) -> u64 {
        self.carried as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit_of(start: u64, limit: u64, sender: u64) -> (u64, usize) {
        let mut search = Search::from(start);
        let mut trials = 0;
        while let Some(rate) = search.next() {
            trials += 1;
            search.tell(rate <= limit, rate.min(sender));
        }
        (search.best(), trials)
    }

    #[test]
    fn the_limit_is_found_from_below_and_from_above() {
        for (start, limit) in [(100_000, 777_777), (100_000, 30_000), (100_000, 100_000)] {
            let (found, trials) = limit_of(start, limit, u64::MAX);
            assert!(
                found <= limit && found as f64 * PRECISION >= limit as f64,
                "{found}"
            );
            assert!(trials <= 12, "{trials}");
        }
    }

    #[test]
    fn a_sender_that_is_too_slow_ends_the_search() {
        assert_eq!(limit_of(100_000, u64::MAX, 640_000).0, 640_000);
        assert_eq!(limit_of(100_000, 0, u64::MAX).0, 0);
    }
}
