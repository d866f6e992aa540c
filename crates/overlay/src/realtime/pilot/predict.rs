//! What a plan leaves lost, predicted from the losses of the link and the time that there is.
//!
//! Losses are those of a chain with two states, as far as a share and the mean length of runs tell of them:
//!
//! ```text
//!   p(lost | lost before) = burst        p(lost | not lost before) = share (1 - burst) / (1 - share)
//! ```
#![expect(
    clippy::needless_range_loop,
    reason = "a state indexes two chains at once"
)]

use super::super::{REPEAT_AFTER, RoundTrip, Share};
use super::spacing::{Seen, Spacing};
use base::Duration;

/// The largest share, and burst, of which something is predicted: a burst is never less than its share.
const MOST: f64 = 0.98;

/// Losses on the way to the neighbour.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Losses {
    /// The share of datagrams that are lost.
    pub share: f64,
    /// Of those behind one that is lost.
    pub burst: f64,
}

impl Losses {
    /// From a share and the mean length of a run of losses.
    pub fn of(share: f64, run: f64) -> Losses {
        let share = share.clamp(0.0, MOST);
        // Runs of independent losses are 1 / (1 - share) long.
        let burst = (1.0 - 1.0 / run.max(1.0)).clamp(share, MOST);
        Losses { share, burst }
    }

    /// The share lost behind one that has come.
    fn fresh(&self) -> f64 {
        self.share * (1.0 - self.burst) / (1.0 - self.share)
    }

    /// The share lost of what is sent so many datagrams behind one that is lost.
    fn after(&self, datagrams: f64) -> f64 {
        let keeps = (self.burst - self.fresh()).max(0.0);
        self.share + (1.0 - self.share) * keeps.powf(datagrams)
    }
}

/// What requests leave of packets that have so much time after the rest of their way: `slack` from when a packet
/// should have come until it is of no use. `seen` tells how long it takes until a loss is seen, `interval` is the mean
/// distance of packets.
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

/// The same of packets that follow each other evenly.
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

/// The share of requests that fail, of packets with so much time left when they are asked for first.
fn rounds(losses: Losses, rtt: RoundTrip, time: Duration, interval: Duration, strikes: u8) -> f64 {
    if strikes == 0 || time < rtt.least || rtt.usual == Duration::ZERO {
        return 1.0;
    }
    let round = rtt.usual + rtt.usual.div(8).max(Duration::from_millis(1));
    let spare = time.saturating_sub(rtt.usual);
    let more = (spare.as_nanos() / round.as_nanos().max(1)).min(u64::from(strikes) - 1);
    // Another copy, or request, follows after 2 ms where there is time: in so many datagrams.
    let rest = (spare - round * more).as_nanos() / REPEAT_AFTER.as_nanos();
    let apart = REPEAT_AFTER.as_secs_f64() / interval.as_secs_f64().max(1e-6);
    let again = losses.after(apart.max(1.0)).max(losses.share);
    let way = |copies: u64| losses.share * again.powi(copies as i32);
    let once = 1.0 - (1.0 - losses.share) * (1.0 - losses.share);
    let requests = rest.min(2 + u64::from(more == 0));
    let answers = rest
        .saturating_sub(requests)
        .clamp(0, 1 + u64::from(more == 0));
    let last = 1.0 - (1.0 - way(requests)) * (1.0 - way(answers));
    once.powi(more as i32) * last
}

/// The most unknowns at a time that the prediction follows; more count as never found.
const DEFICIT: usize = 16;
/// One more than the most packets of a share.
const PHASES: usize = 10;

/// States of the chain: unknowns without a repair packet, whether the last datagram was lost.
type Chain = [[f64; 2]; DEFICIT + 1];

/// What repair leaves, for a perfect code: a run of unknowns is found when as many repair packets have come since it
/// began as packets are missing, the packets of which there is time for `reach` more until then.
///
/// The walk is exact for the chain of losses.
pub fn repair(losses: Losses, share: Share, reach: u32) -> f64 {
    if share.width == 1 && share.repairs == share.packets {
        // A copy that comes so many packets later, each with a repair packet behind it.
        let apart = f64::from(2 * share.lag + 1);
        return match share.lag <= reach {
            true => losses.share * losses.after(apart),
            false => losses.share,
        };
    }
    let walk = Walk { losses, share };
    let phases = (share.packets as usize).clamp(1, PHASES);
    // Not found within m packets, by the state after the repair packets of one.
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
    // How often a loss comes in which state, from the beginning of a run of unknowns on.
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
    /// The share lost behind a datagram that was lost or was not.
    fn lost(&self, before: usize) -> f64 {
        match before {
            1 => self.losses.burst,
            _ => self.losses.fresh(),
        }
    }

    /// Repair packets that follow the packet of a phase.
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
            // What is found has left the run.
            after[0] = [0.0; 2];
            chain = after;
        }
        chain
    }

    /// An original that is lost stands in the second state of one unknown more.
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

/// Predictions of late, for losses that are about the same: a plan that is looked at each second costs nothing then.
#[derive(Debug, Default)]
pub(super) struct Predictions {
    known: Vec<(Key, f64)>,
    next: usize,
}

/// Predictions that are remembered: those of some searches over the shares of `super::case`.
const REMEMBERED: usize = 256;
/// Steps of a doubling of the share, and of the whole range of bursts, that count as the same.
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
    /// The same as [`repair`], of losses that differ by a few percent at most.
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
