//! The sender's side of a real-time lane: numbers, copies, answers, and reports of its end.

use super::code::{Encoder, Share};
use super::cover::Cover;
use super::ring::Ring;
use super::tail::Tail;
use super::{LastRound, REPEAT_AFTER, Settings, Strike};
use base::token_bucket::RatioBucket;
use base::{Duration, NodeAddr, Time};
use std::collections::VecDeque;
use wire::control::TailProbe;
use wire::data::{Header, LaneSeq, Remaining};

/// Time without traffic after which a lane releases its memory.
const IDLE: Duration = Duration::from_secs(5);
/// Maximum number of copies that wait for their time. Of 600 000 packets/s at 10 % loss, a tenth of which is lost again,
/// 6000 each second have a last round. Its up to six further copies wait for 42 ms altogether, so 252 wait at a time. If
/// there are more, copies are sent at once.
const MAX_REPEATS: usize = 256;

/// The answer to a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// Send the packet again.
    Send {
        /// The packet as it was sent: overlay header and payload.
        plaintext: &'a [u8],
        /// The header's new remaining time, with the stay in the history subtracted.
        remaining: Remaining,
        /// How many copies to send now.
        copies: u8,
    },
    /// This strike has been answered already: the request arrived twice.
    Repeated,
    /// The packet was sent too long ago; there is no copy, or only a useless one.
    Expired,
    /// The packet could not be at its destination before its deadline.
    TooLate,
    /// The budget of retransmissions is used up.
    Throttled,
    /// The packet was never sent.
    Unknown,
}

/// Counters of a [`History`], since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryStats {
    /// Packets recorded.
    pub originals: u64,
    /// Packets sent again, copies included.
    pub retransmissions: u64,
    /// Requests for packets that were already sent again.
    pub repeated: u64,
    /// Requests for packets that are no longer held.
    pub expired: u64,
    /// Requests for packets that could not be in time.
    pub too_late: u64,
    /// Requests beyond the budget.
    pub throttled: u64,
    /// Requests for packets that were never sent.
    pub unknown: u64,
    /// Packets sent twice without a request.
    pub ahead: u64,
    /// Tail probes.
    pub probes: u64,
    /// Repair packets made, without a request.
    pub repairs: u64,
    /// Their bytes, without the seal.
    pub repair_bytes: u64,
    /// Packets that left the history before their age because it was at its size limit.
    pub overrun: u64,
}

/// The packets that were recently sent on one real-time lane, ready to be sent again.
#[derive(Debug)]
pub struct History {
    settings: Settings,
    next: u64,
    ring: Ring,
    cover: Cover,
    budget: RatioBucket,
    tail: Tail,
    /// Packets of which another copy is to be sent, and when.
    repeats: VecDeque<(Time, u64)>,
    encoder: Encoder,
    last_round: LastRound,
    stats: HistoryStats,
}

impl History {
    /// An empty history whose first packet will have number 0.
    pub fn new(settings: Settings) -> History {
        History {
            next: 0,
            ring: Ring::new(settings.history_bytes, settings.cover),
            cover: Cover::new(&settings),
            budget: RatioBucket::new(settings.retransmit_ratio, settings.retransmit_burst),
            tail: Tail::new(settings.tail_probes, settings.cover),
            repeats: VecDeque::new(),
            encoder: Encoder::default(),
            last_round: LastRound::LEAST,
            stats: HistoryStats::default(),
            settings,
        }
    }

    /// Starts again at number 0, for a new session of the link. The counters continue.
    pub fn reset(&mut self) {
        let stats = self.stats();
        let encoder = core::mem::take(&mut self.encoder);
        *self = History::new(self.settings.clone());
        self.stats = stats;
        self.encoder = encoder;
        self.encoder.set_share(None);
    }

    /// Assigns the next number to a packet that is about to be sent, writes it into the header and keeps a copy.
    /// `plaintext` is the overlay header, with the remaining time as it will be sent, and the payload.
    ///
    /// # Panics
    /// If `plaintext` is shorter than the overlay header.
    #[inline]
    pub fn record(&mut self, now: Time, plaintext: &mut [u8]) -> LaneSeq {
        let seq = LaneSeq::of(self.next);
        let mut header = Header::trusted(&mut *plaintext);
        header.set_lane_seq(seq);
        if self.cover.on_sent(now, header.remaining().duration()) {
            self.ring.set_cover(self.cover.age());
        }
        self.ring.push(now, self.next, plaintext);
        self.next += 1;
        self.budget.on_original(1.0);
        self.tail.on_data(now);
        self.stats.originals += 1;
        seq
    }

    /// Sends the packet that was recorded last `times` more times, because a request for it would hardly be answered in
    /// time. A single copy follows after 2 ms; of several copies, each follows after 2 ms times their number, so that
    /// no burst takes all.
    pub fn copy_ahead(&mut self, now: Time, times: u32) {
        let room = (MAX_REPEATS - self.repeats.len()) as u32;
        for steps in 1..=times.min(room) {
            plan(&mut self.repeats, now, steps * times, self.next - 1);
            self.stats.ahead += 1;
        }
    }

    /// Sets how often the last request for a packet is answered.
    pub fn set_last_round(&mut self, last: LastRound) {
        self.last_round = last;
    }

    /// Sets how much coded repair follows the packets that are covered from now on.
    pub fn set_share(&mut self, share: Option<Share>) {
        self.encoder.set_share(share);
    }

    /// Covers the packet that was recorded last by coded repair.
    #[inline]
    pub fn cover(&mut self) {
        let seq = self.next - 1;
        if let Some((_, packet)) = self.ring.get(seq) {
            self.encoder.cover(seq, packet);
        }
    }

    /// Returns true if a repair packet is due.
    #[inline]
    pub fn owes_repair(&self) -> bool {
        self.encoder.is_due()
    }

    /// Returns true if so many repair packets are due that they go before the next packet.
    #[inline]
    pub fn is_crowded_by_repair(&self) -> bool {
        self.encoder.is_crowded()
    }

    /// Writes the body of a repair packet that is due, if there is one, and returns its length.
    pub fn poll_repair(&mut self, now: Time, out: &mut [u8]) -> Option<usize> {
        self.encoder.poll(now, &self.ring, out)
    }

    /// Drops the repair packets that are due.
    pub fn forgo_repair(&mut self) {
        self.encoder.forgo();
    }

    /// Returns the answer to the request of `strike` for packet `seq`.
    ///
    /// `oneway` is the delay of this link, which the neighbour will subtract from the remaining time. `rest_of_path` is
    /// the delay from the neighbour to the packet's destination, if known.
    pub fn answer(
        &mut self,
        now: Time,
        seq: LaneSeq,
        strike: Strike,
        oneway: Duration,
        rest_of_path: impl FnOnce(NodeAddr) -> Option<Duration>,
    ) -> Answer<'_> {
        let seq = seq.widen(self.next);
        if seq >= self.next {
            self.stats.unknown += 1;
            return Answer::Unknown;
        }
        let held = if self.next - seq <= self.settings.history_packets {
            self.ring.find(seq)
        } else {
            None
        };
        let cover = self.cover.age();
        let Some((entry, plaintext)) = held.filter(|(entry, _)| now.since(entry.at) <= cover)
        else {
            self.stats.expired += 1;
            return Answer::Expired;
        };
        if entry.answered >= strike.number() {
            self.stats.repeated += 1;
            return Answer::Repeated;
        }
        let header = Header::trusted(plaintext);
        let remaining = header.remaining().minus(now.since(entry.at));
        let ahead = match remaining.is_none() {
            true => Duration::ZERO,
            false => oneway + rest_of_path(header.destination()).unwrap_or_default(),
        };
        let in_time = |remaining: Remaining| {
            remaining.is_none() || !remaining.is_expired() && remaining.allows(ahead)
        };
        if !in_time(remaining) {
            self.stats.too_late += 1;
            return Answer::TooLate;
        }
        // A single burst of losses must not hit all copies, unless it is too late to wait.
        let room = (MAX_REPEATS - self.repeats.len()) as u32;
        let apart = |copies: u8| {
            let waits = |n: &u32| in_time(remaining.minus(REPEAT_AFTER * u64::from(*n)));
            let spaced = (1..u32::from(copies)).take_while(waits).count() as u32;
            spaced.min(room)
        };
        let wanted = match strike.is_last() {
            false => 1,
            true => {
                let is_only = strike.is_first();
                let least = LastRound::LEAST.answers(is_only);
                let planned = match self.budget.available() < self.settings.retransmit_burst / 2.0 {
                    true => least,
                    false => self.last_round.answers(is_only),
                };
                least.max(1 + apart(planned) as u8)
            }
        };
        // A token bucket regulates the ratio of retransmissions to originals. [Amir06 §IV-A]
        let afforded = (1..=wanted)
            .rev()
            .find(|copies| self.budget.try_take(f64::from(*copies)));
        let Some(copies) = afforded else {
            self.stats.throttled += 1;
            return Answer::Throttled;
        };
        entry.answered = strike.number();
        self.stats.retransmissions += u64::from(copies);
        let spaced = apart(copies);
        for steps in 1..=spaced {
            plan(&mut self.repeats, now, steps, seq);
        }
        let copies = copies - spaced as u8;
        Answer::Send {
            plaintext,
            remaining,
            copies,
        }
    }

    /// Returns another copy of an answer, if one is due.
    pub fn poll_repeat(&mut self, now: Time) -> Option<Answer<'_>> {
        let &(due, seq) = self.repeats.front()?;
        if due > now {
            return None;
        }
        self.repeats.pop_front();
        let Some((entry, plaintext)) = self.ring.find(seq) else {
            return Some(Answer::Expired);
        };
        let remaining = Header::trusted(plaintext).remaining();
        let remaining = remaining.minus(now.since(entry.at));
        if remaining.is_expired() {
            return Some(Answer::TooLate);
        }
        Some(Answer::Send {
            plaintext,
            remaining,
            copies: 1,
        })
    }

    /// Returns when [`History::on_timeout`] or [`History::poll_repeat`] has something to do.
    pub fn next_timeout(&self) -> Option<Time> {
        let repeat = self.repeats.front().map(|(due, _)| *due);
        self.tail.next_timeout().into_iter().chain(repeat).min()
    }

    /// Returns the probe to send to the receiver when the lane has fallen silent.
    pub fn on_timeout(&mut self, now: Time) -> Option<TailProbe> {
        let count = self.tail.on_timeout(now)?;
        self.stats.probes += 1;
        self.encoder.on_silence();
        Some(TailProbe {
            next: LaneSeq::of(self.next),
            count,
        })
    }

    /// Releases memory if the lane has been silent for some seconds. Call it regularly.
    pub fn release_idle(&mut self, now: Time) {
        if now.since(self.tail.last_data()) > IDLE {
            self.ring.clear();
        }
    }

    /// Returns the number that the next packet will get.
    pub fn next_seq(&self) -> LaneSeq {
        LaneSeq::of(self.next)
    }

    /// Returns the largest recent gap between packets.
    pub fn interval(&self) -> Duration {
        self.tail.envelope()
    }

    /// Returns the bytes held for copies.
    pub fn held_bytes(&self) -> usize {
        self.ring.held()
    }

    /// Returns the counters.
    pub fn stats(&self) -> HistoryStats {
        let (repairs, repair_bytes) = self.encoder.made();
        HistoryStats {
            repairs,
            repair_bytes,
            overrun: self.stats.overrun + self.ring.overrun(),
            ..self.stats
        }
    }
}

/// Schedules a copy `steps` times 2 ms from now, in order of time.
fn plan(repeats: &mut VecDeque<(Time, u64)>, now: Time, steps: u32, seq: u64) {
    let due = now + REPEAT_AFTER * u64::from(steps);
    let place = repeats.partition_point(|(other, _)| *other <= due);
    repeats.insert(place, (due, seq));
}
