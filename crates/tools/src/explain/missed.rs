//! Computes the share of a call's packets that a path misses by the deadline, with the protection of its links.
//!
//! ```text
//!   deadline − latency of the path = slack ─▶ of each link: what its protection leaves (`protection`)
//!   missed = 1 − Π (1 − left)
//! ```
//!
//! Each link gets the whole slack, because a packet that is lost on two links of a path is rare.

use super::case::{Case, Left};
use super::protection::Protections;
use base::Duration;
use graph::Topology;
use graph::explain::Route;
use wire::Aim;

/// The fate of a call's packets on a path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Missed {
    /// The share of packets that is lost or late.
    pub(super) share: f64,
    /// For each link, the share that remains lost, and the link's protection.
    pub(super) legs: Vec<Left>,
}

impl Missed {
    /// Returns the repair packets and copies per packet, on the link that has most.
    pub(super) fn most_repair(&self) -> f64 {
        let repairs = self.legs.iter().map(|left| left.repair);
        repairs.fold(0.0, f64::max)
    }
}

/// Calls with a deadline, and the protection of the links.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calls<'a> {
    pub(super) topology: &'a Topology,
    pub(super) protections: &'a Protections,
    pub(super) deadline_us: u32,
    /// What the calls' sender wants of repair.
    pub(super) aim: Aim,
}

impl Calls<'_> {
    /// Computes what the calls miss on a path.
    pub(super) fn over(&self, route: &Route) -> Missed {
        let slack = self.slack(route);
        let left = |leg| {
            let (topology, slack) = (self.topology, slack.unwrap_or(Duration::ZERO));
            self.protections.case(topology, leg, slack, self.aim).left()
        };
        let legs: Vec<Left> = route.legs.iter().map(left).collect();
        Missed {
            // If the path is longer than the deadline, every packet is missed.
            share: slack.map_or(1.0, |_| missed_of(legs.iter().map(|left| left.share))),
            legs,
        }
    }

    /// Returns the cases of a path's links, each with the time that packets have.
    pub(super) fn cases(&self, route: &Route) -> Vec<Case> {
        let slack = self.slack(route).unwrap_or(Duration::ZERO);
        let case = |leg| self.protections.case(self.topology, leg, slack, self.aim);
        route.legs.iter().map(case).collect()
    }

    /// Returns true if a path is not longer than the deadline, and each of its links reaches its target.
    pub(super) fn reaches_target(&self, route: &Route) -> bool {
        let cases = self.cases(route);
        self.slack(route).is_some() && !cases.iter().any(|case| case.is_short(&case.left()))
    }

    /// Returns the time that is left after the latency of the path; `None` if the latency is longer than the deadline.
    fn slack(&self, route: &Route) -> Option<Duration> {
        let slack_us = u64::from(self.deadline_us).checked_sub(route.latency_us);
        slack_us.map(Duration::from_micros)
    }
}

/// Computes what a path misses if its links leave these shares lost.
pub(super) fn missed_of(left: impl Iterator<Item = f64>) -> f64 {
    1.0 - left.map(|share| 1.0 - share).product::<f64>()
}

#[cfg(test)]
mod tests;
