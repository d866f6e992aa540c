//! The receiver's side: originals that have come, equations for those that have not, and what follows from them.
//!
//! ```text
//!   repair:  a·5 + b·6 + c·7 + d·8        5 and 8 have come: taken off at once
//!            b·6 + c·7                    a row of the matrix, solved for its oldest unknown, 6
//!   repair:  e·6 + f·7 + …                the second row leaves one unknown: 7, and then 6
//! ```
//!
//! The matrix is kept solved as far as it goes (Gauss-Jordan): each row is for one unknown, its oldest, which no
//! other row has. So an unknown is found exactly when the rows determine it, and a row whose oldest unknown is out
//! of reach can go: all others say as much without it.

use super::field::{Multiples, add_multiple, inverse, scale};
use super::{KEPT, SPAN, TAG, TAG_AT, coefficient, tag};
use base::{Duration, Time};
use std::collections::VecDeque;
use wire::HEADER_BYTES;
use wire::control::{REPAIR_AGE_UNKNOWN, Repair};

/// Originals are kept for so long after the last repair packet: the next ones may be of a lane that seldom loses.
const WANTED_FOR: Duration = Duration::from_secs(10);

/// Counters of a [`Decoder`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecoderStats {
    /// Repair packets that came.
    pub repairs: u64,
    /// Those of which all packets had come.
    pub unneeded: u64,
    /// Those that came when their packets were out of reach, or that had too many that are not known.
    pub stale: u64,
    /// Packets found.
    pub decoded: u64,
    /// Repair packets, or what follows from them, that cannot be.
    pub bad: u64,
}

/// A number of the lane and what is known of it.
#[derive(Debug, Default)]
struct Kept {
    seq: Option<u64>,
    /// When it came.
    at: Time,
    state: State,
    /// As it was sent, its tag in the place of the lane number.
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// It has been asked for: what comes may be a copy whose remaining time was changed.
    #[default]
    Asked,
    /// The original is here.
    Known,
    /// It was found.
    Decoded,
}

/// An equation: the sum of some unknowns is these bytes.
#[derive(Debug)]
struct Row {
    /// The oldest unknown, with the coefficient one.
    oldest: u64,
    /// By number, modulo [`SPAN`].
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

    /// The only unknown.
    fn is_solved(&self) -> bool {
        self.coefficients.iter().filter(|by| **by != 0).count() == 1
    }
}

/// Finds packets that are missing out of repair packets.
#[derive(Debug, Default)]
pub struct Decoder {
    wanted_until: Time,
    kept: Vec<Kept>,
    rows: Vec<Row>,
    /// Rows that are not in use, for their memory.
    spare: Vec<Row>,
    /// The number after the newest that a repair packet has named.
    next: u64,
    /// When packets of some numbers came, or should have come, as repair packets tell, by number modulo [`KEPT`].
    told: Vec<(u64, Time)>,
    found: VecDeque<u64>,
    stats: DecoderStats,
}

/// How far the members of a window are behind its newest packet.
fn behind(members: u64) -> impl Iterator<Item = u64> {
    (0..SPAN as u64).filter(move |behind| members >> behind & 1 == 1)
}

const fn place(seq: u64) -> usize {
    (seq % SPAN as u64) as usize
}

impl Decoder {
    /// Forgets the lane's numbers. Counters go on.
    pub fn reset(&mut self) {
        let stats = self.stats;
        *self = Decoder::default();
        self.stats = stats;
    }

    /// Gives memory back if no repair packet has come for long.
    pub fn release_idle(&mut self, now: Time) {
        if !self.is_wanted(now) && !self.kept.is_empty() {
            self.reset();
        }
    }

    /// The counters.
    pub fn stats(&self) -> DecoderStats {
        self.stats
    }

    /// Bytes that are held for packets and equations.
    pub fn held_bytes(&self) -> usize {
        let kept = self.kept.iter().map(|kept| kept.bytes.capacity());
        let rows = self.rows.iter().chain(&self.spare);
        kept.sum::<usize>() + rows.map(|row| row.bytes.capacity() + SPAN).sum::<usize>()
    }

    /// Originals are wanted: the sender repairs.
    #[inline]
    pub fn is_wanted(&self, now: Time) -> bool {
        now < self.wanted_until
    }

    /// Packet `seq` is asked for: what comes of it from now on says nothing.
    pub fn on_asked(&mut self, now: Time, seq: u64) {
        if self.is_wanted(now) {
            self.keep(seq, now, State::Asked);
        }
    }

    /// The packet came, as it was sent.
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

    /// A repair packet came whose newest packet is `newest`.
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
            None => self.stats.bad += 1,
            // Most repair packets: nothing is combined for them.
            Some(0) => self.stats.unneeded += 1,
            Some(_) => {
                let row = self.row_of(newest, repair);
                self.enter(now, row);
            }
        }
    }

    /// How many packets of the window are unknown; none if the repair packet cannot be.
    fn judge(&self, newest: u64, repair: &Repair<'_>) -> Option<usize> {
        let mut unknown = 0;
        for behind in behind(repair.members) {
            let seq = newest.checked_sub(behind)?;
            match self.known(seq) {
                Some(at) if self.kept[at].bytes.len() > repair.sum.len() => return None,
                Some(_) => {}
                // Out of reach of the matrix, though not of this packet: it came after newer ones.
                None if seq + (SPAN as u64) < self.next => return None,
                None => unknown += 1,
            }
        }
        Some(unknown)
    }

    /// What a repair packet says of its unknown packets, the known ones taken off.
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

    /// The next packet that was found and not asked for yet: its number, and when it would have come at the earliest had
    /// it not been lost.
    pub fn poll(&mut self) -> Option<(u64, Time)> {
        while let Some(seq) = self.found.pop_front() {
            if self.known(seq).is_some() {
                return Some((seq, self.due(seq)));
            }
        }
        None
    }

    /// A packet that is kept, as it was sent but for its lane number.
    pub fn bytes(&self, seq: u64) -> Option<&[u8]> {
        self.known(seq).map(|at| &self.kept[at].bytes[..])
    }

    /// Packets have been found and not been taken.
    #[inline]
    pub fn has_found(&self) -> bool {
        !self.found.is_empty()
    }

    /// The sender repairs: what comes is kept from now on.
    pub(super) fn listen(&mut self, now: Time) {
        self.wanted_until = now + WANTED_FOR;
        if self.kept.is_empty() {
            self.kept.resize_with(KEPT, Kept::default);
            self.told = vec![(u64::MAX, Time::ZERO); KEPT];
        }
    }

    /// A place for what is known of a number, if it is news.
    fn keep(&mut self, seq: u64, now: Time, state: State) -> Option<&mut Kept> {
        let kept = &mut self.kept[(seq % KEPT as u64) as usize];
        if kept.seq.is_some_and(|held| held >= seq) {
            return None;
        }
        (kept.seq, kept.at, kept.state) = (Some(seq), now, state);
        kept.bytes.clear();
        Some(kept)
    }

    /// Where the bytes of a packet are.
    fn known(&self, seq: u64) -> Option<usize> {
        let at = (seq % KEPT as u64) as usize;
        let kept = self.kept.get(at)?;
        (kept.seq == Some(seq) && kept.state != State::Asked).then_some(at)
    }

    /// Moves the reach of the matrix up to before `next`.
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

    /// Solves a new row for its oldest unknown, takes that off the others, and looks what is found.
    fn enter(&mut self, now: Time, mut row: Row) {
        for other in &self.rows {
            let by = row.of(other.oldest);
            if by != 0 {
                row.add_multiple(by, other);
            }
        }
        let reach = self.next.saturating_sub(SPAN as u64);
        let Some(oldest) = (reach..self.next).find(|seq| row.of(*seq) != 0) else {
            // It says nothing new; if it says that something is nothing, a packet was not what it was taken for.
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

    /// An unknown has become known.
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
            // No other row has its oldest unknown.
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

    /// Takes out what is found.
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
            // Something that was taken for an original is none, so no equation can be trusted.
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

    /// Notes when packets should have come: as long before the repair packet as they were sent before it.
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
            // Of two that tell of the same packet the one that was faster on its way is right.
            let before = if told.0 == seq { told.1 } else { came };
            *told = (seq, came.min(before));
        }
    }

    /// When a packet would have come at the earliest: as repair packets tell of it or of the nearest one that was sent before
    /// it, or when that one came; not after any that was sent later. Choice: the bound, no guess between the two. Where
    /// packets are unevenly spaced, a guess can be too late, and a packet would be delivered after its deadline.
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
        // One that was overtaken on its way tells too late a moment.
        let after = (seq + 1..seq + reach).filter_map(came).min();
        after.map_or(before, |after| after.min(before))
    }
}
