//! What the standard library's TCP sockets have no methods for.

use crate::sys;
use std::io;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

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
