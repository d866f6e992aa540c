//! The difference between the groups that the network wants and the groups that the node was told to join.
//!
//! ```text
//!   wanted ──▶ said ──▶ joined
//!                └─ refused ──▶ parked ── after a while, or when the node has places again ──▶ said
//! ```
//! Only differences are sent, and at a limited rate: each join that is new to a node is a record that every node of the
//! overlay stores. So if programs of a network join and leave extremely often, this costs their own bridge some work,
//! but other nodes little. The groups take turns, in a circle of their addresses, so that groups that change often do
//! not keep others waiting.

use base::token_bucket::TokenBucket;
use base::{Duration, NodeAddr, Time};
use core::ops::Bound::{Excluded, Unbounded};
use std::collections::BTreeSet;

/// Maximum number of joins that are sent at once. A site has some dozens of programs, and starts them together.
const BURST: f64 = 1_000.0;
/// Joins and leaves per second beyond the burst.
const RATE_PER_S: f64 = 200.0;
/// The time from a refusal to the next attempt to join, at first; it doubles with each further refusal.
pub const RETRY: Duration = Duration::from_secs(1);
/// The maximum of this time.
pub const RETRY_MAX: Duration = Duration::from_secs(30);

/// The difference between what is wanted and what was sent to the node.
#[derive(Debug)]
pub struct Members {
    wanted: BTreeSet<NodeAddr>,
    /// Groups that the node was told to join, and has not refused.
    joined: BTreeSet<NodeAddr>,
    /// Groups that may be in only one of `wanted` and `joined`.
    changed: BTreeSet<NodeAddr>,
    /// The changed group that had the last turn.
    last: NodeAddr,
    /// Groups that are wanted, but that the node has refused or would refuse now.
    parked: BTreeSet<NodeAddr>,
    /// When the joins of the parked groups are sent again.
    retry_at: Time,
    retry: Duration,
    /// The node has no places: further joins are parked until the next attempt.
    is_full: bool,
    budget: TokenBucket,
}

/// A message to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Join a group.
    Join(NodeAddr),
    /// Leave one.
    Leave(NodeAddr),
}

impl Members {
    /// Creates the state in which nothing is wanted and nothing was sent.
    #[must_use]
    pub fn new(now: Time) -> Members {
        Members {
            wanted: BTreeSet::new(),
            joined: BTreeSet::new(),
            changed: BTreeSet::new(),
            last: NodeAddr::default(),
            parked: BTreeSet::new(),
            retry_at: Time::FAR,
            retry: RETRY,
            is_full: false,
            budget: TokenBucket::new(RATE_PER_S, BURST, now),
        }
    }

    /// Records that the network wants a group, or no longer wants it.
    pub fn want(&mut self, group: NodeAddr, is_wanted: bool) {
        match is_wanted {
            true => self.wanted.insert(group),
            false => self.wanted.remove(&group),
        };
        self.parked.remove(&group);
        self.changed.insert(group);
    }

    /// Records that the node is a new one, which was told nothing.
    pub fn on_node(&mut self) {
        self.joined.clear();
        self.changed = self.wanted.clone();
        self.parked.clear();
        self.retry_at = Time::FAR;
        self.retry = RETRY;
        self.is_full = false;
    }

    /// Records that the node has refused a join. If `is_full`, it had no place, and so would refuse further joins as
    /// well.
    pub fn on_refused(&mut self, now: Time, group: NodeAddr, is_full: bool) {
        if self.joined.remove(&group) && self.wanted.contains(&group) {
            self.parked.insert(group);
        }
        // Several refusals of messages that were sent together count once.
        let is_long_ago = self.retry_at < now && now.since(self.retry_at) > RETRY_MAX;
        if self.retry_at == Time::FAR || is_long_ago {
            self.retry = RETRY;
        }
        if self.retry_at <= now || self.retry_at == Time::FAR {
            self.retry_at = now + self.retry;
            self.retry = (self.retry * 2).min(RETRY_MAX);
        }
        self.is_full |= is_full;
    }

    /// Records that the node has places again.
    pub fn on_places(&mut self, now: Time) {
        self.retry = RETRY;
        self.say_parked(now);
    }

    /// Returns the next message to the node, if one is due; it counts as sent.
    pub fn next(&mut self, now: Time) -> Option<Change> {
        if self.retry_at <= now {
            self.say_parked(now);
        }
        while let Some(group) = self.turn() {
            let (wanted, joined) = (self.wanted.contains(&group), self.joined.contains(&group));
            let is_parked = wanted && !joined && self.is_full;
            if wanted != joined && !is_parked && !self.budget.try_take(now, 1.0) {
                return None;
            }
            self.changed.remove(&group);
            self.last = group;
            match (wanted, joined) {
                (true, false) if is_parked => drop(self.parked.insert(group)),
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

    /// Returns the changed group that follows the last one.
    fn turn(&self) -> Option<NodeAddr> {
        let mut after = self.changed.range((Excluded(self.last), Unbounded));
        after.next().or(self.changed.first()).copied()
    }

    fn say_parked(&mut self, now: Time) {
        self.is_full = false;
        // A further refusal sets the time again.
        self.retry_at = if self.parked.is_empty() {
            Time::FAR
        } else {
            now
        };
        self.changed.append(&mut self.parked);
    }

    /// Records that a message could not be sent to the node; it will be repeated.
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

    /// Returns when the next message may be due.
    #[must_use]
    pub fn next_timeout(&self, now: Time) -> Time {
        let changed = match self.changed.is_empty() {
            true => Time::FAR,
            false => self.budget.ready_at(now, 1.0),
        };
        let parked = match self.parked.is_empty() {
            true => Time::FAR,
            false => self.retry_at,
        };
        changed.min(parked)
    }

    /// Returns how many groups the node was told to join, and has not refused.
    #[must_use]
    pub fn joined(&self) -> usize {
        self.joined.len()
    }

    /// Returns how many wanted groups the node has refused, or would refuse now.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.parked.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// A node with a number of places, and the groups that it has taken.
    struct Node {
        places: usize,
        has: BTreeSet<NodeAddr>,
        refusals: usize,
    }

    impl Node {
        fn hear(&mut self, now: Time, members: &mut Members) {
            while let Some(change) = members.next(now) {
                match change {
                    Change::Join(group) if self.has.len() >= self.places => {
                        self.refusals += 1;
                        members.on_refused(now, group, true);
                    }
                    Change::Join(group) => drop(self.has.insert(group)),
                    Change::Leave(group) => drop(self.has.remove(&group)),
                }
            }
        }
    }

    #[test]
    fn what_is_refused_is_said_again_ever_more_rarely_and_at_once_when_there_are_places() {
        let mut now = Time::ZERO;
        let mut members = Members::new(now);
        let mut node = Node {
            places: 3,
            has: BTreeSet::new(),
            refusals: 0,
        };
        (0..10).for_each(|n| members.want(group(n), true));
        node.hear(now, &mut members);
        assert_eq!((members.joined(), members.refused()), (3, 7));
        assert_eq!(node.refusals, 1, "the others would be refused as well");
        // The attempts are after 1, 3, 7, 15, 31, 61, 91 and 121 s.
        let end = now + Duration::from_secs(121);
        while members.next_timeout(now) <= end {
            now = now.max(members.next_timeout(now));
            node.hear(now, &mut members);
        }
        assert_eq!(node.refusals, 9);
        node.places = 6;
        members.on_places(now);
        node.hear(now, &mut members);
        assert_eq!((members.joined(), members.refused()), (6, 4));
        // The bridge does not request a group again that nobody wants any more.
        (0..10).for_each(|n| members.want(group(n), n < 2));
        node.places = 100;
        node.hear(now, &mut members);
        assert_eq!((members.joined(), members.refused()), (2, 0));
        assert_eq!(node.has.len(), 2);
        assert_eq!(members.next_timeout(now), Time::FAR);
    }

    #[test]
    fn one_that_is_not_permitted_keeps_no_other_away() {
        let now = Time::ZERO;
        let mut members = Members::new(now);
        (1..4).for_each(|n| members.want(group(n), true));
        assert_eq!(members.next(now), Some(Change::Join(group(1))));
        members.on_refused(now, group(1), false);
        assert_eq!(members.next(now), Some(Change::Join(group(2))));
        assert_eq!(members.next(now), Some(Change::Join(group(3))));
        assert_eq!(members.next(now), None);
        assert_eq!((members.joined(), members.refused()), (2, 1));
        assert_eq!(members.next_timeout(now), now + RETRY);
        let later = now + RETRY;
        assert_eq!(members.next(later), Some(Change::Join(group(1))));
    }

    #[test]
    fn groups_that_change_all_the_time_keep_no_other_waiting() {
        let mut now = Time::ZERO;
        let mut members = Members::new(now);
        members.want(group(9_999), true);
        // 500 groups with lower addresses change 1000 times per second.
        let mut joined = BTreeSet::new();
        for turn in 0..10_000u32 {
            members.want(group(turn % 500), turn / 500 % 2 == 0);
            now += Duration::from_millis(1);
            if let Some(Change::Join(group)) = members.next(now) {
                joined.insert(group);
            }
        }
        assert!(joined.contains(&group(9_999)));
        assert_eq!(joined.len(), 501, "each of them has had its turn");
    }

    #[test]
    fn a_refusal_of_what_was_left_meanwhile_changes_nothing() {
        let now = Time::ZERO;
        let mut members = Members::new(now);
        members.want(group(1), true);
        members.next(now);
        members.want(group(1), false);
        members.next(now);
        members.on_refused(now, group(1), true);
        assert_eq!((members.joined(), members.refused()), (0, 0));
        assert_eq!(members.next_timeout(now), Time::FAR);
    }
}
