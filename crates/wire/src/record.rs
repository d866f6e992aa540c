//! The data that is flooded to every node: records, each of one kind, one origin and one sequence number.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-------------+-------------------------------+---------------+
//! |C|    kind     |        length of body         |    age, s ..  |
//! +-+-------------+---------------+---------------+---------------+
//! |    .. age, s  | body, signed by its origin ...                |
//! +---------------+-----------------------------------------------+
//! ```
//!
//! The message [`kind::RECORDS`](crate::control::kind::RECORDS) is a list of concatenated records. The age is not
//! covered by the signature and grows on the way; the body is flooded unchanged. [Amir06 §III-A] floods link state
//! reliably: a neighbor confirms each record by its [`Key`], in the message
//! [`kind::RECORD_ACK`](crate::control::kind::RECORD_ACK), n times
//!
//! ```text
//! +---------------+-----------------------------------------------+
//! |     kind      |                   origin ..                   |
//! +---------------+-----------------------------------------------+
//! |   .. origin   |               sequence number ..              |
//! +---------------+-----------------------------------------------+
//! |  .. sequence  |
//! +---------------+
//! ```
//!
//! A record of an unknown kind cannot be verified, so it is neither stored nor flooded nor confirmed. It is counted,
//! and it counts as an error if it is critical (C).

use crate::bytes::Reader;
use crate::certificate::MAX_SUCCESSIONS;
use crate::control::CRITICAL;
use crate::{Full, Malformed};
use base::NodeAddr;

/// Number of bytes in front of a record's body.
pub const RECORD_HEADER_BYTES: usize = 5;
/// The maximum length of a body. In the worst case, a record is alone in a control datagram, which must pass every IPv6
/// path: 1280 - 40 (IPv6) - 8 (UDP) - 24 (seal) - 3 (message) - 5 (record) = 1200.
pub const BODY_BYTES_MAX: usize = 1200;

/// The subject of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKind(pub u8);

impl RecordKind {
    /// All links of a node: [`crate::link_state`].
    pub const LINK_STATE: RecordKind = RecordKind(1);
    /// A node's certificate: [`crate::certificate`]. The origin is its address, the sequence number its serial.
    pub const CERTIFICATE: RecordKind = RecordKind(2);
    /// The list of revoked certificates, signed by the first root key. The origin is 0, the sequence number its
    /// version.
    pub const REVOCATIONS: RecordKind = RecordKind(3);
    /// The same list, signed by a later root key, whose number is written in front ([`split_root`]). The origin is that
    /// number. So a list of an older root, whatever its version, never replaces a list of a newer root.
    pub const LATER_REVOCATIONS: RecordKind = RecordKind(4);
    /// A succession of the network's root key: [`crate::certificate::Succession`]. The origin is the number of the new
    /// root, the sequence number 1. Records are flooded in descending order of their kinds, so it arrives before what
    /// that root has signed.
    pub const SUCCESSION: RecordKind = RecordKind(5);
    /// The first part of a node's groups: [`crate::groups`]. The kinds of the other parts follow.
    pub const GROUPS: RecordKind = RecordKind(16);
    const GROUPS_LAST: RecordKind =
        RecordKind(RecordKind::GROUPS.0 + crate::groups::PARTS as u8 - 1);

    /// Returns the kind for a part of a node's groups.
    pub const fn groups(part: u8) -> Option<RecordKind> {
        match part < crate::groups::PARTS as u8 {
            true => Some(RecordKind(RecordKind::GROUPS.0 + part)),
            false => None,
        }
    }
    /// Returns the number of the part of a node's groups, if the kind is one.
    pub const fn groups_part(self) -> Option<u8> {
        match self.0 >= RecordKind::GROUPS.0 && self.0 <= RecordKind::GROUPS_LAST.0 {
            true => Some(self.0 - RecordKind::GROUPS.0),
            false => None,
        }
    }

    /// Returns true if this program knows the kind.
    pub const fn is_known(self) -> bool {
        matches!(self.0, 1..=5) || self.groups_part().is_some()
    }
    /// Returns true if a node that does not know the kind must treat it as an error.
    pub const fn is_critical(self) -> bool {
        self.0 & CRITICAL != 0
    }
    /// Returns a short stable word for metrics.
    pub const fn label(self) -> &'static str {
        match self {
            RecordKind::LINK_STATE => "link-state",
            RecordKind::CERTIFICATE => "certificate",
            RecordKind::REVOCATIONS | RecordKind::LATER_REVOCATIONS => "revocations",
            RecordKind::SUCCESSION => "succession",
            kind if kind.groups_part().is_some() => "groups",
            _ => "unknown",
        }
    }
}

/// Splits a flooded list of revocations of a later root into the number of that root, and the list.
pub fn split_root(body: &[u8]) -> Result<(u8, &[u8]), Malformed> {
    match body.split_first() {
        None => Err(Malformed::Short),
        Some((&root, list)) => match (1..=MAX_SUCCESSIONS).contains(&usize::from(root)) {
            true => Ok((root, list)),
            false => Err(Malformed::Value),
        },
    }
}

/// Builds what [`split_root`] reads.
pub fn join_root(root: u8, list: &[u8]) -> Vec<u8> {
    [&[root], list].concat()
}

/// The number that distinguishes a newer record from an older one of the same kind and origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordSeq(pub u32);

/// The name of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The subject of the record.
    pub kind: RecordKind,
    /// The node that the record is about.
    pub origin: NodeAddr,
    /// The version of the record.
    pub seq: RecordSeq,
}

/// A record in its flooded form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The subject of the record.
    pub kind: RecordKind,
    /// The time in seconds since its origin made it; each node that holds it adds its time.
    pub age_s: u16,
    /// The origin's data, which is flooded unchanged.
    pub body: &'a [u8],
}

impl<'a> Record<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Record<'a>, Malformed> {
        let kind = RecordKind(r.u8()?);
        let length = r.u16()?;
        let age_s = r.u16()?;
        let body = r.take(usize::from(length))?;
        if body.len() > BODY_BYTES_MAX {
            return Err(Malformed::Count);
        }
        Ok(Record { kind, age_s, body })
    }

    /// Returns the number of bytes on the wire.
    pub const fn len(&self) -> usize {
        RECORD_HEADER_BYTES + self.body.len()
    }

    /// Returns true if there is no body.
    pub const fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    /// Returns the header in front of the body.
    pub(crate) fn header(&self) -> Result<[u8; RECORD_HEADER_BYTES], Full> {
        if self.body.len() > BODY_BYTES_MAX {
            return Err(Full);
        }
        let [l0, l1] = (self.body.len() as u16).to_be_bytes();
        let [a0, a1] = self.age_s.to_be_bytes();
        Ok([self.kind.0, l0, l1, a0, a1])
    }
}

/// The records of a message, in order. Their framing has been checked as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Records<'a> {
    bytes: &'a [u8],
}

impl<'a> Records<'a> {
    /// Reads the body of a message: at least one record, and only complete ones.
    pub fn parse(body: &'a [u8]) -> Result<Records<'a>, Malformed> {
        let mut r = Reader::new(body);
        Record::read(&mut r)?;
        while !r.is_empty() {
            Record::read(&mut r)?;
        }
        Ok(Records { bytes: body })
    }

    /// Returns the records.
    pub fn iter(&self) -> impl Iterator<Item = Record<'a>> + Clone + use<'a> {
        let mut r = Reader::new(self.bytes);
        core::iter::from_fn(move || Record::read(&mut r).ok())
    }
}

/// The keys that a message confirms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acks<'a> {
    bytes: &'a [u8],
}

impl Key {
    /// Number of bytes on the wire.
    pub const BYTES: usize = 9;

    fn from_bytes([kind, o0, o1, o2, o3, s0, s1, s2, s3]: [u8; Key::BYTES]) -> Key {
        Key {
            kind: RecordKind(kind),
            origin: NodeAddr(u32::from_be_bytes([o0, o1, o2, o3])),
            seq: RecordSeq(u32::from_be_bytes([s0, s1, s2, s3])),
        }
    }

    /// Returns the wire format of the key.
    pub const fn to_bytes(self) -> [u8; Key::BYTES] {
        let [o0, o1, o2, o3] = self.origin.0.to_be_bytes();
        let [s0, s1, s2, s3] = self.seq.0.to_be_bytes();
        [self.kind.0, o0, o1, o2, o3, s0, s1, s2, s3]
    }
}

impl<'a> Acks<'a> {
    /// Reads the body of a message: at least one key, and only complete ones.
    pub fn parse(body: &'a [u8]) -> Result<Acks<'a>, Malformed> {
        if body.len() < Key::BYTES {
            Err(Malformed::Short)
        } else if !body.len().is_multiple_of(Key::BYTES) {
            Err(Malformed::Length)
        } else {
            Ok(Acks { bytes: body })
        }
    }

    /// Returns the confirmed keys.
    pub fn iter(&self) -> impl Iterator<Item = Key> + Clone + use<'a> {
        let (keys, _) = self.bytes.as_chunks();
        keys.iter().map(|&bytes| Key::from_bytes(bytes))
    }
}

#[cfg(test)]
mod tests;
