//! Measures a path from a capture: each echo request with its answer, or a stream of RTP with its gaps.
//!
//! ```text
//!   request, id 5, seq 1 ──▶ … ◀── reply, id 5, seq 1        half of the time between: the delay; no reply: lost
//!   RTP seq 1, 2, 4 ──▶ captured behind the path             3 is lost; of the delay nothing is known
//! ```

use super::Sample;
use etherparse::{LaxSlicedPacket, TransportSlice};
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The longest block that is read.
const BLOCK_BYTES: usize = 1 << 20;
/// A measurement needs at least this many echo requests.
const ECHOES_MIN: usize = 10;
/// A loss rate needs at least this many packets of RTP.
const RTP_MIN: usize = 100;

/// A larger step of the sequence number is no gap but a restart (RFC 3550 A.1).
const DROPOUT_MAX: u64 = 3_000;

/// A sequence number, the time of the request, and the time of the first answer.
type Echo = (u16, f64, Option<f64>);
/// The two addresses of a ping, and the identifier of the echo.
type Pinger = (IpAddr, IpAddr, u16);
/// The two addresses of a stream, and the source of RTP.
type Stream = (IpAddr, IpAddr, u32);

#[derive(Default)]
struct Seen {
    echoes: BTreeMap<Pinger, Vec<Echo>>,
    /// The arrival time of each packet, with its sequence number.
    rtp: BTreeMap<Stream, Vec<(f64, u16)>>,
}

/// Returns the samples in the capture.
pub(super) fn samples(bytes: &[u8]) -> Result<Vec<Sample>, String> {
    let mut seen = Seen::default();
    read(bytes, &mut seen)?;
    let echoes = seen
        .echoes
        .into_values()
        .max_by_key(Vec::len)
        .unwrap_or_default();
    if echoes.len() >= ECHOES_MIN {
        return Ok(pings(&echoes));
    }
    let rtp = seen
        .rtp
        .into_values()
        .max_by_key(Vec::len)
        .unwrap_or_default();
    if rtp.len() >= RTP_MIN {
        return Ok(gaps(&rtp));
    }
    Err(format!(
        "it has no {ECHOES_MIN} echo requests of a ping, and no {RTP_MIN} packets of a stream of RTP"
    ))
}

/// Returns each request. A request near the end may have an answer after the end of the capture; such a request is left
/// out.
fn pings(echoes: &[Echo]) -> Vec<Sample> {
    let took_s = |(_, asked, answered): &Echo| answered.map(|answered| answered - asked);
    let longest_s = echoes.iter().filter_map(took_s).fold(0.0, f64::max);
    let last_s = echoes
        .iter()
        .map(|(_, asked, answered)| answered.unwrap_or(*asked));
    let last_s = last_s.fold(f64::NEG_INFINITY, f64::max);
    let is_over = |(_, asked, answered): &&Echo| answered.is_some() || asked + longest_s < last_s;
    let sample = |echo: &Echo| Sample {
        at_s: echo.1,
        delay_ms: took_s(echo).map(|took_s| took_s * 1e3 / 2.0),
        sent: 1,
        lost: u32::from(echo.2.is_none()),
    };
    echoes.iter().filter(is_over).map(sample).collect()
}

/// Returns each packet that arrived, and each missing number at a moment between its neighbours that arrived.
fn gaps(packets: &[(f64, u16)]) -> Vec<Sample> {
    let mut came: BTreeMap<i64, f64> = BTreeMap::new();
    let mut last: Option<(i64, u16)> = None;
    for &(at_s, number) in packets {
        let (before, number_before) = last.unwrap_or((0, number));
        let step = i64::from(number.wrapping_sub(number_before).cast_signed());
        // RFC 3550 A.1: a sender that restarts is no gap.
        let place = match step.unsigned_abs() > DROPOUT_MAX {
            true => came.last_key_value().map_or(0, |(place, _)| place + 1),
            false => before + step,
        };
        came.entry(place).or_insert(at_s);
        last = Some((place, number));
    }
    let sample = |at_s: f64, lost: u32| Sample {
        at_s,
        delay_ms: None,
        sent: 1,
        lost,
    };
    let mut samples = Vec::new();
    let mut before: Option<(i64, f64)> = None;
    for (&place, &at_s) in &came {
        if let Some((place_before, before_s)) = before {
            let missing = place - place_before - 1;
            let step_s = (at_s - before_s) / (missing + 1) as f64;
            samples.extend((1..=missing).map(|n| sample(before_s + step_s * n as f64, 1)));
        }
        samples.push(sample(at_s, 0));
        before = Some((place, at_s));
    }
    samples
}

fn read(bytes: &[u8], seen: &mut Seen) -> Result<(), String> {
    let wrong = |why: &dyn std::fmt::Display| format!("expected a capture of tcpdump: {why}");
    let mut reader = create_reader(BLOCK_BYTES, bytes).map_err(|error| wrong(&error))?;
    let (mut link, mut is_in_ns) = (Linktype::ETHERNET, false);
    let mut interfaces = Vec::new();
    loop {
        let offset = match reader.next() {
            Ok((offset, block)) => {
                match block {
                    PcapBlockOwned::LegacyHeader(header) => {
                        (link, is_in_ns) = (header.network, header.is_nanosecond_precision());
                    }
                    PcapBlockOwned::Legacy(packet) => {
                        let fraction = if is_in_ns { 1e-9 } else { 1e-6 };
                        let at_s = f64::from(packet.ts_sec) + f64::from(packet.ts_usec) * fraction;
                        seen.packet(link, at_s, packet.data);
                    }
                    PcapBlockOwned::NG(Block::SectionHeader(_)) => interfaces.clear(),
                    PcapBlockOwned::NG(Block::InterfaceDescription(about)) => {
                        let per_s = about.ts_resolution().unwrap_or(1_000_000);
                        interfaces.push((about.linktype, about.ts_offset(), per_s));
                    }
                    PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                        if let Some((link, from, per_s)) = interfaces.get(packet.if_id as usize) {
                            let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                            let at_s = *from as f64 + ticks as f64 / *per_s as f64;
                            seen.packet(*link, at_s, packet.packet_data());
                        }
                    }
                    PcapBlockOwned::NG(_) => {}
                }
                offset
            }
            Err(PcapError::Eof) => return Ok(()),
            // A capture that was ended by force has an incomplete last record.
            Err(PcapError::UnexpectedEof) => return Ok(()),
            Err(PcapError::Incomplete(_)) => {
                reader.refill().map_err(|error| wrong(&error))?;
                if reader.reader_exhausted() {
                    return Ok(());
                }
                continue;
            }
            Err(error) => return Err(wrong(&error)),
        };
        reader.consume(offset);
    }
}

impl Seen {
    fn packet(&mut self, link: Linktype, at_s: f64, bytes: &[u8]) {
        // After the header of the interface, packets are those of IP.
        let skip = match link {
            Linktype::LINUX_SLL => 16,
            Linktype::LINUX_SLL2 => 20,
            Linktype::NULL => 4,
            _ => 0,
        };
        let Some(bytes) = bytes.get(skip..) else {
            return;
        };
        let packet = match link {
            Linktype::ETHERNET => LaxSlicedPacket::from_ethernet(bytes).ok(),
            _ => LaxSlicedPacket::from_ip(bytes).ok(),
        };
        let Some(packet) = packet else { return };
        let (Some(net), Some(transport)) = (&packet.net, &packet.transport) else {
            return;
        };
        let Some((from, to)) = addresses(net) else {
            return;
        };
        match transport {
            TransportSlice::Icmpv4(icmp) => {
                let [kind, code] = [icmp.type_u8(), icmp.code_u8()];
                self.icmp((from, to), (kind, code), (8, 0), icmp.bytes5to8(), at_s);
            }
            TransportSlice::Icmpv6(icmp) => {
                let [kind, code] = [icmp.type_u8(), icmp.code_u8()];
                self.icmp((from, to), (kind, code), (128, 129), icmp.bytes5to8(), at_s);
            }
            TransportSlice::Udp(udp) => self.udp((from, to), udp.payload(), at_s),
            TransportSlice::Tcp(_) | TransportSlice::Igmp(_) => {}
        }
    }

    /// Notes an ICMP packet; `echo` has the kinds of request and reply.
    fn icmp(
        &mut self,
        (from, to): (IpAddr, IpAddr),
        (kind, code): (u8, u8),
        (request, reply): (u8, u8),
        [a, b, c, d]: [u8; 4],
        at_s: f64,
    ) {
        let (id, number) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        if code == 0 && kind == request {
            let asked = self.echoes.entry((from, to, id)).or_default();
            // A capture on several interfaces contains a packet several times.
            let is_again = |&(n, at, _): &(u16, f64, _)| n == number && at_s - at < 1.0;
            if !asked.last().is_some_and(is_again) {
                asked.push((number, at_s, None));
            }
        } else if code == 0 && kind == reply {
            let asked = self.echoes.get_mut(&(to, from, id));
            // The last request of that number counts, because numbers repeat.
            let asked = asked.and_then(|asked| asked.iter_mut().rev().find(|(n, ..)| *n == number));
            if let Some((_, asked, answered @ None)) = asked
                && at_s >= *asked
            {
                *answered = Some(at_s);
            }
        }
    }

    fn udp(&mut self, (from, to): (IpAddr, IpAddr), payload: &[u8], at_s: f64) {
        let Some(head) = payload.first_chunk::<12>() else {
            return;
        };
        // RFC 3550: version 2, and not a packet of RTCP (RFC 5761).
        let is_rtp = head[0] >> 6 == 2 && !(192..=223).contains(&head[1]);
        if is_rtp {
            let number = u16::from_be_bytes([head[2], head[3]]);
            let source = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
            self.rtp
                .entry((from, to, source))
                .or_default()
                .push((at_s, number));
        }
    }
}

fn addresses(net: &etherparse::LaxNetSlice<'_>) -> Option<(IpAddr, IpAddr)> {
    match net {
        etherparse::LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            Some((
                header.source_addr().into(),
                header.destination_addr().into(),
            ))
        }
        etherparse::LaxNetSlice::Ipv6(ip) => {
            let header = ip.header();
            Some((
                header.source_addr().into(),
                header.destination_addr().into(),
            ))
        }
        etherparse::LaxNetSlice::Arp(_) => None,
    }
}

#[cfg(test)]
mod tests;
