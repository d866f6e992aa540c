//! Options that say something of an origin's links: what they carry, their hops, their faults and their protection.

use super::*;

/// The second link carries 1300 bytes.
const USABLE: [u8; 5] = [1, 3, 1, 0x05, 0x14];

fn usable(options: &[u8]) -> Vec<(usize, u16)> {
    let body = with_options(options);
    LinkState::parse(&body).unwrap().usable().collect()
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
