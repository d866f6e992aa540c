//! One stream of RTP over two ways (SMPTE ST 2022-7): what one loses, the other has.
//!
//! ```text
//!   leg 0 ──7 8 ─ 10──▶ ┐
//!                       Merger ──7 8 9 10──▶   the first copy of each, in order, each once
//!   leg 1 ───7 8 9 10─▶ ┘
//! ```
//! Both ways carry the same packets with the same sequence numbers. A packet whose turn it is goes on at once;
//! one before which something is missing waits for that, at most the window: the difference of the two ways'
//! delays that is bridged. Time passes only in [`Merger::on_timeout`]: whoever was not scheduled for a while first
//! gives the merger what has come by both ways meanwhile. Sans-IO: packets and times in, packets out.

#[cfg(test)]
mod tests;

use crate::rtp::Packet;
use base::{Duration, Time};
use std::collections::{BTreeMap, VecDeque};

/// The two ways.
pub const LEGS: usize = 2;
/// The window unless one is given. ST 2022-7 has classes of 10, 50 and 450 ms (its table 1). Choice: the one
/// for moderate skew, two ways across a continent.
pub const WINDOW: Duration = Duration::from_millis(50);
/// Packets that wait. Choice: 450 ms at 18 000 packets/s.
const HELD_MAX: usize = 8_192;
/// Bytes of them. Choice: 450 ms at 280 Mbit/s.
const HELD_BYTES_MAX: usize = 16 << 20;
/// Packets whose arrival is remembered, to know copies: twice what may wait.
const REMEMBERED: usize = 2 * HELD_MAX;
/// Another stream, or another place in it, is taken when the one that is followed has brought nothing new for
/// the window, and for so long at least. An encoder that restarts may repeat its old numbers.
const RESTART_AFTER: Duration = Duration::from_millis(100);

/// What has come by one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leg {
    /// Packets of the stream, copies among them.
    pub received: u64,
    /// Packets that this way has not brought, though it brought later ones.
    pub lost: u64,
    /// Packets that went on from here: the other way had not brought them yet, or never did.
    pub first: u64,
    /// Packets that came when their turn was over.
    pub late: u64,
    /// Datagrams that are no RTP, or of another stream.
    pub foreign: u64,
    /// How much later than by the other way its copies came, the last and the longest.
    pub behind: Duration,
    /// The longest of them.
    pub behind_max: Duration,
    /// Where this way is.
    highest: Option<u64>,
    /// Where it began.
    lowest: u64,
    /// What it has brought of the stream that is followed, each once.
    unique: u64,
}

/// What has become of the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Packets that went on.
    pub sent: u64,
    /// Packets that neither way has brought in time.
    pub lost: u64,
    /// How often the stream began anew.
    pub restarts: u64,
}

/// Makes one stream of two.
#[derive(Debug)]
pub struct Merger {
    window: Duration,
    stream: Option<Stream>,
    held: BTreeMap<u64, Vec<u8>>,
    held_bytes: usize,
    /// Those that are held, in the order in which they came, and when; others may be among them, not in front.
    waiting: VecDeque<(u64, Time)>,
    /// Which packet has come when, by its number modulo the length.
    arrived: Vec<Option<(u64, Time, u8)>>,
    legs: [Leg; LEGS],
    /// What may be the first packet of numbers that begin anew, of each way.
    again: [Option<Again>; LEGS],
    merged: Merged,
}

/// A packet that looks old or out of place, when nothing new has come for long.
#[derive(Debug)]
struct Again {
    /// With this number the next one follows it.
    next: u16,
    packet: Vec<u8>,
}

/// The stream that is followed.
#[derive(Clone, Copy, Debug)]
struct Stream {
    ssrc: u32,
    /// The number of the packet whose turn it is. Numbers do not wrap here.
    next: u64,
    /// When a way was last further than before. Copies of old packets do not count: numbers that begin anew
    /// look like them.
    advanced: Time,
}

impl Merger {
    /// Waits for a stream.
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

    /// What each way has brought.
    pub fn legs(&self) -> &[Leg; LEGS] {
        &self.legs
    }

    /// What has become of it.
    pub fn merged(&self) -> Merged {
        self.merged
    }

    /// Packets that wait.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// When a packet has waited for long enough.
    pub fn next_timeout(&self) -> Option<Time> {
        self.waiting.front().map(|(_, at)| *at + self.window)
    }

    /// A datagram has come by a way; `out` gets what goes on. Gives nothing up, however late it is: the other
    /// way's packets may be there too.
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

    /// Lets go what has waited for long enough.
    pub fn on_timeout(&mut self, now: Time, out: &mut impl FnMut(&[u8])) {
        while self.next_timeout().is_some_and(|at| at <= now) {
            self.give_up(out);
        }
    }

    /// The number of a packet in the stream; `None` if it is of another one.
    fn place(
        &mut self,
        now: Time,
        leg: usize,
        datagram: &[u8],
        (ssrc, seq): (u32, u16),
        out: &mut impl FnMut(&[u8]),
    ) -> Option<u64> {
        // Far from zero, so that there is a number before the first.
        let begins_at = (1 << 32) | u64::from(seq);
        let Some(stream) = &mut self.stream else {
            self.begin(now, ssrc, begins_at);
            return Some(begins_at);
        };
        let ahead = i64::from(seq.wrapping_sub(stream.next as u16).cast_signed());
        let is_near = (-(HELD_MAX as i64)..HELD_MAX as i64).contains(&ahead);
        let is_here = ssrc == stream.ssrc && is_near;
        let number = is_here.then(|| stream.next.wrapping_add_signed(ahead));
        // A way that has brought nothing yet is not behind by its first packet, but may be of another time.
        let before = self.legs[leg].highest.unwrap_or(stream.next - 1);
        let is_silent = now.since(stream.advanced) >= self.window.max(RESTART_AFTER);
        let first = self.again[leg].take();
        let first = first.filter(|first| is_silent && first.next == seq);
        // What is new to both ways goes on, whatever came before it.
        let goes_on = |number| number > before && (first.is_none() || number >= stream.next);
        if number.is_some_and(goes_on) {
            stream.advanced = now;
            return number;
        }
        if !is_silent {
            return number;
        }
        let is_other = ssrc != stream.ssrc;
        // One alone may be a copy that is late; two in order are a stream (RFC 3550 appendix A.1).
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
        // It was counted when it came.
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

    /// Counts a packet; true if it is the first copy, and its turn is not over.
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

    /// Sends a packet whose turn it is, and those that waited for it; holds another.
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

    /// Sends what waits and whose turn it is.
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

    /// What is missing before the first that waits is waited for no more.
    fn give_up(&mut self, out: &mut impl FnMut(&[u8])) {
        if let (Some(stream), Some((&first, _))) = (&mut self.stream, self.held.first_key_value()) {
            self.merged.lost += first - stream.next;
            stream.next = first;
        }
        self.drain(out);
    }
}

impl Leg {
    /// A packet came that this way had not brought before.
    fn advance(&mut self, number: u64) {
        let before = self.missing();
        if self.highest.is_none() {
            self.lowest = number;
        }
        self.lowest = self.lowest.min(number);
        self.highest = self.highest.max(Some(number));
        self.unique += 1;
        // What comes behind its successor was lost until now.
        self.lost = (self.lost + self.missing()).saturating_sub(before);
    }

    fn missing(&self) -> u64 {
        let span = self.highest.map_or(0, |highest| highest - self.lowest + 1);
        span.saturating_sub(self.unique)
    }
}
