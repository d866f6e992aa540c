//! Messages that expire: what waits for its first transmission, and which places each has in the
//! stream. [Papadimitriou06 §6]
//!
//! ```text
//!   write ─▶ waiting ── when the window lets it leave ─▶ placed ─▶ acknowledged
//!               │ its lifetime is over                     │ lost, and a repetition would be too late
//!               ▼                                          ▼
//!             never sent: its number is left out         expired: its places are told, not sent again
//! ```
//!
//! A message gets its places when it leaves, so that one which has expired before costs the peer
//! nothing. One that has left is given up only when it would have to be sent again: before, it may
//! well have arrived. One that has left in part is told as expired with all its places: the receiver
//! finds the next one behind them whatever comes first.

use super::Sender;
use crate::stream::Chunk;
use crate::stream::receiver::NUMBERED_BYTES;
use base::{Duration, Time};
use std::collections::VecDeque;
use wire::transport::Range;

/// What a message costs in the node beside its bytes: tiny ones would fill the memory otherwise.
const MESSAGE_COST: u64 = 64;
/// Nothing is to be told.
const NOTHING: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Waiting {
    len: usize,
    expires: Time,
}

#[derive(Clone, Copy, Debug)]
struct Placed {
    from: u64,
    to: u64,
    expires: Time,
    expired: bool,
}

/// The messages of one direction.
#[derive(Debug)]
pub(super) struct Messages {
    /// None if those of this end do not expire.
    lifetime: Option<Duration>,
    written: u64,
    /// How many there were stands behind the last.
    ended: bool,
    waiting: VecDeque<Waiting>,
    bytes: VecDeque<u8>,
    placed: VecDeque<Placed>,
    given_up: u64,
    /// What has expired from this place on is to be told.
    untold: u64,
}

impl Messages {
    pub(super) fn new(lifetime: Option<Duration>) -> Messages {
        Messages {
            lifetime,
            written: 0,
            ended: false,
            waiting: VecDeque::new(),
            bytes: VecDeque::new(),
            placed: VecDeque::new(),
            given_up: 0,
            untold: NOTHING,
        }
    }

    pub(super) fn write(&mut self, now: Time, bytes: &[u8]) {
        self.written += 1;
        self.bytes.extend(bytes);
        self.waiting.push_back(Waiting {
            len: bytes.len(),
            expires: self.lifetime.map_or(Time::FAR, |lifetime| now + lifetime),
        });
    }

    /// Bytes that wait for their first transmission, as they will stand in the stream.
    pub(super) fn waiting_bytes(&self) -> u64 {
        (self.bytes.len() + self.waiting.len() * NUMBERED_BYTES) as u64
    }

    /// What all that is here takes beside its bytes.
    pub(super) fn cost(&self) -> u64 {
        (self.waiting.len() + self.placed.len()) as u64 * MESSAGE_COST
    }

    pub(super) fn given_up(&self) -> u64 {
        self.given_up
    }

    /// When the next one expires of those that wait.
    pub(super) fn expires_at(&self) -> Option<Time> {
        let first = self.waiting.front()?;
        (first.expires != Time::FAR).then_some(first.expires)
    }

    /// Gives up what has waited too long.
    pub(super) fn drop_expired(&mut self, now: Time) {
        while let Some(first) = self.waiting.front().filter(|first| first.expires <= now) {
            self.bytes.drain(..first.len);
            self.waiting.pop_front();
            self.given_up += 1;
        }
    }

    /// All before `place` has arrived.
    pub(super) fn on_acknowledged(&mut self, place: u64) {
        while self.placed.front().is_some_and(|first| first.to <= place) {
            self.placed.pop_front();
        }
    }

    /// The message of which `next` is a part, or the next one, is given up, if its lifetime is over and the
    /// peer takes nothing beyond `edge`. Where it ends.
    fn give_up_next(&mut self, now: Time, next: u64, edge: u64) -> Option<u64> {
        let at = self.placed.partition_point(|placed| placed.to <= next);
        let placed = self.placed.get_mut(at)?;
        if placed.from > next || placed.expires > now || placed.to > edge {
            return None;
        }
        placed.expired = true;
        self.given_up += 1;
        self.untold = self.untold.min(placed.from);
        Some(placed.to)
    }

    /// What is still to be sent of a chunk that has to be sent again, and would be there when it `arrives`;
    /// nothing was sent from `next` on.
    fn alive(&mut self, chunk: Chunk, next: u64, arrives: Time) -> Option<Chunk> {
        if chunk.len == 0 {
            return Some(chunk);
        }
        let (mut from, mut to) = (chunk.offset, chunk.offset + u64::from(chunk.len));
        let first = self.placed.partition_point(|placed| placed.to <= from);
        let last = self.placed.partition_point(|placed| placed.from < to);
        for placed in self.placed.range_mut(first..last) {
            if placed.expires < arrives && !placed.expired && placed.to <= next {
                placed.expired = true;
                self.given_up += 1;
            }
            if placed.expired {
                self.untold = self.untold.min(placed.from);
            }
        }
        let expired = self
            .placed
            .range(first..last)
            .filter(|placed| placed.expired);
        for placed in expired.clone() {
            from = if placed.from <= from { placed.to } else { from };
        }
        for placed in expired.rev() {
            to = if placed.to >= to { placed.from } else { to };
        }
        (from < to).then(|| Chunk {
            offset: from,
            len: (to - from) as u32,
            ..chunk
        })
    }

    fn tell(&mut self, out: &mut [Range]) -> usize {
        let first = self
            .placed
            .partition_point(|placed| placed.to <= self.untold);
        self.untold = NOTHING;
        let mut end = NOTHING;
        let mut count = 0;
        for placed in self.placed.range(first..).filter(|placed| placed.expired) {
            if placed.from == end {
                out[count - 1].1 = placed.to as u32;
            } else if let Some(place) = out.get_mut(count) {
                *place = (placed.from as u32, placed.to as u32);
                count += 1;
            } else {
                self.untold = placed.from;
                break;
            }
            end = placed.to;
        }
        count
    }
}

impl Sender {
    /// Messages that were given up, as far as this end knows: one of which only the acknowledgement was
    /// lost has arrived all the same.
    pub(crate) fn given_up(&self) -> u64 {
        self.messages.as_ref().map_or(0, |m| m.given_up())
    }

    /// The peer is to be told what has expired.
    pub(crate) fn expired_due(&self) -> bool {
        self.messages.as_ref().is_some_and(|m| m.untold != NOTHING)
    }

    /// Places of what has expired, to stand in a segment of their own; call again while
    /// [`Sender::expired_due`].
    pub(crate) fn expired(&mut self, out: &mut [Range]) -> usize {
        self.messages.as_mut().map_or(0, |m| m.tell(out))
    }

    /// Bytes that wait for their first transmission and have no place yet.
    pub(super) fn waiting(&self) -> u64 {
        self.messages.as_ref().map_or(0, |m| m.waiting_bytes())
    }

    /// What is still to be sent of a chunk that has to be sent again.
    pub(super) fn alive(&mut self, now: Time, chunk: Chunk) -> Option<Chunk> {
        let one_way = self.rtt.smoothed().unwrap_or(Duration::ZERO).div(2);
        self.pass_expired(now, now + one_way);
        match &mut self.messages {
            Some(messages) => messages.alive(chunk, self.next, now + one_way),
            None => Some(chunk),
        }
    }

    /// Passes over what would be too late when it `arrives`: it has places, but its bytes do not leave.
    fn pass_expired(&mut self, now: Time, arrives: Time) {
        let Some(messages) = &mut self.messages else {
            return;
        };
        while !self.board.is_full()
            && let Some(to) = messages.give_up_next(arrives, self.next, self.edge)
        {
            let chunk = Chunk {
                offset: self.next,
                len: (to - self.next) as u32,
                fin: false,
                expired: true,
            };
            self.board.on_sent(now, chunk);
            self.next = to;
        }
    }

    /// Gives messages their places, as many as fill the next segment, if the peer takes one.
    pub(super) fn place_messages(&mut self, now: Time) {
        self.pass_expired(now, now);
        let Some(mut messages) = self.messages.take_if(|_| !self.fin_sent) else {
            return;
        };
        messages.drop_expired(now);
        while self.end - self.next < self.fit
            && self.edge > self.next
            && let Some(first) = messages.waiting.pop_front()
        {
            let number = messages.written - messages.waiting.len() as u64 - 1;
            let from = self.end;
            self.append_numbered(number, first.len);
            let (a, b) = messages.bytes.as_slices();
            let split = a.len().min(first.len);
            self.append(&a[..split]);
            self.append(&b[..first.len - split]);
            messages.bytes.drain(..first.len);
            messages.placed.push_back(Placed {
                from,
                to: self.end,
                expires: first.expires,
                expired: false,
            });
        }
        if self.finished && messages.waiting.is_empty() && !messages.ended {
            // If the last ones expire there is no later number that tells.
            messages.ended = true;
            self.append_numbered(messages.written, 0);
        }
        self.messages = Some(messages);
    }

    fn append_numbered(&mut self, number: u64, len: usize) {
        let mut header = [0; NUMBERED_BYTES];
        header[..4].copy_from_slice(&(number as u32).to_be_bytes());
        header[4..].copy_from_slice(&(len as u16).to_be_bytes());
        self.append(&header);
    }
}
