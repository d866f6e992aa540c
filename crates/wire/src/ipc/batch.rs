//! Several datagrams in one message, for a socket with a range of ports.
//!
//! One message costs a system call on both sides, and usually wakes the receiver. A socket that acts for thousands of
//! calls has many datagrams at once.

use super::reply::{GROUP, HeaderBytes, RECOVERED};
use super::{Datagram, Destination, GROUP_BYTES, kind};
use crate::bytes::{Reader, Writer};
use crate::data::Remaining;
use crate::{Full, Malformed};
use base::{NodeAddr, VirtualPort};

/// The maximum number of datagrams in one message: what a node takes from a client in a turn, and at 172 bytes each 12
/// KiB.
pub const BATCH_MAX: usize = 64;
/// Number of bytes in front of the datagrams.
pub const BATCH_HEADER_BYTES: usize = 2;
/// Number of bytes in front of the payload of each outgoing datagram.
pub const OUTGOING_HEADER_BYTES: usize = 10;
/// Number of bytes in front of the payload of each incoming datagram.
pub const INCOMING_HEADER_BYTES: usize = 14;

/// The maximum length of a payload, so that a single datagram fits [`super::MESSAGE_BYTES_MAX`] in both directions.
pub const BATCH_PAYLOAD_BYTES_MAX: usize =
    super::MESSAGE_BYTES_MAX - BATCH_HEADER_BYTES - INCOMING_HEADER_BYTES - GROUP_BYTES;

/// The ports of an outgoing datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// The own port, one of the socket's range.
    pub from: VirtualPort,
    /// The receiver.
    pub to: Destination,
}

/// Outgoing datagrams. All lengths are checked.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +---------------+---------------+
/// |    type 11    |   reserved    |
/// +---------------+---------------+-------------------------------+
/// |       length of payload       |           own port            |   each
/// +-------------------------------+-------------------------------+
/// |       destination port        |       destination node ...    |
/// +-------------------------------+-------------------------------+
/// |   ... destination node        | payload ...                   |
/// +-------------------------------+-------------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing<'a> {
    bytes: &'a [u8],
}

/// Incoming datagrams. All lengths are checked.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +---------------+---------------+
/// |   type 0x8b   |   reserved    |
/// +---------------+---------------+-------------+-+---------------+
/// |       length of payload       | reserved  |G|R|   reserved    |   each
/// +-------------------------------+-------------+-+---------------+
/// | remaining, units of 100 us    |           own port            |
/// +-------------------------------+-------------------------------+
/// |          source port          |         source node ...       |
/// +-------------------------------+-------------------------------+
/// |     ... source node           | payload ...                   |
/// +-------------------------------+-------------------------------+
/// ```
/// With G the payload's first four bytes, counted in its length, are the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incoming<'a> {
    bytes: &'a [u8],
}

impl<'a> Outgoing<'a> {
    /// Reads the message after its type. The reserved byte is ignored.
    pub(super) fn read(r: &mut Reader<'a>) -> Result<Outgoing<'a>, Malformed> {
        r.u8()?;
        let bytes = r.rest();
        check(bytes, OUTGOING_HEADER_BYTES, BATCH_PAYLOAD_BYTES_MAX)?;
        Ok(Outgoing { bytes })
    }

    pub(super) fn write(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        w.put(&[kind::SEND_FROM, 0])?;
        w.put(self.bytes)
    }

    /// Returns the datagrams, one after the other.
    pub fn iter(&self) -> impl Iterator<Item = (Ports, &'a [u8])> + use<'a> {
        let mut at = 0;
        let bytes = self.bytes;
        core::iter::from_fn(move || {
            let (ports, payload, next) = Outgoing::at(bytes, at)?;
            at = next;
            Some((ports, &bytes[payload]))
        })
    }

    /// Returns the datagram at an offset of a parsed message, without its type and reserved byte: its ports, the
    /// position of its payload, and the offset of the next datagram. This is for callers that take datagrams from the
    /// message's own buffer one at a time.
    pub fn at(bytes: &[u8], offset: usize) -> Option<(Ports, core::ops::Range<usize>, usize)> {
        let header: &[u8; OUTGOING_HEADER_BYTES] = bytes.get(offset..)?.first_chunk()?;
        let [l0, l1, f0, f1, p0, p1, n0, n1, n2, n3] = *header;
        let ports = Ports {
            from: VirtualPort(u16::from_be_bytes([f0, f1])),
            to: Destination {
                node: NodeAddr(u32::from_be_bytes([n0, n1, n2, n3])),
                port: VirtualPort(u16::from_be_bytes([p0, p1])),
            },
        };
        let payload = offset + OUTGOING_HEADER_BYTES;
        let end = payload + usize::from(u16::from_be_bytes([l0, l1]));
        (end <= bytes.len()).then_some((ports, payload..end, end))
    }
}

impl<'a> Incoming<'a> {
    /// Reads the message after its type. The reserved byte is ignored.
    pub(super) fn read(r: &mut Reader<'a>) -> Result<Incoming<'a>, Malformed> {
        r.u8()?;
        let bytes = r.rest();
        let longest = BATCH_PAYLOAD_BYTES_MAX + GROUP_BYTES;
        check(bytes, INCOMING_HEADER_BYTES, longest)?;
        Ok(Incoming { bytes })
    }

    pub(super) fn write(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        w.put(&[kind::DATAGRAMS, 0])?;
        w.put(self.bytes)
    }

    /// Returns the datagrams, one after the other: the own port that each is for, its source, and its payload.
    pub fn iter(&self) -> impl Iterator<Item = (VirtualPort, Datagram, &'a [u8])> + use<'a> {
        let mut rest = self.bytes;
        core::iter::from_fn(move || {
            let (header, after) = rest.split_first_chunk::<INCOMING_HEADER_BYTES>()?;
            let [l0, l1, flags, _, t0, t1, o0, o1, p0, p1, n0, n1, n2, n3] = *header;
            let mut datagram = Datagram {
                group: None,
                source: NodeAddr(u32::from_be_bytes([n0, n1, n2, n3])),
                source_port: VirtualPort(u16::from_be_bytes([p0, p1])),
                recovered: flags & RECOVERED != 0,
                remaining: Remaining(u16::from_be_bytes([t0, t1])),
            };
            let own = VirtualPort(u16::from_be_bytes([o0, o1]));
            let len = usize::from(u16::from_be_bytes([l0, l1]));
            let (mut payload, after) = after.split_at_checked(len)?;
            rest = after;
            if flags & GROUP != 0 {
                let (group, bytes) = payload.split_first_chunk::<GROUP_BYTES>()?;
                datagram.group = Some(NodeAddr(u32::from_be_bytes(*group)));
                payload = bytes;
            }
            Some((own, datagram, payload))
        })
    }
}

impl Ports {
    /// Returns the header in front of a payload of this length, at most [`BATCH_PAYLOAD_BYTES_MAX`].
    pub const fn header(self, payload: usize) -> [u8; OUTGOING_HEADER_BYTES] {
        let [l0, l1] = length(payload);
        let [f0, f1] = self.from.0.to_be_bytes();
        let [p0, p1] = self.to.port.0.to_be_bytes();
        let [n0, n1, n2, n3] = self.to.node.0.to_be_bytes();
        [l0, l1, f0, f1, p0, p1, n0, n1, n2, n3]
    }
}

impl Datagram {
    /// Returns the header in front of a payload of this length, at most [`BATCH_PAYLOAD_BYTES_MAX`], for the port
    /// `own`.
    pub fn header_for(self, own: VirtualPort, payload: usize) -> HeaderBytes {
        let group = self.group.map_or(0, |_| GROUP_BYTES);
        let [l0, l1] = length(payload + group);
        let flags = self.flags();
        let [t0, t1] = self.remaining.0.to_be_bytes();
        let [o0, o1] = own.0.to_be_bytes();
        let [p0, p1] = self.source_port.0.to_be_bytes();
        let [n0, n1, n2, n3] = self.source.0.to_be_bytes();
        let header = [l0, l1, flags, 0, t0, t1, o0, o1, p0, p1, n0, n1, n2, n3];
        HeaderBytes::new(&header, self.group)
    }
}

const fn length(payload: usize) -> [u8; 2] {
    debug_assert!(payload <= BATCH_PAYLOAD_BYTES_MAX + GROUP_BYTES);
    (payload as u16).to_be_bytes()
}

/// Checks that `bytes` are 1 to [`BATCH_MAX`] datagrams with headers of this length, which begin with the payload's
/// length, at most `longest`.
fn check(bytes: &[u8], header: usize, longest: usize) -> Result<(), Malformed> {
    let mut rest = bytes;
    for _ in 0..BATCH_MAX {
        let length = rest.first_chunk::<2>().ok_or(Malformed::Short)?;
        let length = usize::from(u16::from_be_bytes(*length));
        if length > longest {
            return Err(Malformed::Length);
        }
        rest = rest.get(header + length..).ok_or(Malformed::Short)?;
        if rest.is_empty() {
            return Ok(());
        }
    }
    Err(Malformed::Length)
}
