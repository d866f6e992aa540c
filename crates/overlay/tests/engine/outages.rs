//! Links that go down and come back, and hosts that stall. The tests check what a call loses when there is no other
//! path, and how soon it uses another path if there is one.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::world::streams::{Stream, Streams};
use crate::world::{Nodes, chain, voice};
use base::{Duration, Time};
use overlay::request::Options;
use overlay::{Event, Settings};

const MS: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_millis(150);

fn call(from: usize, to: usize) -> Stream {
    Stream {
        from,
        to,
        interval: MS * 20,
        phase: Duration::ZERO,
        options: Options {
            deadline: Some(LIMIT),
            ..voice()
        },
    }
}

/// Returns the silences of the calls in an hour of troubles: when each silence began, and how long it lasted.
fn silences(streams: &Streams) -> Vec<(Time, Duration)> {
    let mut silences = Vec::new();
    let mut since: Option<Time> = None;
    for (at, delay) in streams.fates_of(0) {
        let is_here = delay.is_some_and(|delay| delay <= LIMIT);
        match (is_here, since) {
            (false, None) => since = Some(at),
            (true, Some(from)) => {
                silences.push((from, at.since(from)));
                since = None;
            }
            _ => {}
        }
    }
    silences
}

#[test]
fn the_only_way_is_never_shut() {
    // An earlier version of the hold-down doubled with each outage, which led to a silence of a minute and more.
    for (outage_ms, every_s) in [(300, 5), (500, 10), (1_000, 30), (2_000, 20), (10_000, 60)] {
        for hops in [1, 3] {
            let mut nodes = Nodes::with(
                outage_ms + hops as u64,
                hops + 1,
                &chain(hops + 1),
                "delay=10ms loss=1%",
                Settings::modern(),
            );
            nodes.run_ms(3_000);
            let mut streams = Streams::begin(&mut nodes, vec![call(0, hops)]);
            for _ in 0..8 {
                streams.run(&mut nodes, Duration::from_secs(every_s));
                nodes.set_outage(hops - 1, hops, true);
                streams.run(&mut nodes, MS * outage_ms);
                nodes.set_outage(hops - 1, hops, false);
            }
            streams.run(&mut nodes, Duration::from_secs(5));
            streams.finish(&mut nodes);
            let outage = MS * outage_ms;
            let longest = streams.longest_gap(0);
            assert!(longest <= outage + MS * 400, "{outage}, {hops}: {longest}");
            // Unavoidable losses are the packets sent in an outage, except in its last moments.
            let unavoidable = 8 * outage_ms / 20;
            let beside = streams.missed(LIMIT).saturating_sub(unavoidable) as f64;
            let beside = beside / streams.sent() as f64;
            assert!(beside <= 0.001, "{outage}, {hops}: {:.2} %", beside * 100.0);
            nodes.world.close().unwrap();
        }
    }
}

#[test]
fn another_way_is_taken_within_half_a_second_and_the_first_one_not_again_for_long() {
    // The path 0 - 1 - 3 is shorter than 0 - 2 - 3, and its first link goes down for a second every 15 s.
    let edges = [(0, 1), (1, 3), (0, 2), (2, 3)];
    for seed in 0..5 {
        let mut nodes = Nodes::with(seed, 4, &edges, "delay=20ms loss=1%", Settings::modern());
        for (a, b) in [(0, 1), (1, 3)] {
            nodes.link(a, b, "delay=10ms loss=1%");
        }
        nodes.run_ms(5_000);
        let mut streams = Streams::begin(&mut nodes, vec![call(0, 3)]);
        for _ in 0..20 {
            streams.run(&mut nodes, Duration::from_secs(14));
            nodes.set_outage(0, 1, true);
            streams.run(&mut nodes, Duration::from_secs(1));
            nodes.set_outage(0, 1, false);
        }
        streams.finish(&mut nodes);
        assert!(
            streams.longest_gap(0) <= MS * 500,
            "{}",
            streams.longest_gap(0)
        );
        // There are twenty outages. The call notices three or four of them.
        let noticed = silences(&streams)
            .iter()
            .filter(|(_, lasted)| *lasted >= MS * 200)
            .count();
        assert!(noticed <= 4, "{noticed}");
        let missed = streams.missed(LIMIT) as f64 / streams.sent() as f64;
        assert!(missed <= 0.005, "{:.2} %", missed * 100.0);
        nodes.world.close().unwrap();
    }
}

#[test]
fn while_a_link_is_in_doubt_copies_go_another_way() {
    let triangle = [(0, 1), (0, 2), (2, 1)];
    let mut gaps = [Vec::new(), Vec::new()];
    for seed in 0..12 {
        for (doubt, gaps) in [true, false].into_iter().zip(&mut gaps) {
            let mut settings = Settings::modern();
            if !doubt {
                settings.hello.doubt_after = Duration::from_secs(3_600);
            }
            let mut nodes = Nodes::with(seed, 3, &triangle, "delay=20ms", settings);
            nodes.link(0, 1, "delay=10ms");
            nodes.run_ms(5_000 + 37 * seed);
            let mut streams = Streams::begin(&mut nodes, vec![call(0, 1), call(1, 0)]);
            streams.run(&mut nodes, Duration::from_secs(3));
            nodes.set_outage(0, 1, true);
            streams.run(&mut nodes, Duration::from_secs(3));
            streams.finish(&mut nodes);
            assert_eq!(streams.duplicates, 0);
            gaps.push(streams.longest_gap(0).max(streams.longest_gap(1)));
            nodes.world.close().unwrap();
        }
    }
    let [with, without] = gaps;
    // The sum of 150 ms, two packets that were on their way, and the longer path.
    assert!(with.iter().all(|gap| *gap <= MS * 230), "{with:?}");
    assert!(without.iter().all(|gap| *gap >= MS * 350), "{without:?}");
}

#[test]
fn a_far_detour_is_left_when_the_price_of_the_outage_is_smaller() {
    // The detour is 100 ms longer: more than the price of one outage.
    let mut nodes = Nodes::with(
        3,
        3,
        &[(0, 1), (0, 2), (2, 1)],
        "delay=55ms",
        Settings::modern(),
    );
    nodes.link(0, 1, "delay=10ms");
    nodes.run_ms(5_000);
    let mut streams = Streams::begin(&mut nodes, vec![call(0, 1)]);
    streams.run(&mut nodes, Duration::from_secs(5));
    nodes.set_outage(0, 1, true);
    streams.run(&mut nodes, Duration::from_secs(3));
    let now = nodes.world.now();
    assert_eq!(nodes.link_status(0, 1).state, "silent");
    nodes.set_outage(0, 1, false);
    streams.run(&mut nodes, Duration::from_secs(5));
    let status = nodes.link_status(0, 1);
    assert_eq!((status.state, status.price_ms), ("up", 64.0));
    assert!(status.price_ends_in_s.unwrap() > 290.0);
    streams.finish(&mut nodes);
    let delay_at = |at: Time| {
        let mut fates = streams.fates_of(0).filter(|(sent, _)| *sent >= at);
        fates.find_map(|(_, delay)| delay).unwrap()
    };
    assert!(delay_at(now - MS * 500) > MS * 100, "over the detour");
    assert!(delay_at(now + MS * 1_000) < MS * 20, "back at once");
    nodes.world.close().unwrap();
}

#[test]
fn a_node_that_was_not_scheduled_blames_nobody() {
    let mut nodes = Nodes::with(5, 3, &chain(3), "delay=10ms", Settings::modern());
    nodes.run_ms(3_000);
    let mut streams = Streams::begin(&mut nodes, vec![call(0, 2)]);
    for _ in 0..10 {
        streams.run(&mut nodes, Duration::from_secs(5));
        let until = nodes.world.now() + MS * 300;
        let host = nodes.hosts[1];
        nodes.world.stall(host, until, 512);
        streams.run(&mut nodes, MS * 300);
    }
    streams.run(&mut nodes, Duration::from_secs(2));
    for (node, peer) in [(1, 0), (1, 2), (0, 1), (2, 1)] {
        let status = nodes.link_status(node, peer);
        let rtt_ms = status.rtt_ms.unwrap();
        assert!((19.0..25.0).contains(&rtt_ms), "{node}-{peer}: {rtt_ms} ms");
        assert!(
            status.loss_in_pct < 0.1,
            "{node}-{peer}: {}",
            status.loss_in_pct
        );
        let announced = status.announced_latency_ms.unwrap();
        assert!(
            (9.5..11.0).contains(&announced),
            "{node}-{peer}: {announced} ms"
        );
    }
    let downs = nodes.events();
    let downs = downs
        .iter()
        .filter(|(_, _, event)| matches!(event, Event::LinkDown { .. }));
    assert_eq!(downs.count(), 0, "300 ms are no outage");
    streams.finish(&mut nodes);
    assert!(
        streams.longest_gap(0) <= MS * 320,
        "{}",
        streams.longest_gap(0)
    );
    nodes.world.close().unwrap();
}

#[test]
fn a_direction_that_works_is_used_while_the_other_one_is_dead() {
    let mut nodes = Nodes::with(6, 2, &chain(2), "delay=10ms", Settings::modern());
    nodes.run_ms(3_000);
    let mut streams = Streams::begin(&mut nodes, vec![call(0, 1), call(1, 0)]);
    streams.run(&mut nodes, Duration::from_secs(2));
    let (a, b) = (nodes.hosts[0], nodes.hosts[1]);
    nodes
        .world
        .link_one_way(b, a, crate::world::model("delay=10ms outage"));
    let from = nodes.world.now() + MS * 100;
    streams.run(&mut nodes, Duration::from_secs(20));
    let until = nodes.world.now() - MS * 200;
    streams.run(&mut nodes, Duration::from_secs(1));
    streams.finish(&mut nodes);
    assert_eq!(streams.lost_between(0, from, until), 0, "as by UDP");
    assert!(streams.lost_between(1, from, until) > 900);
    nodes.world.close().unwrap();
}

#[test]
fn a_node_that_is_gone_is_not_counted_as_reachable_and_given_up_after_five_minutes() {
    let mut nodes = Nodes::with(7, 3, &chain(3), "delay=10ms", Settings::modern());
    nodes.run_ms(3_000);
    nodes.crash(2);
    nodes.run_ms(6_000);
    let reachable = |nodes: &Nodes| {
        let node = nodes.running(0).unwrap();
        node.reachable().any(|node| node == crate::world::addr(2))
    };
    let metric = graph::Metric::ExpectedLatency;
    assert!(!reachable(&nodes));
    let hop = |nodes: &Nodes| {
        nodes
            .running(0)
            .unwrap()
            .next_hop(metric, crate::world::addr(2))
    };
    assert_eq!(
        hop(&nodes),
        Some(crate::world::addr(1)),
        "tried all the same"
    );
    assert_eq!(nodes.link_status(1, 2).state, "silent");
    nodes.run_ms(305_000);
    assert_eq!(nodes.link_status(1, 2).state, "down");
    assert_eq!(hop(&nodes), None);
}

#[test]
fn a_node_that_stands_still_is_left_by_everybody_at_once() {
    // The path from 0 to 1 leads through 2. Five other nodes have a short link to 2, so each of them looks like the
    // next best path to 2 until that node has noticed the stall itself.
    const DIRECT: &str = "delay=60ms loss=1%";
    let others = 3..8;
    let near = others.clone().flat_map(|x| [(0, x), (x, 2)]);
    let edges: Vec<_> = near.chain([(0, 1), (0, 2), (2, 1)]).collect();
    for seed in 0..5 {
        let settings = Settings::modern();
        let mut nodes = Nodes::with(seed, 8, &edges, "delay=10ms loss=1%", settings);
        nodes.link(0, 1, DIRECT);
        nodes.run_ms(5_000);
        let mut streams = Streams::begin(&mut nodes, vec![call(0, 1)]);
        streams.run(&mut nodes, Duration::from_secs(10));
        let stall = nodes.world.now() + Duration::from_secs(6);
        nodes.world.stall(nodes.hosts[2], stall, 512);
        streams.run(&mut nodes, Duration::from_secs(20));
        streams.finish(&mut nodes);
        assert!(
            streams.longest_gap(0) <= MS * 900,
            "{seed}: {}",
            streams.longest_gap(0)
        );
        nodes.world.close().unwrap();
    }
}
