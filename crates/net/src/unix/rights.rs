//! Descriptors that are sent with a message. [unix(7), SCM_RIGHTS]

use super::stream::{RESET, Received, SeqStream};
use crate::sys;
use std::io::{self, IoSlice};
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Number of descriptors with one message: a stream, and the connection that reports its end.
pub const FDS_MAX: usize = 2;

/// Room for one control message of [`FDS_MAX`] descriptors: 16 bytes of header and 8 of descriptors. The kernel needs
/// it aligned like a `cmsghdr`.
#[repr(C, align(8))]
struct Ancillary([u8; 32]);

impl SeqStream {
    /// Sends one message that consists of `parts`, with copies of `fds`, at most [`FDS_MAX`]. It fails like
    /// [`SeqStream::send_parts`], and also if too many descriptors are in transit.
    pub fn send_with_fds(&self, parts: &[IoSlice<'_>], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        if fds.is_empty() {
            return self.send_parts(parts);
        }
        if fds.len() > FDS_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        send(self.raw(), parts, fds, libc::MSG_NOSIGNAL)
    }

    /// Receives one message and the descriptors that were sent with it, closed on exec.
    pub fn recv_with_fds(
        &self,
        buffer: &mut [u8],
    ) -> io::Result<(Received, [Option<OwnedFd>; FDS_MAX])> {
        receive(self.raw(), buffer, 0)
    }
}

/// Sends a copy of a descriptor to the other end of a connection of bytes, with one byte, without blocking.
pub fn give(socket: BorrowedFd<'_>, given: BorrowedFd<'_>) -> io::Result<()> {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    send(socket.as_raw_fd(), &[IoSlice::new(&[0])], &[given], flags)
}

/// Takes the descriptor that [`give`] has sent, if it has already arrived.
pub fn taken(socket: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    let (_, [taken, _]) = receive(socket.as_raw_fd(), &mut [0], libc::MSG_DONTWAIT)?;
    Ok(taken)
}

/// Waits until something arrives on a connection of bytes, and leaves it there. Returns 1, or 0 at the end.
pub fn peek(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut byte = [0u8];
    loop {
        // SAFETY: the buffer is ours and of the length given.
        let len = sys::check_len(unsafe {
            libc::recv(
                socket.as_raw_fd(),
                byte.as_mut_ptr().cast(),
                1,
                libc::MSG_PEEK,
            )
        });
        match len {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Sends `parts` with copies of `fds`, at most [`FDS_MAX`].
fn send(
    socket: RawFd,
    parts: &[IoSlice<'_>],
    fds: &[BorrowedFd<'_>],
    flags: libc::c_int,
) -> io::Result<()> {
    let mut ancillary = Ancillary([0; 32]);
    let bytes = size_of_val(fds) as libc::c_uint;
    // SAFETY: all zero is a valid `msghdr`.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    // An IoSlice "is guaranteed to be ABI compatible with the iovec type".
    header.msg_iov = parts.as_ptr().cast_mut().cast();
    header.msg_iovlen = parts.len() as _;
    header.msg_control = ancillary.0.as_mut_ptr().cast();
    // SAFETY: CMSG_SPACE computes from its argument alone; 24 for two descriptors, so the
    // buffer is large enough.
    header.msg_controllen = unsafe { libc::CMSG_SPACE(bytes) } as _;
    // SAFETY: "CMSG_FIRSTHDR returns a pointer to the first cmsghdr in the ancillary data
    // buffer", ours, which is aligned for it and has room for it and its data.
    unsafe {
        let first = libc::CMSG_FIRSTHDR(&raw const header);
        (*first).cmsg_level = libc::SOL_SOCKET;
        (*first).cmsg_type = libc::SCM_RIGHTS;
        (*first).cmsg_len = libc::CMSG_LEN(bytes) as _;
        let data: *mut RawFd = libc::CMSG_DATA(first).cast();
        for (i, fd) in fds.iter().enumerate() {
            data.add(i).write_unaligned(fd.as_raw_fd());
        }
    }
    // SAFETY: the header points to `parts` and `ancillary`, which outlive the call and are only read.
    unsafe { send_message(socket, &header, flags) }
}

/// Sends one message. It fails with `BrokenPipe` if the other side is gone.
///
/// # Safety
///
/// The data that `header` points to must outlive the call; it is only read.
pub(super) unsafe fn send_message(
    socket: RawFd,
    header: &libc::msghdr,
    flags: libc::c_int,
) -> io::Result<()> {
    loop {
        // SAFETY: the caller sees to what the header points to.
        let sent = sys::check_len(unsafe { libc::sendmsg(socket, header, flags) });
        match sent {
            Ok(_) => return Ok(()),
            Err(error) if sys::errno(&error) == libc::EINTR => {}
            Err(error) if sys::errno(&error) == libc::ECONNRESET => {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            Err(error) => return Err(error),
        }
    }
}

/// Receives what there is, as one message, and the descriptors that were sent with it, closed on exec.
fn receive(
    socket: RawFd,
    buffer: &mut [u8],
    flags: libc::c_int,
) -> io::Result<(Received, [Option<OwnedFd>; FDS_MAX])> {
    let mut ancillary = Ancillary([0; 32]);
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    loop {
        // SAFETY: all zero is a valid `msghdr`.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = ancillary.0.as_mut_ptr().cast();
        header.msg_controllen = ancillary.0.len() as _;
        let flags = flags | libc::MSG_CMSG_CLOEXEC | libc::MSG_TRUNC;
        // SAFETY: the header points to our buffers, with their lengths.
        let len = sys::check_len(unsafe { libc::recvmsg(socket, &raw mut header, flags) });
        let received = match len {
            Ok(0) => Received::Closed,
            Ok(len) if len > buffer.len() => Received::Truncated(len),
            Ok(len) => Received::Message(len),
            Err(error) => match sys::errno(&error) {
                libc::EINTR | RESET => continue,
                libc::EAGAIN => Received::Empty,
                _ => return Err(error),
            },
        };
        let fds = match received {
            Received::Message(_) | Received::Truncated(_) => take_fds(&header),
            Received::Empty | Received::Closed => [None, None],
        };
        return Ok((received, fds));
    }
}

/// Takes ownership of the descriptors in a received header. More than [`FDS_MAX`] are closed.
fn take_fds(header: &libc::msghdr) -> [Option<OwnedFd>; FDS_MAX] {
    let mut fds = [None, None];
    let mut at = 0;
    // SAFETY: the kernel has filled the header's control buffer with whole messages of the length
    // that it tells, and each descriptor in an SCM_RIGHTS message is new and nobody else's.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while !message.is_null() {
            let is_rights = (*message).cmsg_level == libc::SOL_SOCKET
                && (*message).cmsg_type == libc::SCM_RIGHTS;
            if is_rights {
                let bytes =
                    ((*message).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                let data: *const RawFd = libc::CMSG_DATA(message).cast();
                for i in 0..bytes / size_of::<RawFd>() {
                    let fd = OwnedFd::from_raw_fd(data.add(i).read_unaligned());
                    if let Some(place) = fds.get_mut(at) {
                        *place = Some(fd);
                    }
                    at += 1;
                }
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    fds
}
