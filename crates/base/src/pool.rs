//! Packet buffers: bounded, reused, and shared in disjoint parts without a copy.
//!
//! ```text
//!   slot:   | headroom | segment 0 | segment 1 | ... | last | room |
//!           lo         start       '- stride -'              start+len   hi
//! ```
//!
//! A [`Burst`] is a run of datagrams of equal size (the last may be short), back to back in one slot of the pool, as
//! GRO returns and GSO accepts them. It owns the region `lo..hi` of its slot alone, so it is writable without locks.
//! [`Burst::split_front`] divides the region, and the slot returns to the pool when its last burst is dropped. Bursts
//! never leave the thread of their pool. After warm-up nothing is allocated.
//!
//! Slots are for packets in transit. Packets that wait longer than a turn of the loop, for their predecessors or for a
//! full socket, move into memory of exactly their size ([`Pool::keep`]), so that a packet of 1300 bytes does not pin 64
//! KiB; the amount of this memory is bounded as well. The last slots are only for receiving ([`Pool::for_receiving`]):
//! a node that cannot send anything still hears its neighbours.
#![allow(unsafe_code)]

use crate::time::Duration;
use core::cell::{Cell, RefCell};
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use std::rc::{Rc, Weak};

/// Size of a large slot: the longest UDP datagram or GRO super-packet fits.
pub const LARGE_BYTES: usize = 65_536;
/// Size of a small slot: one Ethernet-sized datagram and its headroom fit.
pub const SMALL_BYTES: usize = 2_048;

/// The memory that a kept burst takes in addition to its bytes: its counts, its place in a list, and the allocator's
/// overhead.
pub const KEPT_OVERHEAD: usize = 128;
/// Number of large slots of a node: the most that it holds in one turn. 32 messages of 64 KiB with copies for 20
/// branches of a tree are 672.
const NODE_LARGE: usize = 1_024;
/// Number of small slots of a node: the datagrams of a thousand clients in one turn.
const NODE_SMALL: usize = 16_384;
/// Number of large slots of a node that are reserved for receiving. Choice: two calls of 32 messages: one is being
/// processed, one is being filled.
const NODE_RESERVE: usize = 64;
/// A single datagram up to this length is copied into a small slot when it is received, so that packets that arrive one
/// by one do not each hold 64 KiB during a turn. The cost of the copy is invisible next to that of receiving.
pub const COPY_BYTES_MAX: usize = 512;

/// A bounded source of packet buffers for one thread. Clones share the same buffers.
#[derive(Clone)]
pub struct Pool(Rc<Shared>);

struct Shared {
    large: Shelf,
    small: Shelf,
    /// Number of large slots that are reserved for receiving.
    reserve: usize,
    /// Number of bytes in memory of their own, including overhead, and the limit.
    kept: Cell<usize>,
    kept_limit: usize,
}

/// The kind of a slot, which decides where it goes when it is no longer used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Large,
    Small,
    /// It is returned to the allocator.
    Kept,
}

struct Shelf {
    kind: Kind,
    slot_bytes: usize,
    limit: usize,
    /// Number of slots in existence, free or in use.
    made: Cell<usize>,
    free: RefCell<Vec<Rc<Slot>>>,
}

struct Slot {
    data: NonNull<u8>,
    bytes: usize,
    kind: Kind,
    home: Weak<Shared>,
}

/// A run of equal-size datagrams in a pooled buffer.
pub struct Burst {
    slot: ManuallyDrop<Rc<Slot>>,
    lo: u32,
    hi: u32,
    start: u32,
    len: u32,
    stride: u32,
    waited_us: u32,
    mark: u8,
    dont_fragment: bool,
}

impl Pool {
    /// Creates a pool of at most `large` slots of 64 KiB and `small` slots of 2 KiB. Memory is allocated when it is
    /// first needed, and kept. Waiting packets may take as much memory as the large slots.
    pub fn new(large: usize, small: usize) -> Pool {
        Pool::with_reserve(large, small, 0)
    }

    /// Creates the pool of a node: 64 MiB in large slots, 32 MiB in small ones, and 64 MiB for waiting packets.
    pub fn of_node() -> Pool {
        Pool::with_reserve(NODE_LARGE, NODE_SMALL, NODE_RESERVE)
    }

    fn with_reserve(large: usize, small: usize, reserve: usize) -> Pool {
        let shelf = |kind, slot_bytes, limit| Shelf {
            kind,
            slot_bytes,
            limit,
            made: Cell::new(0),
            free: RefCell::new(Vec::new()),
        };
        Pool(Rc::new(Shared {
            large: shelf(Kind::Large, LARGE_BYTES, large),
            small: shelf(Kind::Small, SMALL_BYTES, small),
            reserve,
            kept: Cell::new(0),
            kept_limit: large * LARGE_BYTES,
        }))
    }

    /// Returns an empty burst in a large slot, or `None` if all slots except those for receiving are in use.
    pub fn large(&self) -> Option<Burst> {
        let shelf = &self.0.large;
        let used = shelf.made.get() - shelf.free.borrow().len();
        if used + self.0.reserve >= shelf.limit {
            return None;
        }
        self.take(shelf)
    }

    /// Returns an empty burst in a large slot for packets from the network, or `None` if all are in use.
    pub fn for_receiving(&self) -> Option<Burst> {
        self.take(&self.0.large)
    }

    /// Returns the same datagrams in memory of exactly their size, for packets that wait longer than a turn. Returns
    /// `None` if the burst already has such memory, or if the limit is reached.
    pub fn kept(&self, burst: &Burst) -> Option<Burst> {
        let takes = burst.len() + KEPT_OVERHEAD;
        let held = self.0.kept.get() + takes;
        if burst.is_kept() || held > self.0.kept_limit {
            return None;
        }
        self.0.kept.set(held);
        let slot = Slot::new(burst.len(), Kind::Kept, Rc::downgrade(&self.0));
        let mut kept = Burst::whole(Rc::new(slot));
        kept.spare_mut().copy_from_slice(burst.bytes());
        kept.fill(burst.len(), burst.stride());
        kept.waited_us = burst.waited_us;
        kept.mark = burst.mark;
        kept.dont_fragment = burst.dont_fragment;
        Some(kept)
    }

    /// Moves a burst that is going to wait into memory of exactly its size. Returns false if that is not possible: it
    /// stays in its slot.
    pub fn keep(&self, burst: &mut Burst) -> bool {
        match self.kept(burst) {
            Some(kept) => {
                *burst = kept;
                true
            }
            None => burst.is_kept(),
        }
    }

    /// Returns the number of kept bytes, including overhead, and the limit.
    pub fn kept_bytes(&self) -> (usize, usize) {
        (self.0.kept.get(), self.0.kept_limit)
    }

    /// Returns an empty burst in a small slot, or `None` if all are in use.
    pub fn small(&self) -> Option<Burst> {
        self.take(&self.0.small)
    }

    /// Returns a single datagram that holds `bytes` behind `headroom` spare bytes; `None` if the pool is exhausted or
    /// no slot is large enough.
    pub fn copy_of(&self, headroom: usize, bytes: &[u8]) -> Option<Burst> {
        let need = headroom + bytes.len();
        let mut burst = if need <= SMALL_BYTES {
            self.small()
        } else {
            self.large()
        }?;
        if need > burst.capacity() {
            return None;
        }
        burst.reserve_front(headroom);
        burst.spare_mut()[..bytes.len()].copy_from_slice(bytes);
        burst.fill(bytes.len(), bytes.len());
        Some(burst)
    }

    /// Returns another burst with the same datagrams; `None` if the pool is exhausted.
    pub fn copy_burst(&self, burst: &Burst) -> Option<Burst> {
        let mut copy = self.copy_of(0, burst.bytes())?;
        copy.fill(burst.len(), burst.stride());
        Some(copy)
    }

    /// Returns true if both hand out the same buffers.
    pub fn is_same(&self, other: &Pool) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the number of slots in use, large and small.
    pub fn in_use(&self) -> (usize, usize) {
        let used = |shelf: &Shelf| shelf.made.get() - shelf.free.borrow().len();
        (used(&self.0.large), used(&self.0.small))
    }

    fn take(&self, shelf: &Shelf) -> Option<Burst> {
        let recycled = shelf.free.borrow_mut().pop();
        let slot = match recycled {
            Some(slot) => slot,
            None if shelf.made.get() < shelf.limit => {
                shelf.made.set(shelf.made.get() + 1);
                let home = Rc::downgrade(&self.0);
                Rc::new(Slot::new(shelf.slot_bytes, shelf.kind, home))
            }
            None => return None,
        };
        Some(Burst::whole(slot))
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (large, small) = self.in_use();
        write!(f, "Pool {{ large in use: {large}, small in use: {small} }}")
    }
}

impl Slot {
    fn new(bytes: usize, kind: Kind, home: Weak<Shared>) -> Slot {
        let boxed: Box<[u8]> = vec![0u8; bytes].into_boxed_slice();
        let data = NonNull::from(Box::leak(boxed)).cast::<u8>();
        Slot {
            data,
            bytes,
            kind,
            home,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // SAFETY: `data` and `bytes` are exactly what `Slot::new` leaked, and no burst refers to
        // the slot any more: each holds an `Rc` of it.
        drop(unsafe {
            Box::from_raw(core::ptr::slice_from_raw_parts_mut(
                self.data.as_ptr(),
                self.bytes,
            ))
        });
    }
}

impl Burst {
    /// Creates an empty burst in a slot that nobody else uses.
    fn whole(slot: Rc<Slot>) -> Burst {
        let hi = slot.bytes as u32;
        Burst {
            slot: ManuallyDrop::new(slot),
            lo: 0,
            hi,
            start: 0,
            len: 0,
            stride: 0,
            waited_us: 0,
            mark: 0,
            dont_fragment: false,
        }
    }

    /// Returns true if it is in memory of its own size, and takes no slot.
    #[inline]
    pub fn is_kept(&self) -> bool {
        self.slot.kind == Kind::Kept
    }

    /// Returns the bytes of all datagrams together.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns true if there is no datagram.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the size of each datagram except perhaps the last.
    #[inline]
    pub fn stride(&self) -> usize {
        self.stride as usize
    }

    /// Returns the number of datagrams.
    #[inline]
    pub fn segments(&self) -> usize {
        if self.len == 0 {
            0
        } else {
            (self.len as usize).div_ceil(self.stride as usize)
        }
    }

    /// Returns all datagrams, back to back.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `start..start+len` lies within `lo..hi`, which lies within the slot and belongs
        // to this burst alone; `&self` keeps it from being written meanwhile.
        unsafe {
            let at = self.slot.data.as_ptr().add(self.start as usize);
            core::slice::from_raw_parts(at, self.len as usize)
        }
    }

    /// Returns all datagrams, back to back, writable.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; `&mut self` makes the access exclusive.
        unsafe {
            let at = self.slot.data.as_ptr().add(self.start as usize);
            core::slice::from_raw_parts_mut(at, self.len as usize)
        }
    }

    /// Returns the bytes of datagram `index`. Panics if there are fewer.
    #[inline]
    pub fn segment(&self, index: usize) -> &[u8] {
        let (from, to) = self.bounds(index);
        &self.bytes()[from..to]
    }

    /// Returns the bytes of datagram `index`, writable. Panics if there are fewer.
    #[inline]
    pub fn segment_mut(&mut self, index: usize) -> &mut [u8] {
        let (from, to) = self.bounds(index);
        &mut self.bytes_mut()[from..to]
    }

    #[inline]
    fn bounds(&self, index: usize) -> (usize, usize) {
        let from = index * self.stride as usize;
        (from, (from + self.stride as usize).min(self.len as usize))
    }

    /// Returns the size of the region from its start to its end, including headroom.
    pub fn capacity(&self) -> usize {
        (self.hi - self.lo) as usize
    }

    /// Returns the number of spare bytes in front of the first datagram.
    pub fn headroom(&self) -> usize {
        (self.start - self.lo) as usize
    }

    /// Leaves `n` spare bytes in front of an empty burst. Panics if it is not empty or too small.
    pub fn reserve_front(&mut self, n: usize) {
        assert!(
            self.len == 0 && n <= self.capacity(),
            "headroom of a used or small burst"
        );
        self.start = self.lo + n as u32;
    }

    /// Returns the unused bytes behind the datagrams, to be written and then claimed by [`Burst::fill`].
    pub fn spare_mut(&mut self) -> &mut [u8] {
        let from = self.start + self.len;
        // SAFETY: `start+len..hi` lies within this burst's own region; `&mut self` is exclusive.
        unsafe {
            let at = self.slot.data.as_ptr().add(from as usize);
            core::slice::from_raw_parts_mut(at, (self.hi - from) as usize)
        }
    }

    /// Declares that the burst holds `len` bytes in datagrams of `stride` bytes. Panics if they do not fit, or if the
    /// stride is zero while the length is not.
    pub fn fill(&mut self, len: usize, stride: usize) {
        assert!(
            len <= (self.hi - self.start) as usize,
            "more bytes than the slot has"
        );
        assert!(
            len == 0 || (stride > 0 && stride <= LARGE_BYTES),
            "a stride that divides nothing"
        );
        self.len = len as u32;
        self.stride = stride.min(len) as u32;
    }

    /// Splits off the first `count` datagrams; `self` keeps the others. Both stay writable.
    pub fn split_front(&mut self, count: usize) -> Burst {
        let cut = (count * self.stride as usize).min(self.len as usize) as u32;
        let mid = self.start + cut;
        let front = Burst {
            slot: ManuallyDrop::new(Rc::clone(&self.slot)),
            lo: self.lo,
            hi: mid,
            start: self.start,
            len: cut,
            stride: self.stride.min(cut),
            waited_us: self.waited_us,
            mark: self.mark,
            dont_fragment: self.dont_fragment,
        };
        self.lo = mid;
        self.start = mid;
        self.len -= cut;
        self.stride = self.stride.min(self.len);
        front
    }

    /// Returns the mark for the class of the datagrams in the underlay: 0 for no class. The host defines what each
    /// number means.
    pub fn mark(&self) -> u8 {
        self.mark
    }

    /// Changes the mark.
    pub fn set_mark(&mut self, mark: u8) {
        self.mark = mark;
    }

    /// Returns true if the datagram must arrive whole or not at all: neither this host nor a router may fragment it.
    pub fn dont_fragment(&self) -> bool {
        self.dont_fragment
    }

    /// Forbids fragmenting the datagram.
    pub fn set_dont_fragment(&mut self) {
        self.dont_fragment = true;
    }

    /// Returns how long the datagrams waited in the host's own socket before the engine got them. A host that was not
    /// scheduled reports this, because that time is not the network's delay.
    #[inline]
    pub fn waited(&self) -> Duration {
        Duration::from_micros(u64::from(self.waited_us))
    }

    /// Sets how long the datagrams have waited.
    #[inline]
    pub fn set_waited(&mut self, waited: Duration) {
        self.waited_us = u32::try_from(waited.as_micros()).unwrap_or(u32::MAX);
    }

    /// Claims `n` bytes of headroom in front of a single datagram. Panics if there are fewer.
    pub fn push_front(&mut self, n: usize) {
        assert!(
            n <= self.headroom() && self.segments() <= 1,
            "no headroom for a header"
        );
        self.start -= n as u32;
        self.len += n as u32;
        self.stride = self.len;
    }

    /// Removes `front` bytes before and `back` bytes behind the payload of a single datagram. Panics if it is shorter.
    pub fn trim(&mut self, front: usize, back: usize) {
        assert!(
            front + back <= self.len() && self.segments() <= 1,
            "trimming more than there is"
        );
        self.start += front as u32;
        self.len -= (front + back) as u32;
        self.stride = self.len;
    }

    /// Appends a datagram if it fits: there must be room in the slot, every earlier one must have the full stride, and
    /// none may be shorter than it. Returns true if it was appended.
    pub fn append(&mut self, datagram: &[u8]) -> bool {
        if self.len == 0 {
            if datagram.is_empty() || datagram.len() > self.spare_mut().len() {
                return false;
            }
            self.spare_mut()[..datagram.len()].copy_from_slice(datagram);
            self.fill(datagram.len(), datagram.len());
            return true;
        }
        let uniform =
            self.len.is_multiple_of(self.stride) && datagram.len() <= self.stride as usize;
        if datagram.is_empty() || !uniform || datagram.len() > self.spare_mut().len() {
            return false;
        }
        self.spare_mut()[..datagram.len()].copy_from_slice(datagram);
        self.len += datagram.len() as u32;
        true
    }
}

impl Drop for Burst {
    fn drop(&mut self) {
        // SAFETY: `slot` is not used after this, the drop of the burst.
        let slot = unsafe { ManuallyDrop::take(&mut self.slot) };
        if Rc::strong_count(&slot) > 1 {
            return;
        }
        if let Some(home) = slot.home.upgrade() {
            match slot.kind {
                Kind::Large => home.large.free.borrow_mut().push(slot),
                Kind::Small => home.small.free.borrow_mut().push(slot),
                Kind::Kept => {
                    let takes = slot.bytes + KEPT_OVERHEAD;
                    home.kept.set(home.kept.get() - takes);
                }
            }
        }
    }
}

impl fmt::Debug for Burst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Burst {{ {} x {} bytes, {} in all }}",
            self.segments(),
            self.stride,
            self.len
        )
    }
}

#[cfg(test)]
mod tests;
