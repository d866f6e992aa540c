//! Decides whether a plan stays in force. A more expensive one takes effect at once, a cheaper one after some time in
//! which it would have been sufficient with a margin.

use super::case::{Case, NEARLY};
use super::{Plan, Reason, TOLERANCE, reason};
use crate::realtime::Share;
use base::{Duration, Time};

/// A cheaper plan must have been good enough for the time in which this many packets are lost. Choice: the loss rate is
/// estimated over fifty losses, which one call has in twenty seconds; four estimates in a row are not all too low by
/// chance.
const CHEAPER_LOSSES: f64 = 200.0;
/// The minimum and the maximum of that time.
const CHEAPER_AFTER: Duration = Duration::from_secs(10);
const CHEAPER_AFTER_MOST: Duration = Duration::from_secs(120);
/// The factor by which a cheaper plan must leave less than the target.
const TO_SPARE: f64 = 3.0;
/// The factor by which another plan of the same cost must leave less than the present one.
const SAME_COST: f64 = 2.0;

/// A lane that is already repaired, and the share that would be sufficient for it.
pub(super) struct Revised {
    pub(super) plan: Plan,
    pub(super) before: Share,
    pub(super) wanted: Option<(Share, f64)>,
    pub(super) requests_do: bool,
    pub(super) target: f64,
    pub(super) is_clean: bool,
    /// How long a cheaper plan must have been good enough.
    pub(super) wait: Duration,
}

impl Revised {
    /// Returns the next plan: the present one unless it leaves too much, or a cheaper one has long been sufficient.
    pub(super) fn settle(
        &self,
        now: Time,
        since_cheaper: &mut Option<Time>,
        case: &mut Case<'_>,
    ) -> Plan {
        let present = (self.before, case.leaves(self.before));
        let is_within = self.before.ratio() <= case.cap;
        let dearer = self
            .wanted
            .filter(|(share, _)| share.ratio() >= self.before.ratio() && *share != self.before);
        if let Some(found) = dearer
            && present.1 > self.target * TOLERANCE
            && found.1 * worth(found.0, self.before) < present.1
        {
            *since_cheaper = None;
            return self.plan.with(found, reason(found.1, self.target));
        }
        let easy = self.target / TO_SPARE;
        let cheaper = match self.plan.requests <= easy || self.is_clean {
            true => Some(None),
            false => case
                .cheapest(easy)
                .filter(|(share, _)| share.ratio() < self.before.ratio())
                .map(Some),
        };
        let cheaper = match (cheaper, self.wanted) {
            // No share that is allowed helps any more.
            (None, None) if !self.requests_do => Some(None),
            (cheaper, _) => cheaper,
        };
        let Some(cheaper) = cheaper else {
            *since_cheaper = None;
            return self.plan.with(present, reason(present.1, self.target));
        };
        let since = *since_cheaper.get_or_insert(now);
        if is_within && now.since(since) < self.wait {
            return self.plan.with(present, reason(present.1, self.target));
        }
        *since_cheaper = None;
        match cheaper {
            Some(found) => self.plan.with(found, reason(found.1, self.target)),
            None if self.is_clean => self.plan.rests(Reason::Clean),
            None if self.plan.requests <= self.target => self.plan.rests(Reason::RequestsDo),
            None => self.plan.rests(Reason::Clean),
        }
    }
}

/// Returns the factor by which a more expensive plan, or another one of the same cost, must leave less.
fn worth(found: Share, before: Share) -> f64 {
    match found.ratio() > before.ratio() {
        true => NEARLY,
        false => SAME_COST,
    }
}

/// Returns how long a cheaper plan must have been good enough if this many packets are lost in a second.
pub(super) fn cheaper_after(lost_a_second: f64) -> Duration {
    let seconds = CHEAPER_LOSSES / lost_a_second.max(f64::MIN_POSITIVE);
    let most = CHEAPER_AFTER_MOST.as_secs_f64();
    Duration::from_secs_f64(seconds.min(most)).max(CHEAPER_AFTER)
}
