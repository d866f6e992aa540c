//! The pilot's behaviour: how soon a new plan is in force, how seldom it changes under steady losses, and how well it
//! predicts the remaining loss.
//!
//! ```text
//!   steps    ───── before ─────┤ loss, runs or delay change ├── a new plan ──▶ ≤ 2 s
//!   hours    losses that stay as they are for an hour                      ──▶ ≤ 6 changes
//!   cells    predicted while a cell runs, beside what its calls missed     ──▶ a factor of 2
//! ```
//!
//! A plan is in force when its repair has made three quarters of the change to its level in the last seconds of the
//! run: neighbouring shares differ by a quarter, and estimates fluctuate between two of them.

mod cases;

use super::super::{
    Cell, CellError, ClaimText, Experiment, Findings, Plan, Row, Rows, Size, Verdict, claim,
};
use super::missed_pct;
use crate::scenario::{Scenario, Simulation};
use crate::stats::mean;
use base::Duration;
use cases::{CASES, Case, Kind};

pub(super) const PILOT: Pilot = Pilot;
const ID: &str = "protection/pilot";
const SOURCE: &str = "what the default promises";
const IN_FORCE_S: f64 = 2.0;
const CHANGES_MOST: f64 = 6.0;
const FACTOR: f64 = 2.0;
const GOOD_PCT: f64 = 90.0;
/// Least number of missed packets with which a factor has a meaning.
const TELLING: f64 = 20.0;
/// Time of the step, and the end of its run.
const STEP_S: u64 = 40;
const STEP_END_S: u64 = 110;
/// The plan's final level is that of the last seconds of a run.
const LAST_S: u64 = 20;
const LOOK: Duration = Duration::from_millis(50);
/// A change that is not made counts as lasting until the end.
const NEVER_S: f64 = (STEP_END_S - STEP_S) as f64;
/// The part of a change that must have been made.
const MADE: f64 = 0.75;
/// The beginning of an hour, and of a steady cell, which is not judged: the first minute.
const BEGINNING_S: u64 = 60;
const HOUR_S: u64 = 3_600;

pub(super) const CLAIMS: &[ClaimText] = &[
    claim(
        ID,
        "steps",
        SOURCE,
        "loss 0 to 5 % and back, bursts 0 to 75 %, T from 20 to 80 ms, one call and twenty",
        "a new plan is in force at most two seconds after each step, in each run",
    ),
    claim(
        ID,
        "steady",
        SOURCE,
        "an hour of the same losses, one call and twenty",
        "at most six changes of the plan",
    ),
    claim(
        ID,
        "predictions",
        SOURCE,
        "one call and twenty, 1 to 10 % loss, bursts of 0 to 75 %, T from 30 to 130 ms",
        "what is predicted is within a factor of two of what is missed in nine of ten cells",
    ),
];

/// The plan of the lane at a moment.
#[derive(Clone, Copy, Debug, Default)]
struct Looked {
    /// Time since the scenario's zero.
    at_s: f64,
    repair_pct: f64,
    predicted_pct: f64,
    changes: u64,
}

/// Runs a cell, and samples the plan of the sending end at intervals.
fn watch(
    case: &Case,
    seconds: u64,
    every: Duration,
    seed: u64,
) -> Result<(Vec<Looked>, f64, f64), CellError> {
    let scenario = Scenario::parse("pilot", &case.scenario(seconds));
    let scenario = scenario.map_err(|error| CellError(error.to_string()))?;
    let mut simulation = Simulation::new(&scenario, seed);
    simulation.run_for(scenario.settle);
    let mut looked = Vec::new();
    let steps = seconds * 1_000 / every.as_millis().max(1);
    for step in 1..=steps {
        simulation.run_for(every);
        let Some(plan) = simulation.protection(0, 1) else {
            continue;
        };
        looked.push(Looked {
            at_s: (every * step).as_secs_f64(),
            repair_pct: plan.repair_pct,
            predicted_pct: plan.predicted_pct,
            changes: plan.changes,
        });
    }
    while simulation.run_for(Duration::from_secs(3_600)) {}
    let report = simulation.finish();
    let missed = |flow: &crate::scenario::FlowReport| flow.packets.lost + flow.packets.late;
    let missed: u64 = report.flows.iter().map(missed).sum();
    Ok((looked, missed_pct(&report), missed as f64))
}

/// Returns how long after the step the plan has made most of its change, in seconds, or the whole time if it never has;
/// `None` if it stays as it was.
fn in_force(looked: &[Looked]) -> Option<f64> {
    let before = looked.iter().rfind(|look| look.at_s <= STEP_S as f64);
    let before = before.map_or(0.0, |look| look.repair_pct);
    let last: Vec<f64> = looked
        .iter()
        .filter(|look| look.at_s > (STEP_END_S - LAST_S) as f64)
        .map(|look| look.repair_pct)
        .collect();
    let after = last.iter().sum::<f64>() / last.len().max(1) as f64;
    let change = after - before;
    if change.abs() < 1.0 {
        return None;
    }
    let has_made = |look: &&Looked| (look.repair_pct - before) / change >= MADE;
    let mut later = looked.iter().filter(|look| look.at_s > STEP_S as f64);
    let after_s = |look: &Looked| look.at_s - STEP_S as f64;
    Some(later.find(has_made).map_or(NEVER_S, after_s))
}

/// Returns whether the prediction is within the factor of the missed share.
fn is_good(predicted: f64, missed: f64) -> bool {
    predicted <= missed * FACTOR && missed <= predicted * FACTOR
}

pub(super) struct Pilot;

impl Experiment for Pilot {
    fn id(&self) -> &'static str {
        ID
    }

    fn title(&self) -> &'static str {
        "How soon a lane's protection changes, how seldom, and how well it predicts"
    }

    fn method(&self, size: Size) -> String {
        format!(
            "Production nodes in the simulator, one link, calls whose packets are evenly spread. Steps come at {STEP_S} s, {} runs each; an \
             hour, and the steady cells, follow a first minute. What is predicted is the mean of looks each second; what is missed is lost or late.",
            runs(size)
        )
    }

    fn cells(&self, size: Size) -> Vec<Cell> {
        // Twenty calls for an hour take half a minute to simulate.
        let is_long = |case: &&Case| case.kind == Kind::Hour && case.calls > 1;
        let cases = CASES
            .iter()
            .filter(|case| size == Size::Full || !is_long(case));
        let cell = |case: &Case| Cell {
            key: case.name.into(),
            parameters: Vec::new(),
            words: vec![("kind", case.kind().into())],
        };
        cases.map(cell).collect()
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let case = Case::of(cell)?;
        let seconds = case.seconds(plan.size);
        let mut row = Row::of(cell);
        match case.kind {
            Kind::Step(_) | Kind::StepAtLimit(_) => {
                let mut took = Vec::new();
                for n in 0..runs(plan.size) {
                    let (looked, ..) = watch(&case, seconds, LOOK, seed.wrapping_add(n))?;
                    match in_force(&looked) {
                        Some(after_s) => took.push(after_s),
                        None if matches!(case.kind, Kind::StepAtLimit(_)) => {}
                        None => took.push(NEVER_S),
                    }
                }
                if !took.is_empty() {
                    row.set("in force after s", mean(took.iter().copied()));
                    row.set("at most s", took.iter().copied().fold(0.0, f64::max));
                }
            }
            Kind::Hour => {
                let (looked, ..) = watch(&case, seconds, Duration::from_secs(1), seed)?;
                let at = |second: u64| {
                    let found = looked.iter().find(|look| look.at_s >= second as f64);
                    found.map_or(0, |look| look.changes)
                };
                row.set(
                    "changes",
                    at(seconds).saturating_sub(at(BEGINNING_S)) as f64,
                );
            }
            Kind::Steady => {
                let (looked, missed_pct, missed) =
                    watch(&case, seconds, Duration::from_secs(1), seed)?;
                let later = looked.iter().filter(|look| look.at_s >= BEGINNING_S as f64);
                let predicted: Vec<f64> = later.map(|look| look.predicted_pct).collect();
                row.set("predicted %", mean(predicted));
                row.set("missed %", missed_pct);
                row.set("missed", missed);
            }
        }
        Ok(row)
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        let of = |kind: &str| -> Vec<&Row> {
            let is_one = |row: &&Row| {
                let case = CASES.iter().find(|case| case.name == row.cell);
                case.is_some_and(|case| case.kind() == kind)
            };
            rows.0.iter().filter(is_one).collect()
        };
        Findings {
            charts: Vec::new(),
            verdicts: vec![
                within("steps", &of("step"), "at most s", IN_FORCE_S),
                within("steady", &of("hour"), "changes", CHANGES_MOST),
                predictions(&of("steady")),
            ],
        }
    }

    fn table(&self, rows: &Rows) -> Vec<Vec<String>> {
        let head = [
            "cell",
            "in force, s",
            "at most",
            "changes",
            "predicted %",
            "missed %",
        ];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        for row in &rows.0 {
            let number = |name: &str, places: usize| match row.known(name) {
                Some(value) => format!("{value:.places$}"),
                None => String::new(),
            };
            let line = [
                row.cell.clone(),
                number("in force after s", 2),
                number("at most s", 2),
                number("changes", 0),
                number("predicted %", 4),
                number("missed %", 4),
            ];
            table.push(line.to_vec());
        }
        table
    }

    fn files(&self, plan: &Plan) -> Vec<(String, String)> {
        let file = |case: &Case| {
            let seconds = case.seconds(plan.size);
            (format!("{}.toml", case.name), case.scenario(seconds))
        };
        CASES.iter().map(file).collect()
    }
}

fn runs(size: Size) -> u64 {
    match size {
        Size::Quick => 3,
        Size::Full => 10,
    }
}

/// Judges whether a value is at most `most`, in all rows that have it.
fn within(name: &'static str, rows: &[&Row], value: &str, most: f64) -> Verdict {
    let values = rows.iter().filter_map(|row| Some((row, row.known(value)?)));
    let values: Vec<_> = values.collect();
    let tells = |(row, value): &(&&Row, f64)| format!("{}: {value:.2}", row.cell);
    let text = values.iter().map(tells).collect::<Vec<_>>().join("; ");
    match values.is_empty() {
        true => Verdict::untested(name, "no cell"),
        false => Verdict::of(name, values.iter().all(|(_, value)| *value <= most), text),
    }
}

/// Judges whether nine of ten predictions are good, in the cells with enough missed packets for a factor.
fn predictions(rows: &[&Row]) -> Verdict {
    let telling = rows.iter().filter(|row| row.value("missed") >= TELLING);
    let telling: Vec<_> = telling.collect();
    let values = |row: &Row| (row.value("predicted %"), row.value("missed %"));
    let good = telling.iter().filter(|row| {
        let (predicted, missed) = values(row);
        is_good(predicted, missed)
    });
    let good_pct = 100.0 * good.count() as f64 / telling.len().max(1) as f64;
    let tells = |row: &&&Row| {
        let (predicted, missed) = values(row);
        format!("{}: {predicted:.4} for {missed:.4} %", row.cell)
    };
    let text = telling.iter().map(tells).collect::<Vec<_>>().join("; ");
    match telling.is_empty() {
        true => Verdict::untested("predictions", "too little is missed"),
        false => Verdict::of("predictions", good_pct >= GOOD_PCT, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_a_scenario() {
        for case in CASES {
            let text = case.scenario(200);
            let scenario = Scenario::parse("pilot", &text);
            assert!(scenario.is_ok(), "{}: {:?}", case.name, scenario.err());
        }
    }

    #[test]
    fn a_plan_is_in_force_when_most_of_its_change_is_made() {
        let plan = |at_s: f64| match at_s {
            at if at < 41.0 => 0.0,
            at if at < 43.5 => 10.0,
            at if at < 60.0 => 20.0,
            _ => 25.0,
        };
        let looks = |plan: &dyn Fn(f64) -> f64| -> Vec<Looked> {
            let look = |at_s: f64| Looked {
                at_s,
                repair_pct: plan(at_s),
                ..Looked::default()
            };
            (1..=STEP_END_S * 2)
                .map(|half| look(half as f64 / 2.0))
                .collect()
        };
        assert_eq!(in_force(&looks(&plan)), Some(3.5));
        assert_eq!(in_force(&looks(&|_| 20.0)), None);
        assert_eq!(in_force(&looks(&|at| 20.0 - plan(at))), Some(3.5));
    }

    #[test]
    fn a_verdict_fails_for_a_change_too_many_and_for_a_wrong_prediction() {
        let row = |values: &[(&str, f64)]| {
            let mut row = Row::default();
            values
                .iter()
                .for_each(|(name, value)| row.set(*name, *value));
            row
        };
        let (six, seven) = (row(&[("changes", 6.0)]), row(&[("changes", 7.0)]));
        assert_eq!(
            within("steady", &[&six], "changes", CHANGES_MOST).holds,
            Some(true)
        );
        assert_eq!(
            within("steady", &[&six, &seven], "changes", CHANGES_MOST).holds,
            Some(false)
        );
        let predicted = |predicted: f64, missed: f64| {
            row(&[
                ("predicted %", predicted),
                ("missed %", 0.1),
                ("missed", missed),
            ])
        };
        let (good, bad, few) = (
            predicted(0.2, 50.0),
            predicted(0.21, 50.0),
            predicted(0.9, 19.0),
        );
        assert_eq!(predictions(&[&good, &few]).holds, Some(true));
        assert_eq!(predictions(&[&good, &bad]).holds, Some(false));
        assert_eq!(predictions(&[&few]).holds, None);
    }
}
