//! The key of a source's group: the question of a receiver, and the source's answer, which it may also send without a
//! question.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |    kind 4     |0 ask, 1 key, 2|  reason of a refusal, else 0  |   0
//! +---------------+---------------+-------------------------------+
//! |                             group                             |   4
//! +---------------+-----------------------------------------------+
//! |  reserved 0   |               number of the key               |   8
//! +---------------+-----------------------------------------------+
//! |       with 1: the first counter that counts, low 32 bits      |  12
//! +---------------------------------------------------------------+
//! |                     with 1: key, 32 bytes                     |  16
//! +---------------------------------------------------------------+
//! ```
//!
//! Packets that were sealed before the first counter are too old for a node that gets the key now: a relay that has
//! kept one could replay it.

use super::GROUP_KEY;
use crate::bytes::{Reader, Writer};
use crate::groups::is_group;
use crate::link::SessionIndex;
use crate::{Full, Malformed};
use base::NodeAddr;

/// Number of bytes of a key.
pub const KEY_BYTES: usize = 32;
/// The maximum length of a message.
pub const GROUP_KEY_BYTES_MAX: usize = 16 + KEY_BYTES;
const ASKED: u8 = 0;
const TOLD: u8 = 1;
const REFUSED: u8 = 2;

/// The name of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// A multicast group.
    pub group: NodeAddr,
    /// The number of the key in packets, which its source has chosen.
    pub number: SessionIndex,
}

/// Why a source refuses to give a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The source has no key, because it does not send to the group.
    NoKey,
    /// A permit excludes the asker.
    NotPermitted,
    /// The asker is not a member, as far as the source knows.
    NotMember,
}

impl Reason {
    const fn from_byte(byte: u8) -> Result<Reason, Malformed> {
        match byte {
            1 => Ok(Reason::NoKey),
            2 => Ok(Reason::NotPermitted),
            3 => Ok(Reason::NotMember),
            _ => Err(Malformed::Value),
        }
    }

    const fn byte(self) -> u8 {
        match self {
            Reason::NoKey => 1,
            Reason::NotPermitted => 2,
            Reason::NotMember => 3,
        }
    }
}

/// A question or an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum GroupKey<'a> {
    /// A question for the key with this name.
    Asked(Name),
    /// The answer with the key.
    Told {
        /// The name of the key.
        name: Name,
        /// The first valid counter: packets sealed before it are too old.
        first: u32,
        /// The key.
        key: &'a [u8; KEY_BYTES],
    },
    /// The refusal to give the key.
    Refused(Name, Reason),
}

/// Shows no key.
impl core::fmt::Debug for GroupKey<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            GroupKey::Asked(name) => f.debug_tuple("Asked").field(name).finish(),
            GroupKey::Told { name, first, .. } => {
                f.debug_tuple("Told").field(name).field(first).finish()
            }
            GroupKey::Refused(name, why) => {
                f.debug_tuple("Refused").field(name).field(why).finish()
            }
        }
    }
}

impl<'a> GroupKey<'a> {
    /// Reads a message of kind 4.
    pub fn parse(payload: &'a [u8]) -> Result<GroupKey<'a>, Malformed> {
        let mut r = Reader::new(payload);
        if r.u8()? != GROUP_KEY {
            return Err(Malformed::Kind);
        }
        let (what, why) = (r.u8()?, r.u16()?);
        let (group, number) = (NodeAddr(r.u32()?), r.u32()?);
        let is_named = group.is_multicast() && is_group(group);
        if !is_named || number > SessionIndex::MAX.value() {
            return Err(Malformed::Value);
        }
        let name = Name {
            group,
            number: SessionIndex::new(number),
        };
        let message = match (what, why) {
            (ASKED, 0) => GroupKey::Asked(name),
            (TOLD, 0) => {
                let first = r.u32()?;
                let key = r.take(KEY_BYTES)?.try_into();
                let key = key.map_err(|_| Malformed::Short)?;
                GroupKey::Told { name, first, key }
            }
            (REFUSED, why) => {
                let why = u8::try_from(why).map_err(|_| Malformed::Value)?;
                GroupKey::Refused(name, Reason::from_byte(why)?)
            }
            _ => return Err(Malformed::Value),
        };
        match r.rest() {
            [] => Ok(message),
            _ => Err(Malformed::Length),
        }
    }

    /// Writes the message at the front of `out`, and returns its length.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, Full> {
        let (what, why, name) = match *self {
            GroupKey::Asked(name) => (ASKED, 0, name),
            GroupKey::Told { name, .. } => (TOLD, 0, name),
            GroupKey::Refused(name, why) => (REFUSED, why.byte(), name),
        };
        let mut w = Writer::new(out);
        w.u8(GROUP_KEY)?;
        w.u8(what)?;
        w.u16(why.into())?;
        w.u32(name.group.0)?;
        w.u32(name.number.value())?;
        if let GroupKey::Told { first, key, .. } = self {
            w.u32(*first)?;
            w.put(*key)?;
        }
        Ok(w.written().len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    const NAME: Name = Name {
        group: NodeAddr(0xef01_0203),
        number: SessionIndex::new(0x00ab_cdef),
    };
    const ASKED_VECTOR: [u8; 12] = [4, 0, 0, 0, 239, 1, 2, 3, 0, 0xab, 0xcd, 0xef];
    const REFUSED_VECTOR: [u8; 12] = [4, 2, 0, 3, 239, 1, 2, 3, 0, 0xab, 0xcd, 0xef];

    fn told_vector() -> Vec<u8> {
        let front = [4, 1, 0, 0, 239, 1, 2, 3, 0, 0xab, 0xcd, 0xef];
        let mut bytes = front.to_vec();
        bytes.extend([0, 0, 0x12, 0x34]);
        bytes.extend(0..32);
        bytes
    }

    fn check(bytes: &[u8], message: GroupKey<'_>) {
        assert_eq!(GroupKey::parse(bytes), Ok(message));
        assert_eq!(Kind::of(bytes), Ok(Kind::GroupKey));
        let mut out = [0xa5; GROUP_KEY_BYTES_MAX];
        let len = message.emit(&mut out).unwrap();
        assert_eq!(&out[..len], bytes);
        assert!(out[len..].iter().all(|byte| *byte == 0xa5));
        for cut in 0..bytes.len() {
            assert_eq!(GroupKey::parse(&bytes[..cut]), Err(Malformed::Short));
            assert_eq!(message.emit(&mut out[..cut]), Err(Full));
        }
        let longer = [bytes, &[0]].concat();
        assert_eq!(GroupKey::parse(&longer), Err(Malformed::Length));
    }

    #[test]
    fn bytes_and_messages_agree_both_ways() {
        check(&ASKED_VECTOR, GroupKey::Asked(NAME));
        check(&REFUSED_VECTOR, GroupKey::Refused(NAME, Reason::NotMember));
        let bytes = told_vector();
        let key = bytes[16..].try_into().unwrap();
        let first = 0x1234;
        let name = NAME;
        check(&bytes, GroupKey::Told { name, first, key });
    }

    #[test]
    fn what_is_none_is_refused() {
        let bad = |at: usize, to: u8| {
            let mut bytes = REFUSED_VECTOR;
            bytes[at] = to;
            GroupKey::parse(&bytes).unwrap_err()
        };
        assert_eq!(bad(0, 3), Malformed::Kind);
        for (at, to) in [(1, 0), (1, 1), (1, 3), (2, 1), (3, 0), (3, 4), (8, 1)] {
            assert_eq!(bad(at, to), Malformed::Value, "{at}: {to}");
        }
        assert_eq!(bad(4, 10), Malformed::Value, "a node is no group");
        assert_eq!(
            bad(4, 0xf0),
            Malformed::Value,
            "one of many is no group of many"
        );
    }

    #[test]
    fn a_key_is_not_shown() {
        let bytes = [
            &[4, 1, 0, 0, 239, 1, 2, 3, 0, 0, 0, 1, 0, 0, 0, 0][..],
            &[0xee; 32],
        ]
        .concat();
        let shown = format!("{:?}", GroupKey::parse(&bytes).unwrap());
        assert!(!shown.contains("238") && !shown.contains("ee"), "{shown}");
    }
}
