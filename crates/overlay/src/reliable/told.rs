//! What a neighbour has been told of the destinations whose packets wait at this node.
//!
//! Back-pressure is per destination and routing, because that is what a branch is: a window per
//! neighbour stops everything for the slowest branch, one per flow costs as many words as there are
//! flows, and which lane a packet takes here the neighbour does not know, nor need it.
//!
//! ```text
//!   lanes of this node ── backlogs ──▶ wanted ── what has changed, all now and then ──▶ LaneHolds
//! ```
//! Nothing depends on a single word: what is told is told again, and what is not told any more ends.

use super::{HOLD_LIFE, HOLDS_MAX};
use base::{Duration, Time};
use wire::control::{Builder, Hold};

/// Holds are looked at so often.
const EVERY: Duration = Duration::from_millis(10);
/// What has not changed is told again after so long.
const AGAIN: Duration = Duration::from_millis(100);
/// The end of a hold is told so often.
const ENDS: u8 = 3;

const _: () = assert!(AGAIN.as_nanos() * 2 < HOLD_LIFE.as_nanos());

/// The holds that a neighbour knows.
#[derive(Debug, Default)]
pub struct Told {
    /// With how often their end was told.
    holds: Vec<(Hold, u8)>,
    next: Time,
    again: Time,
}

impl Told {
    /// It is time to look at what is to be told.
    pub fn is_due(&self, now: Time) -> bool {
        self.next <= now
    }

    /// When that is, if anything has been told.
    pub fn next_timeout(&self) -> Option<Time> {
        (!self.holds.is_empty()).then_some(self.next)
    }

    /// The neighbour has forgotten.
    pub fn reset(&mut self) {
        *self = Told::default();
    }

    /// Tells what the neighbour does not know of what is wanted now. What does not fit follows.
    pub fn tell(&mut self, now: Time, wanted: &[Hold], builder: &mut Builder<'_>) {
        let is_same = |a: &Hold, b: &Hold| (a.destination, a.routing) == (b.destination, b.routing);
        let is_again = self.again <= now;
        for (hold, ends) in &mut self.holds {
            let now_wanted = wanted.iter().find(|wanted| is_same(wanted, hold));
            let room = now_wanted.map_or(Hold::NONE, |wanted| wanted.room);
            let news = Hold { room, ..*hold };
            let is_end = room == Hold::NONE;
            if (news == *hold && !is_again && !is_end) || builder.lane_hold(news).is_err() {
                continue;
            }
            *hold = news;
            *ends = if is_end { *ends + 1 } else { 0 };
        }
        self.holds.retain(|(_, ends)| *ends < ENDS);
        for hold in wanted {
            let is_known = self.holds.iter().any(|(known, _)| is_same(known, hold));
            let has_place = self.holds.len() < HOLDS_MAX;
            if !is_known && has_place && builder.lane_hold(*hold).is_ok() {
                self.holds.push((*hold, 0));
            }
        }
        self.next = now + EVERY;
        if is_again {
            self.again = now + AGAIN;
        }
    }
}
