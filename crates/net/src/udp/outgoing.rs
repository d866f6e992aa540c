//! Sending: passes the queue's messages to sendmmsg, with one header per message by GSO, or else one per datagram.
//!
//! A failure concerns the first header of a call: sendmmsg stops at the failing header, and reports the error when that
//! header is the first of the next call. Therefore, the loop below only has to handle the front of the queue.
//!
//! Datagrams that must not be fragmented are sent in a call of their own, for which the socket's setting is changed:
//! they are rare, and the kernel has no control message for it.

use super::local::{self, Locals};
use super::queue::{GSO_SEGMENTS_MAX, Message, SendQueue, Way};
use super::{Counters, Fragments, is_icmp, set_fragments};
use crate::addr::{Family, Name};
use crate::sys;
use base::UnderlayAddr;
use std::io;
use std::mem;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr;

/// Number of headers per call of sendmmsg.
const SEND_MESSAGES: usize = 64;
/// Number of buffers per call. One message has at most [`GSO_SEGMENTS_MAX`], so every call takes at least one, and a
/// typical call all 64.
const SEND_BUFFERS: usize = 8 * GSO_SEGMENTS_MAX;
/// How often a message is retried after an error that an earlier one has caused.
const ICMP_ERRORS_MAX: u32 = 8;

/// Number of destinations of too long datagrams that are remembered until the caller asks: the neighbours of a node.
const TOO_LONG_MAX: usize = 96;

/// The result of [`super::Socket::send_batch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Datagrams that the kernel took.
    pub datagrams: usize,
    /// The kernel's buffer is full: wait until the socket is writable, then call again.
    pub blocked: bool,
    /// The kernel or the device refused GSO in this call. It is off from now on, and everything was sent one by one
    /// instead.
    pub gso_refused: bool,
}

/// Control messages of one header, back to back as `cmsg(3)` lays them out: header, value, padding. GSO needs a `u16`
/// (24 bytes), the class an `int` (24), the own address an `in6_pktinfo` (40).
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Control {
    bytes: [u8; CONTROL_BYTES],
    len: usize,
}
const CONTROL_BYTES: usize = 88;

impl Control {
    pub(super) const EMPTY: Control = Control {
        bytes: [0; CONTROL_BYTES],
        len: 0,
    };

    /// Returns where the kernel may write such messages, and how much.
    pub(super) fn room<L: TryFrom<usize> + Default>(&mut self) -> (*mut libc::c_void, L) {
        let len = L::try_from(CONTROL_BYTES).unwrap_or_default();
        (self.bytes.as_mut_ptr().cast(), len)
    }

    /// Returns the messages that were appended.
    pub(super) fn written<L: TryFrom<usize> + Default>(&mut self) -> (*mut libc::c_void, L) {
        let len = L::try_from(self.len).unwrap_or_default();
        match self.len {
            0 => (ptr::null_mut(), len),
            _ => (self.bytes.as_mut_ptr().cast(), len),
        }
    }

    /// Appends a message. The caller ensures that there is room.
    pub(super) fn push<T: Copy>(&mut self, level: libc::c_int, kind: libc::c_int, value: T) {
        // SAFETY: all zero is a valid `cmsghdr`.
        let mut header: libc::cmsghdr = unsafe { mem::zeroed() };
        let bytes = size_of::<T>() as libc::c_uint;
        // SAFETY: arithmetic on a length.
        let (len, space) = unsafe { (libc::CMSG_LEN(bytes), libc::CMSG_SPACE(bytes)) };
        header.cmsg_len = len as _;
        (header.cmsg_level, header.cmsg_type) = (level, kind);
        let room = &mut self.bytes[self.len..][..space as usize];
        let at = room.as_mut_ptr();
        // SAFETY: `room` has bytes for header, value and padding, in this order; neither needs to be
        // aligned, and both are plain integers.
        unsafe {
            at.cast::<libc::cmsghdr>().write_unaligned(header);
            at.add(len as usize - size_of::<T>())
                .cast::<T>()
                .write_unaligned(value);
        }
        self.len += space as usize;
    }
}

/// The meaning of one header.
struct Step {
    name_len: libc::socklen_t,
    /// The buffers that it sends.
    iovecs: Range<usize>,
    datagrams: usize,
    bytes: usize,
    /// True if the message ends with it.
    last: bool,
}

pub(super) struct Outgoing {
    headers: Box<[libc::mmsghdr]>,
    iovecs: Box<[libc::iovec]>,
    names: Box<[Name]>,
    controls: Box<[Control]>,
    steps: Vec<Step>,
    buffers: usize,
    /// The least length that was refused, by destination.
    too_long: Vec<(UnderlayAddr, u16)>,
}

impl std::fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Outgoing")
    }
}

impl Outgoing {
    pub(super) fn new() -> Outgoing {
        // SAFETY: all zero is a valid `mmsghdr`: no buffers.
        let header: libc::mmsghdr = unsafe { mem::zeroed() };
        let iovec = libc::iovec {
            iov_base: ptr::null_mut(),
            iov_len: 0,
        };
        Outgoing {
            headers: vec![header; SEND_MESSAGES].into_boxed_slice(),
            iovecs: vec![iovec; SEND_BUFFERS].into_boxed_slice(),
            names: vec![Name::EMPTY; SEND_MESSAGES].into_boxed_slice(),
            controls: vec![Control::EMPTY; SEND_MESSAGES].into_boxed_slice(),
            steps: Vec::with_capacity(SEND_MESSAGES),
            buffers: 0,
            too_long: Vec::new(),
        }
    }

    pub(super) fn too_long(&mut self) -> impl Iterator<Item = (UnderlayAddr, u16)> + '_ {
        self.too_long.drain(..)
    }

    pub(super) fn batch(
        &mut self,
        fd: &OwnedFd,
        (family, locals): (Family, &Locals),
        gso: &mut bool,
        counters: &mut Counters,
        queue: &mut SendQueue,
    ) -> Sent {
        let mut sent = Sent::default();
        let mut icmp_errors = 0;
        while !queue.is_empty() {
            if self.build((family, locals), *gso, queue) == 0 {
                // A message has no header only if this socket cannot send to its address.
                lose(queue, &mut counters.send_unreachable);
                continue;
            }
            match self.send_front(fd, queue) {
                Ok(count) => {
                    icmp_errors = 0;
                    counters.send_calls += 1;
                    sent.gso_refused |= self.settle(count, gso, counters, queue, &mut sent);
                }
                Err(error) => match sys::errno(&error) {
                    libc::EAGAIN => {
                        counters.send_blocked += 1;
                        sent.blocked = true;
                        break;
                    }
                    libc::EINTR => {}
                    errno => {
                        icmp_errors += 1;
                        let again = icmp_errors < ICMP_ERRORS_MAX;
                        sent.gso_refused |= self.fail(errno, again, gso, counters, queue);
                    }
                },
            }
        }
        sent
    }

    /// Lays out as much of the front of the queue as one call takes. Returns the number of headers.
    fn build(
        &mut self,
        (family, locals): (Family, &Locals),
        gso: bool,
        queue: &SendQueue,
    ) -> usize {
        self.steps.clear();
        self.buffers = 0;
        for message in queue.iter() {
            let is_alone = message.dont_fragment || message.way == Way::Trial;
            if self.steps.len() == SEND_MESSAGES || is_alone && !self.steps.is_empty() {
                break;
            }
            let mut name = Name::EMPTY;
            let Some(name_len) = name.write(message.to, family) else {
                break;
            };
            let one = message.segments == 1;
            let whole = message.done == 0 && message.way == Way::Whole && (gso || one);
            let local = local::wanted(locals, message.to).filter(|_| !message.is_homeless);
            let complete = if whole {
                self.build_whole((name, name_len), local, message)
            } else {
                self.build_singly((name, name_len), local, message)
            };
            if !complete || is_alone {
                break;
            }
        }
        self.steps.len()
    }

    /// Builds one header for all of `message`, if its buffers still fit.
    fn build_whole(
        &mut self,
        (name, name_len): (Name, libc::socklen_t),
        local: Option<[u8; 16]>,
        message: &Message,
    ) -> bool {
        if self.buffers + message.bursts.len() > SEND_BUFFERS {
            return false;
        }
        let from = self.buffers;
        for burst in &message.bursts {
            self.buffer(burst.bytes());
        }
        self.names[self.steps.len()] = name;
        let stride = (message.segments > 1).then_some(message.stride as u16);
        self.control(stride, local, message);
        self.steps.push(Step {
            name_len,
            iovecs: from..self.buffers,
            datagrams: message.segments,
            bytes: message.bytes,
            last: true,
        });
        true
    }

    /// Builds a header for each datagram of `message` that is not sent yet, as far as they fit.
    fn build_singly(
        &mut self,
        (name, name_len): (Name, libc::socklen_t),
        local: Option<[u8; 16]>,
        message: &Message,
    ) -> bool {
        let left = message.segments - message.done;
        let most = if message.way == Way::Trial { 1 } else { left };
        for (i, datagram) in message.rest().take(most).enumerate() {
            if self.steps.len() == SEND_MESSAGES || self.buffers == SEND_BUFFERS {
                return false;
            }
            self.names[self.steps.len()] = name;
            self.control(None, local, message);
            self.buffer(datagram);
            self.steps.push(Step {
                name_len,
                iovecs: self.buffers - 1..self.buffers,
                datagrams: 1,
                bytes: datagram.len(),
                last: i + 1 == left,
            });
        }
        true
    }

    /// Writes the control messages of the next header: the size of its datagrams if there are several, the class if it
    /// has one, the own address if that matters. For an IPv4 address on an IPv6 socket, they are those of IPv4.
    fn control(&mut self, stride: Option<u16>, local: Option<[u8; 16]>, message: &Message) {
        let control = &mut self.controls[self.steps.len()];
        control.len = 0;
        if let Some(stride) = stride {
            control.push(libc::SOL_UDP, libc::UDP_SEGMENT, stride);
        }
        let is_v4 = message.to.is_ipv4();
        if message.dscp > 0 {
            let class = libc::c_int::from(message.dscp) << 2;
            match is_v4 {
                true => control.push(libc::IPPROTO_IP, libc::IP_TOS, class),
                false => control.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, class),
            }
        }
        match local {
            Some(ip) if is_v4 => {
                control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, local::to_v4(ip));
            }
            Some(ip) => control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, local::to_v6(ip)),
            None => {}
        }
    }

    fn buffer(&mut self, bytes: &[u8]) {
        self.iovecs[self.buffers] = libc::iovec {
            // This is sound because sendmsg does not write through the pointer.
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        self.buffers += 1;
    }

    /// Sends what is laid out. The first message is sent unfragmented if it requests that.
    fn send_front(&mut self, fd: &OwnedFd, queue: &SendQueue) -> io::Result<usize> {
        let front = queue.iter().next();
        let whole = front.filter(|front| front.dont_fragment || front.way == Way::Trial);
        let Some(whole) = whole else {
            return self.send(fd);
        };
        let is_v4 = whole.to.is_ipv4();
        set_fragments(fd.as_fd(), is_v4, Fragments::Forbidden)?;
        let sent = self.send(fd);
        set_fragments(fd.as_fd(), is_v4, Fragments::Allowed)?;
        sent
    }

    fn send(&mut self, fd: &OwnedFd) -> io::Result<usize> {
        let names = self.names.as_mut_ptr();
        let iovecs = self.iovecs.as_mut_ptr();
        let controls = self.controls.as_mut_ptr();
        for (i, step) in self.steps.iter().enumerate() {
            let header = &mut self.headers[i].msg_hdr;
            header.msg_name = names.wrapping_add(i).cast();
            header.msg_namelen = step.name_len;
            header.msg_iov = iovecs.wrapping_add(step.iovecs.start);
            header.msg_iovlen = step.iovecs.len() as _;
            // The bytes are the first field of it.
            header.msg_control = controls.wrapping_add(i).cast();
            header.msg_controllen = self.controls[i].len as _;
        }
        // SAFETY: "msgvec is a pointer to an array of mmsghdr structures, the size of this array
        // is specified in vlen". The headers point to names, controls and iovecs of `self`, those
        // to bursts that the queue holds, as `build` has just laid them out.
        let count = sys::check(unsafe {
            libc::sendmmsg(
                fd.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.steps.len() as libc::c_uint,
                (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
            )
        })?;
        Ok(count as usize)
    }

    /// Removes what the first `count` headers stood for from the queue. Returns true if this proves that GSO was
    /// refused: a single datagram of the refused message was sent.
    fn settle(
        &self,
        count: usize,
        gso: &mut bool,
        counters: &mut Counters,
        queue: &mut SendQueue,
        sent: &mut Sent,
    ) -> bool {
        let mut refused = false;
        for step in &self.steps[..count.min(self.steps.len())] {
            counters.send_messages += 1;
            counters.send_datagrams += step.datagrams as u64;
            counters.send_bytes += step.bytes as u64;
            sent.datagrams += step.datagrams;
            let Some(front) = queue.front_mut() else {
                break;
            };
            if front.way == Way::Trial {
                front.way = Way::Singly;
                refused = mem::replace(gso, false);
            }
            front.done += step.datagrams;
            if step.last {
                queue.pop();
            }
        }
        refused
    }

    /// Handles the error of the first header. Returns true if GSO is switched off because of it.
    fn fail(
        &mut self,
        errno: i32,
        again: bool,
        gso: &mut bool,
        counters: &mut Counters,
        queue: &mut SendQueue,
    ) -> bool {
        let burst = self.steps.first().is_some_and(|step| step.datagrams > 1);
        match errno {
            // The device cannot compute checksums, which GSO needs.
            libc::EIO if burst => {
                let was_on = mem::replace(gso, false);
                return was_on;
            }
            // An interface has lost the own address; IPv6 and IPv4 return these errors. The kernel chooses another
            // address.
            libc::EINVAL | libc::ENETUNREACH
                if queue
                    .front_mut()
                    .is_some_and(|m| m.to.local > 0 && !m.is_homeless) =>
            {
                if let Some(front) = queue.front_mut() {
                    front.is_homeless = true;
                }
            }
            // Either GSO was refused, or (in older kernels) the datagrams are longer than the MTU: a single one will
            // show it.
            libc::EINVAL if burst => {
                if let Some(front) = queue.front_mut() {
                    (front.way, front.is_homeless) = (Way::Trial, false);
                }
            }
            libc::EMSGSIZE => {
                let goes_on = queue.front_mut().is_some_and(|front| {
                    note(&mut self.too_long, front);
                    let was = mem::replace(&mut front.way, Way::Singly);
                    // Singly they are sent in fragments.
                    !front.dont_fragment && (burst || was == Way::Trial)
                });
                if !goes_on {
                    lose(queue, &mut counters.send_too_long);
                }
            }
            libc::ENOBUFS | libc::ENOMEM => lose(queue, &mut counters.send_no_buffers),
            libc::EPERM | libc::EACCES => lose(queue, &mut counters.send_forbidden),
            // The error may belong to an earlier datagram to any destination: this one was not sent yet.
            errno if is_icmp(errno) && again => counters.icmp_errors += 1,
            errno if is_icmp(errno) => lose(queue, &mut counters.send_unreachable),
            libc::ENETDOWN | libc::EADDRNOTAVAIL | libc::EAFNOSUPPORT | libc::ENODEV => {
                lose(queue, &mut counters.send_unreachable);
            }
            _ => lose(queue, &mut counters.send_failed),
        }
        false
    }
}

/// Remembers that datagrams of the length of `message` are too long for its destination.
fn note(too_long: &mut Vec<(UnderlayAddr, u16)>, message: &Message) {
    let bytes = u16::try_from(message.stride).unwrap_or(u16::MAX);
    if let Some((_, least)) = too_long.iter_mut().find(|(to, _)| *to == message.to) {
        *least = bytes.min(*least);
    } else if too_long.len() < TOO_LONG_MAX {
        too_long.push((message.to, bytes));
    }
}

/// Drops the rest of the front message, and counts its datagrams.
fn lose(queue: &mut SendQueue, count: &mut u64) {
    if let Some(front) = queue.front_mut() {
        *count += (front.segments - front.done) as u64;
    }
    queue.pop();
}
