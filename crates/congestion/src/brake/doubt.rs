//! Whether a round trip that has risen is a queue's or a longer path's: doubts, and the probation of what was taken for the path.

use super::epoch::Epoch;
use super::{Brake, FEW_LOST, HELD_BACK, PROBATIONS};
use base::{Duration, Time};

/// A level rise is the path's after so long, and four times the rise, if nothing is braked.
const STEADY_FREE: Duration = Duration::from_secs(3);
/// The same while less is sent than is offered: a queue of that length would have emptied by half.
const STEADY_BRAKED: Duration = Duration::from_secs(1);
/// By how much the losses of a few packets vary more than if each were lost by itself. Choice: runs of which every
/// second loss is followed by another: (1 + 1/2) / (1 - 1/2).
const LOSSES_TOGETHER: f64 = 3.0;
/// A path that has become longer is judged by the losses of so many packets and so much time.
/// Choice: bursts of random losses are evened out.
const PROBATION: Duration = Duration::from_secs(2);
const PROBATION_PACKETS: u64 = 200;

impl Brake {
    /// Whether what looks like a queue may be a longer path; when that is clear, lets go.
    pub(super) fn doubt(&mut self, now: Time, epoch: &Epoch) -> Doubt {
        self.run.add(now, epoch);
        let Some(steady) = self.baseline.steady() else {
            return Doubt::None;
        };
        if self.trial.since != steady.since {
            self.trial = Epoch::new(steady.since);
        }
        self.trial.add(epoch);
        let patience = if steady.has_moved { 3 } else { 1 };
        let lost = self.trial.lost_share();
        let as_usual = self.usual_most(self.trial.told);
        let is_held = self.trial.sent_bytes as f64 <= HELD_BACK * self.trial.offered_bytes as f64;
        let (is_clear, after) = match self.limit {
            None => (lost <= as_usual, STEADY_FREE),
            Some(_) if lost > 0.0 => {
                let is_few = lost <= as_usual.max(FEW_LOST);
                (is_few && is_held, STEADY_BRAKED)
            }
            Some(_) => (is_held, STEADY_BRAKED),
        };
        // What the lane's own packets explain is no longer path.
        let is_more = self.own_packets().is_none_or(|own| steady.above > own);
        let is_clear = is_clear && is_more;
        if is_clear && now.since(steady.since) >= (after + steady.above * 4) * patience {
            self.baseline.follow(now);
            self.probation = Some((Epoch::new(now), PROBATIONS));
            // What it lost before it became longer it may lose still.
            self.tolerated = (2.0 * self.usual_loss + 0.01).max(1.5 * FEW_LOST);
            // Without losses it may be a longer path that is full as well: more is tried.
            if lost > 0.0 || self.limit.is_none() {
                self.release(now);
            }
            return Doubt::None;
        }
        match lost {
            lost if !steady.has_moved && lost <= as_usual => Doubt::AsUsual,
            _ if self.run.is_outage() => Doubt::Outage,
            _ if steady.has_moved => Doubt::None,
            lost if lost <= FEW_LOST => Doubt::Few,
            _ => Doubt::None,
        }
    }

    /// Whether what was taken for a longer path loses as a queue does.
    pub(super) fn try_out(&mut self, now: Time, rtt: Duration, epoch: &Epoch) {
        let Some((trial, left)) = &mut self.probation else {
            return;
        };
        trial.add(epoch);
        if trial.sent < PROBATION_PACKETS || now.since(trial.since) < PROBATION {
            return;
        }
        if trial.lost_share() > self.tolerated {
            self.baseline.go_back(now, rtt);
            self.probation = None;
        } else if *left > 1 {
            (*trial, *left) = (Epoch::new(now), *left - 1);
        } else {
            self.probation = None;
        }
    }

    /// The share of so many packets that may be lost where no more is lost than without a queue.
    pub(super) fn usual_most(&self, told: u64) -> f64 {
        let usual = self.usual_loss;
        if usual <= 1e-3 {
            return 0.0;
        }
        let deviation = (LOSSES_TOGETHER * usual / told.max(1) as f64).sqrt();
        (2.0 * usual + 0.01).max(usual + 3.0 * deviation)
    }
}

/// What losses say while the round trip is level above its baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// It is a queue, or there is nothing to doubt.
    None,
    /// No more than before it rose.
    AsUsual,
    /// So few at once that they may be an outage's.
    Outage,
    /// Few: they may be random.
    Few,
}
