//! What a link is like: its round-trip time and its loss rate, from what passes over it anyway.
//!
//! ```text
//!   hello out --stamp-->  peer  --echo, hold--> hello in    Rtt::on_sample
//!   sealed datagrams in, each with its counter              Loss::on_run
//!                                                             | rate()
//!                                                             v
//!                                              announce, and back to the peer in hellos
//! ```
//!
//! The counter of the AEAD is the link's sequence number: every datagram of a direction has one,
//! so data, hellos and control all measure, and nothing is sent in order to measure loss.
//!
//! [`Loss`] follows [Amir06 §III-A]: a packet is lost when three later ones have arrived; the rate
//! is one over the mean distance between the last L = 50 losses. So the estimate rises as fast
//! as losses come and falls only as fast as packets arrive without loss.

mod rtt;

pub use rtt::Rtt;

/// A packet counts as lost when this many later ones have arrived. [Amir06 §III-A]
pub const REORDER_PACKETS: u32 = 3;
/// L, the losses over which the rate is averaged. [Amir06 §III-A]
pub const LOSS_EVENTS: usize = 50;
/// Losses that one gap in the sequence can contribute, however long it is. Choice: half of the
/// history, so that one outage (the business of `hello`) does not make the link look as if it had
/// lost everything always; it also bounds the work per input.
pub const GAP_EVENTS: u64 = LOSS_EVENTS as u64 / 2;
/// As long as fewer packets have been seen, the rate is taken over this many. Choice: the first
/// loss of a new link then reads 1 %, not 50 %.
pub const FEWEST_PACKETS: u64 = 100;

/// The loss rate of the direction towards us, from the sequence numbers that arrive.
///
/// ```text
///   numbers   ... 4  5  6  7  8  9 10 | next = 11        bit 0 of the maps is number next - 1
///   arrived       x  x     x  x     x
///   absent                       1      missing, fewer than three later ones are here
///   lost                1               counted; undone when it arrives within 64 numbers
/// ```
/// All numbers in here are positions: the link's sequence number minus what was cut out of long
/// gaps, so that a position is reached by receiving or by losing every one before it.
#[derive(Clone, Debug)]
pub struct Loss {
    /// The position after the highest one seen.
    next: u64,
    /// Sequence number minus position, wrapping.
    offset: u64,
    absent: u64,
    lost: u64,
    started: bool,
    /// Positions of the last losses, ascending, a ring that starts at `oldest`.
    events: [u64; LOSS_EVENTS],
    oldest: usize,
    len: usize,
    /// The ring has been full once, so `base` is a loss and not the link's beginning.
    full: bool,
    /// Where the interval before the oldest event begins.
    base: u64,
    received_total: u64,
    lost_total: u64,
}

impl Default for Loss {
    fn default() -> Self {
        Loss {
            next: 0,
            offset: 0,
            absent: 0,
            lost: 0,
            started: false,
            events: [0; LOSS_EVENTS],
            oldest: 0,
            len: 0,
            full: false,
            base: 0,
            received_total: 0,
            lost_total: 0,
        }
    }
}

impl Loss {
    /// The packet with this sequence number arrived.
    #[inline]
    pub fn on_packet(&mut self, seq: u64) {
        self.on_run(seq, 1);
    }

    /// The packets `first`, `first + 1`, … (`count` of them) arrived. The cost does not depend on
    /// `count`, and in order it is a handful of instructions.
    #[inline]
    pub fn on_run(&mut self, first: u64, count: u64) {
        if first.wrapping_sub(self.offset) == self.next && self.absent == 0 && self.started {
            self.lost = shift(self.lost, count);
            self.next += count;
            self.received_total += count;
            return;
        }
        self.on_disorder(first, count);
    }

    /// A new session begins: its sequence numbers have nothing to do with the earlier ones. What
    /// is known of the link stays.
    pub fn on_new_session(&mut self) {
        self.settle_absent();
        self.lost = 0;
        self.started = false;
    }

    /// The link was given up: what is missing until the next packet is an outage and no loss.
    pub fn on_outage(&mut self) {
        self.on_new_session();
    }

    /// The share of packets that get lost, 0 to 1.
    pub fn rate(&self) -> f64 {
        if self.len == 0 {
            return 0.0;
        }
        let packets = if self.full {
            // The closed intervals, or all but the oldest of them and the open one, whichever
            // says less loss: the estimate falls while losses stay out, never by a loss.
            let closed = self.event(self.len - 1) - self.base;
            let with_open = self.settled() - 1 - self.event(0);
            closed.max(with_open).max(LOSS_EVENTS as u64)
        } else {
            (self.settled() - self.base).max(FEWEST_PACKETS)
        };
        self.len as f64 / packets as f64
    }

    /// The rate as hellos and link-state records carry it.
    pub fn share(&self) -> wire::Loss {
        wire::Loss::from_share(self.rate())
    }

    /// Packets that arrived and packets that were lost since the link began.
    pub fn totals(&self) -> (u64, u64) {
        (self.received_total, self.lost_total)
    }

    #[cold]
    fn on_disorder(&mut self, first: u64, count: u64) {
        if count == 0 {
            return;
        }
        if !self.started {
            self.start(first);
        }
        let at = first.wrapping_sub(self.offset);
        // Wrapping: what is far below reads as far above, and nothing can be half the range ahead.
        if at.wrapping_sub(self.next) >= 1 << 63 {
            let behind = self.next.wrapping_sub(at);
            let late = count.min(behind);
            // In their order, as one by one: each may make those before it lost. Below the maps nothing is known.
            for k in late.saturating_sub(64)..late {
                self.on_late(at.wrapping_add(k));
            }
            if count > late {
                self.on_run(first.wrapping_add(late), count - late);
            }
            return;
        }
        let mut gap = at - self.next;
        if gap > GAP_EVENTS {
            self.settle_absent();
            self.lost = 0;
            self.offset = self.offset.wrapping_add(gap - GAP_EVENTS);
            self.lost_total = self.lost_total.saturating_add(gap - GAP_EVENTS);
            gap = GAP_EVENTS;
        }
        self.advance(gap, true);
        self.advance(count, false);
        self.received_total += count;
        self.settle_overtaken();
    }

    fn start(&mut self, first: u64) {
        self.started = true;
        self.offset = first.wrapping_sub(self.next);
    }

    /// Moves `next` up by `count` positions that all are missing or all are there.
    fn advance(&mut self, count: u64, missing: bool) {
        // What leaves the maps unseen is lost, however few have arrived since.
        let leaving = if count >= 64 {
            self.absent
        } else {
            self.absent & !(u64::MAX >> count)
        };
        self.settle(leaving);
        self.absent = shift(self.absent, count);
        self.lost = shift(self.lost, count);
        if missing {
            self.absent |= shift(u64::MAX, count) ^ u64::MAX;
        }
        self.next += count;
    }

    fn on_late(&mut self, position: u64) {
        let behind = self.next.wrapping_sub(position).wrapping_sub(1);
        if behind >= 64 {
            return;
        }
        let bit = 1u64 << behind;
        if self.absent & bit != 0 {
            self.absent &= !bit;
            self.received_total += 1;
            self.settle_overtaken();
        } else if self.lost & bit != 0 {
            self.lost &= !bit;
            self.received_total += 1;
            self.lost_total -= 1;
            self.undo(position);
        }
    }

    /// Counts as lost what three later packets have overtaken.
    fn settle_overtaken(&mut self) {
        if self.absent == 0 {
            return;
        }
        let mut here = !(self.absent | self.lost);
        for _ in 1..REORDER_PACKETS {
            here &= here.wrapping_sub(1);
        }
        if here == 0 {
            return;
        }
        let third = here.trailing_zeros();
        self.settle(self.absent & (u64::MAX << third));
    }

    fn settle_absent(&mut self) {
        self.settle(self.absent);
    }

    /// Turns the absent numbers of `which` into losses, oldest first.
    fn settle(&mut self, mut which: u64) {
        self.absent &= !which;
        self.lost |= which;
        while which != 0 {
            let behind = 63 - which.leading_zeros();
            which &= !(1 << behind);
            self.push(self.next - 1 - u64::from(behind));
        }
    }

    /// The position after the last one of which it is known whether it arrived or was lost.
    fn settled(&self) -> u64 {
        self.next - u64::from(u64::BITS - self.absent.leading_zeros())
    }

    fn event(&self, k: usize) -> u64 {
        self.events[(self.oldest + k) % LOSS_EVENTS]
    }

    fn push(&mut self, position: u64) {
        self.lost_total += 1;
        if self.len == LOSS_EVENTS {
            self.base = self.event(0);
            self.oldest = (self.oldest + 1) % LOSS_EVENTS;
            self.len -= 1;
        }
        self.events[(self.oldest + self.len) % LOSS_EVENTS] = position;
        self.len += 1;
        self.full |= self.len == LOSS_EVENTS;
    }

    /// Takes a loss back. Only the youngest 64 positions can, so the search from the end is short.
    fn undo(&mut self, position: u64) {
        let Some(k) = (0..self.len).rev().find(|&k| self.event(k) == position) else {
            return;
        };
        for j in k + 1..self.len {
            self.events[(self.oldest + j - 1) % LOSS_EVENTS] = self.event(j);
        }
        self.len -= 1;
    }
}

const fn shift(map: u64, by: u64) -> u64 {
    if by >= 64 { 0 } else { map << by }
}

#[cfg(test)]
mod tests;
