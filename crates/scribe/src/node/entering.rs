//! Entering the ring, and asking nodes into the leaf set.
//!
//! ```text
//!   newcomer          via              …             Z, closest to the newcomer's id
//!      |-- Enter ----->|---- Enter --->|---- Enter ---->|
//!      |<---- State ---|               |                |   rows of the table, neighbourhood
//!      |<------------ State -----------|                |   rows of the table
//!      |<----------------------------- State (last) ----|   leaf set
//!      |== Beat (entering, answer me) ==> each leaf        whoever answers comes into the leaf set
//!      |== Beat ==> all nodes of the tables                the newcomer is in the ring
//! ```
//!
//! Until then no node routes to the newcomer, so the newcomer is never asked something that it does not know. A lost
//! message costs a repetition of the whole procedure.

use super::Scribe;
use crate::config::{
    ENTER_WAIT, ENTER_WAIT_MOST, HOPS_MAX, MET_MAX, PROBE_TRIES, PROBE_WAIT, PROBES_MAX,
};
use crate::event::{Dropped, Event};
use crate::id::Id;
use crate::outlet::Outlet;
use crate::ring::Probe;
use crate::timers::Timer;
use base::{Duration, NodeAddr, Time};
use std::collections::BTreeSet;
use wire::scribe::{ADDRESSES_MAX, Addresses, BeatFlags, Enter, Hops, Message};

/// How far entering has progressed.
#[derive(Clone, Debug)]
pub(super) struct Entering {
    via: NodeAddr,
    wait: Duration,
    /// The node closest to this node's id has answered.
    found: bool,
    /// The nodes to which the overlay has found a path meanwhile.
    met: BTreeSet<NodeAddr>,
    /// The nodes that have answered a probe. They are informed at the end, even those that were entering themselves.
    pub(super) answered: BTreeSet<NodeAddr>,
}

impl Scribe {
    pub(super) fn begin_entering(&mut self, now: Time, via: NodeAddr, out: &mut impl Outlet) {
        self.entering = Some(Entering {
            via,
            wait: ENTER_WAIT,
            found: false,
            met: BTreeSet::new(),
            answered: BTreeSet::new(),
        });
        self.timers.set(Timer::Enter, Some(now + ENTER_WAIT));
        self.ask_way(via, false, out);
    }

    pub(super) fn enter_again(&mut self, now: Time, out: &mut impl Outlet) {
        let Some(entering) = &mut self.entering else {
            return;
        };
        entering.wait = (entering.wait * 2).min(ENTER_WAIT_MOST);
        let (via, wait) = (entering.via, entering.wait);
        // A node that has answered on the way may know another node that has not failed.
        let known: Vec<NodeAddr> = self.ring.known().chain([via]).collect();
        let via = known[self.rng.below(known.len() as u64) as usize];
        self.timers.set(Timer::Enter, Some(now + wait));
        self.ask_way(via, true, out);
    }

    /// Asks for the nodes next to this node's id, from another node's point of view.
    pub(super) fn ask_way(&mut self, via: NodeAddr, another_way: bool, out: &mut impl Outlet) {
        self.nonce = (self.rng.next_u64() as u32) | 1;
        let enter = Enter {
            joiner: self.ring.own,
            nonce: self.nonce,
            hops: Hops {
                count: 0,
                another_way,
            },
        };
        self.say(via, &Message::Enter(enter), out);
    }

    /// Handles a newcomer's Enter. A node that is entering itself answers, too: two nodes that begin with each other
    /// would otherwise wait forever.
    pub(super) fn on_enter(
        &mut self,
        from: NodeAddr,
        enter: Enter,
        out: &mut impl Outlet,
    ) -> Result<(), Dropped> {
        let joiner = enter.joiner;
        // A node cannot make this node send state to a third node, except by routing.
        if !self.ring.is_other(joiner) || (enter.hops.count == 0 && joiner != from) {
            return Err(Dropped::Address);
        }
        if enter.hops.count >= HOPS_MAX {
            return Err(Dropped::Hops);
        }
        let id = Id::of_node(joiner);
        let next = if enter.hops.another_way {
            let random = self.rng.next_u64();
            self.ring.another_hop(id, Some(joiner), random)
        } else {
            self.ring.next_hop(id, Some(joiner))
        };
        let nodes = self.state_for(joiner, enter.hops.count == 0);
        let state = Message::State {
            nonce: enter.nonce,
            last: next.is_none(),
            nodes: Addresses::new(&nodes),
        };
        self.say(joiner, &state, out);
        if let Some(next) = next {
            let enter = Enter {
                hops: enter.hops.next(),
                ..enter
            };
            self.say(next, &Message::Enter(enter), out);
        }
        Ok(())
    }

    /// Returns the nodes to send to a newcomer: the leaf set and the rows that also fit the newcomer's id. The first
    /// node, which is near the newcomer, adds its neighborhood.
    fn state_for(&self, joiner: NodeAddr, is_first: bool) -> Vec<NodeAddr> {
        let shared = self.ring.id.shared_digits(Id::of_node(joiner));
        let rows = (0..=shared).flat_map(|row| self.ring.table.row(row));
        let near = self.ring.neighbourhood.iter().filter(|_| is_first);
        let mut told = BTreeSet::from([joiner]);
        let all = self.ring.leaves.iter().chain(rows).chain(near);
        all.filter(|addr| told.insert(*addr))
            .take(ADDRESSES_MAX)
            .collect()
    }

    pub(super) fn on_state(
        &mut self,
        now: Time,
        from: NodeAddr,
        nonce: u32,
        last: bool,
        nodes: Addresses<'_>,
        out: &mut impl Outlet,
    ) -> Result<(), Dropped> {
        if nonce != 0 && nonce != self.nonce {
            return Err(Dropped::Stale);
        }
        if nonce != 0 {
            // The message answers a current question, so the sender lives, whatever happened to earlier questions.
            self.ring.has_answered(from);
        }
        let mut likely = Vec::new();
        for addr in core::iter::once(from).chain(nodes.iter()) {
            if self.ring.hear_of(addr, &|to| out.proximity_us(to)) {
                likely.push(addr);
            }
        }
        // Nodes on the path are not next to a newcomer's id; only the leaves of the last one are.
        if last || self.entering.is_none() {
            self.probe(now, &likely, out);
        }
        if let Some(entering) = self.entering.as_mut().filter(|_| last) {
            entering.found = true;
        }
        self.try_finish(now, out);
        Ok(())
    }

    /// Asks the nodes of this list that belong into the leaf set and are not in it.
    pub(super) fn meet(&mut self, now: Time, nodes: &[NodeAddr], out: &mut impl Outlet) {
        let leaves = &self.ring.leaves;
        let fits = |node: &&NodeAddr| leaves.wants(**node);
        let likely: Vec<NodeAddr> = nodes.iter().filter(fits).copied().collect();
        self.probe(now, &likely, out);
    }

    /// Remembers a node, to ask it when this node is in the ring.
    pub(super) fn meet_while_entering(&mut self, peer: NodeAddr) {
        if let Some(entering) = &mut self.entering
            && entering.met.len() < MET_MAX
        {
            entering.met.insert(peer);
        }
    }

    /// Asks the nodes of this list that would be in the leaf set if all of them lived.
    pub(super) fn probe(&mut self, now: Time, likely: &[NodeAddr], out: &mut impl Outlet) {
        if likely.is_empty() {
            return;
        }
        // Reports of other nodes name nodes that do not answer, again and again. Without this check, entering would
        // never end.
        let is_hopeless = |addr: &&NodeAddr| self.entering.is_some() && self.ring.is_gone(**addr);
        let likely = likely.iter().filter(|addr| !is_hopeless(addr));
        let likely: Vec<NodeAddr> = likely.copied().collect();
        let mut leaves = self.ring.leaves.clone();
        for addr in &likely {
            leaves.insert(*addr);
        }
        for addr in likely.iter().filter(|addr| leaves.contains(**addr)) {
            if self.ring.probes.len() >= PROBES_MAX || self.ring.probes.contains_key(addr) {
                continue;
            }
            let again = now + PROBE_WAIT;
            self.ring.probes.insert(*addr, Probe { tries: 1, again });
            self.timers.at_most(Timer::Probe, again);
            self.say_beat(*addr, true, false, out);
        }
    }

    pub(super) fn probe_again(&mut self, now: Time, out: &mut impl Outlet) {
        let due = self.ring.probes.iter().filter(|(_, p)| p.again <= now);
        let due: Vec<NodeAddr> = due.map(|(addr, _)| *addr).collect();
        for addr in due {
            let Some(probe) = self.ring.probes.get_mut(&addr) else {
                continue;
            };
            if probe.tries == PROBE_TRIES {
                // The node is in no leaf set of this node, so nothing needs repair.
                self.ring.forget(now, addr);
                continue;
            }
            probe.again = now + PROBE_WAIT * (1 << probe.tries);
            probe.tries += 1;
            self.say_beat(addr, true, false, out);
        }
        self.timers.set(Timer::Probe, self.ring.next_probe());
        self.try_finish(now, out);
    }

    /// Finishes entering when the reported leaf set has answered.
    pub(super) fn try_finish(&mut self, now: Time, out: &mut impl Outlet) {
        let is_done = |entering: &Entering| entering.found && self.ring.probes.is_empty();
        if !self.entering.as_ref().is_some_and(is_done) {
            return;
        }
        let Some(mut entering) = self.entering.take() else {
            return;
        };
        if entering.answered.is_empty() && self.ring.leaves.is_empty() {
            // None of them answered, so the timer asks again.
            entering.found = false;
            self.entering = Some(entering);
            return;
        }
        self.timers.set(Timer::Enter, None);
        let pause = self.jittered(self.settings.upkeep);
        self.upkeep_pause = self.settings.upkeep;
        self.timers.set(Timer::Upkeep, Some(now + pause));
        let met: Vec<NodeAddr> = entering.met.into_iter().collect();
        self.meet(now, &met, out);
        let known: BTreeSet<NodeAddr> = self.ring.known().chain(entering.answered).collect();
        for addr in known {
            self.say_beat(addr, false, false, out);
        }
        out.report(Event::Entered {
            leaves: self.ring.leaves.len(),
        });
        self.attach_orphans(now);
    }

    pub(super) fn say_beat(
        &mut self,
        to: NodeAddr,
        answer_me: bool,
        an_answer: bool,
        out: &mut impl Outlet,
    ) {
        let nodes: Vec<NodeAddr> = self.ring.leaves.iter().collect();
        let beat = Message::Beat {
            flags: BeatFlags {
                answer_me,
                an_answer,
                entering: self.entering.is_some(),
            },
            nodes: Addresses::new(&nodes),
        };
        self.say(to, &beat, out);
    }
}
