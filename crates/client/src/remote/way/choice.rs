//! Decides whether a client's datagrams go by the way or by TLS.
//!
//! While datagrams are carried, the way is probed every [`BUSY`]; otherwise every [`IDLE`], which keeps the mappings of
//! NATs. If a probe has no answer in time, as TCP computes it, more follow every [`RETRY`], whatever the round trip.
//! The client leaves the way if so many probes have no answer that the previous losses would cause that once in a
//! thousand times, and nothing else is heard. If a way dies in a call, the client leaves it within about two seconds;
//! if the round trip is longer than 250 ms, this takes about twice the difference longer, because the client waits for
//! two probes. A way that loses a third of all datagrams is kept, because TCP carries next to nothing there. A way that
//! fails is tried again after [`BACK_OFF`], and then after twice as long each time.

use base::{Duration, Time};
use std::collections::VecDeque;

/// The time from an answer to the next probe while datagrams are carried.
const BUSY: Duration = Duration::from_secs(1);
/// The same while none are. Choice: a little less than half of the 30 s after which the fastest NATs forget a mapping
/// (RFC 4787 asks for two minutes).
const IDLE: Duration = Duration::from_secs(12);
/// The time from a probe without an answer in time to the next one.
const RETRY: Duration = Duration::from_millis(250);
/// Number of probes without an answer after which the client leaves a way: one without recent losses, and one with the
/// most losses.
const MISSES: usize = 4;
const MISSES_MAX: usize = 16;
/// The same number for a way that is not yet proven.
const MISSES_FIRST: usize = 3;
/// How long a way must be silent before the client leaves it with fewer than [`MISSES_MAX`] probes without an answer.
const SILENCE: Duration = Duration::from_secs(1);
/// How long to wait for the first answer: as long as for a SYN (RFC 6298).
const FIRST: Duration = Duration::from_secs(1);
/// The shortest and the longest wait for later answers.
const WAIT_MIN: Duration = RETRY;
const WAIT_MAX: Duration = Duration::from_secs(2);
/// How long a way that has failed is not tried: the first and the longest time.
const BACK_OFF: Duration = Duration::from_secs(2);
const BACK_OFF_MAX: Duration = Duration::from_secs(64);
/// Number of probes that are remembered: a late answer also shows the round trip.
const ASKED_MAX: usize = 32;
/// The share that means that all probes are lost.
const ALL: u32 = 1 << 10;

/// An action to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Send a probe with this content.
    Probe {
        /// Its number.
        number: u32,
        /// The gate's last challenge.
        challenge: u32,
    },
    /// Inform the gate that the way does not work, or is not wanted.
    Leave,
}

/// The state of the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Proving,
    Up {
        since: Time,
    },
    Down,
    /// The socket does not want it.
    Unwanted {
        is_told: bool,
    },
}

/// The choice of a client.
#[derive(Clone, Debug)]
pub struct Choice {
    state: State,
    /// Probes without an answer since the last answered one, the oldest first.
    asked: VecDeque<(u32, Time)>,
    numbers: u32,
    /// When the next probe, or the next attempt, is due.
    next: Time,
    answered: Time,
    /// When anything encrypted last arrived.
    heard: Time,
    challenge: u32,
    /// The round trip, and its variation.
    rtt: Option<(Duration, Duration)>,
    /// The share of the probes that is lost, as a part of [`ALL`].
    lost: u32,
    back_off: Duration,
    /// Number of probes, and of those that had no answer in time.
    probes: (u64, u64),
}

impl Choice {
    /// Creates the choice for a way that is not yet proven.
    pub fn new(now: Time) -> Choice {
        Choice {
            state: State::Proving,
            asked: VecDeque::with_capacity(ASKED_MAX),
            numbers: 0,
            next: now,
            answered: now,
            heard: now,
            challenge: 0,
            rtt: None,
            lost: 0,
            back_off: BACK_OFF,
            probes: (0, 0),
        }
    }

    /// Returns true if datagrams go by the way.
    pub fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    /// Returns the round trip of its probes.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt.map(|(rtt, _)| rtt)
    }

    /// Returns how long to wait for an answer.
    pub fn wait(&self) -> Duration {
        self.rtt.map_or(FIRST, |(rtt, varies)| {
            let ns = rtt.as_nanos().saturating_add(4 * varies.as_nanos());
            Duration::from_nanos(ns).max(WAIT_MIN).min(WAIT_MAX)
        })
    }

    /// Returns how many probes were sent, and how many had no answer in time.
    pub fn probes(&self) -> (u64, u64) {
        self.probes
    }

    /// Returns true if probes have no answer, so that possibly nothing passes at all.
    pub fn is_doubtful(&self, now: Time) -> bool {
        self.missed(now) > 0
    }

    /// Returns when [`Choice::poll`] has something to do.
    pub fn next_timeout(&self) -> Time {
        match self.state {
            State::Unwanted { is_told: true } => Time::from_nanos(u64::MAX),
            State::Unwanted { is_told: false } => Time::ZERO,
            _ => self.next,
        }
    }

    /// Sets whether the socket wants its datagrams to go by the way, or all of them by TLS.
    pub fn want(&mut self, now: Time, is_wanted: bool) {
        match (self.state, is_wanted) {
            (State::Unwanted { .. }, true) => {
                self.state = State::Proving;
                self.forget();
                self.next = now;
            }
            (State::Unwanted { .. }, false) | (_, true) => {}
            // Its gate may already use it.
            (_, false) => self.state = State::Unwanted { is_told: false },
        }
    }

    /// Returns an action that is due. The caller repeats this until there is none.
    pub fn poll(&mut self, now: Time) -> Option<Act> {
        if now < self.next_timeout() {
            return None;
        }
        match self.state {
            State::Unwanted { .. } => {
                self.state = State::Unwanted { is_told: true };
                return Some(Act::Leave);
            }
            State::Down => {
                self.state = State::Proving;
                self.forget();
            }
            State::Proving | State::Up { .. } => {}
        }
        if self.missed(now) > 0 {
            self.probes.1 += 1;
            if self.has_failed(now) {
                return self.leave(now);
            }
        }
        self.numbers = self.numbers.wrapping_add(1).max(1);
        if self.asked.len() >= ASKED_MAX {
            self.asked.pop_front();
        }
        self.asked.push_back((self.numbers, now));
        self.probes.0 += 1;
        // The client waits for the first one; the arrival of the following ones does not depend on it.
        let is_first = self.asked.len() == 1 || !self.is_up();
        self.next = now + if is_first { self.wait() } else { RETRY };
        Some(Act::Probe {
            number: self.numbers,
            challenge: self.challenge,
        })
    }

    fn forget(&mut self) {
        self.asked.clear();
        self.rtt = None;
    }

    /// Returns the number of probes without an answer in time.
    fn missed(&self, now: Time) -> usize {
        let wait = self.wait();
        let late = self.asked.iter().take_while(|(_, at)| *at + wait <= now);
        late.count()
    }

    fn has_failed(&self, now: Time) -> bool {
        let missed = self.missed(now);
        if !self.is_up() {
            return missed >= MISSES_FIRST;
        }
        let is_silent = now.since(self.heard) >= SILENCE;
        missed >= MISSES_MAX || (is_silent && missed >= self.too_many())
    }

    /// Returns how many missed probes in a row occur by chance once in a thousand times, with the present losses.
    pub fn too_many(&self) -> usize {
        let (mut many, mut chance) = (0, ALL);
        while chance > 1 && many < MISSES_MAX {
            chance = chance * self.lost / ALL;
            many += 1;
        }
        many.max(MISSES)
    }

    fn leave(&mut self, now: Time) -> Option<Act> {
        let was = core::mem::replace(&mut self.state, State::Down);
        self.forget();
        if let State::Up { since } = was
            && now.since(since) >= IDLE
        {
            self.back_off = BACK_OFF;
        }
        self.next = now + self.back_off;
        self.back_off = (self.back_off + self.back_off).min(BACK_OFF_MAX);
        matches!(was, State::Up { .. }).then_some(Act::Leave)
    }

    /// Handles an answer.
    pub fn on_answer(&mut self, now: Time, number: u32, challenge: u32) {
        if matches!(self.state, State::Unwanted { .. }) {
            return;
        }
        let place = self.asked.iter().position(|(asked, _)| *asked == number);
        if let Some(place) = place
            && let Some(&(_, at)) = self.asked.get(place)
        {
            let rtt = now.since(at);
            self.rtt = Some(
                self.rtt
                    .map_or((rtt, rtt.div(2)), |before| smooth(before, rtt)),
            );
            // Earlier probes are lost, or so late that the network has changed their order.
            for is_lost in core::iter::repeat_n(true, place).chain([false]) {
                let sample = if is_lost { ALL } else { 0 };
                self.lost = (self.lost * 7 + sample) / 8;
            }
            self.asked.drain(..=place);
            self.answered = now;
            self.heard = now;
            self.next = match self.asked.front() {
                Some(&(_, asked)) => (asked + self.wait()).max(now),
                None => now + IDLE,
            };
            if !self.is_up() {
                self.state = State::Up { since: now };
            }
        }
        // The gate wants to know whether this address receives.
        if challenge != 0 && challenge != self.challenge && self.state != State::Down {
            self.challenge = challenge;
            self.next = now;
        }
    }

    /// Notes that something else that is encrypted has arrived by the way.
    pub fn on_heard(&mut self, now: Time) {
        self.heard = now;
        self.on_carried();
    }

    /// Notes that a datagram was carried by the way.
    pub fn on_carried(&mut self) {
        if self.is_up() && self.asked.is_empty() {
            self.next = self.next.min(self.answered + BUSY);
        }
    }
}

/// Smooths as TCP does (RFC 6298 §2).
fn smooth((rtt, varies): (Duration, Duration), sample: Duration) -> (Duration, Duration) {
    let (rtt, varies, sample) = (rtt.as_nanos(), varies.as_nanos(), sample.as_nanos());
    let varies = (varies * 3 + rtt.abs_diff(sample)) / 4;
    let rtt = (rtt * 7 + sample) / 8;
    (Duration::from_nanos(rtt), Duration::from_nanos(varies))
}

#[cfg(test)]
mod tests;
