//! A node that certifies others in the name of the root, within its delegation.
//!
//! ```text
//!   root key ──signs──▶ delegation (names, addresses, serials, domains, tags, lifetime; issuer's key)
//!                           │ carried as an option by
//!   issuer's key ──signs──▶ certificate of a newcomer
//! ```
//! A certificate that exceeds the issuer's delegation is valid nowhere: every node checks both
//! ([`crate::Network::verify`]). The caller must remember which serials and addresses are assigned: an issuer only
//! signs.

use crate::authority::Validity;
use crate::certificate::{Certificate, Delegation};
use crate::identity::{Identity, seal_with};
use crate::network::Network;
use crate::signature::{self, Context};
use base::NodeAddr;
use wire::bytes::{Reader, Writer};
use wire::certificate::{
    self as format, GroupRange, KEY_BYTES, MAX_OPTIONS_BYTES, MAX_RIGHTS_BYTES, MAX_TAGS_BYTES,
    Rights, SIGNATURE_BYTES, Said, Succession, Tags,
};
use wire::{Full, Malformed};

/// A node that may certify other nodes.
#[derive(Clone, Debug)]
pub struct Issuer {
    identity: Identity,
    delegation: Delegation,
    /// The succession that made the root that signed the delegation.
    succession: Option<Succession>,
}

/// The node that an issuer certifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newcomer<'a> {
    /// The overlay address that the node gets.
    pub address: NodeAddr,
    /// The node's name.
    pub name: &'a str,
    /// The key with which the node proves its identity in handshakes.
    pub static_key: [u8; KEY_BYTES],
    /// The key with which the node signs, and which it has proved to hold.
    pub signing_key: [u8; KEY_BYTES],
    /// The domains that the node may serve.
    pub domains: &'a [&'a str],
    /// The groups that the node may set.
    pub groups: &'a [GroupRange],
    /// The tags by which rules name the node.
    pub tags: &'a [&'a str],
}

/// Why an issuer refused to sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssueError {
    /// The delegation names another key.
    #[error(
        "the delegation is for another node's key: make one for this node by `sinew net delegate`"
    )]
    OtherKey,
    /// The name, a domain or a key is not valid.
    #[error(
        "not a name, a list of domains or of tags, or a key that a certificate can have: choose another name"
    )]
    Malformed(#[from] Malformed),
    /// The certificate would be too long.
    #[error("the certificate would be longer than 1024 bytes: use fewer or shorter domains")]
    TooLong,
    /// The delegation does not permit the certificate.
    #[error(
        "this node may not give that name, address, domain, tag, lifetime or those groups: see its delegation"
    )]
    NotDelegated,
}

impl Issuer {
    /// Creates an issuer with its delegation, which must name the key of this identity.
    pub fn new(identity: Identity, delegation: Delegation) -> Result<Issuer, IssueError> {
        let key = identity.certificate().fields().subject.signing_key;
        match delegation.fields().issuer == key {
            true => Ok(Issuer {
                identity,
                delegation,
                succession: None,
            }),
            false => Err(IssueError::OtherKey),
        }
    }

    /// Returns the same issuer with certificates that carry the proof of the root that signed its delegation. A node
    /// that only knows the previous root learns of the new one from them.
    #[must_use]
    pub fn of_network(self, network: &Network) -> Issuer {
        let root = network.root_of_delegation(&self.delegation);
        let succession = root.and_then(|root| network.succession(root)).copied();
        Issuer { succession, ..self }
    }

    /// Returns true if this issuer has got a delegation of a newer root since it signed `certificate`. Such a
    /// certificate is renewed early.
    pub fn outdates(&self, certificate: &Certificate) -> bool {
        let under = certificate.fields().options.delegation();
        self.succession.is_some() && under != Some(self.delegation.as_bytes())
    }

    /// Returns the issuer's own identity.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns the delegation.
    pub fn delegation(&self) -> &Delegation {
        &self.delegation
    }

    /// Returns the validity from `from_s` on, for as long as the delegation permits.
    pub fn validity(&self, from_s: u64) -> Validity {
        let delegation = self.delegation.fields();
        let not_before_s = from_s.max(delegation.not_before_s);
        let not_after_s = not_before_s.saturating_add(delegation.lifetime_s.into());
        Validity {
            not_before_s,
            not_after_s: not_after_s.min(delegation.not_after_s),
        }
    }

    /// Certifies a newcomer.
    pub fn issue(
        &self,
        newcomer: &Newcomer<'_>,
        serial: u32,
        validity: Validity,
    ) -> Result<Certificate, IssueError> {
        if validity.not_before_s > validity.not_after_s {
            return Err(IssueError::NotDelegated);
        }
        if !signature::is_usable(&newcomer.signing_key) || !format::is_name(newcomer.name) {
            return Err(Malformed::Value.into());
        }
        let mut room = [0; format::MAX_CERTIFICATE_BYTES];
        let mut w = Writer::new(&mut room);
        format::Domains::emit(newcomer.domains, &mut w).map_err(|Full| Malformed::Value)?;
        let delegation = self.delegation.fields();
        let bound = delegation.bound();
        let is_given = |range: &GroupRange| bound.as_ref().is_none_or(|it| it.covers(*range));
        if !newcomer.groups.iter().all(is_given) {
            return Err(IssueError::NotDelegated);
        }
        let mut rights = [0; MAX_RIGHTS_BYTES];
        let mut r = Writer::new(&mut rights);
        Rights::emit(newcomer.groups, &mut r).map_err(|Full| IssueError::TooLong)?;
        let rights = Rights::parse(r.written())?;
        let mut tags = [0; MAX_TAGS_BYTES];
        let mut t = Writer::new(&mut tags);
        Tags::emit(newcomer.tags, &mut t).map_err(|Full| Malformed::Value)?;
        let mut said = Said {
            delegation: Some(self.delegation.as_bytes()),
            rights: Some(rights),
            succession: self.succession.as_ref(),
            tags: match newcomer.tags {
                [] => Tags::NONE,
                _ => Tags::parse(t.written())?,
            },
        };
        let subject = format::Subject {
            address: newcomer.address,
            name: newcomer.name,
            static_key: newcomer.static_key,
            signing_key: newcomer.signing_key,
            domains: format::Domains::parse(&mut Reader::new(w.written()))?,
        };
        match self.certify(subject, &said, serial, validity) {
            // Many domains may leave no room for the proof of the root. Nodes also get that proof in another way.
            Err(IssueError::TooLong) if said.succession.take().is_some() => {
                self.certify(subject, &said, serial, validity)
            }
            certified => certified,
        }
    }

    fn certify(
        &self,
        subject: format::Subject<'_>,
        said: &Said<'_>,
        serial: u32,
        validity: Validity,
    ) -> Result<Certificate, IssueError> {
        let mut options = [0; MAX_OPTIONS_BYTES];
        let mut o = Writer::new(&mut options);
        format::Options::NONE
            .emit_with(said, &mut o)
            .expect("there is room for the longest of each");
        let delegation = self.delegation.fields();
        let unsigned = format::Certificate {
            network: delegation.network,
            serial,
            not_before_s: validity.not_before_s,
            not_after_s: validity.not_after_s,
            subject,
            options: format::Options::parse(&mut Reader::new(o.written()))?,
            signature: [0; SIGNATURE_BYTES],
        };
        if !delegation.covers(&unsigned) {
            return Err(IssueError::NotDelegated);
        }
        let mut bytes = [0; format::MAX_CERTIFICATE_BYTES];
        let mut w = Writer::new(&mut bytes);
        unsigned.emit(&mut w).map_err(|Full| IssueError::TooLong)?;
        seal_with(&self.identity, Context::Certificate, w.written_mut());
        Ok(Certificate::from_bytes(w.written())?)
    }
}
