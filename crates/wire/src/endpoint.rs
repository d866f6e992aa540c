//! The address of a node in the underlay, as other nodes see it.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |       address (16 bytes), IPv4 as ::ffff:a.b.c.d              |
//! +-------------------------------+-------------------------------+
//! |           UDP port            |
//! +-------------------------------+
//! ```

use crate::Malformed;

/// An address and a UDP port. Nothing checks whether it is this node's: see [`Endpoint::is_dialable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The address in network order; IPv4 as `::ffff:a.b.c.d`.
    pub ip: [u8; 16],
    /// The UDP port.
    pub port: u16,
}

impl Endpoint {
    /// Number of bytes on the wire.
    pub const BYTES: usize = 18;

    /// Reads the body of a message, which must have exactly [`Endpoint::BYTES`].
    pub fn parse(body: &[u8]) -> Result<Endpoint, Malformed> {
        let bytes = body.try_into().map_err(|_| Malformed::Length)?;
        Ok(Endpoint::from_bytes(bytes))
    }

    /// Reads the wire format.
    pub fn from_bytes(bytes: &[u8; Endpoint::BYTES]) -> Endpoint {
        let [ip @ .., a, b] = *bytes;
        Endpoint {
            ip,
            port: u16::from_be_bytes([a, b]),
        }
    }

    /// Returns the wire format.
    pub fn to_bytes(self) -> [u8; Endpoint::BYTES] {
        let mut bytes = [0; Endpoint::BYTES];
        bytes[..16].copy_from_slice(&self.ip);
        bytes[16..].copy_from_slice(&self.port.to_be_bytes());
        bytes
    }

    /// Returns the four bytes of an IPv4 address.
    pub fn ipv4(self) -> Option<[u8; 4]> {
        match self.ip {
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d] => Some([a, b, c, d]),
            _ => None,
        }
    }

    /// Returns an IPv4 address with a UDP port.
    pub fn of_ipv4([a, b, c, d]: [u8; 4], port: u16) -> Endpoint {
        let ip = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d];
        Endpoint { ip, port }
    }

    /// Returns true if any host of the Internet can send to this address. Choice: addresses that are reserved for
    /// examples count as public, because no host has one, and test networks use them.
    pub fn is_public(self) -> bool {
        let is_of_many = match self.ipv4() {
            Some([a, b, c, _]) => {
                let is_private = a == 10 || (a == 172 && b & 0xf0 == 16) || (a, b) == (192, 168);
                let is_shared = a == 100 && b & 0xc0 == 64;
                let is_of_protocols = (a, b, c) == (192, 0, 0);
                let is_benchmark = a == 198 && b & 0xfe == 18;
                !(is_private || is_shared || is_of_protocols || is_benchmark)
            }
            // These are the IPv6 addresses assigned so far: the other addresses are for sites, links and groups.
            None => self.ip[0] & 0xe0 == 0x20,
        };
        is_of_many && self.is_dialable() && !self.is_link_local()
    }

    /// Returns true if the address is only valid on one network, so that a host with several networks has to name the
    /// network.
    pub fn is_link_local(self) -> bool {
        match self.ipv4() {
            Some([a, b, ..]) => (a, b) == (169, 254),
            None => self.ip[0] == 0xfe && self.ip[1] & 0xc0 == 0x80,
        }
    }

    /// Returns true if both addresses belong to one site: the same IPv4 address, or the same IPv6 network of one site.
    pub fn is_beside(self, other: Endpoint) -> bool {
        match (self.ipv4(), other.ipv4()) {
            (None, None) => self.ip[..8] == other.ip[..8],
            (one, another) => one == another,
        }
    }

    /// Returns true if another host can have this address: it is neither unspecified, nor this host's own loopback, nor
    /// a multicast address.
    pub fn is_dialable(self) -> bool {
        let is_host = match self.ipv4() {
            Some([first, ..]) => !matches!(first, 0 | 127 | 224..),
            None => {
                let is_small = self.ip[..15].iter().all(|byte| *byte == 0);
                let is_ipv4_of_old = self.ip[..12].iter().all(|byte| *byte == 0);
                !is_small && !is_ipv4_of_old && self.ip[0] != 0xff
            }
        };
        is_host && self.port != 0
    }

    /// Returns true if the address is on the host itself.
    pub fn is_loopback(self) -> bool {
        let is_host = match self.ipv4() {
            Some([first, ..]) => first == 127,
            None => self.ip == core::net::Ipv6Addr::LOCALHOST.octets(),
        };
        is_host && self.port != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv4(address: [u8; 4], port: u16) -> Endpoint {
        Endpoint::of_ipv4(address, port)
    }

    #[test]
    fn bytes_there_and_back() {
        let endpoint = ipv4([192, 0, 2, 7], 7700);
        let bytes = [
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7, 0x1e, 0x14,
        ];
        assert_eq!(endpoint.to_bytes(), bytes);
        assert_eq!(Endpoint::parse(&bytes), Ok(endpoint));
        for length in 0..bytes.len() {
            assert_eq!(Endpoint::parse(&bytes[..length]), Err(Malformed::Length));
        }
        assert_eq!(Endpoint::parse(&[0; 19]), Err(Malformed::Length));
    }

    #[test]
    fn only_hosts_are_dialled() {
        assert!(ipv4([192, 0, 2, 7], 7700).is_dialable());
        assert!(!ipv4([192, 0, 2, 7], 0).is_dialable());
        for address in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1], [255; 4]] {
            assert!(!ipv4(address, 7700).is_dialable(), "{address:?}");
        }
        let ipv6 = |first: u8, last: u8| {
            let mut ip = [0; 16];
            (ip[0], ip[15]) = (first, last);
            Endpoint { ip, port: 7700 }
        };
        assert!(ipv6(0x20, 1).is_dialable());
        for (first, last) in [(0, 0), (0, 1), (0xff, 1)] {
            assert!(!ipv6(first, last).is_dialable());
        }
    }

    fn ipv6(text: &str) -> Endpoint {
        let ip: core::net::Ipv6Addr = text.parse().unwrap();
        let (ip, port) = (ip.octets(), 7700);
        Endpoint { ip, port }
    }

    #[test]
    fn addresses_that_only_some_networks_have_are_not_public() {
        for ip in [
            [1, 1, 1, 1],
            [100, 128, 0, 1],
            [172, 32, 0, 1],
            [198, 51, 100, 1],
        ] {
            assert!(ipv4(ip, 1).is_public(), "{ip:?}");
        }
        assert!(!ipv4([1, 1, 1, 1], 0).is_public());
        for ip in [
            [0, 1, 2, 3],
            [10, 0, 0, 1],
            [100, 64, 0, 1],
            [100, 127, 255, 255],
            [127, 0, 0, 1],
            [169, 254, 1, 1],
            [172, 16, 0, 1],
            [192, 0, 0, 8],
            [192, 168, 0, 1],
            [198, 19, 0, 1],
            [224, 0, 0, 1],
            [240, 0, 0, 1],
        ] {
            assert!(!ipv4(ip, 1).is_public(), "{ip:?}");
        }
        assert!(ipv6("2001:db8::1").is_public() && ipv6("3fff::1").is_public());
        for ip in [
            "::1",
            "fd00::1",
            "fe80::1",
            "febf::1",
            "ff02::1",
            "64:ff9b::1",
        ] {
            assert!(!ipv6(ip).is_public(), "{ip}");
        }
        assert!(ipv6("fe80::1").is_link_local() && !ipv6("fd00::1").is_link_local());
        assert!(ipv4([169, 254, 0, 1], 1).is_link_local());
    }

    #[test]
    fn a_site_has_one_address_of_ipv4_and_a_network_of_ipv6() {
        let one = ipv4([192, 0, 2, 7], 1);
        assert!(one.is_beside(ipv4([192, 0, 2, 7], 2)) && !one.is_beside(ipv4([192, 0, 2, 8], 1)));
        let six = ipv6("2001:db8:1:2::7");
        assert!(six.is_beside(ipv6("2001:db8:1:2:ffff::")));
        assert!(!six.is_beside(ipv6("2001:db8:1:3::7")) && !six.is_beside(one));
    }
}
