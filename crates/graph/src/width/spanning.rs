//! The widest paths between all pairs of a network whose links have the same width in both directions: the paths of one
//! spanning tree. [Liu04 §IV-A]
//!
//! A tree of the widest links (Kruskal's algorithm, the widest first) contains, between any two nodes, a path that is
//! as wide as any. "Widest paths constructed from the Minimum Spanning Tree are naturally loop free."

use super::Width;
use crate::topology::{NodeIndex, Topology};

/// A spanning tree of the widest links, or one tree for each part of a network in several parts.
#[derive(Clone, Debug)]
pub struct SpanningTree {
    /// The links of the tree, in both directions.
    links: Vec<Vec<(NodeIndex, Width)>>,
    symmetric: bool,
}

impl SpanningTree {
    /// Computes the tree of the widest links that are up in both directions. Each link counts as wide as the narrower
    /// of its directions.
    pub fn new(topology: &Topology) -> SpanningTree {
        let mut symmetric = true;
        let mut links = Vec::new();
        for a in topology.nodes() {
            for edge in topology.links_from(a) {
                let Some(back) = topology.link(edge.peer, a) else {
                    symmetric = false;
                    continue;
                };
                symmetric &= back.width() == edge.width();
                if topology.addr(a) < topology.addr(edge.peer) {
                    links.push((edge.width().min(back.width()), a, edge.peer));
                }
            }
        }
        // Choice: of equally wide links, those with lower addresses come first.
        links.sort_by_key(|&(width, a, b)| {
            let addrs = (topology.addr(a), topology.addr(b));
            (core::cmp::Reverse(width), addrs)
        });
        let mut parts: Vec<usize> = (0..topology.node_count()).collect();
        let mut tree = vec![Vec::new(); topology.node_count()];
        for (width, a, b) in links {
            let ends = (part(&mut parts, a.place()), part(&mut parts, b.place()));
            if ends.0 != ends.1 {
                parts[ends.0] = ends.1;
                tree[a.place()].push((b, width));
                tree[b.place()].push((a, width));
            }
        }
        SpanningTree {
            links: tree,
            symmetric,
        }
    }

    /// Returns whether every link is equally wide in both directions. Then the tree's paths are as wide as any.
    pub fn is_exact(&self) -> bool {
        self.symmetric
    }

    /// Returns the widths of the tree's paths from one node to all others, by index; [`Width::NONE`] for nodes in
    /// another part.
    pub fn widths(&self, from: NodeIndex) -> Vec<Width> {
        let mut widths = vec![Width::NONE; self.links.len()];
        widths[from.place()] = Width::UNLIMITED;
        self.walk(from, |before, node, width| {
            widths[node.place()] = widths[before.place()].min(width);
        });
        widths
    }

    /// Returns the nodes of the tree's path; empty if there is none.
    pub fn path(&self, from: NodeIndex, to: NodeIndex) -> Vec<NodeIndex> {
        let mut before = vec![None; self.links.len()];
        self.walk(to, |parent, node, _| before[node.place()] = Some(parent));
        if from != to && before[from.place()].is_none() {
            return Vec::new();
        }
        std::iter::successors(Some(from), |at| before[at.place()]).collect()
    }

    /// Calls `tell` with each node below `root`, after its parent.
    fn walk(&self, root: NodeIndex, mut tell: impl FnMut(NodeIndex, NodeIndex, Width)) {
        let mut stack = vec![(root, root)];
        while let Some((parent, node)) = stack.pop() {
            for &(next, width) in &self.links[node.place()] {
                if next != parent {
                    tell(node, next, width);
                    stack.push((node, next));
                }
            }
        }
    }
}

/// Returns the part that a node belongs to. Shortens the paths to it.
fn part(parts: &mut [usize], node: usize) -> usize {
    let mut at = node;
    while parts[at] != at {
        parts[at] = parts[parts[at]];
        at = parts[at];
    }
    at
}
