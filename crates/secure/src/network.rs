//! The network as a node knows it: the root public key, and what that key has revoked.
//!
//! [`Network::verify`] turns a certificate into a [`Peer`]; nothing else can. A refusal says which
//! of the two sides has to do what.

use crate::armour::{self, ArmourError};
use crate::certificate::{Certificate, Revocations};
use crate::identity::Identity;
use crate::signature::{self, Context};
use crate::suite::{Memo, Suite};
use base::NodeAddr;
use std::sync::Arc;
use wire::Malformed;
use wire::certificate::{
    Certificate as Fields, Delegation, KEY_BYTES, NETWORK_ID_BYTES, NetworkId, SIGNATURE_BYTES,
    signed_part,
};

/// How far in the future a certificate's first second may lie, because clocks differ.
pub const CLOCK_SKEW_S: u64 = 300;
/// How long before its end a certificate's expiry shows in status, metrics and log.
pub const EXPIRY_NOTICE_S: u64 = 30 * 86_400;

const LABEL: &str = "SINEW NETWORK";
/// The version of the text form.
const VERSION: u8 = 1;

/// A network: its root public key, and the newest list of revocations.
#[derive(Clone, Debug)]
pub struct Network {
    root: [u8; KEY_BYTES],
    id: NetworkId,
    revocations: Option<Revocations>,
    suite: Suite,
}

/// A node whose certificate has been verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    address: NodeAddr,
    serial: u32,
    not_after_s: u64,
    signing_key: [u8; KEY_BYTES],
    certificate: Certificate,
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
}

/// Why a list of revocations was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RevocationsError {
    /// The root key did not sign it.
    #[error("the root key of this network did not sign this list of revocations")]
    BadSignature,
}

/// The root key cannot verify anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a usable root key: copy the network file again")]
pub struct BadRootKey;

impl Network {
    /// The network of a root public key.
    pub fn new(root: [u8; KEY_BYTES]) -> Result<Network, BadRootKey> {
        if !signature::is_usable(&root) {
            return Err(BadRootKey);
        }
        Ok(Network {
            root,
            id: network_id(&root),
            revocations: None,
            suite: Suite::Earnest,
        })
    }

    /// The same network for nodes that share a memo of the signatures that were verified: a
    /// simulator's, whose nodes are one program.
    #[must_use]
    pub fn with_memo(self, memo: Arc<dyn Memo>) -> Network {
        Network {
            suite: Suite::Remembered(memo),
            ..self
        }
    }

    /// The same network without secrets, for simulations that are not about them: nothing is
    /// sealed, signed or verified, and everything else, each byte count included, is as before.
    /// Nodes of such a network and of the true one do not understand each other.
    #[must_use]
    pub fn unsealed(self) -> Network {
        Network {
            suite: Suite::Open,
            ..self
        }
    }

    pub(crate) fn suite(&self) -> &Suite {
        &self.suite
    }

    /// The first bytes of the SHA-256 of the root key.
    pub fn id(&self) -> NetworkId {
        self.id
    }
    /// The root public key.
    pub fn root_key(&self) -> &[u8; KEY_BYTES] {
        &self.root
    }
    /// The newest list of revocations, to be flooded to others.
    pub fn revocations(&self) -> Option<&Revocations> {
        self.revocations.as_ref()
    }
    /// The version of that list; 0 without one.
    pub fn revocations_version(&self) -> u32 {
        self.revocations.as_ref().map_or(0, |r| r.fields().version)
    }
    /// True if a certificate no longer counts: it was revoked, or its issuer was.
    pub fn has_revoked(&self, certificate: &Certificate) -> bool {
        let fields = certificate.fields();
        let delegation = fields.options.delegation();
        let delegation = delegation.and_then(|bytes| Delegation::parse(bytes).ok());
        self.is_revoked(fields.serial)
            || delegation.is_some_and(|delegation| self.is_revoked(delegation.serial))
    }
    /// True if this serial no longer counts.
    pub fn is_revoked(&self, serial: u32) -> bool {
        self.revocations
            .as_ref()
            .is_some_and(|list| list.fields().serials.iter().any(|s| s == serial))
    }

    /// Whether `certificate` counts at this second, and then whose it is.
    pub fn verify(
        &self,
        certificate: &Certificate,
        unix_now_s: u64,
    ) -> Result<Peer, CertificateError> {
        let fields = certificate.fields();
        if fields.network != self.id {
            return Err(CertificateError::WrongNetwork);
        }
        let signer = self.signer(&fields)?;
        let body = signed_part(certificate.as_bytes());
        if !self.proves(&signer, Context::Certificate, body, &fields.signature) {
            return Err(CertificateError::BadSignature);
        }
        if self.has_revoked(certificate) {
            return Err(CertificateError::Revoked);
        }
        if unix_now_s.saturating_add(CLOCK_SKEW_S) < fields.not_before_s {
            return Err(CertificateError::NotYetValid);
        }
        if unix_now_s > fields.not_after_s {
            return Err(CertificateError::Expired);
        }
        Ok(Peer {
            address: fields.subject.address,
            serial: fields.serial,
            not_after_s: fields.not_after_s,
            signing_key: fields.subject.signing_key,
            certificate: certificate.clone(),
        })
    }

    /// Whose signature a certificate must have: the root's, or that of the issuer to which the root
    /// has delegated just this. What the issuer signed ends with the delegation at the latest, so the
    /// time that is looked at is the certificate's.
    fn signer(&self, fields: &Fields<'_>) -> Result<[u8; KEY_BYTES], CertificateError> {
        let Some(bytes) = fields.options.delegation() else {
            return Ok(self.root);
        };
        let delegation = Delegation::parse(bytes)?;
        if delegation.network != self.id {
            return Err(CertificateError::WrongNetwork);
        }
        let (body, signature) = (signed_part(bytes), &delegation.signature);
        if !self.proves(&self.root, Context::Delegation, body, signature) {
            return Err(CertificateError::BadSignature);
        }
        match delegation.covers(fields) {
            true => Ok(delegation.issuer),
            false => Err(CertificateError::NotDelegated),
        }
    }

    /// Signs `body` in the name of a node of this network.
    pub fn sign(
        &self,
        identity: &Identity,
        context: Context,
        body: &[u8],
    ) -> [u8; SIGNATURE_BYTES] {
        if self.suite.is_open() {
            return [0; SIGNATURE_BYTES];
        }
        identity.sign(context, body)
    }

    /// Whether `signature` counts in this network as that of `key` over `body`.
    pub fn proves(
        &self,
        key: &[u8; KEY_BYTES],
        context: Context,
        body: &[u8],
        signature: &[u8; SIGNATURE_BYTES],
    ) -> bool {
        match &self.suite {
            Suite::Earnest => signature::verify(key, context, body, signature),
            Suite::Remembered(memo) => {
                let digest = signature::digest(key, context, body, signature);
                memo.recall(&digest, &mut || {
                    signature::verify(key, context, body, signature)
                })
            }
            Suite::Open => true,
        }
    }

    /// Takes a list of revocations; `Ok(true)` if it is newer than the one before and now counts.
    /// Links to peers of which [`Network::has_revoked`] then holds are to be dropped by the caller.
    pub fn apply(&mut self, list: &Revocations) -> Result<bool, RevocationsError> {
        let fields = list.fields();
        if fields.version <= self.revocations_version() {
            return Ok(false);
        }
        let body = signed_part(list.as_bytes());
        if !self.proves(&self.root, Context::Revocations, body, &fields.signature) {
            return Err(RevocationsError::BadSignature);
        }
        self.revocations = Some(list.clone());
        Ok(true)
    }

    /// The text form: the root public key. Revocations are stored apart.
    pub fn to_text(&self) -> String {
        let bytes = [&[VERSION], self.root.as_slice()].concat();
        armour::write(LABEL, &bytes).as_str().to_owned()
    }

    /// Reads the text form.
    pub fn from_text(text: &str) -> Result<Network, ArmourError> {
        let content = |reason| ArmourError::Content {
            label: LABEL,
            reason,
        };
        let bytes = armour::read(LABEL, text)?;
        match bytes.split_first() {
            Some((&VERSION, root)) => {
                let root = root.try_into().map_err(|_| content(Malformed::Length))?;
                Network::new(root).map_err(|BadRootKey| content(Malformed::Value))
            }
            Some(_) => Err(content(Malformed::Version)),
            None => Err(content(Malformed::Short)),
        }
    }
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
    /// The last second in which its certificate counts.
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
        }
    }
}

/// The short name of a root key.
pub fn network_id(root: &[u8; KEY_BYTES]) -> NetworkId {
    let digest = ring::digest::digest(&ring::digest::SHA256, root);
    let mut id = NetworkId::default();
    id.0.copy_from_slice(&digest.as_ref()[..NETWORK_ID_BYTES]);
    id
}
