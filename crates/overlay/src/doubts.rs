//! Links in doubt that are farther along the path: a neighbour that has no other path for a packet notifies the node
//! from which it got the packet.
//!
//! ```text
//!        a ──────▶ r ──── ? ───▶ b        r has not heard b for 150 ms and knows no other way to b but back to a
//!        │ ◀─ doubt ─┘           ▲        r tells a, while packets come
//!        └────── copies ─────────┘        a sends copies by its own other way; or tells who is before it
//! ```
//! Packets therefore avoid a failure anywhere on the path within the time that it takes to notice the failure and to
//! report it back. No record is flooded for what is mostly a few lost hellos. Nothing is reported if nothing is sent.
//!
//! Choice: the papers wait for the hello protocol's verdict, and for the records.

use crate::detour::Edge;
use base::{Duration, NodeAddr, Time};

/// How long a doubt is valid that is not reported again. Choice: two reports may be lost.
const LASTS: Duration = Duration::from_millis(150);
/// The shortest time between two reports of the same doubt to the same neighbour.
const TOLD_EVERY: Duration = Duration::from_millis(50);
/// Maximum number of doubts that are known, and that are reported, at once: a host that is cut off has reported all of
/// its links with the first few.
const DOUBTS_MAX: usize = 8;

/// The doubts that neighbours have reported, and those that were reported to them.
#[derive(Debug, Default)]
pub struct Doubts {
    heard: Vec<Doubt>,
    told: Vec<Doubt>,
}

#[derive(Debug)]
struct Doubt {
    /// The neighbour that has reported the doubt, or to which it was reported.
    neighbor: NodeAddr,
    edge: Edge,
    at: Time,
}

impl Doubts {
    /// A neighbour has reported that a link has fallen silent, and that it has no other path.
    pub fn on_told(&mut self, now: Time, neighbor: NodeAddr, edge: Edge) {
        let doubt = Doubt {
            neighbor,
            edge,
            at: now,
        };
        let same = doubt.is_same();
        self.heard
            .retain(|old| now.since(old.at) < LASTS && !same(old));
        if self.heard.len() < DOUBTS_MAX {
            self.heard.push(doubt);
        }
    }

    /// Returns true if a neighbour has recently reported some doubt.
    #[inline]
    pub fn concern(&self, now: Time, neighbor: NodeAddr) -> bool {
        !self.heard.is_empty() && self.of(now, neighbor).next().is_some()
    }

    /// Returns the links that a neighbour has recently reported.
    pub fn of(&self, now: Time, neighbor: NodeAddr) -> impl Iterator<Item = Edge> {
        let is_of = move |doubt: &&Doubt| doubt.neighbor == neighbor && now.since(doubt.at) < LASTS;
        self.heard.iter().filter(is_of).map(|doubt| doubt.edge)
    }

    /// Returns true if a doubt is to be reported to a neighbour now; it counts as reported from then on.
    pub fn is_due(&mut self, now: Time, neighbor: NodeAddr, edge: Edge) -> bool {
        let doubt = Doubt {
            neighbor,
            edge,
            at: now,
        };
        self.told.retain(|old| now.since(old.at) < TOLD_EVERY);
        if self.told.len() >= DOUBTS_MAX || self.told.iter().any(doubt.is_same()) {
            return false;
        }
        self.told.push(doubt);
        true
    }
}

impl Doubt {
    fn is_same(&self) -> impl Fn(&Doubt) -> bool + use<> {
        let of = (self.neighbor, self.edge);
        move |other| (other.neighbor, other.edge) == of
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDGE: Edge = Edge {
        from: NodeAddr(2),
        to: NodeAddr(3),
    };

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn a_doubt_counts_for_a_while_and_is_told_now_and_then() {
        let mut doubts = Doubts::default();
        assert!(!doubts.concern(at(0), NodeAddr(2)));
        doubts.on_told(at(0), NodeAddr(2), EDGE);
        doubts.on_told(at(100), NodeAddr(2), EDGE);
        assert!(doubts.concern(at(249), NodeAddr(2)));
        assert_eq!(doubts.of(at(249), NodeAddr(2)).count(), 1);
        assert!(!doubts.concern(at(249), NodeAddr(3)));
        assert!(!doubts.concern(at(250), NodeAddr(2)));
        let due = [0, 49, 50, 80, 99, 100].map(|ms| doubts.is_due(at(ms), NodeAddr(1), EDGE));
        assert_eq!(due, [true, false, true, false, false, true]);
        assert!(doubts.is_due(at(100), NodeAddr(4), EDGE));
    }

    #[test]
    fn a_neighbour_that_doubts_everything_fills_no_memory() {
        let mut doubts = Doubts::default();
        for n in 0..100 {
            let edge = Edge {
                from: NodeAddr(n),
                to: NodeAddr(n + 1),
            };
            doubts.on_told(at(0), NodeAddr(2), edge);
            assert_eq!(doubts.is_due(at(0), NodeAddr(2), edge), n < 8);
        }
        assert_eq!(doubts.of(at(0), NodeAddr(2)).count(), DOUBTS_MAX);
    }
}
