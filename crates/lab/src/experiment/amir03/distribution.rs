//! Figure 6: how many packets of a 500 kbit/s stream are later than a limit, at 1 % loss.

use super::path::{HOPS, Joined, Path, run_seed};
use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size, Verdict};
use crate::plot::{Axis, Chart, Mark, Series};
use crate::stats::mean;
use congestion::Family;
use sim::tcp::Settings;

/// The figure.
pub(super) const FIG6: Distribution = Distribution;

const LOSS_PERCENT: f64 = 1.0;
/// The limits, in ms. [Amir03 Fig. 6]
const LIMITS_MS: [u32; 12] = [60, 80, 100, 120, 140, 160, 180, 200, 220, 240, 260, 280];
/// Number of runs of each kind.
const RUNS: u32 = 8;
/// The largest relative difference to the paper's end-to-end shares.
const ALIKE: f64 = 0.2;

/// The experiment.
pub(super) struct Distribution;

impl Experiment for Distribution {
    fn id(&self) -> &'static str {
        "amir03/fig6"
    }

    fn title(&self) -> &'static str {
        "Packets later than a limit, 500 kbit/s and 1 % loss"
    }

    fn method(&self, size: Size) -> String {
        format!(
            "As Figure 3 at {LOSS_PERCENT} %: {RUNS} runs of {} s of TCP end to end and hop by hop, 2 of {} s of production \
             nodes.",
            seconds(size, Joined::EndToEnd),
            seconds(size, Joined::Nodes)
        )
    }

    fn cells(&self, _: Size) -> Vec<Cell> {
        let cell =
            |joined: Joined, run| Cell::at(&[("joined", joined.number()), ("run", f64::from(run))]);
        let all = Joined::ALL.into_iter();
        all.flat_map(|joined| (0..runs(joined)).map(move |run| cell(joined, run)))
            .collect()
    }

    fn measure(&self, plan: &Plan, cell: &Cell, _: u64) -> Result<Row, CellError> {
        let joined = Joined::of(cell);
        let settings = Settings::of_2003(Family::Fack);
        let mut path = Path::equal(HOPS, LOSS_PERCENT, joined, settings);
        path.seconds = seconds(plan.size, joined);
        let delays = path.delays_ms(run_seed(plan.seed, cell.parameter("run") as u32))?;
        let mut row = Row::of(cell);
        row.set("packets", delays.len() as f64);
        row.set("mean_ms", mean(delays.iter().copied()));
        for limit in LIMITS_MS {
            let late = delays.iter().filter(|ms| **ms > f64::from(limit)).count();
            row.set(name(limit), 100.0 * late as f64 / delays.len() as f64);
        }
        Ok(row)
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        let end = |limit| share(rows, Joined::EndToEnd, limit);
        let hop = |limit| share(rows, Joined::HopByHop, limit);
        let node = |limit| share(rows, Joined::Nodes, limit);
        let near = |claim, measured: f64, paper: f64| {
            let holds = (measured / paper - 1.0).abs() <= ALIKE;
            Verdict::of(claim, holds, format!("{measured:.2} %; paper {paper} %"))
        };
        let most = |claim, over: u32, paper: f64, limit: f64| {
            let measured = hop(over);
            let text = format!("{measured:.2} %; paper {paper} %");
            let own = node(over);
            Verdict::of(claim, measured <= limit, text)
                .note(format!("this overlay's reliable links: {own:.2} %"))
        };
        let line = |joined: Joined| -> Vec<(f64, f64)> {
            let points = LIMITS_MS.map(|limit| (f64::from(limit), share(rows, joined, limit)));
            points.to_vec()
        };
        let series = Joined::ALL.iter().enumerate().map(|(n, joined)| Series {
            name: joined.label().into(),
            color: n as u8,
            mark: Mark::Line,
            points: line(*joined),
        });
        Findings {
            charts: vec![Chart {
                title: self.title().into(),
                x: Axis {
                    label: "delay more than, ms".into(),
                    min: 60.0,
                    max: 280.0,
                },
                y: Axis {
                    label: "packets, %".into(),
                    min: 0.0,
                    max: 30.0,
                },
                series: series.collect(),
            }],
            verdicts: vec![
                near("end-60", end(60), 27.0),
                most("hop-60", 60, 3.0, 3.5),
                near("end-100", end(100), 18.0),
                most("hop-100", 100, 1.0, 1.5),
            ],
        }
    }
}

/// Returns the number of runs of each kind. A production node does more for a packet than a simulated TCP.
const fn runs(joined: Joined) -> u32 {
    match joined {
        Joined::EndToEnd | Joined::HopByHop => RUNS,
        Joined::Nodes => 2,
    }
}

/// Returns the seconds of a run.
const fn seconds(size: Size, joined: Joined) -> u64 {
    match (size, joined) {
        (Size::Quick, Joined::Nodes) => 300,
        (Size::Quick, _) => 1_000,
        (Size::Full, _) => 5_000,
    }
}

fn name(limit_ms: u32) -> String {
    format!("over_{limit_ms}_pct")
}

fn share(rows: &Rows, joined: Joined, limit_ms: u32) -> f64 {
    let (name, place) = (name(limit_ms), [("joined", joined.number())]);
    mean(rows.with(&place).map(|row| row.value(&name)))
}
