//! What the network wants of the overlay, against what the overlay's node was told.
//!
//! Only the difference is said, and no faster than a node should be bothered: each join that is new
//! to a node is a record that every node of the overlay stores. A network on which programs join and
//! leave like mad costs its own bridge something, and others little.

use base::token_bucket::TokenBucket;
use base::{NodeAddr, Time};
use std::collections::BTreeSet;

/// Joins that are said at once; a site has some dozens of programs, and starts them together.
const BURST: f64 = 1_000.0;
/// Joins and leaves in a second beyond those.
const RATE_PER_S: f64 = 200.0;

/// The difference between what is wanted and what was said.
#[derive(Debug)]
pub struct Members {
    wanted: BTreeSet<NodeAddr>,
    /// What the node was told to join.
    joined: BTreeSet<NodeAddr>,
    /// Groups of which one of the two may differ from the other.
    changed: BTreeSet<NodeAddr>,
    budget: TokenBucket,
}

/// What the node is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Join a group.
    Join(NodeAddr),
    /// Leave one.
    Leave(NodeAddr),
}

impl Members {
    /// Nothing is wanted, nothing was said.
    #[must_use]
    pub fn new(now: Time) -> Members {
        Members {
            wanted: BTreeSet::new(),
            joined: BTreeSet::new(),
            changed: BTreeSet::new(),
            budget: TokenBucket::new(RATE_PER_S, BURST, now),
        }
    }

    /// The network wants a group, or does not any more.
    pub fn want(&mut self, group: NodeAddr, is_wanted: bool) {
        match is_wanted {
            true => self.wanted.insert(group),
            false => self.wanted.remove(&group),
        };
        self.changed.insert(group);
    }

    /// The node is another one, which was told nothing.
    pub fn on_node(&mut self) {
        self.joined.clear();
        self.changed = self.wanted.clone();
    }

    /// The next thing that the node is to be told, if it is time; it counts as said.
    pub fn next(&mut self, now: Time) -> Option<Change> {
        while let Some(&group) = self.changed.first() {
            let (wanted, joined) = (self.wanted.contains(&group), self.joined.contains(&group));
            if wanted != joined && !self.budget.try_take(now, 1.0) {
                return None;
            }
            self.changed.pop_first();
            match (wanted, joined) {
                (true, false) => {
                    self.joined.insert(group);
                    return Some(Change::Join(group));
                }
                (false, true) => {
                    self.joined.remove(&group);
                    return Some(Change::Leave(group));
                }
                _ => {}
            }
        }
        None
    }

    /// The node could not be told: it will be again.
    pub fn unsaid(&mut self, change: Change) {
        let group = match change {
            Change::Join(group) => {
                self.joined.remove(&group);
                group
            }
            Change::Leave(group) => {
                self.joined.insert(group);
                group
            }
        };
        self.changed.insert(group);
    }

    /// When there may be something to say.
    #[must_use]
    pub fn next_timeout(&self, now: Time) -> Time {
        match self.changed.is_empty() {
            true => Time::FAR,
            false => self.budget.ready_at(now, 1.0),
        }
    }

    /// How many groups the node was told to join.
    #[must_use]
    pub fn joined(&self) -> usize {
        self.joined.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Duration;

    fn group(n: u32) -> NodeAddr {
        NodeAddr(0xef00_0000 + n)
    }

    #[test]
    fn only_differences_are_said() {
        let now = Time::ZERO;
        let mut members = Members::new(now);
        members.want(group(1), true);
        members.want(group(2), true);
        members.want(group(2), false);
        assert_eq!(members.next(now), Some(Change::Join(group(1))));
        assert_eq!(members.next(now), None);
        members.want(group(1), false);
        members.want(group(1), true);
        assert_eq!(members.next(now), None);
        members.on_node();
        assert_eq!(members.next(now), Some(Change::Join(group(1))));
        members.want(group(1), false);
        let leave = members.next(now).unwrap();
        assert_eq!(leave, Change::Leave(group(1)));
        members.unsaid(leave);
        assert_eq!(members.next(now), Some(leave));
        assert_eq!(
            (members.joined(), members.next_timeout(now)),
            (0, Time::FAR)
        );
    }

    #[test]
    fn a_mad_network_is_held_back_and_ends_up_right() {
        let (mut now, mut said) = (Time::ZERO, 0);
        let mut members = Members::new(now);
        for turn in 0..100_000u32 {
            members.want(group(turn % 500), turn / 500 % 2 == 0);
            now += Duration::from_micros(10);
            said += usize::from(members.next(now).is_some());
        }
        assert!(said <= BURST as usize + 201, "{said}");
        for n in 0..500 {
            members.want(group(n), n % 2 == 0);
        }
        while members.next_timeout(now) < Time::FAR {
            now = now.max(members.next_timeout(now));
            members.next(now);
        }
        assert_eq!(members.joined(), 250);
    }
}
