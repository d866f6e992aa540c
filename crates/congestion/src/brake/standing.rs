//! A queue that stands in front of a lane that knows what leaves it.
//!
//! ```text
//!   above the least round trip       what it is                        what the lane does
//!   ──────────────────────────────────────────────────────────────────────────────────────────────
//!   one packet and jitter, or less   the packet that is just leaving   tries more
//!   more                             a queue                           gives less, measures what leaves
//!   … and it does not fall by that   others' queue, or a longer path   goes by the rules for these
//! ```
//! On a narrow link a packet takes longer to leave than round trips usually differ, hellos are a third of what is sent, and
//! the line that showed the growth had few points. A rate that is a tenth too high keeps a queue at the length at which all
//! is late; so it is emptied with a margin, and what leaves it is measured on.

use super::Brake;
use base::{Duration, Time};

/// While a queue stands in front of a lane that knows what leaves it, what flows share is so much of the rate. Choice: what
/// leaves is known to a sixth, and hellos come more often meanwhile. A tenth of a second of queue is gone within half a second, and whose
/// it is shows by then.
pub(super) const EMPTYING: f64 = 0.75;
/// What leaves a queue is measured again over so much time at least, and found to be no less than this share of what was thought. Choice:
/// a few packets of a narrow link; what makes less leave is others' queue.
const MEASURED_AGAIN: Duration = Duration::from_millis(300);
const MEASURED_LEAST: f64 = 0.7;
/// So many packets a second are sent at least. Choice: one tells within a second whether more may be tried.
const HEARD_LEAST: f64 = 1.0;
/// Of so many bytes, before any has been judged. Choice: a packet of a call.
const UNKNOWN_BYTES: f64 = 200.0;

impl Brake {
    /// In front of a lane that knows what leaves it there is more than its own packets explain.
    pub(super) fn stands(&self) -> bool {
        let usual = self.own_packets();
        let above = self
            .growth
            .last()
            .map(|last| self.baseline.above(last.there));
        usual.zip(above).is_some_and(|(usual, above)| above > usual)
    }

    /// By how much a round trip may exceed the least behind the packet that is just leaving, where it is known how long that takes. Where
    /// packets take long, round trips differ as by jitter; so what they differed by before counts.
    pub(super) fn own_packets(&self) -> Option<Duration> {
        let limit = self.limit.as_ref()?;
        let (leaves_bps, _) = limit.leaves?;
        let packet = Duration::from_secs_f64(self.packet_bytes * 8.0 / leaves_bps.max(1.0));
        Some(self.baseline.margin() + limit.jitter + packet)
    }

    /// The first line through a queue that grows is short. While it stands, what leaves it is known better with each answer.
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

    /// A lane that sends nothing hears nothing of what it might send.
    pub(super) fn heard_least_bps(&self) -> f64 {
        HEARD_LEAST * self.packet_bytes.max(UNKNOWN_BYTES) * 8.0
    }
}
