//! Figure 15: the delay of packets over three nodes, by the number of streams, compared with the kernel alone. Real
//! nodes, real time. [Amir06 §V-A]

use crate::bench::latency::probe::{Delays, Probe, Probed};
use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size, Verdict};
use crate::plot::{Axis, Chart, Mark, Series};
use crate::stats;

/// The figure.
pub(super) const FIG15: Forwarding = Forwarding;

/// Numbers of simultaneous streams; the last is the paper's maximum.
const STREAMS: [u32; 6] = [1, 10, 50, 100, 150, 200];
const STREAMS_MOST: f64 = 200.0;
/// The delay that three nodes add. [Amir06 §V-A]
const ADDED_MS: f64 = 0.15;
/// The highest single latency. [Amir06 §V-A]
const HIGHEST_MS: f64 = 0.963;
/// The standard deviation. [Amir06 §V-A]
const DEVIATION_MS: f64 = 0.012;
/// Processor use of the middle node. [Amir06 §V-A]
const CPU: f64 = 0.4;

/// The experiment.
pub(super) struct Forwarding;

impl Experiment for Forwarding {
    fn id(&self) -> &'static str {
        "amir06/fig15"
    }

    fn title(&self) -> &'static str {
        "Forwarding delay of three real nodes"
    }

    fn method(&self, size: Size) -> String {
        format!(
            "Three node processes in a chain on loopback, real-time protocol on both links, clients at both \
             ends; {} packets of 160 bytes per stream, 50 per second. Neighbours in the chain run on different \
             processors, all with real-time priority where it is permitted. Delays are differences of one \
             clock. The base is UDP from sender to receiver by the kernel alone, in the same run.",
            packets(size)
        )
    }

    fn cells(&self, _: Size) -> Vec<Cell> {
        let cell = |streams: &u32| Cell::at(&[("streams", f64::from(*streams))]);
        STREAMS.iter().map(cell).collect()
    }

    fn measure(&self, plan: &Plan, cell: &Cell, _: u64) -> Result<Row, CellError> {
        let probe = Probe {
            program: &plan.program,
            streams: cell.parameter("streams") as u32,
            packets: packets(plan.size),
            realtime: true,
            loops: 0,
        };
        let probed = probe.run().map_err(|error| CellError(error.to_string()))?;
        let mut row = Row::of(cell);
        tell(&probed, &mut row);
        Ok(row)
    }

    fn conclude(&self, plan: &Plan, rows: &Rows) -> Findings {
        Findings {
            charts: vec![chart(rows)],
            verdicts: verdicts(plan, rows),
        }
    }

    fn is_real_time(&self) -> bool {
        true
    }
}

/// Returns the packets per stream; the paper has 20 000.
const fn packets(size: Size) -> u64 {
    match size {
        Size::Quick => 100,
        Size::Full => 20_000,
    }
}

/// Writes the results of a probe into a row.
pub(super) fn tell(probed: &Probed, row: &mut Row) {
    for (name, delays) in [("kernel", &probed.kernel), ("nodes", &probed.nodes)] {
        let Delays {
            sent,
            arrived,
            mean_ms,
            deviation_ms,
            p99_ms,
            max_ms,
        } = *delays;
        for (what, value) in [
            ("sent", sent as f64),
            ("arrived", arrived as f64),
            ("mean_ms", mean_ms),
            ("deviation_ms", deviation_ms),
            ("p99_ms", p99_ms),
            ("max_ms", max_ms),
        ] {
            row.set(format!("{name}_{what}"), value);
        }
    }
    row.set("first_cpu", probed.first_cpu);
    row.set("middle_cpu", probed.middle_cpu);
    row.set("idle_cpu", probed.idle_cpu);
    let is_real_time = probed.scheduling.starts_with("real time");
    row.set("real_time", f64::from(u8::from(is_real_time)));
}

fn chart(rows: &Rows) -> Chart {
    let series = |(color, (name, value)): (usize, (&'static str, &str))| Series {
        name: name.into(),
        color: color as u8,
        mark: Mark::Line,
        points: rows.line(&[], "streams", value),
    };
    let lines = [
        ("over three nodes", "nodes_mean_ms"),
        ("kernel", "kernel_mean_ms"),
    ];
    let most = rows.0.iter().map(|row| row.value("nodes_mean_ms"));
    Chart {
        title: "Mean one-way delay".into(),
        x: Axis {
            label: "streams".into(),
            min: 0.0,
            max: STREAMS_MOST,
        },
        y: Axis {
            label: "delay, ms".into(),
            min: 0.0,
            max: 1.2 * most.fold(ADDED_MS, f64::max),
        },
        series: lines.into_iter().enumerate().map(series).collect(),
    }
}

fn verdicts(plan: &Plan, rows: &Rows) -> Vec<Verdict> {
    let most = [("streams", STREAMS_MOST)];
    let at_most = |name: &str| rows.value(&most, name);
    let largest = |name: &str| stats::most(rows.0.iter().map(|row| row.value(name)));
    let first = 100.0 * at_most("first_cpu");
    vec![
        Verdict::untested(
            "base-latency",
            "a number of their two computers and the network between them; here sender and receiver \
             are on one machine",
        )
        .measured(format!(
            "{:.3} ms by the kernel alone, one stream",
            rows.value(&[("streams", 1.0)], "kernel_mean_ms")
        )),
        setup(plan),
        cpu(at_most("middle_cpu")),
        Verdict::untested("sender-cpu", "a number of their Pentium III of 850 MHz").measured(format!(
            "{first:.1} % of a processor for the first node at 200 streams, its clients not counted"
        )),
        limited(rows, "deviation", largest("nodes_deviation_ms"), DEVIATION_MS),
        limited(rows, "highest", largest("nodes_max_ms"), HIGHEST_MS),
        added(rows),
    ]
}

fn setup(plan: &Plan) -> Verdict {
    Verdict::setup(
        "setup",
        &[
            ("stream at least", f64::from(STREAMS[0]), 1.0),
            (
                "streams at most",
                f64::from(STREAMS[STREAMS.len() - 1]),
                200.0,
            ),
            ("packets per stream", packets(plan.size) as f64, 20_000.0),
        ],
    )
}

fn cpu(share: f64) -> Verdict {
    let text = format!("{:.1} % of a processor at 200 streams", 100.0 * share);
    Verdict::of("cpu", share <= CPU, text).note("this machine's processors, sealing included")
}

/// Returns a verdict on a limit for the largest of all measurements.
fn limited(rows: &Rows, claim: &'static str, ms: f64, limit_ms: f64) -> Verdict {
    let kernel = match claim {
        "highest" => "kernel_max_ms",
        _ => "kernel_deviation_ms",
    };
    let kernel = rows.0.iter().map(|row| row.value(kernel));
    let kernel = kernel.fold(f64::NEG_INFINITY, f64::max);
    let text = format!("{ms:.3} ms over the nodes, {kernel:.3} ms by the kernel alone");
    let verdict = Verdict::of(claim, ms <= limit_ms, text);
    match (ms <= limit_ms, kernel > limit_ms) {
        (true, _) => verdict,
        (false, true) => verdict.note(
            "the kernel alone exceeds it too: on this machine processors are shared or asleep when packets \
             come",
        ),
        (false, false) => verdict.note(
            "five hand-overs between processes, each of which may find its processor asleep or taken by \
             the kernel; the paper's computers ran nothing else",
        ),
    }
    .on(rows)
}

fn added(rows: &Rows) -> Verdict {
    let added = |row: &Row| row.value("nodes_mean_ms") - row.value("kernel_mean_ms");
    let each = rows.0.iter().map(|row| {
        let streams = row.parameter("streams");
        format!("{streams:.0}: {:.3}", added(row))
    });
    let text = format!("streams: ms added: {}", each.collect::<Vec<_>>().join(", "));
    let holds = stats::every(&rows.0, |row| added(row) <= ADDED_MS);
    let verdict = Verdict::of("added-delay", holds, text);
    let verdict = match holds {
        true => verdict,
        false => verdict.note(
            "six more hand-overs between processes than UDP alone, each a wake-up; on a virtual machine \
             waking a sleeping processor takes longer than all that the nodes do (docs/bench.md)",
        ),
    };
    verdict.on(rows)
}

impl Verdict {
    /// Makes a verdict that does not hold untested if nodes lacked real-time priority, because the delays then differ
    /// from what the paper measured.
    fn on(self, rows: &Rows) -> Verdict {
        if rows.0.iter().all(|row| row.value("real_time") == 1.0) || self.holds == Some(true) {
            return self;
        }
        Verdict {
            holds: None,
            ..self
        }
        .note(
            "nodes did not get real-time priority on this machine: run as root, or give \
             CAP_SYS_NICE or a `ulimit -r`",
        )
    }
}
