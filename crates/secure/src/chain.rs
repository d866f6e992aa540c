//! The root keys that a network has had, one after the other, and how long the older ones stay valid.
//!
//! ```text
//!   root 0 ──signs──▶ succession 1 ◀──signs── root 1 ──signs──▶ succession 2 ◀──signs── root 2 (newest)
//!     counts until min(1.until, 2.until)        counts until 2.until                     counts
//! ```
//! The first key gives the network its id, and it keys what strangers must know of the network (mac1, the prologue):
//! both stay forever. Certificates and delegations are valid if the newest root signed them, or an older root within
//! its time. Only the newest root can name its successor, and a node accepts the first successor that it learns of. So
//! whoever has stolen an old key can neither name another successor nor extend the key's time.
//!
//! This module verifies nothing: [`crate::Network::succeed`] does.

use wire::certificate::{KEY_BYTES, MAX_SUCCESSIONS, Succession};

/// The roots of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    first: [u8; KEY_BYTES],
    successions: Vec<Succession>,
}

/// Why a succession was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuccessionError {
    /// The succession is of another network.
    #[error("this network file is of another network: copy that of this network")]
    WrongNetwork,
    /// The previous root, or the new one, did not sign it.
    #[error("the root key before it did not sign this succession")]
    BadSignature,
    /// The new key is unusable, or was a root before.
    #[error("the new root key is unusable, or was a root key before")]
    WeakKey,
    /// An earlier succession is not known.
    #[error("a root key between is not known: copy the network file again")]
    Gap,
    /// Another key already has this number.
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
    /// Returns the succession that made the root with this number; `None` for the first root.
    pub(crate) fn succession(&self, number: u8) -> Option<&Succession> {
        self.successions.get(usize::from(number).checked_sub(1)?)
    }
    /// Returns the number of the newest root: 0 as long as the first one has no successor.
    pub(crate) fn number(&self) -> u8 {
        self.successions.last().map_or(0, |newest| newest.number)
    }
    pub(crate) fn is_full(&self) -> bool {
        self.successions.len() >= MAX_SUCCESSIONS
    }

    /// Returns all roots with their numbers, the newest first.
    pub(crate) fn roots(&self) -> impl Iterator<Item = (u8, &[u8; KEY_BYTES])> {
        let successors = self.successions.iter();
        let successors = successors.map(|succession| (succession.number, &succession.root));
        successors.rev().chain([(0, &self.first)])
    }

    /// Returns the last second in which signatures of the root with this number are valid; `None` while it is the
    /// newest.
    pub(crate) fn until_s(&self, number: u8) -> Option<u64> {
        let later = self.successions.get(usize::from(number)..)?;
        later.iter().map(|succession| succession.until_s).min()
    }

    /// Appends a verified succession.
    pub(crate) fn push(&mut self, succession: Succession) {
        debug_assert_eq!(usize::from(succession.number), self.successions.len() + 1);
        self.successions.push(succession);
    }
}
