//! This module decides whether losses and queues react when less is sent.
//!
//! ```text
//!   lost before the rate fell   10 %                                  10 %
//!   lost since                   0 %  a queue: decide who is refused    9 %  the path: off
//! ```

use super::{Brake, Epoch, HELD_BACK};
use base::{Duration, Time};

/// The losses of this number of packets after a cut show whether losses react. Choice: of 6 % random losses, two occur
/// nearly always; this is half a second of a call and of hellos that are sent often.
pub(super) const ANSWER_PACKETS: u64 = 40;
/// Losses have reacted only if this many would have been lost without a reaction. Choice: by chance, half as many or
/// fewer are lost one time in eight.
const ANSWER_LOSSES: f64 = 5.0;
/// The factor on the number of packets if the round trip has moved meanwhile, as behind a queue that TCPs fill.
const ANSWER_MOVED: u64 = 3;
/// Losses that fall below this share of their earlier rate have reacted.
const LOSSES_ANSWER: f64 = 0.5;
/// A path that loses more than this gets too much traffic. Choice: twice what a bad wire loses.
pub(super) const ASKS_BELOW: f64 = 0.2;
/// The maximum time that the brake waits for a reaction.
const ANSWER_WITHIN: Duration = Duration::from_secs(4);
/// If losses go on after a reaction, the lane tests the reaction again after this time. Choice: long enough for the
/// next losses to be known.
const ASKS_AGAIN: Duration = Duration::from_secs(1);
/// For this time, losses that did not react are attributed to the path.
const UNANSWERED_FOR: Duration = Duration::from_secs(30);

/// If a queue falls by less than this share of what it should, it belongs to other traffic.
const ANSWERS: f64 = 0.3;
/// An expected fall of less than this, in seconds per second, proves nothing.
const FALLS_LEAST: f64 = 0.1;
/// An expected total fall of less than this, in seconds, proves nothing either. Choice: two packets at 64 kbit/s, which
/// are sent together now and then.
const FALLS_LEAST_S: f64 = 0.06;
/// A queue that grew and was gone within this time was jitter, if none was mistaken for jitter in the time below.
/// Choice: sending a twentieth less than the drain rate takes longer to empty a queue that is longer than jitter.
const GONE_WITHIN: Duration = Duration::from_secs(1);
const CHANCE_FOR: Duration = Duration::from_secs(10);
/// If round trips vary by less than this, it was not jitter. Choice: packets on a link of 150 kbit/s make them vary by
/// a third of it.
const CHANCE_ROUGH: Duration = Duration::from_millis(40);

/// The losses before a rate fell, and since then.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    pub(super) lost_share: f64,
    /// The rate that the lane must not stay below.
    pub(super) fair_bps: f64,
    pub(super) since: Epoch,
}

impl Brake {
    /// Decides whether losses have become fewer since the rate fell because of them.
    pub(super) fn hear_answer(&mut self, now: Time, epoch: &Epoch) {
        let steady = self.baseline.steady();
        let Some(limit) = &mut self.limit else {
            return;
        };
        let Some(cut) = &mut limit.cut else {
            return;
        };
        if now < limit.deaf_until {
            return;
        }
        cut.since.add(epoch);
        let has_moved = steady.is_some_and(|steady| steady.has_moved);
        let enough = ANSWER_PACKETS * if has_moved { ANSWER_MOVED } else { 1 };
        let is_held = cut.since.sent_bytes as f64 <= HELD_BACK * cut.since.offered_bytes as f64;
        let is_late = now.since(limit.fell) > ANSWER_WITHIN;
        if !is_late && (cut.since.told < enough || !is_held) {
            return;
        }
        let lost = cut.since.lost_share();
        if is_held && cut.since.lost >= 2 && lost >= LOSSES_ANSWER * cut.lost_share {
            self.usual_loss = self.usual_loss.max(lost);
            self.unanswered_until = now + UNANSWERED_FOR;
            if steady.is_some() {
                self.baseline.follow(now);
                self.try_longer(now, lost);
            }
            self.release(now);
            return;
        }
        let expected = cut.since.told as f64 * cut.lost_share;
        if !is_late && expected < ANSWER_LOSSES {
            return;
        }
        limit.rate_bps = limit.rate_bps.max(cut.fair_bps);
        limit.cut = None;
        limit.asks_from = now + ASKS_AGAIN;
        self.decide(now);
    }

    /// Returns true if what looked like a growing queue may have been jitter, because no queue stands. The second time
    /// it counts as a queue, and so does a queue in front of which the lane was already held back.
    pub(super) fn was_chance(&self, now: Time, fell: Time) -> bool {
        let limit = self.limit.as_ref();
        let young = limit.filter(|limit| now.since(limit.began) <= GONE_WITHIN);
        let grew = young.and_then(|limit| limit.leaves);
        let is_first = self.chance_at.is_none_or(|at| fell >= at + CHANCE_FOR);
        let is_rough = self.baseline.jitter() > CHANCE_ROUGH;
        grew.is_some() && is_first && is_rough && now.since(fell) <= GONE_WITHIN
    }

    /// Returns true if the queue has not reacted to a lower rate.
    pub(super) fn is_others(&self, fell: Time) -> bool {
        let Some(limit) = self.limit.as_ref().filter(|limit| !limit.is_proved) else {
            return false;
        };
        let Some(((leaves, _), line)) = limit.leaves.zip(self.growth.since(fell)) else {
            return false;
        };
        let should_fall = 1.0 - line.given_bps / leaves.max(1.0);
        let falls_s = should_fall * line.span.as_secs_f64();
        should_fall > FALLS_LEAST && falls_s > FALLS_LEAST_S && -line.slope < ANSWERS * should_fall
    }
}
