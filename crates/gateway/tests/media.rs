//! Calls over two media planes: the phones are UDP sockets, and the overlay is a thread.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod network;

use base::{Duration, VirtualPort};
use gateway::media::{Error, Event, Report, Shadow, Why};
use network::{Fate, Gateway, NODES, Network, at, phone};
use std::net::UdpSocket;
use voice::media::{
    CallError, CallId, Carrier, Drop, Expected, LocalPorts, Need, PortError, Remote, StreamId,
};
use voice::rtp::Header;
use voice::sdp::Side;

/// One call between two phones, over the gateway of each.
struct Call {
    ids: [CallId; 2],
    phones: [UdpSocket; 2],
    /// The ports for the phones' RTP, at their gateways.
    ports: [u16; 2],
}

/// The phone's side of the call at each gateway.
const PHONES: [Side; 2] = Side::BOTH;

fn stream(call: CallId) -> StreamId {
    StreamId { call, media: 0 }
}

impl Call {
    fn open(gateways: [&Gateway; 2]) -> Call {
        let phones = [phone(), phone()];
        let opened = [0, 1].map(|index| {
            let plane = &gateways[index].plane;
            let id = plane.open().unwrap();
            let mut carriers = [
                (Carrier::Udp, Need::Single),
                (Carrier::Overlay, Need::Single),
            ];
            if PHONES[index] == Side::Callee {
                carriers.reverse();
            }
            (id, plane.add_stream(stream(id), carriers).unwrap())
        });
        let local = |index: usize, side: Side| -> LocalPorts { opened[index].1[side.index()] };
        for index in [0, 1] {
            let (plane, other) = (&gateways[index].plane, 1 - index);
            let id = stream(opened[index].0);
            let rtp = Expected {
                signalled: phones[index].local_addr().unwrap(),
                via: None,
                lan: false,
            };
            let remote = Remote::Udp {
                rtp,
                rtcp: None,
                dtls: false,
            };
            plane.signal(id, PHONES[index], remote).unwrap();
            let far = local(other, PHONES[other].other());
            let remote = Remote::Overlay {
                node: NODES[other],
                rtp: VirtualPort(far.rtp),
                rtcp: VirtualPort(far.rtcp),
            };
            plane.signal(id, PHONES[index].other(), remote).unwrap();
            plane.answered(id.call, true).unwrap();
        }
        Call {
            ids: [opened[0].0, opened[1].0],
            phones,
            ports: [0, 1].map(|index| local(index, PHONES[index]).rtp),
        }
    }

    fn say(&self, index: usize, bytes: &[u8]) {
        self.phones[index]
            .send_to(bytes, at(self.ports[index]))
            .unwrap();
    }

    fn hear(&self, index: usize) -> Vec<u8> {
        let mut bytes = [0; 2_000];
        let (len, from) = self.phones[index].recv_from(&mut bytes).unwrap();
        assert_eq!(from, at(self.ports[index]), "symmetric");
        bytes[..len].to_vec()
    }
}

fn rtp(seq: u16) -> Vec<u8> {
    let header = Header {
        marker: false,
        payload_type: 0,
        seq,
        timestamp: u32::from(seq) * 160,
        ssrc: 7,
    };
    [&header.to_bytes()[..], &[0xd5; 160]].concat()
}

fn seq(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[2], packet[3]])
}

fn is_rtp(payload: &[u8]) -> bool {
    payload.len() == 172
}

fn passes(_: &[u8]) -> Fate {
    Fate::Passes
}

fn side(report: &Report, side: Side) -> &gateway::media::SideReport {
    &report.streams[0].sides[side.index()]
}

#[test]
fn a_call_is_carried_both_ways_and_its_loss_is_known_before_and_after_recovery() {
    let network = Network::start("carried", |payload| match seq(payload) % 10 {
        _ if !is_rtp(payload) => Fate::Passes,
        3 => Fate::Lost,
        5 => Fate::Recovered,
        _ => Fate::Passes,
    });
    let (a, b) = (
        Gateway::start(&network, 0, 40),
        Gateway::start(&network, 1, 40),
    );
    let call = Call::open([&a, &b]);
    for n in 0..50 {
        call.say(0, &rtp(n));
        if n % 10 != 3 {
            assert_eq!(call.hear(1), rtp(n), "unchanged");
        }
        call.say(1, &rtp(n));
        if n % 10 != 3 {
            assert_eq!(call.hear(0), rtp(n));
        }
    }
    let report = a.plane.report(call.ids[0]).unwrap();
    let from_phone = side(&report, Side::Caller);
    assert_eq!((from_phone.carrier, from_phone.packets), (Carrier::Udp, 50));
    assert_eq!(
        from_phone.remote,
        Some(call.phones[0].local_addr().unwrap())
    );
    assert_eq!(from_phone.quality.counts.received, 50);
    assert!(from_phone.quality.budget.is_none());
    let from_overlay = side(&report, Side::Callee);
    let counts = from_overlay.quality.counts;
    assert_eq!(
        (counts.expected, counts.lost(), counts.recovered),
        (50, 5, 5)
    );
    assert!((counts.loss_before_recovery() - 0.2).abs() < 1e-9);
    let budget = from_overlay.quality.budget.unwrap();
    assert_eq!(budget.mean, Duration::from_millis(15));
    assert!(from_overlay.quality.mos().is_some_and(|mos| mos > 1.0));
    let counters = a.plane.counters();
    assert_eq!((counters.sent, counters.received), ([45, 50], [50, 45]));
    assert_eq!((counters.calls, counters.drops.total()), (1, 0));

    let closed = b.plane.close(call.ids[1]).unwrap();
    assert_eq!(side(&closed, Side::Caller).quality.counts.recovered, 5);
    assert!(b.plane.close(call.ids[1]).is_none());
    let counters = b.plane.counters();
    assert_eq!((counters.calls, counters.udp_ports_free), (0, 40));
}

#[test]
fn rtcp_tells_round_trips_and_what_the_ends_hear() {
    let network = Network::start("rtcp", passes);
    let (a, b) = (
        Gateway::start(&network, 0, 40),
        Gateway::start(&network, 1, 40),
    );
    let call = Call::open([&a, &b]);
    for end in [0, 1] {
        call.say(end, &rtp(1));
        call.hear(1 - end);
    }
    let mut sender_report = vec![0x80, 200, 0, 6, 0, 0, 0, 7];
    sender_report.extend(0x0000_1234_5678_0000_u64.to_be_bytes());
    sender_report.extend([0; 12]);
    call.say(0, &sender_report);
    assert_eq!(call.hear(1), sender_report);
    // A report about source 7: a quarter of the packets was lost, and no time passed since the sender report.
    let mut report = vec![0x81, 201, 0, 7, 0, 0, 0, 9, 0, 0, 0, 7, 64];
    report.resize(24, 0);
    report.extend(0x1234_5678_u32.to_be_bytes());
    report.extend([0; 4]);
    call.say(1, &report);
    assert_eq!(call.hear(0), report);
    for (gateway, index) in [(&a, 0), (&b, 1)] {
        let told = gateway.plane.report(call.ids[index]).unwrap();
        let callee = side(&told, Side::Callee);
        let (_, block) = callee.reported.block().unwrap();
        assert!((block.loss() - 0.25).abs() < 1e-9);
        assert!(
            callee
                .round_trip
                .is_some_and(|trip| trip < Duration::from_secs(20))
        );
        assert_eq!((callee.packets, callee.rtcp_packets), (2, 1));
        assert_eq!(side(&told, Side::Caller).round_trip, None);
    }
}

#[test]
fn garbage_and_strangers_get_nowhere() {
    let network = Network::start("strangers", passes);
    let (a, b) = (
        Gateway::start(&network, 0, 40),
        Gateway::start(&network, 1, 40),
    );
    let call = Call::open([&a, &b]);
    call.say(0, &rtp(0));
    assert_eq!(call.hear(1), rtp(0));
    let stranger = phone();
    stranger.send_to(&rtp(1), at(call.ports[0])).unwrap();
    for len in 0..40_u8 {
        let garbage: Vec<u8> = (0..len)
            .map(|n| n.wrapping_mul(37) ^ len.wrapping_mul(101))
            .collect();
        stranger.send_to(&garbage, at(call.ports[0])).unwrap();
    }
    stranger.send_to(&[0x80; 9_000], at(call.ports[0])).unwrap();
    // The next packet of the phone is the next one that is heard.
    call.say(0, &rtp(2));
    assert_eq!(call.hear(1), rtp(2));
    let report = a.until(|plane| {
        let report = plane.report(call.ids[0]).unwrap();
        (side(&report, Side::Caller).drops.total() == 42).then_some(report)
    });
    let drops = side(&report, Side::Caller).drops;
    assert!(
        drops.of(Drop::UnexpectedAddress) >= 1 && drops.of(Drop::NotRtp) >= 20,
        "{drops:?}"
    );
    assert_eq!(drops.iter().map(|(_, count)| count).sum::<u64>(), 42);
    assert_eq!(a.plane.counters().drops, drops);
    assert_eq!(side(&report, Side::Caller).packets, 2);
}

#[test]
fn ports_that_are_taken_are_passed_over_and_their_end_is_told() {
    let network = Network::start("ports", passes);
    let gateway = Gateway::start(&network, 0, 4);
    let plane = &gateway.plane;
    let udp = [(Carrier::Udp, Need::Pair), (Carrier::Overlay, Need::Pair)];
    let first = plane.open().unwrap();
    let [caller, callee] = plane.add_stream(stream(first), udp).unwrap();
    assert_eq!((caller.rtp % 2, caller.rtcp), (0, caller.rtp + 1));
    assert_eq!((callee.rtp, callee.rtcp), (20_000, 20_001));
    let second = plane.open().unwrap();
    // Another program has one port of the other pair.
    let squatter = UdpSocket::bind(at(caller.rtp + 2)).unwrap();
    let error = plane.add_stream(stream(second), udp).unwrap_err();
    assert!(matches!(error, Error::PortsTaken), "{error}");
    assert_eq!(plane.counters().ports_taken, 64);
    drop(squatter);
    let [next, _] = plane.add_stream(stream(second), udp).unwrap();
    assert_eq!(next.rtp, caller.rtp + 2);
    assert!(UdpSocket::bind(at(next.rtp)).is_err(), "it is bound");
    let third = plane.open().unwrap();
    let none = plane.add_stream(stream(third), udp);
    assert!(matches!(
        none,
        Err(Error::Call(CallError::Ports(PortError::Exhausted { .. })))
    ));
    let free = plane.counters().overlay_ports_free;
    assert_eq!(free, 10_000 - 4, "nothing is kept of what failed");
    plane.end_stream(stream(second)).unwrap();
    plane.add_stream(stream(third), udp).unwrap();
}

#[test]
fn calls_over_a_lost_node_end_and_others_go_on() {
    let network = Network::start("lost", passes);
    let (a, b) = (
        Gateway::start(&network, 0, 40),
        Gateway::start(&network, 1, 40),
    );
    let call = Call::open([&a, &b]);
    let local = a.plane.open().unwrap();
    let udp = [(Carrier::Udp, Need::Pair); 2];
    a.plane.add_stream(stream(local), udp).unwrap();
    call.say(0, &rtp(0));
    call.hear(1);
    assert_eq!(a.plane.node_lost(NODES[1]), 1);
    let Event::Ended {
        call: ended,
        why,
        report,
    } = a.event()
    else {
        panic!("an end")
    };
    assert_eq!((ended, why), (call.ids[0], Why::NodeLost(NODES[1])));
    assert_eq!(side(&report, Side::Caller).packets, 1);
    let counters = a.plane.counters();
    assert_eq!((counters.calls, counters.nodes_lost), (1, 1));
    assert_eq!(a.plane.node_lost(NODES[1]), 0);
}

#[test]
fn a_call_outlives_its_node_s_restart() {
    let network = Network::start("restart", passes);
    let (a, b) = (
        Gateway::start(&network, 0, 40),
        Gateway::start(&network, 1, 40),
    );
    let call = Call::open([&a, &b]);
    call.say(0, &rtp(0));
    call.hear(1);
    network.hang_up();
    for gateway in [&a, &b] {
        assert!(matches!(gateway.event(), Event::NodeAway(_)));
        assert!(matches!(gateway.event(), Event::NodeBack));
        assert!(gateway.plane.counters().connected);
    }
    call.say(0, &rtp(1));
    assert_eq!(call.hear(1), rtp(1));
}

#[test]
fn mirrored_rtp_is_heard_beside_the_overlay_s_and_never_played() {
    let network = Network::start("shadow", |payload| match seq(payload) % 10 {
        3 if is_rtp(payload) => Fate::Lost,
        _ => Fate::Passes,
    });
    let gateway = |node| {
        Gateway::with(&network, node, 40, |settings| {
            // The mirror has a port of its own, in place of the last media port.
            let (first, last) = settings.udp.clone().into_inner();
            settings.udp = first..=last - 2;
            settings.shadow = Some(Shadow {
                fraction: 0.5,
                port: last,
            });
        })
    };
    let (a, b) = (gateway(0), gateway(1));
    let direct = UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
    let relay_at = direct.local_addr().unwrap();
    // Every second call is mirrored.
    let first = Call::open([&a, &b]);
    assert!(!a.plane.signal_shadow(stream(first.ids[0]), relay_at));
    let call = Call::open([&a, &b]);
    assert!(a.plane.signal_shadow(stream(call.ids[0]), relay_at));
    assert!(
        a.plane.signal_shadow(stream(call.ids[0]), relay_at),
        "it goes on"
    );
    let shadow_port = at(*a.plane.shadow_port().as_ref().unwrap());
    let b_port = at(*b.plane.shadow_port().as_ref().unwrap());
    let mut packets = Vec::new();
    for n in 0..20 {
        call.say(0, &rtp(n));
        if n != 3 && n != 13 {
            assert_eq!(call.hear(1), rtp(n));
        }
        let mut bytes = [0; 500];
        let (len, from) = direct.recv_from(&mut bytes).unwrap();
        assert_eq!((from, &bytes[20..len]), (shadow_port, &rtp(n)[..]));
        packets.push(bytes[..len].to_vec());
    }
    // The direct path loses every fourth packet, and a stranger guesses.
    for (n, packet) in packets.iter().enumerate() {
        if n % 4 != 2 {
            direct.send_to(packet, b_port).unwrap();
        }
    }
    let mut guessed = packets[0].clone();
    guessed[10] ^= 1;
    direct.send_to(&guessed, b_port).unwrap();
    direct.send_to(&packets[0][..25], b_port).unwrap();
    let counters = b.until(|plane| {
        let counters = plane.counters();
        (counters.mirrored_received + counters.mirrored_refused == 17).then_some(counters)
    });
    assert_eq!(counters.mirrored_refused, 2);
    let report = b.plane.close(call.ids[1]).unwrap();
    let from_overlay = side(&report, Side::Caller);
    assert_eq!(from_overlay.quality.counts.lost(), 2);
    let heard = from_overlay.direct.as_ref().unwrap().counts;
    assert_eq!((heard.expected, heard.received, heard.lost()), (20, 15, 5));
    assert!(side(&report, Side::Callee).direct.is_none());
    // The call is over: packets that still arrive belong to no call.
    direct.send_to(&packets[0], b_port).unwrap();
    b.until(|plane| (plane.counters().mirrored_refused == 3).then_some(()));
    assert_eq!(a.plane.counters().mirrored, 20);
}

#[test]
fn a_plane_that_is_stopped_gives_everything_back() {
    let network = Network::start("stopped", passes);
    let gateway = Gateway::start(&network, 0, 40);
    let id = gateway.plane.open().unwrap();
    let udp = [(Carrier::Udp, Need::Pair); 2];
    let [caller, _] = gateway.plane.add_stream(stream(id), udp).unwrap();
    gateway.plane.stop();
    gateway.plane.stop();
    // A holder of the plane can still read the reports.
    assert_eq!(gateway.plane.reports().len(), 1);
    drop(gateway);
    drop(UdpSocket::bind(at(caller.rtp)).unwrap());
}
