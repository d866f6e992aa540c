//! The widest paths with few hops: the plain algorithm and the one for dense networks, and which is faster when. "It
//! deserves study to compare IBF with BF on different size overlay networks" [Liu04 §IV-B].

use super::report::Spread;
use super::{BenchError, same};
use base::{NodeAddr, Rng};
use graph::width::{Dense, widest_within};
use graph::{LinkCost, Parameters, Topology};
use net::Clock;
use serde::Serialize;

/// Numbers of nodes of the networks.
const SIZES: [u32; 3] = [20, 100, 400];
/// Links of each node, as shares of all other nodes: sparse, half, all.
const DENSITIES: [f64; 3] = [0.05, 0.5, 1.0];
/// Limits on hops: few, and no limit.
const HOPS: [usize; 2] = [3, usize::MAX];
/// Number of roots of each network that are measured, evenly spread.
const ROOTS: u32 = 20;

/// One network and limit.
#[derive(Clone, Debug, Serialize)]
pub struct Limited {
    /// Nodes of the network.
    pub nodes: usize,
    /// Number of links, each direction counted separately.
    pub links: usize,
    /// The limit; `None` if every path is allowed.
    pub hops_max: Option<usize>,
    /// Mean number of rounds.
    pub rounds: f64,
    /// Times of the plain algorithm: round by round over all links, from one root.
    pub plain: Spread,
    /// Times of the algorithm for dense networks, with links sorted for this root alone.
    pub dense_alone: Spread,
    /// The same with links that were sorted before, for all roots.
    pub dense: Spread,
    /// Median of `dense` over that of `plain`.
    pub dense_over_plain: f64,
}

/// Measures the algorithms in turns; all must find the same paths.
pub(super) fn measure(seed: u64) -> Result<Vec<Limited>, BenchError> {
    let clock = Clock::new();
    let mut rows = Vec::new();
    for nodes in SIZES {
        for density in DENSITIES {
            let topology = random(nodes, density, &mut Rng::new(seed));
            for hops in HOPS {
                rows.push(one(&clock, &topology, hops)?);
            }
        }
    }
    Ok(rows)
}

fn one(clock: &Clock, topology: &Topology, hops: usize) -> Result<Limited, BenchError> {
    let kept = Dense::new(topology);
    let [mut plain, mut alone, mut dense] = [const { Vec::new() }; 3];
    let mut rounds = 0;
    let roots = topology.nodes();
    let step = (topology.node_count() / ROOTS as usize).max(1);
    for root in roots.step_by(step) {
        let start = clock.now();
        let by_plain = widest_within(topology, root, hops);
        plain.push(clock.now().since(start).as_nanos());
        let start = clock.now();
        let by_alone = Dense::new(topology).widest_within(root, hops);
        alone.push(clock.now().since(start).as_nanos());
        let start = clock.now();
        let by_dense = kept.widest_within(root, hops);
        dense.push(clock.now().since(start).as_nanos());
        same(by_plain == by_dense && by_plain == by_alone)?;
        rounds += by_plain.enough_hops();
    }
    let count = plain.len();
    let [plain, dense_alone, dense] = [plain, alone, dense].map(Spread::of);
    Ok(Limited {
        nodes: topology.node_count(),
        links: topology.link_count(),
        hops_max: (hops < usize::MAX).then_some(hops),
        rounds: rounds as f64 / count.max(1) as f64,
        dense_over_plain: dense.median_us / plain.median_us.max(1e-3),
        plain,
        dense_alone,
        dense,
    })
}

/// Returns a ring, so that the network is connected, with a share of all other pairs linked too, and random latencies
/// and losses.
fn random(nodes: u32, density: f64, rng: &mut Rng) -> Topology {
    let mut topology = Topology::new(Parameters::default());
    for from in 0..nodes {
        for to in (0..nodes).filter(|to| *to != from) {
            let (latency_us, loss) = (1_000 + rng.below(99_000) as u32, rng.unit() * 0.02);
            if to == (from + 1) % nodes || rng.unit() < density {
                let link = LinkCost::new(latency_us, loss);
                topology.set_link(NodeAddr(from + 1), NodeAddr(to + 1), Some(link));
            }
        }
    }
    topology
}

impl Limited {
    pub(super) const HEADING: [&'static str; 8] = [
        "nodes",
        "links",
        "hops at most",
        "rounds",
        "plain",
        "dense",
        "sorted before",
        "of plain",
    ];

    pub(super) fn cells(&self) -> Vec<String> {
        let us = |spread: Spread| format!("{:.1}", spread.median_us);
        vec![
            self.nodes.to_string(),
            self.links.to_string(),
            self.hops_max
                .map_or_else(|| "any".into(), |hops| hops.to_string()),
            format!("{:.1}", self.rounds),
            us(self.plain),
            us(self.dense_alone),
            us(self.dense),
            format!("{:.2}", self.dense_over_plain),
        ]
    }
}
