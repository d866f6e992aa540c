//! Converts addresses between the engine's [`UnderlayAddr`], the standard library's [`SocketAddr`], and the kernel's
//! `sockaddr`.
//!
//! Engines see one kind of address: IPv6, with IPv4 mapped into it. An IPv4 socket gets the four
//! bytes back, a dual-stack IPv6 socket takes the mapped form as it is.

use base::UnderlayAddr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Converts an address for engines. `socket` is the host's socket by which it is reached.
pub fn underlay(addr: SocketAddr, socket: u8) -> UnderlayAddr {
    let ip = match addr.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    UnderlayAddr {
        ip: ip.octets(),
        port: addr.port(),
        socket,
        local: 0,
    }
}

/// Converts an address for the standard library; mapped addresses become IPv4.
pub fn socket_addr(addr: UnderlayAddr) -> SocketAddr {
    let ip = Ipv6Addr::from(addr.ip);
    let ip = match ip.to_ipv4_mapped() {
        Some(v4) => IpAddr::V4(v4),
        None => IpAddr::V6(ip),
    };
    SocketAddr::new(ip, addr.port)
}

/// Room for an address of either family, as the kernel reads and writes it.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union Name {
    family: libc::sa_family_t,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

/// Size of a [`Name`]: that of the longer family.
pub(crate) const NAME_BYTES: libc::socklen_t = size_of::<Name>() as libc::socklen_t;
const V4_BYTES: libc::socklen_t = size_of::<libc::sockaddr_in>() as libc::socklen_t;
const V6_BYTES: libc::socklen_t = size_of::<libc::sockaddr_in6>() as libc::socklen_t;

/// Which addresses a socket can send to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// IPv4 only.
    V4,
    /// IPv6, and IPv4 in mapped form if the socket is dual-stack. Packets to link-local destinations leave by the
    /// interface `scope`.
    V6 { scope: u32 },
}

impl Name {
    /// All zero: no address.
    pub(crate) const EMPTY: Name = Name {
        v6: libc::sockaddr_in6 {
            sin6_family: 0,
            sin6_port: 0,
            sin6_flowinfo: 0,
            sin6_addr: libc::in6_addr { s6_addr: [0; 16] },
            sin6_scope_id: 0,
        },
    };

    /// Converts a standard library's socket address, in its own family.
    pub(crate) fn of(addr: SocketAddr) -> (Name, libc::socklen_t) {
        let family = match addr {
            SocketAddr::V4(_) => Family::V4,
            SocketAddr::V6(v6) => Family::V6 {
                scope: v6.scope_id(),
            },
        };
        let mut name = Name::EMPTY;
        let len = name.write(underlay(addr, 0), family).unwrap_or(V6_BYTES);
        if let SocketAddr::V6(v6) = addr {
            name.v6.sin6_scope_id = v6.scope_id();
        }
        (name, len)
    }

    /// Writes `addr` for a socket of `family`. Returns its length, or `None` if that socket cannot send to it.
    pub(crate) fn write(&mut self, addr: UnderlayAddr, family: Family) -> Option<libc::socklen_t> {
        match family {
            Family::V4 => {
                let [.., a, b, c, d] = addr.ip;
                self.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: addr.port.to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from_ne_bytes([a, b, c, d]),
                    },
                    sin_zero: [0; 8],
                };
                addr.is_ipv4().then_some(V4_BYTES)
            }
            Family::V6 { scope } => {
                let link_local = addr.ip[0] == 0xfe && addr.ip[1] & 0xc0 == 0x80;
                self.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: addr.port.to_be(),
                    sin6_flowinfo: 0,
                    sin6_addr: libc::in6_addr { s6_addr: addr.ip },
                    sin6_scope_id: if link_local { scope } else { 0 },
                };
                Some(V6_BYTES)
            }
        }
    }

    /// Reads what the kernel has written, in its own family and with its interface.
    pub(crate) fn std(&self) -> Option<SocketAddr> {
        let UnderlayAddr { ip, port, .. } = self.read(0)?;
        let ip = Ipv6Addr::from(ip);
        // SAFETY: all variants begin with the family, and any bytes make valid integers.
        let family = i32::from(unsafe { self.family });
        Some(
            match ip.to_ipv4_mapped().filter(|_| family == libc::AF_INET) {
                Some(v4) => (v4, port).into(),
                None => {
                    // SAFETY: any bytes make a valid `sockaddr_in6`.
                    let v6 = unsafe { self.v6 };
                    std::net::SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into()
                }
            },
        )
    }

    /// Reads what the kernel has written; `None` if the family is neither IPv4 nor IPv6.
    pub(crate) fn read(&self, socket: u8) -> Option<UnderlayAddr> {
        // SAFETY: all variants begin with the family, and any bytes make valid integers.
        let family = i32::from(unsafe { self.family });
        match family {
            libc::AF_INET => {
                // SAFETY: any bytes make a valid `sockaddr_in`, and the union is larger.
                let v4 = unsafe { self.v4 };
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Some(UnderlayAddr {
                    ip: ip.to_ipv6_mapped().octets(),
                    port: u16::from_be(v4.sin_port),
                    socket,
                    local: 0,
                })
            }
            libc::AF_INET6 => {
                // SAFETY: any bytes make a valid `sockaddr_in6`.
                let v6 = unsafe { self.v6 };
                Some(UnderlayAddr {
                    ip: v6.sin6_addr.s6_addr,
                    port: u16::from_be(v6.sin6_port),
                    socket,
                    local: 0,
                })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip_through_all_three_forms() {
        for text in ["192.0.2.7:4801", "[2001:db8::7]:4801", "[::1]:1"] {
            let addr: SocketAddr = text.parse().unwrap();
            let ours = underlay(addr, 3);
            assert_eq!(socket_addr(ours), addr);
            let (name, _) = Name::of(addr);
            assert_eq!(name.read(3), Some(ours), "{text}");
            assert_eq!(name.std(), Some(addr));
        }
    }

    #[test]
    fn a_mapped_address_goes_out_of_either_family() {
        let ours = underlay("192.0.2.7:9".parse().unwrap(), 0);
        let mut name = Name::EMPTY;
        assert_eq!(name.write(ours, Family::V4), Some(16));
        assert_eq!(name.read(0), Some(ours));
        assert_eq!(name.write(ours, Family::V6 { scope: 0 }), Some(28));
        assert_eq!(name.read(0), Some(ours));
        let six = underlay("[2001:db8::1]:9".parse().unwrap(), 0);
        assert_eq!(name.write(six, Family::V4), None);
    }

    #[test]
    fn only_link_local_destinations_take_the_interface_of_the_socket() {
        let scope = |text: &str| {
            let mut name = Name::EMPTY;
            name.write(underlay(text.parse().unwrap(), 0), Family::V6 { scope: 4 });
            // SAFETY: just written.
            unsafe { name.v6.sin6_scope_id }
        };
        assert_eq!((scope("[fe80::1]:1"), scope("[2001:db8::1]:1")), (4, 0));
        assert_eq!(Name::EMPTY.read(0), None);
    }
}
