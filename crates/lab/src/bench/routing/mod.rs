//! `sinew bench routing`: the time that a node takes to compute its routes, from scratch and after one link has
//! changed.
//!
//! ```text
//!   random network ── one link changes ──▶ repair of the tree     timed, for each metric
//!         ▲                │          ├──▶ the tree from scratch  timed, must be equal
//!         └────────────────┘          └──▶ a textbook's Dijkstra  timed: the baseline
//! ```
//!
//! Every change concerns both directions of one link: its latency or loss changes, it goes down, or it comes back. All
//! contenders get the same changes in turn. Most changes affect few routes, so the repair has two results: over all
//! changes, and over those that changed a route. After the trees the benchmark measures the node's whole table, from
//! the record of a neighbour of the link to the next hops by all metrics. Finally it measures the widest paths with few
//! hops by two algorithms, in networks of their own.

mod limited;
mod node;
mod peer;
mod plain;
mod report;

pub use limited::Limited;
pub use report::{Report, Row, Spread};

use super::BenchError;
use base::{NodeAddr, Rng};
use graph::generate::Network;
use graph::generate::waxman::Waxman;
use graph::spf::Tree;
use graph::width::Widths;
use graph::{Change, LinkCost, Metric, NodeIndex, Parameters, Topology};
use net::Clock;
use std::path::PathBuf;
use tools::progress::Progress;

/// The largest network that is measured: a node keeps no more records.
pub const NODES_MAX: usize = overlay::link_state::MAX_ORIGINS;

/// Options of the benchmark.
#[derive(Clone, Debug)]
pub struct Options {
    /// Nodes of the network.
    pub nodes: usize,
    /// Links of each node that joins: the network has about this many per node.
    pub links_per_node: usize,
    /// Number of changes, each of one link.
    pub changes: usize,
    /// Determines the network and the changes.
    pub seed: u64,
    /// A Python with networkx, which then computes the same distances.
    pub python: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            nodes: 1_000,
            links_per_node: 4,
            changes: 1_000,
            seed: 1,
            python: None,
        }
    }
}

/// Runs the measurement.
///
/// # Errors
/// [`BenchError`], if an option is invalid, or a repaired tree differs from the one from scratch.
pub fn run(options: &Options, progress: Progress) -> Result<Report, BenchError> {
    let mut trial = Trial::new(options)?;
    progress.begin(&format!(
        "{} nodes, {} links, {} changes of one link",
        options.nodes,
        trial.pairs.len(),
        options.changes
    ));
    let samples = trial.measure(options, progress)?;
    let table = node::measure(&trial.topology, options)?;
    let hop_limited = limited::measure(options.seed)?;
    let networkx = match &options.python {
        Some(python) => Some(peer::measure(python, &trial.topology)?),
        None => None,
    };
    Ok(Report::new(
        options,
        trial.pairs.len(),
        samples,
        table,
        hop_limited,
        networkx,
    ))
}

/// One contender's times in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples {
    name: &'static str,
    full_ns: Vec<u64>,
    repair_ns: Vec<u64>,
    /// The times of the repairs that changed a route.
    effective_ns: Vec<u64>,
    baseline_ns: Vec<u64>,
}

struct Trial {
    topology: Topology,
    root: NodeIndex,
    rng: Rng,
    pairs: Vec<(NodeAddr, NodeAddr)>,
    /// The initial costs of the links, to which links that were down return.
    first: Vec<LinkCost>,
}

impl Trial {
    fn new(options: &Options) -> Result<Trial, BenchError> {
        if !(2..=NODES_MAX).contains(&options.nodes) || options.changes == 0 {
            return Err(BenchError::Option(format!(
                "use 2 to {NODES_MAX} nodes and at least one change"
            )));
        }
        let mut rng = Rng::new(options.seed);
        let shape = Waxman {
            nodes: options.nodes,
            links_per_node: options.links_per_node,
            ..Waxman::default()
        };
        let network = shape
            .generate(&mut rng)
            .map_err(|error| BenchError::Option(error.to_string()))?;
        let losses = network.random_losses(0.5, 0.05, &mut rng);
        let topology = network.topology(Parameters::default(), &losses);
        let pair = |link: &graph::generate::Link| (Network::addr(link.a), Network::addr(link.b));
        let costs = network.links.iter().zip(&losses);
        Ok(Trial {
            root: topology
                .index(Network::addr(0))
                .expect("the first node is there"),
            topology,
            pairs: network.links.iter().map(pair).collect(),
            first: costs
                .map(|(l, loss)| LinkCost::new(l.delay_us, *loss))
                .collect(),
            rng,
        })
    }

    fn measure(
        &mut self,
        options: &Options,
        progress: Progress,
    ) -> Result<Vec<Samples>, BenchError> {
        let clock = Clock::new();
        let timed = |work: &mut dyn FnMut()| {
            let start = clock.now();
            work();
            clock.now().since(start).as_nanos()
        };
        let mut trees = Metric::ALL.map(|metric| Tree::new(&self.topology, self.root, metric));
        let mut widths = Widths::new(&self.topology, self.root);
        let mut samples: Vec<Samples> = Metric::ALL
            .iter()
            .map(|metric| metric.as_str())
            .chain(["width"])
            .map(|name| Samples {
                name,
                ..Samples::default()
            })
            .collect();
        for n in 0..options.changes {
            let changes = self.change_one();
            let topology = &self.topology;
            for (tree, samples) in trees.iter_mut().zip(&mut samples) {
                let metric = tree.metric();
                let repair = timed(&mut || {
                    tree.update(topology, &changes);
                });
                samples.repair_ns.push(repair);
                if !tree.changed().is_empty() {
                    samples.effective_ns.push(repair);
                }
                let mut fresh = None;
                samples.full_ns.push(timed(&mut || {
                    fresh = Some(Tree::new(topology, self.root, metric));
                }));
                same(fresh.as_ref() == Some(tree))?;
                let plain = plain::Graph::of(topology, metric);
                let mut distances = Vec::new();
                samples.baseline_ns.push(timed(&mut || {
                    distances = plain.distances(self.root.place());
                }));
                same(plain::agree(&distances, topology, tree))?;
            }
            let samples = samples.last_mut().expect("width comes last");
            let all = |w: &Widths| topology.nodes().map(|n| w.width(n)).collect::<Vec<_>>();
            let before = all(&widths);
            let repair = timed(&mut || {
                widths.update(topology, &changes);
            });
            samples.repair_ns.push(repair);
            if before != all(&widths) {
                samples.effective_ns.push(repair);
            }
            let mut fresh = None;
            samples.full_ns.push(timed(&mut || {
                fresh = Some(Widths::new(topology, self.root));
            }));
            same(fresh.is_some_and(|fresh| all(&fresh) == all(&widths)))?;
            progress.draw(n as f64 / options.changes as f64, "changes");
        }
        progress.clear();
        Ok(samples)
    }

    /// Changes one link in both directions.
    fn change_one(&mut self) -> Vec<Change> {
        let place = self.rng.below(self.pairs.len() as u64) as usize;
        let (a, b) = self.pairs[place];
        let first = self.first[place];
        let ends = self.topology.index(a).zip(self.topology.index(b));
        let up = ends.and_then(|(a, b)| self.topology.link(a, b));
        let link = match (up, self.rng.below(4)) {
            (None, _) => Some(first),
            (Some(_), 0) => None,
            (Some(edge), 1) => Some(LinkCost {
                loss: self.rng.below(3_277) as u16,
                ..edge.link
            }),
            (Some(edge), _) => Some(LinkCost {
                // The new latency is between half and twice the first one.
                latency_us: (first.latency_us / 2
                    + self.rng.below(1 + u64::from(first.latency_us) * 3 / 2) as u32)
                    .max(1),
                ..edge.link
            }),
        };
        let ends = [(a, b), (b, a)];
        let changes = ends.map(|(from, to)| self.topology.set_link(from, to, link));
        changes.into_iter().flatten().collect()
    }
}

fn same(equal: bool) -> Result<(), BenchError> {
    if equal {
        Ok(())
    } else {
        Err(BenchError::Start(
            "a repaired tree is not the one from scratch: this is a defect, report it with the seed"
                .into(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_a_table_and_every_contender_agrees() {
        let options = Options {
            nodes: 40,
            links_per_node: 2,
            changes: 60,
            ..Options::default()
        };
        let report = run(&options, Progress::Silent).unwrap();
        let json = serde_json::to_value(&report).unwrap();
        let rows = json["metrics"].as_array().unwrap();
        assert_eq!(rows.len(), Metric::ALL.len() + 1);
        for row in rows {
            assert_eq!(row["full"]["samples"], 60, "{row}");
            assert_eq!(row["incremental"]["samples"], 60, "{row}");
            let effective = row["effective"]["samples"].as_u64().unwrap();
            assert!(effective > 0 && effective <= 60, "{row}");
        }
        assert_eq!(rows[4]["baseline"], serde_json::Value::Null);
        let text = report.to_string();
        assert!(
            text.contains("expected-latency") && text.contains("width"),
            "{text}"
        );
    }

    #[test]
    fn options_that_cannot_be_are_told() {
        for options in [
            Options {
                nodes: 1,
                ..Options::default()
            },
            Options {
                nodes: NODES_MAX + 1,
                ..Options::default()
            },
            Options {
                changes: 0,
                ..Options::default()
            },
            Options {
                links_per_node: 0,
                ..Options::default()
            },
        ] {
            let failed = run(&options, Progress::Silent);
            assert!(matches!(failed, Err(BenchError::Option(_))), "{options:?}");
        }
    }
}
