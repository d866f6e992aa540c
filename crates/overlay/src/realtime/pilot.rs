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
//! While the brake takes losses for a queue's nothing is added, nor for a while after: a link that repair has filled
//! would be filled by it again.

mod predict;
#[cfg(test)]
mod tests;

pub use predict::{Losses, repair, requests};

use predict::Predictions;

use super::{RoundTrip, SPAN, Share};
use base::{Duration, Time};
use core::fmt;
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
/// Before a cheaper plan is taken it must have been good enough for so long, with so much to spare.
const CHEAPER_AFTER: Duration = Duration::from_secs(10);
const TO_SPARE: f64 = 3.0;
/// A plan stays while it leaves no more than so many times the target.
const TOLERANCE: f64 = 2.0;
/// Repair is not worth its bytes where it leaves more than this of what is lost.
const WORTH: f64 = 0.7;
/// What is missing to the target by so little is not worth a dearer plan.
const NEARLY: f64 = 1.25;
/// Repair rests for so long after the brake has met a queue, then twice as long, up to the most.
const REST: Duration = Duration::from_secs(10);
const REST_MOST: Duration = Duration::from_secs(320);
/// Packets with less time than this after their way are late without any loss.
const SLACK_LEAST: Duration = Duration::from_millis(3);
/// Timers and hosts take so much of a packet's time, and what is found counts as older by up to 1 ms.
const SPARE: Duration = Duration::from_millis(2);
/// Without a deadline an answer is of use so long.
const NO_DEADLINE: Duration = Duration::from_millis(500);
/// The shortest pause: it does not count as a distance of packets.
const PAUSE: Duration = Duration::from_millis(150);
/// Kinds of flows that are told apart, by a hash: enough to tell one from several.
const KINDS: usize = 32;

/// What the operator wants done about losses on real-time lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protect {
    /// What the target takes.
    #[default]
    Auto,
    /// Nothing at all.
    Off,
    /// Requests and answers.
    Requests,
    /// Requests, and repair up to the cap for all that they cannot save, whatever is lost.
    Hop,
}

impl Protect {
    /// The name in files.
    pub const fn label(self) -> &'static str {
        match self {
            Protect::Auto => "auto",
            Protect::Off => "off",
            Protect::Requests => "requests",
            Protect::Hop => "hop",
        }
    }

    /// The one of a name.
    pub fn of_label(label: &str) -> Option<Protect> {
        let all = [Protect::Auto, Protect::Off, Protect::Requests, Protect::Hop];
        all.into_iter().find(|protect| protect.label() == label)
    }

    /// Repair packets may be sent.
    pub const fn repairs(self) -> bool {
        matches!(self, Protect::Auto | Protect::Hop)
    }
}

/// How much may be left, and how much may be added.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aims {
    /// What to do.
    pub protect: Protect,
    /// The share of packets that may stay lost.
    pub target: f64,
    /// The most repair packets per packet, of a lane with several flows and of one with a single one.
    pub most: f64,
    /// See [`Aims::most`].
    pub most_single: f64,
}

impl Default for Aims {
    fn default() -> Aims {
        Aims {
            // Choice: repair by itself, since a long link gains nothing from requests and nobody looks for a
            // setting. It adds bytes only where requests come too late, half of a lane's or all of a single call's at
            // most, and none while the link has too little room.
            protect: Protect::Auto,
            target: 0.0005,
            most: 0.5,
            most_single: 1.0,
        }
    }
}

/// Why a lane is protected as it is, and not better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reason {
    /// Nothing passes, or nothing is known yet.
    #[default]
    Idle,
    /// Hardly anything is lost.
    Clean,
    /// Requests leave no more than the target.
    RequestsDo,
    /// Repair leaves no more than the target.
    RepairDoes,
    /// More would exceed the cap.
    Cap,
    /// No packet has time for any repair.
    NoTime,
    /// So much is lost that repair packets would hardly help.
    Hopeless,
    /// The neighbour takes no repair packets: its version is older.
    Neighbour,
    /// Losses are, or were, a queue's.
    Queue,
    /// The configuration says so.
    Configured,
}

impl Reason {
    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Reason::Idle => "nothing passes",
            Reason::Clean => "hardly anything is lost",
            Reason::RequestsDo => "requests leave no more than the target",
            Reason::RepairDoes => "repair leaves no more than the target",
            Reason::Cap => "more would exceed the cap",
            Reason::NoTime => "deadlines leave no time for repair",
            Reason::Hopeless => "too much is lost",
            Reason::Neighbour => "the neighbour takes no repair packets",
            Reason::Queue => "losses are a queue's",
            Reason::Configured => "as configured",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// A plan, and what it is expected to do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Plan {
    /// Repair, if any is added.
    pub share: Option<Share>,
    /// Packets with less time left after their way are covered.
    pub cover_below: Duration,
    /// The share of packets that will stay lost.
    pub predicted: f64,
    /// The same with requests alone.
    pub requests: f64,
    /// With so much more time for its packets requests alone would leave no more than the target; none if they
    /// would never, or do already.
    pub requests_lack: Option<Duration>,
    /// Why no better.
    pub reason: Reason,
}

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
}

/// What passed in a second.
#[derive(Clone, Copy, Debug, Default)]
struct Passed {
    packets: u32,
    bytes: u64,
    longest: usize,
    /// The least time that a packet with a deadline had left after its way, of those that had any.
    slack: Option<Duration>,
    is_late: bool,
    gaps: Duration,
    gaps_counted: u32,
    kinds: [u32; KINDS],
}

impl Passed {
    fn interval(&self) -> Duration {
        match self.gaps_counted {
            0 => Duration::from_millis(20),
            n => self.gaps.div(u64::from(n)).max(Duration::from_micros(1)),
        }
    }

    /// One flow has nearly all packets: a call's reports beside its voice are no second one.
    fn is_single(&self) -> bool {
        let most = self.kinds.iter().max().copied().unwrap_or_default();
        most * 5 > self.packets * 4
    }
}

/// Chooses the plan of one lane.
#[derive(Debug)]
pub struct Pilot {
    aims: Aims,
    plan: Plan,
    passing: Passed,
    passed: Passed,
    last_packet: Time,
    looked: Time,
    /// The losses that the plan was made for.
    made_for: f64,
    run: f64,
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
            plan: Plan::default(),
            passing: Passed::default(),
            passed: Passed::default(),
            last_packet: Time::ZERO,
            looked: Time::ZERO,
            made_for: 0.0,
            run: 1.0,
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
    /// without a deadline), and something that tells its flow from others. True if it is to be covered.
    #[inline]
    pub fn on_sent(&mut self, now: Time, bytes: usize, slack: Option<Duration>, flow: u64) -> bool {
        let passing = &mut self.passing;
        passing.packets += 1;
        passing.bytes += bytes as u64;
        passing.longest = passing.longest.max(bytes);
        passing.kinds[(flow % KINDS as u64) as usize] += 1;
        let gap = now.since(self.last_packet);
        if gap < PAUSE {
            passing.gaps += gap;
            passing.gaps_counted += 1;
        }
        self.last_packet = now;
        let slack = slack.unwrap_or(NO_DEADLINE);
        if slack < SLACK_LEAST {
            passing.is_late = true;
            return false;
        }
        passing.slack = Some(passing.slack.map_or(slack, |least| least.min(slack)));
        self.plan.share.is_some() && slack < self.plan.cover_below
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
        if !link.is_random && self.plan.share.is_some() {
            self.rests_until = now + self.rest;
            self.rest = (self.rest * 2).min(REST_MOST);
        }
        let grown = link.share > self.made_for * ALARM && link.share > ALARM_SHARE;
        let is_alarm = grown || self.plan.share.is_some() && !link.is_random;
        // What begins does not wait for a second without protection.
        let is_due = now.since(self.looked) >= EVERY || self.begins();
        if !is_due && !is_alarm {
            return false;
        }
        if is_due {
            self.looked = now;
            self.passed = core::mem::take(&mut self.passing);
        }
        self.made_for = link.share;
        let next = self.choose(now, link);
        let is_new = next.share != self.plan.share;
        self.plan = next;
        if is_new {
            self.changes += 1;
            (self.measured, self.stale_reports) = (Measured::default(), STALE_REPORTS);
        }
        is_new
    }

    fn choose(&mut self, now: Time, link: &Link) -> Plan {
        let rest = |plan: Plan, reason: Reason| Plan {
            share: None,
            predicted: plan.requests,
            reason,
            ..plan
        };
        let passed = self.passed;
        let idle = Plan::default();
        if !self.aims.protect.repairs() {
            return rest(idle, Reason::Configured);
        }
        if passed.packets == 0 {
            // What comes next is looked at as soon as it begins; until then it is covered as what came before was.
            return match link.is_random {
                true => Plan {
                    reason: Reason::Idle,
                    ..self.plan
                },
                false => rest(idle, Reason::Queue),
            };
        }
        let Some(slack) = passed.slack else {
            return rest(idle, Reason::NoTime);
        };
        let losses = Losses::of(link.share, self.run);
        let leaves =
            |slack: Duration| requests(losses, link.rtt, slack, passed.interval(), link.strikes);
        let target = self.aims.target;
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
        if !link.takes_repair {
            return rest(plan, Reason::Neighbour);
        }
        if !link.is_random || now < self.rests_until {
            return rest(plan, Reason::Queue);
        }
        if link.share > LOSS_MOST {
            return rest(plan, Reason::Hopeless);
        }
        let is_forced = self.aims.protect == Protect::Hop;
        if !is_forced && link.share < LOSS_LEAST && self.plan.share.is_none() {
            return rest(plan, Reason::Clean);
        }
        let spare = SPARE + (link.rtt.usual - link.rtt.least).div(2);
        let time = slack.saturating_sub(spare);
        // Of more packets than have their ages told, one is known to no less than the distance of two.
        let is_wide = time > passed.interval() * REPAIR_AGES as u64;
        let unsure = if is_wide {
            passed.interval()
        } else {
            Duration::ZERO
        };
        let time = time.saturating_sub(unsure);
        let reach = (time.as_nanos() / passed.interval().as_nanos()).min(SPAN as u64 - 1);
        let reach = steady(reach as u32);
        let cap = self.cap(&passed);
        let mut case = Case {
            losses,
            predictions: &mut self.predictions,
            reach,
            cap,
            // What requests save of what repair leaves.
            saved: plan.requests / link.share.max(f64::MIN_POSITIVE),
        };
        let dearest = case.shares().last();
        let Some(dearest) = dearest else {
            return rest(plan, Reason::Cap);
        };
        let with = |(share, predicted): (Share, f64), reason: Reason| Plan {
            share: Some(share),
            predicted,
            reason,
            ..plan
        };
        if is_forced {
            let share = case.fitted(dearest);
            return with((share, case.leaves(share)), Reason::Configured);
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
                (true, _) => rest(plan, Reason::RequestsDo),
                (_, Some(found)) => with(found, reason(found.1, target)),
                (_, None) if reach == 0 => rest(plan, Reason::NoTime),
                (_, None) => rest(plan, Reason::Hopeless),
            };
        };
        // There is a plan: it stays unless it leaves too much, or much less would do for long.
        let present = (before, case.leaves(before));
        let is_within = before.ratio() <= case.cap;
        let dearer =
            wanted.filter(|(share, _)| share.ratio() >= before.ratio() && *share != before);
        if let Some(found) = dearer
            && present.1 > target * TOLERANCE
            && found.1 * NEARLY < present.1
        {
            self.cheaper_since = None;
            return with(found, reason(found.1, target));
        }
        let easy = target / TO_SPARE;
        let cheaper = match plan.requests <= easy || link.share < LOSS_LEAST {
            true => Some(None),
            false => case
                .cheapest(easy)
                .filter(|(share, _)| share.ratio() < before.ratio())
                .map(Some),
        };
        let cheaper = match (cheaper, wanted) {
            // Nothing that is allowed helps any more.
            (None, None) if !requests_do => Some(None),
            (cheaper, _) => cheaper,
        };
        let Some(cheaper) = cheaper else {
            self.cheaper_since = None;
            return with(present, reason(present.1, target));
        };
        let since = *self.cheaper_since.get_or_insert(now);
        if is_within && now.since(since) < CHEAPER_AFTER {
            return with(present, reason(present.1, target));
        }
        self.cheaper_since = None;
        match cheaper {
            Some(found) => with(found, reason(found.1, target)),
            None if plan.requests <= target => rest(plan, Reason::RequestsDo),
            None => rest(plan, Reason::Clean),
        }
    }

    /// Repair packets per packet that are allowed: each is as long as the longest packet.
    fn cap(&self, passed: &Passed) -> f64 {
        let most = match passed.is_single() {
            true => self.aims.most_single,
            false => self.aims.most,
        };
        let mean = passed.bytes as f64 / f64::from(passed.packets.max(1));
        most * mean / passed.longest.max(1) as f64
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

/// Repair packets per packets, rising. Choice: each leaves about half to a third of what the one before leaves.
const SHARES: [(u32, u32); 12] = [
    (1, 10),
    (1, 8),
    (1, 6),
    (1, 5),
    (1, 4),
    (3, 10),
    (1, 3),
    (2, 5),
    (1, 2),
    (2, 3),
    (1, 1),
    (2, 1),
];

/// What there is to choose from.
struct Case<'a> {
    losses: Losses,
    predictions: &'a mut Predictions,
    /// Packets that follow before a packet is late.
    reach: u32,
    cap: f64,
    saved: f64,
}

impl Case<'_> {
    /// What is allowed, rising.
    fn shares(&self) -> impl DoubleEndedIterator<Item = Share> + use<> {
        // A cap of a half allows a half, whatever rounding makes of it; packets of different lengths take more.
        let cap = self.cap * 1.001;
        let allowed =
            move |(repairs, packets): &(u32, u32)| f64::from(*repairs) <= f64::from(*packets) * cap;
        let width = self.reach + 1;
        SHARES
            .into_iter()
            .filter(allowed)
            .map(move |(repairs, packets)| Share {
                repairs,
                packets,
                lag: 0,
                width,
            })
    }

    /// A share over the window that there is now; copies stay what they are.
    fn fitted(&self, share: Share) -> Share {
        match share.lag > 0 && share.lag <= self.reach {
            true => share,
            false => Share {
                lag: 0,
                width: self.reach + 1,
                ..share
            },
        }
    }

    fn leaves(&mut self, share: Share) -> f64 {
        self.predictions.repair(self.losses, share, self.reach) * self.saved
    }

    /// The cheapest that leaves no more than the target, or about the least.
    fn cheapest(&mut self, target: f64) -> Option<(Share, f64)> {
        let shares: Vec<Share> = self.shares().collect();
        let dearest = self.best_of(*shares.last()?);
        let enough = target.max(dearest.1 * NEARLY);
        // The dearer, the less is left.
        let at = shares.partition_point(|share| self.best_of(*share).1 > enough);
        let found = shares.get(at).map_or(dearest, |share| self.best_of(*share));
        let before = self.losses.share * self.saved;
        (found.1 < before * WORTH).then_some(found)
    }

    /// Combinations of the last packets or, of as many repair packets as packets, copies that come later: they
    /// survive longer runs.
    fn best_of(&mut self, share: Share) -> (Share, f64) {
        let mut best = (share, self.leaves(share));
        let most = match share.repairs == share.packets {
            true => self.reach.min(LAG_MOST),
            false => 0,
        };
        for lag in 1..=most {
            let copies = Share {
                lag,
                width: 1,
                ..share
            };
            let leaves = repair(self.losses, copies, self.reach) * self.saved;
            if leaves < best.1 {
                best = (copies, leaves);
            }
        }
        best
    }
}

/// Packets that a copy comes later at most: the longest runs that are no outages.
const LAG_MOST: u32 = 8;

/// A reach that does not change with each packet more or less in a second.
fn steady(reach: u32) -> u32 {
    let step = (reach / 8).max(1);
    reach / step * step
}
