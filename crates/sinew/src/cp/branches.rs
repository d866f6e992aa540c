//! The ways of a copy to several ends, as a tree: each byte goes over a segment once.
//!
//! ```text
//!   own ─▶ a ─▶ b ─▶ c        the way to d over a, x and b: it leaves the tree at b, the last node of it
//!               └──▶ d        that is in there
//! ```

use base::NodeAddr;
use std::collections::{BTreeMap, BTreeSet};

/// The segments of a route, as a tree.
#[derive(Clone, Debug, Default)]
pub(super) struct Branches {
    below: BTreeMap<NodeAddr, BTreeSet<NodeAddr>>,
    /// The node before each, and the connections between the two.
    before: BTreeMap<NodeAddr, (NodeAddr, u8)>,
}

impl Branches {
    /// Adds the way to an end, from the last node on that the tree has already. Where there are more segments than
    /// numbers of stripes the last number counts.
    pub(super) fn join(&mut self, path: &[NodeAddr], stripes: &[u8]) {
        let known = path.iter().rposition(|node| self.before.contains_key(node));
        for at in known.unwrap_or(0) + 1..path.len() {
            let (from, to) = (path[at - 1], path[at]);
            let count = stripes.get(at - 1).or(stripes.last()).copied();
            self.below.entry(from).or_default().insert(to);
            self.before.insert(to, (from, count.unwrap_or(1)));
        }
    }

    /// The way to a node, from where all begin.
    pub(super) fn path(&self, end: NodeAddr) -> Vec<NodeAddr> {
        let before = |node: &NodeAddr| self.before.get(node).map(|(before, _)| *before);
        let mut path: Vec<NodeAddr> = std::iter::successors(Some(end), before).collect();
        path.reverse();
        path
    }

    /// The nodes that data goes to from this one.
    pub(super) fn below(&self, node: NodeAddr) -> impl Iterator<Item = NodeAddr> {
        self.below.get(&node).into_iter().flatten().copied()
    }

    /// How many segments it has.
    pub(super) fn segments(&self) -> usize {
        self.before.len()
    }

    /// Connections to a node: one within this host.
    pub(super) fn stripes(&self, node: NodeAddr) -> u8 {
        self.before.get(&node).map_or(1, |(_, stripes)| *stripes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_that_meet_are_one_from_there_on() {
        let mut branches = Branches::default();
        branches.join(&[1, 2, 3].map(NodeAddr), &[4, 2]);
        // It comes to 3 by another way: the tree's own is taken.
        branches.join(&[1, 5, 3, 6].map(NodeAddr), &[8, 8, 7]);
        assert_eq!(branches.path(NodeAddr(6)), [1, 2, 3, 6].map(NodeAddr));
        assert_eq!(branches.segments(), 3);
        let stripes = [1, 2, 3, 6].map(|n| branches.stripes(NodeAddr(n)));
        assert_eq!(stripes, [1, 4, 2, 7]);
    }
}
