//! Options that say something of the origin itself: its version, what it can do, and where it is.

use super::*;

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
