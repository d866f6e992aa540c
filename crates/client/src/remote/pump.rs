//! Carries what passes between local sockets and a connection, in both directions, until both ends
//! of everything are closed.
//!
//! ```text
//!   control (SOCK_SEQPACKET) ── Message, Attached, Offered, Closed ──▶
//!   data    (of a stream)    ── Data, End, Gone ─────────────────────▶  one connection
//! ```
//!
//! Neither direction buffers more than one frame: what the other side does not take stays in the
//! kernel, and who writes there waits, as he would at the node itself. Frames are in order, so what
//! the control connection says of a stream's end is there before the end.

use super::channel::{Channel, ChannelError};
use super::dial::{Remote, pair};
use super::settle::Running;
use super::{DEAD_AFTER, GREETING_TIMEOUT, PING_AFTER};
use core::time::Duration;
use net::poll::{Polled, poll};
use net::unix::{ByteStream, Received, SeqStream, Taken, shutdown_write};
use std::fmt;
use std::io::{ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;
use wire::Malformed;
use wire::ipc::{Framing, MESSAGE_BYTES_MAX, Reply};
use wire::remote::{Frame, Ticket};

/// Frames carried in one direction before the other has its turn.
const FRAMES_PER_TURN: usize = 64;

/// Where a gate keeps streams until their clients fetch them.
pub trait Deposit: Send + Sync {
    /// Takes a stream in, with the connection that tells of its end; `None` when there is no room.
    fn put(&self, framing: Framing, data: OwnedFd, notices: OwnedFd) -> Option<Ticket>;
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
    /// A client's process waits for its pumps.
    running: Option<Running>,
}

enum Role {
    Client(Arc<Remote>),
    Gate(Arc<dyn Deposit>),
}

/// The local end of a stream.
struct Data {
    end: End,
    /// Everything has been read from it.
    read: bool,
    /// Everything has been written to it.
    written: bool,
}

enum End {
    Bytes(ByteStream),
    Messages(SeqStream),
}

/// What takes no more now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blocked {
    Control,
    Data,
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
        Pump::new(channel, control, data, Role::Client(remote))
    }

    /// A gate's side: `control` is a connection to the node, or that of the stream `data`.
    pub fn of_gate(
        channel: Channel,
        control: SeqStream,
        data: Option<(Framing, OwnedFd)>,
        deposit: Arc<dyn Deposit>,
    ) -> Pump {
        Pump::new(channel, control, data, Role::Gate(deposit))
    }

    fn new(
        channel: Channel,
        control: SeqStream,
        data: Option<(Framing, OwnedFd)>,
        role: Role,
    ) -> Pump {
        let running = matches!(role, Role::Client(_)).then(Running::enter);
        Pump {
            channel,
            control: Some(Arc::new(control)),
            data: data.map(|(framing, fd)| Data::new(framing, fd)),
            role,
            buffer: vec![0; MESSAGE_BYTES_MAX],
            offset: 0,
            ending: false,
            running,
        }
    }

    /// Carries until the end.
    pub fn run(mut self) -> Result<(), ChannelError> {
        if let Some(control) = &self.control {
            control.set_nonblocking(true)?;
        }
        loop {
            self.channel.flush()?;
            let outward = self.outward()?;
            let inward = self.inward()?;
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
                    self.channel.say(&Frame::End)?;
                }
                return self.finish();
            }
            self.keep_alive(inward)?;
            if outward != Turn::More && inward != Turn::More {
                self.wait(inward)?;
            }
        }
    }

    fn finish(mut self) -> Result<(), ChannelError> {
        self.channel.finish(Instant::now() + GREETING_TIMEOUT)?;
        self.channel.close();
        Ok(())
    }

    /// From here to there, while the connection takes it.
    fn outward(&mut self) -> Result<Turn, ChannelError> {
        for _ in 0..FRAMES_PER_TURN {
            if !self.channel.is_flushed() || !(self.take_control()? || self.take_data()?) {
                return Ok(Turn::Idle);
            }
            self.channel.flush()?;
        }
        Ok(Turn::More)
    }

    /// True when a message was there.
    fn take_control(&mut self) -> Result<bool, ChannelError> {
        let Some(control) = &self.control else {
            return Ok(false);
        };
        let (received, fds) = control.recv_with_fds(&mut self.buffer)?;
        let message = match received {
            Received::Message(len) => &self.buffer[..len],
            Received::Empty => return Ok(false),
            // Longer than any message: no end speaks like this.
            Received::Closed | Received::Truncated(_) => {
                self.control = None;
                self.channel.say(&Frame::Closed)?;
                return Ok(true);
            }
        };
        match (&self.role, fds) {
            (Role::Gate(_), [Some(data), None]) => {
                if let Ok(Reply::Connected { framing, .. }) = Reply::parse(message) {
                    self.data = Some(Data::new(framing, data));
                    self.channel.say(&Frame::Attached(message))?;
                }
            }
            (Role::Gate(deposit), [Some(data), Some(notices)]) => {
                if let Ok(Reply::Incoming { framing, .. }) = Reply::parse(message)
                    && let Some(ticket) = deposit.put(framing, data, notices)
                {
                    self.channel.say(&Frame::Offered(ticket, message))?;
                }
            }
            _ => self.channel.say(&Frame::Message(message))?,
        }
        Ok(true)
    }

    /// True when some of the stream was there.
    fn take_data(&mut self) -> Result<bool, ChannelError> {
        let Some(data) = self.data.as_mut().filter(|data| !data.read) else {
            return Ok(false);
        };
        match data.take(&mut self.buffer) {
            Taken::Bytes(len) => self.channel.say(&Frame::Data(&self.buffer[..len]))?,
            Taken::Empty => return Ok(false),
            Taken::End => {
                data.read = true;
                // Why it ended has been told before.
                while self.take_control()? {}
                self.channel.say(&Frame::End)?;
            }
            Taken::Reset => self.lose_data()?,
        }
        Ok(true)
    }

    fn lose_data(&mut self) -> Result<(), ChannelError> {
        self.data = None;
        while self.take_control()? {}
        self.channel.say(&Frame::Gone)
    }

    /// From there to here, while the local sockets take it.
    fn inward(&mut self) -> Result<Turn, ChannelError> {
        for _ in 0..FRAMES_PER_TURN {
            if !self.channel.fill()? {
                return Ok(Turn::Idle);
            }
            if let Some(blocked) = self.hand_over()? {
                return Ok(Turn::Blocked(blocked));
            }
            self.channel.pass();
            self.offset = 0;
        }
        Ok(Turn::More)
    }

    /// Hands the frame at the front over.
    fn hand_over(&mut self) -> Result<Option<Blocked>, ChannelError> {
        let Some(frame) = self.channel.frame()? else {
            return Ok(None);
        };
        match (frame, &self.role) {
            // Without bytes it would look like the end.
            (Frame::Message([]) | Frame::Data([]) | Frame::Ping, _) => {}
            (Frame::Message(message), _) => {
                let Some(control) = &self.control else {
                    return Ok(None);
                };
                match control.send_parts(&[IoSlice::new(message)]) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        return Ok(Some(Blocked::Control));
                    }
                    Err(_) => {
                        self.control = None;
                        self.channel.say(&Frame::Closed)?;
                    }
                    Ok(()) => {}
                }
            }
            (Frame::Attached(message), Role::Client(_)) => {
                let (Ok(Reply::Connected { framing, .. }), Some(control)) =
                    (Reply::parse(message), &self.control)
                else {
                    return Err(Malformed::Kind.into());
                };
                let (theirs, ours) = pair(framing)?;
                match control.send_with_fds(&[IoSlice::new(message)], &[theirs.as_fd()]) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        return Ok(Some(Blocked::Control));
                    }
                    // Nobody is there to take it: the end of the pair says so.
                    _ => self.data = Some(Data::new(framing, ours)),
                }
            }
            (Frame::Offered(ticket, message), Role::Client(remote)) => {
                if let Some(control) = &self.control {
                    remote.fetch(ticket, message.to_vec(), Arc::clone(control));
                }
            }
            (Frame::Data(bytes), _) => {
                let Some(data) = &self.data else {
                    return Ok(None);
                };
                match data.give(&bytes[self.offset..]) {
                    Ok(len) => {
                        self.offset += len;
                        if self.offset < bytes.len() {
                            return Ok(Some(Blocked::Data));
                        }
                    }
                    Err(_) => self.lose_data()?,
                }
            }
            (Frame::End, _) => {
                if let Some(data) = &mut self.data {
                    data.written = true;
                    // It fails when the end is gone, and that is found by itself.
                    let _ = shutdown_write(data.fd());
                }
            }
            (Frame::Gone, _) => self.data = None,
            (Frame::Closed, _) => self.control = None,
            _ => return Err(Malformed::Kind.into()),
        }
        Ok(None)
    }

    /// Says that this end is there, and notices when the other one is not.
    fn keep_alive(&mut self, inward: Turn) -> Result<(), ChannelError> {
        let now = Instant::now();
        if matches!(inward, Turn::Blocked(_)) {
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
        let free = self.channel.is_flushed();
        let blocked = |on| inward == Turn::Blocked(on);
        let mut polled = vec![self.channel.polled(!matches!(inward, Turn::Blocked(_)))];
        if let Some(control) = &self.control
            && (free || blocked(Blocked::Control))
        {
            // What is hung up is found by reading, so it is not watched while it is not read.
            polled.push(Polled::new(
                control.as_fd(),
                free,
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

impl Data {
    fn new(framing: Framing, fd: OwnedFd) -> Data {
        let end = match framing {
            Framing::Bytes => End::Bytes(ByteStream::from(fd)),
            Framing::Messages => End::Messages(SeqStream::from(fd)),
        };
        let nonblocking = match &end {
            End::Bytes(stream) => stream.set_nonblocking(true),
            End::Messages(stream) => stream.set_nonblocking(true),
        };
        // One that blocks would hold up its own connection only.
        let _ = nonblocking;
        Data {
            end,
            read: false,
            written: false,
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match &self.end {
            End::Bytes(stream) => stream.as_fd(),
            End::Messages(stream) => stream.as_fd(),
        }
    }

    fn take(&self, buffer: &mut [u8]) -> Taken {
        match &self.end {
            End::Bytes(stream) => stream.recv_into(buffer).unwrap_or(Taken::Reset),
            End::Messages(stream) => match stream.recv_into(buffer) {
                Ok(Received::Message(len)) => Taken::Bytes(len),
                Ok(Received::Empty) => Taken::Empty,
                Ok(Received::Closed) => Taken::End,
                Ok(Received::Truncated(_)) | Err(_) => Taken::Reset,
            },
        }
    }

    /// How much was taken: of a message all or nothing.
    fn give(&self, bytes: &[u8]) -> std::io::Result<usize> {
        match &self.end {
            End::Bytes(stream) => stream.send(bytes),
            End::Messages(stream) => match stream.send_parts(&[IoSlice::new(bytes)]) {
                Ok(()) => Ok(bytes.len()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
                Err(error) => Err(error),
            },
        }
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
