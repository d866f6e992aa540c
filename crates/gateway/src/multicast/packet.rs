//! Ethernet frames and IP headers, as far as a bridge reads and changes them.
//!
//! ```text
//!   |  to (6)  |  from (6)  | type (2) | IPv4 header (20..60) | payload        | padding |
//!    01:00:5e + 23 bits of the group    |<------------ total length ---------->|
//! ```
//! A packet crosses whole: only its TTL changes, and with it the header's checksum. IPv6 has no such checksum, calls
//! the TTL hop limit, has a header of 40 bytes and the type 86dd, and uses the Ethernet addresses 33:33 and 32 bits of
//! the group.

use super::drops::Drop;
use core::net::{IpAddr, Ipv6Addr};
use etherparse::{IpNumber, Ipv4HeaderSlice};

/// An Ethernet address.
pub type Mac = [u8; 6];

/// Length of the Ethernet header in bytes.
pub const ETHERNET_BYTES: usize = 14;
/// Type of a frame with IPv4.
pub const TYPE_IPV4: u16 = 0x0800;
/// Type of a frame with IPv6.
pub const TYPE_IPV6: u16 = 0x86dd;
/// Types of frames that have a VLAN tag before the type.
const TYPES_VLAN: [u16; 2] = [0x8100, 0x88a8];
/// IP protocol number of IGMP.
pub const PROTOCOL_IGMP: u8 = 2;
/// IP protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;
/// IP protocol number of ICMPv6, which carries MLD.
pub const PROTOCOL_ICMPV6: u8 = 58;
/// IP protocol number of the hop-by-hop options.
pub const PROTOCOL_OPTIONS: u8 = 0;
/// IP protocol number of an IPv6 fragment.
const PROTOCOL_FRAGMENT: u8 = 44;
/// Length of an IPv6 header in bytes, and the offset of its hop limit.
pub const IPV6_BYTES: usize = 40;
const HOP_LIMIT_AT: usize = 7;
/// Length of an IPv4 header without options, in bytes.
pub const IPV4_BYTES: usize = 20;
/// Maximum length of an IPv4 header in bytes.
pub const IPV4_BYTES_MAX: usize = 60;
/// Offsets of the TTL and the checksum in an IPv4 header.
const TTL_AT: usize = 8;
const CHECKSUM_AT: usize = 10;

/// The Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ethernet {
    /// The destination.
    pub to: Mac,
    /// The source.
    pub from: Mac,
    /// The type of the content.
    pub kind: u16,
}

/// The checked fields of an IP header that the bridge needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// The address of the sender.
    pub source: IpAddr,
    /// The destination host or group.
    pub destination: IpAddr,
    /// The TTL: the number of routers that the packet may still cross, plus one.
    pub ttl: u8,
    /// The protocol of the content, after the hop-by-hop options.
    pub protocol: u8,
    /// Length of the header in bytes, with the hop-by-hop options.
    pub header_bytes: usize,
    /// Length of the packet in bytes; less than the number of bytes in a padded frame.
    pub total_bytes: usize,
    /// Whether this is a fragment of a packet.
    pub is_fragment: bool,
    /// Whether the packet may not be fragmented; always true for IPv6, which is never fragmented on the path.
    pub dont_fragment: bool,
}

impl Ethernet {
    /// Parses the header of a frame.
    ///
    /// # Errors
    /// The frame is too short, or has a VLAN tag, which is counted under a reason of its own.
    pub fn parse(frame: &[u8]) -> Result<Ethernet, Drop> {
        let (&to, rest) = frame.split_first_chunk().ok_or(Drop::Truncated)?;
        let (&from, rest) = rest.split_first_chunk().ok_or(Drop::Truncated)?;
        let &kind = rest.first_chunk().ok_or(Drop::Truncated)?;
        let kind = u16::from_be_bytes(kind);
        match kind {
            kind if TYPES_VLAN.contains(&kind) => Err(Drop::Vlan),
            kind => Ok(Ethernet { to, from, kind }),
        }
    }

    /// Returns the header as bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; ETHERNET_BYTES] {
        let mut bytes = [0; ETHERNET_BYTES];
        bytes[..6].copy_from_slice(&self.to);
        bytes[6..12].copy_from_slice(&self.from);
        bytes[12..].copy_from_slice(&self.kind.to_be_bytes());
        bytes
    }
}

impl Ip {
    /// Parses and checks the header of a packet. Padding may follow the packet.
    ///
    /// # Errors
    /// The packet is malformed or cut short, or its checksum is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Ip, Drop> {
        match bytes.first().ok_or(Drop::Truncated)? >> 4 {
            6 => Ip::parse_v6(bytes),
            _ => Ip::parse_v4(bytes),
        }
    }

    fn parse_v4(bytes: &[u8]) -> Result<Ip, Drop> {
        let header = Ipv4HeaderSlice::from_slice(bytes).map_err(|error| match error {
            etherparse::err::ipv4::HeaderSliceError::Len(_) => Drop::Truncated,
            etherparse::err::ipv4::HeaderSliceError::Content(_) => Drop::Malformed,
        })?;
        let (header_bytes, total_bytes) = (header.slice().len(), usize::from(header.total_len()));
        if total_bytes < header_bytes {
            return Err(Drop::Malformed);
        }
        if bytes.len() < total_bytes {
            return Err(Drop::Truncated);
        }
        if sum(header.slice()) != 0xffff {
            return Err(Drop::Checksum);
        }
        let IpNumber(protocol) = header.protocol();
        Ok(Ip {
            source: header.source_addr().into(),
            destination: header.destination_addr().into(),
            ttl: header.ttl(),
            protocol,
            header_bytes,
            total_bytes,
            is_fragment: header.is_fragmenting_payload(),
            dont_fragment: header.dont_fragment(),
        })
    }

    fn parse_v6(bytes: &[u8]) -> Result<Ip, Drop> {
        let header = bytes.first_chunk::<IPV6_BYTES>().ok_or(Drop::Truncated)?;
        let total_bytes = IPV6_BYTES + usize::from(u16::from_be_bytes([header[4], header[5]]));
        let payload = bytes.get(IPV6_BYTES..total_bytes).ok_or(Drop::Truncated)?;
        let address = |at: usize| {
            let octets = header[at..].first_chunk::<16>();
            IpAddr::from(Ipv6Addr::from(octets.copied().unwrap_or_default()))
        };
        let (mut protocol, mut header_bytes) = (header[6], IPV6_BYTES);
        if protocol == PROTOCOL_OPTIONS {
            // The header has eight bytes, and as many further groups of eight as it states. [RFC 8200 §4.3]
            let &[next, eights] = payload.first_chunk().ok_or(Drop::Malformed)?;
            header_bytes += 8 + 8 * usize::from(eights);
            if header_bytes > total_bytes {
                return Err(Drop::Malformed);
            }
            protocol = next;
        }
        Ok(Ip {
            source: address(8),
            destination: address(24),
            ttl: header[HOP_LIMIT_AT],
            protocol,
            header_bytes,
            total_bytes,
            is_fragment: protocol == PROTOCOL_FRAGMENT,
            dont_fragment: true,
        })
    }

    /// Returns whether a host can send from this address and be reached by it elsewhere: the address is not a group,
    /// broadcast, loopback, IPv6 link-local or unspecified address.
    #[must_use]
    pub fn has_host_source(&self) -> bool {
        let source = self.source;
        let is_known = match source {
            // This excludes class E, which contains the broadcast address.
            IpAddr::V4(source) => source.octets()[0] < 240,
            IpAddr::V6(source) => {
                !source.is_unicast_link_local() && source.to_ipv4_mapped().is_none()
            }
        };
        is_known && !source.is_unspecified() && !source.is_loopback() && !source.is_multicast()
    }

    /// Returns the type of a frame with this packet.
    #[must_use]
    pub fn kind(&self) -> u16 {
        match self.destination {
            IpAddr::V4(_) => TYPE_IPV4,
            IpAddr::V6(_) => TYPE_IPV6,
        }
    }
}

/// Decreases the TTL of a packet that [`Ip::parse`] accepted by one, and updates its checksum.
pub fn decrement_ttl(packet: &mut [u8]) {
    let Some(header) = packet.first_chunk_mut::<IPV4_BYTES>() else {
        return;
    };
    if header[0] >> 4 == 6 {
        header[HOP_LIMIT_AT] = header[HOP_LIMIT_AT].saturating_sub(1);
        return;
    }
    // [RFC 1624]: HC' = ~(~HC + ~m + m'). The TTL is the high half of its word, so m' = m - 0x0100.
    let word = u16::from_be_bytes([header[TTL_AT], header[TTL_AT + 1]]);
    let checksum = u16::from_be_bytes([header[CHECKSUM_AT], header[CHECKSUM_AT + 1]]);
    header[TTL_AT] = header[TTL_AT].saturating_sub(1);
    let changed = u16::from_be_bytes([header[TTL_AT], header[TTL_AT + 1]]);
    let total = u32::from(!checksum) + u32::from(!word) + u32::from(changed);
    let folded = (total & 0xffff) + (total >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    header[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&(!(folded as u16)).to_be_bytes());
}

/// Splits a packet of IPv4 that is longer than `mtu` into fragments, as a router does. Each fragment is passed to `put`
/// as its header, which follows `ethernet`, and its part of the packet. [RFC 791 §3.2]
pub fn fragment<'p>(
    ethernet: &[u8; ETHERNET_BYTES],
    packet: &'p [u8],
    ip: &Ip,
    mtu: usize,
    put: &mut impl FnMut(&[u8], &'p [u8]),
) {
    let (header, payload) = packet.split_at(ip.header_bytes);
    let flags = u16::from_be_bytes([header[6], header[7]]);
    // Offsets count units of eight bytes; an interface that takes less than one unit is unusable.
    let step = mtu.saturating_sub(ip.header_bytes) & !7;
    let mut head = [0; ETHERNET_BYTES + IPV4_BYTES_MAX];
    let head = &mut head[..ETHERNET_BYTES + ip.header_bytes];
    head[..ETHERNET_BYTES].copy_from_slice(ethernet);
    head[ETHERNET_BYTES..].copy_from_slice(header);
    for (n, part) in payload.chunks(step.max(8)).enumerate() {
        let fragment = &mut head[ETHERNET_BYTES..];
        if n == 1 {
            drop_options(&mut fragment[IPV4_BYTES..]);
        }
        let offset = (flags & 0x1fff) + (n * step.max(8) / 8) as u16;
        let is_last = (n + 1) * step.max(8) >= payload.len();
        let more = if is_last { flags & 0x2000 } else { 0x2000 };
        let total = (ip.header_bytes + part.len()) as u16;
        fragment[2..4].copy_from_slice(&total.to_be_bytes());
        fragment[6..8].copy_from_slice(&(more | offset & 0x1fff).to_be_bytes());
        fragment[CHECKSUM_AT..CHECKSUM_AT + 2].fill(0);
        let right = checksum(fragment);
        fragment[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&right.to_be_bytes());
        put(head, part);
    }
}

/// Replaces the options that only the first fragment carries by no-operation options. [RFC 791 §3.1]
fn drop_options(mut options: &mut [u8]) {
    const NOTHING: u8 = 1;
    while let Some(&kind) = options.first() {
        let len = match kind {
            0 => return,
            NOTHING => 1,
            _ => usize::from(options.get(1).copied().unwrap_or(0)).max(2),
        };
        let len = len.min(options.len());
        let (option, rest) = options.split_at_mut(len);
        if kind & 0x80 == 0 {
            option.fill(NOTHING);
        }
        options = rest;
    }
}

/// Returns the Internet checksum of bytes whose checksum field is zero or missing.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u16 {
    !sum(bytes)
}

/// Returns the ones' complement sum; 0xffff if the bytes contain a correct checksum. [RFC 1071]
#[must_use]
pub fn sum(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut total: u64 = words
        .iter()
        .map(|word| u64::from(u32::from_be_bytes(*word)))
        .sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    total += u64::from(u32::from_be_bytes(last));
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

/// Returns the Ethernet address of a group. [RFC 1112 §6.4, RFC 2464 §7]
#[must_use]
pub fn group_mac(group: impl Into<IpAddr>) -> Mac {
    match group.into() {
        IpAddr::V4(group) => {
            let [_, b, c, d] = group.octets();
            [0x01, 0x00, 0x5e, b & 0x7f, c, d]
        }
        IpAddr::V6(group) => {
            let [.., a, b, c, d] = group.octets();
            [0x33, 0x33, a, b, c, d]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use proptest::prelude::*;

    /// A header that Linux sent: from 10.0.0.1 to 239.1.1.1, UDP, 32 bytes of payload, TTL 8.
    const HEADER: [u8; 20] = [
        0x45, 0x00, 0x00, 0x3c, 0x12, 0x34, 0x40, 0x00, 0x08, 0x11, 0x73, 0x6d, 10, 0, 0, 1, 239,
        1, 1, 1,
    ];

    fn packet() -> Vec<u8> {
        let mut packet = HEADER.to_vec();
        packet[10..12].fill(0);
        let sum = checksum(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.resize(60, 0x55);
        packet
    }

    #[test]
    fn a_header_is_read_and_padding_is_not_of_the_packet() {
        let mut padded = packet();
        padded.extend([0; 6]);
        let ip = Ip::parse(&padded).unwrap();
        assert_eq!((ip.total_bytes, ip.header_bytes), (60, 20));
        assert_eq!((ip.ttl, ip.protocol), (8, PROTOCOL_UDP));
        assert_eq!(ip.source, Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(ip.destination, Ipv4Addr::new(239, 1, 1, 1));
        assert!(ip.dont_fragment && !ip.is_fragment && ip.has_host_source());
    }

    #[test]
    fn what_is_cut_or_changed_is_refused() {
        let whole = packet();
        for len in 0..whole.len() {
            assert_eq!(Ip::parse(&whole[..len]), Err(Drop::Truncated), "{len}");
        }
        for at in 0..20 {
            let mut changed = whole.clone();
            changed[at] ^= 0x04;
            assert!(Ip::parse(&changed).is_err(), "{at}");
        }
        let mut short = whole.clone();
        short[2..4].copy_from_slice(&19u16.to_be_bytes());
        assert_eq!(Ip::parse(&short), Err(Drop::Malformed));
        for len in 0..ETHERNET_BYTES {
            assert_eq!(Ethernet::parse(&[0; 14][..len]), Err(Drop::Truncated));
        }
        let mut frame = [0; 14];
        frame[12..].copy_from_slice(&0x8100u16.to_be_bytes());
        assert_eq!(Ethernet::parse(&frame), Err(Drop::Vlan));
    }

    /// Returns a UDP packet from fd53::7 to ff1e::101, with `options` bytes of options before UDP.
    fn packet_v6(options: usize) -> Vec<u8> {
        let mut packet = vec![0x6b, 0x80, 0, 1, 0, 20 + options as u8, 17, 8];
        packet.extend(Ipv6Addr::new(0xfd53, 0, 0, 0, 0, 0, 0, 7).octets());
        packet.extend(Ipv6Addr::new(0xff1e, 0, 0, 0, 0, 0, 0, 0x101).octets());
        if options > 0 {
            packet[6] = PROTOCOL_OPTIONS;
            packet.extend([17, (options / 8 - 1) as u8, 1, (options - 4) as u8]);
            packet.resize(IPV6_BYTES + options, 0);
        }
        packet.resize(packet.len() + 20, 0x55);
        packet
    }

    #[test]
    fn a_header_of_ipv6_is_read_with_options_and_cut_at_any_length_is_none() {
        for options in [0, 8, 16] {
            let whole = packet_v6(options);
            let mut padded = whole.clone();
            padded.extend([0; 6]);
            let ip = Ip::parse(&padded).unwrap();
            assert_eq!(ip.total_bytes, whole.len());
            assert_eq!((ip.header_bytes, ip.protocol), (40 + options, PROTOCOL_UDP));
            assert_eq!((ip.ttl, ip.dont_fragment, ip.kind()), (8, true, TYPE_IPV6));
            assert_eq!(ip.source.to_string(), "fd53::7");
            assert_eq!(ip.destination.to_string(), "ff1e::101");
            assert!(ip.has_host_source() && !ip.is_fragment);
            for len in 0..whole.len() {
                assert_eq!(Ip::parse(&whole[..len]), Err(Drop::Truncated), "{len}");
            }
            let mut one_hop_less = whole.clone();
            decrement_ttl(&mut one_hop_less);
            one_hop_less[HOP_LIMIT_AT] += 1;
            assert_eq!(one_hop_less, whole);
        }
        // The options are longer than the packet.
        let mut beyond = packet_v6(8);
        beyond[IPV6_BYTES + 1] = 3;
        assert_eq!(Ip::parse(&beyond), Err(Drop::Malformed));
        let mut of_link = packet_v6(0);
        of_link[8..10].copy_from_slice(&[0xfe, 0x80]);
        assert!(!Ip::parse(&of_link).unwrap().has_host_source());
    }

    #[test]
    fn fragments_make_the_packet_again() {
        for (more, mtu, options) in [(0x0000u16, 576, 0), (0x2010, 1_500, 8), (0x0010, 68, 40)] {
            let mut packet = vec![0x44; 20 + options + 4_000];
            packet[..20].copy_from_slice(&HEADER);
            packet[0] = 0x45 + (options / 4) as u8;
            // One option is for every fragment, one for the first only, and one ends the list.
            packet[20..20 + options].fill(0);
            if options > 0 {
                packet[20..28].copy_from_slice(&[0x94, 4, 0, 0, 7, 4, 4, 0]);
            }
            let bytes = packet.len() as u16;
            packet[2..4].copy_from_slice(&bytes.to_be_bytes());
            packet[6..8].copy_from_slice(&more.to_be_bytes());
            packet[10..12].fill(0);
            let right = checksum(&packet[..20 + options]);
            packet[10..12].copy_from_slice(&right.to_be_bytes());
            for (n, byte) in packet[20 + options..].iter_mut().enumerate() {
                *byte = (n % 251) as u8;
            }
            let ip = Ip::parse(&packet).unwrap();
            let mut parts: Vec<Vec<u8>> = Vec::new();
            let put = &mut |head: &[u8], body: &[u8]| parts.push([&head[14..], body].concat());
            fragment(&[0; 14], &packet, &ip, mtu, put);
            let mut whole: Vec<u8> = Vec::new();
            for (n, part) in parts.iter().enumerate() {
                let read = Ip::parse(part).unwrap();
                assert!(part.len() <= mtu && read.total_bytes == part.len());
                let word = u16::from_be_bytes([part[6], part[7]]);
                let at = usize::from(word & 0x1fff) - usize::from(more & 0x1fff);
                assert_eq!(at * 8, whole.len());
                let is_last = n + 1 == parts.len();
                assert_eq!(word & 0x2000 != 0, !is_last || more & 0x2000 != 0);
                assert_eq!(part[4..6], packet[4..6], "the id");
                if options > 0 {
                    let second = if n == 0 { [7, 4, 4, 0] } else { [1; 4] };
                    assert_eq!(part[20..28], [&[0x94, 4, 0, 0], &second[..]].concat());
                }
                whole.extend(&part[read.header_bytes..]);
            }
            assert_eq!(whole, packet[20 + options..]);
        }
    }

    #[test]
    fn a_groups_ethernet_address_has_its_low_23_bits() {
        let mac = group_mac(Ipv4Addr::new(239, 129, 2, 3));
        assert_eq!(mac, [0x01, 0x00, 0x5e, 0x01, 2, 3]);
        let mac = group_mac(Ipv6Addr::new(0xff1e, 0, 0, 0, 0, 0, 0x8102, 0x0304));
        assert_eq!(mac, [0x33, 0x33, 0x81, 0x02, 3, 4]);
    }

    proptest! {
        #[test]
        fn the_checksum_stays_right_when_the_ttl_is_decremented(
            mut bytes in proptest::array::uniform20(any::<u8>()), ttl in 1u8..,
        ) {
            bytes[0] = 0x45;
            bytes[2..4].copy_from_slice(&20u16.to_be_bytes());
            bytes[8] = ttl;
            bytes[10..12].fill(0);
            let right = checksum(&bytes);
            bytes[10..12].copy_from_slice(&right.to_be_bytes());
            prop_assert_eq!(Ip::parse(&bytes).map(|ip| ip.ttl), Ok(ttl));
            decrement_ttl(&mut bytes);
            prop_assert_eq!(Ip::parse(&bytes).map(|ip| ip.ttl), Ok(ttl - 1));
        }

        #[test]
        fn the_sum_is_that_of_sixteen_bit_words(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut slow = 0u32;
            for pair in bytes.chunks(2) {
                slow += u32::from(pair[0]) << 8 | pair.get(1).copied().map_or(0, u32::from);
                slow = (slow & 0xffff) + (slow >> 16);
            }
            prop_assert_eq!(sum(&bytes), slow as u16);
        }
    }
}
