//! By how much a counter has grown in the last one to two minutes: what is wrong now, and not what was wrong once.

use base::{Duration, Time};

/// Half of the window. Choice: what happened is told for one to two minutes, so who looks once a minute misses nothing.
const HALF: Duration = Duration::from_secs(60);

/// The growth of one counter.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lately {
    since: Time,
    /// What it was at the beginning of this half, and of the one before.
    marks: [u64; 2],
}

impl Lately {
    /// Looks at the counter, which is at `total`. Call it every few seconds.
    pub(crate) fn look(&mut self, now: Time, total: u64) {
        if now.since(self.since) >= HALF {
            (self.since, self.marks) = (now, [total, self.marks[0]]);
        }
    }

    /// By how much it has grown.
    pub(crate) fn grown(&self, total: u64) -> u64 {
        total - self.marks[1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_than_two_minutes_does_not_count_and_the_last_minute_does() {
        let mut lately = Lately::default();
        let mut at = |s: u64, total| {
            lately.look(Time::ZERO + Duration::from_secs(s), total);
            lately.grown(total)
        };
        assert_eq!([at(1, 5), at(59, 9), at(61, 9)], [5, 9, 9]);
        assert_eq!([at(119, 10), at(122, 10), at(179, 10)], [10, 1, 1]);
        assert_eq!(at(183, 10), 0);
    }
}
