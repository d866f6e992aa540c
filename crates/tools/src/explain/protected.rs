//! How the links of a path are protected, for a call with the given deadline: the plan and the loss that it is expected
//! to leave, the protection in force with its measurements, the next cheaper and the next better plan. If more loss
//! remains than the target allows, also what would help.
//!
//! Other deadlines, a node half way and other settings are tried with the same prediction as the present state.

use super::case::{Case, Left};
use super::missed::{Calls, missed_of};
use super::protection::Known;
use super::{PathNumbers, View, Why, millis, percent, rounded};
use base::Duration;
use graph::explain::Route;
use overlay::realtime::{Aims, Protect, Reason};
use overlay::snapshot::InForce;
use serde::Serialize;
use std::fmt;

/// A change helps if calls miss no more than this share of what they miss without it. Choice: predictions are not more
/// exact than that.
pub(super) const HELPS: f64 = 0.8;
/// Longer deadlines are tried in steps of this size, because users choose round ones, up to [`DEADLINE_STEPS`].
const DEADLINE_STEP: Duration = Duration::from_millis(10);
const DEADLINE_STEPS: u64 = 50;
/// The cap that is tried if the present one prevents a better plan: two copies of each packet, the most that a plan
/// has.
const CAP: f64 = 2.0;

/// How a link is protected, for a call with the given deadline over the given path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkProtection {
    /// The node where the link begins.
    pub from: String,
    /// The node where the link ends.
    pub to: String,
    /// The link's loss.
    pub loss_pct: f64,
    /// The plan for a call.
    #[serde(flatten)]
    pub plan: Step,
    /// Why the plan does no more.
    pub reason: &'static str,
    /// The loss that may remain.
    pub target_pct: f64,
    /// The remaining loss is within the tolerance of the target.
    pub is_reached: bool,
    /// The origin of the numbers.
    pub known: Known,
    /// The protection in force at the asked node, if the link is its own and carries real-time packets.
    pub in_force: Option<InForce>,
    /// The best plan among those that add less.
    pub cheaper: Option<Step>,
    /// The cheapest plan among those that leave less loss, whatever it adds.
    pub better: Option<Step>,
}

/// A plan, its cost, and the loss that it is expected to leave.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Step {
    /// `none`, `requests`, `repair` (besides requests) or `copies` (besides requests).
    pub protection: &'static str,
    /// Repair packets, or copies, per hundred packets of a call.
    pub repair_pct: f64,
    /// What they add to the bytes of a call, in percent.
    pub added_pct: f64,
    /// The percentage of a call's packets that remains lost.
    pub left_pct: f64,
}

/// A change that would help a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Help {
    /// `node`: a node half way on a link; `deadline`: a longer deadline; `protect` or `cap`: a setting where the link
    /// begins; `neighbor`: a setting where the link ends.
    pub kind: &'static str,
    /// The ends of the link; `None` for a deadline.
    pub link: Option<[String; 2]>,
    /// The deadline with this change.
    pub deadline_ms: f64,
    /// What calls would miss with this change.
    pub missed_pct: f64,
}

impl Step {
    pub(super) fn of(left: &Left) -> Step {
        Step {
            protection: left.by,
            repair_pct: percent(left.repair),
            added_pct: percent(left.added()),
            left_pct: percent(left.share),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pct = self.repair_pct;
        match self.protection {
            "none" => f.write_str("no protection"),
            "repair" => write!(f, "requests, {pct:.0} % repair packets"),
            "copies" => write!(f, "requests, {pct:.0} % copies"),
            requests => f.write_str(requests),
        }
    }
}

/// Returns the protection of those links of a path that lose packets.
pub(super) fn protection(view: &View, calls: &Calls<'_>, route: &Route) -> Vec<LinkProtection> {
    let legs = route.legs.iter().zip(calls.cases(route));
    let lossy = legs.filter(|(_, case)| case.link.share > 0.0);
    let told = lossy.map(|(leg, case)| {
        let left = case.left();
        LinkProtection {
            from: view.name(leg.from),
            to: view.name(leg.to),
            loss_pct: percent(case.link.share),
            plan: Step::of(&left),
            reason: left.reason.text(),
            target_pct: percent(case.aims.target),
            is_reached: !case.is_short(&left),
            known: calls.protections.known(leg),
            in_force: calls.protections.in_force(leg).cloned(),
            cheaper: case.cheaper(&left).as_ref().map(Step::of),
            better: case.better(&left).as_ref().map(Step::of),
        }
    });
    told.collect()
}

/// Returns what would help calls on a path, the best first; nothing if each link reaches the target.
pub(super) fn help(view: &View, calls: &Calls<'_>, route: &Route) -> Vec<Help> {
    let cases = calls.cases(route);
    let left: Vec<Left> = cases.iter().map(Case::left).collect();
    if calls.reaches_target(route) {
        return Vec::new();
    }
    let is_late = route.latency_us > u64::from(calls.deadline_us);
    let today = calls.over(route).share;
    let deadline_ms = f64::from(calls.deadline_us) / 1e3;
    let mut found: Vec<Help> = longer(calls, route).into_iter().collect();
    let worst = (0..left.len()).max_by(|a, b| left[*a].share.total_cmp(&left[*b].share));
    // If every packet is late, no link can help.
    if let Some(worst) = worst.filter(|_| !is_late) {
        let leg = &route.legs[worst];
        let with = |kind, case: Case, links: usize| {
            let others = left.iter().enumerate().filter(|(i, _)| *i != worst);
            let own = std::iter::repeat_n(case.left().share, links);
            let missed = missed_of(others.map(|(_, left)| left.share).chain(own));
            Help {
                kind,
                link: Some([view.name(leg.from), view.name(leg.to)]),
                deadline_ms: rounded(deadline_ms),
                missed_pct: percent(missed),
            }
        };
        let case = cases[worst];
        found.push(with("node", case.halved(), 2));
        found.extend(setting(&case, &left[worst]).map(|(kind, case)| with(kind, case, 1)));
    }
    found.retain(|help| help.missed_pct <= percent(today * HELPS));
    found.sort_by(|a, b| a.missed_pct.total_cmp(&b.missed_pct));
    found
}

/// Returns the setting that prevents a better plan, and the link with a better setting.
fn setting(case: &Case, left: &Left) -> Option<(&'static str, Case)> {
    let mut other = *case;
    if case.is_limited {
        // No setting of a node is in the way.
        return None;
    }
    if !case.aims.protect.repairs() {
        // The changed setting applies to both ends, with the usual cap.
        other.aims.protect = Protect::Auto;
        other.aims.most_single = Aims::default().most_single;
        other.link.takes_repair = true;
        return Some(("protect", other));
    }
    match left.reason {
        Reason::Neighbour => {
            other.link.takes_repair = true;
            Some(("neighbor", other))
        }
        Reason::Cap => Some(("cap", case.capped(CAP.max(case.aims.most_single)))),
        _ => None,
    }
}

/// Returns the shortest deadline with which each link reaches its target.
fn longer(calls: &Calls<'_>, route: &Route) -> Option<Help> {
    let step = DEADLINE_STEP.as_micros();
    let first = u64::from(calls.deadline_us) / step + 1;
    let at = |steps: u64| Calls {
        deadline_us: u32::try_from((first + steps) * step).unwrap_or(u32::MAX),
        ..*calls
    };
    let does = |steps: u64| at(steps).reaches_target(route);
    // More time never leaves more loss, so a binary search finds the deadline.
    let (mut short, mut enough) = (0, DEADLINE_STEPS);
    if !does(enough) {
        return None;
    }
    while short < enough {
        let middle = u64::midpoint(short, enough);
        match does(middle) {
            true => enough = middle,
            false => short = middle + 1,
        }
    }
    let calls = at(enough);
    Some(Help {
        kind: "deadline",
        link: None,
        deadline_ms: millis(Duration::from_micros(u64::from(calls.deadline_us))),
        missed_pct: percent(calls.over(route).share),
    })
}

/// Describes what is assumed about the links of a path.
pub(super) fn assumed(protection: &[LinkProtection]) -> String {
    let of = |known: Known| {
        let links = protection.iter().filter(|link| link.known == known);
        let names: Vec<String> = links
            .map(|link| format!("{}-{}", link.from, link.to))
            .collect();
        names.join(", ")
    };
    if protection.is_empty() {
        return String::new();
    }
    let mut text = "one call of 50 packets/s".to_owned();
    let told = [Known::Measured, Known::Told].map(of);
    let told: Vec<String> = told.into_iter().filter(|names| !names.is_empty()).collect();
    if !told.is_empty() {
        text += &format!("; of {} the target of the asked node", told.join(", "));
    }
    let announced = of(Known::Announced);
    if !announced.is_empty() {
        text += &format!(
            "; of {announced} the settings of the asked node, and that after a lost packet {:.0} % of the next ones are lost",
            super::BURST * 100.0
        );
    }
    text
}

/// Describes what a call would miss on a path, and how its links repair losses.
pub(super) fn missed(path: &PathNumbers, deadline_ms: f64) -> String {
    let lossy = path.links.iter().filter(|link| link.loss_pct > 0.0);
    let links: Vec<String> = lossy
        .map(|link| {
            let (from, to) = (&link.from, &link.to);
            format!(
                "{from}-{to} leaves {:.3} % ({})",
                link.plan.left_pct, link.plan
            )
        })
        .collect();
    let mut text = format!(
        "{:.3} % of a call's packets are expected to be lost or late by {deadline_ms} ms",
        path.missed_pct
    );
    if !links.is_empty() {
        text += &format!(": {}", links.join(", "));
    }
    text
}

impl fmt::Display for LinkProtection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let leaves = |step: &Step| {
            let Step {
                left_pct,
                added_pct,
                ..
            } = step;
            format!("{step} would leave {left_pct:.3} % for {added_pct:.0} % more bytes")
        };
        let plan = &self.plan;
        write!(
            f,
            "{}-{}: {:.2} % lost, {:.3} % left (at most {} %) by {plan}, for {:.0} % more bytes ({})",
            self.from,
            self.to,
            self.loss_pct,
            plan.left_pct,
            self.target_pct,
            plan.added_pct,
            self.reason
        )?;
        if let Some(now) = &self.in_force {
            write!(f, "; in force now: {now}")?;
        }
        for (what, step) in [("cheaper", &self.cheaper), ("better", &self.better)] {
            if let Some(step) = step {
                write!(f, "; {what}: {}", leaves(step))?;
            }
        }
        Ok(())
    }
}

impl Help {
    /// Describes the change to a user whose deadline is `now_ms`.
    #[must_use]
    pub fn words(&self, now_ms: f64) -> String {
        let link = self.link.as_ref().map(|[from, to]| format!("{from}-{to}"));
        let link = link.unwrap_or_default();
        let [from, to] = self.link.clone().unwrap_or_default();
        let what = match self.kind {
            "node" => format!("a node half way on {link}"),
            "deadline" => format!("a deadline of {} ms instead of {now_ms}", self.deadline_ms),
            "protect" => format!("`protect = \"auto\"` at {from} and {to}"),
            "neighbor" => format!("repair allowed at {to} (`protect = \"auto\"`)"),
            _ => format!("`protect_most_single = {CAP}` at {from}"),
        };
        format!("{what} would leave {:.3} %", self.missed_pct)
    }
}

impl Why {
    /// Returns the protection of the link that leaves most loss, if any link loses packets.
    #[must_use]
    pub fn worst(&self) -> Option<&LinkProtection> {
        let left = |link: &&LinkProtection| link.plan.left_pct;
        let links = self.protection.iter();
        links.max_by(|a, b| left(a).total_cmp(&left(b)))
    }
}

/// Most helps that a warning names.
const HELP_TOLD: usize = 2;

impl Why {
    /// Returns a warning for a user who is about to call, if the deadline cannot be protected over the chosen path. It
    /// has the numbers and the advice. Several paths are warned of only if each of them takes too long, because the
    /// copies on the others make good what one path loses.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let paths = self.choice.chosen.iter();
        let path = paths.min_by(|a, b| a.latency_ms.total_cmp(&b.latency_ms))?;
        let (from, to, deadline_ms) = (&self.from.name, &self.to.name, self.deadline_ms);
        let is_late = path.latency_ms > deadline_ms;
        let short = self.protection.iter().filter(|link| !link.is_reached);
        let short: Vec<String> = short
            .map(|link| {
                let LinkProtection { from, to, plan, .. } = link;
                format!(
                    "{from}-{to} loses {:.2} %, and {:.3} % stay lost with {plan} ({})",
                    link.loss_pct, plan.left_pct, link.reason
                )
            })
            .collect();
        let why = match (is_late, short.is_empty()) {
            (true, _) => format!("the path takes {:.1} ms", path.latency_ms),
            (false, false) => short.join(", "),
            (false, true) => return None,
        };
        let help = self.help.iter().take(HELP_TOLD);
        let help: Vec<String> = help.map(|help| help.words(deadline_ms)).collect();
        let help = match help.is_empty() {
            true => String::new(),
            false => format!("{}; ", help.join(", ")),
        };
        Some(format!(
            "calls to {to} are expected to miss {:.3} % of their packets by {deadline_ms} ms: {why}; {help}see \
             `sinew why {from} {to} --deadline {deadline_ms}ms`",
            self.choice.missed_pct
        ))
    }
}

#[cfg(test)]
mod tests;
