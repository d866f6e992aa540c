//! A path that has become longer looks like a queue. The difference is that a queue changes with what is in flight.
//!
//! ```text
//!   round trip                 queue                             longer path
//!      |         ___        /\/\/\                            ┌─────────────── level, whatever is in flight
//!      |        /         /                                   │
//!      |_______/   or ___/                            ________│
//!      '──────────────────────────────▶ time
//! ```
//! If a round trip stays level for seconds, while the flight varies or the window limits nothing, and while no more is
//! lost than before, the rise belongs to the path. Without this check, each loss would cost a part of the window for
//! minutes after a route has changed, as it costs a TCP.

use super::Share;
use crate::delivery::Delivered;
use base::{Duration, Time};

/// A rise must be level for this time plus four times the rise. Choice: the same as in the brake.
const LEVEL_FOR: Duration = Duration::from_secs(3);
/// Round trips that differ by no more than this are level, or by this share of the rise, or by the jitter.
const LEVEL: Duration = Duration::from_millis(2);
const LEVEL_SHARE: u64 = 8;
/// A flight that varies by this factor would change a queue. Choice: more than what counts as level.
const VARIES: f64 = 1.25;

/// Round trips that have become longer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rise {
    /// Since when the round trips have been level, and between which values.
    since: Time,
    pub(super) low: Duration,
    high: Duration,
    /// The least and the most in flight since then.
    flights: (f64, f64),
    /// The packets that were answered or lost since then.
    pub(super) share: Share,
    /// The window has limited the sender since then.
    is_limited: bool,
}

impl Rise {
    pub(super) fn new(since: Time, shortest: Duration, flight: f64) -> Rise {
        Rise {
            since,
            low: shortest,
            high: shortest,
            flights: (flight, flight),
            share: Share::default(),
            is_limited: false,
        }
    }

    /// Handles an acknowledgement. `shortest` is the shortest recent round trip, `least` the path's least one, and
    /// `jitter` what jitter adds.
    pub(super) fn on_delivered(
        &mut self,
        told: &Delivered,
        shortest: Duration,
        flight: f64,
        (least, jitter): (Duration, Duration),
    ) {
        self.low = self.low.min(shortest);
        self.high = self.high.max(shortest);
        let share = (self.low - least).div(LEVEL_SHARE);
        if self.high - self.low > LEVEL.max(share).max(jitter) {
            *self = Rise::new(told.now, shortest, flight);
            return;
        }
        self.flights = (self.flights.0.min(flight), self.flights.1.max(flight));
        self.is_limited |= told.limited;
        self.share.lost += told.lost;
        self.share.all += told.segments + told.lost;
    }

    /// Returns true if the rise has been level for so long that a queue would have changed.
    pub(super) fn is_level_for_long(&self, now: Time, least: Duration) -> bool {
        let varies = self.flights.1 >= self.flights.0 * VARIES;
        let lasts = now.since(self.since) >= LEVEL_FOR + (self.low - least) * 4;
        lasts && (varies || !self.is_limited)
    }
}
