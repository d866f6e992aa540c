//! The results, as a table and as the JSON of docs/bench.md.

use super::{Limited, Options, Samples};
use crate::bench::heading;
use serde::Serialize;
use std::fmt;
use tools::table::align;

/// The goal for a full computation at 1000 nodes and 4000 links.
const FULL_GOAL_US: f64 = 2_000.0;
/// The goal for a repair, as a share of that, for the medians.
const RATIO_GOAL: f64 = 0.2;

/// The results.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Nodes of the network.
    pub nodes: usize,
    /// Links, both directions counted once.
    pub links: usize,
    /// Changes of one link each.
    pub changes: usize,
    /// The seed of network and changes.
    pub seed: u64,
    /// One row per metric, and one for width.
    pub metrics: Vec<Row>,
    /// The node's whole table, by all additive metrics.
    pub table: Row,
    /// The widest paths of few hops by two algorithms, in networks of their own.
    pub hop_limited: Vec<Limited>,
    /// networkx's Dijkstra by latency over the same graph, if it was asked for.
    pub networkx: Option<Spread>,
}

/// One contender.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The metric, or `table`.
    pub name: &'static str,
    /// Times of a computation from scratch.
    pub full: Spread,
    /// Times of an update after one link has changed.
    pub incremental: Spread,
    /// The repairs that changed a route.
    pub effective: Spread,
    /// A textbook's Dijkstra, distances alone.
    pub baseline: Option<Spread>,
    /// Median of the repairs over the median from scratch.
    pub incremental_over_full: f64,
    /// The same, for repairs that changed a route.
    pub effective_over_full: f64,
}

/// Times in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Spread {
    /// Number of samples.
    pub samples: usize,
    /// Their median.
    pub median_us: f64,
    /// Their mean.
    pub mean_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
}

impl Spread {
    pub(super) fn of(mut times_ns: Vec<u64>) -> Spread {
        times_ns.sort_unstable();
        let at = |share: f64| {
            let place = (times_ns.len() as f64 * share) as usize;
            let time = times_ns.get(place.min(times_ns.len().saturating_sub(1)));
            time.map_or(0.0, |ns| *ns as f64 / 1e3)
        };
        Spread {
            samples: times_ns.len(),
            median_us: at(0.5),
            mean_us: times_ns.iter().sum::<u64>() as f64 / 1e3 / times_ns.len().max(1) as f64,
            p99_us: at(0.99),
        }
    }
}

impl Row {
    fn of(samples: Samples) -> Row {
        let baseline = (!samples.baseline_ns.is_empty()).then(|| Spread::of(samples.baseline_ns));
        let [full, incremental, effective] =
            [samples.full_ns, samples.repair_ns, samples.effective_ns].map(Spread::of);
        let over_full = |spread: Spread| spread.median_us / full.median_us.max(1e-3);
        Row {
            name: samples.name,
            incremental_over_full: over_full(incremental),
            effective_over_full: over_full(effective),
            full,
            incremental,
            effective,
            baseline,
        }
    }

    fn cells(&self) -> Vec<String> {
        let us = |spread: Spread| format!("{:.1}", spread.median_us);
        let changed = self.effective.samples as f64 / self.incremental.samples.max(1) as f64;
        vec![
            self.name.to_owned(),
            us(self.full),
            format!("{:.1}", self.full.p99_us),
            self.baseline.map_or_else(|| "-".into(), us),
            us(self.incremental),
            format!("{:.1}", self.incremental.mean_us),
            format!("{:.1}", self.incremental.p99_us),
            format!("{:.3}", self.incremental_over_full),
            format!("{:.0} %", changed * 100.0),
            us(self.effective),
            format!("{:.3}", self.effective_over_full),
        ]
    }
}

impl Report {
    pub(super) fn new(
        options: &Options,
        links: usize,
        samples: Vec<Samples>,
        table: Samples,
        hop_limited: Vec<Limited>,
        networkx: Option<Spread>,
    ) -> Report {
        Report {
            nodes: options.nodes,
            links,
            changes: options.changes,
            seed: options.seed,
            metrics: samples.into_iter().map(Row::of).collect(),
            table: Row::of(table),
            hop_limited,
            networkx,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "routes of one node among {} with {} links; microseconds, medians unless said\n",
            self.nodes, self.links
        )?;
        let mut rows = vec![heading([
            "metric",
            "full",
            "p99",
            "textbook",
            "one change",
            "mean",
            "p99",
            "of full",
            "route changed",
            "then",
            "of full",
        ])];
        rows.extend(self.metrics.iter().chain([&self.table]).map(Row::cells));
        f.write_str(&align(&rows))?;
        writeln!(
            f,
            "\nwidest paths of few hops from one node; microseconds, medians\n"
        )?;
        let mut rows = vec![heading(Limited::HEADING)];
        rows.extend(self.hop_limited.iter().map(Limited::cells));
        f.write_str(&align(&rows))?;
        if let Some(networkx) = self.networkx {
            writeln!(
                f,
                "\nnetworkx, from scratch by latency: {:.0}",
                networkx.median_us
            )?;
        }
        let most = |value: fn(&Row) -> f64| self.metrics.iter().map(value).fold(0.0, f64::max);
        let verdict = |holds: bool| if holds { "holds" } else { "FAILS" };
        let (full, ratio) = (
            most(|r| r.full.median_us),
            most(|r| r.incremental_over_full),
        );
        writeln!(
            f,
            "\nfull computation, slowest metric: {full:.0} us, goal {FULL_GOAL_US:.0} at 1000 nodes \
             and 4000 links: {}",
            verdict(full < FULL_GOAL_US)
        )?;
        write!(
            f,
            "one change over full, largest ratio of medians: {ratio:.3}, goal {RATIO_GOAL}: {}",
            verdict(ratio <= RATIO_GOAL)
        )
    }
}
