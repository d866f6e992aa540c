//! The data that a relay holds between its incoming and its outgoing connections: a bounded queue for each of its next
//! segments. Each queue gets every frame.
//!
//! ```text
//!   in 1 ─┐               ┌─▶ branch 1 (next segment): ≤ limit ─▶ its stripes
//!   in 2 ─┴─ push ─ Fan ──┴─▶ branch 2                 ≤ limit ─▶ its stripes
//! ```
//! The reader of a connection asks [`Fan::has_room`] first, and does not read while there is no room: the kernel's
//! windows then slow down the sender. The slowest branch sets the pace.
//!
//! A frame goes to the first stripe of a branch that asks for the next one, so that a slow stripe gets fewer frames.

use crate::FRAME_COST_BYTES;
use std::collections::VecDeque;

/// The queues of a relay's next segments.
#[derive(Debug)]
pub struct Fan<T> {
    /// Bytes that may wait in each queue, including [`FRAME_COST_BYTES`] for each frame.
    limit: usize,
    branches: Vec<Branch<T>>,
    /// Incoming connections that have not ended.
    open: usize,
    /// The length of the stream, once a connection has ended.
    end: Option<u64>,
    /// Bytes that have arrived.
    came: u64,
}

#[derive(Debug)]
struct Branch<T> {
    queue: VecDeque<(usize, T)>,
    /// Bytes in the queue, including [`FRAME_COST_BYTES`] for each frame.
    held: usize,
}

/// The incoming connections do not agree on the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stripes have ended that do not make the whole stream: run one version on all nodes")]
pub struct Incomplete;

/// The next step of a stripe of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<T> {
    /// Send this frame.
    Frame(T),
    /// Wait.
    Nothing,
    /// Send the end: the length of the stream.
    End(u64),
}

impl<T: Clone> Fan<T> {
    /// Creates the queues for this many incoming connections, and for this many branches that may each hold `limit`
    /// bytes, usually [`crate::QUEUE_BYTES`].
    pub fn new(connections: usize, branches: usize, limit: usize) -> Fan<T> {
        let branch = |_| Branch {
            queue: VecDeque::new(),
            held: 0,
        };
        Fan {
            limit,
            branches: (0..branches).map(branch).collect(),
            open: connections,
            end: None,
            came: 0,
        }
    }

    /// Returns true if a frame of this many bytes can be taken now.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.branches
            .iter()
            .all(|branch| branch.held == 0 || branch.held + bytes + FRAME_COST_BYTES <= self.limit)
    }

    /// Takes a frame for all branches. The caller has asked for room first.
    pub fn push(&mut self, bytes: usize, frame: &T) {
        self.came += bytes as u64;
        for branch in &mut self.branches {
            branch.held += bytes + FRAME_COST_BYTES;
            branch.queue.push_back((bytes, frame.clone()));
        }
    }

    /// Notes that an incoming connection has ended, and that the stream is so long.
    pub fn on_end(&mut self, end: u64) -> Result<(), Incomplete> {
        self.open = self.open.checked_sub(1).ok_or(Incomplete)?;
        let agreed = *self.end.get_or_insert(end) == end;
        if !agreed || (self.open == 0 && self.came != end) {
            return Err(Incomplete);
        }
        Ok(())
    }

    /// Returns what a stripe of this branch sends next.
    pub fn next(&mut self, branch: usize) -> Next<T> {
        let Some(branch) = self.branches.get_mut(branch) else {
            return Next::Nothing;
        };
        match (branch.queue.pop_front(), self.end) {
            (Some((bytes, frame)), _) => {
                branch.held -= bytes + FRAME_COST_BYTES;
                Next::Frame(frame)
            }
            (None, Some(end)) if self.open == 0 => Next::End(end),
            (None, _) => Next::Nothing,
        }
    }

    /// Returns the length of the stream, once a branch has sent all of it.
    pub fn end(&self, branch: usize) -> Option<u64> {
        let branch = self.branches.get(branch)?;
        let is_over = self.open == 0 && branch.queue.is_empty();
        self.end.filter(|_| is_over)
    }

    /// Returns the bytes that wait for this branch, including [`FRAME_COST_BYTES`] for each frame.
    pub fn held(&self, branch: usize) -> usize {
        self.branches.get(branch).map_or(0, |branch| branch.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::QUEUE_BYTES;
    use proptest::prelude::*;

    #[test]
    fn the_fullest_branch_says_whether_there_is_room() {
        let mut fan = Fan::new(1, 2, QUEUE_BYTES);
        // The first frame is taken however long it is.
        assert!(fan.has_room(QUEUE_BYTES + 1));
        fan.push(QUEUE_BYTES, &'a');
        assert!(!fan.has_room(1));
        assert_eq!(fan.next(0), Next::Frame('a'));
        assert!(!fan.has_room(1), "the other branch holds it still");
        let held = QUEUE_BYTES + FRAME_COST_BYTES;
        assert_eq!((fan.held(0), fan.held(1)), (0, held));
        assert_eq!(fan.next(1), Next::Frame('a'));
        assert!(fan.has_room(1));
        assert_eq!(fan.next(0), Next::Nothing);
        fan.on_end(QUEUE_BYTES as u64).unwrap();
        assert_eq!(fan.next(0), Next::End(QUEUE_BYTES as u64));
        assert_eq!(fan.on_end(QUEUE_BYTES as u64), Err(Incomplete));
    }

    #[test]
    fn tiny_frames_take_no_more_memory_than_others() {
        let mut fan = Fan::new(1, 1, QUEUE_BYTES);
        let mut frames = 0;
        while fan.has_room(1) {
            fan.push(1, &());
            frames += 1;
        }
        assert_eq!(frames, QUEUE_BYTES / (1 + FRAME_COST_BYTES));
    }

    #[test]
    fn stripes_that_do_not_agree_or_do_not_make_the_whole_are_an_error() {
        let mut fan = Fan::new(2, 1, QUEUE_BYTES);
        fan.push(5, &());
        fan.on_end(5).unwrap();
        assert_eq!(fan.on_end(6), Err(Incomplete));
        let mut fan = Fan::new(2, 1, QUEUE_BYTES);
        fan.push(4, &());
        fan.on_end(5).unwrap();
        assert_eq!(fan.on_end(5), Err(Incomplete), "a byte is missing");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Compares with a naive model: each branch gets all frames in order, and holds no more than its share, unless
        /// a first frame is longer.
        #[test]
        fn every_branch_gets_everything(
            steps in prop::collection::vec((0usize..4, 1usize..QUEUE_BYTES / 3), 1..200),
        ) {
            let mut fan = Fan::new(1, 3, QUEUE_BYTES);
            let mut pushed = Vec::new();
            let mut got = vec![Vec::new(); 3];
            for (step, (what, bytes)) in steps.iter().enumerate() {
                if *what == 3 {
                    let naive = (0..3).all(|b: usize| {
                        let taken: &Vec<usize> = &got[b];
                        let waiting = &pushed[taken.len()..];
                        let waits: usize = waiting.iter().map(|(_, b)| b).sum();
                        let cost = (waiting.len() + 1) * FRAME_COST_BYTES;
                        waiting.is_empty() || waits + bytes + cost <= QUEUE_BYTES
                    });
                    prop_assert_eq!(fan.has_room(*bytes), naive);
                    if naive {
                        fan.push(*bytes, &step);
                        pushed.push((step, *bytes));
                    }
                } else if let Next::Frame(frame) = fan.next(*what) {
                    got[*what].push(frame);
                }
            }
            fan.on_end(pushed.iter().map(|(_, bytes)| *bytes as u64).sum()).unwrap();
            for (branch, got) in got.iter_mut().enumerate() {
                while let Next::Frame(frame) = fan.next(branch) {
                    got.push(frame);
                }
                let all: Vec<usize> = pushed.iter().map(|(step, _)| *step).collect();
                prop_assert_eq!(&*got, &all);
            }
        }
    }
}
