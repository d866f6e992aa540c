//! Receiving: recvmmsg into large slots of the pool.
//!
//! A slot that was not filled waits for the next call. Slots are used from the top of a stack, and the pool hands out
//! the one returned last, so that a quiet socket always works in the same few cache lines.
//!
//! The kernel notes when it received a datagram, and each burst records how long it has waited here since. Therefore,
//! if a node was not scheduled, it does not attribute that delay to the network. For datagrams that GRO has joined, it
//! is the time of the first one.

use super::Counters;
use super::local::{self, Locals};
use crate::addr::{NAME_BYTES, Name};
use crate::{clock, sys};
use base::pool::{COPY_BYTES_MAX, LARGE_BYTES};
use base::{Burst, Duration, Pool, UnderlayAddr};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

/// Number of messages per call of recvmmsg, and of large slots that a socket keeps: 2 MiB. With GRO 32 messages are up
/// to 2048 datagrams.
pub const RECV_MESSAGES: usize = 32;
/// Number of messages for which the first call of a quiet socket has room: preparing room costs time.
const FEWEST_MESSAGES: usize = 4;
/// Number of network errors that one call skips before it gives up.
const ICMP_ERRORS_MAX: usize = 8;

/// No useful datagram waits in a socket this long: a longer time means that somebody has set the clock.
const WAITED_MAX: Duration = Duration::from_secs(60);

/// Room for the control messages, each 16 bytes of header and a value, rounded up: an `int` for GRO (24), a `timespec`
/// for the time (32), an `in6_pktinfo` for the destination (40). Aligned as `cmsghdr` requires.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);
const CONTROL_BYTES: usize = 96;

/// The content of a message's control messages.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// The size of its datagrams, if GRO has joined several.
    stride: Option<usize>,
    /// When the kernel received it, in nanoseconds of the wall clock.
    came_ns: Option<u64>,
    /// The own address that it was sent to, if there are several.
    to: Option<[u8; 16]>,
}

pub(super) struct Incoming {
    /// Unfilled slots; message `i` of a call goes into the `i`-th from the end.
    slots: Vec<Burst>,
    headers: Box<[libc::mmsghdr]>,
    iovecs: Box<[libc::iovec]>,
    names: Box<[Name]>,
    controls: Box<[Control]>,
    /// Number of messages for which the next call has room: twice those of the last one.
    expected: usize,
}

impl std::fmt::Debug for Incoming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Incoming {{ {} slots }}", self.slots.len())
    }
}

impl Incoming {
    pub(super) fn new() -> Incoming {
        let iovec = libc::iovec {
            iov_base: ptr::null_mut(),
            iov_len: 0,
        };
        // SAFETY: all zero is a valid `mmsghdr`: no buffers.
        let header: libc::mmsghdr = unsafe { mem::zeroed() };
        Incoming {
            slots: Vec::with_capacity(RECV_MESSAGES),
            headers: vec![header; RECV_MESSAGES].into_boxed_slice(),
            iovecs: vec![iovec; RECV_MESSAGES].into_boxed_slice(),
            names: vec![Name::EMPTY; RECV_MESSAGES].into_boxed_slice(),
            controls: vec![Control([0; CONTROL_BYTES]); RECV_MESSAGES].into_boxed_slice(),
            expected: FEWEST_MESSAGES,
        }
    }

    pub(super) fn batch(
        &mut self,
        fd: &OwnedFd,
        (socket, locals): (u8, &mut Locals),
        counters: &mut Counters,
        pool: &Pool,
        out: &mut Vec<(UnderlayAddr, Burst)>,
        max: usize,
    ) -> io::Result<usize> {
        let mut taken = 0;
        let mut icmp_errors = 0;
        while taken < max {
            let want = self.provide(pool, (max - taken).min(self.expected));
            if want == 0 {
                // Slots that the engine has meanwhile received may be returned before the next call.
                if taken == 0 {
                    taken = discard(fd, max, counters);
                }
                break;
            }
            let got = match self.receive(fd, want) {
                Ok(got) => got,
                Err(error) => match sys::errno(&error) {
                    libc::EAGAIN => break,
                    libc::EINTR => continue,
                    errno if is_icmp(errno) && icmp_errors < ICMP_ERRORS_MAX => {
                        counters.icmp_errors += 1;
                        icmp_errors += 1;
                        continue;
                    }
                    _ => return Err(error),
                },
            };
            self.expected = (2 * got).clamp(FEWEST_MESSAGES, RECV_MESSAGES);
            counters.recv_calls += 1;
            counters.recv_messages += got as u64;
            self.hand_over(got, (socket, locals), counters, pool, out);
            taken += got;
            if got < want {
                break;
            }
        }
        Ok(taken)
    }

    /// Prepares up to `want` slots. Returns how many are ready.
    fn provide(&mut self, pool: &Pool, want: usize) -> usize {
        while self.slots.len() < want {
            match pool.for_receiving() {
                Some(slot) => self.slots.push(slot),
                None => break,
            }
        }
        want.min(self.slots.len())
    }

    fn receive(&mut self, fd: &OwnedFd, want: usize) -> io::Result<usize> {
        let names = self.names.as_mut_ptr();
        let iovecs = self.iovecs.as_mut_ptr();
        let controls = self.controls.as_mut_ptr();
        for (i, slot) in self.slots.iter_mut().rev().take(want).enumerate() {
            let room = slot.spare_mut();
            // SAFETY: `want` is at most RECV_MESSAGES, the length of the list.
            unsafe {
                iovecs.add(i).write(libc::iovec {
                    iov_base: room.as_mut_ptr().cast(),
                    iov_len: room.len(),
                });
            }
            let header = &mut self.headers[i].msg_hdr;
            header.msg_name = names.wrapping_add(i).cast();
            header.msg_namelen = NAME_BYTES;
            header.msg_iov = iovecs.wrapping_add(i);
            header.msg_iovlen = 1;
            header.msg_control = controls.wrapping_add(i).cast();
            header.msg_controllen = size_of::<Control>() as _;
        }
        // SAFETY: "msgvec is a pointer to an array of mmsghdr structures, the size of this array
        // is specified in vlen". The headers point to names, controls and iovecs of `self`, those
        // to the slots' own bytes, each with its true length; nothing else touches them meanwhile.
        let got = sys::check(unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                self.headers.as_mut_ptr(),
                want as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        })?;
        Ok(got as usize)
    }

    /// Moves the first `got` messages of the last call to `out`.
    fn hand_over(
        &mut self,
        got: usize,
        (socket, locals): (u8, &mut Locals),
        counters: &mut Counters,
        pool: &Pool,
        out: &mut Vec<(UnderlayAddr, Burst)>,
    ) {
        let now_ns = clock::read(libc::CLOCK_REALTIME);
        // Number of slots that stay empty, because their content was copied or there was none.
        let mut kept = 0;
        for i in 0..got {
            let len = self.headers[i].msg_len as usize;
            let cut = self.headers[i].msg_hdr.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
            let told = self.told(i);
            let stride = told.stride.unwrap_or(len);
            let at = self.slots.len() - 1 - kept;
            let Some(mut from) = self.names[i].read(socket).filter(|_| !cut && len > 0) else {
                let count = if len == 0 {
                    &mut counters.recv_empty
                } else {
                    &mut counters.recv_malformed
                };
                *count += 1;
                kept += 1;
                continue;
            };
            from.local = told.to.map_or(0, |ip| locals.index(ip));
            let waited = told.came_ns.map(|came| waited(came, now_ns));
            self.slots[at].fill(len, stride.max(1));
            self.slots[at].set_waited(waited.unwrap_or_default());
            let segments = self.slots[at].segments();
            counters.recv_datagrams += segments as u64;
            counters.recv_bytes += len as u64;
            if segments == 1
                && len <= COPY_BYTES_MAX
                && let Some(mut copy) = pool.copy_of(0, self.slots[at].bytes())
            {
                copy.set_waited(self.slots[at].waited());
                self.slots[at].fill(0, 0);
                kept += 1;
                out.push((from, copy));
            } else {
                out.push((from, self.slots.remove(at)));
            }
        }
    }

    /// Reads what the kernel reports about message `i`.
    fn told(&self, i: usize) -> Told {
        let header = &self.headers[i].msg_hdr;
        let mut told = Told::default();
        // SAFETY: "CMSG_FIRSTHDR returns a pointer to the first cmsghdr in the ancillary data
        // buffer ... or NULL if there isn't enough space"; CMSG_NXTHDR likewise. The kernel wrote
        // the buffer and `msg_controllen`.
        unsafe {
            let mut at = libc::CMSG_FIRSTHDR(header);
            while !at.is_null() {
                let data = libc::CMSG_DATA(at);
                match ((*at).cmsg_level, (*at).cmsg_type) {
                    (libc::SOL_UDP, libc::UDP_GRO) => {
                        let value = data.cast::<libc::c_int>().read_unaligned();
                        told.stride = usize::try_from(value)
                            .ok()
                            .filter(|&v| v > 0 && v <= LARGE_BYTES);
                    }
                    (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                        let came = data.cast::<libc::timespec>().read_unaligned();
                        told.came_ns = Some(clock::nanos(came));
                    }
                    (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                        let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                        told.to = Some(local::of_v4(info));
                    }
                    (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                        let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                        told.to = Some(info.ipi6_addr.s6_addr);
                    }
                    _ => {}
                }
                at = libc::CMSG_NXTHDR(header, at);
            }
        }
        told
    }
}

/// Returns how long a message has waited in its socket. The wall clock may have been set meanwhile, so an impossible
/// value counts as zero.
fn waited(came_ns: u64, now_ns: u64) -> Duration {
    let waited = Duration::from_nanos(now_ns.saturating_sub(came_ns));
    if waited > WAITED_MAX {
        Duration::ZERO
    } else {
        waited
    }
}

/// Takes up to `max` messages from the socket without reading them.
fn discard(fd: &OwnedFd, max: usize, counters: &mut Counters) -> usize {
    for count in 0..max {
        // SAFETY: nothing is written through a buffer of no bytes; "if a message is too long to
        // fit in the supplied buffer, excess bytes may be discarded" [recv(2)].
        let len = unsafe {
            libc::recv(
                fd.as_raw_fd(),
                ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT | libc::MSG_TRUNC,
            )
        };
        if len < 0 {
            return count;
        }
        counters.recv_no_slot += 1;
    }
    max
}

/// Returns true if the error came from the network and says nothing about this socket.
pub(crate) fn is_icmp(errno: i32) -> bool {
    matches!(
        errno,
        libc::ECONNREFUSED
            | libc::EHOSTUNREACH
            | libc::ENETUNREACH
            | libc::EHOSTDOWN
            | libc::EPROTO
            | libc::ENOPROTOOPT
            | libc::EMSGSIZE
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_makes_no_absurd_wait() {
        const MS: u64 = 1_000_000;
        let now = 1_700_000_000_000 * MS;
        assert_eq!(waited(now - 5 * MS, now), Duration::from_millis(5));
        assert_eq!(waited(now, now), Duration::ZERO);
        assert_eq!(waited(now + 1, now), Duration::ZERO, "set back");
        assert_eq!(waited(now - 60_000 * MS, now), WAITED_MAX);
        assert_eq!(
            waited(now - 60_001 * MS, now),
            Duration::ZERO,
            "set forward"
        );
        assert_eq!(waited(0, now), Duration::ZERO);
    }
}
