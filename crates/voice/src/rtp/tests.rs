use super::rtcp::{Compound, Rtcp};
use super::*;

/// Two contributing sources, an extension of one word, four bytes of payload, two of padding.
const FULL: [u8; 34] = [
    0xb2, 0xe0, 0x12, 0x34, 0x00, 0x00, 0x00, 0xa0, 0xde, 0xad, 0xbe, 0xef, // header
    0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x02, // contributing
    0xbe, 0xde, 0x00, 0x01, 0x10, 0xff, 0x00, 0x00, // extension
    0x01, 0x02, 0x03, 0x04, 0x00, 0x02, // payload, padding
];

#[test]
fn every_field_of_a_header_is_read() {
    let packet = Packet::parse(&FULL).expect("it is whole");
    let header = Header {
        marker: true,
        payload_type: 96,
        seq: 0x1234,
        timestamp: 160,
        ssrc: 0xdead_beef,
    };
    assert_eq!(packet.header(), header);
    assert!(packet.contributing().eq([1, 2]));
    assert_eq!(packet.extension(), Some((0xbede, &[0x10, 0xff, 0, 0][..])));
    assert_eq!(packet.payload(), Ok(&[1, 2, 3, 4][..]));
    assert_eq!(packet.body().len(), 6);

    let plain = header.to_bytes();
    let packet = Packet::parse(&plain).expect("a header is a packet without payload");
    assert_eq!(packet.header(), header);
    assert_eq!(packet.extension(), None);
    assert_eq!(packet.payload(), Ok(&[][..]));
}

#[test]
fn every_prefix_of_a_header_is_refused() {
    for length in 0..FULL.len() {
        let packet = Packet::parse(&FULL[..length]);
        assert_eq!(packet.is_ok(), length >= 28, "{length}");
    }
    let mut version = FULL;
    version[0] = 0x72;
    assert_eq!(Packet::parse(&version), Err(RtpError::Version(1)));
}

#[test]
fn padding_that_cannot_be_is_an_error_of_the_payload_alone() {
    let mut packet = FULL;
    for (padding, payload) in [(0, None), (6, Some(0)), (7, None), (255, None)] {
        packet[33] = padding;
        let read = Packet::parse(&packet)
            .expect("SRTP has such bytes")
            .payload();
        assert_eq!(read.ok().map(<[u8]>::len), payload, "{padding}");
    }
    let empty = Packet::parse(&FULL[..28]).expect("the header is whole");
    assert_eq!(empty.payload(), Err(RtpError::Padding(0)));
}

#[test]
fn datagrams_are_told_apart_by_two_bytes() {
    for (bytes, kind) in [
        (&[0x80, 0x00][..], Kind::Rtp),
        (&[0x80, 0x60], Kind::Rtp),
        (&[0x80, 0xe0], Kind::Rtp),
        (&[0xbf, 0xbf], Kind::Rtp),
        (&[0x80, 0xc0], Kind::Rtcp),
        (&[0x81, 0xc8], Kind::Rtcp),
        (&[0x80, 0xdf], Kind::Rtcp),
        (&[0x00, 0x01], Kind::Stun),
        (&[0x16, 0xfe], Kind::Dtls),
        (&[0x40, 0x00], Kind::Other),
        (&[0xc0, 0x00], Kind::Other),
        (&[0x80], Kind::Other),
        (&[], Kind::Other),
    ] {
        assert_eq!(Kind::of(bytes), kind, "{bytes:02x?}");
    }
}

/// SR with one report block, SDES, BYE.
fn compound() -> Vec<u8> {
    let mut bytes = vec![0x81, 200, 0, 12];
    bytes.extend(0x1111_1111_u32.to_be_bytes());
    bytes.extend(0xaaaa_bbbb_cccc_dddd_u64.to_be_bytes());
    bytes.extend(0x0000_1000_u32.to_be_bytes());
    bytes.extend(500_u32.to_be_bytes());
    bytes.extend(80_000_u32.to_be_bytes());
    bytes.extend(0x2222_2222_u32.to_be_bytes());
    bytes.extend([64, 0xff, 0xff, 0xfe]); // 25 %, −2
    bytes.extend(0x0001_0005_u32.to_be_bytes());
    bytes.extend(40_u32.to_be_bytes());
    bytes.extend(0xbbbb_0000_u32.to_be_bytes());
    bytes.extend(0x0001_0000_u32.to_be_bytes()); // one second
    bytes.extend([0x81, 202, 0, 2, 0x11, 0x11, 0x11, 0x11, 1, 0, 0, 0]);
    bytes.extend([0x82, 203, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2]);
    bytes
}

#[test]
fn a_compound_packet_is_read() {
    let bytes = compound();
    let rtcp = Compound::parse(&bytes).expect("it is whole");
    let packets: Vec<_> = rtcp.packets().collect();
    let [
        Rtcp::SenderReport(info, _),
        Rtcp::Other(202, sdes),
        Rtcp::Bye(sources),
    ] = packets[..]
    else {
        panic!("{packets:?}")
    };
    assert_eq!((info.ssrc, info.rtp_timestamp), (0x1111_1111, 0x1000));
    assert_eq!((info.packets, info.bytes), (500, 80_000));
    assert_eq!(info.ntp_middle(), 0xbbbb_cccc);
    assert_eq!(sdes.len(), 8);
    assert!(sources.eq([1, 2]));

    let reports: Vec<_> = rtcp.reports().collect();
    let [(by, block)] = reports[..] else {
        panic!("{reports:?}")
    };
    assert_eq!((by, block.ssrc), (0x1111_1111, 0x2222_2222));
    assert_eq!((block.loss(), block.cumulative_lost), (0.25, -2));
    assert_eq!((block.highest_seq, block.jitter), (0x0001_0005, 40));
    // The report came back 1.5 s after the SR was sent, and was held for 1 s.
    assert_eq!(block.round_trip_us(0xbbbc_8000), Some(500_000));
    assert_eq!(block.round_trip_us(0xbbbb_8000), None, "before it was sent");
    let first = rtcp::ReportBlock {
        last_sr: 0,
        ..block
    };
    assert_eq!(first.round_trip_us(0xbbbc_8000), None);
}

#[test]
fn every_prefix_of_rtcp_is_refused_but_whole_packets() {
    let bytes = compound();
    for length in 0..bytes.len() {
        let whole = [52, 64].contains(&length);
        assert_eq!(Compound::parse(&bytes[..length]).is_ok(), whole, "{length}");
    }
}

#[test]
fn rtcp_that_lies_is_refused() {
    let refuse = |at: usize, byte: u8| {
        let mut bytes = compound();
        bytes[at] = byte;
        Compound::parse(&bytes).map(|_| ()).expect_err("it lies")
    };
    assert_eq!(refuse(0, 0x41), RtpError::Version(1));
    assert_eq!(refuse(1, 191), RtpError::NotRtcp(191));
    assert_eq!(refuse(0, 0xa1), RtpError::PaddingWithin);
    assert_eq!(
        refuse(0, 0x82),
        RtpError::Count {
            count: 2,
            needed: 76,
            present: 52
        }
    );
    assert_eq!(
        refuse(64, 0x83),
        RtpError::Count {
            count: 3,
            needed: 16,
            present: 12
        }
    );
    assert_eq!(refuse(64, 0xa2), RtpError::Padding(2));
    let padded = [0xa0, 201, 0, 2, 0, 0, 0, 9, 0, 0, 0, 4];
    let rtcp = Compound::parse(&padded).expect("the last may be padded");
    assert!(matches!(
        rtcp.packets().next(),
        Some(Rtcp::ReceiverReport(9, _))
    ));
    // The packet has 24 bytes of padding where a block should be.
    let mut hollow = vec![0xa1, 201, 0, 7, 0, 0, 0, 9];
    hollow.extend([0; 23]);
    hollow.push(24);
    assert!(matches!(
        Compound::parse(&hollow),
        Err(RtpError::Count { present: 8, .. })
    ));
}

/// XR with a receiver reference time, which the parser skips, and VoIP metrics.
fn extended() -> Vec<u8> {
    let mut bytes = vec![0x80, 207, 0, 13, 0, 0, 0, 9];
    bytes.extend([4, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8]);
    bytes.extend([7, 0, 0, 8, 0x22, 0x22, 0x22, 0x22]);
    bytes.extend([26, 13, 128, 3, 0x01, 0x00, 0x02, 0x00, 0, 80, 0, 60]);
    bytes.extend([0xee, 0xba, 127, 16, 82, 127, 41, 40]);
    bytes.extend([0x30, 0, 0, 40, 0, 60, 0, 200]);
    bytes
}

#[test]
fn voip_metrics_are_read() {
    let bytes = extended();
    let rtcp = Compound::parse(&bytes).expect("it is whole");
    let Some(Rtcp::Extended(9, mut blocks)) = rtcp.packets().next() else {
        panic!("{rtcp:?}")
    };
    let metrics = blocks.next().expect("the second block");
    assert_eq!(metrics.ssrc, 0x2222_2222);
    assert_eq!((metrics.loss_rate, metrics.discard_rate), (26, 13));
    assert_eq!(metrics.missed(), 39.0 / 256.0);
    assert_eq!((metrics.burst_density, metrics.gap_density), (128, 3));
    assert_eq!((metrics.burst_ms, metrics.gap_ms), (256, 512));
    assert_eq!((metrics.round_trip_ms, metrics.end_system_ms), (80, 60));
    assert_eq!(metrics.signal_dbm0, Some(-18));
    assert_eq!(metrics.noise_dbm0, Some(-70));
    assert_eq!((metrics.residual_echo_db, metrics.gmin), (None, 16));
    assert_eq!(
        (metrics.r_factor, metrics.external_r_factor),
        (Some(82), None)
    );
    assert_eq!(metrics.mos_lq_tenths, Some(41));
    assert_eq!(metrics.mos_cq_tenths, Some(40));
    assert_eq!((metrics.receiver, metrics.buffer_ms), (0x30, 40));
    assert_eq!((metrics.buffer_max_ms, metrics.buffer_limit_ms), (60, 200));
    assert_eq!(blocks.next(), None);
}

#[test]
fn blocks_that_do_not_fit_end_the_list() {
    // The packet's length is always right; the blocks' lengths are wrong.
    for (at, byte) in [(11, 200), (23, 9), (23, 7), (22, 255)] {
        let mut bytes = extended();
        bytes[at] = byte;
        let rtcp = Compound::parse(&bytes).expect("blocks are not its affair");
        let Some(Rtcp::Extended(_, mut blocks)) = rtcp.packets().next() else {
            panic!("{rtcp:?}")
        };
        assert_eq!(blocks.next(), None, "{at}");
    }
    let bytes = extended();
    for length in 0..bytes.len() {
        assert!(Compound::parse(&bytes[..length]).is_err(), "{length}");
    }
}
