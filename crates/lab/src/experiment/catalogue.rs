//! All experiments, and how names select them.

use super::run::LabError;
use super::{
    ClaimText, Definition, Experiment, Override, Size, amir03, amir06, babay17, brogle09, liu04,
    messy, overrides, papadimitriou06, protection, streams, two_ways, video,
};
use std::path::Path;

/// An experiment, as `sinew lab list` shows it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Entry {
    /// The id, such as `amir06/fig4`.
    pub id: String,
    /// A line that describes it.
    pub title: String,
    /// Number of points of its grid, quick and full.
    pub cells: (usize, usize),
    /// Number of claims that it judges.
    pub claims: usize,
    /// Whether it starts real nodes.
    pub real_time: bool,
}

/// Returns all experiments, in the papers' order.
#[must_use]
pub fn list() -> Vec<Entry> {
    all().into_iter().map(entry).collect()
}

/// Returns the entry of an experiment.
pub(super) fn entry(experiment: &dyn Experiment) -> Entry {
    Entry {
        id: experiment.id().to_owned(),
        title: experiment.title().to_owned(),
        cells: (
            experiment.cells(Size::Quick).len(),
            experiment.cells(Size::Full).len(),
        ),
        claims: experiment.claims().len(),
        real_time: experiment.is_real_time(),
    }
}

/// Returns all experiments.
pub(super) fn all() -> Vec<&'static dyn Experiment> {
    [
        amir03::EXPERIMENTS,
        amir06::EXPERIMENTS,
        papadimitriou06::EXPERIMENTS,
        brogle09::EXPERIMENTS,
        liu04::EXPERIMENTS,
        messy::EXPERIMENTS,
        video::EXPERIMENTS,
        two_ways::EXPERIMENTS,
        protection::EXPERIMENTS,
        babay17::EXPERIMENTS,
        streams::EXPERIMENTS,
    ]
    .concat()
}

/// Returns the claims of all papers.
pub(super) fn all_claims() -> impl Iterator<Item = &'static ClaimText> {
    let papers = [
        amir03::claims::CLAIMS,
        amir06::claims::CLAIMS,
        papadimitriou06::claims::CLAIMS,
        brogle09::claims::CLAIMS,
        brogle09::knees::CLAIMS,
        brogle09::pastry::CLAIMS,
        liu04::claims::CLAIMS,
        video::CLAIMS,
        two_ways::CLAIMS,
    ];
    let papers = papers.into_iter().flatten();
    papers
        .chain(messy::claims())
        .chain(streams::claims())
        .chain(babay17::claims())
        .chain(protection::claims())
}

/// Returns the claims that an experiment judges.
pub(super) fn claims(id: &str) -> impl Iterator<Item = &'static ClaimText> {
    all_claims().filter(move |claim| claim.experiment == id)
}

/// Checks that the names select experiments, and that these have the parameters to be changed.
///
/// # Errors
/// [`LabError::Unknown`], [`LabError::Override`]
pub fn check(names: &[String], size: Size, set: &[Override]) -> Result<(), LabError> {
    for experiment in select(names)? {
        overrides::grid(experiment, size, set)?;
    }
    Ok(())
}

/// Returns the experiments that the names select: `amir06/fig4`, `amir06/all`, `all`, and files such as `mine.toml`.
pub(super) fn select(names: &[String]) -> Result<Vec<&'static dyn Experiment>, LabError> {
    let means = |name: &str, id: &str| {
        let paper = name.strip_suffix("/all");
        name == "all"
            || name == id
            || paper.is_some_and(|paper| id.split('/').next() == Some(paper))
    };
    let known = all();
    let mut own: Vec<&'static dyn Experiment> = Vec::new();
    for name in names {
        if Definition::is_meant_by(name) {
            let read = Definition::load(Path::new(name))?.experiment()?;
            if own.iter().any(|other| other.id() == read.id()) {
                return Err(LabError::Twice(read.id().to_owned()));
            }
            own.push(read);
        } else if !known.iter().any(|experiment| means(name, experiment.id())) {
            return Err(LabError::Unknown(name.clone()));
        }
    }
    let wanted = |id: &str| names.iter().any(|name| means(name, id));
    let known = known.into_iter().filter(|e| wanted(e.id()));
    Ok(known.chain(own).collect())
}
