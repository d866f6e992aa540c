//! The model of the path: its bandwidth, its length, and how it clusters acknowledgements.

use crate::delivery::{Delivered, Sample};
use base::{Duration, Time};

/// The time after which the least round trip is forgotten.
const LEAST_LIFE: Duration = Duration::from_secs(10);
/// If no round trip was as short for this time, the path is emptied to measure it.
const RECENT_LIFE: Duration = Duration::from_secs(5);
/// A round trip within this share of the least, or within [`NEAR`], shows that no queue stands. Choice: the draft
/// requires one that is no longer at all, which a path with jitter does not provide for minutes.
const NEAR_SHARE: f64 = 1.0 / 32.0;
const NEAR: Duration = Duration::from_micros(200);
/// A queue stands when the shortest round trip of a round exceeds the least by this share, and by [`QUEUE`].
const QUEUE_SHARE: f64 = 1.0 / 8.0;
const QUEUE: Duration = Duration::from_millis(1);

/// The bandwidth, the least round trip and the rounds.
#[derive(Clone, Debug, Default)]
pub(super) struct Path {
    /// The maximum rate of this cycle, and of the one before.
    most: [f64; 2],
    least: Option<Least>,
    /// The shortest round trip of this round and of the one before.
    shortest: [Option<Duration>; 2],
    /// The number of arrived packets at the start of the round. The round ends when a packet that was sent after that
    /// is answered.
    round_ends: f64,
}

/// The least round trip, and the least since the path was last seen without a queue. The second replaces the first when
/// the first is old.
#[derive(Clone, Copy, Debug)]
struct Least {
    rtt: Duration,
    at: Time,
    recent: Duration,
    recent_at: Time,
}

impl Path {
    pub(super) fn bandwidth(&self) -> f64 {
        self.most[0].max(self.most[1])
    }

    pub(super) fn least(&self) -> Option<Duration> {
        self.least.map(|least| least.rtt)
    }

    /// Takes in a sample. Returns true when a round has ended.
    pub(super) fn on_sample(&mut self, sample: &Sample, total: f64) -> bool {
        let rate = sample.rate();
        // An interval that is shorter than any round trip is a cluster of acknowledgements.
        let whole = self.least().is_none_or(|least| sample.interval >= least);
        if whole && (rate >= self.bandwidth() || !sample.of_application) {
            self.most[0] = self.most[0].max(rate);
        }
        let is_round = sample.prior >= self.round_ends;
        if is_round {
            self.round_ends = total;
        }
        is_round
    }

    /// Takes in a round trip. Returns true if no round trip has shown the path without a queue for long.
    pub(super) fn on_round_trip(&mut self, now: Time, rtt: Duration) -> bool {
        self.shortest[0] = Some(self.shortest[0].map_or(rtt, |shortest| shortest.min(rtt)));
        let least = self.least.get_or_insert(Least {
            rtt,
            at: now,
            recent: rtt,
            recent_at: now,
        });
        let is_old = now.since(least.recent_at) > RECENT_LIFE;
        if rtt <= least.recent || is_old {
            (least.recent, least.recent_at) = (rtt, now);
        } else if rtt <= least.rtt + least.rtt.mul_f64(NEAR_SHARE).max(NEAR) {
            least.recent_at = now;
        }
        if least.recent <= least.rtt || now.since(least.at) > LEAST_LIFE {
            (least.rtt, least.at) = (least.recent, now);
        }
        is_old
    }

    /// Begins a new round.
    pub(super) fn begin_round(&mut self) {
        self.shortest = [None, self.shortest[0].or(self.shortest[1])];
    }

    /// Returns true if even the shortest round trip of this round, or of the one before, is long.
    pub(super) fn is_queued(&self) -> bool {
        let shortest = self.shortest[0].or(self.shortest[1]);
        match (self.least(), shortest) {
            (Some(least), Some(shortest)) => {
                shortest > least + least.mul_f64(QUEUE_SHARE).max(QUEUE)
            }
            _ => false,
        }
    }

    /// Ends the cycle: its bandwidth counts for one more cycle. A cycle that measured nothing, because there was little
    /// to send, does not count.
    pub(super) fn end_cycle(&mut self) {
        if self.most[0] > 0.0 {
            self.most = [0.0, self.most[0]];
        }
    }

    /// Records that the path has been emptied: its round trip is known again.
    pub(super) fn was_emptied(&mut self, now: Time) {
        if let Some(least) = &mut self.least {
            least.recent_at = now;
        }
    }
}

/// Counts the rounds in which the rate has not grown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plateau {
    rate: f64,
    rounds: u32,
}

impl Plateau {
    /// Handles a round that has ended at this rate. A rate of at least `growth` times the rate before counts as growth.
    pub(super) fn on_round(&mut self, rate: f64, growth: f64) {
        if rate >= self.rate * growth {
            (self.rate, self.rounds) = (rate, 0);
        } else {
            self.rounds += 1;
        }
    }

    pub(super) fn rounds(&self) -> u32 {
        self.rounds
    }
}

/// Acknowledgements that come in clusters: more than the bandwidth explains arrives at once, and this surplus has to be
/// in flight in addition to the rest.
#[derive(Clone, Debug, Default)]
pub(super) struct Aggregation {
    since: Time,
    arrived: f64,
    /// The maximum of these ten rounds, and of the ten before.
    most: [f64; 2],
    rounds: u32,
}

impl Aggregation {
    pub(super) fn on_delivered(
        &mut self,
        told: &Delivered,
        bandwidth: f64,
        window: f64,
        is_round: bool,
    ) {
        if is_round {
            self.rounds += 1;
            if self.rounds >= 10 {
                self.most = [0.0, self.most[0]];
                self.rounds = 0;
            }
        }
        let mut expected = bandwidth * told.now.since(self.since).as_secs_f64();
        if self.arrived <= expected {
            (self.since, self.arrived, expected) = (told.now, 0.0, 0.0);
        }
        self.arrived += told.segments;
        let extra = (self.arrived - expected).clamp(0.0, window);
        self.most[0] = self.most[0].max(extra);
    }

    pub(super) fn extra(&self) -> f64 {
        self.most[0].max(self.most[1])
    }
}
