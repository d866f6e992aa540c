//! The baseline: Dijkstra's algorithm as in textbooks. It computes only distances: no parents, no first hops, no
//! tie-breaking.

use graph::spf::Tree;
use graph::{Metric, Topology};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A graph as lists of neighbours with costs.
pub(super) struct Graph(Vec<Vec<(usize, u64)>>);

impl Graph {
    pub(super) fn of(topology: &Topology, metric: Metric) -> Graph {
        let links = |node| {
            let edges = topology.links_from(node).iter();
            edges.map(|e| (e.peer.place(), e.cost(metric).0)).collect()
        };
        Graph(topology.nodes().map(links).collect())
    }

    /// Returns every node's distance from the root; `u64::MAX` if it cannot be reached.
    pub(super) fn distances(&self, root: usize) -> Vec<u64> {
        let mut distances = vec![u64::MAX; self.0.len()];
        distances[root] = 0;
        let mut heap = BinaryHeap::from([Reverse((0, root))]);
        while let Some(Reverse((distance, node))) = heap.pop() {
            if distance > distances[node] {
                continue;
            }
            for &(peer, cost) in &self.0[node] {
                if distance + cost < distances[peer] {
                    distances[peer] = distance + cost;
                    heap.push(Reverse((distance + cost, peer)));
                }
            }
        }
        distances
    }
}

/// Returns whether the tree has these distances.
pub(super) fn agree(distances: &[u64], topology: &Topology, tree: &Tree) -> bool {
    topology.nodes().all(|node| {
        let known = Some(distances[node.place()]).filter(|d| *d != u64::MAX);
        tree.distance(node).map(|cost| cost.0) == known
    })
}
