//! The places that each host of a network takes, and how many it may take.
//!
//! A place is what takes one of a node: a group, or a source of a source-specific group. It counts for the host that
//! was the first to name it.

use crate::multicast::packet::Mac;
use std::collections::BTreeMap;

/// The places of all hosts.
#[derive(Debug)]
pub(super) struct Places {
    /// The maximum number of places of one host.
    pub(super) most: usize,
    /// Hosts without a place have no entry.
    taken: BTreeMap<Mac, usize>,
}

impl Places {
    pub(super) fn new(most: usize) -> Places {
        let taken = BTreeMap::new();
        Places { most, taken }
    }

    /// Returns how many places a host takes.
    pub(super) fn of(&self, host: Mac) -> usize {
        self.taken.get(&host).copied().unwrap_or(0)
    }

    /// Returns how many more places a host may take.
    pub(super) fn room(&self, host: Mac) -> usize {
        self.most.saturating_sub(self.of(host))
    }

    pub(super) fn take(&mut self, host: Mac) {
        *self.taken.entry(host).or_insert(0) += 1;
    }

    pub(super) fn give_back(&mut self, host: Mac) {
        let taken = self.taken.get_mut(&host);
        let taken = taken.expect("a host gives back only what it has taken");
        *taken -= 1;
        if *taken == 0 {
            self.taken.remove(&host);
        }
    }

    pub(super) fn clear(&mut self) {
        self.taken.clear();
    }
}
