//! MLD messages: what hosts report about IPv6 groups. [RFC 3810, RFC 2710]
//!
//! ```text
//!   | Ethernet (14) | IPv6 (40): hop limit 1 | hop by hop (8): router alert | ICMPv6: the message |
//! ```
//! A message is valid only if it cannot have come from beyond the network: its hop limit is 1, its source is a
//! link-local or unspecified address, and it has the router alert. [RFC 3810 §5.1.14, §5.2.13]

use super::Query;
use super::emit::{Speaker, code, fill_up};
use super::message::{Asked, Message, RecordKind, Records, Sources};
use crate::multicast::drops::Drop;
use crate::multicast::packet::{
    ETHERNET_BYTES, Ethernet, IPV6_BYTES, Ip, Mac, PROTOCOL_ICMPV6, PROTOCOL_OPTIONS, TYPE_IPV6,
};
use crate::multicast::packet::{group_mac, sum};
use base::Duration;
use core::net::Ipv6Addr;
use etherparse::igmp::MaxResponseCode;

/// All hosts of a link: the destination of general queries.
pub const ALL_HOSTS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// All routers that speak version 2: the destination of its reports.
pub const ALL_V2_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
/// All switches that snoop. [RFC 4286 §6]
pub const ALL_SNOOPERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x6a);

/// Types of ICMPv6.
const QUERY: u8 = 130;
const REPORT_V1: u8 = 131;
const DONE: u8 = 132;
const REPORT_V2: u8 = 143;
const ROUTER_HERE: u8 = 151;

/// Length of the hop-by-hop header with the router alert. [RFC 2711]
const OPTIONS_BYTES: usize = 8;
const ROUTER_ALERT: [u8; 4] = [5, 2, 0, 0];
/// The offset of the message in a packet that this module writes.
const MESSAGE_AT: usize = IPV6_BYTES + OPTIONS_BYTES;
/// Length of a message of version 1, and of a query of version 2 without sources.
const V1_BYTES: usize = 24;
const QUERY_BYTES: usize = 28;
/// Length of a report before its records.
const REPORT_BYTES: usize = 8;
/// Maximum number of sources in a query: 1500 bytes minus 48 of IP and 28 of MLD, divided by 16.
pub const QUERY_SOURCES_MAX: usize = (1_500 - MESSAGE_AT - QUERY_BYTES) / 16;
/// Maximum number of records in a report, if they name no sources.
pub const REPORT_RECORDS_MAX: usize = (1_500 - MESSAGE_AT - REPORT_BYTES) / 20;

/// Returns whether a packet of ICMPv6 is a message of MLD, or one between routers and snooping switches. Such a packet
/// never crosses.
#[must_use]
pub fn is_mld(ip: &Ip, packet: &[u8]) -> bool {
    let kind = packet.get(ip.header_bytes);
    let kinds = [QUERY, REPORT_V1, DONE, REPORT_V2, ROUTER_HERE];
    ip.protocol == PROTOCOL_ICMPV6 && kind.is_some_and(|kind| kinds.contains(kind))
}

/// Parses the message of a packet that [`Ip::parse`] accepted, without padding.
///
/// # Errors
/// The message may have come from beyond the network, is cut short, its checksum is wrong, or it is not about members.
pub fn parse<'a>(ip: &Ip, packet: &'a [u8]) -> Result<Message<'a, Ipv6Addr>, Drop> {
    if ip.ttl != 1 {
        return Err(Drop::IgmpTtl);
    }
    let options = packet.get(IPV6_BYTES..ip.header_bytes).unwrap_or(&[]);
    if !has_router_alert(options) {
        return Err(Drop::IgmpMalformed);
    }
    let message = packet.get(ip.header_bytes..ip.total_bytes);
    let message = message.ok_or(Drop::IgmpMalformed)?;
    let (&[kind, _, _, _, high, low, count_high, count_low], body) = message
        .split_first_chunk::<REPORT_BYTES>()
        .ok_or(Drop::IgmpMalformed)?;
    if checksum(packet, message) != 0 {
        return Err(Drop::IgmpChecksum);
    }
    if kind == REPORT_V2 {
        let count = u16::from_be_bytes([count_high, count_low]);
        return Records::checked(body, count).map(Message::ReportV3);
    }
    if ![QUERY, REPORT_V1, DONE].contains(&kind) {
        return Err(Drop::IgmpUnknown);
    }
    let (&group, rest) = body.split_first_chunk::<16>().ok_or(Drop::IgmpMalformed)?;
    let group = Ipv6Addr::from(group);
    let is_all = kind == QUERY && group.is_unspecified();
    if !is_all && !group.is_multicast() {
        return Err(Drop::IgmpMalformed);
    }
    match kind {
        REPORT_V1 => Ok(Message::ReportV2(group)),
        DONE => Ok(Message::Leave(group)),
        _ => {
            let group = (!is_all).then_some(group);
            asked(group, u16::from_be_bytes([high, low]), rest).map(Message::Query)
        }
    }
}

/// Parses the content of a query, whose length determines its version. [RFC 3810 §8.1]
fn asked(group: Option<Ipv6Addr>, response: u16, rest: &[u8]) -> Result<Asked<'_, Ipv6Addr>, Drop> {
    let old = Asked {
        version: 2,
        group,
        max_response: Duration::from_millis(response.into()),
        suppress: false,
        robustness: 0,
        interval: Duration::ZERO,
        sources: Sources::default(),
    };
    if rest.is_empty() {
        return Ok(old);
    }
    let (&[flags, interval, high, low], sources) =
        rest.split_first_chunk().ok_or(Drop::IgmpMalformed)?;
    let count = usize::from(u16::from_be_bytes([high, low]));
    let sources = sources.get(..16 * count).ok_or(Drop::IgmpMalformed)?;
    if group.is_none() && count > 0 {
        return Err(Drop::IgmpMalformed);
    }
    // The coding is that of the IGMP interval, in seconds. [RFC 3810 §5.1.9]
    let interval = u64::from(MaxResponseCode(interval).as_10th_secs());
    Ok(Asked {
        version: 3,
        max_response: Duration::from_millis(milliseconds(response)),
        suppress: flags & 8 != 0,
        robustness: flags & 7,
        interval: Duration::from_secs(interval),
        sources: Sources::of(sources),
        ..old
    })
}

/// Writes a query of version 2: for all groups, for one group, or for some sources of one group.
pub fn query(frame: &mut Vec<u8>, from: Speaker<Ipv6Addr>, query: &Query<'_, Ipv6Addr>) {
    let to = query.group.unwrap_or(ALL_HOSTS);
    message(frame, from, to, |frame| {
        let count = query.sources.len().min(QUERY_SOURCES_MAX);
        frame.extend([QUERY, 0, 0, 0]);
        frame.extend(response_code(query.max_response.as_millis()).to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(query.group.unwrap_or(Ipv6Addr::UNSPECIFIED).octets());
        // A robustness beyond 7 is sent as 0. [RFC 3810 §5.1.8]
        let robustness = Some(query.robustness).filter(|&n| n <= 7).unwrap_or(0);
        frame.push(u8::from(query.suppress) << 3 | robustness);
        frame.push(code(query.interval.as_millis() / 1_000));
        frame.extend((count as u16).to_be_bytes());
        frame.extend(query.sources[..count].iter().flat_map(Ipv6Addr::octets));
    });
}

/// Writes a report of version 2 with as many records as fit. Returns the number of records.
pub fn report<'a>(
    frame: &mut Vec<u8>,
    from: Speaker<Ipv6Addr>,
    records: impl Iterator<Item = (RecordKind, Ipv6Addr, &'a [Ipv6Addr])>,
) -> usize {
    let mut count = 0;
    message(frame, from, ALL_V2_ROUTERS, |frame| {
        let start = frame.len();
        frame.extend([REPORT_V2, 0, 0, 0, 0, 0, 0, 0]);
        for (kind, group, sources) in records {
            let bytes = frame.len() - ETHERNET_BYTES + 20 + 16 * sources.len();
            if bytes > 1_500 || count == REPORT_RECORDS_MAX {
                break;
            }
            frame.extend([kind as u8, 0]);
            frame.extend((sources.len() as u16).to_be_bytes());
            frame.extend(group.octets());
            frame.extend(sources.iter().flat_map(Ipv6Addr::octets));
            count += 1;
        }
        frame[start + 6..start + 8].copy_from_slice(&(count as u16).to_be_bytes());
    });
    count
}

/// Writes a report of version 1, which is sent to the group itself.
pub fn report_old(frame: &mut Vec<u8>, from: Speaker<Ipv6Addr>, group: Ipv6Addr) {
    message(frame, from, group, |frame| {
        frame.extend([REPORT_V1, 0, 0, 0, 0, 0, 0, 0]);
        frame.extend(group.octets());
    });
}

/// Writes the announcement to snooping switches that a multicast router is here. [RFC 4286 §6]
pub fn router_here(frame: &mut Vec<u8>, from: Speaker<Ipv6Addr>, interval: Duration) {
    message(frame, from, ALL_SNOOPERS, |frame| {
        let seconds = (interval.as_millis() / 1_000).clamp(4, 180) as u8;
        frame.extend([ROUTER_HERE, seconds, 0, 0, 0, 0, 0, 0]);
    });
}

/// Returns the link-local address that belongs to an Ethernet address. [RFC 4291 §2.5.1]
#[must_use]
pub fn link_local([a, b, c, d, e, f]: Mac) -> Ipv6Addr {
    let [a, c] = [a ^ 2, c].map(u16::from);
    let low = |high: u8, low: u8| u16::from_be_bytes([high, low]);
    Ipv6Addr::new(
        0xfe80,
        0,
        0,
        0,
        a << 8 | u16::from(b),
        c << 8 | 0xff,
        low(0xfe, d),
        low(e, f),
    )
}

/// Fills in the checksum of the message at offset `at` of an IPv6 packet.
pub fn put_checksum(packet: &mut [u8], at: usize) {
    if at >= IPV6_BYTES && packet.len() >= at + 4 {
        packet[at + 2..at + 4].fill(0);
        let right = checksum(packet, &packet[at..]);
        packet[at + 2..at + 4].copy_from_slice(&right.to_be_bytes());
    }
}

/// Returns the checksum over the pseudo header and a message; 0 if the message contains a correct checksum. [RFC 8200
/// §8.1]
fn checksum(packet: &[u8], message: &[u8]) -> u16 {
    let addresses = sum(&packet[8..IPV6_BYTES]);
    let total = u32::from(addresses)
        + u32::from(sum(message))
        + message.len() as u32
        + u32::from(PROTOCOL_ICMPV6);
    let folded = (total & 0xffff) + (total >> 16);
    !(((folded & 0xffff) + (folded >> 16)) as u16)
}

/// Returns whether the hop-by-hop header contains the router alert.
fn has_router_alert(options: &[u8]) -> bool {
    // The next header and the length precede the options.
    let mut rest = options.get(2..).unwrap_or(&[]);
    while let Some(&kind) = rest.first() {
        let len = match kind {
            // One byte of padding.
            0 => 1,
            _ => 2 + usize::from(rest.get(1).copied().unwrap_or(0)),
        };
        if rest.len() >= len && rest[..len] == ROUTER_ALERT {
            return true;
        }
        rest = rest.get(len..).unwrap_or(&[]);
    }
    false
}

/// Returns the maximum response time for a code, in milliseconds. Beyond 32767, the code has twelve bits of mantissa
/// and three of exponent. [RFC 3810 §5.1.3]
fn milliseconds(code: u16) -> u64 {
    if code < 0x8000 {
        return code.into();
    }
    let (exponent, mantissa) = (code >> 12 & 7, u64::from(code & 0xfff));
    (mantissa | 0x1000) << (exponent + 3)
}

/// Returns the code of a number of milliseconds: the code of the greatest number that is not above it.
fn response_code(value: u64) -> u16 {
    if value < 0x8000 {
        return value as u16;
    }
    let value = value.min(0x1fff << 10);
    let exponent = 63 - value.leading_zeros() - 15;
    let mantissa = (value >> (exponent + 3)) & 0xfff;
    0x8000 | (exponent as u16) << 12 | mantissa as u16
}

fn message(
    frame: &mut Vec<u8>,
    from: Speaker<Ipv6Addr>,
    to: Ipv6Addr,
    body: impl FnOnce(&mut Vec<u8>),
) {
    frame.clear();
    let ethernet = Ethernet {
        to: group_mac(to),
        from: from.mac,
        kind: TYPE_IPV6,
    };
    frame.extend(ethernet.emit());
    // Version 6, no traffic class; the length follows; a hop-by-hop header, one hop.
    frame.extend([0x60, 0, 0, 0, 0, 0, PROTOCOL_OPTIONS, 1]);
    frame.extend(from.address.octets());
    frame.extend(to.octets());
    frame.extend([PROTOCOL_ICMPV6, 0]);
    frame.extend(ROUTER_ALERT);
    // Two bytes of padding.
    frame.extend([1, 0]);
    body(frame);
    let packet = &mut frame[ETHERNET_BYTES..];
    let payload = (packet.len() - IPV6_BYTES) as u16;
    packet[4..6].copy_from_slice(&payload.to_be_bytes());
    put_checksum(packet, MESSAGE_AT);
    fill_up(frame);
}

// These sizes are fixed by the RFC, and parsing relies on them.
const _: () = assert!(V1_BYTES == REPORT_BYTES + 16 && QUERY_BYTES == V1_BYTES + 4);

#[cfg(test)]
mod tests;
