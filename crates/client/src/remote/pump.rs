//! Carries data between local sockets and a connection, in both directions, until both ends of everything are closed.
//!
//! ```text
//!   control (SOCK_SEQPACKET) ── Message, Attached, Offered, Closed ──▶
//!   data    (of a stream)    ── Data, End, Gone ─────────────────────▶  one connection
//!   lines   (of an operator) ── the same, without a control socket ──▶
//! ```
//!
//! Datagrams are sent beside the connection while that works (`beside`).
//!
//! Neither direction buffers more than one frame, or two if datagrams continue beside the first one. Data that the
//! other side does not accept stays in the kernel, and the writer blocks, as it would at the node itself. Frames are in
//! order, so the message on the control connection about a stream's end arrives before the end.

mod beside;
mod carry;
mod data;
mod own;

pub use beside::Beside;

use super::abandon::abandon;
use super::channel::{Channel, ChannelError};
use super::dial::Remote;
use super::settle::Running;
use super::way::{Keys, Wish};
use super::{DEAD_AFTER, GREETING_TIMEOUT, PING_AFTER};
use beside::Way;
use core::time::Duration;
use data::Data;
use net::poll::{Polled, poll};
use net::unix::SeqStream;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;
use wire::ipc::{Framing, MESSAGE_BYTES_MAX};
use wire::remote::{Frame, Ticket};

/// The services of a gate for its pumps.
pub trait Ground: Send + Sync {
    /// Keeps a stream until its client fetches it, with the connection that reports its end. Returns `None` if there is
    /// no room; the peer is then informed.
    fn put(&self, framing: Framing, data: OwnedFd, notices: OwnedFd) -> Option<Ticket>;

    /// Opens a way for the datagrams of the socket `control` with these keys; `None` if there is none.
    fn open(&self, keys: &Keys, control: &Arc<SeqStream>) -> Option<Box<dyn Beside>>;
}

/// Carries the data of one connection.
pub struct Pump {
    channel: Channel,
    control: Option<Arc<SeqStream>>,
    data: Option<Data>,
    role: Role,
    buffer: Vec<u8>,
    /// How much of the frame at the front has been delivered.
    offset: usize,
    ending: bool,
    /// The client has announced that its data ends in order.
    finishing: bool,
    /// The socket now carries bare payloads only.
    is_raw: bool,
    way: Way,
    /// Whether the socket's options permit UDP.
    wish: Wish,
    /// The buffer in which long messages are split.
    scratch: Vec<u8>,
    /// A frame waits behind one that the other side does not accept.
    is_stuck: bool,
    /// How many keys the connection's way has had.
    generations: u32,
    /// Makes the end of a client's process wait for its pumps.
    running: Option<Running>,
}

enum Role {
    Client(Arc<Remote>),
    Gate(Arc<dyn Ground>),
}

/// The end that accepts no more at present.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blocked {
    Control,
    Data,
    /// The other side does not read, and an answer has to be sent.
    Channel,
}

/// How a direction's turn ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// There is nothing to carry.
    Idle,
    /// There may be more.
    More,
    /// There is something, but it cannot be delivered.
    Blocked(Blocked),
}

impl Pump {
    /// Creates a client's side.
    pub(super) fn of_client(
        channel: Channel,
        control: SeqStream,
        data: Option<(Framing, OwnedFd)>,
        remote: Arc<Remote>,
    ) -> Pump {
        Pump::new(channel, Some(control), data, Role::Client(remote))
    }

    /// Creates a gate's side: `control` is a connection to the node, or that of the stream `data`.
    pub fn of_gate(
        channel: Channel,
        control: SeqStream,
        data: Option<(Framing, OwnedFd)>,
        ground: Arc<dyn Ground>,
    ) -> Pump {
        Pump::new(channel, Some(control), data, Role::Gate(ground))
    }

    /// Creates a client's side of the operator's socket.
    pub(super) fn of_operator(channel: Channel, lines: OwnedFd, remote: Arc<Remote>) -> Pump {
        let data = Some((Framing::Bytes, lines));
        Pump::new(channel, None, data, Role::Client(remote))
    }

    /// Creates a gate's side of the operator's socket, to which `lines` is a connection.
    pub fn to_operator(channel: Channel, lines: OwnedFd, ground: Arc<dyn Ground>) -> Pump {
        let data = Some((Framing::Bytes, lines));
        Pump::new(channel, None, data, Role::Gate(ground))
    }

    fn new(
        channel: Channel,
        control: Option<SeqStream>,
        data: Option<(Framing, OwnedFd)>,
        role: Role,
    ) -> Pump {
        let running = matches!(role, Role::Client(_)).then(Running::enter);
        Pump {
            channel,
            control: control.map(Arc::new),
            data: data.map(|(framing, fd)| Data::new(framing, fd)),
            role,
            buffer: vec![0; MESSAGE_BYTES_MAX],
            offset: 0,
            ending: false,
            finishing: false,
            is_raw: false,
            way: Way::None,
            wish: Wish::default(),
            scratch: Vec::new(),
            is_stuck: false,
            generations: 0,
            running,
        }
    }

    /// Carries data until the end.
    pub fn run(mut self) -> Result<(), ChannelError> {
        let ended = self.carry();
        if ended.is_err() {
            self.give_up();
        }
        ended
    }

    fn carry(&mut self) -> Result<(), ChannelError> {
        if let Some(control) = &self.control {
            control.set_nonblocking(true)?;
        }
        loop {
            self.channel.flush()?;
            let outward = self.outward()?;
            let inward = self.inward()?;
            let beside = self.beside()?;
            if self
                .data
                .as_ref()
                .is_some_and(|data| data.read && data.written)
            {
                self.data = None;
            }
            if self.control.is_none() && self.data.is_none() {
                return self.finish();
            }
            if self.ending && outward == Turn::Idle && self.channel.is_flushed() {
                if self.data.as_ref().is_some_and(|data| !data.read) {
                    // If the client has not announced the end of its stream, the stream is reset.
                    self.channel.say(match self.finishing {
                        true => &Frame::End,
                        false => &Frame::Gone,
                    })?;
                }
                return self.finish();
            }
            self.keep_alive(inward)?;
            if ![outward, inward, beside].contains(&Turn::More) {
                self.wait(inward)?;
            }
        }
    }

    fn finish(&mut self) -> Result<(), ChannelError> {
        self.channel.finish(Instant::now() + GREETING_TIMEOUT)?;
        self.channel.close();
        Ok(())
    }

    /// Handles that the connection broke before the client had ended its data: its peer must not take this for an
    /// orderly end. (A client's program notices it by the node's silence.)
    fn give_up(&self) {
        let unended = self.data.as_ref().is_some_and(|data| !data.written);
        if let (Role::Gate(_), true, Some(control)) = (&self.role, unended, &self.control) {
            abandon(&[control]);
        }
    }

    /// Sends a ping if needed, and notices if the other end is gone.
    fn keep_alive(&mut self, inward: Turn) -> Result<(), ChannelError> {
        let now = Instant::now();
        if matches!(inward, Turn::Blocked(Blocked::Control | Blocked::Data)) {
            // Nothing is read, so nothing can be heard.
            self.channel.heard = now;
        }
        if now.duration_since(self.channel.heard) >= DEAD_AFTER {
            return Err(ChannelError::Late);
        }
        if now.duration_since(self.channel.said) >= PING_AFTER && self.channel.is_flushed() {
            self.channel.say(&Frame::Ping)?;
            self.channel.flush()?;
        }
        Ok(())
    }

    /// Waits until there is something to do.
    fn wait(&mut self, inward: Turn) -> Result<(), ChannelError> {
        let now = Instant::now();
        let quiet = |since: Instant, span: Duration| (since + span).saturating_duration_since(now);
        let timeout = match self.channel.is_flushed() {
            true => quiet(self.channel.said, PING_AFTER),
            false => DEAD_AFTER,
        };
        let timeout = timeout.min(quiet(self.channel.heard, DEAD_AFTER));
        let timeout = self.way.wait().map_or(timeout, |wait| timeout.min(wait));
        let free = self.channel.is_flushed();
        let goes_on = free || self.goes_on_beside();
        let blocked = |on| inward == Turn::Blocked(on);
        let mut polled = vec![self.channel.polled(!matches!(inward, Turn::Blocked(_)))];
        if let Some(control) = &self.control
            && (goes_on || blocked(Blocked::Control))
        {
            // A hang-up is found by reading, so the socket is not watched while it is not read.
            polled.push(Polled::new(
                control.as_fd(),
                goes_on,
                blocked(Blocked::Control),
            ));
        }
        let at_data = polled.len();
        let mut ended = false;
        if let Some(data) = &self.data {
            let (read, write) = (free && !data.read, blocked(Blocked::Data));
            // If a stream was read to its end, it still matters whether it is closed.
            ended = data.read && !write;
            if read || write || ended {
                polled.push(Polled::new(data.fd(), read, write));
            }
        }
        polled.extend(self.way.fd().map(|fd| Polled::new(fd, true, false)));
        let signal = self.running.as_ref().filter(|_| !self.ending);
        let signal = signal.and_then(Running::signal);
        polled.extend(signal.map(|fd| Polled::new(fd, true, false)));
        poll(&mut polled, Some(timeout))?;
        let closed = ended && polled.get(at_data).is_some_and(Polled::hung_up);
        let signalled = signal.is_some() && polled.last().is_some_and(Polled::readable);
        drop(polled);
        self.ending |= signalled;
        if closed {
            self.lose_data()?;
        }
        Ok(())
    }
}

impl fmt::Debug for Pump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let data = self.data.is_some();
        f.debug_struct("Pump")
            .field("data", &data)
            .finish_non_exhaustive()
    }
}
