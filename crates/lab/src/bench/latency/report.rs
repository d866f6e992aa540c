//! The results of `sinew bench latency`: the documented JSON, and the table.

use super::Pinning;
use crate::bench::heading;
use crate::bench::trial::Trial;
use crate::stats::{median, ranked};
use serde::Serialize;
use std::fmt;
use tools::table::align;

/// The goal: the largest ratio of the delay over nodes to the delay over forwarders.
const RATIO_GOAL: f64 = 1.25;
/// The goal on a busy machine, for the 99th percentile.
const BUSY_P99_GOAL_US: f64 = 1_000.0;

/// All results.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The medium between the three hosts.
    pub medium: &'static str,
    /// The scheduling of clients and bare forwarders.
    pub scheduling: String,
    /// The scheduling of the middle node.
    pub node_scheduling: String,
    /// How the links of a chain are spread over the processors.
    pub pinning: Pinning,
    /// The processors that were available.
    pub processors: Vec<usize>,
    /// Number of loops of normal priority at the same time.
    pub busy_loops: usize,
    /// The machine's load before and after.
    pub load: [f64; 2],
    /// Bytes of payload of each packet.
    pub payload_bytes: usize,
    /// Packets per second of each stream.
    pub packets_per_stream_s: u32,
    /// Length of a trial.
    pub trial_seconds: f64,
    /// Trials per number.
    pub repeats: usize,
    /// One per number of streams.
    pub cells: Vec<Cell>,
}

/// One number of streams.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// Streams at once.
    pub streams: u32,
    /// The results of the kernel, the forwarders and the nodes.
    pub paths: Vec<PathReport>,
    /// The nodes compared with the others.
    pub ratios: Ratios,
}

/// One path from end to end.
#[derive(Clone, Debug, Serialize)]
pub struct PathReport {
    /// The name of the path.
    pub name: &'static str,
    /// Packets that count, over all trials.
    pub sent: u64,
    /// Percentage of them that did not arrive.
    pub lost_pct: f64,
    /// Median one-way delay: the median over the trials.
    pub p50_us: f64,
    /// The lowest and the highest of the trials.
    pub p50_range_us: [f64; 2],
    /// 99th percentile of the one-way delay: the median over the trials.
    pub p99_us: f64,
    /// The longest delay of all trials.
    pub max_us: f64,
    /// Wake-ups per packet of the middle node or forwarder; null for the kernel.
    pub wakeups_per_packet: Option<f64>,
    /// Processor time per packet there.
    pub cpu_us_per_packet: Option<f64>,
}

/// The nodes compared with the others.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Ratios {
    /// The median delay, nodes over forwarders; the goal is at most 1.25.
    pub p50_over_forwarders: f64,
    /// The 99th percentile, nodes over forwarders.
    pub p99_over_forwarders: f64,
    /// The same ratio of the medians, each minus the kernel's own median.
    pub added_p50_over_forwarders: f64,
}

impl PathReport {
    pub(super) fn new(name: &'static str, trials: &[Trial]) -> PathReport {
        let sum = |of: fn(&Trial) -> u64| trials.iter().map(of).sum::<u64>();
        let per_packet = |of: fn(&Trial) -> Option<u64>| {
            let each = trials
                .iter()
                .map(|t| Some(of(t)? as f64 / t.sent.max(1) as f64));
            each.collect::<Option<Vec<f64>>>()
                .map(|each| median(each).unwrap_or_default())
        };
        let (counted, arrived) = (sum(|t| t.counted), sum(|t| t.delays_ns.len() as u64));
        let of_each = |q: f64| -> Vec<f64> {
            let each = trials.iter();
            each.map(|t| ranked(&t.delays_ns, q).unwrap_or(0) as f64 / 1e3)
                .collect()
        };
        let p50 = of_each(0.5);
        PathReport {
            name,
            sent: counted,
            lost_pct: 100.0 * (1.0 - arrived as f64 / counted.max(1) as f64),
            p50_range_us: [
                p50.iter().copied().fold(f64::MAX, f64::min),
                p50.iter().copied().fold(0.0, f64::max),
            ],
            p50_us: median(p50).unwrap_or_default(),
            p99_us: median(of_each(0.99)).unwrap_or_default(),
            max_us: of_each(1.0).into_iter().fold(0.0, f64::max),
            wakeups_per_packet: per_packet(|t| t.wakeups),
            cpu_us_per_packet: per_packet(|t| t.cpu_ns).map(|ns| ns / 1e3),
        }
    }
}

impl Cell {
    /// Creates a cell with the ratios that follow from `paths`: kernel, forwarders, nodes.
    pub(super) fn new(streams: u32, paths: Vec<PathReport>) -> Cell {
        let ratios = match paths.as_slice() {
            [kernel, forwarders, nodes] => Ratios {
                p50_over_forwarders: nodes.p50_us / forwarders.p50_us,
                p99_over_forwarders: nodes.p99_us / forwarders.p99_us,
                added_p50_over_forwarders: (nodes.p50_us - kernel.p50_us)
                    / (forwarders.p50_us - kernel.p50_us),
            },
            _ => Ratios::default(),
        };
        Cell {
            streams,
            paths,
            ratios,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pinning = match self.pinning {
            Pinning::Spread => "neighbours on different ones",
            Pinning::One => "all on the first",
            Pinning::Free => "as the kernel likes",
        };
        let [before, after] = self.load;
        writeln!(
            f,
            "one-way delay from client to client over three, {}, {} bytes, {} packets/s per stream\n\
             processors: {:?}, {pinning}; busy loops: {}; load {before:.1} to {after:.1}\n\
             scheduling: {}; nodes: {}\n\
             medians of {} trials of {} s taken in turns, µs; maximum of all\n",
            self.medium,
            self.payload_bytes,
            self.packets_per_stream_s,
            self.processors,
            self.busy_loops,
            self.scheduling,
            self.node_scheduling,
            self.repeats,
            self.trial_seconds,
        )?;
        f.write_str(&align(&self.rows()))?;
        writeln!(f)?;
        f.write_str(&align(&self.ratio_rows()))
    }
}

impl Report {
    fn rows(&self) -> Vec<Vec<String>> {
        let mut table = vec![heading([
            "path",
            "streams",
            "p50",
            "of trials",
            "p99",
            "max",
            "lost",
            "middle: wake-ups/packet",
            "µs/packet",
        ])];
        for cell in &self.cells {
            for path in &cell.paths {
                let [low, high] = path.p50_range_us;
                let or_dash = |n: Option<f64>| n.map_or("–".into(), |n| format!("{n:.2}"));
                table.push(vec![
                    path.name.to_owned(),
                    cell.streams.to_string(),
                    format!("{:.0}", path.p50_us),
                    format!("{low:.0}-{high:.0}"),
                    format!("{:.0}", path.p99_us),
                    format!("{:.0}", path.max_us),
                    format!("{:.2} %", path.lost_pct),
                    or_dash(path.wakeups_per_packet),
                    or_dash(path.cpu_us_per_packet),
                ]);
            }
        }
        table
    }

    fn ratio_rows(&self) -> Vec<Vec<String>> {
        let goal = |text: String, holds: bool| match holds {
            true => format!("{text} ok"),
            false => format!("{text} MISSED"),
        };
        let mut table = vec![heading([
            "nodes/forwarders",
            "p50",
            "without kernel",
            "p99",
        ])];
        let busy = self.busy_loops > 0;
        if busy {
            table[0].push("p99 of nodes, busy".into());
        }
        for cell in &self.cells {
            let Ratios {
                p50_over_forwarders: p50,
                p99_over_forwarders: p99,
                added_p50_over_forwarders: added,
            } = cell.ratios;
            let mut row = vec![
                format!("{} streams", cell.streams),
                goal(format!("{p50:.2} (<= {RATIO_GOAL})"), p50 <= RATIO_GOAL),
                format!("{added:.2}"),
                format!("{p99:.2}"),
            ];
            if let Some(nodes) = cell.paths.last().filter(|_| busy) {
                let us = nodes.p99_us;
                let text = format!("{us:.0} µs (< {BUSY_P99_GOAL_US:.0})");
                row.push(goal(text, us < BUSY_P99_GOAL_US));
            }
            table.push(row);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &'static str, us: u64) -> PathReport {
        let trial = |us: u64| Trial {
            sent: 10,
            counted: 4,
            delays_ns: vec![us * 1_000, us * 1_000, us * 3_000],
            wakeups: Some(20),
            cpu_ns: Some(70_000),
        };
        PathReport::new(name, &[trial(us), trial(us + 1), trial(us + 50)])
    }

    #[test]
    fn medians_are_of_trials_and_the_maximum_is_of_all() {
        let path = path("nodes", 100);
        assert_eq!((path.p50_us, path.p50_range_us), (101.0, [100.0, 150.0]));
        assert_eq!((path.p99_us, path.max_us), (303.0, 450.0));
        assert_eq!((path.sent, path.lost_pct), (12, 25.0));
        assert_eq!(path.wakeups_per_packet, Some(2.0));
        assert_eq!(path.cpu_us_per_packet, Some(7.0));
        let nothing = PathReport::new("kernel", &[Trial::default()]);
        assert_eq!((nothing.p50_us, nothing.wakeups_per_packet), (0.0, None));
    }

    #[test]
    fn ratios_follow_and_goals_are_judged() {
        let paths = vec![
            path("kernel", 19),
            path("forwarders", 99),
            path("nodes", 109),
        ];
        let report = Report {
            medium: "loopback",
            scheduling: "real time".into(),
            node_scheduling: "real time".into(),
            pinning: Pinning::Spread,
            processors: vec![0, 1],
            busy_loops: 10,
            load: [0.0, 1.0],
            payload_bytes: 160,
            packets_per_stream_s: 50,
            trial_seconds: 2.0,
            repeats: 3,
            cells: vec![Cell::new(10, paths)],
        };
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["pinning"], "spread");
        assert_eq!(json["cells"][0]["ratios"]["p50_over_forwarders"], 1.1);
        assert_eq!(
            json["cells"][0]["ratios"]["added_p50_over_forwarders"],
            1.125
        );
        let text = report.to_string();
        assert!(text.contains("1.10 (<= 1.25) ok"), "{text}");
        assert!(text.contains("330 µs (< 1000) ok"), "{text}");
    }
}
