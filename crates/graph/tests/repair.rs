//! These tests compare repaired trees and widths with ones computed from scratch, over thousands of random changes:
//! costs with many ties, links and whole nodes that come and go, and changes in batches.

use base::{NodeAddr, Rng};
use graph::spf::Tree;
use graph::width::{Width, Widths};
use graph::{Change, LinkCost, Metric, NodeIndex, Parameters, Topology};
use std::collections::BTreeSet;

/// The parameters of random changes.
#[derive(Clone, Copy)]
struct Style {
    nodes: u32,
    /// Number of distinct latencies and losses: with fewer values, there are more ties.
    values: u64,
    /// The approximate number of links of a node.
    degree: u64,
    /// The maximum number of changes between two repairs.
    batch: u64,
}

const STYLES: [Style; 5] = [
    Style {
        nodes: 6,
        values: 1,
        degree: 2,
        batch: 1,
    },
    Style {
        nodes: 12,
        values: 2,
        degree: 3,
        batch: 3,
    },
    Style {
        nodes: 25,
        values: 3,
        degree: 2,
        batch: 8,
    },
    Style {
        nodes: 40,
        values: 50,
        degree: 4,
        batch: 2,
    },
    Style {
        nodes: 80,
        values: 4,
        degree: 4,
        batch: 1,
    },
];

fn address(place: u64, nodes: u32) -> NodeAddr {
    // The addresses are not in the order of their first mention.
    NodeAddr((place as u32 * 7 + 3) % nodes + 1)
}

/// Applies one random change, and appends the changes that the topology reports.
fn change(topology: &mut Topology, rng: &mut Rng, style: Style, changes: &mut Vec<Change>) {
    let nodes = u64::from(style.nodes);
    let from = address(rng.below(nodes), style.nodes);
    if rng.chance(0.01) {
        // The node no longer reports any links.
        return topology.set_links_of(from, &[], changes);
    }
    let link = LinkCost::of_share(
        1_000 * (1 + rng.below(style.values) as u32),
        600 * rng.below(style.values.min(40)) as u16,
    );
    let edges = topology.index(from).map(|node| topology.links_from(node));
    let edges = edges.unwrap_or_default();
    let known = !edges.is_empty() && rng.chance(0.6);
    let (to, link) = if known {
        let edge = edges[rng.below(edges.len() as u64) as usize];
        (topology.addr(edge.peer), rng.chance(0.7).then_some(link))
    } else if edges.len() as u64 <= 2 * style.degree {
        (address(rng.below(nodes), style.nodes), Some(link))
    } else {
        return;
    };
    changes.extend(topology.set_link(from, to, link));
}

type Row = (Option<u64>, Option<NodeIndex>, u64);

fn row(tree: &Tree, node: NodeIndex) -> Row {
    let distance = tree.distance(node).map(|cost| cost.0);
    (distance, tree.next_hop(node), tree.delay_us(node))
}

/// Returns the widest of all paths, by thresholds: for each threshold, the nodes that are reached over wide enough
/// links.
fn naive_widths(topology: &Topology, root: NodeIndex) -> Vec<Width> {
    let edges = |node| topology.links_from(node).iter();
    let all: BTreeSet<Width> = topology
        .nodes()
        .flat_map(|n| edges(n).map(|e| e.width()))
        .collect();
    let mut widths = vec![Width::NONE; topology.node_count()];
    for width in all {
        let mut reached = vec![false; topology.node_count()];
        let mut stack = vec![root];
        while let Some(node) = stack.pop() {
            if !std::mem::replace(&mut reached[node.place()], true) {
                let wide = edges(node).filter(|e| e.width() >= width);
                stack.extend(wide.map(|edge| edge.peer));
            }
        }
        for node in topology.nodes().filter(|node| reached[node.place()]) {
            widths[node.place()] = width;
        }
    }
    widths[root.place()] = Width::UNLIMITED;
    widths
}

#[test]
fn repaired_trees_and_widths_equal_those_from_scratch_over_thousands_of_changes() {
    let (mut repairs, mut touched) = (0, 0);
    for (seed, style) in STYLES.into_iter().enumerate() {
        let mut rng = Rng::new(seed as u64 + 1);
        let mut topology = Topology::new(Parameters::default());
        let root = topology.add_node(NodeAddr(1));
        let mut trees = Metric::ALL.map(|metric| Tree::new(&topology, root, metric));
        let mut widths = Widths::new(&topology, root);
        let rounds = if style.nodes > 50 { 400 } else { 1_000 };
        for round in 0..rounds {
            let mut changes = Vec::new();
            for _ in 0..=rng.below(style.batch) {
                change(&mut topology, &mut rng, style, &mut changes);
            }
            repairs += usize::from(!changes.is_empty());
            for tree in &mut trees {
                let before: Vec<Row> = topology.nodes().map(|node| row(tree, node)).collect();
                tree.update(&topology, &changes);
                let fresh = Tree::new(&topology, root, tree.metric());
                assert!(
                    *tree == fresh,
                    "style {seed}, round {round}, {}",
                    tree.metric()
                );
                let named: BTreeSet<_> = tree.changed().iter().copied().collect();
                assert_eq!(named.len(), tree.changed().len(), "each once");
                for node in topology.nodes() {
                    let differs = before[node.place()] != row(tree, node);
                    assert!(!differs || named.contains(&node), "{node:?} is not named");
                }
                touched += named.len();
            }
            widths.update(&topology, &changes);
            let fresh = Widths::new(&topology, root);
            for node in topology.nodes() {
                assert_eq!(
                    widths.width(node),
                    fresh.width(node),
                    "style {seed}, round {round}"
                );
            }
            if round % 50 == 0 {
                let naive = naive_widths(&topology, root);
                let got: Vec<Width> = topology.nodes().map(|node| widths.width(node)).collect();
                assert_eq!(got, naive);
            }
        }
    }
    assert!(repairs > 2_000, "{repairs} changes is not what was meant");
    assert!(
        touched > repairs,
        "the changes change routes: {touched} of {repairs}"
    );
}

#[test]
fn the_delay_is_that_of_the_path_under_every_metric() {
    let mut rng = Rng::new(5);
    let mut topology = Topology::new(Parameters::default());
    let root = topology.add_node(NodeAddr(1));
    let mut changes = Vec::new();
    for _ in 0..600 {
        change(&mut topology, &mut rng, STYLES[2], &mut changes);
    }
    let mut reached = 0;
    for metric in Metric::ALL {
        let tree = Tree::new(&topology, root, metric);
        for node in topology.nodes() {
            let path = tree.path(node);
            let links = path
                .windows(2)
                .map(|p| topology.link(p[0], p[1]).unwrap().link);
            let delay: u64 = links.map(|link| u64::from(link.latency_us)).sum();
            assert_eq!(tree.delay_us(node), delay);
            reached += usize::from(path.len() > 2);
        }
    }
    assert!(reached > 20);
}
