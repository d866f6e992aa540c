//! Addresses that mean this host, its link or its site, and not a host on the Internet.
//!
//! A user who lists `0.0.0.0/0` means the Internet. The ranges in this module contain services that trust everybody who
//! reaches them: services on loopback, the service that gives a cloud machine its credentials, and printers and
//! databases of the site. They are reached only if the user names them.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::io;
use std::net::UdpSocket;

/// The kind of an address that is not on the Internet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The unspecified address: systems treat it as this host.
    Unspecified,
    /// This host.
    Loopback,
    /// This link. The metadata service of clouds is at 169.254.169.254.
    LinkLocal,
    /// The site (RFC 1918, 4193).
    Private,
    /// The customers of one provider, who share an address translator (RFC 6598).
    Shared,
    /// A group of hosts, or all hosts.
    Multicast,
    /// Reserved for protocols or for later use, or used by a cloud for a service of its own.
    Reserved,
}

/// The addresses that share a number of leading bits with this one, all of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first address.
    pub net: IpAddr,
    /// Number of leading bits that all addresses have in common.
    pub bits: u8,
    /// The kind of the addresses.
    pub kind: Kind,
}

const fn v4(octets: [u8; 4], bits: u8, kind: Kind) -> Range {
    let [a, b, c, d] = octets;
    let net = IpAddr::V4(Ipv4Addr::new(a, b, c, d));
    Range { net, bits, kind }
}

const fn v6(first: u16, second: u16, third: u16, last: u16, bits: u8, kind: Kind) -> Range {
    let net = IpAddr::V6(Ipv6Addr::new(first, second, third, 0, 0, 0, 0, last));
    Range { net, bits, kind }
}

/// The ranges, which do not overlap.
const RANGES: [Range; 21] = [
    v4([0, 0, 0, 0], 8, Kind::Unspecified),
    v4([127, 0, 0, 0], 8, Kind::Loopback),
    v4([169, 254, 0, 0], 16, Kind::LinkLocal),
    v4([10, 0, 0, 0], 8, Kind::Private),
    v4([100, 64, 0, 0], 10, Kind::Shared),
    v4([172, 16, 0, 0], 12, Kind::Private),
    v4([192, 168, 0, 0], 16, Kind::Private),
    v4([192, 0, 0, 0], 24, Kind::Reserved),
    // Laboratories, and addresses that some programs invent for names (RFC 2544).
    v4([198, 18, 0, 0], 15, Kind::Private),
    // The service of Azure that answers only its own machines.
    v4([168, 63, 129, 16], 32, Kind::Reserved),
    v4([224, 0, 0, 0], 4, Kind::Multicast),
    v4([240, 0, 0, 0], 4, Kind::Reserved),
    v6(0, 0, 0, 0, 128, Kind::Unspecified),
    v6(0, 0, 0, 1, 128, Kind::Loopback),
    v6(0xfe80, 0, 0, 0, 10, Kind::LinkLocal),
    v6(0xfec0, 0, 0, 0, 10, Kind::Private),
    v6(0xfc00, 0, 0, 0, 7, Kind::Private),
    v6(0xff00, 0, 0, 0, 8, Kind::Multicast),
    // A translator of the site to IPv4 (RFC 8215).
    v6(0x0064, 0xff9b, 1, 0, 48, Kind::Private),
    // Tunnels: the address inside leads to an IPv4 address that nothing has checked (RFC 3056, 4380).
    v6(0x2002, 0, 0, 0, 16, Kind::Reserved),
    v6(0x2001, 0, 0, 0, 32, Kind::Reserved),
];

/// The prefix of the translator to IPv4 (RFC 6052); the last 32 bits are the IPv4 address.
const NAT64: Ipv6Addr = Ipv6Addr::new(0x0064, 0xff9b, 0, 0, 0, 0, 0, 0);
const NAT64_BITS: u8 = 96;

/// Returns the range of an address; `None` if the address is on the Internet.
pub fn range(ip: IpAddr) -> Option<Range> {
    let ip = ip.to_canonical();
    if is_within(NAT64.into(), NAT64_BITS, ip)
        && let IpAddr::V6(ip) = ip
    {
        let [.., a, b, c, d] = ip.octets();
        let inner = range(Ipv4Addr::new(a, b, c, d).into())?;
        let IpAddr::V4(net) = inner.net else {
            return None;
        };
        return Some(Range {
            net: Ipv6Addr::from_bits(NAT64.to_bits() | u128::from(net.to_bits())).into(),
            bits: NAT64_BITS + inner.bits,
            kind: inner.kind,
        });
    }
    RANGES.into_iter().find(|range| range.holds(ip))
}

/// Returns the address of this host from which packets to `peer` leave. For an address of this host, it is the same
/// address. Sends nothing.
pub(crate) fn source_toward(peer: IpAddr) -> io::Result<IpAddr> {
    /// Any port will do.
    const PORT: u16 = 9;
    let any: IpAddr = match peer {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect((peer, PORT))?;
    Ok(socket.local_addr()?.ip())
}

impl Range {
    fn holds(&self, ip: IpAddr) -> bool {
        is_within(self.net, self.bits, ip)
    }

    /// Returns whether all addresses that share `bits` leading bits with `net` are in this range.
    pub fn encloses(&self, net: IpAddr, bits: u8) -> bool {
        bits >= self.bits && self.holds(net)
    }
}

/// Returns whether an address shares `bits` leading bits with `net`.
pub(crate) fn is_within(net: IpAddr, bits: u8, ip: IpAddr) -> bool {
    // The bits above are the same, or there is nothing to compare.
    let same = |a: u128, b: u128, width: u32| {
        let below = width - u32::from(bits).min(width);
        below >= 128 || a >> below == b >> below
    };
    match (net, ip) {
        (IpAddr::V4(net), IpAddr::V4(ip)) => same(net.to_bits().into(), ip.to_bits().into(), 32),
        (IpAddr::V6(net), IpAddr::V6(ip)) => same(net.to_bits(), ip.to_bits(), 128),
        _ => false,
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Unspecified => "unspecified",
            Kind::Loopback => "loopback",
            Kind::LinkLocal => "link-local",
            Kind::Private => "private",
            Kind::Shared => "shared with others of the provider",
            Kind::Multicast => "multicast",
            Kind::Reserved => "reserved",
        })
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.net {
            IpAddr::V4(net) => write!(f, "{net}/{}", self.bits),
            IpAddr::V6(net) => write!(f, "[{net}]/{}", self.bits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_no_place_on_the_internet_are_known() {
        for (ip, of) in [
            ("0.0.0.0", "unspecified 0.0.0.0/8"),
            ("127.8.9.1", "loopback 127.0.0.0/8"),
            ("169.254.169.254", "link-local 169.254.0.0/16"),
            ("10.255.0.1", "private 10.0.0.0/8"),
            (
                "100.127.255.255",
                "shared with others of the provider 100.64.0.0/10",
            ),
            ("172.31.0.1", "private 172.16.0.0/12"),
            ("192.168.0.1", "private 192.168.0.0/16"),
            ("255.255.255.255", "reserved 240.0.0.0/4"),
            ("239.1.2.3", "multicast 224.0.0.0/4"),
            ("::ffff:127.0.0.1", "loopback 127.0.0.0/8"),
            ("::", "unspecified [::]/128"),
            ("::1", "loopback [::1]/128"),
            ("fe80::1", "link-local [fe80::]/10"),
            ("fd00:ec2::254", "private [fc00::]/7"),
            ("ff02::1", "multicast [ff00::]/8"),
            ("64:ff9b::10.1.2.3", "private [64:ff9b::a00:0]/104"),
            ("64:ff9b:1::1", "private [64:ff9b:1::]/48"),
            ("2002:a00:1::1", "reserved [2002::]/16"),
        ] {
            let range = range(ip.parse().unwrap()).unwrap();
            assert_eq!(format!("{} {range}", range.kind), of, "{ip}");
        }
        for ip in [
            "1.1.1.1",
            "100.63.255.255",
            "100.128.0.0",
            "172.32.0.0",
            "192.0.2.1",
            "2001:db8::1",
            "64:ff9b::1.1.1.1",
        ] {
            assert_eq!(range(ip.parse().unwrap()), None, "{ip}");
        }
    }
}
