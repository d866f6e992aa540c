//! The one-way delay at which requests alone fail, and the remaining loss with repair beyond it.
//!
//! ```text
//!   missed │        ┌──────── requests alone: an answer comes 3 T and a packet after the loss
//!          │        │
//!          │────────┘ · · · · protected
//!          └───────────────── T, one way
//! ```

use super::super::{
    Cell, CellError, ClaimText, Experiment, Findings, Plan, Row, Rows, Size, Verdict, claim,
};
use super::{SOURCE, missed_pct, run_text};
use crate::plot::{Axis, Chart, Mark, Series};
use crate::stats::{mean_and_error, most};

pub(super) const CLIFF: Cliff = Cliff;
const ID: &str = "protection/cliff";
const LOSS_PCT: f64 = 5.0;
const BURST_PCT: f64 = 25.0;
const DEADLINE_MS: f64 = 150.0;
/// The longest one-way delay of the claim, and what may be missed up to it: the limit of single calls with bursts.
const UP_TO_MS: f64 = 90.0;
const MISSED_PCT: f64 = 0.4;

pub(super) const CLAIM: ClaimText = claim(
    ID,
    "no-cliff",
    SOURCE,
    "one link, 5 % loss in bursts of 25 %, deadline 150 ms, T from 10 to 90 ms, one call and twenty, as it comes",
    "missed at most 0.4 % at each T",
);

pub(super) struct Cliff;

/// Returns the scenario of a cell.
fn scenario(t_ms: f64, calls: u32, protect: &str, seconds: u64) -> String {
    let mut text = format!(
        "[scenario]\nname = \"cliff\"\nduration = \"{seconds}s\"\nsettle = \"10s\"\nsealing = false\n\
         [settings]\nprotect = \"{protect}\"\n[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n\
         [[link]]\na = \"a\"\nb = \"b\"\npath = \"delay={t_ms}ms loss={LOSS_PCT}% burst={BURST_PCT}%\"\n"
    );
    for call in 0..calls {
        text += &format!(
            "[[flow]]\nname = \"call{call}\"\nfrom = \"a\"\nto = \"b\"\ndeadline = \"{DEADLINE_MS}ms\"\n"
        );
    }
    text
}

/// Returns the runs of a cell, and the seconds of one with a single call.
fn runs(size: Size) -> (u64, u64) {
    match size {
        Size::Quick => (3, 200),
        Size::Full => (10, 600),
    }
}

/// The measurements at each T: the name, the number of calls, their protection.
const KINDS: [(&str, u32, &str); 3] = [
    ("requests", 1, "requests"),
    ("one", 1, "auto"),
    ("twenty", 20, "auto"),
];

impl Experiment for Cliff {
    fn id(&self) -> &'static str {
        ID
    }

    fn title(&self) -> &'static str {
        "Where requests come too late, and what repair leaves there"
    }

    fn method(&self, size: Size) -> String {
        let (count, seconds) = runs(size);
        format!(
            "Production nodes in the simulator, one link that loses {LOSS_PCT} % both ways in bursts of {BURST_PCT} %, deadline \
             {DEADLINE_MS} ms whatever the link's delay: {count} runs of {seconds} s with one call, of {} s with twenty, from the first \
             packet on. Missed is lost or late, with the standard error over the runs.",
            seconds / 10
        )
    }

    fn cells(&self, _: Size) -> Vec<Cell> {
        let cell = |t_ms: f64| Cell {
            key: format!("T={t_ms}"),
            parameters: vec![("T ms", t_ms)],
            words: Vec::new(),
        };
        [
            10.0, 20.0, 30.0, 36.0, 40.0, 42.0, 44.0, 46.0, 50.0, 60.0, 75.0, 90.0, 110.0, 130.0,
        ]
        .map(cell)
        .into()
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let (count, seconds) = runs(plan.size);
        let t_ms = cell.parameter("T ms");
        let mut row = Row::of(cell);
        for (name, calls, protect) in KINDS {
            let seconds = if calls == 1 { seconds } else { seconds / 10 };
            let text = scenario(t_ms, calls, protect, seconds);
            let missed = (0..count)
                .map(|n| Ok(missed_pct(&run_text(&text, seed.wrapping_add(n))?)))
                .collect::<Result<Vec<f64>, CellError>>()?;
            let (mean, error) = mean_and_error(&missed);
            row.set(format!("{name} missed %"), mean);
            row.set(format!("{name} error %"), error);
        }
        Ok(row)
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        let near = |row: &&Row| row.parameter("T ms") <= UP_TO_MS;
        let worst = rows
            .0
            .iter()
            .filter(near)
            .flat_map(|row| ["one missed %", "twenty missed %"].map(|name| row.value(name)));
        let worst = most(worst);
        let verdict = match worst.is_finite() {
            true => Verdict::of(
                "no-cliff",
                worst <= MISSED_PCT,
                format!("{worst:.3} % where most are missed"),
            ),
            false => Verdict::untested("no-cliff", "no cell"),
        };
        Findings {
            charts: vec![chart(rows)],
            verdicts: vec![verdict],
        }
    }

    fn table(&self, rows: &Rows) -> Vec<Vec<String>> {
        let head = [
            "T, ms",
            "requests alone, %",
            "±",
            "one call, %",
            "±",
            "twenty calls, %",
            "±",
        ];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        for row in &rows.0 {
            let mut line = vec![format!("{}", row.parameter("T ms"))];
            for (name, ..) in KINDS {
                line.push(format!("{:.3}", row.value(&format!("{name} missed %"))));
                line.push(format!("{:.3}", row.value(&format!("{name} error %"))));
            }
            table.push(line);
        }
        table
    }

    fn files(&self, plan: &Plan) -> Vec<(String, String)> {
        let (_, seconds) = runs(plan.size);
        let file = |cell: Cell| {
            let t_ms = cell.parameter("T ms");
            (format!("T-{t_ms}.toml"), scenario(t_ms, 1, "auto", seconds))
        };
        self.cells(plan.size).into_iter().map(file).collect()
    }
}

fn chart(rows: &Rows) -> Chart {
    let names = [
        "requests alone, one call",
        "protected, one call",
        "protected, twenty calls",
    ];
    let series = KINDS.iter().zip(names).zip(0..);
    let series = series.map(|(((kind, ..), name), color)| Series {
        name: name.into(),
        color,
        mark: Mark::Line,
        points: rows
            .0
            .iter()
            .map(|row| {
                let missed = row.value(&format!("{kind} missed %"));
                (row.parameter("T ms"), missed)
            })
            .collect(),
    });
    Chart {
        title: "Missed within 150 ms over a link that loses 5 %".into(),
        x: Axis {
            label: "one way, ms".into(),
            min: 0.0,
            max: 140.0,
        },
        y: Axis {
            label: "missed, %".into(),
            min: 0.0,
            max: 6.0,
        },
        series: series.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn every_cell_is_a_scenario() {
        for (_, calls, protect) in KINDS {
            let text = scenario(42.0, calls, protect, 10);
            assert!(Scenario::parse("cliff", &text).is_ok(), "{text}");
        }
    }
}
