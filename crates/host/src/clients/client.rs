//! One client: its requests and the replies to it.

use super::stream::{End, Role};
use base::{Burst, NodeAddr, Pool, VirtualPort};
use net::epoll::Interest;
use net::unix::{Received, SeqStream};
use overlay::event::Drop;
use overlay::node::MAX_DATAGRAM;
use overlay::request::{Request, RequestError};
use overlay::stream::{ResetReason, StreamRequest};
use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice};
use wire::SEALED_HEADROOM;
use wire::ipc::{self, Datagram, Destination, ErrorCode, kind};

/// Largest size of a message in which several datagrams are delivered: it fits the kernel's pages at once, and holds 64
/// datagrams of voice. A longer datagram has a message of its own.
const GATHERED_BYTES_MAX: usize = 16 << 10;
/// Number of answers that may wait for a client that does not read, before it is disconnected.
pub(super) const MAX_WAITING_ANSWERS: usize = 64;

/// Number of messages that are read for the announcement that a stream ends in order. Choice: more than the kernel keeps
/// for a socket, so that only a client that writes all the time exceeds it.
const MESSAGES_BEFORE_END: usize = 1_024;

#[derive(Debug)]
pub(super) struct Client {
    pub(super) stream: SeqStream,
    pub(super) greeted: bool,
    raw: bool,
    pub(super) port: Option<VirtualPort>,
    /// It has a range of ports, or has requested one.
    is_range: bool,
    /// Datagrams that it has sent in one message and that are not taken yet: the message, and the offset of the next
    /// datagram.
    sent: Option<(Burst, usize)>,
    /// Datagrams that have arrived for it in this turn, as one message.
    came: Vec<u8>,
    came_count: usize,
    /// How many of them were lost because the client did not take them, and how many because it is gone.
    lost: (u32, u32),
    connected: Option<Destination>,
    /// Answers for which the client's buffer has had no room yet.
    pub(super) waiting: VecDeque<Vec<u8>>,
    /// No message is taken from it until there are buffers again.
    pub(super) held: bool,
    pub(super) failed: bool,
    pub(super) role: Role,
    /// It accepts streams.
    pub(super) listens: bool,
    /// It has announced that its data to the stream ends in order.
    finishing: bool,
    /// It has closed this connection and keeps its stream: nothing can be sent to it.
    pub(super) deaf: bool,
    /// The events that the poller watches the connection for.
    pub(super) watched: Option<Interest>,
    /// It wants to know the state of the node in the overlay.
    pub(super) watches: bool,
    /// Whether the node reaches other nodes, as last reported to it.
    pub(super) told_reaches: Option<bool>,
}

impl Client {
    /// Creates a client that has just connected.
    pub(super) fn new(stream: SeqStream) -> Client {
        Client {
            stream,
            greeted: false,
            raw: false,
            port: None,
            is_range: false,
            sent: None,
            came: Vec::new(),
            came_count: 0,
            lost: (0, 0),
            connected: None,
            waiting: VecDeque::new(),
            held: false,
            failed: false,
            role: Role::Socket,
            listens: false,
            finishing: false,
            deaf: false,
            watched: Some(Interest::READ),
            watches: false,
            told_reaches: None,
        }
    }

    /// Creates a client that stands for a stream to a listener.
    pub(super) fn accepting(stream: SeqStream, offer: super::stream::Offer) -> Client {
        Client {
            greeted: true,
            role: Role::Accepting(Box::new(offer)),
            watched: None,
            ..Client::new(stream)
        }
    }

    /// Returns what the connection is to be watched for.
    pub(super) fn interest(&self) -> Option<Interest> {
        (!self.deaf).then_some(Interest {
            read: !self.held,
            write: !self.waiting.is_empty(),
        })
    }

    /// Returns the node's end of its stream, if it has one.
    pub(super) fn end(&mut self) -> Option<&mut End> {
        match &mut self.role {
            Role::Stream(end) => Some(end),
            _ => None,
        }
    }

    /// Returns true if the client has announced that its data to the stream ends in order. The announcement comes
    /// before that end, so the messages that it has sent until now are read first.
    pub(super) fn has_finished(&mut self) -> bool {
        let mut bytes = [0; 16];
        for _ in 0..MESSAGES_BEFORE_END {
            if self.finishing {
                break;
            }
            let message = match self.stream.recv_into(&mut bytes) {
                Ok(Received::Message(len)) => &bytes[..len],
                Ok(Received::Truncated(_)) => continue,
                // The reader of the connection will notice itself that the client has closed it.
                Ok(Received::Empty | Received::Closed) | Err(_) => return false,
            };
            match ipc::Request::parse(message) {
                Ok(ipc::Request::Finish) => self.finishing = true,
                Ok(ipc::Request::Reset) => return false,
                // No other message concerns a stream.
                _ => {}
            }
        }
        self.finishing
    }

    /// Reports why its stream has ended prematurely.
    pub(super) fn reset(&mut self, reason: ResetReason) {
        self.answer(&ipc::Reply::Reset { reason });
    }

    /// Handles one message. Returns a request if the engine has to act.
    pub(super) fn on_message(&mut self, node: NodeAddr, mut message: Burst) -> Option<Request> {
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
                self.answer(&ipc::Reply::welcome(node, MAX_DATAGRAM as u16));
                None
            }
            ipc::Request::Hello { .. } => {
                self.fail(
                    ErrorCode::Version,
                    "this node speaks version 2 of the client protocol: use matching versions",
                );
                None
            }
            _ if !self.greeted => {
                self.fail(ErrorCode::Version, "say Hello first");
                None
            }
            // A refusal would pass for the answer of the peer.
            ipc::Request::Options(_) if matches!(self.role, Role::Connecting(_)) => {
                self.error(
                    ErrorCode::AlreadyBound,
                    "set the options before the socket connects",
                );
                None
            }
            ipc::Request::Options(options) => Some(Request::Options(options)),
            ipc::Request::Reset => match self.end() {
                Some(end) => {
                    end.hang_up();
                    self.failed = true;
                    Some(Request::Stream(StreamRequest::Reset))
                }
                None => {
                    self.error(ErrorCode::NotBound, "there is no stream to be reset");
                    None
                }
            },
            ipc::Request::Finish => {
                match self.end() {
                    Some(_) => self.finishing = true,
                    None => self.error(ErrorCode::NotBound, "there is no stream to be finished"),
                }
                None
            }
            ipc::Request::AskExpired => match self.end() {
                Some(_) => Some(Request::Stream(StreamRequest::AskExpired)),
                None => {
                    self.error(ErrorCode::NotBound, "there is no stream to be asked about");
                    None
                }
            },
            _ if !matches!(self.role, Role::Socket) => {
                self.error(
                    ErrorCode::AlreadyBound,
                    "the socket is a stream: open another one",
                );
                None
            }
            ipc::Request::BindRange { first, last } if self.port.is_none() && !self.is_range => {
                self.is_range = true;
                Some(Request::BindRange { first, last })
            }
            ipc::Request::BindRange { .. } => {
                self.error(
                    ErrorCode::AlreadyBound,
                    "the socket is bound: open another one",
                );
                None
            }
            ipc::Request::SendFrom(_) => {
                message.trim(ipc::BATCH_HEADER_BYTES, 0);
                self.sent = Some((message, 0));
                None
            }
            ipc::Request::Watch => {
                self.watches = true;
                self.answer(&ipc::Reply::Done {
                    request: kind::WATCH,
                });
                None
            }
            ipc::Request::Join(to) => Some(Request::Join {
                group: to.node,
                port: to.port,
            }),
            ipc::Request::Leave(to) => Some(Request::Leave {
                group: to.node,
                port: to.port,
            }),
            _ if self.is_range => {
                self.error(
                    ErrorCode::Unsupported,
                    "a socket with a range of ports sends by SendFrom, and joins groups",
                );
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
            ipc::Request::Listen { .. } if self.port.is_none() => {
                self.error(ErrorCode::NotBound, "bind the socket before it listens");
                None
            }
            ipc::Request::Listen { backlog } => {
                Some(Request::Stream(StreamRequest::Listen { backlog }))
            }
            ipc::Request::ConnectStream(to, framing) => {
                self.role = Role::Connecting(framing);
                Some(Request::Stream(StreamRequest::Connect {
                    to: to.node,
                    port: to.port,
                    framing,
                }))
            }
        }
    }

    /// Returns the next datagram of a message of several, as a request; `None` if there is none left.
    pub(super) fn next_sent(&mut self, pool: &Pool) -> Option<Request> {
        let (message, offset) = self.sent.take()?;
        let (ports, payload, next) = ipc::Outgoing::at(message.bytes(), offset)?;
        let payload = &message.bytes()[payload];
        let payload = match payload.len() <= super::SMALL_ROOM {
            true => pool.copy_of(SEALED_HEADROOM, payload),
            // It is fragmented inside the node and needs no headroom.
            false => pool.copy_of(0, payload),
        };
        let Some(payload) = payload else {
            // The rest of the message is lost with it: there is no buffer for it either.
            self.refuse(&RequestError::Exhausted);
            return None;
        };
        if next < message.len() {
            self.sent = Some((message, next));
        }
        Some(Request::SendFrom {
            from: ports.from,
            to: ports.to.node,
            port: ports.to.port,
            payload,
        })
    }

    /// Returns true if it has sent datagrams that are not taken yet, so that its socket need not be readable.
    pub(super) fn has_sent(&self) -> bool {
        self.sent.is_some()
    }

    /// Adds a datagram to those of this turn. Returns `Ok(true)` if it is the first: from now on there is something to
    /// flush.
    pub(super) fn gather(
        &mut self,
        own: VirtualPort,
        header: Datagram,
        payload: &[u8],
    ) -> Result<bool, Drop> {
        if payload.len() > ipc::BATCH_PAYLOAD_BYTES_MAX {
            return Err(Drop::TooLong);
        }
        let header = header.header_for(own, payload.len());
        let bytes = self.came.len() + header.len() + payload.len();
        if self.came_count >= ipc::BATCH_MAX || (self.came_count > 0 && bytes > GATHERED_BYTES_MAX)
        {
            self.flush();
        }
        let is_first = self.came.is_empty();
        if is_first {
            self.came.extend([kind::DATAGRAMS, 0]);
        }
        self.came.extend_from_slice(&header);
        self.came.extend_from_slice(payload);
        self.came_count += 1;
        Ok(is_first)
    }

    /// Sends the gathered datagrams.
    fn flush(&mut self) {
        if self.came.is_empty() {
            return;
        }
        let sent = match self.waiting.is_empty() {
            true => self.stream.send_parts(&[IoSlice::new(&self.came)]),
            false => Err(ErrorKind::WouldBlock.into()),
        };
        match sent {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.lost.0 += self.came_count as u32;
            }
            Err(_) => self.lost.1 += self.came_count as u32,
        }
        self.came.clear();
        self.came_count = 0;
    }

    /// Sends the gathered datagrams of this turn. Returns how many of them were lost because the client reads too
    /// slowly, and how many because it is gone.
    pub(super) fn end_turn(&mut self) -> (u32, u32) {
        self.flush();
        core::mem::take(&mut self.lost)
    }

    /// Returns true if it takes datagrams. Programs with a stream, or with a listener, expect only what concerns these.
    pub(super) fn takes_datagrams(&self) -> bool {
        matches!(self.role, Role::Socket) && !self.listens
    }

    /// Returns true if it has a range of ports.
    pub(super) fn is_range(&self) -> bool {
        self.is_range
    }

    /// Notes that its range was refused.
    pub(super) fn forget_range(&mut self) {
        self.is_range = self.is_range && self.port.is_some();
    }

    pub(super) fn datagram(&mut self, header: Datagram, payload: &Burst) -> Result<(), Drop> {
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

    /// Sends an answer, or keeps it until the client reads. A client that never reads is disconnected.
    pub(super) fn answer(&mut self, reply: &ipc::Reply<'_>) {
        if self.raw || self.deaf {
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
            } else if matches!(self.role, Role::Stream(_)) {
                self.deaf = true;
            } else {
                self.failed = true;
            }
        }
    }

    pub(super) fn send_waiting(&mut self) {
        while let Some(bytes) = self.waiting.front() {
            if self.stream.send_parts(&[IoSlice::new(bytes)]).is_err() {
                return;
            }
            self.waiting.pop_front();
        }
    }

    pub(super) fn refuse(&mut self, why: &RequestError) {
        self.error(error_code(why), &why.to_string());
    }

    pub(super) fn error(&mut self, code: ErrorCode, text: &str) {
        self.answer(&ipc::Reply::Error { code, text });
    }

    fn fail(&mut self, code: ErrorCode, text: &str) {
        self.error(code, text);
        self.failed = true;
    }
}

/// Returns the error code of a refusal, for programs.
pub(crate) fn error_code(why: &RequestError) -> ErrorCode {
    match why {
        RequestError::PortInUse => ErrorCode::PortInUse,
        RequestError::PortNotBound => ErrorCode::NotBound,
        RequestError::AlreadyBound => ErrorCode::AlreadyBound,
        RequestError::Exhausted => ErrorCode::TooManySockets,
        RequestError::TooLong { .. } => ErrorCode::TooLong,
        RequestError::TooManyGroups { .. }
        | RequestError::TooManySettings { .. }
        | RequestError::TooManyOfOne { .. }
        | RequestError::TooManyPermits => ErrorCode::TooManySockets,
        RequestError::Congested => ErrorCode::Congested,
        RequestError::Unsupported | RequestError::BadDestination | RequestError::NotAGroup => {
            ErrorCode::Unsupported
        }
        RequestError::PortReserved
        | RequestError::NotALab
        | RequestError::NoSuchNeighbor
        | RequestError::TooManyNeighbors
        | RequestError::BadCredential
        | RequestError::Unsealed
        | RequestError::MayNotSet { .. }
        | RequestError::MayNotSend { .. }
        | RequestError::MayNotReceive { .. } => ErrorCode::Forbidden,
    }
}
