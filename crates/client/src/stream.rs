//! Reliable streams, and listeners that accept them.
//!
//! A [`Stream`] is a descriptor that the node has created: the kernel does the reading and writing, and it can be
//! passed to anything that uses a descriptor. A separate connection to the node reports how the stream ends, so that a
//! reader can distinguish the end of the data from the end of the node.

mod about;
mod bytes;
mod messages;

use crate::connection::{Connection, answered, done};
use crate::socket::Node;
use crate::{Error, Options, Target};
use about::About;
pub use about::Expired;
use base::VirtualPort;
pub use bytes::Stream;
use core::time::Duration;
pub use messages::MessageStream;
use net::unix::{FDS_MAX, Received, SeqStream};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Instant;
use wire::ipc::{Destination, Framing, Reply, Request, kind};

/// How long the peer may take to answer. TCP's default is too long for a person who waits, and this is enough for a few
/// handshakes on the slowest path.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest message about a stream.
const NOTICE_BYTES_MAX: usize = 256;

/// A port that accepts streams. Its descriptor is readable when one waits.
#[derive(Debug)]
pub struct Listener {
    connection: Connection,
    port: VirtualPort,
}

/// A stream that was accepted.
#[derive(Debug)]
pub enum Accepted {
    /// A stream that carries bytes.
    Bytes(Stream),
    /// A stream that carries messages.
    Messages(MessageStream),
}

impl Node {
    /// Opens a stream of bytes to `peer`; see [`Options::stream`].
    pub fn connect(&self, peer: Target, options: Options) -> Result<Stream, Error> {
        match self.open_stream(peer, options, Framing::Bytes)? {
            Accepted::Bytes(stream) => Ok(stream),
            Accepted::Messages(_) => Err(Error::Protocol("framing")),
        }
    }

    /// Opens a stream of messages to `peer`.
    pub fn connect_messages(&self, peer: Target, options: Options) -> Result<MessageStream, Error> {
        match self.open_stream(peer, options, Framing::Messages)? {
            Accepted::Messages(stream) => Ok(stream),
            Accepted::Bytes(_) => Err(Error::Protocol("framing")),
        }
    }

    /// Accepts streams at virtual port `port`; 0 takes any free one. `options` are for what this end of the streams
    /// sends.
    pub fn listen(&self, port: u16, options: Options) -> Result<Listener, Error> {
        let until = Instant::now() + self.timeout();
        let connection = Connection::open(self, options, until)?;
        let mut buffer = [0; NOTICE_BYTES_MAX];
        let bind = Request::Bind {
            port: VirtualPort(port),
        };
        let port = match connection.ask(&bind, until, &mut buffer)?.0 {
            Reply::Bound { port } => port,
            _ => return Err(Error::Protocol("bound")),
        };
        listen_on(connection, port, u16::MAX, until)
    }

    fn open_stream(
        &self,
        peer: Target,
        options: Options,
        framing: Framing,
    ) -> Result<Accepted, Error> {
        let connection = Connection::open(self, options, Instant::now() + self.timeout())?;
        open_on(connection, peer, framing)
    }
}

/// Turns a bound connection into a listener.
pub(crate) fn listen_on(
    connection: Connection,
    port: VirtualPort,
    backlog: u16,
    until: Instant,
) -> Result<Listener, Error> {
    let listen = Request::Listen { backlog };
    let mut buffer = [0; NOTICE_BYTES_MAX];
    let (reply, _) = connection.ask(&listen, until, &mut buffer)?;
    done(reply, kind::LISTEN)?;
    connection.stream.set_timeouts(None, None)?;
    Ok(Listener { connection, port })
}

/// Turns a connection into a stream.
pub(crate) fn open_on(
    connection: Connection,
    peer: Target,
    framing: Framing,
) -> Result<Accepted, Error> {
    let destination = Destination {
        node: peer.node,
        port: peer.port,
    };
    let request = Request::ConnectStream(destination, framing);
    let until = Instant::now() + CONNECT_TIMEOUT;
    let mut buffer = [0; NOTICE_BYTES_MAX];
    let (reply, [data, _]) = match connection.ask(&request, until, &mut buffer) {
        // The node has accepted the request, so it is the peer that has not answered.
        Err(Error::Timeout { .. }) => {
            return Err(Error::Reset(wire::ipc::ResetReason::Timeout));
        }
        other => other?,
    };
    let (Reply::Connected { port, .. }, Some(data)) = (reply, data) else {
        return Err(Error::Protocol("connected"));
    };
    connection.stream.set_nonblocking(true)?;
    let local = Target {
        node: connection.node,
        port,
    };
    let about = About::new(connection.stream, local, peer);
    Ok(Accepted::of(framing, data, about))
}

impl Listener {
    /// Returns the node and port at which it accepts streams.
    pub fn local(&self) -> Target {
        Target {
            node: self.connection.node,
            port: self.port,
        }
    }

    /// Returns the next stream. It waits for the stream unless the listener is non-blocking.
    pub fn accept(&self) -> Result<Accepted, Error> {
        let mut buffer = [0; NOTICE_BYTES_MAX];
        loop {
            let (received, fds) = self
                .connection
                .stream
                .recv_with_fds(&mut buffer)
                .map_err(Error::of)?;
            let len = match received {
                Received::Message(len) => len,
                // No message about streams is so long.
                Received::Truncated(_) => continue,
                Received::Empty => return Err(Error::WouldBlock),
                Received::Closed => return Err(Error::Closed),
            };
            let reply = Reply::parse(&buffer[..len]);
            let reply = answered(reply.map_err(|why| Error::Protocol(why.label()))?)?;
            if let Some(accepted) = self.accepted(&reply, fds)? {
                return Ok(accepted);
            }
        }
    }

    /// Returns the next stream of bytes. Streams of messages are refused.
    pub fn accept_bytes(&self) -> Result<Stream, Error> {
        loop {
            match self.accept()? {
                Accepted::Bytes(stream) => return Ok(stream),
                Accepted::Messages(stream) => stream.reset(),
            }
        }
    }

    /// Returns the streams that arrive, one after the other, until the node ends.
    pub fn incoming(&self) -> impl Iterator<Item = Result<Accepted, Error>> + '_ {
        core::iter::repeat_with(|| self.accept())
    }

    /// Sets whether accepting fails with [`Error::WouldBlock`] instead of blocking.
    pub fn set_nonblocking(&self, on: bool) -> Result<(), Error> {
        Ok(self.connection.stream.set_nonblocking(on)?)
    }

    fn accepted(
        &self,
        reply: &Reply<'_>,
        fds: [Option<OwnedFd>; FDS_MAX],
    ) -> Result<Option<Accepted>, Error> {
        let Reply::Incoming {
            framing,
            from,
            port,
        } = *reply
        else {
            return Ok(None);
        };
        let [Some(data), Some(notices)] = fds else {
            // This process is out of descriptors: the kernel has closed those for which there was no room.
            return Err(Error::Descriptors);
        };
        let notices = SeqStream::from(notices);
        notices.set_nonblocking(true)?;
        let about = About::new(notices, self.local(), Target { node: from, port });
        Ok(Some(Accepted::of(framing, data, about)))
    }
}

impl Accepted {
    fn of(framing: Framing, data: OwnedFd, about: About) -> Accepted {
        match framing {
            Framing::Bytes => Accepted::Bytes(Stream {
                data: data.into(),
                about,
            }),
            Framing::Messages => Accepted::Messages(MessageStream {
                data: data.into(),
                about,
            }),
        }
    }

    /// Returns the address of this end.
    pub fn local(&self) -> Target {
        match self {
            Accepted::Bytes(stream) => stream.local(),
            Accepted::Messages(stream) => stream.local(),
        }
    }

    /// Returns the same stream over `data`, a descriptor that replaces the stream's own.
    pub fn rehomed(self, data: OwnedFd) -> Accepted {
        match self {
            Accepted::Bytes(Stream { about, .. }) => Accepted::of(Framing::Bytes, data, about),
            Accepted::Messages(MessageStream { about, .. }) => {
                Accepted::of(Framing::Messages, data, about)
            }
        }
    }

    /// Returns why the stream has ended prematurely, if it has, according to what the node has reported by now.
    pub fn take_error(&self) -> Option<io::Error> {
        let (Accepted::Bytes(Stream { about, .. })
        | Accepted::Messages(MessageStream { about, .. })) = self;
        about.failed().err()
    }

    /// Checks whether the peer's data has ended in order, for callers that read the descriptor themselves and have
    /// found an end.
    pub fn ended(&self) -> io::Result<()> {
        let (Accepted::Bytes(Stream { about, .. })
        | Accepted::Messages(MessageStream { about, .. })) = self;
        about.ended()
    }

    /// Announces that the end of this end's descriptor will be an orderly one, for callers that close it without
    /// dropping this value: programs that are about to end.
    pub fn finish(&self) {
        let (Accepted::Bytes(Stream { about, .. })
        | Accepted::Messages(MessageStream { about, .. })) = self;
        about.finish();
    }

    /// Ends the stream at once, in both directions: the peer gets an error and not an end.
    pub fn reset(&self) {
        match self {
            Accepted::Bytes(stream) => stream.reset(),
            Accepted::Messages(stream) => stream.reset(),
        }
    }

    /// Returns the peer.
    pub fn peer(&self) -> Target {
        match self {
            Accepted::Bytes(stream) => stream.peer(),
            Accepted::Messages(stream) => stream.peer(),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.stream.as_fd()
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.connection.stream.as_fd().as_raw_fd()
    }
}

impl AsFd for Accepted {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Accepted::Bytes(stream) => stream.as_fd(),
            Accepted::Messages(stream) => stream.as_fd(),
        }
    }
}
