//! Packets whose source determines their path: what one node does with them, and what many nodes do.
#![allow(clippy::unwrap_used)]

use crate::world::script::{EAST, Script, WEST, header};
use crate::world::{Nodes, PORT, RECEIVER, SENDER, addr, voice};
use base::{Duration, NodeAddr, Rng};
use overlay::event::Drop;
use overlay::node::MAX_PAYLOAD;
use overlay::request::{Options, RequestError};
use overlay::{Reply, Settings};
use std::collections::BTreeSet;
use wire::data::{Class, Header, LaneSeq, Repr, Routing};
use wire::echo::{ECHO_BYTES, Echo, Kind as EchoKind};
use wire::ipc::Scheme;
use wire::link::Kind;
use wire::stamp::{STAMP_BYTES_MAX, emit_subgraph};
use wire::transport::FRAGMENT_BYTES;

/// A node that is nobody's neighbor.
const FAR: usize = 9;
const FLOODING: [u8; 1] = [1];

/// Returns the stamp of a chain of nodes.
fn path(nodes: &[usize]) -> Vec<u8> {
    let nodes: Vec<NodeAddr> = nodes.iter().map(|i| addr(*i)).collect();
    let links: Vec<(u8, u8)> = (1..nodes.len() as u8).map(|i| (i - 1, i)).collect();
    let mut bytes = vec![0; STAMP_BYTES_MAX];
    let len = emit_subgraph(&nodes, &links, &mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

/// Returns a stamped header. `seq` is the number of the packet in its lane and its flow.
fn stamped(from: usize, to: usize, seq: u32) -> Repr {
    let plain = header(addr(from), addr(to), seq);
    Repr {
        class: Class {
            routing: Routing::Stamped,
            ..plain.class
        },
        has_extension: true,
        ..plain
    }
}

fn say(s: &mut Script, who: usize, header: &Repr, stamp: &[u8], payload: &[u8]) {
    let mut behind = (stamp.len() as u16).to_be_bytes().to_vec();
    behind.extend_from_slice(stamp);
    behind.extend_from_slice(payload);
    s.say(who, header, &behind);
}

/// Returns the stamps and payloads of the packets that `who` has received.
fn heard(s: &Script, who: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let data = s.rogue(who).heard.iter().filter(|h| h.kind == Kind::Data);
    data.map(|heard| {
        let header = Header::parse(&*heard.plaintext).unwrap();
        let stamp = header.extension().unwrap_or_default().to_vec();
        (stamp, header.payload().to_vec())
    })
    .collect()
}

#[test]
fn a_packet_goes_as_its_stamp_says_and_the_stamp_stays() {
    let mut s = Script::new();
    // The tables have no entry for the destination.
    let by_path = path(&[WEST, 0, EAST, FAR]);
    say(&mut s, WEST, &stamped(WEST, FAR, 0), &by_path, b"path");
    say(&mut s, WEST, &stamped(WEST, FAR, 1), &FLOODING, b"flood");
    s.run_ms(30);
    let expected = [
        (by_path, b"path".to_vec()),
        (FLOODING.to_vec(), b"flood".to_vec()),
    ];
    assert_eq!(heard(&s, EAST), expected);
    let on = &s.packets(EAST)[0].0;
    assert_eq!((on.ttl, on.class.routing), (31, Routing::Stamped));
    assert_eq!((heard(&s, WEST).len(), s.all_drops()), (0, 0));
}

#[test]
fn the_first_copy_goes_on_and_later_ones_are_dropped_wherever_they_come_from() {
    let mut s = Script::new();
    let first = stamped(FAR, 8, 5);
    say(&mut s, WEST, &first, &FLOODING, b"once");
    s.run_ms(5);
    say(&mut s, EAST, &first, &FLOODING, b"once");
    let again = Repr {
        lane_seq: LaneSeq::new(6),
        ..first
    };
    say(&mut s, WEST, &again, &FLOODING, b"once");
    s.run_ms(30);
    assert_eq!((heard(&s, EAST).len(), heard(&s, WEST).len()), (1, 0));
    assert_eq!(s.drops(Drop::Duplicate), 2);
    // A packet that this node has sent itself and that comes back is a duplicate too.
    say(&mut s, EAST, &stamped(0, 8, 7), &FLOODING, b"mine");
    s.run_ms(30);
    assert_eq!((s.drops(Drop::Duplicate), s.all_drops()), (3, 3));
}

#[test]
fn the_destination_has_it_once_without_the_stamp_and_sends_no_copies() {
    let mut s = Script::new();
    s.nodes.bind(0, voice());
    s.run_ms(1);
    s.nodes.world.take_replies();
    let to_node = stamped(WEST, 0, 0);
    let on = path(&[WEST, 0, EAST]);
    for (who, stamp) in [(WEST, &on[..]), (EAST, &FLOODING)] {
        say(&mut s, who, &to_node, stamp, b"for you");
    }
    s.run_ms(30);
    let replies = s.nodes.world.take_replies();
    let [Reply::Datagram { payload, .. }] =
        &replies.iter().map(|r| &r.reply).collect::<Vec<_>>()[..]
    else {
        panic!("{replies:?}");
    };
    assert_eq!(payload.bytes(), b"for you");
    assert_eq!((heard(&s, EAST).len(), s.drops(Drop::Duplicate)), (0, 1));
}

#[test]
fn bad_stamps_are_dropped_and_counted_and_do_not_hurt_good_ones() {
    let mut s = Script::new();
    let mut back = path(&[WEST, 0, EAST, FAR]);
    let links = 2 + 4 * 4;
    back[links + 4..links + 6].copy_from_slice(&[2, 1]);
    let mut twice = path(&[WEST, 0, EAST, FAR]);
    twice.copy_within(2..6, 14);
    let cases: [(&[u8], Drop); 12] = [
        (&[], Drop::StampMalformed),
        (&[9], Drop::StampMalformed),
        (&[1, 0], Drop::StampMalformed),
        (&path(&[WEST, 0, EAST])[..15], Drop::StampMalformed),
        (&[0; STAMP_BYTES_MAX + 1], Drop::StampTooLong),
        (&back, Drop::StampLoops),
        (&twice, Drop::StampLoops),
        // These stamps lack this node, enter it by another link, leave it by a link that it does not have, or end at
        // it.
        (&path(&[WEST, EAST, FAR]), Drop::StampStray),
        (&path(&[EAST, 0, FAR]), Drop::StampStray),
        (&path(&[EAST, 0, WEST, FAR]), Drop::StampStray),
        (&path(&[WEST, 0, FAR]), Drop::StampNoLink),
        (&path(&[WEST, 0]), Drop::DeadEnd),
    ];
    for (i, (stamp, reason)) in cases.iter().enumerate() {
        let (before, all) = (s.drops(*reason), s.all_drops());
        say(&mut s, WEST, &stamped(WEST, FAR, i as u32), stamp, b"");
        s.run_ms(30);
        let told = (s.drops(*reason) - before, s.all_drops() - all);
        assert_eq!(told, (1, 1), "case {i}: {reason:?}");
    }
    assert_eq!(heard(&s, EAST), []);
    // The length says 65535, but there are not so many bytes: the whole packet is malformed.
    let fixed = stamped(WEST, FAR, 20);
    s.say(WEST, &fixed, &[0xff, 0xff, 0, 4]);
    s.run_ms(30);
    assert_eq!(s.drops(Drop::Malformed), 1);
    // This packet has the same flow number and a good stamp. The refused copy does not count as received.
    let good = Repr {
        lane_seq: LaneSeq::new(21),
        flow_seq: wire::data::FlowSeq(0),
        ..stamped(WEST, FAR, 0)
    };
    say(&mut s, WEST, &good, &path(&[WEST, 0, EAST]), b"good");
    s.run_ms(30);
    assert_eq!(heard(&s, EAST).len(), 1);
}

#[test]
fn what_is_stamped_is_recovered_like_anything_else() {
    let mut s = Script::new();
    let stamp = path(&[WEST, 0, EAST]);
    for seq in [0, 2] {
        say(&mut s, WEST, &stamped(WEST, EAST, seq), &stamp, b"");
    }
    s.run_ms(15);
    say(&mut s, WEST, &stamped(WEST, EAST, 1), &stamp, b"");
    s.run_ms(30);
    let order: Vec<u32> = s.packets(EAST).iter().map(|(h, _)| h.flow_seq.0).collect();
    assert_eq!(order, [0, 2, 1]);
    let asked = s.nodes.link_status(0, WEST).realtime;
    assert_eq!((asked.requests, asked.recovered), (1, 1));
}

#[test]
fn an_echo_is_answered_along_the_way_back() {
    let mut s = Script::new();
    let mut request = [0; ECHO_BYTES];
    let echo = Echo {
        kind: EchoKind::Request,
        id: 7,
        seq: 9,
        stamp_us: 1,
        node: addr(WEST),
        hop: 0,
    };
    echo.emit(&mut request).unwrap();
    let to_node = Repr {
        destination_port: wire::echo::PORT,
        ..stamped(WEST, 0, 0)
    };
    say(&mut s, WEST, &to_node, &path(&[WEST, 0]), &request);
    // An echo request whose time to live ends here is answered in the same way.
    let beyond = Repr {
        ttl: 1,
        destination: addr(FAR),
        flow_seq: wire::data::FlowSeq(1),
        lane_seq: LaneSeq::new(1),
        ..to_node
    };
    say(
        &mut s,
        WEST,
        &beyond,
        &path(&[WEST, 0, EAST, FAR]),
        &request,
    );
    s.run_ms(30);
    let told: Vec<_> = heard(&s, WEST)
        .into_iter()
        .map(|(stamp, payload)| (stamp, Echo::parse(&payload).unwrap().kind))
        .collect();
    let expected = [
        (path(&[0, WEST]), EchoKind::Reply),
        (path(&[FAR, EAST, 0, WEST]), EchoKind::TtlExceeded),
    ];
    assert_eq!(told, expected);
}

fn refusals(s: &mut Script) -> Vec<RequestError> {
    let replies = s.nodes.world.take_replies();
    let refused = replies.into_iter().filter_map(|answer| match answer.reply {
        Reply::Refused(why) => Some(why),
        _ => None,
    });
    refused.collect()
}

#[test]
fn the_source_stamps_and_the_stamp_takes_its_bytes_from_the_payload() {
    let mut s = Script::new();
    let send = |s: &mut Script, scheme, number, bytes| {
        s.nodes.set_sender(0, SENDER, voice().routed_by(scheme));
        let now = s.nodes.world.now();
        s.nodes.send_to(now, 0, SENDER, (EAST, PORT), number, bytes);
        s.run_ms(1_000);
    };
    let stamp = path(&[0, EAST]);
    let max = MAX_PAYLOAD - 2 - stamp.len();
    send(&mut s, Scheme::Best, 1, max);
    send(&mut s, Scheme::Best, 2, max + 1);
    send(&mut s, Scheme::Disjoint, 3, 20);
    assert_eq!(refusals(&mut s), []);
    send(&mut s, Scheme::Flooding, 4, 20);
    let told = heard(&s, EAST);
    let sent: Vec<_> = told
        .iter()
        .map(|(stamp, p)| (&stamp[..], p.len()))
        .collect();
    // Longer payloads are sent in fragments, each with the stamp.
    let in_fragments = max + 1 + 2 * FRAGMENT_BYTES;
    let fragment = sent[1].1;
    assert!(
        fragment <= max && in_fragments - fragment <= max,
        "{sent:?}"
    );
    let expected = [
        (&stamp[..], max),
        (&stamp[..], fragment),
        (&stamp[..], in_fragments - fragment),
        (&stamp[..], 20),
        (&FLOODING[..], 20),
    ];
    assert_eq!(sent, expected);
    let flood = [(FLOODING.to_vec(), told[4].1.clone())];
    assert_eq!(heard(&s, WEST), flood, "over every link");
    assert_eq!(s.nodes.count().unstamped, 0);
}

#[test]
fn without_a_deadline_there_is_no_best_path_and_the_packet_goes_by_table() {
    let mut s = Script::new();
    let timeless = Options {
        deadline: None,
        ..voice().routed_by(Scheme::Best)
    };
    s.nodes.set_sender(0, SENDER, timeless);
    let now = s.nodes.world.now();
    s.nodes.send(now, 0, SENDER, EAST, 1);
    s.run_ms(30);
    let (on, _) = &s.packets(EAST)[0];
    let sent = (on.class.routing, on.has_extension);
    assert_eq!(sent, (Routing::ExpectedLatency, false));
    assert_eq!(s.nodes.count().unstamped, 1);
}

/// Creates a ring of `n` nodes with chords. Two nodes stay connected, whichever node between them is missing.
fn ring(rng: &mut Rng, n: usize) -> Vec<(usize, usize)> {
    let mut edges: BTreeSet<(usize, usize)> = (1..n).map(|i| (i - 1, i)).collect();
    edges.insert((0, n - 1));
    for _ in 0..n / 2 {
        let (a, b) = (rng.below(n as u64) as usize, rng.below(n as u64) as usize);
        if a != b {
            edges.insert((a.min(b), a.max(b)));
        }
    }
    edges.into_iter().collect()
}

/// Returns whether `links` connect `a` with `b`.
fn connected(links: &[(usize, usize)], a: usize, b: usize) -> bool {
    let (mut reached, mut stack) = (BTreeSet::from([a]), vec![a]);
    while let Some(at) = stack.pop() {
        for &(x, y) in links.iter().filter(|(x, y)| *x == at || *y == at) {
            let next = if x == at { y } else { x };
            if reached.insert(next) {
                stack.push(next);
            }
        }
    }
    reached.contains(&b)
}

/// Returns the numbers that arrived, after a check that none arrived twice.
fn numbers(nodes: &mut Nodes) -> BTreeSet<u64> {
    let mut all = BTreeSet::new();
    for (number, _) in nodes.arrivals() {
        assert!(all.insert(number), "{number} was delivered twice");
    }
    all
}

/// Sends `count` packets from `number` on, one every 10 ms.
fn talk(nodes: &mut Nodes, to: usize, number: u64, count: u64) {
    let start = nodes.world.now();
    for i in 0..count {
        let at = start + Duration::from_millis(10 * i);
        nodes.send(at, 0, SENDER, to, number + i);
    }
    nodes.run_ms(10 * count + 300);
}

fn worlds(scheme: Scheme, seed: u64) -> (Nodes, Rng, usize, Vec<(usize, usize)>) {
    let mut rng = Rng::new(seed);
    let n = 4 + rng.below(7) as usize;
    let edges = ring(&mut rng, n);
    let mut nodes = Nodes::new(seed, n, &edges, "delay=5ms");
    nodes.run_ms(3_000);
    let to = 1 + rng.below(n as u64 - 1) as usize;
    nodes.bind_to(to, RECEIVER, PORT, voice());
    let options = Options {
        deadline: None,
        ..voice().routed_by(scheme)
    };
    nodes.set_sender(0, SENDER, options);
    nodes.run_ms(10);
    nodes.count();
    (nodes, rng, to, edges)
}

/// Links fail without warning. As long as any path is left, flooding takes it, and every link carries a packet at most
/// once in each direction.
#[test]
fn flooding_survives_what_any_one_path_survives() {
    for seed in 0..12 {
        let (mut nodes, mut rng, to, edges) = worlds(Scheme::Flooding, seed);
        let mut left = edges.clone();
        let (mut sent, before) = (0, nodes.count().forwarded + nodes.count().originated);
        for _ in 0..6 {
            let k = rng.below(left.len() as u64) as usize;
            let mut fewer = left.clone();
            let (a, b) = fewer.swap_remove(k);
            if connected(&fewer, 0, to) {
                nodes.set_outage(a, b, true);
                left = fewer;
            }
            talk(&mut nodes, to, sent, 20);
            let arrived = numbers(&mut nodes);
            assert_eq!(arrived, (sent..sent + 20).collect(), "seed {seed}");
            sent += 20;
        }
        let carried = nodes.count().forwarded + nodes.count().originated - before;
        assert!(
            carried <= sent * 2 * edges.len() as u64,
            "{seed}: {carried}"
        );
        assert_eq!(nodes.count().drops(Drop::TtlExceeded), 0);
    }
}

/// A node between the ends dies without warning. Two disjoint paths lose nothing, and the copies of a packet take no
/// more links than the paths have.
#[test]
fn disjoint_paths_survive_any_one_node() {
    for seed in 100..112 {
        let (mut nodes, mut rng, to, edges) = worlds(Scheme::Disjoint, seed);
        let victim = 1 + rng.below(nodes.hosts.len() as u64 - 1) as usize;
        talk(&mut nodes, to, 0, 20);
        if victim != to {
            nodes.crash(victim);
        }
        talk(&mut nodes, to, 20, 100);
        assert_eq!(numbers(&mut nodes), (0..120).collect(), "seed {seed}");
        let totals = nodes.count();
        let carried = totals.forwarded + totals.originated;
        assert!(
            carried <= 120 * (edges.len() as u64 + 1),
            "{seed}: {carried}"
        );
        for never in [Drop::TtlExceeded, Drop::StampLoops, Drop::StampStray] {
            assert_eq!(totals.drops(never), 0, "{seed} {never:?}");
        }
        assert_eq!(totals.unstamped, 0, "{seed}");
    }
}

/// Copies of one packet leave each relay as one burst, losses are recovered on each link, and the node at which all
/// copies meet has every packet once.
#[test]
fn over_lossy_links_recovery_and_copies_work_together() {
    let edges = [(0, 1), (1, 3), (0, 2), (2, 3)];
    let mut nodes = Nodes::with(7, 4, &edges, "delay=10ms loss=10%", Settings::modern());
    nodes.run_ms(5_000);
    nodes.bind_to(3, RECEIVER, PORT, voice());
    nodes.set_sender(0, SENDER, voice().routed_by(Scheme::Disjoint));
    nodes.run_ms(10);
    nodes.count();
    for number in 0..2_000 {
        let at = nodes.world.now() + Duration::from_millis(10 * (number / 4));
        nodes.send(at, 0, SENDER, 3, number);
    }
    nodes.run_ms(6_000);
    let arrived = numbers(&mut nodes).len();
    assert!(arrived >= 1_999, "{arrived} of 2000");
    let totals = nodes.count();
    assert!(totals.retransmitted > 500, "{}", totals.retransmitted);
    assert!(totals.drops(Drop::Duplicate) > 1_500);
}

#[test]
fn a_socket_bound_elsewhere_hears_nothing_of_copies() {
    let mut nodes = Nodes::new(3, 3, &[(0, 1), (1, 2), (0, 2)], "delay=5ms");
    nodes.run_ms(3_000);
    for i in [1, 2] {
        nodes.bind_to(i, RECEIVER, PORT, voice());
    }
    nodes.set_sender(0, SENDER, voice().routed_by(Scheme::Flooding));
    nodes.run_ms(10);
    nodes.send(nodes.world.now(), 0, SENDER, 2, 1);
    nodes.run_ms(100);
    let replies = nodes.world.take_replies();
    let got = replies
        .iter()
        .filter(|a| matches!(a.reply, Reply::Datagram { .. }));
    assert_eq!(got.map(|a| a.host).collect::<Vec<_>>(), [nodes.hosts[2]]);
}
