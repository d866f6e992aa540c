//! The clients of the node: connections on its Unix socket, one per overlay socket.
//!
//! ```text
//!   connected --Hello--> greeted --Bind/Options/Connect/SendTo--> ... --Raw--> raw payload only
//! ```
//! A client that does not read loses datagrams, counted; a client that breaks the protocol is told
//! and disconnected; one that connects and says nothing goes when its place is needed; nobody else
//! is affected by any of them. Data is read into packet buffers with the headroom that the way out
//! needs, so nothing is copied inside the node. When there is no buffer, messages stay in the
//! clients' sockets, and the clients wait.
//!
//! A client that has opened a stream, or stands for one that a listener has been given, has a
//! second descriptor, the stream's: see `stream` and `serve`.

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
/// Clients of one node: as many as it has sockets.
pub const MAX_CLIENTS: usize = overlay::sockets::MAX_SOCKETS;

/// Bytes of a small buffer between the headroom and the tag of a packet.
const SMALL_ROOM: usize = base::pool::SMALL_BYTES - SEALED_HEADROOM - 2 * TAG_BYTES;
/// Bytes of the longest message beyond that: a datagram of 65 507 bytes and its header fill a large
/// buffer but for 22.
const LONG_BYTES: usize = base::pool::LARGE_BYTES - SMALL_ROOM;

/// The client is gone or has been sent away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// All connected clients.
#[derive(Debug)]
pub struct Clients {
    node: NodeAddr,
    max: usize,
    clients: Map<ClientId, Client>,
    last_id: u32,
    /// In the order of their coming; those that are greeted or gone leave late.
    ungreeted: VecDeque<ClientId>,
    /// Held back until there are buffers again.
    held: Vec<ClientId>,
    /// Those that may want to be woken for something else than before.
    changed: Vec<ClientId>,
    /// What the clients' streams ask of the engine beside what the clients say.
    asks: VecDeque<(ClientId, Request)>,
    /// Those whose applications have taken bytes that the engine has not been told about.
    consuming: Vec<ClientId>,
    /// Where the end of a message lands that is longer than a small buffer.
    long: Box<[u8]>,
    /// Those whose streams are to be read though no descriptor will say so.
    resumed: Vec<ClientId>,
    /// Those to whom datagrams are handed over at the end of the turn.
    gathering: Vec<ClientId>,
    /// One has begun to watch, and is to be told how the node stands.
    untold: bool,
}

/// Which descriptor of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The connection over which it asks and is told.
    Connection,
    /// Its stream.
    Stream,
}

/// What a descriptor is to be watched for from now on.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Whose it is.
    pub client: ClientId,
    /// Which of his.
    pub which: Which,
    /// The descriptor.
    pub fd: BorrowedFd<'a>,
    /// What it was watched for; `None` for nothing at all.
    pub was: Option<Interest>,
    /// What it is to be watched for.
    pub is: Option<Interest>,
}

impl Clients {
    /// No clients of the node with address `node`.
    pub fn new(node: NodeAddr) -> Clients {
        Clients::bounded(node, MAX_CLIENTS)
    }

    /// The same, with room for at most `max`.
    pub fn bounded(node: NodeAddr, max: usize) -> Clients {
        Clients {
            node,
            max,
            clients: Map::default(),
            last_id: 0,
            ungreeted: VecDeque::new(),
            held: Vec::new(),
            changed: Vec::new(),
            asks: VecDeque::new(),
            consuming: Vec::new(),
            long: vec![0; LONG_BYTES].into_boxed_slice(),
            resumed: Vec::new(),
            gathering: Vec::new(),
            untold: false,
        }
    }

    /// How many are connected.
    pub fn len(&self) -> usize {
        self.clients.len()
    }

    /// True when nobody is connected.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// An id for one more client, or `None` when there are too many. The one that has said nothing
    /// for the longest time makes room.
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
            // At least half of them are gone or greeted, so this is rare enough to cost nothing.
            let clients = &self.clients;
            self.ungreeted
                .retain(|id| clients.get(id).is_some_and(|c| !c.greeted));
        }
        self.ungreeted.push_back(id);
    }

    fn evict_ungreeted(&mut self) -> bool {
        while let Some(id) = self.ungreeted.pop_front() {
            if self.clients.get(&id).is_some_and(|client| !client.greeted) {
                // The engine has never heard of it.
                self.clients.remove(&id);
                return true;
            }
        }
        false
    }

    /// Tells one for whom there is no room.
    pub fn refuse(stream: &SeqStream) {
        let text = "the node has as many clients as it serves: close some";
        let mut bytes = [0; ipc::TEXT_BYTES_MAX + 16];
        let reply = ipc::Reply::Error {
            code: ErrorCode::TooManySockets,
            text,
        };
        if let Ok(len) = reply.emit(&mut bytes) {
            // It sees the end of the connection anyway.
            let _ = stream.send_parts(&[IoSlice::new(&bytes[..len])]);
        }
    }

    /// Disconnects a client.
    pub fn remove(&mut self, id: ClientId) {
        self.clients.remove(&id);
    }

    /// The next request of a client, if it has one for the engine.
    pub fn read(&mut self, id: ClientId, pool: &Pool) -> Result<Option<Request>, Gone> {
        let node = self.node;
        let client = self.clients.get_mut(&id).ok_or(Gone)?;
        loop {
            if let Some(request) = client.next_sent(pool) {
                return Ok(Some(request));
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
            // Nearly all messages fit a small buffer; the rest of one that does not is caught behind.
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
                    // It keeps the stream and does not want to know how it ends.
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
    }

    /// A client has datagrams to be taken that its socket does not tell of.
    pub fn has_sent(&self, id: ClientId) -> bool {
        self.clients.get(&id).is_some_and(Client::has_sent)
    }

    /// Hands over what has come in this turn for sockets with ranges; how many datagrams were lost
    /// because their clients read too slowly, and because they are gone.
    pub fn end_turn(&mut self) -> (u32, u32) {
        let (mut slow, mut gone) = (0, 0);
        for id in self.gathering.drain(..) {
            let client = self.clients.get_mut(&id);
            let lost = client.map_or((0, 0), Client::end_turn);
            (slow, gone) = (slow + lost.0, gone + lost.1);
        }
        (slow, gone)
    }

    /// Tells those who watch whether the node reaches others, if they do not know, and that it has places
    /// for groups again.
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

    /// A socket has begun to watch and was not told yet.
    pub fn has_untold(&mut self) -> bool {
        core::mem::take(&mut self.untold)
    }

    /// Sends a client what waits for it, now that its socket may take more.
    pub fn write(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.send_waiting();
            if client.waiting.is_empty() {
                self.changed.push(id);
            }
        }
    }

    /// Lets the clients go on that were held back, if there are buffers again.
    pub fn release_held(&mut self, pool: &Pool) {
        if self.held.is_empty() || pool.small().is_none() {
            return;
        }
        for id in self.held.drain(..) {
            if let Some(client) = self.clients.get_mut(&id) {
                client.held = false;
                if let Some(end) = client.end() {
                    end.held = false;
                    if end.is_hung_up() {
                        self.resumed.push(id);
                    }
                }
                self.changed.push(id);
            }
        }
    }

    /// True if the client is held back: what it still has to say cannot be taken.
    pub fn is_held(&self, id: ClientId) -> bool {
        self.clients.get(&id).is_some_and(|client| client.held)
    }

    /// Calls `watch` for each descriptor that is to be watched for something else than before.
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

    /// Tells all clients that the node is stopping, and disconnects them.
    pub fn stop(&mut self) {
        for client in self.clients.values_mut() {
            client.error(ErrorCode::Stopping, "the node is stopping");
        }
        self.clients.clear();
    }

    /// Hands a reply to a client; the reason when it is lost.
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

/// A message in one buffer. It is cut inside the node and needs no headroom.
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
