//! The datagram socket.

use crate::connection::{Connection, answered, done};
use crate::discover::Discover;
use crate::remote::{Domain, Keyring, Place, Remote, WayReport};
use crate::room::{Rooms, no_room};
use crate::stream::{Accepted, Listener, listen_on, open_on};
use crate::target::destination;
use crate::{Error, Options, Target};
use base::{NodeAddr, VirtualPort};
use core::time::Duration;
use net::unix::{How, Received, SeqStream};
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use wire::ipc::{
    DATAGRAM_HEADER_BYTES, Destination, Framing, GROUP_BYTES, MESSAGE_BYTES_MAX, Reply, Request,
    TEXT_BYTES_MAX, kind,
};

/// Number of datagrams kept while waiting for an answer of the node. They arrived before the answer; more are lost, as
/// they would be in a full socket buffer.
const MAX_KEPT: usize = 1_024;
/// How long a node may take to answer, or to accept a datagram. A node answers within a turn of its loop, which takes
/// microseconds; on a machine that swaps, it takes seconds.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Size of [`Reply::Room`].
const ROOM_BYTES: usize = 12;
/// Largest size of a message that is no datagram.
const OTHER_BYTES: usize = TEXT_BYTES_MAX + 16;

/// A node of this host, identified by its socket file; or of another host, identified by its gate.
#[derive(Clone, Debug)]
pub struct Node {
    path: PathBuf,
    timeout: Duration,
    gate: Option<Gate>,
}

/// How to reach a node on another host.
#[derive(Clone, Debug)]
pub(crate) enum Gate {
    /// The node is reached by this gate.
    At(Arc<Remote>),
    /// The node is reached by the gate of one of the nodes of a domain.
    Of(Arc<Domain>),
}

/// The properties of a received datagram besides its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// The rest of its deadline when it left the node; none if it had no deadline.
    pub remaining: Option<Duration>,
    /// True if it was lost on some hop and recovered there.
    pub recovered: bool,
    /// The group that it was sent to, if it was sent to one.
    pub group: Option<NodeAddr>,
}

/// An overlay socket for datagrams. Several threads may share it.
#[derive(Debug)]
pub struct DatagramSocket {
    stream: SeqStream,
    node: NodeAddr,
    port: VirtualPort,
    max_payload: usize,
    kept: Mutex<VecDeque<Vec<u8>>>,
    by: Node,
    nonblocking: AtomicBool,
    rooms: Rooms,
}

impl Node {
    /// Returns the node whose socket file is `path`.
    pub fn at(path: impl AsRef<Path>) -> Node {
        Node {
            path: path.as_ref().to_owned(),
            timeout: TIMEOUT,
            gate: None,
        }
    }

    /// Returns the node on another host whose gate is at `place`.
    pub fn remote(place: Place) -> Result<Node, Error> {
        let endpoint = place.endpoint.clone();
        let path = PathBuf::from(format!("tls://{endpoint}"));
        let gate = Remote::new(place).map_err(|error| Error::Gate {
            endpoint,
            error: error.into(),
        })?;
        Ok(Node {
            path,
            timeout: TIMEOUT,
            gate: Some(Gate::At(Arc::new(gate))),
        })
    }

    /// Returns a node of `domain`, which the DNS finds whenever one is needed: the first that answers, and another one
    /// when that is gone. The keys of the domain's nodes are those of the user's keyring; see [`Keyring::of_user`].
    pub fn discover(domain: &str) -> Result<Node, Error> {
        Node::find(&format!("dns:{domain}"))
    }

    /// Does the same as [`Node::discover`], with the program's own keyring and settings for discovery.
    pub fn discover_with(
        discover: &Discover,
        domain: &str,
        keyring: Keyring,
    ) -> Result<Node, Error> {
        let gate = Domain::new(domain, discover, keyring)?;
        Ok(Node {
            path: PathBuf::from(format!("dns:{domain}")),
            timeout: TIMEOUT,
            gate: Some(Gate::Of(Arc::new(gate))),
        })
    }

    /// Changes how long the node may take to answer, and to accept a datagram on a blocking socket, before a call fails
    /// with [`Error::Timeout`]. The default is 10 s.
    pub fn with_timeout(self, timeout: Duration) -> Node {
        Node { timeout, ..self }
    }

    /// Opens a socket bound to virtual port `port`; 0 takes any free one.
    pub fn bind(&self, port: u16, options: Options) -> Result<DatagramSocket, Error> {
        let mut socket = self.open(options)?;
        socket.bind(port)?;
        Ok(socket)
    }

    /// Opens a socket that is not bound yet.
    pub fn open(&self, options: Options) -> Result<DatagramSocket, Error> {
        let until = Instant::now() + self.timeout;
        let connection = Connection::open(self, options, until)?;
        let socket = DatagramSocket {
            stream: connection.stream,
            node: connection.node,
            port: VirtualPort(0),
            max_payload: connection.max_payload,
            kept: Mutex::default(),
            by: self.clone(),
            nonblocking: AtomicBool::new(false),
            rooms: Rooms::default(),
        };
        socket.stream.set_timeouts(None, Some(self.timeout))?;
        Ok(socket)
    }

    /// Returns how the datagrams of the open sockets travel to a node on another host. The list is empty for a node on
    /// this host, and for sockets whose datagrams all go inside TLS because there is no other way.
    pub fn ways(&self) -> Vec<WayReport> {
        match &self.gate {
            Some(Gate::At(remote)) => remote.ways().reports(),
            Some(Gate::Of(domain)) => domain.ways(),
            None => Vec::new(),
        }
    }

    pub(crate) fn gate(&self) -> Option<&Gate> {
        self.gate.as_ref()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(crate) fn timed_out(&self) -> Error {
        Error::Timeout {
            path: self.path.clone(),
            after: self.timeout,
        }
    }
}

impl DatagramSocket {
    /// Binds a socket that was only opened to virtual port `port`; 0 takes any free one. Waits for the node's answer,
    /// even on a non-blocking socket.
    pub fn bind(&mut self, port: u16) -> Result<(), Error> {
        let port = VirtualPort(port);
        match self.ask_waiting(&Request::Bind { port }, &mut vec![0; MESSAGE_BYTES_MAX])? {
            Reply::Bound { port } => {
                self.port = port;
                Ok(())
            }
            _ => Err(Error::Protocol("bound")),
        }
    }

    /// Accepts streams at the port that the socket is bound to. At most `backlog` of them wait. The descriptor stays
    /// the same.
    pub fn into_listener(self, backlog: u16) -> Result<Listener, Error> {
        let until = Instant::now() + self.by.timeout;
        let (connection, port) = self.into_connection()?;
        listen_on(connection, port, backlog, until)
    }

    /// Opens a stream to `peer`, from the port that the socket is bound to.
    pub fn into_stream(self, peer: Target, framing: Framing) -> Result<Accepted, Error> {
        let (connection, _) = self.into_connection()?;
        open_on(connection, peer, framing)
    }

    fn into_connection(self) -> Result<(Connection, VirtualPort), Error> {
        self.stream.set_nonblocking(false)?;
        let connection = Connection {
            stream: self.stream,
            node: self.node,
            max_payload: self.max_payload,
            by: self.by,
        };
        Ok((connection, self.port))
    }

    /// Turns the descriptor into one for plain reads and writes: each write is a datagram to `to`, each read one from
    /// there, and datagrams of others are dropped. If the socket is not bound, it is first bound to any port; the port
    /// is returned. Datagrams that arrived before are lost.
    pub fn into_raw(
        self,
        to: Target,
    ) -> Result<(OwnedFd, VirtualPort), Box<(DatagramSocket, Error)>> {
        let destination = Destination {
            node: to.node,
            port: to.port,
        };
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        let bound = match self.ask_waiting(&Request::Connect(destination), &mut buffer) {
            Ok(Reply::Bound { port }) => Ok(port),
            Ok(_) => Err(Error::Protocol("bound")),
            Err(error) => Err(error),
        };
        let raw = bound.and_then(|port| {
            done(self.ask_waiting(&Request::Raw, &mut buffer)?, kind::RAW)?;
            Ok(port)
        });
        match raw {
            Ok(port) => Ok((self.stream.into(), port)),
            Err(error) => Err(Box::new((self, error))),
        }
    }

    /// Returns the socket's own node and port; the port is 0 if it is not bound.
    pub fn local(&self) -> Target {
        Target {
            node: self.node,
            port: self.port,
        }
    }

    /// Returns the length of the longest datagram that the network carries.
    pub fn max_payload(&self) -> usize {
        self.max_payload
    }

    /// Changes how packets are carried from now on. Waits for the node's answer, even on a non-blocking socket. It must
    /// not be called while another thread receives.
    pub fn set_options(&self, options: Options) -> Result<(), Error> {
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        let request = Request::Options(options.to_wire());
        done(self.ask_waiting(&request, &mut buffer)?, kind::OPTIONS)
    }

    /// Joins a group at `port` to receive what is sent to it (a multicast group), or its share of that (an anycast
    /// group); any port can be used. Sending to a group needs no joining.
    pub fn join(&self, group: NodeAddr, port: u16) -> Result<(), Error> {
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        let request = Request::Join(destination(group, port));
        done(self.ask_waiting(&request, &mut buffer)?, kind::JOIN)
    }

    /// Leaves a group at `port`.
    pub fn leave(&self, group: NodeAddr, port: u16) -> Result<(), Error> {
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        let request = Request::Leave(destination(group, port));
        done(self.ask_waiting(&request, &mut buffer)?, kind::LEAVE)
    }

    /// Makes a request, and waits for the answer even on a non-blocking socket.
    fn ask_waiting<'b>(
        &self,
        request: &Request<'_>,
        buffer: &'b mut [u8],
    ) -> Result<Reply<'b>, Error> {
        let until = Instant::now() + self.by.timeout;
        let nonblocking = self.nonblocking.load(Ordering::Acquire);
        self.stream.set_nonblocking(false)?;
        let answer = self.ask(request, until, buffer);
        self.stream.set_timeouts(None, Some(self.by.timeout))?;
        self.stream.set_nonblocking(nonblocking)?;
        answer
    }

    /// Sets whether calls fail with [`Error::WouldBlock`] instead of blocking.
    pub fn set_nonblocking(&self, on: bool) -> Result<(), Error> {
        self.stream.set_nonblocking(on)?;
        self.nonblocking.store(on, Ordering::Release);
        Ok(())
    }

    /// Sends one datagram. Blocks while the node accepts no more, up to the node's timeout.
    pub fn send_to(&self, payload: &[u8], to: Target) -> Result<(), Error> {
        self.send_to_how(payload, to, How::default())
    }

    /// Does the same as `how` says.
    pub fn send_to_how(&self, payload: &[u8], to: Target, how: How) -> Result<(), Error> {
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
            .send_how(&[IoSlice::new(&header), IoSlice::new(payload)], how)
            .map_err(
                |error| match how.at_once || self.nonblocking.load(Ordering::Acquire) {
                    true => Error::of(error),
                    false => self.late(Error::of(error)),
                },
            )
    }

    /// Receives one datagram into `buffer`, and returns its length and the sender. A longer datagram is truncated, as
    /// by `recvfrom`.
    pub fn recv_from(&self, buffer: &mut [u8]) -> Result<(usize, Target, Info), Error> {
        self.recv_from_how(buffer, How::default())
    }

    /// Does the same as `how` says.
    pub fn recv_from_how(
        &self,
        buffer: &mut [u8],
        how: How,
    ) -> Result<(usize, Target, Info), Error> {
        if let Some(kept) = self.first_kept(how) {
            return parse_datagram(&kept, buffer).unwrap_or(Err(Error::Protocol("datagram")));
        }
        loop {
            // The payload is received into the caller's buffer. Other messages of the node are short, but also begin in
            // the caller's buffer.
            let mut header = [0; DATAGRAM_HEADER_BYTES];
            let mut more = [0; OTHER_BYTES];
            let mut parts = [&mut header[..], &mut *buffer, &mut more].map(IoSliceMut::new);
            let len = match self.stream.recv_parts(&mut parts, how).map_err(Error::of)? {
                Received::Message(len) => len,
                Received::Truncated(_) => header.len() + buffer.len() + more.len(),
                Received::Empty => return Err(Error::WouldBlock),
                Received::Closed => return Err(Error::Closed),
            };
            if header[0] == kind::DATAGRAM {
                let payload = len.saturating_sub(header.len()).min(buffer.len());
                if let Some(Ok((_, from, info))) =
                    parse_datagram(&header[..len.min(header.len())], &mut [])
                {
                    return Ok((payload, from, info));
                }
                return group_datagram(&header, buffer, &more, len);
            }
            if how.peek {
                // Only a datagram may be received again.
                let at_once = How { peek: false, ..how };
                let _ = self.stream.recv_parts(&mut [], at_once);
            }
            let message: Vec<u8> = header
                .iter()
                .chain(&*buffer)
                .chain(&more)
                .copied()
                .collect();
            match Reply::parse(&message[..len.min(message.len())]) {
                Ok(Reply::Error { code, text }) => {
                    return Err(Error::Refused {
                        code,
                        text: text.to_owned(),
                    });
                }
                Ok(Reply::Room(room)) => self.rooms.hear(&room),
                Ok(_) => {}
                Err(why) => return Err(Error::Protocol(why.label())),
            }
        }
    }

    /// Takes the node's reports about room, as long as no datagram waits before them.
    fn hear_rooms(&self) {
        let peek = How {
            at_once: true,
            peek: true,
        };
        let mut message = [0; ROOM_BYTES];
        // Datagrams are left to the receiving thread.
        while let Ok(Received::Message(ROOM_BYTES)) = self
            .stream
            .recv_parts(&mut [IoSliceMut::new(&mut message)], peek)
            && message[0] == kind::ROOM
        {
            let take = How {
                peek: false,
                ..peek
            };
            let taken = self
                .stream
                .recv_parts(&mut [IoSliceMut::new(&mut message)], take);
            match (taken, Reply::parse(&message)) {
                (Ok(Received::Message(ROOM_BYTES)), Ok(Reply::Room(room))) => {
                    self.rooms.hear(&room)
                }
                // Another thread was faster, and this is a different message.
                _ => return,
            }
        }
    }

    /// Checks whether there is room for what this socket sends to `to`, according to the node's reports. It returns an
    /// error while a link on the path carries other flows and not this one, whose packets it drops. It checks every
    /// tenth of a second. Continue sending, at a lower rate or as before: the node admits the flow when there is room.
    pub fn room_to(&self, to: Target) -> Result<(), Error> {
        if self.rooms.is_due() {
            self.hear_rooms();
        }
        match self.rooms.refuse(|_, refused| refused == to) {
            true => Err(no_room(to)),
            false => Ok(()),
        }
    }

    fn first_kept(&self, how: How) -> Option<Vec<u8>> {
        let mut kept = self.kept();
        match how.peek {
            true => kept.front().cloned(),
            false => kept.pop_front(),
        }
    }

    /// Makes a request, and returns the node's next message that is no datagram; datagrams are kept. The stream must be
    /// blocking.
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
            if let Ok(Reply::Room(room)) = Reply::parse(&buffer[..len]) {
                self.rooms.hear(&room);
                continue;
            }
            if buffer[..len].first() != Some(&kind::DATAGRAM) {
                break len;
            }
            let mut kept = self.kept();
            if kept.len() < MAX_KEPT {
                kept.push_back(buffer[..len].to_vec());
            }
        };
        match Reply::parse(&buffer[..len]) {
            Ok(reply) => answered(reply),
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

    /// Converts the error of a blocking call that would block into a timeout.
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

/// Reads a datagram that was sent to a group: the group was received in front of the payload, where the caller wants
/// the payload. `len` is the length of the message.
fn group_datagram(
    header: &[u8; DATAGRAM_HEADER_BYTES],
    buffer: &mut [u8],
    more: &[u8; OTHER_BYTES],
    len: usize,
) -> Result<(usize, Target, Info), Error> {
    const { assert!(OTHER_BYTES >= GROUP_BYTES) };
    let mut whole = [0; DATAGRAM_HEADER_BYTES + GROUP_BYTES];
    let (front, group) = whole.split_at_mut(header.len());
    front.copy_from_slice(header);
    let here = buffer.len().min(GROUP_BYTES);
    group[..here].copy_from_slice(&buffer[..here]);
    group[here..].copy_from_slice(&more[..GROUP_BYTES - here]);
    let read = parse_datagram(&whole[..len.min(whole.len())], &mut []);
    let (_, from, info) = read.unwrap_or(Err(Error::Protocol("datagram")))?;
    // The rest moves to the front, followed by what did not fit the buffer.
    let kept = buffer.len() - here;
    buffer.copy_within(here.., 0);
    let behind = GROUP_BYTES - here;
    buffer[kept..].copy_from_slice(&more[behind..behind + here]);
    let payload = len.saturating_sub(whole.len()).min(buffer.len());
    Ok((payload, from, info))
}

/// Reads a datagram from a message; `None` if it is another message.
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
            let info = Info {
                remaining,
                recovered: header.recovered,
                group: header.group,
            };
            Ok((len, from, info))
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
