//! Predicts what a plan leaves lost, from the losses of the link and the time that packets have.
//!
//! The model of losses is a chain with two states. A share and the mean length of runs determine it:
//!
//! ```text
//!   p(lost | lost before) = burst        p(lost | not lost before) = share (1 - burst) / (1 - share)
//! ```
#![expect(
    clippy::needless_range_loop,
    reason = "a state indexes two chains at once"
)]

use super::super::{LastRound, REPEAT_AFTER, RoundTrip, Share};
use super::spacing::{Seen, Spacing};
use base::Duration;

/// The largest share and the largest burst for which there is a prediction. A burst is never less than its share.
const MOST: f64 = 0.98;

/// Losses on the path to the neighbour.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Losses {
    /// The share of datagrams that are lost.
    pub share: f64,
    /// The share of datagrams that are lost among those directly behind a lost one.
    pub burst: f64,
}

impl Losses {
    /// Returns the losses with this share and this mean length of a run.
    pub fn of(share: f64, run: f64) -> Losses {
        let share = share.clamp(0.0, MOST);
        // Runs of independent losses are 1 / (1 - share) long.
        let burst = (1.0 - 1.0 / run.max(1.0)).clamp(share, MOST);
        Losses { share, burst }
    }

    /// Returns the share of datagrams that are lost among those directly behind one that has arrived.
    fn fresh(&self) -> f64 {
        self.share * (1.0 - self.burst) / (1.0 - self.share)
    }

    /// Returns the share of datagrams that are lost among those sent `datagrams` datagrams behind a lost one.
    pub(in super::super) fn after(&self, datagrams: f64) -> f64 {
        let keeps = (self.burst - self.fresh()).max(0.0);
        self.share + (1.0 - self.share) * keeps.powf(datagrams)
    }
}

/// Returns the share of packets that stays lost with requests. `slack` is the time that packets have left after the
/// rest of their path: from when a packet should have arrived until it is useless. `seen` says how long it takes until
/// a loss is seen, and `interval` is the mean distance of packets.
pub(super) fn asked(
    losses: Losses,
    rtt: RoundTrip,
    slack: Duration,
    (seen, interval): (&Seen, Duration),
    strikes: u8,
) -> f64 {
    let fails = |after: Duration| {
        let time = slack.saturating_sub(after);
        rounds(losses, rtt, time, interval, strikes)
    };
    let share: f64 = seen
        .delays()
        .map(|(after, share)| share * fails(after))
        .sum();
    losses.share * share
}

/// Returns the share of packets that stays lost with requests, for packets that follow each other evenly.
pub fn requests(
    losses: Losses,
    rtt: RoundTrip,
    slack: Duration,
    interval: Duration,
    strikes: u8,
) -> f64 {
    let mut even = Spacing::default();
    even.push(interval, true);
    asked(losses, rtt, slack, (&even.seen(losses), interval), strikes)
}

/// Returns the share of packets that requests do not recover, of those with this time left at the first request.
fn rounds(losses: Losses, rtt: RoundTrip, time: Duration, interval: Duration, strikes: u8) -> f64 {
    if strikes == 0 || time < rtt.least || rtt.usual == Duration::ZERO {
        return 1.0;
    }
    let round = rtt.usual + rtt.usual.div(8).max(Duration::from_millis(1));
    let spare = time.saturating_sub(rtt.usual);
    let more = (spare.as_nanos() / round.as_nanos().max(1)).min(u64::from(strikes) - 1);
    // If there is time, another copy or request follows after 2 ms, which is this many datagrams later.
    let rest = (spare - round * more).as_nanos() / REPEAT_AFTER.as_nanos();
    let apart = REPEAT_AFTER.as_secs_f64() / interval.as_secs_f64().max(1e-6);
    let again = losses.after(apart.max(1.0)).max(losses.share);
    let way = |copies: u64| losses.share * again.powi(copies as i32);
    let once = 1.0 - (1.0 - losses.share) * (1.0 - losses.share);
    let (is_only, last) = (more == 0, LastRound::lasting(losses, apart));
    let requests = rest.min(u64::from(last.requests(is_only)) - 1);
    // Choice: an answer follows one of the first requests, so further ones take no time from its copies.
    let first = u64::from(LastRound::LEAST.requests(is_only)) - 1;
    let answers = rest
        .saturating_sub(first)
        .min(u64::from(last.answers(is_only)) - 1);
    let last = 1.0 - (1.0 - way(requests)) * (1.0 - way(answers));
    once.powi(more as i32) * last
}

/// Maximum number of unknowns at a time that the prediction follows. If there are more, they count as never restored.
const DEFICIT: usize = 16;
/// Maximum of [`Share::packets`], each of which is a phase.
const PHASES: usize = 10;

/// A value for each state of the chain: the number of unknowns without a repair packet, and whether the last datagram
/// was lost.
type Chain = [[f64; 2]; DEFICIT + 1];

/// Returns the share of packets that stays lost with repair by a perfect code: a run of unknowns is restored when as
/// many repair packets have arrived since the run began as packets are missing. A packet is restored in time if this
/// happens before more than `reach` further packets have followed it.
///
/// The walk is exact for the chain of losses.
pub fn repair(losses: Losses, share: Share, reach: u32) -> f64 {
    if share.width == 1 && share.repairs == share.packets {
        // The copy comes `lag` packets later, and each packet has a repair packet behind it.
        let apart = f64::from(2 * share.lag + 1);
        return match share.lag <= reach {
            true => losses.share * losses.after(apart),
            false => losses.share,
        };
    }
    let walk = Walk { losses, share };
    let phases = (share.packets as usize).clamp(1, PHASES);
    // The probability of not being restored within m packets, by the state after the repair packets of a packet.
    let mut behind = vec![[[1.0; 2]; DEFICIT + 1]; phases];
    for chain in &mut behind {
        chain[0] = [0.0; 2];
    }
    for _ in 0..reach {
        behind = (0..phases)
            .map(|phase| {
                let next = (phase + 1) % phases;
                let after = walk.repaired_back(&behind[next], next);
                walk.original_back(&after)
            })
            .collect();
    }
    let late: Vec<Chain> = (0..phases)
        .map(|phase| walk.repaired_back(&behind[phase], phase))
        .collect();
    // These count how often a loss occurs in which state, from the beginning of a run of unknowns on.
    let (mut lost, mut missed) = (0.0, 0.0);
    for begin in 0..phases {
        let mut at = [[0.0; 2]; DEFICIT + 1];
        at[1][1] = 1.0;
        for step in 0..=reach as usize {
            let phase = (begin + step) % phases;
            for deficit in 1..=DEFICIT {
                lost += at[deficit][1];
                missed += at[deficit][1] * late[phase][deficit][1];
            }
            at = walk.original(&walk.repaired(&at, phase));
        }
    }
    losses.share * missed / lost.max(f64::MIN_POSITIVE)
}

struct Walk {
    losses: Losses,
    share: Share,
}

impl Walk {
    /// Returns the share of datagrams that are lost behind one that was lost (1) or was not (0).
    fn lost(&self, before: usize) -> f64 {
        match before {
            1 => self.losses.burst,
            _ => self.losses.fresh(),
        }
    }

    /// Returns the number of repair packets that follow the packet of a phase.
    fn repairs(&self, phase: usize) -> u32 {
        let earned = |packets: u32| packets * self.share.repairs / self.share.packets.max(1);
        earned(phase as u32 + 1) - earned(phase as u32)
    }

    fn repaired_back(&self, after: &Chain, phase: usize) -> Chain {
        let mut chain = *after;
        for _ in 0..self.repairs(phase) {
            let mut before = [[0.0; 2]; DEFICIT + 1];
            for deficit in 1..=DEFICIT {
                for state in 0..2 {
                    let lost = self.lost(state);
                    before[deficit][state] =
                        lost * chain[deficit][1] + (1.0 - lost) * chain[deficit - 1][0];
                }
            }
            chain = before;
        }
        chain
    }

    fn original_back(&self, after: &Chain) -> Chain {
        let mut before = [[0.0; 2]; DEFICIT + 1];
        for deficit in 1..=DEFICIT {
            for state in 0..2 {
                let lost = self.lost(state);
                let more = after.get(deficit + 1).map_or(1.0, |chain| chain[1]);
                before[deficit][state] = lost * more + (1.0 - lost) * after[deficit][0];
            }
        }
        before
    }

    fn repaired(&self, before: &Chain, phase: usize) -> Chain {
        let mut chain = *before;
        for _ in 0..self.repairs(phase) {
            let mut after = [[0.0; 2]; DEFICIT + 1];
            for deficit in 1..=DEFICIT {
                for state in 0..2 {
                    let (lost, here) = (self.lost(state), chain[deficit][state]);
                    after[deficit][1] += here * lost;
                    after[deficit - 1][0] += here * (1.0 - lost);
                }
            }
            // Without unknowns the run has ended.
            after[0] = [0.0; 2];
            chain = after;
        }
        chain
    }

    /// Returns the chain after another original. If it is lost, there is one more unknown, in the second state.
    fn original(&self, before: &Chain) -> Chain {
        let mut after = [[0.0; 2]; DEFICIT + 1];
        for deficit in 1..=DEFICIT {
            for state in 0..2 {
                let (lost, here) = (self.lost(state), before[deficit][state]);
                after[(deficit + 1).min(DEFICIT)][1] += here * lost;
                after[deficit][0] += here * (1.0 - lost);
            }
        }
        after
    }
}

/// Recent predictions, for losses that are about the same. So the check of a plan each second costs nothing.
#[derive(Debug, Default)]
pub(super) struct Predictions {
    known: Vec<(Key, f64)>,
    next: usize,
}

/// Number of predictions that are remembered: those of some searches over the shares of `super::case`.
const REMEMBERED: usize = 256;
/// Number of steps per doubling of the share, and in the whole range of bursts. Values within a step count as the same.
const STEPS: f64 = 8.0;
const BURST_STEPS: f64 = 40.0;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Key {
    share: i32,
    burst: i32,
    plan: Share,
    reach: u32,
}

impl Predictions {
    /// Returns the same as [`repair`], for losses that differ by a few percent at most.
    pub(super) fn repair(&mut self, losses: Losses, plan: Share, reach: u32) -> f64 {
        if losses.share <= 0.0 {
            return 0.0;
        }
        let key = Key {
            share: (losses.share.log2() * STEPS).round() as i32,
            burst: (losses.burst * BURST_STEPS).round() as i32,
            plan,
            reach,
        };
        if let Some((_, predicted)) = self.known.iter().find(|(known, _)| *known == key) {
            return *predicted;
        }
        let share = (f64::from(key.share) / STEPS).exp2().min(MOST);
        let burst = (f64::from(key.burst) / BURST_STEPS).clamp(share, MOST);
        let predicted = repair(Losses { share, burst }, plan, reach);
        match self.known.len() < REMEMBERED {
            true => self.known.push((key, predicted)),
            false => self.known[self.next] = (key, predicted),
        }
        self.next = (self.next + 1) % REMEMBERED;
        predicted
    }
}
