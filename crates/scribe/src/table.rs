//! The routing table and the neighborhood set. They name the node to which a message is handed, so that it comes one
//! digit closer at every hop, over the nearest nodes. [Brogle09 §I: on each hop one or more digits are matched, while
//! trying to minimize the hop's delay]
//!
//! ```text
//!   own id 4a1…     0      1      2      3     (4)     5   …   a   …   f
//!   row 0          0…     1…     2…     3…    own     5…      a…      f…
//!   row 1         40…    41…    42…    43…    44…    45…     own     4f…
//!   row 2        4a0…    own   4a2…  …                      only rows that some node fills
//! ```
//!
//! If several nodes fit a place, the table keeps the one with the least latency, as the overlay measures it. A node
//! without a measurement counts as farther than a node with one.

use crate::id::{DIGITS, ID_DIGITS, Id};
use base::NodeAddr;

/// Number of nodes in the neighborhood set: |M| = 16.
pub const NEIGHBOURHOOD: usize = 16;

const NOBODY: NodeAddr = NodeAddr(0);

/// The distances of nodes, in microseconds; `None` for unknown nodes.
pub type Proximity<'a> = dyn Fn(NodeAddr) -> Option<u32> + 'a;

fn is_nearer(a: NodeAddr, b: NodeAddr, proximity: &Proximity<'_>) -> bool {
    match (proximity(a), proximity(b)) {
        (Some(a), Some(b)) => a < b,
        (Some(_), None) => true,
        (None, _) => false,
    }
}

/// The routing table of one node.
#[derive(Clone, Debug)]
pub struct RoutingTable {
    own: Id,
    /// The rows down to the deepest one that is not empty: about log₁₆ of the ring's size.
    rows: Vec<[NodeAddr; DIGITS]>,
}

impl RoutingTable {
    /// Creates an empty table.
    pub fn new(own: Id) -> RoutingTable {
        RoutingTable {
            own,
            rows: Vec::new(),
        }
    }

    fn place(&self, id: Id) -> Option<(usize, usize)> {
        let row = self.own.shared_digits(id);
        (row < ID_DIGITS).then(|| (row, id.digit(row)))
    }

    /// Offers a node. Returns true if it has taken a place.
    pub fn offer(&mut self, addr: NodeAddr, proximity: &Proximity<'_>) -> bool {
        let Some((row, digit)) = self.place(Id::of_node(addr)) else {
            return false;
        };
        if self.rows.len() <= row {
            self.rows.resize(row + 1, [NOBODY; DIGITS]);
        }
        let held = &mut self.rows[row][digit];
        let takes = *held == NOBODY || (*held != addr && is_nearer(addr, *held, proximity));
        if takes {
            *held = addr;
        }
        takes
    }

    /// Removes a node. Returns the row in which a place is free now.
    pub fn remove(&mut self, addr: NodeAddr) -> Option<usize> {
        let (row, digit) = self.place(Id::of_node(addr))?;
        let held = self.rows.get_mut(row)?.get_mut(digit)?;
        if *held != addr {
            return None;
        }
        *held = NOBODY;
        while self.rows.last() == Some(&[NOBODY; DIGITS]) {
            self.rows.pop();
        }
        Some(row)
    }

    /// Returns the node that shares one digit more with `key` than this node's id does.
    pub fn next(&self, key: Id) -> Option<NodeAddr> {
        let (row, digit) = self.place(key)?;
        let held = *self.rows.get(row)?.get(digit)?;
        (held != NOBODY).then_some(held)
    }

    /// Returns the nodes of one row.
    pub fn row(&self, row: usize) -> impl Iterator<Item = NodeAddr> + '_ {
        let places = self.rows.get(row).into_iter().flatten();
        places.copied().filter(|addr| *addr != NOBODY)
    }

    /// Returns the number of rows.
    pub fn depth(&self) -> usize {
        self.rows.len()
    }

    /// Returns every node, row by row.
    pub fn iter(&self) -> impl Iterator<Item = NodeAddr> + '_ {
        (0..self.depth()).flat_map(|row| self.row(row))
    }

    /// Returns the number of heap bytes.
    pub fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<[NodeAddr; DIGITS]>()
    }
}

/// The nodes with the least latency, anywhere on the ring.
#[derive(Clone, Debug, Default)]
pub struct Neighbourhood {
    /// The nodes, with the latency that was measured when each was last offered.
    nodes: Vec<(NodeAddr, u32)>,
}

impl Neighbourhood {
    /// Offers a node. Returns true if it is nearer than another one, which it replaces. Nodes without a measurement do
    /// not enter the set.
    pub fn offer(&mut self, addr: NodeAddr, proximity: &Proximity<'_>) -> bool {
        let Some(near) = proximity(addr) else {
            return false;
        };
        if let Some(held) = self.nodes.iter_mut().find(|(node, _)| *node == addr) {
            held.1 = near;
            return false;
        }
        if self.nodes.len() < NEIGHBOURHOOD {
            self.nodes.push((addr, near));
            return true;
        }
        let farthest = self.nodes.iter_mut().max_by_key(|(node, us)| (*us, *node));
        match farthest {
            Some(farthest) if near < farthest.1 => {
                *farthest = (addr, near);
                true
            }
            _ => false,
        }
    }

    /// Removes a node.
    pub fn remove(&mut self, addr: NodeAddr) {
        self.nodes.retain(|(node, _)| *node != addr);
    }

    /// Returns every node.
    pub fn iter(&self) -> impl Iterator<Item = NodeAddr> + '_ {
        self.nodes.iter().map(|(node, _)| *node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    const OWN: NodeAddr = NodeAddr(0x0a00_0001);

    fn prefix(id: Id, digits: usize) -> String {
        format!("{:032x}", id.0)[..digits].to_owned()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// Compares with a map from prefixes to the nearest node that came and has not left.
        #[test]
        fn each_place_holds_the_nearest_that_came(
            steps in prop::collection::vec((2u32..600, prop::bool::weighted(0.15)), 1..200),
            salt: u32,
        ) {
            let far = move |addr: NodeAddr| Some(addr.0.wrapping_mul(salt | 1) >> 8);
            let own = Id::of_node(OWN);
            let mut table = RoutingTable::new(own);
            let mut places: BTreeMap<String, NodeAddr> = BTreeMap::new();
            for (n, leaves) in steps {
                let addr = NodeAddr(0x0a00_0000 + n);
                let id = Id::of_node(addr);
                let row = own.shared_digits(id);
                let place = prefix(id, row + 1);
                if leaves {
                    let held = places.get(&place) == Some(&addr);
                    prop_assert_eq!(table.remove(addr), held.then_some(row));
                    if held {
                        places.remove(&place);
                    }
                } else {
                    let held = places.get(&place).copied();
                    let takes = held.is_none_or(|held| far(addr) < far(held));
                    prop_assert_eq!(table.offer(addr, &far), takes);
                    if takes {
                        places.insert(place, addr);
                    }
                }
                let all: BTreeSet<NodeAddr> = table.iter().collect();
                prop_assert_eq!(all, places.values().copied().collect::<BTreeSet<_>>());
            }
            for group in 0..100 {
                let key = Id::of_group(NodeAddr(0xef00_0000 + group));
                let place = prefix(key, own.shared_digits(key) + 1);
                prop_assert_eq!(table.next(key), places.get(&place).copied());
            }
        }

        #[test]
        fn neighbours_are_the_nearest(nodes in prop::collection::vec(2u32..300, 0..80)) {
            let far = |addr: NodeAddr| (addr.0 & 7 != 0).then(|| addr.0.wrapping_mul(0x9e37_79b9));
            let mut set = Neighbourhood::default();
            for n in &nodes {
                set.offer(NodeAddr(0x0a00_0000 + n), &far);
            }
            let mut all: Vec<NodeAddr> = nodes.iter().map(|n| NodeAddr(0x0a00_0000 + n)).filter(|a| far(*a).is_some()).collect();
            all.sort_by_key(|addr| far(*addr));
            all.dedup();
            all.truncate(NEIGHBOURHOOD);
            prop_assert_eq!(set.iter().collect::<BTreeSet<_>>(), all.into_iter().collect::<BTreeSet<_>>());
        }
    }

    #[test]
    fn what_has_no_measurement_gives_way() {
        let own = Id::of_node(OWN);
        let fits = |n: &u32| Id::of_node(NodeAddr(*n)).digit(0) != own.digit(0);
        let first = (2..).find(fits).map(NodeAddr).expect("there are many");
        let digit = Id::of_node(first).digit(0);
        let second = (first.0 + 1..)
            .map(NodeAddr)
            .find(|addr| Id::of_node(*addr).digit(0) == digit)
            .expect("there are many");
        let mut table = RoutingTable::new(own);
        let known = move |addr: NodeAddr| (addr == second).then_some(5);
        assert!(table.offer(first, &known));
        assert!(table.offer(second, &known) && !table.offer(first, &known));
        assert_eq!(table.row(0).collect::<Vec<_>>(), [second]);
        assert_eq!(table.remove(first), None);
        assert_eq!((table.remove(second), table.depth()), (Some(0), 0));
    }
}
