//! The receiving half of a stream: puts bytes in order within bounded memory, and says how much more
//! may come.
//!
//! ```text
//!      consumed ........ delivered ........ next ..... ranges ..... edge
//!      by the application   to the host    contiguous   holes       nothing beyond is taken
//! ```
//!
//! The edge never goes back. The window grows while the application keeps up with it and memory
//! lasts, so that a long fat path is filled and an idle stream costs little.

use super::ranges::Ranges;
use super::ring::Ring;
use super::{Budget, Framing, ResetReason, WINDOW_MAX, WINDOW_START};
use base::{Duration, Time, seq};

/// Ranges that are kept at once, of 16 bytes each: the largest window with one loss in a dozen has
/// so many. A peer that sends every other byte gets no farther.
const RANGES_KEPT: usize = 16_384;
/// Bytes of the length before each message.
pub(crate) const LENGTH_BYTES: usize = 4;
/// The longest message, that of a datagram.
pub const MESSAGE_BYTES_MAX: usize = 65_507;

/// What became of a segment's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// They are next: so many bytes from this place of the segment on are the application's at once.
    InOrder {
        /// Bytes at the front that were here before.
        skip: usize,
        /// How many follow that are new.
        len: usize,
    },
    /// They are kept, or were here before.
    Kept,
    /// They lie beyond the edge, or there are too many holes.
    Refused,
}

/// The receiving half.
#[derive(Debug)]
pub(crate) struct Receiver {
    framing: Framing,
    ring: Ring,
    /// What has come beyond `next`.
    ranges: Ranges,
    /// All before has come.
    next: u64,
    /// All before has been delivered.
    delivered: u64,
    /// All before is used up.
    consumed: u64,
    window: u64,
    /// What the peer has been told at most.
    edge: u64,
    /// Where the stream ends, once known.
    end: Option<u64>,
    /// Since when the consumption of half a window is timed, and from where.
    mark: (Time, u64),
}

impl Receiver {
    pub(crate) fn new(now: Time, framing: Framing) -> Receiver {
        Receiver {
            framing,
            ring: Ring::default(),
            ranges: Ranges::default(),
            next: 0,
            delivered: 0,
            consumed: 0,
            window: WINDOW_START,
            edge: WINDOW_START,
            end: None,
            mark: (now, 0),
        }
    }

    /// What to acknowledge: the end counts as one.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.next + u64::from(self.has_ended())
    }

    /// Bytes beyond what is acknowledged that may come.
    pub(crate) fn window(&self) -> u32 {
        self.edge.saturating_sub(self.acknowledged()) as u32
    }

    /// What has come beyond, the lowest first.
    pub(crate) fn ranges(&self) -> impl ExactSizeIterator<Item = (u64, u64)> {
        self.ranges.iter()
    }

    /// Everything up to the end has come.
    pub(crate) fn has_ended(&self) -> bool {
        self.end == Some(self.next)
    }

    /// Everything up to the end has been delivered.
    pub(crate) fn is_finished(&self) -> bool {
        self.end == Some(self.delivered)
    }

    /// Bytes that have come in order.
    pub(crate) fn received(&self) -> u64 {
        self.next
    }

    /// Bytes that wait here and with the host.
    pub(crate) fn held(&self) -> u64 {
        self.next - self.consumed.min(self.next)
    }

    /// What the window takes of the node's memory beyond its start.
    pub(crate) fn charge(&self) -> u64 {
        self.window - WINDOW_START
    }

    /// Some of a segment's bytes lie beyond all that has come in order.
    pub(crate) fn lacks(&self, offset_low: u32, bytes: &[u8]) -> bool {
        let offset = seq::widen(offset_low.into(), 32, self.next);
        !bytes.is_empty() && offset + bytes.len() as u64 > self.next
    }

    /// Takes a segment's bytes, and the end if it stands behind them.
    pub(crate) fn on_segment(
        &mut self,
        offset_low: u32,
        bytes: &[u8],
        fin: bool,
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
        let at_once = self.framing == Framing::Bytes && self.delivered == self.next;
        if from == self.next && self.ranges.is_empty() && at_once {
            self.next = to;
            self.delivered = to;
            return Ok(Taken::InOrder { skip, len });
        }
        if from > self.next && self.ranges.len() >= RANGES_KEPT && !self.ranges.adjoins(from, to) {
            return Ok(Taken::Refused);
        }
        let high = self.ranges.last().map_or(self.next, |last| last.1);
        self.ring.reserve(self.delivered..high, to.max(high));
        self.ring.write(from, &bytes[skip..skip + len]);
        self.ranges.insert(from, to, |_, _| {});
        if let Some((first, last)) = self.ranges.first()
            && first <= self.next
        {
            self.next = last;
            self.ranges.trim_below(last);
        }
        Ok(Taken::Kept)
    }

    /// How many bytes can be delivered next: of one message, or of what there is.
    pub(crate) fn ready(&self) -> Result<Option<usize>, ResetReason> {
        let there = self.next - self.delivered;
        match self.framing {
            Framing::Bytes => Ok((there > 0).then_some(there as usize)),
            Framing::Messages => {
                if there < LENGTH_BYTES as u64 {
                    let cut = there > 0 && self.has_ended();
                    return if cut {
                        Err(ResetReason::Protocol)
                    } else {
                        Ok(None)
                    };
                }
                let mut length = [0; LENGTH_BYTES];
                self.ring.read(self.delivered, &mut length);
                let length = u32::from_be_bytes(length) as usize;
                if length == 0 || length > MESSAGE_BYTES_MAX {
                    return Err(ResetReason::Protocol);
                }
                let is_whole = (LENGTH_BYTES + length) as u64 <= there;
                if !is_whole && self.has_ended() {
                    return Err(ResetReason::Protocol);
                }
                Ok(is_whole.then_some(length))
            }
        }
    }

    /// Hands out the next bytes, as many as `out` takes, of those that [`Receiver::ready`] tells.
    pub(crate) fn deliver(&mut self, out: &mut [u8]) {
        if self.framing == Framing::Messages {
            self.delivered += LENGTH_BYTES as u64;
            self.consumed += LENGTH_BYTES as u64;
        }
        self.ring.read(self.delivered, out);
        self.delivered += out.len() as u64;
        if self.delivered == self.next && self.ranges.is_empty() && self.ring.capacity() > 1 << 20 {
            self.ring.clear();
        }
    }

    /// The application has taken so many bytes. Grows the window if it takes half of one within two
    /// round trips. True if the peer is to be told at once.
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
        // Small steps are told with the next acknowledgement: many of them would be one packet each.
        if edge < self.edge + self.window / 4 && before >= self.window / 4 {
            return false;
        }
        let moved = edge > self.edge;
        self.edge = self.edge.max(edge);
        moved
    }

    /// The edge that goes with an acknowledgement that is sent anyway.
    pub(crate) fn refresh_edge(&mut self) {
        self.edge = self.edge.max(self.consumed + self.window);
    }
}
