//! The uplinks that the connections of one segment take: which takes which, and when one of them is lost.
//!
//! ```text
//!   stripe    0   1   2   3   4        two pairs of hosts' addresses: 0 and 2 fell back to the first uplink
//!   uplink    0   1   0   1   0        the first two connections take both
//! ```
//! Control goes on over one uplink while another one takes nothing any more. The kernel gives such a connection up after a
//! quarter of an hour; the next attempt goes where paths are up.

use base::{Duration, Time};

/// A connection on which nothing of what was sent is acknowledged for so long, and nothing else is heard, is lost.
/// Choice: as control is.
const SILENT: Duration = Duration::from_secs(10);

/// Numbers for what connections have in common, in the order in which it is seen first.
#[derive(Debug)]
pub(super) struct Uplinks<K> {
    known: Vec<K>,
    each: Vec<u8>,
    least: u8,
}

impl<K: PartialEq> Uplinks<K> {
    /// Those of these connections.
    pub(super) fn of(ends: impl IntoIterator<Item = K>) -> Uplinks<K> {
        let mut uplinks = Uplinks {
            known: Vec::new(),
            each: Vec::new(),
            least: 1,
        };
        for ends in ends {
            let known = uplinks.known.iter().position(|known| *known == ends);
            let number = known.unwrap_or_else(|| {
                uplinks.least = number(uplinks.each.len() + 1);
                uplinks.known.push(ends);
                uplinks.known.len() - 1
            });
            uplinks.each.push(self::number(number));
        }
        uplinks
    }

    /// Of each connection.
    pub(super) fn each(&self) -> &[u8] {
        &self.each
    }

    /// How many of the first connections take all uplinks.
    pub(super) fn least(&self) -> u8 {
        self.least
    }

    /// There is more than one.
    pub(super) fn are_several(&self) -> bool {
        self.known.len() > 1
    }
}

fn number(count: usize) -> u8 {
    u8::try_from(count).unwrap_or(u8::MAX)
}

/// What one connection waits for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Silence {
    acked: u64,
    /// Since when something is under way of which nothing is acknowledged.
    since: Option<Time>,
}

impl Silence {
    /// What the kernel says now; true if the connection is lost. How long nothing was heard says nothing by itself: a
    /// connection that had nothing to send has heard nothing either.
    pub(super) fn is_lost(&mut self, now: Time, info: &net::tcp::Info) -> bool {
        if info.unacked == 0 || info.acked != self.acked {
            (self.since, self.acked) = (None, info.acked);
        }
        if info.unacked == 0 {
            return false;
        }
        let since = *self.since.get_or_insert(now);
        let heard = Duration::from_millis(info.silent_ms.into());
        now.since(since) >= SILENT && heard >= SILENT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::tcp::Info;

    fn info(unacked: u32, acked: u64, silent_ms: u32) -> Info {
        Info {
            unacked,
            acked,
            silent_ms,
            ..Info::default()
        }
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn what_was_idle_for_long_is_not_lost_in_its_first_round_trip() {
        let mut silence = Silence::default();
        assert!(!silence.is_lost(at(0), &info(0, 5_000, 0)));
        assert!(!silence.is_lost(at(30_000), &info(0, 5_000, 30_000)));
        // It sends again, and no answer can have come yet.
        assert!(!silence.is_lost(at(30_500), &info(10, 5_000, 30_500)));
        assert!(!silence.is_lost(at(31_000), &info(10, 9_000, 20)));
        // A node whose program reads nothing answers questions.
        assert!(!silence.is_lost(at(42_000), &info(10, 9_000, 900)));
    }

    #[test]
    fn what_is_acknowledged_no_more_is_lost() {
        let mut silence = Silence::default();
        assert!(!silence.is_lost(at(0), &info(10, 5_000, 0)));
        for ms in (500..10_500).step_by(500) {
            let lost = silence.is_lost(at(ms), &info(10, 6_000, ms as u32));
            assert!(!lost, "{ms}");
        }
        assert!(silence.is_lost(at(10_500), &info(12, 6_000, 10_500)));
    }

    #[test]
    fn as_many_connections_are_used_as_it_takes_to_have_all_uplinks() {
        let least = |ends: &[u8]| Uplinks::of(ends.iter().copied()).least();
        assert_eq!(least(&[1, 1, 1]), 1);
        assert_eq!(least(&[1, 2, 3, 1]), 3);
        // The second and third fell back to the first.
        assert_eq!(least(&[1, 1, 1, 4, 1]), 4);
        assert_eq!(least(&[1, 1, 3, 1]), 3);
        assert_eq!(least(&[]), 1);
        let some = Uplinks::of([7, 7, 9, 7]);
        assert_eq!((some.each(), some.are_several()), (&[0, 0, 1, 0][..], true));
    }
}
