//! The right of a node to sign certificates in the name of the root: for which nodes, with which addresses, serials and
//! domains, and for how long.
//!
//! ```text
//! delegation                      bytes
//! +---------------------------+
//! | version (1)               |   1
//! | network id                |   8
//! | serial                    |   4     of the delegation: one of the network's, so that the
//! | first | last serial       |   8     list of revocations can name it
//! | first | last node address |   8
//! | not before | not after    |  16     unix seconds
//! | lifetime, seconds         |   4     a certificate counts for so long at most
//! | issuer's key, Ed25519     |  32
//! | length | end of names     | 1+0..63 every name that it gives ends so
//! | count | domains           | 1+n(1+l) and the bound of rights ([`super::Rights`]), and tags ([`super::Tags`])
//! | signature by the root key |  64
//! +---------------------------+
//! ```
//!
//! A certificate that an issuer signed carries the delegation as an option. So the certificate contains the whole
//! chain: root → delegation → certificate. There are no longer chains. The value of an option has at most 255 bytes,
//! and so has a delegation.

use super::rights::{Bound, is_bound};
use super::tags::pattern_of;
use super::{Domains, KEY_BYTES, MAX_NAME_BYTES, NetworkId, SIGNATURE_BYTES, is_name};
use crate::bytes::{Reader, Writer};
use crate::{Full, Malformed};
use base::NodeAddr;

/// The version of delegations.
const VERSION: u8 = 1;
/// The maximum length of a delegation: what the option of a certificate holds.
pub const MAX_DELEGATION_BYTES: usize = 255;

/// The right to sign certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delegation<'a> {
    /// The network in which the delegation is valid.
    pub network: NetworkId,
    /// The delegation's own number, by which a list of revocations can name it.
    pub serial: u32,
    /// The first and the last serial that the issuer may give.
    pub serials: (u32, u32),
    /// The first and the last overlay address that the issuer may give.
    pub addresses: (NodeAddr, NodeAddr),
    /// The first second in which the delegation is valid.
    pub not_before_s: u64,
    /// The last second in which the delegation, and the certificates signed under it, are valid.
    pub not_after_s: u64,
    /// The maximum validity of a certificate, in seconds.
    pub lifetime_s: u32,
    /// The issuer's signing key.
    pub issuer: [u8; KEY_BYTES],
    /// The suffix that every name must have; empty for any name.
    pub names: &'a str,
    /// The domains that a certificate may have: these, and those that a pattern `*.x` in the list covers. Some words in
    /// the list are not domains: the bound of the rights ([`Delegation::bound`]), and the tags ([`Delegation::tags`]).
    pub domains: Domains<'a>,
    /// The root key's signature.
    pub signature: [u8; SIGNATURE_BYTES],
}

impl<'a> Delegation<'a> {
    /// Reads a delegation that fills `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<Delegation<'a>, Malformed> {
        if bytes.len() > MAX_DELEGATION_BYTES {
            return Err(Malformed::Length);
        }
        let mut r = Reader::new(bytes);
        if r.u8()? != VERSION {
            return Err(Malformed::Version);
        }
        let network = NetworkId(r.array()?);
        let (serial, serials) = (r.u32()?, (r.u32()?, r.u32()?));
        let addresses = (NodeAddr(r.u32()?), NodeAddr(r.u32()?));
        let (not_before_s, not_after_s) = (r.u64()?, r.u64()?);
        let delegation = Delegation {
            network,
            serial,
            serials,
            addresses,
            not_before_s,
            not_after_s,
            lifetime_s: r.u32()?,
            issuer: r.array()?,
            names: names(&mut r)?,
            domains: Domains::parse(&mut r)?,
            signature: r.array()?,
        };
        r.finish()?;
        let is_range = serials.0 <= serials.1
            && addresses.0 <= addresses.1
            && addresses.0.is_node()
            && addresses.1.is_node()
            && not_before_s <= not_after_s;
        if is_range {
            Ok(delegation)
        } else {
            Err(Malformed::Value)
        }
    }

    /// Appends the delegation.
    pub fn emit(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        w.u8(VERSION)?;
        w.put(&self.network.0)?;
        w.u32(self.serial)?;
        w.u32(self.serials.0)?;
        w.u32(self.serials.1)?;
        w.u32(self.addresses.0.0)?;
        w.u32(self.addresses.1.0)?;
        w.u64(self.not_before_s)?;
        w.u64(self.not_after_s)?;
        w.u32(self.lifetime_s)?;
        w.put(&self.issuer)?;
        w.u8(u8::try_from(self.names.len()).map_err(|_| Full)?)?;
        w.put(self.names.as_bytes())?;
        w.put(self.domains.0)?;
        w.put(&self.signature)
    }

    /// Returns true if a certificate with these values is within the delegation. The signature is not checked.
    pub fn covers(&self, certificate: &super::Certificate<'_>) -> bool {
        let subject = &certificate.subject;
        let lifetime_s = certificate.not_after_s - certificate.not_before_s;
        (self.serials.0..=self.serials.1).contains(&certificate.serial)
            && (self.addresses.0..=self.addresses.1).contains(&subject.address)
            && certificate.not_before_s >= self.not_before_s
            && certificate.not_after_s <= self.not_after_s
            && lifetime_s <= u64::from(self.lifetime_s)
            && subject.name.ends_with(self.names)
            && subject.domains.iter().all(|domain| self.permits(domain))
            && certificate
                .options
                .tags()
                .iter()
                .all(|tag| self.permits_tag(tag))
    }

    /// Returns true for a domain that a certificate may have.
    pub fn permits(&self, domain: &str) -> bool {
        let is_domain = !is_bound(domain) && pattern_of(domain).is_none();
        is_domain && self.domains.iter().any(|pattern| covers(pattern, domain))
    }

    /// Returns true for a tag that a certificate may have.
    pub fn permits_tag(&self, tag: &str) -> bool {
        self.tags().any(|pattern| covers(pattern, tag))
    }

    /// Returns the tags that the issuer may give, and patterns like `*-lab` of such tags.
    pub fn tags(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.domains.iter().filter_map(pattern_of)
    }

    /// Returns the groups for which the issuer may give rights; `None` if the delegation does not restrict them.
    pub fn bound(&self) -> Option<Bound> {
        self.domains.iter().find_map(Bound::read)
    }
}

/// Returns true if the pattern covers the word: `*.example.net` covers `a.example.net` and `*.a.example.net`.
fn covers(pattern: &str, word: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(end) => word.ends_with(end) && word.len() > end.len(),
        None => word == pattern,
    }
}

fn names<'a>(r: &mut Reader<'a>) -> Result<&'a str, Malformed> {
    let length = usize::from(r.u8()?);
    let text = core::str::from_utf8(r.take(length)?).map_err(|_| Malformed::Text)?;
    match text.len() <= MAX_NAME_BYTES && (text.is_empty() || is_name(text)) {
        true => Ok(text),
        false => Err(Malformed::Value),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::certificate::tests::certified;
    use crate::certificate::{Certificate, Options, Subject};
    use proptest::prelude::*;

    pub(in crate::certificate) fn bytes() -> Vec<u8> {
        [
            &[1][..],
            &[0xa0, 1, 2, 3, 4, 5, 6, 7],
            &[0, 0, 0, 9],
            &[0, 1, 0, 0, 0, 1, 0xff, 0xff],
            &[10, 7, 0, 128, 10, 7, 0, 191],
            &[0, 0, 0, 0, 0x65, 0, 0, 0],
            &[0, 0, 0, 0, 0x66, 0, 0, 0],
            &[0, 0, 1, 0],
            &[7; 32],
            &[4],
            b"-lab",
            &[1, 6],
            b"*.b.nl",
            &[8; 64],
        ]
        .concat()
    }

    #[test]
    fn a_delegation_and_its_bytes_agree_both_ways() {
        let bytes = bytes();
        let delegation = Delegation::parse(&bytes).unwrap();
        assert_eq!(
            (delegation.serial, delegation.serials),
            (9, (65_536, 131_071))
        );
        assert_eq!(delegation.addresses.1.to_string(), "10.7.0.191");
        assert_eq!((delegation.lifetime_s, delegation.names), (256, "-lab"));
        assert_eq!(delegation.domains.iter().collect::<Vec<_>>(), ["*.b.nl"]);
        let mut room = [0; MAX_DELEGATION_BYTES];
        let mut w = Writer::new(&mut room);
        delegation.emit(&mut w).unwrap();
        assert_eq!(w.written(), bytes);
        for short in 0..bytes.len() {
            assert_eq!(
                Delegation::parse(&bytes[..short]),
                Err(Malformed::Short),
                "{short}"
            );
            assert_eq!(
                delegation.emit(&mut Writer::new(&mut vec![0; short])),
                Err(Full)
            );
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(Delegation::parse(&longer), Err(Malformed::Length));
    }

    #[test]
    fn ranges_that_are_none_are_refused() {
        for (at, byte) in [(13, 2), (21, 11), (21, 240), (29, 1), (81, 64), (0, 2)] {
            let mut bytes = bytes();
            bytes[at] = byte;
            assert!(Delegation::parse(&bytes).is_err(), "byte {at} as {byte}");
        }
    }

    #[test]
    fn a_certificate_is_within_or_without() {
        let bytes = bytes();
        let delegation = Delegation::parse(&bytes).unwrap();
        let mut room = [0; 64];
        let mut w = Writer::new(&mut room);
        Domains::emit(&["a.b.nl"], &mut w).unwrap();
        let domains = Domains::parse(&mut Reader::new(w.written())).unwrap();
        let good = Certificate {
            network: delegation.network,
            serial: 65_536,
            not_before_s: 0x6500_0000,
            not_after_s: 0x6500_0100,
            subject: Subject {
                address: NodeAddr(0x0a07_0080),
                name: "home-lab",
                static_key: [1; 32],
                signing_key: [2; 32],
                domains,
            },
            options: Options::NONE,
            signature: [3; 64],
        };
        assert!(delegation.covers(&good));
        let changes: [fn(&mut Certificate<'_>); 7] = [
            |c| c.serial = 65_535,
            |c| c.serial = 131_072,
            |c| c.not_before_s -= 1,
            |c| c.not_after_s += 1,
            |c| c.subject.address = NodeAddr(0x0a07_00c0),
            |c| c.subject.address = NodeAddr(0x0a07_007f),
            |c| c.subject.name = "ams",
        ];
        for (at, change) in changes.iter().enumerate() {
            let mut bad = good;
            change(&mut bad);
            assert!(!delegation.covers(&bad), "change {at}");
        }
        for (domain, is_permitted) in [
            ("a.b.nl", true),
            ("*.a.b.nl", true),
            ("*.b.nl", true),
            ("b.nl", false),
            (".b.nl", false),
            ("xb.nl", false),
            ("*", false),
            ("a.b.nl.evil", false),
        ] {
            assert_eq!(delegation.permits(domain), is_permitted, "{domain}");
        }
    }

    #[test]
    fn tags_are_given_that_the_delegation_names_and_none_without_such_words() {
        let with = |words: &[&str], tag: &str| {
            let bytes = bytes();
            let mut delegation = Delegation::parse(&bytes).unwrap();
            let mut room = [0; 128];
            let mut w = Writer::new(&mut room);
            Domains::emit(words, &mut w).unwrap();
            delegation.domains = Domains::parse(&mut Reader::new(w.written())).unwrap();
            let mut covered = None;
            let who = ("home-lab", NodeAddr(0x0a07_0080));
            certified(who, &[], &[tag], false, |certificate| {
                let mut certificate = *certificate;
                certificate.serial = 65_536;
                (certificate.not_before_s, certificate.not_after_s) = (0x6500_0000, 0x6500_0100);
                covered = Some(delegation.covers(&certificate));
            });
            assert_eq!(covered, Some(delegation.permits_tag(tag)));
            // These words are not domains, even if other words are.
            assert!(
                !words
                    .iter()
                    .any(|word| word.starts_with('_') && delegation.permits(word))
            );
            delegation.permits_tag(tag)
        };
        assert!(!with(&[], "a"));
        assert!(!with(&["*", "a", "_groups"], "a"));
        assert!(with(&["_tag.a", "*"], "a"));
        assert!(!with(&["_tag.a"], "b"));
        assert!(with(&["_tag.*-lab"], "a-lab") && !with(&["_tag.*-lab"], "-lab"));
        assert!(with(&["_tag.*"], "a"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_written_back(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(delegation) = Delegation::parse(&bytes) {
                let mut room = [0; MAX_DELEGATION_BYTES];
                let mut w = Writer::new(&mut room);
                delegation.emit(&mut w).unwrap();
                prop_assert_eq!(w.written(), &bytes[..]);
            }
        }
    }
}
