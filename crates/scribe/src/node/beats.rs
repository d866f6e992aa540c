//! Heartbeats: they show which nodes live, whose leaf set has changed, and whether tables have nearer nodes.
//!
//! A node sends a beat to every leaf and a Keep to every parent; both carry what keeps the two ends in step. A neighbor
//! that is silent for a beat and a half is asked; a neighbor that is silent for [`crate::Settings::silence`] has
//! failed. The overlay usually detects this sooner.

use super::Scribe;
use crate::config::{PROBES_MAX, VISITS_MAX};
use crate::event::{Dropped, Failure};
use crate::outlet::Outlet;
use crate::timers::Timer;
use base::{NodeAddr, Time};
use wire::scribe::{Addresses, BeatFlags, Message};

impl Scribe {
    pub(super) fn beat(&mut self, now: Time, out: &mut impl Outlet) {
        let all: Vec<NodeAddr> = self.peers.keys().copied().collect();
        let late = self.settings.beat.mul_f64(1.5);
        for addr in all {
            let is_leaf = self.ring.leaves.contains(addr);
            let Some(peer) = self.peers.get_mut(&addr) else {
                continue;
            };
            peer.visits = VISITS_MAX;
            if peer.is_idle() && !is_leaf {
                self.peers.remove(&addr);
                continue;
            }
            let silent = now.since(peer.heard);
            // Nothing is expected of a neighbor that is neither a leaf nor in a tree.
            if silent > self.settings.silence && (is_leaf || peer.up.count + peer.down.count > 0) {
                self.fail(now, addr, Failure::Silent, out);
                continue;
            }
            // The neighbor lives, but sends nothing as a child. Either it has another parent and believes that this
            // node has failed, or a message was lost.
            let unkept = now.since(peer.kept);
            let asks = peer.down.count > 0 && unkept > late;
            let lets_go = peer.down.count > 0 && unkept > self.settings.silence * 2;
            let keeps = peer.up.count > 0 || peer.leaving > 0;
            if peer.up.count == 0 {
                peer.leaving = peer.leaving.saturating_sub(1);
            }
            if is_leaf || silent > late {
                self.say_beat(addr, silent > late, false, out);
            }
            if keeps {
                self.keep(addr, out);
            }
            if lets_go {
                self.drop_children(now, addr);
            } else if asks {
                self.ask_all(addr, out);
            }
        }
        if !self.peers.is_empty() {
            let beat = self.jittered(self.settings.beat);
            self.timers.at_most(Timer::Beat, now + beat);
        }
    }

    pub(super) fn on_beat(
        &mut self,
        now: Time,
        from: NodeAddr,
        flags: BeatFlags,
        nodes: Addresses<'_>,
        out: &mut impl Outlet,
    ) -> Result<(), Dropped> {
        if let Some(entering) = &mut self.entering
            && entering.answered.len() < PROBES_MAX
        {
            entering.answered.insert(from);
        }
        if flags.entering {
            self.ring.probes.remove(&from);
        } else if self.ring.admit(now, from, &|to| out.proximity_us(to)) {
            self.peer(now, from);
            self.give_up_roots(now, from);
            self.seek_roots(now, from, out);
        }
        let mut likely = Vec::new();
        for addr in nodes.iter() {
            if self.ring.hear_of(addr, &|to| out.proximity_us(to)) {
                likely.push(addr);
            }
        }
        // A newcomer asks the nodes that the node closest to it has reported, and these have all reported theirs.
        if self.entering.is_none() || !flags.entering {
            self.probe(now, &likely, out);
        }
        // A node that sends beats and gets none back would believe that this node is dead.
        let is_expected = !flags.an_answer && !self.ring.leaves.contains(from);
        if flags.answer_me || is_expected {
            self.say_beat(from, false, true, out);
        }
        self.try_finish(now, out);
        Ok(())
    }

    /// Compares a row of the routing table with that of a node in it, which has the same prefix. Also checks whether a
    /// failed node is back. This happens often at first, and rarely later.
    pub(super) fn upkeep(&mut self, now: Time, out: &mut impl Outlet) {
        let row = self.rng.below(self.ring.table.depth() as u64) as usize;
        let others: Vec<NodeAddr> = self.ring.table.row(row).collect();
        let pick = self.rng.below(others.len() as u64) as usize;
        if let Some(&other) = others.get(pick) {
            self.say(other, &Message::AskRow { row: row as u8 }, out);
        }
        if let Some(gone) = self.ring.any_gone(self.rng.next_u64())
            && self.entering.is_none()
        {
            self.ask_way(gone, true, out);
        }
        let pause = self.jittered(self.upkeep_pause);
        self.timers.set(Timer::Upkeep, Some(now + pause));
        self.upkeep_pause = (self.upkeep_pause * 2).min(self.settings.upkeep_most);
    }

    pub(super) fn on_ask_row(
        &mut self,
        from: NodeAddr,
        row: u8,
        out: &mut impl Outlet,
    ) -> Result<(), Dropped> {
        let nodes: Vec<NodeAddr> = self.ring.table.row(row.into()).collect();
        let state = Message::State {
            nonce: 0,
            last: false,
            nodes: Addresses::new(&nodes),
        };
        self.say(from, &state, out);
        Ok(())
    }
}
