//! How long a datagram a link carries: found by probes, because what is too long vanishes without a
//! word. Lengths are those that UDP carries.
//!
//! ```text
//!   up ─▶ check what is used ── answered ──────────────────────▶ rest ── long packets, 10 s ─▶ check
//!                │ silence                                        │ ▲
//!                ▼                                 30 s .. 10 min │ │
//!         use 1200; halve between 1200 and what failed            ▼ │
//!                '── found ─────────────────────────────────▶ try more
//! ```
//!
//! A probe that is lost says nothing, so each try but the first of a search has a companion of a few
//! bytes: only where the short one was answered and the long one was not, the try counts. Several
//! must, more when companions are lost too. A neighbour that answers neither is of an older version,
//! or gone: then nothing changes. A companion leaves right behind its long probe: where it comes alone,
//! what is missing before it is no loss of the link.
//!
//! Probes alone must not be fragmented, so what a link has to carry before its length is known arrives
//! wherever fragments do: handshakes, control, the first packets. The network's own word (ICMP) is not
//! waited for [RFC 8899]; where the host says that it cannot send so much, that decides at once.

use base::{Duration, Time};
use wire::control::MtuProbe;
pub use wire::link_state::USABLE_BYTES_DEFAULT as DEFAULT;

/// What every path is taken to carry: 1280 bytes of IPv6 less 48 of its header and UDP's are 1232.
pub const FLOOR: u16 = 1_200;
/// The search ends when it is known so well.
const PRECISION: u16 = 16;
/// The companion's length: the shortest.
pub const SHORT: u16 = MtuProbe::DATAGRAM_BYTES_MIN as u16;
/// Tries without an answer that condemn a length where nothing else is lost; more for the length
/// that mostly is right.
const TRIES: u32 = 3;
const TRIES_DEFAULT: u32 = 5;
/// Where companions are lost too, so many that chance explains the silence once in a thousand times.
const CHANCE: f64 = 1e-3;
const TRIES_LOSSY_MAX: u32 = 16;
/// Tries for one length, those that do not count included.
const TRIES_ALL_MAX: u32 = 60;
/// Tries without any answer at all, after which the neighbour is taken for one that does not answer.
const TRIES_DEAF: u32 = 24;
/// A try lasts two round trips and this, within limits.
const TRY_MORE: Duration = Duration::from_millis(100);
const TRY_LEAST: Duration = Duration::from_millis(200);
const TRY_MOST: Duration = Duration::from_secs(2);
/// A link that carries long packets is checked so often.
const CHECK_EVERY: Duration = Duration::from_secs(10);
/// Suspicions bring a check no sooner after the last.
const SUSPECT_REST: Duration = Duration::from_secs(1);
/// More is tried so long after a length was found, then after twice as long each time.
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
    /// `low` is answered or taken for granted, `high` is not answered, `size` is being tried.
    low: u16,
    high: u16,
    size: u16,
    /// More than what is used is tried: nothing that fails takes anything away.
    is_raise: bool,
    /// The number of its first try.
    first: u32,
    /// Tries of this size, and those that count against it.
    tries: u32,
    failed: u32,
    /// Companions of this search: sent, and answered in their try.
    companions: (u32, u32),
    /// The companion of this try was answered; or is still to be sent.
    is_reached: bool,
    companion_due: bool,
    /// When the try is over.
    due: Time,
}

/// What one link carries, and how that is known.
#[derive(Debug)]
pub struct Mtu {
    usable: u16,
    /// So much was answered since the link came up.
    is_proven: bool,
    is_up: bool,
    search: Option<Search>,
    number: u32,
    /// The neighbour has answered since the link came up.
    answers: bool,
    /// Long packets have left since the last check, or something else asks for one.
    is_wanted: bool,
    check_at: Time,
    checked: Time,
    raise_at: Option<Time>,
    raise_after: Duration,
}

impl Mtu {
    /// A link of which nothing is known.
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

    /// The longest datagram to be sent.
    #[inline]
    pub fn usable(&self) -> u16 {
        self.usable
    }

    /// The longest datagram for what must arrive: more than every path carries only once a probe of
    /// that length was answered.
    pub fn proven(&self) -> u16 {
        if self.is_proven { self.usable } else { FLOOR }
    }

    /// The link has come up: perhaps over another path.
    pub fn on_link_up(&mut self, now: Time) {
        self.is_up = true;
        self.is_proven = false;
        self.search = None;
        self.answers = false;
        (self.is_wanted, self.check_at) = (true, now);
        // It may be another path, and carry more.
        self.plan_raise(now, Duration::ZERO);
        self.raise_after = RAISE_FIRST;
    }

    /// Nothing is known while the link is down.
    pub fn on_link_down(&mut self) {
        self.is_up = false;
        self.search = None;
    }

    /// Packets of so many bytes have left.
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

    /// The next datagram to be sent; `None` when there is none for now. A try waits as long as the
    /// round trip makes it.
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
        // The first answer of a sound path needs no companion.
        search.companion_due = search.is_raise || self.number != search.first;
        search.is_reached = false;
        search.tries += 1;
        search.due = now + (rtt * 2 + TRY_MORE).max(TRY_LEAST).min(TRY_MOST);
        let (number, bytes) = (self.number, search.size);
        Some(Probe { number, bytes })
    }

    /// The neighbour has had a probe.
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

    /// The host cannot send datagrams of so many bytes in one piece. No other try is needed.
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

    /// When [`Mtu::poll`] has something to do.
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

    /// Looks what of `high` bytes is carried.
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

    /// A try is over without an answer.
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

    /// The length that is tried, or a shorter one, is too long.
    fn condemn(&mut self, now: Time, bytes: u16) {
        let Some(search) = &mut self.search else {
            return;
        };
        search.high = search.size.min(bytes);
        search.companion_due = false;
        if !search.is_raise && self.usable >= search.size {
            // What follows goes through meanwhile.
            self.usable = FLOOR;
            self.is_proven = false;
            self.raise_after = RAISE_FIRST;
        }
        self.go_on(now);
    }

    /// The length that was tried is decided: to the next one.
    fn go_on(&mut self, now: Time) {
        let Some(search) = &mut self.search else {
            return;
        };
        if search.low + PRECISION >= search.high {
            return self.end(now);
        }
        let is_first_step = search.is_raise && search.low == self.usable;
        search.size = match is_first_step {
            // Mostly the path is what it was: then one length more is enough to know.
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
    /// Tries that must count before a length is given up.
    fn needed(&self) -> u32 {
        let least = match self.size == DEFAULT {
            true => TRIES_DEFAULT,
            false => TRIES,
        };
        let (sent, heard) = self.companions;
        // As if one more had been lost: few companions prove little.
        let lost = 1.0 - f64::from(heard) / f64::from(sent + 1);
        // lost^n <= CHANCE
        let n = (CHANCE.ln() / lost.min(0.99).ln()).ceil() as u32;
        n.clamp(least, TRIES_LOSSY_MAX)
    }
}

#[cfg(test)]
mod tests;
