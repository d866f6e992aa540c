//! Fuzz targets of `voice`.

use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;

use base::{Duration, NodeAddr, Time, VirtualPort};
use voice::g711::Law;
use voice::live::{Arrival, Reception, Settings};
use voice::media::{
    CallId, Calls, Carrier, Destination, Expected, Forward, Need, Remote, StreamId,
};
use voice::rtp::rtcp::{Compound, Rtcp};
use voice::rtp::{Kind, Packet};
use voice::sdp::{Exchange, MediaEdit, Rewrite, Sdp, Side, Steer};

use crate::Target;

pub(crate) const TARGETS: &[Target] = &[
    ("voice_g711", g711),
    ("voice_wav", wav),
    ("voice_sdp", sdp),
    ("voice_rtp", rtp),
    ("voice_rtcp", rtcp),
    ("voice_media", media),
    ("voice_ts", ts),
    ("voice_pair", pair),
];

/// Any bytes are valid G.711. Decoded samples survive a second round trip unchanged.
fn g711(data: &[u8]) {
    for law in [Law::A, Law::Mu] {
        let pcm = law.decode_all(data);
        assert_eq!(pcm.len(), data.len());
        assert_eq!(law.decode_all(&law.encode_all(&pcm)), pcm);
    }
}

/// All datagrams are counted, whatever they contain. The first byte determines their length, so that packets can be
/// cut.
fn ts(data: &[u8]) {
    let Some((&len, stream)) = data.split_first() else {
        return;
    };
    let mut monitor = voice::ts::Monitor::new();
    let mut now = Time::ZERO;
    let datagrams = stream.chunks(188 + usize::from(len));
    let count = datagrams.len() as u64;
    for datagram in datagrams {
        monitor.on_datagram(now, datagram);
        now += Duration::from_millis(100);
    }
    let counts = monitor.counts();
    assert_eq!(counts.datagrams, count);
    assert!(counts.packets <= stream.len() as u64 / 188);
}

/// Packets on two paths, five bytes each: the time since the previous packet, the path, the source, and the number.
/// Each packet is passed on at most once, in order, and none waits longer than the window.
fn pair(data: &[u8]) {
    let window = Duration::from_millis(50);
    let mut merger = voice::pair::Merger::new(window);
    let mut now = Time::ZERO;
    let mut sent: Vec<(u32, u16)> = Vec::new();
    let (packets, _) = data.as_chunks::<5>();
    for [wait, leg, source, high, low] in packets {
        now += Duration::from_millis(u64::from(*wait));
        let mut packet = voice::rtp::Header {
            marker: false,
            payload_type: 33,
            seq: u16::from_be_bytes([*high, *low]),
            timestamp: 0,
            ssrc: u32::from(*source),
        }
        .to_bytes();
        packet[0] ^= *leg & 0xf0;
        let mut take = |packet: &[u8]| {
            let header = Packet::parse(packet).expect("it went in").header();
            sent.push((header.ssrc, header.seq));
        };
        merger.on_timeout(now, &mut take);
        merger.on_packet(now, usize::from(leg & 1), &packet, &mut take);
        assert!(
            merger
                .next_timeout()
                .is_none_or(|at| at > now && at <= now + window)
        );
    }
    let in_order = sent.windows(2).all(|two| {
        let ahead = two[1].1.wrapping_sub(two[0].1).cast_signed();
        two[0].0 != two[1].0 || ahead > 0 || merger.merged().restarts > 0
    });
    assert!(in_order, "{sent:?}");
    assert_eq!(merger.merged().sent, sent.len() as u64);
}

/// Any bytes are either refused with an error, or are speech within the limits.
fn wav(data: &[u8]) {
    if let Ok(speech) = voice::wav::read_speech(data) {
        assert!(speech.pcm.len() <= 600 * 8_000 + 8_000);
        let again = voice::wav::read_speech(&voice::wav::write(&speech.pcm));
        assert_eq!(again.is_ok(), !speech.pcm.is_empty());
    }
}

/// A parsed description can be steered in every section of RTP. The result can be parsed again, has the right
/// addresses, and does not change when it is steered again. As offer and answer, the result never breaks the exchange.
fn sdp(data: &[u8]) {
    let Ok(sdp) = Sdp::parse(data) else { return };
    let ip = IpAddr::from([198, 51, 100, 9]);
    let edits = sdp.media().iter().zip(0_u16..).map(|(section, n)| {
        if !section.is_steerable() {
            return MediaEdit::Keep;
        }
        MediaEdit::Steer(Steer {
            ip,
            rtp_port: 30_000 + 2 * n,
            rtcp_port: 40_000 + n,
            announce: None,
        })
    });
    let rewrite = Rewrite::steer(edits.collect());
    if let Ok(out) = rewrite.apply(&sdp) {
        let read = Sdp::parse(&out).expect("what was written can be read");
        for (was, is) in sdp.media().iter().zip(read.media()) {
            if was.is_steerable() {
                assert!(is.port >= 30_000 && is.rtcp().is_some_and(|(_, port)| port >= 40_000));
            } else {
                assert_eq!(is.rtp(), was.rtp());
            }
            assert_eq!(is.is_steerable(), was.is_steerable());
        }
        assert_eq!(rewrite.apply(&read), Ok(out.clone()));
    }

    let mut exchange = Exchange::new();
    for by in [Side::Caller, Side::Callee, Side::Caller] {
        exchange.offer(by, &sdp).expect("an offer follows itself");
        exchange
            .answer(by.other(), &sdp)
            .expect("a description answers itself");
    }
    assert_eq!(exchange.streams().len(), sdp.media().len());
    assert!(exchange.withdraw().is_empty());
}

/// The first byte is the length into which the rest is cut; the packets are evaluated as a stream.
fn rtp(data: &[u8]) {
    let Some((&length, rest)) = data.split_first() else {
        return;
    };
    let mut reception = Reception::new(Settings::default());
    let mut now = Time::ZERO;
    for bytes in rest.chunks(usize::from(length).max(1)) {
        now += Duration::from_millis(u64::from(bytes[0]));
        let Ok(packet) = Packet::parse(bytes) else {
            continue;
        };
        assert!(matches!(Kind::of(bytes), Kind::Rtp | Kind::Rtcp));
        let header = packet.header();
        let extension = packet.extension().map_or(0, |(_, bytes)| 4 + bytes.len());
        let headers = 12 + 4 * packet.contributing().len() + extension;
        assert_eq!(headers + packet.body().len(), bytes.len());
        if let Ok(payload) = packet.payload() {
            assert!(payload.len() <= packet.body().len());
        }
        let arrival = Arrival {
            one_way: header
                .marker
                .then(|| Duration::from_millis(header.timestamp.into())),
            recovered: header.payload_type == 1,
        };
        reception.on_packet(now, &header, arrival);
    }
    let quality = reception.whole();
    assert!(quality.counts.missed() <= quality.counts.expected);
    assert!(quality.r_factor().is_none_or(f64::is_finite));
}

/// The packets of a valid datagram are all of its bytes.
fn rtcp(data: &[u8]) {
    let Ok(compound) = Compound::parse(data) else {
        return;
    };
    assert_eq!(Kind::of(data), Kind::Rtcp);
    let mut packets = 0;
    for packet in compound.packets() {
        packets += 1;
        match packet {
            Rtcp::SenderReport(_, blocks) | Rtcp::ReceiverReport(_, blocks) => {
                assert!(blocks.count() <= 31);
            }
            Rtcp::Bye(sources) => assert!(sources.count() <= 31),
            Rtcp::Extended(_, blocks) => {
                for metrics in blocks {
                    assert!((0.0..=1.0).contains(&metrics.missed()));
                }
            }
            _ => {}
        }
    }
    assert!(packets >= 1 && packets <= data.len() / 4);
    for (_, block) in compound.reports() {
        assert!(block.round_trip_us(0).is_none_or(|us| us < 1 << 35));
    }
}

/// The ports of a gateway in [`media`]: UDP and virtual ports.
const PORTS: core::ops::RangeInclusive<u16> = 1000..=1063;

/// Four bytes are a step: signalling, time, or a packet. Whatever comes, packets leave from the ports of the other side
/// of their own stream, no packet from elsewhere passes, and all ports are released.
fn media(data: &[u8]) {
    let mut calls = Calls::new(PORTS, PORTS).expect("the range has pairs");
    let mut streams: BTreeMap<StreamId, [(u16, u16); 2]> = BTreeMap::new();
    let mut now = Time::ZERO;
    for &[step, a, b, c] in data.as_chunks::<4>().0 {
        let call = CallId(u64::from(a % 4));
        let stream = StreamId { call, media: b % 3 };
        let side = Side::BOTH[usize::from(b >> 7)];
        match step % 10 {
            0 => drop(calls.open(now, call)),
            1 => {
                let need = |bit: u8| [Need::Pair, Need::Single][usize::from(c >> bit & 1)];
                let carrier = [Carrier::Udp, Carrier::Overlay][usize::from(c >> 2 & 1)];
                let sides = [(Carrier::Udp, need(0)), (carrier, need(1))];
                if let Ok(local) = calls.add_stream(stream, sides) {
                    streams.insert(stream, local.map(|ports| (ports.rtp, ports.rtcp)));
                }
            }
            2 => drop(calls.signal(now, stream, side, remote(c))),
            3 => drop(calls.answered(now, call, c & 1 == 0)),
            4 => drop(calls.end_stream(stream)),
            5 => drop(calls.close(call)),
            6 => {
                now += Duration::from_secs(u64::from(c));
                calls.on_timeout(now, 2);
                assert!(calls.next_timeout().is_some() == (calls.count() > 0));
            }
            7 | 8 => {
                let near = calls.on_udp(now, port(a), from([192, 0, 2, b], c), packet(step));
                check(&streams, near.ok());
                let far = calls.on_udp(now, port(a), from([198, 51, 100, b], c), packet(step));
                assert!(far.is_err());
            }
            _ => {
                let source = (NodeAddr(u32::from(b)), VirtualPort(u16::from(c)));
                let port = VirtualPort(port(a));
                check(
                    &streams,
                    calls.on_overlay(now, port, source, packet(step)).ok(),
                );
            }
        }
    }
    for call in 0..4 {
        let _ = calls.close(CallId(call));
    }
    assert_eq!(calls.next_timeout(), None);
    for carrier in [Carrier::Udp, Carrier::Overlay] {
        assert_eq!(calls.ports_free(carrier), PORTS.len());
    }
}

fn port(a: u8) -> u16 {
    PORTS.start() + u16::from(a % 64)
}

fn from(ip: [u8; 4], port: u8) -> SocketAddr {
    SocketAddr::from((ip, u16::from(port)))
}

fn remote(c: u8) -> Remote {
    let at = |port| Expected {
        signalled: from([192, 0, 2, c & 3], port),
        via: None,
        lan: c & 32 == 0,
    };
    if c & 4 == 0 {
        Remote::Udp {
            rtp: at(c),
            rtcp: (c & 8 == 0).then(|| at(c | 1)),
            dtls: c & 16 == 0,
        }
    } else {
        Remote::Overlay {
            node: NodeAddr(u32::from(c & 3)),
            rtp: VirtualPort(u16::from(c)),
            rtcp: VirtualPort(u16::from(c | 1)),
        }
    }
}

fn packet(step: u8) -> &'static [u8] {
    const RTP: &[u8] = &[0x80, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 7];
    const RTCP: &[u8] = &[0x80, 201, 0, 1, 0, 0, 0, 7];
    const DTLS: &[u8] = &[0x16, 0xfe, 0xfd];
    [RTP, RTCP, DTLS, b"junk"][usize::from(step >> 6)]
}

fn check(streams: &BTreeMap<StreamId, [(u16, u16); 2]>, forward: Option<Forward>) {
    let Some(forward) = forward else { return };
    let from = match forward.to {
        Destination::Udp { from, .. } => from,
        Destination::Overlay { from, .. } => from.0,
    };
    let (rtp, rtcp) = streams[&forward.stream][forward.from.other().index()];
    assert!(from == rtp || from == rtcp);
}
