//! The sequence numbers of a stream that arrived, in what order, and in time or not.
//!
//! ```text
//!   settled: counts only │ the newest 128, a bit each for "came" and "came in time"
//!   ─────────────────────┼────────────────────────────────────────────> highest
//! ```

use super::counts::Counts;
use crate::emodel::Runs;

/// How far a packet may be behind the newest and still count: 128 of 20 ms are 2.5 s.
pub const REORDER_MAX: u16 = 128;

/// How many numbers may be missing at once (RFC 3550 A.1). If more are missing, the sender has restarted. 3000 of 20 ms
/// are a minute.
pub const DROPOUT_MAX: u16 = 3000;

/// The position of a packet in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The first of all packets.
    First,
    /// Its number is this far after the highest.
    Ahead(u16),
    /// Its number is this far before the highest, and it had not arrived.
    Behind(u16),
    /// It had already arrived.
    Duplicate,
    /// It is before the first number of the stream, where no record exists.
    Unknown,
    /// It belongs to another source, or its number is far away.
    Jump,
}

impl Place {
    /// Returns whether the number had not arrived before.
    pub(super) fn is_new(self) -> bool {
        matches!(self, Place::First | Place::Ahead(_) | Place::Behind(_))
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Track {
    ssrc: u32,
    /// The highest sequence number, with the wraps in the bits above 16.
    highest: u64,
    /// Bit n stands for the number `highest − n`.
    came: u128,
    in_time: u128,
    /// Number of sequence numbers that have a bit; 0 before the first packet.
    covered: u16,
    /// The runs of the numbers below those with a bit, and of streams that ended.
    settled: Runs,
    received: u64,
    late: u64,
    duplicates: u64,
    reordered: u64,
    strays: u64,
    restarts: u64,
}

impl Track {
    pub(super) fn place(&self, ssrc: u32, seq: u16) -> Place {
        if self.covered == 0 {
            return Place::First;
        }
        if ssrc != self.ssrc {
            return Place::Jump;
        }
        let ahead = seq.wrapping_sub(self.highest as u16);
        let behind = 0_u16.wrapping_sub(ahead);
        match (ahead, behind) {
            (1..DROPOUT_MAX, _) => Place::Ahead(ahead),
            (_, REORDER_MAX..) => Place::Jump,
            _ if behind >= self.covered => Place::Unknown,
            _ if self.came >> behind & 1 == 1 => Place::Duplicate,
            _ => Place::Behind(behind),
        }
    }

    /// Takes a packet at the place that [`Track::place`] found.
    pub(super) fn insert(&mut self, ssrc: u32, seq: u16, place: Place, in_time: bool) {
        let bit = match place {
            Place::First => {
                self.ssrc = ssrc;
                self.highest = u64::from(seq);
                self.covered = 1;
                0
            }
            Place::Ahead(by) => {
                self.advance(by);
                0
            }
            Place::Behind(by) => {
                self.reordered += 1;
                by
            }
            Place::Duplicate | Place::Unknown | Place::Jump => return,
        };
        self.came |= 1 << bit;
        self.in_time |= u128::from(in_time) << bit;
        self.received += 1;
        self.late += u64::from(!in_time);
    }

    /// Counts a packet that changes nothing.
    pub(super) fn count_old(&mut self, place: Place) {
        match place {
            Place::Duplicate => self.duplicates += 1,
            _ => self.strays += 1,
        }
    }

    pub(super) fn count_stray(&mut self) {
        self.strays += 1;
    }

    /// Begins another stream with this number, whose packet was counted as a stray before.
    pub(super) fn restart(&mut self, ssrc: u32, seq: u16) {
        self.settled = self.runs();
        self.settled.end_run();
        self.strays = self.strays.saturating_sub(1);
        self.restarts += 1;
        (self.ssrc, self.highest) = (ssrc, u64::from(seq));
        (self.came, self.in_time, self.covered) = (0, 0, 0);
    }

    pub(super) fn ssrc(&self) -> Option<u32> {
        (self.covered > 0).then_some(self.ssrc)
    }

    pub(super) fn highest(&self) -> Option<u64> {
        (self.covered > 0).then_some(self.highest)
    }

    pub(super) fn counts(&self) -> Counts {
        let runs = self.runs();
        Counts {
            expected: runs.total,
            received: self.received,
            recovered: 0,
            late: self.late,
            duplicates: self.duplicates,
            reordered: self.reordered,
            strays: self.strays,
            restarts: self.restarts,
            runs: runs.runs,
        }
    }

    /// Returns the runs of all numbers so far; numbers that may still arrive count as missed.
    fn runs(&self) -> Runs {
        let mut runs = self.settled;
        for bit in (0..self.covered).rev() {
            runs.push(self.in_time >> bit & 1 == 0);
        }
        runs
    }

    /// Advances the highest number by `by`, at least 1: the oldest numbers are settled.
    fn advance(&mut self, by: u16) {
        let beyond = (self.covered + by).saturating_sub(REORDER_MAX);
        let known = beyond.min(self.covered);
        for n in 1..=known {
            let bit = self.covered - n;
            self.settled.push(self.in_time >> bit & 1 == 0);
        }
        // After a jump longer than the bits, the first numbers never had a bit.
        self.settled.push_missed(u64::from(beyond - known));
        self.came = self.came.checked_shl(u32::from(by)).unwrap_or(0);
        self.in_time = self.in_time.checked_shl(u32::from(by)).unwrap_or(0);
        self.covered = (self.covered + by).min(REORDER_MAX);
        self.highest += u64::from(by);
    }
}
