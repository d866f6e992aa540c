//! Paths whose maximum packet size is smaller than that of others, in the simulator. Probes find the size, all nodes
//! learn it, and everything that is sent is cut to fit.
#![allow(clippy::unwrap_used)]

use crate::world::sessions::Sessions;
use crate::world::{Nodes, PORT, Plan, SENDER, chain, voice};
use base::Duration;
use overlay::Reply;
use overlay::event::Drop;
use overlay::mtu::{DEFAULT, FLOOR};
use overlay::request::Options;
use overlay::stream::{DEFAULT_CLASS, Framing};
use wire::data::{Class, LinkProtocol};
use wire::ipc::{RouteBy, Scheme};
use wire::link::Kind;

fn class(link: LinkProtocol) -> Option<Options> {
    let class = Class {
        link,
        ..DEFAULT_CLASS
    };
    Some(Options {
        class,
        ..Options::default()
    })
}

/// Creates a chain of three nodes whose second hop carries no datagram above `mtu`, and runs it for `ms`.
fn small(seed: u64, path: &str, mtu: u16, ms: u64) -> Nodes {
    let mut nodes = Nodes::new(seed, 3, &chain(3), path);
    nodes.link(1, 2, &format!("{path} mtu={mtu}"));
    nodes.run_ms(ms);
    nodes
}

fn usable(nodes: &Nodes, from: usize, to: usize) -> u16 {
    nodes.link_status(from, to).mtu_bytes
}

/// Sends datagrams of these lengths from the first node to the last one. Returns the lengths of those that arrive.
fn exchange(nodes: &mut Nodes, options: Options, lengths: &[usize]) -> Vec<usize> {
    let last = nodes.hosts.len() - 1;
    nodes.bind(last, options);
    nodes.set_sender(0, SENDER, options);
    for (n, bytes) in lengths.iter().enumerate() {
        let at = nodes.world.now();
        nodes.send_to(at, 0, SENDER, (last, PORT), n as u64, *bytes);
        nodes.run_ms(100);
    }
    nodes.run_ms(500);
    let mut arrived = Vec::new();
    for answer in nodes.world.take_replies() {
        if let Reply::Datagram { payload, .. } = answer.reply {
            crate::world::read(payload.bytes());
            arrived.push(payload.len());
        }
    }
    arrived
}

const LENGTHS: [usize; 6] = [160, 1_240, 1_300, 1_392, 20_000, 65_507];

#[test]
fn datagrams_are_cut_to_what_the_path_carries_within_seconds_of_the_start() {
    let mut nodes = small(1, "delay=5ms", 1_300, 6_000);
    assert_eq!(
        (usable(&nodes, 0, 1), usable(&nodes, 1, 0)),
        (DEFAULT, DEFAULT)
    );
    for (from, to) in [(1, 2), (2, 1)] {
        // Probes that do not arrive do not count as losses, except the first one.
        let lost = nodes.link_status(from, to).loss_out_pct;
        assert!(lost <= 1.0, "{lost} %");
        let found = usable(&nodes, from, to);
        assert!((1_284..=1_300).contains(&found), "{found}");
    }
    for link in LinkProtocol::ALL {
        let options = Options {
            class: class(link).unwrap().class,
            ..Options::default()
        };
        assert_eq!(exchange(&mut nodes, options, &LENGTHS), LENGTHS, "{link:?}");
    }
    let stamped = voice().routed_by(RouteBy::Stamp(Scheme::Disjoint));
    assert_eq!(exchange(&mut nodes, stamped, &LENGTHS), LENGTHS);
    // Packets that do not cross the small link are as long as before.
    nodes.bind(1, voice());
    nodes.set_sender(0, SENDER, voice());
    // Until then, the node asks whether the earlier packets have arrived.
    nodes.run_ms(10_000);
    let there = nodes.at(1);
    let before = nodes.party(0).sent(there, Kind::Data);
    let at = nodes.world.now();
    nodes.send_to(at, 0, SENDER, (1, PORT), 9, 1_392 - wire::link::SEAL_BYTES);
    nodes.run_ms(100);
    let after = nodes.party(0).sent(there, Kind::Data);
    assert_eq!(after.datagrams - before.datagrams, 1);
    assert_eq!(nodes.count().drops(Drop::TooLong), 0);
    drop(nodes.world.take_replies());
    nodes.world.close().unwrap();
}

#[test]
fn losses_are_not_taken_for_length() {
    for seed in 0..4 {
        let mut nodes = Nodes::new(seed, 3, &chain(3), "delay=10ms loss=20%");
        nodes.run_ms(60_000);
        for (a, b) in [(0, 1), (1, 0), (1, 2), (2, 1)] {
            assert_eq!(usable(&nodes, a, b), DEFAULT);
        }
        nodes.world.close().unwrap();
        let nodes = small(seed, "delay=10ms loss=20%", 1_300, 20_000);
        let found = usable(&nodes, 1, 2);
        assert!((1_284..=1_300).contains(&found), "{found}");
        nodes.world.close().unwrap();
    }
}

/// Sends a stream of `bytes` over the small chain. Returns how many seconds this takes.
fn stream(nodes: &mut Nodes, link: LinkProtocol, bytes: u64, ms: u64, shrinks: Option<u64>) -> f64 {
    let mut sessions = Sessions::default();
    sessions.listen(nodes, 2, class(link));
    sessions.run_ms(nodes, 5);
    let began = nodes.world.now();
    let caller = sessions.connect(nodes, (0, 2), Framing::Bytes, class(link));
    let end = sessions.end(caller);
    (end.to_write, end.finishes) = (bytes, true);
    if let Some(after) = shrinks {
        sessions.run_ms(nodes, after);
        assert!(sessions.called(0).finished.is_none());
        nodes.link(1, 2, "delay=5ms rate=20mbit mtu=1250");
    }
    let done = sessions.run_until(nodes, ms, |s| {
        s.accepted.len() == 1
            && s.ends
                .values()
                .all(|end| end.finished.is_some() || end.written > 0)
            && s.ends.values().any(|end| end.finished.is_some())
    });
    assert!(
        done,
        "{link:?} {:#?}\n{:#?}",
        sessions.ends,
        nodes.snapshot(0).streams
    );
    assert_eq!(sessions.called(0).read, bytes);
    let took = sessions.called(0).finished.unwrap().since(began);
    drop(nodes.world.take_replies());
    took.as_secs_f64()
}

#[test]
fn streams_fit_the_path_of_their_start() {
    for link in LinkProtocol::ALL {
        let mut nodes = small(1, "delay=5ms", 1_300, 6_000);
        let took = stream(&mut nodes, link, 1_000_000, 5_000, None);
        assert!(took < 3.0, "{link:?}: {took}");
        let resent = nodes
            .snapshot(0)
            .streams
            .iter()
            .map(|s| s.retransmissions)
            .sum::<u64>();
        assert_eq!(resent, 0);
        nodes.world.close().unwrap();
    }
}

#[test]
fn a_stream_goes_on_when_its_path_shrinks() {
    for link in LinkProtocol::ALL {
        let mut nodes = small(1, "delay=5ms rate=20mbit", 1_472, 6_000);
        let took = stream(&mut nodes, link, 5_000_000, 30_000, Some(1_000));
        // Sending the bytes takes two seconds. The link is checked after ten seconds, and the search takes some time.
        assert!(took < 20.0, "{link:?}: {took}");
        let found = usable(&nodes, 1, 2);
        assert!((1_234..=1_250).contains(&found), "{found}");
        // The path grows again.
        nodes.link(1, 2, "delay=5ms");
        nodes.run_ms(100_000);
        assert_eq!(usable(&nodes, 1, 2), DEFAULT);
        nodes.world.close().unwrap();
    }
}

#[test]
fn without_trouble_a_link_is_probed_once_and_its_packets_are_as_long_as_ever() {
    let plan = Plan {
        edges: chain(2),
        tapped: Some(0),
        ..Plan::of(2)
    };
    let mut nodes = Nodes::planned(1, plan);
    nodes.link(0, 1, "delay=5ms");
    nodes.run_ms(60_000);
    let lengths = |nodes: &Nodes| -> Vec<usize> {
        let sent = nodes.tap.take();
        sent.iter()
            .map(|(_, d)| d.len())
            .filter(|l| *l > usize::from(FLOOR))
            .collect()
    };
    assert_eq!(lengths(&nodes), [usize::from(DEFAULT)]);
    exchange(&mut nodes, voice(), &[1_392, 2_764]);
    // Three packets, and one check in addition to the first packet.
    assert_eq!(lengths(&nodes), [usize::from(DEFAULT); 4]);
    nodes.run_ms(Duration::from_secs(30).as_millis());
    assert_eq!(
        lengths(&nodes),
        [usize::from(DEFAULT)],
        "one more, for the second and third"
    );
    nodes.world.close().unwrap();
}
