//! How long a history lasts: as long as a packet of its lane can be of use to any receiver.
//!
//! ```text
//!   deadlines of the packets   100 ms 100 ms 500 ms 100 ms 100 ms ...
//!   the longest of this span and the one before:  500 ms ────────────┐ a span or two later
//!                                                                    └ 150 ms, the least
//! ```
//! A voice lane keeps 150 ms. If a video group with a deadline of 500 ms passes, its packets can be requested for that
//! time, so the history keeps them for that time. It returns to the shorter time when no such packet has passed for two
//! spans.

use super::Settings;
use base::{Duration, Time};

/// The longest deadline is taken over the present span and the one before. Choice: as long as the longest cover, so
/// that the last packet with a long deadline is kept for that deadline.
const SPAN: Duration = super::COVER_MOST;

/// The age at which packets leave the history.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cover {
    least: Duration,
    most: Duration,
    /// The longest deadline of the former span, and of the present one.
    before: Duration,
    longest: Duration,
    began: Time,
}

impl Cover {
    pub(super) fn new(settings: &Settings) -> Cover {
        Cover {
            least: settings.cover,
            most: settings.cover_most.max(settings.cover),
            before: Duration::ZERO,
            longest: Duration::ZERO,
            began: Time::ZERO,
        }
    }

    /// Notes a packet that is sent with this time left, `None` if it has no deadline. Returns true if the age may have
    /// changed.
    #[inline]
    pub(super) fn on_sent(&mut self, now: Time, left: Option<Duration>) -> bool {
        let turned = now.since(self.began) >= SPAN;
        if turned {
            let idle = now.since(self.began) >= SPAN * 2;
            self.before = if idle { Duration::ZERO } else { self.longest };
            self.longest = Duration::ZERO;
            self.began = now;
        }
        let left = left.unwrap_or_default();
        let longer = left > self.longest;
        if longer {
            self.longest = left;
        }
        turned || longer
    }

    /// Returns the age.
    #[inline]
    pub(super) fn age(&self) -> Duration {
        let longest = self.before.max(self.longest);
        longest.min(self.most).max(self.least)
    }
}

#[cfg(test)]
mod tests {
    use super::super::COVER_MOST;
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn at(n: u64) -> Time {
        Time::ZERO + ms(n)
    }

    #[test]
    fn a_history_lasts_as_long_as_the_longest_deadline_and_no_longer() {
        let mut cover = Cover::new(&Settings::modern());
        assert_eq!(cover.age(), ms(150));
        for n in 0..100 {
            cover.on_sent(at(n * 20), Some(ms(100)));
            assert_eq!(cover.age(), ms(150), "voice needs no more");
        }
        cover.on_sent(at(2_000), Some(ms(500)));
        assert_eq!(cover.age(), ms(500), "at once");
        let mut last = 0;
        for n in 0..300 {
            cover.on_sent(at(2_000 + n * 20), Some(ms(100)));
            if cover.age() == ms(500) {
                last = 2_000 + n * 20;
            }
        }
        // The long age lasts as long as the packet itself can be requested, and then ends.
        assert!((2_500..=4_100).contains(&last), "{last}");
        assert_eq!(cover.age(), ms(150));
        cover.on_sent(at(9_000), Some(ms(6_000)));
        assert_eq!(cover.age(), COVER_MOST);
        cover.on_sent(at(60_000), None);
        assert_eq!(cover.age(), ms(150), "a pause ends it");
    }

    #[test]
    fn the_papers_history_lasts_as_the_paper_says() {
        let mut cover = Cover::new(&Settings::paper());
        cover.on_sent(at(0), Some(ms(500)));
        assert_eq!(cover.age(), ms(100));
    }
}
