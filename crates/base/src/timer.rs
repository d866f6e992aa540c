//! Timers: a small table per owner, and a queue over many owners.
//!
//! A link has a handful of named timers: [`TimerTable`], an array of moments. A node with hundreds
//! of links keeps one [`TimerQueue`] over their earliest moments. Re-arming says its intent:
//! `arm_at_most` never postpones (a NACK must not be starved by later losses), `arm_at` replaces.

use crate::time::Time;
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// `N` timers, each armed or not.
#[derive(Clone, Debug)]
pub struct TimerTable<const N: usize> {
    at: [Time; N],
}

impl<const N: usize> Default for TimerTable<N> {
    fn default() -> Self {
        TimerTable { at: [Time::FAR; N] }
    }
}

impl<const N: usize> TimerTable<N> {
    /// Sets timer `k` to `at`, earlier or later than before.
    pub fn arm_at(&mut self, k: usize, at: Time) {
        self.at[k] = at;
    }
    /// Sets timer `k` to `at` unless it fires earlier already.
    pub fn arm_at_most(&mut self, k: usize, at: Time) {
        self.at[k] = self.at[k].min(at);
    }
    /// Switches timer `k` off.
    pub fn disarm(&mut self, k: usize) {
        self.at[k] = Time::FAR;
    }
    /// True if timer `k` is armed.
    pub fn is_armed(&self, k: usize) -> bool {
        self.at[k] != Time::FAR
    }
    /// Whether timer `k` has come due; if so it is switched off.
    pub fn take_due(&mut self, k: usize, now: Time) -> bool {
        let due = self.at[k] <= now && self.at[k] != Time::FAR;
        if due {
            self.at[k] = Time::FAR;
        }
        due
    }
    /// The earliest armed moment and its timer.
    pub fn next(&self) -> Option<(Time, usize)> {
        let (k, &at) = self.at.iter().enumerate().min_by_key(|(_, at)| **at)?;
        (at != Time::FAR).then_some((at, k))
    }
}

/// The earliest wake-up of each of many owners, `K` a small id.
///
/// A wake-up may be spurious: the owner moved its timers later after it was queued. It then does
/// nothing and queues its next one. Earlier moments are queued at once, so none is missed.
#[derive(Debug)]
pub struct TimerQueue<K: Copy + Ord> {
    heap: BinaryHeap<Reverse<(Time, K)>>,
}

impl<K: Copy + Ord> Default for TimerQueue<K> {
    fn default() -> Self {
        TimerQueue {
            heap: BinaryHeap::new(),
        }
    }
}

impl<K: Copy + Ord> TimerQueue<K> {
    /// Wakes `owner` at `at`. The caller avoids queueing moments later than one it has queued.
    pub fn push(&mut self, at: Time, owner: K) {
        self.heap.push(Reverse((at, owner)));
    }
    /// The next owner whose moment has come.
    pub fn pop_due(&mut self, now: Time) -> Option<(Time, K)> {
        match self.heap.peek() {
            Some(Reverse((at, _))) if *at <= now => self.heap.pop().map(|Reverse(due)| due),
            _ => None,
        }
    }
    /// The earliest moment and its owner.
    pub fn next(&self) -> Option<(Time, K)> {
        self.heap.peek().map(|Reverse(next)| *next)
    }
    /// Queued wake-ups, spurious ones included.
    pub fn len(&self) -> usize {
        self.heap.len()
    }
    /// True when nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arming_at_most_never_postpones() {
        let mut table = TimerTable::<2>::default();
        let at = Time::from_nanos;
        table.arm_at_most(0, at(50));
        table.arm_at_most(0, at(90));
        table.arm_at(1, at(70));
        assert_eq!(table.next(), Some((at(50), 0)));
        assert!(!table.take_due(0, at(49)) && table.take_due(0, at(50)) && !table.is_armed(0));
        assert_eq!(table.next(), Some((at(70), 1)));
        table.disarm(1);
        assert_eq!(table.next(), None);
    }

    #[test]
    fn the_queue_hands_out_in_order_of_time() {
        let mut queue = TimerQueue::default();
        for (at, owner) in [(30, 1u32), (10, 2), (20, 3)] {
            queue.push(Time::from_nanos(at), owner);
        }
        let now = Time::from_nanos(25);
        let due: Vec<u32> = core::iter::from_fn(|| queue.pop_due(now))
            .map(|(_, k)| k)
            .collect();
        assert_eq!(due, [2, 3]);
        assert_eq!(queue.next(), Some((Time::from_nanos(30), 1)));
    }
}
