//! A graph without cycles between a source and a destination that grows by ears.
//!
//! ```text
//!   ear of the source          s ─▶ n ─▶ x ─▶ v        n and x are new, v is in the graph: the copy
//!                                                      goes on from v as all others do
//!   ear of the destination     u ─▶ x ─▶ m ─▶ t        x and m are new, u is in the graph
//! ```
//!
//! The inner nodes of an ear have no links except those of the ear, so an ear closes no cycle: the only way into an ear
//! of the source is from the source, which has no incoming links in the graph, and the only way out of an ear of the
//! destination is to the destination. An ear that would be late is not added. If a link has no ear in time, its
//! quickest path is used, unless that closes a cycle.
//!
//! Of all ears, the search takes the one with the fewest links that are in trouble, then the fewest new links, then the
//! earliest expected arrival at the destination. [Babay et al. 2017] takes shortest-path trees, and of these the one
//! with the fewest links.

mod crossings;
mod search;

use crate::stamp::Subgraph;
use crate::topology::{Edge, NodeIndex, Topology};
use base::NodeAddr;
use search::Toll;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of links of the source that it sends over, and of links of the destination.
///
/// Choice: of 16 links that lose 40 % each, all lose a packet once in two million; a stamp holds 128 links.
pub(super) const EARS_MAX: usize = 16;

/// The direction of a search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Towards {
    Destination,
    Source,
}

impl Towards {
    fn back(self) -> Towards {
        match self {
            Towards::Destination => Towards::Source,
            Towards::Source => Towards::Destination,
        }
    }
}

/// The graph so far, as whole paths.
pub(super) struct Ears<'t> {
    topology: &'t Topology,
    src: NodeIndex,
    dst: NodeIndex,
    deadline_us: u64,
    links: BTreeSet<(NodeIndex, NodeIndex)>,
    /// The least latency within the graph from each node to the destination, with the next node; and from the source,
    /// with the previous node.
    ahead: BTreeMap<NodeIndex, (u64, NodeIndex)>,
    behind: BTreeMap<NodeIndex, (u64, NodeIndex)>,
    /// The paths, each from the source to the destination.
    pub(super) paths: Vec<Vec<NodeIndex>>,
    /// Number of links looked at.
    pub(super) work: u64,
}

impl<'t> Ears<'t> {
    /// Builds the graph of several paths between two nodes that have no other common node.
    pub(super) fn new(
        topology: &'t Topology,
        (src, dst): (NodeIndex, NodeIndex),
        deadline_us: u64,
        paths: &[Vec<NodeIndex>],
    ) -> Ears<'t> {
        let mut ears = Ears {
            topology,
            src,
            dst,
            deadline_us,
            links: BTreeSet::new(),
            ahead: BTreeMap::new(),
            behind: BTreeMap::new(),
            paths: Vec::new(),
            work: 0,
        };
        for path in paths {
            ears.add(path.clone());
        }
        ears
    }

    /// Adds every link of the source over which a packet can be in time.
    pub(super) fn of_source(&mut self) {
        self.of_end(Towards::Destination);
    }

    /// Adds every link of the destination over which a packet can be in time.
    pub(super) fn of_destination(&mut self) {
        self.of_end(Towards::Source);
    }

    fn of_end(&mut self, towards: Towards) {
        for edge in self.order(towards) {
            if let Some(path) = self.ear(&edge, towards) {
                self.add(path);
            } else if let Some(path) = self.quickest(&edge, towards)
                && self.stays_without_cycle(&path)
            {
                self.add(path);
            }
        }
    }

    /// Returns the links of an end that are not in the graph, the shortest first.
    fn order(&self, towards: Towards) -> Vec<Edge> {
        let links = match towards {
            Towards::Destination => self.topology.links_from(self.src),
            Towards::Source => self.topology.links_to(self.dst),
        };
        let is_there = |edge: &&Edge| match towards {
            Towards::Destination => self.links.contains(&(self.src, edge.peer)),
            Towards::Source => self.links.contains(&(edge.peer, self.dst)),
        };
        let present = links.iter().filter(is_there).count();
        let fresh = links.iter().filter(|edge| !is_there(edge));
        let mut fresh: Vec<Edge> = fresh
            .filter(|edge| !edge.link.is_silent())
            .copied()
            .collect();
        fresh.sort_by_key(|edge| (edge.link.latency_us, self.topology.addr(edge.peer)));
        fresh.truncate(EARS_MAX.saturating_sub(present));
        fresh
    }

    /// Returns a path over an end's link, over new nodes to the first node of the graph, and on within the graph.
    fn ear(&mut self, edge: &Edge, towards: Towards) -> Option<Vec<NodeIndex>> {
        if let Some(rest) = self.rest_us(edge.peer, towards) {
            let us = u64::from(edge.link.latency_us).saturating_add(rest);
            let path = || self.whole(&[edge.peer], towards);
            return (us <= self.deadline_us).then(path);
        }
        let joins = |ears: &Ears, node| ears.rest_us(node, towards);
        let start = (edge.peer, u64::from(edge.link.latency_us));
        let ear = self
            .search(start, towards, |toll| toll, joins)
            // The best ear may be late where the quickest one is not.
            .or_else(|| self.search(start, towards, Toll::by_time, joins));
        Some(self.whole(&ear?, towards))
    }

    /// Returns the quickest path over an end's link, whichever nodes it visits.
    fn quickest(&mut self, edge: &Edge, towards: Towards) -> Option<Vec<NodeIndex>> {
        let far = self.end(towards);
        let joins = |_: &Ears, node| (node == far).then_some(0);
        let start = (edge.peer, u64::from(edge.link.latency_us));
        let way = self.search(start, towards, Toll::by_time, joins)?;
        Some(self.whole(&way, towards))
    }

    fn end(&self, towards: Towards) -> NodeIndex {
        match towards {
            Towards::Destination => self.dst,
            Towards::Source => self.src,
        }
    }

    fn stays_without_cycle(&self, path: &[NodeIndex]) -> bool {
        let addrs = |path: &[NodeIndex]| -> Vec<NodeAddr> {
            path.iter().map(|node| self.topology.addr(*node)).collect()
        };
        let all = self.paths.iter().map(|path| addrs(path));
        let all: Vec<Vec<NodeAddr>> = all.chain([addrs(path)]).collect();
        Subgraph::of_paths(&all).is_ok()
    }

    /// Returns the path from the source to the destination over these nodes, which begin with one end's neighbor.
    fn whole(&self, way: &[NodeIndex], towards: Towards) -> Vec<NodeIndex> {
        let rest = way.last().map(|last| self.along(*last, towards));
        let rest = rest.unwrap_or_default();
        match towards {
            Towards::Destination => [&[self.src], way, &rest].concat(),
            Towards::Source => {
                let mut path = [&[self.dst], way, &rest].concat();
                path.reverse();
                path
            }
        }
    }

    /// Returns how long a packet takes within the graph from a node to the destination, or from the source to the node.
    fn rest_us(&self, node: NodeIndex, towards: Towards) -> Option<u64> {
        match towards {
            // An ear of the source does not lead back to the source, and an ear of the destination does not lead out of
            // the destination.
            Towards::Destination if node == self.src => None,
            Towards::Source if node == self.dst => None,
            Towards::Destination => self.ahead.get(&node).map(|(us, _)| *us),
            Towards::Source => self.behind.get(&node).map(|(us, _)| *us),
        }
    }

    /// Returns the nodes after this one on its quickest path within the graph.
    fn along(&self, node: NodeIndex, towards: Towards) -> Vec<NodeIndex> {
        let end = self.end(towards);
        let ways = match towards {
            Towards::Destination => &self.ahead,
            Towards::Source => &self.behind,
        };
        let next = |at: &NodeIndex| ways.get(at).filter(|_| *at != end).map(|(_, next)| *next);
        core::iter::successors(next(&node), next).collect()
    }

    /// Adds a path. Its links that are not yet in the graph form an ear.
    fn add(&mut self, path: Vec<NodeIndex>) {
        self.links
            .extend(path.windows(2).map(|hop| (hop[0], hop[1])));
        let us = |hop: &[NodeIndex]| {
            let edge = self.topology.link(hop[0], hop[1]);
            edge.map_or(u64::MAX, |edge| u64::from(edge.link.latency_us))
        };
        let mut so_far = 0u64;
        self.behind.entry(self.src).or_insert((0, self.src));
        for hop in path.windows(2) {
            so_far = so_far.saturating_add(us(hop));
            lower(&mut self.behind, hop[1], (so_far, hop[0]));
        }
        let mut left = 0u64;
        self.ahead.entry(self.dst).or_insert((0, self.dst));
        for hop in path.windows(2).rev() {
            left = left.saturating_add(us(hop));
            lower(&mut self.ahead, hop[0], (left, hop[1]));
        }
        self.paths.push(path);
    }
}

fn lower(ways: &mut BTreeMap<NodeIndex, (u64, NodeIndex)>, node: NodeIndex, way: (u64, NodeIndex)) {
    let best = ways.entry(node).or_insert(way);
    *best = (*best).min(way);
}
