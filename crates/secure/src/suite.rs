//! How the nodes of a network seal and sign: in earnest, or as a simulator may want it.
//!
//! ```text
//!   Network::new, from_text ──▶ Earnest ──with_memo──▶ Remembered   the same verdicts, once each
//!                                  └──────unsealed───▶ Open         same bytes on the wire, no secret
//! ```
//!
//! A world of a hundred simulated nodes verifies each link-state record a hundred times, and seals
//! every packet at every hop, on one processor. Neither is what a simulation of routing wants to
//! know, so whoever builds the world may choose otherwise. The choice is made on a [`Network`] in
//! the program that owns it; files and wire know nothing of it, so that no node which runs from a
//! configuration can have it.
//!
//! [`Network`]: crate::Network

use core::fmt::Debug;
use std::sync::Arc;

/// Remembers which signatures were good. Whether one is good is a function of its bytes and its
/// key alone, so nodes of one world may share what one of them has found.
///
/// It must be bounded; what it has forgotten is verified again.
pub trait Memo: Debug + Send + Sync {
    /// What is remembered of this digest, or else what `verify` says, to be remembered.
    fn recall(&self, digest: &[u8; 32], verify: &mut dyn FnMut() -> bool) -> bool;
}

/// How a network seals and signs.
#[derive(Clone, Debug, Default)]
pub(crate) enum Suite {
    /// Signatures are made and verified, datagrams sealed.
    #[default]
    Earnest,
    /// The same, but no signature is verified twice.
    Remembered(Arc<dyn Memo>),
    /// Nothing is secret and everything is believed: signatures are zero, tags prove no more than
    /// that a datagram belongs to a session, keys are agreed without arithmetic. All lengths,
    /// messages and counters are as in earnest.
    Open,
}

impl Suite {
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Suite::Open)
    }
}
