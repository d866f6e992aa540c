//! The own addresses of a socket that is bound to all addresses of its host.
//!
//! ```text
//!   datagram to 192.0.2.7 ──▶ PKTINFO: 192.0.2.7 ──▶ index 2 ──▶ UnderlayAddr::local ──▶ engine
//!   answer leaves from 192.0.2.7 ◀── PKTINFO ◀── index 2 ◀── UnderlayAddr::local ◀──────────┘
//! ```
//!
//! By default, the kernel answers from the address that it prefers for the route. A peer that has asked another address
//! then takes the answer for a stranger's. A socket that is bound to one address needs nothing.

use crate::addr::Family;
use crate::sys;
use base::UnderlayAddr;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;

/// Number of addresses that are distinguished: as many as [`UnderlayAddr::local`] can name. If a host has more, the
/// kernel chooses for the rest.
const LOCALS_MAX: usize = u8::MAX as usize;

/// The addresses at which a socket has received datagrams so far.
#[derive(Debug, Default)]
pub(super) struct Locals {
    /// The index of an address is its position plus one.
    known: Vec<[u8; 16]>,
    /// The index of the last address: usually it is the same again.
    last: u8,
}

impl Locals {
    /// Makes the kernel report at which address a datagram has arrived, if the socket has several.
    pub(super) fn observe(fd: BorrowedFd<'_>, family: Family, bound: SocketAddr) -> io::Result<()> {
        if !bound.ip().is_unspecified() {
            return Ok(());
        }
        match family {
            Family::V4 => sys::set_option(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
            // For IPv4 datagrams it reports mapped addresses.
            Family::V6 { .. } => sys::set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1),
        }
    }

    /// Returns the index of an address; 0 if the kernel has to choose.
    pub(super) fn index(&mut self, ip: [u8; 16]) -> u8 {
        if self.address(self.last) == Some(ip) {
            return self.last;
        }
        let ip_v6 = Ipv6Addr::from(ip);
        // For these addresses the kernel needs an interface, too, and chooses correctly by that itself.
        if ip_v6.is_unicast_link_local() || ip_v6.is_multicast() || ip_v6.is_unspecified() {
            return 0;
        }
        let place = self.known.iter().position(|known| *known == ip);
        let place = place.or_else(|| {
            (self.known.len() < LOCALS_MAX).then(|| {
                self.known.push(ip);
                self.known.len() - 1
            })
        });
        let Some(place) = place else { return 0 };
        self.last = (place + 1) as u8;
        self.last
    }

    /// Returns the address of an index.
    #[inline]
    pub(super) fn address(&self, index: u8) -> Option<[u8; 16]> {
        let place = usize::from(index).checked_sub(1)?;
        self.known.get(place).copied()
    }
}

/// Returns the address at which an IPv4 datagram arrived, from its control message.
pub(super) fn of_v4(info: libc::in_pktinfo) -> [u8; 16] {
    let ip = std::net::Ipv4Addr::from(info.ipi_spec_dst.s_addr.to_ne_bytes());
    ip.to_ipv6_mapped().octets()
}

/// Creates the control message that makes IPv4 datagrams leave from an address.
pub(super) fn to_v4(ip: [u8; 16]) -> libc::in_pktinfo {
    let [.., a, b, c, d] = ip;
    libc::in_pktinfo {
        ipi_ifindex: 0,
        ipi_spec_dst: libc::in_addr {
            s_addr: u32::from_ne_bytes([a, b, c, d]),
        },
        ipi_addr: libc::in_addr { s_addr: 0 },
    }
}

/// Creates the same for IPv6.
pub(super) fn to_v6(ip: [u8; 16]) -> libc::in6_pktinfo {
    libc::in6_pktinfo {
        ipi6_addr: libc::in6_addr { s6_addr: ip },
        ipi6_ifindex: 0,
    }
}

/// Returns the own address that a message has to leave from, if that matters.
#[inline]
pub(super) fn wanted(locals: &Locals, to: UnderlayAddr) -> Option<[u8; 16]> {
    let ip = locals.address(to.local)?;
    // This far end has never used an address of the other family.
    let is_v4 = Ipv6Addr::from(ip).to_ipv4_mapped().is_some();
    (is_v4 == to.is_ipv4()).then_some(ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(last: u8, third: u8) -> [u8; 16] {
        let ip = std::net::Ipv4Addr::new(10, 0, third, last);
        ip.to_ipv6_mapped().octets()
    }

    #[test]
    fn addresses_keep_their_index_and_too_many_are_left_to_the_kernel() {
        let mut locals = Locals::default();
        for round in 0..2 {
            for n in 0..=254 {
                assert_eq!(locals.index(v4(n, 0)), n + 1, "{round}");
            }
        }
        assert_eq!(locals.index(v4(0, 1)), 0);
        assert_eq!(locals.index(v4(7, 0)), 8);
        assert_eq!(locals.address(8), Some(v4(7, 0)));
        assert_eq!(locals.address(0), None);
    }

    #[test]
    fn what_needs_an_interface_is_left_to_the_kernel() {
        let mut locals = Locals::default();
        for ip in ["fe80::1", "ff02::1", "::"] {
            let ip: Ipv6Addr = ip.parse().unwrap();
            assert_eq!(locals.index(ip.octets()), 0);
        }
        assert_eq!(locals.index(v4(1, 1)), 1);
        let six = UnderlayAddr {
            ip: [0x20; 16],
            local: 1,
            ..UnderlayAddr::default()
        };
        assert_eq!(wanted(&locals, six), None);
    }
}
