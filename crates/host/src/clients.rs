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

mod client;

use base::{ClientId, Map, NodeAddr, Pool};
use client::Client;
use net::epoll::Interest;
use net::unix::{Received, SeqStream};
use overlay::event::Drop;
use overlay::node::MAX_PAYLOAD;
use overlay::request::{Reply, Request, RequestError};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};
use wire::ipc::{self, Datagram, ErrorCode, kind};
use wire::{HEADROOM, TAG_BYTES};

/// Messages taken from one client per turn, so that none starves the others.
pub const READS_PER_TURN: usize = 32;
/// Connections accepted per turn.
pub const ACCEPTS_PER_TURN: usize = 64;
/// Clients of one node: as many as it has sockets.
pub const MAX_CLIENTS: usize = overlay::sockets::MAX_SOCKETS;

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
    /// Those that want to be woken for something else than before.
    changed: Vec<ClientId>,
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
            if client.failed {
                return Err(Gone);
            }
            let Some(mut burst) = pool.small() else {
                if !core::mem::replace(&mut client.held, true) {
                    self.held.push(id);
                    self.changed.push(id);
                }
                return Ok(None);
            };
            burst.reserve_front(HEADROOM);
            let room = burst.spare_mut().len() - TAG_BYTES;
            let before = client.waiting.len();
            let request = match client.stream.recv_into(&mut burst.spare_mut()[..room]) {
                Ok(Received::Message(len)) => {
                    burst.fill(len, len);
                    client.on_message(node, burst)
                }
                Ok(Received::Truncated(_)) => {
                    client.refuse(&RequestError::TooLong { max: MAX_PAYLOAD });
                    None
                }
                Ok(Received::Empty) => return Ok(None),
                Ok(Received::Closed) | Err(_) => return Err(Gone),
            };
            if before == 0 && !client.waiting.is_empty() {
                self.changed.push(id);
            }
            if request.is_some() {
                return Ok(request);
            }
        }
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
                self.changed.push(id);
            }
        }
    }

    /// True if the client is held back: what it still has to say cannot be taken.
    pub fn is_held(&self, id: ClientId) -> bool {
        self.clients.get(&id).is_some_and(|client| client.held)
    }

    /// Calls `watch` for each client that wants to be woken for something else than before.
    pub fn take_changed(&mut self, mut watch: impl FnMut(ClientId, BorrowedFd<'_>, Interest)) {
        for id in self.changed.drain(..) {
            if let Some(client) = self.clients.get(&id) {
                let interest = Interest {
                    read: !client.held,
                    write: !client.waiting.is_empty(),
                };
                watch(id, client.stream.as_fd(), interest);
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
                remaining,
                payload,
            } => {
                let header = Datagram {
                    source: from,
                    source_port: port,
                    recovered: false,
                    remaining,
                };
                return client.datagram(header, &payload);
            }
            Reply::Bound { port } => {
                client.port = Some(port);
                client.answer(&ipc::Reply::Bound { port });
            }
            Reply::Done => client.answer(&ipc::Reply::Done {
                request: kind::OPTIONS,
            }),
            Reply::Refused(why) => client.refuse(&why),
            // The messages of clients have no streams, so no client has asked for one.
            Reply::Stream(_) => return Err(Drop::NoSocket),
        }
        if before == 0 && !client.waiting.is_empty() {
            self.changed.push(id);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
