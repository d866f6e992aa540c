//! The ends of a reliable stream in a live run: messages in order, however late.
//!
//! ```text
//!   packets due ─▶ waiting ─▶ Caller ══ stream of messages ══▶ Taker ─▶ meters
//!                    ▲  what the node does not take at once
//! ```
//!
//! A stream that ends early is reopened, as in the simulator; data that it had accepted and not delivered is lost, data
//! that still waits here is not. Bulk is sent as bytes, and the called end may answer.

use super::end::DATAGRAM_BYTES_MAX;
use crate::scenario::PACKET_BYTES_MIN;
use client::{Accepted, Listener, MessageStream, Node, Options, Stream, Target};
use net::epoll::{Interest, Poller, Registry};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread::JoinHandle;

/// Most packets that wait for one stream: further ones are refused. Only their heads are kept.
const WAITING_MAX: usize = 100_000;
/// Number of messages taken from one stream before the other streams are read.
const READS_PER_TURN: usize = 64;
/// Most connections of one stream's sender that the receiver has at the same time. A sender opens the next one when the
/// last has ended, which the receiver may not know yet.
const CONNECTIONS_MAX: usize = 4;

/// Block size of reads and writes of bulk.
const BULK_BYTES: usize = 16 << 10;
/// Most answers that wait for one stream: beyond this, the oldest is dropped and counts as lost.
const ANSWERS_MAX: usize = 1_000;

/// The beginning of a packet of a scenario; the rest is zeros.
type Head = [u8; PACKET_BYTES_MIN];

/// The contents of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// Messages.
    Messages,
    /// Messages that are sent back.
    Answered,
    /// Bytes, as many as the stream accepts.
    Bulk,
}

/// A connected stream.
enum Line {
    Messages(MessageStream),
    Bytes(Stream),
}

impl Line {
    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Line::Messages(stream) => stream.set_nonblocking(true),
            Line::Bytes(stream) => stream.set_nonblocking(true),
        }
    }

    /// Sends a message, or as many bytes as the stream accepts.
    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Line::Messages(stream) => stream.send(bytes),
            Line::Bytes(stream) => (&*stream).write(bytes).map(drop),
        }
    }

    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Line::Messages(stream) => stream.recv(buffer),
            Line::Bytes(stream) => (&*stream).read(buffer),
        }
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Line::Messages(stream) => stream.as_fd(),
            Line::Bytes(stream) => stream.as_fd(),
        }
    }
}

/// The sending end.
pub(super) struct Caller {
    node: Node,
    to: Target,
    options: Options,
    load: Load,
    stream: Option<Line>,
    /// The thread that connects to the peer, so that an unreachable peer does not hold up the other senders.
    connecting: Option<JoinHandle<Option<Line>>>,
    waiting: VecDeque<(Head, usize)>,
}

/// The receiving end.
pub(super) struct Taker {
    node: Node,
    port: u16,
    options: Options,
    load: Load,
    listener: Option<Listener>,
    streams: Vec<Called>,
    /// The poller's registry and token for new connections.
    registry: Option<(Registry, u64)>,
}

/// A stream at the called end.
struct Called {
    line: Line,
    /// Answers that the node has not accepted.
    answers: VecDeque<(Head, usize)>,
}

impl Caller {
    pub(super) fn new(node: Node, to: Target, options: Options, load: Load) -> Caller {
        Caller {
            node,
            to,
            options,
            load,
            stream: None,
            connecting: None,
            waiting: VecDeque::new(),
        }
    }

    /// Connects, or continues to. Returns true when a connection has been made.
    pub(super) fn open(&mut self) -> bool {
        if self.stream.is_some() {
            return false;
        }
        match self.connecting.take() {
            Some(thread) if thread.is_finished() => self.connected(thread),
            Some(thread) => {
                self.connecting = Some(thread);
                false
            }
            None => {
                let (node, to, options) = (self.node.clone(), self.to, self.options);
                let is_bulk = self.load == Load::Bulk;
                let connect = move || {
                    let line = match is_bulk {
                        true => Line::Bytes(node.connect(to, options).ok()?),
                        false => Line::Messages(node.connect_messages(to, options).ok()?),
                    };
                    line.set_nonblocking().ok()?;
                    Some(line)
                };
                // If no thread can be started, this is tried again.
                self.connecting = std::thread::Builder::new()
                    .name("connecting".into())
                    .spawn(connect)
                    .ok();
                false
            }
        }
    }

    /// Waits until a connection in progress has been made, or has failed.
    pub(super) fn settle(&mut self) {
        if let Some(thread) = self.connecting.take() {
            self.connected(thread);
        }
    }

    fn connected(&mut self, thread: JoinHandle<Option<Line>>) -> bool {
        self.stream = thread.join().ok().flatten();
        self.stream.is_some()
    }

    /// Sends a packet, or lets it wait. Returns true if there is no room for it.
    pub(super) fn send(&mut self, packet: &[u8]) -> bool {
        let Some(head) = packet.first_chunk() else {
            return true;
        };
        if self.waiting.len() >= WAITING_MAX {
            return true;
        }
        self.waiting.push_back((*head, packet.len()));
        if self.waiting.len() == 1 {
            self.flush();
        }
        false
    }

    /// Sends waiting packets, as far as the node accepts them. Returns whether some are left.
    pub(super) fn flush(&mut self) -> bool {
        let mut packet = [0; DATAGRAM_BYTES_MAX];
        while let Some((head, len)) = self.waiting.front() {
            let Some(stream) = &self.stream else {
                return true;
            };
            packet[..head.len()].copy_from_slice(head);
            match stream.send(&packet[..*len]) {
                Ok(()) => drop(self.waiting.pop_front()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(_) => {
                    self.stream = None;
                    return true;
                }
            }
        }
        false
    }
}

impl Caller {
    /// Writes as much as the node accepts.
    pub(super) fn write_bulk(&mut self) {
        let block = [0; BULK_BYTES];
        while let Some(stream) = &self.stream {
            match stream.send(&block) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.stream = None,
            }
        }
    }

    /// Takes the answers that have arrived.
    pub(super) fn take_answers(&mut self, mut take: impl FnMut(&[u8])) {
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        while let Some(stream) = &self.stream {
            match stream.recv(&mut buffer) {
                Ok(len) if len > 0 => take(&buffer[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(_) | Err(_) => self.stream = None,
            }
        }
    }
}

impl Drop for Caller {
    /// Lets the node continue with what it has accepted.
    fn drop(&mut self) {
        if let Some(Line::Messages(stream)) = &self.stream {
            let _ = stream.shutdown_write();
        }
    }
}

impl Taker {
    pub(super) fn new(node: Node, port: u16, options: Options, load: Load) -> Taker {
        Taker {
            node,
            port,
            options,
            load,
            listener: None,
            streams: Vec::new(),
            registry: None,
        }
    }

    /// Listens, if its node runs. Returns whether it does now and did not before.
    pub(super) fn open(&mut self) -> bool {
        if self.listener.is_some() {
            return false;
        }
        let Ok(listener) = self.node.listen(self.port, self.options) else {
            return false;
        };
        let opened = listener.set_nonblocking(true).is_ok();
        self.listener = opened.then_some(listener);
        opened
    }

    /// Registers the end with the poller.
    pub(super) fn watch(&mut self, poller: &Poller, token: u64) -> io::Result<()> {
        self.registry = Some((poller.registry(), token));
        match &self.listener {
            Some(listener) => poller.add(listener, token, Interest::READ),
            None => Ok(()),
        }
    }

    /// Takes everything that has arrived: messages, or bytes of bulk. Messages to be answered are sent back instead.
    pub(super) fn take_all(&mut self, mut take: impl FnMut(&[u8])) {
        self.accept();
        let mut buffer = [0; BULK_BYTES];
        let is_answered = self.load == Load::Answered;
        self.streams.retain_mut(|stream| {
            for _ in 0..READS_PER_TURN {
                match stream.line.recv(&mut buffer) {
                    Ok(0) => return false,
                    Ok(len) if is_answered => stream.answer(&buffer[..len]),
                    Ok(len) => take(&buffer[..len]),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(_) => return false,
                }
            }
            stream.flush()
        });
    }

    fn accept(&mut self) {
        while let Some(listener) = &self.listener {
            match listener.accept() {
                Ok(Accepted::Messages(stream)) => self.begin(Line::Messages(stream)),
                Ok(Accepted::Bytes(stream)) if self.load == Load::Bulk => {
                    self.begin(Line::Bytes(stream));
                }
                Ok(Accepted::Bytes(stream)) => stream.reset(),
                Err(client::Error::WouldBlock) => return,
                // Its node has gone. Closing the descriptor removes it from the poller.
                Err(_) => self.listener = None,
            }
        }
    }

    fn begin(&mut self, line: Line) {
        let Some((registry, token)) = &self.registry else {
            return;
        };
        let is_watched =
            line.set_nonblocking().is_ok() && registry.add(&line, *token, Interest::READ).is_ok();
        if is_watched {
            if self.streams.len() == CONNECTIONS_MAX {
                self.streams.remove(0);
            }
            self.streams.push(Called {
                line,
                answers: VecDeque::new(),
            });
        }
    }
}

impl Called {
    fn answer(&mut self, message: &[u8]) {
        if let Some(head) = message.first_chunk() {
            if self.answers.len() == ANSWERS_MAX {
                self.answers.pop_front();
            }
            self.answers.push_back((*head, message.len()));
        }
    }

    /// Sends answers, as far as the node accepts them. Returns whether the stream still exists. The rest is tried again
    /// when something arrives.
    fn flush(&mut self) -> bool {
        let mut packet = [0; DATAGRAM_BYTES_MAX];
        while let Some((head, len)) = self.answers.front() {
            packet[..head.len()].copy_from_slice(head);
            match self.line.send(&packet[..*len]) {
                Ok(()) => drop(self.answers.pop_front()),
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        true
    }
}
