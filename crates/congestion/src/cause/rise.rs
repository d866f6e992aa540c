//! A path that has become longer looks like a queue. What tells them apart is that a queue moves with what is in flight.
//!
//! ```text
//!   round trip                 queue                             longer path
//!      |         ___        /\/\/\                            ┌─────────────── level, whatever is in flight
//!      |        /         /                                   │
//!      |_______/   or ___/                            ________│
//!      '──────────────────────────────▶ time
//! ```
//! A round trip that stays level for seconds, while the flight varies or the window limits nothing, and while no more is lost
//! than ever, is the path's. Without this each loss would cost a part of the window for minutes after a route has changed, as it
//! costs a TCP.

use super::Share;
use crate::delivery::Delivered;
use base::{Duration, Time};

/// A rise is level for so long, and four times the rise. Choice: as the brake has it.
const LEVEL_FOR: Duration = Duration::from_secs(3);
/// Round trips that differ by so little are level, by this share of the rise, or by what jitter makes.
const LEVEL: Duration = Duration::from_millis(2);
const LEVEL_SHARE: u64 = 8;
/// A flight that varies by so many times would move a queue. Choice: more than what counts as level.
const VARIES: f64 = 1.25;

/// Round trips that have become longer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rise {
    /// Since when they have been level, between these.
    since: Time,
    pub(super) low: Duration,
    high: Duration,
    /// The least and the most in flight since.
    flights: (f64, f64),
    /// What has become of the packets since.
    pub(super) share: Share,
    /// The window has limited the sender since.
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

    /// An acknowledgement came, and the shortest round trip of late is this; the path's was `least`, and jitter adds so much.
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

    /// It has been level for so long that a queue would have moved.
    pub(super) fn is_level_for_long(&self, now: Time, least: Duration) -> bool {
        let varies = self.flights.1 >= self.flights.0 * VARIES;
        let lasts = now.since(self.since) >= LEVEL_FOR + (self.low - least) * 4;
        lasts && (varies || !self.is_limited)
    }
}
