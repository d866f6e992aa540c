//! Two questions that are easy because each asks for one thing only. How soon can a packet reach a node, however lossy
//! the path is? And what share can get through, however slow the path is, over links that can be in time at all?
//! Together the answers show which links a good path can use.
//!
//! ```text
//!   s ── share a ──▶ v ── link ──▶ w ── share b ──▶ t      a · (1−p+r) · b  ≥  any path by the link
//! ```

use super::Ground;
use crate::delivery::Steps;
use crate::metric::LinkCost;
use crate::topology::{Edge, NodeIndex, Topology};
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// The direction in which paths are followed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the node to all others.
    Away,
    /// From all others to the node.
    Towards,
}

impl Direction {
    fn edges(self, topology: &Topology, node: NodeIndex) -> &[Edge] {
        match self {
            Direction::Away => topology.links_from(node),
            Direction::Towards => topology.links_to(node),
        }
    }
}

/// Returns the least delay between `root` and each node, in microseconds.
pub(super) fn least_delays(
    topology: &Topology,
    root: NodeIndex,
    direction: Direction,
) -> Vec<Option<u64>> {
    let mut least = vec![None; topology.node_count()];
    let mut heap = BinaryHeap::from([Reverse((0u64, root))]);
    while let Some(Reverse((delay, node))) = heap.pop() {
        if least[node.place()].is_some() {
            continue;
        }
        least[node.place()] = Some(delay);
        for edge in direction.edges(topology, node) {
            if least[edge.peer.place()].is_none() {
                let next = delay + u64::from(edge.link.latency_us);
                heap.push(Reverse((next, edge.peer)));
            }
        }
    }
    least
}

/// The largest shares that can get through.
pub(super) struct Shares {
    from_src: Vec<f64>,
    to_dst: Vec<f64>,
    src: NodeIndex,
}

impl Shares {
    pub(super) fn new(topology: &Topology, ground: &Ground) -> Shares {
        Shares {
            from_src: largest_shares(topology, ground, ground.src, Direction::Away),
            to_dst: largest_shares(topology, ground, ground.dst, Direction::Towards),
            src: ground.src,
        }
    }

    /// Returns an upper bound of what any path delivers.
    pub(super) fn most(&self) -> f64 {
        self.to_dst[self.src.place()]
    }

    /// Returns an upper bound of what any path over this link delivers.
    pub(super) fn through(&self, from: NodeIndex, to: NodeIndex, steps: &Steps) -> f64 {
        self.from_src[from.place()] * steps.delivered() * self.to_dst[to.place()]
    }
}

/// Returns the largest product of the links' shares on any path between `root` and each node; 0 if there is no path.
fn largest_shares(
    topology: &Topology,
    ground: &Ground,
    root: NodeIndex,
    direction: Direction,
) -> Vec<f64> {
    let mut shares = vec![0.0; topology.node_count()];
    let mut settled = vec![false; topology.node_count()];
    shares[root.place()] = 1.0f64;
    // Floats that are not negative sort like their bits.
    let mut heap = BinaryHeap::from([(1.0f64.to_bits(), root)]);
    while let Some((_, node)) = heap.pop() {
        if core::mem::replace(&mut settled[node.place()], true) {
            continue;
        }
        for edge in direction.edges(topology, node) {
            let (from, to) = match direction {
                Direction::Away => (node, edge.peer),
                Direction::Towards => (edge.peer, node),
            };
            let Some(steps) = ground.usable(topology, from, to, edge.link) else {
                continue;
            };
            let share = shares[node.place()] * steps.delivered();
            if share > shares[edge.peer.place()] {
                shares[edge.peer.place()] = share;
                heap.push((share.to_bits(), edge.peer));
            }
        }
    }
    shares
}

impl Ground {
    /// Returns the delivery of a link, as far as it can be in time; `None` if it never can.
    pub(super) fn usable(
        &self,
        topology: &Topology,
        from: NodeIndex,
        to: NodeIndex,
        link: LinkCost,
    ) -> Option<Steps> {
        let (before, after) = (self.from_src[from.place()]?, self.to_dst[to.place()]?);
        let spare = self.deadline.checked_sub(before + after)?;
        if u64::from(link.latency_us) > spare {
            return None;
        }
        Some(Steps::within(
            link,
            self.recovery,
            topology.parameters(),
            spare,
        ))
    }
}
