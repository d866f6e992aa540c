//! Single paths with what they cost.
//!
//! The module computes the shortest loop-free paths between two nodes in order of cost, by Yen's algorithm. Each next
//! best path leaves one of the better paths somewhere. So from every node of the last path found, the algorithm
//! computes the best detour that repeats no better path, and the best of all detours is next.

use crate::metric::{Cost, LinkCost, Metric};
use crate::spf::Tree;
use crate::topology::{Edge, NodeIndex, Topology};
use crate::width::Width;
use base::{NodeAddr, Set};
use core::fmt;
use std::collections::BTreeSet;

/// A path and what it costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The links in order.
    pub hops: Vec<Hop>,
    /// The sum of their costs.
    pub total: Cost,
}

/// One link of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The node where the link begins.
    pub from: NodeAddr,
    /// The node where the link ends.
    pub to: NodeAddr,
    /// The known properties of the link.
    pub link: LinkCost,
    /// The cost of the link under the metric in question.
    pub cost: Cost,
    /// The rate of one TCP connection over the link.
    pub width: Width,
}

/// Why there is no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPath {
    /// Nothing is known of the node.
    Unknown(NodeAddr),
    /// No chain of links leads from the first node to the second.
    Unreachable(NodeAddr, NodeAddr),
    /// Source and destination are the same.
    Same(NodeAddr),
}

/// Returns the `k` cheapest loop-free paths, or fewer if there are fewer. The first is the path that packets take by
/// table. The others are sorted by cost, then by length, then by node addresses.
pub fn shortest(
    topology: &Topology,
    src: NodeAddr,
    dst: NodeAddr,
    metric: Metric,
    k: usize,
) -> Result<Vec<Path>, NoPath> {
    let (from, to) = ends(topology, src, dst)?;
    let first = Tree::new(topology, from, metric).path(to);
    if first.is_empty() {
        return Err(NoPath::Unreachable(src, dst));
    }
    let mut found = vec![first];
    let mut candidates = BTreeSet::new();
    while found.len() < k {
        let last = &found[found.len() - 1];
        for spur in 0..last.len() - 1 {
            if let Some(detour) = detour(topology, metric, &found, &last[..=spur], to) {
                candidates.insert(Candidate::new(topology, metric, detour));
            }
        }
        match candidates.pop_first() {
            Some(best) => found.push(best.nodes),
            None => break,
        }
    }
    let priced = found.iter().take(k);
    Ok(priced.map(|nodes| price(topology, metric, nodes)).collect())
}

/// Returns the two nodes that a question is about.
pub(crate) fn ends(
    topology: &Topology,
    src: NodeAddr,
    dst: NodeAddr,
) -> Result<(NodeIndex, NodeIndex), NoPath> {
    if src == dst {
        return Err(NoPath::Same(src));
    }
    let index = |addr| topology.index(addr).ok_or(NoPath::Unknown(addr));
    Ok((index(src)?, index(dst)?))
}

/// Returns the best path that begins with the nodes of `trunk`, then leaves each path of `found` that also begins with
/// them, and does not return to a node of the trunk.
fn detour(
    topology: &Topology,
    metric: Metric,
    found: &[Vec<NodeIndex>],
    trunk: &[NodeIndex],
    to: NodeIndex,
) -> Option<Vec<NodeIndex>> {
    let (&spur, before) = trunk.split_last()?;
    let taken: Set<NodeIndex> = found
        .iter()
        .filter(|path| path.starts_with(trunk))
        .map(|path| path[trunk.len()])
        .collect();
    let banned = |from: NodeIndex, to: NodeIndex| {
        before.contains(&to) || (from == spur && taken.contains(&to))
    };
    let rest = Tree::without(topology, spur, metric, banned).path(to);
    (!rest.is_empty()).then(|| [before, &rest].concat())
}

/// A path, in the order in which paths are listed.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    total: Cost,
    length: usize,
    addrs: Vec<NodeAddr>,
    nodes: Vec<NodeIndex>,
}

impl Candidate {
    fn new(topology: &Topology, metric: Metric, nodes: Vec<NodeIndex>) -> Candidate {
        Candidate {
            total: price(topology, metric, &nodes).total,
            length: nodes.len(),
            addrs: nodes.iter().map(|&node| topology.addr(node)).collect(),
            nodes,
        }
    }
}

pub(crate) fn price(topology: &Topology, metric: Metric, nodes: &[NodeIndex]) -> Path {
    price_by(topology, nodes, |_, edge| edge.cost(metric))
}

/// Returns the path over these nodes. `cost` gives the cost of each link, from the link and the node where it begins.
pub(crate) fn price_by(
    topology: &Topology,
    nodes: &[NodeIndex],
    cost: impl Fn(NodeIndex, &Edge) -> Cost,
) -> Path {
    let hops: Vec<Hop> = nodes
        .windows(2)
        .filter_map(|pair| {
            let edge = topology.link(pair[0], pair[1])?;
            Some(Hop {
                from: topology.addr(pair[0]),
                to: topology.addr(pair[1]),
                link: edge.link,
                cost: cost(pair[0], edge),
                width: edge.width(),
            })
        })
        .collect();
    let total = hops.iter().fold(Cost(0), |sum, hop| sum + hop.cost);
    Path { hops, total }
}

impl Path {
    /// Returns the nodes of the path, source and destination included.
    pub fn nodes(&self) -> impl Iterator<Item = NodeAddr> {
        let first = self.hops.first().map(|hop| hop.from);
        first.into_iter().chain(self.hops.iter().map(|hop| hop.to))
    }
}

impl fmt::Display for NoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoPath::Unknown(node) => write!(f, "nothing is known of a node {node}"),
            NoPath::Unreachable(src, dst) => {
                write!(f, "no chain of links that are up leads from {src} to {dst}")
            }
            NoPath::Same(node) => {
                write!(f, "{node} is both source and destination: name two nodes")
            }
        }
    }
}

impl core::error::Error for NoPath {}
