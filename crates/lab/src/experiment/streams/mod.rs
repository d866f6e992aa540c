//! Reliable streams that share: requests and answers in parallel with bulk, a fast branch next to a slow one, links and
//! TCP in one bottleneck, messages that expire, and streams through partitions.
//!
//! Each cell is a scenario of production nodes, in the simulator or by real processes, and each scenario is a file in
//! addition to the numbers. None of this comes from a paper; the goals are for the defaults.

mod echo;
mod messages;
mod partition;
mod shares;
mod star;

use super::{CellError, ClaimText, Experiment, Row, Verdict};
use crate::plot::{Axis, Chart, Mark, Series};
use crate::scenario::{FlowReport, Report, Scenario, simulate};

/// The experiments.
pub(super) const EXPERIMENTS: &[&dyn Experiment] = &[
    &echo::Echo::Simulated,
    &echo::Echo::Real,
    &star::Star,
    &shares::Shares,
    &messages::Messages,
    &partition::Partition,
];

/// The source of the goals.
const SOURCE: &str = "streams that share";

/// Returns the promises.
pub(super) fn claims() -> impl Iterator<Item = &'static ClaimText> {
    [
        echo::CLAIMS,
        star::CLAIMS,
        shares::CLAIMS,
        messages::CLAIMS,
        partition::CLAIMS,
    ]
    .into_iter()
    .flatten()
}

/// Simulates a scenario's text.
fn run(text: &str, seed: u64) -> Result<Report, CellError> {
    Ok(simulate(&parsed(text)?, seed))
}

fn parsed(text: &str) -> Result<Scenario, CellError> {
    Scenario::parse("streams", text).map_err(|error| CellError(error.to_string()))
}

/// Returns the flow with this name.
fn flow<'a>(report: &'a Report, name: &str) -> Result<&'a FlowReport, CellError> {
    let found = report.flows.iter().find(|flow| flow.name == name);
    found.ok_or_else(|| CellError(format!("the scenario has no flow `{name}`")))
}

/// Returns the head of a scenario for the simulator, where nodes need not encrypt, with its nodes.
fn head(name: &str, seconds: u64, nodes: &[&str]) -> String {
    head_for(name, seconds, "sealing = false\n", nodes)
}

/// Returns the head of a scenario with more settings, and with its nodes.
fn head_for(name: &str, seconds: u64, more: &str, nodes: &[&str]) -> String {
    let mut text = format!("[scenario]\nname = \"{name}\"\nduration = \"{seconds}s\"\n{more}");
    for node in nodes {
        text += &format!("[[node]]\nname = \"{node}\"\n");
    }
    text
}

fn link(a: &str, b: &str, path: &str) -> String {
    format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\npath = \"{path}\"\n")
}

/// Returns a flow over the default class of streams.
fn stream(name: &str, from: &str, to: &str, more: &str) -> String {
    format!(
        "[[flow]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nstream = true\nclass = \"reliable\"\n{more}"
    )
}

/// The congestion control of links, as a coordinate: 0 for the default.
const LINKS: [&str; 2] = ["the default", "bbr"];

fn links(index: f64) -> &'static str {
    match index as usize {
        0 => "",
        _ => "[reliable]\ncongestion = \"bbr\"\n",
    }
}

/// Judges whether all of these rows reach a goal, and reports the one that is farthest from it: `excess` is at most 1
/// for a row that does.
fn verdict(
    key: &'static str,
    rows: &[&Row],
    excess: impl Fn(&Row) -> f64,
    words: impl Fn(&Row) -> String,
) -> Verdict {
    let worst = rows.iter().max_by(|a, b| excess(a).total_cmp(&excess(b)));
    let Some(worst) = worst else {
        return Verdict::untested(key, "no cell");
    };
    let bad: Vec<&str> = rows
        .iter()
        .filter(|row| excess(row).is_nan() || excess(row) > 1.0)
        .map(|row| row.cell.as_str())
        .collect();
    let text = format!(
        "{} of {} cells; the worst is {}: {}",
        rows.len() - bad.len(),
        rows.len(),
        worst.cell,
        words(worst)
    );
    Verdict::of(key, bad.is_empty(), text).because(format!("missed by {}", bad.join(", ")))
}

/// Draws a number of all cells, in the table's order.
fn chart(title: &'static str, label: &'static str, rows: &[Row], name: &'static str) -> Chart {
    let value = |row: &Row| row.value(name);
    let points: Vec<(f64, f64)> = rows
        .iter()
        .enumerate()
        .map(|(n, row)| ((n + 1) as f64, value(row)))
        .collect();
    let most = points.iter().map(|(_, y)| *y).fold(0.01, f64::max);
    Chart {
        title: title.into(),
        x: Axis {
            label: "cell, in the table's order".into(),
            min: 0.0,
            max: (rows.len() + 1) as f64,
        },
        y: Axis {
            label: label.into(),
            min: 0.0,
            max: most,
        },
        series: vec![Series {
            name: name.into(),
            color: 0,
            mark: Mark::Dots,
            points,
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Cell, Plan, Size, Stop};

    #[test]
    fn every_cell_is_a_scenario_that_gives_its_files() {
        for experiment in EXPERIMENTS {
            for size in [Size::Quick, Size::Full] {
                let plan = Plan {
                    size,
                    seed: 1,
                    program: "sinew".into(),
                    speech: None,
                    overrides: Vec::new(),
                    stop: Stop::default(),
                };
                let files = experiment.files(&plan);
                assert_eq!(files.len(), experiment.cells(size).len());
                for (name, text) in files {
                    let scenario = Scenario::parse(&name, &text);
                    let scenario =
                        scenario.unwrap_or_else(|error| panic!("{name}: {error:?}\n{text}"));
                    if experiment.is_real_time() {
                        assert_eq!(crate::live::can_run(&scenario), Ok(()), "{name}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_verdict_names_what_misses_its_bar_and_nothing_is_no_pass() {
        let row = |cell: &str, x: f64| {
            let mut row = Row::of(&Cell {
                key: cell.into(),
                parameters: Vec::new(),
                words: Vec::new(),
            });
            row.set("x", x);
            row
        };
        let (good, bad, none) = (row("good", 0.9), row("bad", 1.1), row("none", f64::NAN));
        let judge = |rows: &[&Row]| verdict("key", rows, |row| row.value("x"), |_| String::new());
        assert_eq!(judge(&[&good]).holds, Some(true));
        let both = judge(&[&good, &bad]);
        assert_eq!(
            (both.holds, both.note.as_str()),
            (Some(false), "missed by bad")
        );
        assert_eq!(judge(&[&good, &none]).holds, Some(false));
        assert_eq!(judge(&[]).holds, None);
    }
}
