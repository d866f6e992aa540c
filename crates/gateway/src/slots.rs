//! A bound on how many of something there are at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Places, of which each is taken by one at a time.
#[derive(Clone, Debug)]
pub struct Slots {
    taken: Arc<AtomicUsize>,
    most: usize,
}

/// One place, free again when this is dropped.
#[derive(Debug)]
pub struct Slot(Arc<AtomicUsize>);

impl Slots {
    /// So many places.
    pub fn new(most: usize) -> Slots {
        Slots {
            taken: Arc::default(),
            most,
        }
    }

    /// One of them, if one is free.
    pub fn take(&self) -> Option<Slot> {
        let more = |taken| (taken < self.most).then_some(taken + 1);
        let taken = self
            .taken
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        taken.ok().map(|_| Slot(self.taken.clone()))
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Acquire)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_so_many_and_they_come_back() {
        let slots = Slots::new(2);
        let one = slots.take().unwrap();
        let _two = slots.take().unwrap();
        assert!(slots.take().is_none());
        drop(one);
        assert_eq!(slots.taken(), 1);
        assert!(slots.take().is_some());
    }
}
