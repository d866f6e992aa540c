//! Stamps and disjoint paths against naive models on small graphs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use base::NodeAddr;
use graph::disjoint::{disjoint, total};
use graph::stamp::{
    BadStamp, LinkSet, MOST_PATH_NODES, Numbering, check_links, check_path, next_on_path,
};
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

/// The least total cost of `k` paths without a common node between the ends, by trying all sets.
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
            prop_assert_eq!(check_path(&nodes), Ok(()));
            prop_assert_eq!(check_links(&topology, &nodes), Ok(()));
            prop_assert_eq!(cost(&nodes), path.total.0);
            prop_assert_eq!((nodes[0], nodes[nodes.len() - 1]), (src, dst));
            prop_assert!(nodes[1..nodes.len() - 1].iter().all(|node| inner.insert(*node)));
        }
    }

    #[test]
    fn masks_stand_for_their_sets(list in links(9, 40), picks: Vec<bool>, garbage: Vec<u8>) {
        let topology = Topology::from_links(Parameters::default(), list.iter().copied());
        let numbering = Numbering::of(&topology).unwrap();
        prop_assert_eq!(numbering.links().len(), topology.link_count());
        let set: LinkSet = numbering.links().iter().zip(&picks)
            .filter(|(_, pick)| **pick).map(|(link, _)| *link).collect();
        let mask = set.mask(&numbering).unwrap();
        prop_assert!(mask.len() <= topology.link_count().div_ceil(8));
        prop_assert_eq!(LinkSet::from_mask(&mask, &numbering).unwrap(), set.clone());
        for node in (0..11).map(NodeAddr) {
            let by_mask: Vec<NodeAddr> = numbering.out_links(&mask, node).collect();
            let by_set: Vec<NodeAddr> = set.out_links(node).collect();
            let naive: Vec<NodeAddr> =
                set.links().filter(|(from, _)| *from == node).map(|(_, to)| to).collect();
            prop_assert_eq!(&by_set, &naive);
            prop_assert_eq!(&by_mask, &naive);
        }
        // Whatever comes from outside is a set of links that exist, or is refused.
        if let Ok(set) = LinkSet::from_mask(&garbage, &numbering) {
            prop_assert!(set.links().all(|(from, to)| numbering.place(from, to).is_some()));
        }
        let _ = numbering.out_links(&garbage, NodeAddr(1)).count();

        let shuffled = Topology::from_links(Parameters::default(), list.iter().rev().copied());
        prop_assert_eq!(Numbering::of(&shuffled).unwrap(), numbering.clone());
        if let Some(&(from, to)) = numbering.links().first() {
            let mut fewer = topology.clone();
            fewer.set_link(from, to, None);
            let fewer = Numbering::of(&fewer).unwrap();
            prop_assert!(fewer.fingerprint() != numbering.fingerprint());
        }
    }

    #[test]
    fn a_cycle_is_found_if_and_only_if_there_is_one(list in links(7, 14)) {
        let set: LinkSet =
            list.iter().filter(|link| link.0 != link.1).map(|link| (link.0, link.1)).collect();
        let nodes: BTreeSet<NodeAddr> = set.links().flat_map(|(a, b)| [a, b]).collect();
        let cyclic = nodes.iter().any(|node| {
            set.out_links(*node).any(|next| set.reach(next).contains(node))
        });
        let cycle = set.cycle();
        prop_assert_eq!(cycle.is_some(), cyclic);
        if let Some(cycle) = cycle {
            let closed: Vec<NodeAddr> = cycle.iter().chain(&cycle[..1]).copied().collect();
            prop_assert!(closed.windows(2).all(|hop| set.contains(hop[0], hop[1])));
            prop_assert_eq!(cycle.iter().collect::<BTreeSet<_>>().len(), cycle.len());
        }
    }

    #[test]
    fn what_is_between_keeps_every_path_and_no_dead_end(list in links(6, 16)) {
        let topology = Topology::from_links(Parameters::default(), list.iter().copied());
        let (src, dst) = (list[0].0, list[list.len() - 1].1);
        if src == dst || topology.index(src).is_none() || topology.index(dst).is_none() {
            return Ok(());
        }
        let between = LinkSet::of_all(&topology).between(src, dst);
        let mut all = Vec::new();
        simple_paths(&topology, &mut vec![src], dst, &mut all);
        for (from, to) in LinkSet::of_paths(&all).links() {
            prop_assert!(between.contains(from, to));
        }
        for (from, to) in between.links() {
            prop_assert!(between.reach(src).contains(&from) && between.reach(to).contains(&dst));
        }
    }
}

#[test]
fn paths_from_outside_are_checked() {
    let [a, b, c] = [1, 2, 3].map(NodeAddr);
    assert_eq!(check_path(&[]), Err(BadStamp::Empty));
    assert_eq!(check_path(&[a]), Err(BadStamp::Empty));
    assert_eq!(check_path(&[a, b, c, b]), Err(BadStamp::Loops(b)));
    let long: Vec<NodeAddr> = (0..100_000).map(NodeAddr).collect();
    assert_eq!(check_path(&long), Err(BadStamp::TooLong(100_000)));
    assert_eq!(check_path(&long[..MOST_PATH_NODES]), Ok(()));

    let link = LinkCost::new(1_000, 0.0);
    let topology = Topology::from_links(Parameters::default(), [(a, b, link), (b, c, link)]);
    assert_eq!(check_links(&topology, &[a, b, c]), Ok(()));
    assert_eq!(
        check_links(&topology, &[a, c]),
        Err(BadStamp::NoSuchLink(a, c))
    );
    assert_eq!(
        check_links(&topology, &[NodeAddr(9), a]),
        Err(BadStamp::NoSuchLink(NodeAddr(9), a))
    );
    assert_eq!(next_on_path(&[a, b, c], b), Some(c));
    assert_eq!(next_on_path(&[a, b, c], c), None);
    assert_eq!(next_on_path(&[a, b], c), None);
}

#[test]
fn masks_of_other_topologies_are_refused() {
    let [a, b, c] = [1, 2, 3].map(NodeAddr);
    let link = LinkCost::new(1_000, 0.0);
    let topology = Topology::from_links(
        Parameters::default(),
        [(a, b, link), (b, c, link), (b, a, link)],
    );
    let numbering = Numbering::of(&topology).unwrap();
    // The links in order: a-b, b-a, b-c.
    assert_eq!(
        LinkSet::of_paths(&[[a, b, c]]).mask(&numbering),
        Ok(vec![0b101])
    );
    assert_eq!(
        LinkSet::from_mask(&[0b1000], &numbering),
        Err(BadStamp::OtherTopology)
    );
    assert_eq!(
        LinkSet::from_mask(&[1, 0], &numbering),
        Err(BadStamp::OtherTopology)
    );
    assert_eq!(
        LinkSet::from_mask(&vec![0; 1 << 20], &numbering),
        Err(BadStamp::OtherTopology)
    );
    assert!(LinkSet::from_mask(&[], &numbering).unwrap().is_empty());
    let strange = LinkSet::of_paths(&[[a, c]]);
    assert_eq!(strange.mask(&numbering), Err(BadStamp::NoSuchLink(a, c)));

    let all = LinkSet::of_all(&topology);
    assert_eq!((all.len(), all.cycle()), (3, Some(vec![a, b])));
    let paths = LinkSet::of_paths(&[vec![a, b, c], vec![a, c]]);
    assert_eq!(paths.cycle(), None);
    assert_eq!(paths.out_links(a).collect::<Vec<_>>(), [b, c]);
}
