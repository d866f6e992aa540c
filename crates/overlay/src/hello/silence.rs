//! How long silence lasts before something is done about it.
//!
//! # How sure a "down" is
//!
//! The worst case: all data flows from A to B, so A hears hellos only. Let 20 % of the packets be lost, and half of
//! those that follow a lost one (b = 0.5, so 0.2·0.5/0.8 = 12.5 % of those that follow a delivered one). Let the round
//! trip be 40 ms, so the link is down after 420 ms.
//!
//! A starts asking when one hello is lost: 0.125 · 10/s = 1.25 times per second. It asks at 150 and 190 ms, and from
//! 230 ms on every 7 ms until the answer would come too late, at 380 ms: 24 questions. B sends hellos at 100, 200, 300
//! and 400 ms by itself, and answers each question. When it hears hurried questions, it continues at their pace for a
//! while. So some 26 packets from B must all be lost. The first is lost with probability 0.125 and each other one with
//! 0.5: 4e-9. When A's first m hurried questions are lost too (0.1 · 0.5^(m-1)), B sends m fewer, which costs A as much
//! as it saves: each of the 22 terms adds 0.2 · 4e-9. This is 2e-8 in all if every question were answered. But 20 % of
//! the questions are lost, so some answers are missing in between, which removes a few of the halvings. At 4500 lost
//! hellos per hour, that is some tenths of a percent per hour. In 200 hours of this, the state machines went down a few
//! times at most, and not at all at 10 % loss (`tests.rs` runs an hour of each). "Down" is meant for losses that last,
//! such as a queue that is full for 400 ms.

use super::{Event, Hello, State, Why};
use base::{Duration, Time};

impl Hello {
    /// Returns the moment from which silence counts. A link that has just become active was watched at the idle pace
    /// before.
    pub(super) fn silent_since(&self) -> Time {
        let heard = self.heard.unwrap_or(self.since);
        if self.active {
            heard.max(self.active_since)
        } else {
            heard
        }
    }

    /// Returns the allowance for the round trip: one and a half round trips, so that as many answers can come in time
    /// on a long link as on a short one, and two deviations. With four deviations (RFC 6298), jitter of 25 ms would
    /// delay the detection by 100 ms.
    fn rtt_allowance(&self) -> Duration {
        let s = &self.settings;
        let allowance = match self.rtt.smoothed() {
            Some(rtt) => rtt + rtt.div(2) + self.rtt.deviation() * 2,
            None => s.rtt_initial,
        };
        allowance.max(s.rtt_allowance_min).min(s.rtt_allowance_max)
    }

    /// Returns whether the link carries data and has been silent for longer than [`super::Settings::doubt_after`].
    #[inline]
    pub fn is_in_doubt(&self, now: Time) -> bool {
        self.doubted_since(now).is_some()
    }

    /// Returns since when the link is in doubt.
    #[inline]
    pub fn doubted_since(&self, now: Time) -> Option<Time> {
        let since = self.silent_since() + self.settings.doubt_after;
        (self.active && self.state != State::Down && now >= since).then_some(since)
    }

    fn down_after(&self) -> Duration {
        self.pace().down_after + self.rtt_allowance()
    }

    /// Returns the silence after which questions come faster. The longer the round trip, the more questions are still
    /// in flight, so further ones can wait.
    pub(super) fn hurry_after(&self) -> Duration {
        self.pace().hurry_after + self.rtt_allowance().div(3)
    }

    /// Returns the moment at which continued silence changes something.
    pub(super) fn silence_ends(&self) -> Time {
        match self.state {
            State::Down => Time::FAR,
            State::Up => self.silent_since() + self.pace().probe_after.min(self.down_after()),
            State::Probing => self.silent_since() + self.down_after(),
        }
    }

    pub(super) fn judge_silence(&mut self, now: Time) -> Option<Event> {
        if self.state == State::Down {
            return None;
        }
        let silence = now.since(self.silent_since());
        if silence >= self.down_after() {
            self.heard = None;
            return self.go_down(now, Why::Silence(silence));
        }
        if self.state == State::Up && silence >= self.pace().probe_after {
            self.state = State::Probing;
            self.next_send = self.earliest(now);
        }
        None
    }

    /// Notes that the other end was probed and has answered. If several questions did not end the silence at once, it
    /// is a gap in what the link carries, and costs a part of the price of an outage: three gaps in one second are as
    /// bad as an outage.
    #[cold]
    pub(super) fn on_answered(&mut self, now: Time, silent_since: Time) {
        self.state = State::Up;
        if self.active && now.since(silent_since) >= self.hurry_after() {
            self.price.on_gap(now);
        }
    }

    /// Shortens the silence by the delay of a late timeout. A host that was suspended heard nothing because it did not
    /// run: packets that wait in its sockets are handled after the timeout.
    pub(super) fn forgive_stall(&mut self, now: Time) {
        let late = now.since(self.next_timeout());
        if self.state != State::Down
            && late > self.settings.stall
            && let Some(heard) = self.heard
        {
            self.heard = Some((heard + late).min(now));
            self.active_since = (self.active_since + late).min(now);
        }
    }
}
