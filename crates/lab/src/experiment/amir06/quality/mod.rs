//! Figures 1, 2, 9 and 10: the quality of calls, directly and over the overlay. [Amir06 §II-C, §IV-A]
//!
//! ```text
//!   speech ─ G.711 ─▶ packets ─▶ the path: 50 ms, directly or by five links ─▶ what came within
//!      │                          of 10 ms of which the middle one loses        100 ms
//!      ▼                                                                          │
//!   P.862, raw, by intervals of 12 s ◀─ concealment (G.711 Appendix I), G.711 ◀───┘
//! ```
//!
//! A figure's *quality line* is the mean of the direct path at 1 % independent loss in the same run, which is where the
//! paper's own curve crosses the 4.0 that it calls PSTN quality. The paper does not name its speech recording, and raw
//! scores at equal losses differ between recordings by more than the differences in its claims, so 4.0 itself is no
//! measure here.

mod measure;
mod verdicts;

use super::chain::{BURSTS, LINK_MS, Loss, STREAMS};
use super::speech;
use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size};
use crate::plot::{Axis, Chart, Mark, Series};

/// Figure 1: the direct path, on average.
pub(in super::super) const FIG1: Quality = Quality {
    id: "amir06/fig1",
    title: "Quality over a lossy path, on average",
    statistic: Statistic::Mean,
    overlay: false,
};
/// Figure 2: the direct path, for the most affected.
pub(in super::super) const FIG2: Quality = Quality {
    id: "amir06/fig2",
    title: "Quality over a lossy path, of the worst 5 %",
    statistic: Statistic::Fifth,
    overlay: false,
};
/// Figure 9: five links with recovery, on average.
pub(in super::super) const FIG9: Quality = Quality {
    id: "amir06/fig9",
    title: "Quality over five links with recovery, on average",
    statistic: Statistic::Mean,
    overlay: true,
};
/// Figure 10: five links with recovery, for the most affected.
pub(in super::super) const FIG10: Quality = Quality {
    id: "amir06/fig10",
    title: "Quality over five links with recovery, of the worst 5 %",
    statistic: Statistic::Fifth,
    overlay: true,
};

/// Delay of the whole path. [Amir06 §II-C]
const PATH_MS: u32 = 50;
/// Rate of the path.
const PATH_MBPS: u32 = 10;
/// Number of links of the overlay; the middle one has losses. [Amir06 Fig. 8]
const LINKS: usize = (PATH_MS / LINK_MS) as usize;
/// The codec's threshold. [Amir06 §IV-A]
const DEADLINE_MS: u32 = 100;
/// Factor for the number of calls at the point of the quality line, since all other points are compared with it.
const LINE_CALLS: u32 = 3;
/// The quality line's loss.
const LINE: Loss = Loss {
    percent: 1.0,
    burst_percent: 0.0,
};
/// Loss and burstiness of the Internet of 2003, in percent. [Amir06 §II-C]
const INTERNET: Loss = Loss {
    percent: 0.42,
    burst_percent: 72.0,
};

/// The path of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    /// By UDP.
    Direct,
    /// Over the overlay with the paper's recovery.
    Paper,
    /// Over the overlay with the default recovery.
    Default,
}

/// Number of calls of each run over the overlay that are scored; the others only share the links.
const SCORED: u32 = 2;

/// Returns the runs per point. [Amir06 §II-C]: each experiment 20 times.
fn runs(size: Size) -> u32 {
    match size {
        Size::Quick => 5,
        Size::Full => 20,
    }
}

/// Returns the calls per point.
fn calls(size: Size) -> u32 {
    SCORED * runs(size)
}

/// The statistic of the scores of all intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Statistic {
    Mean,
    /// The 5th percentile.
    Fifth,
}

/// One of the four figures.
pub(in super::super) struct Quality {
    id: &'static str,
    title: &'static str,
    statistic: Statistic,
    overlay: bool,
}

impl Path {
    const ALL: [Path; 3] = [Path::Direct, Path::Paper, Path::Default];

    fn word(self) -> &'static str {
        match self {
            Path::Direct => "direct",
            Path::Paper => "paper",
            Path::Default => "default",
        }
    }

    fn code(self) -> f64 {
        match self {
            Path::Direct => 0.0,
            Path::Paper => 1.0,
            Path::Default => 2.0,
        }
    }

    fn of(cell: &Cell) -> Path {
        let code = cell.parameter("path");
        let found = Path::ALL.into_iter().find(|path| path.code() == code);
        found.expect("the experiment made this cell")
    }
}

impl Statistic {
    /// Returns the name of its value in a row; the name of its standard error ends in `_error`.
    fn name(self) -> &'static str {
        match self {
            Statistic::Mean => "mean",
            Statistic::Fifth => "p5",
        }
    }
}

impl Experiment for Quality {
    fn id(&self) -> &'static str {
        self.id
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn method(&self, size: Size) -> String {
        let path = match self.overlay {
            false => format!(
                "Each call has a path of its own of {PATH_MS} ms and 10 Mbit/s that loses packets."
            ),
            true => format!(
                "{STREAMS} calls go in parallel over {LINKS} links of {LINK_MS} ms, the third of \
                 which loses packets in both directions, {SCORED} of them scored: production nodes in the simulator, with the \
                 paper's timers and recovery, and again with the defaults. Beside them calls by UDP \
                 over a path of {PATH_MS} ms with the same loss."
            ),
        };
        format!(
            "{} calls of {} s per point ({} at the quality line). {path} Speech goes \
             through G.711; what has not come after {DEADLINE_MS} ms is concealed as G.711 Appendix I \
             says; intervals of 12 s are scored by P.862, raw. The quality line is the direct path's \
             mean at {} % independent loss in this run.",
            calls(size),
            speech::seconds(size),
            LINE_CALLS * calls(size),
            LINE.percent,
        )
    }

    fn cells(&self, size: Size) -> Vec<Cell> {
        let mut cells = vec![cell(Path::Direct, LINE)];
        for path in Path::ALL {
            for percent in self.losses(path, size) {
                for burst_percent in self.bursts(path, size) {
                    let loss = Loss {
                        percent: *percent,
                        burst_percent: *burst_percent,
                    };
                    if path != Path::Direct || loss != LINE {
                        cells.push(cell(path, loss));
                    }
                }
            }
        }
        if !self.overlay {
            cells.push(cell(Path::Direct, INTERNET));
        }
        cells
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        measure::point(plan, cell, seed)
    }

    fn conclude(&self, plan: &Plan, rows: &Rows) -> Findings {
        let line = rows.value(&coordinates(Path::Direct, LINE), "mean");
        let paths: &[Path] = match self.overlay {
            true => &[Path::Paper, Path::Direct, Path::Default],
            false => &[Path::Direct],
        };
        Findings {
            charts: paths
                .iter()
                .map(|path| self.chart(*path, rows, line))
                .collect(),
            verdicts: verdicts::all(self, plan, rows),
        }
    }
}

impl Quality {
    /// Returns the grid in percent of loss.
    fn losses(&self, path: Path, size: Size) -> &'static [f64] {
        let fifth = self.statistic == Statistic::Fifth;
        match (self.overlay, path, size) {
            (false, Path::Direct, Size::Quick) => &[0.5, 1.0, 2.0, 3.5, 5.0, 7.0, 10.0],
            (false, Path::Direct, Size::Full) => &[
                0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0,
            ],
            (false, ..) => &[],
            (true, Path::Direct, Size::Quick) if fifth => &[1.0, 3.5],
            (true, Path::Direct, Size::Quick) => &[1.0, 3.5, 5.0, 7.0, 10.0],
            (true, Path::Paper, Size::Quick) => &[1.0, 3.5, 5.0, 7.0, 10.0],
            (true, Path::Direct | Path::Paper, Size::Full) => {
                &[0.5, 1.0, 2.0, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]
            }
            (true, Path::Default, Size::Quick) if fifth => &[5.0, 8.0, 12.0],
            (true, Path::Default, Size::Quick) => &[10.0, 15.0, 20.0],
            (true, Path::Default, Size::Full) => &[
                2.0, 3.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0, 15.0, 18.0, 20.0,
            ],
        }
    }

    /// Returns the grid in percent of burstiness. The quick run has only the two ends for paths that the paper's
    /// sentences do not mention.
    fn bursts(&self, path: Path, size: Size) -> &'static [f64] {
        match (self.overlay, path, size) {
            (true, Path::Direct | Path::Default, Size::Quick) => &[BURSTS[0], BURSTS[3]],
            _ => &BURSTS,
        }
    }

    fn chart(&self, path: Path, rows: &Rows, line: f64) -> Chart {
        let x_max = if path == Path::Default { 20.0 } else { 10.0 };
        let measured = |(i, burst): (usize, &f64)| Series {
            name: format!("{burst} % burstiness").into(),
            color: i as u8,
            mark: Mark::Line,
            points: rows.line(
                &[("path", path.code()), ("burst", *burst)],
                "loss",
                self.statistic.name(),
            ),
        };
        let error = |(i, burst): (usize, &f64)| Series {
            name: "".into(),
            color: i as u8,
            mark: Mark::Bars,
            points: rows.bars(
                &[("path", path.code()), ("burst", *burst)],
                "loss",
                self.statistic.name(),
                &format!("{}_error", self.statistic.name()),
            ),
        };
        let mut series: Vec<Series> = BURSTS.iter().enumerate().map(measured).collect();
        series.extend(BURSTS.iter().enumerate().map(error));
        series.push(Series {
            name: "quality line".into(),
            color: 4,
            mark: Mark::Line,
            points: vec![(0.0, line), (x_max, line)],
        });
        let what = match path {
            Path::Direct => "directly",
            Path::Paper => "with the paper's recovery",
            Path::Default => "with the default recovery",
        };
        let statistic = match self.statistic {
            Statistic::Mean => "mean",
            Statistic::Fifth => "5th percentile",
        };
        Chart {
            title: format!("Raw P.862 {what}, {statistic} of 12 s intervals").into(),
            x: Axis {
                label: "loss, %".into(),
                min: 0.0,
                max: x_max,
            },
            y: Axis {
                label: "raw P.862".into(),
                min: 1.0,
                max: 4.5,
            },
            series,
        }
    }
}

fn coordinates(path: Path, loss: Loss) -> [(&'static str, f64); 3] {
    [
        ("path", path.code()),
        ("loss", loss.percent),
        ("burst", loss.burst_percent),
    ]
}

fn cell(path: Path, loss: Loss) -> Cell {
    Cell {
        key: format!(
            "{} loss={} burst={}",
            path.word(),
            loss.percent,
            loss.burst_percent
        ),
        parameters: coordinates(path, loss).to_vec(),
        words: Vec::new(),
    }
}
