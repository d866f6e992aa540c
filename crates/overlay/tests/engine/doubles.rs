//! Two hosts that run with the key of one node, because somebody has copied its state directory.

use crate::world::{Nodes, addr, chain};

/// Returns what the snapshot of a node says: the doubled nodes, and whether each is the node itself.
fn told(nodes: &Nodes, i: usize) -> Vec<(String, bool)> {
    let doubles = nodes.snapshot(i).doubles.into_iter();
    doubles.map(|double| (double.node, double.is_own)).collect()
}

#[test]
fn the_neighbour_and_both_hosts_find_that_one_key_runs_twice() {
    let mut nodes = Nodes::new(7, 3, &chain(3), "delay=10ms");
    nodes.run_ms(3_000);
    let copy = nodes.double(0, 1, "delay=10ms");
    nodes.run_ms(125_000);
    nodes.count();
    for host in [nodes.hosts[0], nodes.hosts[1], copy] {
        let reports = nodes.totals.doubles.iter();
        let of_host = reports.filter(|(_, by, node)| *by == host && *node == addr(0));
        // One report now and then: at once, and every minute.
        assert!(
            (2..=3).contains(&of_host.count()),
            "{host:?}: {:?}",
            nodes.totals.doubles
        );
    }
    let name = addr(0).to_string();
    assert_eq!(told(&nodes, 0), [(name.clone(), true)]);
    assert_eq!(told(&nodes, 1), [(name, false)]);
    assert_eq!(told(&nodes, 2), []);
    // The copy is stopped: a minute later nobody speaks of it.
    nodes.crash_host(copy);
    nodes.run_ms(65_000);
    for i in 0..3 {
        assert_eq!(told(&nodes, i), [], "node {i}");
    }
}

#[test]
fn a_node_that_restarts_again_and_again_is_no_double() {
    let mut nodes = Nodes::new(8, 3, &[(0, 1), (0, 2), (1, 2)], "delay=10ms");
    for _ in 0..12 {
        nodes.run_ms(2_000);
        nodes.crash(0);
        nodes.run_ms(200);
        nodes.restart(0);
    }
    nodes.run_ms(2_000);
    nodes.count();
    assert_eq!(nodes.totals.doubles, []);
}
