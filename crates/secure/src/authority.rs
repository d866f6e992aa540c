//! The holder of a network's root key: issues certificates, renews them, revokes them, and gives the network another root.
//!
//! It works offline, on a file, and is no process of the network. What it must remember besides
//! the key is the next serial, the list of revocations and the roots before; all of it is one text block that
//! is written again after each change.

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
/// The version of the text form of a root that has succeeded another.
const VERSION_WITH_CHAIN: u8 = 2;

/// A network's root key and what has been done with it.
#[derive(Clone)]
pub struct Authority {
    /// The newest: whoever is asked to sign something signs by it.
    root: SigningKey,
    /// The public halves of all roots.
    chain: Chain,
    next_serial: u32,
    revocations_version: u32,
    /// Serial and expiry, ascending by serial. Kept until expiry, when the list may forget them.
    revoked: Vec<(u32, u64)>,
}

/// When a certificate counts, in unix seconds, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub not_before_s: u64,
    /// The last second.
    pub not_after_s: u64,
}

/// What an issuer is to be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mandate<'a> {
    /// The first and the last overlay address that it may give.
    pub addresses: (NodeAddr, NodeAddr),
    /// How many certificates it may sign in all.
    pub certificates: u32,
    /// When it may sign, and what it signed counts.
    pub validity: Validity,
    /// For how long a certificate counts, at most.
    pub lifetime_s: u32,
    /// Every name ends so; empty for any name.
    pub names: &'a str,
    /// The domains, or patterns like `*.example.net`.
    pub domains: &'a [&'a str],
    /// The groups that it may let others set; none bounds nothing, as delegations did before there were rights.
    pub groups: Option<&'a [GroupRange]>,
    /// The tags that it may give, or patterns like `*-lab`.
    pub tags: &'a [&'a str],
}

/// What an authority says of a node in addition to its identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grants<'a> {
    /// The groups that it may set.
    pub groups: &'a [GroupRange],
    /// Words by which rules name it.
    pub tags: &'a [&'a str],
}

/// What is to be otherwise in a certificate; what is not said stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes<'a> {
    /// The domains that the node may serve.
    pub domains: Option<&'a [&'a str]>,
    /// The groups that it may set.
    pub groups: Option<&'a [GroupRange]>,
    /// Words by which rules name it.
    pub tags: Option<&'a [&'a str]>,
}

/// Why the authority would not sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// The request or certificate is for another network.
    #[error("this is for another network: use that network's directory")]
    WrongNetwork,
    /// The request is not signed by the key that it names, or the certificate not by this root.
    #[error("the signature does not fit: the file was damaged or changed, copy it again")]
    BadSignature,
    /// The validity ends before it begins.
    #[error("the certificate would end before it begins: check the dates and this clock")]
    Validity,
    /// All serials are used up.
    #[error("no serial is left: make a new network with `sinew net init`")]
    NoSerial,
    /// The list is full.
    #[error(
        "the list of revocations is full (256): wait until revoked certificates expire, or make a new network"
    )]
    ListFull,
    /// The domains are too many or one is none.
    #[error(
        "not a list of domains: at most 16, of lower-case letters, digits, `-`, `_`, `.`, `*`; those of a delegation share 255 bytes with its groups and tags"
    )]
    Domains,
    /// The groups are more ranges than a certificate holds.
    #[error("too many ranges of groups: at most 8, of which none is within another")]
    Groups,
    /// The tags are too many or one is none.
    #[error(
        "not a list of tags: at most 16 of 32 lower-case letters, digits, `-`, `_`, `.`, and 255 bytes in all; a \
         delegation may have patterns like `*-lab`"
    )]
    Tags,
    /// Name, domains and options leave no room for serial and validity.
    #[error("the certificate would be longer than 1024 bytes: ask for fewer or shorter domains")]
    TooLong,
    /// The range of addresses, the number of certificates or the end of names is none.
    #[error("not a mandate for an issuer: check its addresses, names and number of certificates")]
    Mandate,
    /// The network has had as many roots as it can have.
    #[error(
        "this network has had 16 root keys, as many as it can: make a new one with `sinew net init`"
    )]
    NoRoot,
    /// The request's signing key cannot verify anything.
    #[error("the request holds an unusable key: make the request again")]
    WeakKey,
}

impl Authority {
    /// A new network out of 32 bytes of entropy, which nobody else must know.
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

    /// The network as its nodes know it.
    pub fn network(&self) -> Network {
        Network::of_chain(self.chain.clone())
    }

    /// Puts a new root key, out of entropy that nobody else must know and that has made no root before, in the place of the
    /// present one, which this forgets. What that has signed counts until `until_s`. Serials go on, and so does the list of revocations: the
    /// new root has to sign it before any node can take another one.
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
        // A list of a newer root counts before all versions of older ones, so it may begin anew.
        self.revocations_version = self.revocations_version.checked_add(1).unwrap_or(1);
        Ok(succession)
    }

    /// Certifies what `request` asks for. The certificate says nothing of rights, so the node may set all groups, as
    /// nodes could before there were rights. Options are never taken from a request: what they say is for the authority
    /// to say.
    pub fn issue(
        &mut self,
        request: &Request,
        validity: Validity,
    ) -> Result<Certificate, AuthorityError> {
        let fields = self.check_request(request)?;
        let nothing = Changes::default();
        self.certify_with(fields.subject, format::Options::NONE, &nothing, validity)
    }

    /// Certifies what `request` asks for, and these grants.
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

    /// Certifies the same again, for another time and under a new serial.
    pub fn renew(
        &mut self,
        certificate: &Certificate,
        validity: Validity,
    ) -> Result<Certificate, AuthorityError> {
        self.renew_for(certificate, &Changes::default(), validity)
    }

    /// Certifies the same keys, name and address again, with what is to be otherwise.
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

    /// Lets the node of a certificate certify others. The serials that it may give are set aside.
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

    /// Delegates the same once more: under the newest root, with serials that were not given yet, from `from_s` until the
    /// delegation before would have ended.
    pub fn delegate_again(
        &mut self,
        certificate: &Certificate,
        before: &Delegation,
        from_s: u64,
    ) -> Result<Delegation, AuthorityError> {
        let fields = before.fields();
        // The bound of rights and the tags are among the words.
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

    /// Puts a delegation on the list: it and all that was signed by it no longer count.
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

    /// Puts `certificate` on the list, forgets those that have expired, and signs the new list.
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
        // A node whose clock is slow takes an expired certificate for a little longer.
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

    /// The list as it stands, signed.
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

    /// The text form. It holds the root secret: a file of mode 0600, kept offline and backed up,
    /// written again after each `issue`, `renew` and `revoke`.
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

    /// The roots up to the one whose secret the text holds.
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

    /// Signed by a root, or by one of its issuers within its delegation.
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

    /// Signed by a root itself, be it an older one: what the authority has is renewed after its time, too.
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

    /// With what there was, as far as nothing else is said.
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

    /// Signs what is said, with the proof of the root, in the place of those among `options`.
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
            // Many domains leave no room for the proof of the root: it comes another way, too.
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

/// Shows the public half only.
impl core::fmt::Debug for Authority {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Authority")
            .field("network", &self.network().id())
            .field("next_serial", &self.next_serial)
            .field("revoked", &self.revoked)
            .finish_non_exhaustive()
    }
}
