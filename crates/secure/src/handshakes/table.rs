//! The session indices in use, their purposes, and when something is due for one of them.

use super::hybrid::Made;
use crate::entropy::Secret;
use crate::identity::Identity;
use crate::kem::{Agreed, Offer, Pieces};
use crate::limits::MAX_INDICES;
use crate::mac::Mac;
use base::{Map, NodeAddr, Time, UnderlayAddr};
use snow::HandshakeState;
use std::collections::BTreeSet;
use std::sync::Arc;
use wire::handshake::{INIT_BYTES, NOISE_INIT_BYTES, VersionRange};
use wire::link::SessionIndex;

/// A handshake that this side started and that nobody has answered.
pub(super) struct Dial {
    pub(super) to: UnderlayAddr,
    pub(super) expect: Option<NodeAddr>,
    /// True if the session is for a further path of a link.
    pub(super) is_further: bool,
    pub(super) identity: Arc<Identity>,
    pub(super) noise: HandshakeState,
    pub(super) init: Box<[u8; INIT_BYTES]>,
    pub(super) begun: Time,
    /// How often the Init was sent by the timer.
    pub(super) tries: u32,
    /// A cookie was answered since then; the next one waits for the timer, so that two nodes do not answer each other
    /// endlessly.
    pub(super) cookie_answered: bool,
    /// Number of responses since then that were not authentic.
    pub(super) bad_responses: u32,
}

/// A handshake that was answered and is not finished.
pub(super) struct HalfOpen {
    pub(super) from: UnderlayAddr,
    pub(super) peer_index: SessionIndex,
    pub(super) version: u8,
    pub(super) identity: Arc<Identity>,
    pub(super) noise: HandshakeState,
    /// The values from which `noise` can be restored.
    pub(super) seed: Secret,
    pub(super) prologue: Vec<u8>,
    pub(super) init_noise: [u8; NOISE_INIT_BYTES],
    pub(super) init_mac1: Mac,
    pub(super) response: Vec<u8>,
    /// How often the same Init was answered again.
    pub(super) repeats: u32,
    pub(super) bad_finishes: u32,
}

/// A handshake that this side started, and in which it has offered an ML-KEM key.
pub(super) struct Offering {
    pub(super) to: UnderlayAddr,
    pub(super) expect: Option<NodeAddr>,
    pub(super) made: Made,
    pub(super) offer: Offer,
    pub(super) agreed: Agreed,
    pub(super) key: Vec<u8>,
    pub(super) ciphertext: Pieces,
    /// The Finish, and the pieces of the key.
    pub(super) datagrams: Vec<Vec<u8>>,
    pub(super) tries: u32,
}

/// A handshake that was answered, whose dialler is known, and which waits for the dialler's key.
pub(super) struct Offered {
    pub(super) from: UnderlayAddr,
    pub(super) made: Made,
    pub(super) agreed: Agreed,
    pub(super) key: Pieces,
}

/// A session in whose handshake this side sent the last message, and in which the peer has not sent anything yet.
pub(super) struct Confirming {
    pub(super) to: UnderlayAddr,
    pub(super) datagrams: Vec<Vec<u8>>,
    pub(super) tries: u32,
}

pub(super) enum Entry {
    Dial(Box<Dial>),
    HalfOpen(Box<HalfOpen>),
    Offering(Box<Offering>),
    Offered(Box<Offered>),
    Confirming(Confirming),
    Live,
}

/// All handshakes and sessions, by index.
#[derive(Default)]
pub(super) struct Table {
    entries: Map<SessionIndex, (Entry, Time)>,
    /// The dials, by the address of the far end.
    dials: Map<UnderlayAddr, SessionIndex>,
    half_open: Map<(UnderlayAddr, Mac), SessionIndex>,
    /// Number of handshakes that wait for a key.
    offered: usize,
    /// The timers, one per entry that is not live.
    timers: BTreeSet<(Time, SessionIndex)>,
}

impl Dial {
    /// Returns the versions that its Init announces.
    pub(super) fn versions(&self) -> VersionRange {
        let [min, max] = [self.init[4], self.init[5]];
        VersionRange { min, max }
    }
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
    pub(super) fn dials(&self) -> usize {
        self.dials.len()
    }
    pub(super) fn half_open(&self) -> usize {
        self.half_open.len() + self.offered
    }

    /// Returns an index that is not in use; `None` if too many are in use.
    pub(super) fn free_index(&self, mut draw: impl FnMut() -> u32) -> Option<SessionIndex> {
        if self.entries.len() >= MAX_INDICES {
            return None;
        }
        loop {
            let index = SessionIndex::new(draw());
            if !self.entries.contains_key(&index) {
                return Some(index);
            }
        }
    }

    pub(super) fn dial_to(&self, to: UnderlayAddr) -> Option<SessionIndex> {
        self.dials.get(&to.remote()).copied()
    }
    pub(super) fn dial(&mut self, index: SessionIndex) -> Option<&mut Dial> {
        match self.entries.get_mut(&index) {
            Some((Entry::Dial(dial), _)) => Some(dial),
            _ => None,
        }
    }
    pub(super) fn half_open_of(&mut self, from: UnderlayAddr, mac1: &Mac) -> Option<&mut HalfOpen> {
        let index = *self.half_open.get(&(from, *mac1))?;
        self.half_open_at(index)
    }
    pub(super) fn half_open_at(&mut self, index: SessionIndex) -> Option<&mut HalfOpen> {
        match self.entries.get_mut(&index) {
            Some((Entry::HalfOpen(half_open), _)) => Some(half_open),
            _ => None,
        }
    }

    pub(super) fn offering(&mut self, index: SessionIndex) -> Option<&mut Offering> {
        match self.entries.get_mut(&index) {
            Some((Entry::Offering(offering), _)) => Some(offering),
            _ => None,
        }
    }
    pub(super) fn offered(&mut self, index: SessionIndex) -> Option<&mut Offered> {
        match self.entries.get_mut(&index) {
            Some((Entry::Offered(offered), _)) => Some(offered),
            _ => None,
        }
    }
    /// Returns true if the peer may already have the session, or may have it before this side.
    pub(super) fn is_half_open(&self, index: SessionIndex) -> bool {
        let entry = self.entries.get(&index).map(|(entry, _)| entry);
        matches!(
            entry,
            Some(Entry::HalfOpen(_) | Entry::Offered(_) | Entry::Offering(_))
        )
    }

    /// Puts an entry at a free or own index; its timer expires at `due`.
    pub(super) fn insert(&mut self, index: SessionIndex, entry: Entry, due: Time) {
        self.remove(index);
        match &entry {
            Entry::Dial(dial) => {
                self.dials.insert(dial.to.remote(), index);
            }
            Entry::HalfOpen(half_open) => {
                let key = (half_open.from, half_open.init_mac1);
                self.half_open.insert(key, index);
            }
            Entry::Offering(offering) => {
                self.dials.insert(offering.to.remote(), index);
            }
            Entry::Offered(_) => self.offered += 1,
            Entry::Confirming(_) | Entry::Live => {}
        }
        if due != Time::FAR {
            self.timers.insert((due, index));
        }
        self.entries.insert(index, (entry, due));
    }

    /// Frees an index. Returns true if it was in use.
    pub(super) fn remove(&mut self, index: SessionIndex) -> bool {
        self.take(index).is_some()
    }

    pub(super) fn take(&mut self, index: SessionIndex) -> Option<Entry> {
        let (entry, due) = self.entries.remove(&index)?;
        self.timers.remove(&(due, index));
        match &entry {
            Entry::Dial(dial) => {
                self.dials.remove(&dial.to.remote());
            }
            Entry::HalfOpen(half_open) => {
                let key = (half_open.from, half_open.init_mac1);
                self.half_open.remove(&key);
            }
            Entry::Offering(offering) => {
                self.dials.remove(&offering.to.remote());
            }
            Entry::Offered(_) => self.offered -= 1,
            Entry::Confirming(_) | Entry::Live => {}
        }
        Some(entry)
    }

    /// Records that the session of an index has been confirmed.
    pub(super) fn confirm(&mut self, index: SessionIndex) {
        if let Some((Entry::Confirming(_), _)) = self.entries.get(&index) {
            self.insert(index, Entry::Live, Time::FAR);
        }
    }

    /// Records that the session of an index has been dropped.
    pub(super) fn release(&mut self, index: SessionIndex) {
        if let Some((Entry::Confirming(_) | Entry::Live, _)) = self.entries.get(&index) {
            self.remove(index);
        }
    }

    /// Returns an index whose timer has expired, and removes the timer.
    pub(super) fn take_due(&mut self, now: Time) -> Option<SessionIndex> {
        let &(at, index) = self.timers.first()?;
        if at > now {
            return None;
        }
        self.timers.remove(&(at, index));
        Some(index)
    }
    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_in_use_is_never_drawn() {
        let mut table = Table::default();
        // The same low 24 bits are drawn three times, then others.
        let mut drawn = [5, 0x0100_0005, 0xff00_0005, 6, 7, 5, 6].into_iter();
        let mut draw = || drawn.next().unwrap();
        for expected in [5, 6, 7] {
            let index = table.free_index(&mut draw).unwrap();
            assert_eq!(index.value(), expected);
            table.insert(index, Entry::Live, Time::FAR);
        }
        table.release(SessionIndex::new(6));
        assert_eq!(table.free_index(&mut draw), Some(SessionIndex::new(6)));
    }

    #[test]
    fn indices_run_out_at_the_limit() {
        let mut table = Table::default();
        for n in 0..MAX_INDICES as u32 {
            table.insert(SessionIndex::new(n), Entry::Live, Time::FAR);
        }
        assert_eq!(table.free_index(|| 1 << 23), None);
        assert_eq!(table.len(), MAX_INDICES);
    }
}
