//! Handles a failed node: repairs the tables, and finds a new parent at once where the parent was lost.
//!
//! ```text
//!   leaf set:       the farthest leaves tell their leaf sets; whom they name is asked in
//!   routing table:  another node of the row tells its row, then one of the row below
//!   trees:          next hop to the group's id, without the lost one; a Join goes in the same call
//! ```

use super::Scribe;
use crate::event::{Event, Failure};
use crate::outlet::Outlet;
use base::{NodeAddr, Time};
use wire::scribe::Message;

impl Scribe {
    pub(super) fn fail(&mut self, now: Time, peer: NodeAddr, why: Failure, out: &mut impl Outlet) {
        let was = self.ring.forget(now, peer);
        let state = self.peers.remove(&peer);
        self.queue.remove(&peer);
        out.report(Event::PeerFailed { peer, why });
        if was.leaf {
            self.mend_leaves(now, out);
        }
        if let Some(row) = was.row {
            self.mend_row(row, out);
        }
        if state.is_some_and(|state| state.up.count + state.down.count > 0) {
            self.mend_trees(now, peer);
        }
        self.forget_root(now, peer, out);
    }

    fn mend_leaves(&mut self, now: Time, out: &mut impl Outlet) {
        let ends: Vec<NodeAddr> = self.ring.leaves.farthest().collect();
        for end in ends {
            self.say_beat(end, true, false, out);
        }
        let ring = &self.ring;
        let fits = |addr: &NodeAddr| ring.leaves.wants(*addr) && !ring.is_gone(*addr);
        let likely: Vec<NodeAddr> = ring.known().filter(fits).collect();
        self.probe(now, &likely, out);
    }

    fn mend_row(&mut self, row: usize, out: &mut impl Outlet) {
        let other = (row..self.ring.table.depth()).find_map(|row| self.ring.table.row(row).next());
        if let Some(other) = other {
            self.say(other, &Message::AskRow { row: row as u8 }, out);
        }
    }

    fn mend_trees(&mut self, now: Time, peer: NodeAddr) {
        let (mut orphaned, mut childless) = (Vec::new(), Vec::new());
        for (group, tree) in &mut self.trees {
            if tree.parent() == Some(peer) {
                orphaned.push(*group);
            } else if tree.remove_child(peer) {
                childless.push(*group);
            }
        }
        for group in orphaned {
            self.pending.remove(&(peer, group));
            self.stats.repaired += 1;
            self.attach(now, group);
        }
        for group in childless {
            self.changed.insert(group);
            self.prune(now, group);
        }
    }
}
