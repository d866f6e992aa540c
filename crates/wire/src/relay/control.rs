//! Messages on a control connection: kind (1 byte), length of the body (3 bytes), body.
//!
//! ```text
//!   1 Open     to the acceptor: transfer 16, flags 16 bits, congestion control (text), certificate
//!              (length 16 bits), who has begun it (length 16 bits; see [`super::order`]), route (the rest)
//!   2 Attach   to the dialler: ticket 32 bytes, certificate (the rest)
//!   3 Failed   to the ends: node, kind 8 bits, about (a node, or 0), text (the rest)
//!   4 Have     sink to source: node, kept 64, key of the partial file 64, bytes of it 64, their
//!              digest 32 bytes
//!   5 Ack      sink to source: node, offset 64: all before it is written
//!   6 Segment  to the dialler: from, to, bytes 64, rate 64 (bit/s), rtt 32 (µs), resent 32,
//!              waited 16 and starved 16 (shares of 1000 of the time), stripes in use 16
//!   7 Done     sink to source: node, bytes 64, entries 64, digest 32 bytes
//!   8 Join, 9 Renew, 10 Joined: see [`super::join`]
//!   11 Kept    sink to source, before Have: node, keys of entries that are there, 64 bits each; behind it,
//!              where the stream says Compare: keys of the pieces of a file, and none at their end
//!   12 Probe   to the acceptor: bytes 64, then as in Open: what the last segment of the route carries is
//!              asked, and the node before it is to find out with so many bytes at most
//!   13 Carried to who asked: from, to, one connection 64, together 64 (bit/s; 0 not known), flags 8 bits
//!              (1: together is all), spread 8 (%), round trip 32 (µs), certificate of who answers (the
//!              rest)
//!   14 Ended   end to who began it: node, key 32 bytes, signature 64 bytes, certificate (the rest)
//!   15 Wrapped source to sinks: for each its node, and the key of the stream in 48 bytes
//!   16 Said    sink to source: node, flags 8 bits (1: it is done), sealed: kind and body of Kept, Have or
//!              Done (the rest)
//!   96 Speaks  in Said, from sink to source: node, the lowest and the highest version that it speaks as an end,
//!              8 bits each; later ones may have more behind
//!   97 Gone    in Said, from sink to source, where nothing is written: node, the path of what would be removed (the
//!              rest)
//!   98 Issuers from an issuer, before Joined: others that may renew its members, see [`super::join`]
//!   64 to 127  others of later versions, and optional: a version that does not know the kind skips the message
//! ```

use super::ends::{Ended, GONE, SPEAKS, Said, WrappedKeys, read_versions};
use super::entry::is_path;
use super::join::{ISSUERS, Issuers, Join, Joined};
use super::order::ORDER_BYTES_MAX;
use super::{
    DIGEST_BYTES, Hop, TEXT_BYTES_MAX, TICKET_BYTES, TRANSFER_BYTES, is_optional, read_long,
    read_text, write_long, write_text,
};
use crate::bytes::{Reader, Writer};
use crate::certificate::MAX_CERTIFICATE_BYTES;
use crate::handshake::VersionRange;
use crate::{Full, Malformed};
use base::NodeAddr;

/// Number of bytes of kind and length.
pub const MESSAGE_HEAD_BYTES: usize = 4;
/// The maximum length of a body: an Open with 64 hops that have 255 bytes of endpoint and, on average of a few, 4 KiB
/// of path. The writer refuses longer ones.
const BODY_BYTES_MAX: usize = 48 * 1024;

const FLAG_PULL: u16 = 1;
const FLAG_PLAIN: u16 = 2;
const FLAG_SCAVENGE: u16 = 4;
const FLAG_FRESH: u16 = 8;
const FLAG_KEEP: u16 = 16;
const FLAG_DELETE: u16 = 32;
const FLAG_SPARE: u16 = 64;
const FLAG_DRY: u16 = 128;
const FLAG_ATTRIBUTES: u16 = 256;
/// Supported from [`super::CHECKSUM_VERSION`] on.
const FLAG_CHECKSUM: u16 = 512;
const FLAGS: u16 = 2 * FLAG_CHECKSUM - 1;
/// A flag of [`Carried`].
const FLAG_FULL: u8 = 1;

/// Why a transfer has failed, which shows who has to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureKind {
    /// The node already runs the maximum number of transfers.
    Busy,
    /// The path, or the node, is not permitted.
    Forbidden,
    /// The path, or the next node, does not exist.
    NotFound,
    /// Another transfer writes to the same target.
    InUse,
    /// The route or the options are impossible.
    Unusable,
    /// Reading or writing a file failed: the disk is full, or a file vanished or changed.
    File,
    /// The received data differs from what was sent.
    Corrupt,
    /// A connection broke.
    Broken,
    /// The target exists, and must be kept.
    Exists,
    /// This was a probe, and its result is known.
    Over,
    /// The operator of the node has ended the transfer: it must not be started there again.
    Cancelled,
    /// A kind that this program does not know.
    Other(u8),
}

impl FailureKind {
    /// All kinds that this program knows.
    pub const ALL: [FailureKind; 11] = [
        FailureKind::Busy,
        FailureKind::Forbidden,
        FailureKind::NotFound,
        FailureKind::InUse,
        FailureKind::Unusable,
        FailureKind::File,
        FailureKind::Corrupt,
        FailureKind::Broken,
        FailureKind::Exists,
        FailureKind::Over,
        FailureKind::Cancelled,
    ];

    /// Returns the number on the wire.
    pub fn to_byte(self) -> u8 {
        match self {
            FailureKind::Other(byte) => byte,
            known => {
                let place = FailureKind::ALL.iter().position(|kind| *kind == known);
                place.map_or(u8::MAX, |place| place as u8)
            }
        }
    }

    /// Returns the meaning of a number on the wire.
    pub fn from_byte(byte: u8) -> FailureKind {
        let known = FailureKind::ALL.get(usize::from(byte));
        known.copied().unwrap_or(FailureKind::Other(byte))
    }

    /// Returns a short stable word for metrics and JSON.
    pub fn label(self) -> &'static str {
        match self {
            FailureKind::Busy => "busy",
            FailureKind::Forbidden => "forbidden",
            FailureKind::NotFound => "not-found",
            FailureKind::InUse => "in-use",
            FailureKind::Unusable => "unusable",
            FailureKind::File => "file",
            FailureKind::Corrupt => "corrupt",
            FailureKind::Broken => "broken",
            FailureKind::Exists => "exists",
            FailureKind::Over => "over",
            FailureKind::Cancelled => "cancelled",
            FailureKind::Other(_) => "other",
        }
    }
}

/// A request for a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open<'a> {
    /// The transfer's id, which its initiator has chosen at random.
    pub transfer: [u8; TRANSFER_BYTES],
    /// The data flows towards the dialler.
    pub pull: bool,
    /// The data is not sealed from end to end.
    pub plain: bool,
    /// The senders give way to other traffic.
    pub scavenge: bool,
    /// The remains of an earlier attempt must not be used.
    pub fresh: bool,
    /// A file that exists under the target's name is kept.
    pub keep: bool,
    /// Entries of a target directory that the source does not have are removed.
    pub delete: bool,
    /// An entry that cannot be read does not end the transfer.
    pub spare: bool,
    /// Nothing is written: the sinks only report what would be written.
    pub dry: bool,
    /// Owners and extended attributes are copied, too.
    pub attributes: bool,
    /// Existing files are compared by their content, whatever their times. Nodes with a version before
    /// [`super::CHECKSUM_VERSION`] refuse this.
    pub checksum: bool,
    /// The congestion control of the senders, by the kernel's name; empty for the kernel's default.
    pub congestion: &'a str,
    /// The dialler's certificate; empty on the node's own socket.
    pub certificate: &'a [u8],
    /// The order of the initiator, in the form of [`super::Ordered`]. On the node's own socket, this is the key for the
    /// order. Empty if no keys are agreed on, which is only allowed for data that is discarded.
    pub ordered: &'a [u8],
    /// The route from the acceptor on; its first node is the acceptor.
    pub route: Hop<'a>,
}

/// The state of a sink from an earlier attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Have {
    /// Number of keys that were sent before.
    pub kept: u64,
    /// The key of a file of which a beginning exists.
    pub partial_key: u64,
    /// Number of bytes of that beginning; 0 if there is none.
    pub partial: u64,
    /// The BLAKE3 digest of these bytes.
    pub partial_digest: [u8; DIGEST_BYTES],
}

/// The maximum number of keys in one message: 32 KiB.
pub const KEYS_MAX: usize = 4_096;

/// Keys of entries, concatenated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys<'a> {
    bytes: &'a [u8],
}

impl<'a> Keys<'a> {
    /// Parses keys of 64 bits each, at most [`KEYS_MAX`] of them.
    pub fn parse(bytes: &'a [u8]) -> Result<Keys<'a>, Malformed> {
        match bytes.len().is_multiple_of(8) && bytes.len() <= 8 * KEYS_MAX {
            true => Ok(Keys { bytes }),
            false => Err(Malformed::Length),
        }
    }

    /// Returns the keys.
    pub fn iter(&self) -> impl Iterator<Item = u64> + use<'a> {
        let keys = self.bytes.as_chunks::<8>().0;
        keys.iter().map(|key| u64::from_be_bytes(*key))
    }
}

/// The state of a segment, as measured by its sending end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Number of bytes that the other end has acknowledged.
    pub bytes: u64,
    /// The recent rate.
    pub rate_bps: u64,
    /// The smoothed round trip.
    pub rtt_us: u32,
    /// Number of TCP segments that were retransmitted.
    pub resent: u32,
    /// The share of the time, in 1000ths, in which the receiving end accepted nothing.
    pub waited: u16,
    /// The share of the time, in 1000ths, in which there was nothing to send.
    pub starved: u16,
    /// Number of connections in use.
    pub stripes: u16,
}

/// The measured rates of the connections of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// The rate of one connection alone, in bits per second; 0 if it is not known.
    pub one_bps: u64,
    /// The rate of several connections together; 0 if it is not known.
    pub together_bps: u64,
    /// More connections would not increase the rate.
    pub is_full: bool,
    /// The uncertainty of the rates, in per cent.
    pub spread_pct: u8,
    /// The least round trip.
    pub rtt_us: u32,
}

/// The state of a sink at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Number of bytes of content that arrived.
    pub bytes: u64,
    /// Number of entries, including those of earlier attempts.
    pub entries: u64,
    /// The digest of the end of the stream, as computed by the sink.
    pub digest: [u8; DIGEST_BYTES],
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A request for a transfer.
    Open(Open<'a>),
    /// The permission to open stripes.
    Attach {
        /// The ticket that stripes prove to know.
        ticket: [u8; TICKET_BYTES],
        /// The acceptor's certificate; empty on the node's own socket.
        certificate: &'a [u8],
    },
    /// The transfer has failed.
    Failed {
        /// The node where it failed.
        node: NodeAddr,
        /// The reason.
        kind: FailureKind,
        /// The node that could not be reached, or that was lost, if this is the reason.
        about: Option<NodeAddr>,
        /// A description, and what to do.
        text: &'a str,
    },
    /// Keys of entries that a sink has, or of the pieces of a file for which the source asked.
    Kept(NodeAddr, Keys<'a>),
    /// The state of a sink: all keys have been sent.
    Have(NodeAddr, Have),
    /// Everything before this offset of the stream is written.
    Ack(NodeAddr, u64),
    /// The state of a segment: from, to, and its numbers.
    Segment(NodeAddr, NodeAddr, Segment),
    /// A sink has everything, has verified it, and has put it in its place.
    Done(NodeAddr, Done),
    /// A question for the rates of the last segment of a route. The node before that segment measures them, with at
    /// most this number of bytes.
    Probe(u64, Open<'a>),
    /// The rates of the connections from one node to another, and the certificate of the node that answers.
    Carried(NodeAddr, NodeAddr, Carried, &'a [u8]),
    /// An invited host requests its certificate.
    Join(Join<'a>),
    /// A node requests its next certificate; the body is the present one.
    Renew(&'a [u8]),
    /// A certificate, and the data that belongs to it.
    Joined(Joined<'a>),
    /// Issuers that may renew the certificate that comes next. Older versions skip this message.
    Issuers(Issuers<'a>),
    /// An end's key for this transfer.
    Ended(Ended<'a>),
    /// The source's key for its stream.
    Wrapped(WrappedKeys<'a>),
    /// A message of a sink that only its source can read.
    Said(Said<'a>),
    /// The versions that a sink supports with its source. It is only sent inside of a [`Message::Said`].
    Speaks(NodeAddr, VersionRange),
    /// The path of an entry that a sink would remove, if it writes nothing. It is only sent inside of a
    /// [`Message::Said`].
    Gone(NodeAddr, &'a [u8]),
    /// A message of an unknown, optional kind. It is skipped, and not passed on.
    Unknown {
        /// The kind: one of those that [`super::OPTIONAL`] marks.
        kind: u8,
        /// Its body.
        body: &'a [u8],
    },
}

/// Returns kind and length of a body. [`Message::Unknown`] says which unknown kinds are accepted.
pub fn head(bytes: [u8; MESSAGE_HEAD_BYTES]) -> Result<(u8, usize), Malformed> {
    let [kind, a, b, c] = bytes;
    let len = u32::from_be_bytes([0, a, b, c]) as usize;
    if !(1..=16).contains(&kind) && !is_optional(kind) {
        return Err(Malformed::Kind);
    }
    if len > BODY_BYTES_MAX {
        return Err(Malformed::Length);
    }
    Ok((kind, len))
}

impl<'a> Message<'a> {
    /// The longest message.
    pub const BYTES_MAX: usize = MESSAGE_HEAD_BYTES + BODY_BYTES_MAX;

    /// Reads the body of a message of this kind.
    pub fn parse(kind: u8, body: &'a [u8]) -> Result<Message<'a>, Malformed> {
        let mut r = Reader::new(body);
        let message = match kind {
            1 => return Open::parse(r).map(Message::Open),
            2 => {
                let ticket = r.array()?;
                let certificate = r.rest();
                if certificate.len() > MAX_CERTIFICATE_BYTES {
                    return Err(Malformed::Length);
                }
                return Ok(Message::Attach {
                    ticket,
                    certificate,
                });
            }
            3 => {
                let (node, kind) = (NodeAddr(r.u32()?), FailureKind::from_byte(r.u8()?));
                let about = match r.u32()? {
                    0 => None,
                    about => Some(NodeAddr(about)),
                };
                let text = core::str::from_utf8(r.rest()).map_err(|_| Malformed::Text)?;
                if text.len() > TEXT_BYTES_MAX {
                    return Err(Malformed::Length);
                }
                return Ok(Message::Failed {
                    node,
                    kind,
                    about,
                    text,
                });
            }
            12 => {
                let bytes = r.u64()?;
                return Ok(Message::Probe(bytes, Open::parse(r)?));
            }
            13 => {
                let ends = (NodeAddr(r.u32()?), NodeAddr(r.u32()?));
                let carried = Carried {
                    one_bps: r.u64()?,
                    together_bps: r.u64()?,
                    is_full: match r.u8()? {
                        0 => false,
                        FLAG_FULL => true,
                        _ => return Err(Malformed::Value),
                    },
                    spread_pct: r.u8()?,
                    rtt_us: r.u32()?,
                };
                let certificate = r.rest();
                if certificate.len() > MAX_CERTIFICATE_BYTES {
                    return Err(Malformed::Length);
                }
                return Ok(Message::Carried(ends.0, ends.1, carried, certificate));
            }
            11 => {
                let node = NodeAddr(r.u32()?);
                return Ok(Message::Kept(node, Keys::parse(r.rest())?));
            }
            4 => Message::Have(
                NodeAddr(r.u32()?),
                Have {
                    kept: r.u64()?,
                    partial_key: r.u64()?,
                    partial: r.u64()?,
                    partial_digest: r.array()?,
                },
            ),
            5 => Message::Ack(NodeAddr(r.u32()?), r.u64()?),
            6 => Message::Segment(
                NodeAddr(r.u32()?),
                NodeAddr(r.u32()?),
                Segment {
                    bytes: r.u64()?,
                    rate_bps: r.u64()?,
                    rtt_us: r.u32()?,
                    resent: r.u32()?,
                    waited: r.u16()?,
                    starved: r.u16()?,
                    stripes: r.u16()?,
                },
            ),
            7 => Message::Done(
                NodeAddr(r.u32()?),
                Done {
                    bytes: r.u64()?,
                    entries: r.u64()?,
                    digest: r.array()?,
                },
            ),
            8 => return Join::parse(r).map(Message::Join),
            9 if r.rest().len() > MAX_CERTIFICATE_BYTES => return Err(Malformed::Length),
            9 => return Ok(Message::Renew(r.rest())),
            10 => return Joined::parse(r).map(Message::Joined),
            14 => return Ended::parse(r).map(Message::Ended),
            15 => return WrappedKeys::parse(r.rest()).map(Message::Wrapped),
            16 => return Said::parse(r).map(Message::Said),
            SPEAKS => {
                let node = NodeAddr(r.u32()?);
                return Ok(Message::Speaks(node, read_versions(&mut r)?));
            }
            GONE => {
                let (node, path) = (NodeAddr(r.u32()?), r.rest());
                return match !path.is_empty() && is_path(path) {
                    true => Ok(Message::Gone(node, path)),
                    false => Err(Malformed::Value),
                };
            }
            ISSUERS => return Issuers::parse(r).map(Message::Issuers),
            kind if is_optional(kind) => return Ok(Message::Unknown { kind, body }),
            _ => return Err(Malformed::Kind),
        };
        r.finish()?;
        Ok(message)
    }

    fn kind(&self) -> u8 {
        match self {
            Message::Open(_) => 1,
            Message::Attach { .. } => 2,
            Message::Failed { .. } => 3,
            Message::Have(..) => 4,
            Message::Ack(..) => 5,
            Message::Segment(..) => 6,
            Message::Done(..) => 7,
            Message::Join(_) => 8,
            Message::Renew(_) => 9,
            Message::Joined(_) => 10,
            Message::Kept(..) => 11,
            Message::Probe(..) => 12,
            Message::Carried(..) => 13,
            Message::Ended(_) => 14,
            Message::Wrapped(_) => 15,
            Message::Said(_) => 16,
            Message::Speaks(..) => SPEAKS,
            Message::Gone(..) => GONE,
            Message::Issuers(_) => ISSUERS,
            Message::Unknown { kind, .. } => *kind,
        }
    }

    /// Writes head and body. Returns their length.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, Full> {
        let mut w = Writer::new(buffer);
        w.put(&[self.kind(), 0, 0, 0])?;
        match *self {
            Message::Open(ref open) => open.emit(&mut w)?,
            Message::Attach {
                ref ticket,
                certificate,
            } => {
                w.put(ticket)?;
                w.put(certificate)?;
            }
            Message::Failed {
                node,
                kind,
                about,
                text,
            } => {
                w.u32(node.0)?;
                w.u8(kind.to_byte())?;
                w.u32(about.map_or(0, |about| about.0))?;
                w.put(shortened(text).as_bytes())?;
            }
            Message::Have(node, ref have) => {
                w.u32(node.0)?;
                w.u64(have.kept)?;
                w.u64(have.partial_key)?;
                w.u64(have.partial)?;
                w.put(&have.partial_digest)?;
            }
            Message::Ack(node, offset) => {
                w.u32(node.0)?;
                w.u64(offset)?;
            }
            Message::Segment(from, to, ref told) => {
                w.u32(from.0)?;
                w.u32(to.0)?;
                w.u64(told.bytes)?;
                w.u64(told.rate_bps)?;
                w.u32(told.rtt_us)?;
                w.u32(told.resent)?;
                w.u16(told.waited)?;
                w.u16(told.starved)?;
                w.u16(told.stripes)?;
            }
            Message::Done(node, ref done) => {
                w.u32(node.0)?;
                w.u64(done.bytes)?;
                w.u64(done.entries)?;
                w.put(&done.digest)?;
            }
            Message::Probe(bytes, ref open) => {
                w.u64(bytes)?;
                open.emit(&mut w)?;
            }
            Message::Carried(from, to, ref carried, certificate) => {
                w.u32(from.0)?;
                w.u32(to.0)?;
                w.u64(carried.one_bps)?;
                w.u64(carried.together_bps)?;
                w.u8(if carried.is_full { FLAG_FULL } else { 0 })?;
                w.u8(carried.spread_pct)?;
                w.u32(carried.rtt_us)?;
                w.put(certificate)?;
            }
            Message::Join(ref join) => join.emit(&mut w)?,
            Message::Renew(certificate) => w.put(certificate)?,
            Message::Joined(ref joined) => joined.emit(&mut w)?,
            Message::Issuers(issuers) => w.put(issuers.as_bytes())?,
            Message::Ended(ref ended) => ended.emit(&mut w)?,
            Message::Wrapped(keys) => w.put(keys.as_bytes())?,
            Message::Said(ref said) => said.emit(&mut w)?,
            Message::Speaks(node, versions) => {
                w.u32(node.0)?;
                w.put(&[versions.min, versions.max])?;
            }
            Message::Gone(node, path) => {
                w.u32(node.0)?;
                w.put(path)?;
            }
            Message::Unknown { body, .. } => w.put(body)?,
            Message::Kept(node, keys) => {
                w.u32(node.0)?;
                w.put(keys.bytes)?;
            }
        }
        let len = w.len() - MESSAGE_HEAD_BYTES;
        if len > BODY_BYTES_MAX {
            return Err(Full);
        }
        w.written_mut()[1..MESSAGE_HEAD_BYTES].copy_from_slice(&(len as u32).to_be_bytes()[1..]);
        Ok(w.len())
    }
}

impl<'a> Open<'a> {
    fn parse(mut r: Reader<'a>) -> Result<Open<'a>, Malformed> {
        let (transfer, flags) = (r.array()?, r.u16()?);
        if flags & !FLAGS != 0 {
            return Err(Malformed::Value);
        }
        let congestion = read_text(&mut r)?;
        let certificate = read_long(&mut r)?;
        let is_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b);
        if congestion.len() > 15 || !congestion.bytes().all(is_name) {
            return Err(Malformed::Text);
        }
        let ordered = read_long(&mut r)?;
        if certificate.len() > MAX_CERTIFICATE_BYTES || ordered.len() > ORDER_BYTES_MAX {
            return Err(Malformed::Length);
        }
        Ok(Open {
            transfer,
            pull: flags & FLAG_PULL != 0,
            plain: flags & FLAG_PLAIN != 0,
            scavenge: flags & FLAG_SCAVENGE != 0,
            fresh: flags & FLAG_FRESH != 0,
            keep: flags & FLAG_KEEP != 0,
            delete: flags & FLAG_DELETE != 0,
            spare: flags & FLAG_SPARE != 0,
            dry: flags & FLAG_DRY != 0,
            attributes: flags & FLAG_ATTRIBUTES != 0,
            checksum: flags & FLAG_CHECKSUM != 0,
            congestion,
            certificate,
            ordered,
            route: Hop::parse(r.rest())?,
        })
    }

    fn emit(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        w.put(&self.transfer)?;
        w.u16(self.flags())?;
        write_text(w, self.congestion)?;
        write_long(w, self.certificate)?;
        write_long(w, self.ordered)?;
        w.put(self.route.as_bytes())
    }

    /// Returns the flags in their wire format.
    pub fn flags(&self) -> u16 {
        let flags = [
            (self.pull, FLAG_PULL),
            (self.plain, FLAG_PLAIN),
            (self.scavenge, FLAG_SCAVENGE),
            (self.fresh, FLAG_FRESH),
            (self.keep, FLAG_KEEP),
            (self.delete, FLAG_DELETE),
            (self.spare, FLAG_SPARE),
            (self.dry, FLAG_DRY),
            (self.attributes, FLAG_ATTRIBUTES),
            (self.checksum, FLAG_CHECKSUM),
        ];
        let set = flags.iter().filter(|(on, _)| *on);
        set.fold(0, |flags, (_, flag)| flags | flag)
    }
}

/// Returns as much of a text as a message can hold.
fn shortened(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
