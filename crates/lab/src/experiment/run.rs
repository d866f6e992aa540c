//! Runs experiments, one after the other.

use super::files::{self, Outcome, Part};
use super::overrides::{self, Override};
use super::sweep::{self, Measured, Stopped};
use super::{Experiment, Plan, Row, Rows, Shard, Size, Stop, build, catalogue, cells, index, kept};
use crate::scenario::Mistake;
use serde::Serialize;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tools::interrupt::Interrupt;
use tools::progress::Progress;
use tools::table;

/// What to run.
#[derive(Clone, Debug)]
pub struct LabOptions {
    /// Names: `amir06/fig4`, `amir06/all`, `all`; and files of own experiments.
    pub experiments: Vec<String>,
    /// Quick or full.
    pub size: Size,
    /// The seed of everything.
    pub seed: u64,
    /// The folder for results.
    pub out: PathBuf,
    /// A part of the cells: then only rows are written, and nothing is concluded.
    pub shard: Option<Shard>,
    /// This program, for experiments that start nodes.
    pub program: PathBuf,
    /// A recording for experiments that score speech, instead of the one that they choose.
    pub speech: Option<PathBuf>,
    /// Changes of parameters.
    pub overrides: Vec<Override>,
}

/// Why the laboratory stopped.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// No experiment has that name.
    #[error(
        "there is no experiment `{0}`: `sinew lab list` shows all; `amir06/all` and `all` mean many, and \
         a file of your own ends in .toml"
    )]
    Unknown(String),
    /// A file with an experiment is not valid.
    #[error("{0}")]
    Definition(Mistake),
    /// Two files have experiments with the same name.
    #[error("two of the files have the experiment `{0}`: give one of them another `id`")]
    Twice(String),
    /// There is nothing to merge.
    #[error("no rows of shards in {}: name folders that `sinew lab run --shard` wrote", .0.display())]
    NoRows(PathBuf),
    /// The parts are not complete or do not fit together.
    #[error("{experiment} cannot be merged: {why}")]
    Incomplete {
        /// The experiment.
        experiment: String,
        /// What is missing or contradictory.
        why: String,
    },
    /// A cell could not be measured.
    #[error("{experiment} failed at {cell}: {why}")]
    Cell {
        /// The experiment.
        experiment: String,
        /// The cell's key.
        cell: String,
        /// The reason.
        why: String,
    },
    /// The experiment does not have a requested parameter.
    #[error("{experiment}: {why}")]
    Override {
        /// The experiment.
        experiment: String,
        /// The reason, with the parameters that exist.
        why: String,
    },
    /// A file could not be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The kernel's error.
        error: io::Error,
    },
    /// Ctrl-C: finished experiments are written, and rows of the unfinished one are kept.
    #[error(
        "interrupted: what was over is in the folder; the same command measures what is missing"
    )]
    Interrupted,
}

/// The results of the claims of one experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tally {
    /// The experiment.
    pub id: String,
    /// Tested claims that hold.
    pub hold: usize,
    /// Claims that hold by construction; the other counts do not include them.
    pub by_construction: usize,
    /// The names of the claims that do not hold.
    pub fail: Vec<String>,
    /// Claims that cannot be tested.
    pub untested: usize,
    /// Duration in seconds, all machines together; `None` if it was not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_s: Option<f64>,
    /// The main numbers, if the experiment gives some: the head, then lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub table: Vec<Vec<String>>,
}

/// The experiments that ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabSummary {
    /// The experiments.
    pub experiments: Vec<Tally>,
    /// The page about all experiments that ran; `None` for a shard.
    pub index: Option<PathBuf>,
    /// Files with a shard's rows.
    pub rows: Vec<PathBuf>,
}

/// Runs experiments and writes their files; each is written as soon as it is finished.
///
/// # Errors
/// [`LabError`]; the files of finished experiments remain.
pub fn run(options: &LabOptions, progress: Progress) -> Result<LabSummary, LabError> {
    let interrupt = Interrupt::install().map_err(|error| LabError::at(&options.out, error))?;
    let experiments = catalogue::select(&options.experiments)?;
    run_until(&|| interrupt.came(), &experiments, options, progress)
}

/// Runs these experiments, for a caller that already handles the signals.
pub(super) fn run_until(
    has_come: &dyn Fn() -> bool,
    experiments: &[&'static dyn Experiment],
    options: &LabOptions,
    progress: Progress,
) -> Result<LabSummary, LabError> {
    let plan = Plan {
        size: options.size,
        seed: options.seed,
        program: options.program.clone(),
        speech: options.speech.clone(),
        overrides: options.overrides.clone(),
        stop: Stop::default(),
    };
    // Check everything before anything is measured for hours.
    for experiment in experiments {
        overrides::grid(*experiment, plan.size, &plan.overrides)?;
    }
    let recording = cells::recording(plan.speech.as_deref())?;
    let failed = |error| LabError::at(&options.out, error);
    std::fs::create_dir_all(&options.out).map_err(failed)?;
    let mut summary = LabSummary {
        experiments: Vec::new(),
        index: None,
        rows: Vec::new(),
    };
    let mut measured = Measured::new();
    for experiment in experiments.iter().copied() {
        progress.begin(&format!("{}: {}", experiment.id(), experiment.title()));
        let begun = Instant::now();
        let mut part = Part {
            experiment: experiment.id().to_owned(),
            size: plan.size,
            seed: plan.seed,
            build: build().to_owned(),
            overrides: plan.overrides.iter().map(Override::to_string).collect(),
            speech: recording.clone(),
            program: program(experiment, &options.program)?,
            took_s: 0.0,
            rows: Vec::new(),
            definition: experiment.definition().cloned(),
        };
        let kept_at = kept::path(&options.out, experiment.id(), options.shard);
        if let Some(kept) = kept::read(&kept_at, &part) {
            progress.step(&format!("{} cells are measured already", kept.rows.len()));
            part.took_s = kept.took_s;
            let keyed = |row: Row| ((experiment.family(), row.cell.clone()), row);
            measured.extend(kept.rows.into_iter().map(keyed));
        }
        let swept = sweep::measure(
            experiment,
            &plan,
            options.shard,
            &mut measured,
            has_come,
            progress,
        )?;
        part.took_s += begun.elapsed().as_secs_f64();
        part.rows = swept.rows;
        if let Some(stopped) = swept.stopped {
            kept::write(&kept_at, &part).map_err(failed)?;
            return Err(LabError::stopped(experiment, stopped));
        }
        if let Some(shard) = options.shard {
            let path = files::write_part(&options.out, &part, shard).map_err(failed)?;
            kept::remove(&kept_at).map_err(failed)?;
            summary.rows.push(path);
            continue;
        }
        let (took_s, rows) = (part.took_s, Rows(part.rows));
        let outcome =
            files::write_outcome(&options.out, experiment, &plan, &rows).map_err(failed)?;
        kept::remove(&kept_at).map_err(failed)?;
        progress.step(&format!("{}: {took_s:.1} s", experiment.id()));
        summary.experiments.push(Tally::of(&outcome, Some(took_s)));
        // The page is written after each experiment, so that a reader can look at finished ones while the rest runs.
        summary.index = Some(index::write(&options.out).map_err(failed)?);
    }
    Ok(summary)
}

/// Returns what identifies the program whose nodes are measured. The digest of the sources does not cover the command
/// line, which plans and measures copies.
fn program(experiment: &dyn Experiment, path: &Path) -> Result<Option<String>, LabError> {
    match experiment.is_real_time() {
        true => cells::digest_of(path).map(Some),
        false => Ok(None),
    }
}

impl LabError {
    pub(super) fn at(path: &Path, error: io::Error) -> LabError {
        LabError::Io {
            path: path.to_owned(),
            error,
        }
    }

    fn stopped(experiment: &dyn Experiment, stopped: Stopped) -> LabError {
        match stopped {
            Stopped::Interrupted => LabError::Interrupted,
            Stopped::Failed(cell, error) => LabError::Cell {
                experiment: experiment.id().to_owned(),
                cell,
                why: format!("{error}; the same command measures what is missing"),
            },
        }
    }
}

impl Tally {
    pub(super) fn of(outcome: &Outcome, took_s: Option<f64>) -> Tally {
        let count = |holds| outcome.count(holds);
        let failed = outcome.claims.iter().filter(|c| c.holds == Some(false));
        Tally {
            id: outcome.id.clone(),
            hold: count(Some(true)),
            by_construction: outcome.by_construction(),
            fail: failed.map(|claim| claim.key.clone()).collect(),
            untested: count(None),
            took_s: took_s.map(|took_s| tools::quality::round(took_s, 1)),
            table: outcome.table.clone(),
        }
    }
}

impl LabSummary {
    /// Returns the claims that do not hold, by their experiments, as a line; `None` if all hold.
    #[must_use]
    pub fn failing(&self) -> Option<String> {
        let each = self.experiments.iter().filter(|t| !t.fail.is_empty());
        let each = each.map(|tally| format!("{}: {}", tally.id, tally.fail.join(", ")));
        let each: Vec<String> = each.collect();
        (!each.is_empty()).then(|| format!("claims that do not hold: {}", each.join("; ")))
    }

    /// Returns the number of tested claims.
    #[must_use]
    pub fn judged(&self) -> usize {
        let each = self.experiments.iter();
        each.map(|tally| tally.hold + tally.fail.len()).sum()
    }
}

impl fmt::Display for LabSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for tally in self.experiments.iter().filter(|t| !t.table.is_empty()) {
            writeln!(f, "{}\n{}", tally.id, table::align(&tally.table))?;
        }
        if !self.experiments.is_empty() {
            let head = [
                "experiment",
                "hold",
                "do not",
                "untested",
                "by construction",
                "seconds",
            ];
            let mut rows = vec![head.map(str::to_owned).to_vec()];
            for tally in &self.experiments {
                rows.push(vec![
                    tally.id.clone(),
                    tally.hold.to_string(),
                    tally.fail.len().to_string(),
                    tally.untested.to_string(),
                    tally.by_construction.to_string(),
                    tally
                        .took_s
                        .map_or_else(|| "-".to_owned(), |s| format!("{s:.1}")),
                ]);
            }
            f.write_str(&table::align(&rows))?;
        }
        for tally in self.experiments.iter().filter(|t| !t.fail.is_empty()) {
            writeln!(
                f,
                "does not hold in {}: {}",
                tally.id,
                tally.fail.join(", ")
            )?;
        }
        if let Some(index) = &self.index {
            writeln!(f, "see {}", index.display())?;
        }
        for path in &self.rows {
            writeln!(f, "rows in {}", path.display())?;
        }
        Ok(())
    }
}
