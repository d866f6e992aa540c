//! The results of `sinew bench bulk`: the documented JSON, and the table.

use super::{Cores, Trial};
use crate::bench::heading;
use crate::stats;
use serde::Serialize;
use std::fmt;
use tools::table::align;

/// All results.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine's load before and after.
    pub load: [f64; 2],
    /// Length of a trial.
    pub seconds: f64,
    /// Trials of each contender.
    pub repeats: usize,
    /// Unencrypted: compared with a splice proxy; the goal is at least 0.8.
    pub plain: Pair,
    /// Unencrypted, with the bare proxy as the middle of a copy.
    pub same_ends: Pair,
    /// Sealed from end to end: compared with a TLS proxy that opens and seals; the goal is at least 0.6.
    pub sealed: Pair,
    /// The gain from more processors.
    pub cores: Cores,
}

/// A proxy, and a relay in its place.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pair {
    /// Through a proxy: a bare connection, or for equal ends a copy.
    pub bare: Contender,
    /// A copy through a relay.
    pub relay: Contender,
    /// The relay's rate over the proxy's.
    pub rate_ratio: f64,
    /// The relay's processor time per byte over the proxy's.
    pub cpu_ratio: f64,
}

/// The median trial of one contender.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Contender {
    /// The rate.
    pub gbps: f64,
    /// Processor time of the middle per gigabyte.
    pub cpu_s_per_gb: f64,
}

impl Contender {
    pub(super) fn of(trials: &[Trial]) -> Contender {
        let median =
            |value: fn(&Trial) -> f64| stats::median(trials.iter().map(value)).unwrap_or_default();
        Contender {
            gbps: median(|trial| trial.bytes as f64 * 8.0 / 1e9 / trial.span_s),
            cpu_s_per_gb: median(|trial| trial.cpu_ns as f64 / (trial.bytes as f64).max(1.0)),
        }
    }
}

impl From<[Contender; 2]> for Pair {
    fn from([bare, relay]: [Contender; 2]) -> Pair {
        Pair {
            bare,
            relay,
            rate_ratio: relay.gbps / bare.gbps,
            cpu_ratio: relay.cpu_s_per_gb / bare.cpu_s_per_gb,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [before, after] = self.load;
        writeln!(
            f,
            "one hop through a relay, on loopback; medians of {} trials of {} s; load {before:.1} to {after:.1}\n",
            self.repeats, self.seconds,
        )?;
        let head = [
            "",
            "Gbit/s",
            "over bare",
            "goal",
            "middle, s/GB",
            "over bare",
        ];
        let mut table = vec![heading(head)];
        let pairs = [
            ("plain: splice proxy", "plain: cp", &self.plain, 0.8),
            (
                "plain: cp, splice proxy",
                "plain: cp, the same",
                &self.same_ends,
                0.8,
            ),
            ("sealed: TLS proxy", "sealed: cp", &self.sealed, 0.6),
        ];
        for (bare, relay, pair, goal) in pairs {
            let row = |name: &str, of: &Contender| {
                vec![
                    name.to_owned(),
                    format!("{:.2}", of.gbps),
                    String::new(),
                    String::new(),
                    format!("{:.3}", of.cpu_s_per_gb),
                    String::new(),
                ]
            };
            table.push(row(bare, &pair.bare));
            let mut row = row(relay, &pair.relay);
            row[2] = format!("{:.2}", pair.rate_ratio);
            row[3] = format!(
                "{goal} {}",
                if pair.rate_ratio >= goal {
                    "ok"
                } else {
                    "MISSED"
                }
            );
            row[5] = format!("{:.2}", pair.cpu_ratio);
            table.push(row);
        }
        writeln!(f, "{}", align(&table))?;
        write!(f, "{}", self.cores)
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = [
            "sealed, node to node",
            "Gbit/s",
            "all, s/GB",
            "Gbit/s for each used",
        ];
        let mut table = vec![heading(head)];
        let on = self.on.iter().map(|on| {
            vec![
                format!("processors: {}", on.processors),
                format!("{:.2}", on.gbps),
                format!("{:.3}", on.cpu_s_per_gb),
                format!("{:.2}", on.gbps_per_processor),
            ]
        });
        table.extend(on);
        writeln!(f, "{}", align(&table))?;
        let alone = self.apart.processes.iter();
        let alone: Vec<String> = alone
            .map(|one| format!("{} {:.2}", one.process, one.gbps))
            .collect();
        writeln!(
            f,
            "simulated, a processor for each process: {:.2} Gbit/s, the slowest of {}",
            self.apart.gbps,
            alone.join(", ")
        )
    }
}
