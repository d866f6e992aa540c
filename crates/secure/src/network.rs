//! The network as a node knows it: the root public keys, and what the newest of them has revoked.
//!
//! A network keeps its id when its root key is replaced ([`Network::succeed`]). What the root before signed counts for as
//! long as the succession says, so certificates can be renewed one by one, and no link ends for it.
//!
//! [`Network::verify`] turns a certificate into a [`Peer`]; nothing else can. A refusal says which
//! of the two sides has to do what.

mod peer;
mod roots;

pub use peer::{CertificateError, Peer};

use crate::armour::{self, ArmourError};
use crate::certificate::{Certificate, Delegation as Delegated, Revocations};
use crate::chain::Chain;
use crate::identity::Identity;
use crate::signature::{self, Context};
use crate::suite::{Memo, Suite};
use std::sync::Arc;
use wire::Malformed;
use wire::certificate::{
    Certificate as Fields, Delegation, KEY_BYTES, NETWORK_ID_BYTES, NetworkId, SIGNATURE_BYTES,
    Succession, signed_part,
};

/// How far in the future a certificate's first second may lie, because clocks differ.
pub const CLOCK_SKEW_S: u64 = 300;
/// How long before its end a certificate's expiry shows in status, metrics and log.
pub const EXPIRY_NOTICE_S: u64 = 30 * 86_400;

const LABEL: &str = "SINEW NETWORK";
/// The version of the text form: the root key alone.
const VERSION: u8 = 1;
/// The version of the text form of a network whose root was replaced: the first root key, and the successions.
const VERSION_WITH_CHAIN: u8 = 2;

/// A network: its root public keys, and the newest list of revocations.
#[derive(Clone, Debug)]
pub struct Network {
    chain: Chain,
    id: NetworkId,
    /// The list in force, and the number of the root that signed it.
    revocations: Option<(u8, Revocations)>,
    suite: Suite,
}

/// Why a list of revocations was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RevocationsError {
    /// The newest root key did not sign it.
    #[error(
        "the newest root key that is known here did not sign this list of revocations: bring the network file \
         (network.pub) first"
    )]
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
        Ok(Network::of_chain(Chain::new(root)))
    }

    /// The network of roots that are known to follow each other.
    pub(crate) fn of_chain(chain: Chain) -> Network {
        Network {
            id: network_id(chain.first()),
            chain,
            revocations: None,
            suite: Suite::Earnest,
        }
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

    /// The first bytes of the SHA-256 of the first root key. It stays when the root is replaced.
    pub fn id(&self) -> NetworkId {
        self.id
    }
    /// The first root public key, by which strangers know the network. It signs nothing once it was replaced.
    pub fn root_key(&self) -> &[u8; KEY_BYTES] {
        self.chain.first()
    }
    /// How often the root was replaced: the number of the newest one.
    pub fn root_number(&self) -> u8 {
        self.chain.number()
    }
    /// The successions of all roots but the first, in order.
    pub fn successions(&self) -> &[Succession] {
        self.chain.successions()
    }
    /// The last second in which counts what the root of this number signed; none while it is the newest.
    pub fn counts_until_s(&self, root: u8) -> Option<u64> {
        self.chain.until_s(root)
    }
    /// True if at this second counts what the root of this number signed.
    pub fn counts(&self, root: u8, unix_now_s: u64) -> bool {
        root <= self.root_number()
            && self
                .counts_until_s(root)
                .is_none_or(|until_s| unix_now_s <= until_s)
    }
    /// The list of revocations in force, to be flooded to others.
    pub fn revocations(&self) -> Option<&Revocations> {
        self.revocations.as_ref().map(|(_, list)| list)
    }
    /// The number of the root that signed that list, and its version; zeros without one. A list of a newer root counts
    /// before all versions of older ones.
    pub fn revocations_edition(&self) -> (u8, u32) {
        let edition = |(root, list): &(u8, Revocations)| (*root, list.fields().version);
        self.revocations.as_ref().map_or((0, 0), edition)
    }
    /// The version of that list; 0 without one.
    pub fn revocations_version(&self) -> u32 {
        self.revocations_edition().1
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
        self.revocations()
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
        let root = self.signed_under(certificate)?;
        if self.has_revoked(certificate) {
            return Err(CertificateError::Revoked);
        }
        if unix_now_s.saturating_add(CLOCK_SKEW_S) < fields.not_before_s {
            return Err(CertificateError::NotYetValid);
        }
        if unix_now_s > fields.not_after_s {
            return Err(CertificateError::Expired);
        }
        if !self.counts(root, unix_now_s) {
            return Err(CertificateError::OldRoot);
        }
        let until_s = self.counts_until_s(root).unwrap_or(u64::MAX);
        Ok(Peer {
            address: fields.subject.address,
            serial: fields.serial,
            root,
            not_after_s: fields.not_after_s.min(until_s),
            signing_key: fields.subject.signing_key,
            certificate: certificate.clone(),
        })
    }

    /// The number of the root that signed a certificate, or the delegation of its issuer, whatever the time is and
    /// whatever was revoked; none if no root of this network did.
    pub fn root_of(&self, certificate: &Certificate) -> Option<u8> {
        self.signed_under(certificate).ok()
    }

    /// A certificate has the signature of a root, or that of the issuer to which a root has delegated just this. What the
    /// issuer signed ends with the delegation at the latest, so the time that is looked at is the certificate's.
    fn signed_under(&self, certificate: &Certificate) -> Result<u8, CertificateError> {
        let fields: Fields<'_> = certificate.fields();
        let (body, signature) = (signed_part(certificate.as_bytes()), &fields.signature);
        let succession = fields.options.succession();
        // Nothing that a known root signed names a later one, so there is no signature to look at: anybody can write it,
        // and it must cost no more than a look at a number.
        if succession.is_some_and(|it| it.number > self.root_number()) {
            return Err(CertificateError::NewerRoot);
        }
        let Some(bytes) = fields.options.delegation() else {
            return self
                .root_that_signed(Context::Certificate, body, signature)
                .ok_or(CertificateError::BadSignature);
        };
        let delegation = Delegation::parse(bytes)?;
        if delegation.network != self.id {
            return Err(CertificateError::WrongNetwork);
        }
        let root = self.root_that_signed(
            Context::Delegation,
            signed_part(bytes),
            &delegation.signature,
        );
        let root = root.ok_or(CertificateError::BadSignature)?;
        if !delegation.covers(&fields) {
            return Err(CertificateError::NotDelegated);
        }
        match self.proves(&delegation.issuer, Context::Certificate, body, signature) {
            true => Ok(root),
            false => Err(CertificateError::BadSignature),
        }
    }

    /// The number of the root that signed a delegation, whatever the time is; none if no root of this network did.
    pub fn root_of_delegation(&self, delegation: &Delegated) -> Option<u8> {
        let (bytes, fields) = (delegation.as_bytes(), delegation.fields());
        self.root_that_signed(Context::Delegation, signed_part(bytes), &fields.signature)
    }

    /// The number of the root whose signature this is. Seldom is there more than one that counts, and what is not signed
    /// by any costs one verification for each.
    pub(crate) fn root_that_signed(
        &self,
        context: Context,
        body: &[u8],
        signature: &[u8; SIGNATURE_BYTES],
    ) -> Option<u8> {
        let mut roots = self.chain.roots();
        let signed = roots.find(|(_, key)| self.proves(key, context, body, signature));
        signed.map(|(number, _)| number)
    }

    pub(crate) fn into_chain(self) -> Chain {
        self.chain
    }

    /// The succession by which the root of this number became one.
    pub(crate) fn succession(&self, root: u8) -> Option<&Succession> {
        self.chain.succession(root)
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

    /// Takes a list of revocations; `Ok(true)` if it is newer than the one before and now counts. Only the newest root can
    /// sign one: a list of the root before stays in force until then, but whoever has stolen that key adds nothing to it.
    /// Links to peers of which [`Network::has_revoked`] then holds are to be dropped by the caller.
    pub fn apply(&mut self, list: &Revocations) -> Result<bool, RevocationsError> {
        self.take_list(list, |root, newest| root == newest)
    }

    /// Takes a list that this node has taken before and stored: by whichever root, as it was in force.
    pub fn restore(&mut self, list: &Revocations) -> Result<bool, RevocationsError> {
        self.take_list(list, |_, _| true)
    }

    fn take_list(
        &mut self,
        list: &Revocations,
        may_sign: impl Fn(u8, u8) -> bool,
    ) -> Result<bool, RevocationsError> {
        let (fields, held) = (list.fields(), self.revocations_edition());
        let newest = self.root_number();
        if (newest, fields.version) <= held {
            return Ok(false);
        }
        let body = signed_part(list.as_bytes());
        let mut roots = self.chain.roots();
        let signed = roots.find(|(number, key)| {
            may_sign(*number, newest)
                && self.proves(key, Context::Revocations, body, &fields.signature)
        });
        let (root, _) = signed.ok_or(RevocationsError::BadSignature)?;
        let is_newer = (root, fields.version) > held;
        if is_newer {
            self.revocations = Some((root, list.clone()));
        }
        Ok(is_newer)
    }

    /// The text form: the first root public key, and the successions. Revocations are stored apart.
    pub fn to_text(&self) -> String {
        let successions = self.successions();
        let version = match successions.is_empty() {
            true => VERSION,
            false => VERSION_WITH_CHAIN,
        };
        let mut bytes = vec![version];
        bytes.extend_from_slice(self.chain.first());
        bytes.extend(self.chain_bytes());
        armour::write(LABEL, &bytes).as_str().to_owned()
    }

    /// Reads the text form.
    pub fn from_text(text: &str) -> Result<Network, ArmourError> {
        let bytes = armour::read(LABEL, text)?;
        Network::parse(&bytes).map_err(|reason| ArmourError::Content {
            label: LABEL,
            reason,
        })
    }

    fn parse(bytes: &[u8]) -> Result<Network, Malformed> {
        let (version, rest) = bytes.split_first().ok_or(Malformed::Short)?;
        if ![VERSION, VERSION_WITH_CHAIN].contains(version) {
            return Err(Malformed::Version);
        }
        let (root, rest) = rest
            .split_first_chunk::<KEY_BYTES>()
            .ok_or(Malformed::Length)?;
        let mut network = Network::new(*root).map_err(|BadRootKey| Malformed::Value)?;
        network.extend(rest)?;
        match network.successions().is_empty() == (*version == VERSION) {
            true => Ok(network),
            false => Err(Malformed::Length),
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
