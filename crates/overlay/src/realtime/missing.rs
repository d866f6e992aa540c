//! The packets that a receiver misses, and the requests for them.

use super::LaneSeq;
use base::Time;
use std::collections::VecDeque;

/// Losses remembered at a time. 10 % of 600 000 packets/s for the 60 ms that two strikes on a
/// 20 ms link take are 3600. Each is asked for at most twice per round trip (once, and once more
/// when the last request is doubled), which also bounds the requests after an outage.
pub(super) const MISSING_LIMIT: usize = 4096;

/// Which request for a packet this is. On the wire: the number, and bit 7 for the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Strike(u8);

const LAST: u8 = 0x80;

impl Strike {
    /// Request number `number`, from 1; `last` when no other can follow in time, and the answer
    /// should come twice.
    pub const fn new(number: u8, last: bool) -> Strike {
        Strike((number & !LAST) | if last { LAST } else { 0 })
    }
    /// The strike of a byte of the wire.
    pub const fn from_wire(byte: u8) -> Strike {
        Strike(byte)
    }
    /// The byte for the wire.
    pub const fn wire(self) -> u8 {
        self.0
    }
    /// The number of the request, from 1.
    pub const fn number(self) -> u8 {
        self.0 & !LAST
    }
    /// True when the answer should come twice.
    pub const fn is_last(self) -> bool {
        self.0 & LAST != 0
    }
}

/// A request for up to 33 packets: one, and those of the 32 after it whose bit is set (bit 0 is
/// the packet right after the first).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nack {
    /// The strike, common to all.
    pub strike: Strike,
    /// The first packet.
    pub first: LaneSeq,
    /// Which of the 32 after it.
    pub bitmap: u32,
}

impl Default for Strike {
    fn default() -> Strike {
        Strike::new(1, false)
    }
}

impl Nack {
    /// The packets that are asked for.
    pub fn seqs(self) -> impl Iterator<Item = LaneSeq> {
        let after = (0..32).filter(move |bit| self.bitmap & (1 << bit) != 0);
        core::iter::once(self.first).chain(after.map(move |bit| LaneSeq(self.first.0 + 1 + bit)))
    }

    /// Adds a packet if it lies within the bitmap.
    pub(super) fn try_add(&mut self, seq: u64) -> bool {
        match seq.checked_sub(self.first.0) {
            Some(0) => true,
            Some(off @ 1..=32) => {
                self.bitmap |= 1 << (off - 1);
                true
            }
            _ => false,
        }
    }
}

/// One missing packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Missing {
    pub(super) seq: u64,
    /// When the gap was seen.
    pub(super) detected: Time,
    /// An answer after this moment is of no use.
    pub(super) useful_until: Time,
    /// When to ask, ask again, or give up.
    pub(super) due: Time,
    /// Requests so far, doubled ones counted once.
    pub(super) strikes: u8,
    pub(super) state: State,
}

/// What comes next for a missing packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// A strike.
    Strike,
    /// The second half of a doubled last strike.
    Repeat,
    /// Nothing but the answer.
    Wait,
    /// It came; the entry leaves the table at the next scan.
    Done,
}

/// The missing packets in order of their numbers.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: VecDeque<Missing>,
    done: usize,
}

impl Table {
    /// Adds a packet with a number above all others. The oldest goes when the table is full:
    /// returned is whether a packet was forgotten.
    pub(super) fn push(&mut self, missing: Missing) -> bool {
        let mut forgotten = false;
        if self.entries.len() >= MISSING_LIMIT
            && let Some(oldest) = self.entries.pop_front()
        {
            forgotten = oldest.state != State::Done;
            self.done -= usize::from(!forgotten);
        }
        self.entries.push_back(missing);
        forgotten
    }

    /// Takes a packet off the list, if it is on it.
    pub(super) fn take(&mut self, seq: u64) -> Option<Missing> {
        let at = self.entries.binary_search_by_key(&seq, |m| m.seq).ok()?;
        let entry = self.entries.get_mut(at)?;
        if entry.state == State::Done {
            return None;
        }
        let found = *entry;
        entry.state = State::Done;
        self.done += 1;
        if self.done == self.entries.len() {
            self.entries.clear();
            self.done = 0;
        }
        Some(found)
    }

    /// Shows every missing packet to `f` and keeps those for which it says so.
    pub(super) fn retain(&mut self, mut f: impl FnMut(&mut Missing) -> bool) {
        self.entries.retain_mut(|m| m.state != State::Done && f(m));
        self.done = 0;
    }

    /// How many are missing.
    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.done
    }

    /// Forgets all, and gives the memory back.
    pub(super) fn clear(&mut self) {
        *self = Table::default();
    }
}
