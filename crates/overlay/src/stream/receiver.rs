//! The receiving half of a stream: it puts bytes in order within bounded memory, and says how much more may come.
//!
//! ```text
//!      consumed ........ delivered ........ next ..... ranges ..... edge
//!      by the application   to the host    contiguous   holes       nothing beyond is taken
//! ```
//!
//! The edge never moves back. The window grows while the application keeps up with it and memory is left, so that a
//! fast path with a long round trip is filled and an idle stream costs little.
//!
//! Places of messages that the peer has given up count as received, but their bytes are not delivered. The numbers of
//! the messages show how many were missed.

use super::ranges::Ranges;
use super::ring::Ring;
use super::{Budget, Content, ResetReason, WINDOW_MAX, WINDOW_START};
use base::{Duration, Time, seq};

/// The most ranges that are kept, of 16 bytes each: the largest window with one loss in a dozen needs this many. A peer
/// that sends every other byte gets no farther.
pub(super) const RANGES_KEPT: usize = 16_384;
/// The bytes of the length field before each message.
pub(crate) const LENGTH_BYTES: usize = 4;
/// The bytes of the number and the length before each message that expires.
pub(crate) const NUMBERED_BYTES: usize = 6;
/// The longest message, in bytes: that of a datagram.
pub const MESSAGE_BYTES_MAX: usize = 65_507;

/// How a segment's bytes were treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// They are next in order: so many bytes from this place of the segment on go to the application at once.
    InOrder {
        /// The number of bytes at the front that had arrived before.
        skip: usize,
        /// The number of new bytes that follow.
        len: usize,
    },
    /// They are kept, or had arrived before.
    Kept,
    /// They lie beyond the edge, or there are too many holes.
    Refused,
}

/// The receiving half.
#[derive(Debug)]
pub(crate) struct Receiver {
    content: Content,
    ring: Ring,
    /// The ranges that have come beyond `next`.
    ranges: Ranges,
    /// The places that the peer has given up, from `delivered` on.
    expired: Ranges,
    /// The number of the next message, and how many messages were missed before.
    number: u64,
    missed: u64,
    /// All bytes before this place have come.
    next: u64,
    /// All bytes before this place have been delivered.
    delivered: u64,
    /// The application has taken all bytes before this place.
    consumed: u64,
    window: u64,
    /// The highest edge that the peer was told.
    edge: u64,
    /// Where the stream ends, once that is known.
    end: Option<u64>,
    /// When the measurement of how fast half a window is consumed began, and at which place.
    mark: (Time, u64),
}

impl Receiver {
    pub(crate) fn new(now: Time, content: Content) -> Receiver {
        Receiver {
            content,
            ring: Ring::default(),
            ranges: Ranges::default(),
            expired: Ranges::default(),
            number: 0,
            missed: 0,
            next: 0,
            delivered: 0,
            consumed: 0,
            window: WINDOW_START,
            edge: WINDOW_START,
            end: None,
            mark: (now, 0),
        }
    }

    /// Returns the place to acknowledge; the end counts as one.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.next + u64::from(self.has_ended())
    }

    /// Returns how many bytes may come beyond what is acknowledged.
    pub(crate) fn window(&self) -> u32 {
        self.edge.saturating_sub(self.acknowledged()) as u32
    }

    /// Returns the ranges that have come beyond, the lowest first.
    pub(crate) fn ranges(&self) -> impl ExactSizeIterator<Item = (u64, u64)> {
        self.ranges.iter()
    }

    /// Whether everything up to the end has come.
    pub(crate) fn has_ended(&self) -> bool {
        self.end == Some(self.next)
    }

    /// Whether everything up to the end has been delivered.
    pub(crate) fn is_finished(&self) -> bool {
        self.end == Some(self.delivered)
    }

    /// Returns the number of bytes that have come in order.
    pub(crate) fn received(&self) -> u64 {
        self.next
    }

    /// Returns the number of bytes that wait here and at the host.
    pub(crate) fn held(&self) -> u64 {
        self.next - self.consumed.min(self.next)
    }

    /// Returns the memory that the window takes beyond its first size.
    pub(crate) fn charge(&self) -> u64 {
        self.window - WINDOW_START
    }

    /// Whether some of a segment's bytes lie beyond all that has come in order.
    pub(crate) fn lacks(&self, offset_low: u32, bytes: &[u8]) -> bool {
        let offset = seq::widen(offset_low.into(), 32, self.next);
        !bytes.is_empty() && offset + bytes.len() as u64 > self.next
    }

    /// Takes a segment's bytes, and the end if it follows them.
    pub(crate) fn on_segment(
        &mut self,
        offset_low: u32,
        bytes: &[u8],
        fin: bool,
    ) -> Result<Taken, ResetReason> {
        self.take(offset_low, bytes, fin, self.content == Content::Bytes)
    }

    /// Does the same while no client has accepted yet: the bytes are only kept.
    pub(crate) fn keep_segment(
        &mut self,
        offset_low: u32,
        bytes: &[u8],
        fin: bool,
    ) -> Result<Taken, ResetReason> {
        self.take(offset_low, bytes, fin, false)
    }

    fn take(
        &mut self,
        offset_low: u32,
        bytes: &[u8],
        fin: bool,
        hands_over: bool,
    ) -> Result<Taken, ResetReason> {
        let offset = seq::widen(offset_low.into(), 32, self.next);
        let end = offset + bytes.len() as u64;
        if fin {
            let known = self.end.is_some_and(|known| known != end);
            let behind = self.ranges.last().is_some_and(|last| last.1 > end);
            if known || behind || end < self.next {
                return Err(ResetReason::Protocol);
            }
            if end <= self.edge {
                self.end = Some(end);
            }
        }
        if self.end.is_some_and(|known| end > known) {
            return Err(ResetReason::Protocol);
        }
        let (from, to) = (offset.max(self.next), end.min(self.edge));
        if from >= to {
            let beyond = end > self.edge;
            return Ok(if beyond { Taken::Refused } else { Taken::Kept });
        }
        let skip = (from - offset) as usize;
        let len = (to - from) as usize;
        let at_once = hands_over && self.delivered == self.next;
        if from == self.next && self.ranges.is_empty() && at_once {
            self.next = to;
            self.delivered = to;
            return Ok(Taken::InOrder { skip, len });
        }
        if from > self.next && self.ranges.len() >= RANGES_KEPT && !self.ranges.adjoins(from, to) {
            return Ok(Taken::Refused);
        }
        self.keep(from, to);
        self.ring.write(from, &bytes[skip..skip + len]);
        Ok(Taken::Kept)
    }

    /// Makes room for a range that has come, and counts it as received.
    fn keep(&mut self, from: u64, to: u64) {
        let high = self.ranges.last().map_or(self.next, |last| last.1);
        self.ring.reserve(self.delivered..high, to.max(high));
        self.ranges.insert(from, to, |_, _| {});
        if let Some((first, last)) = self.ranges.first()
            && first <= self.next
        {
            self.next = last;
            self.ranges.trim_below(last);
        }
    }

    /// Returns the number of the peer's messages that were missed, as far as the delivered ones show.
    pub(crate) fn missed(&self) -> u64 {
        self.missed
    }

    /// Takes in that the peer has given up these places. Returns false if that is impossible.
    pub(crate) fn on_expired(&mut self, (from, to): (u32, u32)) -> bool {
        let widen = |low: u32| seq::widen(low.into(), 32, self.next);
        let (from, to) = (widen(from), widen(to));
        let beyond = self.end.is_some_and(|end| to > end) || to > self.edge;
        if self.content != Content::Expiring || from >= to || beyond {
            return false;
        }
        let from = from.max(self.delivered);
        if from >= to {
            // The message was delivered, and the peer did not know that.
            return true;
        }
        let is_full = |all: &Ranges| all.len() >= RANGES_KEPT && !all.adjoins(from, to);
        if is_full(&self.expired) || is_full(&self.ranges) {
            // The peer will repeat this.
            return true;
        }
        self.expired.insert(from, to, |_, _| {});
        if to > self.next {
            self.keep(from.max(self.next), to);
        }
        true
    }

    /// Skips the places that have expired.
    fn pass_expired(&mut self) {
        while let Some((from, to)) = self.expired.first()
            && from <= self.delivered
        {
            self.pass(to - self.delivered);
            self.expired.trim_below(self.delivered);
        }
    }

    /// Skips the next bytes, which are not for the application.
    fn pass(&mut self, bytes: u64) {
        self.delivered += bytes;
        self.consumed += bytes;
    }

    /// Returns how many bytes can be delivered next: those of one message, or all that have come.
    pub(crate) fn ready(&mut self) -> Result<Option<usize>, ResetReason> {
        if self.content == Content::Bytes {
            let there = self.next - self.delivered;
            return Ok((there > 0).then_some(there as usize));
        }
        loop {
            self.pass_expired();
            let there = self.next - self.delivered;
            let before = self.before();
            if there < before as u64 {
                let cut = there > 0 && self.has_ended();
                return if cut {
                    Err(ResetReason::Protocol)
                } else {
                    Ok(None)
                };
            }
            let (number, length) = self.read_header();
            if number < self.number || length > MESSAGE_BYTES_MAX {
                return Err(ResetReason::Protocol);
            }
            if length == 0 {
                if self.content != Content::Expiring {
                    return Err(ResetReason::Protocol);
                }
                self.missed += number - self.number;
                self.number = number;
                self.pass(before as u64);
                continue;
            }
            let is_whole = (before + length) as u64 <= there;
            if !is_whole && self.has_ended() {
                return Err(ResetReason::Protocol);
            }
            return Ok(is_whole.then_some(length));
        }
    }

    /// Returns the bytes of the header before each message.
    fn before(&self) -> usize {
        match self.content {
            Content::Bytes => 0,
            Content::Messages => LENGTH_BYTES,
            Content::Expiring => NUMBERED_BYTES,
        }
    }

    /// Returns the number and the length of the next message.
    fn read_header(&self) -> (u64, usize) {
        if self.content != Content::Expiring {
            let mut length = [0; LENGTH_BYTES];
            self.ring.read(self.delivered, &mut length);
            return (self.number, u32::from_be_bytes(length) as usize);
        }
        let mut header = [0; NUMBERED_BYTES];
        self.ring.read(self.delivered, &mut header);
        let [a, b, c, d, high, low] = header;
        let number = u32::from_be_bytes([a, b, c, d]);
        let number = seq::widen(number.into(), 32, self.number);
        (number, u16::from_be_bytes([high, low]).into())
    }

    /// Hands out the next bytes, as many as `out` takes, of those that [`Receiver::ready`] has reported.
    pub(crate) fn deliver(&mut self, out: &mut [u8]) {
        if self.content != Content::Bytes {
            let (number, _) = self.read_header();
            self.missed += number - self.number;
            self.number = number + 1;
            self.pass(self.before() as u64);
        }
        self.ring.read(self.delivered, out);
        self.delivered += out.len() as u64;
        if self.delivered == self.next && self.ranges.is_empty() && self.ring.capacity() > 1 << 20 {
            self.ring.clear();
        }
    }

    /// Takes in that the application has taken so many bytes. Doubles the window if the application takes half of it
    /// within two round trips. Returns true if the peer is to be told at once.
    pub(crate) fn on_consumed(
        &mut self,
        now: Time,
        bytes: u32,
        rtt: Option<Duration>,
        budget: &mut Budget,
    ) -> bool {
        self.consumed = (self.consumed + u64::from(bytes)).min(self.delivered);
        if self.consumed - self.mark.1 >= self.window / 2 {
            let quick = rtt.is_some_and(|rtt| now.since(self.mark.0) < rtt * 2);
            if quick && self.window < WINDOW_MAX && budget.take(self.window) {
                self.window *= 2;
            }
            self.mark = (now, self.consumed);
        }
        let before = self.edge.saturating_sub(self.next);
        let edge = self.consumed + self.window;
        // Small steps go with the next acknowledgement: otherwise each would need a packet.
        if edge < self.edge + self.window / 4 && before >= self.window / 4 {
            return false;
        }
        let moved = edge > self.edge;
        self.edge = self.edge.max(edge);
        moved
    }

    /// Moves the edge forward for an acknowledgement that is sent anyway.
    pub(crate) fn refresh_edge(&mut self) {
        self.edge = self.edge.max(self.consumed + self.window);
    }
}
