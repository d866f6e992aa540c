//! The least latency between one node and all others.

use crate::topology::{Edge, NodeIndex, Topology};
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// The least latency between one node and all others, over paths that avoid a third node.
pub(super) struct Least(Vec<Option<u64>>);

impl Least {
    /// Computes the latencies from each node to `dst`.
    pub(super) fn to(topology: &Topology, dst: NodeIndex, avoided: NodeIndex) -> Least {
        Least::run(topology, dst, avoided, Topology::links_to)
    }

    /// Computes the latencies from `src` to each node.
    pub(super) fn from(topology: &Topology, src: NodeIndex, avoided: NodeIndex) -> Least {
        Least::run(topology, src, avoided, Topology::links_from)
    }

    fn run(
        topology: &Topology,
        start: NodeIndex,
        avoided: NodeIndex,
        onwards: fn(&Topology, NodeIndex) -> &[Edge],
    ) -> Least {
        let mut least = vec![None; topology.node_count()];
        least[start.place()] = Some(0u64);
        let mut heap = BinaryHeap::from([Reverse((0u64, start))]);
        while let Some(Reverse((so_far, node))) = heap.pop() {
            if least[node.place()] != Some(so_far) {
                continue;
            }
            for edge in onwards(topology, node) {
                let next = so_far.saturating_add(u64::from(edge.link.latency_us));
                let best = &mut least[edge.peer.place()];
                if edge.peer != avoided
                    && !edge.link.is_silent()
                    && best.is_none_or(|best| next < best)
                {
                    *best = Some(next);
                    heap.push(Reverse((next, edge.peer)));
                }
            }
        }
        Least(least)
    }

    /// Returns whether a packet over a link of an end and the rest of the path is in time.
    pub(super) fn is_within(&self, edge: &Edge, deadline_us: u64) -> bool {
        let rest = self.0.get(edge.peer.place()).copied().flatten();
        rest.is_some_and(|rest| rest.saturating_add(u64::from(edge.link.latency_us)) <= deadline_us)
    }
}
