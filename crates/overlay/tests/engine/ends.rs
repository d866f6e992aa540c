//! Sealing from end to end, with relays and members that read, change, repeat and forge packets.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::world::neighbour::{self, Neighbour};
use crate::world::party::{Ask, Party};
use crate::world::script::{header, neighbour};
use crate::world::sessions::{STREAM_PORT, Sessions};
use crate::world::siege::{INTRUDER, Siege, TARGET};
use crate::world::streams::Streams;
use crate::world::{
    INTRODUCER, Nodes, OPERATOR, PAYLOAD, PORT, Plan, RECEIVER, SENDER, addr, chain, voice,
};
use base::{Duration, NodeAddr, VirtualPort};
use overlay::event::Drop;
use overlay::request::{Options, RequestError};
use overlay::settings::Sealing;
use overlay::snapshot::EndStatus;
use overlay::stream::{Framing, StreamReply, StreamRequest};
use overlay::{Reply, Request, Settings};
use secure::PostQuantum;
use sim::HostId;
use std::collections::BTreeSet;
use wire::control::{Message, Messages};
use wire::data::{FlowSeq, Header, LaneSeq, LinkProtocol};
use wire::link::Kind;
use wire::record::Record;
use wire::transport::{Flags, SEGMENT_BYTES, Segment};

/// Settings of nodes that seal.
fn sealing() -> Settings {
    Settings {
        sealing: Sealing::On,
        ..Settings::modern()
    }
}

/// The same, without sessions that are made before they are needed.
fn unprepared() -> Settings {
    Settings {
        prepared_ends: 0,
        ..sealing()
    }
}

pub(crate) fn sealed(count: usize) -> Plan {
    Plan {
        settings: sealing(),
        ..Plan::of(count)
    }
}

/// Two nodes, and between them a relay that is driven by hand: it forwards what the test demands.
///
/// ```text
///   node (0) ---- relay (2) ---- node (1)
/// ```
pub(crate) struct Tapped {
    pub(crate) nodes: Nodes,
    relay: HostId,
    seen: usize,
    lanes: [u32; 2],
}

/// The packets that the relay forwards in place of one packet.
pub(crate) type Passes<'a> = &'a mut dyn FnMut(&[u8]) -> Vec<Vec<u8>>;

pub(crate) fn as_it_is(packet: &[u8]) -> Vec<Vec<u8>> {
    vec![packet.to_vec()]
}

impl Tapped {
    pub(crate) fn new(plan: Plan) -> Tapped {
        Tapped::beside(plan, &[])
    }

    /// The same in parallel to the links that the plan has as edges. The relay comes after the nodes.
    pub(crate) fn beside(plan: Plan, links: &[(usize, usize, &str)]) -> Tapped {
        let mut nodes = Nodes::planned(1, plan);
        for (a, b, path) in links {
            nodes.link(*a, *b, path);
        }
        let number = nodes.hosts.len();
        let rogue = neighbour(&mut nodes, number);
        let relay = nodes.add_rogue(0, rogue, "delay=5ms");
        nodes
            .world
            .link(relay, nodes.hosts[1], &crate::world::model("delay=5ms"));
        let mut tapped = Tapped {
            nodes,
            relay,
            seen: 0,
            lanes: [0; 2],
        };
        for i in [0, 1] {
            let at = tapped.nodes.at(i);
            tapped.ask(Ask::Dial(at));
        }
        tapped.run(500, &mut as_it_is);
        let record = tapped
            .relay()
            .record(1, &[(addr(0), 5_000), (addr(1), 5_000)]);
        for i in [0, 1] {
            let at = tapped.nodes.at(i);
            tapped.ask(Ask::Say(at, Kind::Control, record.clone()));
        }
        tapped.run(2_000, &mut as_it_is);
        tapped
    }

    fn ask(&mut self, ask: Ask) {
        self.nodes.world.request(self.relay, OPERATOR, ask);
    }

    pub(crate) fn relay(&self) -> &Neighbour {
        let party = self.nodes.world.engine(self.relay);
        party.and_then(Party::as_rogue).unwrap()
    }

    /// Lets time pass; the relay forwards records, and packets as `passes` says.
    pub(crate) fn run(&mut self, ms: u64, passes: Passes<'_>) {
        for _ in 0..ms {
            self.nodes.run_ms(1);
            let heard = self.relay().heard[self.seen..].to_vec();
            self.seen += heard.len();
            for heard in heard {
                let from = usize::from(heard.from == self.nodes.at(1));
                let to = 1 - from;
                let said = match heard.kind {
                    Kind::Data => {
                        let packets = passes(&heard.plaintext);
                        let packets = packets.into_iter().map(|packet| self.in_lane(to, packet));
                        packets.map(|packet| (Kind::Data, packet)).collect()
                    }
                    _ => records_of(&heard.plaintext),
                };
                let at = self.nodes.at(to);
                for (kind, plaintext) in said {
                    self.ask(Ask::Say(at, kind, plaintext));
                }
            }
        }
    }

    fn in_lane(&mut self, to: usize, mut packet: Vec<u8>) -> Vec<u8> {
        let mut header = Header::trusted(&mut packet[..]);
        header.set_lane_seq(LaneSeq::new(self.lanes[to]));
        self.lanes[to] += 1;
        packet
    }

    /// Node 0 sends packets to node 1 at a pace, while the relay forwards what `passes` says.
    pub(crate) fn talk(&mut self, count: u64, passes: Passes<'_>) -> Vec<u64> {
        self.talk_at_length(count, PAYLOAD, passes)
    }

    /// The same with payloads of this length.
    pub(crate) fn talk_at_length(
        &mut self,
        count: u64,
        bytes: usize,
        passes: Passes<'_>,
    ) -> Vec<u64> {
        self.nodes.bind(1, voice());
        self.nodes.set_sender(0, SENDER, voice());
        self.nodes.run_ms(1);
        self.nodes.world.take_replies();
        for number in 0..count {
            let at = self.nodes.world.now();
            self.nodes.send_to(at, 0, SENDER, (1, PORT), number, bytes);
            self.run(10, passes);
        }
        self.run(500, passes);
        self.nodes.arrivals().into_iter().map(|(n, _)| n).collect()
    }

    pub(crate) fn drops(&mut self, reason: Drop) -> u64 {
        self.nodes.count().drops(reason)
    }
}

/// Returns the records in a control datagram, one message each.
fn records_of(plaintext: &[u8]) -> Vec<(Kind, Vec<u8>)> {
    let mut all = Vec::new();
    for message in Messages::new(plaintext).flatten() {
        if let Message::Records(records) = message {
            for Record { kind, body, .. } in records.iter() {
                all.push((Kind::Control, neighbour::records(&[(kind, body)])));
            }
        }
    }
    all
}

pub(crate) fn end(nodes: &Nodes, at: usize, with: usize) -> EndStatus {
    let with = addr(with).to_string();
    let mut ends = nodes.snapshot(at).ends.into_iter();
    ends.find(|end| end.node == with).unwrap()
}

/// Returns true for a run of bytes that no key, header or tag has by chance.
pub(crate) fn is_marked(bytes: &[u8]) -> bool {
    bytes
        .windows(12)
        .any(|window| window.iter().all(|byte| *byte == 0xc5))
}

#[test]
fn a_relay_reads_nothing_of_what_it_passes_on() {
    let mut tapped = Tapped::new(sealed(2));
    let (mut passed, mut marked) = (0, 0);
    let mut passes = |packet: &[u8]| {
        passed += 1;
        marked += u32::from(is_marked(packet));
        as_it_is(packet)
    };
    tapped.nodes.bind(1, voice());
    tapped.nodes.set_sender(0, SENDER, voice());
    // The number is also the filling of the payload; long ones are sent in fragments.
    for bytes in [160, 1_392, 9_000] {
        let at = tapped.nodes.world.now();
        tapped.nodes.send_to(at, 0, SENDER, (1, PORT), 0xc5, bytes);
        tapped.run(300, &mut passes);
    }
    let stream = Options {
        class: wire::data::Class {
            link: LinkProtocol::BestEffort,
            ..voice().class
        },
        ..voice()
    };
    let listener = base::ClientId(50);
    tapped.nodes.bind_to(1, listener, VirtualPort(60), stream);
    let listen = StreamRequest::Listen { backlog: 1 };
    tapped.nodes.request(1, listener, Request::Stream(listen));
    let caller = base::ClientId(51);
    tapped.nodes.request(0, caller, Request::Options(stream));
    let connect = StreamRequest::Connect {
        to: addr(1),
        port: VirtualPort(60),
        framing: Framing::Bytes,
    };
    tapped.nodes.request(0, caller, Request::Stream(connect));
    tapped.run(200, &mut passes);
    let replies = tapped.nodes.world.take_replies();
    let payloads = replies.iter().filter_map(|answer| match &answer.reply {
        Reply::Datagram { payload, .. } => Some(payload.len()),
        _ => None,
    });
    assert_eq!(payloads.collect::<Vec<_>>(), [160, 1_392, 9_000]);
    let called = replies
        .iter()
        .any(|answer| matches!(answer.reply, Reply::Stream(StreamReply::Incoming { .. })));
    assert!(called, "the stream is offered to its listener");
    assert!(passed > 9, "{passed}");
    assert_eq!(marked, 0, "the relay has seen payload");
    assert!(
        tapped
            .relay()
            .heard
            .iter()
            .all(|heard| !is_marked(&heard.plaintext))
    );
    assert!(end(&tapped.nodes, 0, 1).session_age_s.is_some());
}

#[test]
fn without_sealing_the_same_relay_reads_all() {
    let plan = Plan {
        sealing: vec![(1, Sealing::Off)],
        ..sealed(2)
    };
    let mut tapped = Tapped::new(plan);
    let mut marked = 0;
    let mut passes = |packet: &[u8]| {
        marked += u32::from(is_marked(packet));
        as_it_is(packet)
    };
    tapped.nodes.bind(1, voice());
    tapped.nodes.set_sender(0, SENDER, voice());
    let at = tapped.nodes.world.now();
    tapped.nodes.send_to(at, 0, SENDER, (1, PORT), 0xc5, 160);
    tapped.run(300, &mut passes);
    assert_eq!(marked, 1);
    assert_eq!(
        tapped.nodes.arrivals().len(),
        1,
        "an older node gets what it can read"
    );
    let status = end(&tapped.nodes, 0, 1);
    assert!(!status.seals && status.session_age_s.is_none());
    assert!(end(&tapped.nodes, 1, 0).seals);
}

#[test]
fn who_must_not_be_read_sends_nothing_in_the_open() {
    let plan = Plan {
        sealing: vec![(0, Sealing::Always), (1, Sealing::Off)],
        ..sealed(2)
    };
    let mut tapped = Tapped::new(plan);
    tapped.nodes.set_sender(0, SENDER, voice());
    tapped.nodes.join(1, NodeAddr(0xef01_0203));
    tapped.run(100, &mut as_it_is);
    tapped.nodes.world.take_replies();
    let before = tapped.relay().packets().len();
    let at = tapped.nodes.world.now();
    tapped.nodes.send(at, 0, SENDER, 1, 1);
    let group = (NodeAddr(0xef01_0203), PORT);
    tapped.nodes.send_to_addr(at, 0, SENDER, group, 2, 160);
    tapped.run(100, &mut as_it_is);
    let refused = tapped.nodes.world.take_replies().into_iter();
    let refused = refused.filter(|a| matches!(a.reply, Reply::Refused(RequestError::Unsealed)));
    assert_eq!(refused.count(), 2);
    assert_eq!(tapped.relay().packets().len(), before);
}

#[test]
fn what_a_relay_changes_is_dropped_and_counted() {
    let mut tapped = Tapped::new(sealed(2));
    assert_eq!(tapped.talk(5, &mut as_it_is), [0, 1, 2, 3, 4]);
    let mut changed = 0;
    let fixed = wire::HEADER_BYTES;
    // Every second packet is followed by one that was changed in one place.
    let mut passes = |packet: &[u8]| {
        let mut bad = packet.to_vec();
        let places = [4, 7, 12, 15, 16, 19, fixed + 4, fixed + 9, bad.len() - 1];
        // Source, ports, number, counter, content, tag.
        bad[places[changed % places.len()]] ^= 1;
        changed += 1;
        match changed % 2 {
            0 => vec![packet.to_vec()],
            _ => vec![bad, packet.to_vec()],
        }
    };
    assert_eq!(tapped.talk(40, &mut passes), (0..40).collect::<Vec<_>>());
    let dropped: u64 = [
        Drop::EndForged,
        Drop::EndNoSession,
        Drop::BadSource,
        Drop::Duplicate,
    ]
    .map(|reason| tapped.drops(reason))
    .iter()
    .sum();
    assert!(dropped >= 20, "{dropped}");
    assert!(end(&tapped.nodes, 1, 0).refused >= 10);
}

/// A packet with one byte of its content changed and the tag unchanged; the packet itself comes behind it.
pub(crate) fn changed_first(packet: &[u8]) -> Vec<Vec<u8>> {
    let mut bad = packet.to_vec();
    let at = Header::trusted(packet).payload_offset() + wire::CLEAR_BYTES;
    match bad.get_mut(at) {
        Some(byte) if packet.len() > at + wire::TAG_BYTES => *byte ^= 1,
        _ => return as_it_is(packet),
    }
    vec![bad, packet.to_vec()]
}

/// Node 2 behind node 1, which is the relay between it and the node that is driven by hand.
pub(crate) fn with_one_behind() -> Tapped {
    let plan = Plan {
        edges: vec![(1, 2)],
        ..sealed(3)
    };
    Tapped::beside(plan, &[(1, 2, "delay=5ms")])
}

#[test]
fn a_changed_copy_that_comes_first_costs_the_packet_nothing_at_the_next_relay() {
    let mut tapped = with_one_behind();
    tapped.nodes.bind(2, voice());
    tapped.nodes.set_sender(0, SENDER, voice());
    tapped.run(500, &mut as_it_is);
    for number in 0..100 {
        let at = tapped.nodes.world.now();
        tapped.nodes.send(at, 0, SENDER, 2, number);
        tapped.run(10, &mut changed_first);
    }
    tapped.run(500, &mut changed_first);
    let came: Vec<u64> = tapped.nodes.arrivals().iter().map(|(n, _)| *n).collect();
    assert_eq!(came, (0..100).collect::<Vec<_>>());
    // The copies end at the node that would open them.
    assert!(end(&tapped.nodes, 2, 0).refused >= 100);
}

#[test]
fn what_a_relay_repeats_and_reorders_comes_once() {
    let mut tapped = Tapped::new(sealed(2));
    tapped.talk(2, &mut as_it_is);
    let (mut held, mut all): (Vec<Vec<u8>>, Vec<Vec<u8>>) = Default::default();
    let mut passes = |packet: &[u8]| {
        held.push(packet.to_vec());
        all.push(packet.to_vec());
        if held.len() < 4 {
            return Vec::new();
        }
        // Four at a time, the last first, and each from some that were here before.
        let mut out: Vec<Vec<u8>> = held.drain(..).rev().collect();
        out.extend(all.iter().rev().step_by(3).take(8).cloned());
        out
    };
    let mut came = tapped.talk(40, &mut passes);
    came.sort_unstable();
    assert_eq!(came, (0..40).collect::<Vec<_>>());
    assert!(tapped.drops(Drop::Duplicate) > 40);
}

#[test]
fn a_relay_speaks_in_nobodys_name() {
    let mut tapped = Tapped::new(sealed(2));
    tapped.nodes.bind(1, voice());
    tapped.run(10, &mut as_it_is);
    let at = tapped.nodes.at(1);
    // The packets are in the name of a node that seals: before there is a session, and when there is one.
    for round in 0..2 {
        for n in 0..10 {
            let mut header = header(addr(0), addr(1), 100 * round + n);
            header.destination_port = PORT;
            header.lane_seq = LaneSeq::new(tapped.lanes[1]);
            tapped.lanes[1] += 1;
            let said = neighbour::packet(&header, &[7; 160]);
            tapped.ask(Ask::Say(at, Kind::Data, said));
        }
        tapped.run(50, &mut as_it_is);
        assert_eq!(tapped.nodes.arrivals(), []);
        assert_eq!(tapped.drops(Drop::EndUnsealed), 10 * u64::from(round + 1));
        assert_eq!(tapped.talk(5, &mut as_it_is).len(), 5);
    }
    // A call in its name takes no place, and is not answered.
    assert_eq!(tapped.nodes.snapshot(1).streams.len(), 0);
}

/// A member beside the relay, on no path, writes into the flows of others: unsealed, with every number.
#[test]
fn ten_thousand_forged_packets_each_second_cost_a_call_nothing() {
    let mut siege = Siege::from_inside_of(5, sealing());
    let mut forged = 0_u32;
    siege.waves(300, |rng, _| {
        let mut asks = Vec::new();
        for _ in 0..100 {
            forged += 1;
            let (from, to) = [(0, 2), (2, 0)][forged as usize % 2];
            let mut header = header(addr(from), addr(to), forged);
            // The ports of the calls, with numbers near theirs, and with any number.
            header.source_port = VirtualPort(49_152 + rng.below(12) as u16);
            header.destination_port = VirtualPort(5_000 + rng.below(12) as u16);
            let near = rng.below(4_000) as u32;
            let any = rng.next_u64() as u32;
            header.flow_seq = FlowSeq([near, any][rng.below(2) as usize]);
            header.lane_seq = LaneSeq::new(forged);
            let mut payload = vec![0; 160 + 24];
            rng.fill(&mut payload);
            if rng.below(3) > 0 {
                header.has_transport = true;
                payload[0] = Kind::Data.byte();
            }
            let packet = neighbour::packet(&header, &payload);
            asks.push(siege_say(packet));
        }
        asks
    });
    // `end` checks that the calls lost nothing.
    let mut nodes = siege.end();
    let totals = nodes.count();
    let dropped = totals.drops(Drop::EndUnsealed) + totals.drops(Drop::EndNoSession);
    assert!(
        dropped > 10_000,
        "{dropped} have come to the exits and no farther"
    );
}

/// Opens a stream without sealing, in the name of a node.
fn call(from: NodeAddr, number: u32) -> Ask {
    let mut header = header(from, addr(TARGET), number);
    header.class.link = LinkProtocol::BestEffort;
    header.destination_port = STREAM_PORT;
    header.has_transport = true;
    let segment = Segment {
        flags: Flags::SYN,
        connection: number,
        window: 0x1_0000,
        stamp_us: 1,
        ..Segment::default()
    };
    let mut bytes = [0; SEGMENT_BYTES];
    segment.emit(&[], &mut bytes).unwrap();
    siege_say(neighbour::packet(&header, &bytes))
}

#[test]
fn streams_from_addresses_that_nobody_has_cost_nothing() {
    // Nodes that seal nothing know each other's records as well.
    for sealing in [Sealing::On, Sealing::Off] {
        let settings = Settings {
            sealing,
            ..Settings::modern()
        };
        let mut siege = Siege::from_inside_of(6, settings);
        let mut sessions = Sessions::default();
        sessions.listen(&mut siege.nodes, TARGET, None);
        sessions.run_ms(&mut siege.nodes, 10);
        assert_eq!(sessions.listening, [TARGET]);
        for wave in 0..100 {
            for n in 50 * wave..50 * (wave + 1) {
                siege.ask(call(addr(1_000 + n as usize), n));
            }
            sessions.run_ms(&mut siege.nodes, 10);
        }
        assert_eq!(siege.nodes.count().drops(Drop::BadSource), 5_000);
        assert_eq!(siege.nodes.snapshot(TARGET).streams.len(), 0);
        assert_eq!(sessions.called, 0, "the listener has heard nothing");
        sessions.connect(&mut siege.nodes, (0, TARGET), Framing::Bytes, None);
        assert!(sessions.run_until(&mut siege.nodes, 1_000, |s| s.called == 1));
    }
}

/// An unsealed call is accepted when its node is known and there is a path to it: until then it is repeated.
#[test]
fn who_calls_before_its_record_has_come_is_heard_afterwards() {
    let mut siege = Siege::from_inside_of(7, sealing());
    let mut sessions = Sessions::default();
    sessions.listen(&mut siege.nodes, TARGET, None);
    let intruder = addr(INTRUDER);
    siege.ask(call(intruder, 1));
    sessions.run_ms(&mut siege.nodes, 100);
    assert_eq!(
        (sessions.called, siege.nodes.count().drops(Drop::BadSource)),
        (0, 1)
    );
    // A link that its other end does not report leads nowhere.
    for (number, to, called) in [(1, 500, 0), (2, TARGET, 1)] {
        let record = siege.rogue().record(number, &[(addr(to), 5_000)]);
        siege.say(Kind::Control, [record]);
        sessions.run_ms(&mut siege.nodes, 2_000);
        siege.ask(call(intruder, 1));
        sessions.run_ms(&mut siege.nodes, 100);
        assert_eq!(sessions.called, called, "a record of {to}");
    }
    assert_eq!(siege.nodes.count().drops(Drop::BadSource), 2);
}

fn siege_say(packet: Vec<u8>) -> Ask {
    Ask::Say(sim::underlay(1), Kind::Data, packet)
}

#[test]
fn the_first_packets_wait_one_round_trip_and_all_come() {
    first_packets_wait(unprepared(), 1);
}

#[test]
fn with_post_quantum_keys_the_first_packets_wait_two_round_trips_and_all_come() {
    let settings = Settings {
        post_quantum: PostQuantum::Require,
        ..unprepared()
    };
    first_packets_wait(settings, 2);
}

fn first_packets_wait(settings: Settings, round_trips: u64) {
    let mut nodes = Nodes::with(1, 3, &chain(3), "delay=10ms", settings);
    nodes.run_ms(2_000);
    nodes.bind(2, voice());
    nodes.set_sender(0, SENDER, voice());
    let start = nodes.world.now() + Duration::from_millis(1);
    for n in 0..50 {
        nodes.send(start + Duration::from_millis(4) * n, 0, SENDER, 2, n);
    }
    nodes.run_ms(1_000);
    let arrivals = nodes.arrivals();
    let numbers: Vec<u64> = arrivals.iter().map(|(n, _)| *n).collect();
    assert_eq!(numbers, (0..50).collect::<Vec<_>>());
    for (n, delay) in arrivals {
        // Packets sent when the answer has arrived go at once.
        let handshake = Duration::from_millis(40) * round_trips;
        let waits = handshake.saturating_sub(Duration::from_millis(4) * n);
        assert_eq!(delay, Duration::from_millis(20) + waits, "{n}");
    }
    assert_eq!(nodes.count().dropped.values().sum::<u64>(), 0);
}

/// The same packets between nodes that have prepared sessions: none waits, not even the first after a restart.
#[test]
fn nodes_that_know_each_other_have_a_session_before_it_is_needed() {
    let mut nodes = Nodes::with(1, 3, &chain(3), "delay=10ms", sealing());
    nodes.run_ms(2_000);
    let restarts = [None, Some(0), Some(2)];
    for restarted in restarts {
        if let Some(node) = restarted {
            nodes.restart(node);
            nodes.run_ms(6_000);
        }
        nodes.bind(2, voice());
        nodes.set_sender(0, SENDER, voice());
        let start = nodes.world.now() + Duration::from_millis(1);
        for n in 0..50 {
            nodes.send(start + Duration::from_millis(4) * n, 0, SENDER, 2, n);
        }
        nodes.run_ms(1_000);
        let arrivals = nodes.arrivals();
        assert_eq!(arrivals.len(), 50, "{restarted:?}");
        let latest = arrivals.iter().map(|(_, delay)| *delay).max();
        assert_eq!(latest, Some(Duration::from_millis(20)), "{restarted:?}");
        assert!(end(&nodes, 0, 2).sealed >= 50, "{restarted:?}");
        nodes.request(0, SENDER, Request::Close);
        nodes.request(2, RECEIVER, Request::Close);
        nodes.run_ms(10);
        nodes.world.take_replies();
    }
}

/// An unused session is followed by another, and by none if no sessions are to be prepared.
#[test]
fn sessions_that_nobody_uses_are_kept_fresh() {
    for (settings, is_there) in [(sealing(), true), (unprepared(), false)] {
        let mut nodes = Nodes::with(1, 2, &chain(2), "delay=10ms", settings);
        nodes.run_ms(2_000);
        for _ in 0..3 {
            nodes.run_ms(400_000);
            let age_s = nodes
                .snapshot(0)
                .ends
                .first()
                .and_then(|end| end.session_age_s);
            assert_eq!(age_s.is_some_and(|age_s| age_s < 700.0), is_there);
        }
    }
}

#[test]
fn both_ends_may_begin_at_once_whatever_is_lost() {
    for seed in 0..40 {
        let path = ["delay=10ms", "delay=10ms loss=20%"][(seed % 2) as usize];
        let mut nodes = Nodes::with(seed, 3, &chain(3), "delay=10ms", sealing());
        nodes.run_ms(2_000);
        nodes.link(0, 1, path);
        nodes.link(1, 2, path);
        for (here, there) in [(0, 2), (2, 0)] {
            nodes.bind(here, voice());
            nodes.set_sender(
                here,
                SENDER,
                Options {
                    deadline: None,
                    ..voice()
                },
            );
            for n in 0..200 {
                let at = nodes.world.now() + Duration::from_millis(10) * n;
                nodes.send(at, here, SENDER, there, n + 200 * here as u64 / 2);
            }
        }
        nodes.run_ms(5_000);
        let came: BTreeSet<u64> = nodes.arrivals().into_iter().map(|(n, _)| n).collect();
        let bound = if seed % 2 == 0 { 400 } else { 380 };
        assert!(came.len() >= bound, "seed {seed}: {} of 400", came.len());
        let [a, b] = [end(&nodes, 0, 2), end(&nodes, 2, 0)];
        assert!(
            a.session_age_s.is_some() && b.session_age_s.is_some(),
            "{seed}"
        );
        assert_eq!((a.refused, b.refused), (0, 0), "{seed}");
    }
}

#[test]
fn keys_change_under_loss_and_no_packet_is_lost_by_that() {
    let mut nodes = Nodes::with(3, 3, &chain(3), "delay=10ms", sealing());
    nodes.run_ms(2_000);
    nodes.introduce(&[(0, 2)]);
    nodes.link(0, 1, "delay=10ms loss=2%");
    let mut calls = Streams::calls(
        &mut nodes,
        1,
        0,
        2,
        Options {
            deadline: None,
            ..voice()
        },
    );
    calls.run(&mut nodes, Duration::from_secs(1_300));
    calls.finish(&mut nodes);
    // Two strikes leave at most 2 p^3 of independent losses.
    let missed = calls.missed(Duration::MAX);
    assert!(missed <= 4, "{missed} of {}", calls.sent());
    for (at, with) in [(0, 2), (2, 0)] {
        let age = end(&nodes, at, with).session_age_s.unwrap();
        assert!(age < 200.0, "the second change was at 1200 s: {age}");
    }
    assert_eq!(nodes.count().drops(Drop::EndForged), 0);
    assert_eq!(nodes.count().drops(Drop::EndNoSession), 0);
}

#[test]
fn an_end_that_was_started_again_is_spoken_with_anew() {
    for (restarted, seed) in [(2, 1), (0, 2), (2, 3), (0, 4)] {
        let mut nodes = Nodes::with(seed, 3, &chain(3), "delay=10ms", sealing());
        nodes.run_ms(2_000);
        nodes.introduce(&[(0, 2)]);
        nodes.run_ms(3_000);
        nodes.restart(restarted);
        nodes.run_ms(4_000);
        nodes.bind(2, voice());
        nodes.set_sender(0, SENDER, voice());
        for n in 0..100 {
            let at = nodes.world.now() + Duration::from_millis(10) * n;
            nodes.send(at, 0, SENDER, 2, n);
        }
        nodes.run_ms(2_000);
        let came: Vec<u64> = nodes.arrivals().into_iter().map(|(n, _)| n).collect();
        assert_eq!(
            came,
            (0..100).collect::<Vec<_>>(),
            "node {restarted} began anew"
        );
    }
}

/// A node restarts while packets are being sent to it: only packets are lost that were under way before its restart was
/// known.
#[test]
fn a_restart_in_the_middle_of_a_call_ends_in_a_second() {
    let mut nodes = Nodes::with(9, 3, &chain(3), "delay=10ms", sealing());
    nodes.run_ms(2_000);
    nodes.bind(2, voice());
    nodes.set_sender(0, SENDER, voice());
    let start = nodes.world.now();
    for n in 0..1_000 {
        nodes.send(start + Duration::from_millis(10) * n, 0, SENDER, 2, n);
    }
    nodes.run_ms(3_000);
    nodes.restart(2);
    nodes.bind(2, voice());
    nodes.run_ms(9_000);
    let came: Vec<u64> = nodes.arrivals().into_iter().map(|(n, _)| n).collect();
    let gap = came.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!(gap < 150, "{gap} packets of 10 ms each");
    assert_eq!(came.last(), Some(&999));
}

#[test]
fn a_node_that_is_gone_makes_nobody_keep_what_is_sent_to_it() {
    let mut nodes = Nodes::with(4, 3, &chain(3), "delay=10ms", unprepared());
    nodes.run_ms(2_000);
    nodes.crash(2);
    nodes.set_sender(0, INTRODUCER, voice());
    for n in 0..500 {
        let at = nodes.world.now() + Duration::from_millis(10) * n;
        nodes.send(at, 0, INTRODUCER, 2, n);
    }
    nodes.run_ms(12_000);
    let totals = nodes.count();
    let dropped = totals.drops(Drop::NoRoute) + totals.drops(Drop::EndNoSession);
    assert_eq!(dropped, 500, "{:?}", totals.dropped);
    nodes.request(0, RECEIVER, Request::Close);
}
