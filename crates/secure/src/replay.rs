//! The counters that have been opened. Each is accepted once, whatever their order.
//!
//! The window starts at 64 counters and doubles as counters rise, always before one would fall out of it, until it
//! covers [`MAX_WINDOW`] or the size that its user has set. So an idle link holds 8 bytes, a busy one 8 KiB, and no
//! opened counter is forgotten while it could still be accepted again. (It would be too late to grow when a late
//! counter comes: nothing is known of counters that fell out.)

use base::seq::{Seen, Window};

/// The maximum number of counters by which a packet may be behind the newest one: at 600 000 packets per second, 65 536
/// are 109 ms of reordering, five times a jitter of 20 ms.
pub(crate) const MAX_WINDOW: usize = 1 << 16;
/// The same between the two ends of paths, whose flows share one session: a packet that reliable links have recovered
/// may be behind everything that other flows have sent meanwhile. At 80 000 packets per second, 1 Gbit/s, 2^18 are 3.3
/// s. The window takes 32 KiB; 200 busy peers take 6.4 MB.
pub(crate) const MAX_WINDOW_OF_ENDS: usize = 1 << 18;

#[derive(Clone, Debug)]
pub(crate) struct Replay {
    window: Window,
    most: usize,
}

impl Replay {
    /// Creates a window that grows to [`MAX_WINDOW`].
    #[cfg(test)]
    pub(crate) fn new() -> Replay {
        Replay::up_to(MAX_WINDOW)
    }

    /// Creates a window that grows to `most` counters.
    pub(crate) fn up_to(most: usize) -> Replay {
        Replay {
            window: Window::new(64),
            most,
        }
    }

    /// Returns the counter after the highest opened one, which received counters are widened to.
    pub(crate) fn next(&self) -> u64 {
        self.window.next()
    }

    /// Returns how many counters from `from` to before `to` were opened; `None` if that is forgotten.
    pub(crate) fn count(&self, from: u64, to: u64) -> Option<u64> {
        self.window.count(from, to)
    }

    /// Returns true if `counter` may still be opened.
    pub(crate) fn is_fresh(&self, counter: u64) -> bool {
        matches!(self.window.check(counter), Seen::Ahead | Seen::Late)
    }

    /// Records that `counter` was opened, which means that it was authenticated.
    pub(crate) fn mark(&mut self, counter: u64) {
        if counter >= self.window.capacity() && self.window.capacity() < self.most as u64 {
            self.grow(counter);
        }
        self.window.insert(counter);
    }

    #[cold]
    fn grow(&mut self, counter: u64) {
        let wanted = usize::try_from(counter + 1).unwrap_or(self.most);
        let mut larger = Window::new(wanted.min(self.most));
        for seen in (0..self.window.next()).filter(|c| self.window.contains(*c)) {
            larger.insert(seen);
        }
        self.window = larger;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn nothing_is_taken_twice_across_growth() {
        let mut replay = Replay::new();
        for counter in (0..200_000).step_by(2) {
            assert!(replay.is_fresh(counter));
            replay.mark(counter);
            assert!(!replay.is_fresh(counter), "{counter}");
        }
        let oldest = replay.next() - MAX_WINDOW as u64;
        for counter in 0..replay.next() {
            let late = counter >= oldest && counter % 2 == 1;
            assert_eq!(replay.is_fresh(counter), late, "{counter}");
        }
    }

    #[test]
    fn an_idle_link_stays_small_and_a_jump_does_not_hurt() {
        let mut replay = Replay::new();
        (0..60).for_each(|counter| replay.mark(counter));
        assert_eq!(replay.window.capacity(), 64);
        replay.mark(1 << 40);
        assert_eq!(replay.window.capacity(), MAX_WINDOW as u64);
        assert!(!replay.is_fresh(59) && !replay.is_fresh(1 << 40));
        assert!(replay.is_fresh((1 << 40) - 65_535) && !replay.is_fresh((1 << 40) - 65_536));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn agrees_with_a_set(steps in proptest::collection::vec(0u64..3000, 1..300)) {
            let mut replay = Replay::new();
            let mut opened = BTreeSet::new();
            for counter in steps {
                prop_assert_eq!(replay.is_fresh(counter), !opened.contains(&counter));
                if replay.is_fresh(counter) {
                    replay.mark(counter);
                    opened.insert(counter);
                }
            }
        }
    }
}
