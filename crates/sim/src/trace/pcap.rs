//! Packets in the format of tcpdump and Wireshark: classic pcap with nanoseconds, raw IP.
//!
//! ```text
//!   file   = magic a1b23c4d | version 2.4 | 0 | 0 | snap length | link type 101 (raw IP)
//!   record = seconds | nanoseconds | bytes here | bytes on the wire | IP header, UDP header, datagram
//! ```
//!
//! All numbers of pcap itself are little-endian here, as the magic number says. Each datagram has a record for the
//! moment when it is sent, as tcpdump would capture it at the sender. So the file also contains packets that a wire
//! then loses.

use super::Packet;
use base::UnderlayAddr;

/// No packet is truncated: the longest UDP datagram and its headers fit.
const SNAP_BYTES: u32 = 65_535 + 40;
/// LINKTYPE_RAW: a packet begins with its IP header.
const RAW_IP: u32 = 101;
const UDP: u8 = 17;
const UDP_HEADER: usize = 8;
const TTL: u8 = 64;

/// Returns the header of a file.
pub fn header() -> [u8; 24] {
    let mut header = [0; 24];
    header[..4].copy_from_slice(&0xa1b2_3c4d_u32.to_le_bytes());
    header[4..6].copy_from_slice(&2_u16.to_le_bytes());
    header[6..8].copy_from_slice(&4_u16.to_le_bytes());
    header[16..20].copy_from_slice(&SNAP_BYTES.to_le_bytes());
    header[20..].copy_from_slice(&RAW_IP.to_le_bytes());
    header
}

/// Appends the packet's record, if it has just been sent.
pub fn record(packet: &Packet<'_>, out: &mut Vec<u8>) {
    if !packet.fate.is_first() {
        return;
    }
    let is_v4 = packet.from.is_ipv4() && packet.to.is_ipv4();
    let ip_header = if is_v4 { 20 } else { 40 };
    let len = (ip_header + UDP_HEADER + packet.bytes.len()) as u32;
    let ns = packet.at.as_nanos();
    let stamp = [(ns / 1_000_000_000) as u32, (ns % 1_000_000_000) as u32];
    for word in [stamp[0], stamp[1], len, len] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    if is_v4 {
        ipv4_header(packet, out);
    } else {
        ipv6_header(packet, out);
    }
    let udp_len = (UDP_HEADER + packet.bytes.len()) as u16;
    let sum = if is_v4 { 0 } else { udp_checksum(packet) };
    for half in [packet.from.port, packet.to.port, udp_len, sum] {
        out.extend_from_slice(&half.to_be_bytes());
    }
    out.extend_from_slice(packet.bytes);
}

fn ipv4_header(packet: &Packet<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    let total = (20 + UDP_HEADER + packet.bytes.len()) as u16;
    out.extend_from_slice(&[0x45, 0]);
    out.extend_from_slice(&total.to_be_bytes());
    // Identification zero, don't fragment.
    out.extend_from_slice(&[0, 0, 0x40, 0, TTL, UDP, 0, 0]);
    out.extend_from_slice(&packet.from.ip[12..]);
    out.extend_from_slice(&packet.to.ip[12..]);
    let sum = !folded(sum_of(&out[start..]));
    out[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
}

fn ipv6_header(packet: &Packet<'_>, out: &mut Vec<u8>) {
    let payload = (UDP_HEADER + packet.bytes.len()) as u16;
    out.extend_from_slice(&[0x60, 0, 0, 0]);
    out.extend_from_slice(&payload.to_be_bytes());
    out.extend_from_slice(&[UDP, TTL]);
    out.extend_from_slice(&packet.from.ip);
    out.extend_from_slice(&packet.to.ip);
}

/// Computes the UDP checksum, which is mandatory over IPv6 (RFC 8200 §8.1).
fn udp_checksum(packet: &Packet<'_>) -> u16 {
    let len = (UDP_HEADER + packet.bytes.len()) as u32;
    let ends = |addr: &UnderlayAddr| sum_of(&addr.ip) + u32::from(addr.port);
    // The length is in the pseudo header and in the UDP header.
    let headers = ends(&packet.from) + ends(&packet.to) + 2 * len + u32::from(UDP);
    match !folded(headers + sum_of(packet.bytes)) {
        0 => 0xffff,
        sum => sum,
    }
}

/// Returns the sum of the 16-bit words; the last word is padded with zero. For 64 KiB of 0xffff the sum stays below
/// 2^31.
fn sum_of(bytes: &[u8]) -> u32 {
    let word =
        |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or_default());
    bytes.chunks(2).map(word).sum()
}

fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Fate;
    use base::Time;

    fn packet<'a>(from: UnderlayAddr, to: UnderlayAddr, bytes: &'a [u8]) -> Packet<'a> {
        Packet {
            at: Time::from_nanos(3_000_000_007),
            from,
            to,
            bytes,
            fate: Fate::Cut,
        }
    }

    #[test]
    fn the_header_is_the_documented_one() {
        let expected = [
            0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x27, 0, 1, 0, 101, 0, 0, 0,
        ];
        assert_eq!(header(), expected);
    }

    #[test]
    fn a_record_over_ipv4() {
        let mut out = Vec::new();
        record(
            &packet(crate::underlay(0), crate::underlay(1), b"abc"),
            &mut out,
        );
        let expected = [
            3, 0, 0, 0, 7, 0, 0, 0, 31, 0, 0, 0, 31, 0, 0, 0, // seconds, nanoseconds, lengths
            0x45, 0, 0, 31, 0, 0, 0x40, 0, 64, 17, 0x26, 0xcc, 10, 0, 0, 1, 10, 0, 0, 2, // IP
            0x1b, 0x58, 0x1b, 0x58, 0, 11, 0, 0, // UDP
            b'a', b'b', b'c',
        ];
        assert_eq!(out, expected);
        assert_eq!(
            folded(sum_of(&out[16..36])),
            0xffff,
            "the checksum is right"
        );
    }

    #[test]
    fn a_record_over_ipv6_has_a_checksum() {
        let from = UnderlayAddr {
            ip: [0x20; 16],
            port: 7_000,
            socket: 0,
            local: 0,
        };
        let mut out = Vec::new();
        record(&packet(from, crate::underlay(1), b"abcde"), &mut out);
        let ip = &out[16..];
        assert_eq!((ip[0], ip.len()), (0x60, 53));
        // The sum over the pseudo header (addresses, length, protocol) and all of UDP is all ones.
        let pseudo = sum_of(&ip[8..40]) + 13 + u32::from(UDP);
        assert_eq!(folded(pseudo + sum_of(&ip[40..])), 0xffff);
    }

    #[test]
    fn what_arrives_is_no_second_record() {
        let mut out = Vec::new();
        let mut arrived = packet(crate::underlay(0), crate::underlay(1), b"abc");
        arrived.fate = Fate::Arrived;
        record(&arrived, &mut out);
        assert!(out.is_empty());
    }
}
