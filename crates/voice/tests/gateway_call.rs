//! One call over two gateways, from the INVITE's description to the BYE, without a socket.
//!
//! ```text
//!   caller 10.1.0.5 ── gateway A, node 10.7.0.1 ══ overlay ══ gateway B, node 10.7.0.2 ── callee 10.2.0.5
//! ```

use core::net::{IpAddr, SocketAddr};

use base::{Duration, NodeAddr, Time, VirtualPort};
use voice::live::{Arrival, Reception, Settings};
use voice::media::{CallId, Calls, Carrier, Destination, Drop, LocalPorts, Need, Remote, StreamId};
use voice::rtp::{Header, Packet};
use voice::sdp::{
    Announce, Change, Direction, Draft, DraftMedia, End, Exchange, MediaEdit, Path, Rewrite, Sdp,
    Side, Steer,
};

const CALL: CallId = CallId(1);
const STREAM: StreamId = StreamId {
    call: CALL,
    media: 0,
};

/// A gateway, reduced to one call with one stream.
struct Gateway {
    node: NodeAddr,
    ip: IpAddr,
    domain: &'static str,
    calls: Calls,
    exchange: Exchange,
    /// The ports of the phone's side, and of the overlay's.
    local: [LocalPorts; 2],
    /// The side of its phone in the call.
    phone: Side,
}

impl Gateway {
    fn new(host: u8, domain: &'static str, phone: Side) -> Self {
        let mut calls = Calls::new(30_000..=30_009, 500..=509).expect("ranges");
        calls.open(Time::ZERO, CALL).expect("room");
        let mut sides = [(Carrier::Udp, Need::Pair), (Carrier::Overlay, Need::Pair)];
        if phone == Side::Callee {
            sides.reverse();
        }
        let mut local = calls.add_stream(STREAM, sides).expect("ports");
        if phone == Side::Callee {
            local.reverse();
        }
        Self {
            node: NodeAddr(0x0a07_0000 + u32::from(host)),
            ip: IpAddr::from([10, host, 0, 1]),
            domain,
            calls,
            exchange: Exchange::new(),
            local,
            phone,
        }
    }

    /// Passes a description on, towards the phone or the overlay, and notes its contents.
    fn pass(&mut self, now: Time, by: Side, text: &[u8]) -> Vec<u8> {
        let sdp = Sdp::parse(text).expect("a valid description");
        match self.exchange.open_offer() {
            None => self.exchange.offer(by, &sdp).expect("no glare"),
            Some(_) => {
                self.exchange.answer(by, &sdp).expect("an answer");
                let stream = &self.exchange.streams()[0];
                let flowing = Side::BOTH.iter().any(|&side| stream.flows(side));
                self.calls.answered(now, CALL, flowing).expect("it is open");
            }
        }
        let section = &sdp.media()[0];
        let from_phone = by == self.phone;
        let remote = if from_phone {
            Remote::of(&End::of(section), false, false, None).expect("an address")
        } else {
            let announce = section.announce.clone().expect("one that can be read");
            Remote::announced(&announce.expect("the other gateway is aware"))
        };
        self.calls
            .signal(now, STREAM, by, remote)
            .expect("the stream is there");

        let [to_phone, to_overlay] = self.local;
        let announce = Announce::new(
            self.node,
            VirtualPort(to_overlay.rtp),
            VirtualPort(to_overlay.rtcp),
            self.domain,
        );
        let steer = Steer {
            ip: self.ip,
            rtp_port: to_phone.rtp,
            rtcp_port: to_phone.rtcp,
            announce: from_phone.then(|| announce.expect("it is valid")),
        };
        let rewrite = Rewrite::steer(vec![MediaEdit::Steer(steer)]);
        rewrite.apply(&sdp).expect("it is RTP")
    }
}

fn phone(host: u8, port: u16, direction: Direction) -> Vec<u8> {
    let draft = Draft {
        session: 1,
        version: 1,
        ip: IpAddr::from([10, host, 0, 5]),
        media: vec![DraftMedia {
            media: "audio",
            rtp_port: port,
            rtcp_port: None,
            formats: vec![(0, "PCMU/8000")],
            direction,
            rtcp_mux: false,
            announce: None,
        }],
    };
    draft.to_bytes()
}

fn packet(seq: u16) -> Vec<u8> {
    let header = Header {
        marker: seq == 0,
        payload_type: 0,
        seq,
        timestamp: u32::from(seq) * 160,
        ssrc: 7,
    };
    [&header.to_bytes()[..], &[0xff; 160]].concat()
}

/// Sends a packet from the caller's phone to the callee's. Returns where it arrives, or why it was dropped.
fn cross(a: &mut Gateway, b: &mut Gateway, now: Time, bytes: &[u8]) -> Result<SocketAddr, Drop> {
    let from = SocketAddr::from(([10, 1, 0, 5], 4000));
    let forward = a.calls.on_udp(now, a.local[0].rtp, from, bytes)?;
    let Destination::Overlay { from, node, to } = forward.to else {
        panic!("{forward:?}")
    };
    assert_eq!(node, b.node);
    match b.calls.on_overlay(now, to, (a.node, from), bytes)?.to {
        Destination::Udp { from, to } => {
            assert_eq!(from, b.local[0].rtp);
            Ok(to)
        }
        other => panic!("{other:?}"),
    }
}

/// Passes an offer of the caller and an answer of the callee through both gateways.
fn exchange(a: &mut Gateway, b: &mut Gateway, now: Time, offer: &[u8], answer: &[u8]) -> Vec<u8> {
    let over_the_overlay = a.pass(now, Side::Caller, offer);
    let to_callee = b.pass(now, Side::Caller, &over_the_overlay);
    let sdp = Sdp::parse(&to_callee).expect("what was written can be read");
    assert_eq!(sdp.media()[0].announce, Ok(None), "phones are spared it");
    let over_the_overlay = b.pass(now, Side::Callee, answer);
    a.pass(now, Side::Callee, &over_the_overlay)
}

#[test]
fn a_call_crosses_is_held_resumed_and_ends() {
    let mut a = Gateway::new(1, "a.example", Side::Caller);
    let mut b = Gateway::new(2, "b.example", Side::Callee);
    let both = Direction::SendReceive;
    let offer = phone(1, 4000, both);
    let answer = phone(2, 6000, both);
    let back = exchange(&mut a, &mut b, Time::ZERO, &offer, &answer);

    // The description for the caller's phone contains only the gateway's address.
    let sdp = Sdp::parse(&back).expect("what was written can be read");
    let told = End::of(&sdp.media()[0]);
    let gateway = SocketAddr::new(a.ip, a.local[0].rtp);
    let (host, port) = told.rtp().expect("it takes audio");
    assert_eq!((host.ip(), port), (Some(a.ip), gateway.port()));
    assert!(matches!(b.exchange.streams()[0].path(), Path::Legacy));

    let callee = SocketAddr::from(([10, 2, 0, 5], 6000));
    let mut reception = Reception::new(Settings::default());
    for seq in 0..250 {
        let now = Time::ZERO + Duration::from_millis(20 * u64::from(seq));
        let bytes = packet(seq);
        assert_eq!(cross(&mut a, &mut b, now, &bytes), Ok(callee));
        let arrival = Arrival {
            one_way: Some(Duration::from_millis(45)),
            recovered: seq % 50 == 0,
        };
        let header = Packet::parse(&bytes).expect("it is RTP").header();
        reception.on_packet(now, &header, arrival);
    }
    let quality = reception.whole();
    assert_eq!(quality.counts.loss(), 0.0);
    assert_eq!(quality.counts.loss_before_recovery(), 0.02);
    assert!(quality.mos().is_some_and(|mos| mos > 4.2));

    // The caller holds the call and resumes it; the callee then receives at another port.
    let s = |s| Time::ZERO + Duration::from_secs(s);
    let held = phone(1, 4000, Direction::Inactive);
    exchange(
        &mut a,
        &mut b,
        s(10),
        &held,
        &phone(2, 6000, Direction::Inactive),
    );
    assert!(!a.exchange.streams()[0].flows(Side::Callee));
    assert!(b.calls.on_timeout(s(1000), 10).is_empty(), "holds may last");
    exchange(&mut a, &mut b, s(1000), &offer, &phone(2, 7000, both));
    let moved = SocketAddr::from(([10, 2, 0, 5], 7000));
    assert_eq!(cross(&mut a, &mut b, s(1001), &packet(250)), Ok(moved));

    // The far node is lost: the surviving gateway ends the calls that went through it.
    let lost: Vec<_> = a.calls.through(b.node).collect();
    assert_eq!(lost, [CALL]);
    assert_eq!(
        a.calls.close(CALL).map(|carried| carried.packets),
        Ok([251, 0])
    );
    assert_eq!(
        cross(&mut a, &mut b, s(1002), &packet(251)),
        Err(Drop::NoCall)
    );
    // Without a BYE, the other gateway ends the call by itself.
    let ended = b.calls.on_timeout(s(1100), 10);
    assert_eq!(ended.len(), 1);
    for carrier in [Carrier::Udp, Carrier::Overlay] {
        assert_eq!(b.calls.ports_free(carrier), 10);
    }
}

#[test]
fn a_refused_reinvite_leaves_media_where_it_was() {
    let mut a = Gateway::new(1, "a.example", Side::Caller);
    let mut b = Gateway::new(2, "b.example", Side::Callee);
    let both = Direction::SendReceive;
    let (offer, answer) = (phone(1, 4000, both), phone(2, 6000, both));
    exchange(&mut a, &mut b, Time::ZERO, &offer, &answer);
    let moved = phone(2, 9000, both);
    let sdp = Sdp::parse(&moved).expect("a valid description");
    b.exchange.offer(Side::Callee, &sdp).expect("no glare");
    assert_eq!(b.exchange.withdraw(), Vec::<Change>::new());
    let callee = SocketAddr::from(([10, 2, 0, 5], 6000));
    assert_eq!(cross(&mut a, &mut b, Time::ZERO, &packet(0)), Ok(callee));
}
