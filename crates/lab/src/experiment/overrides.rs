//! Changes of an experiment's parameters from the paper's values.
//!
//! ```text
//!   loss=1,2,5                         other values of a coordinate of the grid
//!   settings.hello_interval=50ms       another timer or threshold of the simulated nodes
//! ```
//! A grid of other values has no paper's claims: all verdicts become "cannot be tested", and what was
//! measured stays beside them. Goals that are for any values stay judged ([`Experiment::judges_all`]). Nothing wanted is ignored: what an experiment cannot take is an error.

use super::{Cell, CellError, Experiment, Findings, LabError, Plan, Row, Rows, Size};
use crate::scenario::overridden;
use overlay::Settings;
use overlay::settings::SetError;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use tools::spelling::nearest;

/// The prefix of a setting's name.
const SETTINGS: &str = "settings.";
/// Most cells of a grid: more are probably a typing error, because the largest grid of a paper has some hundred.
const CELLS_MAX: usize = 100_000;

/// One changed parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Override {
    /// Values of a coordinate of the grid.
    Coordinate(String, Vec<f64>),
    /// A setting of the nodes, by its key, with its value as in a configuration file.
    Setting(String, String),
}

/// The text is not a parameter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadOverride(String);

impl FromStr for Override {
    type Err = BadOverride;

    fn from_str(text: &str) -> Result<Override, BadOverride> {
        let (key, value) = text.split_once('=').ok_or_else(|| {
            BadOverride(format!(
                "`{text}`: write KEY=VALUE, like loss=1,2,5 or settings.hello_interval=50ms"
            ))
        })?;
        if let Some(key) = key.strip_prefix(SETTINGS) {
            return setting(key, value);
        }
        let number = |text: &str| {
            let number = text.trim().parse().ok().filter(|n: &f64| n.is_finite());
            number.ok_or_else(|| {
                BadOverride(format!(
                    "`{key}={text}`: expected a number, or several with commas"
                ))
            })
        };
        let values = value
            .split(',')
            .map(number)
            .collect::<Result<Vec<f64>, _>>()?;
        let is_double = |(n, value): (usize, &f64)| values[..n].contains(value);
        match values.iter().enumerate().any(is_double) {
            true => Err(BadOverride(format!(
                "`{text}`: a value is there twice: name each once"
            ))),
            false => Ok(Override::Coordinate(key.to_owned(), values)),
        }
    }
}

/// Returns a setting, if nodes accept it.
fn setting(key: &str, value: &str) -> Result<Override, BadOverride> {
    let why = match Settings::modern().set(key, value) {
        Ok(()) => return Ok(Override::Setting(key.to_owned(), value.to_owned())),
        Err(SetError::Unknown { known, .. }) => match nearest(key, &known) {
            Some(meant) => format!("no such setting; did you mean `{SETTINGS}{meant}`?"),
            None => format!("no such setting; there are {}", known.join(", ")),
        },
        Err(SetError::Value { expected, .. }) => format!("expected {expected}"),
    };
    Err(BadOverride(format!("`{SETTINGS}{key}={value}`: {why}")))
}

impl Override {
    /// Returns the name of the parameter.
    fn key(&self) -> String {
        match self {
            Override::Coordinate(key, _) => key.clone(),
            Override::Setting(key, _) => format!("{SETTINGS}{key}"),
        }
    }
}

/// Writes the parameter as the user wrote it.
impl std::fmt::Display for Override {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Override::Coordinate(key, values) => {
                let values: Vec<String> = values.iter().map(f64::to_string).collect();
                write!(f, "{key}={}", values.join(","))
            }
            Override::Setting(key, value) => write!(f, "{SETTINGS}{key}={value}"),
        }
    }
}

/// Returns the grid, with the changed values in the place of its own.
pub(super) fn grid(
    experiment: &dyn Experiment,
    size: Size,
    overrides: &[Override],
) -> Result<Vec<Cell>, LabError> {
    let mut cells = experiment.cells(size);
    let mut keys = BTreeSet::new();
    for wanted in overrides {
        if !keys.insert(wanted.key()) {
            return Err(LabError::Override {
                experiment: experiment.id().to_owned(),
                why: format!(
                    "`{}` is set twice: name it once, with all values behind it",
                    wanted.key()
                ),
            });
        }
        match wanted {
            Override::Coordinate(name, values) => {
                cells = varied(experiment, &cells, name, values)?;
            }
            Override::Setting(key, _) => check_setting(experiment, &cells, key)?,
        }
    }
    Ok(cells)
}

/// Checks that a setting can be changed.
fn check_setting(experiment: &dyn Experiment, cells: &[Cell], key: &str) -> Result<(), LabError> {
    let refused = |why: String| LabError::Override {
        experiment: experiment.id().to_owned(),
        why,
    };
    if !experiment.takes_settings() {
        let why = "it is measured by Python, which decides about settings: make it a coordinate";
        return Err(refused(why.to_owned()));
    }
    let name = format!("{SETTINGS}{key}");
    let is_coordinate = |cell: &Cell| {
        let numbers = cell.parameters.iter().map(|(name, _)| *name);
        let mut names = numbers.chain(cell.words.iter().map(|(name, _)| *name));
        names.any(|other| other == name)
    };
    match cells.iter().any(is_coordinate) {
        true => Err(refused(format!(
            "`{name}` is a coordinate of its grid: change it in the file"
        ))),
        false => Ok(()),
    }
}

/// Returns the cells with these values of a coordinate. For values in the grid it returns the grid's cells. A cell with
/// another value can be made if the grid's keys consist of coordinates alone.
fn varied(
    experiment: &dyn Experiment,
    cells: &[Cell],
    name: &str,
    values: &[f64],
) -> Result<Vec<Cell>, LabError> {
    let refused = |why: String| LabError::Override {
        experiment: experiment.id().to_owned(),
        why,
    };
    let has = |cell: &Cell| cell.parameters.iter().any(|(key, _)| *key == name);
    if !cells.iter().any(has) {
        let known: BTreeSet<&str> = cells
            .iter()
            .flat_map(|cell| cell.parameters.iter().map(|(key, _)| *key))
            .collect();
        let known: Vec<&str> = known.into_iter().collect();
        return Err(refused(match nearest(name, &known) {
            Some(meant) => format!("no parameter `{name}`; did you mean `{meant}`?"),
            None => format!(
                "no parameter `{name}`; there are {} and settings.*",
                known.join(", ")
            ),
        }));
    }
    let (mut made, mut keys) = (Vec::new(), BTreeSet::new());
    let mut is_taken = vec![false; values.len()];
    for cell in cells {
        if !has(cell) {
            made.push(cell.clone());
            continue;
        }
        for (value, is_taken) in values.iter().zip(&mut is_taken) {
            let with = |(key, old): &(&'static str, f64)| match *key == name {
                true => (*key, *value),
                false => (*key, *old),
            };
            let parameters: Vec<_> = cell.parameters.iter().map(with).collect();
            let is_own = |own: &&Cell| own.parameters == parameters && own.words == cell.words;
            let own = cells.iter().find(is_own);
            let is_plain = cell.key == Cell::of(cell.parameters.clone(), cell.words.clone()).key;
            let cell = match own {
                Some(own) => own.clone(),
                None if is_plain => Cell::of(parameters, cell.words.clone()),
                None => continue,
            };
            *is_taken = true;
            if keys.insert(cell.key.clone()) {
                made.push(cell);
            }
        }
        if made.len() > CELLS_MAX {
            return Err(refused(format!("more than {CELLS_MAX} cells")));
        }
    }
    let missing = values.iter().zip(is_taken).filter(|(_, taken)| !taken);
    let missing: Vec<String> = missing.map(|(value, _)| value.to_string()).collect();
    if missing.is_empty() {
        return Ok(made);
    }
    let coordinates = cells.iter().flat_map(|cell| &cell.parameters);
    let own = coordinates.filter(|(key, _)| *key == name);
    let mut own: Vec<f64> = own.map(|(_, value)| *value).collect();
    own.sort_by(f64::total_cmp);
    own.dedup();
    let own: Vec<String> = own.iter().map(f64::to_string).collect();
    Err(refused(format!(
        "no cell has {name}={}, and its cells are not made of numbers alone: choose from {}",
        missing.join(","),
        own.join(", ")
    )))
}

/// Measures a cell with the changed settings.
pub(super) fn measure(
    experiment: &dyn Experiment,
    plan: &Plan,
    cell: &Cell,
) -> Result<Row, CellError> {
    let seed = cell.seed(experiment.family(), plan.seed);
    if plan.overrides.is_empty() {
        return experiment.measure(plan, cell, seed);
    }
    let mut settings = Vec::new();
    for wanted in &plan.overrides {
        if let Override::Setting(key, value) = wanted {
            settings.push((key.clone(), value.clone()));
        }
    }
    // An experiment may index a list by a coordinate, for which only its own values are valid.
    let work = AssertUnwindSafe(|| experiment.measure(plan, cell, seed));
    let (row, is_taken) = overridden::with(&settings, || catch_unwind(work));
    let row = row.unwrap_or_else(|_| {
        let why = "the experiment does not take these values: choose some nearer to its own";
        Err(CellError(why.to_owned()))
    })?;
    match settings.is_empty() || is_taken {
        true => Ok(row),
        false => Err(CellError(
            "it simulates no nodes here, so it has no settings to change".to_owned(),
        )),
    }
}

/// Concludes from the rows. With other values than the paper's, no claim is judged, except goals that hold for all
/// values.
pub(super) fn conclude(experiment: &dyn Experiment, plan: &Plan, rows: &Rows) -> Findings {
    if plan.overrides.is_empty() {
        return experiment.conclude(plan, rows);
    }
    let wanted: Vec<String> = plan.overrides.iter().map(Override::to_string).collect();
    let note = format!("run with {}", wanted.join(" "));
    // A verdict may look for a cell that the grid no longer has.
    let work = AssertUnwindSafe(|| experiment.conclude(plan, rows));
    let mut findings = catch_unwind(work).unwrap_or_default();
    let found = std::mem::take(&mut findings.verdicts);
    if experiment.judges_all() && !found.is_empty() {
        let noted = found.into_iter().map(|verdict| verdict.note(note.clone()));
        findings.verdicts = noted.collect();
        return findings;
    }
    let untested = |claim: &&super::ClaimText| {
        let measured = found.iter().find(|verdict| verdict.claim == claim.key);
        let verdict = super::Verdict::untested(claim.key, note.clone());
        match measured {
            Some(measured) => verdict.measured(measured.measured.clone()),
            None => verdict,
        }
    };
    findings.verdicts = experiment.claims().iter().map(untested).collect();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::catalogue;

    fn experiment(id: &str) -> &'static dyn Experiment {
        catalogue::select(&[id.to_owned()]).unwrap()[0]
    }

    #[test]
    fn words_are_read_and_written_alike_and_nonsense_is_answered() {
        for text in ["loss=1,2.5", "settings.hello_interval=50ms"] {
            assert_eq!(text.parse::<Override>().unwrap().to_string(), text);
        }
        for (text, answer) in [
            ("loss", "KEY=VALUE"),
            ("loss=a", "a number"),
            ("loss=nan", "a number"),
            (
                "settings.hello_intervall=1ms",
                "did you mean `settings.hello_interval`?",
            ),
            ("settings.hello_interval=-1ms", "a time like"),
        ] {
            let error = text.parse::<Override>().unwrap_err().to_string();
            assert!(error.contains(answer), "{error}");
        }
    }

    #[test]
    fn a_coordinate_takes_other_values_and_an_unknown_one_is_answered() {
        let fig12 = experiment("amir06/fig12");
        let own = fig12.cells(Size::Quick);
        let (name, value) = own[0].parameters[0];
        let same = [Override::Coordinate(name.to_owned(), vec![value])];
        let kept = grid(fig12, Size::Quick, &same).unwrap();
        assert!(kept.iter().all(|cell| own.contains(cell)) && kept.len() < own.len());
        let unknown = [Override::Coordinate(format!("{name}x"), vec![1.0])];
        let error = grid(fig12, Size::Quick, &unknown).unwrap_err().to_string();
        assert!(
            error.contains(&format!("did you mean `{name}`?")),
            "{error}"
        );
    }

    #[test]
    fn no_wanted_value_is_dropped() {
        let refused = |id: &str, wanted: &[&str]| {
            let wanted: Vec<Override> = wanted.iter().map(|text| text.parse().unwrap()).collect();
            let error = grid(experiment(id), Size::Quick, &wanted).unwrap_err();
            error.to_string()
        };
        // The keys have words for numbers: cells of other values cannot be made.
        let error = refused("amir06/fig1", &["loss=5,6,8"]);
        assert!(
            error.contains("loss=6,8") && error.contains("choose from"),
            "{error}"
        );
        let error = refused("amir06/fig12", &["side_km=1000", "side_km=2000"]);
        assert!(error.contains("`side_km` is set twice"), "{error}");
        let setting = "settings.hello_interval=50ms";
        let error = refused("amir06/fig1", &[setting, setting]);
        assert!(error.contains("is set twice"), "{error}");
        let error = "loss=5,7,5".parse::<Override>().unwrap_err().to_string();
        assert!(error.contains("twice"), "{error}");
    }

    #[test]
    fn goals_for_any_values_stay_judged_and_claims_of_papers_do_not() {
        let judged = |id: &str, values: &[(&str, f64)]| {
            let experiment = experiment(id);
            let cells = experiment.cells(Size::Quick);
            let mut row = Row::of(&cells[0]);
            for (name, value) in values {
                row.set(*name, *value);
            }
            let name = cells[0].parameters[0].0;
            let plan = Plan {
                size: Size::Quick,
                seed: 1,
                program: "sinew".into(),
                speech: None,
                overrides: vec![Override::Coordinate(name.to_owned(), vec![0.0])],
                stop: crate::experiment::Stop::default(),
            };
            let verdicts = conclude(experiment, &plan, &Rows(vec![row])).verdicts;
            assert_eq!(verdicts.len(), experiment.claims().len(), "{id}");
            assert!(verdicts.iter().all(|v| v.note.contains("run with")), "{id}");
            let holds: Vec<_> = verdicts.iter().map(|verdict| verdict.holds).collect();
            holds
        };
        let rates = ["predicted_bps", "achieved_bps", "best_bps"].map(|key| (key, 1e6));
        assert_eq!(judged("liu04/kinds", &rates)[..2], [Some(true); 2]);
        let holds = judged("amir06/fig12", &[]);
        assert!(holds.iter().all(Option::is_none), "{holds:?}");
    }
}
