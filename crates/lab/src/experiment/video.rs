//! Video at broadcast rates: the packets that arrive after three lossy hops within the deadline, in order, and the
//! effect on another flow.
//!
//! ```text
//!   a ── lossy ── b ── lossy ── c ── lossy ── d ◀── clean ── e      a ▶ d: the video, to a group
//!                               └── lossy ── f                     a ▶ f: its other member
//!                                                                  e ▶ d: the bystander
//! ```
//!
//! The nodes are production nodes in the simulator, with as many packet buffers as a real node has. The round trip is
//! that of the path from `a` to `d`; the deadline is 2.5 round trips plus 100 ms.

use super::{
    Cell, CellError, ClaimText, Experiment, Findings, Plan, Row, Rows, Size, Verdict, claim,
};
use crate::plot::{Axis, Chart, Mark, Series};
use crate::scenario::{Scenario, Simulation};
use base::Duration;

/// The experiments.
pub(super) const EXPERIMENTS: &[&dyn Experiment] = &[&REPAIR];

const REPAIR: Repair = Repair;
const ID: &str = "video/repair";
const SOURCE: &str = "live video";
/// Bytes of a packet: seven packets of MPEG-TS.
const BYTES: u32 = 1_316;
/// Loss of each hop, in percent, in both directions.
const LOSS_PCT: f64 = 2.0;
/// Length of an outage of the middle link, and the interval of outages.
const OUTAGE_MS: u64 = 250;
const OUTAGE_EVERY_MS: u64 = 20_000;
/// The deadline in cells with outages, and their round trip.
const OUTAGE_DEADLINE_MS: u64 = 500;
const OUTAGE_RTT_MS: u64 = 60;

/// The promises.
pub(super) const CLAIMS: &[ClaimText] = &[
    claim(
        ID,
        "independent",
        SOURCE,
        "2 % loss on each of three hops, each packet by itself, at every round trip and rate",
        "missed at most 0.001 %, the bystander nothing",
    ),
    claim(
        ID,
        "bursts",
        SOURCE,
        "2 % loss on each of three hops, in bursts of 50 %, at every round trip and rate",
        "missed at most 0.01 %, the bystander nothing",
    ),
    claim(
        ID,
        "outage",
        SOURCE,
        "the middle link is out for 250 ms every 20 s, at every rate",
        "missed no more than what was sent during outages, the bystander nothing",
    ),
];

struct Repair;

impl Repair {
    fn seconds(size: Size) -> u64 {
        match size {
            Size::Quick => 20,
            Size::Full => 60,
        }
    }
}

/// Returns the scenario of a cell.
fn scenario(cell: &Cell, size: Size) -> String {
    let (pps, rtt_ms) = (cell.parameter("pps"), cell.parameter("rtt ms"));
    let (burst, outage_ms) = (cell.parameter("burst %"), cell.parameter("outage ms"));
    let is_outage = outage_ms > 0.0;
    let loss = match (is_outage, burst > 0.0) {
        (true, _) => String::new(),
        (_, true) => format!(" loss={LOSS_PCT}% burst={burst}%"),
        (_, false) => format!(" loss={LOSS_PCT}%"),
    };
    let path = format!("delay={}us{loss}", (rtt_ms * 1_000.0 / 6.0) as u64);
    let deadline_ms = match is_outage {
        true => OUTAGE_DEADLINE_MS,
        false => (rtt_ms * 2.5) as u64 + 100,
    };
    let seconds = Repair::seconds(size);
    let mut text = format!(
        "[scenario]\nname = \"video\"\nduration = \"{seconds}s\"\nsettle = \"10s\"\nsealing = false\n"
    );
    for node in ["a", "b", "c", "d", "e", "f"] {
        text += &format!("[[node]]\nname = \"{node}\"\n");
    }
    for (a, b) in [("a", "b"), ("b", "c"), ("c", "d"), ("c", "f")] {
        text += &format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\npath = \"{path}\"\n");
    }
    text += "[[link]]\na = \"d\"\nb = \"e\"\npath = \"delay=5ms\"\n";
    let flow = |from: &str, also: &str, pps: f64| {
        let kbit = pps * f64::from(BYTES) * 8.0 / 1_000.0;
        format!(
            "[[flow]]\nname = \"{from}\"\nfrom = \"{from}\"\nto = \"d\"\n{also}pattern = \"cbr\"\nrate = \"{kbit}kbit\"\n\
             packet = {BYTES}\ndeadline = \"{deadline_ms}ms\"\ndelivery = \"in-order\"\n"
        )
    };
    text += &flow("a", "also = [\"f\"]\n", pps);
    text += &flow("e", "", 125.0);
    if is_outage {
        for (kind, at_ms) in [("link-down", 5_000), ("link-up", 5_000 + OUTAGE_MS)] {
            text += &format!(
                "[[fault]]\nat = \"{at_ms}ms\"\nevery = \"{OUTAGE_EVERY_MS}ms\"\nkind = \"{kind}\"\na = \"b\"\nb = \"c\"\n"
            );
        }
    }
    text
}

/// Returns the number of packets sent during the outages of a run, for both members.
fn outages_own(row: &Row, size: Size) -> f64 {
    let count = (Repair::seconds(size) * 1_000)
        .saturating_sub(5_000)
        .div_ceil(OUTAGE_EVERY_MS);
    2.0 * row.parameter("pps") * OUTAGE_MS as f64 / 1_000.0 * count as f64
}

impl Experiment for Repair {
    fn id(&self) -> &'static str {
        ID
    }

    fn title(&self) -> &'static str {
        "Video over long lossy hops: what is repaired within the deadline"
    }

    fn method(&self, size: Size) -> String {
        format!(
            "Production nodes in the simulator with the packet buffers of a real node, {} s of packets of {BYTES} bytes from a to a group \
             with two members behind three hops, in order, and a bystander of 125 packets/s that ends at one of the members. The \
             deadline is 2.5 round trips of the path and 100 ms; with outages it is {OUTAGE_DEADLINE_MS} ms. Missed is lost or late. \
             A bar of 0.001 % of few packets is none at all. Clients read at once: what a full client socket drops does not show here.",
            Repair::seconds(size)
        )
    }

    fn cells(&self, size: Size) -> Vec<Cell> {
        let rates: &[f64] = match size {
            Size::Quick => &[1_000.0, 5_000.0],
            Size::Full => &[1_000.0, 2_500.0, 5_000.0, 10_000.0],
        };
        let cell = |rtt: f64, burst: f64, pps: f64, outage: f64| {
            let at = [
                ("rtt ms", rtt),
                ("burst %", burst),
                ("pps", pps),
                ("outage ms", outage),
            ];
            let key = format!("rtt={rtt} burst={burst} pps={pps} outage={outage}");
            Cell {
                key,
                parameters: at.to_vec(),
                words: Vec::new(),
            }
        };
        let mut cells = Vec::new();
        for pps in rates {
            for burst in [0.0, 50.0] {
                cells.extend([20.0, 100.0, 200.0].map(|rtt| cell(rtt, burst, *pps, 0.0)));
            }
            cells.push(cell(OUTAGE_RTT_MS as f64, 0.0, *pps, OUTAGE_MS as f64));
        }
        cells
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let text = scenario(cell, plan.size);
        let scenario =
            Scenario::parse("video", &text).map_err(|error| CellError(error.to_string()))?;
        let mut simulation = Simulation::new(&scenario, seed);
        simulation.give_buffers_of_nodes();
        while simulation.run_for(Duration::from_secs(3_600)) {}
        let report = simulation.finish();
        let mut row = Row::of(cell);
        for (flow, name) in report.flows.iter().zip(["video", "beside"]) {
            let packets = &flow.packets;
            let missed = packets.lost + packets.late;
            row.set(format!("{name} sent"), packets.sent as f64);
            row.set(format!("{name} missed"), missed as f64);
            row.set(format!("{name} lost"), packets.lost as f64);
            row.set(
                format!("{name} missed %"),
                packets.lost_pct + packets.late_pct,
            );
            for (quantile, ms) in [("p50", packets.delay_ms.p50), ("p99", packets.delay_ms.p99)] {
                row.set(format!("{name} {quantile} ms"), ms.unwrap_or(f64::NAN));
            }
            row.set(format!("{name} reordered"), packets.reordered as f64);
        }
        let again = report.overlay.retransmitted_bytes as f64;
        row.set(
            "again %",
            100.0 * again / report.overlay.payload_bytes.max(1) as f64,
        );
        Ok(row)
    }

    fn conclude(&self, plan: &Plan, rows: &Rows) -> Findings {
        let of = |burst: f64, is_outage: bool| -> Vec<&Row> {
            let is_one = move |row: &&Row| {
                (row.parameter("outage ms") > 0.0) == is_outage && row.parameter("burst %") == burst
            };
            rows.0.iter().filter(is_one).collect()
        };
        let own = |row: &Row| 100.0 * outages_own(row, plan.size) / row.value("video sent");
        Findings {
            charts: vec![chart(rows)],
            verdicts: vec![
                verdict("independent", &of(0.0, false), |_| 0.001),
                verdict("bursts", &of(50.0, false), |_| 0.01),
                verdict("outage", &of(0.0, true), own),
            ],
        }
    }

    fn table(&self, rows: &Rows) -> Vec<Vec<String>> {
        let head = [
            "cell",
            "sent",
            "missed",
            "missed %",
            "p50 ms",
            "p99 ms",
            "again %",
            "beside missed",
        ];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        for row in &rows.0 {
            let line = [
                row.cell.clone(),
                format!("{:.0}", row.value("video sent")),
                format!("{:.0}", row.value("video missed")),
                format!("{:.4}", row.value("video missed %")),
                format!("{:.1}", row.value("video p50 ms")),
                format!("{:.1}", row.value("video p99 ms")),
                format!("{:.1}", row.value("again %")),
                format!("{:.0}", row.value("beside missed")),
            ];
            table.push(line.to_vec());
        }
        table
    }

    fn files(&self, plan: &Plan) -> Vec<(String, String)> {
        let file = |cell: Cell| {
            let name = cell.key.replace([' ', '='], "-");
            (format!("{name}.toml"), scenario(&cell, plan.size))
        };
        self.cells(plan.size).into_iter().map(file).collect()
    }
}

/// Returns a verdict on whether all rows stay within their limit in percent, and the bystander missed nothing.
fn verdict(key: &'static str, rows: &[&Row], limit_pct: impl Fn(&Row) -> f64) -> Verdict {
    let holds = |row: &&&Row| {
        row.value("video missed %") <= limit_pct(row) && row.value("beside missed") == 0.0
    };
    let good = rows.iter().filter(holds).count();
    let excess = |row: &Row| row.value("video missed %") / limit_pct(row);
    let worst = rows.iter().max_by(|a, b| excess(a).total_cmp(&excess(b)));
    let Some(worst) = worst else {
        return Verdict::untested(key, "no cell");
    };
    let text = format!(
        "{good} of {} cells; the worst is {}: missed {:.0} of {:.0}, {:.4} % (at most {:.4}); beside missed {:.0} in all",
        rows.len(),
        worst.cell,
        worst.value("video missed"),
        worst.value("video sent"),
        worst.value("video missed %"),
        limit_pct(worst),
        rows.iter()
            .map(|row| row.value("beside missed"))
            .sum::<f64>(),
    );
    let missed: Vec<&str> = rows
        .iter()
        .filter(|row| !holds(row))
        .map(|row| row.cell.as_str())
        .collect();
    Verdict::of(key, good == rows.len(), text).because(format!("missed by {}", missed.join(", ")))
}

fn chart(rows: &Rows) -> Chart {
    let points: Vec<(f64, f64)> = rows
        .0
        .iter()
        .enumerate()
        .map(|(n, row)| ((n + 1) as f64, row.value("video missed %")))
        .collect();
    let most = points.iter().map(|(_, y)| *y).fold(0.01, f64::max);
    Chart {
        title: "Missed".into(),
        x: Axis {
            label: "cell, in the table's order".into(),
            min: 0.0,
            max: (rows.0.len() + 1) as f64,
        },
        y: Axis {
            label: "missed, %".into(),
            min: 0.0,
            max: most,
        },
        series: vec![Series {
            name: "video".into(),
            color: 0,
            mark: Mark::Dots,
            points,
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(missed: f64, beside: f64) -> Row {
        let mut row = Row::default();
        row.set("video sent", 100_000.0);
        row.set("video missed", missed);
        row.set("video missed %", missed / 1_000.0);
        row.set("beside missed", beside);
        row
    }

    #[test]
    fn a_verdict_fails_for_a_packet_too_many_and_for_the_bystanders() {
        let judge = |missed, beside| {
            let row = row(missed, beside);
            verdict("independent", &[&row], |_| 0.001).holds
        };
        assert_eq!(judge(1.0, 0.0), Some(true));
        assert_eq!(judge(2.0, 0.0), Some(false));
        assert_eq!(judge(0.0, 1.0), Some(false));
    }

    #[test]
    fn every_cell_is_a_scenario() {
        for size in [Size::Quick, Size::Full] {
            for cell in REPAIR.cells(size) {
                let text = scenario(&cell, size);
                let scenario = Scenario::parse("video", &text);
                assert!(
                    scenario.is_ok(),
                    "{}: {:?}\n{text}",
                    cell.key,
                    scenario.err()
                );
            }
        }
    }
}
