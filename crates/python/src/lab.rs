//! Experiments, cell by cell. The package spreads the cells over threads, Dask, or another executor.

use crate::errors::{failed, misused};
use lab::experiment::cells::{self, MeasuredCell, Request};
use lab::experiment::{self, Definition, LabError, Override, Size};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The measurement to make: a dictionary, so that it can be sent to other machines.
#[derive(FromPyObject)]
pub(crate) struct Asked {
    #[pyo3(item)]
    experiment: String,
    /// The JSON of a definition, if it is not built in.
    #[pyo3(item)]
    definition: Option<String>,
    #[pyo3(item)]
    quick: bool,
    #[pyo3(item)]
    seed: u64,
    #[pyo3(item)]
    program: PathBuf,
    #[pyo3(item)]
    speech: Option<PathBuf>,
    /// Words `KEY=VALUE`, as `sinew lab run --set` accepts them.
    #[pyo3(item)]
    set: Vec<String>,
}

impl Asked {
    fn request(self) -> PyResult<Request> {
        let read = |text: &String| text.parse::<Override>().map_err(misused);
        let definition = self
            .definition
            .as_deref()
            .map(serde_json::from_str::<Definition>);
        Ok(Request {
            experiment: self.experiment,
            definition: definition.transpose().map_err(misused)?,
            size: match self.quick {
                true => Size::Quick,
                false => Size::Full,
            },
            seed: self.seed,
            program: self.program,
            speech: self.speech,
            overrides: self.set.iter().map(read).collect::<PyResult<_>>()?,
        })
    }
}

fn raised(error: LabError) -> PyErr {
    match error {
        LabError::Unknown(_)
        | LabError::Definition(_)
        | LabError::Twice(_)
        | LabError::Override { .. }
        | LabError::Incomplete { .. } => misused(error),
        LabError::Io { .. } => PyOSError::new_err(error.to_string()),
        LabError::NoRows(_) | LabError::Cell { .. } | LabError::Interrupted => failed(error),
    }
}

fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(failed)
}

/// Returns all experiments, in the format of `sinew lab list --json`.
#[pyfunction]
pub(crate) fn lab_list() -> PyResult<String> {
    json(&experiment::list())
}

/// Returns an experiment that is not built in, as JSON with everything that it needs: from a file or, if a text is
/// given, from the text.
#[pyfunction]
#[pyo3(signature = (file, text))]
pub(crate) fn lab_define(file: &str, text: Option<&str>) -> PyResult<String> {
    let definition = match text {
        Some(text) => Definition::made(file, text),
        None => Definition::load(Path::new(file)),
    };
    json(&definition.map_err(raised)?)
}

/// Returns whether a name means a file with an experiment.
#[pyfunction]
pub(crate) fn lab_is_file(name: &str) -> bool {
    Definition::is_meant_by(name)
}

/// Returns the entry of one experiment in `lab_list`.
#[pyfunction]
pub(crate) fn lab_entry(request: Asked) -> PyResult<String> {
    json(&cells::entry(&request.request()?).map_err(raised)?)
}

/// Makes a cell whose runs were measured by Python: a dictionary of numbers for each.
#[pyfunction]
pub(crate) fn lab_given(
    request: Asked,
    key: &str,
    runs: Vec<BTreeMap<String, f64>>,
) -> PyResult<String> {
    json(&cells::given(&request.request()?, key, &runs).map_err(raised)?)
}

/// Returns the cells of an experiment, with the values that decide each of them.
#[pyfunction]
pub(crate) fn lab_cells(request: Asked) -> PyResult<String> {
    json(&cells::cells(&request.request()?).map_err(raised)?)
}

/// Measures one cell. The measurement cannot be interrupted. The GIL is free meanwhile.
#[pyfunction]
pub(crate) fn lab_measure(py: Python<'_>, request: Asked, key: &str) -> PyResult<String> {
    let request = request.request()?;
    let measured = py.detach(|| cells::measure(&request, key));
    json(&measured.map_err(raised)?)
}

/// Merges cells and writes the experiment's files. Returns the tally.
#[pyfunction]
pub(crate) fn lab_conclude(
    py: Python<'_>,
    request: Asked,
    measured: Vec<String>,
    out: PathBuf,
) -> PyResult<String> {
    let request = request.request()?;
    let read = |text: &String| serde_json::from_str::<MeasuredCell>(text).map_err(misused);
    let measured = measured.iter().map(read).collect::<PyResult<_>>()?;
    let summary = py.detach(|| cells::conclude(&request, measured, &out));
    json(&summary.map_err(raised)?)
}
