//! The waiting time before a failed connection is tried again.

use base::{Duration, Time};

/// The time after the first failure. Choice: a quarter of a second, so that a restarted encoder is soon back.
const FIRST: Duration = Duration::from_millis(250);
/// The maximum time. Choice: eight seconds, so that a dead peer costs seven packets a minute.
const LAST: Duration = Duration::from_secs(8);
/// The duration after which a connection counts as good.
const GOOD_AFTER: Duration = Duration::from_secs(10);

/// The waiting time, which doubles after each failure.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { next: FIRST }
    }
}

impl Backoff {
    /// Records that an attempt has failed, or that a connection that began at `since` has ended. Returns how long to
    /// wait.
    pub fn fail(&mut self, now: Time, since: Option<Time>) -> Duration {
        if since.is_some_and(|since| now.since(since) >= GOOD_AFTER) {
            self.next = FIRST;
        }
        let wait = self.next;
        self.next = (wait * 2).min(LAST);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_last_and_begin_anew_after_a_good_connection() {
        let mut backoff = Backoff::default();
        let at = |s| Time::ZERO + Duration::from_secs(s);
        let waits: Vec<u64> = (0..7)
            .map(|_| backoff.fail(at(100), None).as_millis())
            .collect();
        assert_eq!(waits, [250, 500, 1_000, 2_000, 4_000, 8_000, 8_000]);
        assert_eq!(backoff.fail(at(100), Some(at(91))), LAST);
        assert_eq!(backoff.fail(at(100), Some(at(90))), FIRST);
    }
}
