use super::*;
use proptest::prelude::*;

const FRAGMENT_VECTOR: [u8; FRAGMENT_BYTES + 3] = [
    1, 0, 0x05, 0x66, 0x01, 0x02, 0x03, 0x04, 0xff, 0xe3, 0xaa, 0xbb, 0xcc,
];
const FRAGMENT_VALUE: Fragment = Fragment {
    offset: 0x0566,
    id: 0x0102_0304,
    total: 65_507,
};

#[rustfmt::skip]
const SEGMENT_VECTOR: [u8; SEGMENT_BYTES + 2 * RANGE_BYTES + 2] = [
    2, 0x4c, 2, 0,
    0xca, 0xfe, 0x00, 0x01,
    0x00, 0x00, 0x05, 0x10,
    0xff, 0xff, 0xff, 0xf0,
    0x00, 0x04, 0x00, 0x00,
    0x01, 0x02, 0x03, 0x04,
    0x05, 0x06, 0x07, 0x08,
    0x00, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x20,
    0x00, 0x00, 0x00, 0x30, 0x00, 0x00, 0x00, 0x40,
    b'h', b'i',
];
const SEGMENT_VALUE: Segment = Segment {
    flags: Flags::ACK.with(Flags::CONGESTED).with(Flags::MESSAGES),
    reason: None,
    connection: 0xcafe_0001,
    offset: 0x510,
    acknowledged: 0xffff_fff0,
    window: 0x4_0000,
    stamp_us: 0x0102_0304,
    echo_us: 0x0506_0708,
    ticket: None,
    takes_early: false,
};
/// An opening with a ticket that carries bytes.
#[rustfmt::skip]
const EARLY_VECTOR: [u8; SEGMENT_BYTES + TICKET_BYTES + 2] = [
    2, 0x80, 0, 1,
    0xca, 0xfe, 0x00, 0x01,
    0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x01,
    0x00, 0x02, 0x00, 0x00,
    0x01, 0x02, 0x03, 0x04,
    0x00, 0x00, 0x00, 0x00,
    0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x00, 0x00, 0x00, 0x07,
    b'h', b'i',
];
const EARLY_VALUE: Segment = Segment {
    flags: Flags::SYN,
    reason: None,
    connection: 0xcafe_0001,
    offset: 0,
    acknowledged: 1,
    window: 0x2_0000,
    stamp_us: 0x0102_0304,
    echo_us: 0,
    ticket: Some(Ticket {
        secret: 0x1122_3344_5566_7788,
        number: 7,
    }),
    takes_early: false,
};
const RANGES: [Range; 2] = [(0x10, 0x20), (0x30, 0x40)];

#[test]
fn fragments_agree_with_their_bytes_both_ways() {
    let (fragment, bytes) = Fragment::parse(&FRAGMENT_VECTOR).unwrap();
    assert_eq!(fragment, FRAGMENT_VALUE);
    assert_eq!(bytes, [0xaa, 0xbb, 0xcc]);
    let mut written = [0xa5; FRAGMENT_BYTES];
    FRAGMENT_VALUE.emit(&mut written).unwrap();
    assert_eq!(written, FRAGMENT_VECTOR[..FRAGMENT_BYTES]);
    assert_eq!(Kind::of(&FRAGMENT_VECTOR), Ok(Kind::Fragment));
}

#[test]
fn truncated_fragments_are_short_and_wrong_ones_refused() {
    for cut in 0..=FRAGMENT_BYTES {
        let short = Fragment::parse(&FRAGMENT_VECTOR[..cut]);
        assert_eq!(short, Err(Malformed::Short), "{cut}");
    }
    for cut in 0..FRAGMENT_BYTES {
        let full = FRAGMENT_VALUE.emit(&mut [0; FRAGMENT_BYTES][..cut]);
        assert_eq!(full, Err(Full), "{cut}");
    }
    let mut beyond = FRAGMENT_VECTOR;
    beyond[2..4].copy_from_slice(&65_505u16.to_be_bytes());
    assert_eq!(Fragment::parse(&beyond), Err(Malformed::Length));
    let mut reserved = FRAGMENT_VECTOR;
    reserved[1] = 1;
    assert_eq!(Fragment::parse(&reserved), Err(Malformed::Value));
    assert_eq!(Fragment::parse(&SEGMENT_VECTOR), Err(Malformed::Kind));
}

#[test]
fn openings_with_bytes_agree_with_theirs_both_ways() {
    let parsed = Segment::parse(&EARLY_VECTOR).unwrap();
    assert_eq!(parsed.segment, EARLY_VALUE);
    assert!(parsed.segment.calls() && parsed.segment.asks_for_ticket());
    assert_eq!(parsed.bytes, b"hi");
    assert_eq!(parsed.header_bytes(), SEGMENT_BYTES + TICKET_BYTES);
    let mut written = [0xa5; EARLY_VECTOR.len()];
    let len = EARLY_VALUE.emit(&[], &mut written).unwrap();
    assert_eq!(written[..len], EARLY_VECTOR[..len]);
    for cut in 0..len {
        assert_eq!(Segment::parse(&EARLY_VECTOR[..cut]), Err(Malformed::Short));
        let full = EARLY_VALUE.emit(&[], &mut [0; EARLY_VECTOR.len()][..cut]);
        assert_eq!(full, Err(Full), "{cut}");
    }
    // Only a segment that opens a connection, or its answer, has a ticket, and only the answer accepts the bytes that
    // came with it.
    for (flags, early, is_right) in [
        (0xc0, 1, true),
        (0xc0, 2, true),
        (0xc0, 3, true),
        (0x80, 2, false),
        (0x80, 3, false),
        (0x40, 1, false),
        (0x40, 2, false),
        (0xc0, 4, false),
    ] {
        let mut bytes = EARLY_VECTOR;
        (bytes[1], bytes[3]) = (flags, early);
        let parsed = Segment::parse(&bytes);
        assert_eq!(parsed.is_ok(), is_right, "{flags:#x} {early}");
    }
}

#[test]
fn segments_agree_with_their_bytes_both_ways() {
    let parsed = Segment::parse(&SEGMENT_VECTOR).unwrap();
    assert_eq!(parsed.segment, SEGMENT_VALUE);
    assert!(parsed.ranges().eq(RANGES));
    assert_eq!(parsed.bytes, b"hi");
    let mut written = [0xa5; SEGMENT_VECTOR.len()];
    let len = SEGMENT_VALUE.emit(&RANGES, &mut written).unwrap();
    assert_eq!(len, parsed.header_bytes());
    assert_eq!(written[..len], SEGMENT_VECTOR[..len]);
    assert_eq!(written[len..], [0xa5; 2]);
    assert_eq!(Kind::of(&SEGMENT_VECTOR), Ok(Kind::Segment));
}

/// The example of docs/wire.md for two runs of expired messages.
#[rustfmt::skip]
const EXPIRED_VECTOR: [u8; SEGMENT_BYTES + 2 * RANGE_BYTES] = [
    2, 0x41, 2, 0,
    0xca, 0xfe, 0x00, 0x01,
    0x00, 0x00, 0x05, 0x10,
    0x00, 0x00, 0x00, 0x07,
    0x00, 0x04, 0x00, 0x00,
    0x01, 0x02, 0x03, 0x04,
    0x05, 0x06, 0x07, 0x08,
    0x00, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x20,
    0x00, 0x00, 0x00, 0x30, 0x00, 0x00, 0x00, 0x40,
];

#[test]
fn what_has_expired_agrees_with_its_bytes_both_ways() {
    let value = Segment {
        flags: Flags::ACK.with(Flags::EXPIRES),
        acknowledged: 7,
        ..SEGMENT_VALUE
    };
    let parsed = Segment::parse(&EXPIRED_VECTOR).unwrap();
    assert_eq!(parsed.segment, value);
    assert!(parsed.tells_expired() && parsed.ranges().eq(RANGES));
    let mut written = [0xa5; EXPIRED_VECTOR.len()];
    let len = value.emit(&RANGES, &mut written).unwrap();
    assert_eq!(written[..len], EXPIRED_VECTOR);
    for cut in 0..EXPIRED_VECTOR.len() {
        let short = Segment::parse(&EXPIRED_VECTOR[..cut]);
        assert_eq!(short, Err(Malformed::Short), "{cut}");
    }
    let mut none = EXPIRED_VECTOR;
    none[2] = 0;
    assert_eq!(Segment::parse(&none), Err(Malformed::Value), "no range");
    let mut begins = EXPIRED_VECTOR;
    begins[1] = 0xc5;
    assert!(!Segment::parse(&begins).unwrap().tells_expired());
}

#[test]
fn truncated_segments_are_short_and_wrong_ones_refused() {
    let header = SEGMENT_VECTOR.len() - 2;
    for cut in 0..header {
        let short = Segment::parse(&SEGMENT_VECTOR[..cut]);
        assert_eq!(short, Err(Malformed::Short), "{cut}");
        let full = SEGMENT_VALUE.emit(&RANGES, &mut [0; SEGMENT_VECTOR.len()][..cut]);
        assert_eq!(full, Err(Full), "{cut}");
    }
    let changed = |at: usize, value: u8| {
        let mut bytes = SEGMENT_VECTOR;
        bytes[at] = value;
        Segment::parse(&bytes).map(|parsed| parsed.segment)
    };
    assert_eq!(changed(0, 3), Err(Malformed::Kind));
    assert_eq!(
        changed(1, 0x81),
        Err(Malformed::Value),
        "bytes do not expire"
    );
    assert_eq!(changed(1, 0x41), Err(Malformed::Length), "X with bytes");
    assert!(changed(1, 0xc5).is_ok(), "messages that expire");
    assert_eq!(changed(3, 1), Err(Malformed::Value), "a reason without R");
    assert_eq!(
        changed(1, 0x10),
        Err(Malformed::Value),
        "R without a reason"
    );
    assert_eq!(changed(2, 17), Err(Malformed::Count));
    let many = [(0, 0); RANGES_MAX + 1];
    assert_eq!(SEGMENT_VALUE.emit(&many, &mut [0; 400]), Err(Full));
    assert_eq!(Kind::of(&[]), Err(Malformed::Short));
    assert_eq!(Kind::of(&[0]), Err(Malformed::Kind));
}

proptest! {
    #[test]
    fn what_parses_is_written_back_byte_for_byte(mut bytes: Vec<u8>, ranges in 0u8..17, kind in 1u8..3) {
        bytes.resize(bytes.len() + SEGMENT_BYTES, 7);
        bytes[0] = kind;
        bytes[2] = ranges;
        if let Ok(parsed) = Segment::parse(&bytes) {
            let told: Vec<Range> = parsed.ranges().collect();
            let mut written = vec![0xa5; bytes.len()];
            let len = parsed.segment.emit(&told, &mut written).unwrap();
            prop_assert_eq!(&written[..len], &bytes[..len]);
            prop_assert_eq!(parsed.bytes, &bytes[len..]);
        }
        if let Ok((fragment, rest)) = Fragment::parse(&bytes) {
            let mut written = vec![0xa5; FRAGMENT_BYTES];
            fragment.emit(&mut written).unwrap();
            prop_assert_eq!(written, &bytes[..FRAGMENT_BYTES]);
            prop_assert_eq!(rest, &bytes[FRAGMENT_BYTES..]);
        }
    }
}

#[test]
fn what_ends_have_sealed_is_of_a_kind_of_its_own() {
    use crate::link;
    for kind in link::Kind::ALL {
        assert_eq!(Kind::of(&[kind.byte(), 0, 0]), Ok(Kind::End(kind)));
    }
    for byte in [0x00, 0x07, 0x16, 0x1a, 0x28] {
        assert_eq!(Kind::of(&[byte]), Err(Malformed::Kind));
    }
}
