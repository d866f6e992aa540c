//! Identifiers of nodes, clients and ports, and underlay addresses.

use core::fmt;
use core::str::FromStr;

/// The overlay address of a node: 32 bits from the network's own address plan, written as an IPv4 address. Class D are
/// multicast groups, class E anycast groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeAddr(pub u32);

/// A virtual port. It belongs to a node and has nothing to do with the operating system's ports.
/// [Amir06 §III-A]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualPort(pub u16);

/// The id of a client of this node, as the host numbers its connections. An id is never reused while it is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u32);

/// An underlay address: IPv6 or IPv4-mapped address, UDP port, and the host's own socket and address by which it is
/// reached. Engines only compare and copy it.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnderlayAddr {
    /// The address in network order; IPv4 as `::ffff:a.b.c.d`.
    pub ip: [u8; 16],
    /// The UDP port, or the TCP port if the address is reached inside a byte stream.
    pub port: u16,
    /// The number of the host's socket, or [`UnderlayAddr::STREAM`].
    pub socket: u8,
    /// The index of that socket's own address; 0 leaves the choice to the host. If a datagram arrived at one of several
    /// addresses, the answer is sent from that one.
    pub local: u8,
}

impl NodeAddr {
    /// Returns true for an address of class D (224.0.0.0/4), which names a multicast group.
    pub const fn is_multicast(self) -> bool {
        self.0 >> 28 == 0xe
    }
    /// Returns true for an address of class E (240.0.0.0/4), which names an anycast group.
    pub const fn is_anycast(self) -> bool {
        self.0 >> 28 == 0xf
    }
    /// Returns true for an address that one node can have.
    pub const fn is_node(self) -> bool {
        self.0 != 0 && !self.is_multicast() && !self.is_anycast()
    }
}

impl fmt::Display for NodeAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = self.0.to_be_bytes();
        write!(f, "{a}.{b}.{c}.{d}")
    }
}

/// The text is not four decimal numbers from 0 to 255 with dots between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadAddress;

impl fmt::Display for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an overlay address: write it like 10.7.0.3")
    }
}
impl core::error::Error for BadAddress {}

impl FromStr for NodeAddr {
    type Err = BadAddress;
    fn from_str(text: &str) -> Result<NodeAddr, BadAddress> {
        let mut octets = [0u8; 4];
        let mut parts = text.split('.');
        for octet in &mut octets {
            let part = parts.next().ok_or(BadAddress)?;
            if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
                return Err(BadAddress);
            }
            *octet = part.parse().map_err(|_| BadAddress)?;
        }
        match parts.next() {
            None => Ok(NodeAddr(u32::from_be_bytes(octets))),
            Some(_) => Err(BadAddress),
        }
    }
}

impl fmt::Display for VirtualPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl UnderlayAddr {
    /// The `socket` of an address that is reached inside a byte stream (TCP), and not by datagrams. Hosts have far
    /// fewer sockets than this number.
    pub const STREAM: u8 = u8::MAX;

    /// Returns true if datagrams to this address travel inside a byte stream.
    #[inline]
    pub const fn is_stream(self) -> bool {
        self.socket == UnderlayAddr::STREAM
    }

    /// Returns true if the address without port and socket is IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.ip[..10] == [0; 10] && self.ip[10..12] == [0xff, 0xff]
    }

    /// Returns true if the address without port and socket is a loopback address (127.0.0.0/8, `::1`).
    pub fn is_loopback(&self) -> bool {
        let [rest @ .., last] = self.ip;
        (self.is_ipv4() && self.ip[12] == 127) || (rest == [0; 15] && last == 1)
    }

    /// Returns the far end alone, regardless of the own address it is reached from.
    pub fn remote(self) -> UnderlayAddr {
        UnderlayAddr { local: 0, ..self }
    }
}

impl fmt::Display for UnderlayAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_ipv4() {
            let [a, b, c, d] = [self.ip[12], self.ip[13], self.ip[14], self.ip[15]];
            write!(f, "{a}.{b}.{c}.{d}:{}", self.port)?;
        } else {
            write!(f, "[{}]:{}", core::net::Ipv6Addr::from(self.ip), self.port)?;
        }
        match self.is_stream() {
            true => f.write_str(" over TCP"),
            false => Ok(()),
        }
    }
}
impl fmt::Debug for UnderlayAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}/{}", self.socket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_addresses_round_trip_and_refuse_nonsense() {
        assert_eq!("10.7.0.3".parse(), Ok(NodeAddr(0x0a07_0003)));
        assert_eq!(NodeAddr(0x0a07_0003).to_string(), "10.7.0.3");
        for bad in [
            "",
            "10.7.0",
            "10.7.0.3.1",
            "10.7.0.256",
            "10.7.0.+3",
            "a.b.c.d",
            "10..0.3",
        ] {
            assert_eq!(bad.parse::<NodeAddr>(), Err(BadAddress), "{bad}");
        }
    }

    #[test]
    fn classes_follow_the_top_bits() {
        let group: NodeAddr = "239.1.2.3".parse().unwrap();
        let any: NodeAddr = "240.0.0.1".parse().unwrap();
        assert!(group.is_multicast() && !group.is_node());
        assert!(any.is_anycast() && !any.is_node());
        assert!(!NodeAddr(0).is_node());
    }
}
