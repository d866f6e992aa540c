//! Where a node is reached in the network below, as others see it.
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

/// An address and a UDP port. No check is made of whether it is this node's: see [`Endpoint::is_dialable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The address in network order; IPv4 as `::ffff:a.b.c.d`.
    pub ip: [u8; 16],
    /// The UDP port.
    pub port: u16,
}

impl Endpoint {
    /// Bytes on the wire.
    pub const BYTES: usize = 18;

    /// Reads the body of a message: it has exactly [`Endpoint::BYTES`].
    pub fn parse(body: &[u8]) -> Result<Endpoint, Malformed> {
        let bytes = body.try_into().map_err(|_| Malformed::Length)?;
        Ok(Endpoint::from_bytes(bytes))
    }

    /// As it stands on the wire.
    pub fn from_bytes(bytes: &[u8; Endpoint::BYTES]) -> Endpoint {
        let [ip @ .., a, b] = *bytes;
        Endpoint {
            ip,
            port: u16::from_be_bytes([a, b]),
        }
    }

    /// As it stands on the wire.
    pub fn to_bytes(self) -> [u8; Endpoint::BYTES] {
        let mut bytes = [0; Endpoint::BYTES];
        bytes[..16].copy_from_slice(&self.ip);
        bytes[16..].copy_from_slice(&self.port.to_be_bytes());
        bytes
    }

    /// The four bytes of an IPv4 address.
    pub fn ipv4(self) -> Option<[u8; 4]> {
        match self.ip {
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d] => Some([a, b, c, d]),
            _ => None,
        }
    }

    /// Another host can be there: it is neither unspecified, nor this host's own loopback, nor for many.
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

    /// It is on the host itself.
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
        let mut ip = [0; 16];
        ip[10..12].fill(0xff);
        ip[12..].copy_from_slice(&address);
        Endpoint { ip, port }
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
}
