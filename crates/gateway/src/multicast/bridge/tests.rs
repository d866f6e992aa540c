//! One bridge with a recorder, and two on one network.

use super::*;
use crate::multicast::hello::{HOLD, MAC_PREFIX};
use crate::multicast::igmp::RecordKind;
use crate::multicast::igmp::emit;
use crate::multicast::igmp::emit::Speaker;
use base::Rng;
use proptest::prelude::*;

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 1, 1);
const SSM: Ipv4Addr = Ipv4Addr::new(232, 1, 1, 1);
const HOST: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 9);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 9);
const HOST_MAC: Mac = [0x52, 0x54, 0, 0, 0, 9];
const PORT: Port = Port {
    address: Some((Ipv4Addr::new(10, 1, 0, 1), 24)),
    mtu: 1_500,
    filters_path: false,
};

#[derive(Debug, Default)]
struct Out {
    frames: Vec<Vec<u8>>,
    members: Vec<(NodeAddr, bool)>,
    notices: Vec<Notice>,
    roles: Vec<Role>,
}

impl Outlet for Out {
    fn transmit(&mut self, frame: &[u8]) {
        self.frames.push(frame.to_vec());
    }
    fn member(&mut self, group: NodeAddr, is_wanted: bool) {
        self.members.push((group, is_wanted));
    }
    fn notice(&mut self, notice: Notice) {
        self.notices.push(notice);
    }
    fn role(&mut self, role: Role, _: Option<Rank>) {
        self.roles.push(role);
    }
}

fn node(group: Ipv4Addr) -> NodeAddr {
    NodeAddr(group.to_bits())
}

/// Returns a packet with a correct header checksum.
fn packet(source: Ipv4Addr, group: Ipv4Addr, ttl: u8, id: u16, bytes: usize) -> Vec<u8> {
    let mut packet = vec![0x45, 0xb8];
    packet.extend((bytes as u16).to_be_bytes());
    packet.extend(id.to_be_bytes());
    packet.extend([0, 0, ttl, 17, 0, 0]);
    packet.extend(source.octets());
    packet.extend(group.octets());
    let sum = packet::checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend((20..bytes).map(|n| n as u8));
    packet
}

fn frame(from: Mac, packet: &[u8]) -> Vec<u8> {
    let group = Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19]);
    let ethernet = Ethernet {
        to: packet::group_mac(group),
        from,
        kind: TYPE_IPV4,
    };
    [&ethernet.emit()[..], packet].concat()
}

struct One {
    bridge: Bridge,
    now: Time,
    out: Out,
}

impl One {
    fn new(change: impl FnOnce(&mut Settings)) -> One {
        let mut settings = Settings::new(NodeAddr(0x0a07_0001), 1);
        change(&mut settings);
        let mut one = One {
            bridge: Bridge::new(settings, Time::ZERO),
            now: Time::ZERO,
            out: Out::default(),
        };
        one.bridge.set_port(one.now, Some(PORT), &mut one.out);
        one
    }

    /// Creates a bridge that already carries.
    fn carrying(change: impl FnOnce(&mut Settings)) -> One {
        let mut one = One::new(change);
        one.wait(HOLD);
        assert_eq!(one.bridge.role(), Role::Forwarding);
        one.out = Out::default();
        one
    }

    fn wait(&mut self, span: Duration) {
        let end = self.now + span;
        while self.bridge.next_timeout() <= end {
            self.now = self.now.max(self.bridge.next_timeout());
            self.bridge.on_timeout(self.now, &mut self.out);
        }
        self.now = end;
    }

    /// Passes a frame to the bridge. Returns what goes to the overlay.
    fn capture(&mut self, frame: &[u8]) -> Option<(NodeAddr, Vec<u8>)> {
        let mut frame = frame.to_vec();
        let sent = self.bridge.on_frame(self.now, &mut frame, &mut self.out);
        sent.map(|(group, packet)| (group, packet.to_vec()))
    }

    /// Passes a packet of the overlay to the bridge. Returns the frames for the network.
    fn inject(&mut self, group: Ipv4Addr, packet: &[u8]) -> Vec<Vec<u8>> {
        let source = packet.get(12..16).and_then(|s| s.first_chunk::<4>());
        let by = carrier(group, Ipv4Addr::from(source.copied().unwrap_or_default()));
        let mut frames = Vec::new();
        let put = &mut |head: &[u8], body: &[u8]| frames.push([head, body].concat());
        self.bridge
            .on_overlay(self.now, by, packet, &mut self.out, put);
        frames
    }

    fn join(&mut self, kind: RecordKind, group: Ipv4Addr, sources: &[Ipv4Addr]) {
        let from = Speaker {
            mac: HOST_MAC,
            address: HOST,
        };
        let mut frame = Vec::new();
        emit::report(&mut frame, from, [(kind, group, sources)].into_iter());
        assert_eq!(self.capture(&frame), None);
    }

    /// Returns the joins and leaves since the last call.
    fn members(&mut self) -> Vec<(NodeAddr, bool)> {
        core::mem::take(&mut self.out.members)
    }

    fn dropped(&self) -> Vec<(Drop, u64)> {
        let all = self.bridge.counters().drops;
        all.iter().filter(|&(_, count)| count > 0).collect()
    }
}

#[test]
fn a_packet_crosses_whole_but_for_one_hop() {
    let mut one = One::carrying(|_| ());
    for (n, bytes) in [28, 46, 1_500, 9_000, PACKET_BYTES_MAX]
        .into_iter()
        .enumerate()
    {
        let original = packet(HOST, GROUP, 8, n as u16, bytes);
        let mut padded = frame(HOST_MAC, &original);
        padded.resize(padded.len().max(60), 0);
        let (group, sent) = one.capture(&padded).unwrap();
        assert_eq!(group, node(GROUP));
        let ip = Ip::parse(&sent).expect("its checksum is right");
        assert_eq!((ip.ttl, ip.total_bytes), (7, bytes));
        let same = |at: &usize| ![8, 10, 11].contains(at);
        assert!((0..bytes).filter(same).all(|at| sent[at] == original[at]));
    }
    assert_eq!(one.bridge.counters().captured, 5);
    assert!(one.out.notices.is_empty() && one.dropped().is_empty());
}

#[test]
fn ttl_1_crosses_and_is_told_once_unless_a_router_is_wanted() {
    for router_ttl in [false, true] {
        let mut one = One::carrying(|settings| settings.router_ttl = router_ttl);
        for id in 0..3 {
            let sent = one.capture(&frame(HOST_MAC, &packet(HOST, GROUP, 1, id, 100)));
            assert_eq!(sent.is_some(), !router_ttl);
            assert!(sent.is_none_or(|(_, packet)| packet[8] == 1));
        }
        let told = Notice::TtlOne {
            source: HOST.into(),
            group: GROUP.into(),
            carried: !router_ttl,
        };
        assert_eq!(one.out.notices, [told]);
        assert_eq!(
            one.capture(&frame(HOST_MAC, &packet(HOST, GROUP, 0, 9, 100))),
            None
        );
        let drops = one.bridge.counters().drops;
        assert_eq!(
            (drops.of(Drop::TtlZero), drops.of(Drop::TtlOne)),
            (1, 3 * u64::from(router_ttl))
        );
    }
}

#[test]
fn what_may_not_cross_is_dropped_by_its_reason() {
    let mut one = One::carrying(|_| ());
    let good = packet(HOST, GROUP, 8, 0, 100);
    let mut checksum = frame(HOST_MAC, &good);
    checksum[14 + 10] ^= 1;
    let mut vlan = frame(HOST_MAC, &good);
    vlan[12..14].copy_from_slice(&[0x81, 0]);
    let mut ipv6 = frame(HOST_MAC, &good);
    ipv6[12..14].copy_from_slice(&[0x86, 0xdd]);
    let to = |group| frame(HOST_MAC, &packet(HOST, group, 8, 0, 100));
    let from = |source| frame(HOST_MAC, &packet(source, GROUP, 8, 0, 100));
    let [a, b, c] = MAC_PREFIX;
    let cases = [
        (checksum, Drop::Checksum),
        (vlan, Drop::Vlan),
        (ipv6, Drop::Malformed),
        (frame(HOST_MAC, &good)[..60].to_vec(), Drop::Truncated),
        (to(Ipv4Addr::new(224, 0, 0, 5)), Drop::LinkLocal),
        (to(Ipv4Addr::new(224, 0, 0, 251)), Drop::LinkLocal),
        (to(Ipv4Addr::new(224, 1, 1, 1)), Drop::NotAllowed),
        (to(Ipv4Addr::new(10, 1, 0, 7)), Drop::NotMulticast),
        (from(Ipv4Addr::UNSPECIFIED), Drop::Source),
        (from(GROUP), Drop::Source),
        (from(Ipv4Addr::new(127, 0, 0, 1)), Drop::Source),
        (from(Ipv4Addr::BROADCAST), Drop::Source),
        (frame([a, b, c, 1, 2, 3], &good), Drop::Injected),
        (to(SSM)[..13].to_vec(), Drop::Truncated),
    ];
    for (n, (frame, reason)) in cases.iter().enumerate() {
        let before = one.bridge.counters().drops.of(*reason);
        assert_eq!(one.capture(frame), None, "{n}");
        assert_eq!(
            one.bridge.counters().drops.of(*reason),
            before + 1,
            "{n} {reason:?}"
        );
    }
    let own = one.bridge.mac();
    assert_eq!(one.capture(&frame(own, &good)), None);
    assert_eq!(one.bridge.counters().captured, 0);
}

#[test]
fn igmp_must_be_of_this_network_and_right() {
    let mut one = One::carrying(|_| ());
    let from = Speaker {
        mac: HOST_MAC,
        address: HOST,
    };
    let mut join = Vec::new();
    emit::report_old(&mut join, from, 2, GROUP);
    let with = |at: usize, value: u8, join: &[u8]| {
        let mut changed = join.to_vec();
        changed[at] = value;
        changed[14 + 10..14 + 12].fill(0);
        let right = packet::checksum(&changed[14..38]);
        changed[14 + 10..14 + 12].copy_from_slice(&right.to_be_bytes());
        changed
    };
    let cases = [
        (with(14 + 8, 2, &join), Drop::IgmpTtl),
        (with(14 + 6, 0x20, &join), Drop::IgmpFragment),
        (with(14 + 12, 172, &join), Drop::IgmpForeign),
        (with(14 + 24 + 7, 9, &join), Drop::IgmpChecksum),
        (with(14 + 3, 28, &join), Drop::IgmpMalformed),
    ];
    for (frame, reason) in &cases {
        assert_eq!(one.capture(frame), None);
        assert_eq!(one.bridge.counters().drops.of(*reason), 1, "{reason:?}");
    }
    assert_eq!(one.out.members, []);
    one.capture(&join);
    assert_eq!(one.out.members, [(node(GROUP), true)]);
    // A host without an address may join.
    emit::report_old(
        &mut join,
        Speaker {
            address: Ipv4Addr::UNSPECIFIED,
            ..from
        },
        2,
        Ipv4Addr::new(239, 1, 1, 2),
    );
    one.capture(&join);
    assert_eq!(one.out.members.len(), 2);
}

#[test]
fn packets_come_to_members_only_and_from_the_sources_they_want() {
    let mut one = One::carrying(|_| ());
    let came = packet(FAR, GROUP, 7, 0, 1_000);
    assert_eq!(one.inject(GROUP, &came), Vec::<Vec<u8>>::new());
    one.join(RecordKind::ToExclude, GROUP, &[]);
    let frames = one.inject(GROUP, &came);
    assert_eq!(frames, [frame(one.bridge.mac(), &came)]);
    one.join(RecordKind::Allow, SSM, &[FAR]);
    assert_eq!(one.inject(SSM, &packet(FAR, SSM, 7, 0, 100)).len(), 1);
    let other = Ipv4Addr::new(10, 2, 0, 10);
    assert_eq!(one.inject(SSM, &packet(other, SSM, 7, 0, 100)).len(), 0);
    assert_eq!(one.dropped(), [(Drop::NoMember, 1), (Drop::Filtered, 1)]);
    // A leave takes effect within a second.
    one.join(RecordKind::ToInclude, GROUP, &[]);
    one.wait(Duration::from_millis(400));
    assert_eq!(one.inject(GROUP, &came).len(), 0);
    assert_eq!(one.out.members.last(), Some(&(node(GROUP), false)));
    // Each group has counters of what happened to its packets.
    assert!(
        one.capture(&frame(HOST_MAC, &packet(HOST, GROUP, 8, 1, 100)))
            .is_some()
    );
    let of = |one: &One, by: NodeAddr| {
        let told = one.bridge.tallies().find(|told| told.0 == by);
        told.map(|(_, ip, tally)| {
            (
                ip,
                tally.captured,
                tally.injected,
                tally.drops.of(Drop::NoMember),
            )
        })
    };
    assert_eq!(of(&one, node(GROUP)), Some((GROUP.into(), 1, 1, 2)));
    assert_eq!(of(&one, carrier(SSM, FAR)), Some((SSM.into(), 0, 1, 0)));
}

#[test]
fn what_the_overlay_brings_must_be_of_its_group() {
    let mut one = One::carrying(|_| ());
    one.join(RecordKind::ToExclude, GROUP, &[]);
    let good = packet(FAR, GROUP, 7, 0, 100);
    let mut igmp = packet(FAR, GROUP, 7, 0, 100);
    (igmp[9], igmp[10], igmp[11]) = (PROTOCOL_IGMP, 0, 0);
    let right = packet::checksum(&igmp[..20]);
    igmp[10..12].copy_from_slice(&right.to_be_bytes());
    let mut padded = good.clone();
    padded.push(0);
    let forged: [&[u8]; 8] = [
        &[],
        &good[..99],
        &padded,
        &igmp,
        &packet(FAR, SSM, 7, 0, 100),
        &packet(FAR, Ipv4Addr::new(10, 1, 0, 9), 7, 0, 100),
        &packet(GROUP, GROUP, 7, 0, 100),
        &packet(FAR, GROUP, 0, 0, 100),
    ];
    for packet in forged {
        assert_eq!(one.inject(GROUP, packet).len(), 0);
    }
    let local = Ipv4Addr::new(224, 0, 0, 251);
    assert_eq!(one.inject(local, &packet(FAR, local, 7, 0, 100)).len(), 0);
    assert_eq!(one.dropped(), [(Drop::Forged, 9)]);
}

#[test]
fn packets_longer_than_the_network_takes_are_fragmented_or_told() {
    let mut one = One::carrying(|_| ());
    one.join(RecordKind::ToExclude, GROUP, &[]);
    let frames = one.inject(GROUP, &packet(FAR, GROUP, 7, 5, 9_000));
    assert_eq!(frames.len(), 7);
    for frame in &frames {
        let ip = Ip::parse(&frame[14..]).unwrap();
        assert!(ip.is_fragment && frame.len() <= 1_514);
    }
    let mut whole = packet(FAR, GROUP, 7, 6, 9_000);
    whole[6] = 0x40;
    whole[10..12].fill(0);
    let right = packet::checksum(&whole[..20]);
    whole[10..12].copy_from_slice(&right.to_be_bytes());
    assert_eq!(one.inject(GROUP, &whole).len(), 0);
    assert_eq!(one.dropped(), [(Drop::Mtu, 1)]);
    assert!(matches!(
        one.out.notices[..],
        [Notice::TooLong {
            bytes: 9_000,
            mtu: 1_500,
            ..
        }]
    ));
    let port = Port { mtu: 9_000, ..PORT };
    one.bridge.set_port(one.now, Some(port), &mut one.out);
    assert_eq!(one.inject(GROUP, &whole).len(), 1);
}

#[test]
fn what_comes_back_under_another_address_is_known() {
    let mut one = One::carrying(|_| ());
    one.join(RecordKind::ToExclude, GROUP, &[]);
    let came = packet(FAR, GROUP, 7, 0, 1_000);
    assert_eq!(one.inject(GROUP, &came).len(), 1);
    // A router has put the packet back, with another TTL.
    let back = frame(HOST_MAC, &packet(FAR, GROUP, 6, 0, 1_000));
    assert_eq!(one.capture(&back), None);
    // A packet that was heard here comes back from the overlay.
    let own = packet(HOST, GROUP, 8, 1, 1_000);
    assert!(one.capture(&frame(HOST_MAC, &own)).is_some());
    assert_eq!(
        one.inject(GROUP, &packet(HOST, GROUP, 7, 1, 1_000)).len(),
        0
    );
    assert_eq!(one.dropped(), [(Drop::Looped, 1), (Drop::Echo, 1)]);
    one.wait(Duration::from_secs(1));
    assert!(one.capture(&back).is_some());
}

#[test]
fn a_source_that_floods_is_held_back_and_others_are_not() {
    let mut one = One::carrying(|settings| settings.limit.packets = 100.0);
    let mut crossed = |source, count| {
        let packets = (0..count).map(|id| frame(HOST_MAC, &packet(source, GROUP, 8, id, 100)));
        packets.filter(|frame| one.capture(frame).is_some()).count()
    };
    assert_eq!(crossed(HOST, 1_000), 25);
    assert_eq!(crossed(FAR, 20), 20);
    assert_eq!(one.dropped(), [(Drop::Flood, 975)]);
    assert_eq!(
        one.out.notices,
        [Notice::Flood {
            source: HOST.into()
        }]
    );
}

#[test]
fn joins_follow_who_carries_and_the_interface() {
    let mut one = One::new(|_| ());
    one.join(RecordKind::ToExclude, GROUP, &[]);
    assert_eq!(one.out.members, [], "it still listens");
    one.wait(HOLD);
    assert_eq!(one.out.members, [(node(GROUP), true)]);
    let better = Hello {
        rank: Rank {
            priority: 0,
            node: NodeAddr(1),
            nonce: 1,
        },
        role: Role::Forwarding,
        is_cut_off: false,
    };
    one.capture(&better.frame([2, 0x53, 0x4e, 9, 9, 9]));
    assert_eq!(one.bridge.role(), Role::Standby);
    assert_eq!(one.out.members[1..], [(node(GROUP), false)]);
    assert_eq!(
        one.capture(&frame(HOST_MAC, &packet(HOST, GROUP, 8, 0, 100))),
        None
    );
    assert_eq!(one.inject(GROUP, &packet(FAR, GROUP, 8, 0, 100)).len(), 0);
    assert_eq!(one.dropped(), [(Drop::Standby, 2)]);
    // The bridge knows the members all the time.
    one.wait(HOLD);
    assert_eq!(one.bridge.role(), Role::Forwarding);
    assert_eq!(one.out.members[2..], [(node(GROUP), true)]);
    one.bridge.set_port(one.now, None, &mut one.out);
    assert_eq!(one.out.members[3..], [(node(GROUP), false)]);
    assert_eq!(one.inject(GROUP, &packet(FAR, GROUP, 8, 0, 100)).len(), 0);
    assert_eq!(one.bridge.role(), Role::Listening);
}

#[test]
fn an_interface_without_address_and_the_way_back_are_told() {
    let mut one = One::carrying(|_| ());
    let bare = Port {
        address: None,
        ..PORT
    };
    one.bridge.set_port(one.now, Some(bare), &mut one.out);
    let filtering = Port {
        filters_path: true,
        ..PORT
    };
    one.bridge.set_port(one.now, Some(filtering), &mut one.out);
    one.join(RecordKind::ToExclude, GROUP, &[]);
    for id in 0..2 {
        assert_eq!(one.inject(GROUP, &packet(FAR, GROUP, 8, id, 100)).len(), 1);
    }
    assert_eq!(
        one.out.notices,
        [Notice::NoAddress, Notice::PathFilter { source: FAR.into() }]
    );
}

#[test]
fn it_asks_at_once_says_hello_and_that_a_router_is_here() {
    let mut one = One::new(|settings| settings.wants = vec![(GROUP.into(), vec![])]);
    one.wait(Duration::from_millis(1));
    let kinds: Vec<_> = one
        .out
        .frames
        .iter()
        .map(|frame| match Ethernet::parse(frame).unwrap().kind {
            hello::KIND => 0,
            TYPE_IPV6 => frame[14 + 48],
            _ => frame[14 + 24],
        })
        .collect();
    let expected = [0, 0x11, 0x22, 130, 0x30, 151];
    assert_eq!(kinds, expected, "hello, query, report, query, routers");
    let mut silent = One::new(|settings| settings.asks = false);
    silent.wait(Duration::from_secs(60));
    let hellos = silent.out.frames.iter();
    assert!(hellos.clone().count() > 100);
    assert!(
        hellos
            .into_iter()
            .all(|frame| frame[12..14] == hello::KIND.to_be_bytes())
    );
}

/// Two bridges of one network; the overlay delivers what one bridge sends to both.
#[test]
fn two_bridges_of_one_network_do_not_loop() {
    let mut rng = Rng::new(3);
    let mut both = [2, 3].map(|seed| One::new(|settings| settings.seed = seed));
    let (mut sent, mut seen) = (0, 0);
    for turn in 0..2_000u16 {
        let span = Duration::from_millis(rng.below(3));
        let mut wire: Vec<(usize, Vec<u8>)> = Vec::new();
        for (n, one) in both.iter_mut().enumerate() {
            one.wait(span);
            wire.extend(one.out.frames.drain(..).map(|frame| (n, frame)));
        }
        if turn == 0 {
            let from = Speaker {
                mac: HOST_MAC,
                address: HOST,
            };
            let mut join = Vec::new();
            let records = [(RecordKind::ToExclude, GROUP, &[][..])];
            emit::report(&mut join, from, records.into_iter());
            wire.push((9, join));
        }
        let carries = both
            .iter()
            .filter(|one| one.bridge.role() == Role::Forwarding)
            .count();
        if carries == 1 {
            // One packet is from a host here, and one from elsewhere.
            sent += 1;
            wire.push((9, frame(HOST_MAC, &packet(HOST, GROUP, 8, turn, 200))));
            let far = packet(FAR, GROUP, 7, turn, 200);
            for (n, one) in both.iter_mut().enumerate() {
                wire.extend(one.inject(GROUP, &far).into_iter().map(|frame| (n, frame)));
            }
        }
        // All bridges hear what is on the wire, until it is quiet.
        let mut heard = 0;
        while let Some((by, frame)) = wire.pop() {
            heard += 1;
            assert!(heard < 20, "it goes round");
            seen += usize::from(frame.len() == 214);
            for n in (0..2).filter(|&n| n != by) {
                let Some((group, packet)) = both[n].capture(&frame) else {
                    continue;
                };
                for (m, one) in both.iter_mut().enumerate().filter(|&(m, _)| m != n) {
                    let group = Ipv4Addr::from_bits(group.0);
                    wire.extend(
                        one.inject(group, &packet)
                            .into_iter()
                            .map(|frame| (m, frame)),
                    );
                }
            }
        }
    }
    assert!(sent > 1_000);
    assert_eq!(
        seen,
        2 * sent,
        "each packet once: that from here, and that from elsewhere"
    );
    let captured: u64 = both.iter().map(|one| one.bridge.counters().captured).sum();
    assert_eq!(captured as usize, sent);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_frame_and_no_packet_does_harm(
        frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..120), 0..20),
        at in 0usize..60, value in any::<u8>(),
    ) {
        let mut one = One::carrying(|_| ());
        one.join(RecordKind::ToExclude, GROUP, &[]);
        let mut good = frame(HOST_MAC, &packet(HOST, GROUP, 8, 0, 100));
        good[at] = value;
        for frame in frames.iter().chain([&good]) {
            if let Some((group, sent)) = one.capture(frame) {
                let ip = Ip::parse(&sent).unwrap();
                prop_assert_eq!(carrier(ip.destination, ip.source), group);
                prop_assert!(ip.ttl >= 1);
            }
            let _ = one.inject(GROUP, frame);
        }
    }
}

#[test]
fn of_a_source_specific_group_each_source_crosses_by_itself_and_to_who_wants_it() {
    let mut one = One::carrying(|_| ());
    let other = Ipv4Addr::new(10, 2, 0, 10);
    let (wanted, unwanted) = (carrier(SSM, FAR), carrier(SSM, other));
    one.join(RecordKind::Allow, SSM, &[FAR]);
    assert_eq!(one.members(), [(wanted, true)]);
    // Packets that are sent here go to the overlay group of their own channel.
    let sent = one.capture(&frame(HOST_MAC, &packet(HOST, SSM, 7, 0, 100)));
    assert_eq!(sent.unwrap().0, carrier(SSM, HOST));
    // A packet of one channel is not accepted from the group of another.
    let put = &mut |_: &[u8], _: &[u8]| panic!("forged");
    let forged = packet(FAR, SSM, 7, 1, 100);
    one.bridge
        .on_overlay(one.now, unwanted, &forged, &mut one.out, put);
    assert_eq!(one.dropped(), [(Drop::Forged, 1)]);
    one.join(RecordKind::Allow, SSM, &[other]);
    assert_eq!(one.members(), [(unwanted, true)]);
    // A bridge on standby is a member of no group. It joins all of them again when it carries.
    let better = Hello {
        rank: Rank {
            priority: 0,
            node: NodeAddr(1),
            nonce: 1,
        },
        role: Role::Forwarding,
        is_cut_off: false,
    };
    let hello = better.frame([2, 0, 0, 0, 0, 1]);
    assert_eq!(one.capture(&hello), None);
    let mut all = [(wanted, false), (unwanted, false)];
    all.sort();
    assert_eq!(one.members(), all);
    one.bridge.set_reach(one.now, true, &mut one.out);
    let cut_off = Hello {
        is_cut_off: true,
        ..better
    };
    assert_eq!(one.capture(&cut_off.frame([2, 0, 0, 0, 0, 1])), None);
    assert_eq!(one.bridge.role(), Role::Forwarding, "at once");
    assert_eq!(one.members().len(), 2);
    // The other bridge reaches nobody, so that one is on standby.
    one.bridge.set_reach(one.now, false, &mut one.out);
    assert!(one.bridge.is_cut_off());
}

const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xff1e, 0, 0, 0, 0, 0, 0, 0x101);
const SSM_V6: Ipv6Addr = Ipv6Addr::new(0xff3e, 0, 0, 0, 0, 0, 0x8000, 1);
const FAR_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 2, 0, 0, 0, 9);
const HOST_V6: Speaker<Ipv6Addr> = Speaker {
    mac: HOST_MAC,
    address: Ipv6Addr::new(0xfe80, 0, 0, 0, 0x5054, 0xff, 0xfe00, 9),
};

fn packet_v6(source: Ipv6Addr, group: Ipv6Addr, hops: u8, bytes: u16) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((bytes - 40).to_be_bytes());
    packet.extend([17, hops]);
    packet.extend(source.octets());
    packet.extend(group.octets());
    packet.extend((40..bytes).map(|n| n as u8));
    packet
}

fn frame_v6(from: Mac, packet: &[u8]) -> Vec<u8> {
    let ethernet = Ethernet {
        to: packet::group_mac(Ip::parse(packet).unwrap().destination),
        from,
        kind: TYPE_IPV6,
    };
    [&ethernet.emit()[..], packet].concat()
}

impl One {
    fn join_v6(&mut self, kind: RecordKind, group: Ipv6Addr, sources: &[Ipv6Addr]) {
        let mut frame = Vec::new();
        mld::report(&mut frame, HOST_V6, [(kind, group, sources)].into_iter());
        assert_eq!(self.capture(&frame), None);
    }

    fn inject_v6(&mut self, packet: &[u8]) -> Vec<Vec<u8>> {
        let ip = Ip::parse(packet).unwrap();
        let by = carrier(ip.destination, ip.source);
        let mut frames = Vec::new();
        let put = &mut |head: &[u8], body: &[u8]| frames.push([head, body].concat());
        self.bridge
            .on_overlay(self.now, by, packet, &mut self.out, put);
        frames
    }
}

#[test]
fn ipv6_crosses_whole_but_for_one_hop_both_ways() {
    let mut one = One::carrying(|_| ());
    let original = packet_v6(FAR_V6, GROUP_V6, 8, 1_400);
    let (by, sent) = one.capture(&frame_v6(HOST_MAC, &original)).unwrap();
    assert_eq!(by, carrier(GROUP_V6, FAR_V6));
    let mut one_less = original.clone();
    one_less[7] = 7;
    assert_eq!(sent, one_less);
    // IPv6 packets reach only members, and only if the interface takes their length: nothing fragments IPv6 on the
    // path.
    let came = packet_v6(FAR_V6, GROUP_V6, 6, 1_500);
    assert_eq!(one.inject_v6(&came).len(), 0);
    one.join_v6(RecordKind::ToExclude, GROUP_V6, &[]);
    assert_eq!(one.members(), [(by, true)]);
    assert_eq!(one.inject_v6(&came), [frame_v6(one.bridge.mac(), &came)]);
    let long = packet_v6(FAR_V6, GROUP_V6, 6, 1_501);
    assert_eq!(one.inject_v6(&long).len(), 0);
    assert_eq!(one.dropped(), [(Drop::NoMember, 1), (Drop::Mtu, 1)]);
    one.join_v6(RecordKind::ToInclude, GROUP_V6, &[]);
    one.wait(Duration::from_millis(400));
    assert_eq!(one.members(), [(by, false)]);
}

#[test]
fn channels_of_ipv6_come_from_their_sources_only() {
    let mut one = One::carrying(|_| ());
    let other = Ipv6Addr::new(0xfd00, 0, 0, 2, 0, 0, 0, 10);
    one.join_v6(RecordKind::Allow, SSM_V6, &[FAR_V6]);
    assert_eq!(one.members(), [(carrier(SSM_V6, FAR_V6), true)]);
    assert_eq!(one.inject_v6(&packet_v6(FAR_V6, SSM_V6, 6, 100)).len(), 1);
    assert_eq!(one.inject_v6(&packet_v6(other, SSM_V6, 6, 100)).len(), 0);
    assert_eq!(one.dropped(), [(Drop::Filtered, 1)]);
}

#[test]
fn what_may_not_cross_of_ipv6_is_dropped_by_its_reason() {
    let mut one = One::carrying(|_| ());
    let group = |text: &str| packet_v6(FAR_V6, text.parse().unwrap(), 8, 100);
    let from = |text: &str| packet_v6(text.parse().unwrap(), GROUP_V6, 8, 100);
    let mut join = Vec::new();
    mld::report_old(&mut join, HOST_V6, GROUP_V6);
    let changed = |at: usize, to: u8| {
        let mut packet = join[ETHERNET_BYTES..].to_vec();
        packet[at] = to;
        mld::put_checksum(&mut packet, 48);
        packet
    };
    let cases = [
        (group("ff02::fb"), Drop::LinkLocal),
        (group("ff15::1"), Drop::NotAllowed),
        (group("fd00::1"), Drop::NotMulticast),
        (from("fe80::9"), Drop::Source),
        (from("::"), Drop::Source),
        (packet_v6(FAR_V6, GROUP_V6, 0, 100), Drop::TtlZero),
        (changed(7, 2), Drop::IgmpTtl),
        (changed(8, 0xfd), Drop::IgmpForeign),
        (changed(44, 9), Drop::IgmpMalformed),
    ];
    for (packet, reason) in &cases {
        let before = one.bridge.counters().drops.of(*reason);
        assert_eq!(one.capture(&frame_v6(HOST_MAC, packet)), None);
        let now = one.bridge.counters().drops.of(*reason);
        assert_eq!(now, before + 1, "{reason:?}");
    }
    assert_eq!(one.members(), []);
    // If no group of IPv6 may cross, the bridge does not query for IPv6.
    let mut only_v4 = One::new(|settings| settings.rules = "239.0.0.0/8".parse().unwrap());
    only_v4.wait(Duration::from_secs(60));
    let is_v6 = |frame: &Vec<u8>| frame[12..14] == TYPE_IPV6.to_be_bytes();
    assert!(!only_v4.out.frames.iter().any(is_v6));
    let mut both = One::new(|_| ());
    both.wait(Duration::from_secs(60));
    assert!(both.out.frames.iter().filter(|frame| is_v6(frame)).count() >= 4);
}
