//! The paths of a copy to several ends, as a tree: each byte crosses a segment once.
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
    /// The previous node of each node, and the number of connections between the two.
    before: BTreeMap<NodeAddr, (NodeAddr, u8)>,
}

impl Branches {
    /// Adds the path to an end, beginning at the last node that is already in the tree. If there are more segments than
    /// numbers of stripes, the last number applies.
    pub(super) fn join(&mut self, path: &[NodeAddr], stripes: &[u8]) {
        let known = path.iter().rposition(|node| self.before.contains_key(node));
        for at in known.unwrap_or(0) + 1..path.len() {
            let (from, to) = (path[at - 1], path[at]);
            let count = stripes.get(at - 1).or(stripes.last()).copied();
            self.below.entry(from).or_default().insert(to);
            self.before.insert(to, (from, count.unwrap_or(1)));
        }
    }

    /// Returns the path to a node, from the root of the tree.
    pub(super) fn path(&self, end: NodeAddr) -> Vec<NodeAddr> {
        let before = |node: &NodeAddr| self.before.get(node).map(|(before, _)| *before);
        let mut path: Vec<NodeAddr> = std::iter::successors(Some(end), before).collect();
        path.reverse();
        path
    }

    /// Returns the nodes to which this node sends data.
    pub(super) fn below(&self, node: NodeAddr) -> impl Iterator<Item = NodeAddr> {
        self.below.get(&node).into_iter().flatten().copied()
    }

    /// Returns the number of segments.
    pub(super) fn segments(&self) -> usize {
        self.before.len()
    }

    /// Returns the number of connections to a node: one within this host.
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
        // The path to 3 is another one: the tree keeps its own.
        branches.join(&[1, 5, 3, 6].map(NodeAddr), &[8, 8, 7]);
        assert_eq!(branches.path(NodeAddr(6)), [1, 2, 3, 6].map(NodeAddr));
        assert_eq!(branches.segments(), 3);
        let stripes = [1, 2, 3, 6].map(|n| branches.stripes(NodeAddr(n)));
        assert_eq!(stripes, [1, 4, 2, 7]);
    }
}
