//! The loss that remains under the protection of a link, for packets with a given time left. Protection consists of
//! requests, where they are in time, and of coded repair within its cap.
//!
//! ```text
//!   loss, mean run, requests, cap (records)  ┐
//!   slack: the time left after the way       ┴─▶ left() ─┬─▶ expected latency (metric): slack = Tmax − T
//!                                                        ├─▶ delivery, best routes, "in time": by slack, in steps
//!                                                        ├─▶ audits: what a path promises
//!                                                        └─▶ explain
//! ```
//! One function, [`left`], serves all of these. Comparisons of links use [`Left::compared`] of its result, and all
//! others use what stays lost. The function follows the prediction of the pilot, which chooses the protection of a lane
//! (`overlay::realtime`), for one call: packets [`Parameters::detect_us`] apart. A trunk has more packets in the same
//! time and loses no more.
//!
//! - Requests: predicted as the pilot predicts them. The first packet behind a run of losses reveals the run. Then each
//!   round takes the round trip and an eighth of it, and the time that remains is used for copies in the last round.
//! - Repair: the pilot walks over all states of a run of losses to predict what repair saves. A [`table`] holds its
//!   results here: one number for each combination of loss, run length, share of repair and number of packets that
//!   follow in time. Values in between are interpolated.
//! - The choice of repair, as the pilot makes it: no repair if requests leave about [`TARGET`] or less, if hardly
//!   anything is lost, or if too much is lost. Otherwise the smallest share that leaves no more than the target, or
//!   about as little as any allowed share.
//!
//! All arithmetic is on integers, in shares of 2^32, as in [`crate::metric`]: equal records give equal costs on every
//! node. Each value depends only on the records of its own direction. No value is below what a link leaves that loses
//! nothing: a node that lies about its protection gains no more than a node that lies about its loss.

pub mod table;

use crate::metric::{LinkCost, Parameters, Repair, unrepaired};

/// All packets, for shares of 2^32.
pub const ALL: u64 = 1 << 32;

/// The share that may stay lost, of 2^32: 0.05 %.
///
/// Choice: the default of `protect_target`. Records do not carry the target: a lane with a lower target gains little by
/// it, and a lane with a much higher target is announced without repair.
pub const TARGET: u64 = ALL / 2_000;
/// If requests leave no more than this, no repair is added.
const TOLERATED: u64 = 2 * TARGET;
/// The range of losses that are repaired, as shares of 65 536: 0.05 % to 35 %.
const LOSS_LEAST: u16 = 33;
const LOSS_MOST: u16 = 22_938;
/// Repair must leave less than this of what requests leave, in tenths. Otherwise it is not worth its bytes.
const WORTH_TENTHS: u64 = 7;
/// Losses up to this many quarters of the least count as about the least.
const NEARLY_QUARTERS: u64 = 5;
/// Number of lengths of runs of losses that are distinguished.
const RUNS: u64 = 12;
/// The time between two copies of a request or an answer.
const REPEAT_AFTER_US: u64 = 2_000;
/// The maximum number of rounds of requests that count. Choice: records may report up to 255, but what 16 rounds leave
/// is next to nothing.
const ROUNDS_MOST: u64 = 16;
/// The part of a packet's time that timers and hosts take.
const SPARE_US: u64 = 2_000;
/// Number of packets whose ages a repair packet contains.
const AGES: u64 = 8;
/// The mean length of a run of losses if no record reports it, in 256ths: after a lost packet the next is lost with 25
/// %, as on the paths of [Amir06 §II-C].
pub const RUN_USUAL_256THS: u16 = 341;

/// The sender's report of the real-time lane of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lane {
    /// The mean length of a run of losses, in 256ths of a packet.
    pub run_256ths: u16,
    /// Number of repair packets that are allowed per 16 packets of a single call; 0 without repair.
    pub repair_16ths: u8,
}

/// The share that stays lost on a link, in shares of 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// The share that stays lost with requests alone.
    pub requests: u64,
    /// The share that stays lost with all the protection of the link.
    pub all: u64,
    /// The share that stays lost with as much repair as the cap allows.
    least: u64,
}

impl Left {
    /// Returns the share that stays lost with all the protection of the link, 0 to 1.
    pub fn share(self) -> f64 {
        self.all as f64 / ALL as f64
    }

    /// Returns the share for comparisons: the share that the maximum of repair leaves. Where requests leave more than
    /// is tolerated, it is at least the tolerated share. So a link that loses more, and is repaired more for that
    /// reason, never looks better.
    pub fn compared(self) -> u64 {
        self.least.max(self.requests.min(TOLERATED))
    }
}

/// Returns what stays lost or late on a link, of packets that have `slack_us` left after the rest of their path: the
/// time from when they should have arrived until they are of no use.
///
/// If the sender's end reports nothing of its lane, only requests count, a one-way delay apart. If the far end does not
/// report how often it requests a packet, the paper's single request counts. [Amir06 §IV-B]
pub fn left(link: LinkCost, slack_us: u64, parameters: &Parameters) -> Left {
    let same = |share: u64| Left {
        requests: share,
        all: share,
        least: share,
    };
    let Some(repair) = link.repair else {
        let (low, beyond) = unrepaired(link.loss);
        // These are shares of 2^48, limited to the range from nothing to all.
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

/// Returns what repair leaves of what requests leave.
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
    // Requests save the same share of what repair leaves as they save of all losses.
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
    // The more repair a share costs, the less it leaves, so the shares are sorted.
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

/// Returns p·qⁿ: each of the n requests whose answer can still be in time, a one-way delay apart, fails with the
/// probability q.
fn rounds_apart(link: LinkCost, repair: Repair, slack_us: u64, parameters: &Parameters) -> u64 {
    /// The least time between two requests for a packet, which the lane sets.
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

/// The rates at which packets are lost, in shares of 2^32.
struct Losses {
    /// The loss in the forward direction.
    there: u64,
    /// The loss in the backward direction, which requests take.
    back: u64,
    /// The loss among packets that follow a lost one.
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

    /// Returns the probability that all copies of one packet are lost if they are sent one after the other.
    fn copies(&self, loss: u64, copies: u64) -> u64 {
        let again = self.burst.max(loss);
        (0..copies).fold(loss, |lost, _| times(lost, again))
    }
}

/// Returns the share that requests leave.
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
        // The first packet behind a run reveals the run.
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

/// Returns the share of packets for which all requests fail, of packets with this time left at the first request.
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

/// Returns the number of packets that follow before a packet is late.
fn reach(slack_us: u64, parameters: &Parameters) -> u64 {
    let apart = u64::from(parameters.detect_us).max(REPEAT_AFTER_US);
    let time = slack_us.saturating_sub(SPARE_US);
    // A repair packet contains the ages of only so many packets. With more packets, an age is known only up to the
    // distance of two packets.
    let unsure = if time > apart * AGES { apart } else { 0 };
    (time - unsure) / apart
}

/// Returns what a share of repair leaves of all packets.
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
    // The number is in halvings, with 19 fractional bits: the table has 3, and each of the two interpolations adds 8.
    let halvings = between(of_run(run), of_run(run + 1), after);
    let part = halvings & ((1 << 19) - 1);
    // 2^-x is about 1 - x/2 between 0 and 1; the error is at most 6 %.
    let left = times(u64::from(loss) << 16, ALL - (part << 12));
    left >> (halvings >> 19)
}

/// Returns the position of a value among rising values, and its distance to the next one, in 256ths.
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

/// Multiplies two shares.
fn times(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 32) as u64
}

#[cfg(test)]
mod tests;
