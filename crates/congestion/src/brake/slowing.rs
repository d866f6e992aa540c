//! A queue that grows or stands: how long a packet waits in it, and when the lane slows down because of it.

use super::growth::Line;
use super::limit::{DRAINING, Limit};
use super::{Brake, OTHERS_SHARE};
use base::{Duration, Time};

/// How long a queue of other traffic may grow.
const OTHERS_FOR: Duration = Duration::from_secs(30);
/// A queue may grow as long as it makes nothing late within this time and two round trips. Choice: a tenth of a second
/// until the next line is seen, and another until the effect of a lower rate shows.
const REACTION: Duration = Duration::from_millis(200);
/// The maximum length of a queue that may grow. Choice: many queues that are longer lose packets.
const QUEUE_MOST: Duration = Duration::from_millis(100);

impl Brake {
    /// Handles a new round trip: slows down because of a growing queue, ends a try, or releases the brake.
    pub(super) fn look_for_growth(&mut self, now: Time) {
        let fell = self.limit.as_ref().map_or(Time::ZERO, |limit| limit.fell);
        let stands = self.stands();
        if stands {
            self.measure_again(fell);
        }
        if let Some(limit) = &mut self.limit
            && self.growth.last().is_some_and(|last| last.sent > fell)
        {
            // A queue that has stood and no longer does has reacted, even where a packet of the lane takes as long as a
            // short queue.
            limit.is_proved |= limit.has_stood && !stands;
            limit.has_stood |= stands;
        }
        if !self.baseline.is_queued() {
            let last = self.growth.last();
            let is_gone = last.is_some_and(|e| e.sent > fell && !self.baseline.is_above(e.rtt));
            if let Some(limit) = &mut self.limit {
                limit.is_proved |= is_gone;
            }
            if is_gone && self.was_chance(now, fell) {
                self.chance_at = Some(now);
                self.release(now);
            }
            return;
        }
        if self.is_others(fell) {
            self.others_until = now + OTHERS_FOR;
            self.release(now);
            // The queue stands, whoever has made it.
            self.congested = true;
            return;
        }
        if !self.is_there() {
            return;
        }
        let leaves = self.limit.as_ref().and_then(|limit| limit.leaves);
        if leaves.is_some() && self.may_try(now) {
            return self.try_no_more(now);
        }
        let jitter = self.baseline.jitter();
        if now >= self.others_until
            && let Some(line) = self.growth.rising(fell, jitter)
            && self.is_urgent(&line)
        {
            self.slow_down(now, &line);
        }
    }

    /// Returns true if the delay that makes the round trip long is not in the backward direction.
    pub(super) fn is_there(&self) -> bool {
        let last = self.growth.last();
        last.is_none_or(|last| self.baseline.is_long(last.there))
    }

    /// Returns true if a queue with this growth makes packets late before its reaction could be known.
    fn is_urgent(&self, line: &Line) -> bool {
        let Some(last) = self.growth.last() else {
            return false;
        };
        let most = self.slack.min(self.epoch.slack).min(QUEUE_MOST);
        let left = most.saturating_sub(self.baseline.above(last.there));
        let grows_s = line.slope * (REACTION + last.rtt * 2).as_secs_f64();
        left.as_secs_f64() <= grows_s
    }

    /// Slows down because a queue grows: the lane sends the drain rate, minus a margin.
    fn slow_down(&mut self, now: Time, line: &Line) {
        if line.other_bps > OTHERS_SHARE * line.given_bps {
            return;
        }
        let leaves = line.served_bps();
        let rate_bps = ((leaves - line.other_bps) * DRAINING).max(0.0);
        let before = self.limit.take();
        let held = before.as_ref().map_or(f64::MAX, |limit| limit.rate_bps);
        let mut limit = before.unwrap_or_else(|| Limit::new(now, rate_bps, self.baseline.jitter()));
        limit.rate_bps = rate_bps.min(held);
        limit.leaves = Some((leaves, line.other_bps));
        limit.first_bps = leaves;
        limit.raised = None;
        limit.cut = None;
        self.falls(now, limit);
        self.congested = true;
    }

    /// Returns how long a packet that is sent now would wait in the queue; `None` if nothing is known of it.
    pub(super) fn waits(&self, now: Time) -> Option<Duration> {
        let limit = self.limit.as_ref()?;
        let (leaves_bps, other_bps) = limit.leaves?;
        let last = self.growth.last()?;
        let since = now.since(last.sent).as_secs_f64();
        let lane_bits = (self.lane_bytes - last.lane_bytes) as f64 * 8.0;
        let given_s = (lane_bits + other_bps * since) / leaves_bps.max(1.0);
        let waits_s = self.baseline.above(last.there).as_secs_f64() + given_s - since;
        Some(Duration::from_secs_f64(waits_s.max(0.0)))
    }
}
