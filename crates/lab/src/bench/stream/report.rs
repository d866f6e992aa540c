//! The results of `sinew bench stream`: the documented JSON, and the table.

use super::{FORWARDERS, HOPS_SEALED, NODES, Options, Trial};
use crate::bench::heading;
use serde::Serialize;
use std::fmt;
use tools::table::align;

/// The goal for nodes that seal what bare forwarders seal: the least ratio of a stream's rate to the forwarders' rate.
const SHARE_GOAL: f64 = 0.9;
/// The goal relative to a peer: the rate of plain TCP through Nebula's relay.
const PEER_BPS: f64 = 328e6;

/// All results.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The medium between the three hosts.
    pub medium: &'static str,
    /// The machine's load before and after.
    pub load: [f64; 2],
    /// Length of a trial.
    pub trial_seconds: f64,
    /// Trials per number.
    pub repeats: usize,
    /// Bytes of the forwarders' datagrams, tag included.
    pub datagram_bytes: usize,
    /// Mean bytes of the nodes' datagrams at the first node, small ones included.
    pub node_datagram_bytes: f64,
    /// The results of the nodes with defaults, the nodes that seal only hops, the forwarders, and TCP.
    pub paths: Vec<PathReport>,
    /// The nodes' rate over the rate of the forwarders, which do not seal from end to end.
    pub nodes_over_forwarders: f64,
    /// The same for nodes that seal only hops; the goal is at least 0.9.
    pub hops_sealed_over_forwarders: f64,
    /// The nodes' rate over 328 Mbit/s, the rate of TCP through Nebula's relay; the goal is 1.
    pub nodes_over_peer: f64,
}

/// One path from end to end.
#[derive(Clone, Debug, Serialize)]
pub struct PathReport {
    /// The name of the path.
    pub name: &'static str,
    /// Payload per second: the median over the trials.
    pub rate_bps: f64,
    /// The lowest and the highest of the trials.
    pub rate_range_bps: [f64; 2],
    /// Percentage of the datagrams that were lost; streams lose nothing.
    pub lost_pct: f64,
    /// Processor time between the ends per byte of payload; 0 if it is not known.
    pub cpu_ns_per_byte: f64,
}

impl PathReport {
    pub(super) fn new(name: &'static str, trials: &[Trial]) -> PathReport {
        let mut sorted: Vec<&Trial> = trials.iter().collect();
        sorted.sort_by(|a, b| a.rate_bps().total_cmp(&b.rate_bps()));
        let median = sorted.get(sorted.len() / 2).copied().copied();
        let median = median.unwrap_or_default();
        let rate = |trial: Option<&&Trial>| trial.map_or(0.0, |trial| trial.rate_bps());
        PathReport {
            name,
            rate_bps: median.rate_bps(),
            rate_range_bps: [rate(sorted.first()), rate(sorted.last())],
            lost_pct: median.lost_pct,
            cpu_ns_per_byte: median.cpu_ns as f64 / median.bytes.max(1) as f64,
        }
    }
}

impl Report {
    pub(super) fn new(
        medium: &'static str,
        load: [f64; 2],
        options: &Options,
        node_datagram_bytes: f64,
        paths: Vec<PathReport>,
    ) -> Report {
        let rate = |name: &str| {
            let path = paths.iter().find(|path| path.name == name);
            path.map_or(f64::NAN, |path| path.rate_bps)
        };
        Report {
            medium,
            load,
            trial_seconds: options.seconds,
            repeats: options.repeats,
            datagram_bytes: options.datagram,
            node_datagram_bytes,
            nodes_over_forwarders: rate(NODES) / rate(FORWARDERS),
            hops_sealed_over_forwarders: rate(HOPS_SEALED) / rate(FORWARDERS),
            nodes_over_peer: rate(NODES) / PEER_BPS,
            paths,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [before, after] = self.load;
        writeln!(
            f,
            "one stream over three nodes, {}; load {before:.1} to {after:.1}\n\
             medians of {} trials of {} s taken in turns; forwarders' datagrams of {} bytes, \
             nodes' of {:.0} on average\n",
            self.medium,
            self.repeats,
            self.trial_seconds,
            self.datagram_bytes,
            self.node_datagram_bytes,
        )?;
        let mut table = vec![heading([
            "path",
            "Mbit/s",
            "of trials",
            "lost",
            "CPU ns/byte",
        ])];
        for path in &self.paths {
            let [low, high] = path.rate_range_bps.map(|bps| bps / 1e6);
            table.push(vec![
                path.name.to_owned(),
                format!("{:.0}", path.rate_bps / 1e6),
                format!("{low:.0}-{high:.0}"),
                format!("{:.2} %", path.lost_pct),
                if path.cpu_ns_per_byte > 0.0 {
                    format!("{:.2}", path.cpu_ns_per_byte)
                } else {
                    "–".to_owned()
                },
            ]);
        }
        f.write_str(&align(&table))?;
        let verdict = |holds: bool| if holds { "ok" } else { "MISSED" };
        writeln!(
            f,
            "\nhops-sealed/forwarders {:.2} (goal {SHARE_GOAL}) {}; nodes/forwarders {:.2}; \
             nodes/Nebula's relay {:.2} (goal 1) {}",
            self.hops_sealed_over_forwarders,
            verdict(self.hops_sealed_over_forwarders >= SHARE_GOAL),
            self.nodes_over_forwarders,
            self.nodes_over_peer,
            verdict(self.nodes_over_peer >= 1.0),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_seal_what_the_forwarders_seal_are_judged_by_nine_tenths() {
        let report = |hops_sealed: u64| {
            let rate = |bytes| Trial {
                bytes,
                seconds: 1.0,
                ..Trial::default()
            };
            let path = |name, bytes| PathReport::new(name, &[rate(bytes)]);
            let paths = vec![
                path(NODES, 60_000_000),
                path(HOPS_SEALED, hops_sealed),
                path(FORWARDERS, 100_000_000),
            ];
            Report::new("loopback", [0.0; 2], &Options::default(), 1_372.0, paths)
        };
        for (hops_sealed, verdict) in [(89_000_000, "MISSED"), (91_000_000, "ok")] {
            let text = report(hops_sealed).to_string();
            let judged = format!("(goal 0.9) {verdict}; nodes/forwarders 0.60");
            assert!(text.contains(&judged), "{text}");
        }
    }
}
