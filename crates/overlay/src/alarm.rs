//! The alarm of a link that begins to lose packets. It is raised after some packets, long before an average over fifty
//! losses shows the loss rate.
//!
//! ```text
//!   packets   ....x.......................x.xx...x.xxx.x..x.......................................
//!   runs          1                       2 3    4 5   6  7
//!                 |<------ quiet -------->|<-- w -->|        |<--- too long for what it has lost --->|
//!   alarm                                           on                                             off
//! ```
//! The alarm counts the beginnings of runs ([`Loss::begun`](crate::estimate::Loss::begun)): losses come in runs anyway,
//! so one loss says much about the next, and a beginning says little. On an unchanged link, a run begins with each
//! packet with probability `q`.
//!
//! *On.* The last `k` beginnings lie within `w` packets. On an unchanged link, the probability that `k − 1` of them are
//! within the `w` packets before the last one is at most `(qw)^(k−1) / (k−1)!`. With `n` packets per hour there are
//! `nq` beginnings, and the alarm is raised when
//!
//! ```text
//!     n q (q w)^(k−1) / (k−1)!  ≤  1 / (number of k that are tried)
//! ```
//! Each `k` then causes at most its share of false alarms an hour, whatever `q` and `n` are, and all of them together
//! cause `FALSE_PER_HOUR`. No single `k` is right for all links: a link that loses a third shows three runs in ten
//! packets, while it takes thirty runs to distinguish a link that loses 2 % from one that loses 1 %.
//!
//! *Background.* `q` is measured over the last ten thousand packets before the first of these runs, so that the runs
//! which cause an alarm are not part of it.
//!
//! *Off.* The reverse question, as a sequential test: packets without a loss are evidence of calm, and each run is
//! evidence against it. A link that carries almost nothing gives no evidence, so the alarm ends some time after its
//! last loss.
//!
//! Choice: the papers average losses, which takes seconds. An idle link, on which nothing is lost, raises no alarm.

use base::{Duration, Time};
use std::collections::VecDeque;

/// Accepted number of false alarms per hour, on a link whose background is between [`QUIET_LEAST`] and [`CALM_LOSS`].
/// Choice: a false alarm costs the paths over the link a few more links for some ten seconds, 0.3 % of an hour.
const FALSE_PER_HOUR: f64 = 1.0;
/// Numbers of beginnings that are examined together.
const RUNS: [usize; 9] = [2, 3, 4, 6, 8, 12, 16, 24, 32];
const RUNS_MAX: usize = RUNS[RUNS.len() - 1];
/// The loss that is trouble, as for links that report no alarm ([`graph::dissemination`]): a smaller loss is not,
/// however new it is.
const TROUBLE_LOSS: f64 = 0.02;
/// The loss that is never trouble, however unusual it is for this link.
const CALM_LOSS: f64 = 0.01;

/// The smallest background. Choice: in ten thousand packets without a loss there may have been one by chance.
const QUIET_LEAST: f64 = 1e-4;
/// A new link is treated as if one run had begun in this many packets.
const NEW_PACKETS: f64 = 1_000.0;
/// The background covers at most this many packets, and at least half as many. Choice: a call of five minutes.
const MEMORY_PACKETS: f64 = 20_000.0;
/// How fast the assumed pace falls to the present one, per second. Choice: the higher the pace, the stricter the test,
/// and a pause of a few seconds does not make a link slow.
const PACE_KEPT: f64 = 0.9;
/// The smallest assumed pace, in packets per hour: that of hellos on a link with data.
const PACE_LEAST: f64 = 10.0 * 3_600.0;

/// The evidence against the former loss that ends an alarm: ln 1000. Choice: in continuing trouble, one beginning in a
/// thousand is followed by as long a pause.
const CALM_EVIDENCE: f64 = 6.9;
/// An alarm also ends after this time without a loss, whatever the evidence. Choice: this ends the alarm of a link that
/// is hardly used any more.
const LASTS: Duration = Duration::from_secs(10);

/// Detects whether a direction of a link is in trouble.
#[derive(Clone, Debug, Default)]
pub struct Alarm {
    /// The last runs, the oldest first.
    begun: VecDeque<Begun>,
    background: Background,
    /// The position up to which packets are in the background.
    counted: u64,
    pace: Pace,
    spell: Option<Spell>,
}

/// The beginning of a run of losses.
#[derive(Clone, Copy, Debug)]
struct Begun {
    at: u64,
    /// The background before it.
    background: Background,
}

/// How often runs begin while there is no alarm.
#[derive(Clone, Copy, Debug, Default)]
struct Background {
    packets: f64,
    runs: f64,
}

/// Packets per hour.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    per_hour: f64,
    since: Option<(Time, u64)>,
}

/// A time of trouble.
#[derive(Clone, Copy, Debug)]
struct Spell {
    /// Beginnings of runs per packet in the trouble that led to the spell, and on a calm link.
    trouble: f64,
    calm: f64,
    /// The evidence for calm from the packets up to a position.
    evidence: f64,
    /// The part of the evidence that the last run has removed.
    taken: f64,
    at: u64,
    /// When the last run began.
    last: Time,
}

impl Alarm {
    /// Returns true if packets are being lost.
    pub fn is_on(&self) -> bool {
        self.spell.is_some()
    }

    /// A run of losses has begun with the packet at this position: the number of packets that had arrived or been lost
    /// before. `run` is the mean length of the link's runs.
    pub fn on_run(&mut self, now: Time, at: u64, run: f64) {
        if let Some(spell) = &mut self.spell {
            return spell.on_run(now, at);
        }
        self.count(at);
        if self.begun.len() == RUNS_MAX {
            self.begun.pop_front();
        }
        let background = self.background;
        self.begun.push_back(Begun { at, background });
        self.background.runs += 1.0;
        let run = run.max(1.0);
        if let Some(first) = self.unlikely(at, run) {
            self.begin(now, at, run, first);
        }
    }

    /// The last run was none: its packets have arrived after all.
    pub fn on_taken_back(&mut self) {
        if let Some(spell) = &mut self.spell {
            spell.on_taken_back();
        } else if let Some(begun) = self.begun.pop_back() {
            self.background.runs = begun.background.runs;
        }
    }

    /// The packets before this position have arrived or been lost. To be called about once per second.
    pub fn look(&mut self, now: Time, at: u64) {
        self.pace.look(now, at);
        match &mut self.spell {
            None => self.count(at),
            Some(spell) => {
                spell.count(at);
                let is_over = spell.evidence >= CALM_EVIDENCE || now.since(spell.last) >= LASTS;
                if is_over {
                    self.spell = None;
                    self.counted = at;
                }
            }
        }
    }

    /// The link was given up: losses during the outage say nothing, and losses afterwards are another matter.
    pub fn on_outage(&mut self, at: u64) {
        self.begun.clear();
        self.spell = None;
        self.counted = at;
    }

    fn count(&mut self, at: u64) {
        self.background.count(at.saturating_sub(self.counted));
        self.counted = self.counted.max(at);
    }

    /// Returns the place of the first of the last runs, if they are too close together to belong to the background.
    fn unlikely(&self, at: u64, run: f64) -> Option<usize> {
        let least = TROUBLE_LOSS / run;
        let groups = RUNS.into_iter().take_while(|k| *k <= self.begun.len());
        let mut places = groups.map(|k| self.begun.len() - k);
        places.find(|place| {
            let first = &self.begun[*place];
            let others = self.begun.len() - place - 1;
            let within = (at - first.at) as f64;
            if (others as f64) < least * within {
                return false;
            }
            let quiet = first.background.rate(run);
            let chance: f64 = (1..=others).map(|i| quiet * within / i as f64).product();
            self.pace.per_hour.max(PACE_LEAST) * quiet * chance
                <= FALSE_PER_HOUR / RUNS.len() as f64
        })
    }

    fn begin(&mut self, now: Time, at: u64, run: f64, first: usize) {
        let (count, first) = (self.begun.len() - first, self.begun[first]);
        let rate = (count - 1) as f64 / (at - first.at).max(1) as f64;
        self.spell = Some(Spell {
            // Choice: a few runs that happen to be close together are no measurement, and the next pause would end the
            // alarm.
            trouble: (rate / 2.0).max(TROUBLE_LOSS / run),
            calm: CALM_LOSS / run,
            evidence: 0.0,
            taken: 0.0,
            at,
            last: now,
        });
        self.background = first.background;
        self.begun.clear();
    }
}

impl Spell {
    fn on_run(&mut self, now: Time, at: u64) {
        self.count(at);
        self.taken = self.evidence.min(self.of_run());
        self.evidence -= self.taken;
        self.last = now;
    }

    fn on_taken_back(&mut self) {
        self.evidence += core::mem::take(&mut self.taken);
    }

    /// Returns the evidence of a run for trouble.
    fn of_run(&self) -> f64 {
        (self.trouble / self.calm).ln()
    }

    /// Adds ln((1 − calm) / (1 − trouble)) for each packet, as precisely as matters here.
    fn count(&mut self, at: u64) {
        self.evidence += at.saturating_sub(self.at) as f64 * (self.trouble - self.calm);
        self.at = self.at.max(at);
    }
}

impl Background {
    fn count(&mut self, packets: u64) {
        self.packets += packets as f64;
        while self.packets > MEMORY_PACKETS {
            self.packets /= 2.0;
            self.runs /= 2.0;
        }
    }

    /// Returns the beginnings of runs per packet.
    fn rate(&self, run: f64) -> f64 {
        let rate = (self.runs + 1.0) / (self.packets + NEW_PACKETS);
        // If runs are longer than a hundred packets, a calm link has fewer of them than can be measured.
        rate.clamp(QUIET_LEAST, (CALM_LOSS / run).max(QUIET_LEAST))
    }
}

impl Pace {
    fn look(&mut self, now: Time, at: u64) {
        let Some((since, from)) = self.since.replace((now, at)) else {
            return;
        };
        let s = now.since(since).as_secs_f64();
        if s > 0.0 {
            let per_hour = at.saturating_sub(from) as f64 / s * 3_600.0;
            self.per_hour = per_hour.max(self.per_hour * PACE_KEPT.powf(s));
        }
    }
}

#[cfg(test)]
mod tests;
