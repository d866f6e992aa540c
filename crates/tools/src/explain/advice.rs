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
//! existing links, they lose as much per millisecond as the present path, and their protection is announced as that of
//! every new link (`announced`). Routing decides as it does in the nodes:
//! a node that no call would use is not a candidate, unless calls would use it with `--paths best`. By default, routing
//! considers the losses of a path as well as the losses that remain after recovery. Each link is protected up to its
//! target, so where repair reaches the target, a further node often gains nothing. Then only a candidate counts that
//! keeps the target, is not slower, and needs less repair or lets calls miss less. The least repair comes first.

mod prospects;
mod text;

use super::announced::Announced;
use super::missed::{Calls, Missed};
use super::protected::HELPS;
use super::{Asked, ExplainError, Named, PathNumbers, View, millis, percent, rounded};
use base::{Duration, NodeAddr};
use graph::explain::{Answer, Class, Route};
use graph::{LinkCost, Topology};
use prospects::{Planned, Prospect, stretch};
use serde::Serialize;
use std::cmp::Ordering;

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
    /// Today's path reaches the target. Candidates then only reduce repair, or are not slower and miss less.
    pub is_reached: bool,
    /// Further nodes, the one that helps most first: calls miss the least with it, or, if the target is reached today,
    /// it needs the least repair.
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
    /// The links of the path that do not exist yet.
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
        is_reached: calls.reaches_target(today),
        stretch: stretch(view, ends),
    };
    let mut candidates: Vec<Candidate> = adviser
        .prospects()
        .into_iter()
        .filter_map(|prospect| adviser.judge(&prospect))
        .collect();
    candidates.sort_by(|a, b| adviser.compare(a, b));
    candidates.truncate(CANDIDATES_MAX);
    Ok(Advice {
        from: view.named(ends.0),
        to: view.named(ends.1),
        deadline_ms: millis(deadline),
        today: PathNumbers::of(view, &calls, today),
        is_reached: adviser.is_reached,
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
    is_reached: bool,
    stretch: f64,
}

impl Adviser<'_> {
    /// Returns the candidate, if calls would use it and it helps them: with their default choice of paths, or with
    /// `--paths best`.
    fn judge(&self, prospect: &Prospect) -> Option<Candidate> {
        let mut topology = self.view.topology().clone();
        topology.add_node(prospect.node);
        let announced = Announced::of_new(self.view);
        for planned in &prospect.links {
            let (a, b) = (planned.node, prospect.node);
            let cost = Some(self.cost(planned));
            topology.set_link(a, b, cost);
            topology.set_link(b, a, cost);
            if let Some(announced) = announced {
                announced.set(&mut topology, (a, b));
                announced.set(&mut topology, (b, a));
            }
        }
        let routes = [self.asked.class, Class::Best].map(|class| {
            let asked = Asked {
                class,
                ..self.asked
            };
            let answer = asked.answer(self.view, &topology, self.ends).ok()?;
            let route = answer.chosen.into_iter().next()?;
            let calls = self.calls(&topology);
            let missed = calls.over(&route);
            let helps = self.helps(&calls, &route, &missed) && prospect.is_on(&route);
            helps.then(|| self.candidate(prospect, class, &route, &missed))
        });
        // If both help as much, the default choice wins, because it needs no option.
        let found = routes.into_iter().flatten();
        found.min_by(|a, b| self.compare(a, b))
    }

    /// Returns true if a path is better for calls than today's.
    fn helps(&self, calls: &Calls<'_>, route: &Route, missed: &Missed) -> bool {
        let misses_less = missed.share < self.missed.share * HELPS;
        if !self.is_reached {
            return misses_less;
        }
        let (repair, today) = (missed.most_repair(), self.missed.most_repair());
        let is_better = repair < today * HELPS || (misses_less && repair <= today);
        is_better && route.latency_us <= self.today.latency_us && calls.reaches_target(route)
    }

    /// Compares two candidates: the better one is less. The repair counts first if today's path reaches the target,
    /// because the target is then all that calls want of their packets.
    fn compare(&self, a: &Candidate, b: &Candidate) -> Ordering {
        let missed = a.missed_pct.total_cmp(&b.missed_pct);
        let repair = a.repair_pct.total_cmp(&b.repair_pct);
        let first = match self.is_reached {
            true => repair.then(missed),
            false => missed.then(repair),
        };
        first.then(a.latency_ms.total_cmp(&b.latency_ms))
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
        let used = prospect.links.iter();
        let used = used.filter(|planned| prospect.uses(planned, route));
        let links = used.map(|planned| NewLink {
            from: name(planned.node),
            to: name(prospect.node),
            latency_ms: rounded(planned.latency_us.round() / 1e3),
            loss_pct: percent(self.cost(planned).loss_share()),
            estimated_by: planned.by,
        });
        Candidate {
            kind: prospect.kind,
            name: prospect.name.clone(),
            missed_pct: percent(missed.share),
            latency_ms: rounded(route.latency_us as f64 / 1e3),
            repair_pct: percent(missed.most_repair()),
            path: route.nodes().map(name).collect(),
            class: class.to_string(),
            links: links.collect(),
        }
    }

    /// Estimates the delay and the loss of a new link: it loses as much per millisecond as the present path.
    fn cost(&self, planned: &Planned) -> LinkCost {
        let legs = &self.today.legs;
        let arrives: f64 = legs.iter().map(|leg| 1.0 - leg.link.loss_share()).product();
        let part = planned.latency_us / (self.today.latency_us as f64).max(1.0);
        LinkCost::new(planned.latency_us.round() as u32, 1.0 - arrives.powf(part))
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

#[cfg(test)]
mod tests;
