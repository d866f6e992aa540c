//! Messages by which a host becomes a node: the host has been invited, or its certificate ends soon.
//!
//! ```text
//!    8 Join     to the issuer: secret of the invitation 16 bytes, static key 32 bytes, name (text),
//!               endpoints (count, texts)
//!    9 Renew    to the issuer: the present certificate (the rest)
//!   10 Joined   from the issuer: certificate (length 16 bits), revocations (length 16 bits; may be
//!               empty), nodes to dial: count, each of address, name (text), endpoints (count, texts);
//!               then the successions of the root key, if there are any (the rest)
//!   98 Issuers  from the issuer, before Joined: others that may renew the certificate: count, each of
//!               signing key 32 bytes, endpoints (count, texts); later ones may have more behind
//! ```
//! The messages are sent over control ([`super::Message`]). The signing key is the one that TLS has proved.

use super::{read_long, read_text, write_long, write_text};
use crate::bytes::{Reader, Writer};
use crate::certificate::{
    KEY_BYTES, MAX_CERTIFICATE_BYTES, MAX_REVOCATIONS_BYTES, MAX_SUCCESSIONS, SUCCESSION_BYTES,
    is_name,
};
use crate::{Full, Malformed};
use base::NodeAddr;

/// Number of bytes of the secret of an invitation.
pub const SECRET_BYTES: usize = 16;
/// The maximum number of endpoints of one node.
pub const ENDPOINTS_MAX: usize = 8;
/// The maximum number of nodes that an issuer names.
pub const NEIGHBORS_MAX: usize = 16;

/// The maximum number of other issuers that an issuer names.
pub const ISSUERS_MAX: usize = 8;
/// The kind of [`super::Message::Issuers`]. Older versions skip it.
pub(super) const ISSUERS: u8 = 98;

/// The request of an invited host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join<'a> {
    /// The secret in the invitation.
    pub secret: [u8; SECRET_BYTES],
    /// The key with which the host will prove its identity in handshakes.
    pub static_key: [u8; KEY_BYTES],
    /// The name that the host wants.
    pub name: &'a str,
    /// The addresses at which other nodes reach the host.
    pub endpoints: Endpoints<'a>,
}

/// The answer: the data that the host needs to be a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined<'a> {
    /// The host's certificate.
    pub certificate: &'a [u8],
    /// The newest list of revocations; empty if there is none.
    pub revocations: &'a [u8],
    /// Nodes that the host can dial.
    pub neighbors: Neighbors<'a>,
    /// The successions of the root key, concatenated. Hosts of earlier versions cannot read a message that contains
    /// any, and could not use a certificate of a later root either.
    pub chain: &'a [u8],
}

/// A node that the host can dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbor<'a> {
    /// The node's overlay address.
    pub address: NodeAddr,
    /// The node's name.
    pub name: &'a str,
    /// The addresses at which the node is reached.
    pub endpoints: Endpoints<'a>,
}

/// Endpoints in their wire format: a count, then texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoints<'a>(&'a [u8]);

/// Nodes in their wire format, with the count in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbors<'a>(&'a [u8]);

/// Issuers in their wire format, with the count in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issuers<'a>(&'a [u8]);

/// Another issuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherIssuer<'a> {
    /// The issuer's signing key.
    pub key: [u8; KEY_BYTES],
    /// The addresses at which the issuer is reached by TCP.
    pub endpoints: Endpoints<'a>,
}

impl<'a> Issuers<'a> {
    /// Writes issuers, each with its endpoints. Returns [`Full`] also if there are too many.
    pub fn emit<T: AsRef<str>>(
        issuers: &[([u8; KEY_BYTES], &[T])],
        w: &mut Writer<'_>,
    ) -> Result<(), Full> {
        if issuers.len() > ISSUERS_MAX {
            return Err(Full);
        }
        w.u8(issuers.len() as u8)?;
        for (key, endpoints) in issuers {
            w.put(key)?;
            Endpoints::emit(endpoints, w)?;
        }
        Ok(())
    }

    /// Reads what [`Issuers::emit`] wrote. Additions of later versions at the end are ignored.
    pub fn parse(mut r: Reader<'a>) -> Result<Issuers<'a>, Malformed> {
        let all = r.rest();
        let count = r.u8()?;
        if usize::from(count) > ISSUERS_MAX {
            return Err(Malformed::Count);
        }
        for _ in 0..count {
            other_issuer(&mut r)?;
        }
        Ok(Issuers(&all[..all.len() - r.rest().len()]))
    }

    pub(super) fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Returns the issuers.
    pub fn iter(&self) -> impl Iterator<Item = OtherIssuer<'a>> + use<'a> {
        let mut r = Reader::new(&self.0[1..]);
        core::iter::from_fn(move || match r.is_empty() {
            true => None,
            false => other_issuer(&mut r).ok(),
        })
    }
}

fn other_issuer<'a>(r: &mut Reader<'a>) -> Result<OtherIssuer<'a>, Malformed> {
    Ok(OtherIssuer {
        key: r.array()?,
        endpoints: Endpoints::parse(r)?,
    })
}

impl<'a> Join<'a> {
    pub(super) fn parse(mut r: Reader<'a>) -> Result<Join<'a>, Malformed> {
        let join = Join {
            secret: r.array()?,
            static_key: r.array()?,
            name: name(&mut r)?,
            endpoints: Endpoints::parse(&mut r)?,
        };
        r.finish()?;
        Ok(join)
    }

    pub(super) fn emit(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        w.put(&self.secret)?;
        w.put(&self.static_key)?;
        write_text(w, self.name)?;
        w.put(self.endpoints.0)
    }
}

impl<'a> Joined<'a> {
    pub(super) fn parse(mut r: Reader<'a>) -> Result<Joined<'a>, Malformed> {
        let (certificate, revocations) = (read_long(&mut r)?, read_long(&mut r)?);
        let is_too_long =
            certificate.len() > MAX_CERTIFICATE_BYTES || revocations.len() > MAX_REVOCATIONS_BYTES;
        if is_too_long {
            return Err(Malformed::Length);
        }
        let neighbors = Neighbors::parse(&mut r)?;
        let chain = r.rest();
        let (successions, rest) = chain.as_chunks::<SUCCESSION_BYTES>();
        if !rest.is_empty() || successions.len() > MAX_SUCCESSIONS {
            return Err(Malformed::Length);
        }
        Ok(Joined {
            certificate,
            revocations,
            neighbors,
            chain,
        })
    }

    pub(super) fn emit(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        write_long(w, self.certificate)?;
        write_long(w, self.revocations)?;
        w.put(self.neighbors.0)?;
        w.put(self.chain)
    }
}

impl<'a> Endpoints<'a> {
    /// Writes endpoints. Returns [`Full`] also if there are too many.
    pub fn emit<T: AsRef<str>>(endpoints: &[T], w: &mut Writer<'_>) -> Result<(), Full> {
        if endpoints.len() > ENDPOINTS_MAX {
            return Err(Full);
        }
        w.u8(endpoints.len() as u8)?;
        let mut each = endpoints.iter();
        each.try_for_each(|endpoint| write_text(w, endpoint.as_ref()))
    }

    /// Reads what [`Endpoints::emit`] wrote.
    pub fn parse(r: &mut Reader<'a>) -> Result<Endpoints<'a>, Malformed> {
        let all = r.rest();
        let count = r.u8()?;
        if usize::from(count) > ENDPOINTS_MAX {
            return Err(Malformed::Count);
        }
        for _ in 0..count {
            read_text(r)?;
        }
        Ok(Endpoints(&all[..all.len() - r.rest().len()]))
    }

    /// Returns the endpoints.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut r = Reader::new(&self.0[1..]);
        core::iter::from_fn(move || match r.is_empty() {
            true => None,
            false => read_text(&mut r).ok(),
        })
    }
}

impl<'a> Neighbors<'a> {
    /// Writes nodes, each with its endpoints. Returns [`Full`] also if there are too many.
    pub fn emit<T: AsRef<str>>(
        nodes: &[(NodeAddr, &str, &[T])],
        w: &mut Writer<'_>,
    ) -> Result<(), Full> {
        if nodes.len() > NEIGHBORS_MAX {
            return Err(Full);
        }
        w.u8(nodes.len() as u8)?;
        for (address, name, endpoints) in nodes {
            w.u32(address.0)?;
            write_text(w, name)?;
            Endpoints::emit(endpoints, w)?;
        }
        Ok(())
    }

    /// Reads what [`Neighbors::emit`] wrote.
    pub fn parse(r: &mut Reader<'a>) -> Result<Neighbors<'a>, Malformed> {
        let all = r.rest();
        let count = r.u8()?;
        if usize::from(count) > NEIGHBORS_MAX {
            return Err(Malformed::Count);
        }
        for _ in 0..count {
            neighbor(r)?;
        }
        Ok(Neighbors(&all[..all.len() - r.rest().len()]))
    }

    /// Returns the nodes.
    pub fn iter(&self) -> impl Iterator<Item = Neighbor<'a>> + use<'a> {
        let mut r = Reader::new(&self.0[1..]);
        core::iter::from_fn(move || match r.is_empty() {
            true => None,
            false => neighbor(&mut r).ok(),
        })
    }
}

fn neighbor<'a>(r: &mut Reader<'a>) -> Result<Neighbor<'a>, Malformed> {
    let address = NodeAddr(r.u32()?);
    if !address.is_node() {
        return Err(Malformed::Value);
    }
    Ok(Neighbor {
        address,
        name: name(r)?,
        endpoints: Endpoints::parse(r)?,
    })
}

fn name<'a>(r: &mut Reader<'a>) -> Result<&'a str, Malformed> {
    let name = read_text(r)?;
    match is_name(name) {
        true => Ok(name),
        false => Err(Malformed::Value),
    }
}
