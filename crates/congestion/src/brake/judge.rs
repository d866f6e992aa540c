//! The meaning of losses and round trips between two judgements: congestion, a queue of other traffic, or chance.

use super::answer::{ANSWER_PACKETS, ASKS_BELOW, Cut};
use super::doubt::Doubt;
use super::epoch::Epoch;
use super::limit::Limit;
use super::tries::FREE_AT;
use super::{Brake, FEW_LOST};
use base::{Duration, Time};

/// The pace of the lane.
pub(super) struct Pace {
    /// The time from the last judgement to this one.
    pub(super) span: Duration,
    pub(super) rtt: Duration,
    /// The rate of one packet of each flow per round trip.
    pub(super) fair_bps: f64,
}

impl Brake {
    /// Judges an epoch that took `span`. Slows down, tries a higher rate, or releases the brake.
    pub(super) fn judge(&mut self, now: Time, rtt: Duration, span: Duration, epoch: &Epoch) {
        let per_s = 8.0 / span.as_secs_f64();
        let share = epoch.lost_share();
        self.loss = match self.loss {
            0.0 => share,
            loss => 0.75 * loss + 0.25 * share,
        };
        self.packet_bytes = epoch.sent_bytes as f64 / epoch.sent as f64;
        let pace = Pace {
            span,
            rtt,
            fair_bps: epoch.flows() * (self.packet_bytes * 8.0 / rtt.as_secs_f64().max(1e-3)),
        };
        let doubt = self.doubt(now, epoch);
        let lost_so_far = match self.baseline.steady() {
            Some(_) if self.trial.told > 0 => self.trial.lost_share(),
            _ => self.loss,
        };
        self.try_out(now, rtt, epoch);
        self.hear_answer(now, epoch);
        let queued = self.baseline.is_queued() && self.is_there();
        let may_try = self.may_try(now);
        let stands = self.stands();
        // Losses while a queue may have begun to stand do not count either.
        let there = self.growth.last().map_or(rtt, |last| last.there);
        if !queued && !self.baseline.is_above(there) {
            self.usual_loss += 0.1 * (share - self.usual_loss);
        }
        let is_usual = doubt == Doubt::AsUsual
            || now < self.unanswered_until && self.loss <= self.usual_most(ANSWER_PACKETS);
        let is_few = self.loss <= self.usual_most(ANSWER_PACKETS).max(FEW_LOST);
        // Losses that are reported now were sent in this epoch or in the last.
        let beside = epoch.waited_beside();
        let others_answer = core::mem::replace(&mut self.waited_beside, beside) || beside;
        match (&self.limit, epoch.lost > 0, queued) {
            (_, true, true) if others_answer => self.congested = true,
            (None, true, true) if is_usual => {}
            (None, true, true) if matches!(doubt, Doubt::Outage | Doubt::Sudden) => {
                self.congested = true;
            }
            // Packets that were sent before the rate fell are still lost, so there is only one cut per round trip.
            (Some(limit), true, true) if now < limit.deaf_until => self.congested = true,
            (Some(limit), true, true) if doubt != Doubt::None || limit.cut.is_some() => {
                self.congested = true;
            }
            // The lane sends less than the measured drain rate, so a few losses are random.
            (Some(limit), true, true) if limit.leaves.is_some() && is_few => {
                self.congested = true;
            }
            (_, true, true) => self.slow_for_losses(now, &pace, epoch, share.min(lost_so_far)),
            // Without a queue, losses are random and no reason to stay slow.
            (Some(_), _, false) if may_try && !stands => self.try_more(now, &pace),
            _ => {}
        }
        self.congested &= queued;
        let offered = (epoch.offered_bytes as f64 * per_s).max(self.flows.offered_bps());
        let is_wide = |limit: &Limit| limit.rate_bps > FREE_AT * offered;
        if !queued && may_try && self.limit.as_ref().is_some_and(is_wide) {
            if self
                .limit
                .as_ref()
                .is_some_and(|limit| limit.leaves.is_none())
            {
                self.try_wide(now);
            }
            self.release(now);
        }
    }

    /// Treats losses as congestion: the rate falls by γ of what arrives.
    fn slow_for_losses(&mut self, now: Time, pace: &Pace, epoch: &Epoch, lost_share: f64) {
        self.congested = true;
        let per_s = 8.0 / pace.span.as_secs_f64();
        let arrived = epoch.sent_bytes as f64 * per_s * (1.0 - epoch.lost_share());
        let held = self.limit.as_ref().map_or(f64::MAX, |limit| limit.rate_bps);
        // If little was sent in an epoch, its arrival rate proves little.
        let slower = held
            .min(arrived)
            .max(if held < f64::MAX { held / 2.0 } else { 0.0 });
        // Mathis et al. 1997: a TCP sends 1.22 / √p packets per round trip.
        let fair = pace.fair_bps * (1.5 / self.loss.max(1e-4)).sqrt();
        let slower = slower * (1.0 - self.settings.gamma);
        let mut limit = self
            .limit
            .take()
            .unwrap_or_else(|| Limit::new(now, slower, self.baseline.jitter()));
        // To test whether losses react, the lane sends less than is fair for a while, if it has to send less at all.
        let is_too_much = fair < epoch.offered_bytes as f64 * per_s;
        let asks = now >= limit.asks_from && is_too_much && self.loss <= ASKS_BELOW;
        limit.rate_bps = if asks { slower } else { slower.max(fair) };
        if asks {
            limit.cut = Some(Cut {
                lost_share,
                fair_bps: fair,
                since: Epoch::new(now),
            });
        }
        // The lane loses packets at the rate that was assumed to be the drain rate.
        limit.leaves = None;
        self.falls(now, limit);
    }
}
