//! How the ends of a transfer come by keys that no relay knows.
//!
//! ```text
//!   beginner                                                        end
//!     | -- Open(order: signed, with a key of X25519) ---------------> |
//!     | <-- Ended(key of X25519, signature, certificate) ------------ |
//!     |     source: Wrapped(the key of the stream, for each sink)     |
//!     |     source: Speaks(versions), an item of its stream           |
//!     |     sink:   Said(Speaks(versions), sealed), if it was asked   |
//!     |     sink:   Said(Kept, Have or Done, sealed)                  |
//! ```
//! Relays agree on versions from one to the next; what the ends say to each other passes through all of them, and has
//! versions of its own ([`END_VERSIONS`]). Both ends say which they speak, and the highest that both do counts. A source
//! that does not say it speaks version 1, and so does a sink that does not answer: those were there before
//! versions were named, and skip what names them. From version 2 on, a sink that writes nothing tells what it would
//! remove.
//!
//! The order is in [`super::Ordered`]. The node at which the transfer begins verifies what the ends show.
//!
//! What an end signs:
//! ```text
//!   transfer 16 | node at which it begins 4 | its key 32 | this end's key 32
//! ```

use super::{HOPS_MAX, TRANSFER_BYTES};
use crate::bytes::{Reader, Writer};
use crate::certificate::{KEY_BYTES, MAX_CERTIFICATE_BYTES, SIGNATURE_BYTES};
use crate::handshake::VersionRange;
use crate::{Full, Malformed, TAG_BYTES};
use base::NodeAddr;

/// The versions of a stream, and of what its sinks say, that are spoken here.
pub const END_VERSIONS: VersionRange = VersionRange { min: 1, max: 2 };
/// The kind of the item, and of the message, that names the versions of an end. Optional.
/// Choice: tests of this program and of earlier ones use 64, 102 and 127 as kinds that nobody knows.
pub const SPEAKS: u8 = 96;
/// The kind of the message by which a sink tells what it would remove. Optional.
pub const GONE: u8 = 97;
/// The first version of an end that takes such messages.
pub const GONE_VERSION: u8 = 2;

/// A key of 32 bytes, sealed.
pub const WRAPPED_BYTES: usize = KEY_BYTES + TAG_BYTES;
/// What an end signs.
pub const END_PART_BYTES: usize = TRANSFER_BYTES + 4 + 2 * KEY_BYTES;

/// What an end shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended<'a> {
    /// Which end.
    pub node: NodeAddr,
    /// A key for this transfer.
    pub key: [u8; KEY_BYTES],
    /// Over [`end_part`].
    pub signature: [u8; SIGNATURE_BYTES],
    /// Of this end.
    pub certificate: &'a [u8],
}

impl<'a> Ended<'a> {
    pub(super) fn parse(mut r: Reader<'a>) -> Result<Ended<'a>, Malformed> {
        let ended = Ended {
            node: NodeAddr(r.u32()?),
            key: r.array()?,
            signature: r.array()?,
            certificate: r.rest(),
        };
        match ended.certificate.len() > MAX_CERTIFICATE_BYTES {
            true => Err(Malformed::Length),
            false => Ok(ended),
        }
    }

    pub(super) fn emit(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        w.u32(self.node.0)?;
        w.put(&self.key)?;
        w.put(&self.signature)?;
        w.put(self.certificate)
    }
}

/// What an end signs, of a transfer that has begun at `first` with the key `began`.
pub fn end_part(
    transfer: &[u8; TRANSFER_BYTES],
    (first, began): (NodeAddr, &[u8; KEY_BYTES]),
    key: &[u8; KEY_BYTES],
) -> [u8; END_PART_BYTES] {
    let mut bytes = [0; END_PART_BYTES];
    let mut w = Writer::new(&mut bytes);
    let written = w
        .put(transfer)
        .and_then(|()| w.u32(first.0))
        .and_then(|()| w.put(began))
        .and_then(|()| w.put(key));
    debug_assert!(written.is_ok(), "there is room for all");
    bytes
}

/// The stream's key for one sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrapped {
    /// The sink.
    pub node: NodeAddr,
    /// The key, sealed for it.
    pub key: [u8; WRAPPED_BYTES],
}

/// The stream's key for all sinks, back to back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrappedKeys<'a> {
    bytes: &'a [u8],
}

/// One of them.
const ONE_BYTES: usize = 4 + WRAPPED_BYTES;

impl<'a> WrappedKeys<'a> {
    /// At least one, and no more than a route has nodes.
    pub fn parse(bytes: &'a [u8]) -> Result<WrappedKeys<'a>, Malformed> {
        let is_whole = bytes.len().is_multiple_of(ONE_BYTES);
        match is_whole && (1..=HOPS_MAX).contains(&(bytes.len() / ONE_BYTES)) {
            true => Ok(WrappedKeys { bytes }),
            false => Err(Malformed::Length),
        }
    }

    /// Each.
    pub fn iter(&self) -> impl Iterator<Item = Wrapped> + use<'a> {
        let all = self.bytes.as_chunks::<ONE_BYTES>().0;
        all.iter().map(|bytes| {
            let mut r = Reader::new(bytes);
            let node = r.u32().map(NodeAddr).expect("it has as many bytes");
            let key = r.array().expect("it has as many bytes");
            Wrapped { node, key }
        })
    }

    /// What [`WrappedKeys::parse`] reads.
    pub fn to_bytes(all: &[Wrapped]) -> Vec<u8> {
        let each = all
            .iter()
            .map(|one| [&one.node.0.to_be_bytes()[..], &one.key].concat());
        each.collect::<Vec<_>>().concat()
    }

    pub(super) fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// What a sink says to its source alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said<'a> {
    /// The sink.
    pub node: NodeAddr,
    /// It says that it is done, which relays have to know.
    pub is_done: bool,
    /// Kind and body of a message, sealed.
    pub sealed: &'a [u8],
}

/// It is done.
const FLAG_DONE: u8 = 1;

impl<'a> Said<'a> {
    pub(super) fn parse(mut r: Reader<'a>) -> Result<Said<'a>, Malformed> {
        let (node, flags, sealed) = (NodeAddr(r.u32()?), r.u8()?, r.rest());
        if flags > FLAG_DONE {
            return Err(Malformed::Value);
        }
        match sealed.len() > TAG_BYTES {
            true => Ok(Said {
                node,
                is_done: flags == FLAG_DONE,
                sealed,
            }),
            false => Err(Malformed::Short),
        }
    }

    pub(super) fn emit(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        w.put(&self.bound())?;
        w.put(self.sealed)
    }

    /// What stands in the clear and is sealed with the rest.
    pub fn bound(&self) -> [u8; 5] {
        let [a, b, c, d] = self.node.0.to_be_bytes();
        [a, b, c, d, if self.is_done { FLAG_DONE } else { 0 }]
    }
}

/// Reads the versions that an end names. A later one may say more behind them.
pub(super) fn read_versions(r: &mut Reader<'_>) -> Result<VersionRange, Malformed> {
    let (min, max) = (r.u8()?, r.u8()?);
    match min >= 1 && min <= max {
        true => Ok(VersionRange { min, max }),
        false => Err(Malformed::Value),
    }
}
