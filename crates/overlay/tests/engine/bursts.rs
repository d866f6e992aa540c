//! Results must not depend on whether the underlay network hands datagrams over in bursts or one by one.
#![allow(clippy::unwrap_used)]

use crate::world::streams::{Stream, Streams};
use crate::world::{Nodes, PORT, RECEIVER, SENDER, addr, chain, voice};
use base::Duration;
use overlay::request::{Delivery, Options};
use overlay::{Reply, Request};
use sim::Arrivals;
use wire::data::{Class, LinkProtocol, Routing};

/// A chain with losses and a branch, on which bursts of several sizes take several paths. Returns every delivery: which
/// stream, when sent, how long it took.
fn deliveries(seed: u64, arrivals: Arrivals) -> (Vec<(usize, base::Time, Option<Duration>)>, u64) {
    let edges = [(0, 1), (1, 2), (2, 3), (1, 4), (4, 3)];
    let mut nodes = Nodes::new(seed, 5, &edges, "delay=5ms loss=4% burst=30%");
    nodes.world.set_arrivals(arrivals);
    nodes.run_ms(3_000);
    let stream = |k: u64| Stream {
        from: (k % 2) as usize,
        to: 2 + (k % 3) as usize,
        // Several packets of several streams at the same time.
        interval: Duration::from_millis(10),
        phase: Duration::from_millis(k % 5),
        options: Options {
            class: Class {
                link: [LinkProtocol::RealTime, LinkProtocol::BestEffort]
                    [usize::from(k.is_multiple_of(7))],
                routing: Routing::ALL[(k % 4) as usize],
                priority: 4,
            },
            deadline: (!k.is_multiple_of(4)).then(|| Duration::from_millis(40)),
            delivery: [Delivery::AsItComes, Delivery::InOrder][(k % 2) as usize],
            ttl: 32,
            scheme: None,
            give_up: None,
            control: None,
            early: false,
            aim: Default::default(),
        },
    };
    let mut streams = Streams::begin(&mut nodes, (0..40).map(stream).collect());
    streams.run(&mut nodes, Duration::from_secs(2));
    streams.finish(&mut nodes);
    assert_eq!(streams.duplicates, 0);
    let inputs = nodes.world.counters().inputs;
    nodes.world.close().unwrap();
    let fates = |i| streams.fates_of(i).map(move |(at, delay)| (i, at, delay));
    ((0..40).flat_map(fates).collect(), inputs)
}

#[test]
fn bursts_and_single_packets_give_the_same_deliveries() {
    for seed in 0..4 {
        let (together, inputs) = deliveries(seed, Arrivals::Bursts);
        let (singly, more_inputs) = deliveries(seed, Arrivals::Single);
        assert!(inputs * 3 < more_inputs * 2, "{inputs} {more_inputs}");
        let different = together.iter().zip(&singly).filter(|(a, b)| a != b).count();
        assert_eq!(different, 0, "seed {seed}, of {}", together.len());
        let came = together
            .iter()
            .filter(|(.., delay)| delay.is_some())
            .count();
        assert!(came * 100 > together.len() * 95, "{came}");
    }
}

/// Sends `count` packets at one moment, of the sizes that `bytes` gives, and expects all of them in
/// order at the end of a chain of four. Returns how many inputs the three hops took.
fn burst_through_chain(count: u64, bytes: impl Fn(u64) -> usize) -> u64 {
    let mut nodes = Nodes::new(count, 4, &chain(4), "delay=2ms");
    nodes.run_ms(2_000);
    nodes.bind(3, voice());
    nodes.set_sender(0, SENDER, voice());
    nodes.run_ms(10);
    nodes.world.take_replies();
    let before = nodes.world.counters().inputs;
    let at = nodes.world.now() + Duration::from_millis(1);
    for n in 0..count {
        nodes.send_to(at, 0, SENDER, (3, PORT), n, bytes(n));
    }
    nodes.run_ms(20);
    let inputs = nodes.world.counters().inputs - before;
    let mut expected = 0;
    for answer in nodes.world.take_replies() {
        if let Reply::Datagram { payload, from, .. } = answer.reply {
            assert_eq!((answer.client, from), (RECEIVER, addr(0)));
            let (number, sent) = crate::world::read(payload.bytes());
            assert_eq!((number, payload.len()), (expected, bytes(number)));
            assert_eq!((sent, answer.at), (at, at + Duration::from_millis(6)));
            expected += 1;
        }
    }
    assert_eq!(expected, count, "all arrive, in order");
    nodes.world.close().unwrap();
    inputs
}

#[test]
fn a_burst_stays_together_on_its_way() {
    let hellos = burst_through_chain(1, |_| 160) - 3;
    for count in [1, 8, 16, 32, 64] {
        for bytes in [160, 40, 1_000] {
            let inputs = burst_through_chain(count, |_| bytes);
            let most = hellos + 3 * count.div_ceil(32) + 2;
            assert!(inputs <= most, "{count} of {bytes} bytes: {inputs} inputs");
        }
    }
}

#[test]
fn bursts_of_mixed_sizes_arrive_whole_and_in_order() {
    for count in [8, 16, 32, 200] {
        burst_through_chain(count, |n| 16 + (n * 37 % 1_300) as usize);
        burst_through_chain(count, |n| if n % 3 == 0 { 160 } else { 80 });
        burst_through_chain(count, |n| if n + 1 == count { 20 } else { 160 });
    }
}

#[test]
fn a_datagram_of_a_packet_s_largest_size_passes_whole_and_a_larger_one_in_fragments() {
    let mut nodes = Nodes::new(1, 3, &chain(3), "delay=2ms");
    nodes.run_ms(2_000);
    nodes.bind(2, voice());
    nodes.run_ms(1);
    nodes.world.take_replies();
    let at = nodes.world.now();
    let before = nodes.count().originated;
    // Sealed from end to end.
    let max = overlay::node::MAX_PAYLOAD - wire::link::SEAL_BYTES;
    nodes.send_to(at, 0, SENDER, (2, PORT), 1, max);
    nodes.send_to(at, 0, SENDER, (2, PORT), 2, max + 1);
    nodes.run_ms(10);
    let mut told = Vec::new();
    for answer in nodes.world.take_replies() {
        match answer.reply {
            Reply::Datagram { payload, .. } => told.push(format!("{} bytes", payload.len())),
            Reply::Refused(why) => told.push(why.to_string()),
            _ => {}
        }
    }
    assert_eq!(told, [format!("{max} bytes"), format!("{} bytes", max + 1)]);
    assert_eq!(nodes.count().originated - before, 3);
    nodes.request(0, SENDER, Request::Close);
    nodes.run_ms(1);
    nodes.world.close().unwrap();
}
