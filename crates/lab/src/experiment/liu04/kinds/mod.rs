//! Kinds of links as users have them, and on each the prediction of `sinew cp`, its rate and its effect on other
//! traffic, compared with all its possible placements.
//!
//! ```text
//!   kind × congestion control ─▶ trial: placements, then sinew cp --probe ─▶ verdicts
//!                                       └──── pings over each link ─────┘
//! ```

mod kind;
mod others;
mod trial;
mod verdicts;

use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size};
use crate::plot::{Axis, Chart, Mark, Series};
use kind::{KINDS, STRIPES};
use std::time::Duration;
use trial::Trial;

/// The experiment.
pub(super) const EXPERIMENT: Kinds = Kinds;

/// The kernel's congestion controls, in the order of the cells' numbers.
const CONTROLS: [&str; 2] = ["cubic", "bbr"];
/// The kinds of quick runs: one without loss, one with, and one where the shortest path is the worst.
const QUICK: [usize; 3] = [0, 1, 4];

/// Value in place of a rate of the links: the rate of the kind.
const OWN_MBIT: f64 = 0.0;

/// The experiment.
pub(super) struct Kinds;

impl Experiment for Kinds {
    fn id(&self) -> &'static str {
        "liu04/kinds"
    }

    fn title(&self) -> &'static str {
        "sinew cp on kinds of links: what it promises, reaches and adds to round trips"
    }

    fn method(&self, size: Size) -> String {
        let kinds = kinds(size).iter().map(|kind| KINDS[*kind].shown());
        format!(
            "Network namespaces with emulated links, both ways alike, and a node in each. {}. Kernels use {}. In each cell streams of \
             zeros go {} s each by all placements: directly and by the relays, over {STRIPES:?} connections on each segment. The rate \
             of one that has not brought all half as long after is what had arrived; it is far from the best. Then nodes that have \
             measured nothing start, and sinew cp --probe copies a file of what the best placement carries in the same time. The \
             prediction is the one after the probe, and rates are bytes over time without probes. Round trips are means of 20 pings in \
             a second over each link while data is copied, and the link counts where the copy adds the most to what the best placement \
             of single connections has. The machine's list of permitted congestion controls has these, too, while a cell runs.",
            kinds.collect::<Vec<_>>().join(". "),
            controls(size)
                .iter()
                .map(|control| CONTROLS[*control])
                .collect::<Vec<_>>()
                .join(" or "),
            seconds(size),
        )
    }

    fn cells(&self, size: Size) -> Vec<Cell> {
        let cell = |kind: usize, control: usize| {
            Cell::at(&[
                ("kind", kind as f64),
                ("control", control as f64),
                ("mbit", OWN_MBIT),
                ("seconds", seconds(size)),
            ])
        };
        let all = kinds(size).iter();
        all.flat_map(|kind| controls(size).iter().map(|control| cell(*kind, *control)))
            .collect()
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let whole = |name: &str| cell.parameter(name) as usize;
        let (kind, control) = (whole("kind"), whole("control"));
        let mbit = match cell.parameter("mbit") {
            OWN_MBIT => KINDS[kind].mbit,
            wanted => wanted,
        };
        let mut row = Row::of(cell);
        row.set("link_mbit", mbit);
        let trial = Trial {
            program: &plan.program,
            kind: &KINDS[kind],
            mbit,
            span: Duration::from_secs_f64(cell.parameter("seconds")),
            congestion: CONTROLS[control],
            has_others: KINDS[kind].is_direct(),
            seed,
            stop: &plan.stop,
        };
        trial.measure(&mut row)?;
        Ok(row)
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        let bars = [
            ("best placement", "best_bps"),
            ("predicted", "predicted_bps"),
            ("achieved", "achieved_bps"),
        ];
        let series = bars.iter().enumerate().map(|(color, (name, key))| {
            let points = rows.0.iter().enumerate();
            let points = points.map(|(at, row)| (at as f64, row.value(key) / 1e6));
            Series {
                name: (*name).into(),
                color: color as u8,
                mark: Mark::Dots,
                points: points.filter(|(_, mbit)| mbit.is_finite()).collect(),
            }
        });
        let series: Vec<Series> = series.collect();
        let points = series.iter().flat_map(|series| &series.points);
        let most = points.map(|point| point.1).fold(1.0, f64::max);
        let names: Vec<String> = rows.0.iter().map(name).collect();
        Findings {
            charts: vec![Chart {
                title: self.title().into(),
                x: Axis {
                    label: names.join(", ").into(),
                    min: -0.5,
                    max: rows.0.len() as f64 - 0.5,
                },
                y: Axis {
                    label: "rate, Mbit/s".into(),
                    min: 0.0,
                    max: most * 1.1,
                },
                series,
            }],
            verdicts: verdicts::verdicts(rows),
        }
    }

    fn table(&self, rows: &Rows) -> Vec<Vec<String>> {
        verdicts::table(rows)
    }

    fn is_real_time(&self) -> bool {
        true
    }

    fn judges_all(&self) -> bool {
        true
    }
}

/// Returns the name of a cell.
fn name(row: &Row) -> String {
    let whole = |name: &str| row.parameter(name) as usize;
    let kind = KINDS.get(whole("kind")).map_or("?", |kind| kind.name);
    let control = CONTROLS.get(whole("control")).copied().unwrap_or("?");
    format!("{kind} {control}")
}

const fn kinds(size: Size) -> &'static [usize] {
    match size {
        Size::Quick => &QUICK,
        Size::Full => &[0, 1, 2, 3, 4, 5, 6],
    }
}

const fn controls(size: Size) -> &'static [usize] {
    match size {
        Size::Quick => &[0],
        Size::Full => &[0, 1],
    }
}

const fn seconds(size: Size) -> f64 {
    match size {
        Size::Quick => 7.0,
        Size::Full => 15.0,
    }
}
