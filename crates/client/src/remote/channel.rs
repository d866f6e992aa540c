//! Frames over TLS over a TCP connection that never blocks.

use super::place::KEY_BYTES;
use super::way::Keys;
use core::time::Duration;
use net::poll::{Polled, poll};
use net::raw_key;
use rustls::Connection;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Instant;
use wire::Malformed;
use wire::remote::way::{KEYS_BYTES, LABEL};
use wire::remote::{BODY_BYTES_MAX, Frame, HEAD_BYTES, WITH_WAYS, head};

/// Number of bytes read at once from TLS: its records have 16 KiB at most.
const READ_BYTES: usize = 16 << 10;

/// How long to wait for the other side's end.
const LINGER: Duration = Duration::from_secs(2);

/// One end of a connection between a client and a gate.
pub struct Channel {
    tcp: TcpStream,
    tls: Connection,
    /// Received bytes that are not yet taken; the frame at the front begins at `at`.
    inbox: Vec<u8>,
    at: usize,
    outbox: Vec<u8>,
    /// Number of frames that were sent.
    pub(super) frames: u64,
    pub(super) heard: Instant,
    pub(super) said: Instant,
}

/// Why a connection has ended.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The other end has closed it.
    #[error("the connection has ended")]
    Ended,
    /// The other end does not answer in time.
    #[error("no answer in time")]
    Late,
    /// The received bytes are not TLS, or not from the expected peer.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// A frame within TLS cannot be understood.
    #[error("a frame that is not understood: {0}")]
    Frame(#[from] Malformed),
    /// The other end refuses, with a reason.
    #[error("{0}")]
    Refused(String),
    /// The system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Channel {
    /// Creates the channel of connection `tcp`, with TLS at its beginning.
    pub fn new(tcp: TcpStream, tls: impl Into<Connection>) -> io::Result<Channel> {
        tcp.set_nonblocking(true)?;
        tcp.set_nodelay(true)?;
        let now = Instant::now();
        let mut tls = tls.into();
        // At most two frames at a time are passed to it: the second one from a socket that continues by UDP while the
        // first is not sent.
        tls.set_buffer_limit(None);
        Ok(Channel {
            tcp,
            tls,
            inbox: Vec::new(),
            at: 0,
            outbox: vec![0; HEAD_BYTES + BODY_BYTES_MAX],
            frames: 0,
            heard: now,
            said: now,
        })
    }

    /// Waits for the end of the handshake, and returns the key that the other end has proved to have.
    pub(super) fn shaken(
        &mut self,
        until: Instant,
    ) -> Result<Option<[u8; KEY_BYTES]>, ChannelError> {
        while self.tls.is_handshaking() {
            self.flush()?;
            if !self.read_tls()? {
                self.wait(true, until)?;
            }
        }
        let shown = self.tls.peer_certificates().and_then(<[_]>::first);
        Ok(shown.and_then(|shown| raw_key::shown(shown)))
    }

    /// Returns true if both ends support the present form of ways.
    pub(super) fn knows_ways(&self) -> bool {
        self.tls.alpn_protocol() == Some(WITH_WAYS)
    }

    /// Returns the keys of the connection's way number `generation`.
    pub(super) fn way_keys(&self, generation: u32) -> Result<Keys, ChannelError> {
        let context = generation.to_be_bytes();
        let keys = self
            .tls
            .export_keying_material([0; KEYS_BYTES], LABEL, Some(&context))?;
        Ok(Keys::new(keys))
    }

    /// Returns the address of the other end.
    pub(super) fn peer(&self) -> io::Result<SocketAddr> {
        self.tcp.peer_addr()
    }

    /// Queues a frame. A caller with many frames calls this only while [`Channel::is_flushed`].
    pub fn say(&mut self, frame: &Frame<'_>) -> Result<(), ChannelError> {
        let len = frame
            .emit(&mut self.outbox)
            .map_err(|_| Malformed::Length)?;
        self.tls.writer().write_all(&self.outbox[..len])?;
        self.said = Instant::now();
        self.frames += 1;
        Ok(())
    }

    /// Sends what is queued, as far as the kernel accepts it.
    pub fn flush(&mut self) -> Result<(), ChannelError> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.tcp) {
                Ok(0) => return Err(ChannelError::Ended),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(ended(error)),
            }
        }
        Ok(())
    }

    /// Returns true if the kernel has everything that was sent.
    pub fn is_flushed(&self) -> bool {
        !self.tls.wants_write()
    }

    /// Reads until a whole frame is at the front, or nothing more is there.
    pub(super) fn fill(&mut self) -> Result<bool, ChannelError> {
        loop {
            if self.front()?.is_some() {
                return Ok(true);
            }
            self.compact();
            let start = self.inbox.len();
            self.inbox.resize(start + READ_BYTES, 0);
            let read = self.tls.reader().read(&mut self.inbox[start..]);
            let len = *read.as_ref().unwrap_or(&0);
            self.inbox.truncate(start + len);
            match read {
                Ok(0) => return Err(ChannelError::Ended),
                Ok(_) => self.heard = Instant::now(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !self.read_tls()? {
                        return Ok(false);
                    }
                }
                Err(error) => return Err(ended(error)),
            }
        }
    }

    /// Reads once. Returns false if nothing is there.
    fn read_tls(&mut self) -> Result<bool, ChannelError> {
        match self.tls.read_tls(&mut self.tcp) {
            Ok(0) => return Err(ChannelError::Ended),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(ended(error)),
        }
        if let Err(error) = self.tls.process_new_packets() {
            // Try to inform the other end why.
            let _ = self.flush();
            return Err(error.into());
        }
        Ok(true)
    }

    /// Returns the frame at the front: its kind and the range of its body.
    fn front(&self) -> Result<Option<(u8, usize, usize)>, Malformed> {
        let Some(bytes) = self.inbox[self.at..].first_chunk() else {
            return Ok(None);
        };
        let (kind, len) = head(*bytes)?;
        let start = self.at + HEAD_BYTES;
        let whole = self.inbox.len() >= start + len;
        Ok(whole.then_some((kind, start, start + len)))
    }

    /// Returns the frame at the front, if it is complete.
    pub(super) fn frame(&self) -> Result<Option<Frame<'_>>, ChannelError> {
        match self.front()? {
            Some((kind, start, end)) => Ok(Some(Frame::parse(kind, &self.inbox[start..end])?)),
            None => Ok(None),
        }
    }

    /// Removes the frame at the front.
    pub(super) fn pass(&mut self) {
        if let Ok(Some((_, _, end))) = self.front() {
            self.at = end;
        }
    }

    /// Makes room at the end by removing what has been taken.
    fn compact(&mut self) {
        if self.at > 0 {
            self.inbox.drain(..self.at);
            self.at = 0;
        }
    }

    /// Returns what a wait has to watch.
    pub(super) fn polled(&self, read: bool) -> Polled<'_> {
        Polled::new(self.tcp.as_fd(), read, self.tls.wants_write())
    }

    /// Sends the end, and waits a little for the other side's: the last frames would be lost if the connection were
    /// closed with unread data in it.
    pub fn close(&mut self) {
        self.tls.send_close_notify();
        let until = Instant::now() + LINGER;
        let ended = self
            .flush()
            .and_then(|()| Ok(self.tcp.shutdown(Shutdown::Write)?))
            .and_then(|()| Ok(self.tcp.set_nonblocking(false)?));
        let mut rest = [0; 4_096];
        while ended.is_ok() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.tcp.set_read_timeout(Some(left)).is_err() {
                return;
            }
            match self.tcp.read(&mut rest) {
                Ok(len) if len > 0 => {}
                _ => return,
            }
        }
    }

    /// Sends everything that is queued.
    pub fn finish(&mut self, until: Instant) -> Result<(), ChannelError> {
        loop {
            self.flush()?;
            if self.is_flushed() {
                return Ok(());
            }
            self.wait(false, until)?;
        }
    }

    /// Waits for the next frame, for callers that wait for nothing else. `take` extracts what has to outlive it.
    pub fn next<T>(
        &mut self,
        until: Instant,
        take: impl FnOnce(Frame<'_>) -> T,
    ) -> Result<T, ChannelError> {
        while !self.fill()? {
            self.flush()?;
            self.wait(true, until)?;
        }
        let taken = self.frame()?.map(take).ok_or(ChannelError::Ended)?;
        self.pass();
        Ok(taken)
    }

    fn wait(&self, read: bool, until: Instant) -> Result<(), ChannelError> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ChannelError::Late);
        }
        poll(
            &mut [self.polled(read)],
            Some(left.max(Duration::from_millis(1))),
        )?;
        Ok(())
    }
}

/// Converts the error of a broken connection to its end.
fn ended(error: io::Error) -> ChannelError {
    match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => {
            ChannelError::Ended
        }
        _ => ChannelError::Io(error),
    }
}
