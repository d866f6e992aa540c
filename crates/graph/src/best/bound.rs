//! The bound U of the best-route search: what could be delivered in the time that is left if the next link could be
//! chosen anew at every node. The [module above](super) says why it is a bound.
//!
//! U_v is stored by *slack*: the time that is left beyond the least delay from v to the destination. In terms of slack,
//! a link v→w takes its reduced delay T' = T + least(w) − least(v), which is 0 on shortest paths. Slack is divided into
//! cells; entry k of node v bounds U_v for every slack up to k cells. Reduced delays are rounded down to cells. So more
//! slack is left than in truth, and since U grows with slack, the result is never too small. On shortest paths nothing
//! is rounded, and the cells cover only the slack that there is.
//!
//! ```text
//!   entry k of v  =  max over v→w of  (1−p) · entry (k − ⌊T'/cell⌋) of w
//!                                     +  r  · entry (k − ⌊(T'+2T+Δ)/cell⌋) of w
//! ```
//!
//! Entries are computed by rising k, and for one k from the destination outwards. A link whose reduced delay is less
//! than a cell leads to a node that is nearer to the destination, unless the link itself is shorter than a cell. For
//! such links the round is repeated until nothing changes.

use super::Ground;
use crate::delivery::Steps;
use crate::topology::{Edge, NodeIndex, Topology};

/// The maximum number of cells of slack. At a deadline of 100 ms a cell is then at most 49 µs, so a path of ten links
/// gains less than half a millisecond by rounding.
const MOST_CELLS: u64 = 2_048;
/// The minimum number of cells, for large graphs.
const FEWEST_CELLS: u64 = 128;
/// The maximum number of entries times links to look at, about 4 ns each. With the 400 links of 100 nodes and 200
/// two-way links, all cells fit; with 8000 links, 262.
const LOOKS: u64 = 1 << 21;

/// U, for the nodes that a path in time can visit.
pub(super) struct Bound {
    /// Microseconds of slack per cell.
    cell: u64,
    /// Entries by node; empty for nodes that no such path visits.
    entries: Vec<Vec<f64>>,
    /// Number of links looked at, which counts as work.
    pub(super) work: u64,
}

/// A link in terms of U.
struct Arc {
    to: usize,
    /// The cells and shares of what arrives at once, and of what is recovered.
    steps: Vec<(usize, f64)>,
}

impl Arc {
    /// Returns the cells that a packet takes if it is not lost.
    fn direct_cells(&self) -> usize {
        self.steps[0].0
    }
}

impl Bound {
    /// Computes U on this ground, for the links for which `kept` returns steps. If that takes more than `most_work`, U
    /// is 1 everywhere, which bounds everything.
    pub(super) fn new(
        topology: &Topology,
        ground: &Ground,
        kept: impl Fn(NodeIndex, &Edge) -> Option<Steps>,
        most_work: u64,
    ) -> Bound {
        let ways = |node: NodeIndex| {
            let edges = topology.links_from(node).iter();
            edges.filter(|edge| kept(node, edge).is_some()).count() as u64
        };
        let of_use = |node: &NodeIndex| {
            ground.slack(*node).is_some() && (*node == ground.dst || ways(*node) > 0)
        };
        let mut order: Vec<NodeIndex> = topology.nodes().filter(of_use).collect();
        order.sort_by_key(|node| (ground.to_dst[node.place()], topology.addr(*node)));
        let links: u64 = order.iter().map(|node| ways(*node)).sum();
        let cells = (LOOKS / links.max(1)).clamp(FEWEST_CELLS, MOST_CELLS);
        let widest = ground.slack(ground.src).unwrap_or(0);
        let mut bound = Bound {
            cell: widest.div_ceil(cells).max(1),
            entries: vec![Vec::new(); topology.node_count()],
            work: 0,
        };
        for &node in &order {
            let cells = ground.slack(node).unwrap_or(0).div_ceil(bound.cell) as usize;
            let at_first = f64::from(u8::from(node == ground.dst));
            bound.entries[node.place()] = vec![at_first; cells + 1];
        }
        let arcs = order
            .iter()
            .map(|node| bound.arcs(topology, ground, &kept, *node));
        let arcs: Vec<Vec<Arc>> = arcs.collect();
        if !bound.fill(ground.dst, &order, &arcs, most_work) {
            let entries = bound.entries.iter_mut();
            entries.for_each(|entries| entries.fill(1.0));
        }
        bound
    }

    /// Returns the largest share that can be delivered from `node` with `slack` microseconds to spare.
    pub(super) fn at(&self, node: NodeIndex, slack: u64) -> f64 {
        let entries = &self.entries[node.place()];
        // Slack beyond the last entry does not occur on the way from the source.
        let k = (slack.div_ceil(self.cell) as usize).min(entries.len().saturating_sub(1));
        entries.get(k).copied().unwrap_or(0.0)
    }

    /// Returns whether a path that is good enough can visit `node`.
    pub(super) fn is_of_use(&self, node: NodeIndex) -> bool {
        !self.entries[node.place()].is_empty()
    }

    fn arcs(
        &self,
        topology: &Topology,
        ground: &Ground,
        kept: &impl Fn(NodeIndex, &Edge) -> Option<Steps>,
        node: NodeIndex,
    ) -> Vec<Arc> {
        let least = |node: NodeIndex| ground.to_dst[node.place()].unwrap_or(0);
        let arc = |edge: &Edge| {
            let steps = kept(node, edge).filter(|_| self.is_of_use(edge.peer))?;
            // The difference is not negative: no path is shorter than the least delay.
            let cells = |us: u64| ((us + least(edge.peer) - least(node)) / self.cell) as usize;
            let direct = core::iter::once((steps.direct_us, steps.direct));
            let all = direct.chain(steps.later().iter().copied());
            Some(Arc {
                to: edge.peer.place(),
                steps: all.map(|(us, share)| (cells(us), share)).collect(),
            })
        };
        topology.links_from(node).iter().filter_map(arc).collect()
    }

    /// Returns false if there was too much to do.
    fn fill(
        &mut self,
        dst: NodeIndex,
        order: &[NodeIndex],
        arcs: &[Vec<Arc>],
        most_work: u64,
    ) -> bool {
        let most = order
            .iter()
            .map(|node| self.entries[node.place()].len())
            .max()
            .unwrap_or(0);
        let rounds = self.rounds(order, arcs);
        for k in 0..most {
            for _ in 0..rounds {
                if self.work > most_work {
                    return false;
                }
                let mut changed = false;
                for (node, arcs) in order.iter().zip(arcs) {
                    if *node == dst || k >= self.entries[node.place()].len() {
                        continue;
                    }
                    let best = self.best(k, arcs);
                    self.work += arcs.len() as u64;
                    let entry = &mut self.entries[node.place()][k];
                    changed |= best > *entry;
                    *entry = best.max(*entry);
                }
                if !changed {
                    break;
                }
            }
        }
        true
    }

    /// Returns the number of rounds through the nodes that settle the entries of one k. It is one, unless a link of
    /// less than a cell leads to a node later in the order. A path without loops has fewer links than there are nodes,
    /// so this many rounds are always enough.
    fn rounds(&self, order: &[NodeIndex], arcs: &[Vec<Arc>]) -> usize {
        let mut rank = vec![0; self.entries.len()];
        order
            .iter()
            .enumerate()
            .for_each(|(i, node)| rank[node.place()] = i);
        let backwards = order.iter().zip(arcs).any(|(node, arcs)| {
            let mut short = arcs.iter().filter(|arc| arc.direct_cells() == 0);
            short.any(|arc| rank[arc.to] > rank[node.place()])
        });
        if backwards { order.len() } else { 1 }
    }

    fn best(&self, k: usize, arcs: &[Arc]) -> f64 {
        let entry = |to: usize, cells: usize| {
            let entries = &self.entries[to];
            let k = k.checked_sub(cells)?.min(entries.len() - 1);
            Some(entries[k])
        };
        arcs.iter().fold(0.0, |best: f64, arc| {
            let in_time = arc.steps.iter().map(|&(cells, share)| {
                let after = entry(arc.to, cells).unwrap_or(0.0);
                share * after
            });
            best.max(in_time.sum())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::best::Question;
    use crate::delivery::{Distribution, Recovery};
    use crate::metric::{LinkCost, Parameters};
    use base::{NodeAddr, Rng};

    /// Returns a function that accepts every link that can be in time.
    fn all<'a>(
        topology: &'a Topology,
        ground: &'a Ground,
    ) -> impl Fn(NodeIndex, &Edge) -> Option<Steps> + 'a {
        |from, edge| ground.usable(topology, from, edge.peer, edge.link)
    }

    /// Builds links of about a millisecond, and some shorter than a cell, with different delays in the two directions.
    fn topology(rng: &mut Rng) -> Topology {
        let mut topology = Topology::new(Parameters {
            detect_us: 5,
            ..Parameters::default()
        });
        for _ in 0..12 {
            let [a, b] = [(); 2].map(|()| NodeAddr(rng.below(6) as u32 + 1));
            let most = if rng.chance(0.4) { 4 } else { 4_000 };
            for (from, to) in [(a, b), (b, a)] {
                let link = LinkCost::new(rng.below(most) as u32, 0.3 * rng.unit());
                topology.set_link(from, to, Some(link));
            }
        }
        topology
    }

    /// Checks the bound at the end of each partial path from the source against every continuation.
    fn check(
        topology: &Topology,
        ground: &Ground,
        bound: &Bound,
        path: &mut Vec<NodeIndex>,
    ) -> usize {
        let recovery = Recovery::Independent;
        let mut checks = 0;
        let last = path[path.len() - 1];
        if last == ground.dst {
            for split in 0..path.len() {
                let before = Distribution::of_path(topology, &path[..=split], recovery, 1 << 19);
                let node = path[split];
                for (at, _) in before.unwrap().atoms() {
                    let Some(slack) = ground.latest(node).and_then(|l| l.checked_sub(*at)) else {
                        continue;
                    };
                    let rest = Distribution::of_path(topology, &path[split..], recovery, 1 << 19);
                    let in_time = rest.unwrap().within(ground.deadline - at);
                    let most = bound.at(node, slack);
                    assert!(
                        most >= in_time - 1e-12,
                        "{node:?} {slack}: {most} {in_time}"
                    );
                    checks += 1;
                }
            }
            return checks;
        }
        for edge in topology.links_from(last) {
            if !path.contains(&edge.peer) {
                path.push(edge.peer);
                checks += check(topology, ground, bound, path);
                path.pop();
            }
        }
        checks
    }

    #[test]
    fn no_way_on_delivers_more_than_the_bound() {
        let mut rng = Rng::new(12);
        let mut checks = 0;
        for _ in 0..300 {
            let topology = topology(&mut rng);
            let question = Question {
                src: NodeAddr(1),
                dst: NodeAddr(2),
                deadline_us: [30, 3_000, 9_000, 30_000][rng.below(4) as usize]
                    + rng.below(20) as u32,
                recovery: Recovery::Independent,
            };
            let Ok(ground) = Ground::new(&topology, &question) else {
                continue;
            };
            let bound = Bound::new(&topology, &ground, all(&topology, &ground), u64::MAX);
            checks += check(&topology, &ground, &bound, &mut vec![ground.src]);
        }
        assert!(checks > 10_000, "{checks}");
    }

    #[test]
    fn without_losses_the_bound_is_the_least_delay() {
        let links = [(1, 2, 7_013), (2, 3, 11_001), (3, 4, 5_003), (1, 4, 30_000)];
        let topology = Topology::from_links(
            Parameters::default(),
            links.map(|(a, b, us)| (NodeAddr(a), NodeAddr(b), LinkCost::new(us, 0.0))),
        );
        for (deadline_us, possible) in [(23_016, false), (23_017, true), (90_000, true)] {
            let question = Question {
                src: NodeAddr(1),
                dst: NodeAddr(4),
                deadline_us,
                recovery: Recovery::Paper,
            };
            let ground = Ground::new(&topology, &question).unwrap();
            let bound = Bound::new(&topology, &ground, all(&topology, &ground), u64::MAX);
            let slack = ground.latest(ground.src);
            assert_eq!(slack.is_some(), possible);
            assert_eq!(bound.is_of_use(ground.src), possible);
            assert_eq!(
                bound.at(ground.src, slack.unwrap_or(0)),
                f64::from(u8::from(possible))
            );
            let rough = Bound::new(&topology, &ground, all(&topology, &ground), 0);
            assert!(rough.at(ground.src, 0) >= bound.at(ground.src, 0));
        }
    }
}
