//! What protects a lane: nothing, requests, or requests and coded repair, and how much of it.
//!
//! ```text
//!   losses, runs  (the neighbour tells)  ┐
//!   round trip    (hellos)               ├─▶ each second, and when losses change ─▶ the cheapest plan that leaves
//!   time left, distance (packets)        ┘                                          what is aimed at, within the cap
//! ```
//!
//! A request takes a round trip and what it takes to see the gap. What has less time than the requests need that
//! leave no more than the target is covered by repair packets; what has more is not, and costs nothing.
//! The prediction for each share and window is in [`predict`]; a dearer plan comes at once, a cheaper one after
//! some seconds in which it would have done with room to spare, so that a plan stays in force under steady losses.
//!
//! Flows may have aims of their own. The plan is for the strictest target of the flows that want repair, within what all of
//! them may spend together; packets of a flow that is content with what requests leave are not covered.
//!
//! While the brake takes losses for a queue's nothing is added, nor for a while after: a link that repair has filled
//! would be filled by it again.

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

/// The plan is looked at so often.
const EVERY: Duration = Duration::from_secs(1);
/// And at once when losses have grown by so much, and by this share.
const ALARM: f64 = 2.0;
const ALARM_SHARE: f64 = 0.01;
/// Packets that tell how far apart they are.
const BEGINS: u32 = 4;
/// Fewer losses are no reason to do anything; of more, nothing that is added arrives.
const LOSS_LEAST: f64 = 0.0005;
const LOSS_MOST: f64 = 0.35;
/// A plan stays while it leaves no more than so many times the target.
pub const TOLERANCE: f64 = 2.0;
/// Runs of losses have become longer when they are so many times as long.
const LONGER_RUNS: f64 = 1.5;
/// Repair rests for so long after the brake has met a queue, then twice as long, up to the most.
const REST: Duration = Duration::from_secs(10);
const REST_MOST: Duration = Duration::from_secs(320);
/// Packets with less time than this after their way are late without any loss.
pub const SLACK_LEAST: Duration = Duration::from_millis(3);
/// Timers and hosts take so much of a packet's time, and what is found counts as older by up to 1 ms.
const SPARE: Duration = Duration::from_millis(2);
/// Repair packets are as long as the longest packet: its length against the mean counts as in the middle one of so many looks.
/// Choice: one long packet among those of a call, as keys are agreed on, makes a few repair packets long.
const LENGTHS: usize = 3;
/// What is known of the link when the plan is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// What it loses.
    pub share: f64,
    /// What a request and its answer take.
    pub rtt: RoundTrip,
    /// Losses are not a queue's, as far as the brake knows.
    pub is_random: bool,
    /// The neighbour takes repair packets.
    pub takes_repair: bool,
    /// Requests for one packet.
    pub strikes: u8,
    /// The way there has become longer of late by so much: packets have less time than was noted with them.
    pub longer: Duration,
    /// Packets over which a repair packet can reach.
    pub span: u32,
}

/// Chooses the plan of one lane.
#[derive(Debug)]
pub struct Pilot {
    aims: Aims,
    plan: Plan,
    passing: Passed,
    passed: Passed,
    /// The mean length of packets by the longest, of the last looks.
    evenness: VecDeque<f64>,
    looked: Time,
    /// The losses at the last look, and the mean length of their runs.
    made_for: f64,
    made_for_run: f64,
    /// The losses when the plan changed last.
    planned_for: f64,
    /// As the neighbour tells, and over some seconds.
    run: f64,
    usual_run: f64,
    steady: Steady,
    recent: Recent,
    /// Since when a cheaper plan would do.
    cheaper_since: Option<Time>,
    rests_until: Time,
    rest: Duration,
    changes: u64,
    told: Option<Told>,
    /// Reports that speak of packets of before the plan, still to come.
    stale_reports: u8,
    measured: Measured,
    predictions: Predictions,
}

/// What has become of packets under the plan in force: sums in which what is old counts less.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    packets: f64,
    lost: f64,
}

/// Packets over which is measured what stays lost: ten at the default target. Beyond, what is old counts half.
const MEASURED_OVER: f64 = 20_000.0;
/// After a change of the plan so many reports speak of packets of before it: losses are told one report later, and
/// one report may be on its way.
const STALE_REPORTS: u8 = 2;

/// What the neighbour has told of the lane, since some moment and up to now.
#[derive(Clone, Copy, Debug)]
struct Told {
    received: u32,
    lost: u32,
}

impl Pilot {
    /// A pilot that knows nothing.
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

    /// The plan in force.
    pub fn plan(&self) -> Plan {
        self.plan
    }

    /// How often it has changed.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// What has stayed lost under the plan in force, as the neighbour tells, and of about how many packets; none before
    /// it has told.
    pub fn measured(&self) -> Option<(f64, u64)> {
        let Measured { packets, lost } = self.measured;
        (packets > 0.0).then(|| ((lost / packets).clamp(0.0, 1.0), packets as u64))
    }

    /// Packets have begun to pass, and no plan has been made for them.
    #[inline]
    pub fn begins(&self) -> bool {
        self.passed.packets == 0 && self.passing.packets >= BEGINS && self.watches()
    }

    /// Repair packets may be sent, so what passes is to be looked at.
    pub fn watches(&self) -> bool {
        self.aims.protect.repairs()
    }

    /// Notes a packet that is sent: its length, the time that it has left after the rest of its way (none
    /// without a deadline), something that tells its flow from others, and what the flow's sender wants, if it says so. True
    /// if it is to be covered.
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

    /// The mean length of a run of losses, as the neighbour tells, in packets.
    pub fn run(&self) -> f64 {
        self.run
    }

    /// A hello tells how many datagrams have arrived, and how many were lost, since the one before.
    pub fn on_told(&mut self, arrived: u64, lost: u64) {
        self.recent.on_told(arrived, lost);
        self.steady.on_told(arrived + lost);
    }

    /// The link goes by another path: what was told was told of the one before.
    pub fn on_new_path(&mut self) {
        self.recent = Recent::default();
        self.steady = Steady::default();
    }

    /// The neighbour tells what has become of the packets.
    pub fn on_report(&mut self, received: u32, lost: u32, run: f64) {
        self.run = run.max(1.0);
        let before = self.told.replace(Told { received, lost });
        let Some(before) = before else {
            return;
        };
        let came = received.wrapping_sub(before.received);
        // Less than before is what was given up and has been found since.
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

    /// The lane begins anew.
    pub fn reset(&mut self) {
        let (changes, rest) = (self.changes, self.rest);
        *self = Pilot::new(self.aims);
        (self.changes, self.rest) = (changes, rest);
    }

    /// Looks at the plan if it is time. True when it has changed.
    pub fn look(&mut self, now: Time, link: &Link) -> bool {
        let (share, is_over) = self.recent.share(link.share, self.run);
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
        // What begins does not wait for a second without protection.
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

    /// `is_over`: losses have ended just now.
    fn choose(&mut self, now: Time, link: &Link, is_over: bool) -> Plan {
        let passed = self.passed;
        let (target, target_of) = passed.wishes.target(&self.aims);
        let idle = Plan {
            target,
            target_of,
            most: passed.wishes.most(&self.aims, passed.is_single()),
            ..Plan::default()
        };
        if !self.aims.protect.repairs() {
            return idle.rests(Reason::Configured);
        }
        if passed.packets == 0 {
            // What comes next is looked at as soon as it begins; until then it is covered as what came before was.
            return match link.is_random {
                true => Plan {
                    reason: Reason::Idle,
                    ..self.plan
                },
                false => idle.rests(Reason::Queue),
            };
        }
        // Of packets that want no repair it is told what they lose.
        let Some(slack) = passed.slack.or(passed.unwanted_slack) else {
            return idle.rests(Reason::NoTime);
        };
        let slack = slack.saturating_sub(link.longer);
        let losses = Losses::of(link.share, self.usual_run);
        let seen = (&passed.spacing.seen(losses), passed.interval());
        let leaves = |slack: Duration| asked(losses, link.rtt, slack, seen, link.strikes);
        // What has more time than this is saved by requests.
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
        // Of more packets than have their ages told, one is known to no less than the distance of two.
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
            // What requests save of what repair leaves.
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
        // What requests nearly do is not done dearer.
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

    /// Repair packets per packet that are allowed: each is as long as the longest packet.
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

/// Half round trips that are tried for the time that requests need.
const MOST_ROUNDS: u64 = 14;

fn reason(predicted: f64, target: f64) -> Reason {
    match predicted <= target * TOLERANCE {
        true => Reason::RepairDoes,
        false => Reason::Cap,
    }
}

/// A reach that does not change with each packet more or less in a second.
fn steady(reach: u32) -> u32 {
    let step = (reach / 8).max(1);
    reach / step * step
}
