//! Links that neither end keeps, until they end.
//!
//! ```text
//!   never used since then ──▶ ends after 10 s, or 3 s where there are many links
//!   used                  ──▶ ends once no client's packet has passed for 10 s
//! ```

use base::{Duration, NodeAddr, Time};
use std::collections::BTreeMap;

/// A link that neither end keeps ends when it was not used for so long. Choice: records of both ends have crossed a
/// network by then, several times, and a talkspurt's pause is shorter.
const UNUSED: Duration = Duration::from_secs(10);
/// The same for one that was not used at all, at a node with many links, as after many have entered at once.
const UNUSED_OF_MANY: Duration = Duration::from_secs(3);
const MANY: usize = 8;
/// As long as one is younger than this, others may be about to end.
const SETTLED: Duration = Duration::from_secs(30);

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Unkept(BTreeMap<NodeAddr, One>);

#[derive(Clone, Copy, Debug)]
struct One {
    began: Time,
    used: Option<Time>,
    /// Clients' packets that it had carried at the last look.
    carried: u64,
}

impl Unkept {
    /// These are all, with the clients' packets that each has carried, of a node with so many `links`. Tells which are to end.
    pub(crate) fn look(
        &mut self,
        now: Time,
        all: &[(NodeAddr, u64)],
        links: usize,
    ) -> Vec<NodeAddr> {
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
                None if links > MANY => now.since(one.began) >= UNUSED_OF_MANY,
                None => now.since(one.began) >= UNUSED,
            };
            if is_over {
                over.push(of);
            }
            self.0.insert(of, one);
        }
        over
    }

    /// No client's packet has passed since neither end keeps it.
    pub(crate) fn is_unused(&self, of: NodeAddr) -> bool {
        self.0.get(&of).is_none_or(|one| one.used.is_none())
    }

    /// None of them is new. Those that stay are in use, and may be for hours.
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
    fn an_unused_link_ends_soon_and_sooner_among_many() {
        for (links, ends) in [(MANY, 10), (MANY + 1, 3)] {
            let mut unkept = Unkept::default();
            for s in 0..ends {
                assert!(unkept.look(at(s), &[(A, 7)], links).is_empty(), "{s}");
                assert!(unkept.is_unused(A));
            }
            assert_eq!(unkept.look(at(ends), &[(A, 7)], links), [A]);
        }
    }

    #[test]
    fn one_packet_in_nine_seconds_keeps_a_link_and_stops_no_measuring() {
        let mut unkept = Unkept::default();
        for s in 0..300 {
            let over = unkept.look(at(s), &[(A, s / 9)], MANY);
            assert!(over.is_empty(), "{s}");
            assert_eq!(unkept.are_settled(at(s)), s >= 30);
        }
        assert!(!unkept.is_unused(A));
        let over = (300..320).map(|s| unkept.look(at(s), &[(A, 33)], MANY));
        assert!(over.into_iter().flatten().any(|of| of == A));
        // One that is kept meanwhile begins anew.
        unkept.look(at(320), &[], MANY);
        assert!(unkept.look(at(321), &[(A, 33)], MANY).is_empty());
    }
}
