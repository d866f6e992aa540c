//! Nodes in a row, in the simulator: they find each other, route, forward and recover packets.

use crate::world::{Nodes, SENDER, chain, model};
use base::{Duration, Time};
use overlay::request::Options;
use overlay::sockets::default_options;

fn voice() -> Options {
    Options {
        deadline: Some(Duration::from_millis(100)),
        ..default_options()
    }
}

#[test]
fn links_come_up_and_routes_follow_within_a_second() {
    let mut nodes = Nodes::new(1, 6, &chain(6), "delay=10ms");
    nodes.run_ms(1_000);
    assert!(nodes.all_links_up(), "{:#?}", nodes.snapshot(2).links);
    for i in 0..6 {
        let routes = nodes.snapshot(i).routes;
        assert_eq!(routes.len(), 5 * 4, "node {i}: {routes:#?}");
    }
    let route = nodes
        .snapshot(0)
        .routes
        .into_iter()
        .find(|r| r.to == "10.7.0.6")
        .unwrap();
    assert!(
        (route.latency_ms - 50.0).abs() < 0.5 || route.metric != "latency",
        "{route:?}"
    );
    nodes.world.close().unwrap();
}

#[test]
fn a_stream_crosses_five_links_in_their_delay() {
    let mut nodes = Nodes::new(2, 6, &chain(6), "delay=10ms");
    nodes.run_ms(1_000);
    nodes.bind(5, voice());
    nodes.set_sender(0, SENDER, voice());
    for n in 0..100 {
        let at = nodes.world.now() + Duration::from_millis(20) * n;
        nodes.send(at, 0, SENDER, 5, n);
    }
    nodes.run_ms(3_000);
    let arrivals = nodes.arrivals();
    assert_eq!(arrivals.len(), 100);
    assert!(
        arrivals
            .iter()
            .all(|(_, delay)| *delay == Duration::from_millis(50))
    );
    nodes.world.close().unwrap();
}

#[test]
fn losses_in_the_middle_are_repaired_on_their_hop() {
    let mut nodes = Nodes::new(3, 6, &chain(6), "delay=10ms");
    nodes
        .world
        .link(nodes.hosts[2], nodes.hosts[3], &model("delay=10ms loss=5%"));
    nodes.run_ms(3_000);
    nodes.bind(5, voice());
    nodes.set_sender(0, SENDER, voice());
    let start = nodes.world.now();
    for n in 0..20_000 {
        nodes.send(start + Duration::from_millis(2) * n, 0, SENDER, 5, n);
    }
    nodes.run_ms(42_000);
    let arrivals = nodes.arrivals();
    let late = arrivals
        .iter()
        .filter(|(_, delay)| *delay > Duration::from_millis(100))
        .count();
    let missed = 20_000 - arrivals.len() + late;
    assert!(missed <= 14, "{missed} of 20000 lost or late");
    let repaired = arrivals
        .iter()
        .filter(|(_, d)| *d > Duration::from_millis(55))
        .count();
    assert!((800..1200).contains(&repaired), "{repaired}");
    nodes.world.close().unwrap();
}

#[test]
fn equal_seeds_give_equal_worlds() {
    let run = |seed| {
        let mut nodes = Nodes::new(seed, 4, &chain(4), "delay=5ms loss=3% jitter=1ms");
        nodes.bind(3, voice());
        for n in 0..500 {
            nodes.send(
                Time::ZERO + Duration::from_millis(2_000 + 4 * n),
                0,
                SENDER,
                3,
                n,
            );
        }
        nodes.run_ms(6_000);
        nodes.world.digest()
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}
