//! These tests compare the algorithms with naive models on random graphs: Floyd-Warshall for distances, all loop-free
//! paths for the shortest ones, a tree from scratch for a repaired one.

use base::{NodeAddr, Rng};
use graph::paths::{self, Path};
use graph::spf::{Tree, Work};
use graph::{Change, Cost, LinkCost, Metric, Parameters, Topology};
use proptest::prelude::{ProptestConfig, Strategy, prop_assert, prop_assert_eq, proptest};
use std::collections::BTreeMap;

type Links = BTreeMap<(NodeAddr, NodeAddr), LinkCost>;

/// There are few distinct costs, so that ties are common.
fn link() -> impl Strategy<Value = LinkCost> {
    (1u32..5, 0u16..3).prop_map(|(ms, loss)| LinkCost::of_share(ms * 1_000, loss * 2_000))
}

/// Returns links between `n` nodes whose addresses are not in the order of their first mention.
fn links(n: u32, count: usize) -> impl Strategy<Value = Vec<(NodeAddr, NodeAddr, LinkCost)>> {
    let node = (0..n).prop_map(move |i| NodeAddr((i * 7 + 3) % n + 100));
    proptest::collection::vec((node.clone(), node, link()), 0..count)
}

fn build(list: &[(NodeAddr, NodeAddr, LinkCost)]) -> (Topology, Links) {
    let topology = Topology::from_links(Parameters::default(), list.iter().copied());
    let links = list
        .iter()
        .filter(|(from, to, _)| from != to)
        .map(|&(from, to, link)| ((from, to), link))
        .collect();
    (topology, links)
}

fn price(metric: Metric, link: LinkCost) -> u64 {
    graph::metric::cost(metric, link, &Parameters::default()).0
}

/// Returns distances between all pairs, by the Floyd-Warshall algorithm.
fn all_pairs(topology: &Topology, links: &Links, metric: Metric) -> Vec<Vec<Option<u64>>> {
    let n = topology.node_count();
    let place = |addr| topology.index(addr).expect("a node of the links").place();
    let mut d = vec![vec![None; n]; n];
    (0..n).for_each(|i| d[i][i] = Some(0));
    for (&(from, to), &link) in links {
        d[place(from)][place(to)] = Some(price(metric, link));
    }
    for via in 0..n {
        for from in 0..n {
            for to in 0..n {
                if let (Some(a), Some(b)) = (d[from][via], d[via][to])
                    && d[from][to].is_none_or(|direct| a + b < direct)
                {
                    d[from][to] = Some(a + b);
                }
            }
        }
    }
    d
}

/// Collects every loop-free path that extends `path` to `to`.
fn extend(links: &Links, path: &[NodeAddr], to: NodeAddr, all: &mut Vec<Vec<NodeAddr>>) {
    let last = path[path.len() - 1];
    if last == to {
        all.push(path.to_vec());
        return;
    }
    for &(_, next) in links.keys().filter(|(from, _)| *from == last) {
        if !path.contains(&next) {
            extend(links, &[path, &[next]].concat(), to, all);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn distances_are_those_of_floyd_and_warshall(list in links(9, 40)) {
        let (topology, links) = build(&list);
        for metric in Metric::ALL {
            let expected = all_pairs(&topology, &links, metric);
            for root in topology.nodes() {
                let tree = Tree::new(&topology, root, metric);
                for node in topology.nodes() {
                    let distance = tree.distance(node).map(|cost| cost.0);
                    prop_assert_eq!(distance, expected[root.place()][node.place()]);
                    let sum: u64 = tree.path(node).windows(2)
                        .map(|p| links[&(topology.addr(p[0]), topology.addr(p[1]))])
                        .map(|link| price(metric, link)).sum();
                    prop_assert_eq!(sum, distance.unwrap_or(0));
                }
            }
        }
    }

    #[test]
    fn hop_by_hop_packets_take_the_path_that_the_source_sees(list in links(9, 40)) {
        let (topology, _) = build(&list);
        for metric in Metric::ALL {
            let trees: Vec<Tree> =
                topology.nodes().map(|root| Tree::new(&topology, root, metric)).collect();
            for source in topology.nodes() {
                for to in topology.nodes() {
                    let path = trees[source.place()].path(to);
                    let mut at = source;
                    for &next in path.iter().skip(1) {
                        prop_assert_eq!(trees[at.place()].next_hop(to), Some(next));
                        at = next;
                    }
                    prop_assert!(path.is_empty() || at == to);
                }
            }
        }
    }

    #[test]
    fn the_order_in_which_links_are_learnt_makes_no_difference(
        list in links(8, 30), seed: u64,
    ) {
        let (one, links) = build(&list);
        let mut shuffled: Vec<_> = links.iter().map(|(k, v)| (k.0, k.1, *v)).collect();
        let mut rng = Rng::new(seed);
        for i in (1..shuffled.len()).rev() {
            shuffled.swap(i, rng.below(i as u64 + 1) as usize);
        }
        let (other, _) = build(&shuffled);
        let parents = |t: &Topology, metric| -> BTreeMap<_, _> {
            let root = t.nodes().min_by_key(|node| t.addr(*node)).unwrap();
            let tree = Tree::new(t, root, metric);
            t.nodes().filter_map(|n| Some((t.addr(n), t.addr(tree.parent(n)?)))).collect()
        };
        for metric in Metric::ALL {
            if !links.is_empty() {
                prop_assert_eq!(parents(&one, metric), parents(&other, metric));
            }
        }
    }

    #[test]
    fn a_repaired_tree_equals_one_from_scratch(
        list in links(12, 50),
        batches in proptest::collection::vec(
            proptest::collection::vec((0u32..14, 0u32..14, proptest::option::of(link())), 1..5),
            1..12,
        ),
        hops: bool,
    ) {
        let metric = if hops { Metric::Hops } else { Metric::Latency };
        let (mut topology, _) = build(&list);
        let root = topology.add_node(NodeAddr(100));
        let mut tree = Tree::new(&topology, root, metric);
        for batch in batches {
            let changes: Vec<Change> = batch.into_iter()
                .filter_map(|(from, to, link)| {
                    topology.set_link(NodeAddr(from + 100), NodeAddr(to + 100), link)
                })
                .collect();
            tree.update(&topology, &changes);
            prop_assert_eq!(&tree, &Tree::new(&topology, root, metric));
        }
    }

    #[test]
    fn the_shortest_paths_are_the_first_of_all_paths(
        list in links(6, 18), k in 1usize..7, metric in 0usize..4,
    ) {
        let metric = Metric::ALL[metric];
        let (topology, links) = build(&list);
        let Some(&(src, _)) = links.keys().next() else { return Ok(()) };
        let Some(&(_, dst)) = links.keys().next_back() else { return Ok(()) };
        let mut all = Vec::new();
        if src != dst {
            extend(&links, &[src], dst, &mut all);
        }
        let cost = |path: &[NodeAddr]| -> u64 {
            path.windows(2).map(|p| price(metric, links[&(p[0], p[1])])).sum()
        };
        let mut expected: Vec<u64> = all.iter().map(|path| cost(path)).collect();
        expected.sort_unstable();
        expected.truncate(k);
        let found = paths::shortest(&topology, src, dst, metric, k).unwrap_or_default();
        let totals: Vec<u64> = found.iter().map(|path| path.total.0).collect();
        prop_assert_eq!(totals, expected);
        for (i, path) in found.iter().enumerate() {
            let nodes: Vec<NodeAddr> = path.nodes().collect();
            prop_assert!(all.contains(&nodes));
            prop_assert_eq!(cost(&nodes), path.total.0);
            prop_assert!(found[..i].iter().all(|earlier: &Path| earlier != path));
        }
    }
}

/// Builds 100 nodes and 200 two-way links at random, of random latency: the size of [Amir06 Fig. 13].
fn hundred(rng: &mut Rng) -> (Topology, Vec<(NodeAddr, NodeAddr)>) {
    let mut topology = Topology::new(Parameters::default());
    let mut pairs = Vec::new();
    while pairs.len() < 200 {
        // The first 99 links join each node to an earlier node, so that all are connected.
        let from = if pairs.len() < 99 {
            pairs.len() as u64 + 1
        } else {
            rng.below(100)
        };
        let (from, to) = (
            NodeAddr(from as u32),
            NodeAddr(rng.below(from.max(1)) as u32),
        );
        let link = LinkCost::new(1_000 + rng.below(20_000) as u32, 0.0);
        if topology.set_link(from, to, Some(link)).is_some() {
            topology.set_link(to, from, Some(link));
            pairs.push((from, to));
        }
    }
    (topology, pairs)
}

#[test]
fn a_repair_looks_at_a_small_part_of_the_graph() {
    let mut rng = Rng::new(11);
    let (mut topology, pairs) = hundred(&mut rng);
    let root = topology.index(NodeAddr(0)).unwrap();
    let mut tree = Tree::new(&topology, root, Metric::Latency);
    let mut all = Work::default();
    let rounds = 400;
    for _ in 0..rounds {
        let (from, to) = pairs[rng.below(200) as usize];
        let link = LinkCost::new(1_000 + rng.below(20_000) as u32, 0.0);
        let changes: Vec<Change> = [(from, to), (to, from)]
            .into_iter()
            .filter_map(|(from, to)| topology.set_link(from, to, Some(link)))
            .collect();
        let work = tree.update(&topology, &changes);
        all.settled += work.settled;
        all.links += work.links;
        assert_eq!(tree, Tree::new(&topology, root, Metric::Latency));
    }
    // From scratch, each round settles 100 nodes and looks at 400 links.
    assert!(all.settled < rounds * 100 / 5, "{all:?}");
    assert!(all.links < rounds * 400 / 3, "{all:?}");
    assert_eq!(tree.distance(root), Some(Cost(0)));
}
