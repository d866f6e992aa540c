//! The sender's side of a real-time lane: numbers, copies, answers, and word of its end.

use super::ring::Ring;
use super::tail::{Tail, TailProbe};
use super::{LANE_SEQ_BITS, LaneSeq, NO_DEADLINE, REMAINING_UNIT, Settings, Strike};
use base::seq::widen;
use base::token_bucket::RatioBucket;
use base::{Duration, NodeAddr, Time};

/// A lane without traffic for so long gives its memory back.
const IDLE: Duration = Duration::from_secs(5);

/// What to do about a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// Send it again.
    Send {
        /// The packet as it was sent: overlay header and payload.
        plaintext: &'a [u8],
        /// What the header's remaining time becomes, the stay in the history taken off.
        remaining: u16,
        /// How often to send it, 1 or 2.
        copies: u8,
    },
    /// This strike has been answered: the request came twice.
    Repeated,
    /// It was sent too long ago; there is no copy, or only one that nobody waits for.
    Expired,
    /// It could not be at its destination before its deadline.
    TooLate,
    /// The budget of retransmissions is used up.
    Throttled,
    /// It was never sent.
    Unknown,
}

/// Counters of a [`History`], since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryStats {
    /// Packets recorded.
    pub originals: u64,
    /// Packets sent again, copies included.
    pub retransmissions: u64,
    /// Requests for what was answered already.
    pub repeated: u64,
    /// Requests for what is no longer held.
    pub expired: u64,
    /// Requests for what could not be in time.
    pub too_late: u64,
    /// Requests beyond the budget.
    pub throttled: u64,
    /// Requests for what was never sent.
    pub unknown: u64,
    /// Tail probes.
    pub probes: u64,
    /// Packets that left the history before their age because it was at its limit.
    pub overrun: u64,
}

/// The packets that were sent lately on one real-time lane, ready to be sent again.
#[derive(Debug)]
pub struct History {
    settings: Settings,
    next: u64,
    ring: Ring,
    budget: RatioBucket,
    tail: Tail,
    stats: HistoryStats,
}

impl History {
    /// An empty history whose first packet will have number 0.
    pub fn new(settings: Settings) -> History {
        History {
            next: 0,
            ring: Ring::new(settings.history_bytes, settings.cover),
            budget: RatioBucket::new(settings.retransmit_ratio, settings.retransmit_burst),
            tail: Tail::new(settings.tail_probes, settings.cover),
            stats: HistoryStats::default(),
            settings,
        }
    }

    /// Starts again at number 0, for a new session of the link. Counters go on.
    pub fn reset(&mut self) {
        let stats = self.stats();
        *self = History::new(self.settings.clone());
        self.stats = stats;
    }

    /// Gives the next number to a packet that is about to be sent, writes it into the header and
    /// keeps a copy. `plaintext` is the overlay header, its remaining time as it will be sent, and
    /// the payload.
    ///
    /// # Panics
    /// If `plaintext` is shorter than the overlay header.
    #[inline]
    pub fn record(&mut self, now: Time, plaintext: &mut [u8]) -> LaneSeq {
        let seq = LaneSeq(self.next);
        header::set_lane_seq(plaintext, seq.wire());
        self.ring.push(now, seq.0, plaintext);
        self.next += 1;
        self.budget.on_original(1.0);
        self.tail.on_data(now);
        self.stats.originals += 1;
        seq
    }

    /// What to do about the request of `strike` for the packet with the 24-bit number `seq`.
    ///
    /// `oneway` is what is still to be taken off the remaining time for this link: zero if the
    /// sender takes it off before it records. `rest_of_path` is the delay from the neighbour to
    /// the packet's destination, if known.
    pub fn answer(
        &mut self,
        now: Time,
        seq: u32,
        strike: Strike,
        oneway: Duration,
        rest_of_path: impl FnOnce(NodeAddr) -> Option<Duration>,
    ) -> Answer<'_> {
        let seq = widen(u64::from(seq), LANE_SEQ_BITS, self.next);
        if seq >= self.next {
            self.stats.unknown += 1;
            return Answer::Unknown;
        }
        let held = if self.next - seq <= self.settings.history_packets {
            self.ring.find(seq)
        } else {
            None
        };
        let cover = self.settings.cover;
        let Some((entry, plaintext)) = held.filter(|(entry, _)| now.since(entry.at) <= cover)
        else {
            self.stats.expired += 1;
            return Answer::Expired;
        };
        if entry.answered >= strike.number() {
            self.stats.repeated += 1;
            return Answer::Repeated;
        }
        let ahead = || oneway + rest_of_path(header::destination(plaintext)).unwrap_or_default();
        let Some(remaining) =
            remaining_after(header::remaining(plaintext), now.since(entry.at), ahead)
        else {
            self.stats.too_late += 1;
            return Answer::TooLate;
        };
        // A token bucket regulates the ratio of retransmissions to originals. [Amir06 §IV-A]
        let copies = if strike.is_last() && self.budget.try_take(2.0) {
            2
        } else if self.budget.try_take(1.0) {
            1
        } else {
            self.stats.throttled += 1;
            return Answer::Throttled;
        };
        entry.answered = strike.number();
        self.stats.retransmissions += u64::from(copies);
        Answer::Send {
            plaintext,
            remaining,
            copies,
        }
    }

    /// When [`History::on_timeout`] has something to say.
    pub fn next_timeout(&self) -> Option<Time> {
        self.tail.next_timeout()
    }

    /// The word to send to the receiver when the lane has fallen silent.
    pub fn on_timeout(&mut self, now: Time) -> Option<TailProbe> {
        let count = self.tail.on_timeout(now)?;
        self.stats.probes += 1;
        Some(TailProbe {
            next: LaneSeq(self.next),
            count,
        })
    }

    /// Gives memory back if the lane has been silent for some seconds. Call it now and then.
    pub fn release_idle(&mut self, now: Time) {
        if now.since(self.tail.last_data()) > IDLE {
            self.ring.clear();
        }
    }

    /// The number that the next packet will get.
    pub fn next_seq(&self) -> LaneSeq {
        LaneSeq(self.next)
    }

    /// Bytes held for copies.
    pub fn held_bytes(&self) -> usize {
        self.ring.held()
    }

    /// The counters.
    pub fn stats(&self) -> HistoryStats {
        HistoryStats {
            overrun: self.stats.overrun + self.ring.overrun(),
            ..self.stats
        }
    }
}

/// The header's remaining time after a stay; none if less than `ahead` is left.
fn remaining_after(sent: u16, stay: Duration, ahead: impl FnOnce() -> Duration) -> Option<u16> {
    if sent == NO_DEADLINE {
        return Some(NO_DEADLINE);
    }
    let left = (REMAINING_UNIT * u64::from(sent)).as_nanos();
    let left = left.checked_sub(stay.as_nanos())?;
    if left < ahead().as_nanos() {
        return None;
    }
    // At most what was sent, hence 16 bits.
    Some((left / REMAINING_UNIT.as_nanos()) as u16)
}

/// The fields of the overlay header that a history reads and writes.
mod header {
    use base::NodeAddr;

    pub(super) fn remaining(header: &[u8]) -> u16 {
        u16::from_be_bytes([header[2], header[3]])
    }
    pub(super) fn destination(header: &[u8]) -> NodeAddr {
        NodeAddr(u32::from_be_bytes([
            header[8], header[9], header[10], header[11],
        ]))
    }
    pub(super) fn set_lane_seq(header: &mut [u8], seq: u32) {
        header[20..23].copy_from_slice(&seq.to_be_bytes()[1..]);
    }
}
