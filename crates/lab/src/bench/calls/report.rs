//! The results of `sinew bench calls`: the documented JSON, and the table.

use super::Options;
use super::phones::{PACKET_BYTES, Trial};
use crate::bench::heading;
use crate::stats::{median, ranked};
use serde::Serialize;
use std::fmt;
use tools::table::align;
use voice::live::Quality;

/// The goals for the loss of all packets, and for the delay that gateways add to the kernel's own.
const LOST_GOAL_PCT: f64 = 0.1;
const ADDED_P99_GOAL_US: f64 = 5_000.0;

/// All results.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Calls at once.
    pub calls: u32,
    /// Length of a trial.
    pub trial_seconds: f64,
    /// Trials per path.
    pub repeats: usize,
    /// Bytes of each RTP packet.
    pub packet_bytes: usize,
    /// Packets per second of all calls and both directions.
    pub packets_per_s: u32,
    /// The scheduling of phones, planes and forwarders.
    pub scheduling: String,
    /// The scheduling of the nodes.
    pub node_scheduling: String,
    /// The machine's load before and after.
    pub load: [f64; 2],
    /// The results of the kernel, the forwarders and the gateways.
    pub paths: Vec<PathReport>,
    /// What the planes received over the overlay, by their own counts.
    pub heard: Heard,
    /// The gateways' median delay minus the kernel's.
    pub added_p50_us: f64,
    /// The same difference of the 99th percentiles: the goal is at most 5 ms.
    pub added_p99_us: f64,
    /// Percent of the packets that the gateways' calls lost: the goal is less than 0.1.
    pub lost_pct: f64,
    /// Whether both goals were reached.
    pub holds: bool,
}

/// One path from phones to phones.
#[derive(Clone, Debug, Serialize)]
pub struct PathReport {
    /// The name of the path.
    pub name: &'static str,
    /// Packets that count, over all trials.
    pub sent: u64,
    /// Percentage of them that did not arrive.
    pub lost_pct: f64,
    /// Packets that arrived twice.
    pub repeated: u64,
    /// Median one-way delay: the median over the trials.
    pub p50_us: f64,
    /// The delay that 99 of 100 packets do not exceed.
    pub p99_us: f64,
    /// The delay that 999 of 1000 packets do not exceed.
    pub p999_us: f64,
    /// The longest delay of all trials.
    pub max_us: f64,
    /// Processor time of both planes, per packet that crossed both.
    pub planes_us_per_packet: Option<f64>,
    /// Processor time of both nodes, per packet.
    pub nodes_us_per_packet: Option<f64>,
}

/// The packets that arrived over the overlay, as the planes count them.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Heard {
    /// RTP packets that should have arrived.
    pub expected: u64,
    /// Packets that never arrived.
    pub lost: u64,
    /// Packets that a link had lost and recovered.
    pub recovered: u64,
    /// Packets that arrived after their deadline.
    pub late: u64,
    /// Datagrams that a plane dropped.
    pub dropped: u64,
    /// Datagrams that a plane could not send.
    pub failed: u64,
    /// The lowest MOS of any direction of any call.
    pub mos_min: Option<f64>,
}

impl Heard {
    pub(super) fn add(&mut self, quality: &Quality) {
        let counts = quality.counts;
        self.expected += counts.expected;
        self.lost += counts.lost();
        self.recovered += counts.recovered;
        self.late += counts.late;
        self.mos_min = match (self.mos_min, quality.mos()) {
            (Some(least), Some(mos)) => Some(least.min(mos)),
            (least, mos) => least.or(mos),
        };
    }
}

impl PathReport {
    pub(super) fn new(name: &'static str, trials: &[Trial]) -> PathReport {
        let sum = |of: fn(&Trial) -> u64| trials.iter().map(of).sum::<u64>();
        let (counted, arrived) = (sum(|t| t.counted), sum(|t| t.delays_ns.len() as u64));
        let at = |q: f64| {
            let each = trials
                .iter()
                .map(|t| ranked(&t.delays_ns, q).unwrap_or(0) as f64 / 1e3);
            median(each).unwrap_or_default()
        };
        let cpu = |who: usize| {
            let used: Option<Vec<u64>> = trials
                .iter()
                .map(|t| t.cpu_ns.map(|cpu| cpu[who]))
                .collect();
            used.map(|used| used.iter().sum::<u64>() as f64 / 1e3 / sum(|t| t.sent).max(1) as f64)
        };
        PathReport {
            name,
            sent: counted,
            lost_pct: 100.0 * (1.0 - arrived as f64 / counted.max(1) as f64),
            repeated: sum(|t| t.repeated),
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: trials
                .iter()
                .map(|t| ranked(&t.delays_ns, 1.0).unwrap_or(0) as f64 / 1e3)
                .fold(0.0, f64::max),
            planes_us_per_packet: cpu(0),
            nodes_us_per_packet: cpu(1),
        }
    }
}

impl Report {
    pub(super) fn new(
        options: &Options,
        load: [f64; 2],
        scheduling: String,
        node_scheduling: String,
        paths: Vec<PathReport>,
        heard: Heard,
    ) -> Report {
        let (p50, p99, lost_pct) = match paths.as_slice() {
            [kernel, _, gateways] => (
                gateways.p50_us - kernel.p50_us,
                gateways.p99_us - kernel.p99_us,
                gateways.lost_pct,
            ),
            _ => (f64::NAN, f64::NAN, f64::NAN),
        };
        Report {
            calls: options.calls,
            trial_seconds: options.seconds,
            repeats: options.repeats,
            packet_bytes: PACKET_BYTES,
            packets_per_s: 100 * options.calls,
            scheduling,
            node_scheduling,
            load,
            paths,
            heard,
            added_p50_us: p50,
            added_p99_us: p99,
            lost_pct,
            holds: lost_pct < LOST_GOAL_PCT && p99 < ADDED_P99_GOAL_US,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [before, after] = self.load;
        writeln!(
            f,
            "{} calls in both directions through two gateways and their nodes, {} packets/s of {} \
             bytes\nload {before:.1} to {after:.1}; scheduling: {}; nodes: {}\n\
             medians of {} trials of {} s taken in turns, µs; maximum of all\n",
            self.calls,
            self.packets_per_s,
            self.packet_bytes,
            self.scheduling,
            self.node_scheduling,
            self.repeats,
            self.trial_seconds,
        )?;
        f.write_str(&align(&self.rows()))?;
        let Heard {
            expected,
            lost,
            recovered,
            late,
            dropped,
            failed,
            mos_min,
        } = self.heard;
        let mos = mos_min.map_or("none".to_owned(), |mos| format!("{mos:.2}"));
        writeln!(
            f,
            "\nthe planes heard {expected} packets: {lost} lost, {recovered} recovered, {late} late, \
             {dropped} dropped, {failed} not sent; lowest MOS {mos}"
        )?;
        writeln!(
            f,
            "added to the kernel's own: {:.0} µs, {:.0} µs for 99 of 100 (goal {ADDED_P99_GOAL_US:.0}); \
             lost {:.3} % (goal {LOST_GOAL_PCT} %): {}",
            self.added_p50_us,
            self.added_p99_us,
            self.lost_pct,
            if self.holds { "reached" } else { "NOT reached" },
        )
    }
}

impl Report {
    fn rows(&self) -> Vec<Vec<String>> {
        let mut table = vec![heading([
            "path",
            "p50",
            "p99",
            "p99.9",
            "max",
            "lost",
            "planes: µs/packet",
            "nodes: µs/packet",
        ])];
        let or_dash = |n: Option<f64>| n.map_or("–".into(), |n| format!("{n:.2}"));
        for path in &self.paths {
            table.push(vec![
                path.name.to_owned(),
                format!("{:.0}", path.p50_us),
                format!("{:.0}", path.p99_us),
                format!("{:.0}", path.p999_us),
                format!("{:.0}", path.max_us),
                format!("{:.3} %", path.lost_pct),
                or_dash(path.planes_us_per_packet),
                or_dash(path.nodes_us_per_packet),
            ]);
        }
        table
    }
}
