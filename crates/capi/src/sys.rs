//! The kernel's calls for overlay sockets.

use crate::errno::Errno;
use core::time::Duration;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Once;

/// Returns the result of a call, or `errno`.
pub(crate) fn check(result: libc::c_int) -> Result<libc::c_int, Errno> {
    match result {
        -1 => Err(errno()),
        result => Ok(result),
    }
}

pub(crate) fn check_len(result: isize) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| errno())
}

fn errno() -> Errno {
    io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EIO)
}

/// Sets `errno` for the program.
pub(crate) fn set_errno(number: Errno) {
    // SAFETY: "__errno_location returns the address of the errno variable for the current thread".
    unsafe { *libc::__errno_location() = number };
}

/// Returns the flags of an open file, such as O_NONBLOCK.
pub(crate) fn flags(fd: RawFd) -> Result<libc::c_int, Errno> {
    // SAFETY: no pointers are involved.
    check(unsafe { libc::fcntl(fd, libc::F_GETFL) })
}

pub(crate) fn set_flags(fd: RawFd, flags: libc::c_int) -> Result<(), Errno> {
    // SAFETY: no pointers are involved.
    check(unsafe { libc::fcntl(fd, libc::F_SETFL, flags) }).map(drop)
}

/// Sets whether calls on a descriptor block.
pub(crate) fn set_nonblocking(fd: RawFd, on: bool) -> Result<(), Errno> {
    let flags = flags(fd)? & !libc::O_NONBLOCK;
    set_flags(fd, flags | if on { libc::O_NONBLOCK } else { 0 })
}

/// Sets whether a descriptor is closed when the program executes another one.
pub(crate) fn set_close_on_exec(fd: RawFd, on: bool) -> Result<(), Errno> {
    let flag = if on { libc::FD_CLOEXEC } else { 0 };
    // SAFETY: no pointers are involved.
    check(unsafe { libc::fcntl(fd, libc::F_SETFD, flag) }).map(drop)
}

/// Replaces the file of `number`, an open descriptor of ours, with that of `fd`, and keeps its flags and timeouts.
pub(crate) fn replace(number: RawFd, fd: RawFd) -> Result<(), Errno> {
    // SAFETY: no pointers are involved.
    let on_exec = check(unsafe { libc::fcntl(number, libc::F_GETFD) })?;
    let nonblocking = flags(number)? & libc::O_NONBLOCK != 0;
    let times = timeouts(number);
    set_nonblocking(fd, nonblocking)?;
    set_timeouts(fd, times);
    // SAFETY: no pointers are involved; `number` is ours, so no file of others is closed.
    check(unsafe { libc::dup2(fd, number) })?;
    set_close_on_exec(number, on_exec & libc::FD_CLOEXEC != 0)
}

/// The values of SO_RCVTIMEO and SO_SNDTIMEO.
pub(crate) type Timeouts = [Option<libc::timeval>; 2];

const TIMEOUTS: [libc::c_int; 2] = [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO];

pub(crate) fn timeouts(fd: RawFd) -> Timeouts {
    TIMEOUTS.map(|name| {
        let mut time = libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        };
        let mut len = size_of::<libc::timeval>() as libc::socklen_t;
        // SAFETY: "the argument is a struct timeval", ours, with its size.
        let result = unsafe {
            libc::getsockopt(
                fd,
                libc::SOL_SOCKET,
                name,
                (&raw mut time).cast(),
                &raw mut len,
            )
        };
        (result == 0).then_some(time)
    })
}

pub(crate) fn set_timeouts(fd: RawFd, times: Timeouts) {
    for (name, time) in TIMEOUTS.into_iter().zip(times) {
        let Some(time) = time else { continue };
        // SAFETY: "the argument is a struct timeval", ours, with its size. A failed call leaves the
        // socket without a timeout, as it is by default.
        unsafe {
            libc::setsockopt(
                fd,
                libc::SOL_SOCKET,
                name,
                (&raw const time).cast(),
                size_of::<libc::timeval>() as libc::socklen_t,
            )
        };
    }
}

/// Creates two connected sockets.
pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    let mut fds = [-1; 2];
    // SAFETY: "the file descriptors used in referencing the new sockets are returned in sv[0] and
    // sv[1]", which are ours.
    check(unsafe {
        libc::socketpair(
            libc::AF_UNIX,
            libc::SOCK_STREAM | libc::SOCK_CLOEXEC,
            0,
            fds.as_mut_ptr(),
        )
    })?;
    // SAFETY: both are new, and nobody else's.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

/// Receives from the kernel's socket.
pub(crate) fn recv(fd: RawFd, buffer: &mut [u8], flags: libc::c_int) -> Result<usize, Errno> {
    // SAFETY: the buffer is of the length given.
    check_len(unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), flags) })
}

/// Sends to the kernel's socket.
pub(crate) fn send(fd: RawFd, bytes: &[u8], flags: libc::c_int) -> Result<usize, Errno> {
    // SAFETY: the bytes are of the length given, and only read.
    check_len(unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), flags) })
}

pub(crate) fn shutdown(fd: RawFd, how: libc::c_int) -> Result<(), Errno> {
    // SAFETY: no pointers are involved.
    check(unsafe { libc::shutdown(fd, how) }).map(drop)
}

/// Returns true if the other end is gone.
pub(crate) fn hung_up(fd: RawFd) -> bool {
    let mut one = libc::pollfd {
        fd,
        events: libc::POLLRDHUP,
        revents: 0,
    };
    // SAFETY: one entry, ours; does not wait.
    unsafe { libc::poll(&raw mut one, 1, 0) };
    one.revents & (libc::POLLHUP | libc::POLLRDHUP | libc::POLLERR) != 0
}

/// Fills a socket's buffer, so that it does not poll writable. Returns the number of bytes.
pub(crate) fn fill(fd: RawFd) -> usize {
    let junk = [0; 65_536];
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    core::iter::from_fn(|| send(fd, &junk, flags).ok()).sum()
}

/// Removes `len` bytes from a socket's buffer, or as many as there are.
pub(crate) fn drain(fd: &impl AsRawFd, len: usize) {
    let mut left = len;
    let mut junk = [0; 65_536];
    while left > 0 {
        let most = left.min(junk.len());
        match recv(fd.as_raw_fd(), &mut junk[..most], libc::MSG_DONTWAIT) {
            Ok(len) if len > 0 => left -= len,
            _ => return,
        }
    }
}

/// How long the end of a program waits for the data that threads of this library carry.
const SETTLE: Duration = Duration::from_secs(5);

/// Makes the end of the program wait until written data is carried: threads do that, and otherwise a program that ends
/// does not wait for them.
pub(crate) fn settle_at_exit() {
    extern "C" fn settle() {
        crate::connecting::settle(SETTLE);
        crate::table::finish();
        client::remote::settle(SETTLE);
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the function takes and returns nothing, and does not unwind.
        unsafe { libc::atexit(settle) };
    });
}
