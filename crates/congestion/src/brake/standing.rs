//! A queue that stands in front of a lane that knows its drain rate.
//!
//! ```text
//!   above the least round trip       what it is                        what the lane does
//!   ──────────────────────────────────────────────────────────────────────────────────────────────
//!   one packet and jitter, or less   the packet that is just leaving   tries more
//!   more                             a queue                           gives less, measures what leaves
//!   … and it does not fall by that   others' queue, or a longer path   goes by the rules for these
//! ```
//! On a narrow link a packet takes longer to leave than round trips usually vary, hellos are a third of the traffic,
//! and the line that showed the growth had few points. A rate that is a tenth too high keeps the queue at a length at
//! which everything is late. So the queue is emptied with a margin, and its drain rate is measured again meanwhile.

use super::Brake;
use crate::baseline::Steady;
use base::{Duration, Time};

/// While a queue stands in front of a lane that knows its drain rate, the flows share this part of the rate. Choice:
/// the drain rate is known to a sixth, and hellos come more often meanwhile. A tenth of a second of queue is gone
/// within half a second, and by then it is clear whose queue it is.
pub(super) const EMPTYING: f64 = 0.75;
/// The minimum time over which the drain rate is measured again, and the least share of the earlier estimate that the
/// new one may have. Choice: a few packets of a narrow link; if the drain rate is lower, the queue belongs to other
/// traffic.
const MEASURED_AGAIN: Duration = Duration::from_millis(300);
const MEASURED_LEAST: f64 = 0.7;
/// The number of questions that show whether waits depend on the packets in front of them. Choice: a second of a link in
/// use.
const UNMODELLED: f64 = 10.0;
/// If a question waits less than this share of what the packets in front of it explain, together with three times the error,
/// it does not wait for them. Choice: half; behind a narrow link it waits for all of it.
const FLAT: f64 = 0.5;
/// The minimum number of packets per second. Choice: one packet shows within a second whether a higher rate may be
/// tried.
const HEARD_LEAST: f64 = 1.0;
/// The assumed packet size before any packet has been judged. Choice: a packet of a call.
const UNKNOWN_BYTES: f64 = 200.0;

impl Brake {
    /// Returns true if there is more queue than the lane's own packets explain.
    pub(super) fn stands(&self) -> bool {
        let usual = self.own_packets();
        let above = self
            .growth
            .last()
            .map(|last| self.baseline.above(last.there));
        usual.zip(above).is_some_and(|(usual, above)| above > usual)
    }

    /// Returns by how much a round trip may exceed the least one behind the packet that is just leaving, if the time of
    /// that packet is known. If packets take long, round trips vary as with jitter, so only their variation before the
    /// limit counts.
    pub(super) fn own_packets(&self) -> Option<Duration> {
        let limit = self.limit.as_ref()?;
        let (leaves_bps, _) = limit.leaves?;
        let packet = Duration::from_secs_f64(self.packet_bytes * 8.0 / leaves_bps.max(1.0));
        Some(self.baseline.margin() + limit.jitter + packet)
    }

    /// Returns true if the lane's own packets do not explain why round trips have been longer since then: the rise is too
    /// long, or questions waited no longer behind packets than without.
    pub(super) fn is_more_than_own(&self, steady: &Steady) -> bool {
        let own = self.own_packets();
        own.is_none_or(|own| steady.above > own) || self.is_wait_unmodelled(steady.since)
    }

    /// Returns true if the waits of questions since then do not depend on the packets in front of them: a line through
    /// waits over modelled waits is flat, and not by chance.
    fn is_wait_unmodelled(&self, since: Time) -> bool {
        let echoes = self.growth.echoes_after(since);
        let (mut n, mut x, mut y, mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
        for echo in echoes {
            let (modelled, waited) = (echo.modelled.as_secs_f64(), echo.there.as_secs_f64());
            n += 1.0;
            x += modelled;
            y += waited;
            xx += modelled * modelled;
            xy += modelled * waited;
            yy += waited * waited;
        }
        if n < UNMODELLED {
            return false;
        }
        let (xx, xy, yy) = (xx - x * x / n, xy - x * y / n, yy - y * y / n);
        if xx <= 0.0 {
            return false;
        }
        let slope = xy / xx;
        let error = ((yy - slope * xy).max(0.0) / (n - 2.0) / xx).sqrt();
        slope + 3.0 * error < FLAT
    }

    /// Measures the drain rate again. The first line through a growing queue is short; while the queue stands, each
    /// answer improves the estimate.
    pub(super) fn measure_again(&mut self, fell: Time) {
        let least = self.heard_least_bps();
        let Some(limit) = &mut self.limit else {
            return;
        };
        let Some(((_, other_bps), line)) = limit.leaves.zip(self.growth.since(fell)) else {
            return;
        };
        if line.span < MEASURED_AGAIN {
            return;
        }
        let leaves = line.served_bps().min(limit.first_bps);
        let first_bps = limit
            .raised
            .map_or(limit.first_bps, |raised| raised.first_bps);
        let leaves = leaves.max(first_bps * MEASURED_LEAST);
        limit.leaves = Some((leaves, other_bps));
        let known = limit.known_bps().unwrap_or(f64::MAX).max(least);
        limit.rate_bps = limit.rate_bps.min(known);
    }

    /// Returns the minimum rate. A lane that sends nothing would never learn what it may send.
    pub(super) fn heard_least_bps(&self) -> f64 {
        HEARD_LEAST * self.packet_bytes.max(UNKNOWN_BYTES) * 8.0
    }
}
