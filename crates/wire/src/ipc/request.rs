//! The requests of a client to its node.

use super::{Framing, Options, Outgoing, kind};
use crate::bytes::{Reader, Writer};
use crate::{Full, Malformed};
use base::{NodeAddr, VirtualPort};

/// Number of bytes in front of the payload of [`Request::SendTo`].
pub const SEND_TO_HEADER_BYTES: usize = 8;

/// The destination of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination {
    /// The node or group.
    pub node: NodeAddr,
    /// The virtual port there.
    pub port: VirtualPort,
}

/// A message from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// The first message: type 1, version u8.
    Hello {
        /// The [`super::VERSION`] of the client.
        version: u8,
    },
    /// Takes a virtual port: type 2, port u16.
    Bind {
        /// The port; [`super::ANY_PORT`] for any.
        port: VirtualPort,
    },
    /// Sets the options of all later packets: type 3, see [`Options`].
    Options(Options),
    /// Sends one packet.
    ///
    /// ```text
    ///  0                   1                   2                   3
    ///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
    /// +---------------+---------------+-------------------------------+
    /// |    type 4     |   reserved    |       destination port        |
    /// +---------------+---------------+-------------------------------+
    /// |                       destination node                        |
    /// +---------------------------------------------------------------+
    /// | payload ...                                                   |
    /// +---------------------------------------------------------------+
    /// ```
    SendTo(Destination, &'a [u8]),
    /// Sets the destination of raw payload, which is also the only sender from which the socket receives: the same
    /// eight bytes with type 5, and no payload.
    Connect(Destination),
    /// Switches to bare payload: type 6.
    Raw,
    /// Accepts streams at the socket's port from now on: type 7, reserved u8, backlog u16.
    Listen {
        /// The number of streams that may wait to be accepted; the node has its own limit.
        backlog: u16,
    },
    /// Opens a stream: the eight bytes of Connect with type 8, and the stream's framing in place of the reserved byte.
    ConnectStream(Destination, Framing),
    /// Ends the stream beside this connection at once, in both directions: type 9. There is no answer.
    Reset,
    /// Takes all virtual ports of a range: type 10, reserved u8, first u16, last u16. If both are 0, the range is any
    /// single free port.
    BindRange {
        /// The first port.
        first: VirtualPort,
        /// The last port, not below the first.
        last: VirtualPort,
    },
    /// Sends packets from ports of the socket's range: see [`Outgoing`]. There is no answer.
    SendFrom(Outgoing<'a>),
    /// Receives what is sent to a group and port: the eight bytes of Connect with type 12.
    Join(Destination),
    /// Ends the effect of `Join`: the eight bytes of Connect with type 13.
    Leave(Destination),
    /// Announces that the next end of this end's writing to the stream beside this connection is intended: type 14.
    /// There is no answer.
    Finish,
    /// Requests reports of the node's state in the overlay, now and when it changes, and of the group of each refused
    /// join: type 15.
    Watch,
    /// Asks how many messages of the stream beside this connection have expired: type 16. The answer is
    /// [`super::Reply::Expired`], while the stream exists.
    AskExpired,
}

impl<'a> Request<'a> {
    /// Reads a message.
    pub fn parse(message: &'a [u8]) -> Result<Request<'a>, Malformed> {
        let mut r = Reader::new(message);
        let request = match r.u8()? {
            kind::HELLO => Request::Hello { version: r.u8()? },
            kind::BIND => Request::Bind {
                port: VirtualPort(r.u16()?),
            },
            kind::OPTIONS => Request::Options(Options::read(&mut r)?),
            kind::SEND_TO => {
                let destination = Destination::read(&mut r)?;
                let payload = r.rest();
                if payload.len() > super::PAYLOAD_BYTES_MAX {
                    return Err(Malformed::Length);
                }
                return Ok(Request::SendTo(destination, payload));
            }
            kind::CONNECT => Request::Connect(Destination::read(&mut r)?),
            kind::JOIN => Request::Join(Destination::read(&mut r)?),
            kind::LEAVE => Request::Leave(Destination::read(&mut r)?),
            kind::FINISH => Request::Finish,
            kind::WATCH => Request::Watch,
            kind::ASK_EXPIRED => Request::AskExpired,
            kind::RAW => Request::Raw,
            kind::LISTEN => {
                // The reserved byte is ignored.
                r.u8()?;
                Request::Listen { backlog: r.u16()? }
            }
            kind::CONNECT_STREAM => {
                let framing = Framing::from_byte(r.u8()?);
                let port = VirtualPort(r.u16()?);
                let node = NodeAddr(r.u32()?);
                Request::ConnectStream(Destination { node, port }, framing?)
            }
            kind::RESET_STREAM => Request::Reset,
            kind::BIND_RANGE => {
                // The reserved byte is ignored.
                r.u8()?;
                let (first, last) = (VirtualPort(r.u16()?), VirtualPort(r.u16()?));
                let any = (super::ANY_PORT, super::ANY_PORT);
                if (first.0 == 0 || last < first) && (first, last) != any {
                    return Err(Malformed::Value);
                }
                Request::BindRange { first, last }
            }
            kind::SEND_FROM => return Ok(Request::SendFrom(Outgoing::read(&mut r)?)),
            _ => return Err(Malformed::Kind),
        };
        r.finish()?;
        Ok(request)
    }

    /// Writes the message at the front of `message` and returns its length.
    pub fn emit(&self, message: &mut [u8]) -> Result<usize, Full> {
        let mut w = Writer::new(message);
        match *self {
            Request::Hello { version } => w.put(&[kind::HELLO, version])?,
            Request::Bind { port } => {
                let [p0, p1] = port.0.to_be_bytes();
                w.put(&[kind::BIND, p0, p1])?;
            }
            Request::Options(options) => {
                w.u8(kind::OPTIONS)?;
                options.write(&mut w)?;
            }
            Request::SendTo(destination, payload) => {
                if payload.len() > super::PAYLOAD_BYTES_MAX {
                    return Err(Full);
                }
                w.put(&destination.send_to_header())?;
                w.put(payload)?;
            }
            Request::Connect(destination) => w.put(&destination.to_bytes(kind::CONNECT, 0))?,
            Request::Join(group) => w.put(&group.to_bytes(kind::JOIN, 0))?,
            Request::Leave(group) => w.put(&group.to_bytes(kind::LEAVE, 0))?,
            Request::Finish => w.u8(kind::FINISH)?,
            Request::Watch => w.u8(kind::WATCH)?,
            Request::AskExpired => w.u8(kind::ASK_EXPIRED)?,
            Request::Raw => w.u8(kind::RAW)?,
            Request::Listen { backlog } => {
                let [b0, b1] = backlog.to_be_bytes();
                w.put(&[kind::LISTEN, 0, b0, b1])?;
            }
            Request::ConnectStream(destination, framing) => {
                w.put(&destination.to_bytes(kind::CONNECT_STREAM, framing.to_byte()))?;
            }
            Request::Reset => w.u8(kind::RESET_STREAM)?,
            Request::BindRange { first, last } => {
                let ([f0, f1], [l0, l1]) = (first.0.to_be_bytes(), last.0.to_be_bytes());
                w.put(&[kind::BIND_RANGE, 0, f0, f1, l0, l1])?;
            }
            Request::SendFrom(batch) => batch.write(&mut w)?,
        }
        Ok(w.len())
    }
}

impl Destination {
    /// Returns the header in front of a payload, for callers that write both with one system call.
    pub const fn send_to_header(self) -> [u8; SEND_TO_HEADER_BYTES] {
        self.to_bytes(kind::SEND_TO, 0)
    }

    const fn to_bytes(self, kind: u8, second: u8) -> [u8; SEND_TO_HEADER_BYTES] {
        let [n0, n1, n2, n3] = self.node.0.to_be_bytes();
        let [p0, p1] = self.port.0.to_be_bytes();
        [kind, second, p0, p1, n0, n1, n2, n3]
    }

    fn read(r: &mut Reader<'_>) -> Result<Destination, Malformed> {
        // The reserved byte is ignored.
        r.u8()?;
        let port = VirtualPort(r.u16()?);
        let node = NodeAddr(r.u32()?);
        Ok(Destination { node, port })
    }
}
