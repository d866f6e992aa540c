//! Merges shards: checks that the rows of all parts are complete, and concludes the experiment as if one machine had
//! measured them.

use super::cells::one_speech;
use super::files::{self, Part};
use super::overrides::{self, Override};
use super::run::{LabError, LabSummary, Tally};
use super::{Experiment, Plan, Row, Rows, build, catalogue, index};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Merges the shards in some folders into `out`. Every experiment that has rows is concluded.
///
/// # Errors
/// [`LabError`] if there are no rows, cells are missing, or parts are duplicate or of different runs or versions.
pub fn merge(folders: &[PathBuf], out: &Path) -> Result<LabSummary, LabError> {
    let mut parts: BTreeMap<String, Vec<Part>> = BTreeMap::new();
    for folder in folders {
        let before = parts.values().map(Vec::len).sum::<usize>();
        for part in read(folder)? {
            parts.entry(part.experiment.clone()).or_default().push(part);
        }
        if parts.values().map(Vec::len).sum::<usize>() == before {
            return Err(LabError::NoRows(folder.clone()));
        }
    }
    fs::create_dir_all(out).map_err(|error| LabError::at(out, error))?;
    let mut tallies = Vec::new();
    let mut known = catalogue::all();
    for part in parts.values().flatten() {
        if let Some(definition) = &part.definition {
            let own = definition.experiment()?;
            if !known.iter().any(|experiment| experiment.id() == own.id()) {
                known.push(own);
            }
        }
    }
    for experiment in known {
        let Some(parts) = parts.remove(experiment.id()) else {
            continue;
        };
        let (plan, rows, took_s) = whole(experiment, parts)?;
        let outcome = files::write_outcome(out, experiment, &plan, &rows)
            .map_err(|error| LabError::at(out, error))?;
        tallies.push(Tally::of(&outcome, Some(took_s)));
    }
    if let Some(unknown) = parts.into_keys().next() {
        return Err(LabError::Unknown(unknown));
    }
    Ok(LabSummary {
        experiments: tallies,
        index: Some(index::write(out).map_err(|error| LabError::at(out, error))?),
        rows: Vec::new(),
    })
}

/// Returns the rows of all cells, in order.
fn whole(experiment: &dyn Experiment, parts: Vec<Part>) -> Result<(Plan, Rows, f64), LabError> {
    let incomplete = |why: String| LabError::Incomplete {
        experiment: experiment.id().to_owned(),
        why,
    };
    let (size, seed) = (parts[0].size, parts[0].seed);
    let wanted = parts[0].overrides.clone();
    for part in &parts {
        if (part.size, part.seed, &part.overrides) != (size, seed, &wanted) {
            let why = "its parts have different seeds, sizes or parameters: run all shards alike";
            return Err(incomplete(why.into()));
        }
        if part.speech != parts[0].speech {
            let why = "its parts were scored with different recordings: run all shards with one";
            return Err(incomplete(why.into()));
        }
        if part.program != parts[0].program {
            let why = "its parts were measured with different programs: run all shards with one";
            return Err(incomplete(why.into()));
        }
        if part.definition.as_ref() != experiment.definition() {
            let why = "its parts were measured with different files: run all shards with one";
            return Err(incomplete(why.into()));
        }
        if part.build != build() {
            let build = build();
            return Err(incomplete(format!(
                "a part was measured by version {}, and this is {build}: run all shards, and the \
                 merge, with one version",
                if part.build.is_empty() {
                    "0"
                } else {
                    &part.build
                }
            )));
        }
    }
    let overrides = wanted
        .iter()
        .map(|text| text.parse::<Override>())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| incomplete(error.to_string()))?;
    let took_s = parts.iter().map(|part| part.took_s).sum();
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for row in parts.into_iter().flat_map(|part| part.rows) {
        if let Some(row) = rows.insert(row.cell.clone(), row) {
            let cell = row.cell;
            return Err(incomplete(format!(
                "two parts have measured {cell}: name each part once"
            )));
        }
    }
    let mut ordered = Vec::new();
    for cell in overrides::grid(experiment, size, &overrides)? {
        let missing = || incomplete(format!("no shard has measured {}", cell.key));
        ordered.push(rows.remove(&cell.key).ok_or_else(missing)?);
    }
    if let Some(cell) = rows.into_keys().next() {
        return Err(incomplete(format!("its grid has no cell {cell}")));
    }
    one_speech(&ordered).map_err(incomplete)?;
    let plan = Plan {
        size,
        seed,
        program: PathBuf::new(),
        speech: None,
        overrides,
        stop: super::Stop::default(),
    };
    Ok((plan, Rows(ordered), took_s))
}

/// Reads every part in a folder and in the papers' folders in it.
fn read(folder: &Path) -> Result<Vec<Part>, LabError> {
    let mut parts = Vec::new();
    let mut folders = vec![folder.to_owned()];
    for depth in 0..2 {
        for folder in std::mem::take(&mut folders) {
            let at = |error| LabError::at(&folder, error);
            for entry in fs::read_dir(&folder).map_err(at)? {
                let path = entry.map_err(at)?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if depth == 0 && path.is_dir() {
                    folders.push(path);
                } else if name.contains(".rows-") && name.ends_with(".json") {
                    let text = fs::read(&path).map_err(|error| LabError::at(&path, error))?;
                    let part = serde_json::from_slice(&text)
                        .map_err(|error| LabError::at(&path, error.into()))?;
                    parts.push(part);
                }
            }
        }
    }
    Ok(parts)
}
