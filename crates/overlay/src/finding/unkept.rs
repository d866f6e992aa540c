//! Links that neither end keeps, until they end.
//!
//! ```text
//!   never used since then ──▶ ends after 3 s
//!   used                  ──▶ ends once no client's packet has passed for 10 s
//! ```

use base::{Duration, NodeAddr, Time};
use std::collections::BTreeMap;

/// How long a link that neither end keeps must be unused until it ends. Choice: the pauses between talkspurts are
/// shorter.
const UNUSED: Duration = Duration::from_secs(10);
/// The same for a link that was not used at all, as after a trial, or when many nodes have entered at once. Choice: the
/// records of both ends have crossed a network by then.
const NEVER_USED: Duration = Duration::from_secs(3);
/// While an unkept link is younger than this, others may be about to end.
const SETTLED: Duration = Duration::from_secs(30);

/// All unkept links.
#[derive(Debug, Default)]
pub(crate) struct Unkept(BTreeMap<NodeAddr, One>);

#[derive(Clone, Copy, Debug)]
struct One {
    began: Time,
    used: Option<Time>,
    /// Clients' packets that the link had carried at the last look.
    carried: u64,
}

impl Unkept {
    /// Takes in all unkept links, with the clients' packets that each has carried. Returns those that are to end.
    pub(crate) fn look(&mut self, now: Time, all: &[(NodeAddr, u64)]) -> Vec<NodeAddr> {
        let before = core::mem::take(&mut self.0);
        let mut over = Vec::new();
        for &(of, carried) in all {
            let new = One {
                began: now,
                used: None,
                carried,
            };
            let mut one = before.get(&of).copied().unwrap_or(new);
            if carried != one.carried {
                (one.used, one.carried) = (Some(now), carried);
            }
            let is_over = match one.used {
                Some(used) => now.since(used) >= UNUSED,
                None => now.since(one.began) >= NEVER_USED,
            };
            if is_over {
                over.push(of);
            }
            self.0.insert(of, one);
        }
        over
    }

    /// Returns true if no client's packet has passed since neither end keeps the link.
    pub(crate) fn is_unused(&self, of: NodeAddr) -> bool {
        self.0.get(&of).is_none_or(|one| one.used.is_none())
    }

    /// Returns true if none of the links is new. Those that stay are in use, and may be for hours.
    pub(crate) fn are_settled(&self, now: Time) -> bool {
        let mut all = self.0.values();
        all.all(|one| now.since(one.began) >= SETTLED)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeAddr = NodeAddr(1);

    fn at(s: u64) -> Time {
        Time::ZERO + Duration::from_secs(s)
    }

    #[test]
    fn a_link_that_was_never_used_ends_sooner_than_one_that_was() {
        let mut unkept = Unkept::default();
        for s in 0..3 {
            assert!(unkept.look(at(s), &[(A, 7)]).is_empty(), "{s}");
            assert!(unkept.is_unused(A));
        }
        assert_eq!(unkept.look(at(3), &[(A, 7)]), [A]);
        for s in 3..13 {
            assert!(unkept.look(at(s), &[(A, 8)]).is_empty(), "{s}");
        }
        assert_eq!(unkept.look(at(13), &[(A, 8)]), [A]);
    }

    #[test]
    fn one_packet_in_nine_seconds_keeps_a_link_and_stops_no_measuring() {
        let mut unkept = Unkept::default();
        for s in 0..300 {
            let over = unkept.look(at(s), &[(A, s.div_ceil(9))]);
            assert!(over.is_empty(), "{s}");
            assert_eq!(unkept.are_settled(at(s)), s >= 30);
        }
        assert!(!unkept.is_unused(A));
        let over = (300..320).map(|s| unkept.look(at(s), &[(A, 34)]));
        assert!(over.into_iter().flatten().any(|of| of == A));
        // A link that was kept meanwhile begins again.
        unkept.look(at(320), &[]);
        assert!(unkept.look(at(321), &[(A, 34)]).is_empty());
    }
}
