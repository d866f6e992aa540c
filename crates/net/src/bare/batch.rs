//! recvmmsg and sendmmsg over buffers that never move.

use crate::sys;
use crate::udp::{DATAGRAM_BYTES_MAX, GSO_SEGMENTS_MAX};
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;

/// Number of messages per call, in both directions.
pub(super) const MESSAGES: usize = 64;
/// How long a call waits before it checks whether it should stop.
const WAIT_US: libc::suseconds_t = 50_000;

/// Room for one control message, as `cmsg(3)` lays it out: header, then an `int`, a `u16` or a
/// `timespec`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Control {
    header: libc::cmsghdr,
    value: [u8; 16],
}

impl Control {
    /// Creates the control message that requests GSO; its value has to be set.
    fn segment() -> Control {
        // SAFETY: all zero is a valid `cmsghdr`.
        let mut header: libc::cmsghdr = unsafe { mem::zeroed() };
        // SAFETY: arithmetic on a length.
        header.cmsg_len = unsafe { libc::CMSG_LEN(2) } as _;
        header.cmsg_level = libc::SOL_UDP;
        header.cmsg_type = libc::UDP_SEGMENT;
        Control {
            header,
            value: [0; 16],
        }
    }
}

/// A row of receive buffers and the headers that describe them.
pub(super) struct Inbox {
    memory: Box<[u8]>,
    slot_bytes: usize,
    flags: libc::c_int,
    headers: Box<[libc::mmsghdr]>,
    iovecs: Box<[libc::iovec]>,
    controls: Box<[Control]>,
}

impl Inbox {
    /// Creates buffers of `slot_bytes` each; with 0, only lengths are received.
    pub(super) fn new(slot_bytes: usize) -> Inbox {
        Inbox {
            memory: vec![0; slot_bytes * MESSAGES].into_boxed_slice(),
            slot_bytes,
            flags: libc::MSG_WAITFORONE | if slot_bytes == 0 { libc::MSG_TRUNC } else { 0 },
            headers: headers(),
            iovecs: iovecs(MESSAGES),
            controls: vec![Control::segment(); MESSAGES].into_boxed_slice(),
        }
    }

    /// Waits for messages and takes all that are there; returns 0 after 50 ms without any.
    pub(super) fn receive(&mut self, fd: BorrowedFd<'_>) -> io::Result<usize> {
        let memory = self.memory.as_mut_ptr();
        let iovecs = self.iovecs.as_mut_ptr();
        let controls = self.controls.as_mut_ptr();
        for i in 0..MESSAGES {
            // SAFETY: `i` is below the length of the list.
            unsafe {
                iovecs.add(i).write(libc::iovec {
                    iov_base: memory.wrapping_add(i * self.slot_bytes).cast(),
                    iov_len: self.slot_bytes,
                });
            }
            let header = &mut self.headers[i].msg_hdr;
            header.msg_iov = iovecs.wrapping_add(i);
            header.msg_iovlen = 1;
            header.msg_control = controls.wrapping_add(i).cast();
            header.msg_controllen = size_of::<Control>() as _;
        }
        // SAFETY: "msgvec is a pointer to an array of mmsghdr structures, the size of this array
        // is specified in vlen"; the buffers that they point to are parts of `memory`, disjoint.
        let got = sys::check(unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                self.headers.as_mut_ptr(),
                MESSAGES as libc::c_uint,
                self.flags as _,
                ptr::null_mut(),
            )
        });
        match got {
            Ok(count) => Ok(count as usize),
            Err(error) => match sys::errno(&error) {
                libc::EAGAIN | libc::EINTR | libc::ECONNREFUSED => Ok(0),
                _ => Err(error),
            },
        }
    }

    /// Returns the length of message `i`, and that of the datagrams in it.
    pub(super) fn lengths(&self, i: usize) -> (usize, usize) {
        let len = self.headers[i].msg_len as usize;
        let control = &self.controls[i];
        let joined = self.headers[i].msg_hdr.msg_controllen != 0
            && control.header.cmsg_level == libc::SOL_UDP
            && control.header.cmsg_type == libc::UDP_GRO;
        let [a, b, c, d, ..] = control.value;
        let stride = u32::from_ne_bytes([a, b, c, d]) as usize;
        (len, if joined && stride > 0 { stride } else { len })
    }

    /// Returns when the kernel received message `i`, in nanoseconds since 1970. This works for sockets that were asked
    /// to report it, which do not merge datagrams.
    pub(super) fn arrived_ns(&self, i: usize) -> Option<u64> {
        let control = &self.controls[i];
        let told = self.headers[i].msg_hdr.msg_controllen != 0
            && control.header.cmsg_level == libc::SOL_SOCKET
            && control.header.cmsg_type == libc::SCM_TIMESTAMPNS;
        let (seconds, ns) = control.value.split_first_chunk::<8>()?;
        let ns = ns.first_chunk::<8>()?;
        let of = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes);
        told.then(|| of(seconds) * 1_000_000_000 + of(ns))
    }

    /// Returns the bytes of message `i`, which has `len` of them.
    pub(super) fn bytes_mut(&mut self, i: usize, len: usize) -> &mut [u8] {
        &mut self.memory[i * self.slot_bytes..][..len.min(self.slot_bytes)]
    }
}

/// Messages to be sent by one connected socket.
pub(super) struct Outbox {
    headers: Box<[libc::mmsghdr]>,
    iovecs: Box<[libc::iovec]>,
    controls: Box<[Control]>,
    messages: Vec<Message>,
    pieces: usize,
}

struct Message {
    first_piece: usize,
    pieces: usize,
    stride: usize,
    bytes: usize,
}

impl Outbox {
    pub(super) fn new() -> Outbox {
        Outbox {
            headers: headers(),
            iovecs: iovecs(MESSAGES),
            controls: vec![Control::segment(); MESSAGES].into_boxed_slice(),
            messages: Vec::with_capacity(MESSAGES),
            pieces: 0,
        }
    }

    /// Appends datagrams of `stride` bytes, which must stay where they are until they are sent;
    /// at most [`MESSAGES`] times between two [`Outbox::send`]. With `gather` they join the last
    /// message when they have its size.
    pub(super) fn push(&mut self, bytes: &[u8], stride: usize, gather: bool) {
        self.iovecs[self.pieces] = libc::iovec {
            // This is sound because sendmsg does not write through the pointer.
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        self.pieces += 1;
        if gather
            && let Some(last) = self.messages.last_mut()
            && last.stride == stride
            && last.bytes % stride == 0
            && last.bytes + bytes.len() <= (GSO_SEGMENTS_MAX * stride).min(DATAGRAM_BYTES_MAX)
        {
            last.pieces += 1;
            last.bytes += bytes.len();
            return;
        }
        self.messages.push(Message {
            first_piece: self.pieces - 1,
            pieces: 1,
            stride,
            bytes: bytes.len(),
        });
    }

    /// Sends everything; returns how many datagrams the kernel refused.
    ///
    /// # Safety
    /// The bytes that were pushed since the last call still exist, unchanged in place and length.
    pub(super) unsafe fn send(&mut self, fd: BorrowedFd<'_>) -> u64 {
        let iovecs = self.iovecs.as_mut_ptr();
        let controls = self.controls.as_mut_ptr();
        for (i, message) in self.messages.iter().enumerate() {
            let header = &mut self.headers[i].msg_hdr;
            header.msg_iov = iovecs.wrapping_add(message.first_piece);
            header.msg_iovlen = message.pieces as _;
            header.msg_control = ptr::null_mut();
            header.msg_controllen = 0;
            if message.bytes > message.stride {
                // SAFETY: there are at most as many messages as controls.
                let control = unsafe { &mut *controls.add(i) };
                control.value[..2].copy_from_slice(&(message.stride as u16).to_ne_bytes());
                header.msg_control = ptr::from_mut(control).cast();
                // SAFETY: arithmetic on a length.
                header.msg_controllen = unsafe { libc::CMSG_SPACE(2) } as _;
            }
        }
        let (mut sent, mut lost) = (0, 0);
        while sent < self.messages.len() {
            // SAFETY: as for `Inbox::receive`; the caller keeps what the iovecs point to.
            let count = sys::check(unsafe {
                libc::sendmmsg(
                    fd.as_raw_fd(),
                    self.headers.as_mut_ptr().add(sent),
                    (self.messages.len() - sent) as libc::c_uint,
                    libc::MSG_NOSIGNAL as _,
                )
            });
            match count {
                Ok(count) => sent += count as usize,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    let message = &self.messages[sent];
                    lost += message.bytes.div_ceil(message.stride) as u64;
                    sent += 1;
                }
            }
        }
        self.messages.clear();
        self.pieces = 0;
        lost
    }
}

fn headers() -> Box<[libc::mmsghdr]> {
    // SAFETY: all zero is a valid `mmsghdr`: no buffers.
    let header: libc::mmsghdr = unsafe { mem::zeroed() };
    vec![header; MESSAGES].into_boxed_slice()
}

fn iovecs(count: usize) -> Box<[libc::iovec]> {
    let iovec = libc::iovec {
        iov_base: ptr::null_mut(),
        iov_len: 0,
    };
    vec![iovec; count].into_boxed_slice()
}

/// Prepares a socket to receive by an [`Inbox`]: blocking, but with a time limit, and with large buffers as the node's
/// sockets have.
pub(super) fn prepare(socket: &impl AsFd, gro: bool) -> io::Result<()> {
    let fd = socket.as_fd();
    let mut off: libc::c_int = 0;
    // SAFETY: FIONBIO reads an `int`.
    sys::check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONBIO, &raw mut off) })?;
    crate::udp::grow(fd);
    let wait = libc::timeval {
        tv_sec: 0,
        tv_usec: WAIT_US,
    };
    // SAFETY: "the argument is a struct timeval", ours, with its size.
    sys::check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVTIMEO,
            (&raw const wait).cast(),
            size_of::<libc::timeval>() as libc::socklen_t,
        )
    })?;
    sys::set_option(fd, libc::SOL_UDP, libc::UDP_GRO, gro.into())
}
