//! What an experiment leaves behind: `ID.csv`, `ID.svg`, `ID.json`, or, of a shard, its rows.

use super::index::STYLE;
use super::{
    Definition, Experiment, Findings, Plan, Row, Rows, Shard, Size, build, catalogue, overrides,
};
use crate::files;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// An experiment that is over, as its JSON has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// `amir06/fig4`.
    pub(super) id: String,
    /// A line about it.
    pub(super) title: String,
    /// How it was done.
    pub(super) method: String,
    /// Quick or full.
    pub(super) size: Size,
    /// The run's seed.
    pub(super) seed: u64,
    /// How many cells were measured.
    pub(super) cells: usize,
    /// Which code measured.
    #[serde(default)]
    pub(super) build: String,
    /// Parameters that were wanted otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) overrides: Vec<String>,
    /// The drawings, beside this file.
    pub(super) charts: Vec<String>,
    /// The paper's claims with their verdicts.
    pub(super) claims: Vec<Judged>,
    /// The numbers in short: the head, then lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) table: Vec<Vec<String>>,
}

impl Outcome {
    /// Claims that were put to a test and hold, or do not; or those that could not be.
    pub(super) fn count(&self, holds: Option<bool>) -> usize {
        let tested = self.claims.iter().filter(|claim| !claim.by_construction);
        tested.filter(|claim| claim.holds == holds).count()
    }

    /// Claims that hold by construction.
    pub(super) fn by_construction(&self) -> usize {
        let claims = self.claims.iter();
        claims.filter(|claim| claim.by_construction).count()
    }
}

/// A claim and its verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Judged {
    /// Its name within the experiment.
    pub(super) key: String,
    /// What the paper says.
    pub(super) text: String,
    /// Paper and section.
    pub(super) source: String,
    /// What that is as a number.
    pub(super) expected: String,
    /// What was measured.
    pub(super) measured: String,
    /// Whether it holds; null if it cannot be tested.
    pub(super) holds: Option<bool>,
    /// It holds by construction: nothing was put to a test.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub(super) by_construction: bool,
    /// Why not, or what a reader should know.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) note: String,
}

/// The rows of some cells of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Part {
    /// The experiment.
    pub(super) experiment: String,
    /// Quick or full.
    pub(super) size: Size,
    /// The run's seed.
    pub(super) seed: u64,
    /// Which code measured.
    #[serde(default)]
    pub(super) build: String,
    /// Parameters that were wanted otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) overrides: Vec<String>,
    /// The recording that was named: its digest and length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) speech: Option<String>,
    /// The program whose nodes were measured, if there were any: its digest and length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) program: Option<String>,
    /// Seconds it took.
    pub(super) took_s: f64,
    /// What was measured.
    pub(super) rows: Vec<Row>,
    /// The texts of an experiment that is not built in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) definition: Option<Definition>,
}

/// Pairs each claim of an experiment with its verdict. A verdict without a claim, a claim without a
/// verdict or with two is a mistake of the experiment.
pub(super) fn judge(
    experiment: &dyn Experiment,
    findings: &Findings,
) -> Result<Vec<Judged>, String> {
    let id = experiment.id();
    let mut judged = Vec::new();
    for claim in experiment.claims() {
        let mut verdicts = findings.verdicts.iter().filter(|v| v.claim == claim.key);
        let (Some(verdict), None) = (verdicts.next(), verdicts.next()) else {
            return Err(format!("{id} must judge `{}` once", claim.key));
        };
        judged.push(Judged {
            key: claim.key.to_owned(),
            text: claim.text.to_owned(),
            source: claim.source.to_owned(),
            expected: claim.expected.to_owned(),
            measured: verdict.measured.clone(),
            holds: verdict.holds,
            by_construction: verdict.by_construction,
            note: verdict.note.clone(),
        });
    }
    match findings.verdicts.len() > judged.len() {
        true => Err(format!("{id} judges what is not among its claims")),
        false => Ok(judged),
    }
}

/// Concludes an experiment and writes its files.
pub(super) fn write_outcome(
    out: &Path,
    experiment: &dyn Experiment,
    plan: &Plan,
    rows: &Rows,
) -> io::Result<Outcome> {
    let id = experiment.id();
    let findings = overrides::conclude(experiment, plan, rows);
    let claims = judge(experiment, &findings).map_err(io::Error::other)?;
    let base = out.join(id);
    fs::create_dir_all(base.parent().unwrap_or(out))?;
    files::write(&base.with_extension("csv"), rows.csv().as_bytes())?;
    if let Some(series) = rows.series_csv() {
        files::write(&base.with_extension("series.csv"), series.as_bytes())?;
    }
    let name = id.rsplit('/').next().unwrap_or(id);
    let mut charts = Vec::new();
    for (i, chart) in findings.charts.iter().enumerate() {
        let file = match i {
            0 => format!("{name}.svg"),
            i => format!("{name}-{}.svg", i + 1),
        };
        files::write(
            &base.with_file_name(&file),
            alone(&chart.svg(&format!("{id}-{i}"))).as_bytes(),
        )?;
        charts.push(file);
    }
    for (file, text) in experiment.files(plan) {
        fs::create_dir_all(&base)?;
        files::write(&base.join(file), text.as_bytes())?;
    }
    let outcome = Outcome {
        id: id.to_owned(),
        title: experiment.title().to_owned(),
        method: experiment.method(plan.size),
        size: plan.size,
        seed: plan.seed,
        cells: rows.0.len(),
        build: build().to_owned(),
        overrides: plan.overrides.iter().map(ToString::to_string).collect(),
        charts,
        claims,
        table: experiment.table(rows),
    };
    let json = serde_json::to_string_pretty(&outcome).map_err(io::Error::other)?;
    files::write(&base.with_extension("json"), (json + "\n").as_bytes())?;
    Ok(outcome)
}

/// Writes the rows of a shard.
pub(super) fn write_part(out: &Path, part: &Part, shard: Shard) -> io::Result<PathBuf> {
    let path = out.join(format!("{}.rows-{shard}.json", part.experiment));
    fs::create_dir_all(path.parent().unwrap_or(out))?;
    let json = serde_json::to_string(part).map_err(io::Error::other)?;
    files::write(&path, json.as_bytes())?;
    Ok(path)
}

/// Every outcome in a folder: in the catalogue's order, and then those of own experiments by their names.
pub(super) fn outcomes(out: &Path) -> Vec<Outcome> {
    let read = |path: &Path| -> Option<Outcome> {
        let text = fs::read_to_string(path).ok()?;
        serde_json::from_str(&text).ok()
    };
    let all = catalogue::all();
    let of_catalogue = |id: &str| all.iter().any(|experiment| experiment.id() == id);
    let known = all.iter().map(|e| out.join(e.id()).with_extension("json"));
    let mut outcomes: Vec<Outcome> = known.filter_map(|path| read(&path)).collect();
    let files = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten();
        let mut paths: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
        paths.sort();
        paths
    };
    let folders = files(out).into_iter().filter(|path| path.is_dir());
    for path in folders.flat_map(|folder| files(&folder)) {
        let is_json = path.extension().is_some_and(|ending| ending == "json");
        let id = path.strip_prefix(out).unwrap_or(&path).with_extension("");
        let id = id.to_string_lossy().into_owned();
        if is_json && !of_catalogue(&id) {
            outcomes.extend(read(&path).filter(|outcome| outcome.id == id));
        }
    }
    outcomes
}

/// A drawing that does not need a page's style.
fn alone(svg: &str) -> String {
    const HEAD: &str =
        "<svg xmlns=\"http://www.w3.org/2000/svg\" style=\"background:var(--ground)\" ";
    let svg = svg.replacen("<svg ", HEAD, 1);
    match svg.split_once('>') {
        Some((head, body)) => format!("{head}>\n<style>\n{STYLE}</style>{body}"),
        None => svg,
    }
}
