//! How to move bulk data from one node to another: directly, through relays in a row, or through
//! relays with connections side by side; how fast each would be, and how sure that is. [Liu04 §III-IV]
//!
//! ```text
//!   Topology ─┬─ direct      one connection
//!             ├─ pipelined   relays, one connection from each to the next     ─▶ Plan: the fastest,
//!             └─ striped     relays and stripes, N connections in all            of equals the least
//! ```
//!
//! Relays are looked for in one of two views:
//!
//! - [`View::Overlay`]: over the links of the overlay, which may lead around bad parts of the Internet
//!   [Liu04 §IV]. A connection runs where there is a link. The path is the widest one with at most so
//!   many relays, or one that is shorter and almost as wide (the *margin*).
//! - [`View::Path`]: along the path of least latency, taken for the one that packets between its nodes
//!   take anyway [Liu04 §III]. A connection may run over several of its links in a row, for which
//!   delays and losses are added; the placement is that of fewest relays which reaches the bound.
//!
//! What a connection carries is predicted by [`crate::width::model`], so it is as sure as what is
//! known of the links: see [`Confidence`].

mod answer;

pub use answer::{Choice, Confidence, Plan, Segment, Shortest, Way};

use crate::metric::Metric;
use crate::paths::{NoPath, ends};
use crate::pipeline::{LINKS_MAX, Rate, Rates, pipeline};
use crate::spf::Tree;
use crate::stripes::{Striped, striped, stripes_of};
use crate::topology::{NodeIndex, Topology};
use crate::width::{Length, PhysicalHops, Width, model, shortest_of_width, widest_within};
use base::NodeAddr;

/// Relays in a row at most. Choice: each costs buffers and a hand-over; six already give a path of
/// equal links 7·√7 = 18 times its rate.
pub const RELAYS_MAX: usize = 16;
/// Connections in all, if nothing else is asked: twice as many as four segments have at least.
pub const CONNECTIONS: usize = 8;
/// A path may be narrower than the widest by this share to be shorter. Choice: less than estimates
/// of loss err by; a strict preference for width "doesn't make sense" [Liu04 §IV-C].
pub const MARGIN: f64 = 0.1;

/// Where relays are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Over the overlay's links [Liu04 §IV].
    Overlay,
    /// Along the path of least latency [Liu04 §III].
    Path,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// Where the data is.
    pub src: NodeAddr,
    /// Where it goes.
    pub dst: NodeAddr,
    /// Where relays are looked for.
    pub view: View,
    /// Connections in all, on all segments together.
    pub connections: usize,
    /// Relays in a row at most, up to [`RELAYS_MAX`].
    pub relays: usize,
    /// A path may be narrower than the widest by this share, 0 to 1, to be shorter.
    pub margin: f64,
    /// What makes a path long.
    pub length: Length,
}

impl Question {
    /// The usual question about two nodes.
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

/// Plans a transfer. A pure function: equal topologies and questions have equal plans.
pub fn plan(topology: &Topology, question: &Question) -> Result<Plan, NoPath> {
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
        View::Overlay => over_links(topology, question, (from, to), relays),
        View::Path => {
            let (pipelined, striped) = along_path(topology, question, least_latency, relays);
            (pipelined, None, striped)
        }
    };
    // Choice: where nothing limits a way by what is known, nothing tells that another is faster.
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

/// The ways over the overlay's links: single connections on the shortest path that is wide enough,
/// and why on that one; and the best stripes on any path that is the widest of its number of links.
fn over_links(
    topology: &Topology,
    question: &Question,
    (from, to): (NodeIndex, NodeIndex),
    relays: usize,
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
    let mut best: Option<Way> = None;
    for hops in 1..=limited.enough_hops() {
        let Some(path) = limited.path_within(topology, to, Metric::Hops, hops) else {
            continue;
        };
        let route = route(indices(topology, path.nodes()));
        let way = route.way(topology, &striped(&route.rates, question.connections));
        if best.as_ref().is_none_or(|best| way.is_better(best)) {
            best = Some(way);
        }
    }
    (pipelined, shortest, best)
}

/// The ways along one path, at whose nodes relays may stand.
fn along_path(
    topology: &Topology,
    question: &Question,
    nodes: Vec<NodeIndex>,
    relays: usize,
) -> (Option<Way>, Option<Way>) {
    if nodes.len() > LINKS_MAX {
        // Longer than any path of the Internet: not looked at.
        return (None, None);
    }
    let route = Route::of(topology, View::Path, nodes);
    // At most so many relays, and of them the fewest that reach as much.
    let pipeline = pipeline(&route.rates, relays + 1);
    let singles = Striped {
        stripes: vec![1; pipeline.connections()],
        cuts: pipeline.cuts,
        rate: pipeline.rate,
    };
    let mut stripes = striped(&route.rates, question.connections);
    if stripes.cuts.len() > relays + 2 {
        // Stripes where the fewest relays stand.
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

/// Nodes in a row, and what connections between them carry.
struct Route {
    nodes: Vec<NodeIndex>,
    view: View,
    rates: Rates,
}

impl Route {
    /// At least two nodes, with a link from each to the next, and no more links than [`LINKS_MAX`].
    fn of(topology: &Topology, view: View, nodes: Vec<NodeIndex>) -> Route {
        let none = Rate {
            one: Width::NONE,
            most: Width::NONE,
        };
        let rates = Rates::new(nodes.len() - 1, |i, j| {
            let own = topology.link(nodes[i], nodes[j]).is_some();
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
                // Over the overlay a connection runs on the link between its ends.
                View::Overlay => segment(topology, &[nodes[0], nodes[nodes.len() - 1]], stripes),
            }
        });
        Way::of(segments.collect())
    }
}

/// Connections from the first of these nodes to the last.
fn segment(topology: &Topology, nodes: &[NodeIndex], stripes: usize) -> Segment {
    let links = links(topology, nodes);
    let rates = rate(topology, nodes);
    let rate = rates.of(stripes);
    let through: f64 = links.iter().map(|link| 1.0 - link.loss_share()).product();
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
        confidence: confidence(topology, nodes, rate, rates),
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

/// What one connection over these nodes carries, and all.
fn rate(topology: &Topology, nodes: &[NodeIndex]) -> Rate {
    let pairs = nodes.windows(2);
    let capacities = pairs.filter_map(|pair| topology.known(pair[0], pair[1]).capacity);
    let most = capacities.min().unwrap_or(Width::UNLIMITED);
    let one = match nodes {
        [from, to] => topology.link(*from, *to).map_or(Width::NONE, |e| e.width()),
        _ => model::of_links(links(topology, nodes)).min(most),
    };
    Rate { one, most }
}

fn confidence(topology: &Topology, nodes: &[NodeIndex], rate: Width, rates: Rate) -> Confidence {
    let measured = match nodes {
        [from, to] => topology.known(*from, *to).measured.is_some(),
        _ => false,
    };
    if rate == rates.most && !(measured && rate == rates.one) {
        Confidence::Capacity
    } else if measured {
        Confidence::Measured
    } else if !model::is_known(links(topology, nodes)) {
        Confidence::AtLeast
    } else if nodes.len() > 2 {
        Confidence::Added
    } else {
        Confidence::Model
    }
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
