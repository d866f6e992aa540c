//! A neighbor that is no longer in the configuration.

use crate::world::{Nodes, Plan, addr};
use base::NodeAddr;
use overlay::node::Neighbor;
use overlay::request::Operation;

/// Creates two nodes that are neighbors, and accept no other node than those in `accept`.
fn two(mutual: bool, accept: Option<Vec<NodeAddr>>) -> Nodes {
    let plan = Plan {
        edges: vec![(0, 1)],
        mutual,
        accept,
        ..Plan::of(2)
    };
    let mut nodes = Nodes::planned(18, plan);
    nodes.link(0, 1, "delay=10ms");
    nodes.run_ms(2_000);
    assert!(nodes.all_links_up());
    nodes
}

fn links(nodes: &Nodes, i: usize) -> usize {
    nodes.snapshot(i).links.len()
}

#[test]
fn the_link_ends_and_is_dialled_no_more_until_the_neighbour_is_one_again() {
    let mut nodes = two(false, None);
    nodes.operate(0, Operation::Part(addr(1)));
    nodes.run_ms(100);
    assert_eq!(links(&nodes, 0), 0);
    assert_ne!(nodes.link_status(1, 0).state, "up", "it was told");
    nodes.run_ms(10_000);
    assert_eq!(links(&nodes, 0), 0);
    assert_eq!(
        nodes.running(0).map(|node| node.reachable().count()),
        Some(0)
    );
    let again = Neighbor {
        addr: addr(1),
        name: "n1".to_owned(),
        at: Some(nodes.at(1)),
        more: Vec::new(),
        capacity_kbps: 0,
        reliable: Default::default(),
    };
    nodes.operate(0, Operation::Meet(again));
    nodes.run_ms(2_000);
    assert!(nodes.all_links_up());
}

#[test]
fn a_neighbour_that_dials_still_needs_to_be_accepted_by_name() {
    let mut nodes = two(true, None);
    nodes.operate(0, Operation::Part(addr(1)));
    nodes.run_ms(10_000);
    assert_eq!(links(&nodes, 0), 0);
    assert_ne!(nodes.link_status(1, 0).state, "up");
    let mut nodes = two(true, Some(vec![addr(0), addr(1)]));
    nodes.operate(0, Operation::Part(addr(1)));
    nodes.run_ms(10_000);
    assert_eq!(nodes.link_status(0, 1).state, "up");
}
