//! The network as a node knows it: the root public keys, and the revocations of the newest one.
//!
//! A network keeps its id when its root key is replaced ([`Network::succeed`]). Signatures of the previous root stay
//! valid for as long as the succession states. So certificates can be renewed one by one, and no link ends because of
//! the replacement.
//!
//! Only [`Network::verify`] turns a certificate into a [`Peer`]. A refusal says which of the two sides has to act, and
//! how.

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

/// How far in the future a certificate's first second may be, because clocks differ.
pub const CLOCK_SKEW_S: u64 = 300;
/// How long before its end a delegation's expiry is shown in status, metrics and log, and that of a certificate at most.
pub const EXPIRY_NOTICE_S: u64 = 30 * 86_400;

/// Returns how long before its end a certificate's expiry is shown: a sixth of its lifetime, at most
/// [`EXPIRY_NOTICE_S`]. Choice: a node that renews its certificate itself begins when a third is left. If half of that
/// time has passed, somebody should look.
pub fn notice_s(certificate: &Certificate) -> u64 {
    let fields = certificate.fields();
    (fields.not_after_s.saturating_sub(fields.not_before_s) / 6).min(EXPIRY_NOTICE_S)
}

const LABEL: &str = "SINEW NETWORK";
/// The version of the text form that contains only the root key.
const VERSION: u8 = 1;
/// The version of the text form of a network whose root was replaced. It contains the first root key and the
/// successions.
const VERSION_WITH_CHAIN: u8 = 2;

/// A network: its root public keys, and the newest list of revocations.
#[derive(Clone, Debug)]
pub struct Network {
    chain: Chain,
    id: NetworkId,
    /// The current list, and the number of the root that signed it.
    revocations: Option<(u8, Revocations)>,
    suite: Suite,
}

/// Why a list of revocations was refused.
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
    /// Returns the network of a root public key.
    pub fn new(root: [u8; KEY_BYTES]) -> Result<Network, BadRootKey> {
        if !signature::is_usable(&root) {
            return Err(BadRootKey);
        }
        Ok(Network::of_chain(Chain::new(root)))
    }

    /// Returns the network of roots that are known to follow each other.
    pub(crate) fn of_chain(chain: Chain) -> Network {
        Network {
            id: network_id(chain.first()),
            chain,
            revocations: None,
            suite: Suite::Earnest,
        }
    }

    /// Returns the same network for nodes that share a memo of verified signatures: the nodes of a simulator, which are
    /// one program.
    #[must_use]
    pub fn with_memo(self, memo: Arc<dyn Memo>) -> Network {
        Network {
            suite: Suite::Remembered(memo),
            ..self
        }
    }

    /// Returns the same network without secrets, for simulations that do not study them: nothing is sealed, signed or
    /// verified, and everything else, including each byte count, is unchanged. Nodes of such a network and of the real
    /// one do not understand each other.
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

    /// Returns the network's id: the first bytes of the SHA-256 of the first root key. It stays the same when the root
    /// is replaced.
    pub fn id(&self) -> NetworkId {
        self.id
    }
    /// Returns the first root public key, by which strangers know the network. Once it is replaced, it signs nothing.
    pub fn root_key(&self) -> &[u8; KEY_BYTES] {
        self.chain.first()
    }
    /// Returns how often the root was replaced, which is the number of the newest root.
    pub fn root_number(&self) -> u8 {
        self.chain.number()
    }
    /// Returns the successions of all roots but the first, in order.
    pub fn successions(&self) -> &[Succession] {
        self.chain.successions()
    }
    /// Returns the last second in which signatures of the root with this number are valid; `None` while it is the
    /// newest.
    pub fn counts_until_s(&self, root: u8) -> Option<u64> {
        self.chain.until_s(root)
    }
    /// Returns true if signatures of the root with this number are valid at this second.
    pub fn counts(&self, root: u8, unix_now_s: u64) -> bool {
        root <= self.root_number()
            && self
                .counts_until_s(root)
                .is_none_or(|until_s| unix_now_s <= until_s)
    }
    /// Returns the current list of revocations, to be flooded to others.
    pub fn revocations(&self) -> Option<&Revocations> {
        self.revocations.as_ref().map(|(_, list)| list)
    }
    /// Returns the number of the root that signed the list of revocations, and the list's version; zeros without a
    /// list. A list of a newer root takes precedence over all versions of older roots.
    pub fn revocations_edition(&self) -> (u8, u32) {
        let edition = |(root, list): &(u8, Revocations)| (*root, list.fields().version);
        self.revocations.as_ref().map_or((0, 0), edition)
    }
    /// Returns the version of the list of revocations; 0 without a list.
    pub fn revocations_version(&self) -> u32 {
        self.revocations_edition().1
    }
    /// Returns true if a certificate is revoked, or if its issuer is.
    pub fn has_revoked(&self, certificate: &Certificate) -> bool {
        let fields = certificate.fields();
        let delegation = fields.options.delegation();
        let delegation = delegation.and_then(|bytes| Delegation::parse(bytes).ok());
        self.is_revoked(fields.serial)
            || delegation.is_some_and(|delegation| self.is_revoked(delegation.serial))
    }
    /// Returns true if this serial is revoked.
    pub fn is_revoked(&self, serial: u32) -> bool {
        self.revocations()
            .is_some_and(|list| list.fields().serials.iter().any(|s| s == serial))
    }

    /// Verifies that `certificate` is valid at this second, and returns its node.
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

    /// Returns the number of the root that signed a certificate, or the delegation of its issuer, at any time and
    /// whatever was revoked; `None` if no root of this network did.
    pub fn root_of(&self, certificate: &Certificate) -> Option<u8> {
        self.signed_under(certificate).ok()
    }

    /// Returns the number of the root under which a certificate was signed: by the root itself, or by an issuer to
    /// which the root has delegated exactly this. An issuer's certificate ends with the delegation at the latest, so
    /// only the certificate's time has to be checked.
    fn signed_under(&self, certificate: &Certificate) -> Result<u8, CertificateError> {
        let fields: Fields<'_> = certificate.fields();
        let (body, signature) = (signed_part(certificate.as_bytes()), &fields.signature);
        let succession = fields.options.succession();
        // A known root never signs a certificate that names a later root, so there is no signature to check. Anybody
        // can write such a certificate, and it must not cost more than the comparison of a number.
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

    /// Returns the number of the root that signed a delegation, at any time; `None` if no root of this network did.
    pub fn root_of_delegation(&self, delegation: &Delegated) -> Option<u8> {
        let (bytes, fields) = (delegation.as_bytes(), delegation.fields());
        self.root_that_signed(Context::Delegation, signed_part(bytes), &fields.signature)
    }

    /// Returns the number of the root that made this signature. There is rarely more than one valid root, and an
    /// invalid signature costs one verification for each.
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

    /// Returns the succession that made the root with this number.
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

    /// Returns whether `signature` is valid in this network as the signature of `key` over `body`.
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

    /// Applies a list of revocations. Returns `Ok(true)` if it is newer than the present one and replaces it. Only the
    /// newest root can sign a new list: a list of the previous root stays in force until then, but whoever has stolen
    /// that key cannot add to it. The caller must drop links to peers for which [`Network::has_revoked`] is then true.
    pub fn apply(&mut self, list: &Revocations) -> Result<bool, RevocationsError> {
        self.take_list(list, |root, newest| root == newest)
    }

    /// Restores a list that this node has accepted before and stored, whichever root signed it.
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

    /// Returns the text form: the first root public key, and the successions. Revocations are stored separately.
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

/// Returns the short name of a root key.
pub fn network_id(root: &[u8; KEY_BYTES]) -> NetworkId {
    let digest = ring::digest::digest(&ring::digest::SHA256, root);
    let mut id = NetworkId::default();
    id.0.copy_from_slice(&digest.as_ref()[..NETWORK_ID_BYTES]);
    id
}
