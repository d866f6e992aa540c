//! Operations on TCP sockets that the standard library lacks.

use crate::addr::Name as AddressName;
use crate::sys;
use std::io;
use std::mem;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Listens, non-blocking. At `::` it also accepts IPv4 connections if it has to serve both families.
///
/// # Errors
/// Returns the kernel's error.
pub fn listen(at: SocketAddr, is_of_both: bool) -> io::Result<TcpListener> {
    let family = match at {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    };
    let socket = sys::socket(family, libc::SOCK_STREAM)?;
    // The standard library does the same: a restarted program need not wait for old connections.
    sys::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    if at.is_ipv6() {
        let only = libc::c_int::from(!is_of_both);
        sys::set_option(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, only)?;
    }
    let (name, len) = AddressName::of(at);
    let fd = socket.as_raw_fd();
    // SAFETY: the kernel reads `name`, of which `len` bytes are the address.
    sys::check(unsafe { libc::bind(fd, (&raw const name).cast(), len) })?;
    // SAFETY: no pointers are involved.
    sys::check(unsafe { libc::listen(fd, libc::SOMAXCONN) })?;
    Ok(TcpListener::from(socket))
}

/// Sets a connection's congestion control by the kernel's name for it: `reno`, `cubic`, `bbr`. A listener passes its
/// own on to the connections that it accepts.
///
/// # Errors
/// Returns `NotFound` if the kernel does not have it, and `PermissionDenied` if only root may choose it.
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

/// Returns the name of the congestion control of a connection, or of a listener's connections.
pub fn congestion_control(socket: impl AsFd) -> io::Result<String> {
    let name: Name = sys::option(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION)?;
    let end = name.0.iter().position(|byte| *byte == 0);
    let text = &name.0[..end.unwrap_or(name.0.len())];
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// Size of the kernel's names, `TCP_CA_NAME_MAX`.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
struct Name([u8; 16]);

impl sys::OptionValue for Name {}

/// Makes the kernel probe whether a silent end is still there: after a minute, then every 15 s, four times. Therefore,
/// a host that has vanished does not hold a connection for ever.
pub fn keep_alive(socket: impl AsFd) -> io::Result<()> {
    ask(&socket, Duration::from_secs(60), Duration::from_secs(15), 4)
}

/// Does the same sooner: the kernel probes after `after` of silence and then every `every`. It ends the connection if
/// for `silence` nothing has arrived, or nothing that was sent was acknowledged. Times are rounded up to whole seconds.
/// If an end reads nothing, its kernel still answers; but data for which it has no room counts as unacknowledged, so
/// this is for connections that are always read.
pub fn keep_alive_within(
    socket: impl AsFd,
    after: Duration,
    every: Duration,
    silence: Duration,
) -> io::Result<()> {
    let left = silence.saturating_sub(after);
    let questions = left.as_millis().div_ceil(every.as_millis().max(1));
    let questions = u32::try_from(questions).unwrap_or(u32::MAX);
    ask(&socket, after, every, questions.clamp(1, QUESTIONS_MAX))?;
    // The user timeout takes precedence if both are set.
    set_user_timeout(socket, silence)
}

/// The kernel's maximum.
const QUESTIONS_MAX: u32 = 127;

fn ask(socket: impl AsFd, after: Duration, every: Duration, questions: u32) -> io::Result<()> {
    let seconds = |span: Duration| {
        let seconds = span.as_millis().div_ceil(1_000);
        u32::try_from(seconds).unwrap_or(u32::MAX)
    };
    for (level, name, value) in [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, seconds(after)),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, seconds(every)),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, questions),
    ] {
        set_int(&socket, level, name, value)?;
    }
    Ok(())
}

/// Makes writers wait (and polls report nothing) while more than this many bytes have not been sent for the first time.
/// More bytes in the socket would only lengthen the path, and a resumption would lose them when the process dies.
pub fn set_unsent_low_water(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// Sets how long sent bytes may stay unacknowledged before the connection is given up.
fn set_user_timeout(socket: impl AsFd, timeout: Duration) -> io::Result<()> {
    let ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, ms)
}

/// Sets the highest rate at which the kernel sends, in bits per second.
pub fn set_pacing_rate(socket: impl AsFd, rate_bps: u64) -> io::Result<()> {
    let bytes = u32::try_from(rate_bps / 8).unwrap_or(u32::MAX - 1);
    set_int(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, bytes)
}

fn set_int(socket: impl AsFd, level: i32, name: i32, value: u32) -> io::Result<()> {
    sys::set_option(socket.as_fd(), level, name, value.cast_signed())
}

/// The kernel's information about a connection, `TCP_INFO` of tcp(7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// The smoothed round trip.
    pub rtt_us: u32,
    /// The least recent round trip.
    pub min_rtt_us: u32,
    /// Segments that were sent and are not yet acknowledged.
    pub unacked: u32,
    /// Milliseconds since the other end last acknowledged anything, or answered a probe.
    pub silent_ms: u32,
    /// Number of retransmitted segments.
    pub resent: u32,
    /// Number of sent segments, including retransmitted ones.
    pub sent: u32,
    /// Bytes that the other end has acknowledged.
    pub acked: u64,
    /// Bytes received.
    pub received: u64,
    /// For how long there was something to send.
    pub busy_us: u64,
    /// For how long of that the other end's window was closed.
    pub window_limited_us: u64,
    /// The congestion window, in segments.
    pub window: u32,
}

/// Reads the kernel's information about a connection. Values that an older kernel does not provide are zero.
pub fn info(socket: impl AsFd) -> io::Result<Info> {
    let raw: Raw = sys::option(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_INFO)?;
    // Offsets of `struct tcp_info` in linux/tcp.h, to which fields are only appended.
    Ok(Info {
        rtt_us: raw.u32(68),
        min_rtt_us: raw.u32(148),
        unacked: raw.u32(24),
        silent_ms: raw.u32(56),
        resent: raw.u32(100),
        sent: raw.u32(156),
        acked: raw.u64(120),
        received: raw.u64(128),
        busy_us: raw.u64(168),
        window_limited_us: raw.u64(176),
        window: raw.u32(80),
    })
}

/// The part of `struct tcp_info` that is used.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Raw([u8; 192]);

impl Default for Raw {
    fn default() -> Raw {
        Raw([0; 192])
    }
}

impl sys::OptionValue for Raw {}

impl Raw {
    fn u32(&self, at: usize) -> u32 {
        let bytes = self.0[at..].first_chunk();
        u32::from_ne_bytes(*bytes.expect("every offset lies within"))
    }

    fn u64(&self, at: usize) -> u64 {
        let bytes = self.0[at..].first_chunk();
        u64::from_ne_bytes(*bytes.expect("every offset lies within"))
    }
}

/// Resets the connection of `socket`: the peer gets an error and not an orderly end, and so do the threads that read or
/// write here.
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
    // It fails only if the connection no longer exists.
    drop(dissolved);
}

/// Sets whether the kernel resets the connection of `socket` when it is closed (SO_LINGER of zero), or ends it in
/// order. The kernel closes what a killed process has left open, and without this the peer sees an orderly end.
pub fn abort_on_close(socket: impl AsFd, on: bool) -> io::Result<()> {
    let linger = libc::linger {
        l_onoff: on.into(),
        l_linger: 0,
    };
    // SAFETY: "the argument is a linger structure", ours, with its size, which the kernel only reads.
    let set = sys::check(unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        )
    });
    set.map(drop)
}

/// Returns true if accept(2) failed because the process or the system has no more descriptors, or no memory for one:
/// later it may succeed.
pub fn has_run_out(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
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
        // Whether it was already waiting or came later, it does not wait for ever.
        drop(waiting.join().unwrap());
        drop(here.read(&mut [0; 8]));
    }

    #[test]
    fn closing_is_an_end_or_a_reset_as_was_chosen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for aborts in [true, false] {
            let mut here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut there, _) = listener.accept().unwrap();
            abort_on_close(&here, true).unwrap();
            abort_on_close(&here, aborts).unwrap();
            here.write_all(b"a part").unwrap();
            there.read_exact(&mut [0; 6]).unwrap();
            drop(here);
            let end = there.read(&mut [0; 8]).map_err(|error| error.kind());
            let expected = match aborts {
                true => Err(io::ErrorKind::ConnectionReset),
                false => Ok(0),
            };
            assert_eq!(end, expected);
        }
    }

    #[test]
    fn the_kernel_tells_of_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut there, _) = listener.accept().unwrap();
        set_unsent_low_water(&here, 65_536).unwrap();
        keep_alive(&here).unwrap();
        set_pacing_rate(&here, 1_000_000_000).unwrap();
        here.write_all(&[7; 1_000]).unwrap();
        there.read_exact(&mut [0; 1_000]).unwrap();
        // The answer contains an acknowledgement.
        there.write_all(b"x").unwrap();
        here.read_exact(&mut [0; 1]).unwrap();
        let info = info(&here).unwrap();
        assert_eq!((info.received, info.resent), (1, 0));
        assert!(
            info.acked >= 1_000 && info.rtt_us > 0 && info.min_rtt_us > 0,
            "{info:?}"
        );
    }

    #[test]
    fn a_connection_is_asked_as_often_as_silence_has_room_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let seconds = Duration::from_secs;
        keep_alive_within(&here, seconds(3), seconds(1), seconds(10)).unwrap();
        for (name, expected) in [
            (libc::TCP_KEEPIDLE, 3),
            (libc::TCP_KEEPINTVL, 1),
            (libc::TCP_KEEPCNT, 7),
            (libc::TCP_USER_TIMEOUT, 10_000),
        ] {
            let value: libc::c_int = sys::option(here.as_fd(), libc::IPPROTO_TCP, name).unwrap();
            assert_eq!(value, expected, "{name}");
        }
        let on: libc::c_int =
            sys::option(here.as_fd(), libc::SOL_SOCKET, libc::SO_KEEPALIVE).unwrap();
        assert_eq!(on, 1);
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
