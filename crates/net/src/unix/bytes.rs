//! A connection of bytes: the client's end of a stream over the overlay, and the node's end.

use super::stream::KERNEL_BUFFER_BYTES;
use crate::sys;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// A connection that carries bytes in order. Non-blocking unless switched.
#[derive(Debug)]
pub struct ByteStream {
    fd: OwnedFd,
}

/// The result of [`ByteStream::recv_into`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// This many bytes, at least one.
    Bytes(usize),
    /// There is nothing now.
    Empty,
    /// The other side writes nothing more, and everything has been read.
    End,
    /// The other side has closed without having read everything.
    Reset,
}

impl ByteStream {
    /// Creates two connected ends.
    pub fn pair() -> io::Result<(ByteStream, ByteStream)> {
        let (a, b) = sys::socketpair(libc::SOCK_STREAM)?;
        Ok((ByteStream::from_fd(a), ByteStream::from_fd(b)))
    }

    fn from_fd(fd: OwnedFd) -> ByteStream {
        sys::enlarge_send_buffer(fd.as_fd(), KERNEL_BUFFER_BYTES);
        ByteStream { fd }
    }

    /// Sets whether receiving and sending block.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        sys::set_nonblocking(self.fd.as_fd(), on)
    }

    /// Receives what there is, as far as `buffer` has room. `buffer` must not be empty.
    pub fn recv_into(&self, buffer: &mut [u8]) -> io::Result<Taken> {
        loop {
            // SAFETY: the buffer is ours and of the length given.
            let len = sys::check_len(unsafe {
                libc::recv(
                    self.fd.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    0,
                )
            });
            return match len {
                Ok(0) => Ok(Taken::End),
                Ok(len) => Ok(Taken::Bytes(len)),
                Err(error) => match sys::errno(&error) {
                    libc::EINTR => continue,
                    libc::EAGAIN => Ok(Taken::Empty),
                    libc::ECONNRESET => Ok(Taken::Reset),
                    _ => Err(error),
                },
            };
        }
    }

    /// Sends as much of `bytes` as the other side's buffer accepts, and returns how much that is. It fails with
    /// `BrokenPipe` if the other side is gone.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            // SAFETY: the bytes are ours and of the length given, and only read.
            let sent = sys::check_len(unsafe {
                libc::send(
                    self.fd.as_raw_fd(),
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    libc::MSG_NOSIGNAL,
                )
            });
            return match sent {
                Ok(sent) => Ok(sent),
                Err(error) => match sys::errno(&error) {
                    libc::EINTR => continue,
                    libc::EAGAIN => Ok(0),
                    libc::ECONNRESET => Err(io::ErrorKind::BrokenPipe.into()),
                    _ => Err(error),
                },
            };
        }
    }
}

impl AsFd for ByteStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<OwnedFd> for ByteStream {
    /// Wraps a descriptor that was received with a message. It must be a byte socket.
    fn from(fd: OwnedFd) -> ByteStream {
        ByteStream::from_fd(fd)
    }
}

impl From<ByteStream> for OwnedFd {
    fn from(stream: ByteStream) -> OwnedFd {
        stream.fd
    }
}

/// Ends the sending direction of `fd`: the other side reads to the end.
pub fn shutdown_write(fd: impl AsFd) -> io::Result<()> {
    // SAFETY: no pointers are involved.
    sys::check(unsafe { libc::shutdown(fd.as_fd().as_raw_fd(), libc::SHUT_WR) }).map(drop)
}
