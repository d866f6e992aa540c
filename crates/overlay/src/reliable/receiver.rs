//! The receiver's side of a reliable lane: it notes which packets have arrived, and acknowledges them.
//!
//! ```text
//!   numbers   0 ......... next   7      9 10      13
//!                 come      |    gap    [  )  gap [ )    ranges above `next`
//! ```
//! The receiver holds no packet back: the node forwards a packet at once, and only the number is kept.

use super::rate::Rate;
use super::{ACK_DELAY, ACK_WAIT, SPAN};
use base::{Duration, Time};
use std::collections::VecDeque;
use wire::control::{AckHead, ReliableRate, ReliableSkip};
use wire::data::LaneSeq;

/// The most ranges of numbers above the first gap: 1024 of 16 bytes. A lane that loses every other packet reaches this
/// with 2048 packets. A packet that would need one more range is refused; the sender sends it again.
const RANGES_MAX: usize = 1_024;
/// The number of packets in order that one acknowledgement covers, unless they came in one burst.
const ACK_EVERY: u32 = 2;

/// What the arrival of a packet means for its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It arrived for the first time.
    New,
    /// It arrived for the first time, and fills a gap.
    Recovered,
    /// It arrived before.
    Duplicate,
    /// Its number is higher than this side takes.
    Beyond,
}

/// Counters of a [`Receiver`], since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Packets that came for the first time.
    pub received: u64,
    /// Received packets that filled a gap.
    pub recovered: u64,
    /// Packets that had arrived before.
    pub duplicates: u64,
    /// Packets with numbers beyond the window.
    pub beyond: u64,
    /// Acknowledgements sent.
    pub acks: u64,
    /// Numbers that the sender has given up.
    pub skipped: u64,
}

/// The packets that have arrived over one reliable lane.
#[derive(Debug)]
pub struct Receiver {
    next: u64,
    /// First number and the one after the last. The ranges rise, do not touch, and lie above `next`.
    ranges: VecDeque<(u64, u64)>,
    newest: (u64, Time),
    /// Packets since the last acknowledgement.
    pending: u32,
    /// The acknowledgement must not wait.
    is_urgent: bool,
    ack_at: Option<Time>,
    /// The sender lets an acknowledgement wait for a packet that is expected.
    acks_wait: bool,
    rate: Rate,
    stats: ReceiverStats,
}

impl Default for Receiver {
    fn default() -> Receiver {
        Receiver {
            next: 0,
            ranges: VecDeque::new(),
            newest: (0, Time::ZERO),
            pending: 0,
            is_urgent: false,
            ack_at: None,
            acks_wait: false,
            rate: Rate::default(),
            stats: ReceiverStats::default(),
        }
    }
}

impl Receiver {
    /// Takes in the number of a packet that has `waited` in this host's socket.
    #[inline]
    pub fn on_packet(&mut self, now: Time, waited: Duration, seq: LaneSeq) -> Arrival {
        let seq = seq.widen(self.end());
        let arrival = self.enter(seq);
        match arrival {
            Arrival::New => self.stats.received += 1,
            Arrival::Recovered => {
                self.stats.received += 1;
                self.stats.recovered += 1;
            }
            Arrival::Duplicate => self.stats.duplicates += 1,
            Arrival::Beyond => {
                self.stats.beyond += 1;
                return arrival;
            }
        }
        let wait = self.wait(now.since(self.newest.1));
        self.newest = (seq, now - waited);
        self.pending += 1;
        // The sender has to learn of gaps, and of their end, without delay.
        self.is_urgent |= arrival != Arrival::New || !self.ranges.is_empty();
        self.ack_at.get_or_insert(now + wait);
        arrival
    }

    /// Returns how long an acknowledgement waits for the next packet; the packet before came `gap` ago.
    fn wait(&self, gap: Duration) -> Duration {
        match self.acks_wait && gap <= ACK_WAIT {
            // A quarter more covers the variation of the path's delay.
            true => (gap + gap.div(4)).clamp(ACK_DELAY, ACK_WAIT),
            false => ACK_DELAY,
        }
    }

    /// Sets whether an acknowledgement may wait for a packet that is expected.
    pub(super) fn set_acks_wait(&mut self, acks_wait: bool) {
        self.acks_wait = acks_wait;
    }

    /// Measures the rate by a packet of so many bytes, on a link with this round trip.
    pub fn measure(&mut self, now: Time, bytes: usize, rtt: Duration) {
        self.rate.on_packet(now, bytes, rtt);
    }

    /// Returns the rate that is to be reported with the next acknowledgement.
    pub fn poll_rate(&mut self) -> Option<ReliableRate> {
        self.rate.poll()
    }

    /// Takes in that the sender has given up all packets before a number.
    pub fn on_skip(&mut self, skip: ReliableSkip) {
        let first = skip.first.widen(self.next);
        self.is_urgent = true;
        if first <= self.next || first - self.next > SPAN {
            return;
        }
        self.stats.skipped += first - self.next;
        self.next = first;
        while let Some(&(from, to)) = self.ranges.front()
            && from <= self.next
        {
            self.next = self.next.max(to);
            self.ranges.pop_front();
        }
    }

    /// Returns when an acknowledgement that waits becomes due.
    pub fn next_timeout(&self) -> Option<Time> {
        self.ack_at
    }

    /// Whether an acknowledgement is to be sent now.
    pub fn is_due(&self, now: Time) -> bool {
        self.is_urgent || self.pending >= ACK_EVERY || self.ack_at.is_some_and(|at| at <= now)
    }

    /// Returns the acknowledgement of all that has come, with the window that this node has left. Its ranges are those
    /// of [`Receiver::ranges`].
    pub fn acknowledge(&mut self, now: Time, window: u16) -> AckHead {
        self.pending = 0;
        self.is_urgent = false;
        self.ack_at = None;
        self.stats.acks += 1;
        let (newest, at) = self.newest;
        let end = self.end();
        // The span of the numbers must fit in 16 bits.
        let room = SPAN.saturating_sub(end - self.next);
        AckHead {
            next: LaneSeq::of(self.next),
            end: LaneSeq::of(end),
            window: window.min(room as u16),
            newest: LaneSeq::of(newest),
            hold_us: u32::try_from(now.since(at).as_micros()).unwrap_or(u32::MAX),
            repeated: self.stats.duplicates as u16,
        }
    }

    /// Returns the ranges above the first gap, from the highest down: the count of numbers received, and of numbers
    /// missing below them.
    pub fn ranges(&self) -> impl Iterator<Item = (u16, u16)> {
        let below = self.ranges.iter().map(|&(_, to)| to).rev().skip(1);
        let below = below.chain([self.next]);
        let counts = self.ranges.iter().rev().zip(below);
        counts.map(|(&(from, to), below)| ((to - from) as u16, (from - below) as u16))
    }

    /// Returns the number after the highest that has come.
    fn end(&self) -> u64 {
        self.ranges.back().map_or(self.next, |&(_, to)| to)
    }

    /// Returns the counters.
    pub fn stats(&self) -> ReceiverStats {
        self.stats
    }

    /// Starts again at number 0. The counters continue.
    pub fn reset(&mut self) {
        *self = Receiver {
            stats: self.stats,
            acks_wait: self.acks_wait,
            ..Receiver::default()
        };
    }

    fn enter(&mut self, seq: u64) -> Arrival {
        if seq < self.next {
            return Arrival::Duplicate;
        }
        if seq - self.next >= SPAN {
            return Arrival::Beyond;
        }
        if seq == self.next {
            self.next += 1;
            let Some(&(from, to)) = self.ranges.front() else {
                return Arrival::New;
            };
            if from == self.next {
                self.next = to;
                self.ranges.pop_front();
            }
            return Arrival::Recovered;
        }
        self.enter_above(seq)
    }

    /// Enters a number above the first gap.
    fn enter_above(&mut self, seq: u64) -> Arrival {
        // This is the first range that ends at or after the number.
        let at = self.ranges.partition_point(|&(_, to)| to < seq);
        let Some(&(from, to)) = self.ranges.get(at) else {
            if self.ranges.len() >= RANGES_MAX {
                return Arrival::Beyond;
            }
            self.ranges.push_back((seq, seq + 1));
            return Arrival::New;
        };
        if (from..to).contains(&seq) {
            return Arrival::Duplicate;
        }
        let is_last = at + 1 == self.ranges.len();
        if seq == to {
            self.ranges[at].1 += 1;
            if let Some(&(next_from, next_to)) = self.ranges.get(at + 1)
                && next_from == seq + 1
            {
                self.ranges[at].1 = next_to;
                self.ranges.remove(at + 1);
            }
            return match is_last {
                true => Arrival::New,
                false => Arrival::Recovered,
            };
        }
        if seq + 1 == from {
            self.ranges[at].0 = seq;
            return Arrival::Recovered;
        }
        if self.ranges.len() >= RANGES_MAX {
            return Arrival::Beyond;
        }
        self.ranges.insert(at, (seq, seq + 1));
        Arrival::Recovered
    }
}
