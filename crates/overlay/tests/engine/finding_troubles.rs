//! Nodes that find their links in difficult conditions: outages, partitions, crashes, worthless offers, and very little
//! traffic.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(
    clippy::disallowed_macros,
    reason = "a test tells what it has measured"
)]

use crate::finding::{Graph, finding, joining, whole_after};
use crate::world::streams::{Stream, Streams};
use crate::world::{Nodes, Plan, addr, voice};
use base::{Duration, Rng};
use overlay::request::Operation;
use overlay::{Event, Settings};

fn set_outages(nodes: &mut Nodes, between: impl Fn(usize, usize) -> bool, outage: bool) {
    let count = nodes.hosts.len();
    for (a, b) in (0..count).flat_map(|a| (0..a).map(move |b| (a, b))) {
        if between(a, b) {
            nodes.set_outage(a, b, outage);
        }
    }
}

/// Returns whether the remaining nodes reach each other, whichever two of them are missing.
fn is_whole_without(graph: &Graph, gone: &[usize]) -> bool {
    let count = graph.0.len();
    let left: Vec<usize> = (0..count).filter(|i| !gone.contains(i)).collect();
    left.iter().enumerate().all(|(i, a)| {
        left[i + 1..].iter().all(|b| {
            let mut without = gone.to_vec();
            without.extend([*a, *b]);
            graph.reached(&without) == left.len() - 2
        })
    })
}

/// Runs until `is_so` is true. Returns the number of seconds that this took.
fn when(nodes: &mut Nodes, most_s: u64, is_so: impl Fn(&Graph) -> bool) -> u64 {
    let found = (1..=most_s).find(|_| {
        nodes.run_ms(1_000);
        is_so(&Graph::of(nodes))
    });
    found.unwrap_or_else(|| panic!("not after {most_s} s"))
}

#[test]
fn a_node_that_was_cut_off_for_long_comes_back_though_its_first_neighbour_is_gone() {
    let mut nodes = joining(11, 12, 1, |_, _| "delay=10ms");
    whole_after(&mut nodes, 10);
    nodes.run_ms(10_000);
    nodes.crash(0);
    nodes.run_ms(40_000);
    // The second outage is longer than records live.
    for outage_s in [60, 1_000] {
        set_outages(&mut nodes, |a, b| a == 5 || b == 5, true);
        nodes.run_ms(outage_s * 1_000);
        assert!(Graph::of(&nodes).0[5].is_empty());
        set_outages(&mut nodes, |a, b| a == 5 || b == 5, false);
        let s = when(&mut nodes, 30, |graph| is_whole_without(graph, &[0]));
        eprintln!("{outage_s} s without any link: whole again after {s} s");
    }
}

#[test]
fn two_halves_that_were_parted_for_long_meet_again_though_the_first_neighbour_is_gone() {
    let mut nodes = joining(12, 20, 1, |_, _| "delay=10ms");
    whole_after(&mut nodes, 10);
    nodes.crash(0);
    nodes.run_ms(40_000);
    set_outages(&mut nodes, |a, b| a % 2 != b % 2, true);
    nodes.run_ms(120_000);
    let graph = Graph::of(&nodes);
    assert_eq!(graph.reached(&[0]), 10, "each half is whole");
    set_outages(&mut nodes, |a, b| a % 2 != b % 2, false);
    let s = when(&mut nodes, 30, |graph| is_whole_without(graph, &[0]));
    eprintln!("two halves are whole again after {s} s");
}

#[test]
fn a_third_that_dies_at_once_parts_nobody_and_is_replaced() {
    let mut nodes = joining(13, 60, 3, |_, _| "delay=10ms");
    whole_after(&mut nodes, 10);
    nodes.run_ms(20_000);
    let mut rng = Rng::new(13);
    let mut gone: Vec<usize> = (0..60).collect();
    while gone.len() > 20 {
        gone.remove(rng.below(gone.len() as u64) as usize);
    }
    gone.iter().for_each(|i| nodes.crash(*i));
    assert_eq!(Graph::of(&nodes).reached(&gone), 40);
    // This takes three steps: the silence is noticed, no node waits for a restart any longer, and the nodes chosen then
    // are linked.
    let s = when(&mut nodes, 40, |graph| is_whole_without(graph, &gone));
    eprintln!("a third died: the others are whole again after {s} s");
    nodes.run_ms(20_000);
    let graph = Graph::of(&nodes);
    assert!(is_whole_without(&graph, &gone));
    let degree = graph.degree() * 60.0 / 40.0;
    assert!(degree <= 8.0, "{degree}");
}

#[test]
fn an_offer_that_never_answers_is_passed_over_and_its_one_link_stays() {
    let mut nodes = joining(14, 16, 1, |_, _| "delay=10ms");
    // The nodes behind it are reachable through the node that it knows.
    set_outages(&mut nodes, |a, b| a == 7 && b != 0, true);
    set_outages(&mut nodes, |a, b| b == 7 && a != 0, true);
    let s = when(&mut nodes, 40, |graph| {
        is_whole_without(graph, &[7]) && graph.0[7].len() == 1
    });
    eprintln!("with one that answers nobody: whole after {s} s");
    for _ in 0..120 {
        nodes.run_ms(1_000);
        let graph = Graph::of(&nodes);
        assert_eq!(graph.0[7].len(), 1);
        assert!(graph.reached(&[]) == 16);
    }
    assert!(is_whole_without(&Graph::of(&nodes), &[7]));
}

#[test]
fn long_round_trips_change_little() {
    let mut nodes = joining(15, 40, 3, |_, _| "delay=150ms jitter=20ms loss=2%");
    let s = whole_after(&mut nodes, 15);
    nodes.run_ms(20_000);
    let graph = Graph::of(&nodes);
    eprintln!(
        "round trips of 300 ms: whole after {s} s, then {:.1} links each",
        graph.degree()
    );
    assert!(graph.is_whole_without_any_two());
    assert!(graph.degree() <= 8.0, "{}", graph.degree());
}

#[test]
fn a_packet_now_and_then_keeps_the_link_under_it_and_stops_no_measuring() {
    let mut nodes = joining(16, 24, 1, |_, _| "delay=10ms");
    nodes.run_ms(3_000);
    let partners = [2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22];
    let stream = |to: &usize| Stream {
        from: 0,
        to: *to,
        interval: Duration::from_secs(4),
        phase: Duration::from_millis(100 * *to as u64),
        options: voice(),
    };
    let mut packets = Streams::begin(&mut nodes, partners.iter().map(stream).collect());
    packets.run(&mut nodes, Duration::from_secs(10));
    for s in 10..60 {
        packets.run(&mut nodes, Duration::from_secs(1));
        let links = &Graph::of(&nodes).0[0];
        assert!(
            partners.iter().all(|to| links.contains(to)),
            "{s} s: {links:?}"
        );
    }
    packets.finish(&mut nodes);
    let lost = (0..partners.len()).flat_map(|i| packets.fates_of(i).collect::<Vec<_>>());
    assert_eq!(lost.filter(|(_, delay)| delay.is_none()).count(), 0);
    let status = finding(&nodes, 0);
    assert!(status.measured >= 9, "{status:?}");
}

#[test]
fn a_first_neighbour_that_is_gone_is_not_told_of_at_each_look() {
    let mut nodes = joining(17, 8, 1, |_, _| "delay=10ms");
    whole_after(&mut nodes, 10);
    nodes.crash(0);
    nodes.run_ms(60_000);
    nodes.events();
    nodes.run_ms(240_000);
    let told = nodes.events().into_iter();
    let told = told.filter(|(_, _, event)| matches!(event, Event::Unanswered { .. }));
    assert_eq!(told.count(), 0);
}

#[test]
fn a_first_neighbour_that_has_moved_is_dialled_where_it_says_that_it_is() {
    // All nodes are in each other's ring, or are linked across it.
    let edges = (0..4).flat_map(|a| (0..a).map(move |b| (a, b)));
    let plan = Plan {
        edges: edges.collect(),
        joined: true,
        tapped: Some(3),
        settings: Settings {
            find_links: true,
            ..Settings::modern()
        },
        ..Plan::of(4)
    };
    let mut nodes = Nodes::planned(18, plan);
    for (a, b) in (0..4).flat_map(|a| (0..a).map(move |b| (a, b))) {
        nodes.link(a, b, "delay=10ms");
    }
    whole_after_all(&mut nodes);
    nodes.move_to_another_address(0, &[1, 2, 3].map(|i| (i, "delay=10ms")));
    whole_after_all(&mut nodes);
    nodes.crash(3);
    nodes.run_ms(60_000);
    nodes.tap.borrow_mut().clear();
    nodes.restart(3);
    nodes.set_outage(0, 3, true);
    nodes.run_ms(20_000);
    // Node 3 did not hear node 0: a node that dials node 0 uses the address from other nodes.
    let (new, sent) = (nodes.at(0).remote(), nodes.tap.borrow());
    let dials = sent.iter().filter(|(to, datagram)| {
        to.remote() == new && wire::link::Kind::of(datagram) == Ok(wire::link::Kind::HandshakeInit)
    });
    assert!(dials.count() > 0);
}

/// Runs until each of a few nodes has a link to each other node.
fn whole_after_all(nodes: &mut Nodes) {
    when(nodes, 30, |graph| {
        graph.0.iter().all(|of| of.len() + 1 == graph.0.len())
    });
}

#[test]
fn a_running_node_is_told_by_whom_it_enters() {
    // Node 0 has no room for more links, because many nodes know it. No node chooses it because it is near.
    let mut nodes = joining(19, 30, 1, |_, _| "delay=10ms");
    nodes.run_ms(30_000);
    let i = (1..30)
        .find(|i| !Graph::of(&nodes).0[*i].contains(&0))
        .unwrap();
    nodes.operate(i, Operation::First(Vec::new()));
    nodes.run_ms(5_000);
    assert_eq!(nodes.link_status(i, 0).why, "by hand");
    assert!(Graph::of(&nodes).0[i].contains(&0));
    nodes.operate(i, Operation::First(vec![addr(0)]));
    nodes.run_ms(30_000);
    assert!(!Graph::of(&nodes).0[i].contains(&0));
}
