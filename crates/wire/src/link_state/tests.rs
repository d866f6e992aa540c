mod of_links;
mod of_origins;

use super::*;
use crate::control::{Builder, Message, Messages};
use crate::link::SEAL_BYTES;
use crate::record::Record;
use proptest::prelude::*;

const UNSIGNED: [u8; 16 + 20 + 7] = [
    10, 7, 0, 3, 0, 0, 0, 42, 0x0e, 0x10, 0, 0, 0, 5, 0, 2, //
    10, 7, 0, 4, 0x00, 0x75, 0x30, 0x0c, 0xcd, 0, //
    10, 7, 0, 5, 0xff, 0xff, 0xff, 0xff, 0xff, 3, //
    0x11, 0, // an option without a value
    0x12, 3, 1, 2, 3, //
];

const LINKS: [Link; 2] = [
    Link {
        neighbor: NodeAddr(0x0a07_0004),
        latency: Latency::from_micros(30_000),
        loss: Loss(0x0ccd),
        availability: Availability::STEADY,
    },
    Link {
        neighbor: NodeAddr(0x0a07_0005),
        latency: Latency::MAX,
        loss: Loss::ALL,
        availability: Availability(3),
    },
];

const REPR: Repr<'static> = Repr {
    origin: NodeAddr(0x0a07_0003),
    seq: RecordSeq(42),
    lifetime_s: 3600,
    certificate_serial: 5,
    strikes: 0,
    links: &LINKS,
    options: &[0x11, 0, 0x12, 3, 1, 2, 3],
};

/// The first link crosses 12 physical links, the second one.
const HOPS: [u8; 6] = [4, 4, 0, 12, 1, 1];

const SIGNATURE: [u8; SIGNATURE_BYTES] = [0x5a; SIGNATURE_BYTES];

fn body() -> Vec<u8> {
    [UNSIGNED.as_slice(), &SIGNATURE].concat()
}

fn repr<'a>(view: &LinkState<'a>, links: &'a [Link]) -> Repr<'a> {
    Repr {
        origin: view.origin,
        seq: view.seq,
        lifetime_s: view.lifetime_s,
        certificate_serial: view.certificate_serial,
        strikes: view.strikes,
        links,
        options: view.options,
    }
}

#[test]
fn bytes_and_values_agree_both_ways() {
    let mut buffer = [0xa5; 200];
    let mut signed = Vec::new();
    let sign = |bytes: &[u8]| {
        signed = bytes.to_vec();
        SIGNATURE
    };
    let len = REPR.emit(&mut buffer, sign).unwrap();
    assert_eq!(len, REPR.body_bytes());
    assert_eq!(buffer[..len], body());
    assert_eq!(buffer[len], 0xa5);
    assert_eq!(signed, UNSIGNED);

    let body = body();
    let view = LinkState::parse(&body).unwrap();
    assert_eq!(repr(&view, &LINKS), REPR);
    assert_eq!(view.links().collect::<Vec<_>>(), LINKS);
    assert_eq!(view.signed_bytes(), UNSIGNED);
    assert_eq!(view.signature(), &SIGNATURE);
    assert_eq!(view.body(), body);
    assert_eq!(view.key().to_bytes(), [1, 10, 7, 0, 3, 0, 0, 0, 42]);
}

#[test]
fn unknown_options_are_kept_and_critical_ones_refuse_the_record() {
    let mut body = body();
    let options: Vec<_> = LinkState::parse(&body).unwrap().options().collect();
    let expected = [(0x11, &[][..]), (0x12, &[1, 2, 3])];
    assert_eq!(options, expected.map(|(kind, value)| Opt { kind, value }));
    body[36] |= CRITICAL;
    assert_eq!(LinkState::parse(&body), Err(Malformed::Critical));
}

#[test]
fn truncated_inside_the_structure_is_short() {
    // The unsigned part may end after the links, and after each option.
    let ends = [36, 38, 43];
    for cut in 0..UNSIGNED.len() {
        let truncated = [&UNSIGNED[..cut], &SIGNATURE].concat();
        let outcome = LinkState::parse(&truncated).map(|_| ());
        let expected = if ends.contains(&cut) {
            Ok(())
        } else {
            Err(Malformed::Short)
        };
        assert_eq!(outcome, expected, "{cut}");
    }
}

#[test]
fn truncated_at_the_end_the_signature_is_not_what_was_signed() {
    let body = body();
    for cut in 0..body.len() {
        if let Ok(view) = LinkState::parse(&body[..cut]) {
            assert_ne!(view.signed_bytes(), UNSIGNED, "{cut}");
        }
    }
}

#[test]
fn limits_hold_both_ways() {
    let links = [Link::default(); LINKS_MAX + 1];
    let options = [1; OPTIONS_BYTES_MAX + 1];
    let emit = |count: usize, options_bytes: usize| {
        let repr = Repr {
            links: &links[..count],
            options: &options[..options_bytes],
            ..REPR
        };
        let mut buffer = [0; 2000];
        let len = repr.emit(&mut buffer, |_| SIGNATURE)?;
        Ok(buffer[..len].to_vec())
    };
    assert_eq!(
        emit(LINKS_MAX, OPTIONS_BYTES_MAX).map(|body| body.len()),
        Ok(BODY_BYTES_MAX)
    );
    assert_eq!(emit(LINKS_MAX + 1, 0), Err(Full));
    assert_eq!(emit(0, OPTIONS_BYTES_MAX + 1), Err(Full));

    let mut body = emit(LINKS_MAX, 0).unwrap();
    body[15] += 1;
    assert_eq!(LinkState::parse(&body), Err(Malformed::Count));
    let mut body = emit(0, OPTIONS_BYTES_MAX - 1).unwrap();
    assert!(LinkState::parse(&body).is_ok(), "53 options of 3 bytes");
    body.splice(16..16, [1, 0]);
    assert_eq!(LinkState::parse(&body), Err(Malformed::Count));
}

#[test]
fn a_buffer_that_is_too_small_is_full() {
    for room in 0..REPR.body_bytes() {
        assert_eq!(
            REPR.emit(&mut [0; 200][..room], |_| SIGNATURE),
            Err(Full),
            "{room}"
        );
    }
}

#[test]
fn options_are_written_whole_or_not_at_all() {
    const OPTION: Opt<'_> = Opt {
        kind: 0x12,
        value: &[1, 2, 3],
    };
    for room in 0..=5 {
        let mut buffer = [0xa5; 5];
        let outcome = write_option(&mut Writer::new(&mut buffer[..room]), OPTION);
        let expected = if room < 5 {
            (Err(Full), [0xa5; 5])
        } else {
            (Ok(()), [0x12, 3, 1, 2, 3])
        };
        assert_eq!((outcome, buffer), expected, "room of {room}");
    }
    let long = Opt {
        value: &[0; 256],
        ..OPTION
    };
    assert_eq!(
        write_option(&mut Writer::new(&mut [0; 300]), long),
        Err(Full)
    );
}

/// [Amir06 §III-A] packs many link updates into one packet; the goal of the project is 60 at degree 8.
#[test]
fn a_datagram_of_1400_bytes_carries_at_least_60_links_of_degree_8() {
    const DEGREE: u32 = 8;
    let mut plaintext = [0xa5; 1400 - SEAL_BYTES];
    let mut builder = Builder::new(&mut plaintext);
    let record = |origin: u32| {
        let links: Vec<_> = (1..=DEGREE)
            .map(|i| Link {
                neighbor: NodeAddr(origin + i),
                ..LINKS[0]
            })
            .collect();
        let repr = Repr {
            origin: NodeAddr(origin),
            links: &links,
            options: &[],
            ..REPR
        };
        let mut body = vec![0; repr.body_bytes()];
        repr.emit(&mut body, |_| SIGNATURE).unwrap();
        body
    };
    for origin in 0.. {
        let record = Record {
            kind: RecordKind::LINK_STATE,
            age_s: 1,
            body: &record(origin),
        };
        if builder.record(&record).is_err() {
            break;
        }
    }
    let len = builder.len();
    let links: usize = Messages::new(&plaintext[..len])
        .map(|message| match message {
            Ok(Message::Records(records)) => records
                .iter()
                .map(|r| LinkState::parse(r.body).unwrap().links().len())
                .sum::<usize>(),
            other => panic!("other message: {other:?}"),
        })
        .sum();
    assert_eq!(links, 64, "8 records of 165 bytes");
}

prop_compose! {
    fn link()(neighbor: u32, latency in 0u32..1 << 24, loss: u16, availability: u8) -> Link {
        Link {
            neighbor: NodeAddr(neighbor),
            latency: Latency::from_micros(latency),
            loss: Loss(loss),
            availability: Availability(availability),
        }
    }
}

proptest! {
    #[test]
    fn bodies_round_trip(
        links in proptest::collection::vec(link(), 0..20),
        options in proptest::collection::vec((0u8..128, proptest::collection::vec(any::<u8>(), 0..20)), 0..5),
        numbers: (u32, u32, u16, u32, u8),
    ) {
        let mut buffer = [0xa5; OPTIONS_BYTES_MAX];
        let mut w = Writer::new(&mut buffer);
        for (kind, value) in &options {
            write_option(&mut w, Opt { kind: *kind, value }).unwrap();
        }
        let wanted = Repr {
            origin: NodeAddr(numbers.0), seq: RecordSeq(numbers.1), lifetime_s: numbers.2,
            certificate_serial: numbers.3, strikes: numbers.4, links: &links, options: w.written(),
        };
        let mut body = [0xa5; BODY_BYTES_MAX];
        let len = wanted.emit(&mut body, |_| SIGNATURE).unwrap();
        let view = LinkState::parse(&body[..len]).unwrap();
        prop_assert_eq!(repr(&view, &links), wanted);
        prop_assert_eq!(view.links().collect::<Vec<_>>(), links.clone());
        let read: Vec<_> = view.options().map(|o| (o.kind, o.value.to_vec())).collect();
        prop_assert_eq!(read, options);
    }

    #[test]
    fn what_parses_is_written_back_byte_for_byte(
        mut bytes in proptest::collection::vec(any::<u8>(), 80..140), count in 0u8..5,
    ) {
        bytes[15] = count;
        if let Ok(view) = LinkState::parse(&bytes) {
            let links: Vec<_> = view.links().collect();
            let mut written = [0xa5; 140];
            let len = repr(&view, &links).emit(&mut written, |_| *view.signature()).unwrap();
            prop_assert_eq!(&written[..len], &bytes[..]);
        }
    }
}

fn with_options(options: &[u8]) -> Vec<u8> {
    let mut buffer = [0; BODY_BYTES_MAX];
    let len = Repr { options, ..REPR }
        .emit(&mut buffer, |_| SIGNATURE)
        .unwrap();
    buffer[..len].to_vec()
}

/// Returns what a record with these options reports.
fn says(options: &[u8], what: impl Fn(&LinkState<'_>) -> bool) -> bool {
    let mut body = [0; BODY_BYTES_MAX];
    let repr = Repr {
        origin: NodeAddr(1),
        seq: RecordSeq(1),
        lifetime_s: 900,
        certificate_serial: 1,
        strikes: 0,
        links: &[],
        options,
    };
    let len = repr.emit(&mut body, |_| [0; SIGNATURE_BYTES]).unwrap();
    what(&LinkState::parse(&body[..len]).unwrap())
}
