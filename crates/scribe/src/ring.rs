//! Whom a node knows on the ring, and its next hop to any id. [Brogle09 §I]
//!
//! ```text
//!   heard directly ──▶ leaf set, routing table, neighbourhood set
//!   hearsay ──▶ routing table, neighbourhood (if the overlay can measure the way there)
//!          '──▶ a probe ──answered──▶ leaf set          (never of nodes that have failed, until they
//!                                                       speak themselves)
//! ```
//!
//! Every next hop is strictly closer to the key than the node itself. Pastry's own rule lets a
//! longer prefix win over distance. `// Choice:` with distance as the one order, a walk never
//! returns to where it was, in any state of the tables; the price is that an entry of the table is
//! passed over where it lies beyond the key farther than the own id, about one time in thirty.

use crate::config::{GONE_HOLD, GONE_MAX, PROBES_MAX, WAYS};
use crate::id::Id;
use crate::leaf::LeafSet;
use crate::table::{Neighbourhood, Proximity, RoutingTable};
use base::{NodeAddr, Time};
use std::collections::{BTreeMap, VecDeque};

/// The state of one Pastry node.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    pub(crate) own: NodeAddr,
    pub(crate) id: Id,
    pub(crate) leaves: LeafSet,
    pub(crate) table: RoutingTable,
    pub(crate) neighbourhood: Neighbourhood,
    /// Nodes that failed and when, the oldest first, until they are heard themselves.
    gone: VecDeque<(NodeAddr, Time)>,
    /// Nodes that shall enter the leaf set when they answer.
    pub(crate) probes: BTreeMap<NodeAddr, Probe>,
}

/// A question to a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    pub(crate) tries: u8,
    pub(crate) again: Time,
}

impl Ring {
    pub(crate) fn new(own: NodeAddr) -> Ring {
        let id = Id::of_node(own);
        Ring {
            own,
            id,
            leaves: LeafSet::new(id),
            table: RoutingTable::new(id),
            neighbourhood: Neighbourhood::default(),
            gone: VecDeque::new(),
            probes: BTreeMap::new(),
        }
    }

    /// The next hop to `key`, `None` if nobody known is closer; never `except`.
    pub(crate) fn next_hop(&self, key: Id, except: Option<NodeAddr>) -> Option<NodeAddr> {
        if self.leaves.covers(key) {
            return self.leaves.closest(key, except);
        }
        let may = |addr: &NodeAddr| Some(*addr) != except && self.is_closer(*addr, key);
        let by_prefix = self.table.next(key).filter(may);
        by_prefix.or_else(|| {
            // The rare case: whoever of all that are known is closest.
            let known = self.known().filter(may);
            known.min_by(|a, b| key.closer(Id::of_node(*a), Id::of_node(*b)))
        })
    }

    /// A next hop to `key` that is closer, too, but perhaps another one.
    ///
    /// `// Choice:` one of the few closest that are known, at random: nearly as fast, and nobody
    /// who has failed unnoticed is on every such way.
    pub(crate) fn another_hop(
        &self,
        key: Id,
        except: Option<NodeAddr>,
        random: u64,
    ) -> Option<NodeAddr> {
        let may = |addr: &NodeAddr| Some(*addr) != except && self.is_closer(*addr, key);
        let mut closer: Vec<NodeAddr> = self.known().filter(may).collect();
        closer.sort_by(|a, b| key.closer(Id::of_node(*a), Id::of_node(*b)));
        closer.dedup();
        closer.truncate(WAYS);
        let place = random.checked_rem(closer.len() as u64)?;
        closer.get(place as usize).copied()
    }

    /// Whether a node is closer to a key than this one.
    pub(crate) fn is_closer(&self, addr: NodeAddr, key: Id) -> bool {
        key.closer(Id::of_node(addr), self.id).is_lt()
    }

    /// Every node that is known; some twice.
    pub(crate) fn known(&self) -> impl Iterator<Item = NodeAddr> + '_ {
        let tables = self.leaves.iter().chain(self.table.iter());
        tables.chain(self.neighbourhood.iter())
    }

    /// A node that may be reckoned with: another one, and no group.
    pub(crate) fn is_other(&self, addr: NodeAddr) -> bool {
        addr.is_node() && addr != self.own
    }

    /// Takes in a node that spoke itself; true if it has come into the leaf set. What was on its
    /// way when the node failed does not bring it back.
    pub(crate) fn admit(&mut self, now: Time, addr: NodeAddr, proximity: &Proximity<'_>) -> bool {
        let failed = self.gone.iter().find(|(gone, _)| *gone == addr);
        if failed.is_some_and(|(_, at)| now.since(*at) < GONE_HOLD) {
            return false;
        }
        self.gone.retain(|(gone, _)| *gone != addr);
        self.probes.remove(&addr);
        self.table.offer(addr, proximity);
        self.neighbourhood.offer(addr, proximity);
        self.leaves.insert(addr)
    }

    /// Takes in a node of which another one told; true if it should be asked to come into the leaf
    /// set.
    pub(crate) fn hear_of(&mut self, addr: NodeAddr, proximity: &Proximity<'_>) -> bool {
        if !self.is_other(addr) {
            return false;
        }
        if !self.is_gone(addr) && proximity(addr).is_some() {
            self.table.offer(addr, proximity);
            self.neighbourhood.offer(addr, proximity);
        }
        self.leaves.wants(addr)
            && !self.probes.contains_key(&addr)
            && self.probes.len() < PROBES_MAX
    }

    /// Takes a node out of everything; which of the tables had it.
    pub(crate) fn forget(&mut self, now: Time, addr: NodeAddr) -> Forgotten {
        if !self.is_gone(addr) {
            if self.gone.len() == GONE_MAX {
                self.gone.pop_front();
            }
            self.gone.push_back((addr, now));
        }
        self.probes.remove(&addr);
        self.neighbourhood.remove(addr);
        Forgotten {
            leaf: self.leaves.remove(addr),
            row: self.table.remove(addr),
        }
    }

    pub(crate) fn is_gone(&self, addr: NodeAddr) -> bool {
        self.gone.iter().any(|(gone, _)| *gone == addr)
    }

    /// The overlay has a way to a node again: its next word counts.
    pub(crate) fn is_back(&mut self, addr: NodeAddr) {
        for (_, failed) in self.gone.iter_mut().filter(|(gone, _)| *gone == addr) {
            *failed = Time::ZERO;
        }
    }

    /// A node has answered a question of now: it has not failed.
    pub(crate) fn has_answered(&mut self, addr: NodeAddr) {
        self.gone.retain(|(gone, _)| *gone != addr);
    }

    /// One of those that failed, by a random number: it may be back.
    pub(crate) fn any_gone(&self, random: u64) -> Option<NodeAddr> {
        let place = random.checked_rem(self.gone.len() as u64)?;
        self.gone.get(place as usize).map(|(gone, _)| *gone)
    }

    /// When the next probe is due.
    pub(crate) fn next_probe(&self) -> Option<Time> {
        self.probes.values().map(|probe| probe.again).min()
    }
}

/// Where a node was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forgotten {
    pub(crate) leaf: bool,
    pub(crate) row: Option<usize>,
}
