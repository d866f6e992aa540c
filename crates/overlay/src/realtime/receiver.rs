//! The receiver's side of a real-time lane: duplicates, gaps, and when to ask again.
//!
//! ```text
//!   missing ── poll_nack ──▶ asked ── rtt + margin ──▶ asked again … ──▶ last (doubled) ──▶ given up
//!      └───────────────┴──────────── the packet arrives ──┴──────────────────┘
//! ```

use super::missing::{MISSING_LIMIT, Missing, Nack, State, Strike, Table};
use super::window::PacedWindow;
use super::{LANE_SEQ_BITS, LaneSeq, MAX_STRIKES, Settings, remaining_time};
use base::seq::{Seen, widen};
use base::token_bucket::RatioBucket;
use base::{Duration, Time};

/// Numbers that the duplicate window covers at first: 128 bytes.
const WINDOW_START: usize = 1 << 10;
/// And at most: 218 ms at 600 000 packets/s, in 16 KiB.
const WINDOW_LIMIT: usize = 128 << 10;
/// The window grows until half of it lasts so long: longer than a history keeps a packet.
const WINDOW_COVER: Duration = Duration::from_millis(160);

/// A jump of more numbers is a lane that was restarted, not a loss: 1.7 s at 600 000 packets/s.
const RESTART_JUMP: u64 = 1 << 20;
/// A first packet with a number up to this one shows that those before it were lost.
const FIRST_GAP: u64 = 32;
/// A packet was sent at most so long before the next one on a lane that carries voice. Bounds the
/// guess of when a missing packet should have come, should the gap span a pause.
const SPACING_MAX: Duration = Duration::from_millis(20);
/// Without a deadline an answer is of use so long after the gap was seen; histories forget sooner.
const NO_DEADLINE_SLACK: Duration = Duration::from_millis(500);
/// An answer is overdue after the round trip and an eighth of it, and at least this.
const MARGIN_MIN: Duration = Duration::from_millis(1);
/// The second half of a doubled request follows after so long, if the deadline permits, so that a
/// short burst does not take both.
const REPEAT_AFTER: Duration = Duration::from_millis(2);
/// Requests per packet received that are afforded: what a sender's default budget would answer.
const REQUEST_RATIO: f64 = 0.5;
/// Requests that may be saved up. After an outage that many are asked for at once, the rest at
/// [`REQUEST_RATIO`].
const REQUEST_BURST: f64 = 1024.0;
/// When the budget is used up, look again after.
const THROTTLED_WAIT: Duration = Duration::from_millis(1);
/// A lane without traffic for so long gives its memory back.
const IDLE: Duration = Duration::from_secs(5);

/// What a packet is to the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is here for the first time.
    New,
    /// It was missing, was asked for, and is here.
    Recovered {
        /// Since the gap was seen.
        after: Duration,
        /// Requests that it took.
        strikes: u8,
    },
    /// It has been here before.
    Duplicate,
    /// So old that nobody knows.
    TooOld,
}

impl Arrival {
    /// True if the packet goes on towards its destination.
    pub const fn is_fresh(self) -> bool {
        matches!(self, Arrival::New | Arrival::Recovered { .. })
    }
}

/// Counters of a [`Receiver`], since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Packets that were here for the first time, recovered ones included.
    pub received: u64,
    /// Packets found missing.
    pub missing: u64,
    /// Packets recovered after one, two, … strikes.
    pub recovered: [u64; MAX_STRIKES as usize],
    /// Packets found missing that came by themselves, late.
    pub reordered: u64,
    /// Packets that were here before.
    pub duplicates: u64,
    /// Packets that are older than the window.
    pub too_old: u64,
    /// Missing packets given up, because their time or their strikes were used up.
    pub given_up: u64,
    /// Missing packets forgotten, because there were too many.
    pub forgotten: u64,
    /// Requests, doubled ones counted twice.
    pub requests: u64,
    /// Times that the budget of requests was used up.
    pub throttled: u64,
    /// Jumps of the numbers that were taken for a restart.
    pub restarts: u64,
}

/// What has arrived on one real-time lane, and what has not.
#[derive(Debug)]
pub struct Receiver {
    settings: Settings,
    window: PacedWindow,
    /// The number after the highest one that has arrived, was found missing or was told of.
    expected: u64,
    /// When something was heard of the lane last; none before the first packet.
    heard: Option<Time>,
    missing: Table,
    /// No missing packet is due before.
    next_due: Time,
    budget: RatioBucket,
    /// The round trip as of the last poll.
    rtt: Duration,
    /// The remaining time of the last packet in order, and the last known rest of its path.
    last_remaining: u16,
    last_rest: Duration,
    stats: ReceiverStats,
}

impl Receiver {
    /// A receiver that has heard nothing.
    pub fn new(settings: Settings) -> Receiver {
        Receiver {
            settings,
            window: PacedWindow::new(WINDOW_START),
            expected: 0,
            heard: None,
            missing: Table::default(),
            next_due: Time::FAR,
            budget: RatioBucket::new(REQUEST_RATIO, REQUEST_BURST),
            rtt: Duration::ZERO,
            last_remaining: 0,
            last_rest: Duration::ZERO,
            stats: ReceiverStats::default(),
        }
    }

    /// Forgets the lane's numbers, for a new session of the link. Counters go on.
    pub fn reset(&mut self) {
        let mut stats = self.stats;
        stats.given_up += self.missing.len() as u64;
        *self = Receiver::new(self.settings.clone());
        self.stats = stats;
    }

    /// Notes a packet with the 24-bit number `seq`. `remaining` is what its header has left on
    /// arrival; `rest_of_path` is the delay from here to its destination, asked for only when the
    /// packet reveals a gap (the missing ones are taken to be like it).
    #[inline]
    pub fn on_packet(
        &mut self,
        now: Time,
        seq: u32,
        remaining: u16,
        rest_of_path: impl FnOnce() -> Duration,
    ) -> Arrival {
        let seq = widen(u64::from(seq), LANE_SEQ_BITS, self.expected);
        if seq < self.expected {
            return self.on_late(now, seq);
        }
        self.last_remaining = remaining;
        if seq > self.expected {
            self.last_rest = rest_of_path();
            self.on_gap(now, seq);
        }
        self.window.insert(now, seq, WINDOW_COVER, WINDOW_LIMIT);
        self.expected = seq + 1;
        self.heard = Some(now);
        self.count_fresh();
        Arrival::New
    }

    /// Notes that the sender's next packet will have the 24-bit number `next`: what has not come
    /// of those before is lost.
    pub fn on_tail_probe(&mut self, now: Time, next: u32) {
        let next = widen(u64::from(next), LANE_SEQ_BITS, self.expected);
        if next <= self.expected {
            return;
        }
        self.on_gap(now, next);
        self.expected = next;
        self.heard = Some(now);
    }

    /// Fills `out` with what to ask for at `now`, and returns how many. Equal strikes are
    /// neighbours. Call it again until it returns 0; what each call returns must go in a datagram
    /// of its own, since the second half of a doubled request may be in the next.
    ///
    /// `rtt` is the link's round trip.
    pub fn poll_nack(&mut self, now: Time, rtt: Duration, out: &mut [Nack]) -> usize {
        self.rtt = rtt;
        if now < self.next_due || out.is_empty() {
            return 0;
        }
        let mut batch = Batch::new(out);
        let mut next_due = Time::FAR;
        let mut missing = core::mem::take(&mut self.missing);
        let mut throttled = false;
        missing.retain(|entry| {
            if entry.due <= now && !self.strike(now, entry, &mut batch, &mut throttled) {
                return false;
            }
            // What is still due was throttled or found no room.
            let again = if throttled { now + THROTTLED_WAIT } else { now };
            next_due = next_due.min(entry.due.max(again));
            true
        });
        self.missing = missing;
        self.next_due = next_due;
        self.stats.throttled += u64::from(throttled);
        batch.finish()
    }

    /// When [`Receiver::poll_nack`] has something to do.
    pub fn next_timeout(&self) -> Option<Time> {
        (self.next_due != Time::FAR).then_some(self.next_due)
    }

    /// Gives memory back if the lane has been silent for some seconds. Call it now and then.
    pub fn release_idle(&mut self, now: Time) {
        if self.missing.len() == 0 && self.heard.is_some_and(|heard| now.since(heard) > IDLE) {
            self.missing.clear();
        }
    }

    /// How many packets are missing that may still come.
    pub fn missing_len(&self) -> usize {
        self.missing.len()
    }

    /// The counters.
    pub fn stats(&self) -> ReceiverStats {
        self.stats
    }

    /// Notes that the packets from the expected one to the one before `until` are missing.
    #[cold]
    fn on_gap(&mut self, now: Time, until: u64) {
        let count = until - self.expected;
        let limit = match self.heard {
            Some(_) => RESTART_JUMP,
            None => FIRST_GAP,
        };
        if count > limit {
            self.restart();
            return;
        }
        self.stats.missing += count;
        let skipped = count.saturating_sub(MISSING_LIMIT as u64);
        self.stats.forgotten += skipped;
        let slack = match remaining_time(self.last_remaining) {
            Some(left) => left.saturating_sub(self.last_rest),
            None => NO_DEADLINE_SLACK,
        };
        // They were sent evenly between the one before and the one after, as far as we can tell.
        let since_heard = now.since(self.heard.unwrap_or(now));
        let spacing = since_heard.div(count + 1).min(SPACING_MAX);
        for seq in self.expected + skipped..until {
            let came_due = now - spacing * (until - seq);
            let forgotten = self.missing.push(Missing {
                seq,
                detected: now,
                useful_until: came_due + slack,
                due: now,
                strikes: 0,
                state: State::Strike,
            });
            self.stats.forgotten += u64::from(forgotten);
        }
        // Asked for after the first packet out of order. [Amir06 §IV-A]
        self.next_due = now;
    }

    /// Begins anew behind a jump.
    fn restart(&mut self) {
        if self.heard.is_some() {
            self.stats.restarts += 1;
        }
        self.stats.given_up += self.missing.len() as u64;
        self.missing.clear();
        self.next_due = Time::FAR;
        self.window = PacedWindow::new(WINDOW_START);
    }

    fn on_late(&mut self, now: Time, seq: u64) -> Arrival {
        match self.window.insert(now, seq, WINDOW_COVER, WINDOW_LIMIT) {
            Seen::Duplicate => {
                self.stats.duplicates += 1;
                return Arrival::Duplicate;
            }
            Seen::TooOld => {
                self.stats.too_old += 1;
                return Arrival::TooOld;
            }
            Seen::Ahead | Seen::Late => self.count_fresh(),
        }
        let Some(found) = self.missing.take(seq) else {
            return Arrival::New;
        };
        let after = now.since(found.detected);
        // Nothing comes back in three quarters of a round trip: it was on its way already.
        if found.strikes == 0 || after < self.rtt.div(4) * 3 {
            self.stats.reordered += 1;
            return Arrival::New;
        }
        self.stats.recovered[usize::from(found.strikes - 1)] += 1;
        Arrival::Recovered {
            after,
            strikes: found.strikes,
        }
    }

    #[inline]
    fn count_fresh(&mut self) {
        self.stats.received += 1;
        self.budget.on_original(1.0);
    }

    /// Decides about a missing packet that is due; false when it is given up.
    fn strike(
        &mut self,
        now: Time,
        entry: &mut Missing,
        batch: &mut Batch<'_>,
        throttled: &mut bool,
    ) -> bool {
        let answer_at = now + self.rtt;
        let strikes = self.settings.strikes.min(MAX_STRIKES);
        let spent = entry.state == State::Wait || entry.strikes >= strikes;
        // Only if the packet is likely to be in time. [Amir06 §I]
        let hopeless = entry.state == State::Strike && (spent || answer_at > entry.useful_until);
        if entry.state == State::Wait || hopeless {
            self.stats.given_up += 1;
            return false;
        }
        let repeat = entry.state == State::Repeat;
        let number = entry.strikes + u8::from(!repeat);
        let margin = self.rtt.div(8).max(MARGIN_MIN);
        let retry_at = answer_at + margin;
        let final_one = number == strikes || retry_at + self.rtt > entry.useful_until;
        let last = repeat || (final_one && self.settings.redundant_last);
        if *throttled || !batch.has_room(number, entry.seq, last) {
            return true;
        }
        if !self.budget.try_take(1.0) {
            *throttled = true;
            return true;
        }
        batch.add(number, entry.seq, last);
        self.stats.requests += 1;
        entry.strikes = number;
        if repeat || (final_one && !last) {
            entry.state = State::Wait;
            entry.due = retry_at + self.rtt;
        } else if last {
            entry.state = State::Repeat;
            let latest = entry.useful_until - self.rtt;
            entry.due = (now + REPEAT_AFTER).min(latest.max(now));
        } else {
            entry.due = retry_at;
        }
        true
    }
}

/// Requests under way into the caller's slice: one open per kind of strike.
struct Batch<'a> {
    out: &'a mut [Nack],
    closed: usize,
    open: [Option<Nack>; KINDS],
    opened: usize,
}

/// Strikes 1 to [`MAX_STRIKES`], each plain or last.
const KINDS: usize = 2 * MAX_STRIKES as usize;

fn kind(number: u8, last: bool) -> usize {
    usize::from(number - 1) * 2 + usize::from(last)
}

impl<'a> Batch<'a> {
    fn new(out: &'a mut [Nack]) -> Batch<'a> {
        Batch {
            out,
            closed: 0,
            open: [None; KINDS],
            opened: 0,
        }
    }

    fn has_room(&self, number: u8, seq: u64, last: bool) -> bool {
        let fits = self.open[kind(number, last)].is_some_and(|mut nack| nack.try_add(seq));
        fits || self.closed + self.opened < self.out.len()
    }

    /// Adds a packet; there must be room.
    fn add(&mut self, number: u8, seq: u64, last: bool) {
        let slot = &mut self.open[kind(number, last)];
        if let Some(nack) = slot
            && nack.try_add(seq)
        {
            return;
        }
        let fresh = Nack {
            strike: Strike::new(number, last),
            first: LaneSeq(seq),
            bitmap: 0,
        };
        match slot.replace(fresh) {
            Some(full) => {
                self.out[self.closed] = full;
                self.closed += 1;
            }
            None => self.opened += 1,
        }
    }

    fn finish(self) -> usize {
        let mut n = self.closed;
        for nack in self.open.into_iter().flatten() {
            self.out[n] = nack;
            n += 1;
        }
        self.out[..n].sort_by_key(|nack| nack.strike.wire());
        n
    }
}
