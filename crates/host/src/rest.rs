//! A listener that the system gives nothing to: no descriptor, no memory.
//!
//! Who waits to be accepted keeps the listener readable, so a loop that goes on asking would spin,
//! and say so each time. It rests instead, by the timeout of its poll: what is served already goes
//! on.

use std::time::{Duration, Instant};

/// How long a listener is not asked.
const REST: Duration = Duration::from_millis(100);
/// How often this is said.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// Whether a listener rests.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    until: Option<Instant>,
    said: Option<Instant>,
    unsaid: u64,
}

impl Rest {
    /// It rests from now on. Whether this is to be said, and how many times it was not.
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

    /// For how long it still rests.
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
