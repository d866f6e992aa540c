//! Handles a listener that cannot accept because the system has no descriptor or no memory left.
//!
//! A connection that waits to be accepted keeps the listener readable, so a loop that keeps trying would spin, and log
//! each failure. Instead, the listener rests, by the timeout of its poll. Connections that are already served continue.

use std::time::{Duration, Instant};

/// How long a listener rests.
const REST: Duration = Duration::from_millis(100);
/// How often this is logged at most.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// Whether a listener rests.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    until: Option<Instant>,
    said: Option<Instant>,
    unsaid: u64,
}

impl Rest {
    /// Begins a rest. If this is to be logged, returns how many times it was not logged before.
    pub(crate) fn begin(&mut self, now: Instant) -> Option<u64> {
        self.until = Some(now + REST);
        let lately = |at: Instant| now.saturating_duration_since(at) < SAID_EVERY;
        if self.said.is_some_and(lately) {
            self.unsaid += 1;
            return None;
        }
        self.said = Some(now);
        Some(core::mem::take(&mut self.unsaid))
    }

    /// Returns for how long it still rests.
    pub(crate) fn left(&mut self, now: Instant) -> Option<Duration> {
        let left = self.until?.saturating_duration_since(now);
        if left.is_zero() {
            self.until = None;
            return None;
        }
        Some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rests_for_a_moment_and_is_said_once_a_minute() {
        let (mut rest, start) = (Rest::default(), Instant::now());
        assert_eq!(rest.left(start), None);
        assert_eq!(rest.begin(start), Some(0));
        assert_eq!(rest.left(start), Some(REST));
        assert_eq!(rest.left(start + REST), None);
        let mut now = start;
        let mut said = 0;
        while now < start + SAID_EVERY {
            now += REST;
            said += u64::from(rest.begin(now).is_some());
        }
        assert_eq!(said, 1, "600 times without descriptors");
    }
}
