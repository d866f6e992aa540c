//! The growth of a counter within the last one to two minutes: it shows what is wrong now, and not what was wrong in
//! the past.

use base::{Duration, Time};

/// Half of the window. Choice: what happened is reported for one to two minutes, so a user who looks once a minute
/// misses nothing.
const HALF: Duration = Duration::from_secs(60);

/// The growth of one counter.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lately {
    since: Time,
    /// The counter at the beginning of this half, and of the half before.
    marks: [u64; 2],
}

impl Lately {
    /// Looks at the counter, whose value is `total`. Call it every few seconds.
    pub(crate) fn look(&mut self, now: Time, total: u64) {
        if now.since(self.since) >= HALF {
            (self.since, self.marks) = (now, [total, self.marks[0]]);
        }
    }

    /// Returns by how much the counter has grown.
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
