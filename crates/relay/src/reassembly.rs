//! Puts a sink's frames in order again. [Liu04 §III-C: the receiver reassembles the data of parallel connections]
//!
//! Connections lose nothing and repeat nothing. Therefore, if a frame overlaps another one, or lies beyond the window,
//! the sender violates the format: this is an error.

use crate::{FRAME_COST_BYTES, FRAMES_MAX, QUEUE_BYTES, WINDOW_BYTES};
use std::collections::BTreeMap;

/// Frames that wait for earlier ones.
#[derive(Debug)]
pub struct Reassembly {
    /// Connections that have not ended.
    open: usize,
    waiting: BTreeMap<u64, Vec<u8>>,
    held: usize,
    /// Bytes that have arrived.
    came: u64,
    next: u64,
    end: Option<u64>,
}

/// Why a frame is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misplaced {
    /// Some of its bytes have already arrived.
    #[error("the same bytes have come twice: run one version on all nodes")]
    Twice,
    /// It is further ahead than a source may be.
    #[error("bytes from beyond the window: run one version on all nodes")]
    Beyond,
    /// More frames are ahead than a source may have under way.
    #[error("more frames are under way than may be: run one version on all nodes")]
    TooMany,
    /// It lies behind the end, or two connections disagree about the end.
    #[error("the end of the stream is told differently: run one version on all nodes")]
    End,
}

impl Reassembly {
    /// Expects frames from this many connections, at least one.
    pub fn new(connections: usize) -> Reassembly {
        Reassembly {
            open: connections,
            waiting: BTreeMap::new(),
            held: 0,
            came: 0,
            next: 0,
            end: None,
        }
    }

    /// Returns the offset of the first byte that has not been taken.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Returns the bytes that wait, including [`FRAME_COST_BYTES`] for each frame.
    pub fn held(&self) -> usize {
        self.held + self.waiting.len() * FRAME_COST_BYTES
    }

    /// Returns true if a connection may insert a frame. While the next frame is missing there is always room, so that
    /// the connection that has the missing frame never waits.
    pub fn has_room(&self) -> bool {
        self.held() < QUEUE_BYTES || !self.is_ready()
    }

    /// Inserts a frame.
    pub fn insert(&mut self, offset: u64, bytes: Vec<u8>) -> Result<(), Misplaced> {
        let past = offset + bytes.len() as u64;
        if past > self.next + WINDOW_BYTES {
            return Err(Misplaced::Beyond);
        }
        if self.waiting.len() >= FRAMES_MAX && offset != self.next {
            return Err(Misplaced::TooMany);
        }
        if self.end.is_some_and(|end| past > end) {
            return Err(Misplaced::End);
        }
        let before = self.waiting.range(..past).next_back();
        let overlaps = before.is_some_and(|(at, frame)| at + frame.len() as u64 > offset);
        if offset < self.next || overlaps {
            return Err(Misplaced::Twice);
        }
        self.held += bytes.len();
        self.came += bytes.len() as u64;
        self.waiting.insert(offset, bytes);
        Ok(())
    }

    /// Notes that a connection has ended, and that the stream is so long.
    pub fn on_end(&mut self, end: u64) -> Result<(), Misplaced> {
        let last = self.waiting.last_key_value();
        let past = last.map_or(self.next, |(at, frame)| at + frame.len() as u64);
        if end < past || self.end.is_some_and(|told| told != end) {
            return Err(Misplaced::End);
        }
        // When the last connection has ended, missing bytes can no longer arrive.
        self.open = self.open.saturating_sub(1);
        if self.open == 0 && self.came != end {
            return Err(Misplaced::End);
        }
        self.end = Some(end);
        Ok(())
    }

    /// Returns the next frame in order, if it has arrived.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        let first = self.waiting.first_entry()?;
        if *first.key() != self.next {
            return None;
        }
        let bytes = first.remove();
        self.held -= bytes.len();
        self.next += bytes.len() as u64;
        Some(bytes)
    }

    /// Returns true if the next frame in order has arrived.
    pub fn is_ready(&self) -> bool {
        let first = self.waiting.first_key_value();
        first.is_some_and(|(at, _)| *at == self.next)
    }

    /// Returns true if all of the stream has been taken.
    pub fn is_complete(&self) -> bool {
        self.end == Some(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut r = Reassembly::new(2);
        r.insert(10, vec![1; 10]).unwrap();
        for (offset, len) in [(10, 10), (5, 6), (19, 1), (12, 2), (0, 40)] {
            assert_eq!(r.insert(offset, vec![0; len]), Err(Misplaced::Twice));
        }
        assert_eq!(
            r.insert(WINDOW_BYTES - 1, vec![0; 2]),
            Err(Misplaced::Beyond)
        );
        assert_eq!(r.on_end(19), Err(Misplaced::End));
        r.on_end(20).unwrap();
        assert_eq!(r.on_end(21), Err(Misplaced::End));
        assert_eq!(r.insert(20, vec![0; 1]), Err(Misplaced::End));
        assert_eq!((r.take(), r.held()), (None, 10 + FRAME_COST_BYTES));
        r.insert(0, vec![2; 10]).unwrap();
        assert_eq!(r.take(), Some(vec![2; 10]));
        assert_eq!(r.insert(0, vec![2; 10]), Err(Misplaced::Twice));
        assert!(!r.is_complete());
        assert_eq!(r.take(), Some(vec![1; 10]));
        assert!(r.is_complete() && r.held() == 0);
    }

    #[test]
    fn there_is_room_while_the_next_frame_is_missing() {
        let mut r = Reassembly::new(2);
        let quarter = QUEUE_BYTES / 4;
        for at in 1..=4 {
            r.insert((at * quarter) as u64, vec![0; quarter]).unwrap();
            assert!(r.has_room());
        }
        r.insert(0, vec![0; quarter]).unwrap();
        // Five quarters are held, and the cost of each.
        for has_room in [false, false, true, true, true] {
            assert_eq!(r.has_room(), has_room);
            r.take().unwrap();
        }
    }

    #[test]
    fn what_is_missing_when_all_connections_have_ended_is_noticed() {
        let mut r = Reassembly::new(2);
        r.insert(0, vec![1; 10]).unwrap();
        r.on_end(30).unwrap();
        r.insert(20, vec![1; 10]).unwrap();
        assert_eq!(r.on_end(30), Err(Misplaced::End));
    }

    #[test]
    fn tiny_frames_behind_a_missing_one_are_bounded() {
        let mut r = Reassembly::new(1);
        for at in 1..=FRAMES_MAX as u64 {
            r.insert(at, vec![0]).unwrap();
        }
        let next = FRAMES_MAX as u64 + 1;
        assert_eq!(r.insert(next, vec![0]), Err(Misplaced::TooMany));
        r.insert(0, vec![0]).unwrap();
        assert!(r.is_ready(), "the missing one is taken");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Frames of any length in any order come out as the stream, no matter when frames are taken.
        #[test]
        fn any_order_gives_the_stream(
            lens in prop::collection::vec(1usize..50, 0..40),
            keys in prop::collection::vec(any::<u32>(), 40),
            takes in any::<bool>(),
        ) {
            let total: usize = lens.iter().sum();
            let stream: Vec<u8> = (0..total).map(|i| (i * 31 % 251) as u8).collect();
            let mut frames = Vec::new();
            let mut at = 0;
            for (len, key) in lens.iter().zip(&keys) {
                frames.push((*key, at, &stream[at..at + len]));
                at += len;
            }
            frames.sort();
            let mut r = Reassembly::new(1);
            let mut out = Vec::new();
            for (_, offset, bytes) in frames {
                r.insert(offset as u64, bytes.to_vec()).unwrap();
                while let Some(bytes) = takes.then(|| r.take()).flatten() {
                    out.extend(bytes);
                }
                prop_assert_eq!(r.next(), out.len() as u64);
            }
            r.on_end(total as u64).unwrap();
            while let Some(bytes) = r.take() {
                out.extend(bytes);
            }
            prop_assert!(r.is_complete());
            prop_assert_eq!(out, stream);
        }
    }
}
