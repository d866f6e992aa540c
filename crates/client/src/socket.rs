//! The datagram socket.

use crate::{Error, Options, Target};
use base::{NodeAddr, VirtualPort};
use core::time::Duration;
use net::unix::{Received, SeqStream};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use wire::ipc::{DATAGRAM_HEADER_BYTES, Destination, MESSAGE_BYTES_MAX, Reply, Request, kind};

/// Datagrams kept while an answer of the node is awaited. They came before it; more are lost, as
/// they would be in a full socket buffer.
const MAX_KEPT: usize = 1_024;
/// How long a node may take to answer, or to take a datagram. A node answers within a turn of its
/// loop, microseconds; one whose machine swaps takes seconds.
const TIMEOUT: Duration = Duration::from_secs(10);
/// From one attempt to connect to the next, when a thousand others connect at the same moment.
const CONNECT_AGAIN: Duration = Duration::from_millis(5);

/// A node of this host, by the file of its socket.
#[derive(Clone, Debug)]
pub struct Node {
    path: PathBuf,
    timeout: Duration,
}

/// What a received datagram tells beside its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// What was left of its deadline when it left the node; none if it had no deadline.
    pub remaining: Option<Duration>,
}

/// An overlay socket for datagrams. Several threads may use one.
#[derive(Debug)]
pub struct DatagramSocket {
    stream: SeqStream,
    node: NodeAddr,
    port: VirtualPort,
    max_payload: usize,
    kept: Mutex<VecDeque<Vec<u8>>>,
    by: Node,
    nonblocking: AtomicBool,
}

impl Node {
    /// The node whose socket file is `path`.
    pub fn at(path: impl AsRef<Path>) -> Node {
        Node {
            path: path.as_ref().to_owned(),
            timeout: TIMEOUT,
        }
    }

    /// Changes how long the node may take to answer, and to take a datagram on a blocking socket,
    /// before a call fails with [`Error::Timeout`]; 10 s unless changed.
    pub fn with_timeout(self, timeout: Duration) -> Node {
        Node { timeout, ..self }
    }

    /// Opens a socket bound to virtual port `port`; 0 takes any free one.
    pub fn bind(&self, port: u16, options: Options) -> Result<DatagramSocket, Error> {
        let until = Instant::now() + self.timeout;
        let mut socket = DatagramSocket {
            stream: self.connect(until)?,
            node: NodeAddr::default(),
            port: VirtualPort(0),
            max_payload: 0,
            kept: Mutex::default(),
            by: self.clone(),
            nonblocking: AtomicBool::new(false),
        };
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        let hello = Request::Hello {
            version: wire::ipc::VERSION,
        };
        match socket.ask(&hello, until, &mut buffer)? {
            Reply::Welcome {
                node,
                payload_bytes_max,
                ..
            } => {
                socket.node = node;
                socket.max_payload = payload_bytes_max.into();
            }
            _ => return Err(Error::Protocol("welcome")),
        }
        let carried = Request::Options(options.to_wire());
        done(socket.ask(&carried, until, &mut buffer)?, kind::OPTIONS)?;
        let bind = Request::Bind {
            port: VirtualPort(port),
        };
        match socket.ask(&bind, until, &mut buffer)? {
            Reply::Bound { port } => socket.port = port,
            _ => return Err(Error::Protocol("bound")),
        }
        socket.stream.set_timeouts(None, Some(self.timeout))?;
        Ok(socket)
    }

    /// A blocking connection.
    fn connect(&self, until: Instant) -> Result<SeqStream, Error> {
        loop {
            let error = match SeqStream::connect(&self.path) {
                Ok(stream) => {
                    stream.set_nonblocking(false)?;
                    return Ok(stream);
                }
                Err(error) => error,
            };
            // That many wait already that there is no place to wait.
            if error.kind() != io::ErrorKind::WouldBlock {
                return Err(Error::NoNode {
                    path: self.path.clone(),
                    error,
                });
            }
            if Instant::now() >= until {
                return Err(self.timed_out());
            }
            std::thread::sleep(CONNECT_AGAIN);
        }
    }

    fn timed_out(&self) -> Error {
        Error::Timeout {
            path: self.path.clone(),
            after: self.timeout,
        }
    }
}

impl DatagramSocket {
    /// The socket's own node and port.
    pub fn local(&self) -> Target {
        Target {
            node: self.node,
            port: self.port,
        }
    }

    /// The longest datagram that the network carries.
    pub fn max_payload(&self) -> usize {
        self.max_payload
    }

    /// Changes how packets are carried from now on. Waits for the node's word, also on a
    /// non-blocking socket. Not while another thread receives.
    pub fn set_options(&self, options: Options) -> Result<(), Error> {
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        let until = Instant::now() + self.by.timeout;
        let nonblocking = self.nonblocking.load(Ordering::Acquire);
        self.stream.set_nonblocking(false)?;
        let request = Request::Options(options.to_wire());
        let answer = self.ask(&request, until, &mut buffer);
        self.stream.set_timeouts(None, Some(self.by.timeout))?;
        self.stream.set_nonblocking(nonblocking)?;
        done(answer?, kind::OPTIONS)
    }

    /// Non-blocking calls fail with [`Error::WouldBlock`] instead of waiting.
    pub fn set_nonblocking(&self, on: bool) -> Result<(), Error> {
        self.stream.set_nonblocking(on)?;
        self.nonblocking.store(on, Ordering::Release);
        Ok(())
    }

    /// Sends one datagram. Blocks while the node takes no more, up to the node's timeout.
    pub fn send_to(&self, payload: &[u8], to: Target) -> Result<(), Error> {
        if payload.len() > self.max_payload {
            return Err(Error::TooLong {
                len: payload.len(),
                max: self.max_payload,
            });
        }
        let header = Destination {
            node: to.node,
            port: to.port,
        }
        .send_to_header();
        self.stream
            .send_parts(&[IoSlice::new(&header), IoSlice::new(payload)])
            .map_err(|error| match self.nonblocking.load(Ordering::Acquire) {
                true => Error::of(error),
                false => self.late(Error::of(error)),
            })
    }

    /// Receives one datagram into `buffer` and tells its length and who sent it. A longer one is
    /// cut, as `recvfrom` does.
    pub fn recv_from(&self, buffer: &mut [u8]) -> Result<(usize, Target, Info), Error> {
        if let Some(kept) = self.kept().pop_front() {
            return parse_datagram(&kept, buffer).unwrap_or(Err(Error::Protocol("datagram")));
        }
        // One byte for each byte of the caller's buffer, and the header before it.
        let mut message = [0u8; DATAGRAM_HEADER_BYTES + 2_048];
        let mut long;
        let need = DATAGRAM_HEADER_BYTES + buffer.len().max(self.max_payload);
        let message = if need <= message.len() {
            &mut message[..]
        } else {
            long = vec![0; need];
            &mut long[..]
        };
        loop {
            let len = self.receive(message)?;
            if let Some(received) = parse_datagram(&message[..len], buffer) {
                return received;
            }
            match Reply::parse(&message[..len]) {
                Ok(Reply::Error { code, text }) => {
                    return Err(Error::Refused {
                        code,
                        text: text.to_owned(),
                    });
                }
                Ok(_) => {}
                Err(why) => return Err(Error::Protocol(why.label())),
            }
        }
    }

    /// Asks and gives the next message of the node that is no datagram; datagrams are kept. The
    /// stream must be blocking.
    fn ask<'b>(
        &self,
        request: &Request<'_>,
        until: Instant,
        buffer: &'b mut [u8],
    ) -> Result<Reply<'b>, Error> {
        let mut bytes = [0; 32];
        let len = request
            .emit(&mut bytes)
            .map_err(|_| Error::Protocol("request"))?;
        self.wait_at_most(until)?;
        self.stream
            .send_parts(&[IoSlice::new(&bytes[..len])])
            .map_err(|error| self.late(Error::of(error)))?;
        let len = loop {
            self.wait_at_most(until)?;
            let len = self.receive(buffer).map_err(|error| self.late(error))?;
            if buffer[..len].first() != Some(&kind::DATAGRAM) {
                break len;
            }
            let mut kept = self.kept();
            if kept.len() < MAX_KEPT {
                kept.push_back(buffer[..len].to_vec());
            }
        };
        match Reply::parse(&buffer[..len]) {
            Ok(Reply::Error { code, text }) => Err(Error::Refused {
                code,
                text: text.to_owned(),
            }),
            Ok(reply) => Ok(reply),
            Err(why) => Err(Error::Protocol(why.label())),
        }
    }

    fn wait_at_most(&self, until: Instant) -> Result<(), Error> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(self.by.timed_out());
        }
        Ok(self.stream.set_timeouts(Some(left), Some(left))?)
    }

    /// What it means that a blocking call has nothing to do.
    fn late(&self, error: Error) -> Error {
        match error {
            Error::WouldBlock => self.by.timed_out(),
            error => error,
        }
    }

    fn receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        match self.stream.recv_into(buffer).map_err(Error::of)? {
            Received::Message(len) => Ok(len),
            Received::Truncated(_) => Ok(buffer.len()),
            Received::Empty => Err(Error::WouldBlock),
            Received::Closed => Err(Error::Closed),
        }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, VecDeque<Vec<u8>>> {
        self.kept
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn done(reply: Reply<'_>, request: u8) -> Result<(), Error> {
    match reply {
        Reply::Done { request: done } if done == request => Ok(()),
        _ => Err(Error::Protocol("done")),
    }
}

/// A datagram out of a message; `None` when it is another message.
fn parse_datagram(
    message: &[u8],
    buffer: &mut [u8],
) -> Option<Result<(usize, Target, Info), Error>> {
    if message.first() != Some(&kind::DATAGRAM) {
        return None;
    }
    Some(match Reply::parse(message) {
        Ok(Reply::Datagram(header, payload)) => {
            let len = payload.len().min(buffer.len());
            buffer[..len].copy_from_slice(&payload[..len]);
            let remaining = header.remaining.duration();
            let remaining = remaining.map(|left| Duration::from_nanos(left.as_nanos()));
            let from = Target {
                node: header.source,
                port: header.source_port,
            };
            Ok((len, from, Info { remaining }))
        }
        Ok(_) => Err(Error::Protocol("datagram")),
        Err(why) => Err(Error::Protocol(why.label())),
    })
}

impl AsFd for DatagramSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl AsRawFd for DatagramSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.stream.as_fd().as_raw_fd()
    }
}
