//! The search for the best route, label by label; the [module above](super) says why it is right.

use super::bound::Bound;
use super::{Effort, Ground, Question, ROUNDING, Route};
use crate::delivery::{Distribution, Steps};
use crate::metric::Metric;
use crate::paths::NoPath;
use crate::spf::Tree;
use crate::topology::{NodeIndex, Topology};
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Atoms of a label's distribution. One with more is coarsened to an upper bound of itself: eight
/// recoveries on one path are told apart, and 256 atoms are 4 kB.
const MOST_ATOMS: usize = 256;

/// Labels of one search: 16 384 of at most 4 kB are 64 MB. On 100 nodes and 200 links some hundred
/// are made.
const MOST_LABELS: usize = 16_384;

/// The path that delivers the most packets in time, with a proof of how good it is: no path
/// delivers more than `upper`. A path is found whenever there is one, even if all packets are late
/// on it.
///
/// Among equally good paths one is taken that a metric would have chosen, expected latency first.
pub fn best_route(
    topology: &Topology,
    question: &Question,
    effort: &Effort,
) -> Result<Route, NoPath> {
    let ground = Ground::new(topology, question)?;
    let bound = Bound::new(topology, &ground, question.recovery, effort.work / 2);
    let mut search = Search {
        work: bound.work,
        margin: effort.tolerance.max(0.0) + ROUNDING,
        best: Vec::new(),
        delivery: -1.0,
        given_up: 0.0,
        labels: Vec::new(),
        at_node: vec![Vec::new(); topology.node_count()],
        heap: BinaryHeap::new(),
        topology,
        question,
        ground,
        bound,
    };
    search.begin();
    search.run(effort.work);
    Ok(search.answer())
}

/// A partial path.
struct Label {
    node: NodeIndex,
    /// Its place among the labels; its own for the source.
    parent: usize,
    distribution: Distribution,
    /// False once the distribution has been coarsened: it is then ahead of the truth.
    exact: bool,
    /// Dropped for another label before its turn came.
    dominated: bool,
}

struct Search<'a> {
    topology: &'a Topology,
    question: &'a Question,
    ground: Ground,
    bound: Bound,
    /// A label whose bound is not more than this above the best delivery known is not followed.
    margin: f64,
    best: Vec<NodeIndex>,
    delivery: f64,
    /// The largest bound of a label that was not followed.
    given_up: f64,
    labels: Vec<Label>,
    /// The labels at each node that may be ahead of others.
    at_node: Vec<Vec<usize>>,
    /// Bounds, as bits, which are in order for floats that are not negative; of equal ones the
    /// older label first.
    heap: BinaryHeap<(u64, Reverse<usize>)>,
    work: u64,
}

impl Search<'_> {
    /// Starts from the paths that metrics choose, and from the source.
    fn begin(&mut self) {
        let (src, dst) = (self.ground.src, self.ground.dst);
        // Latency has a path to tell even if all packets are late.
        for metric in [
            Metric::ExpectedLatency,
            Metric::Latency,
            Metric::Loss,
            Metric::Hops,
        ] {
            let path = Tree::new(self.topology, src, metric).path(dst);
            self.offer(path);
        }
        self.push(Label {
            node: src,
            parent: 0,
            distribution: Distribution::start(),
            exact: true,
            dominated: false,
        });
    }

    fn run(&mut self, most_work: u64) {
        while let Some((bits, Reverse(label))) = self.heap.pop() {
            let bound = f64::from_bits(bits);
            let exhausted = self.work > most_work || self.labels.len() > MOST_LABELS;
            if bound <= self.delivery + self.margin || exhausted {
                // All others in the heap are bounded by this one.
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
            if !self.bound.is_of_use(edge.peer) || self.comes_by(label, edge.peer) {
                continue;
            }
            let steps = Steps::of(edge.link, self.question.recovery, topology.parameters());
            let mut distribution = self.labels[label].distribution.through(&steps, until);
            self.work += distribution.atoms().len() as u64 + 1;
            let mut exact = self.labels[label].exact;
            if distribution.atoms().len() > MOST_ATOMS {
                distribution.coarsen_early(MOST_ATOMS);
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

    /// Whether the partial path comes by `node`.
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

    /// A path is complete. Its delivery is computed anew if the label's is only a bound.
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
        let bound: f64 = atoms
            .iter()
            .map(|(at, share)| share * self.bound.at(label.node, latest - at))
            .sum();
        if bound <= self.delivery + self.margin {
            self.given_up = self.given_up.max(bound);
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

    /// Whether another label at the node is ahead of this one at every moment; those that this one
    /// is ahead of are dropped. Only what an exact distribution tells counts: an upper bound being
    /// ahead tells nothing.
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
