//! The table of [Amir06 §V-A] on busy computers: delays over three real nodes with normal and with real-time priority,
//! while loops compete for the middle one's processor.

use super::forwarding::tell;
use crate::bench::latency::probe::Probe;
use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size, Verdict};
use crate::plot::{Axis, Chart, Mark, Series};

/// The table.
pub(super) const LOAD: Load = Load;

/// Loops, real-time priority, streams. [Amir06 §V-A]
const IDLE: [f64; 3] = [0.0, 0.0, 1.0];
const ONE_LOOP: [f64; 3] = [1.0, 0.0, 1.0];
const FOUR_LOOPS: [f64; 3] = [4.0, 0.0, 1.0];
const REAL_TIME: [f64; 3] = [10.0, 1.0, 200.0];
/// The largest relative difference of a measured delay to the paper's.
const ALIKE: f64 = 0.25;

/// Why the delays with normal priority differ from the paper's.
const OTHER_SCHEDULER: &str = "Linux of 2006 gave a process that had used its share nothing until all others \
     had used theirs, 100 ms and more each; the fair schedulers since 2.6.23 (CFS, now EEVDF) let a process \
     that mostly sleeps run within a few ms of its wake-up";
const NO_PRIORITY: &str = "nodes did not get real-time priority on this machine: run as root, or give \
     CAP_SYS_NICE or a `ulimit -r`";

/// The experiment.
pub(super) struct Load;

impl Experiment for Load {
    fn id(&self) -> &'static str {
        "amir06/load"
    }

    fn title(&self) -> &'static str {
        "Forwarding delay of three real nodes on a busy computer"
    }

    fn method(&self, size: Size) -> String {
        format!(
            "As Figure 15, {} packets per stream, while loops of normal priority run on the middle node's \
             processor: none, 1 and 4 beside nodes of normal priority, 10 beside nodes of real-time \
             priority (SCHED_RR). Sender and receiver have real-time priority throughout, so that what is \
             measured is the nodes'. The processor time of an idle node is taken over 2 s before.",
            packets(size)
        )
    }

    fn cells(&self, _: Size) -> Vec<Cell> {
        [IDLE, ONE_LOOP, FOUR_LOOPS, REAL_TIME]
            .map(|at| Cell::at(&place(at)))
            .to_vec()
    }

    fn measure(&self, plan: &Plan, cell: &Cell, _: u64) -> Result<Row, CellError> {
        let probe = Probe {
            program: &plan.program,
            streams: cell.parameter("streams") as u32,
            packets: packets(plan.size),
            realtime: cell.parameter("realtime") == 1.0,
            loops: cell.parameter("loops") as usize,
        };
        let probed = probe.run().map_err(|error| CellError(error.to_string()))?;
        let mut row = Row::of(cell);
        tell(&probed, &mut row);
        Ok(row)
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        Findings {
            charts: vec![chart(rows)],
            verdicts: vec![
                unscheduled(rows),
                Verdict::untested(
                    "eight-seconds",
                    "an experience with the web servers of the time",
                ),
                alike(rows, "one-loop", ONE_LOOP, (74.815, 154.468)),
                alike(rows, "four-loops", FOUR_LOOPS, (298.354, 604.917)),
                real_time(rows),
                negligible(rows),
                idle(rows),
            ],
        }
    }

    fn is_real_time(&self) -> bool {
        true
    }
}

/// Returns the packets per stream.
const fn packets(size: Size) -> u64 {
    match size {
        Size::Quick => 200,
        Size::Full => 20_000,
    }
}

fn place([loops, realtime, streams]: [f64; 3]) -> [(&'static str, f64); 3] {
    [
        ("loops", loops),
        ("realtime", realtime),
        ("streams", streams),
    ]
}

/// Returns the mean and highest delay at one place of the table.
fn delays(rows: &Rows, at: [f64; 3]) -> (f64, f64) {
    let value = |name| rows.value(&place(at), name);
    (value("nodes_mean_ms"), value("nodes_max_ms"))
}

fn said((mean, max): (f64, f64)) -> String {
    format!("average {mean:.3} ms, maximum {max:.3} ms")
}

fn chart(rows: &Rows) -> Chart {
    let (normal, real) = (0.0, 1.0);
    let lines = [
        ("normal, average", normal, "nodes_mean_ms"),
        ("normal, maximum", normal, "nodes_max_ms"),
        ("real time, average", real, "nodes_mean_ms"),
        ("real time, maximum", real, "nodes_max_ms"),
    ];
    let most = rows.0.iter().map(|row| row.value("nodes_max_ms"));
    let most = most.fold(1.0, f64::max);
    let drawn = lines
        .iter()
        .enumerate()
        .map(|(color, (name, priority, value))| Series {
            name: (*name).into(),
            color: color as u8,
            mark: Mark::Dots,
            points: rows.line(&[("realtime", *priority)], "loops", value),
        });
    Chart {
        title: "One-way delay over three nodes".into(),
        x: Axis {
            label: "loops beside the middle node".into(),
            min: 0.0,
            max: 10.0,
        },
        y: Axis {
            label: "delay, ms".into(),
            min: 0.0,
            max: 1.1 * most,
        },
        series: drawn.collect(),
    }
}

fn unscheduled(rows: &Rows) -> Verdict {
    let (_, max) = delays(rows, FOUR_LOOPS);
    let text = format!("{max:.1} ms at most beside 4 loops");
    let verdict = Verdict::of("unscheduled", max >= 200.0, text);
    match max >= 200.0 {
        true => verdict,
        false => verdict.note(OTHER_SCHEDULER),
    }
}

/// Returns a verdict on the paper's average and maximum.
fn alike(rows: &Rows, claim: &'static str, at: [f64; 3], paper: (f64, f64)) -> Verdict {
    let (mean, max) = delays(rows, at);
    let (base, _) = delays(rows, IDLE);
    let near = |ms: f64, paper: f64| (ms - paper).abs() <= ALIKE * paper;
    let text = format!(
        "{}, {:.0} times the average without loops",
        said((mean, max)),
        mean / base
    );
    let holds = near(mean, paper.0) && near(max, paper.1);
    let verdict = Verdict::of(claim, holds, text);
    match holds {
        true => verdict,
        false => verdict.note(OTHER_SCHEDULER),
    }
}

fn has_priority(rows: &Rows) -> bool {
    rows.value(&place(REAL_TIME), "real_time") == 1.0
}

fn real_time(rows: &Rows) -> Verdict {
    if !has_priority(rows) {
        return Verdict::untested("real-time", NO_PRIORITY);
    }
    let (mean, max) = delays(rows, REAL_TIME);
    let verdict = Verdict::of(
        "real-time",
        mean <= 0.315 && max <= 0.469,
        said((mean, max)),
    );
    match (mean <= 0.315, max <= 0.469) {
        (true, true) => verdict,
        (true, false) => verdict.note(
            "the average holds; the slowest single packet waited for a processor that the kernel, or the \
             host of this virtual machine, had taken",
        ),
        _ => verdict.note(
            "one machine carries the clients and all three nodes here, 200 packets every 20 ms on each of \
             five hops; the paper had a computer for each",
        ),
    }
}

fn negligible(rows: &Rows) -> Verdict {
    if !has_priority(rows) {
        return Verdict::untested("negligible", NO_PRIORITY);
    }
    let kernel = rows.value(&place(REAL_TIME), "kernel_mean_ms");
    let (mean, _) = delays(rows, REAL_TIME);
    let text = format!(
        "{:.3} ms on top of the kernel's {kernel:.3} ms, in the mean",
        mean - kernel
    );
    Verdict::of("negligible", mean - kernel < 1.0, text)
}

fn idle(rows: &Rows) -> Verdict {
    let share = rows.value(&place(IDLE), "idle_cpu");
    let text = format!("{:.2} % of a processor: hellos only", 100.0 * share);
    Verdict::of("idle", share < 0.01, text)
}
