use super::*;
use crate::data::{LinkProtocol, Routing};
use proptest::prelude::*;

const SETTING: Setting = Setting {
    group: NodeAddr(0xef01_0101),
    prefix: 32,
    version: 0x6000_0001,
    tree: TreeBuilder::Scribe,
    class: Class {
        link: LinkProtocol::RealTime,
        routing: Routing::ExpectedLatency,
        priority: 4,
    },
    deadline_ms: 500,
    rate_kbps: 10_000,
    ways: Ways::Auto,
    delivery: None,
    aim: Aim::NONE,
};

fn body(members: &[NodeAddr], settings: &[Setting]) -> Vec<u8> {
    let repr = Repr {
        origin: NodeAddr(0x0a07_0003),
        seq: RecordSeq(7),
        lifetime_s: 900,
        certificate_serial: 3,
        part: 2,
        members,
        settings,
        permits: &[],
    };
    let mut body = vec![0; BODY_BYTES_MAX];
    let len = repr.emit(&mut body, |_| [0xaa; SIGNATURE_BYTES]).unwrap();
    body.truncate(len);
    body
}

const KIND: RecordKind = RecordKind(18);

#[test]
fn the_bytes_are_these() {
    let bytes = body(&[NodeAddr(0xef01_0101), NodeAddr(0xf000_0009)], &[SETTING]);
    let front: &[u8] = &[
        10, 7, 0, 3, 0, 0, 0, 7, 0x03, 0x84, 0, 0, 0, 3, 0, 2, // fixed
        1, 0, 8, 0xef, 1, 1, 1, 0xf0, 0, 0, 9, // members
        2, 0, 16, 0xef, 1, 1, 1, 0x60, 0, 0, 1, 1, 0x5c, 0x01, 0xf4, 0, 0, 0x27, 0x10,
    ];
    assert_eq!(&bytes[..front.len()], front);
    assert_eq!(&bytes[front.len()..], [0xaa; SIGNATURE_BYTES]);
    let groups = Groups::parse(KIND, &bytes).unwrap();
    let members: Vec<_> = groups.members().map(|group| group.0).collect();
    assert_eq!(members, [0xef01_0101, 0xf000_0009]);
    assert_eq!(groups.settings().collect::<Vec<_>>(), [SETTING]);
    assert_eq!((groups.key().kind, groups.key().seq), (KIND, RecordSeq(7)));
    assert_eq!(groups.signed_bytes(), front);
}

#[test]
fn what_is_cut_is_refused_at_every_length_that_cuts_an_item() {
    let bytes = body(&[NodeAddr(0xef01_0101)], &[SETTING]);
    // Where an item ends, the rest can be a valid record with less content; its signature reveals the difference.
    let whole = [80, 87, 106];
    for len in 0..bytes.len() {
        let read = Groups::parse(KIND, &bytes[..len]);
        assert_eq!(read.is_ok(), whole.contains(&len), "{len} {read:?}");
    }
}

#[test]
fn a_record_is_of_the_part_that_its_kind_names() {
    let bytes = body(&[], &[]);
    for kind in 0..=255 {
        let read = Groups::parse(RecordKind(kind), &bytes);
        assert_eq!(read.is_ok(), RecordKind(kind) == KIND, "{kind}");
    }
}

#[test]
fn unknown_items_are_passed_over_unless_they_are_critical() {
    let mut bytes = body(&[NodeAddr(0xef01_0101)], &[]);
    bytes.splice(16..16, [9, 0, 1, 0xff]);
    let read = Groups::parse(KIND, &bytes).unwrap();
    assert_eq!(read.members().count(), 1);
    bytes[16] |= 0x80;
    assert_eq!(Groups::parse(KIND, &bytes), Err(Malformed::Critical));
}

#[test]
fn addresses_of_nodes_are_no_groups() {
    let mut bytes = body(&[NodeAddr(0xef01_0101)], &[]);
    bytes[19] = 10;
    assert_eq!(Groups::parse(KIND, &bytes), Err(Malformed::Value));
    let mut bytes = body(&[], &[SETTING]);
    bytes[27] = 7;
    assert_eq!(Groups::parse(KIND, &bytes), Err(Malformed::Value), "tree");
}

#[test]
fn a_setting_can_be_for_a_range_of_groups() {
    let range = Setting {
        group: NodeAddr(0xefc0_0000),
        prefix: 14,
        ..SETTING
    };
    let bytes = body(&[], &[range]);
    assert_eq!(bytes[27], 18 << 2 | 1);
    let read = Groups::parse(KIND, &bytes).unwrap();
    assert_eq!(read.settings().collect::<Vec<_>>(), [range]);
    for wrong in [29 << 2, 33 << 2, 19 << 2 | 2, 23 << 2] {
        let mut bytes = bytes.clone();
        bytes[27] = wrong;
        let read = Groups::parse(KIND, &bytes);
        assert_eq!(read, Err(Malformed::Value), "{wrong}");
    }
}

#[test]
fn ways_and_delivery_stand_in_an_item_of_their_own() {
    let full = Setting {
        tree: TreeBuilder::LinkState,
        ways: Ways::Two,
        delivery: Some(Delivery::AsSent(Some(Duration::from_millis(300)))),
        ..SETTING
    };
    let bytes = body(&[], &[full, SETTING]);
    let plain: &[u8] = &[
        2, 0, 16, 0xef, 1, 1, 1, 0x60, 0, 0, 1, 1, 0x5c, 0x01, 0xf4, 0, 0, 0x27, 0x10,
    ];
    let in_full: &[u8] = &[
        3, 0, 20, 0xef, 1, 1, 1, 0x60, 0, 0, 1, 0, 0x5c, 0x01, 0xf4, 0, 0, 0x27, 0x10, 2, 3, 0x01,
        0x2c,
    ];
    assert_eq!(&bytes[16..35], plain);
    assert_eq!(&bytes[35..58], in_full);
    let read = Groups::parse(KIND, &bytes).unwrap();
    assert_eq!(read.settings().collect::<Vec<_>>(), [SETTING, full]);
    for len in 36..58 {
        let mut cut = bytes[..len].to_vec();
        cut.extend([0xaa; SIGNATURE_BYTES]);
        assert_eq!(Groups::parse(KIND, &cut).unwrap_err(), Malformed::Short);
    }
    for (place, value) in [(54, 0), (54, 3), (55, 4), (55, 2), (37, 19)] {
        let mut wrong = bytes.clone();
        wrong[place] = value;
        assert!(Groups::parse(KIND, &wrong).is_err(), "{place} {value}");
    }
    let as_needed = Setting {
        delivery: Some(Delivery::AsSent(None)),
        ..SETTING
    };
    let read = body(&[], &[as_needed]);
    let read = Groups::parse(KIND, &read).unwrap();
    assert_eq!(read.settings().collect::<Vec<_>>(), [as_needed]);
}

#[test]
fn targeted_ways_stand_beside_a_setting_that_old_nodes_read() {
    let targeted = Setting {
        ways: Ways::Targeted,
        ..SETTING
    };
    let range = Setting {
        group: NodeAddr(0xefc0_0000),
        prefix: 14,
        ways: Ways::One,
        delivery: Some(Delivery::InOrder),
        ..SETTING
    };
    let bytes = body(&[], &[targeted, range, SETTING_OF_TWO]);
    // The order is that of the items: first those in item 2, then the full ones.
    let ways: &[u8] = &[5, 0, 2, 2, 1];
    let end = bytes.len() - SIGNATURE_BYTES;
    let at = end - ways.len();
    assert_eq!(&bytes[at..end], ways);
    let read = |bytes: &[u8]| -> Vec<Setting> {
        let groups = Groups::parse(KIND, bytes).unwrap();
        groups.settings().collect()
    };
    assert_eq!(read(&bytes), [targeted, range, SETTING_OF_TWO]);
    // A node that does not know the item sees settings without ways: those of items 2 and 3.
    let mut unknown = bytes.clone();
    unknown[at] = 99;
    let auto = |setting| Setting {
        ways: Ways::Auto,
        ..setting
    };
    assert_eq!(
        read(&unknown),
        [auto(targeted), auto(range), SETTING_OF_TWO]
    );
    // Unknown codes of ways set nothing.
    for code in [0, 3, 255] {
        let mut later = bytes.clone();
        later[at + 3] = code;
        assert_eq!(read(&later), [auto(targeted), range, SETTING_OF_TWO]);
    }
    // Two ways stay two whatever the item contains for them, and extra bytes without a setting are ignored.
    let mut more = bytes.clone();
    more.splice(at..end, [5, 0, 4, 0, 0, 1, 2]);
    assert_eq!(read(&more), [auto(targeted), auto(range), SETTING_OF_TWO]);
    for len in at + 1..end {
        let mut cut = bytes[..len].to_vec();
        cut.extend([0xaa; SIGNATURE_BYTES]);
        assert_eq!(Groups::parse(KIND, &cut).unwrap_err(), Malformed::Short);
    }
}

#[test]
fn aims_stand_beside_a_setting_that_old_nodes_read() {
    let strict = Setting {
        aim: Aim::new(Some(0.000_1), None).unwrap(),
        ..SETTING
    };
    let full = Setting {
        aim: Aim::new(None, Some(0.5)).unwrap(),
        ..SETTING_OF_TWO
    };
    let bytes = body(&[], &[full, strict, SETTING]);
    let aims: &[u8] = &[6, 0, 9, 0, 100, 0, 0, 0, 0, 0, 0, 205];
    let end = bytes.len() - SIGNATURE_BYTES;
    let at = end - aims.len();
    assert_eq!(&bytes[at..end], aims);
    let read = |bytes: &[u8]| -> Vec<Setting> {
        let groups = Groups::parse(KIND, bytes).unwrap();
        groups.settings().collect()
    };
    assert_eq!(read(&bytes), [strict, SETTING, full]);
    // One node does not know the item, and one gets fewer entries than there are settings.
    let mut unknown = bytes.clone();
    unknown[at] = 99;
    assert_eq!(read(&unknown), [SETTING, SETTING, SETTING_OF_TWO]);
    let mut short = bytes.clone();
    short.splice(at..end, [6, 0, 5, 0, 100, 0, 0, 0]);
    assert_eq!(read(&short), [strict, SETTING, SETTING_OF_TWO]);
}

/// A setting with two ways, which needs no item of its own.
const SETTING_OF_TWO: Setting = Setting {
    group: NodeAddr(0xef01_0102),
    tree: TreeBuilder::LinkState,
    ways: Ways::Two,
    ..SETTING
};

#[test]
fn the_longest_records_fit_and_longer_ones_do_not() {
    let groups: Vec<_> = (0..=GROUPS_MAX as u32)
        .map(|i| NodeAddr(0xef00_0000 + i))
        .collect();
    assert_eq!(
        body(&groups[..GROUPS_MAX], &[]).len(),
        16 + 3 + 279 * 4 + 64
    );
    let full = Setting {
        ways: Ways::Two,
        ..SETTING
    };
    let mut settings = [full; SETTINGS_MAX];
    assert_eq!(body(&[], &settings).len(), 16 + 3 + 52 * 20 + 64);
    settings[0] = SETTING;
    assert_eq!(body(&[], &settings).len(), 16 + 6 + 16 + 51 * 20 + 64);
    // This is the longest setting: ways in an item of their own, and a delivery.
    let longest = Setting {
        ways: Ways::Targeted,
        delivery: Some(Delivery::InOrder),
        ..SETTING
    };
    let mut settings = [longest; SETTINGS_MAX];
    assert_eq!(body(&[], &settings).len(), 16 + 6 + 52 * 21 + 64);
    settings[0].delivery = None;
    assert_eq!(body(&[], &settings).len(), 16 + 9 + 52 * 21 - 4 + 64);
    assert_eq!(Repr::room_beside(&settings).1, Some(16));
    let longest = Setting {
        aim: Aim::new(Some(0.001), Some(1.0)).unwrap(),
        ..longest
    };
    let mut settings = [longest; SETTINGS_WITH_AIMS_MAX];
    assert_eq!(body(&[], &settings).len(), 16 + 9 + 46 * 24 + 64);
    settings[0].delivery = None;
    assert_eq!(body(&[], &settings).len(), 16 + 12 + 46 * 24 - 4 + 64);
    assert_eq!(Repr::room_beside(&settings).1, Some(1));
    let repr = Repr {
        origin: NodeAddr(1),
        seq: RecordSeq(1),
        lifetime_s: 1,
        certificate_serial: 1,
        part: 0,
        members: &groups,
        settings: &[],
        permits: &[],
    };
    assert_eq!(
        repr.emit(&mut [0; 2_000], |_| [0; SIGNATURE_BYTES]),
        Err(Full)
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn any_bytes_are_read_or_refused(kind in 14u8..26, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(groups) = Groups::parse(RecordKind(kind), &bytes) {
            prop_assert!(groups.members().all(is_group));
            let _ = groups.settings().count();
        }
    }
}

/// Returns a body with only these permits.
fn permitting(permits: &[u8]) -> Result<Vec<u8>, Full> {
    let repr = Repr {
        origin: NodeAddr(0x0a07_0003),
        seq: RecordSeq(7),
        lifetime_s: 900,
        certificate_serial: 3,
        part: 2,
        members: &[],
        settings: &[],
        permits,
    };
    let mut body = vec![0; BODY_BYTES_MAX];
    let len = repr.emit(&mut body, |_| [0xaa; SIGNATURE_BYTES])?;
    body.truncate(len);
    Ok(body)
}

#[test]
fn the_bytes_of_permits_are_these() {
    let mut permits = [0; 64];
    let mut w = Writer::new(&mut permits);
    let range = (NodeAddr(0xef01_0000), 16);
    Permit::write(&mut w, range, Some(&["ams"]), None).unwrap();
    let group = (NodeAddr(0xef01_0101), 32);
    Permit::write(&mut w, group, Some(&[]), Some(&["fra", "@a.b"])).unwrap();
    let permits: &[u8] = &[
        0xef, 1, 0, 0, 0x50, 1, 0, 3, b'a', b'm', b's', // who sends to a range
        0xef, 1, 1, 1, 0xc0, 0, 2, 3, b'f', b'r', b'a', 4, b'@', b'a', b'.', b'b',
    ];
    assert_eq!(w.written(), permits);
    let body = permitting(permits).unwrap();
    assert_eq!(&body[16..19], [4, 0, 27]);
    assert_eq!(&body[19..46], permits);
    let read = Groups::parse(KIND, &body).unwrap();
    let all: Vec<_> = read.permits().collect();
    let words = |words: Option<Words<'_>>| {
        let words = words.map(|words| words.iter().map(str::to_owned));
        words.map(Iterator::collect::<Vec<_>>)
    };
    let these = |words: &[&str]| Some(words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
    assert_eq!((all[0].group, all[0].prefix), range);
    assert_eq!(
        (words(all[0].send), words(all[0].receive)),
        (these(&["ams"]), None)
    );
    assert_eq!((all[1].group, all[1].prefix), group);
    assert_eq!(words(all[1].send), these(&[]));
    assert_eq!(words(all[1].receive), these(&["fra", "@a.b"]));
}

#[test]
fn permits_that_are_cut_or_wrong_are_refused() {
    let good = [0xef, 1, 1, 1, 0x80, 0, 2, 1, b'a', 1, b'b'];
    for len in 1..good.len() {
        let body = permitting(&good[..len]).unwrap();
        assert!(Groups::parse(KIND, &body).is_err(), "{len}");
    }
    for (place, byte) in [
        (0, 10),   // no group
        (3, 0),    // fine: the control
        (4, 0x88), // bits behind the range
        (4, 0x9d), // a range of more than a class
        (4, 0x00), // words of nobody who is limited
        (5, 1),    // the same
        (7, 0),    // a word without letters
        (8, 0xff), // no text
    ] {
        let mut bytes = good;
        bytes[place] = byte;
        let body = permitting(&bytes).unwrap();
        let read = Groups::parse(KIND, &body);
        assert_eq!(read.is_ok(), place == 3, "{place} {read:?}");
    }
    assert!(permitting(&[0; ITEMS_BYTES_MAX - 3]).is_ok());
    assert!(permitting(&[0; ITEMS_BYTES_MAX - 2]).is_err());
}
