//! How far a source may send: [`WINDOW_BYTES`] beyond what the slowest of its sinks has written, in at most
//! [`FRAMES_MAX`] frames.

use crate::{FRAMES_MAX, WINDOW_BYTES};
use base::NodeAddr;
use std::collections::{BTreeMap, VecDeque};

/// The sinks' acknowledgements.
#[derive(Debug)]
pub struct Window {
    acked: BTreeMap<NodeAddr, u64>,
    sinks: usize,
    sent: u64,
    /// Ends of the frames that not all sinks have written.
    ends: VecDeque<u64>,
}

/// A sink acknowledges bytes that were not sent, or there are more sinks than the route has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a sink acknowledges what was not sent: run one version on all nodes")]
pub struct BadAck;

impl Window {
    /// Creates the window of a transfer to this many sinks, which have written nothing of the stream.
    pub fn new(sinks: usize) -> Window {
        Window {
            acked: BTreeMap::new(),
            sinks,
            sent: 0,
            ends: VecDeque::new(),
        }
    }

    /// Returns how many bytes may be sent now, in one frame.
    pub fn room(&self) -> u64 {
        if self.ends.len() >= FRAMES_MAX {
            return 0;
        }
        (self.acked() + WINDOW_BYTES).saturating_sub(self.sent)
    }

    /// Notes that a frame of this many bytes has been sent.
    pub fn on_sent(&mut self, bytes: u64) {
        self.sent += bytes;
        self.ends.push_back(self.sent);
    }

    /// Returns how many bytes have been sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns how many bytes all sinks have written.
    pub fn acked(&self) -> u64 {
        if self.acked.len() < self.sinks {
            return 0;
        }
        self.acked.values().copied().min().unwrap_or(self.sent)
    }

    /// Notes that a sink has written all bytes before `offset`. Acknowledgements of one sink arrive in order.
    pub fn on_ack(&mut self, from: NodeAddr, offset: u64) -> Result<(), BadAck> {
        let is_new = !self.acked.contains_key(&from);
        if offset > self.sent || (is_new && self.acked.len() == self.sinks) {
            return Err(BadAck);
        }
        let acked = self.acked.entry(from).or_default();
        *acked = offset.max(*acked);
        let everywhere = self.acked();
        while self.ends.front().is_some_and(|end| *end <= everywhere) {
            self.ends.pop_front();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_sink_governs() {
        let (a, b) = (NodeAddr(1), NodeAddr(2));
        let mut w = Window::new(2);
        assert_eq!(w.room(), WINDOW_BYTES);
        w.on_sent(WINDOW_BYTES);
        assert_eq!(w.room(), 0);
        w.on_ack(a, 500).unwrap();
        assert_eq!((w.room(), w.acked()), (0, 0));
        w.on_ack(b, 300).unwrap();
        assert_eq!((w.room(), w.acked()), (300, 300));
        w.on_ack(b, 700).unwrap();
        assert_eq!(w.room(), 500);
        assert_eq!(w.on_ack(b, WINDOW_BYTES + 1), Err(BadAck));
        assert_eq!(w.on_ack(NodeAddr(3), 1), Err(BadAck));
    }

    #[test]
    fn tiny_frames_are_bounded_by_their_number() {
        let mut w = Window::new(1);
        let frames = (0..=FRAMES_MAX).take_while(|_| {
            let has_room = w.room() > 0;
            w.on_sent(u64::from(has_room));
            has_room
        });
        assert_eq!(frames.count(), FRAMES_MAX);
        w.on_ack(NodeAddr(1), 3).unwrap();
        assert!(w.room() > 0);
    }
}
