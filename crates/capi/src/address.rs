//! Overlay addresses in the form of `struct sockaddr_in`.

use base::{NodeAddr, VirtualPort};
use client::Target;
use std::net::Ipv4Addr;

/// An address that a program has passed. INADDR_ANY and loopback are not addresses of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) ip: Ipv4Addr,
    pub(crate) port: u16,
}

impl Address {
    /// Returns true for the addresses that mean the program's own node.
    pub(crate) fn is_own(self) -> bool {
        self.ip.is_unspecified() || self.ip.is_loopback()
    }

    /// Returns the target that a program at node `own` means.
    pub(crate) fn target(self, own: NodeAddr) -> Target {
        let node = match self.is_own() {
            true => own,
            false => NodeAddr(self.ip.to_bits()),
        };
        Target {
            node,
            port: VirtualPort(self.port),
        }
    }

    /// Converts from C's form.
    pub(crate) fn from_c(raw: &libc::sockaddr_in) -> Address {
        Address {
            ip: Ipv4Addr::from_bits(u32::from_be(raw.sin_addr.s_addr)),
            port: u16::from_be(raw.sin_port),
        }
    }
}

/// Converts a target to C's form.
pub(crate) fn to_c(target: Target) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: target.port.0.to_be(),
        sin_addr: libc::in_addr {
            s_addr: target.node.0.to_be(),
        },
        sin_zero: [0; 8],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_in_network_order_and_two_of_them_mean_the_own_node() {
        let target = Target::parse("10.7.0.3:5000").unwrap();
        let raw = to_c(target);
        assert_eq!(raw.sin_addr.s_addr.to_ne_bytes(), [10, 7, 0, 3]);
        assert_eq!(raw.sin_port.to_ne_bytes(), [0x13, 0x88]);
        let own = NodeAddr(0x0a07_0001);
        assert_eq!(Address::from_c(&raw).target(own), target);
        for ip in [Ipv4Addr::UNSPECIFIED, Ipv4Addr::LOCALHOST] {
            let address = Address { ip, port: 7 };
            assert_eq!(address.target(own), Target::new(own, 7));
        }
    }
}
