//! A connection of messages.

use super::rights;
use crate::sys;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::time::Duration;

/// The error that the kernel reports once if the other side was closed before it had read everything. Its data from
/// before the end is still there, so reading continues to the end, which is reported by a length of zero.
pub(super) const RESET: libc::c_int = libc::ECONNRESET;

/// How many bytes the kernel may buffer towards the other side: 16 of the longest datagrams, or some thousand short
/// ones, which cost the kernel about 1 KiB each.
pub(super) const KERNEL_BUFFER_BYTES: libc::c_int = 1 << 20;

/// A connection that carries whole messages in order. Non-blocking unless switched.
#[derive(Debug)]
pub struct SeqStream {
    fd: OwnedFd,
}

/// The result of [`SeqStream::recv_into`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A message of this many bytes.
    Message(usize),
    /// A message of this many bytes, which is longer than the buffer; the rest is lost.
    Truncated(usize),
    /// There is nothing now.
    Empty,
    /// The other side has closed. (An empty message would look the same, but there are none.)
    Closed,
}

/// How one call differs from the socket's settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// The call does not block, even if the socket is blocking.
    pub at_once: bool,
    /// The received message stays, and will be received again.
    pub peek: bool,
}

impl How {
    fn flags(self) -> libc::c_int {
        let at_once = libc::MSG_DONTWAIT * libc::c_int::from(self.at_once);
        at_once | (libc::MSG_PEEK * libc::c_int::from(self.peek))
    }
}

/// The process at the other end, as the kernel saw it when it connected or listened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its process id.
    pub pid: i32,
    /// Its user id.
    pub uid: u32,
    /// Its group id.
    pub gid: u32,
}

/// Returns the process at the other end of a Unix socket.
pub fn peer(socket: BorrowedFd<'_>) -> io::Result<Peer> {
    let mut creds = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: "SO_PEERCRED ... returns a ucred structure", into ours of that size.
    sys::check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            ptr::from_mut(&mut creds).cast(),
            &raw mut len,
        )
    })?;
    Ok(Peer {
        pid: creds.pid,
        uid: creds.uid,
        gid: creds.gid,
    })
}

impl SeqStream {
    /// Connects to the listener at `path`.
    pub fn connect(path: &Path) -> io::Result<SeqStream> {
        let fd = sys::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET)?;
        let (name, len) = unix_name(path).ok_or(io::ErrorKind::InvalidInput)?;
        // This does not block: "for UNIX domain sockets, EAGAIN: the socket is nonblocking, and the connection cannot
        // be completed immediately", which means that the backlog is full.
        // SAFETY: `name` is an address of `len` bytes.
        sys::check(unsafe { libc::connect(fd.as_raw_fd(), (&raw const name).cast(), len) })?;
        Ok(SeqStream::from_fd(fd))
    }

    /// Creates two connected ends.
    pub fn pair() -> io::Result<(SeqStream, SeqStream)> {
        let (a, b) = sys::socketpair(libc::SOCK_SEQPACKET)?;
        Ok((SeqStream::from_fd(a), SeqStream::from_fd(b)))
    }

    pub(super) fn from_fd(fd: OwnedFd) -> SeqStream {
        sys::enlarge_send_buffer(fd.as_fd(), KERNEL_BUFFER_BYTES);
        SeqStream { fd }
    }

    /// Receives one message.
    pub fn recv_into(&self, buffer: &mut [u8]) -> io::Result<Received> {
        loop {
            // SAFETY: the buffer is ours and of the length given. "MSG_TRUNC: return the real
            // length of the packet or datagram, even when it was longer than the passed buffer".
            let len = sys::check_len(unsafe {
                libc::recv(
                    self.fd.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    libc::MSG_TRUNC,
                )
            });
            return match len {
                Ok(0) => Ok(Received::Closed),
                Ok(len) if len > buffer.len() => Ok(Received::Truncated(len)),
                Ok(len) => Ok(Received::Message(len)),
                Err(error) => match sys::errno(&error) {
                    libc::EINTR | RESET => continue,
                    libc::EAGAIN => Ok(Received::Empty),
                    _ => Err(error),
                },
            };
        }
    }

    /// Receives one message into `parts`, one after the other, as `how` says.
    pub fn recv_parts(&self, parts: &mut [IoSliceMut<'_>], how: How) -> io::Result<Received> {
        let room: usize = parts.iter().map(|part| part.len()).sum();
        loop {
            // SAFETY: all zero is a valid `msghdr`.
            let mut header: libc::msghdr = unsafe { mem::zeroed() };
            // An IoSliceMut "is guaranteed to be ABI compatible with the iovec type".
            header.msg_iov = parts.as_mut_ptr().cast();
            header.msg_iovlen = parts.len() as _;
            let flags = how.flags() | libc::MSG_TRUNC;
            // SAFETY: the header points to `parts`, which are ours for the call.
            let len = sys::check_len(unsafe {
                libc::recvmsg(self.fd.as_raw_fd(), &raw mut header, flags)
            });
            return match len {
                Ok(0) => Ok(Received::Closed),
                Ok(len) if len > room => Ok(Received::Truncated(len)),
                Ok(len) => Ok(Received::Message(len)),
                Err(error) => match sys::errno(&error) {
                    libc::EINTR | RESET => continue,
                    libc::EAGAIN => Ok(Received::Empty),
                    _ => Err(error),
                },
            };
        }
    }

    /// Sends one message that consists of `parts`. It fails with `WouldBlock` if the other side's buffer is full, and
    /// with `BrokenPipe` if that side is gone.
    pub fn send_parts(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        self.send_how(parts, How::default())
    }

    /// Does the same as `how` says.
    pub fn send_how(&self, parts: &[IoSlice<'_>], how: How) -> io::Result<()> {
        let flags = how.flags() | libc::MSG_NOSIGNAL;
        // SAFETY: all zero is a valid `msghdr`.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        // An IoSlice "is guaranteed to be ABI compatible with the iovec type".
        header.msg_iov = parts.as_ptr().cast_mut().cast();
        header.msg_iovlen = parts.len() as _;
        // SAFETY: the header points to `parts`, which outlive the call and are only read.
        unsafe { rights::send_message(self.fd.as_raw_fd(), &header, flags) }
    }

    /// Returns the process at the other end.
    pub fn peer(&self) -> io::Result<Peer> {
        peer(self.fd.as_fd())
    }

    /// Sets how long receiving and sending block; `None` means for ever. After that time receiving returns
    /// [`Received::Empty`], and sending fails with `WouldBlock`.
    pub fn set_timeouts(
        &self,
        receive: Option<Duration>,
        send: Option<Duration>,
    ) -> io::Result<()> {
        for (name, timeout) in [(libc::SO_RCVTIMEO, receive), (libc::SO_SNDTIMEO, send)] {
            // Zero would mean for ever.
            let timeout = timeout.map(|timeout| timeout.max(Duration::from_micros(1)));
            let value = libc::timeval {
                tv_sec: timeout.map_or(0, |t| t.as_secs().min(i32::MAX as u64) as libc::time_t),
                tv_usec: timeout.map_or(0, |t| t.subsec_micros() as libc::suseconds_t),
            };
            // SAFETY: "the argument is a struct timeval", which outlives the call, with its size.
            sys::check(unsafe {
                libc::setsockopt(
                    self.fd.as_raw_fd(),
                    libc::SOL_SOCKET,
                    name,
                    (&raw const value).cast(),
                    size_of::<libc::timeval>() as libc::socklen_t,
                )
            })?;
        }
        Ok(())
    }

    /// Sets whether receiving and sending block.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        sys::set_nonblocking(self.fd.as_fd(), on)
    }

    /// Returns the length of the next message without taking it, as [`Received::Truncated`].
    pub fn peek_len(&self) -> io::Result<Received> {
        let flags = libc::MSG_PEEK | libc::MSG_TRUNC;
        let nothing = ptr::null_mut();
        loop {
            // SAFETY: a buffer of no bytes. "MSG_TRUNC: return the real length of the packet".
            return match sys::check_len(unsafe {
                libc::recv(self.fd.as_raw_fd(), nothing, 0, flags)
            }) {
                Ok(0) => Ok(Received::Closed),
                Ok(len) => Ok(Received::Truncated(len)),
                Err(error) => match sys::errno(&error) {
                    libc::EINTR | RESET => continue,
                    libc::EAGAIN => Ok(Received::Empty),
                    _ => Err(error),
                },
            };
        }
    }

    pub(super) fn raw(&self) -> libc::c_int {
        self.fd.as_raw_fd()
    }
}

impl AsFd for SeqStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<OwnedFd> for SeqStream {
    /// Wraps a descriptor that was received with a message. It must be a message socket.
    fn from(fd: OwnedFd) -> SeqStream {
        SeqStream::from_fd(fd)
    }
}

impl From<SeqStream> for OwnedFd {
    fn from(stream: SeqStream) -> OwnedFd {
        stream.fd
    }
}

/// Returns the address of a path; `None` if it is too long, empty, or contains a zero byte.
pub(super) fn unix_name(path: &Path) -> Option<(libc::sockaddr_un, libc::socklen_t)> {
    let bytes = path.as_os_str().as_bytes();
    let mut name = libc::sockaddr_un {
        sun_family: libc::AF_UNIX as libc::sa_family_t,
        sun_path: [0; 108],
    };
    // One byte stays for the final zero.
    if bytes.is_empty() || bytes.len() >= name.sun_path.len() || bytes.contains(&0) {
        return None;
    }
    for (to, &from) in name.sun_path.iter_mut().zip(bytes) {
        *to = from as libc::c_char;
    }
    let len = mem::offset_of!(libc::sockaddr_un, sun_path) + bytes.len() + 1;
    Some((name, len as libc::socklen_t))
}
