//! The clock that nodes share shows which direction of a link is the longer one.
#![allow(clippy::unwrap_used)]

use crate::world::{Nodes, Plan, model};
use base::Duration;

/// Nodes with clocks of their own, and a link from the second last to the last whose way back takes longer.
fn uneven(edges: &[(usize, usize)], count: usize) -> Nodes {
    let plan = Plan {
        edges: edges.to_vec(),
        clocks_ahead: (0..count as u64)
            .map(|i| Duration::from_secs(1_000 * (i * 7 % 5)))
            .collect(),
        ..Plan::of(count)
    };
    let mut nodes = Nodes::planned(1, plan);
    for &(a, b) in edges {
        nodes.link(a, b, "delay=10ms");
    }
    let (a, b) = (nodes.hosts[count - 2], nodes.hosts[count - 1]);
    nodes.world.link_one_way(b, a, model("delay=90ms"));
    nodes
}

/// Returns the latency that the node announces for its link, in whole milliseconds.
fn announced_ms(nodes: &Nodes, from: usize, to: usize) -> u64 {
    let latency = nodes.link_status(from, to).announced_latency_ms;
    latency.unwrap().round() as u64
}

#[test]
fn a_link_that_was_always_longer_one_way_is_known_by_the_ways_around_it() {
    let mut nodes = uneven(&[(0, 1), (1, 2), (0, 3), (2, 3)], 4);
    // An improvement of a link is announced after twenty seconds.
    nodes.run_ms(40_000);
    let told = |nodes: &Nodes| [(2, 3), (3, 2), (0, 1)].map(|(a, b)| announced_ms(nodes, a, b));
    assert_eq!(told(&nodes), [10, 90, 10]);
    // Without the node whose clock all others share, they share another one's.
    nodes.crash(0);
    nodes.run_ms(30_000);
    assert_eq!(announced_ms(&nodes, 1, 2), 10);
}

#[test]
fn without_a_way_around_both_directions_count_as_equal() {
    let mut nodes = uneven(&[(0, 1)], 2);
    nodes.run_ms(20_000);
    assert_eq!(announced_ms(&nodes, 0, 1), 50);
    assert_eq!(announced_ms(&nodes, 1, 0), 50);
}
