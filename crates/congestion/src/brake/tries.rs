//! How the lane tries a higher rate after the rate fell, and when the brake is released.

use super::judge::Pace;
use super::limit::Limit;
use super::{Brake, EPOCH_LEAST, Echo};
use base::{Duration, Time};

/// The maximum growth of the rate in the first second of trying. Choice: a queue that grows by a quarter of a second
/// per second is detected before it is a tenth of a second long.
const GROWTH_FIRST: f64 = 0.25;
/// The growth doubles in each further second without a queue, up to this share: so the lane finds a path that carries
/// many times its earlier rate within seconds.
const GROWTH_MOST: f64 = 1.0;
/// How long after the rate fell a higher rate is tried. The time doubles when that was too much, and so on.
pub(super) const TRY_AFTER: Duration = Duration::from_secs(1);
const TRY_AFTER_MAX: Duration = Duration::from_secs(64);
/// The same if the drain rate is known. Choice: a try queues about 50 ms of packets. The next try comes when these and
/// half as many more have left beside the served flows.
const TRIED_S: f64 = 0.08;
const TRY_AFTER_KNOWN: Duration = Duration::from_secs(8);
/// The same time while no flow is served whole, because a try then disturbs no flow.
const TRY_AFTER_UNSERVED: Duration = Duration::from_secs(2);
/// A queue of this length is detected, in addition to half of the jitter of both directions.
const NOTICED: Duration = Duration::from_millis(15);
/// This number of answers in a row that waited as modelled ends a try. Choice: one may be late by chance.
const DENIED: u32 = 2;
/// This number of answers in a row that did not wait reveals a higher drain rate for the first time. Choice: the
/// packets before one of them may have been lost.
const FOUND: u32 = 2;
/// If packets have not waited as modelled, the known drain rate is multiplied by this.
const RAISED: f64 = 2.0;
/// The same factor for the first increase. Choice: the drain rate may be known a fifth too low. A factor of two would
/// then make a queue, in which the served flows wait, too.
const RAISED_FIRST: f64 = 1.25;
/// The brake is released when the rate is this multiple of the offered rate.
pub(super) const FREE_AT: f64 = 1.25;

impl Brake {
    /// Returns true if the rate fell long enough ago that a higher rate may be tried.
    pub(super) fn may_try(&self, now: Time) -> bool {
        let limit = self.limit.as_ref();
        limit.is_some_and(|limit| now.since(limit.fell) >= self.try_after)
    }

    /// Tries a higher rate, when no queue stands and the rate has not fallen for long enough.
    pub(super) fn try_more(&mut self, now: Time, pace: &Pace) {
        let Some(limit) = &mut self.limit else {
            return;
        };
        let known = limit.known_bps();
        limit.rate_bps = limit.rate_bps.max(known.unwrap_or(0.0));
        if known.is_some_and(|known| known < self.flows.offered_bps()) {
            return;
        }
        let span_s = pace.span.as_secs_f64();
        let steps = span_s / pace.rtt.as_secs_f64().max(1e-3);
        let fair = self.settings.alpha * pace.fair_bps * steps.min(8.0);
        let tried = now.since(limit.fell).saturating_sub(self.try_after);
        let growth = (GROWTH_FIRST * tried.as_secs_f64().floor().exp2()).min(GROWTH_MOST);
        limit.rate_bps += fair.min(growth * limit.rate_bps * span_s);
    }

    /// Returns true if the lane tries whether the drain rate is higher than known.
    pub(super) fn tries(&self, now: Time) -> bool {
        let is_known = self
            .limit
            .as_ref()
            .is_some_and(|limit| limit.leaves.is_some());
        is_known && self.may_try(now) && !self.stands()
    }

    /// Returns true if a packet beyond the rate may be sent as a try: the modelled queue stays short.
    pub(super) fn has_room_to_try(&self, now: Time, bytes: usize) -> bool {
        let Some(limit) = self.limit.as_ref().filter(|_| self.tries(now)) else {
            return false;
        };
        let most = self.noticed() + limit.takes(bytes).div(2);
        limit.modelled(now).max(self.waits(now).unwrap_or_default()) <= most
    }

    /// Returns the length at which a modelled queue would be detected if it existed.
    fn noticed(&self) -> Duration {
        let jitter = self
            .limit
            .as_ref()
            .map_or(Duration::ZERO, |limit| limit.jitter);
        let slack = self.slack.min(self.epoch.slack);
        (NOTICED + jitter.div(2)).min(slack.div(2)).max(NOTICED)
    }

    /// Uses an answer to check whether the packets before its question waited as they would have if the drain rate were
    /// not higher than known.
    pub(super) fn look_for_room(&mut self, now: Time, echo: &Echo) {
        let noticed = self.noticed();
        let tries = self.tries(now);
        let above = self.baseline.above(echo.there);
        let Some(limit) = &mut self.limit else {
            return;
        };
        let Some((leaves, others)) = limit.leaves else {
            return;
        };
        let raised = limit.raised.map_or(Time::ZERO, |raised| raised.at);
        if echo.sent <= limit.fell.max(raised) || echo.modelled < noticed {
            return;
        }
        if above * 2 > echo.modelled || above > noticed {
            limit.found = 0;
            limit.denied += u32::from(tries);
            if above * 2 <= echo.modelled * 3 {
                // The packet waited about as modelled, so the drain rate that was found is confirmed.
                limit.raised = None;
            }
            if limit.denied >= DENIED {
                self.try_no_more(now);
            }
            return;
        }
        limit.denied = 0;
        limit.found += 1;
        if limit.found < FOUND && limit.raised.is_none() {
            return;
        }
        let more = if limit.raised.is_some() {
            RAISED
        } else {
            RAISED_FIRST
        };
        limit.raise(now, (leaves, others), leaves * more);
        self.try_after = TRY_AFTER;
        if limit.rate_bps > FREE_AT * self.flows.offered_bps() {
            self.release(now);
        } else {
            self.decide(now);
        }
    }

    /// Ends a try because a queue stands: goes back to the known drain rate.
    pub(super) fn try_no_more(&mut self, now: Time) {
        let Some(mut limit) = self.limit.take() else {
            return;
        };
        limit.lower();
        limit.rate_bps = limit.rate_bps.min(limit.known_bps().unwrap_or(f64::MAX));
        self.falls(now, limit);
    }

    /// Applies the lower rate of `limit`.
    pub(super) fn falls(&mut self, now: Time, mut limit: Limit) {
        limit.rate_bps = limit.rate_bps.max(self.heard_least_bps());
        if now.since(limit.fell) >= self.try_after {
            // The rate that was tried was too high.
            let most = match limit.leaves {
                _ if self.flows.served_bps() == 0.0 => TRY_AFTER_UNSERVED,
                Some((leaves, others)) => {
                    let spare = 1.0 - (self.flows.served_bps() + others) / leaves.max(1.0);
                    let gone_s = TRIED_S / spare.max(1e-3);
                    TRY_AFTER_KNOWN.min(Duration::from_secs_f64(gone_s).max(TRY_AFTER))
                }
                None => TRY_AFTER_MAX,
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

    /// Releases the brake.
    pub(super) fn release(&mut self, now: Time) {
        self.limit = None;
        self.congested = false;
        self.try_after = TRY_AFTER;
        self.decide(now);
    }
}
