//! The leaf set: the nodes next to this one on the ring, some on each side. [Brogle09 §I: peers
//! know more peers in their id neighbourhood]
//!
//! ```text
//!    below, nearest last          own           above, nearest first
//!   8  7  6  5  4  3  2  1         |         1  2  3  4  5  6  7  8
//!   '------------------------ covers these keys ------------------'
//! ```
//!
//! In a ring of no more than 16 other nodes, every node knows all others and covers every key; the sides then may
//! overlap. A node that covers a key knows the node that is closest to it.

use crate::id::Id;
use base::NodeAddr;

/// Number of nodes on each side: |L| = 16.
pub const SIDE: usize = 8;

/// A node and its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Leaf {
    id: Id,
    addr: NodeAddr,
}

/// The nodes next to one node on the ring.
#[derive(Clone, Debug)]
pub struct LeafSet {
    own: Id,
    /// The nodes below, the nearest first.
    below: Vec<Leaf>,
    /// The nodes above, the nearest first.
    above: Vec<Leaf>,
    /// At least one node is on both sides, so the whole ring is known.
    meets: bool,
}

impl LeafSet {
    /// Creates the leaf set of a node that is alone.
    pub fn new(own: Id) -> LeafSet {
        LeafSet {
            own,
            below: Vec::new(),
            above: Vec::new(),
            meets: false,
        }
    }

    /// Returns whether a node would get a place.
    pub fn wants(&self, addr: NodeAddr) -> bool {
        let id = Id::of_node(addr);
        id != self.own
            && !self.contains(addr)
            && (fits(&self.above, self.own.ahead(id), |leaf| self.own.ahead(leaf))
                || fits(&self.below, id.ahead(self.own), |leaf| leaf.ahead(self.own)))
    }

    /// Inserts a node in its place. Returns false if it is already there, or has no place.
    pub fn insert(&mut self, addr: NodeAddr) -> bool {
        if !self.wants(addr) {
            return false;
        }
        let leaf = Leaf {
            id: Id::of_node(addr),
            addr,
        };
        let own = self.own;
        put(&mut self.above, leaf, |id| own.ahead(id));
        put(&mut self.below, leaf, |id| id.ahead(own));
        self.meets = self.sides_meet();
        true
    }

    /// Removes a node. Returns false if it is not in the set.
    pub fn remove(&mut self, addr: NodeAddr) -> bool {
        let was = self.contains(addr);
        self.above.retain(|leaf| leaf.addr != addr);
        self.below.retain(|leaf| leaf.addr != addr);
        // In a small ring, a node of one side may now be among the nearest of the other side.
        let own = self.own;
        for leaf in self.below.clone() {
            put(&mut self.above, leaf, |id| own.ahead(id));
        }
        for leaf in self.above.clone() {
            put(&mut self.below, leaf, |id| id.ahead(own));
        }
        self.meets = self.sides_meet();
        was
    }

    /// Returns whether a node is in the set.
    pub fn contains(&self, addr: NodeAddr) -> bool {
        self.above.iter().chain(&self.below).any(|l| l.addr == addr)
    }

    /// Returns whether the node that is closest to `key` is in the set, or is this node.
    pub fn covers(&self, key: Id) -> bool {
        match (self.below.last(), self.above.last()) {
            (None, None) => true,
            (Some(lowest), Some(highest)) => {
                self.meets || lowest.id.ahead(key) <= lowest.id.ahead(highest.id)
            }
            _ => false,
        }
    }

    /// Returns the node closest to `key`, or `None` for this node; never returns `except`.
    pub fn closest(&self, key: Id, except: Option<NodeAddr>) -> Option<NodeAddr> {
        let mut best = (self.own, None);
        for leaf in self.above.iter().chain(&self.below) {
            if Some(leaf.addr) != except && key.closer(leaf.id, best.0).is_lt() {
                best = (leaf.id, Some(leaf.addr));
            }
        }
        best.1
    }

    /// Returns every node in the set, once.
    pub fn iter(&self) -> impl Iterator<Item = NodeAddr> + '_ {
        let twice = |leaf: &&Leaf| !self.above.iter().any(|other| other.addr == leaf.addr);
        let below = self.below.iter().filter(twice);
        self.above.iter().chain(below).map(|leaf| leaf.addr)
    }

    /// Returns the farthest node on each side. These are asked for further nodes when one is missing.
    pub fn farthest(&self) -> impl Iterator<Item = NodeAddr> + '_ {
        let ends = [self.above.last(), self.below.last()];
        ends.into_iter().flatten().map(|leaf| leaf.addr)
    }

    /// Returns the number of different nodes in the set.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Returns true if the node is alone.
    pub fn is_empty(&self) -> bool {
        self.above.is_empty() && self.below.is_empty()
    }

    fn sides_meet(&self) -> bool {
        self.below
            .iter()
            .any(|leaf| self.above.iter().any(|other| other.addr == leaf.addr))
    }
}

fn fits(side: &[Leaf], distance: u128, of: impl Fn(Id) -> u128) -> bool {
    side.len() < SIDE || side.last().is_some_and(|last| distance < of(last.id))
}

fn put(side: &mut Vec<Leaf>, leaf: Leaf, of: impl Fn(Id) -> u128) {
    let place = side.partition_point(|other| of(other.id) < of(leaf.id));
    if place < SIDE && side.get(place) != Some(&leaf) {
        side.insert(place, leaf);
        side.truncate(SIDE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const OWN: NodeAddr = NodeAddr(0x0a00_0001);

    /// Returns the nearest nodes on each side, sorted from all.
    fn naive(known: &BTreeSet<NodeAddr>) -> BTreeSet<NodeAddr> {
        let own = Id::of_node(OWN);
        let mut up: Vec<NodeAddr> = known.iter().copied().collect();
        up.sort_by_key(|addr| own.ahead(Id::of_node(*addr)));
        let above = up.iter().take(SIDE);
        let below = up.iter().rev().take(SIDE);
        above.chain(below).copied().collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_holds_the_nearest_of_all_that_came(steps in prop::collection::vec((2u32..80, prop::bool::weighted(0.2)), 1..120)) {
            let mut leaves = LeafSet::new(Id::of_node(OWN));
            let mut known = BTreeSet::new();
            for (n, leaves_it) in steps {
                let addr = NodeAddr(0x0a00_0000 + n);
                if leaves_it {
                    leaves.remove(addr);
                    known.remove(&addr);
                    // Other nodes take the place, as when their neighbors report them.
                    for other in &known {
                        leaves.insert(*other);
                    }
                } else {
                    leaves.insert(addr);
                    known.insert(addr);
                }
                let held: BTreeSet<NodeAddr> = leaves.iter().collect();
                prop_assert_eq!(&held, &naive(&known));
                prop_assert_eq!(leaves.len(), leaves.iter().count());
                prop_assert!(leaves.iter().all(|addr| !leaves.wants(addr)));
            }
            prop_assert!(!leaves.wants(OWN));
            for group in 0..50 {
                let key = Id::of_group(NodeAddr(0xef00_0000 + group));
                let closest = known.iter().copied().chain([OWN])
                    .min_by(|a, b| key.closer(Id::of_node(*a), Id::of_node(*b))).unwrap();
                if leaves.covers(key) {
                    prop_assert_eq!(leaves.closest(key, None).unwrap_or(OWN), closest);
                }
                if closest == OWN {
                    prop_assert!(leaves.covers(key));
                }
            }
        }
    }

    #[test]
    fn few_nodes_cover_every_key_and_many_do_not() {
        let mut leaves = LeafSet::new(Id::of_node(OWN));
        let keys = || (0..400).map(|n| Id::of_group(NodeAddr(0xef00_0000 + n)));
        assert!(leaves.is_empty() && keys().all(|key| leaves.covers(key)));
        for n in 2..=16 {
            assert!(leaves.insert(NodeAddr(0x0a00_0000 + n)));
        }
        assert!(keys().all(|key| leaves.covers(key)));
        assert_eq!(leaves.len(), 15);
        for n in 17..200 {
            leaves.insert(NodeAddr(0x0a00_0000 + n));
        }
        let covered = keys().filter(|key| leaves.covers(*key)).count();
        assert!((5..120).contains(&covered), "{covered} of 400");
        assert_eq!(leaves.farthest().count(), 2);
    }
}
