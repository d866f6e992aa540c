//! The bound U of the best-route search: what could be delivered in the time that is left, if the
//! way could be chosen anew at every node. The [module above](super) says why it is a bound.
//!
//! U_v is kept by *slack*: the time that is left beyond the least delay from v to the destination.
//! In slack, a link v→w takes its reduced delay T' = T + least(w) − least(v), which is 0 on
//! shortest paths. Slack is cut into cells; entry k of node v bounds U_v for every slack up to k
//! cells. Reduced delays are rounded down to cells: more slack is left than in truth, and U grows
//! with slack, so what is computed is never too small. On shortest paths nothing is rounded, and
//! the cells cover only the slack that there is.
//!
//! ```text
//!   entry k of v  =  max over v→w of  (1−p) · entry (k − ⌊T'/cell⌋) of w
//!                                     +  r  · entry (k − ⌊(T'+2T+Δ)/cell⌋) of w
//! ```
//!
//! Entries are computed by rising k, and for one k from the destination outwards: a link that
//! takes less than a cell leads to a node that is nearer to the destination, unless it is shorter
//! than a cell; for those the round is repeated until nothing changes.

use super::Ground;
use crate::delivery::{Recovery, Steps};
use crate::topology::{NodeIndex, Topology};
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Cells of slack. At a deadline of 100 ms a cell is at most 49 µs, so a path of ten links gains
/// less than half a millisecond by rounding.
const CELLS: u64 = 2_048;

/// Which way delays are summed up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the node to all others.
    Away,
    /// From all others to the node.
    Towards,
}

/// The least delay between `root` and each node, in microseconds.
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
        let edges = match direction {
            Direction::Away => topology.links_from(node),
            Direction::Towards => topology.links_to(node),
        };
        for edge in edges
            .iter()
            .filter(|edge| least[edge.peer.place()].is_none())
        {
            heap.push(Reverse((
                delay + u64::from(edge.link.latency_us),
                edge.peer,
            )));
        }
    }
    least
}

/// U, for the nodes by which a packet can come and be in time.
pub(super) struct Bound {
    /// Microseconds of slack per cell.
    cell: u64,
    /// Entries by node; none for nodes that no packet in time comes by.
    entries: Vec<Vec<f64>>,
    /// Links looked at, for the account of work.
    pub(super) work: u64,
}

/// A link as U sees it.
struct Arc {
    to: usize,
    direct_cells: usize,
    recovered_cells: usize,
    direct: f64,
    recovered: f64,
}

impl Bound {
    /// U on this ground. If that takes more than `most_work` it is 1 everywhere, which bounds
    /// everything.
    pub(super) fn new(
        topology: &Topology,
        ground: &Ground,
        recovery: Recovery,
        most_work: u64,
    ) -> Bound {
        let from_src = least_delays(topology, ground.src, Direction::Away);
        let slack = |node: NodeIndex| ground.latest(node)?.checked_sub(from_src[node.place()]?);
        let widest = slack(ground.src).unwrap_or(0);
        let cell = widest.div_ceil(CELLS).max(1);
        let mut bound = Bound {
            cell,
            entries: vec![Vec::new(); topology.node_count()],
            work: 0,
        };
        let mut order: Vec<NodeIndex> = topology.nodes().filter(|n| slack(*n).is_some()).collect();
        order.sort_by_key(|node| (ground.to_dst[node.place()], *node));
        for &node in &order {
            let cells = slack(node).unwrap_or(0).div_ceil(cell) as usize;
            let at_first = f64::from(u8::from(node == ground.dst));
            bound.entries[node.place()] = vec![at_first; cells + 1];
        }
        let arcs = order
            .iter()
            .map(|node| bound.arcs(topology, ground, recovery, *node));
        let arcs: Vec<Vec<Arc>> = arcs.collect();
        if !bound.fill(ground.dst, &order, &arcs, most_work) {
            bound
                .entries
                .iter_mut()
                .for_each(|entries| entries.fill(1.0));
        }
        bound
    }

    /// The largest share that can be delivered from `node` with `slack` microseconds to spare.
    pub(super) fn at(&self, node: NodeIndex, slack: u64) -> f64 {
        let entries = &self.entries[node.place()];
        // Slack beyond the last entry does not occur on the way from the source.
        let k = (slack.div_ceil(self.cell) as usize).min(entries.len().saturating_sub(1));
        entries.get(k).copied().unwrap_or(0.0)
    }

    /// Whether a packet that comes by `node` can be in time.
    pub(super) fn is_of_use(&self, node: NodeIndex) -> bool {
        !self.entries[node.place()].is_empty()
    }

    fn arcs(
        &self,
        topology: &Topology,
        ground: &Ground,
        recovery: Recovery,
        node: NodeIndex,
    ) -> Vec<Arc> {
        let least = |node: NodeIndex| ground.to_dst[node.place()].unwrap_or(0);
        let of_use = topology
            .links_from(node)
            .iter()
            .filter(|edge| self.is_of_use(edge.peer));
        let arc = of_use.map(|edge| {
            let steps = Steps::of(edge.link, recovery, topology.parameters());
            // Not negative: no way is shorter than the least delay.
            let cells = |us: u64| ((us + least(edge.peer) - least(node)) / self.cell) as usize;
            Arc {
                to: edge.peer.place(),
                direct_cells: cells(steps.direct_us),
                recovered_cells: cells(steps.recovered_us),
                direct: steps.direct,
                recovered: steps.recovered,
            }
        });
        arc.collect()
    }

    /// False if there was too much to do.
    fn fill(
        &mut self,
        dst: NodeIndex,
        order: &[NodeIndex],
        arcs: &[Vec<Arc>],
        most_work: u64,
    ) -> bool {
        let most = order
            .iter()
            .map(|node| self.entries[node.place()].len())
            .max()
            .unwrap_or(0);
        let rounds = self.rounds(order, arcs);
        for k in 0..most {
            for _ in 0..rounds {
                if self.work > most_work {
                    return false;
                }
                let mut changed = false;
                for (node, arcs) in order.iter().zip(arcs) {
                    if *node == dst || k >= self.entries[node.place()].len() {
                        continue;
                    }
                    let best = self.best(k, arcs);
                    self.work += arcs.len() as u64;
                    let entry = &mut self.entries[node.place()][k];
                    changed |= best > *entry;
                    *entry = best.max(*entry);
                }
                if !changed {
                    break;
                }
            }
        }
        true
    }

    /// Rounds through the nodes that settle the entries of one k: one, unless a link of less than a
    /// cell leads to a node later in the order. A path without loops has fewer links than there are
    /// nodes, so that many rounds always do.
    fn rounds(&self, order: &[NodeIndex], arcs: &[Vec<Arc>]) -> usize {
        let mut rank = vec![0; self.entries.len()];
        order
            .iter()
            .enumerate()
            .for_each(|(i, node)| rank[node.place()] = i);
        let backwards = order.iter().zip(arcs).any(|(node, arcs)| {
            let mut short = arcs.iter().filter(|arc| arc.direct_cells == 0);
            short.any(|arc| rank[arc.to] > rank[node.place()])
        });
        if backwards { order.len() } else { 1 }
    }

    fn best(&self, k: usize, arcs: &[Arc]) -> f64 {
        let entry = |to: usize, cells: usize| {
            let entries = &self.entries[to];
            let k = k.checked_sub(cells)?.min(entries.len() - 1);
            Some(entries[k])
        };
        arcs.iter().fold(0.0, |best: f64, arc| {
            let direct = entry(arc.to, arc.direct_cells).unwrap_or(0.0);
            let recovered = entry(arc.to, arc.recovered_cells).unwrap_or(0.0);
            best.max(arc.direct * direct + arc.recovered * recovered)
        })
    }
}
