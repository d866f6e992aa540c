//! The holder of a network's root key. It issues, renews and revokes certificates, and replaces the network's root key.
//!
//! The authority works offline, on a file, and is not a process of the network. Besides the key, it must remember the
//! next serial, the list of revocations and the earlier roots. All of it is one text block, which is written again
//! after each change.

use crate::armour::{self, ArmourError};
use crate::certificate::{Certificate, Delegation, Request, Revocations};
use crate::chain::Chain;
use crate::identity::seal;
use crate::network::{CLOCK_SKEW_S, Network};
use crate::signature::{self, Context};
use base::NodeAddr;
use ed25519_dalek::SigningKey;
use wire::bytes::{Reader, Writer};
use wire::certificate::{
    self as format, Bound, GroupRange, KEY_BYTES, MAX_REVOKED, MAX_RIGHTS_BYTES, MAX_SUCCESSIONS,
    MAX_TAGS_BYTES, Rights, SIGNATURE_BYTES, SUCCESSION_BYTES, Said, Serials, Succession, Tags,
};
use wire::{Full, Malformed};
use zeroize::Zeroizing;

const LABEL: &str = "SINEW NETWORK KEY";
/// The version of the text form.
const VERSION: u8 = 1;
/// The version of the text form of a root that has replaced another.
const VERSION_WITH_CHAIN: u8 = 2;

/// A network's root key and what the authority has done with it.
#[derive(Clone)]
pub struct Authority {
    /// The newest root key, which makes all signatures.
    root: SigningKey,
    /// The public keys of all roots.
    chain: Chain,
    next_serial: u32,
    revocations_version: u32,
    /// Serial and expiry, ascending by serial. An entry is kept until its expiry; after that the list may drop it.
    revoked: Vec<(u32, u64)>,
}

/// The period in which a certificate is valid, in unix seconds, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub not_before_s: u64,
    /// The last second.
    pub not_after_s: u64,
}

/// The rights that an issuer gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mandate<'a> {
    /// The first and the last overlay address that the issuer may assign.
    pub addresses: (NodeAddr, NodeAddr),
    /// How many certificates the issuer may sign in total.
    pub certificates: u32,
    /// When the issuer may sign, and when its certificates are valid.
    pub validity: Validity,
    /// The maximum validity of a certificate, in seconds.
    pub lifetime_s: u32,
    /// The suffix that every name must have; empty for any name.
    pub names: &'a str,
    /// The domains that the issuer may assign, or patterns like `*.example.net`.
    pub domains: &'a [&'a str],
    /// The groups that the issuer may let nodes set. `None` means no bound, as in delegations before rights existed.
    pub groups: Option<&'a [GroupRange]>,
    /// The tags that the issuer may assign, or patterns like `*-lab`.
    pub tags: &'a [&'a str],
}

/// The properties of a node that an authority certifies in addition to its identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grants<'a> {
    /// The groups that the node may set.
    pub groups: &'a [GroupRange],
    /// The tags by which rules name the node.
    pub tags: &'a [&'a str],
}

/// The changes in a renewed certificate. `None` keeps the old value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes<'a> {
    /// The domains that the node may serve.
    pub domains: Option<&'a [&'a str]>,
    /// The groups that the node may set.
    pub groups: Option<&'a [GroupRange]>,
    /// The tags by which rules name the node.
    pub tags: Option<&'a [&'a str]>,
}

/// Why the authority refused to sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// The request or certificate is for another network.
    #[error("this is for another network: use that network's directory")]
    WrongNetwork,
    /// The request is not signed by the key that it names, or the certificate is not signed by this root.
    #[error("the signature does not fit: the file was damaged or changed, copy it again")]
    BadSignature,
    /// The validity ends before it begins.
    #[error("the certificate would end before it begins: check the dates and this clock")]
    Validity,
    /// All serials are used up.
    #[error("no serial is left: make a new network with `sinew net init`")]
    NoSerial,
    /// The list of revocations is full.
    #[error(
        "the list of revocations is full (256): wait until revoked certificates expire, or make a new network"
    )]
    ListFull,
    /// There are too many domains, or one is not a domain.
    #[error(
        "not a list of domains: at most 16, of lower-case letters, digits, `-`, `_`, `.`, `*`; those of a delegation share 255 bytes with its groups and tags"
    )]
    Domains,
    /// There are more ranges of groups than a certificate holds.
    #[error("too many ranges of groups: at most 8, of which none is within another")]
    Groups,
    /// There are too many tags, or one is not a tag.
    #[error(
        "not a list of tags: at most 16 of 32 lower-case letters, digits, `-`, `_`, `.`, and 255 bytes in all; a \
         delegation may have patterns like `*-lab`"
    )]
    Tags,
    /// Name, domains and options leave no room for serial and validity.
    #[error("the certificate would be longer than 1024 bytes: ask for fewer or shorter domains")]
    TooLong,
    /// The range of addresses, the number of certificates or the suffix of names is not valid.
    #[error("not a mandate for an issuer: check its addresses, names and number of certificates")]
    Mandate,
    /// The network has already had the maximum number of roots.
    #[error(
        "this network has had 16 root keys, as many as it can: make a new one with `sinew net init`"
    )]
    NoRoot,
    /// The request's signing key cannot verify anything.
    #[error("the request holds an unusable key: make the request again")]
    WeakKey,
}

impl Authority {
    /// Makes a new network from 32 bytes of entropy, which must be known to nobody else.
    pub fn generate(entropy: &[u8; KEY_BYTES]) -> Authority {
        let root = SigningKey::from_bytes(entropy);
        Authority {
            chain: Chain::new(root.verifying_key().to_bytes()),
            root,
            next_serial: 1,
            revocations_version: 0,
            revoked: Vec::new(),
        }
    }

    /// Returns the network as its nodes know it.
    pub fn network(&self) -> Network {
        Network::of_chain(self.chain.clone())
    }

    /// Replaces the present root key by a new one and forgets the old one. The entropy must be known to nobody else and
    /// must not have made a root before. Signatures of the old key stay valid until `until_s`. Serials continue, and so
    /// does the list of revocations: the new root has to sign it before any node can take another one.
    pub fn rotate(
        &mut self,
        entropy: &[u8; KEY_BYTES],
        until_s: u64,
        unix_now_s: u64,
    ) -> Result<Succession, AuthorityError> {
        if self.chain.is_full() {
            return Err(AuthorityError::NoRoot);
        }
        let root = SigningKey::from_bytes(entropy);
        let mut succession = Succession {
            network: self.network().id(),
            number: self.chain.number() + 1,
            root: root.verifying_key().to_bytes(),
            until_s,
            issued_s: unix_now_s,
            by_old: [0; SIGNATURE_BYTES],
            by_new: [0; SIGNATURE_BYTES],
        };
        let bytes = succession.to_bytes();
        let body = Succession::signed_by_old(&bytes);
        succession.by_old = signature::sign(&self.root, Context::Succession, body);
        let bytes = succession.to_bytes();
        let body = Succession::signed_by_new(&bytes);
        succession.by_new = signature::sign(&root, Context::Succession, body);
        self.chain.push(succession);
        self.root = root;
        // A list of a newer root takes precedence over all versions of older roots, so its version may restart.
        self.revocations_version = self.revocations_version.checked_add(1).unwrap_or(1);
        Ok(succession)
    }

    /// Certifies the content of `request`. The certificate does not mention rights, so the node may set all groups, as
    /// nodes could before rights existed. Options are never taken from a request: only the authority decides about
    /// them.
    pub fn issue(
        &mut self,
        request: &Request,
        validity: Validity,
    ) -> Result<Certificate, AuthorityError> {
        let fields = self.check_request(request)?;
        let nothing = Changes::default();
        self.certify_with(fields.subject, format::Options::NONE, &nothing, validity)
    }

    /// Certifies the content of `request`, and these grants.
    pub fn issue_with(
        &mut self,
        request: &Request,
        grants: &Grants<'_>,
        validity: Validity,
    ) -> Result<Certificate, AuthorityError> {
        let fields = self.check_request(request)?;
        let changes = Changes {
            domains: None,
            groups: Some(grants.groups),
            tags: Some(grants.tags),
        };
        self.certify_with(fields.subject, format::Options::NONE, &changes, validity)
    }

    fn check_request<'r>(
        &self,
        request: &'r Request,
    ) -> Result<format::Request<'r>, AuthorityError> {
        let fields = request.fields();
        let (subject, body) = (fields.subject, format::signed_part(request.as_bytes()));
        if fields.network != self.network().id() {
            return Err(AuthorityError::WrongNetwork);
        }
        if !signature::is_usable(&subject.signing_key) {
            return Err(AuthorityError::WeakKey);
        }
        if !signature::verify(
            &subject.signing_key,
            Context::Request,
            body,
            &fields.signature,
        ) {
            return Err(AuthorityError::BadSignature);
        }
        Ok(fields)
    }

    /// Certifies the same content again, for another period and with a new serial.
    pub fn renew(
        &mut self,
        certificate: &Certificate,
        validity: Validity,
    ) -> Result<Certificate, AuthorityError> {
        self.renew_for(certificate, &Changes::default(), validity)
    }

    /// Certifies the same keys, name and address again, with these changes.
    pub fn renew_for(
        &mut self,
        certificate: &Certificate,
        changes: &Changes<'_>,
        validity: Validity,
    ) -> Result<Certificate, AuthorityError> {
        let fields = certificate.fields();
        self.check_own(certificate)?;
        self.certify_with(fields.subject, fields.options, changes, validity)
    }

    /// Lets the node of a certificate certify others. The serials that it may assign are reserved.
    pub fn delegate(
        &mut self,
        certificate: &Certificate,
        mandate: &Mandate<'_>,
    ) -> Result<Delegation, AuthorityError> {
        self.check_own(certificate)?;
        let mut room = [0; format::MAX_CERTIFICATE_BYTES];
        let mut w = Writer::new(&mut room);
        let bound = mandate.groups.map(Bound::word).transpose();
        let bound = bound.map_err(|Full| AuthorityError::Groups)?;
        let tags = mandate.tags.iter().map(|tag| format::delegated_tag(tag));
        let tags: Result<Vec<String>, Full> = tags.collect();
        let tags = tags.map_err(|Full| AuthorityError::Tags)?;
        let domains = mandate.domains.iter().copied().chain(bound.as_deref());
        let domains: Vec<&str> = domains.chain(tags.iter().map(String::as_str)).collect();
        format::Domains::emit(&domains, &mut w).map_err(|Full| AuthorityError::Domains)?;
        let serial = self.next_serial;
        let first = serial.checked_add(1).ok_or(AuthorityError::NoSerial)?;
        let next_serial = first
            .checked_add(mandate.certificates)
            .ok_or(AuthorityError::NoSerial)?;
        let unsigned = format::Delegation {
            network: self.network().id(),
            serial,
            serials: (first, next_serial - 1),
            addresses: mandate.addresses,
            not_before_s: mandate.validity.not_before_s,
            not_after_s: mandate.validity.not_after_s,
            lifetime_s: mandate.lifetime_s,
            issuer: certificate.fields().subject.signing_key,
            names: mandate.names,
            domains: format::Domains::parse(&mut Reader::new(w.written()))
                .map_err(|_| AuthorityError::Domains)?,
            signature: [0; SIGNATURE_BYTES],
        };
        let mut bytes = [0; format::MAX_DELEGATION_BYTES];
        let mut w = Writer::new(&mut bytes);
        unsigned
            .emit(&mut w)
            .map_err(|Full| AuthorityError::Domains)?;
        seal(&self.root, Context::Delegation, w.written_mut());
        let delegation =
            Delegation::from_bytes(w.written()).map_err(|_| AuthorityError::Mandate)?;
        self.next_serial = next_serial;
        Ok(delegation)
    }

    /// Delegates the same rights again: under the newest root, with serials that were not assigned yet, from `from_s`
    /// until the end of the earlier delegation.
    pub fn delegate_again(
        &mut self,
        certificate: &Certificate,
        before: &Delegation,
        from_s: u64,
    ) -> Result<Delegation, AuthorityError> {
        let fields = before.fields();
        // The bound of rights and the tags are included in these words.
        let domains: Vec<&str> = fields.domains.iter().collect();
        let mandate = Mandate {
            addresses: fields.addresses,
            certificates: fields.serials.1 - fields.serials.0 + 1,
            validity: Validity {
                not_before_s: from_s,
                not_after_s: fields.not_after_s,
            },
            lifetime_s: fields.lifetime_s,
            names: fields.names,
            domains: &domains,
            groups: None,
            tags: &[],
        };
        self.delegate(certificate, &mandate)
    }

    /// Puts a delegation on the list: the delegation and everything signed under it become invalid.
    pub fn revoke_delegation(
        &mut self,
        delegation: &Delegation,
        unix_now_s: u64,
    ) -> Result<Revocations, AuthorityError> {
        let fields = delegation.fields();
        let body = format::signed_part(delegation.as_bytes());
        self.check_signed(Context::Delegation, body, &fields.signature)?;
        self.revoke_serial(fields.serial, fields.not_after_s, unix_now_s)
    }

    /// Puts `certificate` on the list, drops expired entries, and signs the new list.
    pub fn revoke(
        &mut self,
        certificate: &Certificate,
        unix_now_s: u64,
    ) -> Result<Revocations, AuthorityError> {
        self.check_issued(certificate)?;
        let fields = certificate.fields();
        self.revoke_serial(fields.serial, fields.not_after_s, unix_now_s)
    }

    fn revoke_serial(
        &mut self,
        serial: u32,
        not_after_s: u64,
        unix_now_s: u64,
    ) -> Result<Revocations, AuthorityError> {
        let mut revoked = self.revoked.clone();
        // A node whose clock is slow accepts an expired certificate for a little longer.
        revoked.retain(|(_, not_after_s)| not_after_s.saturating_add(CLOCK_SKEW_S) >= unix_now_s);
        if let Err(at) = revoked.binary_search_by_key(&serial, |(serial, _)| *serial) {
            revoked.insert(at, (serial, not_after_s));
        }
        if revoked.len() > MAX_REVOKED {
            return Err(AuthorityError::ListFull);
        }
        self.revoked = revoked;
        self.revocations_version = self
            .revocations_version
            .checked_add(1)
            .ok_or(AuthorityError::NoSerial)?;
        Ok(self.revocations(unix_now_s))
    }

    /// Returns the present list, signed.
    pub fn revocations(&self, unix_now_s: u64) -> Revocations {
        let serials: Vec<u8> = self
            .revoked
            .iter()
            .flat_map(|(serial, _)| serial.to_be_bytes())
            .collect();
        let unsigned = format::Revocations {
            version: self.revocations_version,
            issued_s: unix_now_s,
            serials: Serials::parse(&serials).expect("ascending and few: kept so by `revoke`"),
            signature: [0; SIGNATURE_BYTES],
        };
        let mut bytes = [0; format::MAX_REVOCATIONS_BYTES];
        let mut w = Writer::new(&mut bytes);
        unsigned.emit(&mut w).expect("room for the longest list");
        seal(&self.root, Context::Revocations, w.written_mut());
        Revocations::from_bytes(w.written()).expect("what was just written is well formed")
    }

    /// Returns the text form. It holds the root secret: store it in a file of mode 0600, keep it offline and backed up,
    /// and write it again after each `issue`, `renew` and `revoke`.
    pub fn to_text(&self) -> Zeroizing<String> {
        let successions = self.chain.successions();
        let chain = 1 + KEY_BYTES + successions.len() * SUCCESSION_BYTES;
        let room = 1 + KEY_BYTES + 8 + chain + self.revoked.len() * 12;
        let mut bytes = Zeroizing::new(Vec::with_capacity(room));
        bytes.push(match successions.is_empty() {
            true => VERSION,
            false => VERSION_WITH_CHAIN,
        });
        bytes.extend_from_slice(self.root.as_bytes());
        bytes.extend_from_slice(&self.next_serial.to_be_bytes());
        bytes.extend_from_slice(&self.revocations_version.to_be_bytes());
        if !successions.is_empty() {
            bytes.extend_from_slice(self.chain.first());
            bytes.push(successions.len() as u8);
            bytes.extend(successions.iter().flat_map(Succession::to_bytes));
        }
        for (serial, not_after_s) in &self.revoked {
            bytes.extend_from_slice(&serial.to_be_bytes());
            bytes.extend_from_slice(&not_after_s.to_be_bytes());
        }
        armour::write(LABEL, &bytes)
    }

    /// Reads the text form.
    pub fn from_text(text: &str) -> Result<Authority, ArmourError> {
        let bytes = armour::read(LABEL, text)?;
        Authority::parse(&bytes).map_err(|reason| ArmourError::Content {
            label: LABEL,
            reason,
        })
    }

    fn parse(bytes: &[u8]) -> Result<Authority, Malformed> {
        let mut r = Reader::new(bytes);
        let version = r.u8()?;
        if ![VERSION, VERSION_WITH_CHAIN].contains(&version) {
            return Err(Malformed::Version);
        }
        let mut authority = Authority::generate(&Zeroizing::new(r.array()?));
        authority.next_serial = r.u32()?;
        authority.revocations_version = r.u32()?;
        if version == VERSION_WITH_CHAIN {
            authority.chain = Authority::parse_chain(&mut r, authority.chain.first())?;
        }
        while !r.is_empty() {
            authority.revoked.push((r.u32()?, r.u64()?));
        }
        if authority.revoked.len() > MAX_REVOKED {
            return Err(Malformed::Count);
        }
        if !authority.revoked.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(Malformed::Value);
        }
        Ok(authority)
    }

    /// Reads the roots up to the one whose secret the text holds.
    fn parse_chain(r: &mut Reader<'_>, root: &[u8; KEY_BYTES]) -> Result<Chain, Malformed> {
        let mut network = Network::new(r.array()?).map_err(|_| Malformed::Value)?;
        let count = usize::from(r.u8()?);
        if !(1..=MAX_SUCCESSIONS).contains(&count) {
            return Err(Malformed::Count);
        }
        network.extend(r.take(count * SUCCESSION_BYTES)?)?;
        match network.successions().last() {
            Some(newest) if newest.root == *root => Ok(network.into_chain()),
            _ => Err(Malformed::Value),
        }
    }

    /// Checks that the certificate was signed by a root, or by one of its issuers within its delegation.
    fn check_issued(&self, certificate: &Certificate) -> Result<(), AuthorityError> {
        let network = self.network();
        if certificate.fields().network != network.id() {
            return Err(AuthorityError::WrongNetwork);
        }
        match network.root_of(certificate) {
            Some(_) => Ok(()),
            None => Err(AuthorityError::BadSignature),
        }
    }

    /// Checks that the certificate was signed by a root itself, even an older one: the authority renews its own
    /// certificates even after their root has ended.
    fn check_own(&self, certificate: &Certificate) -> Result<(), AuthorityError> {
        let fields = certificate.fields();
        let body = format::signed_part(certificate.as_bytes());
        if fields.network != self.network().id() {
            return Err(AuthorityError::WrongNetwork);
        }
        self.check_signed(Context::Certificate, body, &fields.signature)
    }

    fn check_signed(
        &self,
        context: Context,
        body: &[u8],
        signature: &[u8; SIGNATURE_BYTES],
    ) -> Result<(), AuthorityError> {
        match self.network().root_that_signed(context, body, signature) {
            Some(_) => Ok(()),
            None => Err(AuthorityError::BadSignature),
        }
    }

    /// Certifies the subject with its present values, except for those that `changes` replaces.
    fn certify_with(
        &mut self,
        subject: format::Subject<'_>,
        options: format::Options<'_>,
        changes: &Changes<'_>,
        validity: Validity,
    ) -> Result<Certificate, AuthorityError> {
        let (mut domains, mut rights) = ([0; format::MAX_CERTIFICATE_BYTES], [0; MAX_RIGHTS_BYTES]);
        let mut tags = [0; MAX_TAGS_BYTES];
        let mut domains = Writer::new(&mut domains);
        let (mut rights, mut tags) = (Writer::new(&mut rights), Writer::new(&mut tags));
        let mut subject = subject;
        let mut said = Said {
            delegation: None,
            rights: options.rights(),
            succession: None,
            tags: options.tags(),
        };
        let written = "what was just written is well formed";
        if let Some(changed) = changes.domains {
            format::Domains::emit(changed, &mut domains).map_err(|Full| AuthorityError::Domains)?;
            let mut r = Reader::new(domains.written());
            subject.domains = format::Domains::parse(&mut r).expect(written);
        }
        if let Some(changed) = changes.groups {
            Rights::emit(changed, &mut rights).map_err(|Full| AuthorityError::Groups)?;
            said.rights = Some(Rights::parse(rights.written()).expect(written));
        }
        if let Some(changed) = changes.tags {
            Tags::emit(changed, &mut tags).map_err(|Full| AuthorityError::Tags)?;
            said.tags = match changed {
                [] => Tags::NONE,
                _ => Tags::parse(tags.written()).expect(written),
            };
        }
        self.certify(subject, options, said, validity)
    }

    /// Signs the given values, with the proof of the root, in place of the same kinds among `options`.
    fn certify(
        &mut self,
        subject: format::Subject<'_>,
        options: format::Options<'_>,
        said: Said<'_>,
        validity: Validity,
    ) -> Result<Certificate, AuthorityError> {
        if validity.not_before_s > validity.not_after_s {
            return Err(AuthorityError::Validity);
        }
        let newest = self.chain.successions().last().copied();
        let mut said = Said {
            succession: newest.as_ref(),
            ..said
        };
        let serial = self.next_serial;
        let next_serial = serial.checked_add(1).ok_or(AuthorityError::NoSerial)?;
        let certificate = match self.sign(subject, options, &said, (serial, validity)) {
            // Many domains may leave no room for the proof of the root. Nodes also get that proof in another way.
            Err(Full) if said.succession.take().is_some() => {
                self.sign(subject, options, &said, (serial, validity))
            }
            signed => signed,
        };
        let certificate = certificate.map_err(|Full| AuthorityError::TooLong)?;
        self.next_serial = next_serial;
        Ok(certificate)
    }

    fn sign(
        &self,
        subject: format::Subject<'_>,
        options: format::Options<'_>,
        said: &Said<'_>,
        (serial, validity): (u32, Validity),
    ) -> Result<Certificate, Full> {
        let mut room = [0; format::MAX_CERTIFICATE_BYTES];
        let mut w = Writer::new(&mut room);
        options.emit_with(said, &mut w)?;
        let options = format::Options::parse(&mut Reader::new(w.written()));
        let unsigned = format::Certificate {
            network: self.network().id(),
            serial,
            not_before_s: validity.not_before_s,
            not_after_s: validity.not_after_s,
            subject,
            options: options.expect("what was just written is well formed"),
            signature: [0; SIGNATURE_BYTES],
        };
        let mut bytes = [0; format::MAX_CERTIFICATE_BYTES];
        let mut w = Writer::new(&mut bytes);
        unsigned.emit(&mut w)?;
        seal(&self.root, Context::Certificate, w.written_mut());
        Ok(Certificate::from_bytes(w.written()).expect("what was just written is well formed"))
    }
}

/// Shows only the public half.
impl core::fmt::Debug for Authority {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Authority")
            .field("network", &self.network().id())
            .field("next_serial", &self.next_serial)
            .field("revoked", &self.revoked)
            .finish_non_exhaustive()
    }
}
