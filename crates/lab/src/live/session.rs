//! The ends of a reliable stream in a live run: messages in order, however late.
//!
//! ```text
//!   packets due ─▶ waiting ─▶ Caller ══ stream of messages ══▶ Taker ─▶ meters
//!                    ▲  what the node does not take at once
//! ```
//!
//! A stream that ends before its time is opened again, as in the simulator; what it had taken and not
//! delivered is lost, what still waits here is not.

use super::end::DATAGRAM_BYTES_MAX;
use crate::scenario::PACKET_BYTES_MIN;
use client::{Accepted, Listener, MessageStream, Node, Options, Target};
use net::epoll::{Interest, Poller, Registry};
use std::collections::VecDeque;
use std::io;
use std::thread::JoinHandle;

/// Packets that wait for one stream: more are refused. Only their heads are kept.
const WAITING_MAX: usize = 100_000;
/// Messages taken from one stream before the others have their turn.
const READS_PER_TURN: usize = 64;
/// Connections of one stream's sender that the receiver knows at once. A sender opens the next one
/// when the last has ended, which the receiver may not know yet.
const CONNECTIONS_MAX: usize = 4;

/// What a packet of a scenario begins with; behind it are zeros.
type Head = [u8; PACKET_BYTES_MIN];

/// The sending end.
pub(super) struct Caller {
    node: Node,
    to: Target,
    options: Options,
    stream: Option<MessageStream>,
    /// A peer that cannot be reached is waited for without holding up the other senders.
    connecting: Option<JoinHandle<Option<MessageStream>>>,
    waiting: VecDeque<(Head, usize)>,
}

/// The receiving end.
pub(super) struct Taker {
    node: Node,
    port: u16,
    options: Options,
    listener: Option<Listener>,
    streams: Vec<MessageStream>,
    /// Where what comes is told, and as what.
    registry: Option<(Registry, u64)>,
}

impl Caller {
    pub(super) fn new(node: Node, to: Target, options: Options) -> Caller {
        Caller {
            node,
            to,
            options,
            stream: None,
            connecting: None,
            waiting: VecDeque::new(),
        }
    }

    /// Connects, or goes on with that; true when a connection has come about.
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
                let connect = move || {
                    let stream = node.connect_messages(to, options).ok()?;
                    stream.set_nonblocking(true).ok()?;
                    Some(stream)
                };
                // Without a thread it is tried again.
                self.connecting = std::thread::Builder::new()
                    .name("connecting".into())
                    .spawn(connect)
                    .ok();
                false
            }
        }
    }

    /// Waits until a connection that is being made has come about, or has failed.
    pub(super) fn settle(&mut self) {
        if let Some(thread) = self.connecting.take() {
            self.connected(thread);
        }
    }

    fn connected(&mut self, thread: JoinHandle<Option<MessageStream>>) -> bool {
        self.stream = thread.join().ok().flatten();
        self.stream.is_some()
    }

    /// Sends a packet, or has it wait; true if there is no room for it.
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

    /// Sends what waits, as far as the node takes it; whether something is left.
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

impl Drop for Caller {
    /// The node goes on with what it has taken.
    fn drop(&mut self) {
        if let Some(stream) = &self.stream {
            let _ = stream.shutdown_write();
        }
    }
}

impl Taker {
    pub(super) fn new(node: Node, port: u16, options: Options) -> Taker {
        Taker {
            node,
            port,
            options,
            listener: None,
            streams: Vec::new(),
            registry: None,
        }
    }

    /// Listens, if its node is there; whether it does now and did not before.
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

    /// Has the poller tell of what comes.
    pub(super) fn watch(&mut self, poller: &Poller, token: u64) -> io::Result<()> {
        self.registry = Some((poller.registry(), token));
        match &self.listener {
            Some(listener) => poller.add(listener, token, Interest::READ),
            None => Ok(()),
        }
    }

    /// Takes what has come.
    pub(super) fn take_all(&mut self, mut take: impl FnMut(&[u8])) {
        self.accept();
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        self.streams.retain(|stream| {
            for _ in 0..READS_PER_TURN {
                match stream.recv(&mut buffer) {
                    Ok(0) => return false,
                    Ok(len) => take(&buffer[..len]),
                    Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
                }
            }
            true
        });
    }

    fn accept(&mut self) {
        while let Some(listener) = &self.listener {
            match listener.accept() {
                Ok(Accepted::Messages(stream)) => self.begin(stream),
                Ok(Accepted::Bytes(stream)) => stream.reset(),
                Err(client::Error::WouldBlock) => return,
                // Its node has gone. Closing the descriptor takes it out of the poller.
                Err(_) => self.listener = None,
            }
        }
    }

    fn begin(&mut self, stream: MessageStream) {
        let Some((registry, token)) = &self.registry else {
            return;
        };
        let is_watched = stream.set_nonblocking(true).is_ok()
            && registry.add(&stream, *token, Interest::READ).is_ok();
        if is_watched {
            if self.streams.len() == CONNECTIONS_MAX {
                self.streams.remove(0);
            }
            self.streams.push(stream);
        }
    }
}
