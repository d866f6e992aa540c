//! A duplicate window that grows with the rate, and with late packets.
//!
//! A window must remember numbers for long enough. At 50 packets/s 256 numbers are five seconds, at 600 000
//! packets/s half a millisecond. So half a turn of the window is timed, and the window doubles while that time is
//! shorter than it should be, up to a limit. If the window lasts too short, a number below it is accepted, and the
//! window grows to include it. If the window lasts long enough, such a number is too old: it may have been seen, and
//! nobody remembers.

use base::seq::{Seen, Window};
use base::{Duration, Time};

/// A [`Window`] that covers a span of time as far as its limit allows.
#[derive(Clone, Debug)]
pub(crate) struct PacedWindow {
    window: Window,
    /// When half a turn was last timed, and the number at which the next one is.
    turned: Time,
    turn_at: u64,
    /// The last half turn took as long as it should.
    is_long: bool,
}

impl PacedWindow {
    /// An empty window over `capacity` numbers.
    pub(crate) fn new(capacity: usize) -> PacedWindow {
        PacedWindow {
            window: Window::new(capacity),
            turned: Time::ZERO,
            turn_at: 0,
            is_long: false,
        }
    }

    /// Marks `seq` as seen and returns what was known of it. The window grows so that half of it lasts `cover` and a
    /// late number fits, within `limit` numbers.
    #[inline]
    pub(crate) fn insert(&mut self, now: Time, seq: u64, cover: Duration, limit: usize) -> Seen {
        let seen = self.window.insert(seq);
        if seen == Seen::Ahead && seq >= self.turn_at {
            self.turn(now, cover, limit);
        } else if seen == Seen::TooOld && !self.is_long && self.window.grow_to_cover(seq, limit) {
            return self.window.insert(seq);
        }
        seen
    }

    /// Returns the number after the highest one seen.
    pub(crate) fn next(&self) -> u64 {
        self.window.next()
    }

    /// Returns how many of the numbers from `from` to before `to` have been seen; `None` if the window does not reach
    /// back so far.
    pub(crate) fn count(&self, from: u64, to: u64) -> Option<u64> {
        self.window.count(from, to)
    }

    /// Returns how many numbers the window covers.
    pub(crate) fn capacity(&self) -> u64 {
        self.window.capacity()
    }

    #[cold]
    fn turn(&mut self, now: Time, cover: Duration, limit: usize) {
        let is_first = self.turn_at == 0;
        self.is_long = !is_first && now.since(self.turned) >= cover;
        if !is_first && !self.is_long {
            // The highest number that does not fit: one doubling covers it.
            let below = self.window.next().checked_sub(self.window.capacity() + 1);
            if let Some(below) = below {
                self.window.grow_to_cover(below, limit);
            }
        }
        self.turned = now;
        self.turn_at = self.window.next() + self.window.capacity() / 2;
    }
}
