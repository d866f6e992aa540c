//! TAP devices: Ethernet interfaces of this machine whose wire is a descriptor of ours.
//!
//! ```text
//!   programs ── IP stack ── interface "emu0" ═══ Tap ── receive: a frame that was sent there
//!                                                    └─ send: a frame arrives there
//! ```
//!
//! A device is made in the network of the thread that opens it and belongs there for good; the
//! descriptor works from anywhere. It goes with the descriptor, unless it was there before. Frames
//! are whole: nothing is offloaded to a TAP, so their checksums are filled in. Needs root.

use crate::sys;
use std::fs::OpenOptions;
use std::io::{self, IoSlice};
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// Bytes of a frame before its IP packet: two addresses and a type.
pub const ETHERNET_BYTES: usize = 14;
/// Longest IP packet that an interface of this kind takes: 65 535 less the Ethernet header.
pub const MTU_MAX: usize = 65_521;
/// Longest frame.
pub const FRAME_BYTES_MAX: usize = ETHERNET_BYTES + MTU_MAX;

/// An Ethernet interface, from the side of its wire.
#[derive(Debug)]
pub struct Tap {
    fd: OwnedFd,
    name: String,
}

impl Tap {
    /// Makes the interface `name` in the calling thread's network, down and without addresses, or
    /// takes over one of this kind that nobody holds. Reading and writing never block.
    ///
    /// # Errors
    /// `InvalidInput` for what is no name of an interface; whatever the kernel says, such as
    /// `PermissionDenied` without root and `ResourceBusy` if somebody holds it.
    pub fn open(name: &str) -> io::Result<Tap> {
        if !is_interface_name(name) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/net/tun")?;
        let fd = OwnedFd::from(device);
        // SAFETY: all zero is a valid `ifreq`: no name, no flags.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        // Without IFF_NO_PI four bytes would stand before each frame.
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: TUNSETIFF takes an `ifreq` that it reads and writes; ours outlives the call.
        sys::check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) })?;
        Ok(Tap {
            fd,
            name: name.to_owned(),
        })
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The next frame that was sent by the interface, and its length; `None` when none waits. A
    /// frame that is longer than `frame` is cut.
    pub fn receive(&self, frame: &mut [u8]) -> io::Result<Option<usize>> {
        // SAFETY: "read() attempts to read up to count bytes ... into the buffer": ours, with its
        // length.
        let len =
            unsafe { libc::read(self.fd.as_raw_fd(), frame.as_mut_ptr().cast(), frame.len()) };
        match sys::check_len(len) {
            Ok(len) => Ok(Some(len)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lets a frame arrive at the interface.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: "write() writes up to count bytes from the buffer", which is only read.
        let len = unsafe { libc::write(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len()) };
        sys::check_len(len).map(drop)
    }

    /// Lets a frame arrive that is in parts.
    pub fn send_parts(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let count = parts.len() as libc::c_int;
        // SAFETY: `IoSlice` has the layout of `iovec`; the parts are only read.
        let len = unsafe { libc::writev(self.fd.as_raw_fd(), parts.as_ptr().cast(), count) };
        sys::check_len(len).map(drop)
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Whether the kernel takes this as the name of one interface: "%d" would mean any that is free.
pub fn is_interface_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b':' | b'%');
    (1..libc::IFNAMSIZ).contains(&name.len())
        && name.bytes().all(plain)
        && !matches!(name, "." | "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_name_of_an_interface_is_refused_before_the_kernel_is_asked() {
        for name in [
            "",
            "a/b",
            "tap%d",
            "a b",
            ".",
            "..",
            "sixteen-letters-",
            "x\u{e9}",
        ] {
            assert!(!is_interface_name(name), "{name}");
            let error = Tap::open(name).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        assert!(is_interface_name("emu0") && is_interface_name("fifteen-letters"));
    }
}
