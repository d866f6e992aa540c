//! Experiments: figures and tables of the papers as families of measurements, with the papers'
//! claims and a verdict on each.
//!
//! ```text
//!   Experiment ── cells ──▶ measure, one by one or on all cores ──▶ Row … ──▶ conclude ──▶ Findings
//!                   │                                                │           charts, verdicts
//!                   └── --shard i/n: every n-th cell ──▶ rows file ──┘ merge           │
//!                                                             ID.csv ID.svg ID.json  ◀─┘
//!                                                             index.html over all that ran
//! ```
//!
//! A *cell* is one point of the grid: a loss and a burstiness, a size of the plane. Cells are independent, and each has
//! a seed of its own, drawn from the run's seed, the experiment's name and the cell's key. So a run on one machine, on
//! many cores, or in shards that are merged gives the same rows. Experiments of one *family* are figures of the same
//! measurements: a run measures a cell once for all of them, and its seed is drawn from the family's name.
//!
//! A *claim* is a sentence of a paper. The list (`ClaimText`) is separate from the experiments; an experiment gives a
//! `Verdict` on each of its claims: it holds, it does not, or it cannot be tested, with the measured values. [`run()`]
//! refuses an experiment that leaves one out.
//!
//! In addition to the experiments here, users have their own in files ([`Definition`]).

mod amir03;
mod amir06;
mod babay17;
mod brogle09;
mod catalogue;
pub mod cells;
mod files;
mod index;
mod kept;
mod liu04;
mod merge;
mod messy;
mod overrides;
mod own;
mod papadimitriou06;
mod protection;
mod row;
mod run;
mod shard;
mod streams;
mod sweep;
mod two_ways;
mod version;
mod video;

#[cfg(test)]
mod tests;

pub use catalogue::{Entry, check, list};
pub use merge::merge;
pub use overrides::{BadOverride, Override};
pub use own::Definition;
pub use run::{LabError, LabOptions, LabSummary, Tally, run};
pub use shard::{BadShard, Shard};
pub use version::build;

use crate::plot::Chart;
use base::rng::Rng;
pub(crate) use row::{Row, Rows};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How much of an experiment is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// Under a minute on two cores: fewer packets, topologies, repetitions.
    #[default]
    Quick,
    /// The paper's own size.
    Full,
}

/// A sentence of a paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClaimText {
    /// The experiment that judges it.
    pub(crate) experiment: &'static str,
    /// Its name within the experiment.
    pub(crate) key: &'static str,
    /// Paper and section.
    pub(crate) source: &'static str,
    /// What the paper says.
    pub(crate) text: &'static str,
    /// The sentence as a number or comparison.
    pub(crate) expected: &'static str,
}

/// Creates a claim: experiment, key, source, the words, and their meaning as a number.
pub(crate) const fn claim(
    experiment: &'static str,
    key: &'static str,
    source: &'static str,
    text: &'static str,
    expected: &'static str,
) -> ClaimText {
    ClaimText {
        experiment,
        key,
        source,
        text,
        expected,
    }
}

/// The result for a claim.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    /// The claim's name.
    pub(crate) claim: &'static str,
    /// The measured value, with its unit.
    pub(crate) measured: String,
    /// Whether it holds; `None` if it cannot be tested.
    pub(crate) holds: Option<bool>,
    /// Whether it cannot be otherwise: the claim describes the setup of the experiment, or is arithmetic.
    pub(crate) by_construction: bool,
    /// Why it does not hold, or other information for a reader; may be empty.
    pub(crate) note: String,
}

/// The conclusion of an experiment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    /// The measured series; the first is the paper's figure.
    pub(crate) charts: Vec<Chart>,
    /// One verdict for each claim, in any order.
    pub(crate) verdicts: Vec<Verdict>,
}

/// One point of an experiment's grid.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cell {
    /// Its name, unique and stable: `loss=5 burst=25`.
    pub(crate) key: String,
    /// Its numeric coordinates.
    pub(crate) parameters: Vec<(&'static str, f64)>,
    /// Its coordinates that are words.
    pub(crate) words: Vec<(&'static str, String)>,
}

/// The parameters of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// How much is run.
    pub(crate) size: Size,
    /// The run's seed.
    pub(crate) seed: u64,
    /// The program itself, for experiments that start nodes.
    pub(crate) program: PathBuf,
    /// A recording for experiments that score speech, instead of the one that they choose.
    pub(crate) speech: Option<PathBuf>,
    /// Changes of parameters.
    pub(crate) overrides: Vec<Override>,
    /// Set when cells are no longer needed.
    pub(crate) stop: Stop,
}

/// A request to stop, shared by all threads of the work.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why a cell could not be measured.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct CellError(pub(crate) String);

/// A figure or table of a paper.
pub(crate) trait Experiment: Sync {
    /// Returns the id, such as `amir06/fig4`.
    fn id(&self) -> &'static str;
    /// Returns the family: experiments of one family measure a cell with the same key identically.
    fn family(&self) -> &'static str {
        self.id()
    }
    /// Returns a line that describes it.
    fn title(&self) -> &'static str;
    /// Returns a paragraph for the report about how it is measured here.
    fn method(&self, size: Size) -> String;
    /// Returns its grid, in a stable order.
    fn cells(&self, size: Size) -> Vec<Cell>;
    /// Measures one cell. Equal plans, cells and seeds give equal rows, unless the experiment is real-time.
    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError>;
    /// Draws the conclusion from the rows of all cells.
    fn conclude(&self, plan: &Plan, rows: &Rows) -> Findings;
    /// Returns the main numbers, for a terminal and the page: the head, then lines. May be empty.
    fn table(&self, _: &Rows) -> Vec<Vec<String>> {
        Vec::new()
    }
    /// Returns additional files for a reader, such as scenarios: names and texts.
    fn files(&self, _: &Plan) -> Vec<(String, String)> {
        Vec::new()
    }
    /// Returns whether settings of nodes can be changed.
    fn takes_settings(&self) -> bool {
        true
    }
    /// Returns whether its claims are goals for any values of its grid: then they are also judged with other values.
    fn judges_all(&self) -> bool {
        false
    }
    /// Returns its claims.
    fn claims(&self) -> Vec<&ClaimText> {
        catalogue::claims(self.id()).collect()
    }
    /// Returns the texts that define it, if it is not built in.
    fn definition(&self) -> Option<&Definition> {
        None
    }
    /// Returns whether it runs real nodes: then its cells run one by one, with nothing in parallel.
    fn is_real_time(&self) -> bool {
        false
    }
}

impl Cell {
    /// Creates a cell whose key consists of its coordinates.
    pub(crate) fn at(parameters: &[(&'static str, f64)]) -> Cell {
        Cell::of(parameters.to_vec(), Vec::new())
    }

    /// Creates a cell with words among its coordinates.
    pub(crate) fn of(
        parameters: Vec<(&'static str, f64)>,
        words: Vec<(&'static str, String)>,
    ) -> Cell {
        let numbers = parameters.iter().map(|(k, v)| format!("{k}={v}"));
        let texts = words.iter().map(|(k, v)| format!("{k}={v}"));
        let key: Vec<String> = numbers.chain(texts).collect();
        Cell {
            key: key.join(" "),
            parameters,
            words,
        }
    }

    /// Returns one of its coordinates; a missing one is a programming error of the experiment.
    pub(crate) fn parameter(&self, name: &str) -> f64 {
        let found = self.parameters.iter().find(|(key, _)| *key == name);
        found.expect("the experiment made this cell").1
    }

    /// Returns the seed of this cell in a run, in experiments of a family.
    pub(crate) fn seed(&self, family: &str, seed: u64) -> u64 {
        let mut state = seed;
        for byte in family.bytes().chain([0]).chain(self.key.bytes()) {
            state = Rng::new(state ^ u64::from(byte)).next_u64();
        }
        state
    }
}

impl Verdict {
    /// Returns a verdict: the claim holds, or does not.
    pub(crate) fn of(claim: &'static str, holds: bool, measured: impl Into<String>) -> Verdict {
        Verdict {
            claim,
            measured: measured.into(),
            holds: Some(holds),
            by_construction: false,
            note: String::new(),
        }
    }

    /// Returns a verdict that holds because of the experiment's setup, or by arithmetic or definition: nothing was
    /// tested.
    pub(crate) fn by_construction(claim: &'static str, how: impl Into<String>) -> Verdict {
        Verdict {
            by_construction: true,
            ..Verdict::of(claim, true, how)
        }
    }

    /// Returns a verdict after a check of the setup: the claim holds by construction, or the setup differs.
    pub(crate) fn made(claim: &'static str, holds: bool, how: impl Into<String>) -> Verdict {
        Verdict {
            by_construction: holds,
            ..Verdict::of(claim, holds, how)
        }
    }

    /// Compares the setup with that of the paper: parameters, with the values of this run and of the paper. If all are
    /// equal, the claim holds by construction. If this run has less of something, as a quick one has, the claim is not
    /// tested. If it has more, or something else, the claim does not hold.
    pub(crate) fn setup(claim: &'static str, parameters: &[(&'static str, f64, f64)]) -> Verdict {
        let alike = |run: f64, paper: f64| (run - paper).abs() <= 1e-9 * paper.abs();
        let text = |&(name, run, paper): &(&str, f64, f64)| match alike(run, paper) {
            true => format!("{run} {name}"),
            false => format!("{run} {name} (the paper: {paper})"),
        };
        let text: Vec<String> = parameters.iter().map(text).collect();
        let text = text.join(", ");
        let others = || {
            parameters
                .iter()
                .filter(|(_, run, paper)| !alike(*run, *paper))
        };
        if others().count() == 0 {
            Verdict::by_construction(claim, text)
        } else if others().all(|(_, run, paper)| run < paper) {
            Verdict::untested(claim, "this run is smaller than the paper's").measured(text)
        } else {
            Verdict::of(claim, false, text)
        }
    }

    /// Returns a verdict that the claim cannot be tested, and why.
    pub(crate) fn untested(claim: &'static str, why: impl Into<String>) -> Verdict {
        Verdict {
            claim,
            measured: "not measured".into(),
            holds: None,
            by_construction: false,
            note: why.into(),
        }
    }

    /// Adds what was measured nevertheless.
    #[must_use]
    pub(crate) fn measured(mut self, text: impl Into<String>) -> Verdict {
        self.measured = text.into();
        self
    }

    /// Adds the reason after the note, if the claim does not hold.
    #[must_use]
    pub(crate) fn because(self, reason: impl Into<String>) -> Verdict {
        match self.holds {
            Some(false) => self.note(reason),
            _ => self,
        }
    }

    /// Adds information for the reader after the note.
    #[must_use]
    pub(crate) fn note(mut self, note: impl Into<String>) -> Verdict {
        if !self.note.is_empty() {
            self.note.push_str("; ");
        }
        self.note.push_str(&note.into());
        self
    }
}
