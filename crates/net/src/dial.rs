//! TCP connections from a chosen address of this host. If the routing rules of the operating system say so, packets
//! from that address leave by its uplink.

use crate::addr::Name;
use crate::sys;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// Connects to `to` from the local address `from`, with any port, within `patience`.
pub fn connect_from(from: IpAddr, to: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    let family = match (from, to) {
        (IpAddr::V4(_), SocketAddr::V4(_)) => libc::AF_INET,
        (IpAddr::V6(_), SocketAddr::V6(_)) => libc::AF_INET6,
        _ => return Err(ErrorKind::InvalidInput.into()),
    };
    let socket = sys::socket(family, libc::SOCK_STREAM)?;
    let fd = socket.as_raw_fd();
    let (name, len) = Name::of(SocketAddr::new(from, 0));
    // SAFETY: the kernel reads `name`, of which `len` bytes are the address.
    sys::check(unsafe { libc::bind(fd, (&raw const name).cast(), len) })?;
    let (name, len) = Name::of(to);
    // SAFETY: the same.
    let begun = sys::check(unsafe { libc::connect(fd, (&raw const name).cast(), len) });
    if let Err(error) = begun {
        if sys::errno(&error) != libc::EINPROGRESS {
            return Err(error);
        }
        wait(fd, Instant::now() + patience)?;
        // "After select() indicates writability, use getsockopt() to read the SO_ERROR option."
        let error: libc::c_int = sys::option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_ERROR)?;
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
    }
    sys::set_nonblocking(socket.as_fd(), false)?;
    Ok(TcpStream::from(socket))
}

/// Waits until a connection is established or has failed.
fn wait(fd: libc::c_int, until: Instant) -> io::Result<()> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        let ms = i32::try_from(left.as_millis().max(1)).unwrap_or(i32::MAX);
        let mut events = libc::pollfd {
            fd,
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: `events` is one `pollfd`, ours.
        match sys::check(unsafe { libc::poll(&raw mut events, 1, ms) }) {
            Ok(1..) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_connection_leaves_from_the_address_that_was_chosen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let from: IpAddr = "127.0.0.9".parse().unwrap();
        let made = connect_from(from, to, Duration::from_secs(5)).unwrap();
        assert_eq!(made.local_addr().unwrap().ip(), from);
        assert_eq!(listener.accept().unwrap().1.ip(), from);
        assert_eq!(made.peer_addr().unwrap(), to);
    }

    #[test]
    fn nobody_there_and_no_such_address_are_told_at_once() {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = gone.local_addr().unwrap();
        drop(gone);
        let from = |text: &str| text.parse::<IpAddr>().unwrap();
        let patience = Duration::from_secs(5);
        let refused = connect_from(from("127.0.0.9"), to, patience).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let foreign = connect_from(from("192.0.2.1"), to, patience).unwrap_err();
        assert_eq!(foreign.kind(), ErrorKind::AddrNotAvailable);
        let families = connect_from(from("::1"), to, patience).unwrap_err();
        assert_eq!(families.kind(), ErrorKind::InvalidInput);
    }
}
