//! Multicast frames of an existing interface, by a packet socket.
//!
//! ```text
//!   interface ══▶ filter in the kernel: multicast IP, and frames of our own kind ════▶ Port::receive
//!             ◀══════════════════════════════════════════════════════════════════ Port::send_batch
//! ```
//! Frames that programs of this host send by the interface are received, too. Frames that are sent here are not
//! received again, and programs of this host do not get them. The work that a host leaves to its network card is not
//! yet done when a packet socket gets the frame, so it is done here: checksums are filled in, and a train of datagrams
//! that the card should have cut is cut. Needs root.

use crate::sys;
use std::io::{self, IoSlice};
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Number of frames that one system call takes or returns.
pub const BATCH: usize = 64;
/// Size of the header before each frame, which says what was left to the card.
const OFFLOAD_BYTES: usize = 10;
/// Size of the longest frame: a train of datagrams, with its Ethernet header.
const SLOT_BYTES: usize = OFFLOAD_BYTES + 65_535 + 14;
/// Bytes that may wait: at 40 k packets/s of 1 kB 8 MiB are 200 ms.
const RECEIVE_BYTES: libc::c_int = 8 << 20;
/// Bytes that may wait to be sent, as the kernel counts them, which doubles this number: some 900 frames of video, or
/// 10 ms at 1 Gbit/s. Choice: this is less than the thousand frames that the queue of an interface takes by default, so
/// that what does not fit is refused here, and counted.
const SEND_BYTES: libc::c_int = 1 << 20;
/// Longest head of a frame: Ethernet, and an IPv4 header with all options.
pub const HEAD_BYTES_MAX: usize = 14 + 60;

const PACKET_ADD_MEMBERSHIP: libc::c_int = 1;
const PACKET_VNET_HDR: libc::c_int = 15;
const PACKET_MR_ALLMULTI: libc::c_ushort = 2;
/// The kernel's flags and kinds, of `linux/virtio_net.h`.
const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_UDP: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// The kernel's `struct packet_mreq`.
#[repr(C)]
struct Membership {
    index: libc::c_int,
    kind: libc::c_ushort,
    address_len: libc::c_ushort,
    address: [u8; 8],
}

/// A frame to be sent: its head, and a reference to the rest.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'p> {
    head: [u8; HEAD_BYTES_MAX],
    head_len: u8,
    body: &'p [u8],
}

impl<'p> Frame<'p> {
    /// Creates a frame of two parts. A head that is too long is truncated.
    #[must_use]
    pub fn new(head: &[u8], body: &'p [u8]) -> Frame<'p> {
        let mut bytes = [0; HEAD_BYTES_MAX];
        let len = head.len().min(HEAD_BYTES_MAX);
        bytes[..len].copy_from_slice(&head[..len]);
        Frame {
            head: bytes,
            head_len: len as u8,
            body,
        }
    }

    /// Returns the first part.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.head[..usize::from(self.head_len)]
    }

    /// Returns the second part.
    #[must_use]
    pub fn body(&self) -> &'p [u8] {
        self.body
    }
}

/// An interface's multicast frames.
#[derive(Debug)]
pub struct Port {
    fd: OwnedFd,
    slots: Box<[u8]>,
    /// Room in which a train's datagrams are put together one by one.
    single: Vec<u8>,
    /// Number of frames that were left to a card in a way that is not supported here.
    unknown: u64,
}

/// The work that the kernel left to the card. [linux/virtio_net.h]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Offload {
    flags: u8,
    kind: u8,
    header_len: u16,
    segment: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

/// Checks whether packet sockets are permitted at all.
///
/// # Errors
/// Returns the kernel's error, such as `PermissionDenied` without root.
pub fn permitted() -> io::Result<()> {
    sys::socket(libc::AF_PACKET, libc::SOCK_RAW).map(drop)
}

impl Port {
    /// Opens the interface with this index in the calling thread's network, for multicast IPv4 and IPv6 and frames of
    /// the type `own`.
    ///
    /// # Errors
    /// Returns the kernel's error, such as `PermissionDenied` without root.
    pub fn open(index: u32, own: u16) -> io::Result<Port> {
        // Without a protocol, no frame arrives before everything is set up.
        let fd = sys::socket(libc::AF_PACKET, libc::SOCK_RAW)?;
        filter(fd.as_fd(), own)?;
        sys::set_option(fd.as_fd(), libc::SOL_PACKET, PACKET_VNET_HDR, 1)?;
        for (force, polite, bytes) in [
            (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, RECEIVE_BYTES),
            (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, SEND_BYTES),
        ] {
            if sys::set_option(fd.as_fd(), libc::SOL_SOCKET, force, bytes).is_err() {
                let _ = sys::set_option(fd.as_fd(), libc::SOL_SOCKET, polite, bytes);
            }
        }
        bind(fd.as_fd(), index)?;
        let membership = Membership {
            index: index as libc::c_int,
            kind: PACKET_MR_ALLMULTI,
            address_len: 0,
            address: [0; 8],
        };
        // SAFETY: the option reads a `packet_mreq`, which has this layout, of the size given.
        sys::check(unsafe {
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::SOL_PACKET,
                PACKET_ADD_MEMBERSHIP,
                (&raw const membership).cast(),
                size_of::<Membership>() as libc::socklen_t,
            )
        })?;
        Ok(Port {
            fd,
            slots: vec![0; BATCH * SLOT_BYTES].into_boxed_slice(),
            single: Vec::new(),
            unknown: 0,
        })
    }

    /// Takes the frames that wait, up to [`BATCH`] trains of them, and passes each to `each`. Returns the number of
    /// trains: fewer than [`BATCH`] if no more wait.
    pub fn receive(&mut self, mut each: impl FnMut(&mut [u8])) -> io::Result<usize> {
        let mut lens = [0; BATCH];
        let count = self.receive_slots(&mut lens)?;
        let slots = self.slots.chunks_exact_mut(SLOT_BYTES);
        for (slot, len) in slots.zip(lens).take(count) {
            let Some((head, frame)) = slot[..len].split_first_chunk_mut() else {
                continue;
            };
            let offload = Offload::parse(head);
            if !finish(offload, frame, &mut self.single, &mut each) {
                self.unknown += 1;
            }
        }
        Ok(count)
    }

    /// Sends frames. Returns how many of them the interface took, from the first on.
    ///
    /// # Errors
    /// Returns the kernel's error if the interface does not take the first frame.
    pub fn send_batch(&self, frames: &[Frame<'_>]) -> io::Result<usize> {
        let plain = [0; OFFLOAD_BYTES];
        let frames = &frames[..frames.len().min(BATCH)];
        let mut parts = [[IoSlice::new(&[]); 3]; BATCH];
        // SAFETY: all zero is a valid `mmsghdr`: no address, no parts.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        for ((frame, parts), message) in frames.iter().zip(&mut parts).zip(&mut messages) {
            *parts = [
                IoSlice::new(&plain),
                IoSlice::new(frame.head()),
                IoSlice::new(frame.body),
            ];
            message.msg_hdr.msg_iov = parts.as_mut_ptr().cast();
            message.msg_hdr.msg_iovlen = parts.len() as _;
        }
        // SAFETY: "vlen contains the number of elements"; `IoSlice` has the layout of `iovec`, and
        // frames and parts outlive the call, which only reads them.
        let sent = sys::check(unsafe {
            libc::sendmmsg(
                self.fd.as_raw_fd(),
                messages.as_mut_ptr(),
                frames.len() as libc::c_uint,
                libc::MSG_DONTWAIT,
            )
        });
        sent.map(|count| count as usize)
    }

    /// Returns the number of frames that could not be processed because of what their sender left to its network card.
    #[must_use]
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    fn receive_slots(&mut self, lens: &mut [usize; BATCH]) -> io::Result<usize> {
        // SAFETY: all zero is a valid `iovec` and a valid `mmsghdr`.
        let (mut parts, mut messages): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
            unsafe { (mem::zeroed(), mem::zeroed()) };
        let slots = self.slots.chunks_exact_mut(SLOT_BYTES);
        for ((slot, part), message) in slots.zip(&mut parts).zip(&mut messages) {
            part.iov_base = slot.as_mut_ptr().cast();
            part.iov_len = slot.len();
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: "vlen contains the number of elements"; each part is a slot of ours with its
        // length, and no two are the same.
        let received = sys::check(unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                messages.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        });
        let count = match received {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            other => other? as usize,
        };
        for (len, message) in lens.iter_mut().zip(&messages) {
            *len = (message.msg_len as usize).min(SLOT_BYTES);
        }
        Ok(count)
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Offload {
    fn parse(bytes: &[u8; OFFLOAD_BYTES]) -> Offload {
        let &[flags, kind, a, b, c, d, e, f, g, h] = bytes;
        // The fields are in the host's byte order.
        let [header_len, segment, checksum_start, checksum_offset] =
            [[a, b], [c, d], [e, f], [g, h]].map(u16::from_ne_bytes);
        Offload {
            flags,
            kind,
            header_len,
            segment,
            checksum_start,
            checksum_offset,
        }
    }
}

/// Does what was left to a network card, and passes the resulting frames to `each`. Returns false if this is not
/// supported.
fn finish(
    offload: Offload,
    frame: &mut [u8],
    single: &mut Vec<u8>,
    each: &mut impl FnMut(&mut [u8]),
) -> bool {
    let start = usize::from(offload.checksum_start);
    match offload.kind & !GSO_ECN {
        GSO_NONE => {
            if offload.flags & NEEDS_CHECKSUM != 0 {
                let at = start + usize::from(offload.checksum_offset);
                if at + 2 > frame.len() {
                    return false;
                }
                fill_in_checksum(&mut frame[start..], at - start);
            }
            each(frame);
            true
        }
        GSO_UDP => cut(frame, start, usize::from(offload.segment), single, each),
        _ => false,
    }
}

/// Fills in a checksum. Its field contains the sum of the pseudo header.
fn fill_in_checksum(bytes: &mut [u8], at: usize) {
    let total = !fold(add(0, bytes));
    // In UDP, zero would mean that there is no checksum. [RFC 768]
    let total = if total == 0 { 0xffff } else { total };
    bytes[at..at + 2].copy_from_slice(&total.to_be_bytes());
}

/// Cuts a train of UDP datagrams, which have `segment` bytes of payload each.
fn cut(
    frame: &[u8],
    udp: usize,
    segment: usize,
    single: &mut Vec<u8>,
    each: &mut impl FnMut(&mut [u8]),
) -> bool {
    const ETHERNET: usize = 14;
    // The length of an IP header. UDP's follows.
    let header_len = match frame.get(ETHERNET).map(|first| first >> 4) {
        Some(4) => 20,
        Some(6) => 40,
        _ => return false,
    };
    if segment == 0 || udp < ETHERNET + header_len || frame.len() < udp + 8 {
        return false;
    }
    let is_v6 = header_len == 40;
    let (head, payload) = frame.split_at(udp + 8);
    let id = u16::from_be_bytes([head[ETHERNET + 4], head[ETHERNET + 5]]);
    for (n, part) in payload.chunks(segment).enumerate() {
        single.clear();
        single.extend_from_slice(head);
        single.extend_from_slice(part);
        let (header, datagram) = single[ETHERNET..].split_at_mut(udp - ETHERNET);
        let udp_len = datagram.len() as u16;
        let total = header.len() as u16 + udp_len;
        let addresses = if is_v6 {
            header[4..6].copy_from_slice(&(total - 40).to_be_bytes());
            &header[8..40]
        } else {
            header[2..4].copy_from_slice(&total.to_be_bytes());
            header[4..6].copy_from_slice(&id.wrapping_add(n as u16).to_be_bytes());
            header[10..12].fill(0);
            let right = !fold(add(0, header));
            header[10..12].copy_from_slice(&right.to_be_bytes());
            &header[12..20]
        };
        datagram[4..6].copy_from_slice(&udp_len.to_be_bytes());
        // The pseudo header contains both addresses, the protocol, and the length.
        let pseudo = add(17 + u64::from(udp_len), addresses);
        datagram[6..8].copy_from_slice(&fold(pseudo).to_be_bytes());
        fill_in_checksum(datagram, 6);
        each(single);
    }
    true
}

/// Adds the 16-bit words of `bytes` to a sum.
fn add(start: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]);
    words.fold(start, |total, &word| {
        total + u64::from(u32::from_be_bytes(word))
    })
}

fn fold(mut total: u64) -> u16 {
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

fn bind(fd: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    // SAFETY: all zero is a valid `sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as libc::c_int;
    // SAFETY: the address is read, with its size.
    sys::check(unsafe {
        libc::bind(
            fd.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Attaches a filter for multicast frames without a VLAN tag that contain IP or have the type `own`.
fn filter(fd: BorrowedFd<'_>, own: u16) -> io::Result<()> {
    let step = |code: u32, yes, no, k| libc::sock_filter {
        code: code as u16,
        jt: yes,
        jf: no,
        k,
    };
    let vlan = (libc::SKF_AD_OFF + libc::SKF_AD_VLAN_TAG_PRESENT) as u32;
    let byte = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
    let half = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
    let is = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let has = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
    let end = libc::BPF_RET | libc::BPF_K;
    let mut steps = [
        step(byte, 0, 0, 0),
        step(has, 0, 7, 1),
        step(byte, 0, 0, vlan),
        step(is, 0, 5, 0),
        step(half, 0, 0, 12),
        step(is, 2, 0, 0x0800),
        step(is, 1, 0, 0x86dd),
        step(is, 0, 1, own.into()),
        step(end, 0, 0, u32::MAX),
        step(end, 0, 0, 0),
    ];
    let program = libc::sock_fprog {
        len: steps.len() as libc::c_ushort,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: the option reads a `sock_fprog` and as many steps as it says; both outlive the call.
    sys::check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    })
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a frame: Ethernet, IPv4 from 10.0.0.1 to 239.1.1.1, UDP, and a payload; checksums are not filled in.
    fn frame(payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([8, 0]);
        let total = (28 + payload.len()) as u16;
        frame.extend([0x45, 0]);
        frame.extend(total.to_be_bytes());
        frame.extend([0xff, 0xff, 0x40, 0, 8, 17, 0, 0, 10, 0, 0, 1, 239, 1, 1, 1]);
        frame.extend([0x12, 0x34, 0x13, 0x8c]);
        frame.extend((8 + payload.len() as u16).to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(payload);
        frame
    }

    /// Returns true if both checksums of a frame are right.
    fn is_right(frame: &[u8]) -> bool {
        let (header, datagram) = frame[14..].split_at(20);
        let pseudo = add(17 + datagram.len() as u64, &header[12..20]);
        fold(add(0, header)) == 0xffff && fold(add(pseudo, datagram)) == 0xffff
    }

    fn offload(kind: u8, segment: u16) -> Offload {
        Offload {
            flags: NEEDS_CHECKSUM,
            kind,
            header_len: 42,
            segment,
            checksum_start: 34,
            checksum_offset: 6,
        }
    }

    fn finished(offload: Offload, frame: &mut [u8]) -> Option<Vec<Vec<u8>>> {
        let mut all = Vec::new();
        let each = &mut |frame: &mut [u8]| all.push(frame.to_vec());
        finish(offload, frame, &mut Vec::new(), each).then_some(all)
    }

    #[test]
    fn a_checksum_that_was_left_to_the_card_is_filled_in() {
        let mut frame = frame(b"hello");
        let header = &mut frame[14..34];
        let sum = !fold(add(0, header));
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        // Linux leaves the sum of the pseudo header there.
        let pseudo = fold(add(17 + 13, &frame[26..34]));
        frame[40..42].copy_from_slice(&pseudo.to_be_bytes());
        assert!(!is_right(&frame));
        let all = finished(offload(GSO_NONE, 0), &mut frame).unwrap();
        assert!(all.len() == 1 && is_right(&all[0]));
    }

    #[test]
    fn a_train_is_cut_in_datagrams_as_a_card_does() {
        let payload: Vec<u8> = (0..=255).cycle().take(2_500).collect();
        let all = finished(offload(GSO_UDP, 1_000), &mut frame(&payload)).unwrap();
        let lens: Vec<_> = all.iter().map(|frame| frame.len() - 42).collect();
        assert_eq!(lens, [1_000, 1_000, 500]);
        let ids: Vec<_> = all
            .iter()
            .map(|f| u16::from_be_bytes([f[18], f[19]]))
            .collect();
        assert_eq!(ids, [0xffff, 0, 1]);
        assert!(all.iter().all(|frame| is_right(frame)));
        let whole: Vec<u8> = all.iter().flat_map(|frame| frame[42..].to_vec()).collect();
        assert_eq!(whole, payload);
    }

    #[test]
    fn a_train_of_ipv6_is_cut_too() {
        let payload: Vec<u8> = (0..=255).cycle().take(1_500).collect();
        let mut frame = vec![0; 12];
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 17, 8]);
        frame.extend([0xfd; 16]);
        frame.extend([0xff; 16]);
        frame.extend([0x12, 0x34, 0x13, 0x8c, 0, 0, 0, 0]);
        frame.extend(&payload);
        let train = Offload {
            checksum_start: 54,
            ..offload(GSO_UDP, 1_000)
        };
        let all = finished(train, &mut frame).unwrap();
        let lens: Vec<_> = all.iter().map(|frame| frame.len() - 62).collect();
        assert_eq!(lens, [1_000, 500]);
        for frame in &all {
            let (header, datagram) = frame[14..].split_at(40);
            assert_eq!(header[4..6], (datagram.len() as u16).to_be_bytes());
            let pseudo = add(17 + datagram.len() as u64, &header[8..40]);
            assert_eq!(fold(add(pseudo, datagram)), 0xffff);
        }
    }

    #[test]
    fn nonsense_is_told_and_nothing_comes_of_it() {
        for len in 0..60 {
            let mut short = vec![0; len];
            let _ = finished(offload(GSO_NONE, 0), &mut short);
            let _ = finished(offload(GSO_UDP, 0), &mut short);
            let _ = finished(offload(GSO_UDP, 10), &mut short);
        }
        assert_eq!(finished(offload(1, 10), &mut frame(b"tcp")), None);
        let beyond = Offload {
            checksum_start: 65_535,
            checksum_offset: 65_535,
            ..offload(GSO_NONE, 0)
        };
        assert_eq!(finished(beyond, &mut frame(b"x")), None);
    }
}
