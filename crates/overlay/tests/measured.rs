//! What bulk transfers have carried over a link is told to the whole network.

mod world;

use overlay::request::Operation;
use world::{Nodes, addr, chain};

/// What the last node of three knows of the first link.
fn known(nodes: &Nodes) -> Option<u32> {
    let node = nodes.party(2).as_node().expect("it runs");
    let network = node.network_snapshot(nodes.world.now());
    let link = network
        .links
        .into_iter()
        .find(|link| link.from == addr(0).to_string() && link.to == addr(1).to_string());
    link.expect("the link is known").measured_kbps
}

#[test]
fn what_a_link_has_carried_is_told_and_small_changes_are_not() {
    let mut nodes = Nodes::new(1, 3, &chain(3), "delay=10ms");
    nodes.run_ms(10_000);
    assert_eq!(known(&nodes), None);
    for (kbps, expected) in [(80_000, 80_000), (89_000, 80_000), (40_000, 40_000)] {
        let neighbor = addr(1);
        nodes.operate(0, Operation::Measured { neighbor, kbps });
        nodes.run_ms(2_000);
        assert_eq!(known(&nodes), Some(expected), "{kbps}");
    }
}
