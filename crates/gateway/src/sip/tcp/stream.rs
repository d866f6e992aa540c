//! One connection: bytes to messages, and messages to bytes.
//!
//! ```text
//!   peer ──bytes──▶ Arrived ──a message──▶ stack ──taken up──▶ the next message, or more bytes
//!   peer ◀──bytes── unsent ◀── messages of the stack and the proxy, which never wait
//! ```
//! The peer is slowed down to the rate of its host, and to the speed of the stack, by TCP itself: the gateway does not
//! read more. A peer that does not read what it is sent loses the connection. So nobody but the connection waits for a
//! peer.

use super::super::inspect::{self, Pass};
use super::framing::{Arrived, Front, PONG};
use super::{Origin, Streams};
use crate::slots::Slot;
use core::net::SocketAddr;
use core::time::Duration;
use rsipstack::sip::{SipMessage, Transport};
use rsipstack::transport::{SipAddr, SipConnection, TransportEvent};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// The time after which an idle connection is closed. A phone keeps its connection alive with some message every two
/// minutes (RFC 5626 §4.4.1), and a PBX as often as it likes.
const IDLE: Duration = Duration::from_secs(600);
/// The time within which a peer must accept some of the bytes that wait for it. After that, their transactions are over
/// (RFC 3261 §17.2.2).
const STALLED: Duration = Duration::from_secs(32);
/// Number of bytes that each connection may have unsent, besides those in the kernel.
const UNSENT_FREE: usize = 16 << 10;
/// Number of bytes that a connection may have unsent if it has a place for them.
pub(super) const UNSENT_MAX: usize = 256 << 10;
/// Number of bytes that are read at once.
const READ: usize = 16 << 10;

/// Why the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The peer has closed it, or it was idle, or the stack has stopped.
    Gone,
    /// The peer does not read what it is sent.
    Unread,
    /// The bytes that arrived are no message.
    Nonsense,
}

/// When the next message is handed to the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// As soon as it has arrived.
    Now,
    /// As soon as more bytes have arrived.
    More,
    /// As soon as the stack has taken up the one before.
    TakenUp,
    /// When the host may send again.
    At(Instant),
}

/// One connection. Its task is the only one that uses the socket.
pub(super) struct Stream {
    socket: TcpStream,
    peer: SocketAddr,
    connection: SipConnection,
    to_stack: UnboundedSender<TransportEvent>,
    from_stack: UnboundedReceiver<TransportEvent>,
    taken_up: Arc<Notify>,
    streams: Arc<Streams>,
    /// Cancelled when the connection ends, or to end it.
    gone: CancellationToken,
    arrived: Arrived,
    next: Next,
    /// When the last bytes arrived.
    heard: Instant,
    unsent: VecDeque<u8>,
    /// When the peer last accepted bytes, or had accepted all.
    moved: Instant,
    /// The place for more unsent bytes than all may have.
    place: Option<Slot<Origin>>,
}

/// The ends of the two channels that are the connection for the stack.
pub(super) type Ends = (
    UnboundedSender<TransportEvent>,
    UnboundedReceiver<TransportEvent>,
);

impl Stream {
    pub(super) fn new(
        streams: Arc<Streams>,
        (socket, peer): (TcpStream, SocketAddr),
        connection: SipConnection,
        (to_stack, from_stack): Ends,
        (taken_up, gone): (Arc<Notify>, CancellationToken),
    ) -> Stream {
        let now = Instant::now();
        Stream {
            socket,
            peer,
            connection,
            to_stack,
            from_stack,
            taken_up,
            streams,
            gone,
            arrived: Arrived::default(),
            next: Next::More,
            heard: now,
            unsent: VecDeque::new(),
            moved: now,
            place: None,
        }
    }

    /// Serves the connection until it ends.
    pub(super) async fn run(mut self) {
        let (gone, closing) = (self.gone.clone(), self.streams.closing.clone());
        let ended = tokio::select! {
            () = gone.cancelled() => Ended::Gone,
            () = closing.cancelled() => self.finish().await,
            ended = self.serve() => ended,
        };
        let counters = &self.streams.counters;
        match ended {
            Ended::Gone => {}
            Ended::Unread => counters.unread.add(),
            Ended::Nonsense => counters.nonsense.add(),
        }
        if ended != Ended::Unread {
            // This is the last chance for answers to what came before the end.
            let _ = self.drain().and_then(|()| self.write());
        }
    }

    async fn serve(&mut self) -> Ended {
        loop {
            if let Err(ended) = self.turn().await {
                return ended;
            }
        }
    }

    async fn turn(&mut self) -> Result<(), Ended> {
        self.hand_next()?;
        let until = self.until();
        tokio::select! {
            biased;
            event = self.from_stack.recv() => self.push_event(event.ok_or(Ended::Gone)?),
            ready = self.socket.writable(), if !self.unsent.is_empty() => {
                ready.map_err(|_| Ended::Gone)?;
                self.write()
            }
            () = self.taken_up.notified(), if self.next == Next::TakenUp => {
                self.next = Next::Now;
                Ok(())
            }
            () = sleep_until(until) => self.on_time(Instant::now()),
            ready = self.socket.readable(), if self.next == Next::More => {
                ready.map_err(|_| Ended::Gone)?;
                self.read()
            }
        }
    }

    /// Sends what is still to be sent.
    async fn finish(&mut self) -> Ended {
        let mut sent = self.drain();
        while sent.is_ok() && !self.unsent.is_empty() {
            sent = match self.socket.writable().await {
                Ok(()) => self.write(),
                Err(_) => Err(Ended::Gone),
            };
        }
        sent.err().unwrap_or(Ended::Gone)
    }

    fn until(&self) -> Instant {
        let mut until = self.heard + IDLE;
        if let Next::At(at) = self.next {
            until = until.min(at);
        }
        match self.unsent.is_empty() {
            true => until,
            false => until.min(self.moved + STALLED),
        }
    }

    fn on_time(&mut self, now: Instant) -> Result<(), Ended> {
        if !self.unsent.is_empty() && self.moved + STALLED <= now {
            return Err(Ended::Unread);
        }
        match self.next {
            Next::At(at) if at <= now => self.next = Next::Now,
            _ if self.heard + IDLE <= now => return Err(Ended::Gone),
            _ => {}
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), Ended> {
        let mut bytes = [0; READ];
        match self.socket.try_read(&mut bytes) {
            Ok(0) => Err(Ended::Gone),
            Ok(len) => {
                self.arrived.push(bytes.get(..len).unwrap_or_default());
                self.heard = Instant::now();
                self.next = Next::Now;
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(_) => Err(Ended::Gone),
        }
    }

    /// Hands the message that has arrived to the stack, if it is its turn.
    fn hand_next(&mut self) -> Result<(), Ended> {
        while self.next == Next::Now {
            match self.arrived.front() {
                Ok(Front::Ping) => self.push(PONG)?,
                Ok(Front::Partial) => self.next = Next::More,
                Ok(Front::Message(len)) => self.hand(len)?,
                Err(_) => return Err(Ended::Nonsense),
            }
        }
        Ok(())
    }

    fn hand(&mut self, len: usize) -> Result<(), Ended> {
        let gate = self.streams.gate.clone();
        let now = Instant::now();
        if let Some(wait) = gate.wait(self.peer.ip(), now.into_std()) {
            self.next = Next::At(now + wait);
            return Ok(());
        }
        let message = SipMessage::try_from(self.arrived.first(len)).ok();
        let received = message.and_then(|message| {
            SipConnection::update_msg_received(message, self.peer, Transport::Tcp).ok()
        });
        let Some(message) = received else {
            return Err(Ended::Nonsense);
        };
        match gate.lets_wait(self.peer.ip(), inspect::cost(&message), now.into_std()) {
            Pass::Now => {}
            Pass::After(wait) => {
                self.next = Next::At(now + wait);
                return Ok(());
            }
            Pass::Never => return Err(Ended::Gone),
        }
        self.arrived.take(len);
        self.next = Next::TakenUp;
        let from = address(self.peer);
        let event = TransportEvent::Incoming(message, self.connection.clone(), from);
        self.to_stack.send(event).map_err(|_| Ended::Gone)
    }

    fn drain(&mut self) -> Result<(), Ended> {
        while let Ok(event) = self.from_stack.try_recv() {
            self.push_event(event)?;
        }
        Ok(())
    }

    fn push_event(&mut self, event: TransportEvent) -> Result<(), Ended> {
        match event {
            TransportEvent::Incoming(message, ..) => self.push(&message.to_bytes()),
            TransportEvent::New(_) | TransportEvent::Closed(_) => Ok(()),
        }
    }

    /// Adds bytes to those that wait for the peer. If it has not read what was sent, the connection ends.
    fn push(&mut self, bytes: &[u8]) -> Result<(), Ended> {
        if self.unsent.is_empty() {
            self.moved = Instant::now();
        }
        self.unsent.extend(bytes);
        if self.unsent.len() > UNSENT_FREE {
            self.write()?;
        }
        if self.unsent.len() > UNSENT_FREE && self.place.is_none() {
            self.place = self.streams.place_for_unsent(self.peer);
        }
        let most = match self.place {
            Some(_) => UNSENT_MAX,
            None => UNSENT_FREE,
        };
        match self.unsent.len() > most {
            true => Err(Ended::Unread),
            false => Ok(()),
        }
    }

    /// Sends as much as the kernel takes at once.
    fn write(&mut self) -> Result<(), Ended> {
        while !self.unsent.is_empty() {
            match self.socket.try_write(self.unsent.as_slices().0) {
                Ok(len) => {
                    self.unsent.drain(..len);
                    self.moved = Instant::now();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return Err(Ended::Gone),
            }
        }
        if self.unsent.is_empty() {
            self.unsent = VecDeque::new();
        }
        if self.unsent.len() <= UNSENT_FREE {
            self.place = None;
        }
        Ok(())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // From now on, nobody chooses this connection.
        self.gone.cancel();
        self.streams.forget(self.peer);
    }
}

/// Returns the address of a peer in the form that the SIP stack uses.
pub(super) fn address(peer: SocketAddr) -> SipAddr {
    SipAddr {
        r#type: Some(Transport::Tcp),
        addr: peer.into(),
    }
}
