//! Reliable streams, and who takes them.
//!
//! A [`Stream`] is a descriptor that the node has made: reading and writing are the kernel's, and
//! it can be handed to anything that wants a descriptor. Beside it a connection to the node tells
//! how the stream ends, so that a reader knows the end of the data from the end of the node.

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

/// How long the peer may take to answer: as long as TCP tries by default is too long for anybody
/// who watches, and a few handshakes of the slowest path are over by then.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest message about a stream.
const NOTICE_BYTES_MAX: usize = 256;

/// A port that takes streams. Its descriptor is readable when one waits.
#[derive(Debug)]
pub struct Listener {
    connection: Connection,
    port: VirtualPort,
}

/// A stream that has come.
#[derive(Debug)]
pub enum Accepted {
    /// It carries bytes.
    Bytes(Stream),
    /// It carries messages.
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

    /// Takes streams at virtual port `port`; 0 takes any free one. `options` carry what this end
    /// of the streams sends.
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

/// Makes a listener of a connection that is bound.
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

/// Makes a stream of a connection.
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
        // The node has taken the request, so it is the peer that has not answered.
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
    /// The node and port at which it takes streams.
    pub fn local(&self) -> Target {
        Target {
            node: self.connection.node,
            port: self.port,
        }
    }

    /// The next stream; waits for it unless the listener is non-blocking.
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
                Received::Truncated(_) => return Err(Error::Protocol("too long")),
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

    /// The next stream of bytes. One of messages is refused.
    pub fn accept_bytes(&self) -> Result<Stream, Error> {
        loop {
            match self.accept()? {
                Accepted::Bytes(stream) => return Ok(stream),
                Accepted::Messages(stream) => stream.reset(),
            }
        }
    }

    /// The streams that come, one after the other, until the node goes.
    pub fn incoming(&self) -> impl Iterator<Item = Result<Accepted, Error>> + '_ {
        core::iter::repeat_with(|| self.accept())
    }

    /// Accepting fails with [`Error::WouldBlock`] instead of waiting.
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
            // This process is out of descriptors: the kernel has closed what did not fit.
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

    /// This end.
    pub fn local(&self) -> Target {
        match self {
            Accepted::Bytes(stream) => stream.local(),
            Accepted::Messages(stream) => stream.local(),
        }
    }

    /// The same stream by way of `data`, a descriptor that stands for what the stream's own does.
    pub fn rehomed(self, data: OwnedFd) -> Accepted {
        match self {
            Accepted::Bytes(Stream { about, .. }) => Accepted::of(Framing::Bytes, data, about),
            Accepted::Messages(MessageStream { about, .. }) => {
                Accepted::of(Framing::Messages, data, about)
            }
        }
    }

    /// Why the stream has ended before its time, if it has; as far as the node has told by now.
    pub fn take_error(&self) -> Option<io::Error> {
        let (Accepted::Bytes(Stream { about, .. })
        | Accepted::Messages(MessageStream { about, .. })) = self;
        about.failed().err()
    }

    /// Whether what the peer writes has ended in order, for who reads the descriptor himself and has
    /// found an end.
    pub fn ended(&self) -> io::Result<()> {
        let (Accepted::Bytes(Stream { about, .. })
        | Accepted::Messages(MessageStream { about, .. })) = self;
        about.ended()
    }

    /// Says that the end of this end's descriptor will be its end in order, for who closes it without
    /// dropping this: a program that is about to end.
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

    /// Who has connected.
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
