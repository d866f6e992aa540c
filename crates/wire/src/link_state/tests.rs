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

/// The second link carries 1300 bytes.
const USABLE: [u8; 5] = [1, 3, 1, 0x05, 0x14];

fn usable(options: &[u8]) -> Vec<(usize, u16)> {
    let body = with_options(options);
    LinkState::parse(&body).unwrap().usable().collect()
}

fn with_options(options: &[u8]) -> Vec<u8> {
    let mut buffer = [0; BODY_BYTES_MAX];
    let len = Repr { options, ..REPR }
        .emit(&mut buffer, |_| SIGNATURE)
        .unwrap();
    buffer[..len].to_vec()
}

#[test]
fn what_links_carry_agrees_both_ways() {
    let mut buffer = [0xa5; OPTIONS_BYTES_MAX];
    let mut w = Writer::new(&mut buffer);
    write_usable(&mut w, &[]).unwrap();
    assert!(w.is_empty());
    write_usable(&mut w, &[(1, 1_300)]).unwrap();
    assert_eq!(w.len(), 5);
    assert_eq!((&buffer[..5], buffer[5]), (&USABLE[..], 0xa5));
    assert_eq!(usable(&USABLE), [(1, 1_300)]);
    assert_eq!(usable(&[]), []);
    // An unknown option before it; a place that is no link, and more than others carry; half an entry.
    assert_eq!(usable(&[9, 0, 1, 3, 1, 0x05, 0x14]), [(1, 1_300)]);
    assert_eq!(usable(&[1, 6, 2, 0x05, 0x14, 1, 0x05, 0x9f]), []);
    assert_eq!(usable(&[1, 4, 0, 0x04, 0xb0, 1]), [(0, 1_200)]);
}

#[test]
fn of_many_small_links_the_smallest_are_told() {
    let links: Vec<(u8, u16)> = (0..96).map(|i| (i, 1_400 - u16::from(i))).collect();
    let mut buffer = [0; OPTIONS_BYTES_MAX];
    let mut w = Writer::new(&mut buffer);
    write_usable(&mut w, &links).unwrap();
    assert_eq!(w.len(), 2 + USABLE_ENTRIES_MAX * USABLE_ENTRY_BYTES);
    assert_eq!(buffer[2..5], [53, 0x05, 0x43]);
}

#[test]
fn capacities_are_told_of_the_narrowest_links_there_is_room_for() {
    let mut bytes = [0; OPTIONS_BYTES_MAX];
    let mut w = Writer::new(&mut bytes);
    write_capacities(&mut w, &[]).unwrap();
    assert!(w.is_empty());
    write_capacities(&mut w, &[(1, 20_000)]).unwrap();
    assert_eq!(w.written(), [2, 5, 1, 0, 0, 0x4e, 0x20]);

    let links: Vec<(u8, u32)> = (0..96)
        .map(|place| (place, 1_000 + u32::from(place)))
        .collect();
    let mut w = Writer::new(&mut bytes);
    write_usable(&mut w, &[(0, 1_300)]).unwrap();
    write_capacities(&mut w, &links).unwrap();
    let options = w.written().to_vec();
    let told: Vec<Link> = (0..96)
        .map(|i| Link {
            neighbor: NodeAddr(i),
            ..Link::default()
        })
        .collect();
    let repr = Repr {
        origin: NodeAddr(1),
        seq: RecordSeq(1),
        lifetime_s: 1,
        certificate_serial: 1,
        strikes: 0,
        links: &told,
        options: &options,
    };
    let mut body = [0; BODY_BYTES_MAX];
    let len = repr.emit(&mut body, |_| [0; SIGNATURE_BYTES]).unwrap();
    let state = LinkState::parse(&body[..len]).unwrap();
    let capacities: Vec<_> = state.capacities().collect();
    assert_eq!(capacities.len(), (160 - 5 - 2) / 5);
    assert_eq!(capacities[29], (29, 1_029));
    assert_eq!(state.usable().collect::<Vec<_>>(), [(0, 1_300)]);
}

/// The first link crosses 12 physical links, the second one.
const HOPS: [u8; 6] = [4, 4, 0, 12, 1, 1];

fn hops(options: &[u8]) -> Vec<(usize, u8)> {
    let body = with_options(options);
    let told = LinkState::parse(&body).unwrap().hops();
    told.map(|(place, hops)| (place, hops.get())).collect()
}

fn count(hops: u8) -> NonZeroU8 {
    NonZeroU8::new(hops).unwrap()
}

#[test]
fn physical_hops_agree_both_ways() {
    let mut buffer = [0xa5; OPTIONS_BYTES_MAX];
    let mut w = Writer::new(&mut buffer);
    write_hops(&mut w, &[]).unwrap();
    assert!(w.is_empty(), "a record without them stays as it was");
    write_hops(&mut w, &[(1, count(1)), (0, count(12))]).unwrap();
    assert_eq!(w.len(), HOPS.len());
    assert_eq!((&buffer[..6], buffer[6]), (&HOPS[..], 0xa5));
    assert_eq!(hops(&HOPS), [(0, 12), (1, 1)]);
    assert_eq!(hops(&[]), []);
    // No hops, no such link, and half an entry; after other options, and the maximum of a byte.
    assert_eq!(hops(&[4, 5, 0, 0, 2, 7, 1]), []);
    assert_eq!(hops(&[3, 5, 0, 0, 0, 0, 9, 4, 2, 1, 255]), [(1, 255)]);
    for cut in 1..HOPS.len() {
        let body = with_options(&HOPS[..cut]);
        assert_eq!(LinkState::parse(&body), Err(Malformed::Short), "{cut}");
    }
}

#[test]
fn of_more_hops_than_there_is_room_for_the_most_are_told() {
    let links: Vec<_> = (0..96).map(|place| (place, count(place + 1))).collect();
    for (used, told) in [(0, 79), (153, 2), (155, 1), (156, 1), (157, 0), (160, 0)] {
        let mut buffer = [0; OPTIONS_BYTES_MAX];
        let mut w = Writer::new(&mut buffer);
        w.put(&[0; OPTIONS_BYTES_MAX][..used]).unwrap();
        write_hops(&mut w, &links).unwrap();
        let written = &w.written()[used..];
        assert_eq!(written.len().saturating_sub(2) / 2, told, "{used} used");
        assert!(written.is_empty() == (told == 0));
        if let Some((last, _)) = written.as_chunks::<2>().0.split_last() {
            assert_eq!(*last, [95, 96]);
        }
    }
}

/// `0.1.0`.
const VERSION: [u8; 7] = [5, 5, 0x30, 0x2e, 0x31, 0x2e, 0x30];

fn version(options: &[u8]) -> Option<String> {
    let body = with_options(options);
    let told = LinkState::parse(&body).unwrap().version();
    told.map(str::to_owned)
}

#[test]
fn the_version_agrees_both_ways() {
    let mut buffer = [0xa5; OPTIONS_BYTES_MAX];
    let mut w = Writer::new(&mut buffer);
    write_version(&mut w, "0.1.0").unwrap();
    assert_eq!(w.len(), VERSION.len());
    assert_eq!((&buffer[..7], buffer[7]), (&VERSION[..], 0xa5));
    assert_eq!(version(&VERSION).as_deref(), Some("0.1.0"));
    assert_eq!(version(&[]), None, "an older node tells none");
    // After other options; the longest, and one byte more; an empty one, and one that is not printable.
    let behind = [&HOPS[..], &VERSION].concat();
    assert_eq!(version(&behind).as_deref(), Some("0.1.0"));
    let long = |bytes: u8| [&[5, bytes][..], &vec![b'7'; bytes.into()]].concat();
    assert_eq!(version(&long(24)), Some("7".repeat(24)));
    assert_eq!(version(&long(25)), None);
    assert_eq!(version(&[5, 0]), None);
    assert_eq!(version(&[5, 2, b'1', 0x1b]), None, "a terminal's escape");
    assert_eq!(version(&[5, 2, 0xc3, 0xa9]), None, "no ASCII");
    for cut in 1..VERSION.len() {
        let body = with_options(&VERSION[..cut]);
        assert_eq!(LinkState::parse(&body), Err(Malformed::Short), "{cut}");
    }
}

#[test]
fn a_version_is_told_whole_or_not_at_all() {
    let written = |used: usize, version: &str| {
        let mut buffer = [0; OPTIONS_BYTES_MAX];
        let mut w = Writer::new(&mut buffer);
        w.put(&[0; OPTIONS_BYTES_MAX][..used]).unwrap();
        write_version(&mut w, version).unwrap();
        w.written().len() - used
    };
    assert_eq!(written(OPTIONS_BYTES_MAX - 7, "0.1.0"), 7);
    assert_eq!(written(OPTIONS_BYTES_MAX - 6, "0.1.0"), 0);
    assert_eq!(written(0, &"7".repeat(24)), 26);
    assert_eq!(written(0, &"7".repeat(25)), 0);
    assert_eq!((written(0, ""), written(0, "1 0")), (0, 0));
}

#[test]
fn who_seals_says_so_with_its_boot() {
    let mut buffer = [0xa5; SEALS_BYTES + 1];
    let mut w = Writer::new(&mut buffer);
    write_seals(&mut w, 0xb007_0001).unwrap();
    assert_eq!(buffer, [8, 5, 1, 0xb0, 0x07, 0x00, 0x01, 0xa5]);
    let told = |options: &[u8]| {
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
        LinkState::parse(&body[..len]).unwrap().seals()
    };
    assert_eq!(told(&buffer[..7]), Some(0xb007_0001));
    assert_eq!(told(&[]), None);
    // Another version, and invalid lengths.
    assert_eq!(told(&[8, 5, 2, 0, 0, 0, 1]), None);
    assert_eq!(told(&[8, 4, 1, 0, 0, 0]), None);
    assert_eq!(told(&[8, 0]), None);
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

#[test]
fn who_counts_what_it_opens_says_so_where_there_is_room() {
    let mut buffer = [0xa5; 4];
    write_tallies(&mut Writer::new(&mut buffer)).unwrap();
    assert_eq!(buffer, [14, 1, 1, 0xa5]);
    let mut narrow = [0xa5; 2];
    write_tallies(&mut Writer::new(&mut narrow)).unwrap();
    assert_eq!(narrow, [0xa5; 2]);
    let told = |options: &[u8]| says(options, |state| state.tallies());
    assert!(told(&buffer[..3]));
    assert!(!told(&[]) && !told(&[14, 1, 2]) && !told(&[14, 0]));
}

#[test]
fn who_opens_what_is_sealed_for_groups_says_so_where_there_is_room() {
    let mut buffer = [0xa5; 4];
    write_group_keys(&mut Writer::new(&mut buffer)).unwrap();
    assert_eq!(buffer, [15, 1, 1, 0xa5]);
    let mut narrow = [0xa5; 2];
    write_group_keys(&mut Writer::new(&mut narrow)).unwrap();
    assert_eq!(narrow, [0xa5; 2]);
    let told = |options: &[u8]| says(options, |state| state.has_group_keys());
    assert!(told(&buffer[..3]));
    assert!(!told(&[]) && !told(&[15, 1, 2]) && !told(&[15, 0]));
    // However many links carry less, there is room for both.
    let links: Vec<(u8, u16)> = (0..96).map(|i| (i, 1_300)).collect();
    let mut options = [0; OPTIONS_BYTES_MAX];
    let mut w = Writer::new(&mut options);
    write_seals(&mut w, 7).unwrap();
    write_usable(&mut w, &links).unwrap();
    write_tallies(&mut w).unwrap();
    write_group_keys(&mut w).unwrap();
    assert!(says(w.written(), |state| state.tallies()
        && state.has_group_keys()));
}

#[test]
fn who_counts_what_comes_by_trees_says_so_where_there_is_room() {
    let mut buffer = [0xa5; 4];
    write_group_tallies(&mut Writer::new(&mut buffer)).unwrap();
    assert_eq!(buffer, [16, 1, 1, 0xa5]);
    let mut narrow = [0xa5; 2];
    write_group_tallies(&mut Writer::new(&mut narrow)).unwrap();
    assert_eq!(narrow, [0xa5; 2]);
    let told = |options: &[u8]| says(options, |state| state.tallies_groups());
    assert!(told(&buffer[..3]));
    assert!(!told(&[]) && !told(&[16, 1, 2]) && !told(&[16, 0]));
}

#[test]
fn neighbours_see_the_origin_at_endpoints_that_can_be_dialled() {
    let at = |last: u8, port: u16| {
        let mut ip = [0; 16];
        ip[10..12].fill(0xff);
        ip[12..].copy_from_slice(&[192, 0, 2, last]);
        Endpoint { ip, port }
    };
    let written = |used: usize, endpoints: &[Endpoint]| {
        let mut buffer = [0; OPTIONS_BYTES_MAX];
        let mut w = Writer::new(&mut buffer);
        w.put(&[0; OPTIONS_BYTES_MAX][..used]).unwrap();
        write_endpoints(&mut w, endpoints).unwrap();
        w.written()[used..].to_vec()
    };
    let option = written(0, &[at(7, 7700), at(8, 9)]);
    assert_eq!(option[..2], [10, 36]);
    assert_eq!(option[14..20], [192, 0, 2, 7, 0x1e, 0x14]);
    let told = |options: &[u8]| -> Vec<Endpoint> {
        LinkState::parse(&with_options(options))
            .unwrap()
            .endpoints()
            .collect()
    };
    assert_eq!(told(&option), [at(7, 7700), at(8, 9)]);
    assert_eq!(
        told(&written(0, &[at(7, 1), at(8, 2), at(9, 3)])),
        [at(7, 1), at(8, 2)]
    );
    assert_eq!(
        told(&written(0, &[at(7, 0), at(8, 2)])),
        [at(8, 2)],
        "port 0"
    );
    assert!(
        told(&[10, 0]).is_empty() && told(&[10, 3, 1, 2, 3]).is_empty() && told(&[]).is_empty()
    );
    assert!(written(0, &[]).is_empty());
    // An endpoint is written completely or not at all.
    assert_eq!(
        written(OPTIONS_BYTES_MAX - 20, &[at(7, 1), at(8, 2)]).len(),
        20
    );
    assert_eq!(written(OPTIONS_BYTES_MAX - 19, &[at(7, 1)]).len(), 0);
    for cut in 1..option.len() {
        let body = with_options(&option[..cut]);
        assert_eq!(LinkState::parse(&body), Err(Malformed::Short), "{cut}");
    }
}

#[test]
fn an_origin_tells_where_its_host_is() {
    let lan = Endpoint::of_ipv4([192, 168, 1, 7], 7700);
    let other = Endpoint::of_ipv4([10, 0, 0, 7], 7701);
    let ipv6 = {
        let mut ip = [0; 16];
        (ip[0], ip[1], ip[15]) = (0xfd, 7, 1);
        Endpoint { ip, port: 7700 }
    };
    let written = |used: usize, hosts: &[Endpoint]| {
        let mut buffer = [0; OPTIONS_BYTES_MAX];
        let mut w = Writer::new(&mut buffer);
        w.put(&[0; OPTIONS_BYTES_MAX][..used]).unwrap();
        write_hosts(&mut w, hosts).unwrap();
        w.written()[used..].to_vec()
    };
    let told = |options: &[u8]| -> Vec<Endpoint> {
        let body = with_options(options);
        LinkState::parse(&body).unwrap().hosts().collect()
    };
    let option = written(0, &[lan, ipv6, other, lan]);
    assert_eq!(option[..9], [19, 31, 2, 192, 168, 1, 7, 0x1e, 0x14]);
    assert_eq!(told(&option), [lan, other, ipv6], "three at most");
    assert_eq!(told(&written(0, &[ipv6])), [ipv6]);
    assert_eq!(told(&written(0, &[lan])), [lan]);
    assert!(written(0, &[]).is_empty() && told(&[]).is_empty());
    // All are written, and those that there is room for.
    let room = |bytes: usize| told(&written(OPTIONS_BYTES_MAX - bytes, &[ipv6, lan]));
    assert_eq!(room(27), [lan, ipv6]);
    assert_eq!((room(21), room(26)), (vec![ipv6], vec![ipv6]));
    assert_eq!((room(20), room(9), room(8)), (vec![lan], vec![lan], vec![]));
    // A count that exceeds the content makes the option void.
    let mut more = option.clone();
    more[2] = 6;
    assert!(told(&more).is_empty());
    assert!(told(&[19, 0]).is_empty() && told(&[19, 3, 0, 1, 2]).is_empty());
    // Nobody can dial these addresses.
    let nowhere = [[127, 0, 0, 1], [169, 254, 0, 1], [224, 0, 0, 1]];
    let nowhere = nowhere.map(|ip| Endpoint::of_ipv4(ip, 7700));
    assert!(told(&written(0, &nowhere)).is_empty());
}

#[test]
fn links_over_a_byte_stream_are_named_by_place() {
    let written = |used: usize, places: &[u8]| {
        let mut buffer = [0; OPTIONS_BYTES_MAX];
        let mut w = Writer::new(&mut buffer);
        w.put(&[0; OPTIONS_BYTES_MAX][..used]).unwrap();
        write_tunnels(&mut w, places).unwrap();
        w.written()[used..].to_vec()
    };
    assert_eq!(written(0, &[0, 1]), [12, 2, 0, 1]);
    assert!(written(0, &[]).is_empty());
    // Only as many as there is room for are written.
    assert_eq!(written(OPTIONS_BYTES_MAX - 3, &[0, 1]), [12, 1, 0]);
    assert!(written(OPTIONS_BYTES_MAX - 2, &[0, 1]).is_empty());
    let told = |options: &[u8]| -> Vec<usize> {
        LinkState::parse(&with_options(options))
            .unwrap()
            .tunnels()
            .collect()
    };
    let links = LinkState::parse(&with_options(&[])).unwrap().links().len();
    assert_eq!(told(&[12, 1, 0]), [0]);
    assert_eq!(told(&[12, 2, 0, links as u8]), [0], "no such link");
    assert!(told(&[]).is_empty() && told(&[12, 0]).is_empty());
    for cut in 1..3 {
        let body = with_options(&[12, 1, 0][..cut]);
        assert_eq!(LinkState::parse(&body), Err(Malformed::Short), "{cut}");
    }
}

#[test]
fn who_offers_itself_tells_which_links_it_keeps() {
    let written = |places: &[u8]| {
        let mut buffer = [0; OPTIONS_BYTES_MAX];
        let mut w = Writer::new(&mut buffer);
        write_offer(&mut w, places).unwrap();
        w.written().to_vec()
    };
    assert_eq!(written(&[]), [18, 1, 1]);
    assert_eq!(written(&[0]), [18, 2, 1, 1]);
    // 200 is not the place of a link.
    assert_eq!(written(&[9, 1, 200]), [18, 3, 1, 2, 2]);
    let mut narrow = [0xa5; 3];
    write_offer(&mut Writer::new(&mut narrow), &[0]).unwrap();
    assert_eq!(narrow, [0xa5; 3], "whole or not at all");
    // A node with many links that carry little still offers itself, and names all links that it keeps.
    let mut buffer = [0; OPTIONS_BYTES_MAX];
    let mut w = Writer::new(&mut buffer);
    write_seals(&mut w, 7).unwrap();
    let narrow: Vec<(u8, u16)> = (0..96).map(|i| (i, 1_300)).collect();
    write_usable(&mut w, &narrow).unwrap();
    write_tallies(&mut w).unwrap();
    write_group_keys(&mut w).unwrap();
    let (before, all) = (w.len(), (0..96).collect::<Vec<u8>>());
    write_offer(&mut w, &all).unwrap();
    assert_eq!(w.len() - before, 15);
    let told = |options: &[u8]| -> Option<Vec<usize>> {
        let body = with_options(options);
        let offer = LinkState::parse(&body).unwrap().offer();
        offer.map(Iterator::collect)
    };
    assert_eq!(told(&written(&[])), Some(vec![]));
    assert_eq!(told(&written(&[0])), Some(vec![0]));
    // The record has two links.
    assert_eq!(told(&[18, 3, 1, 0xff, 0xff]), Some(vec![0, 1]));
    assert!(told(&[]).is_none() && told(&[18, 0]).is_none() && told(&[18, 2, 2, 1]).is_none());
}

#[test]
fn alarms_are_told_by_their_bits_and_no_alarm_is_told_too() {
    let written = |room: usize, places: &[u8]| {
        let mut bytes = [0xa5; OPTIONS_BYTES_MAX];
        let mut w = Writer::new(&mut bytes[..room]);
        write_alarms(&mut w, places).unwrap();
        w.written().to_vec()
    };
    let read = |options: &[u8]| {
        let body = with_options(options);
        let alarms = LinkState::parse(&body).unwrap().alarms();
        alarms.map(Iterator::collect::<Vec<_>>)
    };
    assert_eq!(written(20, &[]), [13, 0]);
    assert_eq!(written(20, &[1]), [13, 1, 0x02]);
    assert_eq!(written(20, &[0, 9, 95])[..4], [13, 12, 0x01, 0x02]);
    assert_eq!(written(14, &[95])[13], 0x80);
    assert_eq!(written(20, &[96]), [13, 0], "no record has such a link");
    // Without room for all, nothing is written, so readers use the losses.
    assert_eq!(written(13, &[95]), []);
    assert_eq!(written(1, &[]), []);

    assert_eq!(read(&[]), None);
    assert_eq!(read(&[13, 0]), Some(vec![]));
    assert_eq!(read(&[13, 1, 0x03]), Some(vec![0, 1]));
    // The record has two links, and extra bits are not an error.
    assert_eq!(read(&[13, 2, 0xfe, 0xff]), Some(vec![1]));
    assert_eq!(
        read(&[&[13, 40][..], &[0xff; 40]].concat()),
        Some(vec![0, 1])
    );
}

#[test]
fn protections_are_told_for_most_links_at_once_and_by_place_for_the_others() {
    let of = Protection::new;
    // Independent losses, a repair packet per packet, and requests: this is a usual link.
    let usual = of(256, 16, true);
    assert_eq!(usual.to_byte(), 0b0101_1001);
    let written = |room: usize, links: &[(u8, Protection)]| {
        let mut bytes = [0xa5; OPTIONS_BYTES_MAX];
        let mut w = Writer::new(&mut bytes[..room]);
        write_protections(&mut w, links).unwrap();
        w.written().to_vec()
    };
    let read = |options: &[u8]| {
        let body = with_options(options);
        let told = LinkState::parse(&body).unwrap().protections();
        told.map(Iterator::collect::<Vec<_>>)
    };
    let bursts = of(1_024, 0, false);
    assert_eq!(bursts.to_byte(), 6);
    assert_eq!(written(20, &[]), []);
    assert_eq!(written(20, &[(0, usual), (1, usual)]), [17, 1, 0x59]);
    let two = [(2, bursts), (0, usual), (1, usual)];
    assert_eq!(written(20, &two), [17, 3, 0x59, 2, 6]);
    // If there are more than fit, the first ones are written.
    let third = of(512, 8, true);
    let more = [(7, third), (2, bursts), (0, usual), (1, usual)];
    assert_eq!(written(6, &more), [17, 3, 0x59, 7, 0x54]);
    assert_eq!(written(7, &more), [17, 5, 0x59, 2, 6, 7, 0x54]);
    assert_eq!(written(3, &more), [17, 1, 0x59]);
    assert_eq!(written(2, &more), []);
    let all: Vec<_> = (0..96)
        .map(|i| (i, of(if i < 48 { 256 } else { 512 }, i % 5 * 8, true)))
        .collect();
    assert!(written(OPTIONS_BYTES_MAX, &all).len() <= 3 + 2 * PROTECTION_ENTRIES_MAX);

    assert_eq!(read(&[]), None);
    assert_eq!(read(&[17, 0]), None);
    assert_eq!(read(&[17, 1, 0x59]), Some(vec![usual; 2]));
    assert_eq!(read(&[17, 3, 0x59, 1, 6]), Some(vec![usual, bursts]));
    // Half a pair, and places that the record does not have, are ignored.
    assert_eq!(read(&[17, 4, 0x59, 200, 6, 1]), Some(vec![usual; 2]));
    for cut in 1..5 {
        let body = with_options(&[17, 3, 0x59, 1, 6][..cut]);
        assert_eq!(LinkState::parse(&body), Err(Malformed::Short), "{cut}");
    }
}

#[test]
fn protections_are_rounded_to_what_can_be_told() {
    for byte in 0..=u8::MAX {
        assert_eq!(Protection::from_byte(byte).to_byte(), byte);
    }
    let queued = Protection::from_byte(0xc1);
    assert!(queued.is_queued() && !Protection::from_byte(0x41).is_queued());
    assert_eq!(queued, Protection::new(256, 0, true).with_queue(true));
    let run = |run| Protection::new(run, 0, false).run_256ths();
    assert_eq!(
        [0, 1, 256, 290, 310].map(run),
        [None, Some(256), Some(256), Some(256), Some(341)]
    );
    assert_eq!(
        [1_000, 1_400, u16::MAX].map(run),
        [Some(1_024), Some(1_536), Some(1_536)]
    );
    let repair = |per_16| Protection::new(0, per_16, false).repair_16ths();
    assert_eq!(
        [0, 3, 4, 15, 16, 31, 255].map(repair),
        [0, 0, 4, 8, 16, 16, 32]
    );
    // The meaning in a later version is not known here.
    assert_eq!(Protection::from_byte(0x38).repair_16ths(), 0);
}
