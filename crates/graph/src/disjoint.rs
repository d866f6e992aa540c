//! Node-disjoint paths: k paths from a source to a destination that share no node between them, with the least total
//! cost (Suurballe 1974, Bhandari 1999). The source stamps them. A failure of one node between the ends then interrupts
//! at most one of them.
//!
//! To take a cheapest path first, and then the next cheapest, does not find them: the first path may block every pair.
//! Instead, paths are unit flows, and each further one may push back flow of those before it:
//!
//! ```text
//!   node v  ─▶ (v,in) ──cost 0, once──▶ (v,out) ─▶       splitting lets one path through v
//!
//!   repeat k times: shortest path in what is left of the network;
//!                   along it, links become used, and used ones free again (cost −c, backwards)
//! ```
//!
//! With the distances of the last round as potentials, no reduced cost is negative. So every round is one run of
//! Dijkstra's algorithm: k·m·log n in all. After each round the flow is the cheapest of its size, so fewer than k paths
//! are found only if there are fewer.

use crate::metric::{Cost, Metric};
use crate::paths::{NoPath, Path, price};
use crate::topology::{NodeIndex, Topology};
use base::NodeAddr;
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Returns `k` paths without a common node except their ends, with the least total cost; fewer if there are fewer. They
/// are sorted by cost, then by length, then by addresses.
pub fn disjoint(
    topology: &Topology,
    src: NodeAddr,
    dst: NodeAddr,
    metric: Metric,
    k: usize,
) -> Result<Vec<Path>, NoPath> {
    if src == dst {
        return Err(NoPath::Same(src));
    }
    let from = topology.index(src).ok_or(NoPath::Unknown(src))?;
    let to = topology.index(dst).ok_or(NoPath::Unknown(dst))?;
    let mut flow = Flow::new(topology, from, to, metric);
    let mut found = 0;
    while found < k && flow.add_path() {
        found += 1;
    }
    if found == 0 && k > 0 {
        return Err(NoPath::Unreachable(src, dst));
    }
    let nodes = flow.paths();
    let mut paths: Vec<Path> = nodes
        .iter()
        .map(|nodes| price(topology, metric, nodes))
        .collect();
    paths.sort_by_cached_key(|path| {
        let addrs: Vec<NodeAddr> = path.nodes().collect();
        (path.total, addrs.len(), addrs)
    });
    Ok(paths)
}

/// A link of the split network. Arcs come in pairs: the arc after an even position is the same arc in the other
/// direction. It is open when the arc at the even position is used.
struct Arc {
    to: usize,
    cost: i128,
    open: bool,
}

struct Flow {
    arcs: Vec<Arc>,
    /// Positions in `arcs` of the arcs that begin at each half node: `2·v` is (v,in), `2·v + 1` is (v,out).
    from: Vec<Vec<usize>>,
    potential: Vec<i128>,
    src: usize,
    dst: usize,
}

impl Flow {
    fn new(topology: &Topology, src: NodeIndex, dst: NodeIndex, metric: Metric) -> Flow {
        let halves = 2 * topology.node_count();
        let mut flow = Flow {
            arcs: Vec::new(),
            from: vec![Vec::new(); halves],
            potential: vec![0; halves],
            src: 2 * src.place() + 1,
            dst: 2 * dst.place(),
        };
        // The nodes are in order of address, so that the order in which links were learnt makes no difference.
        let mut nodes: Vec<NodeIndex> = topology.nodes().collect();
        nodes.sort_by_key(|node| topology.addr(*node));
        for node in nodes {
            flow.add_arc(2 * node.place(), 2 * node.place() + 1, 0);
            for edge in topology.links_from(node) {
                let cost = i128::from(edge.cost(metric).0);
                flow.add_arc(2 * node.place() + 1, 2 * edge.peer.place(), cost);
            }
        }
        flow
    }

    fn add_arc(&mut self, from: usize, to: usize, cost: i128) {
        for (from, to, cost, open) in [(from, to, cost, true), (to, from, -cost, false)] {
            self.from[from].push(self.arcs.len());
            self.arcs.push(Arc { to, cost, open });
        }
    }

    /// Adds one more path, at the least cost for all together. Returns false if there is none.
    fn add_path(&mut self) -> bool {
        let (distance, by) = self.dijkstra();
        let Some(farthest) = distance[self.dst] else {
            return false;
        };
        for (potential, distance) in self.potential.iter_mut().zip(&distance) {
            // The distance is limited to that of the destination. So nodes beyond it do not fall behind in later
            // rounds, and no reduced cost gets negative.
            *potential += distance.map_or(farthest, |d| d.min(farthest));
        }
        let mut at = self.dst;
        while at != self.src {
            let arc = by[at];
            self.arcs[arc].open = false;
            self.arcs[arc ^ 1].open = true;
            at = self.arcs[arc ^ 1].to;
        }
        true
    }

    /// Returns distances from the source in reduced costs, and the arc by which each half was reached.
    fn dijkstra(&self) -> (Vec<Option<i128>>, Vec<usize>) {
        let mut distance: Vec<Option<i128>> = vec![None; self.from.len()];
        let mut by = vec![usize::MAX; self.from.len()];
        distance[self.src] = Some(0);
        let mut heap = BinaryHeap::from([Reverse((0, self.src))]);
        while let Some(Reverse((so_far, at))) = heap.pop() {
            if distance[at].is_some_and(|known| known < so_far) {
                continue;
            }
            for &place in self.from[at].iter().filter(|place| self.arcs[**place].open) {
                let arc = &self.arcs[place];
                let reduced = arc.cost + self.potential[at] - self.potential[arc.to];
                let next = so_far + reduced;
                if distance[arc.to].is_none_or(|known| next < known) {
                    distance[arc.to] = Some(next);
                    by[arc.to] = place;
                    heap.push(Reverse((next, arc.to)));
                }
            }
        }
        (distance, by)
    }

    /// Returns the paths that the flow consists of.
    fn paths(&self) -> Vec<Vec<NodeIndex>> {
        let node = |half: usize| NodeIndex((half / 2) as u32);
        // A used arc is a forward arc, at an even position, that is not open.
        let used = |half: usize| {
            let places = self.from[half].iter();
            places
                .copied()
                .filter(|place| place % 2 == 0 && !self.arcs[*place].open)
        };
        let starts = used(self.src);
        let follow = |first: usize| {
            let mut path = vec![node(self.src)];
            let mut at = self.arcs[first].to;
            while at != self.dst {
                path.push(node(at));
                // The way leads from the inward half to the outward half, then over the one used link.
                let next = used(at).chain(used(at + 1)).nth(1);
                let Some(next) = next else {
                    break;
                };
                at = self.arcs[next].to;
            }
            path.push(node(self.dst));
            path
        };
        starts.map(follow).collect()
    }
}

/// Returns the total cost of several paths.
pub fn total(paths: &[Path]) -> Cost {
    paths.iter().fold(Cost(0), |sum, path| sum + path.total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{LinkCost, Parameters};

    fn topology(links: &[(u32, u32, u32)]) -> Topology {
        let links = links
            .iter()
            .map(|&(from, to, ms)| (NodeAddr(from), NodeAddr(to), LinkCost::new(ms * 1_000, 0.0)));
        Topology::from_links(Parameters::default(), links)
    }

    fn of(t: &Topology, k: usize) -> Vec<Vec<u32>> {
        let paths = disjoint(t, NodeAddr(1), NodeAddr(9), Metric::Latency, k).unwrap();
        paths
            .iter()
            .map(|path| path.nodes().map(|node| node.0).collect())
            .collect()
    }

    /// The shortest path, 1-2-3-9, blocks both others; no pair of disjoint paths contains it.
    const TRAP: [(u32, u32, u32); 7] = [
        (1, 2, 1),
        (2, 3, 1),
        (3, 9, 1),
        (1, 3, 5),
        (2, 9, 5),
        (1, 4, 20),
        (4, 9, 20),
    ];

    #[test]
    fn the_shortest_path_gives_way_to_the_best_pair() {
        let t = topology(&TRAP);
        assert_eq!(of(&t, 1), [vec![1, 2, 3, 9]]);
        assert_eq!(of(&t, 2), [vec![1, 2, 9], vec![1, 3, 9]]);
        assert_eq!(of(&t, 3), [vec![1, 2, 9], vec![1, 3, 9], vec![1, 4, 9]]);
        assert_eq!(of(&t, 9).len(), 3, "there are no more");
        assert_eq!(of(&t, 0).len(), 0);
        let paths = disjoint(&t, NodeAddr(1), NodeAddr(9), Metric::Latency, 2).unwrap();
        assert_eq!(total(&paths), Cost(12_000_000));
    }

    #[test]
    fn a_node_that_all_paths_need_leaves_one_path() {
        let t = topology(&[
            (1, 2, 1),
            (1, 3, 1),
            (2, 5, 1),
            (3, 5, 1),
            (5, 6, 1),
            (5, 9, 3),
            (6, 9, 1),
        ]);
        assert_eq!(of(&t, 2), [vec![1, 2, 5, 6, 9]]);
    }

    #[test]
    fn the_direct_link_is_a_path_and_the_ends_are_shared() {
        let t = topology(&[
            (1, 9, 30),
            (1, 2, 1),
            (2, 9, 1),
            (9, 1, 1),
            (2, 1, 1),
            (9, 2, 1),
        ]);
        assert_eq!(of(&t, 3), [vec![1, 2, 9], vec![1, 9]]);
    }

    #[test]
    fn the_reason_for_no_path_is_said() {
        let t = topology(&TRAP);
        let why =
            |from, to| disjoint(&t, NodeAddr(from), NodeAddr(to), Metric::Hops, 2).unwrap_err();
        assert_eq!(why(9, 1), NoPath::Unreachable(NodeAddr(9), NodeAddr(1)));
        assert_eq!(why(1, 1), NoPath::Same(NodeAddr(1)));
        assert_eq!(why(1, 7), NoPath::Unknown(NodeAddr(7)));
    }
}
