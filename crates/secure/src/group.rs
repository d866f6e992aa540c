//! Keys of groups: one source seals, all receivers open.
//!
//! ```text
//!   source     GroupKeys::make ──▶ SealingKey: number, key, counter ──▶ packets
//!                                     │ told to each receiver, under its session with the source
//!   receiver                          '──▶ OpeningKey: number, window of counters ◀── packets
//! ```
//!
//! The format, the nonce and the authenticated bytes are those of a [`crate::Session`] between two ends, in one
//! direction; the number of the key takes the place of the session's index. Whoever has the key to open can also seal
//! with it. So the key excludes nodes that are not receivers, but does not protect receivers from each other.

use crate::entropy::{Entropy, Secret, apart};
use crate::network::Network;
use crate::replay::Replay;
use crate::session::{
    Bound, Cipher, OpenError, REKEY_AFTER, REKEY_AFTER_MESSAGES, SealError, beside,
};
use base::seq::widen;
use base::{Duration, Time};
use wire::link::{CLEAR_BYTES, COUNTER_BITS, Clear, Kind, SEAL_BYTES, SessionIndex};
use zeroize::Zeroizing;

/// The maximum number of counters by which a packet may be behind the newest one of its key. Choice: the same as for
/// links. One source's packets to one group are fewer than everything that two ends send; at 20 000 per second, 65 536
/// are 3.3 s. The window takes 8 KiB.
const WINDOW_MAX: usize = crate::replay::MAX_WINDOW;
/// How many counters before the present one a new receiver of the key may open: packets that arrived while it requested
/// the key, and packets under way. Older packets could only be replayed. At 1000 packets per second this is 4 s.
const BEFORE: u64 = 1 << 12;

/// Makes the keys of a source.
pub struct GroupKeys {
    entropy: Entropy,
    is_open: bool,
}

impl GroupKeys {
    /// Creates the keys for a node of this network; `seed` may be the same as for its handshakes.
    pub fn new(network: &Network, seed: &[u8; 32]) -> GroupKeys {
        GroupKeys {
            entropy: Entropy::new(*apart(seed, b"sinew group keys 1")),
            is_open: network.suite().is_open(),
        }
    }

    /// Makes a fresh key.
    pub fn make(&mut self, now: Time) -> SealingKey {
        let key = self.entropy.draw();
        SealingKey {
            number: SessionIndex::new(self.entropy.draw_u32()),
            cipher: Cipher::new(&key, self.is_open),
            key,
            made: now,
            next_counter: 0,
        }
    }

    /// Returns the key of a source as received; `first` is the low bits of the first valid counter.
    pub fn opening(&self, number: SessionIndex, key: &[u8; 32], first: u32) -> OpeningKey {
        OpeningKey {
            number,
            cipher: Cipher::new(key, self.is_open),
            replay: Replay::up_to(WINDOW_MAX),
            by_tree: None,
            // A key ends long before its counter needs more bits.
            first: first.into(),
        }
    }
}

impl core::fmt::Debug for GroupKeys {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("GroupKeys").finish_non_exhaustive()
    }
}

/// The key with which a source seals its packets to a group. Its bytes are wiped when it is dropped.
pub struct SealingKey {
    number: SessionIndex,
    key: Secret,
    cipher: Cipher,
    made: Time,
    next_counter: u64,
}

impl SealingKey {
    /// Returns the number by which packets name the key.
    pub fn number(&self) -> SessionIndex {
        self.number
    }

    /// Returns the key bytes, for a receiver.
    pub fn secret(&self) -> &Zeroizing<[u8; 32]> {
        &self.key
    }

    /// Returns the first counter that is valid for a receiver that gets the key now.
    pub fn first(&self) -> u32 {
        self.next_counter.saturating_sub(BEFORE) as u32
    }

    /// Returns the counter of the packet that is sealed next.
    pub fn next_counter(&self) -> u64 {
        self.next_counter
    }

    /// Returns the age of the key.
    pub fn age(&self, now: Time) -> Duration {
        now.since(self.made)
    }

    /// Returns true if another key should replace this one soon.
    pub fn wants_rekey(&self, now: Time) -> bool {
        self.age(now) >= REKEY_AFTER || self.next_counter >= REKEY_AFTER_MESSAGES
    }

    /// Seals a datagram of `kind` inside a packet, in place: 8 bytes for the header, the plaintext, 16 bytes for the
    /// tag. `bound` is the data around it that must arrive unchanged.
    pub fn seal(
        &mut self,
        kind: Kind,
        datagram: &mut [u8],
        bound: &Bound,
    ) -> Result<(), SealError> {
        let (counter, clear) = (self.next_counter, (kind, self.number));
        self.cipher
            .seal_datagram(clear, counter, datagram, Some(bound))?;
        self.next_counter = counter + 1;
        Ok(())
    }
}

/// Shows no key.
impl core::fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SealingKey")
            .field("number", &self.number)
            .field("sealed", &self.next_counter)
            .finish_non_exhaustive()
    }
}

/// The key with which a receiver opens a source's packets to a group.
pub struct OpeningKey {
    number: SessionIndex,
    cipher: Cipher,
    /// The counters that have been opened, whatever route the packets took.
    replay: Replay,
    /// The counters that have come by the tree, once a packet has come by another route.
    by_tree: Option<Replay>,
    first: u64,
}

/// The route by which a packet to a group has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// By the tree, from any node that forwards it.
    Tree,
    /// From its source, sent only to this receiver.
    Alone,
}

impl OpeningKey {
    /// Returns the number by which packets name the key.
    pub fn number(&self) -> SessionIndex {
        self.number
    }

    /// Handles the same key when it arrives again, at a receiver that was away: packets that were sealed before are no
    /// longer valid, and opened counters stay known.
    pub fn renew(&mut self, told: &OpeningKey) {
        self.first = self.first.max(told.first);
    }

    /// Returns how many packets from counter `first` (its low 32 bits) to `len` later have come by the tree; `None` if
    /// that is forgotten.
    pub fn came_by_tree(&self, first: u32, len: u32) -> Option<u32> {
        let from = widen(u64::from(first), COUNTER_BITS, self.replay.next());
        let window = self.by_tree.as_ref().unwrap_or(&self.replay);
        let came = window.count(from, from + u64::from(len))?;
        u32::try_from(came).ok()
    }

    /// Opens a datagram that [`SealingKey::seal`] has sealed, in place. Each is opened once, whichever route it takes
    /// first.
    pub fn open(
        &mut self,
        route: Route,
        datagram: &mut [u8],
        bound: &Bound,
    ) -> Result<Kind, OpenError> {
        let clear = Clear::parse(datagram).map_err(|_| OpenError::Short)?;
        if datagram.len() < SEAL_BYTES {
            return Err(OpenError::Short);
        }
        let expected = self.replay.next().max(self.first);
        let counter = widen(u64::from(clear.counter_low), COUNTER_BITS, expected);
        let is_fresh = self.replay.is_fresh(counter);
        // A packet that was only sent to this receiver before also counts for the tree, if its source has sealed it.
        let counts = route == Route::Tree
            && (self.by_tree.as_ref()).is_some_and(|by_tree| by_tree.is_fresh(counter));
        if counter < self.first || !is_fresh && !counts {
            return Err(OpenError::Replay);
        }
        let (header, sealed) = datagram.split_at_mut(CLEAR_BYTES);
        self.cipher.open(counter, &beside(header, bound), sealed)?;
        match (route, &mut self.by_tree) {
            (Route::Tree, Some(by_tree)) if counts => by_tree.mark(counter),
            (Route::Alone, by_tree @ None) => *by_tree = Some(self.replay.clone()),
            _ => {}
        }
        if !is_fresh {
            return Err(OpenError::Replay);
        }
        self.replay.mark(counter);
        Ok(clear.kind)
    }
}

/// Shows no key.
impl core::fmt::Debug for OpeningKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("OpeningKey")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
