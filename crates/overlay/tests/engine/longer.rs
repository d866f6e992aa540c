//! The delay of a relay's link becomes much longer from one moment to the next. The packets of the link arrive, but all
//! of them too late.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::world::groups::{Cast, GROUP};
use crate::world::streams::{Stream, Streams};
use crate::world::{Nodes, voice};
use base::{Duration, Time};
use overlay::Settings;
use overlay::request::Options;

const LIMIT: Duration = Duration::from_millis(150);
/// Maximum time until packets are in time again: the additional delay of the path, the time until the first late
/// answer, and a few packets.
const GAP_MOST: Duration = Duration::from_millis(500);

/// Creates a network in which the path from 0 to 2 leads through 1. The direct link is longer, but still in time.
fn settled(seed: u64) -> Nodes {
    let edges = [(0, 1), (1, 2), (0, 2)];
    let mut nodes = Nodes::with(seed, 3, &edges, "delay=4ms", Settings::modern());
    nodes.link(0, 2, "delay=60ms");
    nodes.join(2, GROUP);
    nodes.run_ms(10_000 + 137 * seed);
    nodes.arrivals();
    nodes
}

fn call() -> Stream {
    let options = Options {
        deadline: Some(LIMIT),
        ..voice()
    };
    Stream {
        from: 0,
        to: 2,
        interval: Duration::from_millis(20),
        phase: Duration::ZERO,
        options,
    }
}

#[test]
fn a_call_leaves_a_link_that_is_suddenly_longer_before_routes_follow() {
    for (a, b) in [(0, 1), (1, 2)] {
        for seed in 0..4 {
            let mut nodes = settled(seed);
            let mut calls = Streams::begin(&mut nodes, vec![call()]);
            calls.run(&mut nodes, Duration::from_millis(2_000 + 29 * seed));
            nodes.link(a, b, "delay=230ms");
            calls.run(&mut nodes, Duration::from_secs(20));
            calls.finish(&mut nodes);
            let gap = Duration::from_millis(20 * calls.missed(LIMIT));
            assert!(gap <= GAP_MOST, "{a}-{b} {seed}: late for {gap}");
            assert_eq!(calls.duplicates, 0);
            nodes.world.close().unwrap();
        }
    }
}

#[test]
fn a_group_leaves_a_branch_that_is_suddenly_longer_before_routes_follow() {
    for seed in 0..4 {
        let mut nodes = settled(seed);
        let mut cast = Cast::new(
            0,
            20,
            Options {
                deadline: Some(LIMIT),
                ..voice()
            },
        );
        cast.run_ms(&mut nodes, 2_000 + 29 * seed);
        nodes.link(1, 2, "delay=230ms");
        cast.run_ms(&mut nodes, 20_000);
        cast.finish(&mut nodes);
        let (got, sent) = cast.got(2, Time::ZERO, Time::FAR);
        let gap = Duration::from_millis(20 * (sent - got) as u64);
        assert!(gap <= GAP_MOST, "{seed}: late for {gap}");
        assert_eq!(cast.doubles(), 0);
        nodes.world.close().unwrap();
    }
}

#[test]
fn copies_for_which_there_is_no_room_are_kept_back() {
    // There are three calls of 92 kbit/s, and all of their packets would be sent twice.
    let path = "delay=4ms jitter=57ms reorder loss=1.6%";
    for seed in 1..=4 {
        let mut nodes = Nodes::with(seed, 2, &[(0, 1)], path, Settings::modern());
        nodes.run_ms(5_000);
        let calls = (0..3).map(|i| Stream {
            to: 1,
            phase: Duration::from_millis(3 * i),
            ..call()
        });
        let mut calls = Streams::begin(&mut nodes, calls.collect());
        calls.run(&mut nodes, Duration::from_secs(10));
        nodes.link(0, 1, &format!("{path} rate=560kbit"));
        calls.run(&mut nodes, Duration::from_secs(50));
        calls.finish(&mut nodes);
        let missed = calls.missed(LIMIT) as f64 / calls.sent() as f64;
        // Plain UDP loses 1.6 %, and one second passes until the queue is known.
        assert!(missed <= 0.03, "{seed}: {missed}");
        nodes.world.close().unwrap();
    }
}
