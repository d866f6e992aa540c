//! Copies of the recently sent packets, by sequence number.
//!
//! ```text
//!   oldest                                             newest
//!   [ chunk ][ chunk ][ chunk ] …                      [ current    ..... ]
//!     reused when all its packets are too old             appended to
//! ```
//!
//! Numbers are consecutive, so a chunk consists of the number of its first packet, one entry per packet, and the
//! packets' bytes back to back. Appending is two pushes. Chunks grow with the amount held, so a quiet lane holds a few
//! KiB and a busy one allocates rarely; growing never moves existing data. At a steady rate, the oldest chunk becomes
//! the next one.

use base::{Duration, Time};
use std::collections::VecDeque;

/// The smallest chunk: 22 packets of voice.
const CHUNK_MIN: usize = 4 << 10;
/// The largest chunk: 1/256 of the largest history, so that little memory is held unused.
const CHUNK_MAX: usize = 64 << 10;

/// The data about one packet besides its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// When it was sent.
    pub(super) at: Time,
    offset: u32,
    len: u16,
    /// The highest strike that has been answered.
    pub(super) answered: u8,
}

#[derive(Debug, Default)]
struct Chunk {
    first: u64,
    entries: Vec<Entry>,
    bytes: Vec<u8>,
}

impl Chunk {
    fn has_room(&self, len: usize) -> bool {
        self.bytes.capacity() - self.bytes.len() >= len
    }
    fn bytes_of(&self, entry: &Entry) -> &[u8] {
        let start = entry.offset as usize;
        &self.bytes[start..start + usize::from(entry.len)]
    }
    fn is_older_than(&self, age: Duration, now: Time) -> bool {
        self.entries.last().is_none_or(|e| now.since(e.at) > age)
    }
    /// Half the size is acceptable, so that a rate near a threshold does not allocate repeatedly.
    fn suits(&self, size: usize) -> bool {
        (size / 2..=2 * size).contains(&self.bytes.capacity())
    }
    fn emptied(mut self) -> Chunk {
        self.entries.clear();
        self.bytes.clear();
        self
    }
}

/// The copies, limited in bytes and in age.
#[derive(Debug)]
pub(super) struct Ring {
    full: VecDeque<Chunk>,
    current: Chunk,
    /// Capacity of all chunks in bytes.
    held: usize,
    limit: usize,
    cover: Duration,
    /// Packets that were removed before their age.
    overrun: u64,
}

impl Ring {
    pub(super) fn new(limit: usize, cover: Duration) -> Ring {
        Ring {
            full: VecDeque::new(),
            current: Chunk::default(),
            held: 0,
            limit,
            cover,
            overrun: 0,
        }
    }

    /// Changes the age at which packets may leave.
    pub(super) fn set_cover(&mut self, cover: Duration) {
        self.cover = cover;
    }

    /// Appends packet `seq`, the one after the last.
    #[inline]
    pub(super) fn push(&mut self, now: Time, seq: u64, packet: &[u8]) {
        if !self.current.has_room(packet.len()) {
            self.open_chunk(now, packet.len());
        }
        let chunk = &mut self.current;
        if chunk.entries.is_empty() {
            chunk.first = seq;
        }
        chunk.entries.push(Entry {
            at: now,
            offset: chunk.bytes.len() as u32,
            len: packet.len() as u16,
            answered: 0,
        });
        chunk.bytes.extend_from_slice(packet);
    }

    /// Returns the entry and the bytes of packet `seq`, if they are still held.
    pub(super) fn get(&self, seq: u64) -> Option<(&Entry, &[u8])> {
        let chunk = match seq >= self.current.first {
            true => &self.current,
            false => self.full.get(self.chunk_of(seq)?)?,
        };
        let entry = chunk.entries.get((seq - chunk.first) as usize)?;
        Some((entry, chunk.bytes_of(entry)))
    }

    /// The same, for noting what was answered.
    pub(super) fn find(&mut self, seq: u64) -> Option<(&mut Entry, &[u8])> {
        let chunk = match seq >= self.current.first {
            true => &mut self.current,
            false => {
                let at = self.chunk_of(seq)?;
                self.full.get_mut(at)?
            }
        };
        let entry = chunk.entries.get_mut((seq - chunk.first) as usize)?;
        let start = entry.offset as usize;
        let bytes = &chunk.bytes[start..start + usize::from(entry.len)];
        Some((entry, bytes))
    }

    /// Returns which of the full chunks has packet `seq`, if one has.
    fn chunk_of(&self, seq: u64) -> Option<usize> {
        // Most packets that are looked up are new: repair packets reach over the last ones, and lost ones are requested
        // soon.
        let last = self.full.len().checked_sub(1)?;
        if self.full[last].first <= seq {
            return Some(last);
        }
        let after = self.full.partition_point(|chunk| chunk.first <= seq);
        after.checked_sub(1)
    }

    /// Forgets everything and releases the memory.
    pub(super) fn clear(&mut self) {
        let (limit, cover, overrun) = (self.limit, self.cover, self.overrun);
        *self = Ring::new(limit, cover);
        self.overrun = overrun;
    }

    /// Returns the bytes that are held for packets.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Returns the packets that were removed before their age, because the ring is at its limit.
    pub(super) fn overrun(&self) -> u64 {
        self.overrun
    }

    #[cold]
    fn open_chunk(&mut self, now: Time, len: usize) {
        let size = (self.held / 4)
            .next_power_of_two()
            .clamp(CHUNK_MIN, CHUNK_MAX)
            .max(len);
        let fresh = match self.recycle(now, size) {
            Some(chunk) => chunk,
            None => self.make(size),
        };
        let filled = core::mem::replace(&mut self.current, fresh);
        if filled.entries.is_empty() {
            self.held -= filled.bytes.capacity();
        } else {
            self.full.push_back(filled);
        }
    }

    /// Returns an outdated chunk of about the wanted size, emptied. Other outdated chunks are released when they have
    /// been outdated for long: the next ones are needed soon, perhaps several in one burst.
    fn recycle(&mut self, now: Time, size: usize) -> Option<Chunk> {
        let mut found = None;
        loop {
            let age = match found {
                None => self.cover,
                Some(_) => self.cover * 2,
            };
            let outdated = |front: &Chunk| front.is_older_than(age, now);
            if !self.full.front().is_some_and(outdated) {
                return found;
            }
            let chunk = self.full.pop_front()?;
            if found.is_none() && chunk.suits(size) {
                found = Some(chunk.emptied());
            } else {
                self.held -= chunk.bytes.capacity();
            }
        }
    }

    /// Returns a chunk of `size` bytes within the limit, for which the oldest chunks are given up.
    fn make(&mut self, size: usize) -> Chunk {
        while self.held + size > self.limit
            && let Some(chunk) = self.full.pop_front()
        {
            self.overrun += chunk.entries.len() as u64;
            if chunk.suits(size) {
                return chunk.emptied();
            }
            self.held -= chunk.bytes.capacity();
        }
        let chunk = Chunk {
            bytes: Vec::with_capacity(size),
            ..Chunk::default()
        };
        self.held += chunk.bytes.capacity();
        chunk
    }
}
