//! This module decides whether a longer round trip means a queue or a longer path.

use super::epoch::Epoch;
use super::{Brake, FEW_LOST, HELD_BACK};
use crate::baseline::Steady;
use base::{Duration, Time};

/// If nothing is braked, a level rise is attributed to the path after this time plus four times the rise.
const STEADY_FREE: Duration = Duration::from_secs(3);
/// The same time while less is sent than is offered: a queue of that length would have emptied by half.
const STEADY_BRAKED: Duration = Duration::from_secs(1);
/// By how much the losses of a few packets vary more than independent losses. Choice: runs in which every second loss
/// is followed by another: (1 + 1/2) / (1 - 1/2).
const LOSSES_TOGETHER: f64 = 3.0;
/// A rise is too sudden for a queue that loses less than this share of what a queue of this growth loses, and a standard
/// deviation more. Choice: half, since few packets lose by chance.
const SUDDEN_SHARE: f64 = 0.5;
/// The losses of fewer packets do not show that. Choice: as many as a call sends in less than half a second.
const SUDDEN_PACKETS: u64 = 20;

impl Brake {
    /// Decides whether what looks like a queue may be a longer path. If that is clear, releases the brake.
    pub(super) fn doubt(&mut self, now: Time, epoch: &Epoch) -> Doubt {
        self.run.add(now, epoch);
        let Some(steady) = self.baseline.steady() else {
            return Doubt::None;
        };
        if self.trial.since != steady.since {
            self.trial = Epoch::new(steady.since);
        }
        self.trial.add(epoch);
        let patience: u64 = if steady.has_moved { 3 } else { 1 };
        let patience = patience * self.mistrust();
        let lost = self.trial.lost_share();
        let as_usual = self.usual_most(self.trial.told);
        let is_held = self.trial.sent_bytes as f64 <= HELD_BACK * self.trial.offered_bytes as f64;
        // A limit above what is offered changes nothing.
        let is_held = is_held && self.limit.is_some();
        let is_sudden = !is_held && self.is_too_sudden(&steady);
        let (is_clear, after) = match is_held {
            false => (lost <= as_usual || is_sudden, STEADY_FREE),
            true => (lost <= as_usual.max(FEW_LOST), STEADY_BRAKED),
        };
        // A rise that the lane's own packets explain is not a longer path.
        let is_more = self.is_more_than_own(&steady);
        let is_clear = is_clear && is_more;
        if is_clear && now.since(steady.since) >= (after + steady.above * 4) * patience {
            self.baseline.follow(now);
            // The longer path may still lose what it lost before, or what it has lost since a rise that no queue explains.
            let lasting = if is_sudden { lost } else { 0.0 };
            self.usual_loss = self.usual_loss.max(lasting);
            self.try_longer(now, self.usual_loss);
            // Without losses it may be a longer path that is also full, so the lane tries more.
            if lost > 0.0 || self.limit.is_none() {
                self.release(now);
            }
            return Doubt::None;
        }
        match lost {
            lost if !steady.has_moved && lost <= as_usual => Doubt::AsUsual,
            _ if is_sudden => Doubt::Sudden,
            _ if self.run.is_outage() => Doubt::Outage,
            _ if steady.has_moved => Doubt::None,
            lost if lost <= FEW_LOST => Doubt::Few,
            _ => Doubt::None,
        }
    }

    /// Returns true if the rise was too steep for a queue that loses as little as is lost now. A queue grows by the share
    /// that is sent more than its drain rate, and loses the same share of what is sent when it is full. A path that
    /// becomes longer rises at once, whatever it loses. This says nothing while the lane is held back: a queue loses
    /// less then.
    fn is_too_sudden(&self, steady: &Steady) -> bool {
        let told = self.trial.told as f64;
        if steady.has_moved || self.trial.told < SUDDEN_PACKETS {
            return false;
        }
        let queue_loses = steady.slope / (1.0 + steady.slope);
        let most = SUDDEN_SHARE * queue_loses * told;
        self.trial.lost as f64 <= most + most.sqrt()
    }

    /// Returns the share of `told` packets that may be lost if no more is lost than without a queue.
    pub(super) fn usual_most(&self, told: u64) -> f64 {
        let usual = self.usual_loss;
        if usual <= 1e-3 {
            return 0.0;
        }
        let deviation = (LOSSES_TOGETHER * usual / told.max(1) as f64).sqrt();
        (2.0 * usual + 0.01).max(usual + 3.0 * deviation)
    }
}

/// The meaning of losses while the round trip is level above its baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// There is a queue, or no reason to doubt.
    None,
    /// No more is lost than before the round trip rose.
    AsUsual,
    /// The round trip rose faster than a queue that loses so little.
    Sudden,
    /// So few are lost at once that an outage may have caused it.
    Outage,
    /// Few are lost: the losses may be random.
    Few,
}
