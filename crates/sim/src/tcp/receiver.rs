//! The receiving half of a connection: order, acknowledgements, and delivery to the application.
//!
//! ```text
//!   segments ─▶ beyond `next`: held ─▶ in order: ready ─▶ read ─▶ delivered, by the sender's number
//!                   │                     └── what nobody reads closes the window
//!                   └─ blocks of the acknowledgement
//! ```

use super::packet::{Ack, BLOCKS, Segment};
use super::sender::Data;
use base::{Duration, Time};
use std::collections::{BTreeMap, VecDeque};

/// Number of messages that a partially reliable flow remembers beyond the first missing one, to recognize copies: 20 s
/// of voice.
const REMEMBERED: usize = 1_000;

/// A message, as delivered to the last application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The number of the segment that ended it, as the first sender counts from zero.
    pub number: u32,
    /// When it was written.
    pub written: Time,
    /// When it was delivered: in order, or on arrival for datagrams.
    pub delivered: Time,
}

impl Delivery {
    /// Returns the time from write to delivery.
    pub fn delay(&self) -> Duration {
        self.delivered.since(self.written)
    }
}

/// The counters of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Segments, or datagrams, that arrived for the first time.
    pub segments: u64,
    /// Segments that had arrived before.
    pub duplicates: u64,
    /// Segments beyond the receive buffer, which were dropped.
    pub beyond: u64,
    /// Segments delivered to the last application, in order.
    pub delivered: u64,
}

/// The order in which a receiver hands on segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The order of its connection.
    Connection,
    /// The order of arrival [Amir03 §III].
    AsTheyCome,
}

/// How a segment's data is read.
pub(crate) enum Reader {
    /// The application reads it at once.
    Application,
    /// It waits for the sender of a relay, or for a slow reader.
    Waits,
}

pub(crate) struct Receiver {
    /// The host of the sender.
    pub(crate) to: u32,
    pub(crate) flow: u32,
    pub(crate) reader: Reader,
    order: Order,
    buffer: u32,
    delayed_ack: Option<Duration>,
    /// Whether data that was read goes into [`Receiver::deliveries`].
    pub(crate) records: bool,

    /// The next segment in order.
    next: i64,
    /// The segments that have arrived, from `next` on.
    held: VecDeque<Option<Data>>,
    /// Segments in order that are not yet read.
    ready: VecDeque<Data>,
    blocks: Vec<(i64, i64)>,
    echo: Time,
    acked: i64,
    /// An acknowledgement that waits for a second segment.
    pub(crate) timer: Option<Time>,
    advertised: u32,
    rate: Rate,

    /// The number of the next segment to be delivered.
    number: u32,
    waiting: BTreeMap<u32, Data>,
    deliveries: Vec<Delivery>,
    pub(crate) counts: Received,
}

/// The rate at which the data of one wave arrives, and its jitter: TCP-Real's measurement [Papadimitriou06 §3.1]. A
/// wave is the data sent in one round trip; it lasts from its first segment to the first segment of the next wave.
#[derive(Debug)]
struct Rate {
    wave: u32,
    began: Time,
    bytes: u64,
    kbps: u32,
    /// The one-way delay of the quickest segment of the wave. In a simulation both ends have the same clock, and only
    /// differences count.
    quickest: Duration,
    /// The least one-way delay of this span and of the span before: the delay of the path without queues.
    least: [Duration; 2],
    span_ends: Time,
    /// How much slower the quickest segment of the last wave was than that least delay.
    jitter: Duration,
}

/// Choice: the path's least delay is forgotten after one to two minutes, as routes change.
const LEAST_SPAN: Duration = Duration::from_secs(60);

impl Default for Rate {
    fn default() -> Rate {
        Rate {
            wave: 0,
            began: Time::ZERO,
            bytes: 0,
            kbps: 0,
            quickest: Duration::MAX,
            least: [Duration::MAX; 2],
            span_ends: Time::ZERO,
            jitter: Duration::ZERO,
        }
    }
}

impl Receiver {
    pub(crate) fn new(to: u32, flow: u32, reader: Reader, order: Order) -> Receiver {
        Receiver {
            to,
            flow,
            reader,
            order,
            buffer: u32::MAX,
            delayed_ack: None,
            records: true,
            next: 0,
            held: VecDeque::new(),
            ready: VecDeque::new(),
            blocks: Vec::new(),
            echo: Time::ZERO,
            acked: -1,
            timer: None,
            advertised: u32::MAX,
            rate: Rate::default(),
            number: 0,
            waiting: BTreeMap::new(),
            deliveries: Vec::new(),
            counts: Received::default(),
        }
    }

    pub(crate) fn with(mut self, buffer: u32, delayed_ack: Option<Duration>) -> Receiver {
        self.buffer = buffer;
        self.advertised = buffer;
        self.delayed_ack = delayed_ack;
        self
    }

    pub(crate) fn deliveries(&self) -> &[Delivery] {
        &self.deliveries
    }

    /// Handles an arriving segment. Returns the acknowledgement to send now, if any.
    pub(crate) fn on_segment(&mut self, now: Time, segment: &Segment, bytes: usize) -> Option<Ack> {
        // Echo the stamp of the last segment in order, so that a round trip includes the wait of an acknowledgement for
        // the segments that fill a hole [RFC 7323 §4.3].
        if segment.stamp >= self.echo && segment.seq <= self.acked + 1 {
            self.echo = segment.stamp;
        }
        self.rate.on_arrival(now, segment, bytes);
        let in_order = segment.seq == self.next;
        let fills = in_order && !self.held.is_empty();
        self.take_in(now, segment);
        if let Some(wait) = self.delayed_ack
            && in_order
            && !fills
            && self.timer.is_none()
            && segment.seq > 0
        {
            self.timer = Some(now + wait);
            return None;
        }
        self.timer = None;
        Some(self.ack(Some(segment.seq)))
    }

    /// Handles a datagram of a flow without a connection.
    pub(crate) fn on_datagram(&mut self, now: Time, segment: &Segment) {
        self.counts.segments += 1;
        self.counts.delivered += 1;
        if self.records {
            self.deliveries.push(Delivery {
                number: segment.number,
                written: segment.written,
                delivered: now,
            });
        }
    }

    /// Handles a packet of a partially reliable flow: delivers it as it is, and returns an acknowledgement with the
    /// ranges of transmissions that arrived lately.
    pub(crate) fn on_partial(&mut self, now: Time, segment: &Segment, bytes: usize) -> Ack {
        self.rate.on_arrival(now, segment, bytes);
        self.note_range(segment.seq);
        if self.is_first(segment.number) {
            self.on_datagram(now, segment);
        } else {
            self.counts.duplicates += 1;
        }
        let mut ack = Ack {
            to: self.to,
            flow: self.flow,
            acked: segment.seq,
            echo: segment.stamp,
            window: u32::try_from(now.since(segment.stamp).as_micros()).unwrap_or(u32::MAX),
            rate_kbps: self.rate.kbps,
            jitter_us: self.rate.jitter_us(),
            ..Ack::default()
        };
        for (place, range) in ack.blocks.iter_mut().zip(&self.blocks) {
            *place = *range;
            ack.blocks_len += 1;
        }
        ack
    }

    /// Returns whether a message of a partially reliable flow arrives for the first time.
    fn is_first(&mut self, number: u32) -> bool {
        let data = Data {
            number,
            written: Time::ZERO,
            last: true,
        };
        if number < self.number || self.waiting.insert(number, data).is_some() {
            return false;
        }
        // A message that is missing for so long will not arrive any more.
        if self.waiting.len() > REMEMBERED {
            self.number = self.waiting.keys().next().copied().unwrap_or(number);
        }
        while self.waiting.remove(&self.number).is_some() {
            self.number += 1;
        }
        true
    }

    /// Adds a transmission to the ranges that have arrived, the highest first.
    fn note_range(&mut self, seq: i64) {
        match self.blocks.iter().position(|(from, _)| seq >= *from - 1) {
            Some(at) if seq <= self.blocks[at].1 => {
                let (from, to) = self.blocks[at];
                self.blocks[at] = (from.min(seq), to.max(seq + 1));
                // The range may now touch the one above or below.
                self.blocks.dedup_by(|below, above| {
                    let touches = below.1 >= above.0;
                    above.0 = if touches { below.0 } else { above.0 };
                    touches
                });
            }
            Some(at) => self.blocks.insert(at, (seq, seq + 1)),
            None => self.blocks.push((seq, seq + 1)),
        }
        self.blocks.truncate(BLOCKS);
    }

    /// Returns the acknowledgement that waited.
    pub(crate) fn on_timer(&mut self) -> Ack {
        self.timer = None;
        self.ack(None)
    }

    /// Returns the data that a relay or a slow reader may take next.
    pub(crate) fn read(&mut self) -> Option<Data> {
        self.ready.pop_front()
    }

    /// Returns whether data waits to be read.
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns an acknowledgement that is not yet sent, with the room that there is now.
    pub(crate) fn with_room(&mut self, ack: Ack) -> Ack {
        self.advertised = self.window();
        Ack {
            window: self.advertised,
            ..ack
        }
    }

    /// Returns an acknowledgement that announces new room. The room must be at least one segment if the last
    /// acknowledgement announced none, otherwise half of the buffer.
    pub(crate) fn update(&mut self) -> Option<Ack> {
        let worth = if self.advertised == 0 {
            1
        } else {
            (self.buffer / 2).max(1)
        };
        // The code compares the difference and not a sum: a window without a limit never gets more room.
        let opened = self.window().saturating_sub(self.advertised);
        (opened >= worth).then(|| self.ack(None))
    }

    /// Takes data that the application has received.
    pub(crate) fn deliver(&mut self, now: Time, data: Data) {
        if data.number != self.number {
            self.waiting.insert(data.number, data);
            return;
        }
        self.record(now, data);
        while let Some(data) = self.waiting.remove(&self.number) {
            self.record(now, data);
        }
    }

    fn record(&mut self, now: Time, data: Data) {
        self.number = data.number.wrapping_add(1);
        self.counts.delivered += 1;
        if self.records && data.last {
            self.deliveries.push(Delivery {
                number: data.number,
                written: data.written,
                delivered: now,
            });
        }
    }

    fn take_in(&mut self, now: Time, segment: &Segment) {
        let Ok(place) = usize::try_from(segment.seq - self.next) else {
            self.counts.duplicates += 1;
            return;
        };
        if place >= self.window().max(1) as usize {
            self.counts.beyond += 1;
            return;
        }
        if self.held.len() <= place {
            self.held.resize(place + 1, None);
        }
        if self.held[place].is_some() {
            self.counts.duplicates += 1;
            return;
        }
        self.counts.segments += 1;
        let data = Data {
            number: segment.number,
            written: segment.written,
            last: segment.last,
        };
        self.held[place] = Some(data);
        if self.order == Order::AsTheyCome {
            self.give(now, data);
        }
        while let Some(Some(data)) = self.held.front().copied() {
            self.held.pop_front();
            self.next += 1;
            if self.order == Order::Connection {
                self.give(now, data);
            }
        }
    }

    fn give(&mut self, now: Time, data: Data) {
        match self.reader {
            Reader::Application => self.deliver(now, data),
            Reader::Waits => self.ready.push_back(data),
        }
    }

    /// Returns the number of segments beyond the last in order that the receiver accepts.
    fn window(&self) -> u32 {
        let waits = u32::try_from(self.ready.len()).unwrap_or(u32::MAX);
        self.buffer.saturating_sub(waits)
    }

    /// Returns the acknowledgement of everything so far; `seq` is the segment that triggered it.
    fn ack(&mut self, seq: Option<i64>) -> Ack {
        let acked = self.next - 1;
        self.acked = acked;
        self.advertised = self.window();
        let mut ack = Ack {
            to: self.to,
            flow: self.flow,
            acked,
            echo: self.echo,
            window: self.advertised,
            rate_kbps: self.rate.kbps,
            jitter_us: self.rate.jitter_us(),
            ..Ack::default()
        };
        if self.held.is_empty() {
            self.blocks.clear();
        } else if let Some(seq) = seq {
            self.note_block(seq);
        }
        for (place, block) in ack.blocks.iter_mut().zip(&self.blocks) {
            *place = *block;
            ack.blocks_len += 1;
        }
        ack
    }

    /// Puts the block that `seq` belongs to first [RFC 2018 §4].
    fn note_block(&mut self, seq: i64) {
        let next = self.next;
        self.blocks.retain(|(from, _)| *from >= next);
        if seq < next {
            return;
        }
        let held = |seq: i64| {
            self.held
                .get((seq - next) as usize)
                .is_some_and(Option::is_some)
        };
        if !held(seq) {
            return;
        }
        let from = (next..seq)
            .rev()
            .find(|s| !held(*s))
            .map_or(next, |s| s + 1);
        let to = (seq..).find(|s| !held(*s)).unwrap_or(seq + 1);
        self.blocks.retain(|block| block.1 <= from || block.0 >= to);
        self.blocks.insert(0, (from, to));
        self.blocks.truncate(BLOCKS);
    }
}

impl Rate {
    fn on_arrival(&mut self, now: Time, segment: &Segment, bytes: usize) {
        let transit = now.since(segment.stamp);
        if now >= self.span_ends {
            self.least = [Duration::MAX, self.least[0]];
            self.span_ends = now + LEAST_SPAN;
        }
        self.least[0] = self.least[0].min(transit);
        if segment.wave != self.wave {
            self.end_wave(now);
            (self.wave, self.began, self.bytes) = (segment.wave, now, 0);
            self.quickest = Duration::MAX;
        } else if self.bytes == 0 {
            self.began = now;
        }
        self.bytes += bytes as u64;
        self.quickest = self.quickest.min(transit);
    }

    fn end_wave(&mut self, now: Time) {
        let span = now.since(self.began);
        if span > Duration::ZERO && self.bytes > 0 {
            let kbps = (self.bytes as f64 * 8.0) / span.as_secs_f64() / 1000.0;
            self.kbps = (kbps as u32).max(1);
            self.jitter = self
                .quickest
                .saturating_sub(self.least[0].min(self.least[1]));
        }
    }

    fn jitter_us(&self) -> u32 {
        u32::try_from(self.jitter.as_micros()).unwrap_or(u32::MAX)
    }
}
