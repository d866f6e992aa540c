//! A socket with a range of virtual ports, for programs that act for many: one connection to the node carries the
//! datagrams of thousands of calls, several in a message.
//!
//! ```text
//!   send_from(port, ..)   one datagram                  recv_from   one datagram, and its port
//!   Sending::push ... send_batch   up to 64 at once     recv_batch  what came together
//! ```

use crate::connection::Connection;
use crate::room::Rooms;
use crate::socket::Node;
use crate::target::destination;
use crate::{Error, Info, Options, Target};
use base::{NodeAddr, VirtualPort};
use core::ops::RangeInclusive;
use core::time::Duration;
use net::unix::{Received, SeqStream};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use wire::ipc::{
    BATCH_HEADER_BYTES, BATCH_MAX, BATCH_PAYLOAD_BYTES_MAX, Destination, ErrorCode, Incoming,
    MESSAGE_BYTES_MAX, OUTGOING_HEADER_BYTES, Ports, Reply, Request, TEXT_BYTES_MAX, kind,
};

/// Largest size of a message with several datagrams: 64 of voice are 12 KiB. A longer datagram has a message of its
/// own.
const SENDING_BYTES_MAX: usize = 16 << 10;

/// Number of reports that are kept until they are taken; beyond that the oldest is dropped. A program that takes them
/// after each receive has fewer: only answers to what it has sent meanwhile.
const TOLD_MAX: usize = 4_096;

/// An overlay socket with a range of virtual ports. Several threads may share it.
#[derive(Debug)]
pub struct RangeSocket {
    stream: SeqStream,
    node: NodeAddr,
    ports: RangeInclusive<u16>,
    max_payload: usize,
    by: Node,
    rooms: Rooms,
    told: Mutex<VecDeque<Told>>,
    /// Datagrams that arrived together and are not taken yet, for [`RangeSocket::recv_from`].
    kept: Mutex<(Batch, usize)>,
}

/// The node's reports to a socket that watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// Whether the node reaches other nodes.
    Reaches(bool),
    /// The node has room for groups again, after a join was refused for lack of room.
    HasPlaces,
    /// The node refused a join.
    NotJoined {
        /// The group.
        group: NodeAddr,
        /// The reason as a code, for programs.
        code: ErrorCode,
        /// The reason as text, for people.
        text: String,
    },
    /// The node refuses what the socket sends to a group. It repeats this report from time to time.
    NotSent {
        /// The group.
        group: NodeAddr,
        /// The reason as text, for people.
        text: String,
    },
}

/// Datagrams that are sent together.
#[derive(Debug, Default)]
pub struct Sending {
    message: Vec<u8>,
    count: usize,
}

/// Datagrams that arrived together. Its memory is reused.
#[derive(Debug)]
pub struct Batch {
    message: Vec<u8>,
    len: usize,
}

impl Node {
    /// Opens a socket with all virtual ports of a range; `0..=0` stands for any one port.
    pub fn bind_range(
        &self,
        ports: RangeInclusive<u16>,
        options: Options,
    ) -> Result<RangeSocket, Error> {
        let until = Instant::now() + self.timeout();
        let connection = Connection::open(self, options, until)?;
        let bind = Request::BindRange {
            first: VirtualPort(*ports.start()),
            last: VirtualPort(*ports.end()),
        };
        let mut buffer = [0; TEXT_BYTES_MAX + 16];
        let Reply::Bound { port } = connection.ask(&bind, until, &mut buffer)?.0 else {
            return Err(Error::Protocol("bound"));
        };
        let ports = match ports == (0..=0) {
            true => port.0..=port.0,
            false => ports,
        };
        connection.stream.set_timeouts(None, Some(self.timeout()))?;
        Ok(RangeSocket {
            stream: connection.stream,
            node: connection.node,
            ports,
            max_payload: connection.max_payload.min(BATCH_PAYLOAD_BYTES_MAX),
            by: connection.by,
            kept: Mutex::default(),
            rooms: Rooms::default(),
            told: Mutex::default(),
        })
    }
}

impl RangeSocket {
    /// Returns the node.
    pub fn node(&self) -> NodeAddr {
        self.node
    }

    /// Returns the ports.
    pub fn ports(&self) -> RangeInclusive<u16> {
        self.ports.clone()
    }

    /// Returns the length of the longest datagram that can be sent.
    pub fn max_payload(&self) -> usize {
        self.max_payload
    }

    /// Sets whether calls fail with [`Error::WouldBlock`] instead of blocking.
    pub fn set_nonblocking(&self, on: bool) -> Result<(), Error> {
        Ok(self.stream.set_nonblocking(on)?)
    }

    /// Joins a group at a port. The node answers later: if it refuses, a later receive returns the error.
    pub fn join(&self, group: NodeAddr, port: u16) -> Result<(), Error> {
        self.tell(&Request::Join(destination(group, port)))
    }

    /// Leaves a group at a port.
    pub fn leave(&self, group: NodeAddr, port: u16) -> Result<(), Error> {
        self.tell(&Request::Leave(destination(group, port)))
    }

    /// Requests reports about the state of the node in the overlay, and about the group of a refused join: see
    /// [`RangeSocket::take_told`].
    pub fn watch(&self) -> Result<(), Error> {
        self.tell(&Request::Watch)
    }

    /// Takes the next report that had arrived by the last receive.
    pub fn take_told(&self) -> Option<Told> {
        self.told().pop_front()
    }

    fn told(&self) -> MutexGuard<'_, VecDeque<Told>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a report. If there are too many, the oldest is dropped.
    fn hear(&self, what: Told) {
        let mut told = self.told();
        if told.len() >= TOLD_MAX {
            told.pop_front();
        }
        told.push_back(what);
    }

    fn tell(&self, request: &Request<'_>) -> Result<(), Error> {
        let mut bytes = [0; 16];
        let len = request.emit(&mut bytes).expect("joins are short");
        let message = &[IoSlice::new(&bytes[..len])];
        self.stream.send_parts(message).map_err(Error::of)
    }

    /// Sends one datagram from `port`. Blocks while the node accepts no more, up to the node's timeout. The node
    /// refuses a port outside the range, and a later receive returns the error.
    pub fn send_from(&self, port: u16, payload: &[u8], to: Target) -> Result<(), Error> {
        self.check(payload.len())?;
        let header = ports(port, to).header(payload.len());
        let parts = [
            IoSlice::new(&[kind::SEND_FROM, 0]),
            IoSlice::new(&header),
            IoSlice::new(payload),
        ];
        self.stream.send_parts(&parts).map_err(Error::of)
    }

    /// Sends the gathered datagrams as one message: all of them, or none if this fails. `sending` is empty afterwards.
    pub fn send_batch(&self, sending: &mut Sending) -> Result<(), Error> {
        if sending.is_empty() {
            return Ok(());
        }
        let sent = self.stream.send_parts(&[IoSlice::new(&sending.message)]);
        sending.clear();
        sent.map_err(Error::of)
    }

    /// Receives one datagram into `buffer`. Returns its length, the port that it is for, and the sender. A longer
    /// datagram is truncated.
    pub fn recv_from(&self, buffer: &mut [u8]) -> Result<(usize, u16, Target, Info), Error> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (batch, taken) = &mut *kept;
        loop {
            if let Some((port, from, info, payload)) = batch.iter().nth(*taken) {
                let len = payload.len().min(buffer.len());
                buffer[..len].copy_from_slice(&payload[..len]);
                *taken += 1;
                return Ok((len, port, from, info));
            }
            *taken = 0;
            self.recv_batch(batch)?;
        }
    }

    /// Receives the datagrams of one message into `batch`, and replaces its content; there is at least one.
    pub fn recv_batch(&self, batch: &mut Batch) -> Result<(), Error> {
        loop {
            batch.len = 0;
            if batch.message.is_empty() {
                batch.message = vec![0; MESSAGE_BYTES_MAX];
            }
            let received = self.stream.recv_into(&mut batch.message);
            let len = match received.map_err(Error::of)? {
                Received::Message(len) => len,
                Received::Truncated(_) => return Err(Error::Protocol("too long")),
                Received::Empty => return Err(Error::WouldBlock),
                Received::Closed => return Err(Error::Closed),
            };
            match Reply::parse(&batch.message[..len]) {
                Ok(Reply::Datagrams(_)) => {
                    batch.len = len;
                    return Ok(());
                }
                Ok(Reply::Error { code, text }) => {
                    return Err(Error::Refused {
                        code,
                        text: text.to_owned(),
                    });
                }
                Ok(Reply::Room(room)) => self.rooms.hear(&room),
                Ok(Reply::State {
                    reaches,
                    has_places,
                }) => {
                    self.hear(Told::Reaches(reaches));
                    if has_places {
                        self.hear(Told::HasPlaces);
                    }
                }
                Ok(Reply::NotJoined {
                    of_sending: true,
                    group,
                    text,
                    ..
                }) => self.hear(Told::NotSent {
                    group,
                    text: text.to_owned(),
                }),
                Ok(Reply::NotJoined {
                    code, group, text, ..
                }) => self.hear(Told::NotJoined {
                    group,
                    code,
                    text: text.to_owned(),
                }),
                Ok(_) => {}
                Err(why) => return Err(Error::Protocol(why.label())),
            }
        }
    }

    /// Returns true while a link on the path has no room for something that this socket sends to `node`, according to
    /// what the node had reported by the last receive.
    pub fn is_refused(&self, node: NodeAddr) -> bool {
        self.rooms.refuse(|_, to| to.node == node)
    }

    /// Returns the node by which it was opened.
    pub fn by(&self) -> &Node {
        &self.by
    }

    fn check(&self, len: usize) -> Result<(), Error> {
        match len <= self.max_payload {
            true => Ok(()),
            false => Err(Error::TooLong {
                len,
                max: self.max_payload,
            }),
        }
    }
}

impl Sending {
    /// Creates an empty collection.
    pub fn new() -> Sending {
        Sending::default()
    }

    /// Returns how many datagrams are in it.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns true if it is empty.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a datagram from `port`. Returns false if there is no room: send the gathered datagrams first. An empty
    /// collection accepts every datagram that can be sent.
    #[must_use]
    pub fn push(&mut self, port: u16, to: Target, payload: &[u8]) -> bool {
        let bytes = self.message.len() + OUTGOING_HEADER_BYTES + payload.len();
        let has_room = self.count < BATCH_MAX && bytes <= SENDING_BYTES_MAX;
        if payload.len() > BATCH_PAYLOAD_BYTES_MAX || !(self.is_empty() || has_room) {
            return false;
        }
        if self.is_empty() {
            self.message.extend([kind::SEND_FROM, 0]);
        }
        self.message.extend(ports(port, to).header(payload.len()));
        self.message.extend_from_slice(payload);
        self.count += 1;
        true
    }

    /// Removes all datagrams.
    pub fn clear(&mut self) {
        self.message.clear();
        self.count = 0;
    }
}

impl Batch {
    /// Creates an empty batch.
    pub fn new() -> Batch {
        Batch {
            message: Vec::new(),
            len: 0,
        }
    }

    /// Returns the datagrams: the port that each is for, its sender, its properties, and its payload.
    pub fn iter(&self) -> impl Iterator<Item = (u16, Target, Info, &[u8])> {
        let datagrams = match Reply::parse(&self.message[..self.len]) {
            Ok(Reply::Datagrams(datagrams)) => Some(datagrams),
            // The batch is empty.
            _ => None,
        };
        let datagrams = datagrams.into_iter();
        datagrams
            .flat_map(|datagrams: Incoming<'_>| datagrams.iter())
            .map(|(own, header, payload)| {
                let remaining = header.remaining.duration();
                let info = Info {
                    remaining: remaining.map(|left| Duration::from_nanos(left.as_nanos())),
                    recovered: header.recovered,
                    group: header.group,
                };
                let from = Target {
                    node: header.source,
                    port: header.source_port,
                };
                (own.0, from, info, payload)
            })
    }
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::new()
    }
}

fn ports(from: u16, to: Target) -> Ports {
    Ports {
        from: VirtualPort(from),
        to: Destination {
            node: to.node,
            port: to.port,
        },
    }
}

const _: () = assert!(
    BATCH_HEADER_BYTES == 2,
    "what is written in front of the first"
);

impl AsFd for RangeSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl AsRawFd for RangeSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.stream.as_fd().as_raw_fd()
    }
}
