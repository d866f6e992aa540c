//! The results of `sinew bench forward`: the documented JSON, and the tables.

use crate::bench::heading;
use serde::Serialize;
use std::fmt;
use tools::table::align;

/// The goals, which the doc comments of the keys explain.
const PPS_GOAL: f64 = 0.65;
const SEALED_CPU_GOAL: f64 = 1.5;
const BATCHED_CPU_GOAL: f64 = 1.3;
const CODED_CPU_GOAL: f64 = 1.4;
const ENDS_CPU_GOAL: f64 = 1.02;

/// All results.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The medium between the three hosts.
    pub medium: &'static str,
    /// The scheduling of the thread that generates the traffic; the forwarders request the same.
    pub scheduling: String,
    /// The forwarder's processor and that of the traffic; empty if there is only one.
    pub processors: Vec<usize>,
    /// The machine's load before and after.
    pub load: [f64; 2],
    /// Length of a trial.
    pub trial_seconds: f64,
    /// Trials per number.
    pub repeats: usize,
    /// Number of flows that the packets belong to.
    pub flows: u32,
    /// One per payload and burst.
    pub cells: Vec<Cell>,
}

/// One payload and burst.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// Bytes of payload.
    pub payload_bytes: usize,
    /// Packets per burst.
    pub burst: usize,
    /// The rate at which all are compared.
    pub common_pps: u64,
    /// The node, then the bare forwarders.
    pub forwarders: Vec<Measured>,
    /// The node compared with the bare forwarders.
    pub ratios: Ratios,
    /// The node over a bad link, at the highest rate at which it recovers.
    pub impaired: Option<Impaired>,
    /// The node with a coded lane after it, if requested.
    pub coded: Option<Coded>,
    /// The node between ends that seal from end to end, if requested.
    pub ends: Option<Ends>,
}

/// One forwarder.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Measured {
    /// The name.
    pub name: &'static str,
    /// The highest rate at which less than 0.1 % is lost and no queue grows.
    pub max_pps: u64,
    /// Processor time per packet at the common rate.
    pub ns_per_packet_common: f64,
    /// Wake-ups per packet at the common rate.
    pub wakeups_per_packet_common: f64,
    /// Processor time per packet at the highest rate.
    pub ns_per_packet_max: f64,
    /// Share of its core that it used at the highest rate; if it is well below 100, something else was the limit.
    pub busy_pct_max: f64,
    /// Percentage that was lost in the median trial at the highest rate.
    pub lost_pct_max: f64,
}

/// The node compared with the bare forwarders.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Ratios {
    /// Highest rate, node over sealed GRO/GSO; the goal at bursts of 8 to 32 is at least 0.65.
    pub pps_over_sealed: f64,
    /// Processor time at the common rate, node over sealed GRO/GSO; the goal at bursts of 8 to 32 is at most 1.5.
    pub cpu_over_sealed: f64,
    /// The same ratio with both at the highest rate that the node carries.
    pub cpu_over_sealed_max: f64,
    /// Processor time at the common rate, node over recvmmsg/sendmmsg; the goal for single packets is at most 1.3.
    pub cpu_over_batched: f64,
}

/// The node over a link of 1 % loss and 20 ms there and back.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Impaired {
    /// The highest tried rate at which less than 0.1 % is missing and no queue grows; the lowest tried rate if there is
    /// none.
    pub rate_pps: u64,
    /// This rate, in percent of what the node carries without loss.
    pub share_of_max_pct: f64,
    /// Whether there is such a rate.
    pub recovers: bool,
    /// Packets sent.
    pub sent: u64,
    /// Packets that the link lost, including retransmissions and control, in percent of the packets sent.
    pub lost_on_link_pct: f64,
    /// Percentage of the packets sent that were not delivered within the deadline of 100 ms.
    pub residual_pct: f64,
    /// Processor time per packet of the middle node.
    pub ns_per_packet: f64,
}

/// The node with a coded lane after it, at the common rate, compared with one without.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Coded {
    /// Repair packets per packet.
    pub repair: f64,
    /// Processor time per packet of the node without them.
    pub plain_ns_per_packet: f64,
    /// The same for the node that codes; repair packets do not count as packets.
    pub ns_per_packet: f64,
    /// The second over the first; the goal is at most 1.4.
    pub ratio: f64,
    /// Percentage of the packets that were not delivered, while 5 % were lost.
    pub residual_pct: f64,
}

/// The node between ends that seal from end to end, at the common rate, compared with one between ends that do not.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ends {
    /// Processor time per packet of the node without that seal.
    pub plain_ns_per_packet: f64,
    /// The same with it.
    pub ns_per_packet: f64,
    /// The second over the first; the goal is at most 1.02.
    pub ratio: f64,
}

impl Cell {
    /// Creates a cell with the ratios that follow from the measurements, which are in the order of the table, and from
    /// the cost of the sealed one per packet at the node's highest rate.
    pub(super) fn new(
        payload_bytes: usize,
        burst: usize,
        common_pps: u64,
        forwarders: Vec<Measured>,
        sealed_at_node: f64,
    ) -> Cell {
        let ratios = match forwarders.as_slice() {
            [node, batched, _, sealed] => Ratios {
                pps_over_sealed: node.max_pps as f64 / sealed.max_pps as f64,
                cpu_over_sealed: node.ns_per_packet_common / sealed.ns_per_packet_common,
                cpu_over_sealed_max: node.ns_per_packet_max / sealed_at_node,
                cpu_over_batched: node.ns_per_packet_common / batched.ns_per_packet_common,
            },
            _ => Ratios::default(),
        };
        Cell {
            payload_bytes,
            burst,
            common_pps,
            forwarders,
            ratios,
            impaired: None,
            coded: None,
            ends: None,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report {
            medium,
            scheduling,
            repeats,
            trial_seconds,
            flows,
            ..
        } = self;
        let [before, after] = self.load;
        writeln!(
            f,
            "forwarding through the middle of three, real-time lane, over {medium}"
        )?;
        match self.processors.as_slice() {
            [forwarder, traffic] => {
                writeln!(
                    f,
                    "forwarder on processor {forwarder}, traffic on {traffic}"
                )?;
            }
            _ => writeln!(f, "one processor for everything: the numbers say little")?,
        }
        writeln!(f, "scheduling: {scheduling}")?;
        writeln!(
            f,
            "{flows} flows, medians of {repeats} trials of {trial_seconds} s taken in turns; \
             load {before:.1} to {after:.1}"
        )?;
        let mut payloads: Vec<usize> = self.cells.iter().map(|cell| cell.payload_bytes).collect();
        payloads.dedup();
        for payload in payloads {
            let cells = || {
                self.cells
                    .iter()
                    .filter(|cell| cell.payload_bytes == payload)
            };
            writeln!(f, "\n{payload} bytes of payload")?;
            write!(f, "{}", measured_table(cells()))?;
            writeln!(f, "\nthe node against bare forwarders")?;
            write!(f, "{}", ratio_table(cells()))?;
            writeln!(
                f,
                "\nthe node with 1 % loss and 20 ms RTT behind it, at the highest rate at which it \
                 recovers:\nless than 0.1 % missing or later than 100 ms, nothing growing; tried \
                 from its own max downwards"
            )?;
            write!(f, "{}", impaired_table(cells()))?;
            if cells().any(|cell| cell.coded.is_some()) {
                writeln!(
                    f,
                    "\nthe node with a coded lane behind it: 30 repair packets per 100 packets, 5 % lost"
                )?;
                write!(f, "{}", coded_table(cells()))?;
            }
            if cells().any(|cell| cell.ends.is_some()) {
                writeln!(f, "\nthe node between ends that seal from end to end")?;
                write!(f, "{}", ends_table(cells()))?;
            }
        }
        Ok(())
    }
}

fn measured_table<'a>(cells: impl Iterator<Item = &'a Cell>) -> String {
    let mut table = vec![heading([
        "forwarder",
        "burst",
        "max kpps",
        "lost",
        "busy",
        "µs/packet",
        "at kpps",
        "µs/packet",
        "wake-ups/packet",
    ])];
    for cell in cells {
        for one in &cell.forwarders {
            table.push(vec![
                one.name.to_owned(),
                cell.burst.to_string(),
                format!("{:.0}", one.max_pps as f64 / 1e3),
                format!("{:.2} %", one.lost_pct_max),
                format!("{:.0} %", one.busy_pct_max),
                format!("{:.2}", one.ns_per_packet_max / 1e3),
                format!("{:.0}", cell.common_pps as f64 / 1e3),
                format!("{:.2}", one.ns_per_packet_common / 1e3),
                format!("{:.2}", one.wakeups_per_packet_common),
            ]);
        }
    }
    align(&table)
}

fn ratio_table<'a>(cells: impl Iterator<Item = &'a Cell>) -> String {
    let mut table = vec![heading([
        "burst",
        "pps/sealed",
        "CPU/sealed",
        "at node's max",
        "CPU/recvmmsg",
    ])];
    for cell in cells {
        let Ratios {
            pps_over_sealed,
            cpu_over_sealed,
            cpu_over_sealed_max,
            cpu_over_batched,
        } = cell.ratios;
        // The goals, if there is one for this burst.
        let (bursts, single) = (cell.burst >= 8, cell.burst == 1);
        let most = |value: f64, most: f64, applies: bool| match applies {
            true => goal(format!("{value:.2} (<= {most})"), value <= most),
            false => format!("{value:.2}"),
        };
        let pps = match bursts {
            true => goal(
                format!("{pps_over_sealed:.2} (>= {PPS_GOAL})"),
                pps_over_sealed >= PPS_GOAL,
            ),
            false => format!("{pps_over_sealed:.2}"),
        };
        table.push(vec![
            cell.burst.to_string(),
            pps,
            most(cpu_over_sealed, SEALED_CPU_GOAL, bursts),
            most(cpu_over_sealed_max, SEALED_CPU_GOAL, bursts),
            most(cpu_over_batched, BATCHED_CPU_GOAL, single),
        ]);
    }
    align(&table)
}

fn impaired_table<'a>(cells: impl Iterator<Item = &'a Cell>) -> String {
    let mut table = vec![heading([
        "burst",
        "kpps",
        "of its max",
        "link lost",
        "residual",
        "µs/packet",
    ])];
    for cell in cells {
        let Some(impaired) = &cell.impaired else {
            continue;
        };
        let residual = format!("{:.4} % (< 0.1)", impaired.residual_pct);
        table.push(vec![
            cell.burst.to_string(),
            format!("{:.0}", impaired.rate_pps as f64 / 1e3),
            format!("{:.0} %", impaired.share_of_max_pct),
            format!("{:.2} %", impaired.lost_on_link_pct),
            goal(residual, impaired.recovers),
            format!("{:.2}", impaired.ns_per_packet / 1e3),
        ]);
    }
    align(&table)
}

fn coded_table<'a>(cells: impl Iterator<Item = &'a Cell>) -> String {
    let mut table = vec![heading([
        "burst",
        "at kpps",
        "repair/packet",
        "µs/packet",
        "without",
        "ratio",
        "residual",
    ])];
    for cell in cells {
        let Some(coded) = &cell.coded else {
            continue;
        };
        let ratio = format!("{:.2} (<= {CODED_CPU_GOAL})", coded.ratio);
        table.push(vec![
            cell.burst.to_string(),
            format!("{:.0}", cell.common_pps as f64 / 1e3),
            format!("{:.2}", coded.repair),
            format!("{:.2}", coded.ns_per_packet / 1e3),
            format!("{:.2}", coded.plain_ns_per_packet / 1e3),
            goal(ratio, coded.ratio <= CODED_CPU_GOAL),
            format!("{:.4} %", coded.residual_pct),
        ]);
    }
    align(&table)
}

fn ends_table<'a>(cells: impl Iterator<Item = &'a Cell>) -> String {
    let mut table = vec![heading(["burst", "µs/packet", "without", "ratio"])];
    for cell in cells {
        let Some(ends) = &cell.ends else {
            continue;
        };
        let ratio = format!("{:.3} (<= {ENDS_CPU_GOAL})", ends.ratio);
        table.push(vec![
            cell.burst.to_string(),
            format!("{:.2}", ends.ns_per_packet / 1e3),
            format!("{:.2}", ends.plain_ns_per_packet / 1e3),
            goal(ratio, ends.ratio <= ENDS_CPU_GOAL),
        ]);
    }
    align(&table)
}

/// Formats a value with its goal and the verdict.
fn goal(text: String, holds: bool) -> String {
    format!("{text} {}", if holds { "ok" } else { "MISSED" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(name: &'static str, max_pps: u64, ns: f64) -> Measured {
        Measured {
            name,
            max_pps,
            ns_per_packet_common: ns,
            wakeups_per_packet_common: 0.1,
            ns_per_packet_max: ns / 2.0,
            busy_pct_max: 95.0,
            lost_pct_max: 0.01,
        }
    }

    #[test]
    fn ratios_follow_from_the_measurements_and_keys_are_stable() {
        let forwarders = vec![
            measured("node", 600, 2_000.0),
            measured("recvmmsg/sendmmsg", 200, 5_000.0),
            measured("GRO/GSO", 1_000, 1_000.0),
            measured("GRO/GSO, AES-GCM", 800, 1_600.0),
        ];
        let impaired = Impaired {
            rate_pps: 480_000,
            share_of_max_pct: 80.0,
            recovers: true,
            sent: 192_000,
            lost_on_link_pct: 1.02,
            residual_pct: 0.0125,
            ns_per_packet: 1_500.0,
        };
        let report = Report {
            medium: "loopback",
            scheduling: "real time".into(),
            processors: vec![0, 1],
            load: [0.0, 1.0],
            trial_seconds: 0.4,
            repeats: 3,
            flows: 10,
            cells: vec![
                Cell {
                    impaired: Some(impaired),
                    ..Cell::new(160, 16, 100_000, forwarders.clone(), 800.0)
                },
                Cell::new(160, 1, 40_000, forwarders, 800.0),
            ],
        };
        let json = serde_json::to_value(&report).unwrap();
        let ratios = &json["cells"][0]["ratios"];
        assert_eq!(ratios["pps_over_sealed"], 0.75);
        assert_eq!(ratios["cpu_over_sealed"], 1.25);
        assert_eq!(ratios["cpu_over_batched"], 0.4);
        assert_eq!(json["cells"][0]["impaired"]["share_of_max_pct"], 80.0);
        let text = report.to_string();
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for line in [
            "16 0.75 (>= 0.65) ok 1.25 (<= 1.5) ok 1.25 (<= 1.5) ok 0.40",
            "16 480 80 % 1.02 % 0.0125 % (< 0.1) ok 1.50",
        ] {
            assert!(words.contains(line), "{line}: {text}");
        }
        // For single packets there is only one goal.
        let single = text.lines().find(|line| line.contains("0.40 (<= 1.3) ok"));
        assert_eq!(single.unwrap().matches("ok").count(), 1, "{text}");
    }
}
