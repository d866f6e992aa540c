//! Writes IGMP messages as whole frames.
//!
//! ```text
//!   | Ethernet (14) | IPv4 with router alert (24): TTL 1, precedence 6 | IGMP |
//! ```
//! Every message carries the router alert option. It makes routers examine packets that they would otherwise only
//! forward. [RFC 2113, RFC 3376 §4]

use super::message::RecordKind;
use super::{ALL_HOSTS, ALL_ROUTERS, ALL_SNOOPERS, ALL_V3_ROUTERS, Query};
use crate::multicast::packet::{ETHERNET_BYTES, Ethernet, Mac, PROTOCOL_IGMP, TYPE_IPV4};
use crate::multicast::packet::{checksum, group_mac};
use base::Duration;
use core::net::Ipv4Addr;

/// Length of the IP header with its option, in bytes.
const HEADER_BYTES: usize = 24;
/// The router alert option.
const ROUTER_ALERT: [u8; 4] = [0x94, 4, 0, 0];
/// The precedence for network control.
const TOS: u8 = 0xc0;
/// Shorter frames are padded to this length.
const FRAME_BYTES_MIN: usize = 60;
/// Maximum number of sources in a query: 1500 bytes minus 24 of IP and 12 of IGMP, divided by 4.
pub const QUERY_SOURCES_MAX: usize = (1_500 - HEADER_BYTES - 12) / 4;
/// Maximum number of records in a report, if they name no sources.
pub const REPORT_RECORDS_MAX: usize = (1_500 - HEADER_BYTES - 8) / 8;

/// The sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speaker<A = Ipv4Addr> {
    /// The Ethernet address.
    pub mac: Mac,
    /// The address; all zero if the sender has none.
    pub address: A,
}

/// Writes a query of version 3: for all groups, for one group, or for some sources of one group.
pub fn query(frame: &mut Vec<u8>, from: Speaker, query: &Query<'_>) {
    let to = query.group.unwrap_or(ALL_HOSTS);
    message(frame, from, to, |frame| {
        let tenths = query.max_response.as_millis().div_ceil(100);
        let count = query.sources.len().min(QUERY_SOURCES_MAX);
        frame.extend([0x11, code(tenths), 0, 0]);
        let group = query.group.unwrap_or(Ipv4Addr::UNSPECIFIED);
        frame.extend(group.octets());
        // A robustness beyond 7 is sent as 0. [RFC 3376 §4.1.6]
        let robustness = Some(query.robustness).filter(|&n| n <= 7).unwrap_or(0);
        frame.push(u8::from(query.suppress) << 3 | robustness);
        frame.push(code(query.interval.as_millis() / 1_000));
        frame.extend((count as u16).to_be_bytes());
        for source in &query.sources[..count] {
            frame.extend(source.octets());
        }
    });
}

/// Writes a report of version 3 with as many records as fit. Returns the number of records.
pub fn report<'a>(
    frame: &mut Vec<u8>,
    from: Speaker,
    records: impl Iterator<Item = (RecordKind, Ipv4Addr, &'a [Ipv4Addr])>,
) -> usize {
    let mut count = 0;
    message(frame, from, ALL_V3_ROUTERS, |frame| {
        let start = frame.len();
        frame.extend([0x22, 0, 0, 0, 0, 0, 0, 0]);
        for (kind, group, sources) in records {
            let bytes = frame.len() - ETHERNET_BYTES + 8 + 4 * sources.len();
            if bytes > 1_500 || count == REPORT_RECORDS_MAX {
                break;
            }
            frame.extend([kind as u8, 0]);
            frame.extend((sources.len() as u16).to_be_bytes());
            frame.extend(group.octets());
            frame.extend(sources.iter().flat_map(Ipv4Addr::octets));
            count += 1;
        }
        frame[start + 6..start + 8].copy_from_slice(&(count as u16).to_be_bytes());
    });
    count
}

/// Writes a report of version 1 or 2, which is sent to the group itself.
pub fn report_old(frame: &mut Vec<u8>, from: Speaker, version: u8, group: Ipv4Addr) {
    let kind = if version == 1 { 0x12 } else { 0x16 };
    message(frame, from, group, |frame| short(frame, kind, 0, group));
}

/// Writes a leave of version 2.
pub fn leave(frame: &mut Vec<u8>, from: Speaker, group: Ipv4Addr) {
    message(frame, from, ALL_ROUTERS, |frame| {
        short(frame, 0x17, 0, group);
    });
}

/// Writes the announcement to snooping switches that a multicast router is here. With it, the switches forward every
/// group to this port even if another querier is heard. [RFC 4286 §3.2]
pub fn router_here(frame: &mut Vec<u8>, from: Speaker, interval: Duration) {
    message(frame, from, ALL_SNOOPERS, |frame| {
        let seconds = (interval.as_millis() / 1_000).clamp(4, 180) as u8;
        // The query interval and the robustness are optional.
        short(frame, 0x30, seconds, Ipv4Addr::UNSPECIFIED);
    });
}

/// Fills in the checksum of an IGMP message.
pub fn put_checksum(message: &mut [u8]) {
    if message.len() >= 4 {
        message[2..4].fill(0);
        let right = checksum(message);
        message[2..4].copy_from_slice(&right.to_be_bytes());
    }
}

fn short(frame: &mut Vec<u8>, kind: u8, argument: u8, group: Ipv4Addr) {
    frame.extend([kind, argument, 0, 0]);
    frame.extend(group.octets());
}

fn message(frame: &mut Vec<u8>, from: Speaker, to: Ipv4Addr, body: impl FnOnce(&mut Vec<u8>)) {
    frame.clear();
    let ethernet = Ethernet {
        to: group_mac(to),
        from: from.mac,
        kind: TYPE_IPV4,
    };
    frame.extend(ethernet.emit());
    // IHL 6; length and checksum follow; the packet has no id, may not be fragmented, and has TTL 1.
    frame.extend([0x46, TOS, 0, 0, 0, 0, 0x40, 0, 1, PROTOCOL_IGMP, 0, 0]);
    frame.extend(from.address.octets());
    frame.extend(to.octets());
    frame.extend(ROUTER_ALERT);
    body(frame);
    put_checksum(&mut frame[ETHERNET_BYTES + HEADER_BYTES..]);
    let total = (frame.len() - ETHERNET_BYTES) as u16;
    let header = &mut frame[ETHERNET_BYTES..ETHERNET_BYTES + HEADER_BYTES];
    header[2..4].copy_from_slice(&total.to_be_bytes());
    let right = checksum(header);
    header[10..12].copy_from_slice(&right.to_be_bytes());
    fill_up(frame);
}

/// Pads a frame to the minimum length of Ethernet.
pub(in crate::multicast) fn fill_up(frame: &mut Vec<u8>) {
    frame.resize(frame.len().max(FRAME_BYTES_MIN), 0);
}

/// Returns the code of a number. Up to 127 the code is the number. Beyond, it has four bits of mantissa and three of
/// exponent, and stands for the greatest such number that is not above the value. [RFC 3376 §4.1.1]
pub(in crate::multicast) fn code(value: u64) -> u8 {
    if value < 128 {
        return value as u8;
    }
    let value = value.min(31 << 10);
    let exponent = 63 - value.leading_zeros() - 7;
    let mantissa = (value >> (exponent + 3)) & 0xf;
    0x80 | (exponent as u8) << 4 | mantissa as u8
}

#[cfg(test)]
mod tests {
    use super::super::message::Message;
    use super::*;
    use crate::multicast::packet::Ip;
    use etherparse::igmp::MaxResponseCode;

    const FROM: Speaker = Speaker {
        mac: [2, 0x53, 0x4e, 0, 0, 1],
        address: Ipv4Addr::new(10, 0, 0, 1),
    };
    const GROUP: Ipv4Addr = Ipv4Addr::new(232, 1, 2, 3);

    /// Returns the message of a frame, after a check of all its checksums.
    fn body(frame: &[u8]) -> (Ethernet, Ip, &[u8]) {
        let ethernet = Ethernet::parse(frame).unwrap();
        let packet = &frame[ETHERNET_BYTES..];
        let ip = Ip::parse(packet).unwrap();
        assert_eq!((ip.ttl, ip.protocol), (1, PROTOCOL_IGMP));
        assert_eq!(ip.header_bytes, HEADER_BYTES, "router alert");
        assert_eq!(ethernet.to, group_mac(ip.destination));
        assert!(frame.len() >= FRAME_BYTES_MIN);
        (ethernet, ip, &packet[ip.header_bytes..ip.total_bytes])
    }

    #[test]
    fn a_general_query_is_byte_for_byte() {
        let mut frame = vec![0xa5; 7];
        let general = Query {
            group: None,
            sources: &[],
            suppress: false,
            max_response: Duration::from_secs(5),
            robustness: 2,
            interval: Duration::from_secs(30),
        };
        query(&mut frame, FROM, &general);
        let expected = [
            0x01, 0, 0x5e, 0, 0, 1, 2, 0x53, 0x4e, 0, 0, 1, 8, 0, // Ethernet
            0x46, 0xc0, 0, 36, 0, 0, 0x40, 0, 1, 2, 0xfa, 0x11, 10, 0, 0, 1, 224, 0, 0, 1, 0x94, 4,
            0, 0, // IP
            0x11, 50, 0xec, 0xaf, 0, 0, 0, 0, 2, 30, 0, 0, // IGMP
        ];
        assert_eq!(frame[..50], expected);
        assert!(frame[50..].iter().all(|&b| b == 0));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut frame = Vec::new();
        let sources = [Ipv4Addr::new(10, 0, 0, 7), Ipv4Addr::new(10, 0, 0, 8)];
        let asked = Query {
            group: Some(GROUP),
            sources: &sources,
            suppress: true,
            max_response: Duration::from_millis(200),
            robustness: 2,
            interval: Duration::from_secs(30),
        };
        query(&mut frame, FROM, &asked);
        let (_, ip, message) = body(&frame);
        assert_eq!(ip.destination, GROUP);
        let Ok(Message::Query(read)) = Message::parse(message) else {
            panic!("a query");
        };
        assert_eq!(
            (read.group, read.suppress, read.version),
            (Some(GROUP), true, 3)
        );
        assert_eq!(read.max_response, asked.max_response);
        assert!(read.sources.iter().eq(sources));

        let records = [
            (RecordKind::IsInclude, GROUP, &sources[..]),
            (RecordKind::ToExclude, Ipv4Addr::new(239, 1, 1, 1), &[]),
        ];
        assert_eq!(report(&mut frame, FROM, records.into_iter()), 2);
        let Ok(Message::ReportV3(read)) = Message::parse(body(&frame).2) else {
            panic!("a report");
        };
        let read: Vec<_> = read
            .iter()
            .map(|r| (r.kind, r.group, r.sources.len()))
            .collect();
        let written = records.map(|(kind, group, sources)| (kind, group, sources.len()));
        assert_eq!(read, written);

        report_old(&mut frame, FROM, 2, GROUP);
        assert!(matches!(Message::parse(body(&frame).2), Ok(Message::ReportV2(g)) if g == GROUP));
        leave(&mut frame, FROM, GROUP);
        assert!(matches!(Message::parse(body(&frame).2), Ok(Message::Leave(g)) if g == GROUP));
        assert_eq!(body(&frame).1.destination, ALL_ROUTERS);
        router_here(&mut frame, FROM, Duration::from_secs(20));
        assert_eq!(body(&frame).2[..2], [0x30, 20]);
    }

    #[test]
    fn a_report_takes_what_a_packet_has_room_for() {
        let many = (0..1_000).map(|n| {
            let group = Ipv4Addr::from_bits(0xef00_0000 + n);
            (RecordKind::IsExclude, group, &[][..])
        });
        let mut frame = Vec::new();
        assert_eq!(report(&mut frame, FROM, many), REPORT_RECORDS_MAX);
        assert!(frame.len() <= ETHERNET_BYTES + 1_500);
        assert!(Message::parse(body(&frame).2).is_ok());
    }

    #[test]
    fn a_code_means_the_greatest_number_not_above_its_own() {
        for value in 0..=40_000u64 {
            let means = |code| u64::from(MaxResponseCode(code).as_10th_secs());
            let code = code(value);
            assert!(means(code) <= value, "{value}");
            assert!(code == u8::MAX || means(code + 1) > value, "{value}");
        }
    }
}
