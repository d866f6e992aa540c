//! A node that certifies others in the name of the root, within its delegation.
//!
//! ```text
//!   root key ──signs──▶ delegation (names, addresses, serials, domains, lifetime; issuer's key)
//!                           │ carried as an option by
//!   issuer's key ──signs──▶ certificate of a newcomer
//! ```
//! What an issuer signs beyond its delegation counts nowhere: every node looks at both
//! ([`crate::Network::verify`]). Which serials and addresses are given is for the caller to remember:
//! an issuer only signs.

use crate::authority::Validity;
use crate::certificate::{Certificate, Delegation};
use crate::identity::{Identity, seal_with};
use crate::signature::{self, Context};
use base::NodeAddr;
use wire::bytes::{Reader, Writer};
use wire::certificate::{
    self as format, GroupRange, KEY_BYTES, MAX_RIGHTS_BYTES, Rights, SIGNATURE_BYTES,
};
use wire::{Full, Malformed};

/// The options of a certificate, with their length: the delegation and the rights.
const OPTIONS_BYTES_MAX: usize = 2 + 2 + format::MAX_DELEGATION_BYTES + 2 + MAX_RIGHTS_BYTES;

/// A node that may certify others.
#[derive(Clone, Debug)]
pub struct Issuer {
    identity: Identity,
    delegation: Delegation,
}

/// Whom an issuer is to certify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newcomer<'a> {
    /// The overlay address that it gets.
    pub address: NodeAddr,
    /// Its name.
    pub name: &'a str,
    /// The key by which it proves itself in handshakes.
    pub static_key: [u8; KEY_BYTES],
    /// The key by which it signs, which it has proved to have.
    pub signing_key: [u8; KEY_BYTES],
    /// The domains that it may serve.
    pub domains: &'a [&'a str],
    /// The groups that it may set.
    pub groups: &'a [GroupRange],
}

/// Why an issuer would not sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssueError {
    /// The delegation names another key.
    #[error(
        "the delegation is for another node's key: make one for this node by `sinew net delegate`"
    )]
    OtherKey,
    /// The name, a domain or a key is none.
    #[error(
        "not a name, a list of domains or a key that a certificate can have: choose another name"
    )]
    Malformed(#[from] Malformed),
    /// Everything together has no room.
    #[error("the certificate would be longer than 1024 bytes: use fewer or shorter domains")]
    TooLong,
    /// The delegation does not permit it.
    #[error(
        "this node may not give that name, address, domain, lifetime or those groups: see its delegation"
    )]
    NotDelegated,
}

impl Issuer {
    /// An issuer with its delegation, which must name the key of this identity.
    pub fn new(identity: Identity, delegation: Delegation) -> Result<Issuer, IssueError> {
        let key = identity.certificate().fields().subject.signing_key;
        match delegation.fields().issuer == key {
            true => Ok(Issuer {
                identity,
                delegation,
            }),
            false => Err(IssueError::OtherKey),
        }
    }

    /// The node itself.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What it may do.
    pub fn delegation(&self) -> &Delegation {
        &self.delegation
    }

    /// From `from_s` on for as long as the delegation permits.
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
        let mut options = [0; OPTIONS_BYTES_MAX];
        let mut o = Writer::new(&mut options);
        format::Options::emit_delegated(self.delegation.as_bytes(), rights, &mut o)
            .expect("a delegation has 255 bytes at most, and rights 40");
        let unsigned = format::Certificate {
            network: delegation.network,
            serial,
            not_before_s: validity.not_before_s,
            not_after_s: validity.not_after_s,
            subject: format::Subject {
                address: newcomer.address,
                name: newcomer.name,
                static_key: newcomer.static_key,
                signing_key: newcomer.signing_key,
                domains: format::Domains::parse(&mut Reader::new(w.written()))?,
            },
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
