//! Why packets go the way they go, and what would be if links were otherwise: what `why` and
//! `whatif` tell.
//!
//! ```text
//!   Topology ─┬─────────────────▶ answer(Question) ─▶ Answer: chosen, runners-up, all numbers
//!             └─ edit::apply ─┬─▶ answer(Question) ─▶ Answer after
//!                             └─▶ pairs::changed   ─▶ every pair whose path changes
//! ```
//!
//! An answer is a function of the topology and the question alone, and the chosen path is the one
//! that packets of the class take: the table's for a metric, the source's stamp for the others. So
//! a running node and a scenario file whose links are the same give the same answer.
//!
//! Every path is told with all its numbers, not only with those that decide: each link's latency
//! and loss, its cost by every metric, and what of a packet flow arrives by the deadline
//! ([`crate::delivery`]), recovered and not.

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

/// Runners-up that are told at most. Each costs a shortest-path tree per node of the one before.
pub const RUNNERS_UP_MAX: usize = 8;
/// Disjoint paths that are told at most.
pub const DISJOINT_MAX: usize = 8;
/// What disjoint paths and the shortest of the widest are measured by: what nodes stamp by.
pub const PATH_METRIC: Metric = Metric::ExpectedLatency;
/// What links are taken to do about losses: what protects them, as nodes reckon.
pub const RECOVERY: Recovery = Recovery::InForce;

/// How a class chooses its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The least cost, by table.
    Metric(Metric),
    /// The widest, and of those the one of the least expected latency; stamped.
    Width,
    /// The one that delivers the most within the deadline; stamped.
    Best,
    /// So many paths without a common node, of the least expected latency together; stamped.
    Disjoint(usize),
    /// One path while all is well, and more links around an end where there is trouble; stamped.
    /// ([`crate::dissemination`])
    Targeted,
}

/// From where to where, for which packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Where packets come from.
    pub src: NodeAddr,
    /// Where they go.
    pub dst: NodeAddr,
    /// How their path is chosen.
    pub class: Class,
    /// What arrives later does not count, in microseconds.
    pub deadline_us: u32,
    /// How many paths to tell besides the chosen one, at most [`RUNNERS_UP_MAX`].
    pub runners_up: usize,
}

/// A path with all its numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Its links in order.
    pub legs: Vec<Leg>,
    /// The sums of their costs, in the order of [`Metric::ALL`].
    pub costs: [Cost; 4],
    /// The width of the narrowest.
    pub width: Width,
    /// The sum of their latencies.
    pub latency_us: u64,
    /// The share of packets that arrives within the deadline if nothing is recovered.
    pub unrecovered: f64,
    /// The same with what protects each link; one request and one retransmission where that is not told.
    pub recovered: f64,
}

/// One link of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// Where it begins.
    pub from: NodeAddr,
    /// Where it ends.
    pub to: NodeAddr,
    /// What is known of it.
    pub link: LinkCost,
    /// What it costs, in the order of [`Metric::ALL`].
    pub costs: [Cost; 4],
    /// The rate of one TCP connection over it.
    pub width: Width,
}

/// Why packets go the way they go.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// What was asked.
    pub question: Question,
    /// The path that packets take; for disjoint ones all of them.
    pub chosen: Vec<Route>,
    /// The next best ones by what decides, best first.
    pub runners_up: Vec<Route>,
    /// No path delivers more than this within the deadline. Known for [`Class::Best`] alone.
    pub upper: Option<f64>,
    /// Known for [`Class::Targeted`] alone.
    pub targeted: Option<Targeted>,
}

/// The graphs of [`Class::Targeted`], for a source that has seen no trouble before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Targeted {
    /// Where there is trouble by now: the graph for it is chosen.
    pub trouble: Trouble,
    /// The links of the graph for trouble in the middle, around the source, around the destination, and around both.
    pub links: [usize; 4],
}

/// The path of the class, what each link of it costs, and the paths that came next.
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

/// The paths of the graph for the trouble that there is by now, as a node's source stamps them, and what the other graphs
/// come to. Where nothing is in time packets are routed by table.
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

/// The best path as a node's source computes it, and what none can exceed.
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
            // Shares are sums of floating point: never more than all.
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

    /// The nodes of the path, source and destination included.
    pub fn nodes(&self) -> impl Iterator<Item = NodeAddr> {
        let first = self.legs.first().map(|leg| leg.from);
        first.into_iter().chain(self.legs.iter().map(|leg| leg.to))
    }

    /// What the path costs by a metric.
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
    /// Names and what they mean; `disjoint` may be followed by a number, as in `disjoint-3`.
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

/// The text names no class.
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
