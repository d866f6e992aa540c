//! Datagrams that wait for room in a byte stream: few, and not for long.
//!
//! ```text
//!   push ──▶ │ newest ........ oldest │ ──▶ pop
//!             more bytes than BYTES_MAX: the oldest go      older than AGE_MAX: dropped instead of sent
//! ```
//! In front of UDP, a full queue drops the newest packet. Here the oldest datagram is the worst to keep: it misses its
//! own deadline, and everything behind it waits.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Bytes that may wait. Choice: 200 ms of 5 Mbit/s. A link that gets more loses some of it, and its lanes send less.
pub(super) const BYTES_MAX: usize = 128 << 10;
/// How long a datagram may wait. Choice: longer than the deadline of a call (100 to 150 ms), so that a datagram that is
/// dropped for its age was of no use. Requests for lost packets and hellos still pass within it.
pub(super) const AGE_MAX: Duration = Duration::from_millis(200);

/// Counts of dropped datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dropped {
    /// Dropped because there was no room.
    pub(super) full: u64,
    /// Dropped because they were too old.
    pub(super) late: u64,
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    waiting: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    dropped: Dropped,
    /// Memory of datagrams that have been sent.
    spare: Vec<Vec<u8>>,
}

/// Number of buffers kept for later datagrams: as many of 1.4 kB as fit [`BYTES_MAX`].
const SPARE_MAX: usize = BYTES_MAX / 1_400;

impl Backlog {
    /// Adds a datagram. If there is no room, the oldest ones are dropped.
    pub(super) fn push(&mut self, now: Instant, datagram: &[u8]) {
        while self.bytes + datagram.len() > BYTES_MAX && self.remove().is_some() {
            self.dropped.full += 1;
        }
        if datagram.len() > BYTES_MAX {
            self.dropped.full += 1;
            return;
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(datagram);
        self.bytes += bytes.len();
        self.waiting.push_back((now, bytes));
    }

    /// Removes and returns the oldest datagram that is still of use.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Vec<u8>> {
        loop {
            let (since, bytes) = self.remove()?;
            if now.saturating_duration_since(since) <= AGE_MAX {
                return Some(bytes);
            }
            self.dropped.late += 1;
            self.give_back(bytes);
        }
    }

    /// Takes back memory that is no longer needed.
    pub(super) fn give_back(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(bytes);
        }
    }

    /// Returns true if nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns what was dropped since the last call.
    pub(super) fn take_dropped(&mut self) -> Dropped {
        core::mem::take(&mut self.dropped)
    }

    fn remove(&mut self) -> Option<(Instant, Vec<u8>)> {
        let first = self.waiting.pop_front()?;
        self.bytes -= first.1.len();
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn datagrams_leave_in_order_while_they_are_of_use() {
        let (mut backlog, t0) = (Backlog::default(), Instant::now());
        for n in 0..4 {
            backlog.push(t0 + ms(n * 100), &[n as u8; 100]);
        }
        let now = t0 + ms(250);
        assert_eq!(backlog.pop(now).unwrap()[0], 1, "the first is too old");
        assert_eq!(backlog.pop(now).unwrap()[0], 2);
        assert_eq!(backlog.pop(now).unwrap()[0], 3);
        assert!(backlog.pop(now).is_none() && backlog.is_empty());
        let dropped = Dropped { full: 0, late: 1 };
        assert_eq!(backlog.take_dropped(), dropped);
        assert_eq!(backlog.take_dropped(), Dropped::default());
    }

    #[test]
    fn the_newest_stays_where_there_is_no_room_for_all() {
        let (mut backlog, now) = (Backlog::default(), Instant::now());
        let fit = BYTES_MAX / 1_000;
        for n in 0..fit + 10 {
            backlog.push(now, &[n as u8; 1_000]);
            assert!(backlog.bytes <= BYTES_MAX);
        }
        assert_eq!(backlog.take_dropped(), Dropped { full: 10, late: 0 });
        assert_eq!(backlog.pop(now).unwrap()[0], 10);
        backlog.push(now, &vec![0; BYTES_MAX + 1]);
        assert!(backlog.is_empty(), "what never fits makes room in vain");
        assert_eq!(backlog.take_dropped().full, fit as u64);
        assert_eq!(backlog.bytes, 0);
    }
}
