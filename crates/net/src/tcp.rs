//! What the standard library's TCP sockets have no methods for.

use crate::sys;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};

/// Chooses a connection's congestion control by the kernel's name for it: `reno`, `cubic`, `bbr`.
/// A listener hands its own on to what it accepts.
///
/// # Errors
/// `NotFound` if the kernel has it not, `PermissionDenied` if only root may choose it.
pub fn set_congestion_control(socket: impl AsFd, name: &str) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: "the arguments optval and optlen are used to access option values": the name's bytes
    // with their number, which the kernel only reads.
    let result = unsafe {
        libc::setsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    };
    sys::check(result).map(drop)
}

/// Has the kernel ask an end that says nothing whether it is still there: after a minute, every 15 s
/// from then on, four times. Who has vanished without a word does not hold a connection for ever.
pub fn keep_alive(socket: impl AsFd) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    for (level, name, value) in [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 60),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 15),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 4),
    ] {
        let value: libc::c_int = value;
        // SAFETY: "the arguments optval and optlen are used to access option values": an int with
        // its size, which the kernel only reads.
        let result = unsafe {
            libc::setsockopt(
                fd,
                level,
                name,
                (&raw const value).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        sys::check(result)?;
    }
    Ok(())
}

/// Resets the connection of `socket`: the peer gets an error and not an end, and so do the threads
/// that read or write here.
pub fn abort(socket: impl AsFd) {
    // SAFETY: all zero is a valid `sockaddr`.
    let mut nobody: libc::sockaddr = unsafe { mem::zeroed() };
    nobody.sa_family = libc::AF_UNSPEC as libc::sa_family_t;
    let len = size_of::<libc::sockaddr>() as libc::socklen_t;
    // "Some protocol sockets (e.g., TCP sockets) may dissolve the association by connecting to an
    // address with the sa_family member of sockaddr set to AF_UNSPEC."
    // SAFETY: the kernel reads `nobody`, which is of the length given.
    let dissolved =
        sys::check(unsafe { libc::connect(socket.as_fd().as_raw_fd(), &raw const nobody, len) });
    // It fails only when there is no connection any more.
    drop(dissolved);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn both_ends_of_an_aborted_connection_get_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut there, _) = listener.accept().unwrap();
        let reader = here.try_clone().unwrap();
        let waiting = std::thread::spawn(move || (&reader).read(&mut [0; 8]).map(drop));
        abort(&here);
        assert_eq!(
            there.read(&mut [0; 8]).unwrap_err().kind(),
            io::ErrorKind::ConnectionReset
        );
        // Whether it waited already or came later, it does not wait for ever.
        drop(waiting.join().unwrap());
        drop(here.read(&mut [0; 8]));
    }

    #[test]
    fn every_kernel_has_reno_and_none_has_nonsense() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set_congestion_control(&listener, "reno").unwrap();
        for name in [
            "no-such-control",
            "a-name-that-is-far-too-long-for-the-kernel",
        ] {
            let error = set_congestion_control(&listener, name).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{name}");
        }
    }
}
