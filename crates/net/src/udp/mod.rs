//! UDP in bursts.
//!
//! ```text
//!   recv_batch:  recvmmsg -> slot, slot, ...   by GRO a slot holds up to 64 datagrams of one peer
//!   send_batch:  SendQueue -> sendmmsg         by GSO a message holds up to 64 datagrams
//! ```
//!
//! The main cost is the passage through the kernel's UDP stack, once per packet; with offload in both directions it is
//! once per burst. Both offloads are probed when the socket is opened. If a network device refuses GSO later, the
//! socket continues without it and reports this.
//!
//! Only bursts that request it are sent with don't-fragment: the overlay's probes of its links' MTU. All others are
//! fragmented where necessary, such as a handshake over an interface of 576 bytes, until the engine cuts its packets to
//! what fits. If a burst is longer than the interface accepts, its datagrams are sent again one by one, and
//! [`Socket::too_long`] reports it.

mod ends;
mod local;
mod outgoing;
mod queue;
mod receive;
#[cfg(test)]
mod tests;

pub use ends::Ends;
pub use outgoing::Sent;
pub use queue::{
    DATAGRAM_BYTES_MAX, GSO_SEGMENTS_MAX, QUEUE_BURSTS_MAX, QUEUE_BYTES_MAX, SendQueue,
};
pub use receive::RECV_MESSAGES;
pub(crate) use receive::is_icmp;

use crate::addr::{Family, NAME_BYTES, Name};
use crate::sys;
use base::{Burst, Pool, UnderlayAddr};
use local::Locals;
use outgoing::Outgoing;
use receive::Incoming;
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// How many bytes the kernel may buffer per socket and direction: at 1 Gbit/s some 30 ms of packets, so that a loop
/// that was not scheduled for one tick of 10 ms loses nothing.
///
/// The kernel doubles it for its own accounting, in which a small datagram takes 1280 bytes (over veth) to 2304 (a
/// network card that fills half pages): 3600 to 6500 of them. A node with 31 neighbours receives 1600 packets of four
/// calls in a stall of 8 s, and some 30 hellos from each neighbour.
const KERNEL_BUFFER_BYTES: libc::c_int = 4 << 20;
/// With a receive buffer below this, packets are lost on a host that is busy for a moment. Choice: 100 ms of 100
/// Mbit/s.
pub const SMALL_BUFFER_BYTES: usize = 1_250_000;
/// The command that makes it larger.
pub const LARGER_BUFFERS: &str = "`sysctl net.core.rmem_max=4194304`";

/// How to open a [`Socket`].
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The number of this socket among the host's sockets: it is stored in every received [`UnderlayAddr`].
    pub socket: u8,
    /// An IPv6 socket also supports IPv4, if it is bound to `::`.
    pub dual_stack: bool,
    /// Receive whole bursts, if the kernel supports it.
    pub gro: bool,
    /// Send whole bursts, if the kernel supports it.
    pub gso: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            socket: 0,
            dual_stack: true,
            gro: true,
            gso: true,
        }
    }
}

/// Counters of a socket's datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Calls of recvmmsg that returned messages.
    pub recv_calls: u64,
    /// Messages received: by GRO one may hold many datagrams.
    pub recv_messages: u64,
    /// Datagrams received.
    pub recv_datagrams: u64,
    /// Their bytes.
    pub recv_bytes: u64,
    /// Messages received without content, and ignored.
    pub recv_empty: u64,
    /// Messages received but truncated by the kernel, or without an address; dropped.
    pub recv_malformed: u64,
    /// Messages dropped because the pool had no slot.
    pub recv_no_slot: u64,
    /// Calls of sendmmsg that sent messages.
    pub send_calls: u64,
    /// Messages sent: by GSO one may hold many datagrams.
    pub send_messages: u64,
    /// Datagrams sent.
    pub send_datagrams: u64,
    /// Their bytes.
    pub send_bytes: u64,
    /// How often the kernel's send buffer was full; the rest was kept.
    pub send_blocked: u64,
    /// Datagrams dropped because they must not be fragmented and were longer than the interface's MTU or the path's, as
    /// far as the kernel knows it; or because they were longer than any datagram.
    pub send_too_long: u64,
    /// Datagrams dropped because the kernel was out of buffers.
    pub send_no_buffers: u64,
    /// Datagrams dropped because there is no route, no such address family here, or the interface is down.
    pub send_unreachable: u64,
    /// Datagrams dropped because a firewall or policy of this machine forbids them.
    pub send_forbidden: u64,
    /// Datagrams dropped because of another kernel error.
    pub send_failed: u64,
    /// Errors that routers or peers reported (ICMP); nothing was dropped for them.
    pub icmp_errors: u64,
}

/// A non-blocking UDP socket for bursts. It keeps slots of the pool, so it has to stay on its thread.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    family: Family,
    index: u8,
    gro: bool,
    gso: bool,
    locals: Locals,
    incoming: Incoming,
    outgoing: Outgoing,
    counters: Counters,
}

impl Socket {
    /// Opens a socket bound to `addr`.
    pub fn bind(addr: SocketAddr, options: Options) -> io::Result<Socket> {
        let domain = match addr {
            SocketAddr::V4(_) => libc::AF_INET,
            SocketAddr::V6(_) => libc::AF_INET6,
        };
        let fd = sys::socket(domain, libc::SOCK_DGRAM)?;
        let family = match addr {
            SocketAddr::V4(_) => Family::V4,
            SocketAddr::V6(v6) => Family::V6 {
                scope: v6.scope_id(),
            },
        };
        if let Family::V6 { .. } = family {
            let only = (!options.dual_stack).into();
            sys::set_option(fd.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, only)?;
        }
        allow_fragments(fd.as_fd(), family)?;
        Locals::observe(fd.as_fd(), family, addr)?;
        grow(fd.as_fd());
        let (name, len) = Name::of(addr);
        // SAFETY: `name` holds an address of `len` bytes.
        sys::check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const name).cast(), len) })?;
        let mut socket = Socket {
            gro: false,
            gso: options.gso && knows_gso(fd.as_fd()),
            fd,
            family,
            index: options.socket,
            locals: Locals::default(),
            incoming: Incoming::new(),
            outgoing: Outgoing::new(),
            counters: Counters::default(),
        };
        if options.gro {
            socket.set_gro(true);
        }
        // If the kernel does not report when a datagram arrived, the waiting time of each is unknown: zero.
        let _ = sys::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1);
        Ok(socket)
    }

    /// Returns the address that the socket is bound to.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let (mut name, mut len) = (Name::EMPTY, NAME_BYTES);
        // SAFETY: "addrlen ... initialized to indicate the amount of space pointed to by addr".
        sys::check(unsafe {
            libc::getsockname(self.fd.as_raw_fd(), (&raw mut name).cast(), &raw mut len)
        })?;
        let addr = name.read(self.index).map(crate::addr::socket_addr);
        addr.ok_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable))
    }

    /// Receives up to `max` messages (by GRO a message may hold many datagrams) and appends them to `out`, each from
    /// one address. Returns how many messages were taken from the socket; fewer than `max` means that it is empty, or
    /// the pool is.
    ///
    /// Each burst records how long it has waited in the socket ([`Burst::waited`]).
    ///
    /// Single small datagrams are put into small slots. If the pool has no slot at all, the messages are dropped and
    /// counted. Up to [`RECV_MESSAGES`] large slots stay with the socket.
    pub fn recv_batch(
        &mut self,
        pool: &Pool,
        out: &mut Vec<(UnderlayAddr, Burst)>,
        max: usize,
    ) -> io::Result<usize> {
        let (from, counters) = ((self.index, &mut self.locals), &mut self.counters);
        self.incoming
            .batch(&self.fd, from, counters, pool, out, max)
    }

    /// Sends what is queued, in order, as far as the kernel takes it. The rest stays queued.
    pub fn send_batch(&mut self, queue: &mut SendQueue) -> Sent {
        self.outgoing.batch(
            &self.fd,
            (self.family, &self.locals),
            &mut self.gso,
            &mut self.counters,
            queue,
        )
    }

    /// Returns the destinations to which [`Socket::send_batch`] could not send this many bytes in one piece since the
    /// last call.
    pub fn too_long(&mut self) -> impl Iterator<Item = (UnderlayAddr, u16)> + '_ {
        self.outgoing.too_long()
    }

    /// Returns whether whole bursts are received.
    pub fn gro(&self) -> bool {
        self.gro
    }

    /// Switches receiving in bursts; returns whether it is on now.
    pub fn set_gro(&mut self, on: bool) -> bool {
        let set = sys::set_option(self.as_fd(), libc::SOL_UDP, libc::UDP_GRO, on.into());
        self.gro = on && set.is_ok();
        self.gro
    }

    /// Returns whether whole bursts are sent.
    pub fn gso(&self) -> bool {
        self.gso
    }

    /// Switches sending in bursts; returns whether it is on now.
    pub fn set_gso(&mut self, on: bool) -> bool {
        self.gso = on && knows_gso(self.as_fd());
        self.gso
    }

    /// Returns the counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the number of datagrams that the kernel dropped because its receive buffer was full, or their checksum
    /// was wrong. It wraps at 32 bits.
    pub fn kernel_drops(&self) -> io::Result<u32> {
        // The index of SK_MEMINFO_DROPS, see sock_diag(7).
        const DROPS: usize = 8;
        let info: [u32; 9] = sys::option(self.as_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO)?;
        Ok(info[DROPS])
    }

    /// Returns the sizes of the receive and the send buffer that the kernel granted, in bytes of its own accounting.
    pub fn kernel_buffers(&self) -> io::Result<(usize, usize)> {
        let get = |name| sys::option::<libc::c_int>(self.as_fd(), libc::SOL_SOCKET, name);
        Ok((
            get(libc::SO_RCVBUF)? as usize,
            get(libc::SO_SNDBUF)? as usize,
        ))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Whether a socket's long datagrams may be fragmented on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fragments {
    Allowed,
    Forbidden,
}

impl Fragments {
    /// Returns the setting of IPv4. Routers fragment where necessary, so the kernel need not learn about the path from
    /// anybody: ICMP, which any stranger can forge, changes nothing.
    const fn v4(self) -> libc::c_int {
        match self {
            Fragments::Allowed => libc::IP_PMTUDISC_OMIT,
            Fragments::Forbidden => libc::IP_PMTUDISC_PROBE,
        }
    }

    /// Returns the setting of IPv6. Only the sender fragments, so the kernel obeys "packet too big". Nobody can reduce
    /// it below 1280 bytes.
    const fn v6(self) -> libc::c_int {
        match self {
            Fragments::Allowed => libc::IPV6_PMTUDISC_DONT,
            Fragments::Forbidden => libc::IPV6_PMTUDISC_DO,
        }
    }
}

/// Permits fragments for both protocols: a dual-stack socket has a setting for each.
fn allow_fragments(fd: BorrowedFd<'_>, family: Family) -> io::Result<()> {
    let v4 = set_fragments(fd, true, Fragments::Allowed);
    match family {
        Family::V4 => v4,
        Family::V6 { .. } => set_fragments(fd, false, Fragments::Allowed),
    }
}

/// Sets it for datagrams to addresses of one protocol.
fn set_fragments(fd: BorrowedFd<'_>, is_v4: bool, fragments: Fragments) -> io::Result<()> {
    use libc::{IP_MTU_DISCOVER, IPPROTO_IP, IPPROTO_IPV6, IPV6_MTU_DISCOVER};
    match is_v4 {
        true => sys::set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, fragments.v4()),
        false => sys::set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, fragments.v6()),
    }
}

/// Returns true if this kernel supports IPv6 at all. The host may still have no IPv6 address.
pub fn has_ipv6() -> bool {
    let socket = sys::socket(libc::AF_INET6, libc::SOCK_DGRAM);
    !matches!(socket, Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT))
}

/// Makes the socket send IPv6 from an address of the host that lasts, and not from a temporary one (RFC 5014), if the
/// kernel supports it.
pub fn prefer_lasting(socket: &std::net::UdpSocket) {
    /// `IPV6_ADDR_PREFERENCES` and `IPV6_PREFER_SRC_PUBLIC` of linux/in6.h.
    const NAME: libc::c_int = 72;
    const PUBLIC: libc::c_int = 2;
    let _ = sys::set_option(socket.as_fd(), libc::IPPROTO_IPV6, NAME, PUBLIC);
}

/// Creates a datagram socket of the standard library, non-blocking and only for its address's family, for callers that
/// have very many with little traffic each. `dscp` is the class of its packets for routers that use it (RFC 2474); the
/// call succeeds even if the kernel refuses this.
pub fn single(addr: SocketAddr, dscp: u8) -> io::Result<std::net::UdpSocket> {
    let (domain, level, name) = match addr {
        SocketAddr::V4(_) => (libc::AF_INET, libc::IPPROTO_IP, libc::IP_TOS),
        SocketAddr::V6(_) => (libc::AF_INET6, libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    };
    let fd = sys::socket(domain, libc::SOCK_DGRAM)?;
    if addr.is_ipv6() {
        sys::set_option(fd.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
    }
    let _ = sys::set_option(fd.as_fd(), level, name, libc::c_int::from(dscp) << 2);
    let (name, len) = Name::of(addr);
    // SAFETY: `name` holds an address of `len` bytes.
    sys::check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const name).cast(), len) })?;
    Ok(fd.into())
}

/// Creates a plain non-blocking socket on a port at which several programs of a host may listen: all that share it get
/// what is sent to a group.
pub fn shared(addr: SocketAddrV4) -> io::Result<std::net::UdpSocket> {
    let fd = sys::socket(libc::AF_INET, libc::SOCK_DGRAM)?;
    sys::set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    let (name, len) = Name::of(addr.into());
    // SAFETY: `name` holds an address of `len` bytes.
    sys::check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const name).cast(), len) })?;
    Ok(fd.into())
}

/// Returns the length of the longest packet, including headers, that this host's route to an address accepts: that of
/// the interface, or less if routers have reported it.
pub fn route_mtu(to: SocketAddr) -> io::Result<u32> {
    let (any, level, name): (SocketAddr, i32, i32) = match to {
        SocketAddr::V4(_) => (([0, 0, 0, 0], 0).into(), libc::IPPROTO_IP, libc::IP_MTU),
        SocketAddr::V6(_) => (([0; 16], 0).into(), libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    let socket = std::net::UdpSocket::bind(any)?;
    socket.connect(to)?;
    let mtu: libc::c_int = sys::option(socket.as_fd(), level, name)?;
    u32::try_from(mtu).map_err(io::Error::other)
}

/// Gives a socket of the standard library the kernel buffers of a [`Socket`], as far as permitted.
pub fn enlarge(socket: &std::net::UdpSocket) {
    grow(socket.as_fd());
}

/// Makes a socket of the standard library send datagrams whole or not at all: one that is too long for an interface is
/// refused (EMSGSIZE, [`is_too_long`]). `is_v6` is the socket's family; an IPv6 socket may send IPv4, too.
pub fn whole(socket: &std::net::UdpSocket, is_v6: bool) -> io::Result<()> {
    let v4 = set_fragments(socket.as_fd(), true, Fragments::Forbidden);
    match is_v6 {
        false => v4,
        true => set_fragments(socket.as_fd(), false, Fragments::Forbidden),
    }
}

/// Returns true if a datagram was longer than the interface accepts.
pub fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

/// Requests large kernel buffers: beyond the system's limit if permitted, or else up to it. Small buffers are no error;
/// [`Socket::kernel_buffers`] reports them.
pub(crate) fn grow(fd: BorrowedFd<'_>) {
    for (force, polite) in [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    ] {
        if sys::set_option(fd, libc::SOL_SOCKET, force, KERNEL_BUFFER_BYTES).is_err() {
            let _ = sys::set_option(fd, libc::SOL_SOCKET, polite, KERNEL_BUFFER_BYTES);
        }
    }
}

fn knows_gso(fd: BorrowedFd<'_>) -> bool {
    sys::option::<libc::c_int>(fd, libc::SOL_UDP, libc::UDP_SEGMENT).is_ok()
}
