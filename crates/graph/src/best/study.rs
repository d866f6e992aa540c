//! The routing study: the paths that different ways of routing choose between two nodes, and the share that they
//! deliver in time. [Amir06 §IV-B, Fig. 12, 13]
//!
//! | way of routing | chooses |
//! |---|---|
//! | a metric | the path of the least cost: hops, latency, loss, expected latency |
//! | greedy | the [greedy optimiser's](super::greedy) path |
//! | best | the [best route](super::best_route), with bounds |
//! | exhaustive | the best of [all paths](super::exhaustive), up to 32 nodes |

use super::exhaustive::{self, NoAnswer};
use super::{Effort, Question, Route, best_route, greedy};
use crate::metric::Metric;
use crate::paths::NoPath;
use crate::spf::Tree;
use crate::topology::{NodeIndex, Topology};

/// A way of routing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Routing {
    /// Shortest path by a metric.
    Metric(Metric),
    /// The greedy optimiser.
    Greedy,
    /// The best route, with some effort.
    Best(Effort),
    /// The best of all paths.
    Exhaustive,
}

impl Routing {
    /// The ways that [Amir06 Fig. 13] compares, and the best route, which the paper could not compute.
    pub const COMPARED: [Routing; 6] = [
        Routing::Metric(Metric::Hops),
        Routing::Metric(Metric::Latency),
        Routing::Metric(Metric::Loss),
        Routing::Metric(Metric::ExpectedLatency),
        Routing::Greedy,
        Routing::Best(Effort::EXACT),
    ];

    /// Returns the name of this way of routing.
    pub const fn as_str(self) -> &'static str {
        match self {
            Routing::Metric(metric) => metric.as_str(),
            Routing::Greedy => "greedy",
            Routing::Best(_) => "best",
            Routing::Exhaustive => "exhaustive",
        }
    }

    /// Returns the path that this way of routing chooses, and what it delivers in time. The upper bound covers this
    /// path alone, except for the best route.
    ///
    /// The greedy optimiser may find no path although one exists; it then delivers nothing.
    pub fn route(self, topology: &Topology, question: &Question) -> Result<Route, NoAnswer> {
        match self {
            Routing::Metric(metric) => {
                let (src, dst) = question.ends(topology).map_err(NoAnswer::NoPath)?;
                let path = Tree::new(topology, src, metric).path(dst);
                if path.is_empty() {
                    let none = NoPath::Unreachable(question.src, question.dst);
                    return Err(NoAnswer::NoPath(none));
                }
                Ok(evaluated(topology, question, path))
            }
            Routing::Greedy => {
                question.ends(topology).map_err(NoAnswer::NoPath)?;
                let path = greedy::path(topology, question).unwrap_or_default();
                Ok(evaluated(topology, question, path))
            }
            Routing::Best(effort) => {
                best_route(topology, question, &effort).map_err(NoAnswer::NoPath)
            }
            Routing::Exhaustive => exhaustive::best_of_all(topology, question),
        }
    }
}

fn evaluated(topology: &Topology, question: &Question, nodes: Vec<NodeIndex>) -> Route {
    let known = question.delivery(topology, &nodes);
    let delivery = known.filter(|_| !nodes.is_empty()).unwrap_or(0.0);
    Route {
        nodes,
        delivery,
        upper: delivery,
        work: 0,
    }
}
