//! Streams of messages.

use super::about::{About, Expired};
use crate::Target;
use net::unix::{Received, SeqStream, shutdown_write};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use wire::ipc::PAYLOAD_BYTES_MAX;

/// A stream of messages, each of 1 to 65 507 bytes, in order.
///
/// All of them arrive, unless the stream was opened with [`crate::Options::deadline`]: then a message is useful for
/// this time after it was sent. Messages that cannot arrive in time are given up, and the others do not wait for them;
/// [`MessageStream::expired`] returns how many there were.
#[derive(Debug)]
pub struct MessageStream {
    pub(super) about: About,
    pub(super) data: SeqStream,
}

impl MessageStream {
    /// Returns the address of this end.
    pub fn local(&self) -> Target {
        self.about.local
    }

    /// Returns the address of the other end.
    pub fn peer(&self) -> Target {
        self.about.peer
    }

    /// Sends one message, of 1 to 65 507 bytes.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        if message.is_empty() || message.len() > PAYLOAD_BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a message has 1 to 65507 bytes",
            ));
        }
        self.data
            .send_parts(&[IoSlice::new(message)])
            .map_err(|error| self.about.better(error))
    }

    /// Receives one message into `buffer` and returns its length, or 0 at the end of the stream. A message that is
    /// longer than the buffer is an error, and lost.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.data.recv_into(buffer) {
            Ok(Received::Message(len)) => Ok(len),
            Ok(Received::Truncated(len)) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("a message of {len} bytes was lost: the buffer is too short"),
            )),
            Ok(Received::Empty) => Err(io::ErrorKind::WouldBlock.into()),
            Ok(Received::Closed) => self.about.ended().map(|()| 0),
            Err(error) => Err(self.about.better(error)),
        }
    }

    /// Returns how many messages have expired so far, of those that this end has sent and of those that it should have
    /// received. It asks the node, which answers at once. After both directions have ended, it returns the last
    /// reported numbers.
    pub fn expired(&self) -> io::Result<Expired> {
        self.about.expired()
    }

    /// Ends the sending direction; the peer reads to the end.
    pub fn shutdown_write(&self) -> io::Result<()> {
        self.about.finish();
        shutdown_write(self.data.as_fd())
    }

    /// Ends the stream at once, in both directions: the peer gets an error and not an end.
    pub fn reset(&self) {
        self.about.reset();
    }

    /// Sets whether sending and receiving fail with `WouldBlock` instead of blocking.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.data.set_nonblocking(on)
    }
}

impl AsFd for MessageStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.data.as_fd()
    }
}

impl AsRawFd for MessageStream {
    fn as_raw_fd(&self) -> RawFd {
        self.data.as_fd().as_raw_fd()
    }
}
