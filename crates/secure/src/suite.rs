//! How the nodes of a network seal and sign: for real, or in a cheaper way for simulators.
//!
//! ```text
//!   Network::new, from_text ──▶ Earnest ──with_memo──▶ Remembered   the same verdicts, once each
//!                                  └──────unsealed───▶ Open         same bytes on the wire, no secret
//! ```
//!
//! A world of a hundred simulated nodes verifies each link-state record a hundred times, and seals every packet at
//! every hop, on one processor. A simulation of routing needs neither, so the program that builds the world may choose
//! otherwise. It makes the choice on its [`Network`]. Files and wire formats cannot express it, so a node that runs
//! from a configuration never uses it.
//!
//! [`Network`]: crate::Network

use core::fmt::Debug;
use std::sync::Arc;

/// A memo of valid signatures. Whether a signature is valid depends only on its bytes and its key, so the nodes of one
/// world may share the result.
///
/// The memo must be bounded; signatures that it has forgotten are verified again.
pub trait Memo: Debug + Send + Sync {
    /// Returns the remembered result of this digest, or else the result of `verify`, which it remembers.
    fn recall(&self, digest: &[u8; 32], verify: &mut dyn FnMut() -> bool) -> bool;
}

/// How a network seals and signs.
#[derive(Clone, Debug, Default)]
pub(crate) enum Suite {
    /// Signatures are made and verified, and datagrams are sealed.
    #[default]
    Earnest,
    /// The same, but no signature is verified twice.
    Remembered(Arc<dyn Memo>),
    /// Nothing is secret and everything is believed: signatures are zero, tags only prove that a datagram belongs to a
    /// session, and keys are agreed without arithmetic. All lengths, messages and counters are the same as in
    /// `Earnest`.
    Open,
}

impl Suite {
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Suite::Open)
    }
}
