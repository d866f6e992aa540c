//! The files of an experiment: `ID.csv`, `ID.svg`, `ID.json`, or, for a shard, its rows.

use super::index::STYLE;
use super::{
    Definition, Experiment, Findings, Plan, Row, Rows, Shard, Size, build, catalogue, overrides,
};
use crate::files;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A finished experiment, as in its JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// The id, such as `amir06/fig4`.
    pub(super) id: String,
    /// A line that describes it.
    pub(super) title: String,
    /// How it was measured.
    pub(super) method: String,
    /// Quick or full.
    pub(super) size: Size,
    /// The run's seed.
    pub(super) seed: u64,
    /// Number of measured cells.
    pub(super) cells: usize,
    /// The build that measured.
    #[serde(default)]
    pub(super) build: String,
    /// Changes of parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) overrides: Vec<String>,
    /// The drawings, in the folder of this file.
    pub(super) charts: Vec<String>,
    /// The paper's claims with their verdicts.
    pub(super) claims: Vec<Judged>,
    /// The main numbers: the head, then lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) table: Vec<Vec<String>>,
}

impl Outcome {
    /// Returns the number of tested claims that hold, or do not; or, for `None`, of those that could not be tested.
    pub(super) fn count(&self, holds: Option<bool>) -> usize {
        let tested = self.claims.iter().filter(|claim| !claim.by_construction);
        tested.filter(|claim| claim.holds == holds).count()
    }

    /// Returns the number of claims that hold by construction.
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
    /// The claim as a number.
    pub(super) expected: String,
    /// What was measured.
    pub(super) measured: String,
    /// Whether it holds; null if it cannot be tested.
    pub(super) holds: Option<bool>,
    /// Whether it holds by construction: nothing was tested.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub(super) by_construction: bool,
    /// Why it does not hold, or other information for a reader.
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
    /// The build that measured.
    #[serde(default)]
    pub(super) build: String,
    /// Changes of parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) overrides: Vec<String>,
    /// The digest and length of the named recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) speech: Option<String>,
    /// The digest and length of the program whose nodes were measured, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) program: Option<String>,
    /// Duration in seconds.
    pub(super) took_s: f64,
    /// The measured rows.
    pub(super) rows: Vec<Row>,
    /// The texts of an experiment that is not built in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) definition: Option<Definition>,
}

/// Pairs each claim of an experiment with its verdict. A verdict without a claim, or a claim without a verdict or with
/// two, is a programming error of the experiment.
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

/// Returns every outcome in a folder: in the catalogue's order, and then those of own experiments by their names.
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

/// Returns a drawing that does not need a page's style.
fn alone(svg: &str) -> String {
    const HEAD: &str =
        "<svg xmlns=\"http://www.w3.org/2000/svg\" style=\"background:var(--ground)\" ";
    let svg = svg.replacen("<svg ", HEAD, 1);
    match svg.split_once('>') {
        Some((head, body)) => format!("{head}>\n<style>\n{STYLE}</style>{body}"),
        None => svg,
    }
}
