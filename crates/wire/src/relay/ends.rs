//! How the ends of a transfer get keys that no relay knows.
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
//! Relays agree on versions from one to the next. The messages between the ends pass through all relays, and have
//! versions of their own ([`END_VERSIONS`]). Both ends announce their versions, and the highest common one is used. A
//! source that announces none uses version 1, and so does a sink that does not answer: these existed before versions
//! were announced, and skip the announcement. From version 2 on, a sink that writes nothing reports what it would
//! remove.
//!
//! The order is in [`super::Ordered`]. The node at which the transfer begins verifies the keys and certificates of the
//! ends.
//!
//! An end signs:
//! ```text
//!   transfer 16 | node at which it begins 4 | its key 32 | this end's key 32
//! ```

use super::{HOPS_MAX, TRANSFER_BYTES};
use crate::bytes::{Reader, Writer};
use crate::certificate::{KEY_BYTES, MAX_CERTIFICATE_BYTES, SIGNATURE_BYTES};
use crate::handshake::VersionRange;
use crate::{Full, Malformed, TAG_BYTES};
use base::NodeAddr;

/// The supported versions of a stream, and of the messages of its sinks.
pub const END_VERSIONS: VersionRange = VersionRange { min: 1, max: 2 };
/// The kind of the item, and of the message, that announces the versions of an end. Optional. Choice: tests of this
/// program and of earlier ones use 64, 102 and 127 as unknown kinds.
pub const SPEAKS: u8 = 96;
/// The kind of the message by which a sink reports what it would remove. Optional.
pub const GONE: u8 = 97;
/// The first version of an end that accepts such messages.
pub const GONE_VERSION: u8 = 2;

/// Number of bytes of a sealed key of 32 bytes.
pub const WRAPPED_BYTES: usize = KEY_BYTES + TAG_BYTES;
/// Number of bytes that an end signs.
pub const END_PART_BYTES: usize = TRANSFER_BYTES + 4 + 2 * KEY_BYTES;

/// The key and the proof of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended<'a> {
    /// The end's address.
    pub node: NodeAddr,
    /// The end's key for this transfer.
    pub key: [u8; KEY_BYTES],
    /// The signature over [`end_part`].
    pub signature: [u8; SIGNATURE_BYTES],
    /// The end's certificate.
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

/// Returns what an end signs, of a transfer that has begun at `first` with the key `began`.
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

/// The stream's key for all sinks, concatenated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrappedKeys<'a> {
    bytes: &'a [u8],
}

/// Number of bytes of one wrapped key.
const ONE_BYTES: usize = 4 + WRAPPED_BYTES;

impl<'a> WrappedKeys<'a> {
    /// Parses the keys: at least one, and no more than a route has nodes.
    pub fn parse(bytes: &'a [u8]) -> Result<WrappedKeys<'a>, Malformed> {
        let is_whole = bytes.len().is_multiple_of(ONE_BYTES);
        match is_whole && (1..=HOPS_MAX).contains(&(bytes.len() / ONE_BYTES)) {
            true => Ok(WrappedKeys { bytes }),
            false => Err(Malformed::Length),
        }
    }

    /// Returns the wrapped keys.
    pub fn iter(&self) -> impl Iterator<Item = Wrapped> + use<'a> {
        let all = self.bytes.as_chunks::<ONE_BYTES>().0;
        all.iter().map(|bytes| {
            let mut r = Reader::new(bytes);
            let node = r.u32().map(NodeAddr).expect("it has as many bytes");
            let key = r.array().expect("it has as many bytes");
            Wrapped { node, key }
        })
    }

    /// Returns what [`WrappedKeys::parse`] reads.
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

/// A message that only the sink and its source can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said<'a> {
    /// The sink.
    pub node: NodeAddr,
    /// The sink reports that it is done, which relays have to know.
    pub is_done: bool,
    /// The kind and body of a message, sealed.
    pub sealed: &'a [u8],
}

/// The flag that the sink is done.
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

    /// Returns the bytes in the clear that are authenticated with the sealed ones.
    pub fn bound(&self) -> [u8; 5] {
        let [a, b, c, d] = self.node.0.to_be_bytes();
        [a, b, c, d, if self.is_done { FLAG_DONE } else { 0 }]
    }
}

/// Reads the versions that an end announces. Later versions may append more.
pub(super) fn read_versions(r: &mut Reader<'_>) -> Result<VersionRange, Malformed> {
    let (min, max) = (r.u8()?, r.u8()?);
    match min >= 1 && min <= max {
        true => Ok(VersionRange { min, max }),
        false => Err(Malformed::Value),
    }
}
