//! How fast a queue drains while something waits in it. The pace says what a lane would send. If the receiver has
//! closed its window, or packets have to be repeated, less leaves. The room in the queue is measured by what really
//! leaves.

use base::{Duration, Time};

/// The time over which leaving packets are counted.
const SPAN: Duration = Duration::from_millis(50);

/// Counts what leaves a queue that is never empty meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drain {
    /// Since when packets are counted, and how many have left.
    since: Time,
    left: u32,
    rate: Option<f64>,
}

impl Drain {
    /// Starts anew, because the queue was empty until now.
    pub(super) fn restart(&mut self, now: Time) {
        *self = Drain {
            since: now,
            ..Drain::default()
        };
    }

    /// Counts a packet that has left.
    pub(super) fn on_left(&mut self, now: Time) {
        self.left += 1;
        self.look(now);
    }

    /// Computes the rate if enough time has passed.
    pub(super) fn look(&mut self, now: Time) {
        let span = now.since(self.since);
        if span >= SPAN {
            self.rate = Some(f64::from(self.left) / span.as_secs_f64());
            (self.since, self.left) = (now, 0);
        }
    }

    /// Returns the packets per second; unknown for a queue that was empty recently.
    pub(super) fn rate(&self) -> Option<f64> {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_is_counted_until_the_queue_is_empty() {
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let mut drain = Drain::default();
        drain.restart(at(1_000));
        for ms in (1_002..1_050).step_by(2) {
            drain.on_left(at(ms));
            assert_eq!(drain.rate(), None);
        }
        drain.on_left(at(1_050));
        assert_eq!(drain.rate(), Some(500.0));
        // Nothing leaves any more.
        drain.look(at(1_099));
        assert_eq!(drain.rate(), Some(500.0));
        drain.look(at(1_100));
        assert_eq!(drain.rate(), Some(0.0));
        drain.restart(at(1_200));
        assert_eq!(drain.rate(), None);
    }
}
