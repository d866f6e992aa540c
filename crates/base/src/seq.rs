//! Sequence numbers: wrapping on the wire, 64 bits and never wrapping in memory.
//!
//! The wire carries the low bits; the receiver widens them to the number nearest to the highest one that it has seen.
//! [`Window`] records which of the recent numbers have arrived.

/// Widens the low `bits` of a sequence number to the 64-bit number closest to `near`.
/// `bits` is 1 to 63.
pub const fn widen(low: u64, bits: u32, near: u64) -> u64 {
    let span = 1u64 << bits;
    let mask = span - 1;
    let low = low & mask;
    let candidate = (near & !mask) | low;
    let half = span / 2;
    if candidate > near && candidate - near > half && candidate >= span {
        candidate - span
    } else if candidate < near && near - candidate > half {
        match candidate.checked_add(span) {
            Some(up) => up,
            None => candidate,
        }
    } else {
        candidate
    }
}

/// The state of a number in a [`Window`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It is higher than all before.
    Ahead,
    /// It is late, and arrives for the first time.
    Late,
    /// It has already arrived.
    Duplicate,
    /// It is below the window: nothing is known about it.
    TooOld,
}

/// The set of the last `capacity` sequence numbers that have been seen. It is a ring of bits; the capacity is a power
/// of two, at least 64, and may be increased.
#[derive(Clone, Debug)]
pub struct Window {
    bits: Vec<u64>,
    /// The number after the highest one seen; 0 = none yet.
    next: u64,
}

impl Window {
    /// Creates an empty window of `capacity` numbers (rounded up to a power of two, at least 64).
    pub fn new(capacity: usize) -> Window {
        let words = capacity.max(64).next_power_of_two() / 64;
        Window {
            bits: vec![0; words],
            next: 0,
        }
    }

    /// Returns how many numbers the window covers.
    pub fn capacity(&self) -> u64 {
        self.bits.len() as u64 * 64
    }

    /// Returns the number that follows the highest one seen; 0 before the first.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Returns what [`Window::insert`] would return.
    pub fn check(&self, seq: u64) -> Seen {
        if seq >= self.next {
            Seen::Ahead
        } else if self.next - seq > self.capacity() {
            Seen::TooOld
        } else if self.bit(seq) {
            Seen::Duplicate
        } else {
            Seen::Late
        }
    }

    /// Marks `seq` as seen, unless it is too old, and returns its state before.
    #[inline]
    pub fn insert(&mut self, seq: u64) -> Seen {
        if seq == self.next {
            // This is nearly always the case. The bit of the number one capacity ago is overwritten.
            self.set(seq);
            self.next += 1;
            return Seen::Ahead;
        }
        self.insert_out_of_order(seq)
    }

    fn insert_out_of_order(&mut self, seq: u64) -> Seen {
        let seen = self.check(seq);
        match seen {
            Seen::Ahead => {
                self.advance_to(seq + 1);
                self.set(seq);
            }
            Seen::Late => self.set(seq),
            Seen::Duplicate | Seen::TooOld => {}
        }
        seen
    }

    /// Returns true if `seq` is within the window and has been seen.
    pub fn contains(&self, seq: u64) -> bool {
        self.check(seq) == Seen::Duplicate
    }

    /// Returns how many of the numbers from `from` to before `to` have been seen; `None` if the window does not reach
    /// back so far.
    pub fn count(&self, from: u64, to: u64) -> Option<u64> {
        if self.next.saturating_sub(from) > self.capacity() {
            return None;
        }
        let to = to.min(self.next);
        let (mut at, mut seen) = (from, 0);
        while at < to {
            let (word, _) = self.place(at);
            let (shift, left) = (at % 64, to - at);
            let bits = left.min(64 - shift);
            let mask = (u64::MAX >> (64 - bits)) << shift;
            seen += u64::from((self.bits[word] & mask).count_ones());
            at += bits;
        }
        Some(seen)
    }

    /// Doubles the capacity until it covers `seq` or reaches `limit`. Returns true if it now covers `seq`.
    pub fn grow_to_cover(&mut self, seq: u64, limit: usize) -> bool {
        while self.check(seq) == Seen::TooOld && self.bits.len() * 128 <= limit {
            let mut larger = Window::new(self.bits.len() * 128);
            larger.next = self.next;
            let low = self.next.saturating_sub(self.capacity());
            // Numbers below the old window count as unseen.
            for s in low..self.next {
                if self.bit(s) {
                    larger.set(s);
                }
            }
            *self = larger;
        }
        self.check(seq) != Seen::TooOld
    }

    fn advance_to(&mut self, next: u64) {
        let step = next - self.next;
        if step >= self.capacity() {
            self.bits.fill(0);
        } else {
            for s in self.next..next {
                let (word, mask) = self.place(s);
                self.bits[word] &= !mask;
            }
        }
        self.next = next;
    }

    fn place(&self, seq: u64) -> (usize, u64) {
        let slot = seq & (self.capacity() - 1);
        ((slot / 64) as usize, 1 << (slot % 64))
    }

    fn bit(&self, seq: u64) -> bool {
        let (word, mask) = self.place(seq);
        self.bits[word] & mask != 0
    }

    fn set(&mut self, seq: u64) {
        let (word, mask) = self.place(seq);
        self.bits[word] |= mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn widening_picks_the_nearest() {
        assert_eq!(widen(0xfe, 8, 0x0103), 0x00fe);
        assert_eq!(widen(0x02, 8, 0x01fd), 0x0202);
        assert_eq!(widen(0x02, 8, 0), 0x02);
        assert_eq!(widen(0xff, 8, 0), 0xff, "nothing lies below zero");
    }

    proptest! {
        #[test]
        fn widening_inverts_truncation_within_half_the_span(near in 0u64..1 << 40, off in -100i64..100) {
            let seq = near.saturating_add_signed(off);
            prop_assert_eq!(widen(seq & 0xffff, 16, near), seq);
        }

        #[test]
        fn window_agrees_with_a_set(seqs in proptest::collection::vec(0u64..400, 1..300)) {
            let mut window = Window::new(64);
            let mut all = BTreeSet::new();
            for s in seqs {
                let next = all.last().map_or(0, |h| h + 1);
                let expected = if s >= next { Seen::Ahead }
                    else if next - s > 64 { Seen::TooOld }
                    else if all.contains(&s) { Seen::Duplicate }
                    else { Seen::Late };
                prop_assert_eq!(window.insert(s), expected);
                if expected != Seen::TooOld { all.insert(s); }
            }
        }
    }

    proptest! {
        #[test]
        fn counts_agree_with_a_set(
            seqs in proptest::collection::vec(0u64..900, 0..300),
            from in 0u64..900,
            len in 0u64..300,
        ) {
            let mut window = Window::new(256);
            let mut all = BTreeSet::new();
            for s in seqs {
                if window.insert(s) != Seen::TooOld {
                    all.insert(s);
                }
            }
            let reaches = window.next().saturating_sub(from) <= 256;
            let seen = all.range(from..from + len).count() as u64;
            prop_assert_eq!(window.count(from, from + len), reaches.then_some(seen));
        }
    }

    #[test]
    fn growing_keeps_what_was_seen() {
        let mut window = Window::new(64);
        for s in (0..200).step_by(2) {
            window.insert(s);
        }
        assert_eq!(window.check(100), Seen::TooOld);
        assert!(window.grow_to_cover(100, 4096));
        assert_eq!(
            window.check(100),
            Seen::Late,
            "below the old window nothing is known"
        );
        assert_eq!(window.check(198), Seen::Duplicate);
        assert_eq!(window.check(197), Seen::Late);
    }
}
