//! Future wake-ups: a heap ordered by time, then by the order of scheduling.

use base::Time;
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// What is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wake {
    /// A host's timer.
    Timer(u32),
    /// The packets at the head of a wire.
    Wire(u32),
    /// A client's request.
    Request(u32),
    /// Datagrams that no wire has carried.
    Forged(u32),
}

/// Future wake-ups.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<(Time, u64, Wake)>>,
    /// Number of wake-ups scheduled so far. It makes each entry unique, so the order never depends on what an entry
    /// wakes.
    scheduled: u64,
}

impl Queue {
    pub(crate) fn push(&mut self, at: Time, wake: Wake) {
        self.heap.push(Reverse((at, self.scheduled, wake)));
        self.scheduled += 1;
    }

    pub(crate) fn pop(&mut self) -> Option<(Time, Wake)> {
        self.heap.pop().map(|Reverse((at, _, wake))| (at, wake))
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }
}
