//! A receiver that does not disturb the measurement: the kernel notes when each datagram arrives, so they may be taken
//! late, many at once.

use super::batch::{Inbox, MESSAGES, prepare};
use crate::{clock, sys};
use base::pool::SMALL_BYTES;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;

/// Takes datagrams from sockets that it has prepared.
pub struct Recorder {
    inbox: Inbox,
}

impl Recorder {
    /// Creates a recorder with room for 64 datagrams of at most 2 KiB at once.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Recorder {
        Recorder {
            inbox: Inbox::new(SMALL_BYTES),
        }
    }

    /// Makes a socket note arrivals and keep `buffer_bytes` of datagrams, as the kernel counts them: some 1 KiB for a
    /// short one. Without privileges it keeps less. The kernel begins to note arrivals some milliseconds later.
    pub fn prepare(socket: &UdpSocket, buffer_bytes: i32) -> io::Result<()> {
        prepare(socket, false)?;
        socket.set_nonblocking(true)?;
        let fd = socket.as_fd();
        sys::set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        for name in [libc::SO_RCVBUFFORCE, libc::SO_RCVBUF] {
            if sys::set_option(fd, libc::SOL_SOCKET, name, buffer_bytes).is_ok() {
                break;
            }
        }
        Ok(())
    }

    /// Takes all datagrams that wait at `socket`, without blocking: passes the bytes of each, and its arrival time in
    /// nanoseconds since 1970. Returns how many there were.
    pub fn take(
        &mut self,
        socket: &UdpSocket,
        mut each: impl FnMut(&[u8], u64),
    ) -> io::Result<usize> {
        let mut taken = 0;
        loop {
            let count = self.inbox.receive(socket.as_fd())?;
            for i in 0..count {
                let at_ns = self.inbox.arrived_ns(i).unwrap_or_else(unix_ns);
                let (len, _) = self.inbox.lengths(i);
                each(self.inbox.bytes_mut(i, len), at_ns);
            }
            taken += count;
            if count < MESSAGES {
                return Ok(taken);
            }
        }
    }
}

/// Returns the time of the clock that [`Recorder::take`] uses.
pub fn unix_ns() -> u64 {
    clock::read(libc::CLOCK_REALTIME)
}
