//! The membership in a tree: parents are asked and answer, children are accepted and refused.
//!
//! ```text
//!               Join                Join               none closer: root
//!   member ───────────▶ forwarder ───────────▶ … ───▶ o
//!      ◀── Accept ──'       ◀── Accept ──'
//! ```
//!
//! A Join travels one hop. The node that gets it takes the child at once, and joins itself if it is not in the tree:
//! the tree forks where joins meet [Brogle09 §I: the reverse of the path to the root is the dissemination path]. Joins
//! are repeated until they are accepted.
//!
//! A node with many children hands a newcomer on to one of them that is closer to the group's id than the newcomer, so
//! the order of the tree holds. A refused node asks other nodes: see `refusing`.

use super::{Listing, Scribe};
use crate::config::{
    CHILDREN_HARD_MAX, JOIN_TRIES, JOIN_WAIT_MOST, JOIN_WAIT_NEW, LEAVING_BEATS, PAGES_MAX,
};
use crate::event::{Dropped, Failure, JoinError};
use crate::id::Id;
use crate::outlet::Outlet;
use crate::timers::Timer;
use crate::tree::Tree;
use base::{Duration, NodeAddr, Time};
use core::ops::Bound;
use std::collections::BTreeMap;
use wire::scribe::{ADDRESSES_MAX, Addresses, Message, Refusal};

/// The result of a Join.
pub(super) type Verdict = Result<(), (Refusal, Option<NodeAddr>)>;

pub(super) fn is_group(addr: NodeAddr) -> bool {
    addr.is_multicast() || addr.is_anycast()
}

impl Scribe {
    pub(super) fn become_member(&mut self, now: Time, group: NodeAddr) -> Result<(), JoinError> {
        if !is_group(group) {
            return Err(JoinError::NotAGroup(group));
        }
        if let Some(tree) = self.trees.get_mut(&group) {
            tree.is_member = true;
        } else {
            if self.trees.len() >= self.settings.groups_max {
                return Err(JoinError::Full(group));
            }
            let tree = self.trees.entry(group).or_default();
            tree.is_member = true;
            self.attach(now, group);
        }
        self.changed.insert(group);
        Ok(())
    }

    pub(super) fn end_membership(&mut self, now: Time, group: NodeAddr) {
        if let Some(tree) = self.trees.get_mut(&group) {
            tree.is_member = false;
            self.changed.insert(group);
            self.prune(now, group);
        }
    }

    /// Finds the parent in a group: the next hop to the group's id.
    pub(super) fn attach(&mut self, now: Time, group: NodeAddr) {
        let parent = match self.entering {
            Some(_) => None,
            None => self.ring.next_hop(Id::of_group(group), None),
        };
        self.set_parent(now, group, parent);
    }

    /// Finds the parents of groups that were joined before the node was in the ring.
    pub(super) fn attach_orphans(&mut self, now: Time) {
        let rootless = self.trees.iter().filter(|(_, t)| t.parent().is_none());
        let groups: Vec<NodeAddr> = rootless.map(|(group, _)| *group).collect();
        for group in groups {
            self.attach(now, group);
        }
    }

    /// Handles a new leaf: it is the root of the groups to whose ids it is closest.
    pub(super) fn give_up_roots(&mut self, now: Time, leaf: NodeAddr) {
        if self.entering.is_some() {
            return;
        }
        let rootless = self.trees.iter().filter(|(_, t)| t.parent().is_none());
        let closer = |group: &NodeAddr| self.ring.is_closer(leaf, Id::of_group(*group));
        let groups: Vec<NodeAddr> = rootless.map(|(group, _)| *group).filter(closer).collect();
        for group in groups {
            self.attach(now, group);
        }
    }

    pub(super) fn set_parent(&mut self, now: Time, group: NodeAddr, parent: Option<NodeAddr>) {
        let Some(tree) = self.trees.get_mut(&group) else {
            return;
        };
        let old = tree.parent();
        tree.set_parent(parent);
        self.changed.insert(group);
        if parent.is_none() {
            self.refused.remove(&group);
        }
        // The state of a failed parent is already gone.
        if let Some(old) = old
            && let Some(peer) = self.peers.get_mut(&old)
        {
            peer.up.remove(group);
            peer.leaving = LEAVING_BEATS;
            self.pending.remove(&(old, group));
            self.queue.entry(old).or_default().insert(group, false);
        }
        if let Some(parent) = parent {
            let is_first = self.pending_groups(parent).next().is_none();
            let peer = self.peer(now, parent);
            peer.up.add(group);
            if is_first {
                // `join_again` sets the time when the Join is sent, in this same call.
                peer.begin_asking(now);
            } else {
                // Other Joins may already wait long, but this one has not been sent yet.
                peer.asked.again = peer.asked.again.min(now + JOIN_WAIT_NEW);
            }
            let again = peer.asked.again;
            self.timers.at_most(Timer::Retry, again);
            self.pending.insert((parent, group));
            self.queue.entry(parent).or_default().insert(group, true);
        }
    }

    /// Leaves the tree if neither members nor children need it here.
    pub(super) fn prune(&mut self, now: Time, group: NodeAddr) {
        if self.trees.get(&group).is_some_and(|tree| !tree.is_needed()) {
            self.set_parent(now, group, None);
            self.trees.remove(&group);
            self.refused.remove(&group);
        }
    }

    fn pending_groups(&self, parent: NodeAddr) -> impl Iterator<Item = NodeAddr> + '_ {
        let range = (parent, NodeAddr(0))..=(parent, NodeAddr(u32::MAX));
        self.pending.range(range).map(|(_, group)| *group)
    }

    /// Repeats Joins that were not answered. A parent that sends no answer at all has failed.
    pub(super) fn join_again(&mut self, now: Time, out: &mut impl Outlet) {
        let mut after = Bound::Unbounded;
        let mut failed = Vec::new();
        let mut next: Option<Time> = None;
        while let Some(&(parent, _)) = self.pending.range((after, Bound::Unbounded)).next() {
            after = Bound::Excluded((parent, NodeAddr(u32::MAX)));
            let wait = join_wait(out.proximity_us(parent));
            let page = PAGES_MAX * ADDRESSES_MAX;
            let groups: Vec<NodeAddr> = self.pending_groups(parent).take(page).collect();
            let Some(peer) = self.peers.get_mut(&parent) else {
                continue;
            };
            let asked = &mut peer.asked;
            if asked.again <= now {
                if asked.tries > JOIN_TRIES && peer.heard <= asked.since {
                    failed.push(parent);
                    continue;
                }
                let wait = (wait * (1 << asked.tries.min(5))).min(JOIN_WAIT_MOST);
                asked.again = now + wait;
                // The first time only sets the pause: the Joins themselves are in the queue.
                if asked.tries > 0 {
                    let queue = self.queue.entry(parent).or_default();
                    queue.extend(groups.into_iter().map(|group| (group, true)));
                }
                asked.tries = asked.tries.saturating_add(1);
            }
            next = Some(next.map_or(asked.again, |next| next.min(asked.again)));
        }
        if let Some(next) = next {
            self.timers.at_most(Timer::Retry, next);
        }
        for parent in failed {
            self.fail(now, parent, Failure::Silent, out);
        }
    }

    pub(super) fn on_join(
        &mut self,
        now: Time,
        from: NodeAddr,
        groups: Addresses<'_>,
        out: &mut impl Outlet,
    ) -> Result<(), Dropped> {
        self.child_peer(now, from)?.kept = now;
        self.take_children(now, from, groups.iter(), true, out);
        Ok(())
    }

    /// Accepts a node as a child in groups, and informs it.
    pub(super) fn take_children(
        &mut self,
        now: Time,
        from: NodeAddr,
        groups: impl Iterator<Item = NodeAddr>,
        tells_all: bool,
        out: &mut impl Outlet,
    ) {
        let mut accepted = Vec::new();
        let mut refused: BTreeMap<(u8, NodeAddr), Vec<NodeAddr>> = BTreeMap::new();
        for group in groups {
            if self.trees.get(&group).is_some_and(|t| t.has_child(from)) {
                if tells_all {
                    accepted.push(group);
                }
                continue;
            }
            match self.take_child(now, from, group, out) {
                Ok(()) => accepted.push(group),
                Err((reason, instead)) => {
                    self.stats.refused += 1;
                    let key = (reason.to_byte(), instead.unwrap_or_default());
                    refused.entry(key).or_default().push(group);
                }
            }
        }
        self.say_groups(from, &accepted, Listing::Accept, out);
        for ((reason, instead), groups) in refused {
            let refuse = |groups| Message::Refuse {
                reason: Refusal::from_byte(reason),
                instead: (instead.0 != 0).then_some(instead),
                groups,
            };
            for page in groups.chunks(ADDRESSES_MAX) {
                self.say(from, &refuse(Addresses::new(page)), out);
            }
        }
    }

    /// Accepts or refuses a node as a child. A refusal names a node that the child may ask instead: a child of this
    /// node, or its parent.
    fn take_child(
        &mut self,
        now: Time,
        from: NodeAddr,
        group: NodeAddr,
        out: &mut impl Outlet,
    ) -> Verdict {
        if !is_group(group) {
            return Err((Refusal::NotAGroup, None));
        }
        let key = Id::of_group(group);
        if self.ring.is_closer(from, key) {
            return Err((Refusal::Order, None));
        }
        let tree = self.trees.get(&group);
        let above = tree.and_then(Tree::parent);
        let peer = self.peers.get(&from);
        if peer.is_none_or(|p| p.down.count >= self.settings.groups_per_child_max) {
            return Err((Refusal::Full, above));
        }
        match tree {
            None if self.trees.len() >= self.settings.groups_max => {
                return Err((Refusal::Full, None));
            }
            Some(tree) if tree.children().len() >= self.settings.children_max => {
                if let Some(instead) = closer_child(tree, key, from) {
                    return Err((Refusal::Full, Some(instead)));
                }
                if tree.children().len() >= CHILDREN_HARD_MAX {
                    return Err((Refusal::Full, above));
                }
            }
            _ => {}
        }
        if !out.admits(group, from) {
            return Err((Refusal::Capacity, above));
        }
        let is_new = !self.trees.contains_key(&group);
        self.trees.entry(group).or_default().add_child(from);
        self.peer(now, from).down.add(group);
        if is_new {
            self.attach(now, group);
        }
        self.changed.insert(group);
        Ok(())
    }

    pub(super) fn on_leave(
        &mut self,
        now: Time,
        from: NodeAddr,
        groups: Addresses<'_>,
    ) -> Result<(), Dropped> {
        for group in groups.iter() {
            self.drop_child(now, from, group);
        }
        Ok(())
    }

    pub(super) fn drop_child(&mut self, now: Time, child: NodeAddr, group: NodeAddr) {
        let tree = self.trees.get_mut(&group);
        if tree.is_some_and(|tree| tree.remove_child(child)) {
            if let Some(peer) = self.peers.get_mut(&child) {
                peer.down.remove(group);
            }
            self.changed.insert(group);
            self.prune(now, group);
        }
    }

    /// Removes a node as a child from all groups.
    pub(super) fn drop_children(&mut self, now: Time, child: NodeAddr) {
        let with = self.trees.iter().filter(|(_, t)| t.has_child(child));
        let groups: Vec<NodeAddr> = with.map(|(group, _)| *group).collect();
        for group in groups {
            self.drop_child(now, child, group);
        }
    }

    pub(super) fn on_accept(
        &mut self,
        from: NodeAddr,
        groups: Addresses<'_>,
    ) -> Result<(), Dropped> {
        for group in groups.iter() {
            self.pending.remove(&(from, group));
            let parent = self.trees.get(&group).and_then(Tree::parent);
            if parent == Some(from) {
                self.refused.remove(&group);
            } else if self.peers.contains_key(&from) {
                // This is an answer to a Join that has been withdrawn meanwhile.
                self.queue.entry(from).or_default().insert(group, false);
            }
        }
        Ok(())
    }
}

/// Returns how long a Join waits for its answer: one and a half round trips, and the time for gathering and scheduling.
fn join_wait(proximity_us: Option<u32>) -> Duration {
    match proximity_us {
        Some(us) => Duration::from_micros(30_000 + 3 * u64::from(us)),
        None => Duration::from_millis(250),
    }
    .min(JOIN_WAIT_MOST)
}

/// Returns one of the children that may be the newcomer's parent. Different newcomers are spread over them.
fn closer_child(tree: &Tree, key: Id, newcomer: NodeAddr) -> Option<NodeAddr> {
    let id = Id::of_node(newcomer);
    let closer = |child: &&NodeAddr| key.closer(Id::of_node(**child), id).is_lt();
    let count = tree.children().iter().filter(closer).count();
    let pick = (id.0 as usize).checked_rem(count)?;
    tree.children().iter().filter(closer).nth(pick).copied()
}
