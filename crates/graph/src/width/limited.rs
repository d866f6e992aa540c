//! The widest paths of few links: a variant of Bellman and Ford's algorithm, round by round.
//! [Liu04 §IV-B]

use super::Width;
use crate::metric::Metric;
use crate::paths::{Path, price};
use crate::topology::{NodeIndex, Topology};

/// The width and the previous node, by index, with at most a given number of links.
pub(super) type Round = Vec<(Width, NodeIndex)>;

/// The widest paths from one node with at most a given number of links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HopLimited {
    root: NodeIndex,
    /// One round for each number of links from 0. The last round is the last one that changed something, or the limit.
    rounds: Vec<Round>,
}

/// Returns the widest paths from `root` of at most `hops` links. Each round looks at every link; there are at most as
/// many rounds as nodes, since no widest path needs more links. [`super::Dense`] does the same for many roots of a
/// dense network in less time.
pub fn widest_within(topology: &Topology, root: NodeIndex, hops: usize) -> HopLimited {
    // W[v,k] = 0, W[s,k] = ∞ [Liu04 §IV-B]
    let mut rounds = vec![HopLimited::first_round(topology.node_count(), root)];
    for _ in 0..hops.min(topology.node_count()) {
        let before = &rounds[rounds.len() - 1];
        // W[u,k] = W[u,k-1]
        let mut round = before.clone();
        let mut changed = false;
        for node in topology.nodes() {
            let width = before[node.place()].0;
            if width == Width::NONE {
                continue;
            }
            for edge in topology.links_from(node) {
                // if min(W[u,k-1], B(u,v)) > W[v,k] then W[v,k] = min(W[u,k-1], B(u,v))
                let wide = width.min(edge.width());
                let best = &mut round[edge.peer.place()];
                // Choice: of equally wide ones, the neighbor with the lowest address, as in trees. This applies only
                // within this round: a path from an earlier round has fewer links.
                let tie = wide == best.0
                    && wide > before[edge.peer.place()].0
                    && topology.addr(node) < topology.addr(best.1);
                if wide > best.0 || tie {
                    *best = (wide, node);
                    changed = true;
                }
            }
        }
        if !changed {
            break;
        }
        rounds.push(round);
    }
    HopLimited::of(root, rounds)
}

impl HopLimited {
    pub(super) fn first_round(nodes: usize, root: NodeIndex) -> Round {
        let mut first = vec![(Width::NONE, root); nodes];
        first[root.place()].0 = Width::UNLIMITED;
        first
    }

    pub(super) fn of(root: NodeIndex, rounds: Vec<Round>) -> HopLimited {
        HopLimited { root, rounds }
    }

    /// Returns the width of the widest path to `node`; [`Width::NONE`] if none is short enough.
    pub fn width(&self, node: NodeIndex) -> Width {
        self.width_within(node, usize::MAX)
    }

    /// Returns the same with at most `hops` links. `hops` beyond the limit of the computation count as that limit.
    pub fn width_within(&self, node: NodeIndex, hops: usize) -> Width {
        self.rounds[hops.min(self.rounds.len() - 1)][node.place()].0
    }

    /// Returns the fewest links with which the widest paths to all nodes are reached, within the limit: "the smallest
    /// possible number of relay hops to achieve the highest throughput for all destinations" [Liu04 §IV-B].
    pub fn enough_hops(&self) -> usize {
        self.rounds.len() - 1
    }

    /// Returns the path to `node`, priced by `metric`; `None` if none is short enough. Of equally wide paths it has the
    /// fewest links.
    pub fn path(&self, topology: &Topology, node: NodeIndex, metric: Metric) -> Option<Path> {
        self.path_within(topology, node, metric, usize::MAX)
    }

    /// Returns the same with at most `hops` links. `hops` beyond the limit of the computation count as that limit.
    pub fn path_within(
        &self,
        topology: &Topology,
        node: NodeIndex,
        metric: Metric,
        hops: usize,
    ) -> Option<Path> {
        if self.width_within(node, hops) == Width::NONE {
            return None;
        }
        let mut nodes = vec![node];
        let mut round = hops.min(self.rounds.len() - 1);
        let mut at = node;
        while at != self.root {
            // This finds the round in which the node got this width: its parent is of the round before.
            while round > 0
                && self.rounds[round - 1][at.place()].0 == self.rounds[round][at.place()].0
            {
                round -= 1;
            }
            at = self.rounds[round][at.place()].1;
            round = round.checked_sub(1)?;
            nodes.push(at);
        }
        nodes.reverse();
        Some(price(topology, metric, &nodes))
    }
}
