//! The messages of a node to its client.

use super::{Destination, Framing, Incoming, ResetReason, VERSION, kind};
use crate::bytes::{Reader, Writer};
use crate::data::Remaining;
use crate::{Full, Malformed};
use base::{NodeAddr, VirtualPort};

/// Number of bytes in front of the payload of [`Reply::Datagram`].
pub const DATAGRAM_HEADER_BYTES: usize = 12;
/// The maximum length of an error's text; longer texts are cut at a character boundary.
pub const TEXT_BYTES_MAX: usize = 200;

/// Number of bytes of the group between header and payload of what was sent to a group.
pub const GROUP_BYTES: usize = 4;

pub(super) const RECOVERED: u8 = 0x01;
pub(super) const GROUP: u8 = 0x02;
const REACHES: u8 = 0x01;
const HAS_PLACES: u8 = 0x02;
/// A flag of [`Reply::NotJoined`].
const OF_SENDING: u8 = 0x01;

/// A message from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The answer to Hello: type 0x81, version u8, node u32, longest payload u16.
    Welcome {
        /// The [`VERSION`] of the node.
        version: u8,
        /// The node's address.
        node: NodeAddr,
        /// The maximum length of a payload.
        payload_bytes_max: u16,
    },
    /// The answer to Bind, BindRange and Connect: type 0x82, port u16.
    Bound {
        /// The port of the socket.
        port: VirtualPort,
    },
    /// A request was refused: type 0x83, code u8, UTF-8 text.
    Error {
        /// The reason, for programs.
        code: ErrorCode,
        /// The reason, for people; may be empty.
        text: &'a str,
    },
    /// A packet has arrived.
    Datagram(Datagram, &'a [u8]),
    /// Packets of this socket were dropped since the last such notice: type 0x85, reason u8,
    /// count u32.
    Dropped {
        /// The reason.
        reason: DropReason,
        /// The number of packets.
        count: u32,
    },
    /// The answer to Options, Raw, Listen, Join and Leave: type 0x86, the type of the request.
    Done {
        /// The type of the request: one of [`kind`].
        request: u8,
    },
    /// The answer to ConnectStream, with the stream's descriptor: type 0x87, framing u8, port u16.
    Connected {
        /// The content of the stream.
        framing: Framing,
        /// The port of this end.
        port: VirtualPort,
    },
    /// A stream has arrived, with two descriptors: the stream's, and that of the connection that reports its end.
    ///
    /// ```text
    ///  0                   1                   2                   3
    ///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
    /// +---------------+---------------+-------------------------------+
    /// |   type 0x88   |    framing    |          peer's port          |
    /// +---------------+---------------+-------------------------------+
    /// |                          peer's node                          |
    /// +---------------------------------------------------------------+
    /// ```
    Incoming {
        /// The content of the stream.
        framing: Framing,
        /// The peer's node.
        from: NodeAddr,
        /// The peer's port.
        port: VirtualPort,
    },
    /// The peer has finished writing, and all its bytes are in the stream's descriptor: type 0x89.
    Finished,
    /// The stream has ended early, or was never opened: type 0x8a, reason u8.
    Reset {
        /// The reason.
        reason: ResetReason,
    },
    /// Packets have arrived for ports of the socket's range.
    Datagrams(Incoming<'a>),
    /// The node's link on the path has no room for a flow of this socket, or has room again.
    Room(Room),
    /// The state of the node in the overlay, for a socket that watches: type 0x8d, flags u8 (bit 0 reaches, bit 1 has
    /// places).
    State {
        /// The node reaches another node.
        reaches: bool,
        /// The node has places for groups again, after a join was refused because it had none.
        has_places: bool,
    },
    /// A join, or sending to a group, was refused. This is reported to a socket that watches: type 0x8e, code u8, flags
    /// u8 (bit 0 sending is refused), reserved u8, group u32, UTF-8 text.
    NotJoined {
        /// True if sending to the group is refused, and not a join.
        of_sending: bool,
        /// The reason, for programs.
        code: ErrorCode,
        /// The group.
        group: NodeAddr,
        /// The reason, for people.
        text: &'a str,
    },
    /// The numbers of expired messages of the stream beside this connection: type 0x8f, given up u64, missed u64. It is
    /// sent on request, and before Finished and Reset if there are any.
    Expired {
        /// Number of this end's messages that were given up.
        given_up: u64,
        /// Number of the peer's messages that have not arrived.
        missed: u64,
    },
}

/// Whether there is room for a flow. While there is none, the message is repeated every second in which something is
/// refused.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +---------------+-------------+-+-------------------------------+
/// |   type 0x8c   |  reserved   |R|           own port            |
/// +---------------+-------------+-+-------------------------------+
/// |       destination port        |           reserved            |
/// +-------------------------------+-------------------------------+
/// |                       destination node                        |
/// +---------------------------------------------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// R: there is room, so its packets pass.
    pub is_there: bool,
    /// The port of the flow at this end.
    pub from: VirtualPort,
    /// The destination of the flow.
    pub to: Destination,
}

/// The header before the payload of a packet.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +---------------+-------------+-+-------------------------------+
/// |   type 0x84   | reserved  |G|R| remaining, units of 100 us    |
/// +---------------+-------------+-+-------------------------------+
/// |                          source node                          |
/// +-------------------------------+-------------------------------+
/// |          source port          |           reserved            |
/// +-------------------------------+-------------------------------+
/// |                  group, only with G                           |
/// +---------------------------------------------------------------+
/// | payload ...                                                   |
/// +---------------------------------------------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The node where the packet entered the overlay.
    pub source: NodeAddr,
    /// The sender's virtual port.
    pub source_port: VirtualPort,
    /// R: the packet was lost on a hop and recovered there. This is a hint: only the last hop is sure to know.
    pub recovered: bool,
    /// The time left to the packet's deadline.
    pub remaining: Remaining,
    /// G: the group that the packet was sent to.
    pub group: Option<NodeAddr>,
}

/// The bytes in front of a payload, including the group if there is one.
#[derive(Clone, Copy, Debug)]
pub struct HeaderBytes {
    bytes: [u8; super::INCOMING_HEADER_BYTES + GROUP_BYTES],
    len: usize,
}

impl HeaderBytes {
    pub(super) fn new(header: &[u8], group: Option<NodeAddr>) -> HeaderBytes {
        let mut all = HeaderBytes {
            bytes: [0; super::INCOMING_HEADER_BYTES + GROUP_BYTES],
            len: header.len(),
        };
        all.bytes[..all.len].copy_from_slice(header);
        if let Some(group) = group {
            let end = all.len + GROUP_BYTES;
            all.bytes[all.len..end].copy_from_slice(&group.0.to_be_bytes());
            all.len = end;
        }
        all
    }
}

impl core::ops::Deref for HeaderBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorCode {
    /// The client has another version, or did not send Hello first.
    Version,
    /// The message could not be decoded.
    Malformed,
    /// Another socket has the port, or no port is free.
    PortInUse,
    /// The socket is already bound.
    AlreadyBound,
    /// The request needs an earlier Bind or Connect.
    NotBound,
    /// The payload is longer than the Welcome allows.
    TooLong,
    /// The node does not support this class or option.
    Unsupported,
    /// The node already has the maximum number of sockets.
    TooManySockets,
    /// The node's configuration forbids it.
    Forbidden,
    /// The node is stopping.
    Stopping,
    /// The reliable link has no room at present: the same request may succeed soon.
    Congested,
    /// A link on the path has no room for this flow, and carries other flows: the packets of this flow are dropped.
    NoRoom,
    /// A code that this program does not know.
    Other(u8),
}

/// Why packets were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// The client sends faster than the node accepts.
    SendOverload,
    /// The client reads more slowly than packets arrive.
    ReceiveOverload,
    /// There is no path.
    NoRoute,
    /// The deadline passed in this node.
    Expired,
    /// The payload was too long.
    TooLong,
    /// A reason that this program does not know.
    Other(u8),
}

impl<'a> Reply<'a> {
    /// Reads a message.
    pub fn parse(message: &'a [u8]) -> Result<Reply<'a>, Malformed> {
        let mut r = Reader::new(message);
        let reply = match r.u8()? {
            kind::WELCOME => Reply::Welcome {
                version: r.u8()?,
                node: NodeAddr(r.u32()?),
                payload_bytes_max: r.u16()?,
            },
            kind::BOUND => Reply::Bound {
                port: VirtualPort(r.u16()?),
            },
            kind::ERROR => {
                let code = ErrorCode::from_byte(r.u8()?);
                let text = text(r.rest())?;
                return Ok(Reply::Error { code, text });
            }
            kind::DATAGRAM => {
                let datagram = Datagram::read(&mut r)?;
                let payload = r.rest();
                if payload.len() > super::PAYLOAD_BYTES_MAX {
                    return Err(Malformed::Length);
                }
                return Ok(Reply::Datagram(datagram, payload));
            }
            kind::DROPPED => Reply::Dropped {
                reason: DropReason::from_byte(r.u8()?),
                count: r.u32()?,
            },
            kind::DONE => Reply::Done { request: r.u8()? },
            kind::CONNECTED => Reply::Connected {
                framing: Framing::from_byte(r.u8()?)?,
                port: VirtualPort(r.u16()?),
            },
            kind::INCOMING => {
                let framing = Framing::from_byte(r.u8()?);
                let port = VirtualPort(r.u16()?);
                let from = NodeAddr(r.u32()?);
                Reply::Incoming {
                    framing: framing?,
                    from,
                    port,
                }
            }
            kind::FINISHED => Reply::Finished,
            kind::RESET => Reply::Reset {
                reason: ResetReason::from_byte(r.u8()?)?,
            },
            kind::ROOM => {
                let flags = r.u8()?;
                let from = VirtualPort(r.u16()?);
                let port = VirtualPort(r.u16()?);
                // The reserved bytes are ignored.
                r.u16()?;
                let node = NodeAddr(r.u32()?);
                Reply::Room(Room {
                    is_there: flags & 1 != 0,
                    from,
                    to: Destination { node, port },
                })
            }
            kind::STATE => {
                let flags = r.u8()?;
                Reply::State {
                    reaches: flags & REACHES != 0,
                    has_places: flags & HAS_PLACES != 0,
                }
            }
            kind::NOT_JOINED => {
                let code = ErrorCode::from_byte(r.u8()?);
                // The reserved bytes are ignored.
                let of_sending = r.u8()? & OF_SENDING != 0;
                r.u8()?;
                let group = NodeAddr(r.u32()?);
                let text = text(r.rest())?;
                return Ok(Reply::NotJoined {
                    of_sending,
                    code,
                    group,
                    text,
                });
            }
            kind::EXPIRED => Reply::Expired {
                given_up: r.u64()?,
                missed: r.u64()?,
            },
            kind::DATAGRAMS => return Ok(Reply::Datagrams(Incoming::read(&mut r)?)),
            _ => return Err(Malformed::Kind),
        };
        r.finish()?;
        Ok(reply)
    }

    /// Writes the message at the front of `message` and returns its length.
    pub fn emit(&self, message: &mut [u8]) -> Result<usize, Full> {
        let mut w = Writer::new(message);
        match *self {
            Reply::Welcome {
                version,
                node,
                payload_bytes_max,
            } => {
                w.put(&[kind::WELCOME, version])?;
                w.u32(node.0)?;
                w.u16(payload_bytes_max)?;
            }
            Reply::Bound { port } => {
                w.u8(kind::BOUND)?;
                w.u16(port.0)?;
            }
            Reply::Error { code, text } => {
                w.put(&[kind::ERROR, code.to_byte()])?;
                w.put(cut(text).as_bytes())?;
            }
            Reply::Datagram(datagram, payload) => {
                if payload.len() > super::PAYLOAD_BYTES_MAX {
                    return Err(Full);
                }
                w.put(&datagram.to_bytes())?;
                w.put(payload)?;
            }
            Reply::Dropped { reason, count } => {
                w.put(&[kind::DROPPED, reason.to_byte()])?;
                w.u32(count)?;
            }
            Reply::Done { request } => w.put(&[kind::DONE, request])?,
            Reply::Connected { framing, port } => {
                w.put(&[kind::CONNECTED, framing.to_byte()])?;
                w.u16(port.0)?;
            }
            Reply::Incoming {
                framing,
                from,
                port,
            } => {
                w.put(&[kind::INCOMING, framing.to_byte()])?;
                w.u16(port.0)?;
                w.u32(from.0)?;
            }
            Reply::Finished => w.u8(kind::FINISHED)?,
            Reply::Reset { reason } => w.put(&[kind::RESET, reason.to_byte()])?,
            Reply::Datagrams(batch) => batch.write(&mut w)?,
            Reply::Expired { given_up, missed } => {
                w.u8(kind::EXPIRED)?;
                w.u64(given_up)?;
                w.u64(missed)?;
            }
            Reply::Room(Room { is_there, from, to }) => {
                w.put(&[kind::ROOM, is_there.into()])?;
                w.u16(from.0)?;
                w.u16(to.port.0)?;
                w.u16(0)?;
                w.u32(to.node.0)?;
            }
            Reply::State {
                reaches,
                has_places,
            } => {
                let reaches = if reaches { REACHES } else { 0 };
                let has_places = if has_places { HAS_PLACES } else { 0 };
                w.put(&[kind::STATE, reaches | has_places])?;
            }
            Reply::NotJoined {
                of_sending,
                code,
                group,
                text,
            } => {
                let flags = if of_sending { OF_SENDING } else { 0 };
                w.put(&[kind::NOT_JOINED, code.to_byte(), flags, 0])?;
                w.u32(group.0)?;
                w.put(cut(text).as_bytes())?;
            }
        }
        Ok(w.len())
    }

    /// Returns the answer to Hello by a node of this version.
    pub const fn welcome(node: NodeAddr, payload_bytes_max: u16) -> Reply<'static> {
        Reply::Welcome {
            version: VERSION,
            node,
            payload_bytes_max,
        }
    }
}

fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    let text = core::str::from_utf8(bytes).map_err(|_| Malformed::Text)?;
    match text.len() <= TEXT_BYTES_MAX {
        true => Ok(text),
        false => Err(Malformed::Length),
    }
}

/// Returns the front of `text` that is short enough.
fn cut(text: &str) -> &str {
    let mut ends = (0..=TEXT_BYTES_MAX.min(text.len())).rev();
    let end = ends.find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

impl Datagram {
    /// Returns the header in front of a payload, for callers that write both with one system call.
    pub fn to_bytes(self) -> HeaderBytes {
        let flags = self.flags();
        let [t0, t1] = self.remaining.0.to_be_bytes();
        let [n0, n1, n2, n3] = self.source.0.to_be_bytes();
        let [p0, p1] = self.source_port.0.to_be_bytes();
        let header = [kind::DATAGRAM, flags, t0, t1, n0, n1, n2, n3, p0, p1, 0, 0];
        HeaderBytes::new(&header, self.group)
    }

    pub(super) fn flags(self) -> u8 {
        let recovered = if self.recovered { RECOVERED } else { 0 };
        let group = if self.group.is_some() { GROUP } else { 0 };
        recovered | group
    }

    fn read(r: &mut Reader<'_>) -> Result<Datagram, Malformed> {
        let flags = r.u8()?;
        let mut datagram = Datagram {
            group: None,
            remaining: Remaining(r.u16()?),
            source: NodeAddr(r.u32()?),
            source_port: VirtualPort(r.u16()?),
            recovered: flags & RECOVERED != 0,
        };
        // The reserved bytes are ignored.
        r.u16()?;
        if flags & GROUP != 0 {
            datagram.group = Some(NodeAddr(r.u32()?));
        }
        Ok(datagram)
    }
}

impl ErrorCode {
    /// Returns the number on the wire.
    pub const fn to_byte(self) -> u8 {
        match self {
            ErrorCode::Version => 1,
            ErrorCode::Malformed => 2,
            ErrorCode::PortInUse => 3,
            ErrorCode::AlreadyBound => 4,
            ErrorCode::NotBound => 5,
            ErrorCode::TooLong => 6,
            ErrorCode::Unsupported => 7,
            ErrorCode::TooManySockets => 8,
            ErrorCode::Forbidden => 9,
            ErrorCode::Stopping => 10,
            ErrorCode::Congested => 11,
            ErrorCode::NoRoom => 12,
            ErrorCode::Other(byte) => byte,
        }
    }
    /// Returns the meaning of a number on the wire.
    pub const fn from_byte(byte: u8) -> ErrorCode {
        match byte {
            1 => ErrorCode::Version,
            2 => ErrorCode::Malformed,
            3 => ErrorCode::PortInUse,
            4 => ErrorCode::AlreadyBound,
            5 => ErrorCode::NotBound,
            6 => ErrorCode::TooLong,
            7 => ErrorCode::Unsupported,
            8 => ErrorCode::TooManySockets,
            9 => ErrorCode::Forbidden,
            10 => ErrorCode::Stopping,
            11 => ErrorCode::Congested,
            12 => ErrorCode::NoRoom,
            other => ErrorCode::Other(other),
        }
    }
}

impl DropReason {
    /// Returns the number on the wire.
    pub const fn to_byte(self) -> u8 {
        match self {
            DropReason::SendOverload => 1,
            DropReason::ReceiveOverload => 2,
            DropReason::NoRoute => 3,
            DropReason::Expired => 4,
            DropReason::TooLong => 5,
            DropReason::Other(byte) => byte,
        }
    }
    /// Returns the meaning of a number on the wire.
    pub const fn from_byte(byte: u8) -> DropReason {
        match byte {
            1 => DropReason::SendOverload,
            2 => DropReason::ReceiveOverload,
            3 => DropReason::NoRoute,
            4 => DropReason::Expired,
            5 => DropReason::TooLong,
            other => DropReason::Other(other),
        }
    }
    /// Returns a short stable word for people and metrics.
    pub const fn label(self) -> &'static str {
        match self {
            DropReason::SendOverload => "send-overload",
            DropReason::ReceiveOverload => "receive-overload",
            DropReason::NoRoute => "no-route",
            DropReason::Expired => "expired",
            DropReason::TooLong => "too-long",
            DropReason::Other(_) => "other",
        }
    }
}
