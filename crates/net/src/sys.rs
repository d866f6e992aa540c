//! The parts of the C interface that every module here needs: results from `errno`, typed socket options.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Converts the result of a call that returns -1 and sets `errno` on failure.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Does the same for calls that return a length.
pub(crate) fn check_len(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Returns the `errno` in an error of the system; 0 for other errors.
pub(crate) fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}

/// Takes ownership of the descriptor that a call has just returned.
pub(crate) fn own(result: libc::c_int) -> io::Result<OwnedFd> {
    let fd = check(result)?;
    // SAFETY: the calls that this is used on return a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes a new socket, closed on exec and non-blocking.
pub(crate) fn socket(family: i32, kind: i32) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointers are involved.
    own(unsafe { libc::socket(family, kind, 0) })
}

/// Makes two connected sockets of this host, closed on exec and non-blocking.
pub(crate) fn socketpair(kind: i32) -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [-1; 2];
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: "the file descriptors used in referencing the new sockets are returned in sv[0]
    // and sv[1]", which are ours.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) })?;
    let [a, b] = fds.map(own);
    Ok((a?, b?))
}

/// Sets whether calls on a descriptor block.
pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    let mut flag = libc::c_int::from(on);
    // SAFETY: FIONBIO reads an `int`.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONBIO, &raw mut flag) }).map(drop)
}

/// Sets how much the kernel may buffer towards the other side, or as much as it permits.
pub(crate) fn enlarge_send_buffer(fd: BorrowedFd<'_>, bytes: libc::c_int) {
    for name in [libc::SO_SNDBUFFORCE, libc::SO_SNDBUF] {
        if set_option(fd, libc::SOL_SOCKET, name, bytes).is_ok() {
            break;
        }
    }
}

/// Values that a socket option may have: any bit pattern is one, and there is no padding.
pub(crate) trait OptionValue: Copy + Default {}
impl OptionValue for libc::c_int {}
/// The value of `SO_MEMINFO`: see `sock_diag(7)`.
impl OptionValue for [u32; 9] {}

/// Sets an option whose value is an `int`, as for nearly all options.
pub(crate) fn set_option(
    fd: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: "the arguments optval and optlen are used to access option values": an `int` that
    // outlives the call, with its size.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Reads an option. Bytes that the kernel does not write stay zero.
pub(crate) fn option<T: OptionValue>(fd: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<T> {
    let mut value = T::default();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: "optlen ... initially containing the size of the buffer pointed to by optval": the
    // kernel writes no more than that, and any bytes make a valid `T`.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &raw mut len,
        )
    })?;
    Ok(value)
}
