//! Two paths from a source to each node, as far apart as the network allows: without a common node where that is
//! possible, otherwise without a common link, otherwise with as few as possible. If any one node or link fails, one of
//! the two paths still reaches every node that can be reached at all.
//!
//! Groups use these paths. Every node computes the same paths from the same records, so only costs decide, and
//! addresses if costs are equal.
//!
//! ```text
//!   node v  ─▶ (v,in) ══ once for nothing, once more at the price of a common node ══▶ (v,out) ─▶
//!   link    (a,out) ══ once at its cost, once more at the price of a common link ══▶ (b,in)
//!
//!   first way: the source's shortest-path tree, one run for all nodes
//!   both:      a second shortest path in what the first one leaves, where it may push the first one back
//! ```
//!
//! This is the flow of [`disjoint`](crate::disjoint), with a second, expensive arc beside each arc. The prices are
//! above all possible costs of paths. So the cheapest pair has the fewest common links, and of such pairs the fewest
//! common nodes. Between two nodes that all paths pass there are two paths without a common node, or one link (Menger),
//! so both numbers are minimal at the same time. The distances of the first run are the potentials of all later runs,
//! which end when their node is found.

use crate::metric::Metric;
use crate::topology::Topology;
use base::NodeAddr;
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// The price of a common node: above the cost of any path, which is a sum of fewer than 2^16 costs of 64 bits.
const COMMON_NODE: i128 = 1 << 82;
/// The price of a common link: above the price of 2^16 common nodes.
const COMMON_LINK: i128 = 1 << 100;

/// The two paths to a node, as nodes from the source on, the cheaper path first.
pub type Pair = [Vec<NodeAddr>; 2];

/// An arc of the network. The arc after an even position is the same arc in the other direction, open while this one is
/// used.
struct Arc {
    to: usize,
    cost: i128,
    open: bool,
}

/// The network of one source, prepared to compute the paths to any node.
pub struct TwoWays {
    /// The nodes in order of address. Node `i` has the halves `2·i`, inwards, and `2·i + 1`, outwards.
    nodes: Vec<NodeAddr>,
    arcs: Vec<Arc>,
    from: Vec<Vec<usize>>,
    source: usize,
    /// Distances from the source, and the arc of the shortest-path tree by which each half is reached.
    distance: Vec<Option<i128>>,
    by: Vec<usize>,
    work: u64,
}

impl TwoWays {
    /// Prepares the paths from `source`; `None` if it is not in the topology.
    pub fn new(topology: &Topology, source: NodeAddr, metric: Metric) -> Option<TwoWays> {
        let mut nodes: Vec<NodeAddr> = topology.nodes().map(|n| topology.addr(n)).collect();
        nodes.sort_unstable();
        let place = nodes.binary_search(&source).ok()?;
        let halves = 2 * nodes.len();
        let mut ways = TwoWays {
            arcs: Vec::with_capacity(4 * (nodes.len() + topology.link_count())),
            from: vec![Vec::new(); halves],
            source: 2 * place + 1,
            distance: Vec::new(),
            by: Vec::new(),
            work: 0,
            nodes,
        };
        for at in 0..ways.nodes.len() {
            for price in [0, COMMON_NODE] {
                ways.add_arc(2 * at, 2 * at + 1, price);
            }
            let index = topology.index(ways.nodes[at]);
            for edge in index.into_iter().flat_map(|i| topology.links_from(i)) {
                let Ok(to) = ways.nodes.binary_search(&topology.addr(edge.peer)) else {
                    continue;
                };
                let cost = i128::from(edge.cost(metric).0);
                for price in [0, COMMON_LINK] {
                    ways.add_arc(2 * at + 1, 2 * to, cost + price);
                }
            }
        }
        let unknown = vec![0; halves];
        (ways.distance, ways.by) = ways.search(&unknown, None);
        Some(ways)
    }

    /// Returns the two paths to a node; `None` if the node is the source or cannot be reached.
    pub fn to(&mut self, node: NodeAddr) -> Option<Pair> {
        let end = 2 * self.nodes.binary_search(&node).ok()?;
        if end + 1 == self.source || self.distance[end].is_none() {
            return None;
        }
        // No open arc leads to nodes that cannot be reached, so their potential does not matter.
        let potential: Vec<i128> = self.distance.iter().map(|d| d.unwrap_or(0)).collect();
        let mut turned = self.turn(end, &self.by.clone());
        let (_, by) = self.search(&potential, Some(end));
        turned.extend(self.turn(end, &by));
        let mut pair = [self.take_way(end), self.take_way(end)];
        for arc in turned {
            self.arcs[arc & !1].open = true;
            self.arcs[arc | 1].open = false;
        }
        pair.sort_by_cached_key(|(cost, nodes)| (*cost, nodes.len(), nodes.clone()));
        Some(pair.map(|(_, nodes)| nodes))
    }

    /// Returns the number of arcs that have been examined so far; each takes some nanoseconds.
    pub fn work(&self) -> u64 {
        self.work
    }

    fn add_arc(&mut self, from: usize, to: usize, cost: i128) {
        for (from, to, cost, open) in [(from, to, cost, true), (to, from, -cost, false)] {
            self.from[from].push(self.arcs.len());
            self.arcs.push(Arc { to, cost, open });
        }
    }

    /// Returns distances from the source in reduced costs, and the arc by which each half was reached, up to `end`.
    fn search(
        &mut self,
        potential: &[i128],
        end: Option<usize>,
    ) -> (Vec<Option<i128>>, Vec<usize>) {
        let mut distance: Vec<Option<i128>> = vec![None; self.from.len()];
        let mut by = vec![usize::MAX; self.from.len()];
        distance[self.source] = Some(0);
        let mut heap = BinaryHeap::from([Reverse((0, self.source))]);
        while let Some(Reverse((so_far, at))) = heap.pop() {
            if distance[at].is_some_and(|known| known < so_far) {
                continue;
            }
            if Some(at) == end {
                break;
            }
            self.work += self.from[at].len() as u64;
            for &place in self.from[at].iter().filter(|place| self.arcs[**place].open) {
                let arc = &self.arcs[place];
                let next = so_far + arc.cost + potential[at] - potential[arc.to];
                if distance[arc.to].is_none_or(|known| next < known) {
                    distance[arc.to] = Some(next);
                    by[arc.to] = place;
                    heap.push(Reverse((next, arc.to)));
                }
            }
        }
        (distance, by)
    }

    /// Uses the arcs of a path that ends at a half, and frees those that the path takes backwards. Returns these arcs.
    fn turn(&mut self, end: usize, by: &[usize]) -> Vec<usize> {
        let mut turned = Vec::new();
        let mut at = end;
        while at != self.source {
            let arc = by[at];
            self.arcs[arc].open = false;
            self.arcs[arc ^ 1].open = true;
            turned.push(arc);
            at = self.arcs[arc ^ 1].to;
        }
        turned
    }

    /// Follows used arcs to the end, and frees them. Returns one of the paths of the flow, and its cost.
    fn take_way(&mut self, end: usize) -> (i128, Vec<NodeAddr>) {
        let (mut at, mut cost) = (self.source, 0);
        let mut nodes = vec![self.nodes[at / 2]];
        while at != end {
            // A used arc is a forward arc, at an even position, that is not open.
            let used = |place: &&usize| place.is_multiple_of(2) && !self.arcs[**place].open;
            let next = self.from[at].iter().find(used);
            let next = *next.expect("what a flow brings to a node it takes on");
            let arc = &mut self.arcs[next];
            arc.open = true;
            (at, cost) = (arc.to, cost + arc.cost);
            if at % 2 == 0 {
                nodes.push(self.nodes[at / 2]);
            }
        }
        (cost, nodes)
    }
}

impl core::fmt::Debug for TwoWays {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let source = self.nodes[self.source / 2];
        write!(f, "TwoWays {{ from {source}, {} nodes }}", self.nodes.len())
    }
}

/// Returns the nodes between the ends, and the links, that both paths have in common.
pub fn common(pair: &Pair) -> (Vec<NodeAddr>, Vec<(NodeAddr, NodeAddr)>) {
    let inner = |way: &[NodeAddr]| way[1..way.len() - 1].to_vec();
    let links = |way: &[NodeAddr]| -> Vec<_> { way.windows(2).map(|l| (l[0], l[1])).collect() };
    let [first, second] = pair;
    let (others, other_links) = (inner(second), links(second));
    let mut nodes = inner(first);
    nodes.retain(|node| others.contains(node));
    let mut both = links(first);
    both.retain(|link| other_links.contains(link));
    (nodes, both)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disjoint::{disjoint, total};
    use crate::metric::{Cost, LinkCost, Parameters};
    use base::Rng;
    use std::collections::BTreeSet;

    fn topology(links: &[(u32, u32, u32)]) -> Topology {
        let links = links
            .iter()
            .map(|&(from, to, us)| (NodeAddr(from), NodeAddr(to), LinkCost::new(us, 0.0)));
        Topology::from_links(Parameters::default(), links)
    }

    fn reaches(links: &[(u32, u32, u32)], from: u32, to: u32) -> bool {
        let (mut seen, mut stack) = (BTreeSet::from([from]), vec![from]);
        while let Some(at) = stack.pop() {
            let next = links.iter().filter(|link| link.0 == at).map(|link| link.1);
            stack.extend(next.filter(|node| seen.insert(*node)));
        }
        seen.contains(&to)
    }

    #[test]
    fn a_node_that_all_pass_is_shared_and_nothing_else() {
        // 1 ─ 2,3 ─ 4 ─ 5 ─ 6,7 ─ 8: the paths share 4, 5 and the link between them.
        let both = |a, b| [(a, b, 1_000), (b, a, 1_000)];
        let links: Vec<_> = [
            (1, 2),
            (1, 3),
            (2, 4),
            (3, 4),
            (4, 5),
            (5, 6),
            (5, 7),
            (6, 8),
            (7, 8),
        ]
        .into_iter()
        .flat_map(|(a, b)| both(a, b))
        .collect();
        let t = topology(&links);
        let mut ways = TwoWays::new(&t, NodeAddr(1), Metric::Latency).unwrap();
        let pair = ways.to(NodeAddr(8)).unwrap();
        let (nodes, shared) = common(&pair);
        assert_eq!(nodes, [NodeAddr(4), NodeAddr(5)]);
        assert_eq!(shared, [(NodeAddr(4), NodeAddr(5))]);
        assert_eq!(ways.to(NodeAddr(8)), Some(pair), "asking changes nothing");
        assert_eq!(ways.to(NodeAddr(1)), None);
        assert_eq!(ways.to(NodeAddr(99)), None);
        assert!(TwoWays::new(&t, NodeAddr(99), Metric::Latency).is_none());
    }

    /// The test removes each node and link in turn, and compares with the pair of disjoint paths where there is one.
    /// The order in which links were learnt makes no difference.
    #[test]
    fn whatever_one_node_or_link_fails_a_way_is_left_if_there_is_any() {
        for seed in 0..150 {
            let mut rng = Rng::new(seed);
            let n = 3 + rng.below(8) as u32;
            let mut links = Vec::new();
            for a in 1..=n {
                for b in 1..=n {
                    if a != b && rng.below(100) < 30 {
                        links.push((a, b, 1 + rng.below(6) as u32 * 1_000));
                    }
                }
            }
            let t = topology(&links);
            let backwards: Vec<_> = links.iter().rev().copied().collect();
            let u = topology(&backwards);
            let Some(mut ways) = TwoWays::new(&t, NodeAddr(1), Metric::Latency) else {
                continue;
            };
            let mut again = TwoWays::new(&u, NodeAddr(1), Metric::Latency).unwrap();
            for to in 2..=n {
                let pair = ways.to(NodeAddr(to));
                assert_eq!(pair, again.to(NodeAddr(to)), "{seed}");
                assert_eq!(pair.is_some(), reaches(&links, 1, to), "{seed} {to}");
                let Some(pair) = pair else { continue };
                for way in &pair {
                    let is_link =
                        |l: &[NodeAddr]| links.iter().any(|&(a, b, _)| [a, b] == [l[0].0, l[1].0]);
                    assert!(way.windows(2).all(is_link), "{seed} {pair:?}");
                    assert_eq!((way[0].0, way[way.len() - 1].0), (1, to));
                }
                let (nodes, shared) = common(&pair);
                for node in nodes {
                    let mut left = links.clone();
                    left.retain(|(a, b, _)| *a != node.0 && *b != node.0);
                    assert!(!reaches(&left, 1, to), "{seed} {to} {node}: {pair:?}");
                }
                for (a, b) in &shared {
                    let mut left = links.clone();
                    left.retain(|link| (link.0, link.1) != (a.0, b.0));
                    assert!(!reaches(&left, 1, to), "{seed} {to} {a} {b}: {pair:?}");
                }
                let apart = disjoint(&t, NodeAddr(1), NodeAddr(to), Metric::Latency, 2).unwrap();
                if apart.len() == 2 {
                    let cost = |way: &Vec<NodeAddr>| -> u64 {
                        let hop = |l: &[NodeAddr]| {
                            let ends = t.index(l[0]).zip(t.index(l[1])).unwrap();
                            t.link(ends.0, ends.1).unwrap().cost(Metric::Latency).0
                        };
                        way.windows(2).map(hop).sum()
                    };
                    assert_eq!(Cost(pair.iter().map(cost).sum()), total(&apart), "{seed}");
                }
            }
        }
    }
}
