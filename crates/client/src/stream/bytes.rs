//! Streams of bytes.

use super::about::About;
use crate::Target;
use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// A reliable stream of bytes. Blocking unless set otherwise.
#[derive(Debug)]
pub struct Stream {
    pub(super) about: About,
    pub(super) data: UnixStream,
}

impl Stream {
    /// Returns the address of this end.
    pub fn local(&self) -> Target {
        self.about.local
    }

    /// Returns the address of the other end.
    pub fn peer(&self) -> Target {
        self.about.peer
    }

    /// Ends the sending direction; the peer reads to the end. (`Shutdown::Read` is refused: close the stream.)
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match how {
            Shutdown::Write => {}
            Shutdown::Both => self.about.shut(),
            Shutdown::Read => return Err(io::ErrorKind::Unsupported.into()),
        }
        self.about.finish();
        self.data.shutdown(how)
    }

    /// Sets whether reading and writing fail with `WouldBlock` instead of blocking.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.data.set_nonblocking(on)
    }

    /// Sets how long reading blocks at most; `None` means for ever.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.data.set_read_timeout(timeout)
    }

    /// Returns why the stream has ended prematurely, if it has, according to what the node has reported by now.
    pub fn take_error(&self) -> Option<io::Error> {
        self.about.failed().err()
    }

    /// Ends the stream at once, in both directions: the peer gets an error and not an end, and so do threads that read
    /// or write here. Dropping a stream delivers the written data, followed by the end; a process that is killed, or a
    /// thread that panics, resets its streams.
    pub fn reset(&self) {
        self.about.reset();
    }

    /// Returns the stream's descriptor alone, for programs that know nothing about overlays. They do not learn how the
    /// stream ends, and the peer does not learn if they are killed.
    pub fn into_fd(self) -> OwnedFd {
        self.data.into()
    }
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match (&self.data).read(buffer) {
            Ok(0) if !buffer.is_empty() => self.about.ended().map(|()| 0),
            Err(error) => Err(self.about.better(error)),
            read => read,
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.data)
            .write(bytes)
            .map_err(|error| self.about.better(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.data.as_fd()
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.data.as_raw_fd()
    }
}
