//! By how much a counter has grown of late: what is wrong now, and not what was last week.

use base::{Duration, Time};

/// Half of the window. Choice: what is told is 30 s to a minute old, so that who looks once a minute misses nothing.
const HALF: Duration = Duration::from_secs(30);

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
    fn what_is_older_than_a_minute_does_not_count() {
        let mut lately = Lately::default();
        let mut at = |s: u64, total| {
            lately.look(Time::ZERO + Duration::from_secs(s), total);
            lately.grown(total)
        };
        assert_eq!([at(1, 5), at(29, 9), at(31, 9)], [5, 9, 9]);
        assert_eq!([at(59, 10), at(62, 10), at(95, 10)], [10, 1, 0]);
    }
}
