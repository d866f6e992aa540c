//! What a certificate comes to: a node that is known, or the reason why it is not.

use crate::certificate::Certificate;
use crate::session::Shown;
use crate::signature::{self, Context};
use base::NodeAddr;
use wire::Malformed;
use wire::certificate::KEY_BYTES;

/// A node whose certificate has been verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub(super) address: NodeAddr,
    pub(super) serial: u32,
    pub(super) root: u8,
    pub(super) not_after_s: u64,
    pub(super) signing_key: [u8; KEY_BYTES],
    pub(super) certificate: Certificate,
}

/// Why a certificate does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum CertificateError {
    /// It cannot be read.
    #[error("malformed certificate ({0}): copy the file again, or let the nodes run one version")]
    Malformed(#[from] Malformed),
    /// It is of another network.
    #[error("certificate of another network: let this network's authority issue one")]
    WrongNetwork,
    /// Neither the root key nor an issuer signed it.
    #[error("the root key did not sign this certificate: let the authority issue it anew")]
    BadSignature,
    /// Its issuer had no right to say this.
    #[error(
        "the issuer of this certificate may not give this name, address, domain or lifetime: let the \
         authority issue one"
    )]
    NotDelegated,
    /// It does not count yet.
    #[error("certificate not yet valid: check the clocks of both machines")]
    NotYetValid,
    /// It has expired.
    #[error("certificate expired: run `sinew net renew` and copy the new one to the node")]
    Expired,
    /// It was revoked.
    #[error("certificate revoked: to let the node back in, issue one for a new key")]
    Revoked,
    /// A root key signed it that was replaced, and the time for which that went on counting is over.
    #[error(
        "certificate of an old root key, which counts no more: run `sinew net renew` and copy the new one to the node"
    )]
    OldRoot,
    /// A root key signed it of which nothing is known here.
    #[error(
        "certificate of a newer root key than is known here: copy the network file (network.pub) to the node that says \
         so, and send it SIGHUP"
    )]
    NewerRoot,
}

impl Peer {
    /// Its overlay address.
    pub fn address(&self) -> NodeAddr {
        self.address
    }
    /// Its name.
    pub fn name(&self) -> &str {
        self.certificate.fields().subject.name
    }
    /// The serial of its certificate.
    pub fn serial(&self) -> u32 {
        self.serial
    }
    /// The number of the root that signed its certificate, or the delegation of its issuer.
    pub fn root(&self) -> u8 {
        self.root
    }
    pub(crate) fn shown(&self) -> Shown {
        Shown {
            root: self.root,
            signing_key: self.signing_key,
        }
    }
    /// The last second in which its certificate counts, as far as is known now: a root that is replaced may end it earlier.
    pub fn not_after_s(&self) -> u64 {
        self.not_after_s
    }
    /// The key by which it signs what it floods.
    pub fn signing_key(&self) -> &[u8; KEY_BYTES] {
        &self.signing_key
    }
    /// Its certificate.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }
    /// True if it signed `body` in this context.
    pub fn signed(&self, context: Context, body: &[u8], signature: &[u8; 64]) -> bool {
        signature::verify(&self.signing_key, context, body, signature)
    }
}

impl CertificateError {
    /// A short stable word for metrics.
    pub const fn label(self) -> &'static str {
        match self {
            CertificateError::Malformed(_) => "certificate-malformed",
            CertificateError::WrongNetwork => "wrong-network",
            CertificateError::BadSignature => "bad-signature",
            CertificateError::NotDelegated => "not-delegated",
            CertificateError::NotYetValid => "not-yet-valid",
            CertificateError::Expired => "expired",
            CertificateError::Revoked => "revoked",
            CertificateError::OldRoot => "old-root",
            CertificateError::NewerRoot => "newer-root",
        }
    }
}
