//! What waits to be sent, coalesced without delay.
//!
//! ```text
//!   push(A, 2x200) push(B, 1x200) push(A, 1x200) push(A, 1x90) push(A, 1x200)
//!   queue:  [ A 200: 200 200 | 200 | 90 ]  [ B 200 ]  [ A 200 ]
//!                                    `- short: nothing may follow in this message
//! ```
//!
//! Bursts that one iteration of the loop queues to the same destination become one message, sent
//! by one GSO call that gathers them where they lie. Packets that arrive one by one and leave by
//! the same link thus cross the kernel once. A burst only ever joins the *last* message of its
//! destination, so nothing overtakes within a destination.

use base::{Burst, UnderlayAddr};
use std::collections::VecDeque;

/// Datagrams in one GSO message (UDP_MAX_SEGMENTS of all kernels that know GSO).
pub const GSO_SEGMENTS_MAX: usize = 64;
/// Bytes in one message: 65 535 less the IPv4 and UDP headers.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;
/// Bytes that may wait: as much as the kernel buffers itself; 34 ms at 1 Gbit/s.
pub const QUEUE_BYTES_MAX: usize = 4 << 20;
/// Messages that may wait: [`QUEUE_BYTES_MAX`] in single datagrams of 1 KiB.
pub const QUEUE_MESSAGES_MAX: usize = QUEUE_BYTES_MAX / 1024;
/// How many messages back the last one of a destination is looked for. A node has some 8
/// neighbours; when the last message lies further back, a new one is begun, which is always right.
const LOOK_BACK: usize = 16;

/// Bursts that wait to be sent by one socket.
#[derive(Debug, Default)]
pub struct SendQueue {
    messages: VecDeque<Message>,
    bytes: usize,
    dropped: u64,
    /// Emptied lists, to be used again.
    spare: Vec<Vec<Burst>>,
}

/// One run of datagrams of equal size to one destination: what one GSO call sends.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) to: UnderlayAddr,
    /// In order; all of one stride, all but the last burst whole multiples of it.
    pub(super) bursts: Vec<Burst>,
    pub(super) stride: usize,
    pub(super) bytes: usize,
    pub(super) segments: usize,
    /// Datagrams at the front that are sent already, when they are sent one by one.
    pub(super) done: usize,
    /// The kernel refused the message as a whole: to be sent one by one.
    pub(super) singly: bool,
}

impl SendQueue {
    /// An empty queue.
    pub fn new() -> SendQueue {
        SendQueue::default()
    }

    /// Queues the datagrams of `burst` behind all earlier ones to `to`. When the queue is full
    /// they are dropped and counted; false then.
    pub fn push(&mut self, to: UnderlayAddr, mut burst: Burst) -> bool {
        let mut all = true;
        while !burst.is_empty() {
            let fit = (DATAGRAM_BYTES_MAX / burst.stride()).clamp(1, GSO_SEGMENTS_MAX);
            if burst.segments() > fit {
                all &= self.push_message(to, burst.split_front(fit));
            } else {
                return self.push_message(to, burst) && all;
            }
        }
        all
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Messages that wait.
    pub fn messages(&self) -> usize {
        self.messages.len()
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Datagrams dropped so far because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Drops everything that waits, uncounted.
    pub fn clear(&mut self) {
        while !self.messages.is_empty() {
            self.pop();
        }
    }

    fn push_message(&mut self, to: UnderlayAddr, burst: Burst) -> bool {
        if self.bytes + burst.len() > QUEUE_BYTES_MAX {
            self.dropped += burst.segments() as u64;
            return false;
        }
        let last = self.messages.iter_mut().rev().take(LOOK_BACK);
        if let Some(message) = last.into_iter().find(|message| message.to == to)
            && message.admits(&burst)
        {
            self.bytes += burst.len();
            message.take(burst);
            return true;
        }
        if self.messages.len() == QUEUE_MESSAGES_MAX {
            self.dropped += burst.segments() as u64;
            return false;
        }
        self.bytes += burst.len();
        let mut message = Message {
            to,
            bursts: self.spare.pop().unwrap_or_default(),
            stride: burst.stride(),
            bytes: 0,
            segments: 0,
            done: 0,
            singly: false,
        };
        message.take(burst);
        self.messages.push_back(message);
        true
    }

    pub(super) fn front_mut(&mut self) -> Option<&mut Message> {
        self.messages.front_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Message> {
        self.messages.iter()
    }

    /// Removes the front message: it is sent, or lost.
    pub(super) fn pop(&mut self) {
        if let Some(mut message) = self.messages.pop_front() {
            self.bytes -= message.bytes;
            message.bursts.clear();
            self.spare.push(message.bursts);
        }
    }
}

impl Message {
    /// The burst can follow in the same message: all of full stride so far, and not too much.
    fn admits(&self, burst: &Burst) -> bool {
        let equal = burst.stride() == self.stride
            || (burst.segments() == 1 && burst.stride() < self.stride);
        equal
            && self.bytes == self.segments * self.stride
            && self.segments + burst.segments() <= GSO_SEGMENTS_MAX
            && self.bytes + burst.len() <= DATAGRAM_BYTES_MAX
    }

    fn take(&mut self, burst: Burst) {
        self.bytes += burst.len();
        self.segments += burst.segments();
        self.bursts.push(burst);
    }

    /// Datagrams not sent yet, in order.
    pub(super) fn rest(&self) -> impl Iterator<Item = &[u8]> {
        self.bursts
            .iter()
            .flat_map(|burst| burst.bytes().chunks(burst.stride()))
            .skip(self.done)
    }
}
