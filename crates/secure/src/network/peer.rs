//! The result of verifying a certificate: a known node, or the reason for the refusal.

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

/// Why a certificate is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum CertificateError {
    /// The certificate cannot be decoded.
    #[error("malformed certificate ({0}): copy the file again, or let the nodes run one version")]
    Malformed(#[from] Malformed),
    /// The certificate is of another network.
    #[error("certificate of another network: let this network's authority issue one")]
    WrongNetwork,
    /// Neither the root key nor an issuer signed the certificate.
    #[error("the root key did not sign this certificate: let the authority issue it anew")]
    BadSignature,
    /// The issuer had no right to certify this.
    #[error(
        "the issuer of this certificate may not give this name, address, domain or lifetime: let the \
         authority issue one"
    )]
    NotDelegated,
    /// The certificate is not valid yet.
    #[error("certificate not yet valid: check the clocks of both machines")]
    NotYetValid,
    /// The certificate has expired.
    #[error("certificate expired: run `sinew net renew` and copy the new one to the node")]
    Expired,
    /// The certificate was revoked.
    #[error("certificate revoked: to let the node back in, issue one for a new key")]
    Revoked,
    /// The certificate was signed by a root key that was replaced, and whose time is over.
    #[error(
        "certificate of an old root key, which counts no more: run `sinew net renew` and copy the new one to the node"
    )]
    OldRoot,
    /// The certificate was signed by a root key that is not known here.
    #[error(
        "certificate of a newer root key than is known here: copy the network file (network.pub) to the node that says \
         so, and send it SIGHUP"
    )]
    NewerRoot,
}

impl Peer {
    /// Returns the node's overlay address.
    pub fn address(&self) -> NodeAddr {
        self.address
    }
    /// Returns the node's name.
    pub fn name(&self) -> &str {
        self.certificate.fields().subject.name
    }
    /// Returns the serial of the node's certificate.
    pub fn serial(&self) -> u32 {
        self.serial
    }
    /// Returns the number of the root that signed the node's certificate, or the delegation of its issuer.
    pub fn root(&self) -> u8 {
        self.root
    }
    pub(crate) fn shown(&self) -> Shown {
        Shown {
            root: self.root,
            signing_key: self.signing_key,
        }
    }
    /// Returns the last second in which the node's certificate is valid, as far as is known now: the replacement of a
    /// root may end it earlier.
    pub fn not_after_s(&self) -> u64 {
        self.not_after_s
    }
    /// Returns the key with which the node signs what it floods.
    pub fn signing_key(&self) -> &[u8; KEY_BYTES] {
        &self.signing_key
    }
    /// Returns the node's certificate.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }
    /// Returns true if the node signed `body` in this context.
    pub fn signed(&self, context: Context, body: &[u8], signature: &[u8; 64]) -> bool {
        signature::verify(&self.signing_key, context, body, signature)
    }
}

impl CertificateError {
    /// Returns a short stable word for metrics.
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
