//! How to move bulk data from one node to another: directly, through relays in a row, or through relays with parallel
//! connections. The plan also says how fast each way would be, and how certain that is. [Liu04 §III-IV]
//!
//! ```text
//!   Topology ─┬─ direct      one connection
//!             ├─ pipelined   relays, one connection from each to the next     ─▶ Plan: the fastest,
//!             └─ striped     relays and stripes, so many connections             of equals the least
//! ```
//!
//! The planner looks for relays in one of two views:
//!
//! - [`View::Overlay`]: over the links of the overlay, which may avoid bad parts of the Internet [Liu04 §IV]. A
//!   connection runs only over a link. The path is the widest one with at most the allowed number of relays, or a
//!   shorter path that is almost as wide (the *margin*).
//! - [`View::Path`]: along the path of least latency, which is assumed to be the path that packets between its nodes
//!   take anyway [Liu04 §III]. A connection may run over several of its links in a row, for which delays and losses are
//!   added. The placement is the one with the fewest relays that reaches the bound.
//!
//! [`crate::width::model`] predicts the rate of a connection, so the rate is as certain as the knowledge about the
//! links: see [`Confidence`] and [`Interval`]. The rate of one connection does not determine the rate of many: they
//! share the capacity of the link, which transfers measure ([`crate::width::Known`]).
//!
//! The planner does not use nodes that refuse to relay [Liu04 §IV-D]: see [`Topology::relaying`]. Of ways that are
//! nearly as fast, it takes the one whose busiest relay is the least busy.

mod answer;

pub use answer::{Choice, Confidence, Interval, Plan, Segment, Shortest, Way};

use crate::metric::Metric;
use crate::paths::{NoPath, ends};
use crate::pipeline::{LINKS_MAX, Rate, Rates, pipeline};
use crate::spf::Tree;
pub use crate::stripes::Connections;
use crate::stripes::{Striped, striped, stripes_of};
use crate::topology::{NodeIndex, Topology};
use crate::width::{Known, Length, PhysicalHops, Width, model, shortest_of_width, widest_within};
use base::NodeAddr;

/// The maximum number of relays in a row. Choice: each costs buffers and a hand-over; six already give a path of equal
/// links 7·√7 = 18 times its rate.
pub const RELAYS_MAX: usize = 16;
/// The number of connections if the question does not say otherwise. Choice: on each segment, as many as a copy tries
/// there while more connections help.
pub const CONNECTIONS: Connections = Connections::OnEach(8);
/// The share by which a path may be narrower than the widest path in order to be shorter. Choice: less than the error
/// of loss estimates; a strict preference for width "doesn't make sense" [Liu04 §IV-C].
pub const MARGIN: f64 = 0.1;

/// Where the planner looks for relays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Over the overlay's links [Liu04 §IV].
    Overlay,
    /// Along the path of least latency [Liu04 §III].
    Path,
}

/// The question that a plan answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// The node that has the data.
    pub src: NodeAddr,
    /// The node that receives the data.
    pub dst: NodeAddr,
    /// Where to look for relays.
    pub view: View,
    /// How many connections are allowed.
    pub connections: Connections,
    /// The maximum number of relays in a row, up to [`RELAYS_MAX`].
    pub relays: usize,
    /// The share, 0 to 1, by which a path may be narrower than the widest path in order to be shorter.
    pub margin: f64,
    /// The measure of a path's length.
    pub length: Length,
}

impl Question {
    /// Creates the usual question about two nodes.
    pub fn new(src: NodeAddr, dst: NodeAddr) -> Question {
        Question {
            src,
            dst,
            view: View::Overlay,
            connections: CONNECTIONS,
            relays: RELAYS_MAX,
            margin: MARGIN,
            length: Length::Metric(Metric::Hops),
        }
    }
}

/// Plans a transfer. This is a pure function: equal topologies and questions give equal plans.
///
/// Choice: the paper removes a relay that has its maximum of transfers, and computes anew on the remaining nodes [Liu04
/// §IV-D]. That spreads load only once relays are full. Here the busiest relays are left out first, as long as the
/// result is narrower by no more than the margin, and no less certain.
pub fn plan(topology: &Topology, question: &Question) -> Result<Plan, NoPath> {
    let fastest = plan_below(topology, question, u8::MAX)?;
    let busy = |relay| {
        topology
            .index(relay)
            .map_or(0, |index| topology.busy(index))
    };
    let best = fastest.best();
    let busiest = best.relays().map(busy).max().unwrap_or(0);
    let required = best.rate.less_by(question.margin);
    for quarters in 1..=busiest {
        let spared = plan_below(topology, question, quarters)?;
        let way = spared.best();
        let is_sure = way.confidence <= best.confidence || way.interval.low >= required;
        if way.rate >= required && is_sure {
            return Ok(spared);
        }
    }
    Ok(fastest)
}

/// Returns the fastest way over relays of which fewer than `quarters` quarters are taken.
fn plan_below(topology: &Topology, question: &Question, quarters: u8) -> Result<Plan, NoPath> {
    let (from, to) = ends(topology, question.src, question.dst)?;
    let relays = question.relays.min(RELAYS_MAX);
    let least_latency = Tree::new(topology, from, Metric::Latency).path(to);
    if least_latency.is_empty() {
        return Err(NoPath::Unreachable(question.src, question.dst));
    }
    let direct = match topology.link(from, to) {
        Some(_) => segment(topology, &[from, to], 1),
        None => segment(topology, &least_latency, 1),
    };
    let direct = Way::of(vec![direct]);
    let (pipelined, shortest, striped) = match question.view {
        View::Overlay => {
            let topology = topology.relaying_below(from, quarters);
            over_links(&topology, question, (from, to), (relays, &direct))
        }
        View::Path => {
            let (pipelined, striped) = along_path(topology, question, least_latency, relays);
            (pipelined, None, striped)
        }
    };
    // If the ends have no link, the overlay cannot run a direct connection between them. So any way over relays whose
    // rate is known wins, however fast the direct connection might have been.
    let is_link = topology.link(from, to).is_some() || question.view == View::Path;
    let relayed = |way: &Option<Way>| !is_link && way.as_ref().is_some_and(Way::is_known);
    if relayed(&pipelined) {
        let pipelined = pipelined.expect("it was looked at");
        let more = striped.filter(|way| way.rate > pipelined.rate);
        let choice = match more {
            Some(_) => Choice::Striped,
            None => Choice::Pipelined,
        };
        return Ok(Plan {
            question: *question,
            direct,
            striped: more.unwrap_or_else(|| pipelined.clone()),
            pipelined,
            shortest,
            choice,
        });
    }
    // Choice: if no limit of a way is known, nothing shows that another way is faster.
    let is_open = |way: &Way| way.confidence == Confidence::AtLeast;
    let better =
        |way: Option<Way>, than: &Way| way.filter(|way| way.rate > than.rate && !is_open(than));
    let (pipelined, shortest) = match better(pipelined, &direct) {
        Some(pipelined) => (pipelined, shortest),
        None => (direct.clone(), None),
    };
    let striped = better(striped, &pipelined).unwrap_or_else(|| pipelined.clone());
    let choice = match (striped.rate > pipelined.rate, pipelined.rate > direct.rate) {
        (true, _) => Choice::Striped,
        (false, true) => Choice::Pipelined,
        (false, false) => Choice::Direct,
    };
    Ok(Plan {
        question: *question,
        direct,
        pipelined,
        shortest,
        striped,
        choice,
    })
}

/// Returns the rates of the given numbers of connections on each segment of a given way; `None` if a node has no link
/// to the next. If there are more segments than numbers, the last number is used for the rest.
pub fn along(topology: &Topology, nodes: &[NodeAddr], stripes: &[usize]) -> Option<Way> {
    let mut segments = Vec::new();
    for (at, pair) in nodes.windows(2).enumerate() {
        let (from, to) = (topology.index(pair[0])?, topology.index(pair[1])?);
        topology.link(from, to)?;
        let count = stripes.get(at).or(stripes.last()).copied().unwrap_or(1);
        segments.push(segment(topology, &[from, to], count));
    }
    (!segments.is_empty()).then(|| Way::of(segments))
}

/// Returns the numbers of connections on each segment of a given way that are expected to be the fastest, within the
/// allowed number; `None` if a node has no link to the next.
pub fn stripes_along(
    topology: &Topology,
    nodes: &[NodeAddr],
    connections: Connections,
) -> Option<Vec<usize>> {
    let single = along(topology, nodes, &[1])?;
    if nodes.len() > LINKS_MAX {
        // The way is longer than any path that is planned.
        return None;
    }
    let route = Route::of(
        topology,
        View::Overlay,
        indices(topology, nodes.iter().copied()),
    );
    let striped = stripes_of(&route.rates, connections);
    let several = along(topology, nodes, &striped.stripes)?;
    // If no loss is known, nothing shows that more connections would be faster.
    let is_better = |way: &Way| way.confidence != Confidence::AtLeast && way.is_better(&single);
    best_of(vec![several], std::slice::from_ref(&single))
        .filter(is_better)
        .map(|_| striped.stripes)
}

/// Returns the ways over the overlay's links. The first has single connections on the shortest path that is wide
/// enough, with the reason for that path. The second has the best stripes on any path that is the widest of its number
/// of links.
fn over_links(
    topology: &Topology,
    question: &Question,
    (from, to): (NodeIndex, NodeIndex),
    (relays, direct): (usize, &Way),
) -> (Option<Way>, Option<Shortest>, Option<Way>) {
    let limited = widest_within(topology, from, relays + 1);
    let route = |nodes: Vec<NodeIndex>| Route::of(topology, View::Overlay, nodes);
    let widest = limited.width(to);
    let required = widest.less_by(question.margin).max(Width(1));
    let short = shortest_of_width(
        topology,
        question.src,
        question.dst,
        question.length,
        required,
    );
    let short = short.ok().filter(|path| path.hops.len() <= relays + 1);
    let shortest = short.as_ref().map(|path| Shortest {
        widest,
        required,
        length: path.total,
    });
    let path = short.or_else(|| limited.path(topology, to, Metric::Hops));
    let pipelined = path.map(|path| {
        let route = route(indices(topology, path.nodes()));
        let singles = stripes_of(&route.rates, route.links());
        route.way(topology, &singles)
    });
    let mut several = Vec::new();
    let mut singles: Vec<Way> = [direct].into_iter().chain(&pipelined).cloned().collect();
    for hops in 1..=limited.enough_hops() {
        let Some(path) = limited.path_within(topology, to, Metric::Hops, hops) else {
            continue;
        };
        let route = route(indices(topology, path.nodes()));
        singles.push(route.way(topology, &stripes_of(&route.rates, route.links())));
        several.push(route.way(topology, &striped(&route.rates, question.connections)));
    }
    (pipelined, shortest, best_of(several, &singles))
}

/// Returns the best of the ways with several connections, compared with the ways of single connections.
///
/// Choice: a multiple of what one connection has reached is only a hope. It justifies more connections on the fastest
/// of the measured ways. Another way is preferred only if the lower bound of that way's rate is higher.
fn best_of(several: Vec<Way>, singles: &[Way]) -> Option<Way> {
    let best = |best: Way, next: Way| if next.is_better(&best) { next } else { best };
    let measured = several
        .iter()
        .chain(singles)
        .filter(|way| way.is_measured());
    let sure = measured.cloned().reduce(best);
    let holds = |way: &Way| {
        let is_sure = |sure: &Way| way.goes_as(sure) || way.interval.low > sure.rate;
        !way.is_scaled() || sure.as_ref().is_none_or(is_sure)
    };
    several.into_iter().filter(holds).reduce(best)
}

/// Returns the ways along one path, whose nodes may be relays.
fn along_path(
    topology: &Topology,
    question: &Question,
    nodes: Vec<NodeIndex>,
    relays: usize,
) -> (Option<Way>, Option<Way>) {
    if nodes.len() > LINKS_MAX {
        // The path is longer than any path of the Internet, so it is not considered.
        return (None, None);
    }
    let route = Route::of(topology, View::Path, nodes);
    // This is the fastest pipeline within the allowed number of relays; of equally fast ones, the one with the fewest
    // relays.
    let pipeline = pipeline(&route.rates, relays + 1);
    let singles = Striped {
        stripes: vec![1; pipeline.connections()],
        cuts: pipeline.cuts,
        rate: pipeline.rate,
    };
    let mut stripes = striped(&route.rates, question.connections);
    if stripes.cuts.len() > relays + 2 {
        // The stripes run between the relays of the smallest pipeline.
        let some = route
            .rates
            .between(&singles.cuts[1..singles.cuts.len() - 1]);
        let placed = stripes_of(&some, question.connections);
        stripes = Striped {
            cuts: singles.cuts.clone(),
            ..placed
        };
    }
    (
        Some(route.way(topology, &singles)),
        Some(route.way(topology, &stripes)),
    )
}

/// Nodes in a row, and the rates of connections between them.
struct Route {
    nodes: Vec<NodeIndex>,
    view: View,
    rates: Rates,
}

impl Route {
    /// Builds a route of at least two nodes, with a link from each to the next, and no more links than [`LINKS_MAX`].
    fn of(topology: &Topology, view: View, nodes: Vec<NodeIndex>) -> Route {
        let none = Rate {
            one: Width::NONE,
            most: Width::NONE,
        };
        let rates = Rates::new(nodes.len() - 1, |i, j| {
            let own = topology.link(nodes[i], nodes[j]).is_some();
            let relays =
                |at: usize| at == 0 || at == nodes.len() - 1 || !topology.is_shut(nodes[at]);
            if !relays(i) || !relays(j) {
                return none;
            }
            match (j - i, view, own) {
                (1, ..) | (_, View::Path, _) => rate(topology, &nodes[i..=j]),
                (_, View::Overlay, true) => rate(topology, &[nodes[i], nodes[j]]),
                (_, View::Overlay, false) => none,
            }
        });
        Route {
            nodes,
            view,
            rates: rates.expect("two nodes or more, and no more than the limit"),
        }
    }

    fn links(&self) -> usize {
        self.nodes.len() - 1
    }

    fn way(&self, topology: &Topology, placed: &Striped) -> Way {
        let cuts = placed.cuts.windows(2).zip(&placed.stripes);
        let segments = cuts.map(|(cut, &stripes)| {
            let nodes = &self.nodes[cut[0]..=cut[1]];
            match self.view {
                View::Path => segment(topology, nodes, stripes),
                // In the overlay view, a connection runs on the link between its ends.
                View::Overlay => segment(topology, &[nodes[0], nodes[nodes.len() - 1]], stripes),
            }
        });
        Way::of(segments.collect())
    }
}

/// Returns the segment of connections from the first of these nodes to the last.
fn segment(topology: &Topology, nodes: &[NodeIndex], stripes: usize) -> Segment {
    let links = links(topology, nodes);
    let rates = rate(topology, nodes);
    let rate = rates.of(stripes);
    let through: f64 = links.iter().map(|link| 1.0 - link.loss_share()).product();
    let confidence = confidence(topology, nodes, stripes);
    let addr = |at: usize| topology.addr(nodes[at]);
    let pairs = || nodes.windows(2).map(|pair| (pair[0], pair[1]));
    let hops = PhysicalHops::over(topology);
    let is_assumed = |(a, b): &(_, _)| topology.known(*a, *b).physical_hops.is_none();
    Segment {
        from: addr(0),
        to: addr(nodes.len() - 1),
        past: (1..nodes.len() - 1).map(addr).collect(),
        stripes,
        one: rates.one,
        rate,
        interval: interval(topology, nodes, (stripes, rate), confidence),
        confidence,
        rtt_us: links
            .iter()
            .map(|link| 2 * u64::from(link.latency_us))
            .sum(),
        loss: 1.0 - through,
        physical_hops: pairs()
            .map(|(a, b)| u32::from(hops.of(topology, a, b)))
            .sum(),
        assumed: pairs().filter(is_assumed).count(),
    }
}

/// Returns the rate of one connection over these nodes, and the maximum of all connections together.
fn rate(topology: &Topology, nodes: &[NodeIndex]) -> Rate {
    let pairs = nodes.windows(2);
    let most = pairs.map(|pair| topology.known(pair[0], pair[1]).most());
    let most = most.min().unwrap_or(Width::UNLIMITED);
    let one = match nodes {
        [from, to] => topology.link(*from, *to).map_or(Width::NONE, |e| e.width()),
        _ => topology.formula().of(links(topology, nodes)).min(most),
    };
    Rate { one, most }
}

fn confidence(topology: &Topology, nodes: &[NodeIndex], stripes: usize) -> Confidence {
    let (rates, known) = (rate(topology, nodes), known(topology, nodes));
    let rate = rates.of(stripes);
    let is_found = known.several() == Some(rates.most);
    let is_seen = known.together.is_some_and(|together| together >= rate);
    let is_modelled = model::is_known(links(topology, nodes)) && !is_by_rate(topology, nodes);
    if rate == rates.most && (is_found || known.one != Some(rate)) {
        match is_found {
            true => Confidence::Measured,
            false => Confidence::Capacity,
        }
    } else if known.one.is_some() && (stripes == 1 || is_seen) {
        Confidence::Measured
    } else if known.one.is_some() {
        Confidence::Scaled
    } else if !is_modelled {
        Confidence::AtLeast
    } else if nodes.len() > 2 {
        Confidence::Added
    } else {
        Confidence::Model
    }
}

/// Returns the range in which a rate may lie, besides the uncertainty of its measurement.
///
/// Choice: TCP reaches nine tenths of a capacity and sometimes less. The model is off by up to a half below the formula
/// with timeouts, and above that without; sums over links in a row are off by more.
fn interval(
    topology: &Topology,
    nodes: &[NodeIndex],
    (stripes, rate): (usize, Width),
    confidence: Confidence,
) -> Interval {
    const SPREAD_LEAST: f64 = 0.1;
    const BELOW_CAPACITY: f64 = 0.25;
    const MODEL: (f64, f64) = (0.5, 1.5);
    const ADDED: (f64, f64) = (0.33, 2.0);
    let (most, known) = (self::rate(topology, nodes).most, known(topology, nodes));
    let spread = f64::from(known.spread_pct) / 100.0;
    let spread = spread.max(SPREAD_LEAST);
    let modelled = |(below, above): (f64, f64)| Interval {
        low: rate.scaled(below),
        high: model::square_root(links(topology, nodes))
            .times(stripes)
            .scaled(above),
    };
    let bounds = match confidence {
        Confidence::Measured => {
            return Interval {
                low: rate.less_by(spread),
                high: rate.scaled(1.0 + spread),
            };
        }
        Confidence::Scaled => Interval {
            low: known
                .one
                .max(known.together)
                .unwrap_or(rate)
                .less_by(spread),
            high: rate.scaled(1.0 + spread),
        },
        Confidence::Capacity => Interval {
            low: rate.less_by(BELOW_CAPACITY),
            high: rate,
        },
        Confidence::Model => modelled(MODEL),
        Confidence::Added => modelled(ADDED),
        Confidence::AtLeast => Interval {
            high: most,
            ..Interval::OPEN
        },
    };
    bounds.about(rate, most)
}

/// Returns the knowledge about the link between the first of these nodes and the last. Nothing is known of several
/// links in a row.
fn known(topology: &Topology, nodes: &[NodeIndex]) -> Known {
    match nodes {
        [from, to] => topology.known(*from, *to),
        _ => Known::default(),
    }
}

/// Returns true if the sender on this link does not slow down for losses.
fn is_by_rate(topology: &Topology, nodes: &[NodeIndex]) -> bool {
    let next = nodes.first().zip(nodes.get(1));
    next.is_some_and(|(from, to)| topology.known(*from, *to).by_rate)
}

fn links(topology: &Topology, nodes: &[NodeIndex]) -> Vec<crate::metric::LinkCost> {
    let edges = nodes.windows(2);
    let edges = edges.filter_map(|pair| topology.link(pair[0], pair[1]));
    edges.map(|edge| edge.link).collect()
}

fn indices(topology: &Topology, nodes: impl Iterator<Item = NodeAddr>) -> Vec<NodeIndex> {
    nodes.filter_map(|addr| topology.index(addr)).collect()
}

#[cfg(test)]
mod tests;
