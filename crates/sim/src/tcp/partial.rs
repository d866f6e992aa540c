//! A partially reliable flow under congestion control, which [Papadimitriou06 §6] leaves to future work. It is
//! receiver-oriented as TCP-Real, and retransmits only within a deadline.
//!
//! ```text
//!   write ─▶ waiting ─▶ window open? ─▶ flying ── acknowledged ─▶ done
//!               │  ▲                      │
//!   too old: dropped └── can be in time ◀─ lost ─▶ given up
//!                                         └─▶ Watch: congestion? ─▶ Control: less
//! ```
//!
//! Each transmission has a number of its own, and each packet is acknowledged. The acknowledgement contains the last
//! ranges that arrived before the packet, the packet's one-way delay, and the receiver's measurement of rate and
//! jitter. The receiver delivers each packet on arrival and never waits for another one.
//!
//! - The window is the family's TCP-Real, but in *bytes* of segments as large as a file transfer's: a flow of small
//!   packets is as fair in bits per second as one of large packets [RFC 4828]. The window does not grow beyond a few
//!   segments while the queue is longer than the traffic tolerates.
//! - A loss counts against the window if the [`Watch`] considers it to be congestion, once per window.
//! - A lost packet is retransmitted, before anything new, if it can arrive before its deadline. A packet that waits for
//!   the window is dropped at its deadline, oldest first.

use super::packet::{Ack, Segment};
use super::sender::Sent;
use base::{Duration, Time};
use congestion::queue::{self, Cause, Watch};
use congestion::{Acked, Congestion, Control, Family};
use std::collections::VecDeque;

#[cfg(test)]
mod tests;

/// Number of later packets whose arrival shows that a packet is lost. The first gap counts, as in the overlay's
/// real-time lane [Amir06 §IV-A]: three packets are 60 ms of speech, and with a round trip more than most deadlines
/// allow. On a path that changes the order, this costs a superfluous copy.
const LATER: i64 = 1;
/// Shortest time without an acknowledgement after which everything in flight is considered lost.
const TIMEOUT_MIN: Duration = Duration::from_millis(200);
/// The same timeout before the first round trip was measured.
const TIMEOUT_FIRST: Duration = Duration::from_secs(1);
/// The weight of a new round trip or one-way delay in its average.
const WEIGHT: f64 = 0.125;
/// Choice: up to this window, in segments, a flow grows whatever the queue. With fewer segments in flight, a TCP cannot
/// even find a loss by three duplicates, so other flows cause the long queue. A flow that waited for the queue to drain
/// would starve beside them, as Vegas does.
const SMALL: f64 = 2.0;
/// Number of packets in flight that the sender remembers: a window of 256 kbit in packets of 40 bytes.
const FLYING_MAX: usize = 1 << 12;

/// The settings of a partially reliable flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PartialSettings {
    /// The time from write to delivery. Nothing is retransmitted that would exceed it. A packet waits for the window
    /// just as long, even if the path's delay then exceeds the deadline: late speech is better than none.
    pub deadline: Duration,
    /// Header bytes for each message on the wire.
    pub header_bytes: usize,
    /// Bytes on the wire of the segment that windows count in: that of the traffic with which the flow must share
    /// fairly.
    pub segment_bytes: usize,
    /// The settings of TCP-Real.
    pub control: congestion::Settings,
    /// Defines what counts as congestion.
    pub queue: queue::Settings,
}

impl PartialSettings {
    /// Returns the settings for traffic that must arrive within `deadline`.
    pub fn within(deadline: Duration) -> PartialSettings {
        PartialSettings {
            deadline,
            header_bytes: 40,
            segment_bytes: 1040,
            control: congestion::Settings {
                initial_window: 2.0,
                minimum_window: 2.0,
                max_window: 20.0,
                initial_threshold: 20.0,
                ..congestion::Settings::default()
            },
            queue: queue::Settings::default(),
        }
    }
}

/// A message to be sent.
#[derive(Clone, Copy, Debug)]
struct Message {
    number: u32,
    bytes: usize,
    written: Time,
    is_again: bool,
}

/// A transmission that is neither acknowledged nor given up.
#[derive(Clone, Copy, Debug)]
struct Flight {
    seq: i64,
    message: Message,
}

#[derive(Debug)]
pub(crate) struct Partial {
    to: u32,
    flow: u32,
    settings: PartialSettings,
    pub(crate) control: Box<dyn Control + Send>,
    watch: Watch,
    waiting: VecDeque<Message>,
    /// The transmissions in flight, in the order of sending.
    flying: VecDeque<Flight>,
    flying_bytes: usize,
    next: i64,
    /// The last transmission before the window was cut. Losses up to this one do not cut it again.
    recover: i64,
    srtt: Option<Duration>,
    variation: Duration,
    one_way: Duration,
    wave: u32,
    wave_end: i64,
    /// Whether the window kept a packet waiting since the last acknowledgement.
    was_limited: bool,
    pub(crate) timer: Option<Time>,
    pub(crate) out: Vec<(usize, Segment)>,
    pub(crate) counts: Sent,
}

impl Partial {
    pub(crate) fn new(to: u32, flow: u32, settings: PartialSettings) -> Partial {
        Partial {
            to,
            flow,
            settings,
            control: Family::Real.control(settings.control),
            watch: Watch::new(settings.queue),
            waiting: VecDeque::new(),
            flying: VecDeque::new(),
            flying_bytes: 0,
            next: 0,
            recover: -1,
            srtt: None,
            variation: Duration::ZERO,
            one_way: Duration::ZERO,
            wave: 0,
            wave_end: 0,
            was_limited: false,
            timer: None,
            out: Vec::new(),
            counts: Sent::default(),
        }
    }

    /// Returns the host to which the flow sends.
    pub(crate) fn to(&self) -> u32 {
        self.to
    }

    /// Takes a message that the application writes.
    pub(crate) fn write(&mut self, now: Time, bytes: usize) {
        let number = self.counts.written as u32;
        self.counts.written += 1;
        self.waiting.push_back(Message {
            number,
            bytes: bytes + self.settings.header_bytes,
            written: now,
            is_again: false,
        });
        self.send(now);
    }

    /// Handles an acknowledgement.
    pub(crate) fn on_ack(&mut self, now: Time, ack: &Ack) {
        if ack.acked >= self.next {
            // The acknowledgement names a transmission that was never sent.
            return;
        }
        let rtt = now.since(ack.echo);
        self.measure(rtt, Duration::from_micros(u64::from(ack.window)));
        self.watch
            .on_delay(now, Duration::from_micros(u64::from(ack.window)));
        if ack.acked >= self.wave_end {
            self.wave = self.wave.wrapping_add(1);
            self.wave_end = self.next;
        }
        let in_flight = self.in_flight();
        let bytes = self.take_acknowledged(ack);
        self.lose(now, ack.acked - LATER + 1, in_flight);
        let known = ack.rate_kbps > 0;
        self.control.on_ack(&Acked {
            now,
            segments: bytes as f64 / self.settings.segment_bytes as f64,
            bytes: bytes as u64,
            rtt: Some(rtt),
            in_flight,
            limited: self.was_limited && self.may_grow(),
            receive_rate_bps: known.then(|| u64::from(ack.rate_kbps) * 1000),
            receive_jitter: known.then(|| Duration::from_micros(u64::from(ack.jitter_us))),
            srtt: self.srtt.unwrap_or(rtt),
        });
        self.was_limited = false;
        self.set_timer(now);
        self.send(now);
    }

    /// Handles the timeout: no acknowledgement arrived for a long time.
    pub(crate) fn on_timer(&mut self, now: Time) {
        self.timer = None;
        if !self.flying.is_empty() {
            self.counts.timeouts += 1;
            let in_flight = self.in_flight();
            self.control.on_timeout(now, in_flight);
            self.recover = self.next - 1;
            let all = core::mem::take(&mut self.flying);
            self.flying_bytes = 0;
            self.repeat(now, all.into_iter().map(|flight| flight.message));
        }
        self.send(now);
    }

    /// Sends what the window allows, and drops packets that have waited too long for it.
    fn send(&mut self, now: Time) {
        while let Some(message) = self.waiting.front().copied() {
            if self.is_too_late(now, &message) {
                self.counts.refused += 1;
                self.waiting.pop_front();
                continue;
            }
            // One packet may always be in flight.
            let window = self.control.window() * self.settings.segment_bytes as f64;
            let fits = (self.flying_bytes + message.bytes) as f64 <= window;
            if (!fits && !self.flying.is_empty()) || self.flying.len() >= FLYING_MAX {
                self.was_limited = true;
                break;
            }
            self.waiting.pop_front();
            self.output(now, message);
        }
    }

    /// Returns whether a retransmission would arrive after its deadline, or a first transmission has waited for the
    /// window until its deadline.
    fn is_too_late(&self, now: Time, message: &Message) -> bool {
        let way = if message.is_again {
            self.one_way
        } else {
            Duration::ZERO
        };
        now + way > message.written + self.settings.deadline
    }

    fn may_grow(&self) -> bool {
        self.watch.may_grow() || self.control.window() < SMALL
    }

    fn output(&mut self, now: Time, message: Message) {
        let seq = self.next;
        self.next += 1;
        self.flying.push_back(Flight { seq, message });
        self.flying_bytes += message.bytes;
        let segment = Segment {
            to: self.to,
            flow: self.flow,
            seq,
            stamp: now,
            written: message.written,
            number: message.number,
            wave: self.wave,
            last: false,
            datagram: true,
        };
        self.out.push((message.bytes, segment));
        self.counts.segments += 1;
        self.counts.again += u64::from(message.is_again);
        if self.timer.is_none() {
            self.set_timer(now);
        }
    }

    /// Returns the bytes of the transmissions that this acknowledgement names for the first time.
    fn take_acknowledged(&mut self, ack: &Ack) -> usize {
        let before = self.flying_bytes;
        let named = |seq: i64| {
            seq == ack.acked
                || ack
                    .blocks()
                    .iter()
                    .any(|(from, to)| (*from..*to).contains(&seq))
        };
        let mut left = 0;
        self.flying.retain(|flight| {
            let flies = !named(flight.seq);
            left += if flies { flight.message.bytes } else { 0 };
            flies
        });
        self.flying_bytes = left;
        before - left
    }

    /// Handles the loss of everything in flight before `until`.
    fn lose(&mut self, now: Time, until: i64, in_flight: f64) {
        let mut lost = Vec::new();
        while let Some(flight) = self.flying.front().filter(|flight| flight.seq < until) {
            self.flying_bytes -= flight.message.bytes;
            lost.push(*flight);
            self.flying.pop_front();
        }
        let Some(last) = lost.last() else { return };
        if self.watch.cause_of_loss() == Cause::Congestion && last.seq > self.recover {
            self.counts.recoveries += 1;
            self.recover = self.next - 1;
            self.control.on_congestion(now, in_flight, Congestion::Loss);
        }
        self.repeat(now, lost.into_iter().map(|flight| flight.message));
    }

    /// Queues the lost messages that can still arrive in time, before all other messages.
    fn repeat(&mut self, now: Time, lost: impl DoubleEndedIterator<Item = Message>) {
        for mut message in lost.rev() {
            message.is_again = true;
            if !self.is_too_late(now, &message) {
                self.waiting.push_front(message);
            }
        }
    }

    fn measure(&mut self, rtt: Duration, one_way: Duration) {
        let average =
            |old: Duration, new: Duration| old.mul_f64(1.0 - WEIGHT) + new.mul_f64(WEIGHT);
        match self.srtt {
            None => {
                self.srtt = Some(rtt);
                self.variation = rtt.div(2);
                self.one_way = one_way;
            }
            Some(old) => {
                let off = old.max(rtt).saturating_sub(old.min(rtt));
                self.variation = average(self.variation, off);
                self.srtt = Some(average(old, rtt));
                self.one_way = average(self.one_way, one_way);
            }
        }
    }

    fn set_timer(&mut self, now: Time) {
        let timeout = match self.srtt {
            Some(srtt) => (srtt + self.variation * 4).max(TIMEOUT_MIN),
            None => TIMEOUT_FIRST,
        };
        self.timer = (!self.flying.is_empty()).then(|| now + timeout);
    }

    /// Returns the bytes in flight as segments, the unit of the control.
    fn in_flight(&self) -> f64 {
        self.flying_bytes as f64 / self.settings.segment_bytes as f64
    }
}
