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

use base::{Burst, ClientId, Map, NodeAddr, Pool, VirtualPort};
use net::epoll::Interest;
use net::unix::{Received, SeqStream};
use overlay::event::Drop;
use overlay::node::MAX_PAYLOAD;
use overlay::request::{Reply, Request, RequestError};
use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use wire::ipc::{self, Datagram, Destination, ErrorCode, kind};
use wire::{HEADROOM, TAG_BYTES};

/// Messages taken from one client per turn, so that none starves the others.
pub const READS_PER_TURN: usize = 32;
/// Connections accepted per turn.
pub const ACCEPTS_PER_TURN: usize = 64;
/// Clients of one node: as many as it has sockets.
pub const MAX_CLIENTS: usize = overlay::sockets::MAX_SOCKETS;
/// Answers that may wait for a client that does not read, before it is disconnected.
const MAX_WAITING_ANSWERS: usize = 64;

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

#[derive(Debug)]
struct Client {
    stream: SeqStream,
    greeted: bool,
    raw: bool,
    port: Option<VirtualPort>,
    connected: Option<Destination>,
    /// Answers that did not fit the client's buffer yet.
    waiting: VecDeque<Vec<u8>>,
    /// No message is taken from it until there are buffers again.
    held: bool,
    failed: bool,
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
        let client = Client {
            stream,
            greeted: false,
            raw: false,
            port: None,
            connected: None,
            waiting: VecDeque::new(),
            held: false,
            failed: false,
        };
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
        }
        if before == 0 && !client.waiting.is_empty() {
            self.changed.push(id);
        }
        Ok(())
    }
}

impl Client {
    /// Handles one message; a request when the engine has to act.
    fn on_message(&mut self, node: NodeAddr, mut message: Burst) -> Option<Request> {
        if self.raw {
            let to = self.connected?;
            return Some(Request::Send {
                to: to.node,
                port: to.port,
                payload: message,
            });
        }
        let request = match ipc::Request::parse(message.bytes()) {
            Ok(request) => request,
            Err(why) => {
                self.fail(ErrorCode::Malformed, why.label());
                return None;
            }
        };
        match request {
            ipc::Request::Hello { version } if version == ipc::VERSION => {
                self.greeted = true;
                self.answer(&ipc::Reply::welcome(node, MAX_PAYLOAD as u16));
                None
            }
            ipc::Request::Hello { .. } => {
                self.fail(
                    ErrorCode::Version,
                    "this node speaks version 1 of the client protocol",
                );
                None
            }
            _ if !self.greeted => {
                self.fail(ErrorCode::Version, "say Hello first");
                None
            }
            ipc::Request::Bind { port } => match self.port {
                Some(bound) if port.0 != 0 && port != bound => {
                    self.error(
                        ErrorCode::AlreadyBound,
                        "the socket is bound: open another one",
                    );
                    None
                }
                bound => Some(Request::Bind {
                    port: bound.unwrap_or(port),
                }),
            },
            ipc::Request::Options(options) => Some(Request::Options(options)),
            ipc::Request::SendTo(to, _) => {
                message.trim(ipc::SEND_TO_HEADER_BYTES, 0);
                Some(Request::Send {
                    to: to.node,
                    port: to.port,
                    payload: message,
                })
            }
            ipc::Request::Connect(to) => {
                self.connected = Some(to);
                Some(Request::Bind {
                    port: self.port.unwrap_or(ipc::ANY_PORT),
                })
            }
            ipc::Request::Raw if self.connected.is_some() => {
                self.answer(&ipc::Reply::Done { request: kind::RAW });
                self.raw = true;
                None
            }
            ipc::Request::Raw => {
                self.error(
                    ErrorCode::NotBound,
                    "connect the socket before it becomes raw",
                );
                None
            }
        }
    }

    fn datagram(&mut self, header: Datagram, payload: &Burst) -> Result<(), Drop> {
        let sent = if self.raw {
            let from = Destination {
                node: header.source,
                port: header.source_port,
            };
            if self.connected != Some(from) {
                return Err(Drop::NoSocket);
            }
            self.stream.send_parts(&[IoSlice::new(payload.bytes())])
        } else if self.waiting.is_empty() {
            let header = header.to_bytes();
            self.stream
                .send_parts(&[IoSlice::new(&header), IoSlice::new(payload.bytes())])
        } else {
            return Err(Drop::ClientSlow);
        };
        match sent {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(Drop::ClientSlow),
            Err(_) => Err(Drop::NoSocket),
        }
    }

    /// Sends an answer, or keeps it until the client reads; a client that never does is sent away.
    fn answer(&mut self, reply: &ipc::Reply<'_>) {
        if self.raw {
            return;
        }
        let mut bytes = [0; ipc::TEXT_BYTES_MAX + 16];
        let Ok(len) = reply.emit(&mut bytes) else {
            return;
        };
        self.send_waiting();
        let sent = if self.waiting.is_empty() {
            self.stream.send_parts(&[IoSlice::new(&bytes[..len])])
        } else {
            Err(ErrorKind::WouldBlock.into())
        };
        if let Err(error) = sent {
            let patient = error.kind() == ErrorKind::WouldBlock;
            if patient && self.waiting.len() < MAX_WAITING_ANSWERS {
                self.waiting.push_back(bytes[..len].to_vec());
            } else {
                self.failed = true;
            }
        }
    }

    fn send_waiting(&mut self) {
        while let Some(bytes) = self.waiting.front() {
            if self.stream.send_parts(&[IoSlice::new(bytes)]).is_err() {
                return;
            }
            self.waiting.pop_front();
        }
    }

    fn refuse(&mut self, why: &RequestError) {
        self.error(error_code(why), &why.to_string());
    }

    fn error(&mut self, code: ErrorCode, text: &str) {
        self.answer(&ipc::Reply::Error { code, text });
    }

    fn fail(&mut self, code: ErrorCode, text: &str) {
        self.error(code, text);
        self.failed = true;
    }
}

fn error_code(why: &RequestError) -> ErrorCode {
    match why {
        RequestError::PortInUse => ErrorCode::PortInUse,
        RequestError::Exhausted => ErrorCode::TooManySockets,
        RequestError::TooLong { .. } => ErrorCode::TooLong,
        RequestError::Unsupported | RequestError::BadDestination => ErrorCode::Unsupported,
        RequestError::PortReserved
        | RequestError::NotALab
        | RequestError::NoSuchNeighbor
        | RequestError::BadCredential => ErrorCode::Forbidden,
    }
}

#[cfg(test)]
mod tests;
