//! The clients of the node: connections on its Unix socket, one per overlay socket.
//!
//! ```text
//!   connected --Hello--> greeted --Bind/Options/Connect/SendTo--> ... --Raw--> raw payload only
//! ```
//! A client that does not read loses datagrams, and they are counted. A client that violates the protocol gets an error
//! and is disconnected. A client that connects and sends nothing is removed when its place is needed. None of them
//! affects other clients. Data is read into packet buffers with the headroom that sending needs, so nothing is copied
//! inside the node. If there is no buffer, messages stay in the clients' sockets, and the clients wait.
//!
//! A client that has opened a stream, or that represents a stream given to a listener, has a second descriptor, the
//! stream's: see `stream` and `serve`.

mod client;
mod serve;
mod stream;

use base::{Burst, ClientId, Map, NodeAddr, Pool};
use client::Client;
pub(crate) use client::error_code;
use net::epoll::Interest;
use net::unix::{How, Received, SeqStream};
use overlay::event::Drop;
use overlay::node::MAX_DATAGRAM;
use overlay::request::{Reply, Request, RequestError};
pub use serve::STREAM_READS_PER_TURN;
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use wire::ipc::{self, Datagram, ErrorCode, kind};
use wire::{SEALED_HEADROOM, TAG_BYTES};

/// Messages taken from one client per turn, so that none starves the others.
pub const READS_PER_TURN: usize = 32;
/// Connections accepted per turn.
pub const ACCEPTS_PER_TURN: usize = 64;
/// Largest number of clients of one node: as many as it has sockets.
pub const MAX_CLIENTS: usize = overlay::sockets::MAX_SOCKETS;
/// Descriptors of a process that no client takes: sockets of the underlay, operators, the log, transfers.
pub const DESCRIPTORS_KEPT: u64 = 256;
/// Descriptors that a client takes: its connection, and a stream.
pub const DESCRIPTORS_EACH: u64 = 2;

/// Number of bytes in a small buffer between the headroom and the tag of a packet.
const SMALL_ROOM: usize = base::pool::SMALL_BYTES - SEALED_HEADROOM - 2 * TAG_BYTES;
/// Number of bytes of the longest message beyond that: a datagram of 65 507 bytes and its header fill a large buffer
/// except for 22 bytes.
const LONG_BYTES: usize = base::pool::LARGE_BYTES - SMALL_ROOM;

/// The client is gone or was disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// All connected clients.
#[derive(Debug)]
pub struct Clients {
    node: NodeAddr,
    max: usize,
    clients: Map<ClientId, Client>,
    last_id: u32,
    /// Clients that have not sent Hello, in the order of connecting. Clients that have greeted or gone are removed
    /// later.
    ungreeted: VecDeque<ClientId>,
    /// Clients that are held back until there are small buffers again.
    held: Vec<ClientId>,
    /// Clients whose streams are held back until there are large buffers again.
    held_streams: Vec<ClientId>,
    /// Clients whose descriptors may have to be watched for something else than before.
    changed: Vec<ClientId>,
    /// Requests of the clients' streams to the engine, in addition to those that the clients send.
    asks: VecDeque<(ClientId, Request)>,
    /// Clients whose applications have taken bytes that the engine does not know about yet.
    consuming: Vec<ClientId>,
    /// Receives the end of a message that is longer than a small buffer.
    long: Box<[u8]>,
    /// Clients whose streams have to be read although no descriptor will be reported as ready.
    resumed: Vec<ClientId>,
    /// Clients that get datagrams at the end of the turn.
    gathering: Vec<ClientId>,
    /// A client has begun to watch, and is to get the state of the node.
    untold: bool,
}

/// Selects a descriptor of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The connection for requests and replies.
    Connection,
    /// The client's stream.
    Stream,
}

/// A change of what a descriptor is watched for.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The client.
    pub client: ClientId,
    /// Which of its descriptors.
    pub which: Which,
    /// The descriptor.
    pub fd: BorrowedFd<'a>,
    /// The events that it was watched for so far; `None` for none.
    pub was: Option<Interest>,
    /// The events that it is to be watched for from now on; `None` for none.
    pub is: Option<Interest>,
}

/// Returns the number of clients for which a process has room that may have this many descriptors.
fn room(descriptors: u64) -> usize {
    let room = descriptors.saturating_sub(DESCRIPTORS_KEPT) / DESCRIPTORS_EACH;
    usize::try_from(room)
        .unwrap_or(MAX_CLIENTS)
        .clamp(1, MAX_CLIENTS)
}

impl Clients {
    /// Creates an empty set for the node with address `node`. It has room for as many clients as the process has
    /// descriptors for, so that one program with many sockets does not keep the operator out.
    pub fn new(node: NodeAddr) -> Clients {
        let descriptors = net::sched::descriptors().unwrap_or(u64::MAX);
        Clients::bounded(node, room(descriptors))
    }

    /// Creates the same with room for at most `max` clients.
    pub fn bounded(node: NodeAddr, max: usize) -> Clients {
        Clients {
            node,
            max,
            clients: Map::default(),
            last_id: 0,
            ungreeted: VecDeque::new(),
            held: Vec::new(),
            held_streams: Vec::new(),
            changed: Vec::new(),
            asks: VecDeque::new(),
            consuming: Vec::new(),
            long: vec![0; LONG_BYTES].into_boxed_slice(),
            resumed: Vec::new(),
            gathering: Vec::new(),
            untold: false,
        }
    }

    /// Returns the number of connected clients.
    pub fn len(&self) -> usize {
        self.clients.len()
    }

    /// Returns true if no client is connected.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Returns an id for one more client, or `None` if there are too many. The client that has been silent since it
    /// connected for the longest time makes room.
    pub fn next_id(&mut self) -> Option<ClientId> {
        if self.clients.len() >= self.max && !self.evict_ungreeted() {
            return None;
        }
        loop {
            self.last_id = self.last_id.wrapping_add(1).max(1);
            let id = ClientId(self.last_id);
            if !self.clients.contains_key(&id) {
                return Some(id);
            }
        }
    }

    /// Takes in a connection.
    pub fn insert(&mut self, id: ClientId, stream: SeqStream) {
        let client = Client::new(stream);
        self.clients.insert(id, client);
        if self.ungreeted.len() >= 2 * self.max {
            // At least half of them have gone or greeted, so this is rare enough to cost almost nothing.
            let clients = &self.clients;
            self.ungreeted
                .retain(|id| clients.get(id).is_some_and(|c| !c.greeted));
        }
        self.ungreeted.push_back(id);
    }

    fn evict_ungreeted(&mut self) -> bool {
        while let Some(id) = self.ungreeted.pop_front() {
            if self.clients.get(&id).is_some_and(|client| !client.greeted) {
                // The engine does not know this client.
                self.clients.remove(&id);
                return true;
            }
        }
        false
    }

    /// Sends a refusal to a client for which there is no room.
    pub fn refuse(stream: &SeqStream) {
        let text = "the node has as many clients as it serves: close some";
        let mut bytes = [0; ipc::TEXT_BYTES_MAX + 16];
        let reply = ipc::Reply::Error {
            code: ErrorCode::TooManySockets,
            text,
        };
        if let Ok(len) = reply.emit(&mut bytes) {
            // If this fails, the client still sees the end of the connection.
            let _ = stream.send_parts(&[IoSlice::new(&bytes[..len])]);
        }
    }

    /// Disconnects a client.
    pub fn remove(&mut self, id: ClientId) {
        self.clients.remove(&id);
    }

    /// Returns the next request of a client to the engine, if there is one. Messages that need no engine are handled
    /// here, a limited number of them: the poller reports the rest again.
    pub fn read(&mut self, id: ClientId, pool: &Pool) -> Result<Option<Request>, Gone> {
        let node = self.node;
        let client = self.clients.get_mut(&id).ok_or(Gone)?;
        for _ in 0..READS_PER_TURN {
            let before = client.waiting.len();
            let next = client.next_sent(pool);
            if before == 0 && !client.waiting.is_empty() {
                self.changed.push(id);
            }
            if next.is_some() {
                return Ok(next);
            }
            if client.failed {
                return Err(Gone);
            }
            if client.deaf {
                self.changed.push(id);
                return Ok(None);
            }
            let Some(mut burst) = pool.small() else {
                if !core::mem::replace(&mut client.held, true) {
                    self.held.push(id);
                    self.changed.push(id);
                }
                return Ok(None);
            };
            burst.reserve_front(SEALED_HEADROOM);
            let room = SMALL_ROOM;
            let before = client.waiting.len();
            // Nearly all messages fit a small buffer. The rest of a longer one is received into `long`.
            let mut parts = [
                IoSliceMut::new(&mut burst.spare_mut()[..room]),
                IoSliceMut::new(&mut self.long),
            ];
            let request = match client.stream.recv_parts(&mut parts, How::default()) {
                Ok(Received::Message(len)) if len <= room => {
                    burst.fill(len, len);
                    client.on_message(node, burst)
                }
                Ok(Received::Message(len)) => {
                    burst.fill(room, room);
                    match long_message(pool, &burst, &self.long[..len - room]) {
                        Some(message) => client.on_message(node, message),
                        None => {
                            client.refuse(&RequestError::Exhausted);
                            None
                        }
                    }
                }
                Ok(Received::Truncated(_)) => {
                    client.refuse(&RequestError::TooLong { max: MAX_DATAGRAM });
                    None
                }
                Ok(Received::Empty) => return Ok(None),
                Ok(Received::Closed) | Err(_) if client.end().is_some() => {
                    // The client keeps the stream and does not want to know how it ends.
                    client.deaf = true;
                    self.changed.push(id);
                    return Ok(None);
                }
                Ok(Received::Closed) | Err(_) => return Err(Gone),
            };
            if before == 0 && !client.waiting.is_empty() {
                self.changed.push(id);
            }
            self.untold |= client.watches && client.told_reaches.is_none();
            if request.is_some() {
                return Ok(request);
            }
        }
        Ok(None)
    }

    /// Returns true if a client has sent datagrams that are already received but not taken. Its socket does not show
    /// them.
    pub fn has_sent(&self, id: ClientId) -> bool {
        self.clients.get(&id).is_some_and(Client::has_sent)
    }

    /// Delivers what has arrived in this turn for sockets with ranges. Returns how many datagrams were lost because
    /// their clients read too slowly, and how many because the clients are gone.
    pub fn end_turn(&mut self) -> (u32, u32) {
        let (mut slow, mut gone) = (0, 0);
        for id in self.gathering.drain(..) {
            let client = self.clients.get_mut(&id);
            let lost = client.map_or((0, 0), Client::end_turn);
            (slow, gone) = (slow + lost.0, gone + lost.1);
        }
        (slow, gone)
    }

    /// Informs the watching clients whether the node reaches other nodes, if they do not know it yet, and that it has
    /// room for groups again.
    pub fn tell_state(&mut self, reaches: bool, has_places: bool) {
        for (id, client) in &mut self.clients {
            if !client.watches || (!has_places && client.told_reaches == Some(reaches)) {
                continue;
            }
            client.told_reaches = Some(reaches);
            let before = client.waiting.len();
            client.answer(&ipc::Reply::State {
                reaches,
                has_places,
            });
            if before == 0 && !client.waiting.is_empty() {
                self.changed.push(*id);
            }
        }
    }

    /// Returns true if a client has begun to watch and was not informed yet.
    pub fn has_untold(&mut self) -> bool {
        core::mem::take(&mut self.untold)
    }

    /// Sends a client what waits for it, because its socket may have room again.
    pub fn write(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.send_waiting();
            if client.waiting.is_empty() {
                self.changed.push(id);
            }
        }
    }

    /// Releases the clients and streams that were held back, if there are buffers again.
    pub fn release_held(&mut self, pool: &Pool) {
        if !self.held.is_empty() && pool.small().is_some() {
            for id in self.held.drain(..) {
                if let Some(client) = self.clients.get_mut(&id) {
                    client.held = false;
                    self.changed.push(id);
                }
            }
        }
        // Streams are read into large buffers.
        if !self.held_streams.is_empty() && pool.large().is_some() {
            for id in self.held_streams.drain(..) {
                if let Some(end) = self.clients.get_mut(&id).and_then(Client::end) {
                    end.held = false;
                    if end.is_hung_up() {
                        self.resumed.push(id);
                    }
                    self.changed.push(id);
                }
            }
        }
    }

    /// Returns true if the client is held back: its remaining messages cannot be taken yet.
    pub fn is_held(&self, id: ClientId) -> bool {
        self.clients.get(&id).is_some_and(|client| client.held)
    }

    /// Calls `watch` for each descriptor that has to be watched for something else than before.
    pub fn take_changed(&mut self, mut watch: impl FnMut(Change<'_>)) {
        for client_id in self.changed.drain(..) {
            let Some(client) = self.clients.get_mut(&client_id) else {
                continue;
            };
            let is = client.interest();
            if client.watched != is {
                watch(Change {
                    client: client_id,
                    which: Which::Connection,
                    fd: client.stream.as_fd(),
                    was: client.watched,
                    is,
                });
                client.watched = is;
            }
            let Some(end) = client.end() else {
                continue;
            };
            let is = end.interest();
            if end.watched != is {
                watch(Change {
                    client: client_id,
                    which: Which::Stream,
                    fd: end.as_fd(),
                    was: end.watched,
                    is,
                });
                end.watched = is;
            }
        }
    }

    /// Informs all clients that the node is stopping, and disconnects them.
    pub fn stop(&mut self) {
        for client in self.clients.values_mut() {
            client.error(ErrorCode::Stopping, "the node is stopping");
        }
        self.clients.clear();
    }

    /// Delivers a reply to a client. The error is the reason for which the reply is lost.
    pub fn deliver(&mut self, id: ClientId, reply: Reply) -> Result<(), Drop> {
        let client = self.clients.get_mut(&id).ok_or(Drop::NoSocket)?;
        let before = client.waiting.len();
        match reply {
            Reply::Datagram {
                from,
                port,
                to,
                group,
                recovered,
                remaining,
                payload,
            } => {
                if !client.takes_datagrams() {
                    return Err(Drop::NoSocket);
                }
                let header = Datagram {
                    group,
                    source: from,
                    source_port: port,
                    recovered,
                    remaining,
                };
                if !client.is_range() {
                    return client.datagram(header, &payload);
                }
                if client.gather(to, header, payload.bytes())? {
                    self.gathering.push(id);
                }
                return Ok(());
            }
            Reply::Bound { port } => {
                client.port = Some(port);
                client.answer(&ipc::Reply::Bound { port });
            }
            Reply::Joined => client.answer(&ipc::Reply::Done {
                request: kind::JOIN,
            }),
            Reply::Left => client.answer(&ipc::Reply::Done {
                request: kind::LEAVE,
            }),
            Reply::Done => client.answer(&ipc::Reply::Done {
                request: kind::OPTIONS,
            }),
            Reply::Room {
                from,
                to,
                port,
                is_there,
            } => client.answer(&ipc::Reply::Room(ipc::Room {
                is_there,
                from,
                to: ipc::Destination { node: to, port },
            })),
            Reply::Refused(RequestError::MayNotSend { group }) if client.watches => {
                let why = RequestError::MayNotSend { group };
                client.answer(&ipc::Reply::NotJoined {
                    of_sending: true,
                    code: error_code(&why),
                    group,
                    text: &why.to_string(),
                });
            }
            Reply::NotJoined { group, why } if client.watches => {
                client.answer(&ipc::Reply::NotJoined {
                    of_sending: false,
                    code: error_code(&why),
                    group,
                    text: &why.to_string(),
                });
            }
            Reply::NotJoined { why, .. } | Reply::Refused(why) => {
                return self.on_refused(id, &why);
            }
            Reply::Stream(reply) => return self.on_stream(id, reply),
        }
        if before == 0 && !client.waiting.is_empty() {
            self.changed.push(id);
        }
        Ok(())
    }
}

/// Joins a message in one buffer. It is fragmented inside the node and needs no headroom.
fn long_message(pool: &Pool, front: &Burst, rest: &[u8]) -> Option<Burst> {
    let mut message = pool.large()?;
    let len = front.len() + rest.len();
    let place = message.spare_mut().get_mut(..len)?;
    place[..front.len()].copy_from_slice(front.bytes());
    place[front.len()..].copy_from_slice(rest);
    message.fill(len, len);
    Some(message)
}

#[cfg(test)]
mod tests;
