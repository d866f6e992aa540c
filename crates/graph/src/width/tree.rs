//! The widths of the widest paths from one node, from scratch and after changes. [Liu04 §IV-A]
//!
//! This is Dijkstra's algorithm with the narrowest link in place of the sum. Widths are a function of the topology. The
//! tree by which they were found is one of several; it only serves to find the widths that depend on a link that became
//! narrower:
//!
//! ```text
//!   repair:   1. hang off   what is behind tree links that became narrower than their node
//!             2. seed       the heap: hung-off nodes from outside, ends of widened links
//!             3. settle     from wide to narrow, only what gets wider or hangs loose
//! ```
//!
//! The tree stays a tree: a node gets a new parent only when its width grows, and then its parent is at least as wide
//! as the node is now, so the parent's own path cannot contain the node.

use super::Width;
use crate::spf::Work;
use crate::topology::{Change, NodeIndex, Topology};
use std::collections::BinaryHeap;

/// The width of the widest path from one node to every other node.
#[derive(Clone, Debug)]
pub struct Widths {
    root: NodeIndex,
    width: Vec<Width>,
    parent: Vec<Option<NodeIndex>>,
    heap: BinaryHeap<(Width, NodeIndex)>,
    loose: Vec<NodeIndex>,
}

impl Widths {
    /// Computes the widths from `root`, from scratch.
    pub fn new(topology: &Topology, root: NodeIndex) -> Widths {
        let mut widths = Widths {
            root,
            width: Vec::new(),
            parent: Vec::new(),
            heap: BinaryHeap::new(),
            loose: Vec::new(),
        };
        widths.cover(topology);
        widths.heap.push((Width::UNLIMITED, root));
        widths.settle(topology, &mut Work::default());
        widths
    }

    /// Repairs the widths after `changes`: all changes of `topology` since the widths were made or last repaired, in
    /// any order. The result equals widths computed from scratch.
    pub fn update(&mut self, topology: &Topology, changes: &[Change]) -> Work {
        self.cover(topology);
        let mut work = Work::default();
        for &Change { from, to } in changes {
            work.links += 1;
            if self.parent[to.place()] == Some(from) {
                let link = topology.link(from, to).map_or(Width::NONE, |e| e.width());
                // If `from` hangs loose, `to` does, too.
                if link.min(self.width[from.place()]) < self.width[to.place()] {
                    self.hang_off(topology, to, &mut work);
                }
            }
        }
        for i in 0..self.loose.len() {
            let node = self.loose[i];
            for edge in topology.links_to(node) {
                work.links += 1;
                self.offer(edge.peer, node, edge.width());
            }
        }
        self.loose.clear();
        for &Change { from, to } in changes {
            if let Some(edge) = topology.link(from, to) {
                self.offer(from, to, edge.width());
            }
        }
        self.settle(topology, &mut work);
        work
    }

    /// Returns the width of the widest path to `node`; [`Width::NONE`] if there is none, and [`Width::UNLIMITED`] to
    /// the root.
    pub fn width(&self, node: NodeIndex) -> Width {
        let width = self.width.get(node.place());
        width.copied().unwrap_or(Width::NONE)
    }

    /// Returns the root, where the paths begin.
    pub fn root(&self) -> NodeIndex {
        self.root
    }

    /// Makes room for every node of the topology.
    fn cover(&mut self, topology: &Topology) {
        self.width.resize(topology.node_count(), Width::NONE);
        self.parent.resize(topology.node_count(), None);
        self.width[self.root.place()] = Width::UNLIMITED;
    }

    fn hang_off(&mut self, topology: &Topology, node: NodeIndex, work: &mut Work) {
        let first = self.loose.len();
        self.loosen(node);
        let mut next = first;
        while let Some(&node) = self.loose.get(next) {
            next += 1;
            let links = topology.links_from(node);
            work.links += links.len();
            for edge in links {
                if self.parent[edge.peer.place()] == Some(node) {
                    self.loosen(edge.peer);
                }
            }
        }
    }

    fn loosen(&mut self, node: NodeIndex) {
        self.parent[node.place()] = None;
        self.width[node.place()] = Width::NONE;
        self.loose.push(node);
    }

    fn settle(&mut self, topology: &Topology, work: &mut Work) {
        while let Some((width, node)) = self.heap.pop() {
            if width < self.width[node.place()] {
                continue;
            }
            work.settled += 1;
            for edge in topology.links_from(node) {
                work.links += 1;
                self.offer(node, edge.peer, edge.width());
            }
        }
    }

    /// Records that `to` can be reached from `from` over a link of this width.
    fn offer(&mut self, from: NodeIndex, to: NodeIndex, link: Width) {
        let width = self.width[from.place()].min(link);
        if width > self.width[to.place()] {
            self.width[to.place()] = width;
            self.parent[to.place()] = Some(from);
            self.heap.push((width, to));
        }
    }
}
