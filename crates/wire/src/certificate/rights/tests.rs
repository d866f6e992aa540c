use super::*;
use crate::certificate::tests::{SIGNATURE, certificate_with};
use crate::certificate::{Certificate, Delegation, Domains, Options, Said};
use proptest::prelude::*;

fn range(text: &str) -> GroupRange {
    text.parse().unwrap()
}

fn written(ranges: &[&str]) -> Vec<u8> {
    let ranges: Vec<GroupRange> = ranges.iter().map(|text| range(text)).collect();
    let mut room = [0; MAX_RIGHTS_BYTES];
    let mut w = Writer::new(&mut room);
    Rights::emit(&ranges, &mut w).unwrap();
    w.written().to_vec()
}

#[test]
fn rights_and_their_bytes_agree_both_ways() {
    let bytes = [0xef, 1, 0, 0, 16, 0xef, 9, 1, 1, 32];
    assert_eq!(written(&["239.9.1.1", "239.1.0.0/16"]), bytes);
    let rights = Rights::parse(&bytes).unwrap();
    let told: Vec<String> = rights.iter().map(|one| one.to_string()).collect();
    assert_eq!(told, ["239.1.0.0/16", "239.9.1.1"]);
    for (asked, is_covered) in [
        ("239.1.2.3", true),
        ("239.1.128.0/17", true),
        ("239.1.0.0/16", true),
        ("239.0.0.0/15", false),
        ("239.2.0.0", false),
        ("224.0.0.0/3", false),
    ] {
        assert_eq!(rights.covers(range(asked)), is_covered, "{asked}");
    }
    for short in [1, 2, 3, 4, 6, 7, 8, 9] {
        assert_eq!(
            Rights::parse(&bytes[..short]),
            Err(Malformed::Length),
            "{short}"
        );
    }
    assert_eq!(Rights::parse(&[]), Ok(Rights::NONE));
}

#[test]
fn there_is_one_way_to_write_rights() {
    assert_eq!(
        written(&["239.1.1.0/24", "239.1.0.0/16", "239.1.0.0/16"]),
        written(&["239.1.0.0/16"])
    );
    assert_eq!(written(&["239.0.0.0/8", "224.0.0.0/3"]), [0xe0, 0, 0, 0, 3]);
    let all_the_same = [0xef, 1, 0, 0, 16, 0xef, 1, 0, 0, 16];
    let descending = [0xef, 9, 1, 1, 32, 0xef, 1, 0, 0, 16];
    let within = [0xef, 1, 0, 0, 16, 0xef, 1, 2, 0, 24];
    for bytes in [all_the_same, descending, within] {
        assert_eq!(Rights::parse(&bytes), Err(Malformed::Value));
    }
    // Not a group, bits beyond the prefix, too wide, too long.
    for bytes in [
        [10, 0, 0, 0, 8],
        [0xef, 1, 0, 1, 16],
        [0xe0, 0, 0, 0, 2],
        [0xef, 1, 0, 0, 33],
    ] {
        assert_eq!(Rights::parse(&bytes), Err(Malformed::Value), "{bytes:?}");
    }
    let nine: Vec<GroupRange> = (0..9).map(|i| range(&format!("239.1.1.{i}"))).collect();
    assert_eq!(
        Rights::emit(&nine, &mut Writer::new(&mut [0; 64])),
        Err(Full)
    );
    let nine: Vec<u8> = nine.iter().flat_map(|one| one.bytes()).collect();
    assert_eq!(Rights::parse(&nine), Err(Malformed::Count));
    assert!(Rights::parse(&nine[..40]).is_ok());
}

/// Returns options with their length in front.
fn options(delegation: Option<&[u8]>, rights: Option<&[u8]>) -> Vec<u8> {
    let mut items = Vec::new();
    for (kind, value) in [(0x81, delegation), (2, rights)] {
        if let Some(value) = value {
            items.extend([kind, value.len() as u8]);
            items.extend(value);
        }
    }
    [&(items.len() as u16).to_be_bytes()[..], &items].concat()
}

fn delegation(words: &[&str]) -> Vec<u8> {
    let mut room = [0; 200];
    let mut w = Writer::new(&mut room);
    Domains::emit(words, &mut w).unwrap();
    [
        &[1][..],
        &[0xa0, 1, 2, 3, 4, 5, 6, 7],
        &[0, 0, 0, 9],
        &[0, 0, 0, 0, 0, 1, 0xff, 0xff],
        &[10, 7, 0, 1, 10, 7, 0, 191],
        &[0, 0, 0, 0, 0x65, 0, 0, 0],
        &[0, 0, 0, 0, 0x66, 0, 0, 0],
        &[0, 0, 1, 0],
        &[7; 32],
        &[0],
        w.written(),
        &SIGNATURE,
    ]
    .concat()
}

#[test]
fn a_certificate_gives_what_both_it_and_its_issuer_could_give() {
    let free = delegation(&["a.nl"]);
    let bound = delegation(&["_groups.ef01000010", "a.nl"]);
    let none = delegation(&["_groups"]);
    let broken = delegation(&["_groups.ef0100"]);
    let (wide, narrow) = (written(&["239.0.0.0/8"]), written(&["239.1.1.1"]));
    let (wide, narrow, nothing) = (Some(&*wide), Some(&*narrow), Some(&[][..]));
    let bytes = certificate_with(&options(Some(&bound), wide));
    let given = Certificate::parse(&bytes).unwrap().groups();
    assert_eq!(given, [range("239.1.0.0/16")], "what both have in common");
    // First certificates signed by the root, then by an issuer; the groups are 239.1.1.1, 239.1.0.0/16, 239.2.2.2.
    for (at, (by, says, may)) in [
        (None, None, [true, true, true]),
        (None, wide, [true, true, true]),
        (None, narrow, [true, false, false]),
        (None, nothing, [false, false, false]),
        (Some(&free), None, [true, true, true]),
        (Some(&free), narrow, [true, false, false]),
        (Some(&bound), None, [false, false, false]),
        (Some(&bound), wide, [true, true, false]),
        (Some(&bound), narrow, [true, false, false]),
        (Some(&none), wide, [false, false, false]),
        (Some(&broken), wide, [false, false, false]),
    ]
    .into_iter()
    .enumerate()
    {
        let bytes = certificate_with(&options(by.map(Vec::as_slice), says));
        let certificate = Certificate::parse(&bytes).unwrap();
        let asked = ["239.1.1.1", "239.1.0.0/16", "239.2.2.2"];
        assert_eq!(
            asked.map(|one| certificate.may_set(range(one))),
            may,
            "case {at}"
        );
    }
}

#[test]
fn the_bound_is_a_word_that_nodes_of_before_take_for_a_domain() {
    let word = Bound::word(&[range("239.9.1.1"), range("239.1.0.0/16")]).unwrap();
    assert_eq!(word, "_groups.ef01000010.ef09010120");
    assert!(crate::certificate::is_domain(word.as_bytes()));
    let bytes = delegation(&["*.b.nl", &word]);
    let read = Delegation::parse(&bytes).unwrap();
    assert_eq!(
        read.bound().unwrap().ranges(),
        [range("239.1.0.0/16"), range("239.9.1.1")]
    );
    assert!(read.permits("a.b.nl"));
    assert!(!read.permits(&word), "no node is called so");
    assert_eq!(Bound::word(&[]).unwrap(), "_groups");
    assert_eq!(Bound::read("_groups.x.nl"), Some(Bound(Vec::new())));
    assert_eq!(Bound::read("_groupsx.nl"), None);
    assert_eq!(Bound::read("a.nl"), None);
    let eight: Vec<GroupRange> = (0..8).map(|i| range(&format!("239.1.1.{i}"))).collect();
    let longest = delegation(&[&Bound::word(&eight).unwrap()]);
    assert!(
        Delegation::parse(&longest).is_ok(),
        "{} bytes",
        longest.len()
    );
}

#[test]
fn other_options_stay_where_rights_are_put() {
    let before = [0, 9, 0x11, 3, 7, 8, 9, 2, 0, 0x12, 0];
    let options = Options::parse(&mut Reader::new(&before)).unwrap();
    assert_eq!(options.rights(), Some(Rights::NONE));
    let bytes = written(&["239.1.1.1"]);
    let mut room = [0; 64];
    let mut w = Writer::new(&mut room);
    let said = Said {
        rights: Some(Rights::parse(&bytes).unwrap()),
        ..Said::default()
    };
    options.emit_with(&said, &mut w).unwrap();
    assert_eq!(
        w.written(),
        [0, 14, 0x11, 3, 7, 8, 9, 0x12, 0, 2, 5, 0xef, 1, 1, 1, 32]
    );
    let twice = [0, 4, 2, 0, 2, 0];
    assert_eq!(
        Options::parse(&mut Reader::new(&twice)),
        Err(Malformed::Value)
    );
    let broken = [0, 3, 2, 1, 0xef];
    assert_eq!(
        Options::parse(&mut Reader::new(&broken)),
        Err(Malformed::Length)
    );
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_written_back(bytes in prop::collection::vec(any::<u8>(), 0..48)) {
        if let Ok(rights) = Rights::parse(&bytes) {
            let ranges: Vec<GroupRange> = rights.iter().collect();
            let mut room = [0; MAX_RIGHTS_BYTES];
            let mut w = Writer::new(&mut room);
            Rights::emit(&ranges, &mut w).unwrap();
            prop_assert_eq!(w.written(), &bytes[..]);
        }
    }

    #[test]
    fn a_word_says_what_was_put_into_it(firsts in prop::collection::vec((0xe000_0000u32.., 3u8..33), 0..8)) {
        let ranges: Vec<GroupRange> = firsts.iter().map(|(first, prefix)| {
            GroupRange::new(NodeAddr(first & mask(*prefix)), *prefix).unwrap()
        }).collect();
        let bound = Bound::read(&Bound::word(&ranges).unwrap()).unwrap();
        for range in ranges {
            prop_assert!(bound.covers(range));
        }
    }
}
