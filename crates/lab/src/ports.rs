//! Ports for nodes that a run starts. A node uses a UDP port for packets, and the TCP port of the same number for bulk
//! data, so both must be free.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

/// Choice: below the ports that systems give to outgoing connections (Linux: 32768 and above).
/// Otherwise any program could get the TCP port between the search and the start of the node.
const FIRST: u32 = 10_000;
const COUNT: u32 = 22_000;

/// Finds a port that is free on `ip` now, for UDP and TCP. This process gets each port once, and other processes begin
/// their search elsewhere.
pub(crate) fn free(ip: IpAddr) -> io::Result<SocketAddr> {
    static SEARCHED: AtomicU32 = AtomicU32::new(0);
    // Fibonacci hashing: neighbouring process ids begin far from each other.
    let begin = std::process::id().wrapping_mul(0x9E37_79B9) >> 16;
    for _ in 0..COUNT {
        let searched = SEARCHED.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + begin.wrapping_add(searched) % COUNT;
        let at = SocketAddr::new(ip, port as u16);
        match (UdpSocket::bind(at), TcpListener::bind(at)) {
            (Ok(_), Ok(_)) => return Ok(at),
            (Err(error), _) | (_, Err(error)) if error.kind() == io::ErrorKind::AddrInUse => {}
            (Err(error), _) | (_, Err(error)) => return Err(error),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AddrInUse,
        format!("no port from {FIRST} on is free on {ip}: end other programs"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_port_is_free_for_both_protocols_and_given_once() {
        let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let first = free(ip).unwrap();
        // The next two ports are taken, one for UDP and one for TCP.
        let after = |n: u16| SocketAddr::new(ip, first.port() + n);
        let held = (UdpSocket::bind(after(1)), TcpListener::bind(after(2)));
        let next = free(ip).unwrap();
        assert_ne!(next, first);
        drop((
            UdpSocket::bind(next).unwrap(),
            TcpListener::bind(next).unwrap(),
        ));
        if held.0.is_ok() {
            assert_ne!(next, after(1));
        }
        if held.1.is_ok() {
            assert_ne!(next, after(2));
        }
    }
}
