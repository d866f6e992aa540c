//! Figure 7: the same path with one to ten hops, and the share of late packets.

use super::path::{Joined, PATH_MS, Path, Summary, run_seed};
use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size, Verdict};
use crate::plot::{Axis, Chart, Mark, Series};
use crate::stats::mean;
use congestion::Family;
use sim::tcp::Settings;

/// The figure.
pub(super) const FIG7: Hops = Hops;

const HOPS_MAX: usize = 10;
const LOSSES: [f64; 2] = [1.0, 2.0];
/// Number of runs of a point.
const RUNS: u32 = 3;
/// "Almost all of the benefit": the least share.
const ALMOST_ALL: f64 = 0.85;
/// Marks cells of two hops whose lossy hop has the latency of one hop of five, by this number of hops.
const SHORT_OF_TWO: f64 = 2.5;
/// The latency of that hop.
const SHORT_MS: f64 = 10.0;

/// The experiment.
pub(super) struct Hops;

impl Experiment for Hops {
    fn id(&self) -> &'static str {
        "amir03/fig7"
    }

    fn title(&self) -> &'static str {
        "Packets later than 60 ms, by the number of hops of a path of 50 ms"
    }

    fn method(&self, size: Size) -> String {
        format!(
            "As Figure 3 hop by hop, with 1 to {HOPS_MAX} equal hops of 50 ms together, the middle one with losses; {RUNS} runs \
             of {} s for each point. Beside them two hops of 40 and {SHORT_MS} ms, the short one with losses ({SHORT_OF_TWO} \
             in the table). A hop costs 0.8 ms to send a segment at 10 Mbit/s, so the path without losses grows from 50.8 to \
             58 ms.",
            seconds(size)
        )
    }

    fn cells(&self, _: Size) -> Vec<Cell> {
        let mut hops: Vec<f64> = (1..=HOPS_MAX).map(|hops| hops as f64).collect();
        hops.push(SHORT_OF_TWO);
        let mut cells = Vec::new();
        for loss in LOSSES {
            for hops in &hops {
                for run in 0..RUNS {
                    let place = [("loss", loss), ("hops", *hops), ("run", f64::from(run))];
                    cells.push(Cell::at(&place));
                }
            }
        }
        cells
    }

    fn measure(&self, plan: &Plan, cell: &Cell, _: u64) -> Result<Row, CellError> {
        let (hops, loss) = (cell.parameter("hops"), cell.parameter("loss"));
        let mut path = Path {
            loss_percent: loss,
            ..paper(hops as usize)
        };
        if hops == SHORT_OF_TWO {
            path.hops_ms = vec![PATH_MS - SHORT_MS, SHORT_MS];
        }
        path.seconds = seconds(plan.size);
        let run = cell.parameter("run") as u32;
        let summary = Summary::of(&path.delays_ms(run_seed(plan.seed, run))?);
        let mut row = Row::of(cell);
        row.set("packets", summary.packets);
        row.set("mean_ms", summary.mean_ms);
        row.set("over_60_pct", summary.over_60_pct);
        row.set("over_100_pct", summary.over_100_pct);
        Ok(row)
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        let lines = LOSSES.map(|loss| (loss, line(rows, loss)));
        let series = lines.iter().enumerate().map(|(n, (loss, points))| Series {
            name: format!("{loss} % loss").into(),
            color: n as u8,
            mark: Mark::Line,
            points: points.clone(),
        });
        Findings {
            charts: vec![Chart {
                title: self.title().into(),
                x: Axis {
                    label: "hops".into(),
                    min: 1.0,
                    max: HOPS_MAX as f64,
                },
                y: Axis {
                    label: "packets later than 60 ms, %".into(),
                    min: 0.0,
                    max: 70.0,
                },
                series: series.collect(),
            }],
            verdicts: vec![
                latencies(),
                setup_late(),
                enough(rows),
                lossy_link(rows),
                step("halving", 1, 2),
                step("tenth", 9, 10),
            ],
        }
    }
}

/// Returns the seconds of a run.
const fn seconds(size: Size) -> u64 {
    match size {
        Size::Quick => 500,
        Size::Full => 5_000,
    }
}

fn late(rows: &Rows, loss: f64, hops: f64, value: &str) -> f64 {
    let place = [("loss", loss), ("hops", hops)];
    mean(rows.with(&place).map(|row| row.value(value)))
}

fn line(rows: &Rows, loss: f64) -> Vec<(f64, f64)> {
    let at = |hops: f64| (hops, late(rows, loss, hops, "over_60_pct"));
    (1..=HOPS_MAX).map(|hops| at(hops as f64)).collect()
}

/// Returns equal hops without losses.
fn paper(hops: usize) -> Path {
    Path::equal(hops, 0.0, Joined::HopByHop, Settings::of_2003(Family::Fack))
}

fn latencies() -> Verdict {
    let each = |hops: usize| paper(hops).hops_ms.first().copied().unwrap_or(f64::NAN);
    let parameters = [
        ("ms of one hop", each(1), 50.0),
        ("of two each", each(2), 25.0),
        ("of three each", each(3), 50.0 / 3.0),
        ("of ten each", each(10), 5.0),
        ("hops at most", HOPS_MAX as f64, 10.0),
    ];
    Verdict::setup("setup-latency", &parameters)
}

fn setup_late() -> Verdict {
    // Find the smallest delay in whole milliseconds that counts as late.
    let first_late = |ms: &f64| Summary::of(&[*ms]).over_60_pct > 0.0;
    let limit = (0..200).map(f64::from).find(first_late);
    let parameters = [
        ("ms are in time", limit.unwrap_or(f64::NAN) - 1.0, 60.0),
        ("kbit/s", paper(1).rate_bps as f64 / 1e3, 500.0),
        ("loss rates", LOSSES.len() as f64, 2.0),
        ("% the lower", LOSSES[0], 1.0),
        ("% the higher", LOSSES[1], 2.0),
    ];
    Verdict::setup("setup-late", &parameters)
}

fn enough(rows: &Rows) -> Verdict {
    let mut holds = true;
    let said = LOSSES.map(|loss| {
        let at = |hops| late(rows, loss, hops, "over_60_pct");
        let (one, two, four, ten) = (at(1.0), at(2.0), at(4.0), at(10.0));
        let most = (2..=HOPS_MAX).map(|hops| at(hops as f64)).fold(ten, f64::min);
        let share = |hops: f64| (one - hops) / (one - most);
        holds &= share(four) >= ALMOST_ALL;
        format!(
            "{loss} %: 1 hop {one:.1} %, 2 {two:.1} %, 4 {four:.1} %, 10 {ten:.1} %; of the benefit two hops have {:.0} %, \
             four {:.0} %",
            100.0 * share(two),
            100.0 * share(four)
        )
    });
    Verdict::of("enough", holds, said.join("; "))
}

fn lossy_link(rows: &Rows) -> Verdict {
    let mut holds = true;
    let said = LOSSES.map(|loss| {
        let at = |hops: f64| late(rows, loss, hops, "over_60_pct");
        let (two, five, short) = (at(2.0), at(5.0), at(SHORT_OF_TWO));
        holds &= (short - five).abs() < (short - two).abs();
        format!(
            "{loss} %: later than 60 ms {two:.2} % with 25 + 25 ms, {short:.2} % with 40 + {SHORT_MS} ms, {five:.2} % with five \
             of 10 ms"
        )
    });
    Verdict::of("latency", holds, said.join("; "))
}

fn step(claim: &'static str, from: u32, to: u32) -> Verdict {
    let less = PATH_MS / f64::from(from) - PATH_MS / f64::from(to);
    let text = format!("{less:.2} ms, {:.1} % of the path", 100.0 * less / PATH_MS);
    Verdict::by_construction(claim, text).note("arithmetic")
}
