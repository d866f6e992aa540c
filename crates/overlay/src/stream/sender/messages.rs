//! Messages that expire: those that wait for their first transmission, and the places of the others in the stream.
//! [Papadimitriou06 §6]
//!
//! ```text
//!   write ─▶ waiting ── when the window lets it leave ─▶ placed ─▶ acknowledged
//!               │ its lifetime is over                     │ lost, and a repetition would be too late
//!               ▼                                          ▼
//!             never sent: its number is left out         expired: its places are told, not sent again
//! ```
//!
//! A message gets its places when it leaves, so that a message that expires earlier costs the peer nothing. A message
//! that has left is given up only when it would have to be sent again: before that, it may well have arrived. If a
//! message has left only in part, the sender reports all its places as expired, so that the receiver finds the next
//! message behind them whatever comes first.

use super::Sender;
use crate::stream::Chunk;
use crate::stream::receiver::NUMBERED_BYTES;
use base::{Duration, Time};
use std::collections::VecDeque;
use wire::transport::Range;

/// The memory that a message counts for in addition to its bytes. Otherwise tiny messages would fill the memory.
const MESSAGE_COST: u64 = 64;
/// Marks that nothing is to be reported.
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
    /// None if the messages of this end do not expire.
    lifetime: Option<Duration>,
    written: u64,
    /// The number of messages was written behind the last one.
    ended: bool,
    waiting: VecDeque<Waiting>,
    bytes: VecDeque<u8>,
    placed: VecDeque<Placed>,
    given_up: u64,
    /// The place from which on expired messages are still to be reported.
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

    /// Returns the bytes that wait for their first transmission, with their headers in the stream.
    pub(super) fn waiting_bytes(&self) -> u64 {
        (self.bytes.len() + self.waiting.len() * NUMBERED_BYTES) as u64
    }

    /// Returns the memory that all messages here count for in addition to their bytes.
    pub(super) fn cost(&self) -> u64 {
        (self.waiting.len() + self.placed.len()) as u64 * MESSAGE_COST
    }

    pub(super) fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Returns when the next waiting message expires.
    pub(super) fn expires_at(&self) -> Option<Time> {
        let first = self.waiting.front()?;
        (first.expires != Time::FAR).then_some(first.expires)
    }

    /// Gives up messages that have waited too long.
    pub(super) fn drop_expired(&mut self, now: Time) {
        while let Some(first) = self.waiting.front().filter(|first| first.expires <= now) {
            self.bytes.drain(..first.len);
            self.waiting.pop_front();
            self.given_up += 1;
        }
    }

    /// Takes in that all before `place` has arrived.
    pub(super) fn on_acknowledged(&mut self, place: u64) {
        while self.placed.front().is_some_and(|first| first.to <= place) {
            self.placed.pop_front();
        }
    }

    /// Gives up the message that contains the place `next`, if its lifetime is over and it ends within `edge`, beyond
    /// which the peer takes nothing. Returns where the message ends.
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

    /// Returns the part of a chunk that still has to be sent again, if it would arrive at `arrives`; nothing was sent
    /// from `next` on.
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
    /// Returns the number of messages that were given up. If only the acknowledgement of one was lost, the message has
    /// arrived all the same.
    pub(crate) fn given_up(&self) -> u64 {
        self.messages.as_ref().map_or(0, |m| m.given_up())
    }

    /// Whether the peer is to be told what has expired.
    pub(crate) fn expired_due(&self) -> bool {
        self.messages.as_ref().is_some_and(|m| m.untold != NOTHING)
    }

    /// Writes the places of expired messages, for a segment of their own. Call again while [`Sender::expired_due`].
    pub(crate) fn expired(&mut self, out: &mut [Range]) -> usize {
        self.messages.as_mut().map_or(0, |m| m.tell(out))
    }

    /// Returns the bytes that wait for their first transmission and have no place yet.
    pub(super) fn waiting(&self) -> u64 {
        self.messages.as_ref().map_or(0, |m| m.waiting_bytes())
    }

    /// Returns the part of a chunk that still has to be sent again.
    pub(super) fn alive(&mut self, now: Time, chunk: Chunk) -> Option<Chunk> {
        let one_way = self.rtt.smoothed().unwrap_or(Duration::ZERO).div(2);
        self.pass_expired(now, now + one_way);
        match &mut self.messages {
            Some(messages) => messages.alive(chunk, self.next, now + one_way),
            None => Some(chunk),
        }
    }

    /// Skips messages that would be too late when they arrive at `arrives`: they have places, but their bytes do not
    /// leave.
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

    /// Gives as many messages their places as fill the next segment, if the peer takes one.
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
            // If the last messages expire, no later message has a number that shows it.
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
