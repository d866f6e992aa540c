//! Direct links: nodes that have traffic for each other make a link of their own, and end it again.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::tunnels::{Pair, stream, uplink};
use crate::world::neighbour::control;
use crate::world::siege::{Siege, TARGET};
use crate::world::streams::Streams;
use crate::world::{Nodes, Plan, addr, voice};
use base::{Duration, UnderlayAddr};
use overlay::Settings;
use overlay::request::Operation;
use wire::Endpoint;
use wire::link::Kind;

/// 0 is the neighbour of both others.
const EDGES: [(usize, usize); 2] = [(1, 0), (2, 0)];

fn settled(direct_links: bool) -> Nodes {
    let settings = Settings {
        direct_links,
        ..Settings::modern()
    };
    let mut nodes = Nodes::with(7, 3, &EDGES, "delay=30ms", settings);
    nodes.run_ms(5_000);
    nodes
}

/// The state of the link of `i` to `peer`, if `i` lists one.
fn state(nodes: &Nodes, i: usize, peer: usize) -> Option<&'static str> {
    let peer = addr(peer).to_string();
    let mut links = nodes.snapshot(i).links.into_iter();
    links.find(|link| link.peer == peer).map(|link| link.state)
}

#[test]
fn traffic_makes_a_link_and_silence_ends_it() {
    let mut nodes = settled(true);
    nodes.link(1, 2, "delay=10ms");
    // Both know where the other one is seen. There is no traffic, so neither dials.
    nodes.run_ms(20_000);
    assert_eq!((state(&nodes, 1, 2), state(&nodes, 2, 1)), (None, None));
    let mut call = Streams::calls(&mut nodes, 1, 1, 2, voice());
    call.run(&mut nodes, Duration::from_secs(3));
    assert_eq!(state(&nodes, 1, 2), Some("up"));
    assert_eq!(state(&nodes, 2, 1), Some("up"));
    call.run(&mut nodes, Duration::from_secs(5));
    call.finish(&mut nodes);
    let delays: Vec<Option<Duration>> = call.fates_of(0).map(|(_, delay)| delay).collect();
    assert!(delays.iter().all(Option::is_some), "nothing is lost");
    // First through 0, in the end directly.
    assert!(delays[0].unwrap() >= Duration::from_millis(60));
    assert!(delays.last().unwrap().unwrap() < Duration::from_millis(15));
    nodes.run_ms(560_000);
    assert_eq!(state(&nodes, 1, 2), Some("up"), "somebody may call back");
    nodes.run_ms(80_000);
    assert_eq!((state(&nodes, 1, 2), state(&nodes, 2, 1)), (None, None));
    // And once more.
    let mut call = Streams::calls(&mut nodes, 1, 2, 1, voice());
    call.run(&mut nodes, Duration::from_secs(3));
    assert_eq!(state(&nodes, 1, 2), Some("up"));
    call.finish(&mut nodes);
    nodes.world.close().unwrap();
}

#[test]
fn nodes_that_do_not_reach_each_other_stay_on_the_way_that_they_have() {
    let mut nodes = settled(true);
    let mut call = Streams::calls(&mut nodes, 1, 1, 2, voice());
    call.run(&mut nodes, Duration::from_secs(90));
    call.finish(&mut nodes);
    let fates: Vec<_> = call.fates_of(0).collect();
    assert!(fates.iter().all(|(_, delay)| delay.is_some()));
    // The attempt rests: no link is listed that does not exist.
    assert_eq!(state(&nodes, 1, 2), None);
    nodes.world.close().unwrap();
}

#[test]
fn nobody_links_by_itself_unless_it_is_to() {
    let mut nodes = settled(false);
    nodes.link(1, 2, "delay=10ms");
    let mut call = Streams::calls(&mut nodes, 1, 1, 2, voice());
    call.run(&mut nodes, Duration::from_secs(10));
    call.finish(&mut nodes);
    assert_eq!((state(&nodes, 1, 2), state(&nodes, 2, 1)), (None, None));
    nodes.world.close().unwrap();
}

fn endpoint(at: UnderlayAddr) -> Endpoint {
    Endpoint {
        ip: at.ip,
        port: at.port,
    }
}

#[test]
fn a_neighbour_that_lies_about_where_it_sees_a_node_does_not_move_it() {
    let settings = Settings {
        direct_links: true,
        ..Settings::modern()
    };
    let mut siege = Siege::from_inside_of(3, settings);
    let truth = endpoint(siege.target());
    let lie = |last: u8, port: u16| {
        let mut ip = truth.ip;
        ip[12..].copy_from_slice(&[203, 0, 113, last]);
        Endpoint { ip, port }
    };
    let loopback = {
        let mut ip = truth.ip;
        ip[12..].copy_from_slice(&[127, 0, 0, 1]);
        Endpoint { ip, port: 53 }
    };
    for n in 0..200 {
        for told in [lie(n, 53), lie(n, 0), loopback] {
            let told = control(|builder| builder.seen_at(told).unwrap());
            siege.say(Kind::Control, [told]);
        }
        siege.run(Duration::from_millis(10));
    }
    siege.run(Duration::from_secs(3));
    // The reports of two honest neighbours come first; the last report of the false one may be the other address.
    for other in [0, 2] {
        let database = siege.nodes.running(other).unwrap().database();
        let known = database.endpoints_of(addr(TARGET));
        assert_eq!(known.first(), Some(&truth));
        assert!(known[1..].iter().all(|it| *it == lie(199, 53)), "{known:?}");
    }
    siege.end();
}

#[test]
fn who_is_seen_through_a_stream_alone_announces_where_it_was_dialled_or_else_listens() {
    let mut pair = Pair::with(
        1,
        Settings {
            direct_links: true,
            ..Settings::modern()
        },
    );
    let s = Duration::from_secs;
    let announced = |pair: &Pair| {
        let [a, b] = [0, 1].map(|i| pair.nodes[i].database().endpoints_of(addr(1 - i)));
        [a.to_vec(), b.to_vec()]
    };
    pair.is_blocked = true;
    pair.run(s(3));
    pair.open();
    pair.until("tcp", s(2));
    pair.run(s(5));
    // The first has dialled: it does not listen at the port from which it dialled. The second one's port is open.
    let (own, dialled) = (uplink(0, 0), stream(1));
    assert!(own.port != stream(0).port && dialled.port != uplink(1, 0).port);
    let [own, dialled] = [own, dialled].map(endpoint);
    assert_eq!(announced(&pair), [vec![dialled], vec![own]]);
    // Both kinds are distinguished: nothing of the stream is announced as an endpoint of datagrams.
    pair.is_blocked = false;
    pair.until("udp", s(20));
    pair.run(s(3));
    let [a, b] = [0, 1].map(|i| endpoint(uplink(i, 0)));
    assert_eq!(announced(&pair), [vec![b], vec![a]]);
}

#[test]
fn what_the_router_maps_is_announced_after_what_neighbours_see_of_it() {
    let mut nodes = settled(true);
    let announced = |nodes: &Nodes| {
        let database = nodes.running(0).unwrap().database();
        database.endpoints_of(addr(1)).to_vec()
    };
    let seen = announced(&nodes);
    assert_eq!(seen.len(), 1);
    let of_router = Endpoint {
        port: 40_001,
        ..seen[0]
    };
    let elsewhere = {
        let mut ip = of_router.ip;
        ip[12..].copy_from_slice(&[198, 51, 100, 7]);
        Endpoint { ip, ..of_router }
    };
    let loopback = {
        let mut ip = of_router.ip;
        ip[12..].copy_from_slice(&[127, 0, 0, 1]);
        Endpoint { ip, ..of_router }
    };
    for (mapped, expected) in [
        (Some(of_router), vec![seen[0], of_router]),
        (Some(elsewhere), vec![seen[0], elsewhere]),
        (Some(seen[0]), vec![seen[0]]),
        (Some(loopback), vec![seen[0]]),
        (None, vec![seen[0]]),
    ] {
        nodes.operate(1, Operation::Mapped(mapped));
        nodes.run_ms(3_000);
        assert_eq!(announced(&nodes), expected, "{mapped:?}");
    }
    nodes.world.close().unwrap();
}

#[test]
fn what_the_router_maps_replaces_what_is_seen_of_the_router_and_nothing_else() {
    let settings = Settings {
        direct_links: true,
        ..Settings::modern()
    };
    let mut siege = Siege::from_inside_of(3, settings);
    let seen = endpoint(siege.target());
    let at_port = |port| Endpoint { port, ..seen };
    let in_house = {
        let mut ip = seen.ip;
        ip[12..].copy_from_slice(&[192, 168, 1, 2]);
        Endpoint { ip, port: 7_700 }
    };
    // Two neighbours see the node at one address, and a third reports another one.
    let mapped = at_port(40_001);
    for (third, expected) in [
        (in_house, [mapped, in_house]),
        // The router uses a different port for each destination, and only the mapped port is open.
        (at_port(40_002), [mapped, seen]),
    ] {
        let told = control(|builder| builder.seen_at(third).unwrap());
        siege.say(Kind::Control, [told]);
        siege.nodes.operate(TARGET, Operation::Mapped(Some(mapped)));
        siege.run(Duration::from_secs(3));
        let database = siege.nodes.running(0).unwrap().database();
        assert_eq!(database.endpoints_of(addr(TARGET)), expected, "{third:?}");
    }
    siege.end();
}

fn at(ip: [u8; 4]) -> Endpoint {
    Endpoint::of_ipv4(ip, 7_700)
}

#[test]
fn a_node_tells_where_it_listens_unless_it_is_to_be_quiet() {
    for is_quiet in [false, true] {
        let settings = Settings {
            direct_links: true,
            host_addresses: !is_quiet,
            ..Settings::modern()
        };
        let mut nodes = Nodes::with(7, 3, &EDGES, "delay=30ms", settings);
        nodes.run_ms(5_000);
        let told = |nodes: &Nodes| {
            let database = nodes.running(0).unwrap().database();
            let seen = database.endpoints_of(addr(1)).to_vec();
            (seen, database.hosts_of(addr(1)).to_vec())
        };
        let seen = told(&nodes).0;
        let [lan, other, third] = [[192, 168, 1, 7], [10, 9, 0, 7], [172, 16, 0, 7]].map(at);
        let local = [[127, 0, 0, 1], [169, 254, 0, 7]].map(at);
        let all = [
            local[0],
            lan,
            seen[0],
            local[1],
            other,
            third,
            at([10, 9, 0, 8]),
        ];
        nodes.operate(1, Operation::Hosts(all.to_vec()));
        nodes.run_ms(3_000);
        let expected = match is_quiet {
            true => vec![],
            false => vec![lan, other, third],
        };
        assert_eq!(told(&nodes), (seen.clone(), expected));
        nodes.operate(1, Operation::Hosts(Vec::new()));
        nodes.run_ms(3_000);
        assert_eq!(told(&nodes), (seen, vec![]));
        nodes.world.close().unwrap();
    }
}

/// Two nodes that are not seen at one address dial each other at public addresses, and not at an address where a
/// stranger may be.
#[test]
fn nobody_dials_into_the_house_of_others() {
    let mut plan = Plan {
        edges: EDGES.to_vec(),
        settings: Settings {
            direct_links: true,
            ..Settings::modern()
        },
        tapped: Some(2),
        ..Plan::of(3)
    };
    for dials_public in [true, false] {
        plan.settings.host_addresses = dials_public;
        let mut nodes = Nodes::planned(9, plan.clone());
        for (a, b) in EDGES {
            nodes.link(a, b, "delay=30ms");
        }
        let [lan, public] = [[192, 168, 1, 7], [203, 0, 113, 7]].map(at);
        nodes.run_ms(5_000);
        nodes.operate(1, Operation::Hosts(vec![lan, public]));
        nodes.run_ms(3_000);
        let mut call = Streams::calls(&mut nodes, 1, 1, 2, voice());
        call.run(&mut nodes, Duration::from_secs(10));
        call.finish(&mut nodes);
        let dialled = |to: Endpoint| {
            let sent = nodes.tap.borrow();
            sent.iter().any(|(at, _)| endpoint(*at) == to)
        };
        assert!(!dialled(lan));
        assert_eq!(dialled(public), dials_public);
        nodes.world.close().unwrap();
    }
}
