//! Bulk data over TCP between relays. [Liu04 §III]
//!
//! ```text
//!   dialler                                        acceptor
//!     | == control: TLS 1.3 or the node's own socket == |
//!     | -- Preamble::Control, Open(route) ------------> |   Open: who I am, what, and the way on
//!     | <--------------------------- Attach(ticket) --- |   or Failed
//!     | == data, one per stripe =====================>  |
//!     | -- Preamble::Data(transfer, stripe, proof) ---> |
//!     | == frames, in the direction of the data ======= |
//!     | <-- Have, Ack, Done: from sinks to the source   |   over control, as Segment and Failed are
//! ```
//!
//! Control carries [`Message`]s in both directions; a data connection carries frames in one. A file or a directory is
//! one stream of [`entry::Entry`]s with their content, divided into frames that contain their offset in the stream, so
//! that any frame may use any stripe of any segment.
//!
//! Preamble:
//! ```text
//!  0               1               2               3
//!  0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7
//! +-------------------------------+-------------------------------+
//! |  'S'             'N'             'R'             'L'          |
//! +---------------+---------------+-------------------------------+
//! |  version      |  role         |  stripe       |  0            |   role 0 control: ends here
//! +---------------+---------------+---------------+---------------+
//! |  transfer, 16 bytes; proof, 32 bytes                          |   role 1 data
//! |                                                               |   role 2 link: ends before
//! ```
//! Between nodes, TLS agrees on the version before the preamble: each side names its supported versions as protocols of
//! ALPN ([`PROTOCOL`]), and the highest common version is used. A side that names none uses version 6. On the node's
//! own socket, and where a stripe begins, only the preamble contains the version. Under TLS the preamble repeats the
//! agreed version, and stripes use the version of control.
//!
//! Frame:
//! ```text
//! +---------------+-----------------------------------------------+
//! |  kind         |  0                                            |
//! +---------------+-----------------------------------------------+
//! |  length of the bytes that follow                              |
//! +---------------------------------------------------------------+
//! |  offset in the stream, 64 bits                                |
//! +---------------------------------------------------------------+
//! ```
//! Unless the transfer is plain, the bytes that follow are sealed from end to end: ciphertext, then a tag of 16 bytes
//! (AES-256-GCM; the nonce is four zero bytes and the offset). With [`Message::Ended`] and [`Message::Wrapped`] the
//! ends get the key.

mod control;
mod ends;
pub mod entry;
pub mod join;
mod order;
mod route;
#[cfg(test)]
mod tests;

pub use control::{
    Carried, Done, FailureKind, Have, KEYS_MAX, Keys, MESSAGE_HEAD_BYTES, Message, Open, Segment,
    head,
};
pub use ends::{
    END_PART_BYTES, END_VERSIONS, Ended, GONE, GONE_VERSION, SPEAKS, Said, WRAPPED_BYTES, Wrapped,
    WrappedKeys, end_part,
};
pub use order::{ORDER_BYTES_MAX, ORDERED_BYTES_MAX, Ordered};
pub use route::{Hop, HopRepr, Hops, NAME_SEPARATOR};

use crate::bytes::{Reader, Writer};
use crate::{Full, Malformed};
use core::ops::RangeInclusive;

/// The supported versions. Version 6 stays: nodes that do not know ranges use it.
pub const VERSIONS: RangeInclusive<u8> = 6..=7;
/// From this version on, a transfer may compare files by their content. This is the only addition.
pub const CHECKSUM_VERSION: u8 = 7;
/// The prefix of a version's ALPN name, before its number in decimal digits.
pub const PROTOCOL: &str = "sinew relay ";
/// The first bytes of every connection. No TLS connection begins with the first of these bytes.
pub const MAGIC: [u8; 4] = *b"SNRL";
/// Kinds of messages and items from here to 127 are optional: a node that does not know one skips it. Choice: a bit
/// marks optional kinds, because the first kinds must be known.
pub const OPTIONAL: u8 = 0x40;
/// Number of bytes of a transfer's id.
pub const TRANSFER_BYTES: usize = 16;
/// Number of bytes of a ticket, with which stripes prove that they belong to a transfer.
pub const TICKET_BYTES: usize = 32;
/// Number of bytes of a BLAKE3 digest.
pub const DIGEST_BYTES: usize = 32;
/// Number of bytes of the preamble of control.
pub const CONTROL_PREAMBLE_BYTES: usize = 8;
/// Number of bytes of the preamble of a data connection.
pub const DATA_PREAMBLE_BYTES: usize = CONTROL_PREAMBLE_BYTES + TRANSFER_BYTES + TICKET_BYTES;
/// Number of bytes of the head of a frame.
pub const FRAME_HEAD_BYTES: usize = 16;
/// The maximum number of bytes in a frame: four reads of a fast file system or a pipe, 1 ms of 2 Gbit/s. With 32
/// stripes, a relay that waits for one whole frame on each holds 8 MiB.
pub const FRAME_BYTES_MAX: usize = 256 * 1024;
/// The maximum number of connections of one segment. More connections only fill the queue that they share. [Liu04
/// §III-C]
pub const STRIPES_MAX: u8 = 32;
/// The maximum number of nodes of a route.
pub const HOPS_MAX: usize = 64;
/// The maximum number of segments from the first node to a last one.
pub const DEPTH_MAX: usize = 16;
/// The maximum length of the text of a refusal or failure.
pub const TEXT_BYTES_MAX: usize = 1_024;

/// The beginning of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preamble {
    /// A control connection: messages follow.
    Control,
    /// A link: its datagrams follow, as in [`crate::tunnel`].
    Link,
    /// A data connection: frames follow.
    Data {
        /// The transfer.
        transfer: [u8; TRANSFER_BYTES],
        /// The number of the connection within the segment.
        stripe: u8,
        /// The proof that the dialler was given the ticket; see `relay::proof`.
        proof: [u8; TICKET_BYTES],
    },
}

impl Preamble {
    /// Returns the length of the preamble, once its first [`CONTROL_PREAMBLE_BYTES`] have arrived.
    pub fn bytes(start: &[u8; CONTROL_PREAMBLE_BYTES]) -> Result<usize, Malformed> {
        let mut r = Reader::new(start);
        if r.array()? != MAGIC {
            return Err(Malformed::Kind);
        }
        if !VERSIONS.contains(&r.u8()?) {
            return Err(Malformed::Version);
        }
        match (r.u8()?, r.u8()?, r.u8()?) {
            (0 | 2, 0, 0) => Ok(CONTROL_PREAMBLE_BYTES),
            (1, stripe, 0) if stripe < STRIPES_MAX => Ok(DATA_PREAMBLE_BYTES),
            _ => Err(Malformed::Value),
        }
    }

    /// Reads a whole preamble. Returns its version and the preamble.
    pub fn parse(bytes: &[u8]) -> Result<(u8, Preamble), Malformed> {
        let start = bytes.first_chunk().ok_or(Malformed::Short)?;
        let version = start[4];
        let wanted = Preamble::bytes(start)?;
        let mut r = Reader::new(&bytes[CONTROL_PREAMBLE_BYTES..]);
        if wanted == CONTROL_PREAMBLE_BYTES {
            r.finish()?;
            let preamble = match start[5] {
                0 => Preamble::Control,
                _ => Preamble::Link,
            };
            return Ok((version, preamble));
        }
        let (transfer, proof) = (r.array()?, r.array()?);
        r.finish()?;
        let preamble = Preamble::Data {
            transfer,
            stripe: start[6],
            proof,
        };
        Ok((version, preamble))
    }

    /// Writes the preamble in a version that both sides support. Returns its length.
    pub fn emit(&self, version: u8, buffer: &mut [u8]) -> Result<usize, Full> {
        let mut w = Writer::new(buffer);
        w.put(&MAGIC)?;
        w.u8(version)?;
        match self {
            Preamble::Control => w.put(&[0, 0, 0])?,
            Preamble::Link => w.put(&[2, 0, 0])?,
            Preamble::Data {
                transfer,
                stripe,
                proof,
            } => {
                w.put(&[1, *stripe, 0])?;
                w.put(transfer)?;
                w.put(proof)?;
            }
        }
        Ok(w.len())
    }
}

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FrameKind {
    /// A piece of the stream.
    Data,
    /// The end of this connection; the offset is the length of the stream.
    End,
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The kind.
    pub kind: FrameKind,
    /// Number of bytes that follow.
    pub len: u32,
    /// The position of these bytes in the stream.
    pub offset: u64,
}

impl Frame {
    /// Reads a head.
    pub fn parse(head: &[u8; FRAME_HEAD_BYTES]) -> Result<Frame, Malformed> {
        let mut r = Reader::new(head);
        let kind = match r.u8()? {
            0 => FrameKind::Data,
            1 => FrameKind::End,
            _ => return Err(Malformed::Kind),
        };
        let (reserved, len, offset) = (r.u24()?, r.u32()?, r.u64()?);
        let fits = match kind {
            FrameKind::Data => (1..=FRAME_BYTES_MAX).contains(&(len as usize)),
            FrameKind::End => len == 0,
        };
        if reserved != 0 || offset.checked_add(u64::from(len)).is_none() {
            return Err(Malformed::Value);
        }
        if !fits {
            return Err(Malformed::Length);
        }
        Ok(Frame { kind, len, offset })
    }

    /// Returns the wire format of the head.
    pub fn to_bytes(self) -> [u8; FRAME_HEAD_BYTES] {
        let mut bytes = [0; FRAME_HEAD_BYTES];
        bytes[0] = match self.kind {
            FrameKind::Data => 0,
            FrameKind::End => 1,
        };
        bytes[4..8].copy_from_slice(&self.len.to_be_bytes());
        bytes[8..].copy_from_slice(&self.offset.to_be_bytes());
        bytes
    }
}

/// Returns true if a node that does not know this kind of message or item skips it.
pub const fn is_optional(kind: u8) -> bool {
    kind & 0xc0 == OPTIONAL
}

/// Reads a short text: a length in one byte, then UTF-8.
fn read_text<'a>(r: &mut Reader<'a>) -> Result<&'a str, Malformed> {
    let len = r.u8()?;
    core::str::from_utf8(r.take(len.into())?).map_err(|_| Malformed::Text)
}

fn write_text(w: &mut Writer<'_>, text: &str) -> Result<(), Full> {
    w.u8(u8::try_from(text.len()).map_err(|_| Full)?)?;
    w.put(text.as_bytes())
}

/// Reads bytes with their length in two bytes.
fn read_long<'a>(r: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let len = r.u16()?;
    r.take(len.into())
}

fn write_long(w: &mut Writer<'_>, bytes: &[u8]) -> Result<(), Full> {
    w.u16(u16::try_from(bytes.len()).map_err(|_| Full)?)?;
    w.put(bytes)
}
