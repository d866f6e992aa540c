//! The identity of a node, signed by the root key of its network or by an issuer ([`Delegation`]); the identity that a
//! node requests; and the list of certificates that are no longer valid.
//!
//! ```text
//! certificate                     bytes   request                          bytes
//! +---------------------------+           +---------------------------+
//! | version (1)               |   1       | version (1)               |   1
//! | network id                |   8       | network id                |   8
//! | serial                    |   4       |                           |
//! | node address              |   4       | node address (wished for) |   4
//! | not before, unix seconds  |   8       |                           |
//! | not after, unix seconds   |   8       |                           |
//! | length | name, UTF-8      | 1+1..63   | length | name, UTF-8      | 1+1..63
//! | static key, X25519        |  32       | static key, X25519        |  32
//! | signing key, Ed25519      |  32       | signing key, Ed25519      |  32
//! | count | domains           | 1+n(1+l)  | count | domains           | 1+n(1+l)
//! | length | options          | 2+o       | length | options          | 2+o
//! | signature by root, issuer |  64       | signature by signing key  |  64
//! +---------------------------+           +---------------------------+
//!
//! revocations: version 4 | issued, unix seconds 8 | n x serial 4, ascending | signature 64
//! option:      critical bit and type 1 | length 1 | value
//!   0x02       what the node may say for the whole network ([`Rights`])
//!   0x03       how the root that signed, or whose issuer did, came to be one ([`Succession`])
//!   0x04       words by which rules name the node ([`Tags`])
//!   0x81       critical: the delegation of the issuer that signed, in place of the root key
//! ```
//!
//! A signature covers a context string (`secure::signature`) and everything before itself. Each value has exactly one
//! encoding, so bytes can be compared, hashed and flooded unchanged. Parsing checks only the form; `secure` checks the
//! signer and the validity.

mod delegation;
mod pattern;
mod rights;
mod succession;
mod tags;

pub use delegation::{Delegation, MAX_DELEGATION_BYTES};
pub use pattern::{BadPattern, Pattern, is_like_address};
pub use rights::{BadRange, Bound, GroupRange, MAX_RANGES, MAX_RIGHTS_BYTES, Rights};
pub use succession::{MAX_SUCCESSIONS, SUCCESSION_BYTES, Succession};
pub use tags::{MAX_TAG_BYTES, MAX_TAGS, MAX_TAGS_BYTES, Tags, delegated_tag, is_tag};

use crate::bytes::{Reader, Writer};
use crate::control::CRITICAL;
use crate::{Full, Malformed};
use base::NodeAddr;

/// The version of certificates and requests.
pub const VERSION: u8 = 1;
/// Number of bytes of a network's id: the first bytes of the SHA-256 of its root key.
pub const NETWORK_ID_BYTES: usize = 8;
/// Number of bytes of a public key of either kind.
pub const KEY_BYTES: usize = 32;
/// Number of bytes of a signature.
pub const SIGNATURE_BYTES: usize = 64;
/// The maximum length of a node's name: the same as of a label in the DNS.
pub const MAX_NAME_BYTES: usize = 63;
/// The maximum length of a domain: the same as of a name in the DNS.
pub const MAX_DOMAIN_BYTES: usize = 253;
/// The maximum number of domains of one node.
pub const MAX_DOMAINS: usize = 16;
/// The maximum length of a certificate or request. One must fit in a handshake datagram beside 128 bytes of handshake,
/// within the smallest MTU of IPv6: 1280 − 48 (headers) − 128 = 1104 bytes at most.
pub const MAX_CERTIFICATE_BYTES: usize = 1024;
/// The bytes that a certificate has and a request does not: serial and validity.
pub const VALIDITY_BYTES: usize = 4 + 8 + 8;
/// The maximum number of serials in a list: 12 + 256 × 4 + 64 = 1100 bytes fit in one flooded record.
pub const MAX_REVOKED: usize = 256;
/// The longest list of revocations.
pub const MAX_REVOCATIONS_BYTES: usize = 12 + MAX_REVOKED * 4 + SIGNATURE_BYTES;

/// The short name of a network's root key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkId(pub [u8; NETWORK_ID_BYTES]);

/// The identity of a node that a certificate certifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject<'a> {
    /// The node's overlay address.
    pub address: NodeAddr,
    /// The node's name.
    pub name: &'a str,
    /// The key with which the node proves its identity in handshakes.
    pub static_key: [u8; KEY_BYTES],
    /// The key with which the node signs what it floods.
    pub signing_key: [u8; KEY_BYTES],
    /// The domains that the node may serve.
    pub domains: Domains<'a>,
}

/// A certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certificate<'a> {
    /// The network in which the certificate is valid.
    pub network: NetworkId,
    /// The certificate's number, unique in the network; a renewed certificate has a higher one.
    pub serial: u32,
    /// The first second in which the certificate is valid.
    pub not_before_s: u64,
    /// The last second in which the certificate is valid.
    pub not_after_s: u64,
    /// The node that the certificate is for.
    pub subject: Subject<'a>,
    /// Optional items, as received.
    pub options: Options<'a>,
    /// The signature by the root key, or by the issuer that the options name.
    pub signature: [u8; SIGNATURE_BYTES],
}

/// A node's request for a certificate to its network's authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The network that the node wants to join.
    pub network: NetworkId,
    /// The identity that the node requests.
    pub subject: Subject<'a>,
    /// Optional items, as received.
    pub options: Options<'a>,
    /// The signature by the subject's own signing key.
    pub signature: [u8; SIGNATURE_BYTES],
}

/// The serials of certificates that are no longer valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revocations<'a> {
    /// The version, which rises with every list; the list with the highest version is valid.
    pub version: u32,
    /// When the list was signed.
    pub issued_s: u64,
    /// The revoked serials.
    pub serials: Serials<'a>,
    /// The root key's signature.
    pub signature: [u8; SIGNATURE_BYTES],
}

/// Returns the part of `bytes` that a signature at their end covers: everything before it.
pub fn signed_part(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().saturating_sub(SIGNATURE_BYTES)]
}

impl<'a> Certificate<'a> {
    /// Reads a certificate that fills `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<Certificate<'a>, Malformed> {
        let mut r = begin(bytes)?;
        let network = NetworkId(r.array()?);
        let serial = r.u32()?;
        let address = address(&mut r)?;
        let (not_before_s, not_after_s) = (r.u64()?, r.u64()?);
        if not_before_s > not_after_s {
            return Err(Malformed::Value);
        }
        let certificate = Certificate {
            network,
            serial,
            not_before_s,
            not_after_s,
            subject: Subject::parse(address, &mut r)?,
            options: Options::parse(&mut r)?,
            signature: r.array()?,
        };
        r.finish()?;
        Ok(certificate)
    }

    /// Appends the certificate.
    pub fn emit(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        w.u8(VERSION)?;
        w.put(&self.network.0)?;
        w.u32(self.serial)?;
        w.u32(self.subject.address.0)?;
        w.u64(self.not_before_s)?;
        w.u64(self.not_after_s)?;
        self.subject.emit(w)?;
        self.options.emit(w)?;
        w.put(&self.signature)
    }

    /// Returns the groups that the node may set: the intersection of its rights and of the bound of its issuer.
    pub fn groups(&self) -> Vec<GroupRange> {
        let all = [GroupRange::ALL];
        let bound = self.bound();
        let bound = bound.as_ref().map_or(&all[..], Bound::ranges);
        let rights: Vec<GroupRange> = match self.options.rights() {
            Some(rights) => rights.iter().collect(),
            None if self.may_set(GroupRange::ALL) => all.to_vec(),
            None => Vec::new(),
        };
        let narrower = |right: &GroupRange| {
            let right = *right;
            bound.iter().filter_map(move |bound| match () {
                () if bound.covers(right) => Some(right),
                () if right.covers(*bound) => Some(*bound),
                () => None,
            })
        };
        rights.iter().flat_map(narrower).collect()
    }

    fn bound(&self) -> Option<Bound> {
        Delegation::parse(self.options.delegation()?).ok()?.bound()
    }

    /// Returns true if the node may set all these groups: its rights cover them, and its issuer was allowed to give
    /// them.
    pub fn may_set(&self, range: GroupRange) -> bool {
        let bound = self.bound();
        let is_given = bound.as_ref().is_none_or(|bound| bound.covers(range));
        match self.options.rights() {
            Some(rights) => is_given && rights.covers(range),
            None => bound.is_none(),
        }
    }
}

impl<'a> Request<'a> {
    /// Reads a request that fills `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<Request<'a>, Malformed> {
        let mut r = begin(bytes)?;
        let network = NetworkId(r.array()?);
        let address = address(&mut r)?;
        let request = Request {
            network,
            subject: Subject::parse(address, &mut r)?,
            options: Options::parse(&mut r)?,
            signature: r.array()?,
        };
        r.finish()?;
        Ok(request)
    }

    /// Appends the request.
    pub fn emit(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        w.u8(VERSION)?;
        w.put(&self.network.0)?;
        w.u32(self.subject.address.0)?;
        self.subject.emit(w)?;
        self.options.emit(w)?;
        w.put(&self.signature)
    }
}

impl<'a> Revocations<'a> {
    /// Reads a list that fills `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<Revocations<'a>, Malformed> {
        let mut r = Reader::new(bytes);
        let (version, issued_s) = (r.u32()?, r.u64()?);
        let serials = r.rest().len().checked_sub(SIGNATURE_BYTES);
        let serials = Serials::parse(r.take(serials.ok_or(Malformed::Short)?)?)?;
        let signature = r.array()?;
        Ok(Revocations {
            version,
            issued_s,
            serials,
            signature,
        })
    }

    /// Appends the list.
    pub fn emit(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        w.u32(self.version)?;
        w.u64(self.issued_s)?;
        w.put(self.serials.0)?;
        w.put(&self.signature)
    }
}

impl<'a> Subject<'a> {
    fn parse(address: NodeAddr, r: &mut Reader<'a>) -> Result<Subject<'a>, Malformed> {
        Ok(Subject {
            address,
            name: name(r)?,
            static_key: r.array()?,
            signing_key: r.array()?,
            domains: Domains::parse(r)?,
        })
    }

    /// Appends everything but the address, which is written earlier.
    fn emit(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        w.u8(self.name.len() as u8)?;
        w.put(self.name.as_bytes())?;
        w.put(&self.static_key)?;
        w.put(&self.signing_key)?;
        w.put(self.domains.0)
    }
}

/// Domains in their wire format: a count, then each domain with its length in front.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Domains<'a>(&'a [u8]);

impl<'a> Domains<'a> {
    /// No domain.
    pub const NONE: Domains<'static> = Domains(&[0]);

    /// Reads what [`Domains::emit`] wrote.
    pub fn parse(r: &mut Reader<'a>) -> Result<Domains<'a>, Malformed> {
        let all = r.rest();
        let count = r.u8()?;
        if usize::from(count) > MAX_DOMAINS {
            return Err(Malformed::Count);
        }
        for _ in 0..count {
            let length = r.u8()?;
            if !is_domain(r.take(length.into())?) {
                return Err(Malformed::Value);
            }
        }
        Ok(Domains(&all[..all.len() - r.rest().len()]))
    }

    /// Writes `domains`. Returns [`Full`] also if there are too many, or if one is not a domain.
    pub fn emit(domains: &[&str], w: &mut Writer<'_>) -> Result<(), Full> {
        if domains.len() > MAX_DOMAINS {
            return Err(Full);
        }
        w.u8(domains.len() as u8)?;
        for domain in domains {
            if !is_domain(domain.as_bytes()) {
                return Err(Full);
            }
            w.u8(domain.len() as u8)?;
            w.put(domain.as_bytes())?;
        }
        Ok(())
    }

    /// Returns the domains, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut r = Reader::new(self.0);
        let mut left = r.u8().unwrap_or(0);
        core::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let length = r.u8().ok()?;
            core::str::from_utf8(r.take(length.into()).ok()?).ok()
        })
    }
}

impl core::fmt::Debug for Domains<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The option with the delegation of the issuer that signed a certificate.
const DELEGATION: u8 = CRITICAL | 1;
/// The option with the node's rights for the whole network.
const RIGHTS: u8 = 2;
/// The option with the succession of the root key.
const SUCCESSION: u8 = 3;
/// The option with the tags.
const TAGS: u8 = 4;
/// The maximum length of the options that authorities and issuers write, with the length field.
pub const MAX_OPTIONS_BYTES: usize = 2
    + (2 + MAX_DELEGATION_BYTES)
    + (2 + MAX_RIGHTS_BYTES)
    + (2 + SUCCESSION_BYTES)
    + (2 + MAX_TAGS_BYTES);

/// The content of the options of a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said<'a> {
    /// The delegation of the issuer that signs.
    pub delegation: Option<&'a [u8]>,
    /// The node's rights for the whole network.
    pub rights: Option<Rights<'a>>,
    /// The succession that made the root.
    pub succession: Option<&'a Succession>,
    /// The tags by which rules name the node.
    pub tags: Tags<'a>,
}

/// Optional items in their wire format, without the length in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    /// No option.
    pub const NONE: Options<'static> = Options(&[]);

    /// Writes options with their length in front: unknown ones unchanged, and the values of `said`.
    pub fn emit_with(&self, said: &Said<'_>, w: &mut Writer<'_>) -> Result<(), Full> {
        let succession = said.succession.map(Succession::to_bytes);
        let said = [
            (DELEGATION, said.delegation),
            (RIGHTS, said.rights.as_ref().map(Rights::as_bytes)),
            (SUCCESSION, succession.as_ref().map(|bytes| &bytes[..])),
            (TAGS, said.tags.as_bytes()),
        ];
        let others = self.iter();
        let others = others.filter(|(kind, _)| said.iter().all(|(of, _)| of != kind));
        let said = said.iter();
        let said = said.filter_map(|(kind, value)| Some((*kind, (*value)?)));
        let items = others.chain(said);
        let length: usize = items.clone().map(|(_, value)| 2 + value.len()).sum();
        w.u16(u16::try_from(length).map_err(|_| Full)?)?;
        for (kind, value) in items {
            emit_option(kind, value, w)?;
        }
        Ok(())
    }

    /// Reads options with their length in front. Unknown critical options are an error, other unknown options are kept
    /// unread.
    pub fn parse(r: &mut Reader<'a>) -> Result<Options<'a>, Malformed> {
        let length = r.u16()?;
        let all = r.take(length.into())?;
        let mut items = Reader::new(all);
        let (mut is_delegated, mut has_rights, mut has_tags) = (false, false, false);
        while !items.is_empty() {
            let kind = items.u8()?;
            let length = items.u8().map_err(|_| Malformed::Length)?;
            let value = items.take(length.into()).map_err(|_| Malformed::Length)?;
            match kind {
                DELEGATION if is_delegated => return Err(Malformed::Value),
                DELEGATION => {
                    Delegation::parse(value)?;
                    is_delegated = true;
                }
                RIGHTS if has_rights => return Err(Malformed::Value),
                RIGHTS => {
                    Rights::parse(value)?;
                    has_rights = true;
                }
                TAGS if has_tags => return Err(Malformed::Value),
                TAGS => {
                    Tags::parse(value)?;
                    has_tags = true;
                }
                _ if kind & CRITICAL != 0 => return Err(Malformed::Critical),
                _ => {}
            }
        }
        Ok(Options(all))
    }

    /// Returns the delegation of the issuer that signed, in its wire format; `None` if the root key signed.
    pub fn delegation(&self) -> Option<&'a [u8]> {
        self.value(DELEGATION)
    }

    /// Returns the node's rights for the whole network, if the certificate contains them. [`Certificate::may_set`] also
    /// considers the issuer.
    pub fn rights(&self) -> Option<Rights<'a>> {
        Rights::parse(self.value(RIGHTS)?).ok()
    }

    /// Returns the succession of the root that signed this, or whose issuer did; `None` if that is the first root, or
    /// if there was no room. The succession proves itself, but does not prove who signed the certificate: see `secure`.
    pub fn succession(&self) -> Option<Succession> {
        Succession::parse(self.value(SUCCESSION)?).ok()
    }

    /// Returns the tags. In a valid certificate, its issuer was allowed to give them ([`Delegation::covers`]).
    pub fn tags(&self) -> Tags<'a> {
        let tags = self.value(TAGS).and_then(|value| Tags::parse(value).ok());
        tags.unwrap_or(Tags::NONE)
    }

    fn value(&self, kind: u8) -> Option<&'a [u8]> {
        let mut found = self.iter().filter(|(of, _)| *of == kind);
        found.next().map(|(_, value)| value)
    }

    fn iter(&self) -> impl Iterator<Item = (u8, &'a [u8])> + Clone + use<'a> {
        let mut items = self.0;
        core::iter::from_fn(move || {
            let (&kind, rest) = items.split_first()?;
            let (&length, rest) = rest.split_first()?;
            let (value, rest) = rest.split_at_checked(length.into())?;
            items = rest;
            Some((kind, value))
        })
    }

    fn emit(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        w.u16(u16::try_from(self.0.len()).map_err(|_| Full)?)?;
        w.put(self.0)
    }
}

fn emit_option(kind: u8, value: &[u8], w: &mut Writer<'_>) -> Result<(), Full> {
    w.u8(kind)?;
    w.u8(u8::try_from(value.len()).map_err(|_| Full)?)?;
    w.put(value)
}

/// Ascending serials, four bytes each.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Serials<'a>(&'a [u8]);

impl<'a> Serials<'a> {
    /// Reads serials that fill `bytes`; they must ascend.
    pub fn parse(bytes: &'a [u8]) -> Result<Serials<'a>, Malformed> {
        let serials = Serials(bytes);
        if !bytes.len().is_multiple_of(4) {
            return Err(Malformed::Length);
        }
        if bytes.len() / 4 > MAX_REVOKED {
            return Err(Malformed::Count);
        }
        if !serials.iter().is_sorted_by(|a, b| a < b) {
            return Err(Malformed::Value);
        }
        Ok(serials)
    }

    /// Returns the serials, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + use<'a> {
        let (chunks, _) = self.0.as_chunks::<4>();
        chunks.iter().map(|bytes| u32::from_be_bytes(*bytes))
    }
}

impl core::fmt::Debug for Serials<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Returns true for a valid node name: 1 to 63 bytes of UTF-8 without control characters.
pub fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.chars().any(char::is_control)
}

/// Returns true for a domain: 1 to 253 lower-case letters, digits, and `-`, `_`, `.`, `*`.
pub fn is_domain(bytes: &[u8]) -> bool {
    let allowed = |b: &u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'*');
    (1..=MAX_DOMAIN_BYTES).contains(&bytes.len()) && bytes.iter().all(allowed)
}

/// Checks length and version, which certificates and requests have in common.
fn begin(bytes: &[u8]) -> Result<Reader<'_>, Malformed> {
    if bytes.len() > MAX_CERTIFICATE_BYTES {
        return Err(Malformed::Length);
    }
    let mut r = Reader::new(bytes);
    match r.u8()? {
        VERSION => Ok(r),
        _ => Err(Malformed::Version),
    }
}

fn address(r: &mut Reader<'_>) -> Result<NodeAddr, Malformed> {
    let address = NodeAddr(r.u32()?);
    if address.is_node() {
        Ok(address)
    } else {
        Err(Malformed::Value)
    }
}

fn name<'a>(r: &mut Reader<'a>) -> Result<&'a str, Malformed> {
    let length = r.u8()?;
    let name = core::str::from_utf8(r.take(length.into())?).map_err(|_| Malformed::Text)?;
    if is_name(name) {
        Ok(name)
    } else {
        Err(Malformed::Value)
    }
}

#[cfg(test)]
pub(crate) mod tests;
