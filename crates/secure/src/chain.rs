//! The root keys that a network has had, one after the other, and for how long the older ones count.
//!
//! ```text
//!   root 0 ──signs──▶ succession 1 ◀──signs── root 1 ──signs──▶ succession 2 ◀──signs── root 2 (newest)
//!     counts until min(1.until, 2.until)        counts until 2.until                     counts
//! ```
//! The first key gives the network its id and keys what strangers must know of it (mac1, the prologue): both stay for
//! ever. Certificates and delegations count if the newest root signed them, or an older one in its time. Only the newest
//! root can name its successor, and the first word of it that comes is believed: whoever has stolen an old key can neither
//! succeed it again nor make its time longer.
//!
//! Nothing is verified here: [`crate::Network::succeed`] does.

use wire::certificate::{KEY_BYTES, MAX_SUCCESSIONS, Succession};

/// The roots of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    first: [u8; KEY_BYTES],
    successions: Vec<Succession>,
}

/// Why a succession was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuccessionError {
    /// It is of another network.
    #[error("this network file is of another network: copy that of this network")]
    WrongNetwork,
    /// The root before, or the new one, did not sign it.
    #[error("the root key before it did not sign this succession")]
    BadSignature,
    /// The new key verifies nothing, or was a root before.
    #[error("the new root key is unusable, or was a root key before")]
    WeakKey,
    /// An earlier one is not known.
    #[error("a root key between is not known: copy the network file again")]
    Gap,
    /// Another key has taken this place already.
    #[error(
        "another root key took this place already: somebody else has the old root key, or two successors were made; see \
         the page on security"
    )]
    Rival,
}

impl Chain {
    pub(crate) fn new(first: [u8; KEY_BYTES]) -> Chain {
        Chain {
            first,
            successions: Vec::new(),
        }
    }

    pub(crate) fn first(&self) -> &[u8; KEY_BYTES] {
        &self.first
    }
    pub(crate) fn successions(&self) -> &[Succession] {
        &self.successions
    }
    /// The succession by which the root of this number became one; none for the first.
    pub(crate) fn succession(&self, number: u8) -> Option<&Succession> {
        self.successions.get(usize::from(number).checked_sub(1)?)
    }
    /// The number of the newest root: 0 as long as the first one has no successor.
    pub(crate) fn number(&self) -> u8 {
        self.successions.last().map_or(0, |newest| newest.number)
    }
    pub(crate) fn is_full(&self) -> bool {
        self.successions.len() >= MAX_SUCCESSIONS
    }

    /// All roots with their numbers, the newest first.
    pub(crate) fn roots(&self) -> impl Iterator<Item = (u8, &[u8; KEY_BYTES])> {
        let successors = self.successions.iter();
        let successors = successors.map(|succession| (succession.number, &succession.root));
        successors.rev().chain([(0, &self.first)])
    }

    /// The last second in which counts what the root of this number signed; none while no other has taken its place.
    pub(crate) fn until_s(&self, number: u8) -> Option<u64> {
        let later = self.successions.get(usize::from(number)..)?;
        later.iter().map(|succession| succession.until_s).min()
    }

    /// Appends what was verified.
    pub(crate) fn push(&mut self, succession: Succession) {
        debug_assert_eq!(usize::from(succession.number), self.successions.len() + 1);
        self.successions.push(succession);
    }
}
