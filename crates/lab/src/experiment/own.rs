//! Experiments of the user: scenario × grid × measures × claims, in a file.
//!
//! ```text
//!   [experiment]                       title, seeds
//!   [experiment.grid]                  loss = [1, 2, 5]              ── fills {loss} in the scenario
//!   [[experiment.measure]]             name = "lost_pct", take = "flows.a-b.lost_pct"
//!   [[experiment.claim]]               check = "lost_pct rises with loss"
//!   [[experiment.figure]]              x = "loss", y = "lost_pct"
//!   [scenario] [[node]] [[link]] …     the scenario, here or in a file of its own
//! ```
//! For the laboratory, such a file equals an experiment of a paper: it has cells with seeds of their own, files, a
//! page, shards. It is read once, and a run does not depend on the disk: a [`Definition`] has all texts, so that it can
//! be sent to another machine, and its parts have their positions in the files.
//!
//! Python can measure instead of a scenario (`measured_by`): then rows come from outside ([`Own::row`]).

mod check;
mod definition;
mod document;
mod expression;
mod figure;
mod read;
mod template;
#[cfg(test)]
mod tests;

use super::{Cell, CellError, ClaimText, Experiment, Findings, Plan, Row, Rows, Size, Verdict};
use crate::scenario::{Custom, Record, record};
use crate::stats::{mean, standard_error};
use base::rng::Rng;
use check::Check;
use definition::intern;
use expression::Expression;
use figure::Figure;
use std::collections::{BTreeMap, BTreeSet};
use template::Template;

pub use definition::Definition;

/// A value of a coordinate.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Number(f64),
    Word(String),
}

/// A coordinate of the grid.
struct Coordinate {
    name: &'static str,
    values: Vec<Value>,
}

/// What a cell measures.
struct Measure {
    name: &'static str,
    /// The value's place in the report; `None` if it comes from outside.
    of: Option<Expression>,
    over: Over,
}

/// How the runs of a cell are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// Their mean, with its standard error in a separate column.
    Mean,
    Most,
    Least,
}

/// A claim, its check, and the rows that it concerns.
struct Claim {
    text: ClaimText,
    check: Check,
    only: Vec<(&'static str, Vec<Value>)>,
}

/// The source of a cell's numbers.
enum Source {
    Scenario(Template),
    /// An external program, by its name.
    Elsewhere(String),
}

/// An experiment from a file.
pub(super) struct Own {
    id: &'static str,
    title: &'static str,
    about: String,
    grid: Vec<Coordinate>,
    /// Number of runs of each cell, quick and full.
    seeds: [u32; 2],
    measures: Vec<Measure>,
    claims: Vec<Claim>,
    figures: Vec<Figure>,
    source: Source,
    decisive: u64,
    pub(super) definition: Definition,
}

impl Value {
    /// Returns the value's form in a name or within a text.
    fn plain(&self) -> String {
        match self {
            Value::Number(number) => number.to_string(),
            Value::Word(word) => word.clone(),
        }
    }

    /// Returns the value's form in TOML.
    fn toml(&self) -> String {
        match self {
            Value::Number(number) => number.to_string(),
            // A basic string of TOML is a string of JSON, except for DEL.
            Value::Word(word) => serde_json::Value::from(word.as_str())
                .to_string()
                .replace('\u{7f}', "\\u007F"),
        }
    }
}

impl Coordinate {
    fn is_numeric(&self) -> bool {
        matches!(self.values.first(), Some(Value::Number(_)))
    }
}

impl Own {
    fn runs(&self, size: Size) -> u32 {
        match size {
            Size::Quick => self.seeds[0],
            Size::Full => self.seeds[1],
        }
    }

    /// Returns the values of a cell, by the names of their coordinates.
    fn values(&self, cell: &Cell) -> Vec<(&'static str, Value)> {
        let value = |of: &Coordinate| {
            let word = cell.words.iter().find(|(name, _)| *name == of.name);
            match word {
                Some((_, word)) => (of.name, Value::Word(word.clone())),
                None => (of.name, Value::Number(cell.parameter(of.name))),
            }
        };
        self.grid.iter().map(value).collect()
    }

    /// Returns the seed of a run of a cell.
    fn seed(seed: u64, run: u32) -> u64 {
        Rng::new(seed.wrapping_add(u64::from(run))).next_u64()
    }

    /// Returns a digest of everything that determines what cells measure: it is the same for two experiments that
    /// differ only in claims, figures and titles.
    pub(super) fn decisive(&self) -> u64 {
        self.decisive
    }

    /// Returns the seeds of a cell's runs, for a program that measures externally.
    pub(super) fn run_seeds(&self, size: Size, cell: &Cell, seed: u64) -> Vec<u64> {
        let seed = cell.seed(self.family(), seed);
        (0..self.runs(size))
            .map(|run| Own::seed(seed, run))
            .collect()
    }

    /// Returns the row of a cell, from the numbers that each of its runs has measured. A missing or non-finite number
    /// counts as not measured. A mean over several runs needs two measured values: without an error it has no meaning.
    pub(super) fn row(
        &self,
        cell: &Cell,
        runs: &[BTreeMap<String, f64>],
    ) -> Result<Row, CellError> {
        let known: BTreeSet<&str> = self.measures.iter().map(|measure| measure.name).collect();
        let names = runs.iter().flat_map(BTreeMap::keys);
        if let Some(unknown) = names
            .into_iter()
            .find(|name| !known.contains(name.as_str()))
        {
            return Err(CellError(format!("`{unknown}` is none of its measures")));
        }
        let mut row = Row::of(cell);
        for measure in &self.measures {
            let values = runs.iter().filter_map(|run| run.get(measure.name).copied());
            let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
            let fold = |of: fn(f64, f64) -> f64| values.iter().copied().reduce(of);
            let value = match measure.over {
                Over::Mean if values.len() < runs.len().min(2) => None,
                Over::Mean => (!values.is_empty()).then(|| mean(&values)),
                Over::Most => fold(f64::max),
                Over::Least => fold(f64::min),
            };
            let Some(value) = value else { continue };
            row.set(measure.name, value);
            if measure.over == Over::Mean
                && let Some(error) = standard_error(&values)
            {
                row.set(spread_of(measure.name), error);
            }
        }
        Ok(row)
    }

    /// Returns what one run has measured.
    fn measured(&self, record: &Record) -> Result<BTreeMap<String, f64>, CellError> {
        let document = document::of(record);
        let mut measured = BTreeMap::new();
        for measure in &self.measures {
            let of = measure
                .of
                .as_ref()
                .expect("a scenario's measures take something");
            let value = of.value(|path| document::number(&document, path));
            let value =
                value.map_err(|why| CellError(format!("measure {}: {why}", measure.name)))?;
            measured.insert(measure.name.to_owned(), value);
        }
        Ok(measured)
    }
}

impl Experiment for Own {
    fn id(&self) -> &'static str {
        self.id
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn method(&self, size: Size) -> String {
        let how = match &self.source {
            Source::Scenario(_) => "Simulated with the production nodes".to_owned(),
            Source::Elsewhere(by) => format!("Measured by {by}"),
        };
        let runs = match self.runs(size) {
            1 => "once in each cell".to_owned(),
            runs => format!(
                "{runs} times in each cell, with seeds of their own; numbers are means, but where the measure says otherwise"
            ),
        };
        let about = match self.about.is_empty() {
            true => String::new(),
            false => format!("{} ", self.about),
        };
        format!("{about}{how}, {runs}.")
    }

    fn cells(&self, _: Size) -> Vec<Cell> {
        cells(&self.grid)
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let Source::Scenario(template) = &self.source else {
            return Err(CellError("it is measured outside".to_owned()));
        };
        let scenario = template.filled(&self.values(cell));
        let scenario = scenario.map_err(|mistake| CellError(mistake.to_string()))?;
        let mut runs = Vec::new();
        for run in 0..self.runs(plan.size) {
            let seed = Own::seed(seed, run);
            let custom = Custom::of(&scenario);
            let record = record(&scenario, seed, custom, |_| !plan.stop.is_set());
            let record = record.ok_or_else(|| CellError("interrupted".to_owned()))?;
            runs.push(self.measured(&record)?);
        }
        self.row(cell, &runs)
    }

    fn conclude(&self, plan: &Plan, rows: &Rows) -> Findings {
        let runs = self.runs(plan.size);
        let verdict = |claim: &Claim| {
            let is_meant = |row: &&Row| {
                claim.only.iter().all(|(name, values)| {
                    let has = |value: &Value| match value {
                        Value::Number(number) => row.parameter(name) == *number,
                        Value::Word(word) => row.words.get(*name) == Some(word),
                    };
                    values.iter().any(has)
                })
            };
            let rows: Vec<&Row> = rows.0.iter().filter(is_meant).collect();
            let is_known = |name: &&str| {
                let mut rows = rows.iter();
                rows.any(|row| row.known(name).is_some() || row.parameters.contains_key(*name))
            };
            if let Some(name) = claim.check.names().iter().find(|name| !is_known(name)) {
                let why = format!("`{name}` was not measured");
                return Verdict::untested(claim.text.key, why);
            }
            let judgement = claim.check.judge(&rows, runs);
            let verdict = Verdict::of(claim.text.key, judgement.holds, judgement.measured);
            match judgement.missed.is_empty() {
                true => verdict,
                false => verdict.because(format!("missed by {}", judgement.missed.join(", "))),
            }
        };
        Findings {
            charts: self
                .figures
                .iter()
                .map(|figure| figure.chart(self.title, rows))
                .collect(),
            verdicts: self.claims.iter().map(verdict).collect(),
        }
    }

    fn table(&self, rows: &Rows) -> Vec<Vec<String>> {
        let coordinates = self.grid.iter().map(|of| of.name.to_owned());
        let measures = self.measures.iter().map(|measure| measure.name.to_owned());
        let mut table = vec![coordinates.chain(measures).collect()];
        for row in &rows.0 {
            let coordinates = self.grid.iter().map(|of| match row.words.get(of.name) {
                Some(word) => word.clone(),
                None => row.parameter(of.name).to_string(),
            });
            let measures = self.measures.iter().map(|measure| {
                let value = check::shown(row.value(measure.name));
                match row.known(&spread_of(measure.name)) {
                    Some(error) => format!("{value} ± {}", check::shown(error)),
                    None => value,
                }
            });
            table.push(coordinates.chain(measures).collect());
        }
        table
    }

    fn files(&self, _: &Plan) -> Vec<(String, String)> {
        let mut files = vec![("experiment.toml".to_owned(), self.definition.text.clone())];
        if let Some((_, text)) = &self.definition.scenario {
            files.push(("scenario.toml".to_owned(), text.clone()));
        }
        files
    }

    fn takes_settings(&self) -> bool {
        matches!(self.source, Source::Scenario(_))
    }

    fn claims(&self) -> Vec<&ClaimText> {
        self.claims.iter().map(|claim| &claim.text).collect()
    }

    fn definition(&self) -> Option<&Definition> {
        Some(&self.definition)
    }
}

/// Returns a cell for each combination of values.
fn cells(grid: &[Coordinate]) -> Vec<Cell> {
    let mut cells = vec![(Vec::new(), Vec::new())];
    for of in grid {
        let with = |(numbers, words): &(Vec<_>, Vec<_>), value: &Value| {
            let (mut numbers, mut words) = (numbers.clone(), words.clone());
            match value {
                Value::Number(number) => numbers.push((of.name, *number)),
                Value::Word(word) => words.push((of.name, word.clone())),
            }
            (numbers, words)
        };
        let longer = cells
            .iter()
            .flat_map(|cell| of.values.iter().map(move |value| with(cell, value)));
        cells = longer.collect();
    }
    cells
        .into_iter()
        .map(|(numbers, words)| Cell::of(numbers, words))
        .collect()
}

/// Returns the name of the column with the standard error of another.
fn spread_of(name: &str) -> String {
    format!("{name} ±")
}
