//! A parent has refused this node, so the node asks others.
//!
//! ```text
//!   Refuse (full, capacity, order)
//!      ├─ it names another, closer to the group's id than this node ──▶ Join to that one
//!      ├─ else: of all that are known and closer, the closest that has not refused ──▶ Join
//!      '─ nobody, or eight have refused ──▶ a pause, then whoever was asked last again
//! ```
//! Each node that is asked is closer to the group's id than this node, as every parent is, so no detour closes a loop.
//! A parent that is not in the tree of the group yet joins it itself.

use super::Scribe;
use crate::config::{JOIN_WAIT_MOST, REFUSED_MAX, REFUSERS_MAX};
use crate::event::{Dropped, Event};
use crate::id::Id;
use crate::outlet::Outlet;
use crate::timers::Timer;
use crate::tree::Tree;
use base::{NodeAddr, Time};
use wire::scribe::{Addresses, Refusal};

/// The nodes that have refused this node in a group.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    /// The refusals since the last pause.
    by: Vec<NodeAddr>,
    /// The last node that refused, and why.
    pub(super) last: (NodeAddr, Refusal),
}

impl Scribe {
    pub(super) fn on_refuse(
        &mut self,
        now: Time,
        from: NodeAddr,
        reason: Refusal,
        instead: Option<NodeAddr>,
        groups: Addresses<'_>,
        out: &mut impl Outlet,
    ) -> Result<(), Dropped> {
        let mut answered = false;
        for group in groups.iter() {
            // A former parent that has forgotten this node and has no room any more also sends a refusal.
            if self.trees.get(&group).and_then(Tree::parent) != Some(from) {
                continue;
            }
            answered = true;
            let by = from;
            out.report(Event::Refused { group, by, reason });
            match self.elsewhere(group, (from, reason), instead) {
                Some(other) => self.set_parent(now, group, Some(other)),
                None => self.wait_for(now, from, group),
            }
        }
        if answered {
            Ok(())
        } else {
            Err(Dropped::Stale)
        }
    }

    /// Returns the node to ask next in a group; `None` if all have refused.
    fn elsewhere(
        &mut self,
        group: NodeAddr,
        last: (NodeAddr, Refusal),
        instead: Option<NodeAddr>,
    ) -> Option<NodeAddr> {
        if !self.refused.contains_key(&group) && self.refused.len() >= REFUSED_MAX {
            return None;
        }
        let new = || Refused {
            by: Vec::new(),
            last,
        };
        let refused = self.refused.entry(group).or_insert_with(new);
        refused.last = last;
        if !refused.by.contains(&last.0) {
            refused.by.push(last.0);
        }
        let key = Id::of_group(group);
        let (ring, by) = (&self.ring, &refused.by);
        let may = |node: &NodeAddr| {
            ring.is_other(*node) && ring.is_closer(*node, key) && !by.contains(node)
        };
        let closest = || {
            let known = ring.known().filter(may);
            known.min_by(|a, b| key.closer(Id::of_node(*a), Id::of_node(*b)))
        };
        let is_hopeless = last.1 == Refusal::NotAGroup || by.len() >= REFUSERS_MAX;
        let next = match is_hopeless {
            true => None,
            false => instead.filter(may).or_else(closest),
        };
        if next.is_none() {
            refused.by.clear();
        }
        next
    }

    /// Keeps the refusing node as the wanted parent, and asks it again after a pause.
    fn wait_for(&mut self, now: Time, parent: NodeAddr, group: NodeAddr) {
        self.pending.insert((parent, group));
        let again = now + JOIN_WAIT_MOST;
        self.peer(now, parent).asked.again = again;
        self.timers.at_most(Timer::Retry, again);
    }
}
