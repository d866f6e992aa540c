//! The search for the best route, label by label; the [module above](super) says why it is right.

use super::bound::Bound;
use super::relax::Shares;
use super::{Effort, Ground, Question, ROUNDING, Route};
use crate::delivery::{Distribution, Steps};
use crate::metric::Metric;
use crate::paths::NoPath;
use crate::spf::Tree;
use crate::topology::{Edge, NodeIndex, Topology};
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Maximum number of atoms in a label's distribution. A distribution with more is coarsened to an upper bound: eight
/// recoveries on one path are distinguished, and 256 atoms are 4 kB.
const MOST_ATOMS: usize = 256;

/// Maximum number of labels in one search: 16 384 of at most 4 kB are 64 MB. On 100 nodes and 200 links, a search makes
/// some hundred labels.
const MOST_LABELS: usize = 16_384;

/// Returns the path that delivers the most packets in time, with a proof of how good it is: no path delivers more than
/// `upper`. A path is found whenever there is one, even if all packets are late on it.
///
/// Among equally good paths, one that a metric would have chosen is preferred, expected latency first.
pub fn best_route(
    topology: &Topology,
    question: &Question,
    effort: &Effort,
) -> Result<Route, NoPath> {
    look(topology, question, effort, MOST_ATOMS)
}

fn look(
    topology: &Topology,
    question: &Question,
    effort: &Effort,
    most_atoms: usize,
) -> Result<Route, NoPath> {
    let ground = Ground::new(topology, question)?;
    let mut search = Search {
        shares: Shares::new(topology, &ground),
        bound: None,
        margin: effort.tolerance.max(0.0) + ROUNDING,
        most_atoms,
        best: Vec::new(),
        delivery: -1.0,
        given_up: 0.0,
        labels: Vec::new(),
        at_node: vec![Vec::new(); topology.node_count()],
        heap: BinaryHeap::new(),
        work: 0,
        topology,
        question,
        ground,
    };
    search.offer_metrics();
    if search.can_be_better(search.shares.most()) {
        search.begin(effort.work / 2);
        search.run(effort.work);
    }
    Ok(search.answer())
}

/// A partial path.
struct Label {
    node: NodeIndex,
    /// The position of its parent among the labels; the source's label is its own parent.
    parent: usize,
    distribution: Distribution,
    /// False once the distribution has been coarsened. It is then an upper bound of the true one.
    exact: bool,
    /// The label was dropped for another label before its turn came.
    dominated: bool,
}

struct Search<'a> {
    topology: &'a Topology,
    question: &'a Question,
    ground: Ground,
    shares: Shares,
    /// `None` until the bound is worth computing.
    bound: Option<Bound>,
    /// A label is followed only if its bound exceeds the best known delivery by more than this.
    margin: f64,
    most_atoms: usize,
    best: Vec<NodeIndex>,
    delivery: f64,
    /// The largest bound of the labels that were not followed.
    given_up: f64,
    labels: Vec<Label>,
    /// The labels at each node that may dominate others.
    at_node: Vec<Vec<usize>>,
    /// Bounds as bits, which sort like the floats if these are not negative. Of equal bounds, the older label comes
    /// first.
    heap: BinaryHeap<(u64, Reverse<usize>)>,
    work: u64,
}

impl Search<'_> {
    /// Offers the paths that metrics choose, as a start. By latency there is a path even if all packets are late.
    fn offer_metrics(&mut self) {
        let (src, dst) = (self.ground.src, self.ground.dst);
        let expected_first = [
            Metric::ExpectedLatency,
            Metric::Latency,
            Metric::Loss,
            Metric::Hops,
        ];
        for metric in expected_first {
            let path = Tree::new(self.topology, src, metric).path(dst);
            self.offer(path);
        }
    }

    /// Computes the bound over the links that a better path can use, and starts at the source.
    fn begin(&mut self, most_work: u64) {
        for node in self.topology.nodes() {
            for edge in self.topology.links_from(node) {
                self.keep(node, edge);
            }
        }
        let kept = |node, edge: &Edge| {
            let (steps, most) = self.usable(node, edge)?;
            (most > self.delivery + self.margin).then_some(steps)
        };
        let bound = Bound::new(self.topology, &self.ground, kept, most_work);
        self.work += bound.work;
        self.bound = Some(bound);
        self.push(Label {
            node: self.ground.src,
            parent: 0,
            distribution: Distribution::start(),
            exact: true,
            dominated: false,
        });
    }

    /// Returns the steps of a link, and the most that any path over the link delivers.
    fn usable(&self, node: NodeIndex, edge: &Edge) -> Option<(Steps, f64)> {
        let steps = self
            .ground
            .usable(self.topology, node, edge.peer, edge.link)?;
        Some((steps, self.shares.through(node, edge.peer, &steps)))
    }

    /// Returns the steps of the link if a better path can use it.
    fn keep(&mut self, node: NodeIndex, edge: &Edge) -> Option<Steps> {
        let (steps, most) = self.usable(node, edge)?;
        self.can_be_better(most).then_some(steps)
    }

    /// Returns whether something with this bound is worth following. If not, its bound counts for the upper bound of
    /// the answer.
    fn can_be_better(&mut self, bound: f64) -> bool {
        let can = bound > self.delivery + self.margin;
        if !can {
            self.given_up = self.given_up.max(bound);
        }
        can
    }

    fn run(&mut self, most_work: u64) {
        while let Some((bits, Reverse(label))) = self.heap.pop() {
            let bound = f64::from_bits(bits);
            let exhausted = self.work > most_work || self.labels.len() > MOST_LABELS;
            if !self.can_be_better(bound) || exhausted {
                // This bound is the largest in the heap.
                self.given_up = self.given_up.max(bound);
                return;
            }
            if !self.labels[label].dominated {
                self.extend(label);
            }
        }
    }

    fn extend(&mut self, label: usize) {
        let topology = self.topology;
        let node = self.labels[label].node;
        for edge in topology.links_from(node) {
            let Some(until) = self.ground.latest(edge.peer) else {
                continue;
            };
            let Some(steps) = self.keep(node, edge) else {
                continue;
            };
            if self.comes_by(label, edge.peer) {
                continue;
            }
            let mut distribution = self.labels[label].distribution.through(&steps, until);
            self.work += distribution.atoms().len() as u64 + 1;
            let mut exact = self.labels[label].exact;
            if distribution.atoms().len() > self.most_atoms {
                distribution.coarsen_early(self.most_atoms);
                exact = false;
            }
            let next = Label {
                node: edge.peer,
                parent: label,
                distribution,
                exact,
                dominated: false,
            };
            if edge.peer == self.ground.dst {
                self.arrive(&next);
            } else {
                self.push(next);
            }
        }
    }

    /// Returns whether the partial path visits `node`.
    fn comes_by(&self, mut label: usize, node: NodeIndex) -> bool {
        while self.labels[label].node != node {
            let parent = self.labels[label].parent;
            if parent == label {
                return false;
            }
            label = parent;
        }
        true
    }

    /// Handles a complete path. Computes its delivery anew if the label's is only a bound.
    fn arrive(&mut self, last: &Label) {
        if last.distribution.delivered() > self.delivery + ROUNDING {
            let mut path = vec![last.node];
            let mut label = last.parent;
            while self.labels[label].parent != label {
                path.push(self.labels[label].node);
                label = self.labels[label].parent;
            }
            path.push(self.ground.src);
            path.reverse();
            self.offer(path);
        }
    }

    /// Takes a complete path if it is better than the best one known.
    fn offer(&mut self, path: Vec<NodeIndex>) {
        if path.is_empty() {
            return;
        }
        let question = self.question;
        let distribution = Distribution::of_path(
            self.topology,
            &path,
            question.recovery,
            question.deadline_us,
        );
        let Some(distribution) = distribution else {
            return;
        };
        self.work += (distribution.atoms().len() * path.len()) as u64;
        if distribution.delivered() > self.delivery + ROUNDING {
            self.delivery = distribution.delivered();
            self.best = path;
        }
    }

    /// Keeps a label for later, unless it cannot lead to a better path.
    fn push(&mut self, label: Label) {
        let latest = self.ground.latest(label.node).unwrap_or(0);
        let atoms = label.distribution.atoms();
        let Some(ahead) = &self.bound else {
            return;
        };
        let bound: f64 = atoms
            .iter()
            .map(|(at, share)| share * ahead.at(label.node, latest - at))
            .sum();
        if !self.can_be_better(bound) {
            return;
        }
        if self.is_dominated(&label) {
            return;
        }
        let place = self.labels.len();
        self.heap.push((bound.to_bits(), Reverse(place)));
        let parent = if place == 0 { 0 } else { label.parent };
        if label.exact {
            self.at_node[label.node.place()].push(place);
        }
        self.labels.push(Label { parent, ..label });
    }

    /// Returns whether another label at the node is ahead of this label at every moment. Drops the labels that this one
    /// is ahead of. Only an exact distribution can be ahead; an upper bound proves nothing.
    fn is_dominated(&mut self, label: &Label) -> bool {
        let rivals = core::mem::take(&mut self.at_node[label.node.place()]);
        let mut dominated = false;
        let mut kept = Vec::with_capacity(rivals.len() + 1);
        for rival in rivals {
            let other = &mut self.labels[rival];
            if !dominated {
                self.work += other.distribution.atoms().len() as u64;
                dominated = other.distribution.is_ahead_of(&label.distribution);
            }
            if !dominated && label.exact && label.distribution.is_ahead_of(&other.distribution) {
                other.dominated = true;
            } else {
                kept.push(rival);
            }
        }
        self.at_node[label.node.place()] = kept;
        dominated
    }

    fn answer(self) -> Route {
        let upper = (self.given_up + ROUNDING).max(self.delivery).min(1.0);
        Route {
            nodes: self.best,
            delivery: self.delivery.max(0.0),
            upper: upper.max(self.delivery.max(0.0)),
            work: self.work,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::best::exhaustive::best_of_all;
    use crate::delivery::Recovery;
    use crate::metric::{LinkCost, Parameters};
    use base::{NodeAddr, Rng};

    /// Builds five stages of four paths each from node 1 to node 26, all lossy, so that there are many labels.
    fn stages(rng: &mut Rng) -> Topology {
        let mut topology = Topology::new(Parameters::default());
        let mut link = |from: u32, to: u32| {
            let link = LinkCost::new(rng.below(4_000) as u32, 0.35 * rng.unit());
            topology.set_link(NodeAddr(from), NodeAddr(to), Some(link));
        };
        for stage in (1..=21).step_by(5) {
            for way in 1..=4 {
                link(stage, stage + way);
                link(stage + way, stage + 5);
            }
        }
        topology
    }

    /// With labels of very few atoms, nearly all labels are only bounds. The answer is still the best path.
    #[test]
    fn coarse_labels_do_not_mislead() {
        let mut rng = Rng::new(21);
        let mut worse_first = 0;
        for round in 0..100 {
            let topology = stages(&mut rng);
            let question = Question {
                src: NodeAddr(1),
                dst: NodeAddr(26),
                deadline_us: 15_000 + rng.below(25_000) as u32,
                recovery: Recovery::Independent,
            };
            let all = best_of_all(&topology, &question).unwrap();
            for most_atoms in [1, 2, 4] {
                let best = look(&topology, &question, &Effort::EXACT, most_atoms).unwrap();
                let difference = (best.delivery - all.delivery).abs();
                assert!(difference <= 2.0 * ROUNDING, "{round}: {best:?} {all:?}");
                assert!(best.upper >= all.delivery && best.gap() <= 2.0 * ROUNDING);
            }
            let none = Effort {
                tolerance: 0.0,
                work: 0,
            };
            let by_metric = look(&topology, &question, &none, MOST_ATOMS).unwrap();
            worse_first += usize::from(by_metric.delivery < all.delivery - 0.001);
        }
        assert!(
            worse_first > 50,
            "there was something to find: {worse_first}"
        );
    }
}
