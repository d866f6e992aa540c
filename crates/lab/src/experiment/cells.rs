//! Experiments cell by cell, for a caller that distributes the work itself: a cluster's scheduler, a notebook.
//!
//! ```text
//!   Request ──▶ cells() ──▶ measure(key) on any machine, in any order ──▶ conclude() ──▶ files, tally
//! ```
//! A [`MeasuredCell`] states which build measured it and with which parameters, so [`conclude`] can refuse cells of
//! another build, seed, size or set of parameters, duplicate cells, and a grid with a gap. The files that it writes are
//! byte for byte those of a run on one machine.

use super::amir06::speech;
use super::files;
use super::overrides;
use super::run::{LabError, LabSummary, Tally};
use super::{
    Cell, Definition, Entry, Experiment, Override, Plan, Row, Rows, Size, Stop, build, catalogue,
    index,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What to measure, and how.
#[derive(Clone, Debug)]
pub struct Request {
    /// One experiment, such as `amir06/fig12`. If it is not built in: its name in errors.
    pub experiment: String,
    /// The texts of an experiment that is not built in.
    pub definition: Option<Definition>,
    /// Quick or full.
    pub size: Size,
    /// The seed of everything.
    pub seed: u64,
    /// The program that experiments start as nodes.
    pub program: PathBuf,
    /// A recording for experiments that score speech, instead of the one that they choose.
    pub speech: Option<PathBuf>,
    /// Changes of parameters.
    pub overrides: Vec<Override>,
}

/// A cell to be measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellEntry {
    /// Its name, unique and stable: `loss=5 burst=25`.
    pub key: String,
    /// Its numeric coordinates.
    pub parameters: BTreeMap<String, f64>,
    /// Its coordinates that are words.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub words: BTreeMap<String, String>,
    /// The seeds of its runs, if an external program measures them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub seeds: Vec<u64>,
    /// Everything that determines what it measures, as text. Equal texts give equal rows, unless the experiment runs
    /// real nodes.
    pub identity: String,
}

/// A measured cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredCell {
    /// The identity in its [`CellEntry`].
    pub identity: String,
    pub(crate) row: Row,
}

impl Request {
    fn experiment(&self) -> Result<&'static dyn Experiment, LabError> {
        if let Some(definition) = &self.definition {
            return Ok(definition.experiment()?);
        }
        let found = catalogue::select(std::slice::from_ref(&self.experiment))?;
        match found.as_slice() {
            [one] => Ok(*one),
            _ => Err(LabError::Unknown(self.experiment.clone())),
        }
    }

    fn failed(&self, key: &str, why: String) -> LabError {
        LabError::Cell {
            experiment: self.experiment.clone(),
            cell: key.to_owned(),
            why,
        }
    }

    fn cell(&self, experiment: &dyn Experiment, key: &str) -> Result<Cell, LabError> {
        let cells = overrides::grid(experiment, self.size, &self.overrides)?;
        let cell = cells.into_iter().find(|cell| cell.key == key);
        cell.ok_or_else(|| self.failed(key, "the grid has no such cell".to_owned()))
    }

    fn plan(&self) -> Plan {
        Plan {
            size: self.size,
            seed: self.seed,
            program: self.program.clone(),
            speech: self.speech.clone(),
            overrides: self.overrides.clone(),
            stop: Stop::default(),
        }
    }

    fn identity(&self, experiment: &dyn Experiment, key: &str) -> Result<String, LabError> {
        let speech = recording(self.speech.as_deref())?;
        identity(experiment, &self.plan(), key, speech.as_deref())
    }
}

/// Returns a line for each thing that determines what a cell measures; the recording is that of [`recording`].
pub(super) fn identity(
    experiment: &dyn Experiment,
    plan: &Plan,
    key: &str,
    recording: Option<&str>,
) -> Result<String, LabError> {
    let mut text = format!(
        "build {}\nfamily {}\nsize {:?}\nseed {}\ncell {key}\n",
        build(),
        experiment.family(),
        plan.size,
        plan.seed
    );
    if let Some(definition) = experiment.definition() {
        let decisive = definition.experiment()?.decisive();
        text += &format!("definition {decisive:016x}\n");
    }
    for wanted in &plan.overrides {
        // The cell's key already contains the coordinates.
        if let Override::Setting(..) = wanted {
            text += &format!("set {wanted}\n");
        }
    }
    if let Some(recording) = recording {
        text += &format!("speech {recording}\n");
    }
    Ok(text)
}

/// Returns the digest and length that identify a named recording.
pub(super) fn recording(named: Option<&Path>) -> Result<Option<String>, LabError> {
    let digested = |path: &Path| {
        let bytes = speech::bytes_of(path).map_err(|error| LabError::at(path, error))?;
        Ok(told(&bytes))
    };
    named.map(digested).transpose()
}

/// Returns the digest and length that identify a file.
pub(super) fn digest_of(path: &Path) -> Result<String, LabError> {
    let bytes = std::fs::read(path).map_err(|error| LabError::at(path, error))?;
    Ok(told(&bytes))
}

fn told(bytes: &[u8]) -> String {
    format!("{:016x} {}", digest(bytes), bytes.len())
}

/// Checks that all rows were scored with the same source of speech. Without a named recording, each machine uses the
/// speech package if it is installed, else the sample.
pub(super) fn one_speech<'r>(rows: impl IntoIterator<Item = &'r Row>) -> Result<(), String> {
    let mut told = rows.into_iter().filter_map(|row| row.known("speech"));
    let first = told.next();
    match told.all(|other| Some(other) == first) {
        true => Ok(()),
        false => Err(
            "its cells were scored with different speech: install the same recordings on all machines, or name \
             one by --speech"
                .to_owned(),
        ),
    }
}

/// Computes FNV-1a: it distinguishes recordings and definitions, but does not protect against forgery.
pub(super) fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Returns the entry of a request's experiment, as [`super::list`] does for built-in ones.
///
/// # Errors
/// [`LabError`] if there is no such experiment.
pub fn entry(request: &Request) -> Result<Entry, LabError> {
    Ok(catalogue::entry(request.experiment()?))
}

/// Returns the cells of a request, in the order of the grid.
///
/// # Errors
/// [`LabError`] if there is no such experiment, or it has no such parameters.
pub fn cells(request: &Request) -> Result<Vec<CellEntry>, LabError> {
    let experiment = request.experiment()?;
    let cells = overrides::grid(experiment, request.size, &request.overrides)?;
    let entry = |cell: Cell| {
        let row = Row::of(&cell);
        Ok(CellEntry {
            identity: request.identity(experiment, &cell.key)?,
            parameters: row.parameters,
            words: row.words,
            seeds: match &request.definition {
                Some(own) => own
                    .experiment()?
                    .run_seeds(request.size, &cell, request.seed),
                None => Vec::new(),
            },
            key: cell.key,
        })
    };
    cells.into_iter().map(entry).collect()
}

/// Measures one cell, by its name.
///
/// # Errors
/// [`LabError`] if there is no such cell, or it cannot be measured.
pub fn measure(request: &Request, key: &str) -> Result<MeasuredCell, LabError> {
    let experiment = request.experiment()?;
    let cell = request.cell(experiment, key)?;
    let row = overrides::measure(experiment, &request.plan(), &cell)
        .map_err(|error| request.failed(key, error.to_string()))?;
    Ok(MeasuredCell {
        identity: request.identity(experiment, key)?,
        row,
    })
}

/// Makes one cell of an own experiment that is measured externally, from the numbers of each of its runs.
///
/// # Errors
/// [`LabError`] if there is no such cell, or the numbers belong to other measures.
pub fn given(
    request: &Request,
    key: &str,
    runs: &[BTreeMap<String, f64>],
) -> Result<MeasuredCell, LabError> {
    let experiment = request.experiment()?;
    let cell = request.cell(experiment, key)?;
    let own = match &request.definition {
        Some(definition) => definition.experiment()?,
        None => return Err(request.failed(key, "it is not measured outside".to_owned())),
    };
    let row = own.row(&cell, runs);
    Ok(MeasuredCell {
        identity: request.identity(experiment, key)?,
        row: row.map_err(|error| request.failed(key, error.to_string()))?,
    })
}

/// Combines measured cells, and writes the experiment's files into `out`.
///
/// # Errors
/// [`LabError::Incomplete`] if cells are missing, duplicate, or of another request or build.
pub fn conclude(
    request: &Request,
    measured: Vec<MeasuredCell>,
    out: &Path,
) -> Result<LabSummary, LabError> {
    let experiment = request.experiment()?;
    let plan = request.plan();
    let rows = ordered(request, measured)?;
    let failed = |error| LabError::at(out, error);
    std::fs::create_dir_all(out).map_err(failed)?;
    let outcome = files::write_outcome(out, experiment, &plan, &rows).map_err(failed)?;
    Ok(LabSummary {
        experiments: vec![Tally::of(&outcome, None)],
        index: Some(index::write(out).map_err(failed)?),
        rows: Vec::new(),
    })
}

/// Returns the rows in the order of the grid, each of them once.
fn ordered(request: &Request, measured: Vec<MeasuredCell>) -> Result<Rows, LabError> {
    let incomplete = |why: String| LabError::Incomplete {
        experiment: request.experiment.clone(),
        why,
    };
    let mut rows = BTreeMap::new();
    for cell in measured {
        let key = cell.row.cell.clone();
        if rows.insert(key.clone(), cell).is_some() {
            return Err(incomplete(format!("{key} came twice: give each cell once")));
        }
    }
    let mut in_order = Vec::new();
    for entry in cells(request)? {
        let cell = rows.remove(&entry.key);
        let cell = cell.ok_or_else(|| incomplete(format!("{} is missing", entry.key)))?;
        if let Some((wanted, came)) = difference(&entry.identity, &cell.identity) {
            return Err(incomplete(format!(
                "{} was measured with `{came}` instead of `{wanted}`: measure all cells with one \
                 version and the same options",
                entry.key
            )));
        }
        in_order.push(cell.row);
    }
    match rows.into_keys().next() {
        Some(key) => Err(incomplete(format!("its grid has no cell {key}"))),
        None => {
            one_speech(&in_order).map_err(incomplete)?;
            Ok(Rows(in_order))
        }
    }
}

/// Returns the first line in which two identities differ.
fn difference<'t>(wanted: &'t str, came: &'t str) -> Option<(&'t str, &'t str)> {
    if wanted == came {
        return None;
    }
    let lines = wanted.lines().count().max(came.lines().count());
    let line = |text: &'t str, at: usize| text.lines().nth(at).unwrap_or("nothing");
    (0..lines)
        .map(|at| (line(wanted, at), line(came, at)))
        .find(|(wanted, came)| wanted != came)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Scratch;

    fn request() -> Request {
        Request {
            experiment: "amir06/fig12".to_owned(),
            definition: None,
            size: Size::Quick,
            seed: 7,
            program: PathBuf::new(),
            speech: None,
            overrides: Vec::new(),
        }
    }

    fn all(request: &Request) -> Vec<MeasuredCell> {
        let cells = cells(request).unwrap();
        let measured = cells.iter().rev().map(|cell| measure(request, &cell.key));
        measured.collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn cells_in_any_order_make_the_same_files_and_a_whole_is_wanted() {
        let scratch = Scratch::new("cells").unwrap();
        let request = request();
        let mut measured = all(&request);
        let write = |cells: &[MeasuredCell], folder: &str| {
            conclude(&request, cells.to_vec(), &scratch.path().join(folder))
        };
        write(&measured, "backward").unwrap();
        measured.reverse();
        write(&measured, "forward").unwrap();
        for file in ["amir06/fig12.json", "amir06/fig12.svg", "index.html"] {
            let read = |folder: &str| std::fs::read(scratch.path().join(folder).join(file));
            assert_eq!(
                read("backward").unwrap(),
                read("forward").unwrap(),
                "{file}"
            );
        }
        let refused = |cells: &[MeasuredCell], word: &str| {
            let error = write(cells, "refused").unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        };
        refused(&measured[1..], "is missing");
        let twice: Vec<_> = measured.iter().chain(&measured[..1]).cloned().collect();
        refused(&twice, "came twice");
        measured[0].identity = measured[0].identity.replace(build(), "0.0.9+0");
        refused(&measured, "0.0.9+0");
    }

    #[test]
    fn a_recording_and_a_setting_are_part_of_what_a_cell_is() {
        let plain = request();
        let with = |text: &str| Request {
            overrides: vec![text.parse().unwrap()],
            ..request()
        };
        let set = with("settings.hello_interval=50ms");
        let first = |request: &Request| cells(request).unwrap().swap_remove(0);
        assert_eq!(first(&plain).identity, first(&request()).identity);
        assert_ne!(first(&plain).identity, first(&set).identity);
        // This experiment only computes, and simulates no node that could have a setting.
        let error = measure(&set, &first(&set).key).unwrap_err().to_string();
        assert!(error.contains("no settings to change"), "{error}");
    }
}
