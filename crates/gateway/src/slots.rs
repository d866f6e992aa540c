//! A bound on how many of something there are at the same time, and on how many of them one may have.
//!
//! ```text
//!   held by one < free  ──▶ one more        alone: a half; of n who want all: each an (n + 1)th,
//!                                           and as much stays free for the next one
//! ```
//! Choice: with this rule nobody who comes later has to push others out, as with fixed shares, and yet
//! who is alone has more than a fixed share: the dynamic threshold of Choudhury and Hahne (1998).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Places, of which each is taken by one at a time. `K` is who takes them.
#[derive(Debug)]
pub struct Slots<K: Ord = ()> {
    table: Arc<Mutex<Table<K>>>,
    most: usize,
}

#[derive(Debug)]
struct Table<K> {
    taken: usize,
    by: BTreeMap<K, usize>,
}

/// One place, free again when this is dropped.
#[derive(Debug)]
pub struct Slot<K: Ord + Clone = ()> {
    table: Arc<Mutex<Table<K>>>,
    by: K,
}

impl<K: Ord + Clone> Slots<K> {
    /// So many places.
    pub fn new(most: usize) -> Slots<K> {
        let table = Table {
            taken: 0,
            by: BTreeMap::new(),
        };
        Slots {
            table: Arc::new(Mutex::new(table)),
            most,
        }
    }

    /// One of them for this one, if it has fewer than are free.
    pub fn take_for(&self, by: K) -> Option<Slot<K>> {
        self.take_if(by, |held, free| held < free)
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        locked(&self.table).taken
    }

    fn take_if(&self, by: K, may: impl FnOnce(usize, usize) -> bool) -> Option<Slot<K>> {
        let mut table = locked(&self.table);
        let held = table.by.get(&by).copied().unwrap_or(0);
        if !may(held, self.most.saturating_sub(table.taken)) {
            return None;
        }
        table.taken += 1;
        table.by.insert(by.clone(), held + 1);
        Some(Slot {
            table: Arc::clone(&self.table),
            by,
        })
    }
}

impl Slots {
    /// One of them, if one is free.
    pub fn take(&self) -> Option<Slot> {
        self.take_if((), |_, free| free > 0)
    }
}

impl<K: Ord> Clone for Slots<K> {
    fn clone(&self) -> Slots<K> {
        Slots {
            table: Arc::clone(&self.table),
            most: self.most,
        }
    }
}

impl<K: Ord + Clone> Drop for Slot<K> {
    fn drop(&mut self) {
        let mut table = locked(&self.table);
        table.taken -= 1;
        if let Some(held) = table.by.get_mut(&self.by) {
            *held -= 1;
            if *held == 0 {
                table.by.remove(&self.by);
            }
        }
    }
}

fn locked<K>(table: &Mutex<Table<K>>) -> MutexGuard<'_, Table<K>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
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

    #[test]
    fn whoever_takes_all_that_he_can_leaves_room_for_others() {
        let slots = Slots::new(512);
        let all = |by: u8| -> Vec<Slot<u8>> { std::iter::from_fn(|| slots.take_for(by)).collect() };
        let first = all(0);
        assert_eq!(first.len(), 256, "alone, a half");
        let others: Vec<_> = (1..20).map(all).collect();
        assert!(others.iter().all(|held| !held.is_empty()));
        assert!(slots.take_for(99).is_some(), "and the next one is served");
        drop((first, others));
        assert_eq!(slots.taken(), 0);
        assert!(locked(&slots.table).by.is_empty());
    }
}
