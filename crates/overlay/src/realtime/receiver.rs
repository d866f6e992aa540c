//! The receiver's side of a real-time lane: duplicates, gaps, and requests for what is missing.

use super::LastRound;
use super::MAX_STRIKES;
use super::Settings;
use super::code::{Decoder, DecoderStats};
use super::missing::{Answers, MISSING_LIMIT, Missing, RoundTrip, Step, Strike, Table};
use super::window::PacedWindow;
use base::seq::Seen;
use base::token_bucket::{RatioBucket, TokenBucket};
use base::{Duration, Time};
use wire::control::Repair;
use wire::data::{LaneSeq, Remaining};

/// Numbers that the duplicate window covers at first: 128 bytes.
const WINDOW_START: usize = 1 << 10;
/// The maximum: 218 ms at 600 000 packets/s, a second at 130 000, in 16 KiB.
const WINDOW_LIMIT: usize = 128 << 10;
/// The window grows until half of it lasts this long; a whole one then lasts longer than the longest history.
const WINDOW_COVER: Duration = Duration::from_millis(500);

/// A jump by more numbers than this is a restarted lane, not a loss: 1.7 s at 600 000 packets/s.
const RESTART_JUMP: u64 = 1 << 20;
/// A first packet with a number up to this one shows that the packets before it were lost.
const FIRST_GAP: u64 = 32;
/// The maximum time between two packets on a lane that carries voice. It limits the estimate of when a missing packet
/// should have arrived, if the gap spans a pause.
const SPACING_MAX: Duration = Duration::from_millis(20);
/// Without a deadline, an answer is useful for this long after the gap was seen; histories forget sooner.
const NO_DEADLINE_SLACK: Duration = Duration::from_millis(500);

/// Missing packets noted per second, and at once: somebody who skips numbers again and again does not make the node
/// note thousands for each packet. Choice: a third of the packets of the fastest lane, and two full tables.
const NOTED_PER_S: f64 = 200_000.0;
const NOTED_BURST: f64 = 2.0 * MISSING_LIMIT as f64;
/// Requests allowed per packet received: at 10 % loss seven for each packet lost, more than two strikes and a last one
/// sent three times, even if none is ever answered. More copies of the last one come from what was saved up.
pub(super) const REQUEST_RATIO: f64 = 0.75;
/// Requests that may be saved up, and hence the maximum in one flush: after an outage, this many packets are requested
/// at once (8 datagrams), the others at [`REQUEST_RATIO`].
const REQUEST_BURST: f64 = 1024.0;
/// Time until the next look when the budget is used up.
const THROTTLED_WAIT: Duration = Duration::from_millis(1);
/// Time without traffic after which a lane releases its memory.
const IDLE: Duration = Duration::from_secs(5);

/// A good length for the slice that [`Receiver::poll_nack`] fills: in the worst case, with packets more than 32 numbers
/// apart, 128 × 7 = 896 bytes on the wire.
pub const NACK_SEQS: usize = 128;

/// The relation of a packet to the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The packet has arrived for the first time.
    New,
    /// The packet was missing, was requested, and has arrived.
    Recovered {
        /// Time since the gap was seen.
        after: Duration,
    },
    /// The packet has arrived before.
    Duplicate,
    /// The packet is so old that it is unknown whether it has arrived before.
    TooOld,
}

impl Arrival {
    /// Returns true if the packet continues towards its destination.
    pub const fn is_fresh(self) -> bool {
        matches!(self, Arrival::New | Arrival::Recovered { .. })
    }
}

/// Counters of a [`Receiver`], since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Packets that arrived for the first time, recovered ones included.
    pub received: u64,
    /// Packets found missing.
    pub missing: u64,
    /// Packets recovered after one, two, … strikes.
    pub recovered: [u64; MAX_STRIKES as usize],
    /// Packets found missing that arrived late, without a request.
    pub reordered: u64,
    /// Packets that arrived after they had been given up, or that were never counted as missing.
    pub late: u64,
    /// Packets restored from repair packets.
    pub decoded: u64,
    /// Restored packets that were no longer useful.
    pub decoded_late: u64,
    /// Packets that had arrived before.
    pub duplicates: u64,
    /// Packets that are older than the window.
    pub too_old: u64,
    /// Missing packets given up, because their time or their strikes were used up.
    pub given_up: u64,
    /// Missing packets forgotten, because there were too many.
    pub forgotten: u64,
    /// Requests, with each repetition counted.
    pub requests: u64,
    /// Number of times that the budget of requests was used up.
    pub throttled: u64,
    /// Jumps of the numbers that were taken for a restart.
    pub restarts: u64,
}

/// The packets that have arrived on one real-time lane, and those that have not.
#[derive(Debug)]
pub struct Receiver {
    settings: Settings,
    window: PacedWindow,
    /// The number after the highest one that has arrived, was found missing or was reported.
    expected: u64,
    /// When anything was last heard of the lane; `None` before the first packet.
    heard: Option<Time>,
    missing: Table,
    answers: Answers,
    /// Requests that are decided and not yet handed out: strikes and numbers, the next one last.
    ready: Vec<(Strike, u64)>,
    /// No request before this moment, because the budget is used up.
    hold_until: Time,
    budget: RatioBucket,
    /// How many more missing packets may be noted.
    noted: TokenBucket,
    /// The round trip at the last poll.
    rtt: RoundTrip,
    last_round: LastRound,
    /// The remaining time of the last packet in order, and the last known delay of the rest of its path.
    last_remaining: Remaining,
    last_rest: Duration,
    decoder: Decoder,
    stats: ReceiverStats,
    young: Young,
}

/// The counts of packets that are too young for a verdict: those from a number on.
#[derive(Debug, Default)]
struct Young {
    from: u64,
    missing: u64,
    came: u64,
}

impl Receiver {
    /// Returns a receiver that has heard nothing.
    pub fn new(settings: Settings) -> Receiver {
        Receiver {
            settings,
            window: PacedWindow::new(WINDOW_START),
            expected: 0,
            heard: None,
            missing: Table::default(),
            answers: Answers::default(),
            ready: Vec::new(),
            hold_until: Time::ZERO,
            budget: RatioBucket::new(REQUEST_RATIO, REQUEST_BURST),
            noted: TokenBucket::new(NOTED_PER_S, NOTED_BURST, Time::ZERO),
            rtt: Duration::ZERO.into(),
            last_round: LastRound::LEAST,
            last_remaining: Remaining::NONE,
            last_rest: Duration::ZERO,
            decoder: Decoder::default(),
            stats: ReceiverStats::default(),
            young: Young::default(),
        }
    }

    /// Forgets the lane's numbers, for a new session of the link. The counters continue.
    pub fn reset(&mut self) {
        let mut stats = self.stats;
        stats.given_up += self.missing.len() as u64;
        let mut decoder = core::mem::take(&mut self.decoder);
        decoder.reset();
        *self = Receiver::new(self.settings.clone());
        self.stats = stats;
        self.decoder = decoder;
    }

    /// Notes a packet. `remaining` is what is left to its deadline on arrival. `rest_of_path` returns the delay from
    /// here to its destination and is called only when the packet reveals a gap (the missing packets are assumed to be
    /// like it).
    #[inline]
    pub fn on_packet(
        &mut self,
        now: Time,
        seq: LaneSeq,
        remaining: Remaining,
        rest_of_path: impl FnOnce() -> Duration,
    ) -> Arrival {
        self.on_numbered(now, seq, Some(remaining), rest_of_path)
    }

    /// The same for a packet that an earlier hop has repaired. It has spent time there, and the packets missing next to
    /// it have not: it does not show how much time they have left.
    #[inline]
    pub fn on_repaired(
        &mut self,
        now: Time,
        seq: LaneSeq,
        rest_of_path: impl FnOnce() -> Duration,
    ) -> Arrival {
        self.on_numbered(now, seq, None, rest_of_path)
    }

    #[inline]
    fn on_numbered(
        &mut self,
        now: Time,
        seq: LaneSeq,
        remaining: Option<Remaining>,
        rest_of_path: impl FnOnce() -> Duration,
    ) -> Arrival {
        let seq = seq.widen(self.expected);
        if seq < self.expected {
            return self.on_late(now, seq);
        }
        if let Some(remaining) = remaining {
            self.last_remaining = remaining;
        }
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

    /// Notes that the sender's next packet will have the number `next`: packets before it that have not arrived are
    /// lost.
    pub fn on_tail_probe(&mut self, now: Time, next: LaneSeq) {
        let next = next.widen(self.expected);
        if next > self.expected {
            self.on_gap(now, next);
            self.expected = next;
            self.heard = Some(now);
        }
    }

    /// Notes a repair packet of the lane.
    pub fn on_repair(&mut self, now: Time, repair: &Repair<'_>) {
        let newest = repair.newest.widen(self.expected);
        // Numbers jump when a lane restarts: nothing from before the restart applies to what follows.
        if newest.abs_diff(self.expected) < RESTART_JUMP {
            self.decoder.on_repair(now, newest, repair);
        }
    }

    /// Returns true if the bytes of packets are useful, because the sender repairs.
    #[inline]
    pub fn wants_originals(&self, now: Time) -> bool {
        self.decoder.is_wanted(now)
    }

    /// Releases the memory of coded repair if no repair packet has arrived for long.
    fn release_repair(&mut self, now: Time) {
        self.decoder.release_idle(now);
    }

    /// Keeps a packet that has arrived for the first time, as it was sent.
    pub fn keep(&mut self, now: Time, seq: LaneSeq, packet: &[u8]) {
        self.decoder
            .on_original(now, seq.widen(self.expected), packet);
    }

    /// Returns true if repair packets have restored packets that were not taken yet.
    #[inline]
    pub fn has_found(&self) -> bool {
        self.decoder.has_found()
    }

    /// Returns the next packet that repair packets have restored: its relation to the lane, its number, when it would
    /// have arrived at the earliest, and its bytes except for the lane number.
    pub fn poll_found(&mut self, now: Time) -> Option<(Arrival, LaneSeq, Time, &[u8])> {
        let (seq, due) = self.decoder.poll()?;
        let arrival = if seq >= self.expected {
            if seq > self.expected {
                self.on_gap(now, seq);
            }
            self.stats.missing += 1;
            self.young.missing += 1;
            self.window.insert(now, seq, WINDOW_COVER, WINDOW_LIMIT);
            self.expected = seq + 1;
            self.heard = Some(now);
            Arrival::Recovered {
                after: Duration::ZERO,
            }
        } else {
            match self.window.insert(now, seq, WINDOW_COVER, WINDOW_LIMIT) {
                Seen::Ahead | Seen::Late => {
                    let found = self.missing.take(seq);
                    let after = found.map_or(now.since(due), |found| now.since(found.detected));
                    Arrival::Recovered { after }
                }
                Seen::Duplicate => Arrival::Duplicate,
                Seen::TooOld => Arrival::TooOld,
            }
        };
        if arrival.is_fresh() {
            self.stats.received += 1;
            self.stats.decoded += 1;
            self.young.came += u64::from(seq >= self.young.from);
            self.budget.on_original(1.0);
        }
        Some((arrival, LaneSeq::of(seq), due, self.decoder.bytes(seq)?))
    }

    /// Fills `out` with the packets to request at `now`, in rising order, and returns the strike and their number. Call
    /// it in every flush until it returns `None`. The result of each call must go in a datagram of its own, since a
    /// repetition of the request may be next.
    ///
    /// `rtt` is the time until an answer arrives. [`NACK_SEQS`] is a good length for `out`.
    pub fn poll_nack(
        &mut self,
        now: Time,
        rtt: impl Into<RoundTrip>,
        out: &mut [u64],
    ) -> Option<(Strike, usize)> {
        if self.ready.is_empty() {
            self.rtt = rtt.into();
            self.collect(now);
        }
        let &(strike, _) = self.ready.last()?;
        let mut count = 0;
        for slot in out {
            match self.ready.pop_if(|(s, _)| *s == strike) {
                Some((_, seq)) => *slot = seq,
                None => break,
            }
            count += 1;
        }
        (count > 0).then_some((strike, count))
    }

    /// Sets how often the last request for a packet is sent.
    pub fn set_last_round(&mut self, last: LastRound) {
        self.last_round = last;
    }

    /// Returns when [`Receiver::poll_nack`] has something to do.
    pub fn next_timeout(&self) -> Option<Time> {
        if !self.ready.is_empty() {
            return Some(Time::ZERO);
        }
        Some(self.missing.next_due()?.max(self.hold_until))
    }

    /// Releases memory if the lane has been silent for some seconds. Call it regularly.
    pub fn release_idle(&mut self, now: Time) {
        self.release_repair(now);
        if self.missing.len() == 0 && self.heard.is_some_and(|heard| now.since(heard) > IDLE) {
            self.missing.clear();
            self.ready = Vec::new();
            if self.window.capacity() > WINDOW_START as u64 {
                // No copy is under way for so long: only the position matters.
                self.window = PacedWindow::new(WINDOW_START);
                let last = self.expected.saturating_sub(1);
                self.window.insert(now, last, WINDOW_COVER, WINDOW_LIMIT);
            }
        }
    }

    /// Returns how many packets are missing that may still arrive.
    pub fn missing_len(&self) -> usize {
        self.missing.len()
    }

    /// Returns the counters.
    pub fn stats(&self) -> ReceiverStats {
        self.stats
    }

    /// Returns the counters of coded repair.
    pub fn decoder_stats(&self) -> DecoderStats {
        self.decoder.stats()
    }

    /// Returns the bytes held for coded repair.
    pub fn decoder_bytes(&self) -> usize {
        self.decoder.held_bytes()
    }

    /// The packet that [`Receiver::poll_found`] has last returned is no longer useful: it counts as lost.
    pub fn on_found_late(&mut self, seq: LaneSeq) {
        self.stats.decoded_late += 1;
        let is_young = seq.widen(self.expected) >= self.young.from;
        self.young.came -= u64::from(is_young);
    }

    /// Returns the packets that have not arrived in time despite all repair, among those sent before the last call. A
    /// packet that has been missing for a shorter time may still be found, so it is left to the next call.
    pub fn settle_lost(&mut self) -> u64 {
        let stats = &self.stats;
        let came = stats.recovered.iter().sum::<u64>() + stats.reordered + stats.late;
        let came = came + stats.decoded - stats.decoded_late;
        let young = core::mem::take(&mut self.young);
        self.young.from = self.expected;
        (stats.missing - young.missing).saturating_sub(came - young.came)
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
        self.young.missing += count;
        let room = (self.noted.available(now) as u64).min(MISSING_LIMIT as u64);
        let skipped = count.saturating_sub(room);
        self.noted.try_take(now, (count - skipped) as f64);
        self.stats.forgotten += skipped;
        let slack = match self.last_remaining.duration() {
            Some(left) => left.saturating_sub(self.last_rest),
            None => NO_DEADLINE_SLACK,
        };
        // As far as the receiver knows, the packets were sent evenly between the packet before and the packet after.
        let since_heard = now.since(self.heard.unwrap_or(now));
        let spacing = since_heard.div(count + 1).min(SPACING_MAX);
        for seq in self.expected + skipped..until {
            let came_due = now - spacing * (until - seq);
            // Requested after the first packet out of order. [Amir06 §IV-A]
            let missing = Missing::new(seq, now, came_due + slack);
            self.stats.forgotten += u64::from(self.missing.push(missing));
        }
    }

    /// Restarts behind a jump.
    fn restart(&mut self) {
        if self.heard.is_some() {
            self.stats.restarts += 1;
        }
        self.stats.given_up += self.missing.len() as u64;
        self.missing.clear();
        self.ready.clear();
        self.window = PacedWindow::new(WINDOW_START);
    }

    fn on_late(&mut self, now: Time, seq: u64) -> Arrival {
        match self.window.insert(now, seq, WINDOW_COVER, WINDOW_LIMIT) {
            Seen::Ahead | Seen::Late => self.count_fresh(),
            Seen::Duplicate => {
                self.stats.duplicates += 1;
                return Arrival::Duplicate;
            }
            Seen::TooOld => {
                self.stats.too_old += 1;
                return Arrival::TooOld;
            }
        }
        self.young.came += u64::from(seq >= self.young.from);
        let Some(found) = self.missing.take(seq) else {
            self.stats.late += 1;
            return Arrival::New;
        };
        let after = now.since(found.detected);
        // No answer arrives within three quarters of a round trip: the packet was on its way already.
        if found.strikes == 0 || after < self.rtt.least.div(4) * 3 {
            self.stats.reordered += 1;
            return Arrival::New;
        }
        self.answers.on_answer(now, &found);
        self.stats.recovered[usize::from(found.strikes - 1)] += 1;
        Arrival::Recovered { after }
    }

    #[inline]
    fn count_fresh(&mut self) {
        self.stats.received += 1;
        self.budget.on_original(1.0);
    }

    /// Decides about all packets that are due.
    fn collect(&mut self, now: Time) {
        if now < self.hold_until {
            return;
        }
        // A repetition that is due at once must wait for the next round, in another datagram.
        let mut again = Vec::new();
        while let Some(entry) = self.missing.pop_due(now) {
            let seq = entry.seq;
            if self.budget.available() < 1.0 {
                // Without a budget, the node looks again soon, but not for a packet that cannot be in time any more.
                if now + self.rtt.least > entry.useful_until {
                    self.missing.take(seq);
                    self.stats.given_up += 1;
                    continue;
                }
                again.push((seq, now));
                self.hold_until = now + THROTTLED_WAIT;
                self.stats.throttled += 1;
                break;
            }
            let repeats = self.settings.redundant_last;
            let last = match repeats && self.budget.available() >= REQUEST_BURST / 2.0 {
                true => self.last_round,
                false => LastRound::LEAST,
            };
            if let Some(until) = self.answers.awaits(now, entry, (self.rtt.usual, last)) {
                self.missing.schedule(seq, until);
                continue;
            }
            match entry.step(now, self.rtt, (&self.settings, last)) {
                Step::GiveUp => {
                    self.missing.take(seq);
                    self.stats.given_up += 1;
                }
                Step::Ask(strike, due) => {
                    self.budget.try_take(1.0);
                    self.stats.requests += 1;
                    self.ready.push((strike, seq));
                    self.decoder.on_asked(now, seq);
                    if due <= now {
                        again.push((seq, due));
                    } else {
                        self.missing.schedule(seq, due);
                    }
                }
            }
        }
        for (seq, due) in again {
            self.missing.schedule(seq, due);
        }
        self.ready
            .sort_unstable_by(|(s, a), (t, b)| t.cmp(s).then(b.cmp(a)));
    }
}
