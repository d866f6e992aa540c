//! What this node has told a neighbour about the destinations whose packets wait here.
//!
//! Back-pressure is per destination and routing, because these determine the branch of a packet. A window per neighbour
//! would stop everything for the slowest branch, and a window per flow would need as many messages as there are flows.
//! The neighbour does not know which lane a packet takes here, and does not need to know.
//!
//! ```text
//!   lanes of this node ── backlogs ──▶ wanted ── what has changed, all now and then ──▶ LaneHolds
//! ```
//! Nothing depends on a single message: the node repeats each hold, and a hold that is not repeated ends.

use super::{HOLD_LIFE, HOLDS_MAX};
use base::{Duration, Time};
use wire::control::{Builder, Hold};

/// The interval at which holds are checked.
const EVERY: Duration = Duration::from_millis(10);
/// The time after which a hold that has not changed is repeated.
const AGAIN: Duration = Duration::from_millis(100);
/// How many times the end of a hold is sent.
const ENDS: u8 = 3;

const _: () = assert!(AGAIN.as_nanos() * 2 < HOLD_LIFE.as_nanos());

/// The holds that a neighbour knows.
#[derive(Debug, Default)]
pub struct Told {
    /// Each with the number of times that its end was sent.
    holds: Vec<(Hold, u8)>,
    next: Time,
    again: Time,
}

impl Told {
    /// Whether it is time to check the holds.
    pub fn is_due(&self, now: Time) -> bool {
        self.next <= now
    }

    /// Returns when the holds are to be checked, if the neighbour knows any.
    pub fn next_timeout(&self) -> Option<Time> {
        (!self.holds.is_empty()).then_some(self.next)
    }

    /// Forgets all, because the neighbour has restarted and knows no holds.
    pub fn reset(&mut self) {
        *self = Told::default();
    }

    /// Writes the holds that the neighbour does not know yet, and those to repeat. What does not fit follows with a
    /// later call.
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
