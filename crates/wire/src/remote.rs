//! The messages between a client on another host and its node's gate, inside TLS: the messages of [`crate::ipc`], and
//! what a client on the node's own host gets as descriptors.
//!
//! ```text
//!   client                                   gate ─── Unix socket ─── node
//!     | ======= TLS 1.3: the gate shows the node's key; the client has it pinned =======
//!     | -- Hello(version, token, Socket) -----> |
//!     | <---------------------------- Welcome --|      or Refused(why), and the end
//!     | <========= Message, both ways =========>|      one message of ipc each
//!     | <-------- Attached(Connected ..) -------|      from here on also, both ways:
//!     | <============= Data, End ==============>|      the stream that was opened
//!
//!     | <------ Offered(ticket, Incoming ..) ---|      somebody has connected to a listener;
//!     | -- Hello(version, token, Stream(ticket)) ->    over a connection of its own, the same way
//!
//!     | -- Hello(version, token, Operator) ---> |      an operator, with a token of its own kind:
//!     | <============= Data, End ==============>|      lines, as at the operator's socket
//! ```
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+-----------------------------------------------+
//! |     kind      |            length of what follows             |
//! +---------------+-----------------------------------------------+
//! ```
//!
//! One TLS connection is used for one socket, or for one stream together with the report of its end, so that no socket
//! or stream waits for another.
//!
//! If both ends have agreed on [`WITH_WAYS`] in the TLS handshake, they may also have a *way* beside the connection,
//! for datagrams over UDP ([`way`]). A lost TCP segment delays everything behind it; a lost datagram delays nothing.
//! Ends of earlier versions ([`WITHOUT_TRIALS`]) get no way, because they lose datagrams that are too long for a path.
//!
//! ```text
//!   client                                   gate
//!     | -- AskWay ----------------------------> |      at the first datagram; again to change keys
//!     | <-------------- Way(index, UDP port) -- |      or NoWay: everything stays in TLS
//!     | -- NoWay -----------------------------> |      it does not work: nothing by it, until the
//!     |                                         |      client proves its address there again
//! ```
//! [Amir06 §III-A]

pub mod way;

use crate::bytes::{Reader, Writer};
use crate::ipc::MESSAGE_BYTES_MAX;
use crate::link::SessionIndex;
use crate::{Full, Malformed};

/// The supported version.
pub const VERSION: u8 = 1;
/// The protocol name in the TLS handshake (ALPN) of ends that support ways. An end that has named no protocol is not
/// sent frames that it does not know.
pub const WITH_WAYS: &[u8] = b"sinew-client/3";
/// The protocol name of ends that support ways without trials of their length: they use the same frames, and the gate
/// opens no way. It is named after [`WITH_WAYS`], because TLS fails if the names of both sides have none in common (RFC
/// 7301 §3.2).
pub const WITHOUT_TRIALS: &[u8] = b"sinew-client/2";
/// Number of bytes before each frame's body.
pub const HEAD_BYTES: usize = 4;
/// Number of bytes of a ticket, so that no client can guess another client's ticket.
pub const TICKET_BYTES: usize = 16;
/// The maximum length of a token.
pub const TOKEN_BYTES_MAX: usize = 256;
/// The maximum length of a refusal's text.
pub const TEXT_BYTES_MAX: usize = 200;
/// The maximum length of a body: the longest message and a ticket before it.
pub const BODY_BYTES_MAX: usize = MESSAGE_BYTES_MAX + TICKET_BYTES;

const HELLO: u8 = 1;
const WELCOME: u8 = 2;
const REFUSED: u8 = 3;
const MESSAGE: u8 = 4;
const ATTACHED: u8 = 5;
const OFFERED: u8 = 6;
const DATA: u8 = 7;
const END: u8 = 8;
const GONE: u8 = 9;
const CLOSED: u8 = 10;
const PING: u8 = 11;
const ASK_WAY: u8 = 12;
const WAY: u8 = 13;
const NO_WAY: u8 = 14;

const SOCKET: u8 = 0;
const STREAM: u8 = 1;
const OPERATOR: u8 = 2;

/// The ticket of a stream that waits at the gate for the client that it was offered to.
pub type Ticket = [u8; TICKET_BYTES];

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A new socket.
    Socket,
    /// A stream that has been offered.
    Stream(Ticket),
    /// Requests to the node, as at its operator's socket.
    Operator,
}

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// The client's first frame: kind 1, version u8, purpose u8 (0 socket, 1 stream and the ticket, 2 operator), the
    /// token.
    Hello {
        /// The client's version.
        version: u8,
        /// The purpose of the connection.
        purpose: Purpose,
        /// The token that lets the client in.
        token: &'a [u8],
    },
    /// The gate accepts the client: kind 2.
    Welcome,
    /// The gate refuses the client: kind 3, text.
    Refused(&'a str),
    /// A message, or a raw payload, between client and node: kind 4.
    Message(&'a [u8]),
    /// A message that begins this connection's stream: kind 5.
    Attached(&'a [u8]),
    /// A message about a stream that the client can fetch: kind 6, ticket, message.
    Offered(Ticket, &'a [u8]),
    /// Bytes of the stream, or one message of it: kind 7.
    Data(&'a [u8]),
    /// The sender will write nothing more to the stream: kind 8.
    End,
    /// The sender's end of the stream is closed: kind 9.
    Gone,
    /// The sender's end of the socket is closed; the stream may go on: kind 10.
    Closed,
    /// The sender is alive, and has nothing to send: kind 11.
    Ping,
    /// The client requests a way for datagrams, or new keys for its present one: kind 12.
    AskWay,
    /// The gate opens a way: kind 13, the index of the way's session (3 bytes), port u16. TLS exports the keys
    /// ([`way::LABEL`]).
    Way {
        /// The index in the datagrams of both directions.
        index: SessionIndex,
        /// The gate's UDP port.
        port: u16,
    },
    /// From the gate: there is no way. From the client: the gate must send nothing by the way until the client has
    /// proved an address again. Kind 14.
    NoWay,
}

/// Returns the kind and the length in a head. [`Malformed::Length`] for a body that is too long.
pub fn head(bytes: [u8; HEAD_BYTES]) -> Result<(u8, usize), Malformed> {
    let [kind, a, b, c] = bytes;
    let len = u32::from_be_bytes([0, a, b, c]) as usize;
    match kind {
        HELLO..=NO_WAY if len <= BODY_BYTES_MAX => Ok((kind, len)),
        HELLO..=NO_WAY => Err(Malformed::Length),
        _ => Err(Malformed::Kind),
    }
}

impl<'a> Frame<'a> {
    /// Reads a frame of this kind.
    pub fn parse(kind: u8, body: &'a [u8]) -> Result<Frame<'a>, Malformed> {
        if body.len() > BODY_BYTES_MAX {
            return Err(Malformed::Length);
        }
        let mut r = Reader::new(body);
        let frame = match kind {
            HELLO => {
                let version = r.u8()?;
                let purpose = match r.u8()? {
                    SOCKET => Purpose::Socket,
                    STREAM => Purpose::Stream(r.array()?),
                    OPERATOR => Purpose::Operator,
                    _ => return Err(Malformed::Value),
                };
                if r.rest().len() > TOKEN_BYTES_MAX {
                    return Err(Malformed::Length);
                }
                return Ok(Frame::Hello {
                    version,
                    purpose,
                    token: r.rest(),
                });
            }
            REFUSED => {
                if body.len() > TEXT_BYTES_MAX {
                    return Err(Malformed::Length);
                }
                let text = core::str::from_utf8(body).map_err(|_| Malformed::Text)?;
                return Ok(Frame::Refused(text));
            }
            MESSAGE => return Ok(Frame::Message(body)),
            ATTACHED => return Ok(Frame::Attached(body)),
            OFFERED => return Ok(Frame::Offered(r.array()?, r.rest())),
            DATA => return Ok(Frame::Data(body)),
            WELCOME => Frame::Welcome,
            END => Frame::End,
            GONE => Frame::Gone,
            CLOSED => Frame::Closed,
            PING => Frame::Ping,
            ASK_WAY => Frame::AskWay,
            WAY => Frame::Way {
                index: SessionIndex::new(r.u24()?),
                port: r.u16()?,
            },
            NO_WAY => Frame::NoWay,
            _ => return Err(Malformed::Kind),
        };
        r.finish()?;
        Ok(frame)
    }

    /// Writes head and body at the front of `bytes`. Returns their length.
    pub fn emit(&self, bytes: &mut [u8]) -> Result<usize, Full> {
        let mut w = Writer::new(bytes);
        w.put(&[self.kind(), 0, 0, 0])?;
        match *self {
            Frame::Hello {
                version,
                purpose,
                token,
            } => {
                if token.len() > TOKEN_BYTES_MAX {
                    return Err(Full);
                }
                w.u8(version)?;
                match purpose {
                    Purpose::Socket => w.u8(SOCKET)?,
                    Purpose::Stream(ticket) => {
                        w.u8(STREAM)?;
                        w.put(&ticket)?;
                    }
                    Purpose::Operator => w.u8(OPERATOR)?,
                }
                w.put(token)?;
            }
            Frame::Refused(text) => {
                if text.len() > TEXT_BYTES_MAX {
                    return Err(Full);
                }
                w.put(text.as_bytes())?;
            }
            Frame::Message(body) | Frame::Attached(body) | Frame::Data(body) => w.put(body)?,
            Frame::Offered(ticket, message) => {
                w.put(&ticket)?;
                w.put(message)?;
            }
            Frame::Way { index, port } => {
                w.u24(index.value())?;
                w.u16(port)?;
            }
            Frame::Welcome
            | Frame::End
            | Frame::Gone
            | Frame::Closed
            | Frame::Ping
            | Frame::AskWay
            | Frame::NoWay => {}
        }
        let len = w.len() - HEAD_BYTES;
        if len > BODY_BYTES_MAX {
            return Err(Full);
        }
        // The length fits three bytes, because the bound above does.
        let [_, a, b, c] = (len as u32).to_be_bytes();
        w.written_mut()[1..HEAD_BYTES].copy_from_slice(&[a, b, c]);
        Ok(w.len())
    }

    const fn kind(&self) -> u8 {
        match self {
            Frame::Hello { .. } => HELLO,
            Frame::Welcome => WELCOME,
            Frame::Refused(_) => REFUSED,
            Frame::Message(_) => MESSAGE,
            Frame::Attached(_) => ATTACHED,
            Frame::Offered(..) => OFFERED,
            Frame::Data(_) => DATA,
            Frame::End => END,
            Frame::Gone => GONE,
            Frame::Closed => CLOSED,
            Frame::Ping => PING,
            Frame::AskWay => ASK_WAY,
            Frame::Way { .. } => WAY,
            Frame::NoWay => NO_WAY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TICKET: Ticket = *b"0123456789abcdef";

    fn vectors() -> Vec<(Frame<'static>, &'static [u8])> {
        let hello = |purpose| Frame::Hello {
            version: 1,
            purpose,
            token: b"tok",
        };
        vec![
            (hello(Purpose::Socket), b"\x01\0\0\x05\x01\0tok"),
            (
                hello(Purpose::Stream(TICKET)),
                b"\x01\0\0\x15\x01\x010123456789abcdeftok",
            ),
            (hello(Purpose::Operator), b"\x01\0\0\x05\x01\x02tok"),
            (Frame::Welcome, b"\x02\0\0\0"),
            (Frame::Refused("nein"), b"\x03\0\0\x04nein"),
            (Frame::Message(b"m"), b"\x04\0\0\x01m"),
            (Frame::Attached(b"mm"), b"\x05\0\0\x02mm"),
            (
                Frame::Offered(TICKET, b"m"),
                b"\x06\0\0\x110123456789abcdefm",
            ),
            (Frame::Data(b"abc"), b"\x07\0\0\x03abc"),
            (Frame::End, b"\x08\0\0\0"),
            (Frame::Gone, b"\x09\0\0\0"),
            (Frame::Closed, b"\x0a\0\0\0"),
            (Frame::Ping, b"\x0b\0\0\0"),
            (Frame::AskWay, b"\x0c\0\0\0"),
            (
                Frame::Way {
                    index: SessionIndex::new(0x01_02_03),
                    port: 7443,
                },
                b"\x0d\0\0\x05\x01\x02\x03\x1d\x13",
            ),
            (Frame::NoWay, b"\x0e\0\0\0"),
        ]
    }

    fn parse(bytes: &[u8]) -> Result<Frame<'_>, Malformed> {
        let (first, body) = bytes.split_first_chunk().ok_or(Malformed::Short)?;
        let (kind, len) = head(*first)?;
        Frame::parse(kind, body.get(..len).ok_or(Malformed::Short)?)
    }

    #[test]
    fn frames_are_these_bytes() {
        for (frame, bytes) in vectors() {
            let mut room = [0; 64];
            let len = frame.emit(&mut room).unwrap();
            assert_eq!(&room[..len], bytes, "{frame:?}");
            assert_eq!(parse(bytes), Ok(frame));
            for short in 0..len {
                assert_eq!(frame.emit(&mut room[..short]), Err(Full), "{frame:?}");
                assert_eq!(parse(&bytes[..short]), Err(Malformed::Short), "{frame:?}");
            }
        }
    }

    #[test]
    fn bodies_that_end_early_run_on_or_are_too_long_are_refused() {
        assert_eq!(Frame::parse(HELLO, &[1]), Err(Malformed::Short));
        assert_eq!(Frame::parse(HELLO, &[1, 3]), Err(Malformed::Value));
        assert_eq!(Frame::parse(HELLO, &[1, 1, 7, 7]), Err(Malformed::Short));
        assert_eq!(Frame::parse(OFFERED, &[0; 15]), Err(Malformed::Short));
        assert_eq!(Frame::parse(PING, &[0]), Err(Malformed::Length));
        assert_eq!(Frame::parse(REFUSED, &[0xff]), Err(Malformed::Text));
        assert_eq!(Frame::parse(REFUSED, &[b'a'; 201]), Err(Malformed::Length));
        assert_eq!(Frame::parse(HELLO, &[0; 259]), Err(Malformed::Length));
        assert_eq!(head([DATA, 1, 0, 0x10]), Err(Malformed::Length));
        for kind in [0, 15, 255] {
            assert_eq!(head([kind, 0, 0, 0]), Err(Malformed::Kind));
        }
        let long = vec![0; BODY_BYTES_MAX + 1];
        let mut room = vec![0; BODY_BYTES_MAX + 100];
        assert_eq!(Frame::Data(&long).emit(&mut room), Err(Full));
        let longest = &long[1..];
        let len = Frame::Data(longest).emit(&mut room).unwrap();
        assert_eq!(parse(&room[..len]), Ok(Frame::Data(longest)));
    }

    proptest! {
        #[test]
        fn whatever_is_understood_is_written_alike(kind in 0u8..17, body in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(frame) = Frame::parse(kind, &body) {
                let mut room = [0; 80];
                let len = frame.emit(&mut room).unwrap();
                prop_assert_eq!(room[0], kind);
                prop_assert_eq!(&room[HEAD_BYTES..len], &body[..]);
            }
        }
    }
}
