//! The fields of messages that are not just a number.

use crate::bytes::{Reader, Writer};
use crate::{Full, Malformed};
use base::NodeAddr;
use core::fmt;

const ANSWER_ME: u8 = 0x01;
const AN_ANSWER: u8 = 0x02;
const ENTERING: u8 = 0x04;
const ANOTHER_WAY: u8 = 0x80;

/// A newcomer's question for the nodes near its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enter {
    /// The node that wants to enter.
    pub joiner: NodeAddr,
    /// A number that distinguishes this attempt's answers from those of an older one; not 0.
    pub nonce: u32,
    /// The nodes that the message has visited.
    pub hops: Hops,
}

/// The route of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hops {
    /// Number of nodes that the message has visited, at most 127.
    pub count: u8,
    /// True if an earlier attempt was not answered. The message then takes another path than usual, because a node on
    /// that path may have failed.
    pub another_way: bool,
}

impl Hops {
    pub(super) fn from_byte(byte: u8) -> Hops {
        Hops {
            count: byte & !ANOTHER_WAY,
            another_way: byte & ANOTHER_WAY != 0,
        }
    }
    pub(super) fn to_byte(self) -> u8 {
        let way = if self.another_way { ANOTHER_WAY } else { 0 };
        self.count & !ANOTHER_WAY | way
    }
    /// Returns the value after one more node.
    #[must_use]
    pub fn next(self) -> Hops {
        Hops {
            count: (self.count + 1).min(!ANOTHER_WAY),
            ..self
        }
    }
}

/// The requests and information in a beat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BeatFlags {
    /// The receiver must answer at once.
    pub answer_me: bool,
    /// This is an answer, which is not answered in turn.
    pub an_answer: bool,
    /// The sender is not in the ring yet, and must not be routed to.
    pub entering: bool,
}

/// The digest of a set of groups: equal sets have equal digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    /// The least group of the range.
    pub first: NodeAddr,
    /// The greatest group of the range.
    pub last: NodeAddr,
    /// Number of groups.
    pub count: u32,
    /// The digest of all groups.
    pub digest: u64,
}

/// Why a node refuses to be a parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// The node already has the maximum number of groups or children.
    Full,
    /// The child is closer to the group than the parent would be, so the edge could close a loop.
    Order,
    /// The address is not that of a group.
    NotAGroup,
    /// The links to the child cannot carry the group's rate in addition to their present traffic.
    Capacity,
    /// A reason that this program does not know.
    Other(u8),
}

impl Refusal {
    /// Returns the number on the wire.
    pub const fn to_byte(self) -> u8 {
        match self {
            Refusal::Full => 1,
            Refusal::Order => 2,
            Refusal::NotAGroup => 3,
            Refusal::Capacity => 4,
            Refusal::Other(byte) => byte,
        }
    }
    /// Returns the meaning of a number on the wire.
    pub const fn from_byte(byte: u8) -> Refusal {
        match byte {
            1 => Refusal::Full,
            2 => Refusal::Order,
            3 => Refusal::NotAGroup,
            4 => Refusal::Capacity,
            other => Refusal::Other(other),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Full => "the node has as many groups or children as it may",
            Refusal::Order => "the child is closer to the group than the parent",
            Refusal::NotAGroup => "not the address of a group: use 224.0.0.0 or above",
            Refusal::Capacity => "the links to the child do not carry the group's rate",
            Refusal::Other(code) => return write!(f, "reason {code}"),
        })
    }
}

impl BeatFlags {
    pub(super) fn from_byte(byte: u8) -> Result<BeatFlags, Malformed> {
        let byte = flags(byte, ANSWER_ME | AN_ANSWER | ENTERING)?;
        Ok(BeatFlags {
            answer_me: byte & ANSWER_ME != 0,
            an_answer: byte & AN_ANSWER != 0,
            entering: byte & ENTERING != 0,
        })
    }
    pub(super) fn to_byte(self) -> u8 {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        flag(self.answer_me, ANSWER_ME)
            | flag(self.an_answer, AN_ANSWER)
            | flag(self.entering, ENTERING)
    }
}

impl Digest {
    pub(super) fn read(mut r: Reader<'_>) -> Result<Digest, Malformed> {
        let (first, last) = range(&mut r)?;
        let digest = Digest {
            first,
            last,
            count: r.u32()?,
            digest: r.u64()?,
        };
        r.finish()?;
        Ok(digest)
    }
    pub(super) fn write(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        w.u32(self.first.0)?;
        w.u32(self.last.0)?;
        w.u32(self.count)?;
        w.u64(self.digest)
    }
}

/// Checks that reserved flags are zero.
pub(super) fn flags(byte: u8, known: u8) -> Result<u8, Malformed> {
    if byte & !known == 0 {
        Ok(byte)
    } else {
        Err(Malformed::Value)
    }
}

pub(super) fn range(r: &mut Reader<'_>) -> Result<(NodeAddr, NodeAddr), Malformed> {
    let (first, last) = (NodeAddr(r.u32()?), NodeAddr(r.u32()?));
    if first <= last {
        Ok((first, last))
    } else {
        Err(Malformed::Value)
    }
}
