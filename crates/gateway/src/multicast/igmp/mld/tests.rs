//! Messages as bytes, in both directions, cut at every length, and with every byte changed.

use super::super::Querier;
use super::super::model::Out;
use super::*;
use crate::multicast::igmp::Timing;
use crate::multicast::rules::Rules;
use base::Time;

const FROM: Speaker<Ipv6Addr> = Speaker {
    mac: [2, 0x53, 0x4e, 0, 0, 1],
    address: Ipv6Addr::new(0xfe80, 0, 0, 0, 0x53, 0x4eff, 0xfe00, 1),
};
const GROUP: Ipv6Addr = Ipv6Addr::new(0xff1e, 0, 0, 0, 0, 0, 0, 0x101);
const SSM: Ipv6Addr = Ipv6Addr::new(0xff3e, 0, 0, 0, 0, 0, 0x8000, 1);
const SOURCE: Ipv6Addr = Ipv6Addr::new(0xfd53, 0, 0, 0, 0, 0, 0, 7);

/// Returns the packet that Linux 6 sends on a join of ff1e::101: a record that excludes nothing, with the router alert.
fn join() -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 36, 0, 1];
    packet.extend(FROM.address.octets());
    packet.extend(ALL_V2_ROUTERS.octets());
    packet.extend([58, 0, 5, 2, 0, 0, 1, 0]);
    packet.extend([143, 0, 0x21, 0x9a, 0, 0, 0, 1, 4, 0, 0, 0]);
    packet.extend(GROUP.octets());
    packet
}

type Told = (RecordKind, Ipv6Addr, Vec<Ipv6Addr>);

fn read(packet: &[u8]) -> Result<Message<'_, Ipv6Addr>, Drop> {
    let ip = Ip::parse(packet)?;
    assert!(is_mld(&ip, packet));
    parse(&ip, packet)
}

fn records(packet: &[u8]) -> Vec<Told> {
    let Ok(Message::ReportV3(records)) = read(packet) else {
        panic!("no report: {packet:x?}");
    };
    let each = records.iter();
    each.map(|r| (r.kind, r.group, r.sources.iter().collect()))
        .collect()
}

fn packet_of(frame: &[u8]) -> &[u8] {
    let ethernet = Ethernet::parse(frame).unwrap();
    let packet = &frame[ETHERNET_BYTES..];
    let ip = Ip::parse(packet).unwrap();
    assert_eq!(ethernet.kind, TYPE_IPV6);
    assert_eq!(ethernet.to, group_mac(ip.destination));
    assert!((60..=1_514).contains(&frame.len()));
    &packet[..ip.total_bytes]
}

#[test]
fn a_join_of_a_host_is_read_byte_for_byte() {
    assert_eq!(
        records(&join()),
        [(RecordKind::ToExclude, GROUP, Vec::new())]
    );
    let mut frame = Vec::new();
    let record = (RecordKind::ToExclude, GROUP, &[][..]);
    assert_eq!(report(&mut frame, FROM, [record].into_iter()), 1);
    assert_eq!(packet_of(&frame), join());
}

#[test]
fn a_general_query_is_byte_for_byte() {
    let mut frame = vec![0xa5; 3];
    let general = Query {
        group: None,
        sources: &[],
        suppress: false,
        max_response: Duration::from_secs(5),
        robustness: 2,
        interval: Duration::from_secs(30),
    };
    query(&mut frame, FROM, &general);
    let mut expected = vec![0x33, 0x33, 0, 0, 0, 1, 2, 0x53, 0x4e, 0, 0, 1, 0x86, 0xdd];
    expected.extend([0x60, 0, 0, 0, 0, 36, 0, 1]);
    expected.extend(FROM.address.octets());
    expected.extend(ALL_HOSTS.octets());
    expected.extend([58, 0, 5, 2, 0, 0, 1, 0]);
    expected.extend([130, 0, 0x1d, 0x2a, 0x13, 0x88, 0, 0]);
    expected.extend([0; 16]);
    expected.extend([2, 30, 0, 0]);
    assert_eq!(frame, expected);
}

#[test]
fn what_is_written_is_read_again() {
    let mut frame = Vec::new();
    let sources = [SOURCE, FROM.address];
    let asked = Query {
        group: Some(SSM),
        sources: &sources,
        suppress: true,
        max_response: Duration::from_millis(200),
        robustness: 2,
        interval: Duration::from_secs(30),
    };
    query(&mut frame, FROM, &asked);
    let Ok(Message::Query(heard)) = read(packet_of(&frame)) else {
        panic!("a query");
    };
    assert_eq!(
        (heard.group, heard.version, heard.robustness, heard.suppress),
        (Some(SSM), 3, 2, true)
    );
    assert_eq!(
        (heard.max_response, heard.interval),
        (asked.max_response, asked.interval)
    );
    assert!(heard.sources.iter().eq(sources));
    let both = [
        (RecordKind::IsInclude, SSM, &sources[..]),
        (RecordKind::ToExclude, GROUP, &[]),
    ];
    assert_eq!(report(&mut frame, FROM, both.into_iter()), 2);
    let told = both.map(|(kind, group, sources)| (kind, group, sources.to_vec()));
    assert_eq!(records(packet_of(&frame)), told);
    report_old(&mut frame, FROM, GROUP);
    assert!(matches!(read(packet_of(&frame)), Ok(Message::ReportV2(g)) if g == GROUP));
    router_here(&mut frame, FROM, Duration::from_secs(20));
    assert_eq!(
        read(packet_of(&frame)).map(drop),
        Err(Drop::IgmpUnknown),
        "it says nothing of members"
    );
}

#[test]
fn messages_of_version_1_are_those_of_igmp_2() {
    for (kind, response) in [(QUERY, [0x27, 0x10]), (DONE, [0, 0])] {
        let mut packet = join();
        packet.truncate(MESSAGE_AT);
        packet.extend([kind, 0, 0, 0, response[0], response[1], 0, 0]);
        packet.extend(GROUP.octets());
        packet[5] = 32;
        put_checksum(&mut packet, MESSAGE_AT);
        match read(&packet) {
            Ok(Message::Leave(group)) if kind == DONE => assert_eq!(group, GROUP),
            Ok(Message::Query(asked)) if kind == QUERY => {
                assert_eq!((asked.version, asked.group), (2, Some(GROUP)));
                assert_eq!(asked.max_response, Duration::from_secs(10));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_is_cut_at_any_length_is_refused() {
    let mut frame = Vec::new();
    let sources = [SOURCE, FROM.address];
    let two = [
        (RecordKind::IsInclude, SSM, &sources[..]),
        (RecordKind::Allow, SSM, &sources[..1]),
    ];
    report(&mut frame, FROM, two.into_iter());
    let whole = packet_of(&frame).to_vec();
    for len in 0..whole.len() {
        assert!(Ip::parse(&whole[..len]).is_err(), "{len}");
        // The cut message gets a correct length and a correct checksum.
        let mut cut = whole[..len].to_vec();
        if len < MESSAGE_AT + 1 {
            continue;
        }
        cut[5] = (len - IPV6_BYTES) as u8;
        put_checksum(&mut cut, MESSAGE_AT);
        assert_eq!(read(&cut).map(drop), Err(Drop::IgmpMalformed), "{len}");
    }
}

#[test]
fn what_may_have_come_from_elsewhere_or_was_changed_is_refused_by_name() {
    for at in MESSAGE_AT + 1..join().len() {
        let mut changed = join();
        changed[at] ^= 0x40;
        assert!(read(&changed).is_err(), "{at}");
    }
    let changed = |at: usize, to: u8| {
        let mut packet = join();
        packet[at] = to;
        put_checksum(&mut packet, MESSAGE_AT);
        read(&packet).map(drop)
    };
    assert_eq!(changed(7, 2), Err(Drop::IgmpTtl));
    assert_eq!(
        changed(IPV6_BYTES + 5, 1),
        Err(Drop::IgmpMalformed),
        "alert"
    );
    assert_eq!(changed(MESSAGE_AT, 151), Err(Drop::IgmpUnknown));
    assert_eq!(
        changed(MESSAGE_AT + 7, 2),
        Err(Drop::IgmpMalformed),
        "count"
    );
    // A record of an unknown kind, or whose address is not a group, is left out.
    for (at, to) in [(MESSAGE_AT + 8, 9), (MESSAGE_AT + 12, 0xfd)] {
        let mut packet = join();
        packet[at] = to;
        put_checksum(&mut packet, MESSAGE_AT);
        assert_eq!(records(&packet), []);
    }
}

#[test]
fn a_code_means_the_greatest_number_not_above_its_own() {
    for value in (0..=40_000u64).chain((40_000..9_000_000).step_by(997)) {
        let code = response_code(value);
        assert!(milliseconds(code) <= value, "{value}");
        let is_last = code == u16::MAX;
        assert!(is_last || milliseconds(code + 1) > value, "{value}");
    }
}

#[test]
fn the_address_of_the_link_is_that_of_the_ethernet_address() {
    assert_eq!(link_local(FROM.mac), FROM.address);
    let own = link_local([0x52, 0x54, 0, 0x12, 0x34, 0x56]);
    assert_eq!(own.to_string(), "fe80::5054:ff:fe12:3456");
}

#[test]
fn a_table_of_ipv6_groups_obeys_the_same_rules() {
    let timing = Timing::default();
    let mut out = Out::<Ipv6Addr>::default();
    let mut now = Time::from_nanos(1);
    let mut querier = Querier::new(timing, FROM.address, true, now).with_host_groups(3);
    let mut frame = Vec::new();
    let mut hear = |querier: &mut Querier<Ipv6Addr>, now, out: &mut Out<_>, record: (_, _, _)| {
        report(&mut frame, FROM, [record].into_iter());
        let message = read(packet_of(&frame)).unwrap();
        querier.on_message(now, FROM, &message, &Rules::default(), out);
    };
    let joins = RecordKind::ToExclude;
    hear(&mut querier, now, &mut out, (joins, GROUP, &[][..]));
    hear(
        &mut querier,
        now,
        &mut out,
        (RecordKind::Allow, SSM, &[SOURCE][..]),
    );
    assert_eq!(out.members, [(GROUP, true), (SSM, true)]);
    assert_eq!(out.channels, [(SSM, SOURCE, true)]);
    // A group of the link, one of the site, one that needs sources, and one that is allowed.
    let of_link = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0xfb);
    let of_site = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 1);
    let other = |n| Ipv6Addr::new(0xff18, 0, 0, 0, 0, 0, 1, n);
    for group in [of_link, of_site, SSM, other(1), other(2)] {
        hear(&mut querier, now, &mut out, (joins, group, &[][..]));
    }
    let refused = [
        Drop::JoinNotAllowed,
        Drop::JoinWithoutSource,
        Drop::HostTooMany,
    ];
    assert_eq!(out.refused, refused);
    assert!(querier.wants(now, SSM, SOURCE) && !querier.wants(now, SSM, FROM.address));
    // The querier sends a query after a leave, and the leave takes effect.
    out.queries.clear();
    hear(
        &mut querier,
        now,
        &mut out,
        (RecordKind::ToInclude, GROUP, &[][..]),
    );
    assert_eq!(out.queries, [(Some(GROUP), vec![], false)]);
    now += timing.last_member();
    querier.on_timeout(now, &mut out);
    assert_eq!(out.members.last(), Some(&(GROUP, false)));
    // The router with the lower address queries.
    let lower = Speaker {
        address: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
        ..FROM
    };
    let general = Query {
        group: None,
        sources: &[],
        suppress: false,
        max_response: Duration::from_secs(5),
        robustness: 2,
        interval: Duration::from_secs(30),
    };
    query(&mut frame, lower, &general);
    let message = read(packet_of(&frame)).unwrap();
    querier.on_message(now, lower, &message, &Rules::default(), &mut out);
    assert_eq!(querier.other(), Some((lower.address, 3)));
}
