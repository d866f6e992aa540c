//! Whether losses and queues answer to less.
//!
//! ```text
//!   lost before the rate fell   10 %                                  10 %
//!   lost since                   0 %  a queue: decide who is refused    9 %  the path: off
//! ```

use super::{Brake, Epoch, FEW_LOST, HELD_BACK, PROBATIONS};
use base::{Duration, Time};

/// What is lost of so many packets after a cut tells whether losses answer. Choice: of 6 % at random two are lost
/// nearly always; half a second of a call and of hellos that ask often.
pub(super) const ANSWER_PACKETS: u64 = 40;
/// Losses have answered only if so many would have been lost without an answer. Choice: by chance, half as many or fewer are lost
/// one time in eight.
const ANSWER_LOSSES: f64 = 5.0;
/// So many times as many where the round trip has moved meanwhile, as behind a queue that TCPs fill.
const ANSWER_MOVED: u64 = 3;
/// Losses that fall to less than this share of what they were have answered.
const LOSSES_ANSWER: f64 = 0.5;
/// What loses more is given too much. Choice: twice what a bad wire loses.
pub(super) const ASKS_BELOW: f64 = 0.2;
/// And for so long at most.
const ANSWER_WITHIN: Duration = Duration::from_secs(4);
/// If losses go on after an answer, the lane asks again after so long. Choice: long enough for the next losses to be known.
const ASKS_AGAIN: Duration = Duration::from_secs(1);
/// Losses that did not answer are the path's for so long.
const UNANSWERED_FOR: Duration = Duration::from_secs(30);

/// A queue that falls by less than this share of what it should, is others'.
const ANSWERS: f64 = 0.3;
/// What should fall by less, in seconds per second, proves nothing.
const FALLS_LEAST: f64 = 0.1;
/// Nor what should have fallen by less, in seconds. Choice: two packets at 64 kbit/s, which are sent together now and then.
const FALLS_LEAST_S: f64 = 0.06;
/// A queue that grew and was gone so soon was jitter's, if none was for so long before. Choice: a twentieth less than
/// leaves it takes longer to empty one that is longer than jitter.
const GONE_WITHIN: Duration = Duration::from_secs(1);
const CHANCE_FOR: Duration = Duration::from_secs(10);
/// Where round trips vary by less it was none. Choice: packets on a link of 150 kbit/s make them vary by a third of it.
const CHANCE_ROUGH: Duration = Duration::from_millis(40);

/// Losses before a rate fell, and since.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    pub(super) lost_share: f64,
    /// What the rate must not stay below.
    pub(super) fair_bps: f64,
    pub(super) since: Epoch,
}

impl Brake {
    /// Whether losses have become fewer since the rate fell for them.
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
                self.probation = Some((Epoch::new(now), PROBATIONS));
                self.tolerated = (2.0 * lost + 0.01).max(1.5 * FEW_LOST);
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

    /// What looked like a queue that grows may have been jitter: none stands. The second time it is believed, and
    /// so is a queue in front of which the lane was held back before.
    pub(super) fn was_chance(&self, now: Time, fell: Time) -> bool {
        let limit = self.limit.as_ref();
        let young = limit.filter(|limit| now.since(limit.began) <= GONE_WITHIN);
        let grew = young.and_then(|limit| limit.leaves);
        let is_first = self.chance_at.is_none_or(|at| fell >= at + CHANCE_FOR);
        let is_rough = self.baseline.jitter() > CHANCE_ROUGH;
        grew.is_some() && is_first && is_rough && now.since(fell) <= GONE_WITHIN
    }

    /// The queue has not answered to less.
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
