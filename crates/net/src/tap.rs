//! TAP devices: Ethernet interfaces of this machine whose wire is a descriptor of ours.
//!
//! ```text
//!   programs ── IP stack ── interface "emu0" ═══ Tap ── receive: a frame that was sent there
//!                                                    └─ send: a frame arrives there
//! ```
//!
//! A device is created in the network of the thread that opens it, and belongs there for good; the descriptor works
//! from anywhere. The device disappears with the descriptor, unless it existed before. Frames are complete: nothing is
//! offloaded to a TAP, so their checksums are filled in. Needs root.

use crate::sys;
use std::fs::OpenOptions;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// Size of a frame's header before its IP packet: two addresses and a type.
pub const ETHERNET_BYTES: usize = 14;
/// Longest IP packet that an interface of this kind accepts: 65 535 less the Ethernet header.
pub const MTU_MAX: usize = 65_521;
/// Longest frame.
pub const FRAME_BYTES_MAX: usize = ETHERNET_BYTES + MTU_MAX;

/// An Ethernet interface, from the side of its wire.
#[derive(Debug)]
pub struct Tap {
    fd: OwnedFd,
    name: String,
    /// True if each frame is preceded by a header that says what is left to a network card.
    has_offload: bool,
}

/// Size of the header that says what is left to a network card, of `linux/virtio_net.h`.
const OFFLOAD_BYTES: usize = 10;
/// The header of a frame that needs no further work.
const PLAIN: [u8; OFFLOAD_BYTES] = [0; OFFLOAD_BYTES];
/// Number of parts of a train that is sent at once, in addition to its head.
pub const TRAIN_PARTS_MAX: usize = 64;

impl Tap {
    /// Creates the interface `name` in the calling thread's network, down and without addresses, or takes over one of
    /// this kind that no process holds. Reading and writing never block.
    ///
    /// # Errors
    /// Returns `InvalidInput` if this is no valid name of an interface; otherwise the kernel's error, such as
    /// `PermissionDenied` without root and `ResourceBusy` if another process holds it.
    pub fn open(name: &str) -> io::Result<Tap> {
        Tap::open_as(name, false)
    }

    /// Does the same, for senders of trains of datagrams ([`Tap::send_train`]).
    ///
    /// # Errors
    /// Returns the same errors as [`Tap::open`].
    pub fn open_for_trains(name: &str) -> io::Result<Tap> {
        Tap::open_as(name, true)
    }

    fn open_as(name: &str, has_offload: bool) -> io::Result<Tap> {
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
        // Without IFF_NO_PI, four bytes would precede each frame.
        let offload = if has_offload { libc::IFF_VNET_HDR } else { 0 };
        let flags = libc::IFF_TAP | libc::IFF_NO_PI | offload;
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        // SAFETY: TUNSETIFF takes an `ifreq` that it reads and writes; ours outlives the call.
        sys::check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) })?;
        Ok(Tap {
            fd,
            name: name.to_owned(),
            has_offload,
        })
    }

    /// Returns the interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the length of the next frame that was sent by the interface; `None` if none waits. A frame that is
    /// longer than `frame` is truncated.
    pub fn receive(&self, frame: &mut [u8]) -> io::Result<Option<usize>> {
        // The kernel leaves no work to us that we have not requested, so this header is ignored.
        let mut offload = [0; OFFLOAD_BYTES];
        let mut parts = [IoSliceMut::new(&mut offload), IoSliceMut::new(frame)];
        let parts = &mut parts[usize::from(!self.has_offload)..];
        let count = parts.len() as libc::c_int;
        // SAFETY: `IoSliceMut` has the layout of `iovec`; the buffers are ours, with their lengths.
        let len = unsafe { libc::readv(self.fd.as_raw_fd(), parts.as_mut_ptr().cast(), count) };
        let before = if self.has_offload { OFFLOAD_BYTES } else { 0 };
        match sys::check_len(len) {
            Ok(len) => Ok(Some(len.saturating_sub(before))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Delivers a frame to the interface.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.send_parts([IoSlice::new(frame), IoSlice::new(&[])])
    }

    /// Delivers a frame that consists of two parts.
    pub fn send_parts(&self, [head, body]: [IoSlice<'_>; 2]) -> io::Result<()> {
        let parts = [IoSlice::new(&PLAIN), head, body];
        self.write(&parts[usize::from(!self.has_offload)..])
    }

    /// Delivers UDP datagrams that have everything but their payload in common. `head` has the headers of Ethernet,
    /// IPv4 without options and UDP, as of one long datagram, with the sum of the pseudo header in the place of UDP's
    /// checksum. The `payloads` have `segment` bytes each, except the last.
    ///
    /// # Errors
    /// Returns `InvalidInput` for too many payloads, and for an interface that was not opened for this; otherwise the
    /// kernel's error: kernels before 6.2 refuse.
    pub fn send_train<'p>(
        &self,
        head: &[u8],
        segment: u16,
        payloads: impl Iterator<Item = &'p [u8]>,
    ) -> io::Result<()> {
        const UDP_AT: u16 = (ETHERNET_BYTES + 20) as u16;
        if !self.has_offload {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut offload = PLAIN;
        // A checksum has to be filled in, and datagrams have to be cut.
        (offload[0], offload[1]) = (1, 5);
        let numbers = [head.len() as u16, segment, UDP_AT, 6].map(u16::to_ne_bytes);
        offload[2..].copy_from_slice(numbers.as_flattened());
        let mut parts = [IoSlice::new(&[]); TRAIN_PARTS_MAX + 2];
        (parts[0], parts[1]) = (IoSlice::new(&offload), IoSlice::new(head));
        let mut count = 2;
        for payload in payloads {
            let part = parts.get_mut(count).ok_or(io::ErrorKind::InvalidInput)?;
            *part = IoSlice::new(payload);
            count += 1;
        }
        self.write(&parts[..count])
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
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

/// Returns true if the kernel accepts this as the name of one interface: "%d" would mean any free one.
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
