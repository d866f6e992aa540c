//! Relay paths for many pairs at once, such that no node relays for more than so many of them: the
//! heuristic of [Liu04 §IV-D]. (The exact problem is NP-hard.)
//!
//! ```text
//!   all pairs ──▶ shortest-widest paths ──▶ widest first: take it, count its relays ─┐
//!       ▲                                                                            │
//!       └── what is left, without the node that has as many as it may ◀──────────────┘
//! ```

use super::constrained::{Length, Pruned};
use super::{Width, Widths};
use crate::paths::Path;
use crate::topology::{Edge, NodeIndex, Topology};
use core::cmp::Reverse;

/// Relay paths and what they ask of each node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadLimited {
    /// A path for each demand, in the order of the demands; `None` where none is left, not even a
    /// direct link.
    pub paths: Vec<Option<Path>>,
    /// For how many pairs each node relays, by place.
    pub relays_for: Vec<u32>,
}

/// Paths for `demands`, source and destination each, of which no node relays more than `most`. Wide
/// pairs choose first, so nobody is kept from a wide path by one who gains less from it.
///
/// Choice: a node counts the paths that it relays, not those that begin or end there.
pub fn load_limited(
    topology: &Topology,
    demands: &[(NodeIndex, NodeIndex)],
    most: u32,
    length: impl Into<Length>,
) -> LoadLimited {
    let length = length.into();
    let mut found = LoadLimited {
        paths: vec![None; demands.len()],
        relays_for: vec![0; topology.node_count()],
    };
    let mut open: Vec<usize> = (0..demands.len()).collect();
    // 5) Based on the reduced topology, go back to step 1), until all demand pairs have been routed.
    while !open.is_empty() {
        let full = |node: NodeIndex| found.relays_for[node.place()] >= most;
        // 1) Find the shortest-widest paths between all demand pairs.
        let mut routed: Vec<(usize, Path)> = open
            .iter()
            .filter_map(|&at| Some((at, route(topology, demands[at], length, full)?)))
            .collect();
        // 2) Sort the demand pairs in decreasing order of path widths. Choice: then by their order.
        routed.sort_by_key(|(at, path)| (Reverse(path.width()), *at));
        if routed.is_empty() {
            break;
        }
        // 3) Take a pair out from the head and increase the counters of the nodes on its path.
        for (at, path) in routed {
            let relays: Vec<NodeIndex> = relays(topology, &path).collect();
            for relay in &relays {
                found.relays_for[relay.place()] += 1;
            }
            found.paths[at] = Some(path);
            open.retain(|other| *other != at);
            // 4) Until some node's counter reaches the limit, then remove it.
            let counts = |relay: &NodeIndex| found.relays_for[relay.place()] >= most;
            if relays.iter().any(counts) {
                break;
            }
        }
        // What has no path any more gets none with fewer relays.
        let full = |node: NodeIndex| found.relays_for[node.place()] >= most;
        open.retain(|&at| route(topology, demands[at], length, full).is_some());
    }
    found
}

/// The shortest-widest path on which no node relays that may not: it can still be source or
/// destination [Liu04 §IV-D].
fn route(
    topology: &Topology,
    (from, to): (NodeIndex, NodeIndex),
    length: Length,
    full: impl Fn(NodeIndex) -> bool,
) -> Option<Path> {
    let may = |at: NodeIndex| at == from || !full(at);
    let width = Widths::over(topology, from, |at, _| may(at)).width(to);
    if from == to || width == Width::NONE {
        return None;
    }
    let usable = |at: NodeIndex, edge: &Edge| may(at) && edge.width() >= width;
    Pruned::new(topology, from, length, usable).path(topology, to)
}

/// The nodes between the ends of a path.
fn relays(topology: &Topology, path: &Path) -> impl Iterator<Item = NodeIndex> {
    let inner = path.hops.iter().skip(1);
    inner.filter_map(|hop| topology.index(hop.from))
}
