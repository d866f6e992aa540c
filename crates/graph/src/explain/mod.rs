//! Why packets take their path, and which path they would take if links were different. This is what `why` and `whatif`
//! show.
//!
//! ```text
//!   Topology ─┬─────────────────▶ answer(Question) ─▶ Answer: chosen, runners-up, all numbers
//!             └─ edit::apply ─┬─▶ answer(Question) ─▶ Answer after
//!                             └─▶ pairs::changed   ─▶ every pair whose path changes
//! ```
//!
//! An answer is a function of the topology and the question alone, and the chosen path is the one that packets of the
//! class take: by table for a metric, and by the source's stamp for the other classes. So a running node and a scenario
//! file with the same links give the same answer.
//!
//! An answer contains every path with all its numbers, not only with those that decide: each link's latency and loss,
//! its cost by every metric, and the share of a packet flow that arrives by the deadline ([`crate::delivery`]), with
//! and without recovery.

pub mod edit;
pub mod pairs;
mod rank;

use crate::best::{self, Effort};
use crate::delivery::{Distribution, Recovery};
use crate::disjoint::disjoint;
use crate::dissemination::{self, Journey, Trouble, Watch};
use crate::metric::{Cost, LinkCost, Metric};
use crate::paths::{self, NoPath, Path};
use crate::topology::{NodeIndex, Topology};
use crate::width::{Width, shortest_widest};
use base::{NodeAddr, Time};
use core::fmt;
use core::str::FromStr;
use std::collections::BTreeSet;

/// The maximum number of runners-up in an answer. Each costs a shortest-path tree for every node of the path before it.
pub const RUNNERS_UP_MAX: usize = 8;
/// The maximum number of disjoint paths in an answer.
pub const DISJOINT_MAX: usize = 8;
/// The metric of disjoint paths and of the shortest of the widest paths: the one that nodes use for stamps.
pub const PATH_METRIC: Metric = Metric::ExpectedLatency;
/// The recovery that links are assumed to use: their reported protection, as nodes assume it, too.
pub const RECOVERY: Recovery = Recovery::InForce;

/// How a class chooses its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// By the least cost, by table.
    Metric(Metric),
    /// The widest path; of equally wide ones the path of the least expected latency; stamped.
    Width,
    /// The path that delivers the most within the deadline; stamped.
    Best,
    /// This number of paths without a common node, of the least total expected latency; stamped.
    Disjoint(usize),
    /// One path while there is no trouble, and more links around an end where there is trouble; stamped.
    /// ([`crate::dissemination`])
    Targeted,
}

/// The ends of the path, and the packets that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The node that packets come from.
    pub src: NodeAddr,
    /// The node that packets go to.
    pub dst: NodeAddr,
    /// How the path is chosen.
    pub class: Class,
    /// The deadline in microseconds; what arrives later does not count.
    pub deadline_us: u32,
    /// How many paths to list besides the chosen one, at most [`RUNNERS_UP_MAX`].
    pub runners_up: usize,
}

/// A path with all its numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The path's links in order.
    pub legs: Vec<Leg>,
    /// The sums of the links' costs, in the order of [`Metric::ALL`].
    pub costs: [Cost; 4],
    /// The width of the narrowest link.
    pub width: Width,
    /// The sum of the links' latencies.
    pub latency_us: u64,
    /// The share of packets that arrives within the deadline if nothing is recovered.
    pub unrecovered: f64,
    /// The same share with the protection of each link; with one request and one retransmission if the protection is
    /// not reported.
    pub recovered: f64,
}

/// One link of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// The node where the link begins.
    pub from: NodeAddr,
    /// The node where the link ends.
    pub to: NodeAddr,
    /// The known properties of the link.
    pub link: LinkCost,
    /// The costs of the link, in the order of [`Metric::ALL`].
    pub costs: [Cost; 4],
    /// The rate of one TCP connection over the link.
    pub width: Width,
}

/// The explanation of the path that packets take.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The question that this answers.
    pub question: Question,
    /// The path that packets take; for disjoint paths, all of them.
    pub chosen: Vec<Route>,
    /// The next best paths by the deciding measure, best first.
    pub runners_up: Vec<Route>,
    /// No path delivers more than this within the deadline. Only set for [`Class::Best`].
    pub upper: Option<f64>,
    /// Only set for [`Class::Targeted`].
    pub targeted: Option<Targeted>,
}

/// The graphs of [`Class::Targeted`], for a source that has seen no trouble before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Targeted {
    /// Where there is trouble at present: the graph for this trouble is chosen.
    pub trouble: Trouble,
    /// The number of links of the graphs for trouble in the middle, around the source, around the destination, and
    /// around both.
    pub links: [usize; 4],
}

/// Returns the path of the class, the cost of each of its links, and the next best paths.
pub fn answer(topology: &Topology, question: &Question) -> Result<Answer, NoPath> {
    let Question { src, dst, .. } = *question;
    let (mut upper, mut targeted) = (None, None);
    let chosen: Vec<Path> = match question.class {
        Class::Metric(metric) => paths::shortest(topology, src, dst, metric, 1)?,
        Class::Width => vec![shortest_widest(topology, src, dst, PATH_METRIC)?],
        Class::Disjoint(k) => disjoint(topology, src, dst, PATH_METRIC, k.clamp(1, DISJOINT_MAX))?,
        Class::Best => {
            let (path, most) = best(topology, question)?;
            upper = Some(most);
            vec![path]
        }
        Class::Targeted => {
            let (paths, told) = self::targeted(topology, question)?;
            targeted = Some(told);
            paths
        }
    };
    let told = |paths: &[Path]| -> Vec<Route> {
        let routes = paths.iter();
        routes
            .map(|path| Route::of(topology, path, question.deadline_us))
            .collect()
    };
    let next = rank::runners_up(topology, question, &chosen)?;
    Ok(Answer {
        question: *question,
        chosen: told(&chosen),
        runners_up: told(&next),
        upper,
        targeted,
    })
}

/// Returns the paths of the graph for the present trouble, as a node's source stamps them, and the sizes of the other
/// graphs. If nothing meets the deadline, packets are routed by table.
fn targeted(topology: &Topology, question: &Question) -> Result<(Vec<Path>, Targeted), NoPath> {
    let Question {
        src,
        dst,
        deadline_us,
        ..
    } = *question;
    let by_table = paths::shortest(topology, src, dst, PATH_METRIC, 1)?;
    let journey = Journey {
        src,
        dst,
        deadline_us: u64::from(deadline_us),
    };
    let (trouble, _) = Watch::default().look(Time::ZERO, topology, &journey);
    let graph = |trouble| dissemination::plan(topology, &journey, trouble).paths;
    let calm = Trouble::default();
    let links = [
        Trouble {
            middle: true,
            ..calm
        },
        Trouble {
            source: true,
            ..calm
        },
        Trouble {
            destination: true,
            ..calm
        },
        Trouble {
            source: true,
            destination: true,
            ..calm
        },
    ]
    .map(|trouble| {
        let paths = graph(trouble);
        let links = paths.iter().flat_map(|path| path.windows(2));
        links.collect::<BTreeSet<_>>().len()
    });
    let priced = |path: Vec<NodeAddr>| {
        let nodes: Vec<NodeIndex> = path
            .iter()
            .filter_map(|addr| topology.index(*addr))
            .collect();
        paths::price(topology, PATH_METRIC, &nodes)
    };
    let chosen: Vec<Path> = graph(trouble).into_iter().map(priced).collect();
    let chosen = if chosen.is_empty() { by_table } else { chosen };
    Ok((chosen, Targeted { trouble, links }))
}

/// Returns the best path as a node's source computes it, and the upper bound of all paths.
fn best(topology: &Topology, question: &Question) -> Result<(Path, f64), NoPath> {
    let Question {
        src,
        dst,
        deadline_us,
        ..
    } = *question;
    let asked = best::Question {
        src,
        dst,
        deadline_us,
        recovery: RECOVERY,
    };
    let route = best::best_route(topology, &asked, &Effort::STAMP)?;
    if route.nodes.is_empty() {
        return Err(NoPath::Unreachable(src, dst));
    }
    Ok((
        paths::price(topology, PATH_METRIC, &route.nodes),
        route.upper,
    ))
}

impl Route {
    fn of(topology: &Topology, path: &Path, deadline_us: u32) -> Route {
        let legs: Vec<Leg> = path.hops.iter().map(|hop| Leg::of(topology, hop)).collect();
        let nodes: Vec<NodeIndex> = path
            .nodes()
            .filter_map(|addr| topology.index(addr))
            .collect();
        let in_time = |recovery| {
            let delays = Distribution::of_path(topology, &nodes, recovery, deadline_us);
            // Shares are sums of floating point, so they are limited to 1.
            delays.map_or(0.0, |delays| delays.delivered().min(1.0))
        };
        let zero = [Cost(0); 4];
        Route {
            costs: legs.iter().fold(zero, |sum, leg| {
                core::array::from_fn(|i| sum[i] + leg.costs[i])
            }),
            width: path.width(),
            latency_us: legs.iter().map(|leg| u64::from(leg.link.latency_us)).sum(),
            unrecovered: in_time(Recovery::None),
            recovered: in_time(RECOVERY),
            legs,
        }
    }

    /// Returns the nodes of the path, source and destination included.
    pub fn nodes(&self) -> impl Iterator<Item = NodeAddr> {
        let first = self.legs.first().map(|leg| leg.from);
        first.into_iter().chain(self.legs.iter().map(|leg| leg.to))
    }

    /// Returns the cost of the path by a metric.
    pub fn cost(&self, metric: Metric) -> Cost {
        self.costs[metric.index()]
    }
}

impl Leg {
    fn of(topology: &Topology, hop: &paths::Hop) -> Leg {
        let costs = Metric::ALL.map(|m| crate::metric::cost(m, hop.link, topology.parameters()));
        Leg {
            from: hop.from,
            to: hop.to,
            link: hop.link,
            costs,
            width: hop.width,
        }
    }
}

impl Class {
    /// The names of classes and their meaning; `disjoint` may be followed by a number, as in `disjoint-3`.
    pub const NAMES: [&'static str; 8] = [
        "expected-latency",
        "latency",
        "loss",
        "hops",
        "width",
        "best",
        "disjoint",
        "targeted",
    ];
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Class::Metric(metric) => metric.fmt(f),
            Class::Width => f.write_str("width"),
            Class::Best => f.write_str("best"),
            Class::Disjoint(2) => f.write_str("disjoint"),
            Class::Disjoint(k) => write!(f, "disjoint-{k}"),
            Class::Targeted => f.write_str("targeted"),
        }
    }
}

/// The text is not the name of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownClass;

impl fmt::Display for UnknownClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Class::NAMES.join(", ");
        write!(
            f,
            "no such class: use {names}, or disjoint-2 to disjoint-{DISJOINT_MAX}"
        )
    }
}

impl core::error::Error for UnknownClass {}

impl FromStr for Class {
    type Err = UnknownClass;
    fn from_str(text: &str) -> Result<Class, UnknownClass> {
        match text {
            "width" => Ok(Class::Width),
            "best" => Ok(Class::Best),
            "disjoint" => Ok(Class::Disjoint(2)),
            "targeted" => Ok(Class::Targeted),
            _ => match text.strip_prefix("disjoint-").map(str::parse::<usize>) {
                Some(Ok(k)) if (2..=DISJOINT_MAX).contains(&k) => Ok(Class::Disjoint(k)),
                Some(_) => Err(UnknownClass),
                None => text.parse().map(Class::Metric).map_err(|_| UnknownClass),
            },
        }
    }
}

#[cfg(test)]
mod tests;
