//! The widest paths of few links: a variant of Bellman and Ford's algorithm, round by round.
//! [Liu04 §IV-B]

use super::Width;
use crate::metric::Metric;
use crate::paths::{Path, price};
use crate::topology::{NodeIndex, Topology};

/// The widest paths from one node with at most so many links.
#[derive(Clone, Debug)]
pub struct HopLimited {
    root: NodeIndex,
    /// For each number of links from 0: width and node before, by place. The last round is the
    /// first that changed nothing, or the limit.
    rounds: Vec<Vec<(Width, NodeIndex)>>,
}

/// The widest paths from `root` of at most `hops` links. Each round looks at every link; there are
/// at most as many rounds as nodes, since no widest path needs more links.
pub fn widest_within(topology: &Topology, root: NodeIndex, hops: usize) -> HopLimited {
    let mut first = vec![(Width::NONE, root); topology.node_count()];
    first[root.place()].0 = Width::UNLIMITED;
    let mut rounds = vec![first];
    for _ in 0..hops.min(topology.node_count()) {
        let before = &rounds[rounds.len() - 1];
        let mut round = before.clone();
        let mut changed = false;
        for node in topology.nodes() {
            let width = before[node.place()].0;
            if width == Width::NONE {
                continue;
            }
            for edge in topology.links_from(node) {
                let wide = width.min(edge.width());
                let best = &mut round[edge.peer.place()];
                // Choice: of equally wide ones the neighbour with the lowest address, as in trees.
                // Only within this round: what an earlier one has found has fewer links.
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
    HopLimited { root, rounds }
}

impl HopLimited {
    /// The width of the widest path to `node`; [`Width::NONE`] if none is short enough.
    pub fn width(&self, node: NodeIndex) -> Width {
        self.rounds[self.rounds.len() - 1][node.place()].0
    }

    /// The path to `node`, priced by `metric`; `None` if there is none that is short enough. Of
    /// equally wide ones it has the fewest links.
    pub fn path(&self, topology: &Topology, node: NodeIndex, metric: Metric) -> Option<Path> {
        let width = self.width(node);
        if width == Width::NONE {
            return None;
        }
        let mut nodes = vec![node];
        let mut round = self.rounds.len() - 1;
        let mut at = node;
        while at != self.root {
            // The round in which the node got this width: its parent is of the round before.
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
