//! Fuzz targets of `voice`.

use core::net::IpAddr;

use base::{Duration, Time};
use voice::g711::Law;
use voice::live::{Arrival, Reception, Settings};
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
];

/// Any bytes are G.711; what was decoded survives a second trip unchanged.
fn g711(data: &[u8]) {
    for law in [Law::A, Law::Mu] {
        let pcm = law.decode_all(data);
        assert_eq!(pcm.len(), data.len());
        assert_eq!(law.decode_all(&law.encode_all(&pcm)), pcm);
    }
}

/// Any bytes are refused with an error, or are speech within the limits.
fn wav(data: &[u8]) {
    if let Ok(speech) = voice::wav::read_speech(data) {
        assert!(speech.pcm.len() <= 600 * 8_000 + 8_000);
        let again = voice::wav::read_speech(&voice::wav::write(&speech.pcm));
        assert_eq!(again.is_ok(), !speech.pcm.is_empty());
    }
}

/// What is read can be steered wherever it is RTP; the result is read again, leads where it should,
/// and is not changed by a second time. As offer and answer it never breaks the exchange.
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

/// The first byte cuts the rest into packets of that length; a stream of them is judged.
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

/// The packets of a datagram that holds are all of its bytes.
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
