//! Ed25519 signatures, each bound to its purpose.
//!
//! A signature covers a context string and then the bytes. No context is a prefix of another, so a signature for one
//! purpose is never valid for another.

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use wire::certificate::{KEY_BYTES, SIGNATURE_BYTES};

/// The purpose of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// A certificate, by the root key or an issuer.
    Certificate,
    /// An issuer's right to sign certificates, by the root key.
    Delegation,
    /// A record of groups, by its origin.
    Groups,
    /// A list of link states, by its origin.
    LinkState,
    /// A request for a certificate, by the node that asks.
    Request,
    /// A list of revocations, by the root key.
    Revocations,
    /// A new root key, by the previous root and by itself.
    Succession,
    /// A transfer of bulk data, by the node at which it begins.
    Transfer,
    /// The acceptance of such a transfer, by a node at which it ends.
    TransferEnd,
}

impl Context {
    /// Returns the string that is put in front of the bytes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Context::Certificate => "sinew certificate 1",
            Context::Delegation => "sinew delegation 1",
            Context::LinkState => "sinew link state 1",
            Context::Groups => "sinew groups 1",
            Context::Request => "sinew request 1",
            Context::Revocations => "sinew revocations 1",
            Context::Succession => "sinew succession 1",
            Context::Transfer => "sinew transfer 2",
            Context::TransferEnd => "sinew end of transfer 1",
        }
    }
}

/// Returns true if `signature` is that of `key` over `body` in this context. Weak keys verify nothing.
pub fn verify(
    key: &[u8; KEY_BYTES],
    context: Context,
    body: &[u8],
    signature: &[u8; SIGNATURE_BYTES],
) -> bool {
    let Ok(key) = VerifyingKey::from_bytes(key) else {
        return false;
    };
    let signature = Signature::from_bytes(signature);
    key.verify_strict(&message(context, body), &signature)
        .is_ok()
}

/// Returns a digest of all the inputs of [`verify`]: different inputs have different digests.
pub(crate) fn digest(
    key: &[u8; KEY_BYTES],
    context: Context,
    body: &[u8],
    signature: &[u8; SIGNATURE_BYTES],
) -> [u8; 32] {
    // The part in front of the body has a fixed length for each context, and no context is a prefix of another.
    let mut hash = ring::digest::Context::new(&ring::digest::SHA256);
    for part in [key, signature.as_slice(), context.as_str().as_bytes(), body] {
        hash.update(part);
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(hash.finish().as_ref());
    digest
}

pub(crate) fn sign(key: &SigningKey, context: Context, body: &[u8]) -> [u8; SIGNATURE_BYTES] {
    key.sign(&message(context, body)).to_bytes()
}

/// Returns true if `key` is a point on the curve that can verify anything.
pub(crate) fn is_usable(key: &[u8; KEY_BYTES]) -> bool {
    VerifyingKey::from_bytes(key).is_ok_and(|key| !key.is_weak())
}

fn message(context: Context, body: &[u8]) -> Vec<u8> {
    [context.as_str().as_bytes(), body].concat()
}
