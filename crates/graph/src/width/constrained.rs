//! Short paths among the wide ones: the shortest-widest path, and the shortest path that is wide enough. [Liu04 §IV-C]
//!
//! ```text
//!   widest width of each node ──▶ prune what is narrower ──▶ shortest path in what is left
//!   (or: less than the widest by a margin)
//! ```
//!
//! A part of a shortest-widest path need not be a shortest-widest path, so no table is built of these.

use super::{Width, Widths};
use crate::metric::{Cost, Metric};
use crate::paths::{NoPath, Path, ends, price_by};
use crate::spf::Tree;
use crate::topology::{Edge, NodeIndex, Topology};
use base::NodeAddr;
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// The measure of a path's length. [Liu04 §IV-C]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// The sum of a metric; with [`Metric::Hops`], this is the *logical hop count*.
    Metric(Metric),
    /// The number of physical links on the path, the *physical hop count*. A link whose number is not known counts as
    /// [`Topology::assumed_hops`].
    PhysicalHops,
}

/// The *logical hop count*: each link has the length 1.
pub const LOGICAL_HOPS: Length = Length::Metric(Metric::Hops);

impl From<Metric> for Length {
    fn from(metric: Metric) -> Length {
        Length::Metric(metric)
    }
}

/// The length of links in physical hops, for one state of a topology.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PhysicalHops {
    assumed: u16,
}

impl PhysicalHops {
    pub(crate) fn over(topology: &Topology) -> PhysicalHops {
        PhysicalHops {
            assumed: topology.assumed_hops(),
        }
    }

    /// Returns the physical hops of a link; at least 1.
    pub(crate) fn of(self, topology: &Topology, from: NodeIndex, to: NodeIndex) -> u16 {
        let known = topology.known(from, to).physical_hops;
        known.unwrap_or(self.assumed).max(1)
    }

    fn cost(self, topology: &Topology, from: NodeIndex, edge: &Edge) -> Cost {
        Cost(u64::from(self.of(topology, from, edge.peer)))
    }
}

/// Returns the shortest of all widest paths. [Liu04 §IV-C]
pub fn shortest_widest(
    topology: &Topology,
    src: NodeAddr,
    dst: NodeAddr,
    length: impl Into<Length>,
) -> Result<Path, NoPath> {
    let (from, to) = ends(topology, src, dst)?;
    let widest = Widths::new(topology, from).width(to);
    shortest_of_width(topology, src, dst, length, widest)
}

/// Returns the shortest of all paths that have at least this width. [Liu04 §IV-C]
pub fn shortest_of_width(
    topology: &Topology,
    src: NodeAddr,
    dst: NodeAddr,
    length: impl Into<Length>,
    at_least: Width,
) -> Result<Path, NoPath> {
    let (from, to) = ends(topology, src, dst)?;
    let length = length.into();
    let wide = |_, edge: &Edge| edge.width() >= at_least;
    let path = Pruned::new(topology, from, length, wide).path(topology, to);
    path.ok_or(NoPath::Unreachable(src, dst))
}

/// A path that may be narrower than the widest one, to be shorter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relaxed {
    /// The shortest path that is wide enough.
    pub path: Path,
    /// The width of the widest path.
    pub widest: Width,
    /// The required width: `widest` reduced by the margin.
    pub required: Width,
}

/// Returns the shortest of all paths whose width is below the widest by at most `margin`, "the gap between the width of
/// the widest relay path and the width requirement" [Liu04 §V-B].
pub fn relaxed(
    topology: &Topology,
    src: NodeAddr,
    dst: NodeAddr,
    length: impl Into<Length>,
    margin: Width,
) -> Result<Relaxed, NoPath> {
    let (from, to) = ends(topology, src, dst)?;
    let widest = Widths::new(topology, from).width(to);
    let required = Width(widest.0.saturating_sub(margin.0));
    // If the margin exceeds the widest width, no width is required. But a link that carries nothing does not count as a
    // link.
    let path = shortest_of_width(topology, src, dst, length, required.max(Width(1)))?;
    Ok(Relaxed {
        path,
        widest,
        required,
    })
}

/// Returns the shortest-widest paths from one node to all others, by index; `None` for the root and for unreachable
/// nodes. This is the two-phase search of [Liu04 §IV-C].
pub fn all_shortest_widest(
    topology: &Topology,
    root: NodeIndex,
    length: impl Into<Length>,
) -> Vec<Option<Path>> {
    let length = length.into();
    // 1) In the first phase find the widest paths from the source to all other nodes.
    let widths = Widths::new(topology, root);
    // 2) Sort all the nodes into a list such that T(i) is in increasing order.
    let mut nodes: Vec<NodeIndex> = topology.nodes().filter(|node| *node != root).collect();
    nodes.retain(|node| widths.width(*node) > Width::NONE);
    nodes.sort_by_key(|node| (widths.width(*node), *node));
    let mut paths = vec![None; topology.node_count()];
    // 5) Go back to step 3), until the list is empty. Nodes of one width share the pruned graph.
    for group in nodes.chunk_by(|a, b| widths.width(*a) == widths.width(*b)) {
        // 3) Prune all the links which have bandwidth less than T(i).
        let width = widths.width(group[0]);
        let pruned = Pruned::new(topology, root, length, |_, e: &Edge| e.width() >= width);
        // 4) Find the shortest path from the source to node i in the pruned graph.
        for &node in group {
            paths[node.place()] = pruned.path(topology, node);
        }
    }
    paths
}

/// The shortest paths from one node over a part of the links.
pub(super) struct Pruned {
    root: NodeIndex,
    way: Way,
}

enum Way {
    /// By a metric: the same kind of tree that tables use, over fewer links.
    Tree(Metric, Box<Tree>),
    /// By physical hops: the previous node of each node.
    Parents(PhysicalHops, Vec<Option<NodeIndex>>),
}

impl Pruned {
    /// Computes the paths over the links for which `usable(from, edge)` is true.
    pub(super) fn new(
        topology: &Topology,
        root: NodeIndex,
        length: Length,
        usable: impl Fn(NodeIndex, &Edge) -> bool,
    ) -> Pruned {
        let way = match length {
            Length::Metric(metric) => {
                let banned = |from, to| {
                    let edge = topology.link(from, to);
                    edge.is_none_or(|edge| !usable(from, edge))
                };
                let tree = Tree::without(topology, root, metric, banned);
                Way::Tree(metric, Box::new(tree))
            }
            Length::PhysicalHops => {
                let hops = PhysicalHops::over(topology);
                Way::Parents(hops, parents(topology, root, hops, usable))
            }
        };
        Pruned { root, way }
    }

    /// Returns the path to `node`; `None` if there is none, and for the root.
    pub(super) fn path(&self, topology: &Topology, node: NodeIndex) -> Option<Path> {
        let nodes = match &self.way {
            Way::Tree(_, tree) => tree.path(node),
            Way::Parents(_, parents) => {
                let before = |at: &NodeIndex| parents.get(at.place()).copied().flatten();
                let mut nodes: Vec<NodeIndex> = std::iter::successors(Some(node), before).collect();
                nodes.reverse();
                nodes
            }
        };
        let is_path = nodes.len() > 1 && nodes[0] == self.root;
        let cost = |from, edge: &Edge| match &self.way {
            Way::Tree(metric, _) => edge.cost(*metric),
            Way::Parents(hops, _) => hops.cost(topology, from, edge),
        };
        is_path.then(|| price_by(topology, &nodes, cost))
    }
}

/// Runs Dijkstra's algorithm by physical hops. Choice: of equally long paths, the one with fewer links is preferred,
/// then the one that comes from the lower address.
fn parents(
    topology: &Topology,
    root: NodeIndex,
    hops: PhysicalHops,
    usable: impl Fn(NodeIndex, &Edge) -> bool,
) -> Vec<Option<NodeIndex>> {
    let mut parent: Vec<Option<NodeIndex>> = vec![None; topology.node_count()];
    let mut best = vec![None; topology.node_count()];
    best[root.place()] = Some((Cost(0), 0u32, NodeAddr(0)));
    let mut heap = BinaryHeap::from([Reverse((Cost(0), 0u32, root))]);
    let mut settled = vec![false; topology.node_count()];
    while let Some(Reverse((far, links, node))) = heap.pop() {
        if core::mem::replace(&mut settled[node.place()], true) {
            continue;
        }
        for edge in topology.links_from(node) {
            if settled[edge.peer.place()] || !usable(node, edge) {
                continue;
            }
            let offer = (
                far + hops.cost(topology, node, edge),
                links + 1,
                topology.addr(node),
            );
            if best[edge.peer.place()].is_none_or(|known| offer < known) {
                best[edge.peer.place()] = Some(offer);
                parent[edge.peer.place()] = Some(node);
                heap.push(Reverse((offer.0, offer.1, edge.peer)));
            }
        }
    }
    parent
}
