//! A limit that was given up, because what looked like a queue seemed to be the path: the losses that follow decide.
//!
//! ```text
//!   limit ── the path? ──▶ free, on trial ── losses as before ──▶ free
//!     ▲                          │
//!     '────── many losses ───────'    waits twice as long before it is given up again
//! ```
//! The end of a limit is a test by itself: the lane sends more, and nothing else has changed. Losses that begin with it
//! are those of a queue, also where round trips vary so much that no queue can be seen. Until the path is judged for the
//! first time, a lane that was held back adds no redundancy.

use super::epoch::Epoch;
use super::limit::Limit;
use super::tries::TRY_AFTER;
use super::{Brake, FEW_LOST};
use base::{Duration, Time};

/// How often the path is judged. A full queue loses all the time, so losses after these judgements do not prove that
/// there is a queue.
const JUDGEMENTS: u8 = 2;
/// The path is judged by the losses of this number of packets, and over this time. Choice: this evens out bursts of
/// random losses.
const JUDGED_OVER: Duration = Duration::from_secs(2);
const JUDGED_PACKETS: u64 = 200;
/// If more than this is lost, half of that time and packets are enough. Choice: seven times what a bad wire loses.
const CLEARLY: f64 = 0.2;
/// How often the time doubles at most until the limit is given up again.
const MISTAKEN_MOST: u32 = 6;

/// The events since the path was blamed.
#[derive(Clone, Debug)]
pub(super) struct Probation {
    since: Epoch,
    left: u8,
    /// The share of losses that the path may have.
    tolerated: f64,
    /// The rate that held before, if the lane was held back.
    held_bps: Option<f64>,
    /// A rise of the round trip was attributed to the path.
    is_longer: bool,
}

impl Probation {
    /// Returns true if the lane was held back before, and the path was not judged yet.
    pub(super) fn begins(&self) -> bool {
        self.held_bps.is_some() && self.left == JUDGEMENTS
    }

    /// Judges by the losses from now on.
    pub(super) fn begin_again(&mut self, now: Time) {
        self.since = Epoch::new(now);
    }

    /// Returns whether the path has proved itself (`false`), or loses too much (`true`); `None` if it is too early.
    fn verdict(&self, now: Time) -> Option<bool> {
        let (packets, time) = (self.since.told, now.since(self.since.since));
        let lost = self.since.lost_share();
        let is_enough = self.since.sent >= JUDGED_PACKETS && time >= JUDGED_OVER;
        let is_clear = lost > self.tolerated.max(CLEARLY)
            && packets * 2 >= JUDGED_PACKETS
            && time * 2 >= JUDGED_OVER;
        (is_enough || is_clear).then_some(lost > self.tolerated)
    }
}

impl Brake {
    /// Begins the probation of a path that has become longer and lost the share `lost` before. It must begin before the
    /// limit is given up.
    pub(super) fn try_longer(&mut self, now: Time, lost: f64) {
        self.begin_probation(now, lost, true);
    }

    /// Begins the probation of a path on which no queue is seen, before the limit is given up. Only losses can show that
    /// this is too early.
    pub(super) fn try_wide(&mut self, now: Time) {
        self.begin_probation(now, self.loss.max(CLEARLY / 2.0), false);
    }

    fn begin_probation(&mut self, now: Time, lost: f64, is_longer: bool) {
        let held_bps = self.limit.as_ref().map(|limit| limit.rate_bps);
        self.probation = Some(Probation {
            since: Epoch::new(now),
            left: JUDGEMENTS,
            tolerated: (2.0 * lost + 0.01).max(1.5 * FEW_LOST),
            held_bps,
            is_longer,
        });
    }

    /// Decides whether a path on probation loses packets like a queue.
    pub(super) fn try_out(&mut self, now: Time, rtt: Duration, epoch: &Epoch) {
        let Some(mut trial) = self.probation.take() else {
            return;
        };
        trial.since.add(epoch);
        match trial.verdict(now) {
            None => self.probation = Some(trial),
            Some(true) => {
                if trial.is_longer {
                    self.baseline.go_back(now, rtt);
                }
                if let Some(held_bps) = trial.held_bps {
                    self.hold_again(now, held_bps);
                }
            }
            Some(false) if trial.left > 1 => {
                (trial.since, trial.left) = (Epoch::new(now), trial.left - 1);
                self.probation = Some(trial);
            }
            Some(false) => self.mistaken = 0,
        }
    }

    /// Limits the lane again to the rate that held before.
    fn hold_again(&mut self, now: Time, held_bps: f64) {
        self.mistaken = (self.mistaken + 1).min(MISTAKEN_MOST);
        self.congested = true;
        let jitter = self.baseline.jitter();
        let before = self.limit.take();
        let mut limit = before.unwrap_or_else(|| Limit::new(now, held_bps, jitter));
        limit.rate_bps = limit.rate_bps.min(held_bps);
        self.falls(now, limit);
        self.try_after = self.try_after.max(TRY_AFTER * self.mistrust());
    }

    /// Returns the factor by which a limit holds for longer before it is given up again.
    pub(super) fn mistrust(&self) -> u64 {
        1 << self.mistaken
    }
}
