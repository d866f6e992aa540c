//! How more is tried after the rate fell, and when the brake lets go.

use super::judge::Pace;
use super::limit::Limit;
use super::{Brake, EPOCH_LEAST};
use base::{Duration, Time};

/// The rate grows by no more than this share in the first second of trying. Choice: a queue that grows by a
/// quarter of a second per second is known before it is a tenth long.
const GROWTH_FIRST: f64 = 0.25;
/// By twice as much in each further second without a queue, up to this share: a path that carries many times
/// what it did is found within seconds.
const GROWTH_MOST: f64 = 1.0;
/// More is tried so long after the rate fell, twice as long when that was too much, and so on.
pub(super) const TRY_AFTER: Duration = Duration::from_secs(1);
const TRY_AFTER_MAX: Duration = Duration::from_secs(64);
/// The same while no flow is served whole: a trial disturbs nobody then.
const TRY_AFTER_UNSERVED: Duration = Duration::from_secs(2);
/// So many packets a second more are tried at least where no flow is served whole. Choice: a lane that was left nothing, because hellos
/// fill the link, is as wide as a call four seconds after the link is.
const TRIED_LEAST: f64 = 4.0;
/// The brake lets go when the rate is so many times what is offered.
pub(super) const FREE_AT: f64 = 1.25;

impl Brake {
    /// The rate fell so long ago that more may be tried.
    pub(super) fn may_try(&self, now: Time) -> bool {
        let limit = self.limit.as_ref();
        limit.is_some_and(|limit| now.since(limit.fell) >= self.try_after)
    }

    /// No queue stands, and the rate has not fallen for long enough: more is tried.
    pub(super) fn try_more(&mut self, now: Time, pace: &Pace) {
        let Some(limit) = &mut self.limit else {
            return;
        };
        let span_s = pace.span.as_secs_f64();
        let steps = span_s / pace.rtt.as_secs_f64().max(1e-3);
        let fair = self.settings.alpha * pace.fair_bps * steps.min(8.0);
        let tried = now.since(limit.fell).saturating_sub(self.try_after);
        let growth = (GROWTH_FIRST * tried.as_secs_f64().floor().exp2()).min(GROWTH_MOST);
        let whole = limit.rate_bps * span_s;
        // Where no flow can be served whole, a trial disturbs none, and what succeeds serves one the sooner. It
        // ends when a queue stands, at what is known to leave it.
        let known = limit.known_bps();
        // A rate of nothing would never grow.
        let least = TRIED_LEAST * self.packet_bytes * 8.0 * span_s;
        let is_quick = known.is_some_and(|known| self.flows.none_fits(known));
        limit.rate_bps += match is_quick {
            true => GROWTH_MOST * whole.max(least),
            false => fair.min(growth * whole),
        };
        limit.rate_bps = limit.rate_bps.max(known.unwrap_or(0.0));
    }

    /// More was tried, and a queue stands: back to what leaves it.
    pub(super) fn try_no_more(&mut self, now: Time) {
        let Some(mut limit) = self.limit.take() else {
            return;
        };
        limit.rate_bps = limit.rate_bps.min(limit.known_bps().unwrap_or(f64::MAX));
        self.falls(now, limit);
    }

    /// The rate has fallen to that of `limit`.
    pub(super) fn falls(&mut self, now: Time, mut limit: Limit) {
        limit.rate_bps = limit.rate_bps.max(self.heard_least_bps());
        if now.since(limit.fell) >= self.try_after {
            // What was tried was too much.
            let most = match self.flows.served_bps() > 0.0 {
                true => TRY_AFTER_MAX,
                false => TRY_AFTER_UNSERVED,
            };
            self.try_after = (self.try_after * 2).min(most);
        }
        limit.fell = now;
        let rtt = self.baseline.latest();
        limit.deaf_until = now + rtt * 2 + EPOCH_LEAST;
        self.limit = Some(limit);
        self.flows.measure(now);
        self.decide(now);
    }

    /// The brake lets go.
    pub(super) fn release(&mut self, now: Time) {
        self.limit = None;
        self.congested = false;
        self.try_after = TRY_AFTER;
        self.decide(now);
    }
}
