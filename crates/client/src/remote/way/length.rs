//! Determines how long a datagram may be on a way.
//!
//! The path does not report its limit. A router that finds a datagram too long drops it. It may send ICMP, which any
//! stranger can forge, so nothing relies on that. Therefore, the client tries: it sends a datagram of the length in
//! question, and the gate answers with one of the same length (RFC 8899; longer datagrams go by TLS):
//!
//! ```text
//!   the longest ── answered ──────────────────────────▶ known to pass, and tried again every [`AGAIN`]
//!       │ several have no answer                             │ while something so long passes
//!       ▼                                                    │ several have no answer
//!   halfway between what passes and what does not ◀──────────┘
//! ```
//!
//! A length that no datagram has used for a while is no longer trusted: the first such datagram goes by TLS, and starts
//! a trial. If a path stops carrying long datagrams, they are lost for some two seconds, and for up to [`BELIEVED_FOR`]
//! if the round trip is long or packets are lost: how many trials count as "several" depends on the losses, as for
//! probes ([`super::Choice::too_many`]).

use base::{Duration, Time};
use wire::remote::way::{AROUND_BYTES, DATAGRAM_BYTES_MAX, TRIAL_AROUND_BYTES, UNTRIED_BYTES_MAX};

/// The time from an answer to the next trial of the same length, while datagrams of that length are carried.
const AGAIN: Duration = Duration::from_secs(1);
/// How long after a long datagram this still counts as the case.
const USED_FOR: Duration = Duration::from_secs(5);
/// How long an answer is trusted.
const BELIEVED_FOR: Duration = Duration::from_secs(10);
/// The search ends when the length is known with this precision.
const EXACT_BYTES: usize = 16;
/// The time from its end to the next attempt with the longest: the first and the longest time (RFC 8899 §5.1.1).
const RAISE: Duration = Duration::from_secs(60);
const RAISE_MAX: Duration = Duration::from_secs(600);

/// A trial that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Its number.
    pub number: u32,
    /// The length of the datagram, including the encryption's overhead.
    pub len: usize,
    /// The content for the gate.
    pub says: Says,
}

/// The report of a trial to the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Says {
    /// The longest length that passes.
    pub longest: usize,
    /// True if the socket carries bare payloads only.
    pub is_raw: bool,
}

/// The length limit of a way, as its client knows it.
#[derive(Clone, Debug)]
pub struct Length {
    passes: usize,
    /// When that length was last answered.
    answered: Option<Time>,
    /// The least length that does not pass.
    refused: usize,
    is_raw: bool,
    /// The last report that the gate has answered.
    told: Says,
    asked: Option<(Attempt, Time)>,
    missed: usize,
    numbers: u32,
    used: Option<Time>,
    raise: (Time, Duration),
}

impl Default for Length {
    fn default() -> Length {
        Length {
            passes: UNTRIED_BYTES_MAX,
            answered: None,
            refused: DATAGRAM_BYTES_MAX + 1,
            is_raw: false,
            told: Says {
                longest: UNTRIED_BYTES_MAX,
                is_raw: false,
            },
            asked: None,
            missed: 0,
            numbers: 0,
            used: None,
            raise: (Time::ZERO, RAISE),
        }
    }
}

/// Returns true if a message of `len` bytes fits into a datagram of `longest`.
pub fn fits(len: usize, longest: usize) -> bool {
    len + AROUND_BYTES <= longest
}

impl Length {
    /// Returns the length of the longest datagram that may be sent now.
    pub fn longest(&self, now: Time) -> usize {
        match self.answered {
            Some(at) if now.since(at) < BELIEVED_FOR => self.passes,
            _ => self.passes.min(UNTRIED_BYTES_MAX),
        }
    }

    /// Notes that payloads are bare; the gate has to know this, and to send them so.
    pub fn set_raw(&mut self) {
        self.is_raw = true;
    }

    /// Notes that the way works again, perhaps on another path.
    pub fn begin(&mut self) {
        let before = core::mem::take(self);
        self.is_raw = before.is_raw;
        self.numbers = before.numbers;
        self.used = before.used;
    }

    /// Notes that a message of `len` bytes was carried, by the way or by TLS.
    pub fn on_carried(&mut self, now: Time, len: usize) {
        if !fits(len, UNTRIED_BYTES_MAX) {
            self.used = Some(now);
        }
    }

    /// Returns when [`Length::poll`] has something to do.
    pub fn next_timeout(&self, now: Time, wait: Duration) -> Option<Time> {
        match &self.asked {
            Some((_, at)) => Some(*at + wait),
            None => self.due(now),
        }
    }

    /// Returns when the next trial is due, if none is awaited.
    fn due(&self, now: Time) -> Option<Time> {
        let is_used = self.is_used(now);
        let is_new = is_used && self.told.longest < self.longest(now);
        if self.told.is_raw != self.is_raw || self.must_shorten() || is_new {
            return Some(now);
        }
        if !is_used {
            return None;
        }
        let known = self.answered.unwrap_or(Time::ZERO);
        Some(match self.search(now) {
            Some(_) => now,
            None => known + AGAIN,
        })
    }

    fn is_used(&self, now: Time) -> bool {
        self.used.is_some_and(|used| now.since(used) < USED_FOR)
    }

    /// Returns true if the gate may send more than what passes.
    fn must_shorten(&self) -> bool {
        self.told.longest > self.passes
    }

    /// Returns the next length of the search, if it is not over.
    fn search(&self, now: Time) -> Option<usize> {
        match self.refused {
            refused if refused > DATAGRAM_BYTES_MAX => {
                (self.passes < DATAGRAM_BYTES_MAX).then_some(DATAGRAM_BYTES_MAX)
            }
            refused if refused - self.passes > EXACT_BYTES => Some(self.passes.midpoint(refused)),
            _ => (now >= self.raise.0).then_some(DATAGRAM_BYTES_MAX),
        }
    }

    fn says(&self, now: Time) -> Says {
        Says {
            longest: self.longest(now),
            is_raw: self.is_raw,
        }
    }

    /// Returns the trial that is due, if there is one. `wait` is how long to wait for an answer; `too_many` trials
    /// without an answer are no accident.
    pub fn poll(&mut self, now: Time, wait: Duration, too_many: usize) -> Option<Attempt> {
        if let Some((asked, at)) = self.asked {
            if now < at + wait {
                return None;
            }
            self.asked = None;
            self.missed += 1;
            if self.missed >= too_many {
                self.refuse(now, asked.len);
            }
        }
        if now < self.due(now)? {
            return None;
        }
        let search = self.search(now).filter(|_| self.is_used(now));
        let len = match self.must_shorten() {
            true => self.passes,
            false => search.unwrap_or(self.passes),
        };
        self.numbers = self.numbers.wrapping_add(1).max(1);
        let attempt = Attempt {
            number: self.numbers,
            len,
            says: self.says(now),
        };
        self.asked = Some((attempt, now));
        Some(attempt)
    }

    /// Notes that a datagram of `len` bytes does not pass.
    pub fn refuse(&mut self, now: Time, len: usize) {
        self.missed = 0;
        // Every path carries this length, so the datagram was lost for another reason.
        if len <= UNTRIED_BYTES_MAX {
            return;
        }
        self.asked = None;
        self.refused = self.refused.min(len);
        if len <= self.passes {
            self.passes = UNTRIED_BYTES_MAX;
        }
        if len >= DATAGRAM_BYTES_MAX {
            let (_, after) = self.raise;
            self.raise = (now + after, (after + after).min(RAISE_MAX));
        }
    }

    /// Handles the gate's answer to a trial. Returns false if the trial was not awaited.
    pub fn on_tried(&mut self, now: Time, number: u32, len: usize) -> bool {
        let Some((asked, _)) = self.asked.filter(|(asked, _)| asked.number == number) else {
            return false;
        };
        self.asked = None;
        self.missed = 0;
        self.told = asked.says;
        if len == asked.len && len >= self.passes {
            if len >= self.refused {
                // The length passes now.
                self.refused = DATAGRAM_BYTES_MAX + 1;
                self.raise.1 = RAISE;
            }
            self.passes = len;
            self.answered = Some(now);
        }
        true
    }
}

/// The length limit of a way, as its gate knows it from trials.
#[derive(Clone, Copy, Debug, Default)]
pub struct GateLength(Option<(usize, Time)>);

impl GateLength {
    /// Notes what passes, according to the client.
    pub fn on_trial(&mut self, now: Time, longest: u16) {
        self.0 = Some((usize::from(longest).min(DATAGRAM_BYTES_MAX), now));
    }

    /// Returns the length of the longest datagram that may be sent now.
    pub fn longest(self, now: Time) -> usize {
        let said = self.0.filter(|(_, at)| now.since(*at) < BELIEVED_FOR);
        said.map_or(UNTRIED_BYTES_MAX, |(longest, _)| {
            longest.max(UNTRIED_BYTES_MAX)
        })
    }

    /// Notes that the interface accepts less: the client's trials will have no answer either.
    pub fn refuse(&mut self) {
        self.0 = None;
    }
}

/// Returns how much padding makes a trial this long.
pub fn padding(len: usize) -> usize {
    len.saturating_sub(TRIAL_AROUND_BYTES)
}

#[cfg(test)]
mod tests;
