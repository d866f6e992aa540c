//! Waits for a few descriptors once, by poll(2): no state stays in the kernel.

use crate::sys;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A descriptor, what is awaited of it, and the result.
#[derive(Debug)]
#[repr(transparent)]
pub struct Polled<'a> {
    raw: libc::pollfd,
    fd: PhantomData<BorrowedFd<'a>>,
}

impl<'a> Polled<'a> {
    /// Waits for `fd` to be readable, or writable, or both. With neither, it waits for a hang-up.
    pub fn new(fd: BorrowedFd<'a>, read: bool, write: bool) -> Polled<'a> {
        let read = if read { libc::POLLIN } else { 0 };
        let write = if write { libc::POLLOUT } else { 0 };
        Polled {
            raw: libc::pollfd {
                fd: fd.as_raw_fd(),
                events: read | write,
                revents: 0,
            },
            fd: PhantomData,
        }
    }

    /// Returns true if something can be read, or the end has been reached.
    pub fn readable(&self) -> bool {
        self.raw.revents & (libc::POLLIN | libc::POLLHUP | libc::POLLERR) != 0
    }

    /// Returns true if something can be written.
    pub fn writable(&self) -> bool {
        self.raw.revents & libc::POLLOUT != 0
    }

    /// Returns true if the other side is gone in both directions, or an error is pending.
    pub fn hung_up(&self) -> bool {
        self.raw.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0
    }
}

/// Waits until an awaited event occurs, or `timeout` is over; `None` waits for ever. The timeout is rounded up to whole
/// milliseconds.
pub fn poll(polled: &mut [Polled<'_>], timeout: Option<std::time::Duration>) -> io::Result<usize> {
    let ms = timeout.map_or(-1, |timeout| {
        let ms = timeout.as_micros().div_ceil(1_000);
        libc::c_int::try_from(ms).unwrap_or(libc::c_int::MAX)
    });
    loop {
        // SAFETY: `Polled` is transparent over `pollfd`, and the slice has as many as are said.
        let found = sys::check(unsafe {
            libc::poll(polled.as_mut_ptr().cast(), polled.len() as libc::nfds_t, ms)
        });
        match found {
            Ok(found) => return Ok(found as usize),
            // Waiting a little longer is harmless, and signals are rare.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    #[test]
    fn what_is_awaited_is_found_and_nothing_else() {
        let (mut a, b) = UnixStream::pair().unwrap();
        let mut one = [Polled::new(b.as_fd(), true, false)];
        assert_eq!(poll(&mut one, Some(Duration::ZERO)).unwrap(), 0);
        assert!(!one[0].readable());
        a.write_all(b"x").unwrap();
        assert_eq!(poll(&mut one, None).unwrap(), 1);
        assert!(one[0].readable() && !one[0].writable() && !one[0].hung_up());
        let mut both = [
            Polled::new(b.as_fd(), true, true),
            Polled::new(a.as_fd(), true, false),
        ];
        assert_eq!(poll(&mut both, None).unwrap(), 1);
        assert!(both[0].writable() && !both[1].readable());
        drop(a);
        let mut end = [Polled::new(b.as_fd(), false, false)];
        poll(&mut end, None).unwrap();
        assert!(end[0].hung_up());
    }
}
