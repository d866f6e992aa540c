//! The best route by trying every simple path, as the paper did. [Amir06 §IV-B]
//!
//! The search is depth first, with one safe cut: it does not extend a partial path that delivers no more than the best
//! path known, counting what can still be in time. It shares nothing with the search [above](super) but the
//! distributions, so each checks the other. Its time grows exponentially with the nodes; the paper stopped at 16.

use super::{Ground, Question, ROUNDING, Route};
use crate::delivery::{Distribution, Steps};
use crate::paths::NoPath;
use crate::topology::{NodeIndex, Topology};

/// The maximum number of nodes for which all paths are tried: twice the paper's, and still only seconds on a sparse
/// network.
pub const MOST_NODES: usize = 32;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// There is no path at all.
    #[error("{0}")]
    NoPath(NoPath),
    /// Too many nodes to try all paths.
    #[error("{0} nodes are too many to try all paths, the limit is 32: use the best route")]
    TooLarge(usize),
}

/// Returns the best of all paths. Its two bounds are equal.
pub fn best_of_all(topology: &Topology, question: &Question) -> Result<Route, NoAnswer> {
    if topology.node_count() > MOST_NODES {
        return Err(NoAnswer::TooLarge(topology.node_count()));
    }
    let ground = Ground::new(topology, question).map_err(NoAnswer::NoPath)?;
    let mut all = All {
        topology,
        question,
        path: vec![ground.src],
        best: Vec::new(),
        // The value is below what the worst path delivers, so that a path is found even if all packets are late.
        delivery: -1.0,
        work: 0,
        ground,
    };
    all.extend(&Distribution::start());
    Ok(Route {
        nodes: all.best,
        delivery: all.delivery,
        upper: all.delivery,
        work: all.work,
    })
}

struct All<'a> {
    topology: &'a Topology,
    question: &'a Question,
    ground: Ground,
    path: Vec<NodeIndex>,
    best: Vec<NodeIndex>,
    delivery: f64,
    work: u64,
}

impl All<'_> {
    /// Tries all paths that begin with `self.path`, whose distribution is given.
    fn extend(&mut self, distribution: &Distribution) {
        let topology = self.topology;
        let Some(&node) = self.path.last() else {
            return;
        };
        for edge in topology.links_from(node) {
            if self.path.contains(&edge.peer) || self.ground.to_dst[edge.peer.place()].is_none() {
                continue;
            }
            // If nothing is in time yet, a path on which all packets are late still counts.
            let until = self.ground.latest(edge.peer).unwrap_or(0);
            let steps = Steps::of(edge.link, self.question.recovery, topology.parameters());
            let next = distribution.through(&steps, until);
            self.work += next.atoms().len() as u64 + 1;
            let delivered = next.delivered();
            if delivered <= self.delivery + ROUNDING && self.delivery >= 0.0 {
                continue;
            }
            self.path.push(edge.peer);
            if edge.peer == self.ground.dst {
                self.delivery = delivered;
                self.best.clone_from(&self.path);
            } else {
                self.extend(&next);
            }
            self.path.pop();
        }
    }
}
