//! Reliable streams, and who takes them.
//!
//! A [`Stream`] is a descriptor that the node has made: reading and writing are the kernel's, and
//! it can be handed to anything that wants a descriptor. Beside it a connection to the node tells
//! how the stream ends, so that a reader knows the end of the data from the end of the node.

use crate::connection::{Connection, answered, done};
use crate::socket::Node;
use crate::{Error, Options, Target};
use base::VirtualPort;
use core::time::Duration;
use net::unix::{FDS_MAX, Received, SeqStream, shutdown_write};
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use wire::ipc::{Destination, Framing, PAYLOAD_BYTES_MAX, Reply, Request, kind};

/// How long the peer may take to answer: as long as TCP tries by default is too long for anybody
/// who watches, and a few handshakes of the slowest path are over by then.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest message about a stream.
const NOTICE_BYTES_MAX: usize = 256;

/// A reliable stream of bytes. Blocking unless set otherwise.
#[derive(Debug)]
pub struct Stream {
    data: UnixStream,
    about: About,
}

/// A reliable stream of messages, each of 1 to 65 507 bytes.
#[derive(Debug)]
pub struct MessageStream {
    data: SeqStream,
    about: About,
}

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

/// Whose a stream is, and the connection that tells of its end.
#[derive(Debug)]
struct About {
    notices: SeqStream,
    told: Mutex<Told>,
    local: Target,
    peer: Target,
}

/// What the node has told of a stream's end.
#[derive(Debug, Default)]
struct Told {
    /// The peer has written everything.
    finished: bool,
    /// The stream has ended before its time, for this reason.
    reset: Option<String>,
    /// Nothing more will be told.
    closed: bool,
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
    let about = About {
        local: Target {
            node: connection.node,
            port,
        },
        peer,
        told: Mutex::default(),
        notices: connection.stream,
    };
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
            if let Accepted::Bytes(stream) = self.accept()? {
                return Ok(stream);
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
        let about = About {
            notices,
            told: Mutex::default(),
            local: self.local(),
            peer: Target { node: from, port },
        };
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
        about.ended().err()
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

impl Stream {
    /// This end.
    pub fn local(&self) -> Target {
        self.about.local
    }

    /// The other end.
    pub fn peer(&self) -> Target {
        self.about.peer
    }

    /// Ends what this end sends; the peer reads on to the end. (`Shutdown::Read` is refused: close
    /// the stream.)
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match how {
            Shutdown::Write => self.data.shutdown(Shutdown::Write),
            Shutdown::Both => self.data.shutdown(Shutdown::Both),
            Shutdown::Read => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Reading and writing fail with `WouldBlock` instead of waiting.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.data.set_nonblocking(on)
    }

    /// How long reading waits at most; `None` for ever.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.data.set_read_timeout(timeout)
    }

    /// Why the stream has ended before its time, if it has; as far as the node has told by now.
    pub fn take_error(&self) -> Option<io::Error> {
        self.about.ended().err()
    }

    /// Ends the stream at once, in both directions: the peer gets an error and not an end, and so
    /// do those who read or write here. Dropping a stream delivers what was written.
    pub fn reset(&self) {
        self.about.reset();
    }

    /// The stream's descriptor alone, as programs want it that know nothing of overlays. How the
    /// stream ends is not told to them.
    pub fn into_fd(self) -> OwnedFd {
        self.data.into()
    }
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match (&self.data).read(buffer) {
            Ok(0) if !buffer.is_empty() => self.about.ended().map(|()| 0),
            Err(error) => Err(self.about.better(error)),
            read => read,
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.data)
            .write(bytes)
            .map_err(|error| self.about.better(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MessageStream {
    /// This end.
    pub fn local(&self) -> Target {
        self.about.local
    }

    /// The other end.
    pub fn peer(&self) -> Target {
        self.about.peer
    }

    /// Sends one message, of 1 to 65 507 bytes.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        if message.is_empty() || message.len() > PAYLOAD_BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a message has 1 to 65507 bytes",
            ));
        }
        self.data
            .send_parts(&[IoSlice::new(message)])
            .map_err(|error| self.about.better(error))
    }

    /// Receives one message into `buffer` and tells its length, 0 at the end of the stream. A
    /// longer one is an error, and lost.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.data.recv_into(buffer) {
            Ok(Received::Message(len)) => Ok(len),
            Ok(Received::Truncated(len)) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("a message of {len} bytes was lost: the buffer is too short"),
            )),
            Ok(Received::Empty) => Err(io::ErrorKind::WouldBlock.into()),
            Ok(Received::Closed) => self.about.ended().map(|()| 0),
            Err(error) => Err(self.about.better(error)),
        }
    }

    /// Ends what this end sends; the peer reads on to the end.
    pub fn shutdown_write(&self) -> io::Result<()> {
        shutdown_write(self.data.as_fd())
    }

    /// Ends the stream at once, in both directions: the peer gets an error and not an end.
    pub fn reset(&self) {
        self.about.reset();
    }

    /// Sending and receiving fail with `WouldBlock` instead of waiting.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.data.set_nonblocking(on)
    }
}

impl About {
    fn reset(&self) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = [0; 8];
        let Ok(len) = Request::Reset.emit(&mut bytes) else {
            return;
        };
        let sent = self.notices.send_parts(&[IoSlice::new(&bytes[..len])]);
        if told.closed || sent.is_err() {
            // The node has gone, or the stream has.
            return;
        }
        // The node must not see the stream close before it is told why.
        let patience = Some(Duration::from_secs(1));
        let waits = self.notices.set_nonblocking(false);
        let waits = waits.and_then(|()| self.notices.set_timeouts(patience, patience));
        if waits.is_ok() {
            let mut buffer = [0; NOTICE_BYTES_MAX];
            while let Ok(Received::Message(_)) = self.notices.recv_into(&mut buffer) {}
        }
        told.closed = true;
        told.reset
            .get_or_insert_with(|| "the stream was reset by this end".to_owned());
    }

    /// Whether what the peer writes has ended in order, now that it has ended.
    fn ended(&self) -> io::Result<()> {
        let told = self.hear()?;
        match &told.reset {
            Some(why) => Err(io::Error::new(io::ErrorKind::ConnectionReset, why.clone())),
            None if told.closed && !told.finished => Err(io::Error::new(
                io::ErrorKind::ConnectionReset,
                Error::Closed.to_string(),
            )),
            // Without a word, this end itself has shut the stream down.
            None => Ok(()),
        }
    }

    /// The reason that the node gives for an error of the kernel, if it gives one.
    fn better(&self, error: io::Error) -> io::Error {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                self.ended().err().unwrap_or(error)
            }
            _ => error,
        }
    }

    /// Takes in what the node has told by now.
    fn hear(&self) -> io::Result<MutexGuard<'_, Told>> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = [0; NOTICE_BYTES_MAX];
        while !told.closed {
            let len = match self.notices.recv_into(&mut buffer)? {
                Received::Message(len) => len,
                Received::Empty => break,
                Received::Truncated(_) | Received::Closed => {
                    told.closed = true;
                    break;
                }
            };
            match Reply::parse(&buffer[..len]) {
                Ok(Reply::Finished) => told.finished = true,
                Ok(Reply::Reset { reason }) => {
                    told.reset = Some(Error::Reset(reason).to_string());
                }
                Ok(Reply::Error { text, .. }) => told.reset = Some(text.to_owned()),
                _ => {}
            }
        }
        Ok(told)
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.data.as_fd()
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.data.as_raw_fd()
    }
}

impl AsFd for MessageStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.data.as_fd()
    }
}

impl AsRawFd for MessageStream {
    fn as_raw_fd(&self) -> RawFd {
        self.data.as_fd().as_raw_fd()
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
