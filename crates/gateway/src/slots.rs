//! A limit on how many places are taken at the same time, and on how many of them one holder may have.
//!
//! ```text
//!   held by one < free  ──▶ one more          alone: a half; the next one: a half of the rest ..
//!     │ no
//!     ├── it has some to spare ──▶ the oldest of these go for it
//!     └── another one has more ──▶ the oldest that can go, of whoever has most
//! ```
//! A table may also permit each holder several times as many places as are free ([`Slots::with_share`]).
//!
//! A holder may also have a fixed maximum. Once it has that many places, it gets another one only in exchange for a
//! spare one of its own.
//!
//! Choice: a holder that is alone gets more than a fixed share, and yet some places stay free for the next one (the
//! dynamic threshold of Choudhury and Hahne, 1998). If many holders take all that they can, one after the other, no
//! place stays free. Then places whose end does little harm are taken back.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A number of places, each taken by one holder at a time. `K` identifies the holder.
#[derive(Debug)]
pub struct Slots<K: Ord = ()> {
    table: Arc<Mutex<Table<K>>>,
    most: usize,
    /// A holder may have at most this number of times as many places as are free.
    times: usize,
}

#[derive(Debug)]
struct Table<K> {
    next: u64,
    size: usize,
    taken: BTreeMap<u64, Held<K>>,
    by: BTreeMap<K, Holder>,
    /// Holders that have a place that can be ended: in order of size, and by age if the sizes are equal.
    ranks: BTreeSet<(usize, Reverse<u64>, K)>,
}

/// The places of one holder. Places are numbered in the order in which they were taken.
#[derive(Debug, Default)]
struct Holder {
    size: usize,
    count: usize,
    can_end: BTreeSet<u64>,
    spare: BTreeSet<u64>,
}

struct Held<K> {
    by: K,
    size: usize,
    /// Ends the use of the place in favor of another holder; none if it may not be ended.
    end: Option<End>,
}

type End = Box<dyn FnOnce() + Send>;

/// A place, which becomes free again when this value is dropped.
#[derive(Debug)]
pub struct Slot<K: Ord + Clone = ()> {
    table: Arc<Mutex<Table<K>>>,
    number: u64,
}

impl<K: Ord + Clone> Slots<K> {
    /// Creates `most` places.
    pub fn new(most: usize) -> Slots<K> {
        Slots::with_share(most, 1)
    }

    /// Creates `most` places, of which a holder may have at most `times` as many as are free: alone, `times` parts of
    /// `times + 1`.
    pub fn with_share(most: usize, times: usize) -> Slots<K> {
        let table = Table {
            next: 0,
            size: 0,
            taken: BTreeMap::new(),
            by: BTreeMap::new(),
            ranks: BTreeSet::new(),
        };
        Slots {
            table: Arc::new(Mutex::new(table)),
            most,
            times,
        }
    }

    /// Takes a place for this holder, if it may have one.
    pub fn take_for(&self, by: K) -> Option<Slot<K>> {
        self.take_sized(by, 1)
    }

    /// Takes a place that counts as `size` places.
    pub fn take_sized(&self, by: K, size: usize) -> Option<Slot<K>> {
        self.take_within(by, size, self.most)
    }

    /// Takes a place for a holder that has a fixed maximum.
    pub fn take_of_at_most(&self, by: K, own_most: usize) -> Option<Slot<K>> {
        self.take_within(by, 1, own_most)
    }

    fn take_within(&self, by: K, size: usize, own_most: usize) -> Option<Slot<K>> {
        let mut table = locked(&self.table);
        let (has_room, ended) = table.make_room(&by, size, (self.most, own_most, self.times));
        let slot = has_room.then(|| self.slot(&mut table, by, size));
        drop(table);
        ended.into_iter().for_each(|end| end());
        slot
    }

    /// Returns how many places are taken.
    pub fn taken(&self) -> usize {
        locked(&self.table).size
    }

    fn slot(&self, table: &mut Table<K>, by: K, size: usize) -> Slot<K> {
        let number = table.next;
        table.next += 1;
        table.size += size;
        table.change(&by, |holder| {
            holder.size += size;
            holder.count += 1;
        });
        let end = None;
        table.taken.insert(number, Held { by, size, end });
        Slot {
            table: Arc::clone(&self.table),
            number,
        }
    }
}

impl Slots {
    /// Takes a place, if one is free.
    pub fn take(&self) -> Option<Slot> {
        let mut table = locked(&self.table);
        (table.size < self.most).then(|| self.slot(&mut table, (), 1))
    }
}

impl<K: Ord + Clone> Slot<K> {
    /// Permits that `end` is called to end the use of this place, when another holder has more right to it. `end` is
    /// called on any thread and must not wait.
    pub fn may_end(&self, end: impl FnOnce() + Send + 'static) {
        self.set_end(Some(Box::new(end)), false);
    }

    /// Permits that the place is ended in the same way for another place of its own holder.
    pub fn is_spare(&self) {
        let mut table = locked(&self.table);
        if let Some(held) = table.taken.get(&self.number)
            && held.end.is_some()
        {
            let by = held.by.clone();
            table.change(&by, |holder| {
                holder.spare.insert(self.number);
            });
        }
    }

    /// Forbids to end the place. Returns false if it was ended before.
    #[must_use]
    pub fn stays(&self) -> bool {
        self.set_end(None, true)
    }

    fn set_end(&self, end: Option<End>, stays: bool) -> bool {
        let mut table = locked(&self.table);
        let Some(held) = table.taken.get_mut(&self.number) else {
            drop(table);
            // Whatever `end` holds is dropped without the lock.
            drop(end);
            return false;
        };
        let before = core::mem::replace(&mut held.end, end);
        let by = held.by.clone();
        table.change(&by, |holder| {
            holder.spare.remove(&self.number);
            match stays {
                true => holder.can_end.remove(&self.number),
                false => holder.can_end.insert(self.number),
            };
        });
        drop(table);
        drop(before);
        true
    }
}

impl<K: Ord + Clone> Table<K> {
    /// Makes room for one more place of this size, if the holder may have it. Also returns the calls for the places
    /// that were ended. Some may have been ended even if there is not enough room in the end.
    fn make_room(
        &mut self,
        by: &K,
        size: usize,
        (most, own_most, times): (usize, usize, usize),
    ) -> (bool, Vec<End>) {
        let held = self.by.get(by).map_or(0, |holder| holder.size);
        let may_have_more = held + size <= own_most;
        let free = most.saturating_sub(self.size);
        if may_have_more && size <= free && held + size <= times.saturating_mul(free) {
            return (true, Vec::new());
        }
        let (mut found, mut freed) = (Vec::new(), 0);
        for number in self.by.get(by).into_iter().flat_map(|own| &own.spare) {
            found.push(*number);
            freed += self.taken.get(number).map_or(0, |held| held.size);
            if freed >= size {
                return (true, self.end_all(&found));
            }
        }
        if !may_have_more {
            return (false, Vec::new());
        }
        // The spare places of the holder are not enough.
        let (mut ended, before) = (Vec::new(), self.size);
        while before - self.size < size {
            let Some((most_held, Reverse(number), _)) = self.ranks.last().cloned() else {
                return (false, ended);
            };
            if most_held < held + size {
                return (false, ended);
            }
            ended.extend(self.end_all(&[number]));
        }
        (true, ended)
    }

    fn end_all(&mut self, numbers: &[u64]) -> Vec<End> {
        let removed = numbers.iter().filter_map(|number| self.remove(*number));
        removed.filter_map(|held| held.end).collect()
    }

    /// Changes what one holder has, and its rank.
    fn change(&mut self, by: &K, change: impl FnOnce(&mut Holder)) {
        let holder = self.by.entry(by.clone()).or_default();
        let rank = |holder: &Holder| {
            let oldest = holder.can_end.first()?;
            Some((holder.size, Reverse(*oldest), by.clone()))
        };
        let before = rank(holder);
        change(holder);
        let after = rank(holder);
        if holder.count == 0 {
            self.by.remove(by);
        }
        if before != after {
            before.map(|rank| self.ranks.remove(&rank));
            self.ranks.extend(after);
        }
    }

    fn remove(&mut self, number: u64) -> Option<Held<K>> {
        let held = self.taken.remove(&number)?;
        self.size -= held.size;
        self.change(&held.by, |holder| {
            holder.size -= held.size;
            holder.count -= 1;
            holder.can_end.remove(&number);
            holder.spare.remove(&number);
        });
        Some(held)
    }
}

impl<K: Ord> Clone for Slots<K> {
    fn clone(&self) -> Slots<K> {
        Slots {
            table: Arc::clone(&self.table),
            most: self.most,
            times: self.times,
        }
    }
}

impl<K: Ord + Clone> Drop for Slot<K> {
    fn drop(&mut self) {
        // The place may have been ended before.
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
    fn a_larger_share_leaves_less_room_but_some() {
        let slots = Slots::with_share(8, 3);
        let first = all(&slots, 0);
        assert_eq!(first.len(), 6, "alone, three quarters");
        let next = slots.take_for(1);
        assert!(next.is_some() && slots.take_for(2).is_some());
        assert!(slots.take_sized(3, 2).is_none(), "there is one");
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
        assert!(held[0][3].stays());
        let served = all(&slots, 99);
        // This continues until the newcomer has as many.
        let gone = ended.lock().unwrap().clone();
        assert_eq!(gone, (4..4 + served.len()).collect::<Vec<_>>());
        assert_eq!(served.len(), 128);
        assert!(!held[0][4].stays(), "it is gone");
        drop((held, served));
        assert_eq!(slots.taken(), 0);
        assert!(locked(&slots.table).ranks.is_empty());
    }

    #[test]
    fn many_who_have_one_each_are_no_more_than_one_who_has_many() {
        let slots = Slots::new(16);
        let held: Vec<_> = (0..16).map_while(|by| slots.take_for(by)).collect();
        held.iter().for_each(|slot| slot.may_end(|| ()));
        assert_eq!(held.len(), 16);
        // A newcomer gets the oldest place, but no second one while others have only one.
        let new = slots.take_for(99).unwrap();
        assert!(!held[0].stays() && held[1].stays());
        assert!(slots.take_for(99).is_none());
        drop((new, held));
    }

    #[test]
    fn who_has_all_that_it_may_gets_another_only_for_one_to_spare() {
        let slots = Slots::new(512);
        let held: Vec<_> = std::iter::from_fn(|| slots.take_of_at_most(0, 3)).collect();
        assert_eq!(held.len(), 3);
        let others = all(&slots, 1);
        assert!(others.len() > 200, "others have their share");
        others.iter().for_each(|slot| slot.may_end(|| ()));
        assert!(slots.take_of_at_most(0, 3).is_none());
        assert!(others[0].stays(), "nobody else went for it");
        held[1].may_end(|| ());
        held[1].is_spare();
        let another = slots.take_of_at_most(0, 3);
        assert!(another.is_some() && !held[1].stays());
        assert!(slots.take_of_at_most(0, 3).is_none());
    }

    #[test]
    fn what_is_to_spare_goes_for_its_holder_first_and_sizes_count() {
        let slots = Slots::new(16);
        let held: Vec<_> = std::iter::from_fn(|| slots.take_sized(0, 2)).collect();
        assert_eq!((held.len(), slots.taken()), (4, 8));
        held.iter().for_each(|slot| slot.may_end(|| ()));
        assert!(slots.take_sized(0, 2).is_none(), "not for its holder");
        held[1].is_spare();
        held[2].is_spare();
        let big = slots.take_sized(0, 3).unwrap();
        assert!(held[0].stays() && !held[1].stays() && !held[2].stays());
        assert_eq!(slots.taken(), 7);
        drop((big, held));
        assert!(locked(&slots.table).by.is_empty());
    }
}
