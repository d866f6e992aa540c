//! Counts the physical links to a host, by probes that only pass a given number of routers. [Liu04 §IV-C]
//!
//! ```text
//!   TTL 1 ──▶ router ✗                          time exceeded, says the router
//!   TTL 2 ──▶ router ──▶ router ✗               likewise
//!   TTL 3 ──▶ router ──▶ router ──▶ host        port unreachable, says the host: 3 physical links
//! ```
//!
//! The count is the number of routers on the way and one more, so a host on the same cable is 1 away, and so is this
//! host itself. Probes are UDP datagrams to ports that traceroute uses and nobody listens at. The answers are ICMP
//! messages, which the kernel puts into the error queue of the socket that asked for it [ip(7), IP_RECVERR]. No
//! privileges are needed.
//!
//! Life cycle: [`probe`] opens a socket, asks `search` what to send next, passes it what `answer` reads from the error
//! queue, and closes the socket with the result. It sends at most [`TTL_MAX`] · [`TRIES`] datagrams, [`IN_FLIGHT`] of
//! them at a time, and takes at most [`TOTAL`].

mod answer;
mod search;

use crate::addr::{NAME_BYTES, Name, socket_addr};
use crate::poll::{Polled, poll};
use crate::sys;
use crate::udp::is_icmp;
use answer::Answer;
use search::{Search, Step};
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::num::NonZeroU8;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// The largest distance that is probed. Choice: paths of the Internet have some 15 physical links, and hardly one has
/// more than 30.
pub const TTL_MAX: u8 = 32;
/// How often a silent distance is probed at most.
pub const TRIES: u8 = 3;
/// Number of probes without an answer at a time. Choice: Linux sends six such packets of one host at once, and then one
/// per second; six of them may reach the end together.
pub const IN_FLIGHT: usize = 6;
/// How long one probe waits for its answer. Choice: the other side of the Earth answers within 400 ms.
pub const PATIENCE: Duration = Duration::from_millis(500);
/// How long the search takes at most: if nobody answers, all distances once take ⌈32 / 6⌉ · 0.5 s.
pub const TOTAL: Duration = Duration::from_secs(3);

/// The port below traceroute's first.
const PORT_BELOW: u16 = 33_434;
/// The payload of a probe, for people who see it.
const PAYLOAD: &[u8] = b"sinew: how many hops?";

/// Why a probe could not be made. It is no error if nobody answers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HopsError {
    /// The socket could not be opened.
    #[error("cannot open a socket for probes of {to}: {error}")]
    Open {
        /// The address to probe.
        to: IpAddr,
        /// The error that the kernel returned.
        error: io::Error,
    },
    /// The kernel refuses to send there.
    #[error(
        "cannot send probes to {to}: {error}; permit UDP to its ports 33435 to 33530, or configure how \
         many hops it is away"
    )]
    Send {
        /// The address to probe.
        to: IpAddr,
        /// The error that the kernel returned.
        error: io::Error,
    },
    /// Answers cannot be read.
    #[error("cannot read answers to probes of {to}: {error}")]
    Receive {
        /// The address to probe.
        to: IpAddr,
        /// The error that the kernel returned.
        error: io::Error,
    },
}

/// Returns how many physical links lead from this host to `to`: the routers on the way and one more. Returns `None` if
/// the host does not answer: it is filtered, down, or farther than [`TTL_MAX`]. If `from` is an address of the same
/// family, probes are sent from it, so that they take the path of other packets from there. The call blocks for up to
/// [`TOTAL`]. A link-local address is 1 away.
///
/// # Errors
/// Returns [`HopsError`] if the kernel refuses: the local address does not exist, there is no route, or a filter blocks
/// the probes.
pub fn probe(to: IpAddr, from: Option<IpAddr>) -> Result<Option<NonZeroU8>, HopsError> {
    let to = to.to_canonical();
    if is_link_local(to) {
        return Ok(Some(NonZeroU8::MIN));
    }
    let prober = Prober::open(to, from).map_err(|error| HopsError::Open { to, error })?;
    let failed = |error| HopsError::Receive { to, error };
    let start = Instant::now();
    let mut search = Search::new();
    loop {
        match search.next(start.elapsed()) {
            Step::Done(hops) => return Ok(hops),
            Step::Send { ttl, turn } => {
                let sent = prober.send(ttl, turn);
                sent.map_err(|error| HopsError::Send { to, error })?;
            }
            Step::Wait { until } => {
                let left = until.saturating_sub(start.elapsed());
                prober.wait(left).map_err(failed)?;
            }
        }
        let answered = prober.read_answers(|ttl, answer| search.on_answer(ttl, answer));
        answered.map_err(failed)?;
    }
}

/// Returns true if no router forwards packets to this address.
fn is_link_local(to: IpAddr) -> bool {
    match to {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// Returns the port of a probe. Each probe has another one, so that the answer shows which probe it was, and so that a
/// program that listens at one of them hides nothing.
fn port(ttl: u8, turn: u8) -> u16 {
    PORT_BELOW + u16::from(turn) * u16::from(TTL_MAX) + u16::from(ttl)
}

/// Returns the distance of the probe to a port.
fn ttl(port: u16) -> Option<u8> {
    let nth = port.checked_sub(PORT_BELOW + 1)?;
    let all = u16::from(TTL_MAX) * u16::from(TRIES);
    (nth < all).then_some((nth % u16::from(TTL_MAX)) as u8 + 1)
}

/// A socket with an error queue.
struct Prober {
    to: IpAddr,
    socket: UdpSocket,
}

impl Prober {
    fn open(to: IpAddr, from: Option<IpAddr>) -> io::Result<Prober> {
        let any = match to {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let from = from.filter(|from| from.is_ipv4() == to.is_ipv4());
        let socket = UdpSocket::bind((from.unwrap_or(any), 0))?;
        socket.set_nonblocking(true)?;
        let (level, name) = match to {
            IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_RECVERR),
            IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
        };
        sys::set_option(socket.as_fd(), level, name, 1)?;
        Ok(Prober { to, socket })
    }

    /// Sends one probe. If the buffer is full, the probe is lost.
    fn send(&self, ttl: u8, turn: u8) -> io::Result<()> {
        let (level, name) = match self.to {
            IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TTL),
            IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
        };
        sys::set_option(self.socket.as_fd(), level, name, ttl.into())?;
        let to = SocketAddr::new(self.to, port(ttl, turn));
        // The next call also returns the error of an earlier probe, once for each, and sends nothing then.
        let mut stale = IN_FLIGHT;
        loop {
            match self.socket.send_to(PAYLOAD, to) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if is_icmp(sys::errno(&error)) && stale > 0 => stale -= 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until there is an answer, or for at most this long.
    fn wait(&self, timeout: Duration) -> io::Result<()> {
        // "POLLERR: Error condition", which is always awaited: it also shows that the error queue is not empty.
        let mut polled = [Polled::new(self.socket.as_fd(), false, false)];
        poll(&mut polled, Some(timeout)).map(drop)
    }

    /// Takes all answers out of the queue.
    fn read_answers(&self, mut on_answer: impl FnMut(u8, Answer)) -> io::Result<()> {
        // More than that were never sent.
        for _ in 0..=usize::from(TTL_MAX) * usize::from(TRIES) {
            match self.read_answer() {
                Ok(Some((ttl, answer))) => on_answer(ttl, answer),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // An error for which the queue had no room would end every wait at once.
        sys::option::<libc::c_int>(self.socket.as_fd(), libc::SOL_SOCKET, libc::SO_ERROR).map(drop)
    }

    /// Reads the next entry of the queue; `None` if it answers no probe.
    fn read_answer(&self) -> io::Result<Option<(u8, Answer)>> {
        let mut name = Name::EMPTY;
        let mut control = Control([0; CONTROL_BYTES]);
        // SAFETY: all zero is a valid `msghdr`: no buffers.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_name = (&raw mut name).cast();
        header.msg_namelen = NAME_BYTES;
        header.msg_control = (&raw mut control).cast();
        header.msg_controllen = CONTROL_BYTES as _;
        // SAFETY: the header points to a name and a buffer that outlive the call, each with its length;
        // "the payload of the original packet" is of no use and has no room.
        let received = unsafe {
            libc::recvmsg(
                self.socket.as_raw_fd(),
                &raw mut header,
                libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT,
            )
        };
        sys::check_len(received)?;
        // "The original destination address of the datagram that caused the error is supplied via
        // msg_name" [recv(2)].
        let Some(sent_to) = name.read(0).map(socket_addr) else {
            return Ok(None);
        };
        let error = extended_error(&header);
        let answer = error.and_then(|error| Answer::of(self.to, sent_to.ip(), error));
        Ok(ttl(sent_to.port()).zip(answer))
    }
}

/// Room for `sock_extended_err`, the address behind it and the header in front: 16 + 28 + 16 bytes, and
/// as much again. Aligned as `cmsghdr` wants.
const CONTROL_BYTES: usize = 128;

#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// Returns the bytes of the control message that describes the error, if there is one.
fn extended_error(header: &libc::msghdr) -> Option<&[u8]> {
    // SAFETY: "CMSG_FIRSTHDR returns a pointer to the first cmsghdr in the ancillary data buffer ... or
    // NULL if there isn't enough space"; CMSG_NXTHDR likewise. The kernel wrote the buffer and
    // `msg_controllen`, and each length in it; the buffer lives as long as the header's user keeps it.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(header);
        while !at.is_null() {
            let kind = ((*at).cmsg_level, (*at).cmsg_type);
            if kind == (libc::IPPROTO_IP, libc::IP_RECVERR)
                || kind == (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
            {
                let front = libc::CMSG_LEN(0) as usize;
                let len = ((*at).cmsg_len as usize).checked_sub(front)?;
                return Some(std::slice::from_raw_parts(libc::CMSG_DATA(at), len));
            }
            at = libc::CMSG_NXTHDR(header, at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_local_to_a_link_is_one_away() {
        for local in ["169.254.1.1", "fe80::1", "::ffff:169.254.1.1"] {
            let hops = probe(local.parse().unwrap(), None).unwrap();
            assert_eq!(hops, Some(NonZeroU8::MIN), "{local}");
        }
        assert!(!is_link_local("10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn every_probe_has_a_port_of_its_own_that_tells_its_distance() {
        let mut ports = Vec::new();
        for turn in 0..TRIES {
            for distance in 1..=TTL_MAX {
                ports.push(port(distance, turn));
                assert_eq!(ttl(port(distance, turn)), Some(distance));
            }
        }
        assert_eq!((ports[0], ports[95]), (33_435, 33_530));
        assert!(ports.is_sorted_by(|a, b| a < b));
        assert_eq!([0, 33_434, 33_531, u16::MAX].map(ttl), [None; 4]);
    }

    #[test]
    fn this_host_is_one_hop_away() {
        for text in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            let to: IpAddr = text.parse().unwrap();
            if UdpSocket::bind((to, 0)).is_err() {
                eprintln!("SKIPPED a part of this_host_is_one_hop_away: no {text} here");
                continue;
            }
            assert_eq!(probe(to, None).unwrap(), NonZeroU8::new(1), "{text}");
        }
    }

    #[test]
    fn an_address_of_another_host_is_not_sent_from() {
        let (to, other) = ("127.0.0.1".parse().unwrap(), "192.0.2.1".parse().unwrap());
        let error = probe(to, Some(other)).unwrap_err();
        assert!(matches!(error, HopsError::Open { .. }), "{error}");
        // An address of another family cannot be used, and is ignored.
        let six = "2001:db8::1".parse().unwrap();
        assert_eq!(probe(to, Some(six)).unwrap(), NonZeroU8::new(1));
    }
}
