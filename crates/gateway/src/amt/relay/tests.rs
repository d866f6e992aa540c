//! A relay, and test gateways that communicate with it.

use super::super::message::Message;
use super::*;
use crate::multicast::igmp::{RecordKind, emit};
use crate::multicast::packet;
use core::net::Ipv6Addr;
use proptest::prelude::*;

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 1, 1);
const SSM: Ipv4Addr = Ipv4Addr::new(232, 1, 1, 1);
const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 9);

#[derive(Debug, Default)]
struct Out {
    sent: Vec<(SocketAddr, Vec<u8>)>,
    members: Vec<(NodeAddr, bool)>,
    is_blocked: bool,
}

impl Outlet for Out {
    fn send(&mut self, to: SocketAddr, bytes: &[u8]) -> bool {
        if !self.is_blocked {
            self.sent.push((to, bytes.to_vec()));
        }
        !self.is_blocked
    }
    fn member(&mut self, group: NodeAddr, is_wanted: bool) {
        self.members.push((group, is_wanted));
    }
}

struct World {
    relay: Relay,
    now: Time,
    out: Out,
}

fn at(n: u16) -> SocketAddr {
    let address = Ipv4Addr::from_bits(0xc000_0200 + u32::from(n) / 64);
    SocketAddr::new(address.into(), 40_000 + n)
}

fn packet(group: Ipv4Addr, source: Ipv4Addr) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 40, 0, 1, 0, 0, 7, 17, 0, 0];
    packet.extend(source.octets());
    packet.extend(group.octets());
    let sum = packet::checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend([9; 20]);
    packet
}

impl World {
    fn new() -> World {
        let settings = Settings {
            address: "192.0.2.1".parse().unwrap(),
            rules: Rules::default(),
            secret: [7; 32],
        };
        World {
            relay: Relay::new(settings, Time::from_nanos(1)),
            now: Time::from_nanos(1),
            out: Out::default(),
        }
    }

    fn say(&mut self, from: SocketAddr, message: &Message<'_>) {
        let mut bytes = Vec::new();
        message.emit(&mut bytes);
        self.relay
            .on_datagram(self.now, from, &bytes, &mut self.out);
    }

    /// Returns the relay's answer to a request: the MAC, and whether it accepts more receivers.
    fn request(&mut self, from: SocketAddr, nonce: u32) -> (Mac, bool) {
        self.out.sent.clear();
        let is_mld = false;
        self.say(from, &Message::Request { is_mld, nonce });
        let (to, bytes) = self.out.sent.pop().unwrap();
        let Ok(Message::Query {
            is_full,
            mac,
            nonce: again,
            packet,
            gateway,
        }) = Message::parse(&bytes)
        else {
            panic!("{bytes:?}");
        };
        assert_eq!((to, again, gateway), (from, nonce, Some(from)));
        let ip = Ip::parse(packet).unwrap();
        assert_eq!(ip.total_bytes, packet.len());
        let query = Igmp::parse(&packet[ip.header_bytes..]).unwrap();
        assert!(matches!(query, Igmp::Query(asked) if asked.group.is_none()));
        (mac, is_full)
    }

    fn report(
        &mut self,
        from: SocketAddr,
        (mac, nonce): (Mac, u32),
        records: &[(RecordKind, Ipv4Addr, &[Ipv4Addr])],
    ) {
        let speaker = Speaker {
            mac: [2, 0, 0, 0, 0, 1],
            address: Ipv4Addr::new(192, 168, 0, 2),
        };
        let mut frame = Vec::new();
        emit::report(&mut frame, speaker, records.iter().copied());
        let ip = Ip::parse(&frame[ETHERNET_BYTES..]).unwrap();
        let packet = &frame[ETHERNET_BYTES..ETHERNET_BYTES + ip.total_bytes];
        self.say(from, &Message::Update { mac, nonce, packet });
    }

    /// Adds a receiver that has joined.
    fn join(&mut self, from: SocketAddr, kind: RecordKind, group: Ipv4Addr, sources: &[Ipv4Addr]) {
        let (mac, _) = self.request(from, 5);
        self.report(from, (mac, 5), &[(kind, group, sources)]);
        self.out.sent.clear();
    }

    fn wait(&mut self, span: Duration) {
        let end = self.now + span;
        while self.relay.next_timeout() <= end {
            self.now = self.now.max(self.relay.next_timeout());
            self.relay.on_timeout(self.now, &mut self.out);
        }
        self.now = end;
    }

    /// Returns the receivers of a packet of the overlay.
    fn receivers(&mut self, group: Ipv4Addr, source: Ipv4Addr) -> Vec<SocketAddr> {
        self.out.sent.clear();
        let packet = packet(group, source);
        let by = carrier(group, source);
        self.relay.on_overlay(self.now, by, &packet, &mut self.out);
        let sent = core::mem::take(&mut self.out.sent);
        let each = sent.iter().map(|(to, bytes)| {
            assert_eq!(Message::parse(bytes), Ok(Message::Data { packet: &packet }));
            *to
        });
        each.collect()
    }

    fn refused(&self, why: Refused) -> u64 {
        self.relay.counters().refused[why as usize]
    }
}

#[test]
fn a_gateway_finds_the_relay_joins_receives_and_leaves() {
    let mut world = World::new();
    world.say(at(1), &Message::Discovery { nonce: 9 });
    let (to, bytes) = world.out.sent.pop().unwrap();
    let relay = "192.0.2.1".parse().unwrap();
    let expected = Message::Advertisement { nonce: 9, relay };
    assert_eq!((to, Message::parse(&bytes)), (at(1), Ok(expected)));
    assert_eq!(world.relay.tunnels(), 0, "nothing is kept for a question");
    assert!(world.receivers(GROUP, SOURCE).is_empty());

    let (mac, is_full) = world.request(at(1), 77);
    assert!(!is_full && world.relay.tunnels() == 0);
    world.report(at(1), (mac, 77), &[(RecordKind::ToExclude, GROUP, &[])]);
    let group = NodeAddr(GROUP.to_bits());
    assert_eq!(world.out.members, [(group, true)]);
    world.join(at(2), RecordKind::ToExclude, GROUP, &[]);
    assert_eq!(world.out.members.len(), 1, "joined once for all");
    assert_eq!(world.receivers(GROUP, SOURCE), [at(1), at(2)]);

    world.report(at(1), (mac, 77), &[(RecordKind::ToInclude, GROUP, &[])]);
    world.wait(Duration::from_secs(1));
    assert_eq!(world.receivers(GROUP, SOURCE), [at(2)]);
    assert_eq!((world.relay.tunnels(), world.out.members.len()), (1, 1));
    // A silent receiver is forgotten, and its group is left.
    world.wait(Timing::default().membership());
    assert_eq!((world.relay.tunnels(), world.relay.groups()), (0, 0));
    assert_eq!(world.out.members[1..], [(group, false)]);
    assert!(world.relay.hosts.is_empty());
}

#[test]
fn of_a_source_specific_group_each_source_goes_to_who_named_it() {
    let mut world = World::new();
    let other = Ipv4Addr::new(10, 2, 0, 10);
    world.join(at(1), RecordKind::Allow, SSM, &[SOURCE]);
    world.join(at(2), RecordKind::Allow, SSM, &[other]);
    let joined = [carrier(SSM, SOURCE), carrier(SSM, other)];
    assert_eq!(world.out.members, joined.map(|group| (group, true)));
    assert_eq!(world.receivers(SSM, SOURCE), [at(1)]);
    assert_eq!(world.receivers(SSM, other), [at(2)]);
    world.join(at(1), RecordKind::ToExclude, SSM, &[]);
    assert_eq!(world.refused(Refused::Group), 1);
    // For another group, the relay filters the sources itself.
    world.join(at(3), RecordKind::Allow, GROUP, &[SOURCE]);
    assert_eq!(world.receivers(GROUP, SOURCE), [at(3)]);
    assert!(world.receivers(GROUP, other).is_empty());
}

#[test]
fn nothing_is_kept_or_sent_for_who_does_not_bring_the_mac_back() {
    let mut world = World::new();
    let join = [(RecordKind::ToExclude, GROUP, &[][..])];
    let (mac, _) = world.request(at(1), 5);
    for (from, mac, nonce) in [
        (at(2), mac, 5),
        (SocketAddr::new(at(1).ip(), 9), mac, 5),
        (at(1), mac, 6),
        (at(1), mac.map(|b| b ^ 1), 5),
    ] {
        world.report(from, (mac, nonce), &join);
    }
    assert_eq!((world.refused(Refused::Mac), world.relay.tunnels()), (4, 0));
    // The MAC is valid for a while, and not forever.
    world.wait(SECRET_EVERY);
    world.report(at(1), (mac, 5), &join);
    assert_eq!(world.relay.tunnels(), 1);
    world.wait(SECRET_EVERY);
    world.report(at(1), (mac, 5), &join);
    assert_eq!(world.refused(Refused::Mac), 5);
}

#[test]
fn who_has_moved_ends_what_went_to_its_former_address() {
    let mut world = World::new();
    let (mac, _) = world.request(at(1), 5);
    world.report(at(1), (mac, 5), &[(RecordKind::ToExclude, GROUP, &[])]);
    let gateway = at(1);
    let nonce = 5;
    let forged = [9; MAC_BYTES];
    let tear_down = |mac| Message::Teardown {
        mac,
        nonce,
        gateway,
    };
    world.say(at(9), &tear_down(forged));
    assert_eq!(world.relay.tunnels(), 1);
    world.say(at(9), &tear_down(mac));
    assert_eq!((world.relay.tunnels(), world.refused(Refused::Mac)), (0, 1));
    assert!(world.receivers(GROUP, SOURCE).is_empty());
}

#[test]
fn receivers_questions_and_groups_are_bounded() {
    let mut world = World::new();
    let here = |port: u16| SocketAddr::new("192.0.2.9".parse().unwrap(), port);
    for port in 0..TUNNELS_PER_HOST_MAX as u16 {
        world.join(here(port), RecordKind::ToExclude, GROUP, &[]);
    }
    let (mac, is_full) = world.request(here(999), 5);
    assert!(is_full, "it is told before it tries");
    world.report(here(999), (mac, 5), &[(RecordKind::ToExclude, GROUP, &[])]);
    assert_eq!(world.refused(Refused::AddressFull), 1);
    assert_eq!(world.relay.tunnels(), TUNNELS_PER_HOST_MAX);
    // Another address is not excluded, until all places are taken.
    let mut n = 0;
    while world.relay.tunnels() < TUNNELS_MAX {
        let from = SocketAddr::new(Ipv4Addr::from_bits(0x0a01_0000 + n).into(), 1);
        world.join(from, RecordKind::ToExclude, GROUP, &[]);
        world.now += Duration::from_millis(2);
        n += 1;
    }
    world.join(at(1), RecordKind::ToExclude, GROUP, &[]);
    assert_eq!(world.refused(Refused::Full), 1);
    // One receiver can have only so many groups.
    let mut world = World::new();
    let (mac, _) = world.request(at(1), 5);
    for n in 0..GROUPS_PER_TUNNEL_MAX as u32 + 5 {
        let group = Ipv4Addr::from_bits(0xef02_0000 + n);
        world.report(at(1), (mac, 5), &[(RecordKind::ToExclude, group, &[])]);
    }
    assert_eq!(world.relay.groups(), GROUPS_PER_TUNNEL_MAX);
    assert_eq!(world.refused(Refused::TooMany), 5);
    // The number of answers is limited, whoever asks.
    let mut world = World::new();
    for n in 0..5_000 {
        world.say(at(n % 60), &Message::Discovery { nonce: 1 });
    }
    assert_eq!(world.out.sent.len(), ANSWERS_PER_S as usize);
    assert_eq!(world.refused(Refused::Flood), 4_000);
}

#[test]
fn strangers_that_ask_and_ask_do_not_end_a_receiver() {
    let mut world = World::new();
    world.join(at(1), RecordKind::ToExclude, GROUP, &[]);
    // There are 10 000 questions a second for two minutes; the receiver asks and answers every 20 s.
    for tenth in 1..=1_200 {
        world.wait(Duration::from_millis(100));
        for n in 0..1_000 {
            world.say(at(100 + n), &Message::Discovery { nonce: 1 });
        }
        world.out.sent.clear();
        if tenth % 200 == 0 {
            let (mac, _) = world.request(at(1), 5);
            world.report(at(1), (mac, 5), &[(RecordKind::IsExclude, GROUP, &[])]);
            assert_eq!(world.receivers(GROUP, SOURCE), [at(1)]);
        }
    }
    assert!(world.refused(Refused::Flood) > 1_000_000);
}

#[test]
fn strangers_under_the_address_of_a_receiver_do_not_end_it() {
    let mut world = World::new();
    world.join(at(1), RecordKind::ToExclude, GROUP, &[]);
    for _ in 0..12 {
        world.wait(Duration::from_secs(10));
        // This is more than a receiver's own budget, just before it asks.
        for nonce in 0..20 {
            world.say(at(1), &Message::Discovery { nonce });
            world.say(
                at(1),
                &Message::Request {
                    is_mld: false,
                    nonce,
                },
            );
        }
        world.out.sent.clear();
        let (mac, _) = world.request(at(1), 5);
        world.report(at(1), (mac, 5), &[(RecordKind::IsExclude, GROUP, &[])]);
        assert_eq!(world.receivers(GROUP, SOURCE), [at(1)]);
    }
}

#[test]
fn a_network_of_one_host_of_ipv6_leaves_places_to_others() {
    let mut world = World::new();
    let host = |network: u16, n: u16| {
        let address = Ipv6Addr::new(0x2001, 0xdb8, 0, network, 0, 0, 0, n);
        SocketAddr::new(address.into(), 4_000)
    };
    for n in 0..TUNNELS_MAX as u16 {
        world.join(host(1, n), RecordKind::ToExclude, GROUP, &[]);
        world.now += Duration::from_millis(2);
    }
    assert_eq!(world.relay.tunnels(), TUNNELS_PER_HOST_MAX);
    world.join(host(2, 1), RecordKind::ToExclude, GROUP, &[]);
    assert_eq!(world.relay.tunnels(), TUNNELS_PER_HOST_MAX + 1);
    // Receivers that leave release their places.
    world.wait(Timing::default().membership());
    assert!(world.relay.hosts.is_empty());
}

#[test]
fn the_receivers_of_one_host_leave_places_of_the_node_to_others() {
    let mut world = World::new();
    let here = |port: u16| SocketAddr::new("192.0.2.9".parse().unwrap(), port);
    let source = |n: u32| Ipv4Addr::from_bits(0x0a05_0000 + n);
    let ssm = |n: u32| Ipv4Addr::from_bits(0xe801_0000 + n);
    // Each receiver names 32 sources of each of 64 groups.
    let sources: Vec<_> = (0..32).map(source).collect();
    for port in 0..TUNNELS_PER_HOST_MAX as u16 {
        let (mac, _) = world.request(here(port), 5);
        for n in 0..64 {
            let group = ssm(u32::from(port) * 64 + n);
            world.report(
                here(port),
                (mac, 5),
                &[(RecordKind::Allow, group, &sources)],
            );
        }
        world.now += Duration::from_secs(1);
    }
    assert_eq!(world.relay.groups(), GROUPS_PER_HOST_MAX);
    // A receiver elsewhere gets what it wants.
    world.join(at(1), RecordKind::Allow, SSM, &[SOURCE]);
    assert_eq!(world.receivers(SSM, SOURCE), [at(1)]);
    // Another receiver of the host has the same groups, and when they have ended, others.
    world.wait(Timing::default().membership());
    assert_eq!((world.relay.groups(), world.relay.hosts.len()), (0, 0));
    world.join(here(1), RecordKind::Allow, SSM, &[SOURCE]);
    world.join(here(2), RecordKind::Allow, SSM, &[SOURCE]);
    assert_eq!(world.receivers(SSM, SOURCE), [here(1), here(2)]);
    assert_eq!(world.relay.groups(), 1);
}

#[test]
fn what_the_network_does_not_take_is_counted_and_not_as_sent() {
    let mut world = World::new();
    world.join(at(1), RecordKind::ToExclude, GROUP, &[]);
    assert_eq!(world.receivers(GROUP, SOURCE), [at(1)]);
    let sent = world.relay.counters().sent;
    world.out.is_blocked = true;
    assert_eq!(world.receivers(GROUP, SOURCE), []);
    world.say(at(1), &Message::Discovery { nonce: 1 });
    assert_eq!(world.refused(Refused::NotSent), 2);
    assert_eq!(world.relay.counters().sent, sent);
}

#[test]
fn what_the_overlay_brings_wrong_goes_nowhere() {
    let mut world = World::new();
    world.join(at(1), RecordKind::ToExclude, GROUP, &[]);
    let by = NodeAddr(GROUP.to_bits());
    let mut longer = packet(GROUP, SOURCE);
    longer.push(0);
    for bytes in [&packet(SSM, SOURCE)[..], &longer, &[], &[0x45; 19]] {
        world.relay.on_overlay(world.now, by, bytes, &mut world.out);
    }
    assert_eq!(world.refused(Refused::Forged), 4);
    assert!(world.out.sent.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn any_bytes_are_read_and_what_is_wanted_stays_true(
        all in proptest::collection::vec((0u16..4, proptest::collection::vec(any::<u8>(), 0..80)), 0..40)
    ) {
        let mut world = World::new();
        for (from, bytes) in &all {
            let (mac, _) = world.request(at(*from), 5);
            world.relay.on_datagram(world.now, at(*from), bytes, &mut world.out);
            let packet = bytes;
            world.say(at(*from), &Message::Update { mac, nonce: 5, packet });
        }
        world.wait(Duration::from_secs(200));
        prop_assert_eq!((world.relay.tunnels(), world.relay.groups()), (0, 0));
        let sum: i32 = world.out.members.iter().map(|(_, on)| if *on { 1 } else { -1 }).sum();
        prop_assert_eq!(sum, 0);
    }
}

#[test]
fn a_receiver_asks_by_mld_and_gets_ipv6() {
    let group = Ipv6Addr::new(0xff1e, 0, 0, 0, 0, 0, 0, 0x101);
    let source = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 5);
    let mut world = World::new();
    world.say(
        at(1),
        &Message::Request {
            is_mld: true,
            nonce: 5,
        },
    );
    let (_, bytes) = world.out.sent.pop().unwrap();
    let Ok(Message::Query { mac, packet, .. }) = Message::parse(&bytes) else {
        panic!("{bytes:?}");
    };
    let ip = Ip::parse(packet).unwrap();
    assert!(matches!(mld::parse(&ip, packet), Ok(Igmp::Query(asked)) if asked.group.is_none()));
    let speaker = Speaker {
        mac: [2, 0, 0, 0, 0, 1],
        address: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
    };
    let mut frame = Vec::new();
    let joins = (RecordKind::ToExclude, group, &[][..]);
    mld::report(&mut frame, speaker, [joins].into_iter());
    let ip = Ip::parse(&frame[ETHERNET_BYTES..]).unwrap();
    let packet = &frame[ETHERNET_BYTES..ETHERNET_BYTES + ip.total_bytes];
    world.say(
        at(1),
        &Message::Update {
            mac,
            nonce: 5,
            packet,
        },
    );
    let by = carrier(group, source);
    assert_eq!(world.out.members, [(by, true)]);
    let mut sent = vec![0x60, 0, 0, 0, 0, 20, 17, 7];
    sent.extend(source.octets());
    sent.extend(group.octets());
    sent.extend([9; 20]);
    world.relay.on_overlay(world.now, by, &sent, &mut world.out);
    let (to, bytes) = world.out.sent.pop().unwrap();
    assert_eq!((to, &bytes[2..]), (at(1), &sent[..]));
    world.wait(Timing::default().membership());
    assert_eq!(world.out.members.last(), Some(&(by, false)));
    assert_eq!(world.relay.tunnels(), 0);
}
