//! `sinew plan --voice`: what a call between two nodes misses today, and which further node would
//! help it most.
//!
//! ```text
//!   candidates:  a node of the network ┐
//!                a city on the way     │   topology with its     ┌ the path that calls would take,
//!                a node half way       ├─▶ links added       ────┤ if it leads over one of them,
//!                no node: a direct link┘                         └ and what it would miss
//! ```
//!
//! A candidate's links do not exist, so their numbers are estimates: the delay is that of the map,
//! or that of the links that there are, and they lose as much per millisecond as the present path.
//! Routing decides as it does in the nodes: a candidate over which no call would go is none. Each link
//! is protected up to the target of a link, so where repair does, a further node often gains nothing.

mod text;

use super::missed::{Calls, Missed};
use super::places::{self, is_same};
use super::{Asked, ExplainError, Named, PathNumbers, View, millis, percent, rounded};
use base::{Duration, NodeAddr};
use graph::explain::{Answer, Route};
use graph::generate::cities::{CITIES, Site};
use graph::metric::Repair;
use graph::{LinkCost, Metric, Topology, paths};
use serde::Serialize;

/// Candidates that are told.
pub const CANDIDATES_MAX: usize = 5;
/// Nodes and cities that are tried, the nearest to the way first: each takes two paths and their plans.
const TRIED_MAX: usize = 24;
/// A candidate helps if calls miss no more than this share of what they miss today. Choice: predictions
/// are no better than that.
const HELPS: f64 = 0.8;
/// A city is on the way if the way over it is longer by less than this factor.
const DETOUR_MAX: f64 = 1.5;

/// What a call misses, and what would help.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Where packets come from.
    pub from: Named,
    /// Where they go.
    pub to: Named,
    /// What arrives later does not count.
    pub deadline_ms: f64,
    /// The path that calls take today.
    pub today: PathNumbers,
    /// Further nodes, the one that helps most first.
    pub candidates: Vec<Candidate>,
    /// How the numbers of links that do not exist were found.
    pub estimated: String,
}

/// A further node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// `node`: one of the network; `city`; `half-way`; or `link`: none but a direct link.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// What calls would miss.
    pub missed_pct: f64,
    /// The delay of their path.
    pub latency_ms: f64,
    /// Repair packets and copies per hundred packets, on the link of the path that has most.
    pub repair_pct: f64,
    /// Their path.
    pub path: Vec<String>,
    /// The links that do not exist yet.
    pub links: Vec<NewLink>,
}

/// A link that does not exist yet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NewLink {
    /// One end.
    pub from: String,
    /// The other end.
    pub to: String,
    /// Its delay.
    pub latency_ms: f64,
    /// Its loss.
    pub loss_pct: f64,
    /// Where the delay is from: `map`, `links` (not more than over existing ones) or `half`.
    pub estimated_by: &'static str,
}

/// Says what a call misses between two nodes, and which further node would help.
///
/// # Errors
/// [`ExplainError`] when a node is not known, both are the same, there is no path, or the deadline is
/// out of its range.
pub fn advise(
    view: &View,
    src: &str,
    dst: &str,
    deadline: Duration,
) -> Result<Advice, ExplainError> {
    let ends = view.ends(src, dst)?;
    let asked = Asked {
        deadline,
        runners_up: 0,
        ..Asked::default()
    };
    let answer = asked.answer(view, view.topology(), ends)?;
    let today = chosen(&answer)?;
    let calls = asked.calls(view);
    let adviser = Adviser {
        view,
        asked,
        ends,
        today,
        missed: calls.over(today),
        stretch: stretch(view, ends),
    };
    let mut candidates: Vec<Candidate> = adviser
        .sites()
        .into_iter()
        .filter_map(|site| adviser.judge(&site))
        .collect();
    candidates.sort_by(|a, b| {
        let worse = a.missed_pct.total_cmp(&b.missed_pct);
        worse.then(a.latency_ms.total_cmp(&b.latency_ms))
    });
    candidates.truncate(CANDIDATES_MAX);
    Ok(Advice {
        from: view.named(ends.0),
        to: view.named(ends.1),
        deadline_ms: millis(deadline),
        today: PathNumbers::of(view, &calls, today),
        candidates,
        estimated: adviser.estimated(),
    })
}

fn chosen(answer: &Answer) -> Result<&Route, ExplainError> {
    let missing = || ExplainError::NoPath("there is no path".to_owned());
    answer.chosen.first().ok_or_else(missing)
}

/// By how much the link of the two is longer than the map tells, if it is: so are those of a city.
fn stretch(view: &View, (a, b): (NodeAddr, NodeAddr)) -> f64 {
    let places = place(view, a).zip(place(view, b));
    let link = link(view.topology(), a, b);
    match places.zip(link) {
        Some(((a, b), link)) if !is_same(&a, &b) => {
            (f64::from(link.latency_us) / places::latency_us(&a, &b)).max(1.0)
        }
        _ => 1.0,
    }
}

fn place(view: &View, node: NodeAddr) -> Option<Site> {
    places::place(&view.name(node))
}

fn link(topology: &Topology, from: NodeAddr, to: NodeAddr) -> Option<LinkCost> {
    let ends = topology.index(from).zip(topology.index(to));
    let edge = ends.and_then(|(from, to)| topology.link(from, to));
    edge.map(|edge| edge.link)
}

/// A further node, before it is judged.
struct Prospect {
    kind: &'static str,
    name: String,
    node: NodeAddr,
    links: Vec<Planned>,
}

impl Prospect {
    /// The delay of its new links together.
    fn latency_us(&self) -> f64 {
        self.links.iter().map(|link| link.latency_us).sum()
    }
}

/// A link that does not exist yet, from a node to the candidate.
#[derive(Clone, Copy)]
struct Planned {
    node: NodeAddr,
    latency_us: f64,
    by: &'static str,
}

struct Adviser<'a> {
    view: &'a View,
    asked: Asked,
    ends: (NodeAddr, NodeAddr),
    today: &'a Route,
    missed: Missed,
    stretch: f64,
}

impl Adviser<'_> {
    /// All that may help.
    fn sites(&self) -> Vec<Prospect> {
        let nearest = |mut sites: Vec<Prospect>| {
            sites.sort_by(|a, b| a.latency_us().total_cmp(&b.latency_us()));
            sites.truncate(TRIED_MAX);
            sites
        };
        let mut sites = nearest(self.nodes());
        sites.extend(nearest(self.cities()));
        sites.extend(self.half_way());
        sites.extend(self.direct());
        sites
    }

    /// A link between the two, if there is none.
    fn direct(&self) -> Option<Prospect> {
        let (src, dst) = self.ends;
        let lacks = link(self.view.topology(), src, dst).is_none();
        let planned = self.planned(src, dst).filter(|_| lacks)?;
        Some(Prospect {
            kind: "link",
            name: format!("{}-{}", self.view.name(src), self.view.name(dst)),
            node: dst,
            links: vec![planned],
        })
    }

    /// The nodes that are not on the path and lack a link to an end.
    fn nodes(&self) -> Vec<Prospect> {
        let topology = self.view.topology();
        let nodes = topology.nodes().map(|node| topology.addr(node));
        let others = nodes.filter(|node| self.today.nodes().all(|on_path| on_path != *node));
        let site = |node: NodeAddr| {
            let ends = [self.ends.0, self.ends.1].into_iter();
            let lacking = ends.filter(|end| link(topology, *end, node).is_none());
            let links: Option<Vec<Planned>> = lacking.map(|end| self.planned(end, node)).collect();
            links
                .filter(|links| !links.is_empty())
                .map(|links| Prospect {
                    kind: "node",
                    name: self.view.name(node),
                    node,
                    links,
                })
        };
        others.filter_map(site).collect()
    }

    /// The link of two nodes: by the map, or not longer than the existing ones; none if nothing tells.
    fn planned(&self, end: NodeAddr, node: NodeAddr) -> Option<Planned> {
        let places = place(self.view, end).zip(place(self.view, node));
        if let Some((a, b)) = places {
            return Some(Planned {
                node: end,
                latency_us: places::latency_us(&a, &b) * self.stretch,
                by: "map",
            });
        }
        let shortest = paths::shortest(self.view.topology(), end, node, Metric::Latency, 1).ok()?;
        let hops = shortest.first()?.hops.iter();
        Some(Planned {
            node: end,
            latency_us: hops.map(|hop| f64::from(hop.link.latency_us)).sum(),
            by: "links",
        })
    }

    /// The cities on the way in which no node stands.
    fn cities(&self) -> Vec<Prospect> {
        let (view, (src, dst)) = (self.view, self.ends);
        let Some((a, b)) = place(view, src).zip(place(view, dst)) else {
            return Vec::new();
        };
        let topology = view.topology();
        let nodes = topology.nodes().map(|node| topology.addr(node));
        let taken: Vec<Site> = nodes.filter_map(|node| place(view, node)).collect();
        let direct_us = places::latency_us(&a, &b);
        let free = CITIES
            .iter()
            .filter(|city| taken.iter().all(|site| !is_same(site, city)));
        let legs = |city: &Site| [&a, &b].map(|end| places::latency_us(end, city));
        let near = free.filter(|city| legs(city).iter().sum::<f64>() < direct_us * DETOUR_MAX);
        let site = |city: &Site| {
            let links = legs(city).into_iter().zip([src, dst]);
            Prospect {
                kind: "city",
                name: city.name.to_owned(),
                node: self.unused(),
                links: links
                    .map(|(latency_us, node)| Planned {
                        node,
                        latency_us: latency_us * self.stretch,
                        by: "map",
                    })
                    .collect(),
            }
        };
        near.map(site).collect()
    }

    /// A node half way on the link of the path that leaves most.
    fn half_way(&self) -> Option<Prospect> {
        let legs = self.today.legs.iter().zip(&self.missed.legs);
        let (worst, _) = legs.max_by(|(_, a), (_, b)| a.share.total_cmp(&b.share))?;
        let half = |node| Planned {
            node,
            latency_us: f64::from(worst.link.latency_us) / 2.0,
            by: "half",
        };
        let (from, to) = (self.view.name(worst.from), self.view.name(worst.to));
        Some(Prospect {
            kind: "half-way",
            name: format!("half way on {from}-{to}"),
            node: self.unused(),
            links: vec![half(worst.from), half(worst.to)],
        })
    }

    /// An address that no node has.
    fn unused(&self) -> NodeAddr {
        let topology = self.view.topology();
        let free = (1..=u32::MAX).rev().map(NodeAddr);
        let mut free = free.filter(|addr| topology.index(*addr).is_none());
        free.next().unwrap_or(NodeAddr(u32::MAX))
    }

    /// The candidate, if calls would take it and miss less.
    fn judge(&self, site: &Prospect) -> Option<Candidate> {
        let mut topology = self.view.topology().clone();
        topology.add_node(site.node);
        for planned in &site.links {
            let cost = self.cost(planned);
            topology.set_link(planned.node, site.node, Some(cost));
            topology.set_link(site.node, planned.node, Some(cost));
        }
        let answer = self.asked.answer(self.view, &topology, self.ends).ok()?;
        let route = answer.chosen.first()?;
        let missed = Calls {
            topology: &topology,
            protections: self.view.protections(),
            deadline_us: self.asked.deadline_us(),
        }
        .over(route);
        let is_new = |from, to| {
            let ends = |planned: &Planned| (planned.node, site.node);
            let mut links = site.links.iter().map(ends);
            links.any(|link| link == (from, to) || link == (to, from))
        };
        let is_used = route.legs.iter().any(|leg| is_new(leg.from, leg.to));
        let name = |node: NodeAddr| match node == site.node {
            true if site.kind == "half-way" => "?".to_owned(),
            true if site.kind == "city" => site.name.clone(),
            _ => self.view.name(node),
        };
        let repairs = missed.legs.iter().map(|left| left.repair);
        let repair = repairs.fold(0.0, f64::max);
        (is_used && missed.share <= self.missed.share * HELPS).then(|| Candidate {
            kind: site.kind,
            name: site.name.clone(),
            missed_pct: percent(missed.share),
            latency_ms: rounded(route.latency_us as f64 / 1e3),
            repair_pct: percent(repair),
            path: route.nodes().map(name).collect(),
            links: site
                .links
                .iter()
                .map(|planned| NewLink {
                    from: name(planned.node),
                    to: name(site.node),
                    latency_ms: rounded(planned.latency_us.round() / 1e3),
                    loss_pct: percent(self.cost(planned).loss_share()),
                    estimated_by: planned.by,
                })
                .collect(),
        })
    }

    /// What a new link costs: it loses as much per millisecond as the present path, and is protected as
    /// the others are.
    fn cost(&self, planned: &Planned) -> LinkCost {
        let legs = &self.today.legs;
        let arrives: f64 = legs.iter().map(|leg| 1.0 - leg.link.loss_share()).product();
        let part = planned.latency_us / (self.today.latency_us as f64).max(1.0);
        let loss = 1.0 - arrives.powf(part);
        let link = LinkCost::new(planned.latency_us.round() as u32, loss);
        let strikes = legs
            .iter()
            .filter_map(|leg| leg.link.repair)
            .map(|r| r.strikes);
        LinkCost {
            repair: strikes.max().map(|s| Repair::new(s, link.loss, link.loss)),
            ..link
        }
    }

    /// How the numbers of new links were found, in words.
    fn estimated(&self) -> String {
        let mut text = "links that do not exist are estimates: each loses as much per millisecond \
                        as the present path, and its delay is that of a cable between the cities, \
                        1.3 times the great circle at 200 km/ms"
            .to_owned();
        if self.stretch > 1.0 {
            text += &format!(
                ", {:.2} times longer as the link of the two is",
                self.stretch
            );
        }
        text + "; where names tell no city it is at most that over existing links. Losses are taken \
                to come in runs: after a lost packet 25 % of the next ones are lost"
    }
}
