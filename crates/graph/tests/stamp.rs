//! These tests compare stamps and disjoint paths with naive models on small graphs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use base::NodeAddr;
use graph::disjoint::{disjoint, total};
use graph::stamp::{Circle, Subgraph};
use graph::{LinkCost, Metric, Parameters, Topology};
use proptest::prelude::{ProptestConfig, Strategy, prop_assert, prop_assert_eq, proptest};
use std::collections::BTreeSet;

type Links = Vec<(NodeAddr, NodeAddr, LinkCost)>;

fn links(nodes: u32, most: usize) -> impl Strategy<Value = Links> {
    let node = move || (0..nodes).prop_map(move |i| NodeAddr((i * 5 + 2) % nodes + 1));
    let link = (1u32..6).prop_map(|ms| LinkCost::new(ms * 1_000, 0.0));
    proptest::collection::vec((node(), node(), link), 1..most)
}

fn simple_paths(
    t: &Topology,
    path: &mut Vec<NodeAddr>,
    to: NodeAddr,
    all: &mut Vec<Vec<NodeAddr>>,
) {
    let last = path[path.len() - 1];
    if last == to {
        return all.push(path.clone());
    }
    for edge in t.links_from(t.index(last).unwrap()) {
        let peer = t.addr(edge.peer);
        if !path.contains(&peer) {
            path.push(peer);
            simple_paths(t, path, to, all);
            path.pop();
        }
    }
}

/// Returns the least total cost of `k` paths without a common node between the ends, by trying all sets.
fn cheapest_set(
    costs: &[(u64, BTreeSet<NodeAddr>)],
    taken: &BTreeSet<NodeAddr>,
    k: usize,
) -> Option<u64> {
    if k == 0 {
        return Some(0);
    }
    let fitting = costs
        .iter()
        .enumerate()
        .filter(|(_, (_, inner))| inner.is_disjoint(taken));
    let totals = fitting.filter_map(|(i, (cost, inner))| {
        let taken = taken.union(inner).copied().collect();
        Some(cost + cheapest_set(&costs[i + 1..], &taken, k - 1)?)
    });
    totals.min()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn disjoint_paths_are_the_cheapest_of_all_sets(list in links(7, 22), k in 1usize..5) {
        let topology = Topology::from_links(Parameters::default(), list.iter().copied());
        let (src, dst) = (list[0].0, list[list.len() - 1].1);
        if src == dst || topology.index(src).is_none() || topology.index(dst).is_none() {
            return Ok(());
        }
        let mut all = Vec::new();
        simple_paths(&topology, &mut vec![src], dst, &mut all);
        let cost = |path: &[NodeAddr]| -> u64 {
            path.windows(2).map(|hop| {
                let [from, to] = [0, 1].map(|i| topology.index(hop[i]).unwrap());
                topology.link(from, to).unwrap().cost(Metric::Latency).0
            }).sum()
        };
        let costs: Vec<_> = all.iter().map(|path| {
            (cost(path), path[1..path.len() - 1].iter().copied().collect::<BTreeSet<_>>())
        }).collect();
        let expected = (1..=k).rev()
            .find_map(|k| Some((k, cheapest_set(&costs, &BTreeSet::new(), k)?)));
        let found = disjoint(&topology, src, dst, Metric::Latency, k).unwrap_or_default();
        prop_assert_eq!(found.len(), expected.map_or(0, |(count, _)| count));
        prop_assert_eq!(total(&found).0, expected.map_or(0, |(_, total)| total));
        prop_assert!(found.windows(2).all(|pair| pair[0].total <= pair[1].total));
        let mut inner = BTreeSet::new();
        for path in &found {
            let nodes: Vec<NodeAddr> = path.nodes().collect();
            prop_assert_eq!(cost(&nodes), path.total.0);
            prop_assert_eq!((nodes[0], nodes[nodes.len() - 1]), (src, dst));
            prop_assert!(nodes[1..nodes.len() - 1].iter().all(|node| inner.insert(*node)));
        }
    }

    #[test]
    fn a_subgraph_is_in_order_or_has_a_circle(list in links(7, 14)) {
        let hops: Vec<[NodeAddr; 2]> =
            list.iter().filter(|link| link.0 != link.1).map(|link| [link.0, link.1]).collect();
        let set: BTreeSet<(NodeAddr, NodeAddr)> = hops.iter().map(|hop| (hop[0], hop[1])).collect();
        let in_circle = |node: NodeAddr| {
            let mut reached = BTreeSet::new();
            let mut stack = vec![node];
            while let Some(at) = stack.pop() {
                let next = set.iter().filter(|(from, _)| *from == at);
                stack.extend(next.map(|(_, to)| *to).filter(|to| reached.insert(*to)));
            }
            reached.contains(&node)
        };
        match Subgraph::of_paths(&hops) {
            Ok(graph) => {
                prop_assert!(!set.iter().any(|(from, _)| in_circle(*from)));
                prop_assert!(graph.links.iter().all(|(from, to)| from < to));
                prop_assert!(graph.links.windows(2).all(|pair| pair[0] < pair[1]));
                prop_assert_eq!(graph.ends().collect::<BTreeSet<_>>(), set);
            }
            Err(Circle(_)) => prop_assert!(set.iter().any(|(from, _)| in_circle(*from))),
        }
    }
}

#[test]
fn disjoint_paths_make_a_subgraph_in_order() {
    let [s, a, b, t] = [4, 3, 9, 1].map(NodeAddr);
    let graph = Subgraph::of_paths(&[vec![s, a, t], vec![s, b, t], vec![s, t]]).unwrap();
    assert_eq!(graph.nodes, [s, a, b, t]);
    assert_eq!(graph.links, [(0, 1), (0, 2), (0, 3), (1, 3), (2, 3)]);
    assert_eq!(
        Subgraph::of_paths::<[NodeAddr; 2]>(&[]),
        Ok(Subgraph::default())
    );
    assert_eq!(Subgraph::of_paths(&[[a, b, a]]), Err(Circle(a)));
}
