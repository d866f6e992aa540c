//! Whether a plan that is in force stays: a dearer one comes at once, a cheaper one after some time in which it would have
//! done with room to spare.

use super::case::{Case, NEARLY};
use super::{Plan, Reason, TOLERANCE, reason};
use crate::realtime::Share;
use base::{Duration, Time};

/// A cheaper plan must have been good enough for as long as it takes to lose so many packets. Choice: the loss rate is
/// estimated over fifty losses, which one call has in twenty seconds; four estimates in a row are not all too low by chance.
const CHEAPER_LOSSES: f64 = 200.0;
/// But no shorter and no longer than this.
const CHEAPER_AFTER: Duration = Duration::from_secs(10);
const CHEAPER_AFTER_MOST: Duration = Duration::from_secs(120);
/// It must leave so many times less than the target.
const TO_SPARE: f64 = 3.0;
/// Another plan of the same cost must leave so many times less than the present one.
const SAME_COST: f64 = 2.0;

/// A lane that is repaired already, and what would do for it.
pub(super) struct Revised {
    pub(super) plan: Plan,
    pub(super) before: Share,
    pub(super) wanted: Option<(Share, f64)>,
    pub(super) requests_do: bool,
    pub(super) target: f64,
    pub(super) is_clean: bool,
    /// A cheaper plan must have been good enough for so long.
    pub(super) wait: Duration,
}

impl Revised {
    /// The plan stays unless it leaves too much, or much less would do for long.
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
            // Nothing that is allowed helps any more.
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

/// By how much less a dearer plan, or one of the same cost, must leave.
fn worth(found: Share, before: Share) -> f64 {
    match found.ratio() > before.ratio() {
        true => NEARLY,
        false => SAME_COST,
    }
}

/// How long a cheaper plan must have been good enough where so many packets are lost in a second.
pub(super) fn cheaper_after(lost_a_second: f64) -> Duration {
    let seconds = CHEAPER_LOSSES / lost_a_second.max(f64::MIN_POSITIVE);
    let most = CHEAPER_AFTER_MOST.as_secs_f64();
    Duration::from_secs_f64(seconds.min(most)).max(CHEAPER_AFTER)
}
