//! The messages of two neighbors before they can seal: three messages of Noise XX, and a cookie.
//!
//! ```text
//!      dialler                                           responder
//!         | Init       index, versions, e, padding           |
//!         |------------------------------------------------->|
//!         |                                 (under load) Cookie
//!         |<- - - - - - - - - - - - - - - - - - - - - - - - -|
//!         | Response   indices, version, e, ee, s, es, certificate
//!         |<-------------------------------------------------|
//!         | Finish     index, s, se, certificate             |
//!         |------------------------------------------------->|
//!         | (version 2: more, in [`kem`])                    |
//!
//! Init      0 first byte | 1 sender 3 | 4 min | 5 max | 6 zero 2 | 8 noise 32 | 40 mac1 16
//!           | 56 mac2 16 | 72 zeros up to 1152
//! Response  0 first byte | 1 sender 3 | 4 receiver 3 | 7 version | 8 noise 104 + n | mac1 16
//! Finish    0 first byte | 1 receiver 3 | 4 noise 64 + n, or 65 + n | mac1 16
//! Cookie    0 first byte | 1 receiver 3 | 4 cookie 16 | 20 mac1 16
//! ```
//!
//! `sender` is the index that the sender wants in the datagrams that it receives, and `receiver` is the index that the
//! addressee had chosen. mac1 is keyed by the network and ends every message, so that an unwanted datagram from outside
//! costs only one MAC. mac2 is keyed by a cookie, or zero without one. An Init is as long as the longest Response:
//! nobody gets more bytes out of a node than he sends. `secure` defines the Noise payloads: in the response, its first
//! 8 bytes again and a certificate; in the finish, a certificate, preceded by a zero byte ([`FURTHER_PATH`]) if the
//! session is for a further path of a link. The zero byte is only sent to nodes that have announced that they support
//! it.

use crate::Malformed;
use crate::bytes::Reader;
use crate::certificate::MAX_CERTIFICATE_BYTES;
use crate::link::{Kind, SessionIndex};
use core::ops::Range;

pub mod kem;

/// Number of bytes of mac1, of mac2 and of a cookie.
pub const MAC_BYTES: usize = 16;
/// Number of bytes of the first Noise message: a public key.
pub const NOISE_INIT_BYTES: usize = 32;
/// Number of bytes of the second Noise message without the certificate: key, sealed key, sealed header.
pub const NOISE_RESPONSE_BYTES: usize = 32 + (32 + 16) + (RESPONSE_HEADER_BYTES + 16);
/// Number of bytes of the third Noise message without the certificate: sealed key, tag.
pub const NOISE_FINISH_BYTES: usize = (32 + 16) + 16;
/// Number of bytes in front of the Noise message of a response.
pub const RESPONSE_HEADER_BYTES: usize = 8;
/// Number of bytes in front of the Noise message of a finish.
pub const FINISH_HEADER_BYTES: usize = 4;
/// The maximum length of a response.
pub const MAX_RESPONSE_BYTES: usize =
    RESPONSE_HEADER_BYTES + NOISE_RESPONSE_BYTES + MAX_CERTIFICATE_BYTES + MAC_BYTES;
/// The byte in front of the certificate in the Noise payload of a finish, if the session is for a further path of a
/// link. No certificate begins with it, since its first byte is its version.
pub const FURTHER_PATH: u8 = 0;
/// The maximum length of a finish.
pub const MAX_FINISH_BYTES: usize =
    FINISH_HEADER_BYTES + NOISE_FINISH_BYTES + 1 + MAX_CERTIFICATE_BYTES + MAC_BYTES;
/// Number of bytes of every Init.
pub const INIT_BYTES: usize = MAX_RESPONSE_BYTES;
/// Number of bytes of every cookie message.
pub const COOKIE_BYTES: usize = 4 + MAC_BYTES + MAC_BYTES;

/// The version with classic keys.
pub const CLASSIC_VERSION: u8 = 1;
/// The version with keys that also come from [`kem`].
pub const HYBRID_VERSION: u8 = 2;

/// The positions of the parts of an Init that are written or checked separately.
pub mod init {
    use super::*;
    /// The position of the Noise message.
    pub const NOISE: Range<usize> = 8..8 + NOISE_INIT_BYTES;
    /// The position of mac1, which covers everything before it.
    pub const MAC1: Range<usize> = NOISE.end..NOISE.end + MAC_BYTES;
    /// The position of mac2, which covers everything before it.
    pub const MAC2: Range<usize> = MAC1.end..MAC1.end + MAC_BYTES;
}

/// The versions of the data plane that a node supports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// The lowest version.
    pub min: u8,
    /// The highest version.
    pub max: u8,
}

impl VersionRange {
    /// Returns the highest version in both ranges.
    pub fn common(self, other: VersionRange) -> Option<u8> {
        let highest = self.max.min(other.max);
        (highest >= self.min.max(other.min)).then_some(highest)
    }
    /// Returns true if the range contains `version`.
    pub const fn contains(self, version: u8) -> bool {
        self.min <= version && version <= self.max
    }
}

/// The first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Init<'a> {
    /// The dialler's index.
    pub sender: SessionIndex,
    /// The versions that the dialler supports.
    pub versions: VersionRange,
    /// The Noise message.
    pub noise: &'a [u8; NOISE_INIT_BYTES],
    /// The MAC that is keyed by the network.
    pub mac1: &'a [u8; MAC_BYTES],
    /// The MAC that is keyed by a cookie, or zero.
    pub mac2: &'a [u8; MAC_BYTES],
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// The responder's index.
    pub sender: SessionIndex,
    /// The dialler's index.
    pub receiver: SessionIndex,
    /// The version that the responder chose.
    pub version: u8,
    /// The Noise message.
    pub noise: &'a [u8],
}

/// The last message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finish<'a> {
    /// The responder's index.
    pub receiver: SessionIndex,
    /// The Noise message.
    pub noise: &'a [u8],
}

/// A request to come again with this cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie {
    /// The dialler's index.
    pub receiver: SessionIndex,
    /// The key of mac2.
    pub cookie: [u8; MAC_BYTES],
}

impl<'a> Init<'a> {
    /// Reads an Init: exactly [`INIT_BYTES`] long, with reserved bytes and padding zero.
    pub fn parse(datagram: &'a [u8]) -> Result<Init<'a>, Malformed> {
        let mut r = begin(datagram, Kind::HandshakeInit)?;
        let sender = SessionIndex::new(r.u24()?);
        let versions = VersionRange {
            min: r.u8()?,
            max: r.u8()?,
        };
        let reserved = r.u16()?;
        let init = Init {
            sender,
            versions,
            noise: chunk(&mut r)?,
            mac1: chunk(&mut r)?,
            mac2: chunk(&mut r)?,
        };
        let padding = r.take(INIT_BYTES - init::MAC2.end)?;
        r.finish()?;
        let zero = padding.iter().fold(0, |all, byte| all | byte) == 0;
        if reserved != 0 || !zero || versions.min == 0 || versions.min > versions.max {
            return Err(Malformed::Value);
        }
        Ok(init)
    }

    /// Returns the wire format of the Init.
    pub fn to_bytes(&self) -> [u8; INIT_BYTES] {
        let mut bytes = [0; INIT_BYTES];
        bytes[0] = Kind::HandshakeInit.byte();
        bytes[1..4].copy_from_slice(&index_bytes(self.sender));
        bytes[4..6].copy_from_slice(&[self.versions.min, self.versions.max]);
        bytes[init::NOISE].copy_from_slice(self.noise);
        bytes[init::MAC1].copy_from_slice(self.mac1);
        bytes[init::MAC2].copy_from_slice(self.mac2);
        bytes
    }
}

impl<'a> Response<'a> {
    /// Reads a response, without the mac1 that ends it.
    pub fn parse(datagram: &'a [u8]) -> Result<Response<'a>, Malformed> {
        let (body, _) = split_mac(datagram)?;
        let mut r = begin(body, Kind::HandshakeResponse)?;
        let response = Response {
            sender: SessionIndex::new(r.u24()?),
            receiver: SessionIndex::new(r.u24()?),
            version: r.u8()?,
            noise: r.rest(),
        };
        if response.noise.len() < NOISE_RESPONSE_BYTES {
            return Err(Malformed::Short);
        }
        if datagram.len() > MAX_RESPONSE_BYTES {
            return Err(Malformed::Length);
        }
        Ok(response)
    }

    /// Reads the sealed copy of a response's header: the responder's index and the version.
    pub fn of_header(header: &[u8]) -> Result<(SessionIndex, u8), Malformed> {
        let mut r = begin(header, Kind::HandshakeResponse)?;
        let sender = SessionIndex::new(r.u24()?);
        r.take(3)?;
        let version = r.u8()?;
        r.finish()?;
        Ok((sender, version))
    }

    /// Returns the bytes in front of the Noise message.
    pub fn header(&self) -> [u8; RESPONSE_HEADER_BYTES] {
        let [s0, s1, s2] = index_bytes(self.sender);
        let [r0, r1, r2] = index_bytes(self.receiver);
        let first = Kind::HandshakeResponse.byte();
        [first, s0, s1, s2, r0, r1, r2, self.version]
    }
}

impl<'a> Finish<'a> {
    /// Reads a finish, without the mac1 that ends it.
    pub fn parse(datagram: &'a [u8]) -> Result<Finish<'a>, Malformed> {
        let (body, _) = split_mac(datagram)?;
        let mut r = begin(body, Kind::HandshakeFinish)?;
        let finish = Finish {
            receiver: SessionIndex::new(r.u24()?),
            noise: r.rest(),
        };
        if finish.noise.len() < NOISE_FINISH_BYTES {
            return Err(Malformed::Short);
        }
        if datagram.len() > MAX_FINISH_BYTES {
            return Err(Malformed::Length);
        }
        Ok(finish)
    }

    /// Returns the bytes in front of the Noise message.
    pub fn header(&self) -> [u8; FINISH_HEADER_BYTES] {
        let [r0, r1, r2] = index_bytes(self.receiver);
        [Kind::HandshakeFinish.byte(), r0, r1, r2]
    }
}

impl Cookie {
    /// Reads a cookie message, without the mac1 that ends it.
    pub fn parse(datagram: &[u8]) -> Result<Cookie, Malformed> {
        let (body, _) = split_mac(datagram)?;
        let mut r = begin(body, Kind::Cookie)?;
        let cookie = Cookie {
            receiver: SessionIndex::new(r.u24()?),
            cookie: r.array()?,
        };
        r.finish()?;
        Ok(cookie)
    }

    /// Returns the wire format of the message, with mac1 still zero.
    pub fn to_bytes(&self) -> [u8; COOKIE_BYTES] {
        let mut bytes = [0; COOKIE_BYTES];
        bytes[0] = Kind::Cookie.byte();
        bytes[1..4].copy_from_slice(&index_bytes(self.receiver));
        bytes[4..4 + MAC_BYTES].copy_from_slice(&self.cookie);
        bytes
    }
}

/// Divides a message into the part that its mac1 covers, and mac1.
pub fn split_mac(datagram: &[u8]) -> Result<(&[u8], &[u8; MAC_BYTES]), Malformed> {
    datagram.split_last_chunk().ok_or(Malformed::Short)
}

fn begin(bytes: &[u8], kind: Kind) -> Result<Reader<'_>, Malformed> {
    let mut r = Reader::new(bytes);
    if Kind::from_byte(r.u8()?)? == kind {
        Ok(r)
    } else {
        Err(Malformed::Kind)
    }
}

fn chunk<'a, const N: usize>(r: &mut Reader<'a>) -> Result<&'a [u8; N], Malformed> {
    r.take(N)?.first_chunk().ok_or(Malformed::Short)
}

const fn index_bytes(index: SessionIndex) -> [u8; 3] {
    let [_, a, b, c] = index.value().to_be_bytes();
    [a, b, c]
}

#[cfg(test)]
mod tests;
