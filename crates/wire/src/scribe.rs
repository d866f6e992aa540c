//! The messages between the nodes of a Pastry ring and of its Scribe trees. [Brogle09 §I]
//!
//! ```text
//!   Pastry                                     Scribe
//!   newcomer -- Enter --> node -- Enter --> …  child -- Join --> parent -- Join --> … root
//!            <-- State ---'                          <- Accept / Refuse -'
//!   leaf <-- Beat --> leaf                     child -- Keep --> parent: Kept, or Differs
//!   any  -- AskRow --> any: State                    -- Groups -->
//!                                              sender -- Locate --> … root: Root
//! ```
//!
//! A message begins with version and kind; addresses fill the rest, so a message ends with its
//! datagram and has at most [`MESSAGE_BYTES_MAX`] bytes.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |  version (1)  |     kind      | fields of the kind, addresses …
//! +---------------+---------------+-------------------------------+
//!
//!   1 Enter   joiner 4 │ nonce 4 │ hops 1 (bit 7: by another way)
//!   2 State   nonce 4 │ flags 1 (bit 0 last) │ nodes
//!   3 Beat    flags 1 (bit 0 answer me, 1 an answer, 2 not in the ring yet) │ nodes
//!   4 AskRow  row 1 (0…31)
//!   5 Join    groups, at least one          6 Accept  groups, at least one
//!   7 Refuse  reason 1 │ instead 4 (0 none) │ groups, at least one
//!   8 Leave   groups, at least one
//!   9 Keep    first 4 │ last 4 │ count 4 │ digest 8
//!  10 Kept    first 4 │ last 4 │ count 4 │ digest 8
//!  11 Differs first 4 │ last 4
//!  12 Groups  first 4 │ last 4 │ groups, rising, between first and last
//!  13 Locate  asker 4 │ hops 1 (bit 7: by another way) │ groups, at least one
//!  14 Root    groups, at least one
//! ```
//!
//! Ids are not on the wire: the id of a node or group follows from its address, so no node can claim an id.

mod addresses;
mod fields;

use crate::bytes::{Reader, Writer};
use crate::{Full, Malformed};
pub use addresses::Addresses;
use base::NodeAddr;
pub use fields::{BeatFlags, Digest, Enter, Hops, Refusal};
use fields::{flags, range};

/// The supported version.
pub const VERSION: u8 = 1;
/// The maximum length of a message: with the overlay's headers and seal it fits the least MTU of IPv6, 1280.
pub const MESSAGE_BYTES_MAX: usize = 1200;
/// The number of addresses that fit beside the fields of any kind: (1200 − 2 − 20) / 4 = 294.
pub const ADDRESSES_MAX: usize = (MESSAGE_BYTES_MAX - 2 - 20) / 4;
/// Number of rows of a routing table: the hexadecimal digits of an id of 128 bits.
pub const ROWS: u8 = 32;

const LAST: u8 = 0x01;

/// The kinds of messages.
pub mod kind {
    /// [`super::Message::Enter`].
    pub const ENTER: u8 = 1;
    /// [`super::Message::State`].
    pub const STATE: u8 = 2;
    /// [`super::Message::Beat`].
    pub const BEAT: u8 = 3;
    /// [`super::Message::AskRow`].
    pub const ASK_ROW: u8 = 4;
    /// [`super::Message::Join`].
    pub const JOIN: u8 = 5;
    /// [`super::Message::Accept`].
    pub const ACCEPT: u8 = 6;
    /// [`super::Message::Refuse`].
    pub const REFUSE: u8 = 7;
    /// [`super::Message::Leave`].
    pub const LEAVE: u8 = 8;
    /// [`super::Message::Keep`].
    pub const KEEP: u8 = 9;
    /// [`super::Message::Kept`].
    pub const KEPT: u8 = 10;
    /// [`super::Message::Differs`].
    pub const DIFFERS: u8 = 11;
    /// [`super::Message::Groups`].
    pub const GROUPS: u8 = 12;
    /// [`super::Message::Locate`].
    pub const LOCATE: u8 = 13;
    /// [`super::Message::Root`].
    pub const ROOT: u8 = 14;
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A question that is routed towards the joiner's id: every node on the path sends the joiner its state.
    Enter(Enter),
    /// Nodes that the sender knows.
    State {
        /// The nonce of the Enter, or 0 in the answer to a request for a row.
        nonce: u32,
        /// True if the sender is the node closest to the joiner.
        last: bool,
        /// Nodes of the sender's tables.
        nodes: Addresses<'a>,
    },
    /// A sign of life of the sender, with its leaf set.
    Beat {
        /// Requests and information for the receiver.
        flags: BeatFlags,
        /// The sender's leaf set.
        nodes: Addresses<'a>,
    },
    /// A request for a row of the routing table.
    AskRow {
        /// The number of the row.
        row: u8,
    },
    /// The sender wants to be a child in these groups.
    Join(Addresses<'a>),
    /// The receiver is a child in these groups.
    Accept(Addresses<'a>),
    /// The receiver is no child in these groups.
    Refuse {
        /// The reason.
        reason: Refusal,
        /// A node that may accept the receiver instead.
        instead: Option<NodeAddr>,
        /// The groups.
        groups: Addresses<'a>,
    },
    /// The sender is no longer a child in these groups.
    Leave(Addresses<'a>),
    /// The digest of the sender's groups between two addresses with this parent.
    Keep(Digest),
    /// The parent has computed the same digest.
    Kept(Digest),
    /// The parent has computed a different digest.
    Differs {
        /// The least group.
        first: NodeAddr,
        /// The greatest group.
        last: NodeAddr,
    },
    /// All groups between two addresses in which the receiver is the sender's parent.
    Groups {
        /// The least group that the message covers.
        first: NodeAddr,
        /// The greatest group that the message covers.
        last: NodeAddr,
        /// The groups, rising.
        groups: Addresses<'a>,
    },
    /// A request for the roots of groups, which is routed towards each of them.
    Locate {
        /// The node that asks.
        asker: NodeAddr,
        /// The nodes that the message has visited.
        hops: Hops,
        /// The groups.
        groups: Addresses<'a>,
    },
    /// The sender is the root of these groups.
    Root(Addresses<'a>),
}

impl<'a> Message<'a> {
    /// Reads a message.
    pub fn parse(bytes: &'a [u8]) -> Result<Message<'a>, Malformed> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(Malformed::Length);
        }
        let mut r = Reader::new(bytes);
        if r.u8()? != VERSION {
            return Err(Malformed::Version);
        }
        Ok(match r.u8()? {
            kind::ENTER => {
                let enter = Enter {
                    joiner: NodeAddr(r.u32()?),
                    nonce: r.u32()?,
                    hops: Hops::from_byte(r.u8()?),
                };
                r.finish()?;
                if enter.nonce == 0 {
                    return Err(Malformed::Value);
                }
                Message::Enter(enter)
            }
            kind::STATE => Message::State {
                nonce: r.u32()?,
                last: flags(r.u8()?, LAST)? & LAST != 0,
                nodes: Addresses::read(r, 0)?,
            },
            kind::BEAT => Message::Beat {
                flags: BeatFlags::from_byte(r.u8()?)?,
                nodes: Addresses::read(r, 0)?,
            },
            kind::ASK_ROW => {
                let row = r.u8()?;
                r.finish()?;
                if row >= ROWS {
                    return Err(Malformed::Value);
                }
                Message::AskRow { row }
            }
            kind::JOIN => Message::Join(Addresses::read(r, 1)?),
            kind::ACCEPT => Message::Accept(Addresses::read(r, 1)?),
            kind::REFUSE => Message::Refuse {
                reason: Refusal::from_byte(r.u8()?),
                instead: Some(NodeAddr(r.u32()?)).filter(|node| node.0 != 0),
                groups: Addresses::read(r, 1)?,
            },
            kind::LEAVE => Message::Leave(Addresses::read(r, 1)?),
            kind::KEEP => Message::Keep(Digest::read(r)?),
            kind::KEPT => Message::Kept(Digest::read(r)?),
            kind::DIFFERS => {
                let (first, last) = range(&mut r)?;
                r.finish()?;
                Message::Differs { first, last }
            }
            kind::GROUPS => {
                let (first, last) = range(&mut r)?;
                let groups = Addresses::read(r, 0)?;
                let within = groups.iter().all(|group| first <= group && group <= last);
                if !within || !groups.iter().is_sorted_by(|a, b| a < b) {
                    return Err(Malformed::Value);
                }
                Message::Groups {
                    first,
                    last,
                    groups,
                }
            }
            kind::LOCATE => Message::Locate {
                asker: NodeAddr(r.u32()?),
                hops: Hops::from_byte(r.u8()?),
                groups: Addresses::read(r, 1)?,
            },
            kind::ROOT => Message::Root(Addresses::read(r, 1)?),
            _ => return Err(Malformed::Kind),
        })
    }

    /// Writes the message at the front of `buffer` and returns its length.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, Full> {
        let room = buffer.len().min(MESSAGE_BYTES_MAX);
        let mut w = Writer::new(&mut buffer[..room]);
        w.put(&[VERSION, self.kind()])?;
        match self {
            Message::Enter(enter) => {
                w.u32(enter.joiner.0)?;
                w.u32(enter.nonce)?;
                w.u8(enter.hops.to_byte())?;
            }
            Message::State { nonce, last, nodes } => {
                w.u32(*nonce)?;
                w.u8(if *last { LAST } else { 0 })?;
                nodes.write(&mut w)?;
            }
            Message::Beat { flags, nodes } => {
                w.u8(flags.to_byte())?;
                nodes.write(&mut w)?;
            }
            Message::AskRow { row } => w.u8(*row)?,
            Message::Refuse {
                reason,
                instead,
                groups,
            } => {
                w.u8(reason.to_byte())?;
                w.u32(instead.map_or(0, |node| node.0))?;
                groups.write(&mut w)?;
            }
            Message::Join(groups)
            | Message::Accept(groups)
            | Message::Leave(groups)
            | Message::Root(groups) => groups.write(&mut w)?,
            Message::Keep(digest) | Message::Kept(digest) => digest.write(&mut w)?,
            Message::Differs { first, last } => {
                w.u32(first.0)?;
                w.u32(last.0)?;
            }
            Message::Groups {
                first,
                last,
                groups,
            } => {
                w.u32(first.0)?;
                w.u32(last.0)?;
                groups.write(&mut w)?;
            }
            Message::Locate {
                asker,
                hops,
                groups,
            } => {
                w.u32(asker.0)?;
                w.u8(hops.to_byte())?;
                groups.write(&mut w)?;
            }
        }
        Ok(w.len())
    }

    /// Returns the number of the message's kind.
    pub const fn kind(&self) -> u8 {
        match self {
            Message::Enter(_) => kind::ENTER,
            Message::State { .. } => kind::STATE,
            Message::Beat { .. } => kind::BEAT,
            Message::AskRow { .. } => kind::ASK_ROW,
            Message::Join(_) => kind::JOIN,
            Message::Accept(_) => kind::ACCEPT,
            Message::Refuse { .. } => kind::REFUSE,
            Message::Leave(_) => kind::LEAVE,
            Message::Keep(_) => kind::KEEP,
            Message::Kept(_) => kind::KEPT,
            Message::Differs { .. } => kind::DIFFERS,
            Message::Groups { .. } => kind::GROUPS,
            Message::Locate { .. } => kind::LOCATE,
            Message::Root(_) => kind::ROOT,
        }
    }
}

#[cfg(test)]
mod tests;
