//! Calls over a link that cannot carry them all: some are served whole, the others are refused.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::world::streams::{Stream, Streams};
use crate::world::{Nodes, addr, chain, voice};
use base::{ClientId, Duration};
use overlay::request::Options;
use overlay::{Drop, Reply, Settings, Snapshot};

const LIMIT: Duration = Duration::from_millis(150);

/// A call: when it begins, in ms, and its priority.
type Call = (u64, u8);

/// Returns the share of each call's packets that was there in time, of those sent from `from_s` on.
fn calls(
    seed: u64,
    path: &str,
    hops: usize,
    calls: &[Call],
    seconds: u64,
) -> (Vec<f64>, Nodes, Snapshot) {
    let mut nodes = Nodes::with(
        seed,
        hops + 1,
        &chain(hops + 1),
        "delay=20ms",
        Settings::modern(),
    );
    nodes.link(hops - 1, hops, path);
    nodes.run_ms(5_000);
    let stream = |&(begins_ms, priority): &Call| {
        let mut options = voice();
        options.class.priority = priority;
        Stream {
            from: 0,
            to: hops,
            interval: Duration::from_millis(20),
            phase: Duration::from_millis(begins_ms),
            options: Options {
                deadline: Some(LIMIT),
                ..options
            },
        }
    };
    let mut streams = Streams::begin(&mut nodes, calls.iter().map(stream).collect());
    streams.run(&mut nodes, Duration::from_secs(seconds));
    let served = (0..calls.len())
        .map(|i| {
            let fates: Vec<bool> = streams
                .fates_of(i)
                .map(|(_, delay)| delay.is_some_and(|delay| delay <= LIMIT))
                .collect();
            fates.iter().filter(|in_time| **in_time).count() as f64 / fates.len() as f64
        })
        .collect();
    let snapshot = nodes.snapshot(0);
    streams.finish(&mut nodes);
    (served, nodes, snapshot)
}

#[test]
fn of_three_calls_on_a_link_for_one_one_is_perfect() {
    for begin in [[0, 5, 10], [0, 1_000, 2_000], [0, 20_000, 40_000]] {
        for seed in 1..=3 {
            let all = begin.map(|ms| (ms, 4));
            let (served, mut nodes, _) = calls(seed, "delay=20ms rate=150kbit", 1, &all, 120);
            let best = served.iter().copied().fold(0.0, f64::max);
            assert!(best >= 0.995, "{begin:?} {seed}: {served:?}");
            let drops = nodes.count().drops(Drop::NoRoom);
            assert!(drops > 3_000, "{begin:?} {seed}: {drops} refused");
        }
    }
}

#[test]
fn three_calls_on_a_link_for_three_are_perfect() {
    for path in ["delay=20ms rate=300kbit", "delay=20ms rate=300kbit loss=1%"] {
        for seed in 1..=3 {
            let (served, mut nodes, _) = calls(seed, path, 1, &[(0, 4), (5, 4), (700, 4)], 60);
            assert!(
                served.iter().all(|s| *s >= 0.999),
                "{path} {seed}: {served:?}"
            );
            assert_eq!(nodes.count().drops(Drop::NoRoom), 0);
        }
    }
}

#[test]
fn a_refused_call_is_named_with_its_reason_and_priority_comes_before_age() {
    let (served, _, snapshot) = calls(1, "delay=20ms rate=150kbit", 1, &[(0, 4), (2_000, 6)], 60);
    assert!(served[0] < 0.3 && served[1] >= 0.98, "{served:?}");
    let flows = snapshot.flows;
    let refused: Vec<&str> = flows.iter().filter_map(|f| f.refused.as_deref()).collect();
    assert_eq!(refused.len(), 1, "{flows:?}");
    assert!(
        refused[0].starts_with("no room on the link to n1, which carries"),
        "{refused:?}"
    );
    assert_eq!(snapshot.links[0].trouble, None, "the queue is gone");
}

#[test]
fn the_source_of_a_refused_flow_is_told_and_told_again_when_it_is_let_in() {
    let mut nodes = Nodes::with(1, 2, &chain(2), "delay=20ms", Settings::modern());
    nodes.link(0, 1, "delay=20ms rate=150kbit");
    nodes.run_ms(5_000);
    let options = Options {
        deadline: Some(LIMIT),
        ..voice()
    };
    nodes.bind(1, options);
    let callers = [ClientId(701), ClientId(702)];
    for caller in callers {
        nodes.set_sender(0, caller, options);
    }
    // Two calls of 80 kbit/s for a minute, then the older one ends.
    let start = nodes.world.now();
    for n in 0..6_000u64 {
        let at = start + Duration::from_millis(20 * n);
        if n < 3_000 {
            nodes.send(at, 0, callers[0], 1, n);
        }
        if n > 50 {
            nodes.send(at + Duration::from_millis(5), 0, callers[1], 1, n);
        }
    }
    nodes.run_ms(121_000);
    let told: Vec<(ClientId, u64, bool)> = nodes
        .world
        .take_replies()
        .into_iter()
        .filter_map(|answer| match answer.reply {
            Reply::Room {
                to, port, is_there, ..
            } => {
                assert_eq!((to, port), (addr(1), crate::world::PORT));
                Some((answer.client, answer.at.since(start).as_millis(), is_there))
            }
            _ => None,
        })
        .collect();
    assert!(
        told.iter().all(|(client, ..)| *client == callers[1]),
        "{told:?}"
    );
    let (first, last) = (told[0], told[told.len() - 1]);
    assert!(first.1 < 20_000 && !first.2, "{told:?}");
    assert!(last.2 && (60_000..90_000).contains(&last.1), "{told:?}");
    // Once a second, not once a packet.
    assert!((20..100).contains(&told.len()), "{told:?}");
}

#[test]
fn the_node_before_the_narrow_link_serves_whole_flows() {
    let (served, mut nodes, _) = calls(1, "delay=20ms rate=150kbit", 2, &[(0, 4), (1_000, 4)], 60);
    assert!(served[0] >= 0.995 && served[1] < 0.2, "{served:?}");
    assert!(nodes.count().drops(Drop::NoRoom) > 1_500);
}

/// The first link of the shortest path becomes too narrow, and another path has room.
#[test]
fn calls_that_a_link_has_no_room_for_go_another_way_at_once() {
    for seed in 1..=3 {
        let mut nodes = Nodes::with(
            seed,
            3,
            &[(0, 1), (1, 2), (0, 2)],
            "delay=25ms",
            Settings::modern(),
        );
        nodes.link(0, 2, "delay=10ms");
        nodes.run_ms(5_000);
        let stream = |phase| Stream {
            from: 0,
            to: 2,
            interval: Duration::from_millis(20),
            phase: Duration::from_millis(phase),
            options: Options {
                deadline: Some(LIMIT),
                ..voice()
            },
        };
        let mut streams = Streams::begin(&mut nodes, [0, 5, 10].map(stream).to_vec());
        streams.run(&mut nodes, Duration::from_secs(10));
        nodes.link(0, 2, "delay=10ms rate=90kbit");
        streams.run(&mut nodes, Duration::from_secs(10));
        for i in 0..3 {
            let lost = streams
                .fates_of(i)
                .filter(|(_, delay)| delay.is_none_or(|delay| delay > LIMIT))
                .count();
            // Less than a second passes until the queue is known and has gone. The route follows after two.
            assert!(lost <= 50, "{seed}: {lost} of call {i}");
        }
        streams.finish(&mut nodes);
    }
}
