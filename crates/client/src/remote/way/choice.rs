//! Whether a client's datagrams go by the way or by TLS.
//!
//! While datagrams pass, the way is probed every [`BUSY`]; else every [`IDLE`], which keeps the mappings
//! of NATs. When a probe has no answer in time, as TCP counts it, others follow every [`RETRY`], whatever
//! the round trip. The way is left when so many have none that losses as they were before would do that
//! once in a thousand times, and nothing else is heard any more. One that dies in a call is left within
//! about two seconds; if the round trip is longer than 250 ms, that takes about twice the difference more,
//! because two probes are waited for. One that loses a third of all datagrams is kept, for TCP carries next
//! to nothing there. A way that fails is tried again after [`BACK_OFF`], and then after twice as long each
//! time.

use base::{Duration, Time};
use std::collections::VecDeque;

/// From an answer to the next probe while datagrams pass.
const BUSY: Duration = Duration::from_secs(1);
/// The same while none do. Choice: half of the 30 s after which the quickest NATs forget (RFC 4787
/// asks for two minutes), and a little less.
const IDLE: Duration = Duration::from_secs(12);
/// From a probe without an answer in time to the next one.
const RETRY: Duration = Duration::from_millis(250);
/// Probes without an answer after which a way is left that has lost none lately, and one that loses most.
const MISSES: usize = 4;
const MISSES_MAX: usize = 16;
/// The same of a way that is to be proven.
const MISSES_FIRST: usize = 3;
/// How long nothing may be heard on a way that is left before [`MISSES_MAX`] probes have no answer.
const SILENCE: Duration = Duration::from_secs(1);
/// How long the first answer is waited for: as long as for a SYN (RFC 6298).
const FIRST: Duration = Duration::from_secs(1);
/// The least and the most of what later ones are waited for.
const WAIT_MIN: Duration = RETRY;
const WAIT_MAX: Duration = Duration::from_secs(2);
/// How long a way that has failed is left alone, at first and at most.
const BACK_OFF: Duration = Duration::from_secs(2);
const BACK_OFF_MAX: Duration = Duration::from_secs(64);
/// Probes that are remembered: a late answer tells the round trip too.
const ASKED_MAX: usize = 32;
/// What all probes lost are, as a share.
const ALL: u32 = 1 << 10;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Send a probe that says this.
    Probe {
        /// Its number.
        number: u32,
        /// The gate's challenge that was heard last.
        challenge: u32,
    },
    /// Tell the gate that the way does not work, or is not wanted.
    Leave,
}

/// Where the way is in its life.
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
    /// Probes without an answer since the last one that had one, the oldest first.
    asked: VecDeque<(u32, Time)>,
    numbers: u32,
    /// When the next probe is due, or the next attempt.
    next: Time,
    answered: Time,
    /// When anything that was sealed has come.
    heard: Time,
    challenge: u32,
    /// The round trip, and how far it varies.
    rtt: Option<(Duration, Duration)>,
    /// The share of the probes that is lost, of [`ALL`].
    lost: u32,
    back_off: Duration,
    /// Probes, and those of them that had no answer in time.
    probes: (u64, u64),
}

impl Choice {
    /// A way that is to be proven.
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

    /// Datagrams go by the way.
    pub fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    /// The round trip of its probes.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt.map(|(rtt, _)| rtt)
    }

    /// How long an answer is waited for.
    pub fn wait(&self) -> Duration {
        self.rtt.map_or(FIRST, |(rtt, varies)| {
            let ns = rtt.as_nanos().saturating_add(4 * varies.as_nanos());
            Duration::from_nanos(ns).max(WAIT_MIN).min(WAIT_MAX)
        })
    }

    /// How many probes were sent, and how many had no answer in time.
    pub fn probes(&self) -> (u64, u64) {
        self.probes
    }

    /// Probes have no answer, so that it may be that nothing passes at all.
    pub fn is_doubtful(&self, now: Time) -> bool {
        self.missed(now) > 0
    }

    /// When [`Choice::poll`] has something to do.
    pub fn next_timeout(&self) -> Time {
        match self.state {
            State::Unwanted { is_told: true } => Time::from_nanos(u64::MAX),
            State::Unwanted { is_told: false } => Time::ZERO,
            _ => self.next,
        }
    }

    /// The socket wants its datagrams to go by the way, or all of them by TLS.
    pub fn want(&mut self, now: Time, is_wanted: bool) {
        match (self.state, is_wanted) {
            (State::Unwanted { .. }, true) => {
                self.state = State::Proving;
                self.forget();
                self.next = now;
            }
            (State::Unwanted { .. }, false) | (_, true) => {}
            // Its gate may use it already.
            (_, false) => self.state = State::Unwanted { is_told: false },
        }
    }

    /// What is due; asked until there is nothing more.
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
        // The first is waited for; whether those behind it come does not depend on it.
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

    /// Probes that have had no answer in time.
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

    /// So many in a row are missed by chance once in a thousand times, as losses are now.
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

    /// An answer has come.
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
            // Those before it are lost, or so late that the network has changed their order.
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
        // The gate wants to know whether this address hears.
        if challenge != 0 && challenge != self.challenge && self.state != State::Down {
            self.challenge = challenge;
            self.next = now;
        }
    }

    /// Something else that is sealed has come by the way.
    pub fn on_heard(&mut self, now: Time) {
        self.heard = now;
        self.on_carried();
    }

    /// A datagram has passed by the way.
    pub fn on_carried(&mut self) {
        if self.is_up() && self.asked.is_empty() {
            self.next = self.next.min(self.answered + BUSY);
        }
    }
}

/// As TCP does (RFC 6298 §2).
fn smooth((rtt, varies): (Duration, Duration), sample: Duration) -> (Duration, Duration) {
    let (rtt, varies, sample) = (rtt.as_nanos(), varies.as_nanos(), sample.as_nanos());
    let varies = (varies * 3 + rtt.abs_diff(sample)) / 4;
    let rtt = (rtt * 7 + sample) / 8;
    (Duration::from_nanos(rtt), Duration::from_nanos(varies))
}

#[cfg(test)]
mod tests;
