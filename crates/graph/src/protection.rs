//! What the protection of a link leaves lost: of packets with so much time left, with requests where they are in time
//! and coded repair within its cap.
//!
//! ```text
//!   loss, mean run, requests, cap (records)  ┐
//!   slack: the time left after the way       ┴─▶ left() ─┬─▶ expected latency (metric): slack = Tmax − T
//!                                                        ├─▶ delivery, best routes, "in time": by slack, in steps
//!                                                        ├─▶ audits: what a path promises
//!                                                        └─▶ explain
//! ```
//! There is one function for all of these, [`left`]. Comparisons of links take [`Left::compared`] from it, and all others what
//! stays lost. It follows the
//! prediction of the pilot, which chooses the protection of a lane (`overlay::realtime`), for one call: packets
//! [`Parameters::detect_us`] apart. A trunk has more packets in the same time and is left no more.
//!
//! - Requests: as the pilot predicts them. A run of losses is seen by the first packet behind it, then each round takes the
//!   round trip and an eighth of it, and what time is left is used for copies in the last one.
//! - Repair: the pilot walks over all states of a run of losses to predict what repair saves. Its results stand in a [`table`]
//!   here: one number for each of some losses, runs, shares of repair and packets that follow in time. Values between them are
//!   interpolated.
//! - The choice, as the pilot makes it: nothing beside requests that leave about [`TARGET`] or less, nor where hardly anything is
//!   lost or too much; else the smallest share that leaves no more than the target, or about as little as any that is allowed.
//!
//! All arithmetic is on integers, in shares of 2^32, as that of [`crate::metric`]: equal records give equal costs on every
//! node. No value depends on anything but a direction's own records, and none is below what a link would leave that loses
//! nothing: who lies about its protection gains no more than who lies about its loss.

pub mod table;

use crate::metric::{LinkCost, Parameters, Repair, unrepaired};

/// All packets, where shares are of 2^32.
pub const ALL: u64 = 1 << 32;

/// The share that may stay lost, of 2^32: 0.05 %.
///
/// Choice: the default of `protect_target`. Records do not tell the target: a lane that aims at less gains little by it, and
/// one that aims at much more is announced without repair.
pub const TARGET: u64 = ALL / 2_000;
/// Nothing is added to requests that leave no more than this.
const TOLERATED: u64 = 2 * TARGET;
/// Of fewer losses nothing is repaired, and of more (shares of 65 536: 0.05 % and 35 %).
const LOSS_LEAST: u16 = 33;
const LOSS_MOST: u16 = 22_938;
/// Repair that leaves more than this of what requests leave, in tenths, is not worth its bytes.
const WORTH_TENTHS: u64 = 7;
/// So many quarters of the least are about the least.
const NEARLY_QUARTERS: u64 = 5;
/// Lengths of runs of losses that are told apart.
const RUNS: u64 = 12;
/// Another copy of a request, or answer, follows after so long.
const REPEAT_AFTER_US: u64 = 2_000;
/// Rounds of requests that count. Choice: records may tell of 255, and what 16 leave is next to nothing.
const ROUNDS_MOST: u64 = 16;
/// Timers and hosts take so much of a packet's time.
const SPARE_US: u64 = 2_000;
/// Packets of which a repair packet tells the ages.
const AGES: u64 = 8;
/// The mean length of a run of losses where nobody tells, in 256ths: after a lost packet the next is lost with 25 %, as on the
/// paths of [Amir06 §II-C].
pub const RUN_USUAL_256THS: u16 = 341;

/// What the sender's end of a link tells of its real-time lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lane {
    /// The mean length of a run of losses, in 256ths of a packet.
    pub run_256ths: u16,
    /// Repair packets that are allowed per 16 packets of a single call; 0 without repair.
    pub repair_16ths: u8,
}

/// What stays lost on a link, in shares of 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// With requests alone.
    pub requests: u64,
    /// With all that protects the link.
    pub all: u64,
    /// With as much repair as the cap allows.
    least: u64,
}

impl Left {
    /// What stays lost with all that protects the link, 0 to 1.
    pub fn share(self) -> f64 {
        self.all as f64 / ALL as f64
    }

    /// The same for comparisons: with as much repair as the cap allows, and not below what is tolerated where requests leave
    /// more, so that a link that loses more, and is repaired the more for it, never looks better.
    pub fn compared(self) -> u64 {
        self.least.max(self.requests.min(TOLERATED))
    }
}

/// What stays lost or late on a link of packets that have `slack_us` left after the rest of their way: the time from
/// when they should have come until they are of no use.
///
/// Where the sender's end tells nothing of its lane, requests alone count, a one-way delay apart; and where the far end does
/// not tell how often it asks, the paper's single one. [Amir06 §IV-B]
pub fn left(link: LinkCost, slack_us: u64, parameters: &Parameters) -> Left {
    let same = |share: u64| Left {
        requests: share,
        all: share,
        least: share,
    };
    let Some(repair) = link.repair else {
        let (low, beyond) = unrepaired(link.loss);
        // Shares of 2^48, between nothing and all.
        return same(((low + beyond).max(0) >> 16) as u64);
    };
    let Some(lane) = repair.lane else {
        return same(rounds_apart(link, repair, slack_us, parameters));
    };
    let requests = requested(link, repair, lane, slack_us, parameters);
    let is_of_use = (LOSS_LEAST..=LOSS_MOST).contains(&link.loss) && requests > TOLERATED;
    match is_of_use {
        true => repaired(link.loss, requests, lane, reach(slack_us, parameters)),
        false => same(requests),
    }
}

/// What repair leaves of what requests leave.
fn repaired(loss: u16, requests: u64, lane: Lane, reach: u64) -> Left {
    let bare = Left {
        requests,
        all: requests,
        least: requests,
    };
    let Some(reach) = table::REACHES.iter().rposition(|told| *told <= reach) else {
        return bare;
    };
    let lost = u64::from(loss) << 16;
    // Of what repair leaves, requests save what they save of all.
    let of = |share: &table::OfShare| {
        let left = coded(loss, lane.run_256ths, &share[reach]);
        (u128::from(left) * u128::from(requests) / u128::from(lost)) as u64
    };
    let is_allowed =
        |(repairs, packets): &(u16, u16)| repairs * 16 <= packets * u16::from(lane.repair_16ths);
    let allowed = table::SHARES
        .iter()
        .take_while(|share| is_allowed(share))
        .count();
    let shares = &table::SAVED[..allowed];
    let Some(dearest) = shares.last().map(of) else {
        return bare;
    };
    // The dearer, the less is left.
    let enough = TARGET.max(dearest / 4 * NEARLY_QUARTERS);
    let at = shares.partition_point(|share| of(share) > enough);
    let found = shares.get(at).map_or(dearest, of);
    let worth = |left: u64| match left < requests / 10 * WORTH_TENTHS {
        true => left,
        false => requests,
    };
    Left {
        requests,
        all: worth(found),
        least: worth(dearest),
    }
}

/// p·qⁿ: each of the n requests whose answer can still be in time, a one-way delay apart, fails with the chance q.
fn rounds_apart(link: LinkCost, repair: Repair, slack_us: u64, parameters: &Parameters) -> u64 {
    /// The least time between two requests for a packet: the lane's own.
    const STRIKES_APART_US: u64 = 4_000;
    let way = u64::from(link.latency_us);
    let rounds = match slack_us.checked_sub(2 * way + u64::from(parameters.detect_us)) {
        None => 0,
        Some(left) => 1 + left / way.max(STRIKES_APART_US),
    };
    let mut left = u64::from(link.loss) << 16;
    for _ in 0..rounds.min(u64::from(repair.strikes)) {
        left = (left * u64::from(repair.fails)) >> 16;
    }
    left
}

/// How packets are lost, in shares of 2^32.
struct Losses {
    /// On the way.
    there: u64,
    /// On the way back, where requests go.
    back: u64,
    /// Of those behind one that is lost.
    burst: u64,
}

impl Losses {
    fn new(link: LinkCost, repair: Repair, lane: Lane) -> Losses {
        let there = u64::from(link.loss) << 16;
        let answered = ALL - (u64::from(repair.fails) << 16);
        let asked = ((answered << 16) / ((ALL - there) >> 16).max(1)).min(ALL);
        let run = u64::from(lane.run_256ths.max(256));
        Losses {
            there,
            back: ALL - asked,
            burst: (ALL - (ALL << 8) / run).max(there),
        }
    }

    /// That all copies of one packet are lost, sent one after the other.
    fn copies(&self, loss: u64, copies: u64) -> u64 {
        let again = self.burst.max(loss);
        (0..copies).fold(loss, |lost, _| times(lost, again))
    }
}

/// What requests leave.
fn requested(
    link: LinkCost,
    repair: Repair,
    lane: Lane,
    slack_us: u64,
    parameters: &Parameters,
) -> u64 {
    let losses = Losses::new(link, repair, lane);
    let round_trip = 2 * u64::from(link.latency_us);
    let apart = u64::from(parameters.detect_us).max(REPEAT_AFTER_US);
    let (mut left, mut reaches) = (0, losses.there);
    for run in 1..=RUNS {
        // A run is seen by the first packet behind it.
        let time = slack_us.checked_sub(apart * run);
        let Some(time) = time.filter(|time| *time >= round_trip && repair.strikes > 0) else {
            break;
        };
        let ends = match run {
            RUNS => reaches,
            _ => times(reaches, ALL - losses.burst),
        };
        reaches -= ends;
        left += times(ends, failing(&losses, round_trip, time, repair));
    }
    left + reaches
}

/// The share of packets for which all requests fail, of those with so much time left when they are asked for first.
fn failing(losses: &Losses, round_trip: u64, time: u64, repair: Repair) -> u64 {
    let round = round_trip + (round_trip / 8).max(1_000);
    let spare = time - round_trip;
    let more = (spare / round)
        .min(u64::from(repair.strikes) - 1)
        .min(ROUNDS_MOST);
    let rest = (spare - round * more) / REPEAT_AFTER_US;
    let requests = rest.min(2 + u64::from(more == 0));
    let answers = (rest - requests).min(1 + u64::from(more == 0));
    let asked = ALL - losses.copies(losses.back, requests);
    let answered = ALL - losses.copies(losses.there, answers);
    let last = ALL - times(asked, answered);
    let once = u64::from(repair.fails) << 16;
    (0..more).fold(last, |fails, _| times(fails, once))
}

/// Packets that follow before one is late.
fn reach(slack_us: u64, parameters: &Parameters) -> u64 {
    let apart = u64::from(parameters.detect_us).max(REPEAT_AFTER_US);
    let time = slack_us.saturating_sub(SPARE_US);
    // Of more packets than have their ages told, one is known to no less than the distance of two.
    let unsure = if time > apart * AGES { apart } else { 0 };
    (time - unsure) / apart
}

/// What a share of repair leaves of all packets.
fn coded(loss: u16, run_256ths: u16, runs: &table::OfReach) -> u64 {
    let (run, after) = place(&table::RUNS, run_256ths);
    let (at, beyond) = place(&table::LOSSES, loss);
    let between = |low: u64, high: u64, part: u64| low * (256 - part) + high * part;
    let of_run = |run: usize| {
        let of = |at: usize| {
            u64::from(runs[run.min(table::RUNS.len() - 1)][at.min(table::LOSSES.len() - 1)])
        };
        between(of(at), of(at + 1), beyond)
    };
    // In halvings, with 19 fractional bits: the table has 3, and each of two places between numbers 8.
    let halvings = between(of_run(run), of_run(run + 1), after);
    let part = halvings & ((1 << 19) - 1);
    // 2^-x is about 1 - x/2 between 0 and 1, at most 6 % more.
    let left = times(u64::from(loss) << 16, ALL - (part << 12));
    left >> (halvings >> 19)
}

/// Where a value lies among rising ones, and how far it is on to the next one, in 256ths.
fn place<const N: usize>(all: &[u16; N], value: u16) -> (usize, u64) {
    let at = all.iter().rposition(|it| *it <= value);
    match at {
        None => (0, 0),
        Some(at) if at + 1 == N => (at, 0),
        Some(at) => {
            let [low, high] = [at, at + 1].map(|at| u64::from(all[at]));
            (at, (u64::from(value) - low) * 256 / (high - low))
        }
    }
}

/// A share of a share.
fn times(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 32) as u64
}

#[cfg(test)]
mod tests;
