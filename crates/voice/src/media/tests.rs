use super::*;
use crate::rtp::{Header, Kind};
use proptest::prelude::*;
use std::collections::BTreeSet as Set;

const RTCP: [u8; 8] = [0x80, 201, 0, 1, 0, 0, 0, 7];
const DTLS: [u8; 3] = [0x16, 0xfe, 0xfd];

const CALL: CallId = CallId(1);
const STREAM: StreamId = StreamId {
    call: CALL,
    media: 0,
};

/// The gateway of the other side.
const FAR: NodeAddr = NodeAddr(0x0a07_0009);

fn at(s: u64) -> Time {
    Time::ZERO + Duration::from_secs(s)
}

fn addr(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn rtp() -> [u8; 12] {
    let header = Header {
        marker: false,
        payload_type: 0,
        seq: 1,
        timestamp: 1,
        ssrc: 7,
    };
    header.to_bytes()
}

fn expected(signalled: &str) -> Expected {
    Expected {
        signalled: addr(signalled),
        via: Some([203, 0, 113, 5].into()),
        lan: false,
    }
}

/// Returns a phone with RTP at this address and RTCP at the next port.
fn phone(signalled: &str) -> Remote {
    let rtp = expected(signalled);
    let mut rtcp = rtp;
    rtcp.signalled.set_port(rtp.signalled.port() + 1);
    Remote::Udp {
        rtp,
        rtcp: Some(rtcp),
        dtls: false,
    }
}

fn far() -> Remote {
    Remote::Overlay {
        node: FAR,
        rtp: VirtualPort(500),
        rtcp: VirtualPort(501),
    }
}

fn pairs() -> [(Carrier, Need); 2] {
    [(Carrier::Udp, Need::Pair), (Carrier::Overlay, Need::Pair)]
}

/// Sets up a call of a phone at 192.0.2.10:4000 with the far gateway.
fn one_call() -> (Calls, LocalPorts, LocalPorts) {
    let mut calls = Calls::new(30_000..=30_099, 20_000..=20_099).expect("ranges");
    calls.open(at(0), CALL).expect("room");
    let [near, overlay] = calls.add_stream(STREAM, pairs()).expect("ports");
    let signal = |calls: &mut Calls, side, remote| {
        calls
            .signal(at(0), STREAM, side, remote)
            .expect("the stream is there");
    };
    signal(&mut calls, Side::Caller, phone("192.0.2.10:4000"));
    signal(&mut calls, Side::Callee, far());
    calls.answered(at(1), CALL, true).expect("it is open");
    (calls, near, overlay)
}

#[test]
fn packets_cross_from_phone_to_overlay_and_back() {
    let (mut calls, near, overlay) = one_call();
    let source = addr("192.0.2.10:4000");
    let forward = calls.on_udp(at(1), near.rtp, source, &rtp());
    assert_eq!(
        forward,
        Ok(Forward {
            stream: STREAM,
            from: Side::Caller,
            kind: Kind::Rtp,
            to: Destination::Overlay {
                from: VirtualPort(overlay.rtp),
                node: FAR,
                to: VirtualPort(500),
            },
            learned: true,
        })
    );
    let back = calls.on_overlay(
        at(1),
        VirtualPort(overlay.rtcp),
        (FAR, VirtualPort(501)),
        &RTCP,
    );
    let to = Destination::Udp {
        from: near.rtcp,
        to: addr("192.0.2.10:4001"),
    };
    assert_eq!(back.map(|forward| forward.to), Ok(to));
    let carried = calls.close(CALL).expect("it is open");
    assert_eq!(carried.packets, [1, 1]);
    assert_eq!(carried.bytes, [12, 8]);
    assert_eq!(
        calls.on_udp(at(1), near.rtp, source, &rtp()),
        Err(Drop::NoCall)
    );
    assert_eq!(calls.ports_free(Carrier::Udp), 100);
    assert_eq!(calls.ports_free(Carrier::Overlay), 100);
}

#[test]
fn the_real_address_is_learned_once_and_locked() {
    let (mut calls, near, overlay) = one_call();
    let mut put = |from: &str| calls.on_udp(at(1), near.rtp, addr(from), &rtp());
    assert_eq!(put("198.51.100.7:4000"), Err(Drop::UnexpectedAddress));
    // The packet comes from the NAT that its signalling came through, with another port.
    assert!(put("203.0.113.5:61000").is_ok_and(|forward| forward.learned));
    assert!(put("203.0.113.5:61000").is_ok_and(|forward| !forward.learned));
    // Neither the signalled address nor another port takes over the lock.
    assert_eq!(put("192.0.2.10:4000"), Err(Drop::UnexpectedAddress));
    assert_eq!(put("203.0.113.5:61001"), Err(Drop::UnexpectedAddress));
    let from = (FAR, VirtualPort(500));
    let back = calls.on_overlay(at(1), VirtualPort(overlay.rtp), from, &rtp());
    let to = Destination::Udp {
        from: near.rtp,
        to: addr("203.0.113.5:61000"),
    };
    assert_eq!(back.map(|forward| forward.to), Ok(to));
    assert_eq!(calls.dropped(Drop::UnexpectedAddress), 3);
    assert_eq!(calls.carried(CALL).map(|carried| carried.dropped), Some(3));
    assert_eq!(
        calls.learned(STREAM, Side::Caller, Component::Rtp),
        Some(addr("203.0.113.5:61000"))
    );
    assert_eq!(calls.learned(STREAM, Side::Caller, Component::Rtcp), None);
}

#[test]
fn a_neighbour_in_the_lan_does_not_take_the_stream() {
    let (mut calls, near, _) = one_call();
    let neighbours = ["192.0.2.11:4000", "203.0.113.6:61000"];
    for neighbour in neighbours {
        let stolen = calls.on_udp(at(1), near.rtp, addr(neighbour), &rtp());
        assert_eq!(stolen, Err(Drop::UnexpectedAddress), "{neighbour}");
    }
    assert_eq!(calls.dropped(Drop::UnexpectedAddress), 2);
    let of_phone = calls.on_udp(at(1), near.rtp, addr("192.0.2.10:4000"), &rtp());
    assert!(of_phone.is_ok_and(|forward| forward.learned));

    // If the site allows it, neighbours are accepted; other networks still are not.
    let lan = phone("192.0.2.10:4000").or_from_lan(true);
    for (neighbour, may) in [("198.51.100.7:4000", false), ("192.0.2.11:4000", true)] {
        calls
            .signal(at(2), STREAM, Side::Caller, lan)
            .expect("the stream is there");
        let put = calls.on_udp(at(5), near.rtp, addr(neighbour), &rtp());
        assert_eq!(put.is_ok(), may, "{neighbour}");
    }
}

#[test]
fn a_reinvite_moves_media_without_a_gap() {
    let (mut calls, near, overlay) = one_call();
    let (old, new) = ("192.0.2.10:4000", "192.0.2.10:6000");
    let put = |calls: &mut Calls, s, from| calls.on_udp(at(s), near.rtp, addr(from), &rtp());
    let target = |calls: &mut Calls, s| {
        let from = (FAR, VirtualPort(500));
        match calls.on_overlay(at(s), VirtualPort(overlay.rtp), from, &rtp()) {
            Ok(forward) => match forward.to {
                Destination::Udp { to, .. } => Some(to),
                Destination::Overlay { .. } => None,
            },
            Err(_) => None,
        }
    };
    assert!(put(&mut calls, 1, old).is_ok());
    assert_eq!(put(&mut calls, 1, new), Err(Drop::UnexpectedAddress));

    calls
        .signal(at(2), STREAM, Side::Caller, phone(new))
        .expect("the stream is there");
    // Packets that are still under way pass, and do not take the lock; media is sent to the new address.
    assert!(put(&mut calls, 2, old).is_ok_and(|forward| !forward.learned));
    assert_eq!(target(&mut calls, 2), Some(addr(new)));
    assert!(put(&mut calls, 3, new).is_ok_and(|forward| forward.learned));
    assert!(put(&mut calls, 3, old).is_ok());
    assert_eq!(put(&mut calls, 4, old), Err(Drop::UnexpectedAddress));
    assert_eq!(target(&mut calls, 4), Some(addr(new)));
}

#[test]
fn a_refresh_keeps_what_was_learned() {
    let (mut calls, near, overlay) = one_call();
    let real = "203.0.113.5:61000";
    let put = |calls: &mut Calls, s, from| calls.on_udp(at(s), near.rtp, addr(from), &rtp());
    assert!(put(&mut calls, 1, real).is_ok());
    let refresh = phone("192.0.2.10:4000");
    for s in 2..4 {
        calls
            .signal(at(s), STREAM, Side::Caller, refresh)
            .expect("the stream is there");
    }
    // Until the end sends, media is sent to its previous address.
    let from = (FAR, VirtualPort(500));
    let back = calls.on_overlay(at(4), VirtualPort(overlay.rtp), from, &rtp());
    let to = Destination::Udp {
        from: near.rtp,
        to: addr(real),
    };
    assert_eq!(back.map(|forward| forward.to), Ok(to));
    assert!(put(&mut calls, 4, real).is_ok_and(|forward| forward.learned));
    // The end's NAT gave it another port: it is learned after a refresh, not before.
    let other = "203.0.113.5:62000";
    assert_eq!(put(&mut calls, 9, other), Err(Drop::UnexpectedAddress));
    calls
        .signal(at(10), STREAM, Side::Caller, refresh)
        .expect("the stream is there");
    assert!(put(&mut calls, 10, other).is_ok_and(|forward| forward.learned));
}

#[test]
fn what_does_not_belong_is_dropped_with_its_reason() {
    let (mut calls, near, overlay) = one_call();
    let phone_rtp = addr("192.0.2.10:4000");
    let mut put = |port, bytes: &[u8]| {
        calls
            .on_udp(at(1), port, phone_rtp, bytes)
            .map(|forward| forward.kind)
    };
    assert_eq!(put(1, &rtp()), Err(Drop::NoCall));
    assert_eq!(put(near.rtp, b"GET / HTTP/1.1"), Err(Drop::NotRtp));
    assert_eq!(put(near.rtp, &rtp()[..11]), Err(Drop::NotRtp));
    assert_eq!(put(near.rtp, &[]), Err(Drop::NotRtp));
    assert_eq!(put(near.rtp, &DTLS), Err(Drop::NotRtp));
    assert_eq!(put(near.rtp, &[0, 1, 0, 0]), Err(Drop::NotRtp), "STUN");
    assert_eq!(put(near.rtp, &RTCP), Err(Drop::WrongComponent));
    assert_eq!(put(near.rtcp, &rtp()), Err(Drop::WrongComponent));
    assert_eq!(put(near.rtcp, &RTCP[..7]), Err(Drop::NotRtp));
    assert_eq!(put(near.rtcp, &RTCP), Ok(Kind::Rtcp));
    // The overlay authenticates the sender: nothing is learned there.
    for from in [
        (NodeAddr(1), VirtualPort(500)),
        (FAR, VirtualPort(501)),
        (FAR, VirtualPort(0)),
    ] {
        let port = VirtualPort(overlay.rtp);
        let dropped = calls.on_overlay(at(1), port, from, &rtp());
        assert_eq!(dropped, Err(Drop::UnexpectedAddress));
    }
    // A UDP port is no virtual port.
    let dropped = calls.on_overlay(
        at(1),
        VirtualPort(near.rtp),
        (FAR, VirtualPort(500)),
        &rtp(),
    );
    assert_eq!(dropped, Err(Drop::NoCall));
    let counted: Vec<_> = Drop::ALL.map(|reason| calls.dropped(reason)).to_vec();
    assert_eq!(counted, [2, 6, 2, 3, 0, 0]);
    for (n, reason) in Drop::ALL.into_iter().enumerate() {
        assert_eq!(reason as usize, n);
    }
}

#[test]
fn nothing_passes_before_both_sides_are_signalled_or_to_a_side_on_hold() {
    let mut calls = Calls::new(30_000..=30_099, 20_000..=20_099).expect("ranges");
    calls.open(at(0), CALL).expect("room");
    let [near, overlay] = calls.add_stream(STREAM, pairs()).expect("ports");
    let source = addr("192.0.2.10:4000");
    let to_far = calls.on_udp(at(0), near.rtp, source, &rtp());
    assert_eq!(to_far, Err(Drop::NotSignalled));
    calls
        .signal(at(0), STREAM, Side::Caller, phone("192.0.2.10:4000"))
        .expect("the stream is there");
    let to_far = calls.on_udp(at(0), near.rtp, source, &rtp());
    assert_eq!(to_far, Err(Drop::NoDestination));
    calls
        .signal(at(0), STREAM, Side::Callee, far())
        .expect("the stream is there");
    assert!(calls.on_udp(at(0), near.rtp, source, &rtp()).is_ok());

    // Hold by zeros stops sending to the learned address, and still accepts the phone's own media.
    calls
        .signal(at(1), STREAM, Side::Caller, phone("0.0.0.0:4000"))
        .expect("the stream is there");
    let from = (FAR, VirtualPort(500));
    let held = calls.on_overlay(at(1), VirtualPort(overlay.rtp), from, &rtp());
    assert_eq!(held, Err(Drop::NoDestination));
    assert!(calls.on_udp(at(1), near.rtp, source, &rtp()).is_ok());
}

#[test]
fn multiplexed_and_separate_sides_meet() {
    let mut calls = Calls::new(30_000..=30_099, 20_000..=20_099).expect("ranges");
    calls.open(at(0), CALL).expect("room");
    let sides = [(Carrier::Udp, Need::Pair), (Carrier::Overlay, Need::Single)];
    let [near, overlay] = calls.add_stream(STREAM, sides).expect("ports");
    assert_eq!(overlay.rtp, overlay.rtcp);
    let muxed = Remote::Udp {
        rtp: expected("192.0.2.10:4000"),
        rtcp: None,
        dtls: true,
    };
    for (side, remote) in [(Side::Caller, muxed), (Side::Callee, far())] {
        calls
            .signal(at(0), STREAM, side, remote)
            .expect("the stream is there");
    }
    let source = addr("192.0.2.10:4000");
    let to = |to| Destination::Overlay {
        from: VirtualPort(overlay.rtp),
        node: FAR,
        to: VirtualPort(to),
    };
    // The phone sends both to the port of RTP; the far gateway separates them.
    let rtcp = calls.on_udp(at(0), near.rtp, source, &RTCP);
    assert_eq!(rtcp.map(|forward| forward.to), Ok(to(501)));
    let media = calls.on_udp(at(0), near.rtp, source, &rtp());
    assert_eq!(media.map(|forward| forward.to), Ok(to(500)));
    let keys = calls.on_udp(at(0), near.rtp, source, &DTLS);
    assert_eq!(keys.map(|forward| forward.kind), Ok(Kind::Dtls));
    let stray = calls.on_udp(at(0), near.rtcp, source, &RTCP);
    assert_eq!(
        stray,
        Err(Drop::WrongComponent),
        "it said that it multiplexes"
    );
    // In the other direction, all packets go to the one port of the phone.
    let own = VirtualPort(overlay.rtp);
    for (from, bytes) in [(500, &rtp()[..]), (501, &RTCP[..])] {
        let back = calls.on_overlay(at(0), own, (FAR, VirtualPort(from)), bytes);
        let to = Destination::Udp {
            from: near.rtp,
            to: source,
        };
        assert_eq!(back.map(|forward| forward.to), Ok(to));
    }
}

#[test]
fn calls_end_by_themselves_and_give_everything_back() {
    let closed = |calls: &mut Calls, s| {
        let ended = calls.on_timeout(at(s), 100);
        let ended: Vec<_> = ended.into_iter().map(|(id, why, _)| (id, why)).collect();
        ended
    };
    // First case: a call that nobody answers.
    let (mut calls, ..) = one_call();
    calls.open(at(0), CallId(2)).expect("room");
    let answer = ANSWER_TIMEOUT.as_nanos() / 1_000_000_000;
    let media = MEDIA_TIMEOUT.as_nanos() / 1_000_000_000;
    let dialog = DIALOG_TIMEOUT.as_nanos() / 1_000_000_000;
    assert_eq!(calls.next_timeout(), Some(at(1 + media)));
    assert_eq!(closed(&mut calls, media), []);
    assert_eq!(
        closed(&mut calls, answer),
        [(CALL, Expired::NoMedia), (CallId(2), Expired::NoAnswer)]
    );
    assert_eq!((calls.count(), calls.next_timeout()), (0, None));
    assert_eq!(calls.ports_free(Carrier::Udp), 100);

    // Media keeps a call open; on hold the dialog does.
    let (mut calls, near, _) = one_call();
    let source = addr("192.0.2.10:4000");
    for s in (1..1000).step_by(50) {
        assert!(calls.on_udp(at(s), near.rtp, source, &rtp()).is_ok());
        assert_eq!(closed(&mut calls, s + 40), []);
    }
    calls.answered(at(1000), CALL, false).expect("it is open");
    assert_eq!(closed(&mut calls, 1000 + dialog - 1), []);
    calls.on_dialog(at(6000), CALL).expect("it is open");
    assert_eq!(closed(&mut calls, 1000 + dialog), []);
    // After the call is resumed, silence counts from there.
    calls.answered(at(7000), CALL, true).expect("it is open");
    assert_eq!(closed(&mut calls, 7000 + media - 1), []);
    calls.answered(at(7050), CALL, false).expect("it is open");
    assert_eq!(closed(&mut calls, 7050 + dialog - 1), []);
    assert_eq!(
        closed(&mut calls, 7050 + dialog),
        [(CALL, Expired::NoDialog)]
    );
}

#[test]
fn what_is_not_there_is_refused() {
    let (mut calls, near, _) = one_call();
    let none = CallId(9);
    assert_eq!(calls.open(at(0), CALL), Err(CallError::CallExists(CALL)));
    assert_eq!(calls.close(none), Err(CallError::NoCall(none)));
    assert_eq!(calls.on_dialog(at(0), none), Err(CallError::NoCall(none)));
    let stream = |media| StreamId { call: CALL, media };
    assert_eq!(
        calls.add_stream(STREAM, pairs()),
        Err(CallError::StreamExists(0))
    );
    assert_eq!(
        calls.add_stream(stream(64), pairs()),
        Err(CallError::BadStream(64))
    );
    assert_eq!(calls.end_stream(stream(1)), Err(CallError::NoStream(1)));
    assert_eq!(
        calls.signal(at(0), stream(1), Side::Caller, far()),
        Err(CallError::NoStream(1))
    );
    assert_eq!(
        calls.signal(at(0), STREAM, Side::Caller, far()),
        Err(CallError::OtherCarrier(Carrier::Udp))
    );
    let source = addr("192.0.2.10:4000");
    assert!(
        calls.on_udp(at(1), near.rtp, source, &rtp()).is_ok(),
        "a refusal changes nothing"
    );
    assert!(calls.through(FAR).eq([CALL]));
    assert_eq!(calls.through(NodeAddr(1)).count(), 0);
    assert_eq!(calls.end_stream(STREAM), Ok(()));
    assert_eq!(calls.ports_free(Carrier::Udp), 100);
    assert_eq!(
        calls.on_udp(at(1), near.rtp, source, &rtp()),
        Err(Drop::NoCall)
    );
}

#[test]
fn media_is_not_led_round() {
    let (mut calls, near, _) = one_call();
    calls.set_own(vec![[198, 51, 100, 1].into()], Some(FAR));
    let signal = |calls: &mut Calls, side, remote| calls.signal(at(1), STREAM, side, remote);
    let own = |port| phone(&format!("198.51.100.1:{port}"));
    for port in [30_000, 30_099, 29_999] {
        let told = signal(&mut calls, Side::Caller, own(port));
        assert_eq!(told, Err(CallError::Loop), "{port}, or the next for RTCP");
    }
    assert_eq!(signal(&mut calls, Side::Caller, own(30_100)), Ok(()));
    assert_eq!(signal(&mut calls, Side::Callee, far()), Ok(()));
    let round = Remote::Overlay {
        node: FAR,
        rtp: VirtualPort(20_099),
        rtcp: VirtualPort(20_100),
    };
    let told = signal(&mut calls, Side::Callee, round);
    assert_eq!(told, Err(CallError::Loop));
    // An IPv4-mapped IPv6 address is the same address.
    let mapped = phone("[::ffff:198.51.100.1]:30000");
    assert_eq!(
        signal(&mut calls, Side::Caller, mapped),
        Err(CallError::Loop)
    );
    let from = addr("[::ffff:198.51.100.1]:30100");
    assert!(calls.on_udp(at(1), near.rtp, from, &rtp()).is_ok());
    assert_eq!(
        calls.learned(STREAM, Side::Caller, Component::Rtp),
        Some(addr("198.51.100.1:30100"))
    );
}

#[test]
fn ports_run_out_with_a_reason_and_nothing_is_kept() {
    let mut calls = Calls::new(30_000..=30_009, 20_000..=20_003).expect("ranges");
    calls.open(at(0), CALL).expect("room");
    for media in 0..3 {
        let stream = StreamId { call: CALL, media };
        let leased = calls.add_stream(stream, pairs());
        if media < 2 {
            assert!(leased.is_ok());
            continue;
        }
        let error = PortError::Exhausted {
            need: Need::Pair,
            first: 20_000,
            last: 20_003,
        };
        assert_eq!(leased, Err(CallError::Ports(error)));
    }
    assert_eq!(calls.ports_free(Carrier::Udp), 10 - 4);
    for range in [0..=10, 5..=5, 5..=6, 65_535..=65_535] {
        let (first, last) = (*range.start(), *range.end());
        assert_eq!(
            Ports::new(range).err(),
            Some(PortError::Range { first, last })
        );
    }
    assert!(Ports::new(65_534..=65_535).is_ok_and(|mut ports| ports.lease(Need::Pair).is_ok()));
}

#[test]
fn too_many_calls_are_refused() {
    let mut calls = Calls::new(30_000..=30_001, 20_000..=20_001).expect("ranges");
    for n in 0..CALLS_MAX as u64 {
        assert_eq!(calls.open(at(0), CallId(n)), Ok(()));
    }
    let more = calls.open(at(0), CallId(u64::MAX));
    assert_eq!(more, Err(CallError::TooManyCalls));
    assert_eq!(calls.on_timeout(Time::FAR, 100).len(), 100);
    assert_eq!(calls.open(at(0), CallId(u64::MAX)), Ok(()));
}

#[test]
fn a_port_rests_until_the_others_were_used() {
    let mut ports = Ports::new(100..=199).expect("a range");
    let first = ports.lease(Need::Pair).expect("all are free");
    let port = first.rtp();
    ports.release(first);
    for _ in 1..50 {
        let lease = ports.lease(Need::Pair).expect("some are free");
        assert_ne!(lease.rtp(), port);
        ports.release(lease);
    }
    assert_eq!(ports.lease(Need::Pair).map(|lease| lease.rtp()), Ok(port));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn ports_agree_with_a_set(
        first in 1..400_u16,
        length in 3..300_u16,
        steps in prop::collection::vec((0..4_u8, any::<prop::sample::Index>()), 0..300),
    ) {
        let range = first..=first + length;
        let mut ports = Ports::new(range.clone()).expect("three ports hold a pair");
        let mut free: Set<u16> = range.collect();
        let mut leases: Vec<Lease> = Vec::new();
        for (step, at) in steps {
            if step == 3 && !leases.is_empty() {
                let lease = leases.swap_remove(at.index(leases.len()));
                free.extend([lease.rtp(), lease.rtcp()]);
                ports.release(lease);
            } else {
                let need = [Need::Pair, Need::Single][usize::from(step % 2)];
                let is_pair = |port: &u16| port.is_multiple_of(2) && free.contains(&(port + 1));
                let possible = match need {
                    Need::Pair => free.iter().any(is_pair),
                    Need::Single => !free.is_empty(),
                };
                let lease = ports.lease(need);
                prop_assert_eq!(lease.is_ok(), possible);
                if let Ok(lease) = lease {
                    let pair = need == Need::Pair;
                    prop_assert_eq!(lease.rtcp() - lease.rtp(), u16::from(pair));
                    prop_assert!(!pair || lease.rtp() % 2 == 0);
                    prop_assert!(free.remove(&lease.rtp()));
                    prop_assert!(!pair || free.remove(&lease.rtcp()));
                    leases.push(lease);
                }
            }
            prop_assert_eq!(ports.free(), free.len());
        }
    }
}
