//! Carries what passes between local sockets and a connection, in both directions, until both ends
//! of everything are closed.
//!
//! ```text
//!   control (SOCK_SEQPACKET) ── Message, Attached, Offered, Closed ──▶
//!   data    (of a stream)    ── Data, End, Gone ─────────────────────▶  one connection
//!   lines   (of an operator) ── the same, without a control socket ──▶
//! ```
//!
//! Datagrams go beside the connection while that works (`beside`).
//!
//! Neither direction buffers more than one frame, or two where datagrams go on beside the first one: what
//! the other side does not take stays in the kernel, and who writes there waits, as he would at the node
//! itself. Frames are in order, so what the control connection says of a stream's end is there before
//! the end.

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

/// What a gate does for its pumps.
pub trait Ground: Send + Sync {
    /// Takes a stream in until its client fetches it, with the connection that tells of its end;
    /// `None` when there is no room, of which its peer is told.
    fn put(&self, framing: Framing, data: OwnedFd, notices: OwnedFd) -> Option<Ticket>;

    /// Opens a way for the datagrams of the socket `control` under these keys; `None` where there is
    /// none.
    fn open(&self, keys: &Keys, control: &Arc<SeqStream>) -> Option<Box<dyn Beside>>;
}

/// What carries for one connection.
pub struct Pump {
    channel: Channel,
    control: Option<Arc<SeqStream>>,
    data: Option<Data>,
    role: Role,
    buffer: Vec<u8>,
    /// How much of the frame at the front has been handed over.
    offset: usize,
    ending: bool,
    /// The client has said that the end of what it writes is one.
    finishing: bool,
    /// The socket has become one of payloads only.
    is_raw: bool,
    way: Way,
    /// What the socket's options permit.
    wish: Wish,
    /// Where long messages are cut.
    scratch: Vec<u8>,
    /// A frame waits behind one that the other side does not take.
    is_stuck: bool,
    /// How many keys the connection's way has had.
    generations: u32,
    /// A client's process waits for its pumps.
    running: Option<Running>,
}

enum Role {
    Client(Arc<Remote>),
    Gate(Arc<dyn Ground>),
}

/// What takes no more now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blocked {
    Control,
    Data,
    /// The other side reads nothing, and what came is to be answered.
    Channel,
}

/// How a direction's turn ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// There is nothing to carry.
    Idle,
    /// There may be more.
    More,
    /// There is, and it cannot be handed over.
    Blocked(Blocked),
}

impl Pump {
    /// A client's side.
    pub(super) fn of_client(
        channel: Channel,
        control: SeqStream,
        data: Option<(Framing, OwnedFd)>,
        remote: Arc<Remote>,
    ) -> Pump {
        Pump::new(channel, Some(control), data, Role::Client(remote))
    }

    /// A gate's side: `control` is a connection to the node, or that of the stream `data`.
    pub fn of_gate(
        channel: Channel,
        control: SeqStream,
        data: Option<(Framing, OwnedFd)>,
        ground: Arc<dyn Ground>,
    ) -> Pump {
        Pump::new(channel, Some(control), data, Role::Gate(ground))
    }

    /// A client's side of the operator's socket.
    pub(super) fn of_operator(channel: Channel, lines: OwnedFd, remote: Arc<Remote>) -> Pump {
        let data = Some((Framing::Bytes, lines));
        Pump::new(channel, None, data, Role::Client(remote))
    }

    /// A gate's side of the operator's socket, to which `lines` is a connection.
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

    /// Carries until the end.
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
                    // Who ends without a word about its stream leaves it where it is.
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

    /// The connection broke before the client had ended what it wrote: its peer is not to take for
    /// the end what is none. (A client's program knows it from the node's silence.)
    fn give_up(&self) {
        let unended = self.data.as_ref().is_some_and(|data| !data.written);
        if let (Role::Gate(_), true, Some(control)) = (&self.role, unended, &self.control) {
            abandon(&[control]);
        }
    }

    /// Says that this end is there, and notices when the other one is not.
    fn keep_alive(&mut self, inward: Turn) -> Result<(), ChannelError> {
        let now = Instant::now();
        if matches!(inward, Turn::Blocked(Blocked::Control | Blocked::Data)) {
            // Nothing is read, so nothing is heard.
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
            // What is hung up is found by reading, so it is not watched while it is not read.
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
            // Of a stream that was read to its end it is still of interest whether it is closed.
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
