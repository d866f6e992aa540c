//! All experiments, and which of them a name means.

use super::run::LabError;
use super::{
    ClaimText, Experiment, Override, Size, amir03, amir06, brogle09, liu04, messy, overrides,
    papadimitriou06, protection, streams, two_ways, video,
};

/// An experiment, as `sinew lab list` shows it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Entry {
    /// `amir06/fig4`.
    pub id: &'static str,
    /// A line about it.
    pub title: &'static str,
    /// Points of its grid, quick and full.
    pub cells: (usize, usize),
    /// Claims that it judges.
    pub claims: usize,
    /// Whether it starts real nodes.
    pub real_time: bool,
}

/// All experiments, in the papers' order.
#[must_use]
pub fn list() -> Vec<Entry> {
    let entry = |experiment: &&dyn Experiment| Entry {
        id: experiment.id(),
        title: experiment.title(),
        cells: (
            experiment.cells(Size::Quick).len(),
            experiment.cells(Size::Full).len(),
        ),
        claims: claims(experiment.id()).count(),
        real_time: experiment.is_real_time(),
    };
    all().iter().map(entry).collect()
}

/// All experiments.
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
        streams::EXPERIMENTS,
    ]
    .concat()
}

/// The claims of all papers.
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
        protection::CLAIMS,
    ];
    let papers = papers.into_iter().flatten();
    papers.chain(messy::claims()).chain(streams::claims())
}

/// The claims that an experiment judges.
pub(super) fn claims(id: &str) -> impl Iterator<Item = &'static ClaimText> {
    all_claims().filter(move |claim| claim.experiment == id)
}

/// That some names mean experiments, which have what is to be changed.
///
/// # Errors
/// [`LabError::Unknown`], [`LabError::Override`]
pub fn check(names: &[String], size: Size, set: &[Override]) -> Result<(), LabError> {
    for experiment in select(names)? {
        overrides::grid(experiment, size, set)?;
    }
    Ok(())
}

/// The experiments that some names mean: `amir06/fig4`, `amir06/all`, `all`.
pub(super) fn select(names: &[String]) -> Result<Vec<&'static dyn Experiment>, LabError> {
    let means = |name: &str, id: &str| {
        let paper = name.strip_suffix("/all");
        name == "all"
            || name == id
            || paper.is_some_and(|paper| id.split('/').next() == Some(paper))
    };
    let known = all();
    for name in names {
        if !known.iter().any(|experiment| means(name, experiment.id())) {
            return Err(LabError::Unknown(name.clone()));
        }
    }
    let wanted = |id: &str| names.iter().any(|name| means(name, id));
    Ok(known.into_iter().filter(|e| wanted(e.id())).collect())
}
