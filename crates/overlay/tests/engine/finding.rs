//! Nodes that find their links themselves. They know one or three members at first, and become a network that stays
//! connected without any two nodes.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(
    clippy::disallowed_macros,
    reason = "a test tells what it has measured"
)]

use crate::world::streams::Streams;
use crate::world::{Nodes, Plan, number, voice};
use base::{Duration, Rng};
use overlay::snapshot::FindingStatus;
use overlay::{Event, Settings};
use std::collections::BTreeSet;

/// The links of a network at one moment: for each node, the nodes to which it has a link that is up.
pub(crate) struct Graph(pub(crate) Vec<BTreeSet<usize>>);

impl Graph {
    pub(crate) fn of(nodes: &Nodes) -> Graph {
        let up = |i: usize| {
            let links = nodes.running(i).map(|_| nodes.snapshot(i).links);
            let links = links.into_iter().flatten();
            let up = links.filter(|link| link.state == "up");
            up.map(|link| number(&link.peer)).collect()
        };
        Graph((0..nodes.hosts.len()).map(up).collect())
    }

    /// Returns how many nodes the first remaining node reaches, itself included, if the nodes in `without` are missing.
    pub(crate) fn reached(&self, without: &[usize]) -> usize {
        let first = (0..self.0.len()).find(|i| !without.contains(i)).unwrap();
        let (mut seen, mut next) = (BTreeSet::from([first]), vec![first]);
        while let Some(i) = next.pop() {
            let links = self.0[i].iter().filter(|to| !without.contains(to));
            next.extend(links.filter(|to| seen.insert(**to)));
        }
        seen.len()
    }

    /// Returns whether the remaining nodes stay connected, whichever two nodes die.
    pub(crate) fn is_whole_without_any_two(&self) -> bool {
        let n = self.0.len();
        let pairs = (0..n).flat_map(|a| (a + 1..n).map(move |b| [a, b]));
        pairs.into_iter().all(|pair| self.reached(&pair) == n - 2)
    }

    pub(crate) fn degree(&self) -> f64 {
        self.0.iter().map(BTreeSet::len).sum::<usize>() as f64 / self.0.len() as f64
    }

    fn between(&self, one: impl Fn(usize) -> bool) -> usize {
        let links = self.0.iter().enumerate().filter(|(i, _)| one(*i));
        links
            .map(|(_, to)| to.iter().filter(|to| !one(**to)).count())
            .sum()
    }
}

/// Creates nodes of which each knows up to `known` of the nodes before it.
pub(crate) fn joining(
    seed: u64,
    count: usize,
    known: usize,
    path: impl Fn(usize, usize) -> &'static str,
) -> Nodes {
    let mut rng = Rng::new(seed);
    let mut edges = BTreeSet::new();
    for i in 1..count {
        // The node that admitted this one, and random other nodes.
        edges.insert((i, 0));
        for _ in 1..known {
            edges.insert((i, rng.below(i as u64) as usize));
        }
    }
    let plan = Plan {
        edges: edges.into_iter().collect(),
        joined: true,
        settings: Settings {
            find_links: true,
            ..Settings::modern()
        },
        ..Plan::of(count)
    };
    let mut nodes = Nodes::planned(seed, plan);
    for a in 0..count {
        for b in 0..a {
            nodes.link(a, b, path(a, b));
        }
    }
    nodes
}

/// Runs until no two deaths separate the network. Returns the number of seconds that this took.
pub(crate) fn whole_after(nodes: &mut Nodes, most_s: u64) -> u64 {
    let is_whole = |nodes: &Nodes| Graph::of(nodes).is_whole_without_any_two();
    let found = (1..=most_s).find(|_| {
        nodes.run_ms(1_000);
        is_whole(nodes)
    });
    found.unwrap_or_else(|| panic!("not whole after {most_s} s"))
}

/// Counts the links that came up and went down since the last call.
fn changes(nodes: &mut Nodes) -> usize {
    let events = nodes.events().into_iter();
    let change = |event: &Event| matches!(event, Event::LinkUp { .. } | Event::LinkDown { .. });
    events.filter(|(_, _, event)| change(event)).count()
}

pub(crate) fn finding(nodes: &Nodes, i: usize) -> FindingStatus {
    nodes.snapshot(i).finding.unwrap()
}

#[test]
fn sixty_nodes_become_whole_within_seconds_and_stay_so_with_few_links() {
    let mut nodes = joining(2, 60, 3, |_, _| "delay=10ms");
    let s = whole_after(&mut nodes, 10);
    let degree = Graph::of(&nodes).degree();
    eprintln!("60 nodes that know three: whole after {s} s, {degree:.1} links each");
    assert!(degree <= 8.0, "{degree}");
    // The nodes make trials for half a minute. All of them do so at once.
    for _ in 0..30 {
        nodes.run_ms(1_000);
        let graph = Graph::of(&nodes);
        assert!(graph.degree() <= 8.0, "{}", graph.degree());
        assert!(graph.is_whole_without_any_two());
    }
    let graph = Graph::of(&nodes);
    // The node that all others knew at first is now one of many.
    eprintln!(
        "half a minute later {:.1} links each, the first has {}",
        graph.degree(),
        graph.0[0].len()
    );
    assert!(graph.0.iter().all(|of| (3..=20).contains(&of.len())));
}

#[test]
#[ignore = "half a minute; the rule is the same at sixty"]
fn a_hundred_nodes_become_whole() {
    let mut nodes = joining(1, 100, 3, |_, _| "delay=10ms");
    let s = whole_after(&mut nodes, 15);
    nodes.run_ms(15_000);
    let graph = Graph::of(&nodes);
    eprintln!(
        "100 nodes that know three: whole after {s} s, then {:.1} links each",
        graph.degree()
    );
    assert!(graph.is_whole_without_any_two());
    assert!(graph.degree() <= 8.0, "{}", graph.degree());
}

#[test]
#[ignore = "a quarter of a minute; the rules are tried one by one elsewhere"]
fn a_hundred_nodes_that_know_one_become_whole_though_it_has_not_a_place_for_all() {
    let mut nodes = joining(9, 100, 1, |_, _| "delay=10ms");
    let s = whole_after(&mut nodes, 10);
    nodes.run_ms(10_000);
    let graph = Graph::of(&nodes);
    eprintln!(
        "100 nodes that know one: whole after {s} s, then {:.1} links each, the one has {}",
        graph.degree(),
        graph.0[0].len()
    );
    assert!(graph.is_whole_without_any_two());
    assert!(graph.degree() <= 8.0, "{}", graph.degree());
    assert!(graph.0[0].len() <= 20);
}

#[test]
fn a_node_that_leaves_is_replaced_and_finds_its_place_when_it_returns() {
    let mut nodes = joining(3, 16, 3, |_, _| "delay=10ms");
    whole_after(&mut nodes, 10);
    nodes.run_ms(60_000);
    let before = Graph::of(&nodes).0[7].clone();
    nodes.crash(7);
    nodes.run_ms(60_000);
    // The network stays connected without node 7 and any one other node.
    let graph = Graph::of(&nodes);
    let others: Vec<usize> = (0..16).filter(|i| *i != 7).collect();
    assert!(others.iter().all(|i| graph.0[*i].len() >= 3));
    for &a in &others {
        for &b in others.iter().filter(|b| **b != a) {
            assert_eq!(graph.reached(&[7, a, b]), 13, "{a} {b}");
        }
    }
    nodes.restart(7);
    whole_after(&mut nodes, 30);
    assert!(!before.is_empty() && Graph::of(&nodes).0[7].len() >= 3);
}

#[test]
fn the_near_are_found_and_regions_stay_connected() {
    let near = |a: usize, b: usize| a % 2 == b % 2;
    let path = |a, b| {
        if near(a, b) {
            "delay=2500us"
        } else {
            "delay=40ms"
        }
    };
    let mut nodes = joining(4, 24, 1, path);
    whole_after(&mut nodes, 10);
    nodes.run_ms(180_000);
    let graph = Graph::of(&nodes);
    assert!(graph.is_whole_without_any_two());
    let across = graph.between(|i| i % 2 == 0);
    eprintln!(
        "{:.1} links each, {across} between the regions",
        graph.degree()
    );
    assert!(across >= 3 && graph.degree() <= 8.0);
    for i in 0..24 {
        let links = nodes.snapshot(i).links;
        let nearest: Vec<_> = links
            .iter()
            .filter(|it| it.why.starts_with("nearest of"))
            .collect();
        let others = links
            .iter()
            .filter(|it| it.why.starts_with("keeps the network whole"));
        assert!(others.count() >= 2);
        // All links that the node keeps because of nearness lead to near nodes. These may be its neighbors in the ring
        // too.
        assert!(
            nearest.iter().all(|it| near(i, number(&it.peer))),
            "node {i}"
        );
        let short = links.iter().filter(|it| near(i, number(&it.peer)));
        assert!(short.count() >= 2, "node {i}");
    }
    let status = finding(&nodes, 5);
    assert_eq!(status.offers, 23);
    assert!(status.measured >= 9 && status.dropped > 0, "{status:?}");
}

#[test]
fn a_network_that_is_calm_changes_little() {
    let mut nodes = joining(5, 16, 3, |_, _| "delay=10ms jitter=3ms loss=1%");
    whole_after(&mut nodes, 10);
    nodes.run_ms(300_000);
    changes(&mut nodes);
    nodes.run_ms(3_600_000);
    // Both ends see a change. Each node may try four other nodes in an hour.
    let changes = changes(&mut nodes) as f64 / 2.0 / 16.0;
    eprintln!("{changes:.1} links came or went per node in an hour");
    assert!(changes <= 10.0, "{changes}");
    assert!(Graph::of(&nodes).is_whole_without_any_two());
}

#[test]
fn a_link_that_traffic_uses_is_not_ended_under_it() {
    let mut nodes = joining(6, 12, 1, |_, _| "delay=10ms");
    nodes.run_ms(3_000);
    // The call goes through the node that both ends know, or over whatever link comes up.
    let mut call = Streams::calls(&mut nodes, 1, 5, 9, voice());
    call.run(&mut nodes, Duration::from_secs(90));
    call.finish(&mut nodes);
    let lost = call
        .fates_of(0)
        .filter(|(_, delay)| delay.is_none())
        .count();
    assert_eq!(lost, 0);
}

#[test]
fn links_that_were_configured_stay_and_nodes_that_do_not_offer_are_left_alone() {
    let plan = Plan {
        edges: (1..8).map(|i| (i, 0)).collect(),
        own_settings: vec![(7, Settings::modern())],
        settings: Settings {
            find_links: true,
            ..Settings::modern()
        },
        ..Plan::of(8)
    };
    let mut nodes = Nodes::planned(7, plan);
    for (a, b) in (0..8).flat_map(|a| (0..a).map(move |b| (a, b))) {
        nodes.link(a, b, "delay=10ms");
    }
    nodes.run_ms(120_000);
    let graph = Graph::of(&nodes);
    assert_eq!(graph.0[0], (1..8).collect());
    assert_eq!(graph.0[7], BTreeSet::from([0]));
    assert_eq!(nodes.link_status(3, 0).why, "by hand");
    assert_eq!(nodes.snapshot(7).finding, None);
    assert!((1..7).all(|i| graph.0[i].len() >= 3));
}

#[test]
fn a_first_neighbour_that_finds_no_links_by_itself_is_not_cut_off() {
    // All nodes know node 0. Four of them also know the last node, which offers nothing and has no other neighbors.
    let edges = (1..8).map(|i| (i, 0)).chain((1..5).map(|i| (i, 8)));
    let plan = Plan {
        edges: edges.collect(),
        joined: true,
        own_settings: vec![(8, Settings::modern())],
        settings: Settings {
            find_links: true,
            ..Settings::modern()
        },
        ..Plan::of(9)
    };
    let mut nodes = Nodes::planned(8, plan);
    for (a, b) in (0..9).flat_map(|a| (0..a).map(move |b| (a, b))) {
        nodes.link(a, b, "delay=10ms");
    }
    nodes.run_ms(30_000);
    assert!(finding(&nodes, 1).kept >= 3, "it needs no first neighbour");
    for _ in 0..60 {
        nodes.run_ms(1_000);
        assert_eq!(Graph::of(&nodes).0[8], (1..5).collect());
    }
}
