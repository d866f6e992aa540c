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

/// What the kernel says once when the other side was closed before it had read everything. What it had
/// sent before is still there, so it is read on: to the end, which is told by no bytes.
pub(super) const RESET: libc::c_int = libc::ECONNRESET;

/// What the kernel may buffer towards the other side: 16 of the longest datagrams, or some
/// thousand short ones, which cost the kernel about 1 KiB each.
pub(super) const KERNEL_BUFFER_BYTES: libc::c_int = 1 << 20;

/// A connection over which whole messages travel, in order. Non-blocking unless switched.
#[derive(Debug)]
pub struct SeqStream {
    fd: OwnedFd,
}

/// What [`SeqStream::recv_into`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A message of this many bytes.
    Message(usize),
    /// A message of this many bytes, longer than the buffer; what did not fit is lost.
    Truncated(usize),
    /// Nothing now.
    Empty,
    /// The other side has closed. (A message without bytes looks the same: there are none.)
    Closed,
}

/// How one call differs from what the socket is set to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// It does not wait, though the socket may.
    pub at_once: bool,
    /// What is received stays, and is received again.
    pub peek: bool,
}

impl How {
    fn flags(self) -> libc::c_int {
        let at_once = libc::MSG_DONTWAIT * libc::c_int::from(self.at_once);
        at_once | (libc::MSG_PEEK * libc::c_int::from(self.peek))
    }
}

/// Who is at the other end, as the kernel saw him connect or listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// His process.
    pub pid: i32,
    /// His user.
    pub uid: u32,
    /// His group.
    pub gid: u32,
}

/// Who has connected the other end of a Unix socket.
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
        // Does not wait: "for UNIX domain sockets, EAGAIN: the socket is nonblocking, and the
        // connection cannot be completed immediately", which says that the backlog is full.
        // SAFETY: `name` is an address of `len` bytes.
        sys::check(unsafe { libc::connect(fd.as_raw_fd(), (&raw const name).cast(), len) })?;
        Ok(SeqStream::from_fd(fd))
    }

    /// Two connected ends.
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

    /// Receives one message into `parts`, one after the other, in the way that `how` says.
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

    /// Sends one message out of `parts`. `WouldBlock` when the other side's buffer is full,
    /// `BrokenPipe` when it is gone.
    pub fn send_parts(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        self.send_how(parts, How::default())
    }

    /// The same, in the way that `how` says.
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

    /// Who is at the other end.
    pub fn peer(&self) -> io::Result<Peer> {
        peer(self.fd.as_fd())
    }

    /// How long receiving and sending wait while they do; `None` for ever. Afterwards receiving
    /// finds [`Received::Empty`] and sending fails with `WouldBlock`.
    pub fn set_timeouts(
        &self,
        receive: Option<Duration>,
        send: Option<Duration>,
    ) -> io::Result<()> {
        for (name, timeout) in [(libc::SO_RCVTIMEO, receive), (libc::SO_SNDTIMEO, send)] {
            // Zero would be for ever.
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

    /// Makes receiving and sending wait, or not.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        sys::set_nonblocking(self.fd.as_fd(), on)
    }

    /// How long the next message is, without taking it: [`Received::Truncated`] of its length.
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
    /// A descriptor that came beside a message; it must be of a message socket.
    fn from(fd: OwnedFd) -> SeqStream {
        SeqStream::from_fd(fd)
    }
}

impl From<SeqStream> for OwnedFd {
    fn from(stream: SeqStream) -> OwnedFd {
        stream.fd
    }
}

/// The address of a path; `None` when it is too long, empty, or has a zero byte.
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
