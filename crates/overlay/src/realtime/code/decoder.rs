//! The receiver's side: originals that have arrived, equations for those that have not, and the packets that follow
//! from them.
//!
//! ```text
//!   repair:  a·5 + b·6 + c·7 + d·8        5 and 8 have arrived: subtracted at once
//!            b·6 + c·7                    a row of the matrix, solved for its oldest unknown, 6
//!   repair:  e·6 + f·7 + …                the second row leaves one unknown: 7, and then 6
//! ```
//!
//! The matrix is kept solved as far as it goes (Gauss-Jordan): each row is for one unknown, its oldest, which no
//! other row has. So an unknown is found exactly when the rows determine it. A row whose oldest unknown is out of reach
//! can be dropped: the other rows do not contain that unknown.

use super::field::{Multiples, add_multiple, inverse, scale};
use super::{KEPT, SPAN, TAG, TAG_AT, coefficient, tag};
use base::{Duration, Time};
use std::collections::VecDeque;
use wire::HEADER_BYTES;
use wire::control::{REPAIR_AGE_UNKNOWN, Repair};

/// How long originals are kept after the last repair packet. Repair packets may be rare on a lane that seldom loses
/// packets.
const WANTED_FOR: Duration = Duration::from_secs(10);

/// Counters of a [`Decoder`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecoderStats {
    /// Repair packets that arrived.
    pub repairs: u64,
    /// Repair packets that added nothing: all their packets were known, or followed from earlier repair packets.
    pub unneeded: u64,
    /// Repair packets that arrived when their packets were out of reach, and restored packets that were dropped because
    /// a newer packet had their place or too many others had not been taken.
    pub stale: u64,
    /// Packets restored.
    pub decoded: u64,
    /// Repair packets that could not be used or contradicted the known packets, and results that are no valid packets.
    pub bad: u64,
}

/// A number of the lane, and the state of its packet.
#[derive(Debug, Default)]
struct Kept {
    seq: Option<u64>,
    /// When the packet arrived, was requested or was restored.
    at: Time,
    state: State,
    /// The packet as it was sent, with its tag in the place of the lane number.
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// The packet was requested. What arrives may be a copy with a changed remaining time, so the decoder ignores it.
    #[default]
    Asked,
    /// The original has arrived.
    Known,
    /// The packet was restored.
    Decoded,
}

/// An equation: the sum of some unknown packets, each times its coefficient, is these bytes.
#[derive(Debug)]
struct Row {
    /// The oldest unknown, with the coefficient one.
    oldest: u64,
    /// The coefficients of the unknowns, by number modulo [`SPAN`].
    coefficients: [u8; SPAN],
    bytes: Vec<u8>,
}

impl Row {
    fn of(&self, seq: u64) -> u8 {
        self.coefficients[place(seq)]
    }

    fn add_multiple(&mut self, by: u8, other: &Row) {
        for (to, from) in self.coefficients.iter_mut().zip(&other.coefficients) {
            *to ^= super::field::product(by, *from);
        }
        add_multiple(&mut self.bytes, by, &other.bytes);
    }

    /// Returns true if only one unknown is left.
    fn is_solved(&self) -> bool {
        self.coefficients.iter().filter(|by| **by != 0).count() == 1
    }
}

/// Why a repair packet cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unusable {
    /// It names packets before the lane's first, or is shorter than a packet that it protects.
    Bad,
    /// It came after newer ones, and a missing packet of its window is out of reach.
    Stale,
}

/// Restores missing packets from repair packets.
#[derive(Debug, Default)]
pub struct Decoder {
    wanted_until: Time,
    kept: Vec<Kept>,
    rows: Vec<Row>,
    /// Rows that are not in use, kept for their memory.
    spare: Vec<Row>,
    /// The number after the newest one that a repair packet has named.
    next: u64,
    /// When packets of some numbers arrived or should have arrived, according to the ages in repair packets. Indexed by
    /// number modulo [`KEPT`].
    told: Vec<(u64, Time)>,
    found: VecDeque<u64>,
    stats: DecoderStats,
}

/// Returns how far the members of a window are behind its newest packet.
fn behind(members: u64) -> impl Iterator<Item = u64> {
    (0..SPAN as u64).filter(move |behind| members >> behind & 1 == 1)
}

const fn place(seq: u64) -> usize {
    (seq % SPAN as u64) as usize
}

impl Decoder {
    /// Forgets the lane's numbers. The counters continue.
    pub fn reset(&mut self) {
        let stats = self.stats;
        *self = Decoder::default();
        self.stats = stats;
    }

    /// Releases the memory if no repair packet has arrived for long.
    pub fn release_idle(&mut self, now: Time) {
        if !self.is_wanted(now) && !self.kept.is_empty() {
            self.reset();
        }
    }

    /// Returns the counters.
    pub fn stats(&self) -> DecoderStats {
        self.stats
    }

    /// Returns the bytes held for packets and equations.
    pub fn held_bytes(&self) -> usize {
        let kept = self.kept.iter().map(|kept| kept.bytes.capacity());
        let rows = self.rows.iter().chain(&self.spare);
        kept.sum::<usize>() + rows.map(|row| row.bytes.capacity() + SPAN).sum::<usize>()
    }

    /// Returns true if originals are to be kept, because the sender repairs.
    #[inline]
    pub fn is_wanted(&self, now: Time) -> bool {
        now < self.wanted_until
    }

    /// Notes that packet `seq` is requested. The decoder ignores copies of the packet that arrive from now on.
    pub fn on_asked(&mut self, now: Time, seq: u64) {
        if self.is_wanted(now) {
            self.keep(seq, now, State::Asked);
        }
    }

    /// Takes a packet that has arrived, as it was sent.
    #[inline]
    pub fn on_original(&mut self, now: Time, seq: u64, packet: &[u8]) {
        if self.is_wanted(now) && packet.len() >= HEADER_BYTES {
            self.on_wanted(now, seq, packet);
        }
    }

    fn on_wanted(&mut self, now: Time, seq: u64, packet: &[u8]) {
        let Some(kept) = self.keep(seq, now, State::Known) else {
            return;
        };
        kept.bytes.extend_from_slice(packet);
        kept.bytes[TAG_AT..TAG_AT + TAG].copy_from_slice(&tag(packet));
        if seq < self.next && seq + (SPAN as u64) >= self.next && !self.rows.is_empty() {
            self.substitute(seq);
        }
    }

    /// Takes a repair packet whose newest packet is `newest`.
    pub fn on_repair(&mut self, now: Time, newest: u64, repair: &Repair<'_>) {
        self.stats.repairs += 1;
        self.listen(now);
        if newest + SPAN as u64 <= self.next {
            self.stats.stale += 1;
            return;
        }
        self.advance(newest + 1);
        self.note_ages(now, newest, repair);
        match self.judge(newest, repair) {
            Err(Unusable::Bad) => self.stats.bad += 1,
            Err(Unusable::Stale) => self.stats.stale += 1,
            // This is the most frequent case, in which nothing is combined.
            Ok(0) => self.stats.unneeded += 1,
            Ok(_) => {
                let row = self.row_of(newest, repair);
                self.enter(now, row);
            }
        }
    }

    /// Returns how many packets of the window are unknown.
    fn judge(&self, newest: u64, repair: &Repair<'_>) -> Result<usize, Unusable> {
        let mut unknown = 0;
        for behind in behind(repair.members) {
            let seq = newest.checked_sub(behind).ok_or(Unusable::Bad)?;
            match self.known(seq) {
                Some(at) if self.kept[at].bytes.len() > repair.sum.len() => {
                    return Err(Unusable::Bad);
                }
                Some(_) => {}
                // The unknown is out of reach of the matrix, because the repair packet arrived after newer ones.
                None if seq + (SPAN as u64) < self.next => return Err(Unusable::Stale),
                None => unknown += 1,
            }
        }
        Ok(unknown)
    }

    /// Returns the equation of a repair packet for its unknown packets, with the known ones subtracted.
    fn row_of(&mut self, newest: u64, repair: &Repair<'_>) -> Row {
        let mut row = self.blank();
        row.bytes.extend_from_slice(repair.sum);
        let mut known = Multiples::<1, SPAN>::new();
        for seq in behind(repair.members).map(|behind| newest - behind) {
            let by = coefficient(repair.seed, seq);
            match self.known(seq) {
                Some(at) => known.push([by], &self.kept[at].bytes),
                None => row.coefficients[place(seq)] = by,
            }
        }
        known.sum_into(&mut [&mut row.bytes]);
        row
    }

    /// Returns the next restored packet that was not returned before: its number, and when it would have arrived at the
    /// earliest if it had not been lost.
    pub fn poll(&mut self) -> Option<(u64, Time)> {
        while let Some(seq) = self.found.pop_front() {
            if self.known(seq).is_some() {
                return Some((seq, self.due(seq)));
            }
        }
        None
    }

    /// Returns a known packet as it was sent, except for its lane number.
    pub fn bytes(&self, seq: u64) -> Option<&[u8]> {
        self.known(seq).map(|at| &self.kept[at].bytes[..])
    }

    /// Returns true if restored packets have not been taken yet.
    #[inline]
    pub fn has_found(&self) -> bool {
        !self.found.is_empty()
    }

    /// Notes that the sender repairs: from now on, originals that arrive are kept.
    pub(super) fn listen(&mut self, now: Time) {
        self.wanted_until = now + WANTED_FOR;
        if self.kept.is_empty() {
            self.kept.resize_with(KEPT, Kept::default);
            self.told = vec![(u64::MAX, Time::ZERO); KEPT];
        }
    }

    /// Returns the place for a number, or `None` if this number or a newer one already has the place.
    fn keep(&mut self, seq: u64, now: Time, state: State) -> Option<&mut Kept> {
        let kept = &mut self.kept[(seq % KEPT as u64) as usize];
        if kept.seq.is_some_and(|held| held >= seq) {
            return None;
        }
        (kept.seq, kept.at, kept.state) = (Some(seq), now, state);
        kept.bytes.clear();
        Some(kept)
    }

    /// Returns the index of a packet in `kept` if its bytes are known.
    fn known(&self, seq: u64) -> Option<usize> {
        let at = (seq % KEPT as u64) as usize;
        let kept = self.kept.get(at)?;
        (kept.seq == Some(seq) && kept.state != State::Asked).then_some(at)
    }

    /// Moves the reach of the matrix so that it ends before `next`, and drops the rows whose oldest unknown is out
    /// of reach.
    fn advance(&mut self, next: u64) {
        if next <= self.next {
            return;
        }
        self.next = next;
        let reach = next.saturating_sub(SPAN as u64);
        let mut at = 0;
        while at < self.rows.len() {
            match self.rows[at].oldest < reach {
                true => {
                    let row = self.rows.swap_remove(at);
                    self.spare.push(row);
                }
                false => at += 1,
            }
        }
    }

    fn blank(&mut self) -> Row {
        let mut row = self.spare.pop().unwrap_or(Row {
            oldest: 0,
            coefficients: [0; SPAN],
            bytes: Vec::new(),
        });
        row.coefficients.fill(0);
        row.bytes.clear();
        row
    }

    /// Solves a new row for its oldest unknown, removes this unknown from the other rows, and takes out the packets
    /// that are then determined.
    fn enter(&mut self, now: Time, mut row: Row) {
        for other in &self.rows {
            let by = row.of(other.oldest);
            if by != 0 {
                row.add_multiple(by, other);
            }
        }
        let reach = self.next.saturating_sub(SPAN as u64);
        let Some(oldest) = (reach..self.next).find(|seq| row.of(*seq) != 0) else {
            // The row has no unknowns left. If its sum is not zero, a packet that was taken for an original is none.
            match row.bytes.iter().all(|byte| *byte == 0) {
                true => self.stats.unneeded += 1,
                false => self.stats.bad += 1,
            }
            self.spare.push(row);
            return;
        };
        let by = inverse(row.of(oldest));
        row.oldest = oldest;
        scale(&mut row.coefficients, by);
        scale(&mut row.bytes, by);
        for other in &mut self.rows {
            let by = other.of(oldest);
            if by != 0 {
                other.add_multiple(by, &row);
            }
        }
        self.rows.push(row);
        self.harvest(now);
    }

    /// Substitutes a packet that has become known into the rows.
    fn substitute(&mut self, seq: u64) {
        let slot = (seq % KEPT as u64) as usize;
        let now = self.kept[slot].at;
        let mut opened = None;
        for (at, row) in self.rows.iter_mut().enumerate() {
            let by = row.of(seq);
            if by == 0 {
                continue;
            }
            row.coefficients[place(seq)] = 0;
            add_multiple(&mut row.bytes, by, &self.kept[slot].bytes);
            if row.oldest == seq {
                opened = Some(at);
            }
        }
        match opened {
            // This row loses its oldest unknown, which no other row has, and must be solved anew.
            Some(at) => {
                let row = self.rows.swap_remove(at);
                match row.coefficients.iter().all(|by| *by == 0) {
                    true => self.spare.push(row),
                    false => self.enter(now, row),
                }
            }
            None => self.harvest(now),
        }
    }

    /// Takes out the packets of the solved rows.
    fn harvest(&mut self, now: Time) {
        let mut at = 0;
        while at < self.rows.len() {
            if !self.rows[at].is_solved() {
                at += 1;
                continue;
            }
            let row = self.rows.swap_remove(at);
            self.take(now, &row);
            self.spare.push(row);
        }
    }

    fn take(&mut self, now: Time, row: &Row) {
        let [check, high, low] = match row.bytes.get(TAG_AT..TAG_AT + TAG) {
            Some(&[check, high, low]) => [check, high, low],
            _ => [0; TAG],
        };
        let len = usize::from(u16::from_be_bytes([high, low]));
        let is_good = len >= HEADER_BYTES
            && row
                .bytes
                .get(len..)
                .is_some_and(|rest| rest.iter().all(|byte| *byte == 0))
            && tag(&row.bytes[..len])[0] == check;
        if !is_good {
            // A packet that was taken for an original is none, so no equation can be trusted.
            self.stats.bad += 1;
            return;
        }
        let kept = &mut self.kept[(row.oldest % KEPT as u64) as usize];
        if kept.seq.is_some_and(|held| held > row.oldest) || self.found.len() >= KEPT {
            self.stats.stale += 1;
            return;
        }
        (kept.seq, kept.at, kept.state) = (Some(row.oldest), now, State::Decoded);
        kept.bytes.clear();
        kept.bytes.extend_from_slice(&row.bytes[..len]);
        self.stats.decoded += 1;
        self.found.push_back(row.oldest);
    }

    /// Notes when packets should have arrived: as long before the repair packet as they were sent before it.
    fn note_ages(&mut self, now: Time, newest: u64, repair: &Repair<'_>) {
        for (behind, age) in Repair::aged(repair.members).zip(repair.ages) {
            let Some(seq) = newest.checked_sub(u64::from(behind)) else {
                return;
            };
            if *age == REPAIR_AGE_UNKNOWN {
                continue;
            }
            let came = now - Duration::from_millis(u64::from(*age));
            let told = &mut self.told[(seq % KEPT as u64) as usize];
            // If two repair packets give different times for a packet, the one with the shorter delay is right.
            let before = if told.0 == seq { told.1 } else { came };
            *told = (seq, came.min(before));
        }
    }

    /// Returns when a packet would have arrived at the earliest. This is the time that repair packets give for it or
    /// for the nearest packet that was sent before it, or the time at which that one arrived. It is never after the
    /// time of a packet that was sent later. Choice: the bound, not a guess between the two. Where packets are unevenly
    /// spaced, a guess can be too late, and a packet would be delivered after its deadline.
    fn due(&self, seq: u64) -> Time {
        let told = |seq: u64| {
            let (of, came) = self.told[(seq % KEPT as u64) as usize];
            (of == seq).then_some(came)
        };
        let came = |seq: u64| {
            let kept = self.known(seq).map(|at| &self.kept[at]);
            let here = kept
                .filter(|kept| kept.state == State::Known)
                .map(|kept| kept.at);
            here.into_iter().chain(told(seq)).min()
        };
        let reach = KEPT as u64;
        let before = (seq.saturating_sub(reach)..=seq).rev().find_map(came);
        // Nothing bounds the age of the first packets of a lane, so they have no time left.
        let before = before.unwrap_or(Time::ZERO);
        // The time of a packet that was overtaken on its path is too late.
        let after = (seq + 1..seq + reach).filter_map(came).min();
        after.map_or(before, |after| after.min(before))
    }
}
