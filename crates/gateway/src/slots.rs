//! A bound on how many of something there are at the same time, and on how many of them one may have.
//!
//! ```text
//!   held by one < free  ──▶ one more          alone: a half; the next one: a half of the rest ..
//!     │ no
//!     └── fewer than its fair share ──▶ one that can go of whoever has more than that, the oldest
//! ```
//! Choice: who is alone has more than a fixed share, and yet some places stay free for the next one
//! (the dynamic threshold of Choudhury and Hahne, 1998). Where many have taken all that they can one
//! after the other, that leaves nothing; then those go that harm nobody by going.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Places, of which each is taken by one at a time. `K` is who takes them.
#[derive(Debug)]
pub struct Slots<K: Ord = ()> {
    table: Arc<Mutex<Table<K>>>,
    most: usize,
}

#[derive(Debug)]
struct Table<K> {
    next: u64,
    /// In the order in which they were taken.
    taken: BTreeMap<u64, Held<K>>,
    by: BTreeMap<K, BTreeSet<u64>>,
}

struct Held<K> {
    by: K,
    /// What ends it for another one, if it may be ended.
    end: Option<End>,
}

type End = Box<dyn FnOnce() + Send>;

/// One place, free again when this is dropped.
#[derive(Debug)]
pub struct Slot<K: Ord + Clone = ()> {
    table: Arc<Mutex<Table<K>>>,
    number: u64,
}

impl<K: Ord + Clone> Slots<K> {
    /// So many places.
    pub fn new(most: usize) -> Slots<K> {
        let table = Table {
            next: 0,
            taken: BTreeMap::new(),
            by: BTreeMap::new(),
        };
        Slots {
            table: Arc::new(Mutex::new(table)),
            most,
        }
    }

    /// One of them for this one: if it has fewer than are free, or than its fair share and somebody
    /// who has more can give one.
    pub fn take_for(&self, by: K) -> Option<Slot<K>> {
        let mut table = locked(&self.table);
        let held = table.by.get(&by).map_or(0, BTreeSet::len);
        let ended = match held < self.most.saturating_sub(table.taken.len()) {
            true => None,
            false => Some(table.displace(held, self.most)?),
        };
        let slot = self.slot(&mut table, by);
        drop(table);
        if let Some(end) = ended {
            end();
        }
        Some(slot)
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        locked(&self.table).taken.len()
    }

    fn slot(&self, table: &mut Table<K>, by: K) -> Slot<K> {
        let number = table.next;
        table.next += 1;
        table.by.entry(by.clone()).or_default().insert(number);
        table.taken.insert(number, Held { by, end: None });
        Slot {
            table: Arc::clone(&self.table),
            number,
        }
    }
}

impl Slots {
    /// One of them, if one is free.
    pub fn take(&self) -> Option<Slot> {
        let mut table = locked(&self.table);
        (table.taken.len() < self.most).then(|| self.slot(&mut table, ()))
    }
}

impl<K: Ord + Clone> Slot<K> {
    /// From now on it may be ended so, when another one has more right to the place. `end` is called on
    /// any thread and must not wait.
    pub fn may_end(&self, end: impl FnOnce() + Send + 'static) {
        self.set_end(Some(Box::new(end)));
    }

    /// From now on it may not.
    pub fn stays(&self) {
        self.set_end(None);
    }

    fn set_end(&self, end: Option<End>) {
        let before = match locked(&self.table).taken.get_mut(&self.number) {
            Some(held) => core::mem::replace(&mut held.end, end),
            None => end,
        };
        // Whatever that holds goes without the lock.
        drop(before);
    }
}

impl<K: Ord + Clone> Table<K> {
    /// Takes a place from whoever has more than a fair share of `most`, for one who has `held`.
    fn displace(&mut self, held: usize, most: usize) -> Option<End> {
        let holders = self.by.len() + usize::from(held == 0);
        let fair = most / holders.max(1);
        if held >= fair {
            return None;
        }
        let mut over: Vec<&BTreeSet<u64>> =
            self.by.values().filter(|held| held.len() > fair).collect();
        over.sort_by_key(|held| core::cmp::Reverse(held.len()));
        let can_end = |number: &&u64| {
            self.taken
                .get(*number)
                .is_some_and(|held| held.end.is_some())
        };
        let number = *over
            .into_iter()
            .find_map(|held| held.iter().find(can_end))?;
        self.remove(number)?.end
    }

    fn remove(&mut self, number: u64) -> Option<Held<K>> {
        let held = self.taken.remove(&number)?;
        if let Some(numbers) = self.by.get_mut(&held.by) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by.remove(&held.by);
            }
        }
        Some(held)
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
        // It may have been ended before.
        let held = locked(&self.table).remove(self.number);
        drop(held);
    }
}

impl<K: fmt::Debug> fmt::Debug for Held<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("by", &self.by)
            .field("may_end", &self.end.is_some())
            .finish()
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

    fn all(slots: &Slots<u8>, by: u8) -> Vec<Slot<u8>> {
        std::iter::from_fn(|| slots.take_for(by)).collect()
    }

    #[test]
    fn whoever_takes_all_that_he_can_leaves_room_for_others() {
        let slots = Slots::new(512);
        let first = all(&slots, 0);
        assert_eq!(first.len(), 256, "alone, a half");
        let others: Vec<_> = (1..5).map(|by| all(&slots, by)).collect();
        assert!(others.iter().all(|held| !held.is_empty()));
        assert!(slots.take_for(99).is_some(), "and the next one is served");
        drop((first, others));
        assert_eq!(slots.taken(), 0);
        assert!(locked(&slots.table).by.is_empty());
    }

    #[test]
    fn when_nothing_is_left_those_who_have_most_give_what_can_go() {
        let slots = Slots::new(512);
        let ended = Arc::new(Mutex::new(Vec::new()));
        let held: Vec<_> = (0..20).map(|by| all(&slots, by)).collect();
        assert_eq!(slots.taken(), 512);
        assert!(slots.take_for(99).is_none(), "nobody can go");
        for (number, slot) in held[0].iter().enumerate().skip(3) {
            let ended = Arc::clone(&ended);
            slot.may_end(move || ended.lock().unwrap().push(number));
        }
        held[0][3].stays();
        let served = all(&slots, 99);
        // Up to its fair share.
        let gone = ended.lock().unwrap().clone();
        assert_eq!(gone, (4..4 + served.len()).collect::<Vec<_>>());
        assert!(served.len() > 10, "{}", served.len());
        drop((held, served));
        assert_eq!(slots.taken(), 0);
    }
}
