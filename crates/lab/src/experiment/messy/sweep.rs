//! A sweep: cases with one kind of fault as an experiment.

use super::bars::{Bar, Reached};
use super::measure::{self, CARRIERS};
use super::scene::{DEADLINE_MS, Scene};
use crate::experiment::{
    Cell, CellError, ClaimText, Experiment, Findings, Plan, Row, Rows, Size, Verdict,
};
use crate::plot::{Axis, Chart, Mark, Series};
use crate::stats::most;

/// Cases with one kind of fault.
pub(super) struct Sweep {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) lives: Lives,
    pub(super) cases: &'static [Case],
}

/// How scenes are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lives {
    /// In the simulator.
    InVirtualTime,
    /// By real nodes on this machine.
    InEarnest,
}

/// A sentence about some scenes, and the goals for the defaults in each of them.
pub(super) struct Case {
    pub(super) claim: ClaimText,
    pub(super) bars: &'static [Bar],
    pub(super) scenes: fn(Size) -> Vec<Scene>,
}

/// A scene of a case, as a cell of the grid.
struct Point {
    case: usize,
    scene: Scene,
    cell: Cell,
}

impl Sweep {
    fn points(&self, size: Size) -> Vec<Point> {
        let mut points = Vec::new();
        for (case, of) in self.cases.iter().enumerate() {
            for scene in (of.scenes)(size) {
                let coordinates = scene.at.iter().map(|(name, at)| format!(" {name}={at}"));
                let key = of.claim.key.to_owned() + &coordinates.collect::<String>();
                let parameters = [("case", case as f64)].into_iter();
                let cell = Cell {
                    key,
                    parameters: parameters.chain(scene.at.iter().copied()).collect(),
                    words: Vec::new(),
                };
                points.push(Point { case, scene, cell });
            }
        }
        points
    }
}

impl Sweep {
    /// Returns the number of runs of each scene.
    const fn seeds(&self, size: Size) -> u32 {
        match (self.lives, size) {
            (Lives::InEarnest, _) => 1,
            (Lives::InVirtualTime, Size::Quick) => 5,
            (Lives::InVirtualTime, Size::Full) => 10,
        }
    }
}

impl Experiment for Sweep {
    fn id(&self) -> &'static str {
        self.id
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn method(&self, size: Size) -> String {
        format!(
            "{} with the defaults and with the paper's profile, and plain UDP over a path with the delay, \
             jitter, rate and joint loss of the first way, which suffers that way's outages and the stalls of both ends at the same moments; losses \
             are drawn for each apart. A packet of 160 bytes every 20 ms, late after {DEADLINE_MS} ms; missed is lost or late. {} runs of each scene with \
             seeds of their own, which also decide when in its period a trouble begins; silence is the longest of all runs, everything else the mean. \
             Verdicts are on the defaults. What differs from UDP by less than two standard errors of the runs' differences is not held against \
             the overlay. The scenarios of the first run lie beside the numbers.",
            match self.lives {
                Lives::InVirtualTime => "Production nodes in the simulator",
                Lives::InEarnest => "Node processes on this machine, links emulated in them,",
            },
            self.seeds(size)
        )
    }

    fn cells(&self, size: Size) -> Vec<Cell> {
        let points = self.points(size).into_iter();
        points.map(|point| point.cell).collect()
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let points = self.points(plan.size);
        let point = points.iter().find(|point| point.cell.key == cell.key);
        let scene = &point.expect("the experiment made this cell").scene;
        let live: measure::Live<'_> = match self.lives {
            Lives::InVirtualTime => &measure::simulated,
            Lives::InEarnest => {
                &|scene, profile, seed| measure::in_earnest(&plan.program, scene, profile, seed)
            }
        };
        measure::measure(cell, scene, self.seeds(plan.size), seed, live)
    }

    fn conclude(&self, plan: &Plan, rows: &Rows) -> Findings {
        let points = self.points(plan.size);
        let verdict = |(n, case): (usize, &Case)| {
            let of = points
                .iter()
                .zip(&rows.0)
                .filter(|(point, _)| point.case == n);
            case.verdict(&of.collect::<Vec<_>>())
        };
        Findings {
            charts: vec![chart(self.title, rows)],
            verdicts: self.cases.iter().enumerate().map(verdict).collect(),
        }
    }

    fn table(&self, rows: &Rows) -> Vec<Vec<String>> {
        table(rows)
    }

    fn is_real_time(&self) -> bool {
        self.lives == Lives::InEarnest
    }

    fn files(&self, plan: &Plan) -> Vec<(String, String)> {
        let file = |point: &Point| {
            let seed = point.cell.seed(self.id, plan.seed);
            let name = point.cell.key.replace([' ', '='], "-");
            let seals = self.lives == Lives::InEarnest;
            let text = point.scene.text(&name, "modern", seed, seals);
            (format!("{name}.toml"), text)
        };
        self.points(plan.size).iter().map(file).collect()
    }
}

impl Case {
    fn verdict(&self, scenes: &[(&Point, &Row)]) -> Verdict {
        let judged: Vec<(&Point, &Row, Vec<Reached>)> = scenes
            .iter()
            .map(|(point, row)| {
                let bars = self.bars.iter().map(|bar| bar.judge(&point.scene, row));
                (*point, *row, bars.collect())
            })
            .collect();
        let excess = |bars: &[Reached]| most(bars.iter().map(|bar| bar.excess));
        let reaches = |bars: &[Reached]| bars.iter().all(|bar| bar.holds);
        let held = judged.iter().filter(|(.., bars)| reaches(bars)).count();
        let worst = judged
            .iter()
            .max_by(|a, b| excess(&a.2).total_cmp(&excess(&b.2)));
        let Some((point, row, bars)) = worst else {
            return Verdict::untested(self.claim.key, "no scene");
        };
        let texts: Vec<&str> = bars.iter().map(|bar| bar.text.as_str()).collect();
        let head = match judged.len() {
            1 => String::new(),
            all => format!("{held} of {all} scenes; the worst is {}: ", point.cell.key),
        };
        let beside: Vec<String> = [CARRIERS[0], CARRIERS[2]]
            .iter()
            .map(|carrier| {
                let value = |name: &str| row.value(&format!("{carrier} {name}"));
                format!(
                    "{carrier} missed {:.2} %, silence {:.0} ms",
                    value("missed %"),
                    value("silence ms most")
                )
            })
            .collect();
        let text = format!("{head}{}; {}", texts.join(", "), beside.join("; "));
        let failed: Vec<&str> = judged
            .iter()
            .filter(|(.., bars)| !reaches(bars))
            .map(|(point, ..)| point.cell.key.as_str())
            .collect();
        let verdict = Verdict::of(self.claim.key, held == judged.len(), text);
        match judged.len() {
            1 => verdict,
            _ => verdict.because(format!("missed by {}", failed.join(", "))),
        }
    }
}

/// Returns a line for each scene and carrier.
fn table(rows: &Rows) -> Vec<Vec<String>> {
    let head = [
        "scene",
        "carrier",
        "lost %",
        "late %",
        "silence ms",
        "beside %",
        "routes",
        "good",
        "told",
    ];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    for row in &rows.0 {
        for (n, carrier) in CARRIERS.iter().enumerate() {
            let value = |name: &str| row.value(&format!("{carrier} {name}"));
            let scene = if n == 0 { row.cell.as_str() } else { "" };
            table.push(vec![
                scene.to_owned(),
                (*carrier).to_owned(),
                format!("{:.2}", value("lost %")),
                format!("{:.2}", value("late %")),
                format!("{:.0}", value("silence ms most")),
                format!("{:.3}", value("outside %")),
                format!("{:.0}", value("route changes")),
                format!("{:.0}", value("good calls least")),
                format!("{:.0}", value("refused calls least")),
            ]);
        }
    }
    table
}

fn chart(title: &'static str, rows: &Rows) -> Chart {
    let missed = |carrier: &str| -> Vec<(f64, f64)> {
        let name = format!("{carrier} missed %");
        let values = rows.0.iter().map(|row| row.value(&name)).enumerate();
        values.map(|(n, value)| ((n + 1) as f64, value)).collect()
    };
    let all = CARRIERS.map(missed);
    let most = all.iter().flatten().map(|(_, y)| *y).fold(1.0, f64::max);
    let series = CARRIERS.iter().zip(all).enumerate();
    let series = series.map(|(n, (carrier, points))| Series {
        name: (*carrier).into(),
        color: n as u8,
        mark: Mark::Dots,
        points,
    });
    Chart {
        title: title.into(),
        x: Axis {
            label: "scene, in the table's order".into(),
            min: 0.0,
            max: (rows.0.len() + 1) as f64,
        },
        y: Axis {
            label: "missed, %".into(),
            min: 0.0,
            max: most,
        },
        series: series.collect(),
    }
}
