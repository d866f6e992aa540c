use super::*;
use proptest::prelude::*;

const VECTOR: [u8; HEADER_BYTES] = [
    0x5d, 0x20, 0x02, 0x8a, // real-time, expected latency, priority 5; ttl 32; 65 ms
    10, 7, 0, 3, //
    10, 7, 0, 9, //
    0x13, 0x88, 0x00, 0x07, //
    0x01, 0x02, 0x03, 0x04, //
    0xab, 0xcd, 0xef,
];

const REPR: Repr = Repr {
    class: Class {
        link: LinkProtocol::RealTime,
        routing: Routing::ExpectedLatency,
        priority: 5,
    },
    ttl: 32,
    has_extension: false,
    congested: false,
    recovered: false,
    has_transport: false,
    remaining: Remaining(650),
    source: NodeAddr(0x0a07_0003),
    destination: NodeAddr(0x0a07_0009),
    source_port: VirtualPort(5000),
    destination_port: VirtualPort(7),
    flow_seq: FlowSeq(0x0102_0304),
    lane_seq: LaneSeq(0x00ab_cdef),
};

fn stamped(payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0xa5; HEADER_BYTES];
    let class = Class {
        routing: Routing::Stamped,
        ..REPR.class
    };
    let repr = Repr {
        class,
        has_extension: true,
        ..REPR
    };
    repr.emit(&mut packet).unwrap();
    packet.extend([0, 3, 1, 2, 3]);
    packet.extend(payload);
    packet
}

#[test]
fn bytes_and_values_agree_both_ways() {
    let mut packet = [0xa5; HEADER_BYTES + 2];
    assert_eq!(REPR.emit(&mut packet), Ok(()));
    assert_eq!(packet[..HEADER_BYTES], VECTOR);
    assert_eq!(packet[HEADER_BYTES..], [0xa5, 0xa5]);
    let header = Header::parse(&packet[..]).unwrap();
    assert_eq!(header.repr(), REPR);
    assert_eq!(header.payload(), [0xa5, 0xa5]);
    assert_eq!(header.extension(), None);
}

#[test]
fn every_truncation_is_short() {
    for cut in 0..HEADER_BYTES {
        assert_eq!(
            Header::parse(&VECTOR[..cut]).unwrap_err(),
            Malformed::Short,
            "{cut}"
        );
        assert_eq!(REPR.emit(&mut [0; HEADER_BYTES][..cut]), Err(Full), "{cut}");
    }
    let packet = stamped(&[]);
    for cut in 0..packet.len() {
        assert_eq!(
            Header::parse(&packet[..cut]).unwrap_err(),
            Malformed::Short,
            "{cut}"
        );
    }
    assert!(Header::parse(&packet).is_ok());
}

#[test]
fn an_extension_stands_between_header_and_payload() {
    let packet = stamped(b"voice");
    let header = Header::parse(&packet).unwrap();
    assert_eq!(header.extension(), Some(&[1, 2, 3][..]));
    assert_eq!(header.payload(), b"voice");
    assert_eq!(header.class().routing, Routing::Stamped);
}

#[test]
fn reserved_classes_and_a_stamp_that_is_missing_are_refused() {
    let mut packet = VECTOR;
    for reserved in [0b10_110_000, 0b11_110_000] {
        packet[0] = reserved;
        assert_eq!(
            Header::parse(&packet[..]).unwrap_err(),
            Malformed::Value,
            "{reserved:#b}"
        );
    }
    packet[0] = 0b00_111_000;
    assert_eq!(Header::parse(&packet[..]).unwrap_err(), Malformed::Value);
}

#[test]
fn a_transport_header_is_payload_like_any_other() {
    let mut packet = VECTOR;
    packet[1] |= 0x40;
    let header = Header::parse(&packet[..]).unwrap();
    assert!(header.has_transport());
    assert_eq!(header.ttl(), 32);
}

#[test]
fn a_hop_changes_its_own_fields_and_no_others() {
    let mut packet = stamped(b"voice");
    let before = packet.clone();
    let mut header = Header::parse(&mut packet).unwrap();
    header.set_ttl(header.ttl() - 1);
    header.set_remaining(header.remaining().minus(base::Duration::from_millis(15)));
    header.set_lane_seq(LaneSeq::of(0x0100_0001));
    assert_eq!((header.ttl(), header.remaining()), (31, Remaining(500)));
    assert!(header.has_extension(), "flags stay");
    let changed: Vec<usize> = (0..before.len())
        .filter(|&i| packet[i] != before[i])
        .collect();
    assert_eq!(changed, [1, 2, 3, 20, 21, 22]);
}

#[test]
fn the_fixed_part_stays_under_48_bytes() {
    assert_eq!(HEADROOM + crate::TAG_BYTES, 47);
}

#[test]
fn lane_numbers_wrap_at_24_bits() {
    assert_eq!(LaneSeq::new(0x00ff_ffff).plus(1), LaneSeq::new(0));
    assert_eq!(LaneSeq::of(0x0100_0002).widen(0x00ff_fff0), 0x0100_0002);
    assert_eq!(FlowSeq::of(0x1_0000_0002).widen(0xffff_fff0), 0x1_0000_0002);
}

prop_compose! {
    fn repr()(
        class in any::<u8>().prop_filter_map("reserved", |b| Class::from_byte(b).ok()),
        ttl in 0..=TTL_MAX, (marked, has_transport) in any::<(bool, bool)>(), remaining: u16,
        nodes: (u32, u32), ports: (u16, u16), flow: u32, lane: u32,
    ) -> Repr {
        Repr {
            class, ttl, has_transport,
            congested: marked && class.link == LinkProtocol::Reliable,
            recovered: marked && class.link == LinkProtocol::RealTime,
            has_extension: class.routing == Routing::Stamped,
            remaining: Remaining(remaining),
            source: NodeAddr(nodes.0), destination: NodeAddr(nodes.1),
            source_port: VirtualPort(ports.0), destination_port: VirtualPort(ports.1),
            flow_seq: FlowSeq(flow), lane_seq: LaneSeq::new(lane),
        }
    }
}

proptest! {
    #[test]
    fn headers_round_trip(repr in repr()) {
        let mut packet = [0xa5; HEADER_BYTES + EXTENSION_LENGTH_BYTES];
        packet[HEADER_BYTES..].fill(0);
        repr.emit(&mut packet).unwrap();
        prop_assert_eq!(Header::parse(&packet[..]).unwrap().repr(), repr);
    }

    #[test]
    fn what_parses_is_written_back_byte_for_byte(mut bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(header) = Header::parse(&bytes) {
            let repr = header.repr();
            let before = bytes.clone();
            bytes[..HEADER_BYTES].fill(0xa5);
            repr.emit(&mut bytes).unwrap();
            prop_assert_eq!(bytes, before);
        }
    }
}

#[test]
fn congestion_is_a_mark_on_reliable_packets_only() {
    for link in LinkProtocol::ALL {
        let class = Class { link, ..REPR.class };
        let mut packet = [0; HEADER_BYTES];
        Repr { class, ..REPR }.emit(&mut packet).unwrap();
        let mut header = Header::parse(&mut packet[..]).unwrap();
        assert!(!header.is_congested());
        header.set_congested();
        header.set_congested();
        let reliable = link == LinkProtocol::Reliable;
        assert_eq!(header.is_congested(), reliable);
        assert_eq!(header.class(), class);
        assert_eq!(header.class_byte(), class.to_byte());
        let repr = Repr {
            class,
            congested: reliable,
            ..REPR
        };
        assert_eq!(header.repr(), repr);
        let parsed = Header::parse(&packet[..]).unwrap();
        assert_eq!((parsed.is_congested(), parsed.class()), (reliable, class));
    }
}

#[test]
fn recovery_is_a_mark_on_real_time_packets_only() {
    for byte in 0..=255 {
        let Ok(class) = Class::from_byte(byte) else {
            continue;
        };
        let repr = Repr { class, ..REPR };
        let mut packet = [0; HEADER_BYTES + EXTENSION_LENGTH_BYTES];
        let has_extension = class.routing == Routing::Stamped;
        Repr {
            has_extension,
            ..repr
        }
        .emit(&mut packet)
        .unwrap();
        let mut header = Header::parse(&mut packet[..]).unwrap();
        assert!(!header.is_recovered());
        header.set_recovered();
        header.set_recovered();
        let (recovered, congested) = (class.link == LinkProtocol::RealTime, header.is_congested());
        assert!(!congested);
        header.set_congested();
        assert_eq!(header.is_congested(), class.link == LinkProtocol::Reliable);
        let parsed = Header::parse(&packet[..]).unwrap();
        assert_eq!((parsed.is_recovered(), parsed.class()), (recovered, class));
        assert_eq!(parsed.class_byte(), byte);
    }
}

#[test]
fn a_recovered_packet_has_the_codes_that_were_free() {
    let marked = |routing| {
        let mut packet = VECTOR;
        let class = Class {
            routing,
            ..REPR.class
        };
        let mut header = Header::trusted(&mut packet[..]);
        header.set_class(class);
        header.set_recovered();
        packet[0]
    };
    assert_eq!(
        Routing::ALL.map(marked),
        [
            0b00_101_101,
            0b01_101_101,
            0b10_101_101,
            0b11_101_101,
            0b00_110_101,
            0b01_110_101
        ]
    );
    let mut packet = VECTOR;
    packet[0] = 0xed;
    let recovered = Repr {
        recovered: true,
        ..REPR
    };
    assert_eq!(Header::parse(&packet[..]).unwrap().repr(), recovered);
    let mut written = [0; HEADER_BYTES];
    recovered.emit(&mut written).unwrap();
    assert_eq!(written, packet);
}

#[test]
fn what_an_end_seals_of_the_header_is_what_no_hop_changes() {
    let mut packet = [0_u8; HEADER_BYTES + 4];
    for (i, byte) in packet.iter_mut().enumerate() {
        *byte = i as u8;
    }
    packet[0] = 0x5d;
    packet[1] = 0x20;
    let before = Header::trusted(&packet[..]).bound();
    assert_eq!(before[..], packet[4..20]);
    let mut header = Header::trusted(&mut packet[..]);
    header.set_ttl(3);
    header.set_remaining(Remaining(7));
    header.set_lane_seq(LaneSeq::new(9));
    header.set_recovered();
    header.set_transport(true);
    assert!(header.has_transport() && header.ttl() == 3);
    assert_eq!(header.bound(), before);
    header.set_transport(false);
    assert!(!header.has_transport() && header.ttl() == 3);
}
