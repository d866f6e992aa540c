//! How long silence lasts before something is done about it.
//!
//! # How sure a "down" is
//!
//! Worst case: all data flows from A to B, so A hears hellos only. Let 20 % of packets be lost and
//! half of those behind a lost one (b = 0.5, so behind a delivered one 0.2·0.5/0.8 = 12.5 %), and
//! the round trip be 40 ms, so that the link is down after 420 ms.
//!
//! A starts asking when one hello is lost: 0.125 · 10/s = 1.25 times per second. It asks at 150
//! and 190 ms, and from 230 ms on every 7 ms until the answer would come too late, at 380 ms: 24
//! questions. B sends hellos at 100, 200, 300 and 400 ms by itself, answers each question, and
//! once it hears hurried ones goes on at their pace for a while. So some 26 packets from B must
//! all be lost, of which the first costs 0.125 and each other one 0.5: 4e-9. When A's first m
//! hurried questions are lost too (0.1 · 0.5^(m-1)), B sends m fewer, which costs A as much as it
//! saves: each of the 22 terms adds 0.2 · 4e-9. In all 2e-8 if every question were answered; of
//! the answered ones 20 % of the questions are missing in between, which costs a few halvings
//! more. At 4500 lost hellos per hour that is some tenths of a percent per hour; the machines
//! themselves, run for 200 hours of it, went down a few times at most, and not at all at 10 %
//! loss (`tests.rs` runs an hour of each). Losses that last (a queue that is full for 400 ms) are
//! what "down" is for.

use super::{Event, Hello, State, Why};
use base::{Duration, Time};

impl Hello {
    /// From when on silence counts. A link that has just become active was watched at the idle
    /// pace until then.
    pub(super) fn silent_since(&self) -> Time {
        let heard = self.heard.unwrap_or(self.since);
        if self.active {
            heard.max(self.active_since)
        } else {
            heard
        }
    }

    /// What is granted for the round trip: one and a half, so that on a long link as many answers
    /// can come in time as on a short one, and two deviations. Four (RFC 6298) would let jitter of
    /// 25 ms cost 100 ms of detection.
    fn rtt_allowance(&self) -> Duration {
        let s = &self.settings;
        let allowance = match self.rtt.smoothed() {
            Some(rtt) => rtt + rtt.div(2) + self.rtt.deviation() * 2,
            None => s.rtt_initial,
        };
        allowance.max(s.rtt_allowance_min).min(s.rtt_allowance_max)
    }

    /// The link carries data and has been silent for longer than [`super::Settings::doubt_after`].
    #[inline]
    pub fn is_in_doubt(&self, now: Time) -> bool {
        self.doubted_since(now).is_some()
    }

    /// Since when it is in doubt.
    #[inline]
    pub fn doubted_since(&self, now: Time) -> Option<Time> {
        let since = self.silent_since() + self.settings.doubt_after;
        (self.active && self.state != State::Down && now >= since).then_some(since)
    }

    fn down_after(&self) -> Duration {
        self.pace().down_after + self.rtt_allowance()
    }

    /// The longer the round trip, the more questions are on their way and need no others.
    pub(super) fn hurry_after(&self) -> Duration {
        self.pace().hurry_after + self.rtt_allowance().div(3)
    }

    /// The moment at which more silence changes something.
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

    /// The link was in doubt and is not any more. Silence that even several questions did not break at once is
    /// a gap in what the link carries, and costs a part of what an outage does: three of a second are as bad.
    #[cold]
    pub(super) fn on_answered(&mut self, now: Time, silent_since: Time) {
        self.state = State::Up;
        if self.active && now.since(silent_since) >= self.hurry_after() {
            self.price.on_gap(now);
        }
    }

    /// A host that slept heard nothing because it slept: what waits in its sockets is handled
    /// after the timeout, so the silence is shortened by what the timeout came late.
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
