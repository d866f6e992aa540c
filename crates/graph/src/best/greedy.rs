//! The greedy optimiser: Dijkstra's algorithm with the delivery ratio in place of a distance.
//! [Amir06 §IV-B]
//!
//! Each step settles the node whose partial path delivers the largest share of packets there within the deadline. The
//! node's distribution is then fixed, and extended by the links of the node. So a partial path that delivers much but
//! slowly wins over one that would have left time for the rest of the path: "wrong routing decisions taken early in the
//! incremental algorithm".
//!
//! ```text
//!   settle the node of the largest delivery ──▶ extend its distribution by each link ──▶ repeat
//! ```

use super::Question;
use crate::delivery::{Distribution, Steps};
use crate::paths::NoPath;
use crate::topology::{NodeIndex, Topology};
use core::cmp::Reverse;

/// Returns the path that the greedy optimiser chooses. The destination also counts as unreachable if no packet arrives
/// in time.
pub fn path(topology: &Topology, question: &Question) -> Result<Vec<NodeIndex>, NoPath> {
    let (src, dst) = question.ends(topology)?;
    let deadline = question.deadline();
    let mut at_node: Vec<Option<Partial>> = topology.nodes().map(|_| None).collect();
    at_node[src.place()] = Some(Partial {
        parent: src,
        latency_us: 0,
        distribution: Distribution::start(),
        delivered: 1.0,
        settled: false,
    });
    while let Some(node) = next(topology, &at_node) {
        if node == dst {
            return Ok(trace(&at_node, src, dst));
        }
        let Some(here) = at_node[node.place()].as_mut() else {
            break;
        };
        here.settled = true;
        let latency_us = here.latency_us;
        // A settled node does not need its distribution any more, and it may be large.
        let distribution = core::mem::replace(&mut here.distribution, Distribution::start());
        for edge in topology.links_from(node) {
            let steps = Steps::of(edge.link, question.recovery, topology.parameters());
            let distribution = distribution.through(&steps, deadline);
            let candidate = Partial {
                parent: node,
                latency_us: latency_us + steps.direct_us,
                delivered: distribution.delivered(),
                distribution,
                settled: false,
            };
            let known = &mut at_node[edge.peer.place()];
            let better = known
                .as_ref()
                .is_none_or(|known| !known.settled && candidate.rank() > known.rank());
            if better && candidate.delivered > 0.0 {
                *known = Some(candidate);
            }
        }
    }
    Err(NoPath::Unreachable(question.src, question.dst))
}

struct Partial {
    parent: NodeIndex,
    latency_us: u64,
    distribution: Distribution,
    delivered: f64,
    settled: bool,
}

impl Partial {
    /// Returns the rank; larger is better. Choice: the paper is silent on ties, so of equal deliveries the shorter
    /// delay wins. Deliveries are compared in whole billionths, so that rounding decides nothing.
    fn rank(&self) -> (u64, Reverse<u64>) {
        (
            (self.delivered / super::ROUNDING) as u64,
            Reverse(self.latency_us),
        )
    }
}

/// Returns the node to settle next; of equal nodes, the one with the lowest address.
fn next(topology: &Topology, at_node: &[Option<Partial>]) -> Option<NodeIndex> {
    let open = topology.nodes().filter_map(|node| {
        let partial = at_node[node.place()]
            .as_ref()
            .filter(|partial| !partial.settled)?;
        Some((partial.rank(), Reverse(topology.addr(node)), node))
    });
    open.max().map(|(_, _, node)| node)
}

fn trace(at_node: &[Option<Partial>], src: NodeIndex, dst: NodeIndex) -> Vec<NodeIndex> {
    let before = |node: &NodeIndex| {
        let partial = at_node[node.place()].as_ref().filter(|_| *node != src);
        partial.map(|partial| partial.parent)
    };
    let mut path: Vec<NodeIndex> = core::iter::successors(Some(dst), before).collect();
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::Recovery;
    use crate::metric::{LinkCost, Parameters};
    use base::NodeAddr;

    /// Builds the kind of network of [Amir06 Fig. 11]: there is a short lossy path and a long clean path to D.
    fn network(last_us: u32) -> (Topology, Question) {
        let links = [
            (1, 2, 10_000, 0.05),
            (2, 4, 10_000, 0.0),
            (1, 3, 35_000, 0.0),
            (3, 4, 35_000, 0.0),
            (4, 5, last_us, 0.0),
        ];
        let links = links
            .map(|(from, to, us, loss)| (NodeAddr(from), NodeAddr(to), LinkCost::new(us, loss)));
        let question = Question {
            src: NodeAddr(1),
            dst: NodeAddr(5),
            deadline_us: 100_000,
            recovery: Recovery::Paper,
        };
        (Topology::from_links(Parameters::default(), links), question)
    }

    fn choice(last_us: u32) -> Option<Vec<u32>> {
        let (topology, question) = network(last_us);
        let path = path(&topology, &question).ok()?;
        Some(path.into_iter().map(|node| topology.addr(node).0).collect())
    }

    #[test]
    fn it_is_right_while_there_is_time_and_fails_when_there_is_not() {
        assert_eq!(choice(20_000), Some(vec![1, 3, 4, 5]));
        // 70 ms have passed when the last link, which takes 40 ms, begins.
        assert_eq!(choice(40_000), None);
    }

    #[test]
    fn without_a_way_there_is_none() {
        let (topology, question) = network(20_000);
        let to = |dst| {
            let question = Question { dst, ..question };
            path(&topology, &question).unwrap_err()
        };
        assert_eq!(to(NodeAddr(1)), NoPath::Same(NodeAddr(1)));
        assert_eq!(to(NodeAddr(9)), NoPath::Unknown(NodeAddr(9)));
    }
}
