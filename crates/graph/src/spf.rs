//! Shortest-path trees: Dijkstra's algorithm from one root, and the repair of a tree after some
//! links have changed.
//!
//! The tree is a function of the distances alone: of all predecessors through which a node is reached at its distance,
//! the parent is the one with the lowest address. So the order of the changes makes no difference, and a repaired tree
//! equals a tree computed from scratch.
//!
//! The path is the same hop by hop. If `h` is the root's first hop to `d`, then every predecessor of `d` that is good
//! for `h` is good for the root as well, and the one that the root chose lies behind `h`. So `h` chooses the same
//! predecessor, and packets take the path that the root sees.
//!
//! ```text
//!   repair:   1. hang off   the subtrees behind tree links that became longer or vanished
//!             2. seed       the heap: hung-off nodes from outside, ends of shortened links
//!             3. settle     as Dijkstra does, but only what gets nearer or hangs loose
//!             4. parents    of nodes that moved, of their successors, of ends of changed links
//!             5. first hops and delays along the tree, below parents that changed
//! ```
//!
//! [`Tree::changed`] names the nodes whose route the last repair has changed. A caller that keeps routes in another
//! form updates only these nodes.

use crate::metric::{Cost, Metric};
use crate::topology::{Change, NodeIndex, Topology};
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// The distance of a node that cannot be reached.
const FAR: Cost = Cost(u64::MAX);
/// No node.
const NONE: NodeIndex = NodeIndex(u32::MAX);

/// The shortest paths from one node to all others under one metric.
#[derive(Clone, Debug)]
pub struct Tree {
    root: NodeIndex,
    metric: Metric,
    distance: Vec<Cost>,
    parent: Vec<NodeIndex>,
    first_hop: Vec<NodeIndex>,
    /// The sums of the links' latencies along the tree's paths; 0 for unreachable nodes.
    delay_us: Vec<u64>,
    scratch: Scratch,
}

/// The amount of work that a computation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Nodes whose distance was settled.
    pub settled: usize,
    /// Links that were looked at.
    pub links: usize,
}

/// Memory that is kept from one computation to the next.
#[derive(Clone, Debug, Default)]
struct Scratch {
    heap: BinaryHeap<Reverse<(Cost, NodeIndex)>>,
    /// Nodes whose distance, first hop or delay has changed, each once. The list is kept until the next repair.
    moved: Vec<NodeIndex>,
    /// Whether a node is in `moved`.
    has_moved: Vec<bool>,
    /// Nodes whose parent may have changed.
    suspects: Vec<NodeIndex>,
    stack: Vec<NodeIndex>,
}

impl Tree {
    /// Computes the tree of `topology` from `root`, from scratch.
    pub fn new(topology: &Topology, root: NodeIndex, metric: Metric) -> Tree {
        Tree::without(topology, root, metric, |_, _| false)
    }

    /// Computes the tree from `root` that avoids every link for which `banned(from, to)` is true.
    pub fn without(
        topology: &Topology,
        root: NodeIndex,
        metric: Metric,
        banned: impl Fn(NodeIndex, NodeIndex) -> bool,
    ) -> Tree {
        let mut tree = Tree {
            root,
            metric,
            distance: Vec::new(),
            parent: Vec::new(),
            first_hop: Vec::new(),
            delay_us: Vec::new(),
            scratch: Scratch::default(),
        };
        tree.cover(topology);
        tree.dijkstra(topology, banned);
        tree
    }

    /// Repairs the tree after `changes`: all changes of `topology` since the tree was made or last repaired, in any
    /// order. The result equals a tree computed from scratch.
    pub fn update(&mut self, topology: &Topology, changes: &[Change]) -> Work {
        for node in self.scratch.moved.drain(..) {
            self.scratch.has_moved[node.place()] = false;
        }
        self.cover(topology);
        let mut work = Work::default();
        self.hang_off(topology, changes, &mut work);
        self.seed(topology, changes, &mut work);
        self.settle(topology, &mut work);
        self.adopt(topology, changes, &mut work);
        work
    }

    /// Returns the root, where the paths begin.
    pub fn root(&self) -> NodeIndex {
        self.root
    }

    /// Returns the metric of the distances.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// Returns the cost of the path to `node`; `None` if there is none.
    #[inline]
    pub fn distance(&self, node: NodeIndex) -> Option<Cost> {
        let distance = *self.distance.get(node.place())?;
        (distance != FAR).then_some(distance)
    }

    /// Returns the node before `node` on the path to it; `None` for the root and unreachable nodes.
    pub fn parent(&self, node: NodeIndex) -> Option<NodeIndex> {
        known(self.parent.get(node.place()))
    }

    /// Returns the first node after the root on the path to `node`; `None` for the root and unreachable nodes.
    #[inline]
    pub fn next_hop(&self, node: NodeIndex) -> Option<NodeIndex> {
        known(self.first_hop.get(node.place()))
    }

    /// Returns how long a packet takes on the path to `node`, in microseconds, whatever the metric; 0 for the root and
    /// unreachable nodes.
    #[inline]
    pub fn delay_us(&self, node: NodeIndex) -> u64 {
        self.delay_us.get(node.place()).copied().unwrap_or(0)
    }

    /// Returns the nodes whose distance, first hop or delay the last [`Tree::update`] may have changed, in no
    /// particular order, each once. The result is empty after a computation from scratch.
    pub fn changed(&self) -> &[NodeIndex] {
        &self.scratch.moved
    }

    /// Returns the nodes on the path to `node`, from the root to `node` itself; empty if there is none.
    pub fn path(&self, node: NodeIndex) -> Vec<NodeIndex> {
        if self.distance(node).is_none() {
            return Vec::new();
        }
        let mut path: Vec<NodeIndex> =
            core::iter::successors(Some(node), |&node| self.parent(node)).collect();
        path.reverse();
        path
    }

    /// Returns the number of nodes that can be reached, the root included.
    pub fn reached(&self) -> usize {
        self.distance.iter().filter(|d| **d != FAR).count()
    }

    /// Makes room for every node of the topology.
    fn cover(&mut self, topology: &Topology) {
        let nodes = topology.node_count();
        self.distance.resize(nodes, FAR);
        self.parent.resize(nodes, NONE);
        self.first_hop.resize(nodes, NONE);
        self.delay_us.resize(nodes, 0);
        self.scratch.has_moved.resize(nodes, false);
        self.distance[self.root.place()] = Cost(0);
    }

    fn dijkstra(&mut self, topology: &Topology, banned: impl Fn(NodeIndex, NodeIndex) -> bool) {
        let heap = &mut self.scratch.heap;
        heap.push(Reverse((Cost(0), self.root)));
        while let Some(Reverse((distance, node))) = heap.pop() {
            if distance > self.distance[node.place()] {
                continue;
            }
            // All predecessors are settled: costs are positive.
            if node != self.root {
                let parent = self.parent[node.place()];
                self.first_hop[node.place()] = if parent == self.root {
                    node
                } else {
                    self.first_hop[parent.place()]
                };
            }
            for edge in topology.links_from(node) {
                if banned(node, edge.peer) {
                    continue;
                }
                let peer = edge.peer.place();
                let candidate = distance + edge.cost(self.metric);
                if candidate < self.distance[peer] {
                    self.distance[peer] = candidate;
                    heap.push(Reverse((candidate, edge.peer)));
                } else if candidate > self.distance[peer]
                    || topology.addr(self.parent[peer]) < topology.addr(node)
                {
                    continue;
                }
                self.parent[peer] = node;
                // The node is settled, so its delay is final.
                self.delay_us[peer] = self.delay_us[node.place()] + u64::from(edge.link.latency_us);
            }
        }
    }

    /// Step 1: marks every node that was reached over a link that became longer as unreachable, until another path is
    /// found.
    fn hang_off(&mut self, topology: &Topology, changes: &[Change], work: &mut Work) {
        for &Change { from, to } in changes {
            work.links += 1;
            // This compares with the distances before the change; nodes in `moved` are already handled.
            if self.parent[to.place()] != from || self.scratch.has_moved[to.place()] {
                continue;
            }
            let lengthened = match topology.link(from, to) {
                None => true,
                // If `from` hangs loose, `to` does, too.
                Some(edge) => {
                    self.distance[from.place()] + edge.cost(self.metric) > self.distance[to.place()]
                }
            };
            if !lengthened {
                continue;
            }
            self.scratch.stack.push(to);
            while let Some(node) = self.scratch.stack.pop() {
                self.distance[node.place()] = FAR;
                self.mark_moved(node);
                let links = topology.links_from(node);
                work.links += links.len();
                let children = links.iter().map(|edge| edge.peer).filter(|peer| {
                    self.parent[peer.place()] == node && !self.scratch.has_moved[peer.place()]
                });
                self.scratch.stack.extend(children);
            }
        }
    }

    /// Step 2: puts into the heap the links into nodes that hang loose, and the links that may bring their ends nearer.
    fn seed(&mut self, topology: &Topology, changes: &[Change], work: &mut Work) {
        for i in 0..self.scratch.moved.len() {
            let node = self.scratch.moved[i];
            for edge in topology.links_to(node) {
                work.links += 1;
                self.offer(edge.peer, node, edge.cost(self.metric));
            }
        }
        for &Change { from, to } in changes {
            if let Some(edge) = topology.link(from, to) {
                self.offer(from, to, edge.cost(self.metric));
            }
        }
    }

    /// Step 3: settles nodes from near to far, as Dijkstra does.
    fn settle(&mut self, topology: &Topology, work: &mut Work) {
        while let Some(Reverse((distance, node))) = self.scratch.heap.pop() {
            if distance > self.distance[node.place()] {
                continue;
            }
            work.settled += 1;
            for edge in topology.links_from(node) {
                work.links += 1;
                self.offer(node, edge.peer, edge.cost(self.metric));
            }
        }
    }

    /// Records that `to` can be reached from `from` over a link of this cost.
    fn offer(&mut self, from: NodeIndex, to: NodeIndex, cost: Cost) {
        let distance = self.distance[from.place()];
        if distance == FAR || distance + cost >= self.distance[to.place()] {
            return;
        }
        self.distance[to.place()] = distance + cost;
        self.mark_moved(to);
        self.scratch.heap.push(Reverse((distance + cost, to)));
    }

    fn mark_moved(&mut self, node: NodeIndex) {
        if !self.scratch.has_moved[node.place()] {
            self.scratch.has_moved[node.place()] = true;
            self.scratch.moved.push(node);
        }
    }

    /// Steps 4 and 5: sets new parents, and new first hops and delays below them.
    fn adopt(&mut self, topology: &Topology, changes: &[Change], work: &mut Work) {
        let mut suspects = core::mem::take(&mut self.scratch.suspects);
        suspects.extend(changes.iter().map(|change| change.to));
        for &node in &self.scratch.moved {
            suspects.push(node);
            suspects.extend(topology.links_from(node).iter().map(|edge| edge.peer));
        }
        // The order is from near to far, so that a node's parent has its first hop before the node.
        suspects.sort_unstable_by_key(|node| (self.distance[node.place()], *node));
        suspects.dedup();
        for node in suspects.drain(..) {
            let parent = self.best_parent(topology, node, work);
            self.parent[node.place()] = parent;
            self.pass_on(topology, node);
        }
        self.scratch.suspects = suspects;
    }

    fn best_parent(&self, topology: &Topology, node: NodeIndex, work: &mut Work) -> NodeIndex {
        let distance = self.distance[node.place()];
        if node == self.root || distance == FAR {
            return NONE;
        }
        // Links are in order of address, so the first good link is the right one.
        let good = topology.links_to(node).iter().find(|edge| {
            work.links += 1;
            self.distance[edge.peer.place()] + edge.cost(self.metric) == distance
        });
        good.map_or(NONE, |edge| edge.peer)
    }

    /// Passes first hop and delay on from the node's parent, as long as that changes anything.
    fn pass_on(&mut self, topology: &Topology, node: NodeIndex) {
        self.scratch.stack.push(node);
        while let Some(node) = self.scratch.stack.pop() {
            let (first_hop, delay_us) = self.inherit(topology, node);
            let place = node.place();
            if (self.first_hop[place], self.delay_us[place]) == (first_hop, delay_us) {
                continue;
            }
            (self.first_hop[place], self.delay_us[place]) = (first_hop, delay_us);
            self.mark_moved(node);
            let children = topology
                .links_from(node)
                .iter()
                .map(|edge| edge.peer)
                .filter(|peer| self.parent[peer.place()] == node);
            self.scratch.stack.extend(children);
        }
    }

    fn inherit(&self, topology: &Topology, node: NodeIndex) -> (NodeIndex, u64) {
        let parent = self.parent[node.place()];
        if parent == NONE {
            return (NONE, 0);
        }
        let first_hop = if parent == self.root {
            node
        } else {
            self.first_hop[parent.place()]
        };
        // A child whose own turn comes later may still have a parent over a link that is gone.
        let link_us = topology
            .link(parent, node)
            .map_or(0, |edge| edge.link.latency_us);
        (
            first_hop,
            self.delay_us[parent.place()] + u64::from(link_us),
        )
    }
}

fn known(node: Option<&NodeIndex>) -> Option<NodeIndex> {
    node.copied().filter(|node| *node != NONE)
}

impl PartialEq for Tree {
    fn eq(&self, other: &Tree) -> bool {
        (self.root, self.metric) == (other.root, other.metric)
            && self.distance == other.distance
            && self.parent == other.parent
            && self.first_hop == other.first_hop
            && self.delay_us == other.delay_us
    }
}
