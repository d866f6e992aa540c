//! How more is tried after the rate fell, and when the brake lets go.

use super::judge::Pace;
use super::limit::Limit;
use super::{Brake, EPOCH_LEAST, Echo};
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
/// The same where it is known what leaves. Choice: a try queues about 50 ms of packets. The next one comes when these and half as
/// many more have left beside the flows that are served.
const TRIED_S: f64 = 0.08;
const TRY_AFTER_KNOWN: Duration = Duration::from_secs(8);
/// The same while no flow is served whole: a trial disturbs nobody then.
const TRY_AFTER_UNSERVED: Duration = Duration::from_secs(2);
/// A queue of so much is seen, beside half of what jitter adds to both ways.
const NOTICED: Duration = Duration::from_millis(15);
/// So many answers in a row that waited as modelled end a try. Choice: one may be late by chance.
const DENIED: u32 = 2;
/// And so many that did not wait find the first of what more leaves. Choice: the packets before one may have been lost.
const FOUND: u32 = 2;
/// When packets have not waited as modelled, so many times as much leaves, or more.
const RAISED: f64 = 2.0;
/// The same for the first that is found. Choice: what leaves may be known a fifth too low. Twice as much would then make a
/// queue, in which the flows that are served wait, too.
const RAISED_FIRST: f64 = 1.25;
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

    /// The lane tries whether more leaves than is known.
    pub(super) fn tries(&self, now: Time) -> bool {
        let is_known = self
            .limit
            .as_ref()
            .is_some_and(|limit| limit.leaves.is_some());
        is_known && self.may_try(now) && !self.stands()
    }

    /// A packet beyond the rate may go to try it: what is modelled stays short.
    pub(super) fn has_room_to_try(&self, now: Time, bytes: usize) -> bool {
        let Some(limit) = self.limit.as_ref().filter(|_| self.tries(now)) else {
            return false;
        };
        let most = self.noticed() + limit.takes(bytes).div(2);
        limit.modelled(now).max(self.waits(now).unwrap_or_default()) <= most
    }

    /// A queue that is modelled so long is seen if it is there.
    fn noticed(&self) -> Duration {
        let jitter = self
            .limit
            .as_ref()
            .map_or(Duration::ZERO, |limit| limit.jitter);
        let slack = self.slack.min(self.epoch.slack);
        (NOTICED + jitter.div(2)).min(slack.div(2)).max(NOTICED)
    }

    /// An answer tells whether the packets before its question waited as they would have if no more left than is known.
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
                // It waited about as modelled: what was found leaves.
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

    /// More was tried, and a queue stands: back to what leaves it.
    pub(super) fn try_no_more(&mut self, now: Time) {
        let Some(mut limit) = self.limit.take() else {
            return;
        };
        limit.lower();
        limit.rate_bps = limit.rate_bps.min(limit.known_bps().unwrap_or(f64::MAX));
        self.falls(now, limit);
    }

    /// The rate has fallen to that of `limit`.
    pub(super) fn falls(&mut self, now: Time, mut limit: Limit) {
        limit.rate_bps = limit.rate_bps.max(self.heard_least_bps());
        if now.since(limit.fell) >= self.try_after {
            // What was tried was too much.
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

    /// The brake lets go.
    pub(super) fn release(&mut self, now: Time) {
        self.limit = None;
        self.congested = false;
        self.try_after = TRY_AFTER;
        self.decide(now);
    }
}
