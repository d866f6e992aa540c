//! One stream of RTP over two paths (SMPTE ST 2022-7): a packet that one path loses may arrive by the other.
//!
//! ```text
//!   leg 0 ──7 8 ─ 10──▶ ┐
//!                       Merger ──7 8 9 10──▶   the first copy of each, in order, each once
//!   leg 1 ───7 8 9 10─▶ ┘
//! ```
//! Both paths carry the same packets with the same sequence numbers. The merger forwards the next packet in order at
//! once. A packet after a gap waits for the missing ones, at most for the window: the largest difference of the two
//! paths' delays that the merger can bridge. Time passes only in [`Merger::on_timeout`]: a program that was not
//! scheduled for a while must first give the merger the packets that have arrived by both paths in the meantime.
//! Sans-IO: packets and times in, packets out.

#[cfg(test)]
mod tests;

use crate::rtp::Packet;
use base::{Duration, Time};
use std::collections::{BTreeMap, VecDeque};

/// Number of paths.
pub const LEGS: usize = 2;
/// The default window. ST 2022-7 has classes of 10, 50 and 450 ms (its table 1). Choice: the class for moderate skew,
/// two paths across a continent.
pub const WINDOW: Duration = Duration::from_millis(50);
/// Most waiting packets. Choice: 450 ms at 18 000 packets/s.
const HELD_MAX: usize = 8_192;
/// Most bytes of waiting packets. Choice: 450 ms at 280 Mbit/s.
const HELD_BYTES_MAX: usize = 16 << 20;
/// Number of packets whose arrival is remembered, to recognize copies: twice the number that may wait.
const REMEMBERED: usize = 2 * HELD_MAX;
/// The merger switches to another stream, or to another place in the same one, only after the present stream has
/// brought nothing new for the window, and at least for this time. An encoder that restarts may repeat its old numbers.
const RESTART_AFTER: Duration = Duration::from_millis(100);

/// The counters of one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leg {
    /// Packets of the stream, including copies.
    pub received: u64,
    /// Packets that did not arrive by this path, though later ones did.
    pub lost: u64,
    /// Packets that were forwarded from this path: the other path had not delivered them yet, or never did.
    pub first: u64,
    /// Packets that arrived after their turn.
    pub late: u64,
    /// Datagrams that are not RTP, or belong to another stream.
    pub foreign: u64,
    /// How much later its last copy arrived than the one by the other path.
    pub behind: Duration,
    /// The longest such difference.
    pub behind_max: Duration,
    /// The highest number that has arrived by this path.
    highest: Option<u64>,
    /// The lowest number that has arrived by this path.
    lowest: u64,
    /// Number of packets of the present stream that it has delivered, each counted once.
    unique: u64,
}

/// The counters of the merged stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Packets that were forwarded.
    pub sent: u64,
    /// Packets that neither path delivered in time.
    pub lost: u64,
    /// How often the stream restarted.
    pub restarts: u64,
}

/// Merges the two copies into one stream.
#[derive(Debug)]
pub struct Merger {
    window: Duration,
    stream: Option<Stream>,
    held: BTreeMap<u64, Vec<u8>>,
    held_bytes: usize,
    /// The numbers and arrival times of the held packets, in the order of arrival. Entries of packets that were already
    /// sent may remain, but not at the front.
    waiting: VecDeque<(u64, Time)>,
    /// When each packet arrived and by which paths, by its number modulo the length.
    arrived: Vec<Option<(u64, Time, u8)>>,
    legs: [Leg; LEGS],
    /// For each path: a packet that may be the first after a restart of the numbers.
    again: [Option<Again>; LEGS],
    merged: Merged,
}

/// A packet that looks old or out of place, while nothing new has arrived for long.
#[derive(Debug)]
struct Again {
    /// The number that the next packet has if it continues this one.
    next: u16,
    packet: Vec<u8>,
}

/// The stream that the merger follows.
#[derive(Clone, Copy, Debug)]
struct Stream {
    ssrc: u32,
    /// The number of the next packet in order. Numbers do not wrap here.
    next: u64,
    /// When a path last advanced. Copies of old packets do not count, because restarted numbers look like them.
    advanced: Time,
}

impl Merger {
    /// Creates a merger that waits for a stream.
    pub fn new(window: Duration) -> Merger {
        Merger {
            window,
            stream: None,
            held: BTreeMap::new(),
            held_bytes: 0,
            waiting: VecDeque::new(),
            arrived: vec![None; REMEMBERED],
            again: [const { None }; LEGS],
            legs: [Leg::default(); LEGS],
            merged: Merged::default(),
        }
    }

    /// Returns the counters of both paths.
    pub fn legs(&self) -> &[Leg; LEGS] {
        &self.legs
    }

    /// Returns the counters of the merged stream.
    pub fn merged(&self) -> Merged {
        self.merged
    }

    /// Returns the number of waiting packets.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Returns when the longest waiting packet has waited for the window.
    pub fn next_timeout(&self) -> Option<Time> {
        self.waiting.front().map(|(_, at)| *at + self.window)
    }

    /// Handles a datagram that arrived by a path; `out` gets the packets to forward. This function gives no missing
    /// packet up, however late it is: the other path's packets may still be unread.
    pub fn on_packet(
        &mut self,
        now: Time,
        leg: usize,
        datagram: &[u8],
        out: &mut impl FnMut(&[u8]),
    ) {
        let Ok(packet) = Packet::parse(datagram) else {
            self.legs[leg].foreign += 1;
            return;
        };
        let header = packet.header();
        let place = (header.ssrc, header.seq);
        let Some(number) = self.place(now, leg, datagram, place, out) else {
            self.legs[leg].foreign += 1;
            return;
        };
        if self.note(now, leg, number) {
            self.take(now, number, datagram, out);
        }
    }

    /// Forwards packets that have waited for the window.
    pub fn on_timeout(&mut self, now: Time, out: &mut impl FnMut(&[u8])) {
        while self.next_timeout().is_some_and(|at| at <= now) {
            self.give_up(out);
        }
    }

    /// Returns the number of a packet in the stream; `None` if it belongs to another one.
    fn place(
        &mut self,
        now: Time,
        leg: usize,
        datagram: &[u8],
        (ssrc, seq): (u32, u16),
        out: &mut impl FnMut(&[u8]),
    ) -> Option<u64> {
        // The number is far from zero, so that there is a number before the first.
        let begins_at = (1 << 32) | u64::from(seq);
        let Some(stream) = &mut self.stream else {
            self.begin(now, ssrc, begins_at);
            return Some(begins_at);
        };
        let ahead = i64::from(seq.wrapping_sub(stream.next as u16).cast_signed());
        let is_near = (-(HELD_MAX as i64)..HELD_MAX as i64).contains(&ahead);
        let is_here = ssrc == stream.ssrc && is_near;
        let number = is_here.then(|| stream.next.wrapping_add_signed(ahead));
        // A path that has delivered nothing yet is not behind with its first packet, but that packet may be from
        // another time.
        let before = self.legs[leg].highest.unwrap_or(stream.next - 1);
        let is_silent = now.since(stream.advanced) >= self.window.max(RESTART_AFTER);
        let first = self.again[leg].take();
        let first = first.filter(|first| is_silent && first.next == seq);
        // A packet that is new to both paths is taken, whatever came before it.
        let goes_on = |number| number > before && (first.is_none() || number >= stream.next);
        if number.is_some_and(goes_on) {
            stream.advanced = now;
            return number;
        }
        if !is_silent {
            return number;
        }
        let is_other = ssrc != stream.ssrc;
        // A single packet may be a late copy; two in order are a stream (RFC 3550 appendix A.1).
        if !is_other && first.is_none() {
            self.again[leg] = Some(Again {
                next: seq.wrapping_add(1),
                packet: datagram.to_vec(),
            });
            return number;
        }
        while !self.held.is_empty() {
            self.give_up(out);
        }
        self.merged.restarts += 1;
        let Some(first) = first.filter(|_| !is_other) else {
            self.begin(now, ssrc, begins_at);
            return Some(begins_at);
        };
        let number = begins_at - 1;
        self.begin(now, ssrc, number);
        // The packet was already counted on arrival.
        self.legs[leg].advance(number);
        self.arrived[(number % REMEMBERED as u64) as usize] = Some((number, now, 1 << leg));
        self.take(now, number, &first.packet, out);
        Some(begins_at)
    }

    fn begin(&mut self, now: Time, ssrc: u32, next: u64) {
        self.stream = Some(Stream {
            ssrc,
            next,
            advanced: now,
        });
        self.arrived.fill(None);
        self.again = [const { None }; LEGS];
        for leg in &mut self.legs {
            (leg.highest, leg.unique) = (None, 0);
        }
    }

    /// Counts a packet. Returns true if it is the first copy, and its turn is not over.
    fn note(&mut self, now: Time, leg: usize, number: u64) -> bool {
        let next = self.stream.map_or(0, |stream| stream.next);
        let place = &mut self.arrived[(number % REMEMBERED as u64) as usize];
        let known = place.filter(|(known, ..)| *known == number);
        let mine = &mut self.legs[leg];
        mine.received += 1;
        let bit = 1 << leg;
        if known.is_none_or(|(.., legs)| legs & bit == 0) {
            mine.advance(number);
        }
        let Some((_, at, legs)) = known else {
            let is_late = number < next;
            if is_late {
                mine.late += 1;
            } else {
                mine.first += 1;
                *place = Some((number, now, bit));
            }
            return !is_late;
        };
        if legs & bit == 0 {
            mine.behind = now.since(at);
            mine.behind_max = mine.behind_max.max(mine.behind);
        }
        *place = Some((number, at, legs | bit));
        false
    }

    /// Forwards a packet whose turn it is, and those that waited for it; otherwise holds the packet.
    fn take(&mut self, now: Time, number: u64, packet: &[u8], out: &mut impl FnMut(&[u8])) {
        let Some(stream) = &mut self.stream else {
            return;
        };
        if number == stream.next {
            out(packet);
            stream.next += 1;
            self.merged.sent += 1;
            return self.drain(out);
        }
        self.held_bytes += packet.len();
        self.held.insert(number, packet.to_vec());
        self.waiting.push_back((number, now));
        while self.held.len() > HELD_MAX || self.held_bytes > HELD_BYTES_MAX {
            self.give_up(out);
        }
    }

    /// Forwards the held packets whose turn it is.
    fn drain(&mut self, out: &mut impl FnMut(&[u8])) {
        let Some(stream) = &mut self.stream else {
            return;
        };
        while let Some(packet) = self.held.remove(&stream.next) {
            self.held_bytes -= packet.len();
            out(&packet);
            stream.next += 1;
            self.merged.sent += 1;
        }
        while let Some((number, _)) = self.waiting.front()
            && *number < stream.next
        {
            self.waiting.pop_front();
        }
    }

    /// Gives up the packets that are missing before the first held one.
    fn give_up(&mut self, out: &mut impl FnMut(&[u8])) {
        if let (Some(stream), Some((&first, _))) = (&mut self.stream, self.held.first_key_value()) {
            self.merged.lost += first - stream.next;
            stream.next = first;
        }
        self.drain(out);
    }
}

impl Leg {
    /// Notes a packet that had not arrived by this path before.
    fn advance(&mut self, number: u64) {
        let before = self.missing();
        if self.highest.is_none() {
            self.lowest = number;
        }
        self.lowest = self.lowest.min(number);
        self.highest = self.highest.max(Some(number));
        self.unique += 1;
        // A packet that arrives after its successor counted as lost until now.
        self.lost = (self.lost + self.missing()).saturating_sub(before);
    }

    fn missing(&self) -> u64 {
        let span = self.highest.map_or(0, |highest| highest - self.lowest + 1);
        span.saturating_sub(self.unique)
    }
}
