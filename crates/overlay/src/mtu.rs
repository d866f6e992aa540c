//! The longest datagram that a link carries. The node finds it by probes, because datagrams that are too long are lost
//! without a report. Lengths are those that UDP carries.
//!
//! ```text
//!   up ─▶ check what is used ── answered ──────────────────────▶ rest ── long packets, 10 s ─▶ check
//!                │ silence                                        │ ▲
//!                ▼                                 30 s .. 10 min │ │
//!         use 1200; halve between 1200 and what failed            ▼ │
//!                '── found ─────────────────────────────────▶ try more
//! ```
//!
//! A lost probe alone says nothing, so each try but the first of a search has a companion of a few bytes: a try counts
//! only if the short probe was answered and the long one was not. Several tries must count, and more of them if
//! companions are lost too. A neighbour that answers neither is of an older version, or has gone: then nothing changes.
//! A companion leaves right behind its long probe: if it arrives alone, the datagram that is missing before it does not
//! count as a loss of the link.
//!
//! Only probes must not be fragmented. So what a link has to carry before its length is known arrives wherever
//! fragments do: handshakes, control, the first packets. The node does not wait for reports of the network (ICMP)
//! [RFC 8899]; if the host reports that it cannot send such a length, that decides at once.

use base::{Duration, Time};
use wire::control::MtuProbe;
pub use wire::link_state::USABLE_BYTES_DEFAULT as DEFAULT;

/// A length that every path is assumed to carry: 1280 bytes of IPv6 less 48 of its header and UDP's are 1232.
pub const FLOOR: u16 = 1_200;
/// The search ends when the length is known with this precision.
const PRECISION: u16 = 16;
/// The companion's length: the shortest.
pub const SHORT: u16 = MtuProbe::DATAGRAM_BYTES_MIN as u16;
/// Tries without an answer after which a length is too long, if nothing else is lost; the default length, which is
/// mostly right, gets more tries.
const TRIES: u32 = 3;
const TRIES_DEFAULT: u32 = 5;
/// If companions are lost too, the number of tries is such that chance explains the silence once in a thousand times.
const CHANCE: f64 = 1e-3;
const TRIES_LOSSY_MAX: u32 = 16;
/// Maximum number of tries for one length, including those that do not count.
const TRIES_ALL_MAX: u32 = 60;
/// Tries without any answer after which the neighbour is assumed not to answer probes.
const TRIES_DEAF: u32 = 24;
/// A try lasts two round trips plus this, within limits.
const TRY_MORE: Duration = Duration::from_millis(100);
const TRY_LEAST: Duration = Duration::from_millis(200);
const TRY_MOST: Duration = Duration::from_secs(2);
/// The interval at which a link that carries long packets is checked.
const CHECK_EVERY: Duration = Duration::from_secs(10);
/// The shortest time from one check to the next that a suspicion causes.
const SUSPECT_REST: Duration = Duration::from_secs(1);
/// Time from finding a length until a longer one is tried; it doubles each time.
const RAISE_FIRST: Duration = Duration::from_secs(30);
const RAISE_MOST: Duration = Duration::from_secs(600);

/// A datagram to be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its number.
    pub number: u32,
    /// Its length.
    pub bytes: u16,
}

#[derive(Debug)]
struct Search {
    /// `low` is answered or assumed, `high` is not answered, `size` is being tried.
    low: u16,
    high: u16,
    size: u16,
    /// The search tries more than is used: a failure takes nothing away.
    is_raise: bool,
    /// The number of the search's first try.
    first: u32,
    /// Tries of this size, and tries that count against it.
    tries: u32,
    failed: u32,
    /// Companions of this search: sent, and answered within their try.
    companions: (u32, u32),
    /// The companion of this try was answered; or it is still to be sent.
    is_reached: bool,
    companion_due: bool,
    /// When the try ends.
    due: Time,
}

/// The maximum packet size of one link, and the state of the search for it.
#[derive(Debug)]
pub struct Mtu {
    usable: u16,
    /// This length was answered since the link came up.
    is_proven: bool,
    is_up: bool,
    search: Option<Search>,
    number: u32,
    /// The neighbour has answered since the link came up.
    answers: bool,
    /// Long packets have left since the last check, or something else has requested a check.
    is_wanted: bool,
    check_at: Time,
    checked: Time,
    raise_at: Option<Time>,
    raise_after: Duration,
}

impl Mtu {
    /// Returns the state of a link of which nothing is known.
    pub fn new(now: Time) -> Mtu {
        Mtu {
            usable: DEFAULT,
            is_proven: false,
            is_up: false,
            search: None,
            number: 0,
            answers: false,
            is_wanted: false,
            check_at: now,
            checked: now,
            raise_at: None,
            raise_after: RAISE_FIRST,
        }
    }

    /// Returns the longest datagram to be sent.
    #[inline]
    pub fn usable(&self) -> u16 {
        self.usable
    }

    /// Returns the longest datagram for packets that must arrive: longer than what every path carries only if a probe
    /// of that length was answered.
    pub fn proven(&self) -> u16 {
        if self.is_proven { self.usable } else { FLOOR }
    }

    /// The link has come up, perhaps over another path.
    pub fn on_link_up(&mut self, now: Time) {
        self.is_up = true;
        self.is_proven = false;
        self.search = None;
        self.answers = false;
        (self.is_wanted, self.check_at) = (true, now);
        // The path may be another one, and carry more.
        self.plan_raise(now, Duration::ZERO);
        self.raise_after = RAISE_FIRST;
    }

    /// Nothing is known while the link is down.
    pub fn on_link_down(&mut self) {
        self.is_up = false;
        self.search = None;
    }

    /// Packets of this length have left.
    #[inline]
    pub fn on_sent(&mut self, bytes: usize) {
        self.is_wanted |= bytes > usize::from(FLOOR);
    }

    /// Packets are lost as if they were too long.
    pub fn suspect(&mut self, now: Time) {
        if self.usable > FLOOR && self.answers {
            (self.is_wanted, self.is_proven) = (true, false);
            self.check_at = self.check_at.min(self.checked + SUSPECT_REST).max(now);
        }
    }

    /// Returns the next datagram to be sent; `None` if there is none for now. The length of a try depends on the round
    /// trip.
    pub fn poll(&mut self, now: Time, rtt: Duration) -> Option<Probe> {
        if !self.is_up {
            return None;
        }
        if self.search.is_none() {
            self.begin(now);
        }
        let search = self.search.as_mut()?;
        if core::mem::take(&mut search.companion_due) {
            search.companions.0 += 1;
            let (number, bytes) = (self.number, SHORT);
            return Some(Probe { number, bytes });
        }
        if now < search.due {
            return None;
        }
        if search.tries > 0 {
            self.judge(now);
        }
        let search = self.search.as_mut()?;
        self.number = self.number.wrapping_add(1);
        // The first answer of a working path needs no companion.
        search.companion_due = search.is_raise || self.number != search.first;
        search.is_reached = false;
        search.tries += 1;
        search.due = now + (rtt * 2 + TRY_MORE).max(TRY_LEAST).min(TRY_MOST);
        let (number, bytes) = (self.number, search.size);
        Some(Probe { number, bytes })
    }

    /// The neighbour has answered a probe.
    pub fn on_answer(&mut self, now: Time, number: u32, bytes: u16) {
        let newest = self.number;
        let Some(search) = &mut self.search else {
            return;
        };
        let age = newest.wrapping_sub(number);
        if search.tries == 0 && newest.wrapping_add(1) == search.first
            || age > newest.wrapping_sub(search.first)
        {
            return;
        }
        self.answers = true;
        if bytes == SHORT {
            if age == 0 && !core::mem::replace(&mut search.is_reached, true) {
                search.companions.1 += 1;
            }
            return;
        }
        search.low = search.low.max(bytes.min(search.high));
        self.is_proven |= search.low >= self.usable;
        if search.size <= search.low {
            self.go_on(now);
        }
    }

    /// The host cannot send datagrams of this length in one piece. No other try is needed.
    pub fn on_too_long(&mut self, now: Time, bytes: u16) {
        if !self.is_up || bytes <= FLOOR {
            return;
        }
        let is_tried = self.search.as_ref().is_some_and(|s| s.size >= bytes);
        if !is_tried {
            if self.usable < bytes {
                return;
            }
            self.check_from(now, bytes);
        }
        self.condemn(now, bytes);
    }

    /// Returns when [`Mtu::poll`] has something to do.
    pub fn next_timeout(&self) -> Option<Time> {
        if !self.is_up {
            return None;
        }
        match &self.search {
            Some(search) => Some(search.due),
            None => {
                let check = self.is_wanted.then_some(self.check_at);
                check.into_iter().chain(self.raise_at).min()
            }
        }
    }

    fn begin(&mut self, now: Time) {
        let is_raise = self.raise_at.is_some_and(|at| at <= now);
        let is_check = self.is_wanted && now >= self.check_at;
        if !is_check && !is_raise {
            return;
        }
        match is_check {
            true => self.check_from(now, self.usable),
            false => self.search_between(now, self.usable, DEFAULT, true),
        }
    }

    /// Searches for the longest length up to `high` that is carried.
    fn check_from(&mut self, now: Time, high: u16) {
        (self.is_wanted, self.checked) = (false, now);
        self.check_at = now + CHECK_EVERY;
        self.search_between(now, FLOOR, high, false);
    }

    fn search_between(&mut self, now: Time, low: u16, high: u16, is_raise: bool) {
        self.search = Some(Search {
            low,
            high,
            size: high,
            is_raise,
            first: self.number.wrapping_add(1),
            tries: 0,
            failed: 0,
            companions: (0, 0),
            is_reached: false,
            companion_due: false,
            due: now,
        });
    }

    /// A try has ended without an answer.
    fn judge(&mut self, now: Time) {
        let Some(search) = &mut self.search else {
            return;
        };
        search.failed += u32::from(search.is_reached);
        if search.failed >= search.needed() {
            let size = search.size;
            return self.condemn(now, size);
        }
        let is_deaf = !self.answers && search.tries >= TRIES_DEAF;
        if is_deaf || search.tries >= TRIES_ALL_MAX {
            self.check_at = now + if is_deaf { RAISE_MOST } else { CHECK_EVERY };
            self.end(now);
        }
    }

    /// The tried length, or a shorter one, is too long.
    fn condemn(&mut self, now: Time, bytes: u16) {
        let Some(search) = &mut self.search else {
            return;
        };
        search.high = search.size.min(bytes);
        search.companion_due = false;
        if !search.is_raise && self.usable >= search.size {
            // This length gets through meanwhile.
            self.usable = FLOOR;
            self.is_proven = false;
            self.raise_after = RAISE_FIRST;
        }
        self.go_on(now);
    }

    /// The tried length is decided: continues with the next one.
    fn go_on(&mut self, now: Time) {
        let Some(search) = &mut self.search else {
            return;
        };
        if search.low + PRECISION >= search.high {
            return self.end(now);
        }
        let is_first_step = search.is_raise && search.low == self.usable;
        search.size = match is_first_step {
            // Mostly the path is unchanged: then one try of a slightly longer length is enough to know.
            true => search.low + PRECISION,
            false => search.low + (search.high - search.low) / 2,
        };
        (search.tries, search.failed) = (0, 0);
        search.due = now;
    }

    fn end(&mut self, now: Time) {
        if let Some(search) = self.search.take() {
            let before = self.usable;
            self.usable = self.usable.max(search.low);
            let after = match search.is_raise && self.usable == before {
                true => (self.raise_after * 2).min(RAISE_MOST),
                false => self.raise_after,
            };
            if search.is_raise || self.raise_at.is_none() || self.usable != before {
                self.plan_raise(now, after);
            }
        }
        if self.usable == DEFAULT {
            self.raise_at = None;
        }
    }

    fn plan_raise(&mut self, now: Time, after: Duration) {
        self.raise_after = after;
        self.raise_at = (self.usable < DEFAULT).then_some(now + after);
    }
}

impl Search {
    /// Returns how many tries must count before a length is given up.
    fn needed(&self) -> u32 {
        let least = match self.size == DEFAULT {
            true => TRIES_DEFAULT,
            false => TRIES,
        };
        let (sent, heard) = self.companions;
        // The count adds one lost companion, because few companions prove little.
        let lost = 1.0 - f64::from(heard) / f64::from(sent + 1);
        // lost^n <= CHANCE
        let n = (CHANCE.ln() / lost.min(0.99).ln()).ceil() as u32;
        n.clamp(least, TRIES_LOSSY_MAX)
    }
}

#[cfg(test)]
mod tests;
