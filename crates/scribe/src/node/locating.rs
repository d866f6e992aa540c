//! Finds roots for senders that are in no tree. A question travels along the ring to the root, which answers the asker
//! directly. The question is repeated as long as the root is wanted, because roots move.

use super::membership::is_group;
use super::{Listing, Scribe};
use crate::config::{HOPS_MAX, LOCATE_AGAIN, LOCATE_LIFE, LOCATE_RETRY, LOCATES_MAX};
use crate::event::{Dropped, JoinError};
use crate::id::Id;
use crate::outlet::Outlet;
use crate::timers::Timer;
use base::{NodeAddr, Time};
use std::collections::BTreeMap;
use wire::scribe::{ADDRESSES_MAX, Addresses, Hops, Message};

/// A root that a sender wants to know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) root: Option<NodeAddr>,
    asked: Time,
    answered: Option<Time>,
    until: Time,
}

impl Wanted {
    fn is_answered(&self) -> bool {
        self.root.is_some() && self.answered >= Some(self.asked)
    }
}

impl Scribe {
    pub(super) fn want_root(
        &mut self,
        now: Time,
        group: NodeAddr,
        out: &mut impl Outlet,
    ) -> Result<(), JoinError> {
        if !is_group(group) {
            return Err(JoinError::NotAGroup(group));
        }
        let until = now + LOCATE_LIFE;
        if let Some(wanted) = self.wanted.get_mut(&group) {
            wanted.until = until;
            if let Some(root) = wanted.root {
                out.root(group, root);
            }
            return Ok(());
        }
        if self.wanted.len() >= LOCATES_MAX {
            return Err(JoinError::Full(group));
        }
        let wanted = Wanted {
            root: None,
            asked: now,
            answered: None,
            until,
        };
        self.wanted.insert(group, wanted);
        self.timers.at_most(Timer::Locate, now + LOCATE_RETRY);
        self.ask_roots(now, &[group], false, out);
        Ok(())
    }

    fn ask_roots(
        &mut self,
        now: Time,
        groups: &[NodeAddr],
        another_way: bool,
        out: &mut impl Outlet,
    ) {
        // A node that is not in the ring would take itself for the root.
        if self.entering.is_some() {
            return;
        }
        for group in groups {
            if let Some(wanted) = self.wanted.get_mut(group) {
                wanted.asked = now;
            }
        }
        let own = self.ring.own;
        let hops = Hops {
            count: 0,
            another_way,
        };
        let mine = self.pass_on(own, hops, groups.iter().copied(), out);
        for group in mine {
            self.found_root(now, group, own, out);
        }
    }

    /// Sends questions on, each to its next hop. Returns the groups whose root is this node.
    fn pass_on(
        &mut self,
        asker: NodeAddr,
        hops: Hops,
        groups: impl Iterator<Item = NodeAddr>,
        out: &mut impl Outlet,
    ) -> Vec<NodeAddr> {
        let mut mine = Vec::new();
        let mut onward: BTreeMap<NodeAddr, Vec<NodeAddr>> = BTreeMap::new();
        for group in groups {
            let key = Id::of_group(group);
            let next = if hops.another_way {
                let random = self.rng.next_u64();
                self.ring.another_hop(key, None, random)
            } else {
                self.ring.next_hop(key, None)
            };
            match next {
                Some(next) => onward.entry(next).or_default().push(group),
                None => mine.push(group),
            }
        }
        for (next, groups) in onward {
            for page in groups.chunks(ADDRESSES_MAX) {
                let locate = Message::Locate {
                    asker,
                    hops,
                    groups: Addresses::new(page),
                };
                self.say(next, &locate, out);
            }
        }
        mine
    }

    pub(super) fn on_locate(
        &mut self,
        now: Time,
        asker: NodeAddr,
        hops: Hops,
        groups: Addresses<'_>,
        out: &mut impl Outlet,
    ) -> Result<(), Dropped> {
        if !asker.is_node() || !groups.iter().all(is_group) {
            return Err(Dropped::Address);
        }
        if hops.count >= HOPS_MAX {
            return Err(Dropped::Hops);
        }
        let mine = self.pass_on(asker, hops.next(), groups.iter(), out);
        if asker == self.ring.own {
            for group in mine {
                self.found_root(now, group, asker, out);
            }
        } else {
            self.say_groups(asker, &mine, Listing::Root, out);
        }
        Ok(())
    }

    pub(super) fn on_root(
        &mut self,
        now: Time,
        from: NodeAddr,
        groups: Addresses<'_>,
        out: &mut impl Outlet,
    ) -> Result<(), Dropped> {
        let mut asked = false;
        for group in groups.iter() {
            asked |= self.wanted.contains_key(&group);
            self.found_root(now, group, from, out);
        }
        if asked { Ok(()) } else { Err(Dropped::Stale) }
    }

    fn found_root(&mut self, now: Time, group: NodeAddr, root: NodeAddr, out: &mut impl Outlet) {
        let Some(wanted) = self.wanted.get_mut(&group) else {
            return;
        };
        wanted.answered = Some(now);
        if wanted.root != Some(root) {
            wanted.root = Some(root);
            out.root(group, root);
        }
    }

    /// Handles a failed node: the groups of which it was the root have another one.
    pub(super) fn forget_root(&mut self, now: Time, peer: NodeAddr, out: &mut impl Outlet) {
        let lost = self.wanted.iter_mut().filter(|(_, w)| w.root == Some(peer));
        let lost: Vec<NodeAddr> = lost
            .map(|(group, wanted)| {
                wanted.root = None;
                *group
            })
            .collect();
        if !lost.is_empty() {
            self.timers.at_most(Timer::Locate, now + LOCATE_RETRY);
            self.ask_roots(now, &lost, false, out);
        }
    }

    /// Handles a new leaf: if it is closer to a group's id than the known root, the root has probably moved.
    pub(super) fn seek_roots(&mut self, now: Time, leaf: NodeAddr, out: &mut impl Outlet) {
        let id = Id::of_node(leaf);
        let moved = self.wanted.iter().filter(|(group, wanted)| {
            let closer = |root| Id::of_group(**group).closer(id, Id::of_node(root)).is_lt();
            wanted.root.is_some_and(closer)
        });
        let moved: Vec<NodeAddr> = moved.map(|(group, _)| *group).collect();
        if !moved.is_empty() {
            self.timers.at_most(Timer::Locate, now + LOCATE_RETRY);
            self.ask_roots(now, &moved, false, out);
        }
    }

    pub(super) fn locate_again(&mut self, now: Time, out: &mut impl Outlet) {
        self.wanted.retain(|_, wanted| wanted.until > now);
        let wait = |wanted: &Wanted| match wanted.is_answered() {
            true => LOCATE_AGAIN,
            false => LOCATE_RETRY,
        };
        let due = |(_, wanted): &(&NodeAddr, &Wanted)| wanted.asked + wait(wanted) <= now;
        let due = self.wanted.iter().filter(due);
        let (known, unanswered): (Vec<_>, Vec<_>) = due
            .map(|(group, wanted)| (*group, wanted.is_answered()))
            .partition(|(_, is_known)| *is_known);
        for (groups, another_way) in [(known, false), (unanswered, true)] {
            let groups: Vec<NodeAddr> = groups.into_iter().map(|(group, _)| group).collect();
            self.ask_roots(now, &groups, another_way, out);
        }
        if !self.wanted.is_empty() {
            self.timers.at_most(Timer::Locate, now + LOCATE_RETRY);
        }
    }
}
