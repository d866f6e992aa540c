//! Decides which of many equal messages are shown, so that a client that fails again and again does not fill a log.
//!
//! ```text
//!   message with a key ──first──▶ shown at once
//!                      ──further, within a period──▶ counted ──it is over──▶ shown once, with the number
//! ```

use base::{Duration, Time};

/// The usual time in which there is one message for each key.
pub const PERIOD: Duration = Duration::from_secs(10);
/// Maximum number of keys that are remembered. Choice: 256 lines in 10 s are what a log can bear.
pub const KEYS_MAX: usize = 256;

/// The messages of the last seconds. `K` decides which of them are equal, and `M` is a message.
#[derive(Debug)]
pub struct Seldom<K, M> {
    period: Duration,
    known: Vec<Known<K, M>>,
    /// Messages since the last report for which there was no room.
    others: u64,
    others_since: Time,
    due: Vec<Shown<M>>,
}

#[derive(Debug)]
struct Known<K, M> {
    key: K,
    since: Time,
    /// The number of messages since the last one that was shown, and the last of them.
    again: u64,
    last: Option<M>,
}

/// Something to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown<M> {
    /// The first message with its key.
    First(M),
    /// There were more messages with this key.
    Again {
        /// The last of them.
        last: M,
        /// Their number.
        again: u64,
        /// The time in which they came: the period, or longer if nobody has looked.
        within: Duration,
    },
    /// The number of messages with further keys.
    Others(u64),
}

impl<K, M> Default for Seldom<K, M> {
    fn default() -> Seldom<K, M> {
        Seldom::every(PERIOD)
    }
}

impl<K, M> Seldom<K, M> {
    /// Creates an empty one, with one message for each key in this time.
    pub fn every(period: Duration) -> Seldom<K, M> {
        Seldom {
            period,
            known: Vec::new(),
            others: 0,
            others_since: Time::ZERO,
            due: Vec::new(),
        }
    }
}

impl<K: PartialEq, M> Seldom<K, M> {
    /// Records a message.
    pub fn note(&mut self, now: Time, key: K, message: M) {
        self.end_periods(now);
        if let Some(known) = self.known.iter_mut().find(|known| known.key == key) {
            known.again += 1;
            known.last = Some(message);
        } else if self.known.len() < KEYS_MAX {
            self.due.push(Shown::First(message));
            self.known.push(Known {
                key,
                since: now,
                again: 0,
                last: None,
            });
        } else {
            if self.others == 0 {
                self.others_since = now;
            }
            self.others += 1;
        }
    }

    /// Returns what is to be shown now.
    pub fn take(&mut self, now: Time) -> Vec<Shown<M>> {
        self.end_periods(now);
        core::mem::take(&mut self.due)
    }

    fn end_periods(&mut self, now: Time) {
        let (due, period) = (&mut self.due, self.period);
        self.known.retain_mut(|known| {
            let within = now.since(known.since);
            if within < period {
                return true;
            }
            let again = core::mem::take(&mut known.again);
            known.since = now;
            // A key without a message for so long is new again.
            known.last.take().is_some_and(|last| {
                due.push(Shown::Again {
                    last,
                    again,
                    within,
                });
                true
            })
        });
        if self.others > 0 && now.since(self.others_since) >= period {
            due.push(Shown::Others(core::mem::take(&mut self.others)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn again(last: u64, again: u64, within_ms: u64) -> Shown<u64> {
        Shown::Again {
            last,
            again,
            within: Duration::from_millis(within_ms),
        }
    }

    #[test]
    fn what_comes_again_and_again_is_shown_once_in_ten_seconds() {
        let mut seldom = Seldom::default();
        let mut shown = Vec::new();
        for n in 0..2_100 {
            seldom.note(at(n * 10), "a", n);
            shown.extend(seldom.take(at(n * 10)));
        }
        let all = [
            Shown::First(0),
            again(999, 999, 10_000),
            again(1_999, 1_000, 10_000),
        ];
        assert_eq!(shown, all);
        // The rest is shown too, although late, and then there is silence.
        assert_eq!(seldom.take(at(60_000)), [again(2_099, 100, 40_000)]);
        assert_eq!(seldom.take(at(600_000)), []);
        // After this, the key is new.
        seldom.note(at(600_001), "a", 7);
        assert_eq!(seldom.take(at(600_001)), [Shown::First(7)]);
    }

    #[test]
    fn keys_have_lines_of_their_own_up_to_a_limit() {
        let mut seldom = Seldom::default();
        for n in 0..1_000u64 {
            seldom.note(at(0), n, n);
        }
        let first: Vec<_> = (0..256).map(Shown::First).collect();
        assert_eq!(seldom.take(at(0)), first);
        seldom.note(at(9_999), 3, 7);
        let rest = [again(7, 1, 10_000), Shown::Others(744)];
        assert_eq!(seldom.take(at(10_000)), rest);
        // The places of keys that were silent are free again.
        seldom.note(at(10_001), 999, 5);
        assert_eq!(seldom.take(at(10_001)), [Shown::First(5)]);
    }
}
