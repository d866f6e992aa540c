//! Wide paths, pipelines and stripes against brute force on small graphs. [Liu04 §III-IV]

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use base::NodeAddr;
use graph::pipeline::{Pipeline, Rate, Rates, pipeline, pipelines, smallest};
use graph::stripes::{striped, stripes_of};
use graph::width::{
    Dense, Known, LOGICAL_HOPS, Length, SpanningTree, Width, Widths, all_pairs_within,
    all_shortest_widest, relaxed, shortest_of_width, shortest_widest, widest_within,
};
use graph::{LinkCost, Metric, NodeIndex, Parameters, Topology};
use proptest::prelude::{
    Just, ProptestConfig, Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest,
};

/// From, to, latency in ms, loss, physical hops; 0 physical hops means unknown.
type Link = (u32, u32, u32, u16, u16);

fn links(nodes: u32, count: usize) -> impl Strategy<Value = Vec<Link>> {
    // There are few values, so that ties are common.
    let link = (0..nodes, 0..nodes, 1u32..4, 1u16..4, 0u16..5);
    proptest::collection::vec(link, 0..count)
}

fn topology(links: &[Link], nodes: u32) -> Topology {
    let mut topology = Topology::new(Parameters::default());
    for node in 0..nodes {
        topology.add_node(addr(node, nodes));
    }
    for &(from, to, ms, loss, physical_hops) in links {
        let ends = (addr(from, nodes), addr(to, nodes));
        let link = LinkCost::of_share(ms * 1_000, loss * 500);
        topology.set_link(ends.0, ends.1, Some(link));
        let known = Known {
            physical_hops: (physical_hops > 0).then_some(physical_hops),
            ..Known::default()
        };
        topology.set_known(ends.0, ends.1, known);
    }
    topology
}

/// Returns addresses that are not in the order of the nodes' indices.
fn addr(node: u32, nodes: u32) -> NodeAddr {
    NodeAddr((node * 5 + 3) % nodes.max(1) + 100)
}

/// Returns every loop-free path between two nodes.
fn all_paths(t: &Topology, from: NodeIndex, to: NodeIndex) -> Vec<Vec<NodeIndex>> {
    fn extend(t: &Topology, path: &[NodeIndex], to: NodeIndex, all: &mut Vec<Vec<NodeIndex>>) {
        let last = path[path.len() - 1];
        if last == to {
            return all.push(path.to_vec());
        }
        for edge in t.links_from(last) {
            if !path.contains(&edge.peer) {
                extend(t, &[path, &[edge.peer]].concat(), to, all);
            }
        }
    }
    let mut all = Vec::new();
    extend(t, &[from], to, &mut all);
    all
}

fn width(t: &Topology, path: &[NodeIndex]) -> Width {
    let widths = path.windows(2).map(|p| t.link(p[0], p[1]).unwrap().width());
    widths.min().unwrap_or(Width::UNLIMITED)
}

fn length(t: &Topology, path: &[NodeIndex], length: Length) -> u64 {
    let of = |p: &[NodeIndex]| match length {
        Length::Metric(metric) => t.link(p[0], p[1]).unwrap().cost(metric).0,
        Length::PhysicalHops => {
            let known = t.known(p[0], p[1]).physical_hops;
            u64::from(known.unwrap_or_else(|| median_hops(t)))
        }
    };
    path.windows(2).map(of).sum()
}

/// Returns the value that half of the known ones do not exceed; 1 if none is known.
fn median_hops(t: &Topology) -> u16 {
    let ends = t.nodes().flat_map(|from| {
        let edges = t.links_from(from).iter();
        edges.map(move |edge| (from, edge.peer))
    });
    let known: Vec<u16> = ends
        .filter_map(|(a, b)| t.known(a, b).physical_hops)
        .collect();
    let below = |hops: u16| known.iter().filter(|known| **known < hops).count();
    let median = (1..5).filter(|hops| 2 * below(*hops) <= known.len() && known.contains(hops));
    median.max().unwrap_or(1)
}

fn nodes_of(t: &Topology, path: &graph::paths::Path) -> Vec<NodeIndex> {
    path.nodes().map(|addr| t.index(addr).unwrap()).collect()
}

fn any_length() -> impl Strategy<Value = Length> {
    prop_oneof![
        Just(LOGICAL_HOPS),
        Just(Length::PhysicalHops),
        Just(Length::Metric(Metric::Latency)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn hop_limited_paths_are_the_widest_of_all_that_are_short_enough(list in links(6, 22)) {
        let t = topology(&list, 6);
        let dense = Dense::new(&t);
        for hops in [0, 1, 2, 3, usize::MAX] {
            let pairs = all_pairs_within(&t, hops);
            for s in t.nodes() {
                let limited = widest_within(&t, s, hops);
                // Both algorithms agree, round by round, even in ties.
                prop_assert_eq!(&limited, &dense.widest_within(s, hops));
                for d in t.nodes() {
                    let all = all_paths(&t, s, d);
                    let short = all.iter().filter(|path| path.len() - 1 <= hops);
                    let widest = short.map(|path| width(&t, path)).max();
                    let widest = widest.unwrap_or(Width::NONE);
                    prop_assert_eq!(limited.width(d), widest);
                    prop_assert_eq!(pairs.width(s, d), widest);
                    let found = [
                        limited.path(&t, d, Metric::Hops),
                        pairs.path(&t, s, d, Metric::Hops),
                    ];
                    for path in found {
                        prop_assert_eq!(path.is_some(), widest > Width::NONE);
                        if let Some(path) = path.filter(|_| s != d) {
                            let nodes = nodes_of(&t, &path);
                            prop_assert!(all.contains(&nodes), "loop-free and there");
                            prop_assert_eq!(width(&t, &nodes), widest);
                            prop_assert!(nodes.len() - 1 <= hops);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn one_computation_answers_for_every_smaller_limit(list in links(7, 30)) {
        let t = topology(&list, 7);
        let root = NodeIndex::of(&t, 0);
        let all = widest_within(&t, root, usize::MAX);
        prop_assert!(all.enough_hops() < 7);
        for hops in 0..7 {
            let limited = widest_within(&t, root, hops);
            for node in t.nodes() {
                prop_assert_eq!(all.width_within(node, hops), limited.width(node));
                prop_assert_eq!(
                    all.path_within(&t, node, Metric::Hops, hops),
                    limited.path(&t, node, Metric::Hops)
                );
            }
        }
    }

    #[test]
    fn a_spanning_tree_has_the_widest_paths_of_symmetric_networks(list in links(8, 24)) {
        let both: Vec<Link> = list.iter()
            .flat_map(|&(a, b, ms, loss, hops)| {
                let (a, b) = (a.min(b), a.max(b));
                [(a, b, ms, loss, hops), (b, a, ms, loss, hops)]
            })
            .collect();
        let t = topology(&both, 8);
        let tree = SpanningTree::new(&t);
        prop_assert!(tree.is_exact());
        for s in t.nodes() {
            let widths = Widths::new(&t, s);
            let by_tree = tree.widths(s);
            for d in t.nodes() {
                prop_assert_eq!(by_tree[d.place()], widths.width(d));
                let path = tree.path(s, d);
                prop_assert_eq!(path.is_empty(), widths.width(d) == Width::NONE);
                if !path.is_empty() {
                    prop_assert_eq!(width(&t, &path), widths.width(d));
                    prop_assert_eq!((path[0], path[path.len() - 1]), (s, d));
                }
            }
        }
    }

    #[test]
    fn shortest_widest_and_relaxed_paths_are_the_best_of_all(
        list in links(6, 22), by in any_length(), share in 0u64..5,
    ) {
        let t = topology(&list, 6);
        let root = NodeIndex::of(&t, 0);
        let of_all = all_shortest_widest(&t, root, by);
        for d in t.nodes().filter(|d| *d != root) {
            let ends = (t.addr(root), t.addr(d));
            let all = all_paths(&t, root, d);
            let widest = all.iter().map(|path| width(&t, path)).max();
            let shortest = |least: Width| {
                let wide = all.iter().filter(|path| width(&t, path) >= least);
                wide.map(|path| length(&t, path, by)).min()
            };
            let single = shortest_widest(&t, ends.0, ends.1, by).ok();
            prop_assert_eq!(&of_all[d.place()], &single);
            prop_assert_eq!(single.as_ref().map(|p| p.total.0), widest.and_then(shortest));
            prop_assert_eq!(single.map(|p| p.width()), widest);
            let Some(widest) = widest else { continue };

            let margin = Width(widest.0 * share / 4);
            let found = relaxed(&t, ends.0, ends.1, by, margin).unwrap();
            prop_assert_eq!(found.widest, widest);
            prop_assert_eq!(found.required, Width(widest.0 - margin.0));
            prop_assert!(found.path.width() >= found.required);
            prop_assert_eq!(Some(found.path.total.0), shortest(found.required.max(Width(1))));
            let too_much = Width(widest.0 + 1);
            prop_assert!(shortest_of_width(&t, ends.0, ends.1, by, too_much).is_err());
        }
        prop_assert_eq!(&of_all[root.place()], &None);
    }

    #[test]
    fn pipelines_are_the_best_of_all_partitions(rates in path_rates(), m in 1usize..8) {
        let n = rates.links();
        let all = pipelines(&rates);
        prop_assert_eq!(all.len(), n);
        let partitions = partitions(n);
        let value = |cuts: &[usize]| {
            cuts.windows(2).map(|c| rates.rate(c[0], c[1]).one).min().unwrap()
        };
        for (at, best) in all.iter().enumerate() {
            let exact = partitions.iter().filter(|cuts| cuts.len() - 2 == at);
            prop_assert_eq!(Some(best.rate), exact.map(|cuts| value(cuts)).max());
            prop_assert_eq!(best.rate, value(&best.cuts));
            prop_assert_eq!(best.connections(), at + 1);
        }
        let upto = |m: usize| {
            let few = partitions.iter().filter(|cuts| cuts.len() - 1 <= m);
            few.map(|cuts| value(cuts)).max().unwrap()
        };
        let found = pipeline(&rates, m);
        prop_assert_eq!(found.rate, upto(m));
        prop_assert!(found.connections() <= m.min(n));
        let Pipeline { rate, .. } = smallest(&rates);
        prop_assert_eq!(rate, upto(n));
        let fewer = smallest(&rates).connections() - 1;
        prop_assert!(fewer == 0 || upto(fewer) < rate, "no fewer reach it");
    }

    #[test]
    fn the_model_gains_with_every_relay_up_to_the_slowest_link(
        links in proptest::collection::vec((1u32..50, 0u16..3_000), 1..9),
    ) {
        let link = |&(ms, loss): &(u32, u16)| {
            let latency_us = ms * 1_000;
            (LinkCost::of_share(latency_us, loss), Known::default())
        };
        let links: Vec<_> = links.iter().map(link).collect();
        let rates = Rates::of_links(&links).unwrap();
        let all = pipelines(&rates);
        // "T*[n,m] is a non-decreasing function of m and is bounded by T[n,n]" [Liu04 §III-B]
        prop_assert!(all.windows(2).all(|pair| pair[0].rate <= pair[1].rate));
        prop_assert_eq!(all[all.len() - 1].rate, rates.bound());
    }

    #[test]
    fn stripes_are_the_best_of_all_placements(rates in path_rates(), connections in 1usize..8) {
        let rates = if rates.links() > 4 { rates.between(&[1, 2, 3]) } else { rates };
        let best = partitions(rates.links()).iter()
            .flat_map(|cuts| placements(cuts, connections))
            .map(|(cuts, stripes)| value(&rates, &cuts, &stripes))
            .max().unwrap();
        let found = striped(&rates, connections);
        prop_assert_eq!(found.rate, best);
        prop_assert_eq!(value(&rates, &found.cuts, &found.stripes), best);
        prop_assert!(found.connections() <= connections);
        prop_assert_eq!(found.cuts.len(), found.stripes.len() + 1);
        prop_assert!(found.connections() == 1 || striped(&rates, found.connections() - 1).rate < best);

        // The same holds for fixed segments.
        let hop_by_hop: Vec<usize> = (0..=rates.links()).collect();
        let best = placements(&hop_by_hop, connections).into_iter()
            .map(|(cuts, stripes)| value(&rates, &cuts, &stripes))
            .max();
        if let Some(best) = best {
            let found = stripes_of(&rates, connections);
            prop_assert_eq!(found.rate, best);
            prop_assert_eq!(value(&rates, &found.cuts, &found.stripes), best);
            prop_assert!(found.connections() <= connections);
        }
    }
}

/// Returns a path of 1 to 7 links with any rates.
fn path_rates() -> impl Strategy<Value = Rates> {
    let rate = (0u64..12, 5u64..30);
    (1usize..8, proptest::collection::vec(rate, 64)).prop_map(|(n, values)| {
        Rates::new(n, |i, j| {
            let (one, most) = values[i * 8 + j];
            Rate {
                one: Width(one),
                most: Width(most.max(one)),
            }
        })
        .unwrap()
    })
}

/// Returns every way to cut n links into segments.
fn partitions(n: usize) -> Vec<Vec<usize>> {
    (0..1usize << (n - 1))
        .map(|set| {
            let inner = (1..n).filter(|at| set >> (at - 1) & 1 == 1);
            [0].into_iter().chain(inner).chain([n]).collect()
        })
        .collect()
}

/// Returns every way to give segments at least one connection each and at most `connections` together.
fn placements(cuts: &[usize], connections: usize) -> Vec<(Vec<usize>, Vec<usize>)> {
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 1..cuts.len() {
        all = all
            .iter()
            .flat_map(|some| (1..=connections).map(move |s| [some.as_slice(), &[s]].concat()))
            .filter(|some| some.iter().sum::<usize>() <= connections)
            .collect();
    }
    all.into_iter().map(|s| (cuts.to_vec(), s)).collect()
}

fn value(rates: &Rates, cuts: &[usize], stripes: &[usize]) -> Width {
    let segments = cuts.windows(2).zip(stripes);
    let rate = segments.map(|(c, s)| rates.rate(c[0], c[1]).of(*s));
    rate.min().unwrap()
}

/// Finds the node with a number.
trait Numbered {
    fn of(t: &Topology, node: u32) -> NodeIndex;
}

impl Numbered for NodeIndex {
    fn of(t: &Topology, node: u32) -> NodeIndex {
        let nodes = t.node_count() as u32;
        t.index(addr(node, nodes)).unwrap()
    }
}

/// [Liu04 Fig. 6]: the shortest-widest path from C to A is C-D-B-A, although neither part without one of its ends is a
/// shortest-widest path.
#[test]
fn a_piece_of_a_shortest_widest_path_need_not_be_one() {
    let [a, b, c, d] = [1, 2, 3, 4].map(NodeAddr);
    let mut t = Topology::new(Parameters::default());
    let links = [
        (c, d, 500, 1),
        (d, b, 500, 1),
        (b, a, 500, 1),
        (d, a, 1_000, 10),
    ];
    for (from, to, kbps, hops) in links {
        t.set_link(from, to, Some(LinkCost::new(1_000, 0.01)));
        let known = Known {
            one: Some(Width(kbps * 1_000)),
            physical_hops: Some(hops),
            ..Known::default()
        };
        t.set_known(from, to, known);
    }
    let best = |from, to| {
        let path = shortest_widest(&t, from, to, Length::PhysicalHops).unwrap();
        (path.nodes().collect::<Vec<_>>(), path.total.0)
    };
    assert_eq!(best(c, a), (vec![c, d, b, a], 3));
    assert_eq!(best(d, a), (vec![d, a], 10));
}

/// [Liu04 Fig. 5]: small differences in width decide nothing once widths are quantised.
#[test]
fn quantised_widths_let_the_shorter_path_win() {
    let [a, b, c, d] = [1, 2, 3, 4].map(NodeAddr);
    let mut t = Topology::new(Parameters::default());
    for (from, to, kbps) in [(a, b, 1_000), (b, d, 1_010), (a, c, 1_001), (c, b, 1_020)] {
        t.set_link(from, to, Some(LinkCost::new(1_000, 0.01)));
        let known = Known {
            one: Some(Width(kbps * 1_000)),
            ..Known::default()
        };
        t.set_known(from, to, known);
    }
    let best = |t: &Topology| {
        let path = shortest_widest(t, a, d, LOGICAL_HOPS).unwrap();
        path.nodes().collect::<Vec<_>>()
    };
    assert_eq!(best(&t), [a, c, b, d], "a thousandth wider");
    t.quantise_widths(Some(4));
    assert_eq!(best(&t), [a, b, d]);
}
