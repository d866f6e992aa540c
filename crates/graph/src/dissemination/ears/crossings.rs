//! Additional paths between both ends if both have trouble.
//!
//! ```text
//!     .─▶ a ─▶ c ─.
//!     │     ╲ ╱   │       With one way from each neighbour of the source on, a packet that only one of
//!  s ─┤      ╳    ├─ t    them has hangs on one link of the destination. With two it does not: it is
//!     │     ╱ ╲   │       lost if all links of one end lose it, or almost all of both.
//!     '─▶ b ─▶ d ─'
//! ```
//!
//! [Babay et al. 2017] unites the graphs of both problems as they are. Their links of the middle are calm, so an
//! additional one costs one copy, while a link of an end costs repair and retransmissions as well.

use super::{Ears, Towards};
use crate::topology::NodeIndex;
use std::collections::{BTreeMap, BTreeSet};

/// The number of neighbors of the other end that each neighbor of an end leads to.
///
/// Choice: if a link loses a share q permanently, one path leaves about q² times the neighbors of an end. Two paths
/// leave q³, which one end with three links loses anyway.
const REACHED: usize = 2;

impl Ears<'_> {
    /// Makes each neighbor of the source in the graph reach two neighbors of the destination, and the other way round.
    pub(in super::super) fn cross(&mut self) {
        for towards in [Towards::Destination, Towards::Source] {
            for node in self.neighbours(towards.back()) {
                self.cross_from(node, towards);
            }
        }
    }

    fn cross_from(&mut self, node: NodeIndex, towards: Towards) {
        let far = self.neighbours(towards);
        while !far.contains(&node) && self.reached(node, towards).len() < REACHED.min(far.len()) {
            let Some(path) = self.crossing(node, towards, &far) else {
                return;
            };
            self.add(path);
        }
    }

    /// Returns a path from a node to a neighbor of the far end that it does not reach yet: to the one that the fewest
    /// reach.
    fn crossing(
        &mut self,
        node: NodeIndex,
        towards: Towards,
        far: &BTreeSet<NodeIndex>,
    ) -> Option<Vec<NodeIndex>> {
        let reached = self.reached(node, towards);
        let mut by_few: BTreeMap<usize, BTreeSet<NodeIndex>> = BTreeMap::new();
        for other in far.difference(&reached) {
            let few = self.reached(*other, towards.back()).len();
            by_few.entry(few).or_default().insert(*other);
        }
        let start = (node, self.rest_us(node, towards.back())?);
        by_few.values().find_map(|wanted| {
            let joins = |ears: &Ears, node: NodeIndex| {
                let is_wanted = wanted.contains(&node);
                is_wanted.then(|| ears.last_us(node, towards)).flatten()
            };
            let way = self.search(start, towards, |toll| toll, joins)?;
            let path = self.through(&way, towards);
            self.stays_without_cycle(&path).then_some(path)
        })
    }

    /// Returns the path that leads to the first node of `way` within the graph, and from its last node over the far
    /// end's link.
    fn through(&self, way: &[NodeIndex], towards: Towards) -> Vec<NodeIndex> {
        let first = way.first().map(|first| self.along(*first, towards.back()));
        let mut path = first.unwrap_or_default();
        path.reverse();
        path.extend(way);
        path.push(self.end(towards));
        if towards == Towards::Source {
            path.reverse();
        }
        path
    }

    /// Returns the nodes from which the graph leads to an end over one link.
    fn neighbours(&self, towards: Towards) -> BTreeSet<NodeIndex> {
        let links = self.links.iter();
        let nodes = links.filter_map(|&(from, to)| match towards {
            Towards::Destination => (to == self.dst && from != self.src).then_some(from),
            Towards::Source => (from == self.src && to != self.dst).then_some(to),
        });
        nodes.collect()
    }

    /// Returns the neighbors of an end to which the graph leads from a node.
    fn reached(&self, node: NodeIndex, towards: Towards) -> BTreeSet<NodeIndex> {
        let (mut seen, mut stack) = (BTreeSet::from([node]), vec![node]);
        while let Some(at) = stack.pop() {
            let links = self.links.iter();
            let next = links.filter_map(|&(from, to)| match towards {
                Towards::Destination => (from == at).then_some(to),
                Towards::Source => (to == at).then_some(from),
            });
            stack.extend(next.filter(|next| seen.insert(*next)));
        }
        let ends = self.neighbours(towards);
        seen.intersection(&ends).copied().collect()
    }

    /// Returns the latency of the link between a node and an end.
    fn last_us(&self, node: NodeIndex, towards: Towards) -> Option<u64> {
        let edge = match towards {
            Towards::Destination => self.topology.link(node, self.dst),
            Towards::Source => self.topology.link(self.src, node),
        };
        edge.map(|edge| u64::from(edge.link.latency_us))
    }
}
