//! Why packets take the path that they take, what would be if links were otherwise, how bulk data is
//! best moved, and what would help calls: `sinew why`, `sinew whatif` and `sinew plan`.
//!
//! ```text
//!   running node ── control socket ──┐
//!                                    ├─▶ NetworkSnapshot ─▶ View ─▶ why, what_if, plan, advise ─▶ text, JSON
//!   scenario file (the laboratory) ──┘            (graph::explain, graph::plan choose)
//! ```
//!
//! Both sources give the same kind of snapshot, and everything behind it is one code path: equal
//! links give equal answers. What differs is what is known of the timers: a node tells what holds
//! back the announcements of its own links at the moment, and of all others only the profile's rule
//! is known.

mod advice;
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
pub use diverted::{Diverted, Suspected};
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
use graph::Metric;
use graph::explain::{self, Answer, Leg, PATH_METRIC, Question, Route};
use graph::paths::NoPath;
use missed::Calls;
use protection::Left;
use serde::Serialize;

/// The longest deadline that may be asked for.
pub const DEADLINE_MAX: Duration =
    Duration::from_micros(graph::delivery::LONGEST_DEADLINE_US as u64);

/// What to explain, besides the ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// How the path is chosen.
    pub class: Class,
    /// What arrives later does not count.
    pub deadline: Duration,
    /// Paths to tell besides the chosen one.
    pub runners_up: usize,
}

impl Default for Asked {
    /// A call: expected latency, 100 ms.
    fn default() -> Asked {
        Asked {
            class: Class::Metric(Metric::ExpectedLatency),
            deadline: Duration::from_millis(100),
            runners_up: 2,
        }
    }
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExplainError {
    /// What was asked cannot be; the command was misused.
    #[error("{0}")]
    Misused(String),
    /// There is no path.
    #[error("{0}")]
    NoPath(String),
    /// The snapshot makes no sense: a node of another version, perhaps.
    #[error("the node's view of the network is not understood: {0}")]
    Snapshot(String),
}

/// A node as people know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Named {
    /// Its name, or its address if it has none that is known.
    pub name: String,
    /// Its overlay address.
    pub address: String,
}

/// Why packets take the path that they take.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Why {
    /// Where packets come from.
    pub from: Named,
    /// Where they go.
    pub to: Named,
    /// How their path is chosen.
    pub class: String,
    /// `table`: hop by hop; `stamped`: by the source.
    pub forwarding: &'static str,
    /// The key of the number that decides, in paths.
    pub decided_by: &'static str,
    /// What arrives later does not count.
    pub deadline_ms: f64,
    /// The paths and why.
    #[serde(flatten)]
    pub choice: Choice,
    /// How the links of the chosen path are protected that lose packets, for a call; empty for several paths.
    pub protection: Vec<LinkProtection>,
    /// What the protection is told of, as far as it is assumed; empty where nothing is lost.
    pub assumed: String,
    /// What would help a call, where a link leaves more than its target; the best first.
    pub help: Vec<Help>,
    /// The timers that hold the choice.
    pub held_by: HeldBy,
    /// Where packets go instead of by the chosen path, because something on it swallows them, as far as the node knows
    /// that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diverted: Option<Diverted>,
    /// Why nothing is sent there all the same, as far as the node knows that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A choice among paths.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// The path that packets take; for disjoint ones all of them.
    pub chosen: Vec<PathNumbers>,
    /// The next best ones.
    pub runners_up: Vec<PathNumbers>,
    /// By how much the first runner-up is worse in what decides; none without one, and for disjoint
    /// paths.
    pub lead: Option<f64>,
    /// No path delivers more than this by the deadline; known for best routes.
    pub most_in_time_pct: Option<f64>,
    /// All that in words.
    pub reason: String,
}

/// A path with its numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathNumbers {
    /// The names of its nodes.
    pub path: Vec<String>,
    /// Their addresses.
    pub addresses: Vec<String>,
    /// Links.
    pub hops: usize,
    /// One-way latency.
    pub latency_ms: f64,
    /// Loss without recovery.
    pub loss_pct: f64,
    /// Expected latency [Amir06 §IV-B].
    pub expected_latency_ms: f64,
    /// What one TCP connection per link would carry [Liu04 §III-A].
    pub width_bps: u64,
    /// Predicted share of a call's packets that arrives by the deadline, with the protection of the links.
    pub in_time_pct: f64,
    /// The same as routing reckons it to choose the best path: one request and one answer on every link.
    pub in_time_reckoned_pct: f64,
    /// The same without recovery.
    pub in_time_unrecovered_pct: f64,
    /// Predicted share of a call's packets that are lost or late, with the protection of the links as far as it is known
    /// ([`LinkProtection::known`]).
    pub missed_pct: f64,
    /// Its links in order.
    pub links: Vec<LinkNumbers>,
}

/// A link with its numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkNumbers {
    /// Where it begins.
    pub from: String,
    /// Where it ends.
    pub to: String,
    /// One-way latency.
    pub latency_ms: f64,
    /// Loss.
    pub loss_pct: f64,
    /// What protects a call's packets with this deadline over this path, and what it leaves.
    #[serde(flatten)]
    pub plan: Step,
    /// Expected latency.
    pub expected_latency_ms: f64,
    /// What one TCP connection would carry.
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
    /// The answer over a topology, which may be an edited one.
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

    /// Calls over the network as it is.
    fn calls<'a>(&self, view: &'a View) -> Calls<'a> {
        Calls {
            topology: view.topology(),
            protections: view.protections(),
            deadline_us: self.deadline_us(),
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
        let [first, next] = [answer.chosen.first(), answer.runners_up.first()];
        let decides = |route: &Route| deciding(answer.question.class, route);
        let lead = first
            .zip(next)
            .and_then(|(first, next)| match answer.question.class {
                Class::Metric(_) => Some(decides(next) - decides(first)),
                // The more the better.
                Class::Width | Class::Best => Some(decides(first) - decides(next)),
                // They are chosen together: one path more is no alternative.
                Class::Disjoint(_) | Class::Targeted => None,
            });
        Choice {
            chosen: numbers(&answer.chosen),
            runners_up: numbers(&answer.runners_up),
            lead: lead.map(rounded),
            most_in_time_pct: answer.upper.map(|upper| percent(upper.min(1.0))),
            reason: text::reason(view, answer),
        }
    }
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

/// The number by which a class chooses, in the unit of its key.
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

/// The share that is lost on the way if nothing is recovered.
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

/// Six digits behind the point: what is computed equally is told equally.
fn rounded(value: f64) -> f64 {
    // The zero gets rid of a sign that nothing has.
    (value * 1e6).round() / 1e6 + 0.0
}

fn percent(share: f64) -> f64 {
    rounded(share * 100.0)
}

fn millis(span: Duration) -> f64 {
    rounded(span.as_secs_f64() * 1e3)
}
