//! The nodes that a node knows on the ring, and its next hop to any id. [Brogle09 §I]
//!
//! ```text
//!   heard directly ──▶ leaf set, routing table, neighbourhood set
//!   hearsay ──▶ routing table, neighbourhood (if the overlay can measure the way there)
//!          '──▶ a probe ──answered──▶ leaf set          (never of nodes that have failed, until they
//!                                                       speak themselves)
//! ```
//!
//! Every next hop is strictly closer to the key than the node itself. In Pastry's own rule a longer prefix takes
//! precedence over distance. `// Choice:` with distance as the only order, a walk never returns to a node, in any state
//! of the tables. The price is that a table entry is skipped if it lies farther beyond the key than the own id, about
//! one time in thirty.

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
    /// The failed nodes and when they failed, the oldest first, until they are heard directly.
    gone: VecDeque<(NodeAddr, Time)>,
    /// The nodes that will enter the leaf set when they answer.
    pub(crate) probes: BTreeMap<NodeAddr, Probe>,
}

/// The state of a question to a node.
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

    /// Returns the next hop to `key`, or `None` if no known node is closer; never returns `except`.
    pub(crate) fn next_hop(&self, key: Id, except: Option<NodeAddr>) -> Option<NodeAddr> {
        if self.leaves.covers(key) {
            return self.leaves.closest(key, except);
        }
        let may = |addr: &NodeAddr| Some(*addr) != except && self.is_closer(*addr, key);
        let by_prefix = self.table.next(key).filter(may);
        by_prefix.or_else(|| {
            // This case is rare: the closest of all known nodes is used.
            let known = self.known().filter(may);
            known.min_by(|a, b| key.closer(Id::of_node(*a), Id::of_node(*b)))
        })
    }

    /// Returns a next hop to `key` that is closer, too, but may be a different one.
    ///
    /// `// Choice:` one of the few closest known nodes, at random. This is nearly as fast, and a node that has failed
    /// unnoticed is not on every such path.
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

    /// Returns whether a node is closer to a key than this one.
    pub(crate) fn is_closer(&self, addr: NodeAddr, key: Id) -> bool {
        key.closer(Id::of_node(addr), self.id).is_lt()
    }

    /// Returns every known node; some twice.
    pub(crate) fn known(&self) -> impl Iterator<Item = NodeAddr> + '_ {
        let tables = self.leaves.iter().chain(self.table.iter());
        tables.chain(self.neighbourhood.iter())
    }

    /// Returns true if the address is another node, and not a group.
    pub(crate) fn is_other(&self, addr: NodeAddr) -> bool {
        addr.is_node() && addr != self.own
    }

    /// Takes in a node from which a message came. Returns true if it has entered the leaf set. A message that was
    /// already on its way when the node failed does not bring it back.
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

    /// Takes in a node that another node reported. Returns true if it should be asked to enter the leaf set.
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

    /// Removes a node from everything. Returns the tables that contained it.
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

    /// Records that the overlay has a path to a node again: the node's next message counts.
    pub(crate) fn is_back(&mut self, addr: NodeAddr) {
        for (_, failed) in self.gone.iter_mut().filter(|(gone, _)| *gone == addr) {
            *failed = Time::ZERO;
        }
    }

    /// Records that a node has answered a current question: it has not failed.
    pub(crate) fn has_answered(&mut self, addr: NodeAddr) {
        self.gone.retain(|(gone, _)| *gone != addr);
    }

    /// Returns one of the failed nodes, chosen by a random number: it may be back.
    pub(crate) fn any_gone(&self, random: u64) -> Option<NodeAddr> {
        let place = random.checked_rem(self.gone.len() as u64)?;
        self.gone.get(place as usize).map(|(gone, _)| *gone)
    }

    /// Returns when the next probe is due.
    pub(crate) fn next_probe(&self) -> Option<Time> {
        self.probes.values().map(|probe| probe.again).min()
    }
}

/// The tables that contained a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forgotten {
    pub(crate) leaf: bool,
    pub(crate) row: Option<usize>,
}
