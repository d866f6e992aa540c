//! Why packets take the path that they take, which path they would take if links were different, how bulk data is best
//! moved, and what would help calls: `sinew why`, `sinew whatif` and `sinew plan`.
//!
//! ```text
//!   running node ── control socket ──┐
//!                                    ├─▶ NetworkSnapshot ─▶ View ─▶ why, what_if, plan, advise ─▶ text, JSON
//!   scenario file (the laboratory) ──┘            (graph::explain, graph::plan choose)
//! ```
//!
//! Both sources give the same kind of snapshot, and all code behind it is the same: equal links give equal answers. The
//! only difference is what is known about the timers. A node reports what holds back the announcements of its own links
//! at the moment; for all other nodes, only the rule of their profile is known.

mod advice;
mod announced;
mod case;
mod diverted;
mod edits;
mod held;
mod missed;
mod places;
mod plan;
mod protected;
mod protection;
mod text;
mod view;
mod whatif;

pub use advice::{Advice, CANDIDATES_MAX, Candidate, NewLink, advise};
pub use diverted::Diverted;
pub use edits::{EDIT_BYTES_MAX, EDITS_MAX};
pub use graph::explain::{Class, RUNNERS_UP_MAX};
pub use graph::plan::{CONNECTIONS, Connections, MARGIN, RELAYS_MAX};
pub use graph::stripes::CONNECTIONS_MAX;
pub use held::{Held, HeldBy};
pub use plan::{
    Along, BulkPlan, Length, PlanAsked, SegmentNumbers, Shortest, WayNumbers, along, plan,
    stripes_along,
};
pub use protected::{Help, LinkProtection, Step};
pub use protection::{BURST, Known};
pub use view::View;
pub use whatif::{LISTED_PAIRS, Pair, PairChange, Pairs, WhatIf, what_if};

use base::{Duration, NodeAddr};
use case::Left;
use graph::Metric;
use graph::explain::{self, Answer, Leg, PATH_METRIC, Question, Route};
use graph::paths::NoPath;
use missed::Calls;
use serde::Serialize;
use std::collections::BTreeSet;
use wire::Aim;

/// The longest deadline that a user may ask for.
pub const DEADLINE_MAX: Duration =
    Duration::from_micros(graph::delivery::LONGEST_DEADLINE_US as u64);

/// The options of a question, besides the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// How the path is chosen.
    pub class: Class,
    /// The deadline: packets that arrive later do not count.
    pub deadline: Duration,
    /// Number of paths to show besides the chosen one.
    pub runners_up: usize,
    /// What the sender wants of repair; by default, what the nodes do by themselves.
    pub aim: Aim,
}

impl Default for Asked {
    /// The values for a call: expected latency, 100 ms.
    fn default() -> Asked {
        Asked {
            class: Class::Metric(Metric::ExpectedLatency),
            deadline: Duration::from_millis(100),
            runners_up: 2,
            aim: Aim::default(),
        }
    }
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExplainError {
    /// The question is invalid; the command was misused.
    #[error("{0}")]
    Misused(String),
    /// No path exists.
    #[error("{0}")]
    NoPath(String),
    /// The snapshot is inconsistent. Perhaps it comes from a node of another version.
    #[error("the node's view of the network is not understood: {0}")]
    Snapshot(String),
}

/// A node as users see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Named {
    /// The node's name, or its address if its name is not known.
    pub name: String,
    /// The node's overlay address.
    pub address: String,
}

/// Why packets take the path that they take.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Why {
    /// The source of the packets.
    pub from: Named,
    /// The destination of the packets.
    pub to: Named,
    /// How their path is chosen.
    pub class: String,
    /// `table`: hop by hop; `stamped`: by the source.
    pub forwarding: &'static str,
    /// The key of the deciding number in [`PathNumbers`].
    pub decided_by: &'static str,
    /// The deadline: packets that arrive later do not count.
    pub deadline_ms: f64,
    /// The paths, and the reason for the choice.
    #[serde(flatten)]
    pub choice: Choice,
    /// How those links of the chosen path that lose packets are protected, for a call; empty for several paths.
    pub protection: Vec<LinkProtection>,
    /// What the protection is computed from, as far as it is assumed; empty if no link loses packets.
    pub assumed: String,
    /// What would help a call if a link leaves more loss than its target; the best first.
    pub help: Vec<Help>,
    /// The timers that hold the choice.
    pub held_by: HeldBy,
    /// The path that packets take instead of the chosen one, because a suspect on the chosen one swallows packets. Only
    /// the asked node's knowledge counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diverted: Option<Diverted>,
    /// Why the source nevertheless sends nothing to the destination, as far as the asked node knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A choice among paths.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// The path that packets take; for disjoint paths, all of them.
    pub chosen: Vec<PathNumbers>,
    /// The next best paths.
    pub runners_up: Vec<PathNumbers>,
    /// How much worse the first runner-up is in the number that decides. `None` without a runner-up, and for disjoint
    /// paths.
    pub lead: Option<f64>,
    /// Predicted percentage of a call's packets that miss the deadline on all chosen paths together. If several chosen
    /// paths have common links, it is that of the best one, and the percentage is smaller.
    pub missed_pct: f64,
    /// Upper bound of the percentage that any path delivers by the deadline; known for best routes.
    pub most_in_time_pct: Option<f64>,
    /// The reason for the choice in words.
    pub reason: String,
}

/// A path with its numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathNumbers {
    /// The names of the nodes on the path.
    pub path: Vec<String>,
    /// The addresses of the nodes on the path.
    pub addresses: Vec<String>,
    /// Number of links.
    pub hops: usize,
    /// One-way latency.
    pub latency_ms: f64,
    /// Loss without recovery.
    pub loss_pct: f64,
    /// Expected latency [Amir06 §IV-B].
    pub expected_latency_ms: f64,
    /// The rate that one TCP connection per link would reach [Liu04 §III-A].
    pub width_bps: u64,
    /// Predicted percentage of a call's packets that arrives by the deadline, with the protection of the links.
    pub in_time_pct: f64,
    /// The same percentage as routing computes it to choose the best path: one request and one answer on every link.
    pub in_time_reckoned_pct: f64,
    /// The same percentage without recovery.
    pub in_time_unrecovered_pct: f64,
    /// Predicted percentage of a call's packets that are lost or late, with the protection of the links as far as it is
    /// known ([`LinkProtection::known`]).
    pub missed_pct: f64,
    /// The links of the path in order.
    pub links: Vec<LinkNumbers>,
}

/// A link with its numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkNumbers {
    /// The node where the link begins.
    pub from: String,
    /// The node where the link ends.
    pub to: String,
    /// One-way latency.
    pub latency_ms: f64,
    /// Loss.
    pub loss_pct: f64,
    /// What protects a call's packets that have this deadline and take this path, and the loss that remains.
    #[serde(flatten)]
    pub plan: Step,
    /// Expected latency.
    pub expected_latency_ms: f64,
    /// The rate that one TCP connection would reach.
    pub width_bps: u64,
}

/// Explains the path from one node to another.
///
/// # Errors
/// [`ExplainError`] when a node is not known, both are the same, or there is no path.
pub fn why(view: &View, src: &str, dst: &str, asked: &Asked) -> Result<Why, ExplainError> {
    let ends = view.ends(src, dst)?;
    let answer = asked.answer(view, view.topology(), ends)?;
    let calls = asked.calls(view);
    let (protection, help) = match answer.chosen.as_slice() {
        [route] => (
            protected::protection(view, &calls, route),
            protected::help(view, &calls, route),
        ),
        _ => Default::default(),
    };
    let choice = Choice::of(view, &calls, &answer);
    Ok(Why {
        diverted: Diverted::of(view, ends, &choice.chosen),
        from: view.named(ends.0),
        to: view.named(ends.1),
        class: asked.class.to_string(),
        forwarding: asked.forwarding(),
        decided_by: asked.decided_by(),
        deadline_ms: millis(asked.deadline),
        held_by: HeldBy::of(view, &answer),
        choice,
        assumed: protected::assumed(&protection),
        protection,
        help,
        refused: view.refused(ends),
    })
}

impl Asked {
    /// Answers the question over a topology, which may be an edited one.
    fn answer(
        &self,
        view: &View,
        topology: &graph::Topology,
        (src, dst): (NodeAddr, NodeAddr),
    ) -> Result<Answer, ExplainError> {
        self.check()?;
        let question = Question {
            src,
            dst,
            class: self.class,
            deadline_us: self.deadline_us(),
            runners_up: self.runners_up,
        };
        explain::answer(topology, &question).map_err(|why| no_path(view, why))
    }

    /// Describes calls over the network as it is.
    fn calls<'a>(&self, view: &'a View) -> Calls<'a> {
        Calls {
            topology: view.topology(),
            protections: view.protections(),
            deadline_us: self.deadline_us(),
            aim: self.aim,
        }
    }

    fn check(&self) -> Result<(), ExplainError> {
        if self.deadline == Duration::ZERO || self.deadline > DEADLINE_MAX {
            return Err(ExplainError::Misused(format!(
                "deadline {}: use a time above zero and up to {DEADLINE_MAX}",
                self.deadline
            )));
        }
        if self.runners_up > RUNNERS_UP_MAX {
            return Err(ExplainError::Misused(format!(
                "{} runners-up are more than are told: use up to {RUNNERS_UP_MAX}",
                self.runners_up
            )));
        }
        Ok(())
    }

    fn deadline_us(&self) -> u32 {
        u32::try_from(self.deadline.as_micros()).unwrap_or(u32::MAX)
    }

    fn forwarding(&self) -> &'static str {
        match self.class {
            Class::Metric(_) => "table",
            Class::Width | Class::Best | Class::Disjoint(_) | Class::Targeted => "stamped",
        }
    }

    fn decided_by(&self) -> &'static str {
        match self.class {
            Class::Metric(Metric::Hops) => "hops",
            Class::Metric(Metric::Loss) => "loss_pct",
            Class::Metric(Metric::ExpectedLatency) | Class::Disjoint(_) | Class::Targeted => {
                "expected_latency_ms"
            }
            Class::Metric(Metric::Latency) => "latency_ms",
            Class::Width => "width_bps",
            Class::Best => "in_time_reckoned_pct",
        }
    }
}

impl Choice {
    fn of(view: &View, calls: &Calls<'_>, answer: &Answer) -> Choice {
        let numbers = |routes: &[Route]| -> Vec<PathNumbers> {
            routes
                .iter()
                .map(|route| PathNumbers::of(view, calls, route))
                .collect()
        };
        let class = answer.question.class;
        let [first, next] = [answer.chosen.first(), answer.runners_up.first()];
        let decides = |route: &Route| deciding(class, route);
        let lead = first.zip(next).and_then(|(first, next)| match class {
            Class::Metric(_) => Some(decides(next) - decides(first)),
            // For these classes, a higher number is better.
            Class::Width | Class::Best => Some(decides(first) - decides(next)),
            // These paths are chosen together, so one more path is not an alternative.
            Class::Disjoint(_) | Class::Targeted => None,
        });
        Choice {
            chosen: numbers(&answer.chosen),
            runners_up: numbers(&answer.runners_up),
            lead: lead.map(rounded),
            missed_pct: percent(missed_on_all(calls, answer)),
            most_in_time_pct: answer.upper.map(|upper| percent(upper.min(1.0))),
            reason: text::reason(view, answer),
        }
    }
}

/// Computes the share of a call's packets that miss the deadline on all chosen paths.
fn missed_on_all(calls: &Calls<'_>, answer: &Answer) -> f64 {
    let routes = &answer.chosen;
    let missed = routes.iter().map(|route| calls.over(route).share);
    let legs = routes.iter().flat_map(|route| &route.legs);
    match repeats(legs.map(|leg| (leg.from, leg.to))) {
        // Losses on common links are not independent, so several paths save an amount that is not known.
        true => missed.fold(1.0, f64::min),
        false => missed.product(),
    }
}

/// Returns true if an item occurs twice.
fn repeats<T: Ord>(mut items: impl Iterator<Item = T>) -> bool {
    let mut seen = BTreeSet::new();
    !items.all(|item| seen.insert(item))
}

impl PathNumbers {
    fn of(view: &View, calls: &Calls<'_>, route: &Route) -> PathNumbers {
        let missed = calls.over(route);
        let natural = |metric: Metric| rounded(metric.in_natural_unit(route.cost(metric)));
        PathNumbers {
            path: route.nodes().map(|node| view.name(node)).collect(),
            addresses: route.nodes().map(|node| node.to_string()).collect(),
            hops: route.legs.len(),
            latency_ms: rounded(route.latency_us as f64 / 1e3),
            loss_pct: percent(loss(route)),
            expected_latency_ms: natural(Metric::ExpectedLatency),
            width_bps: route.width.0,
            in_time_pct: percent(1.0 - missed.share),
            in_time_reckoned_pct: percent(route.recovered),
            in_time_unrecovered_pct: percent(route.unrecovered),
            missed_pct: percent(missed.share),
            links: route
                .legs
                .iter()
                .zip(&missed.legs)
                .map(|(leg, left)| LinkNumbers::of(view, leg, left))
                .collect(),
        }
    }
}

impl LinkNumbers {
    fn of(view: &View, leg: &Leg, left: &Left) -> LinkNumbers {
        let expected = Metric::ExpectedLatency;
        LinkNumbers {
            from: view.name(leg.from),
            to: view.name(leg.to),
            latency_ms: rounded(f64::from(leg.link.latency_us) / 1e3),
            loss_pct: percent(leg.link.loss_share()),
            plan: Step::of(left),
            expected_latency_ms: rounded(expected.in_natural_unit(leg.costs[expected.index()])),
            width_bps: leg.width.0,
        }
    }
}

/// Returns the number by which a class chooses, in the unit of its key.
fn deciding(class: Class, route: &Route) -> f64 {
    match class {
        Class::Metric(Metric::Loss) => loss(route) * 100.0,
        Class::Metric(metric) => metric.in_natural_unit(route.cost(metric)),
        Class::Disjoint(_) | Class::Targeted => {
            PATH_METRIC.in_natural_unit(route.cost(PATH_METRIC))
        }
        Class::Width => route.width.0 as f64,
        Class::Best => route.recovered * 100.0,
    }
}

/// Returns the share of packets that is lost on the path if nothing is recovered.
fn loss(route: &Route) -> f64 {
    let through: f64 = route
        .legs
        .iter()
        .map(|leg| 1.0 - leg.link.loss_share())
        .product();
    1.0 - through
}

fn no_path(view: &View, why: NoPath) -> ExplainError {
    match why {
        NoPath::Unknown(node) => {
            ExplainError::Misused(format!("nothing is known of a node {}", view.both(node)))
        }
        NoPath::Same(node) => ExplainError::Misused(format!(
            "{} is both source and destination: name two nodes",
            view.both(node)
        )),
        NoPath::Unreachable(src, dst) => ExplainError::NoPath(format!(
            "no chain of links that are up leads from {} to {}",
            view.both(src),
            view.both(dst)
        )),
    }
}

/// Rounds to six digits after the point, so that equal calculations show equal numbers.
fn rounded(value: f64) -> f64 {
    // Adding zero turns a negative zero into a positive one.
    (value * 1e6).round() / 1e6 + 0.0
}

fn percent(share: f64) -> f64 {
    rounded(share * 100.0)
}

fn millis(span: Duration) -> f64 {
    rounded(span.as_secs_f64() * 1e3)
}
