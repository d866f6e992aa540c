//! Decides what protects a lane: nothing, requests, or requests and coded repair, and how much of it.
//!
//! ```text
//!   losses, runs  (from the neighbour)   ┐
//!   round trip    (hellos)               ├─▶ each second, and when losses change ─▶ the cheapest plan that leaves
//!   time left, distance (packets)        ┘                                          what is aimed at, within the cap
//! ```
//!
//! A request takes a round trip and the time until the gap is seen. Repair packets cover the packets that have less
//! time than requests need to leave no more than the target lost. Packets that have more time are not covered, and cost
//! nothing. The prediction for each share and window is in [`predict`]. A more expensive plan takes effect at once. A
//! cheaper plan takes effect only when it would have been sufficient with a margin for some seconds, so that a plan
//! stays in force under steady losses.
//!
//! Flows may have aims of their own. The plan is for the strictest target of the flows that want repair, within the
//! cost that all of them may cause together. Packets of a flow that is content with what the lane loses are not
//! covered.
//!
//! While the brake attributes losses to a queue, and for some time after that, no repair is added: repair that has
//! filled a link would fill it again.

mod aims;
mod case;
mod passed;
mod predict;
mod recent;
mod revised;
mod spacing;
mod steady;
#[cfg(test)]
mod tests;
mod wishes;

pub use aims::{Aims, Plan, Protect, Reason};
pub use predict::{Losses, repair, requests};

use case::Case;
use passed::{Packet, Passed};
use predict::{Predictions, asked};
use recent::Recent;
use revised::{Revised, cheaper_after};
use steady::Steady;

use super::RoundTrip;
use crate::flow::FlowKey;
use base::{Duration, Time};
use std::collections::VecDeque;
use wire::Aim;
use wire::control::REPAIR_AGES;

/// How often the plan is checked.
const EVERY: Duration = Duration::from_secs(1);
/// The plan is checked at once if losses have grown by this factor, to more than [`ALARM_SHARE`].
const ALARM: f64 = 2.0;
const ALARM_SHARE: f64 = 0.01;
/// Number of packets after which the distance between packets is known.
const BEGINS: u32 = 4;
/// Losses below [`LOSS_LEAST`] need no repair. With losses above [`LOSS_MOST`], repair packets would hardly help.
const LOSS_LEAST: f64 = 0.0005;
const LOSS_MOST: f64 = 0.35;
/// A plan stays in force while it leaves no more than this multiple of the target.
pub const TOLERANCE: f64 = 2.0;
/// The factor from which on runs of losses count as longer than before.
const LONGER_RUNS: f64 = 1.5;
/// How long repair rests after the brake has detected a queue. The time doubles with each rest, up to [`REST_MOST`].
const REST: Duration = Duration::from_secs(10);
const REST_MOST: Duration = Duration::from_secs(320);
/// Packets that have less time than this left after their path are late even without losses.
pub const SLACK_LEAST: Duration = Duration::from_millis(3);
/// The part of a packet's time that timers and hosts take. It includes up to 1 ms by which a restored packet counts as
/// older than it is.
const SPARE: Duration = Duration::from_millis(2);
/// Repair packets are as long as the longest packet. The ratio of the mean length to the longest is the median of this
/// number of checks. Choice: one long packet of a call, for example of a key agreement, makes only a few repair packets
/// long.
const LENGTHS: usize = 3;
/// The state of the link when the plan is checked.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// The share of datagrams that the link loses.
    pub share: f64,
    /// The time that a request and its answer take.
    pub rtt: RoundTrip,
    /// True if, as far as the brake knows, the losses do not come from a queue.
    pub is_random: bool,
    /// True if the neighbour accepts repair packets.
    pub takes_repair: bool,
    /// Maximum number of requests for one packet.
    pub strikes: u8,
    /// How much the one-way delay to the neighbour has grown recently. Packets have less time than was noted with them.
    pub longer: Duration,
    /// Number of packets over which a repair packet can reach.
    pub span: u32,
}

/// Chooses the plan of one lane.
#[derive(Debug)]
pub struct Pilot {
    aims: Aims,
    plan: Plan,
    passing: Passed,
    passed: Passed,
    /// The mean length of packets divided by the longest, at the last checks.
    evenness: VecDeque<f64>,
    looked: Time,
    /// The losses at the last check, and the mean length of their runs.
    made_for: f64,
    made_for_run: f64,
    /// The losses when the plan last changed.
    planned_for: f64,
    /// The mean length of runs of losses: as the neighbour reports it, and over some seconds.
    run: f64,
    usual_run: f64,
    steady: Steady,
    recent: Recent,
    /// The time since which a cheaper plan would be sufficient.
    cheaper_since: Option<Time>,
    rests_until: Time,
    rest: Duration,
    changes: u64,
    told: Option<Told>,
    /// Number of reports still to come that describe packets sent before the plan.
    stale_reports: u8,
    measured: Measured,
    predictions: Predictions,
}

/// The fate of packets under the plan in force: sums in which older packets count less.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    packets: f64,
    lost: f64,
}

/// Number of packets over which the remaining loss is measured: ten losses at the default target. If there are more,
/// the older packets count half.
const MEASURED_OVER: f64 = 20_000.0;
/// Number of reports after a change of the plan that describe packets sent before it: losses are reported one report
/// later, and one report may be on its way.
const STALE_REPORTS: u8 = 2;

/// The neighbour's last report about the lane: counts from some moment up to now.
#[derive(Clone, Copy, Debug)]
struct Told {
    received: u32,
    lost: u32,
}

impl Pilot {
    /// Returns a pilot without any knowledge of the lane.
    pub fn new(aims: Aims) -> Pilot {
        Pilot {
            aims,
            plan: Plan {
                target: aims.target,
                most: aims.most,
                ..Plan::default()
            },
            passing: Passed::default(),
            passed: Passed::default(),
            evenness: VecDeque::with_capacity(LENGTHS),
            looked: Time::ZERO,
            made_for: 0.0,
            made_for_run: 1.0,
            planned_for: 0.0,
            run: 1.0,
            usual_run: 1.0,
            steady: Steady::default(),
            recent: Recent::default(),
            cheaper_since: None,
            rests_until: Time::ZERO,
            rest: REST,
            changes: 0,
            told: None,
            stale_reports: 0,
            measured: Measured::default(),
            predictions: Predictions::default(),
        }
    }

    /// Returns the plan in force.
    pub fn plan(&self) -> Plan {
        self.plan
    }

    /// Returns how often the plan has changed.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the share of packets that stayed lost under the plan in force, as the neighbour reports, and about how
    /// many packets it comes from. Returns `None` before there are reports about this plan.
    pub fn measured(&self) -> Option<(f64, u64)> {
        let Measured { packets, lost } = self.measured;
        (packets > 0.0).then(|| ((lost / packets).clamp(0.0, 1.0), packets as u64))
    }

    /// Returns true if packets have begun to pass and no plan has been made for them.
    #[inline]
    pub fn begins(&self) -> bool {
        self.passed.packets == 0 && self.passing.packets >= BEGINS
    }

    /// Notes a packet that is sent: its length, the time that it has left after the rest of its path (`None` without a
    /// deadline), a value that distinguishes its flow from others, and the aim of the flow's sender, if it has one.
    /// Returns true if the packet is to be covered.
    #[inline]
    pub fn on_sent(
        &mut self,
        now: Time,
        bytes: usize,
        slack: Option<Duration>,
        flow: u64,
        wish: Option<(FlowKey, Aim)>,
    ) -> bool {
        let packet = Packet {
            bytes,
            slack,
            flow,
            wish,
        };
        let slack = self.passing.note(now, &packet, &self.aims, self.made_for);
        slack.is_some_and(|slack| self.plan.share.is_some() && slack < self.plan.cover_below)
    }

    /// Returns the mean length of a run of losses in packets, as the neighbour reports it.
    pub fn run(&self) -> f64 {
        self.run
    }

    /// Takes from a hello how many datagrams have arrived and how many were lost since the previous hello.
    pub fn on_told(&mut self, arrived: u64, lost: u64) {
        self.recent.on_told(arrived, lost);
        self.steady.on_told(arrived + lost);
    }

    /// Notes that the link uses another path: earlier hellos concern the previous path.
    pub fn on_new_path(&mut self) {
        self.recent = Recent::default();
        self.steady = Steady::default();
    }

    /// Takes the neighbour's report about the packets of the lane.
    pub fn on_report(&mut self, received: u32, lost: u32, run: f64) {
        self.run = run.max(1.0);
        let before = self.told.replace(Told { received, lost });
        let Some(before) = before else {
            return;
        };
        let came = received.wrapping_sub(before.received);
        // The count falls if packets that were given up have arrived since.
        let lost = lost.wrapping_sub(before.lost).cast_signed();
        if came >= 1 << 30 || came == 0 || lost.unsigned_abs() >= 1 << 30 {
            return;
        }
        if self.stale_reports > 0 {
            self.stale_reports -= 1;
            return;
        }
        let measured = &mut self.measured;
        if measured.packets > MEASURED_OVER {
            (measured.packets, measured.lost) = (measured.packets / 2.0, measured.lost / 2.0);
        }
        measured.packets += (f64::from(came) + f64::from(lost)).max(0.0);
        measured.lost += f64::from(lost);
    }

    /// Begins anew, together with the lane.
    pub fn reset(&mut self) {
        let (changes, rest) = (self.changes, self.rest);
        *self = Pilot::new(self.aims);
        (self.changes, self.rest) = (changes, rest);
    }

    /// Checks the plan if it is time. Returns true if it has changed.
    pub fn look(&mut self, now: Time, link: &Link) -> bool {
        let (share, is_over) = self.recent.share(link.share, self.run);
        // A queue's losses say nothing about the path: the mean begins anew when repair may begin again.
        if !link.is_random || now < self.rests_until {
            self.steady = Steady::default();
        }
        let (share, run) = self.steady.look(now, share, self.run);
        self.usual_run = run;
        let link = &Link { share, ..*link };
        if !link.is_random && self.plan.share.is_some() {
            self.rests_until = now + self.rest;
            self.rest = (self.rest * 2).min(REST_MOST);
        }
        let grown = link.share > self.made_for * ALARM && link.share > ALARM_SHARE;
        let runs_longer = link.share > ALARM_SHARE && run > self.made_for_run * LONGER_RUNS;
        let is_alarm =
            grown || runs_longer || is_over || self.plan.share.is_some() && !link.is_random;
        // Packets that begin to pass do not wait a second for protection.
        let is_due = now.since(self.looked) >= EVERY || self.begins();
        if !is_due && !is_alarm {
            return false;
        }
        if is_due {
            self.looked = now;
            self.passed = self.passing.take();
            self.note_lengths();
        }
        (self.made_for, self.made_for_run) = (link.share, run);
        let next = self.choose(now, link, is_over);
        let is_new = next.share != self.plan.share;
        self.plan = next;
        if is_new {
            self.changes += 1;
            self.planned_for = link.share;
            (self.measured, self.stale_reports) = (Measured::default(), STALE_REPORTS);
        }
        is_new
    }

    /// Returns the plan for the packets that passed last. `is_over`: losses have ended just now.
    fn choose(&mut self, now: Time, link: &Link, is_over: bool) -> Plan {
        let passed = self.passed;
        let (target, target_of) = passed.wishes.target(&self.aims);
        let idle = Plan {
            target,
            target_of,
            most: passed.wishes.most(&self.aims, passed.is_single()),
            ..Plan::default()
        };
        let repairs = self.aims.protect.repairs();
        if passed.packets == 0 {
            // The plan is checked as soon as packets pass again. Until then they are covered like the previous packets.
            let same = |reason| Plan {
                reason,
                ..self.plan
            };
            return match (repairs, link.is_random) {
                (false, _) => same(Reason::Configured),
                (true, true) => same(Reason::Idle),
                (true, false) => idle.rests(Reason::Queue),
            };
        }
        // If no packet wants repair, the plan still says what requests leave.
        let Some(slack) = passed.slack.or(passed.unwanted_slack) else {
            return idle.rests(Reason::NoTime);
        };
        let slack = slack.saturating_sub(link.longer);
        let losses = Losses::of(link.share, self.usual_run);
        let seen = (&passed.spacing.seen(losses), passed.interval());
        let leaves = |slack: Duration| asked(losses, link.rtt, slack, seen, link.strikes);
        // Requests are enough for packets that have more time than this.
        let enough = (1..=MOST_ROUNDS)
            .map(|n| link.rtt.usual.div(2) * n + passed.interval())
            .find(|slack| leaves(*slack) <= target);
        let plan = Plan {
            requests: leaves(slack),
            cover_below: enough.unwrap_or(Duration::MAX),
            requests_lack: enough
                .map(|enough| enough.saturating_sub(slack))
                .filter(|lack| *lack > Duration::ZERO),
            ..idle
        };
        if !repairs {
            return plan.rests(Reason::Configured);
        }
        if passed.slack.is_none() {
            return plan.rests(match passed.wanted {
                0 => Reason::Unwanted,
                _ => Reason::NoTime,
            });
        }
        if !link.takes_repair {
            return plan.rests(Reason::Neighbour);
        }
        if !link.is_random || now < self.rests_until {
            return plan.rests(Reason::Queue);
        }
        if link.share > LOSS_MOST {
            return plan.rests(Reason::Hopeless);
        }
        let is_forced = self.aims.protect == Protect::Hop;
        if !is_forced && link.share < LOSS_LEAST && self.plan.share.is_none() {
            return plan.rests(Reason::Clean);
        }
        let spare = SPARE + (link.rtt.usual - link.rtt.least).div(2);
        let time = slack.saturating_sub(spare);
        // If a window has more packets than a repair packet has ages, an age may be wrong by the distance of two
        // packets.
        let interval = passed.wanted_interval();
        let is_wide = time > interval * REPAIR_AGES as u64;
        let unsure = if is_wide { interval } else { Duration::ZERO };
        let time = time.saturating_sub(unsure);
        let follow = |reach: u32| steady(reach.min(link.span.saturating_sub(1)));
        let reaches = passed.spacing.wanted().reaches(time).map(follow);
        let cap = self.cap(plan.most);
        let mut case = Case {
            losses,
            predictions: &mut self.predictions,
            reaches,
            cap,
            // The fraction of the losses that requests leave.
            saved: plan.requests / link.share.max(f64::MIN_POSITIVE),
        };
        let dearest = case.shares().last();
        let Some(dearest) = dearest else {
            return plan.rests(Reason::Cap);
        };
        if is_forced {
            let share = case.fitted(dearest);
            return plan.with((share, case.leaves(share)), Reason::Configured);
        }
        let before = self.plan.share.map(|share| case.fitted(share));
        // If requests alone nearly reach the target, repair is not worth its cost.
        let requests_do = plan.requests <= target * TOLERANCE;
        let wanted = match requests_do {
            true => None,
            false => case.cheapest(target),
        };
        let Some(before) = before else {
            self.cheaper_since = None;
            return match (requests_do, wanted) {
                (true, _) => plan.rests(Reason::RequestsDo),
                (_, Some(found)) => plan.with(found, reason(found.1, target)),
                (_, None) if case.reach() == 0 => plan.rests(Reason::NoTime),
                (_, None) => plan.rests(Reason::Hopeless),
            };
        };
        let revised = Revised {
            plan,
            before,
            wanted,
            requests_do,
            target,
            is_clean: link.share < LOSS_LEAST,
            wait: match is_over {
                true => Duration::ZERO,
                false => cheaper_after(self.planned_for * f64::from(passed.packets)),
            },
        };
        revised.settle(now, &mut self.cheaper_since, &mut case)
    }

    fn note_lengths(&mut self) {
        let Some(evenness) = self.passed.evenness() else {
            return;
        };
        if self.evenness.len() == LENGTHS {
            self.evenness.pop_front();
        }
        self.evenness.push_back(evenness);
    }

    /// Returns the maximum number of repair packets per packet, considering that each is as long as the longest packet.
    fn cap(&self, most: f64) -> f64 {
        let mut evenness = [0.0; LENGTHS];
        let known = self.evenness.len();
        for (to, from) in evenness.iter_mut().zip(&self.evenness) {
            *to = *from;
        }
        evenness[..known].sort_unstable_by(f64::total_cmp);
        most * evenness[known / 2]
    }
}

/// The maximum number of half round trips that are tried as the time that requests need.
const MOST_ROUNDS: u64 = 14;

fn reason(predicted: f64, target: f64) -> Reason {
    match predicted <= target * TOLERANCE {
        true => Reason::RepairDoes,
        false => Reason::Cap,
    }
}

/// Rounds a reach down, so that it does not change with each packet more or less in a second.
fn steady(reach: u32) -> u32 {
    let step = (reach / 8).max(1);
    reach / step * step
}
