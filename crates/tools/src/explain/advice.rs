//! `sinew plan --voice`: what a call between two nodes misses today, and which further node would help it most.
//!
//! ```text
//!   candidates:  a node of the network ┐
//!                a city on the way     │   topology with its     ┌ the path that calls would take,
//!                a node half way       ├─▶ links added       ────┤ if it leads over one of them,
//!                no node: a direct link┘                         └ and what it would miss
//!                or `--paths best`
//! ```
//!
//! A candidate's links do not exist, so their numbers are estimates. Their delay comes from the map or from the
//! existing links, and they lose as much per millisecond as the present path. Routing decides as it does in the nodes:
//! a node that no call would use is not a candidate, unless calls would use it with `--paths best`. By default, routing
//! considers the losses of a path as well as the losses that remain after recovery. Each link is protected up to its
//! target, so where repair reaches the target, a further node often gains nothing.

mod prospects;
mod text;

use super::missed::{Calls, Missed};
use super::protected::HELPS;
use super::{Asked, ExplainError, Named, PathNumbers, View, millis, percent, rounded};
use base::{Duration, NodeAddr};
use graph::explain::{Answer, Class, Route};
use graph::metric::Repair;
use graph::{LinkCost, Topology};
use prospects::{Planned, Prospect, stretch};
use serde::Serialize;

/// Most candidates that are reported.
pub const CANDIDATES_MAX: usize = 5;

/// What a call misses, and what would help.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// The source of the packets.
    pub from: Named,
    /// The destination of the packets.
    pub to: Named,
    /// The deadline: packets that arrive later do not count.
    pub deadline_ms: f64,
    /// The path that calls take today.
    pub today: PathNumbers,
    /// Further nodes, the one that helps most first.
    pub candidates: Vec<Candidate>,
    /// How the numbers of links that do not exist were estimated.
    pub estimated: String,
}

/// A further node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// `node`: a node of the network; `city`; `half-way`; or no further node: a direct `link`, or other `paths` over
    /// existing links.
    pub kind: &'static str,
    /// The candidate's name.
    pub name: String,
    /// What calls would miss with the candidate.
    pub missed_pct: f64,
    /// The delay of their path with the candidate.
    pub latency_ms: f64,
    /// Repair packets and copies per hundred packets, on the link of the path that has most.
    pub repair_pct: f64,
    /// Their path with the candidate.
    pub path: Vec<String>,
    /// How this path is chosen: by default as for every call, or `best`.
    pub class: String,
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
    /// The origin of the delay: `map`, `links` (not more than over existing links) or `half`.
    pub estimated_by: &'static str,
}

/// Reports what a call between two nodes misses, and which further node would help.
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
        .prospects()
        .into_iter()
        .filter_map(|prospect| adviser.judge(&prospect))
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

struct Adviser<'a> {
    view: &'a View,
    asked: Asked,
    ends: (NodeAddr, NodeAddr),
    today: &'a Route,
    missed: Missed,
    stretch: f64,
}

impl Adviser<'_> {
    /// Returns the candidate, if calls would use it and miss less: with their default choice of paths, or with `--paths
    /// best`.
    fn judge(&self, prospect: &Prospect) -> Option<Candidate> {
        let mut topology = self.view.topology().clone();
        topology.add_node(prospect.node);
        for planned in &prospect.links {
            let cost = self.cost(planned);
            topology.set_link(planned.node, prospect.node, Some(cost));
            topology.set_link(prospect.node, planned.node, Some(cost));
        }
        let routes = [self.asked.class, Class::Best].map(|class| {
            let asked = Asked {
                class,
                ..self.asked
            };
            let answer = asked.answer(self.view, &topology, self.ends).ok()?;
            let route = answer.chosen.into_iter().next()?;
            let missed = self.calls(&topology).over(&route);
            let helps = missed.share < self.missed.share * HELPS && prospect.is_on(&route);
            helps.then(|| self.candidate(prospect, class, &route, &missed))
        });
        // If both miss as much, the default choice wins, because it needs no option.
        let found = routes.into_iter().flatten();
        found.min_by(|a, b| a.missed_pct.total_cmp(&b.missed_pct))
    }

    fn calls<'t>(&'t self, topology: &'t Topology) -> Calls<'t> {
        Calls {
            topology,
            protections: self.view.protections(),
            deadline_us: self.asked.deadline_us(),
            aim: self.asked.aim,
        }
    }

    fn candidate(
        &self,
        prospect: &Prospect,
        class: Class,
        route: &Route,
        missed: &Missed,
    ) -> Candidate {
        let name = |node: NodeAddr| match node == prospect.node {
            true if prospect.kind == "half-way" => "?".to_owned(),
            true if prospect.kind == "city" => prospect.name.clone(),
            _ => self.view.name(node),
        };
        let links = prospect.links.iter().map(|planned| NewLink {
            from: name(planned.node),
            to: name(prospect.node),
            latency_ms: rounded(planned.latency_us.round() / 1e3),
            loss_pct: percent(self.cost(planned).loss_share()),
            estimated_by: planned.by,
        });
        let repairs = missed.legs.iter().map(|left| left.repair);
        Candidate {
            kind: prospect.kind,
            name: prospect.name.clone(),
            missed_pct: percent(missed.share),
            latency_ms: rounded(route.latency_us as f64 / 1e3),
            repair_pct: percent(repairs.fold(0.0, f64::max)),
            path: route.nodes().map(name).collect(),
            class: class.to_string(),
            links: links.collect(),
        }
    }

    /// Estimates the cost of a new link: it loses as much per millisecond as the present path, and has the same
    /// protection as the other links.
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

    /// Describes how the numbers of new links were estimated.
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
