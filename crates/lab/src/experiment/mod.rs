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
//! A *cell* is one point of the grid: a loss and a burstiness, a size of the plane. Cells know
//! nothing of each other and each has a seed of its own, drawn from the run's seed, the experiment's
//! name and the cell's key; so a run on one machine, on many cores, or in shards that are merged
//! gives the same rows. Experiments of one *family* are figures of the same measurements: a run
//! measures a cell once for all of them, and its seed is drawn from the family's name.
//!
//! A *claim* is a sentence of a paper. The list (`ClaimText`) is kept apart from the experiments;
//! an experiment gives a `Verdict` on each of its claims: it holds, it does not, or it cannot be
//! tested, with what was measured. [`run()`] refuses an experiment that forgets one.
//!
//! Beside the experiments here, users have their own in files ([`Definition`]).

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

/// How much of an experiment is done.
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
    /// What that is as a number or comparison.
    pub(crate) expected: &'static str,
}

/// A claim: experiment, key, source, the words, what they mean as a number.
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

/// What has been found out about a claim.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    /// The claim's name.
    pub(crate) claim: &'static str,
    /// What was measured, with its unit.
    pub(crate) measured: String,
    /// Whether it holds; `None` if it cannot be tested.
    pub(crate) holds: Option<bool>,
    /// It cannot come out otherwise: it says how the experiment is made, or is arithmetic.
    pub(crate) by_construction: bool,
    /// Why it does not, or what a reader should know; may be empty.
    pub(crate) note: String,
}

/// What an experiment comes to.
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
    /// Its coordinates that are numbers.
    pub(crate) parameters: Vec<(&'static str, f64)>,
    /// Its coordinates that are words.
    pub(crate) words: Vec<(&'static str, String)>,
}

/// What a run is told.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// How much is done.
    pub(crate) size: Size,
    /// The run's seed.
    pub(crate) seed: u64,
    /// The program itself, for experiments that start nodes.
    pub(crate) program: PathBuf,
    /// A recording for experiments that score speech, instead of what they choose themselves.
    pub(crate) speech: Option<PathBuf>,
    /// Parameters that are wanted otherwise.
    pub(crate) overrides: Vec<Override>,
    /// Set when nobody waits for cells any more.
    pub(crate) stop: Stop,
}

/// A wish that work ends, seen by all that do it.
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
    /// `amir06/fig4`.
    fn id(&self) -> &'static str;
    /// Whose measurements it draws: experiments of one family measure a cell of one key alike.
    fn family(&self) -> &'static str {
        self.id()
    }
    /// A line about it.
    fn title(&self) -> &'static str;
    /// How it is done here, for the report: a paragraph.
    fn method(&self, size: Size) -> String;
    /// Its grid, in a stable order.
    fn cells(&self, size: Size) -> Vec<Cell>;
    /// Measures one cell. Equal plans, cells and seeds give equal rows, unless it is real-time.
    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError>;
    /// What the rows of all cells come to.
    fn conclude(&self, plan: &Plan, rows: &Rows) -> Findings;
    /// The numbers in short, for a terminal and the page: the head, then lines. May be empty.
    fn table(&self, _: &Rows) -> Vec<Vec<String>> {
        Vec::new()
    }
    /// Files that a reader may want beside the numbers, such as scenarios: names and texts.
    fn files(&self, _: &Plan) -> Vec<(String, String)> {
        Vec::new()
    }
    /// Whether a setting of nodes can be wanted otherwise.
    fn takes_settings(&self) -> bool {
        true
    }
    /// Whether its claims are goals for any values of its grid: they are judged with other values, too.
    fn judges_all(&self) -> bool {
        false
    }
    /// Its claims.
    fn claims(&self) -> Vec<&ClaimText> {
        catalogue::claims(self.id()).collect()
    }
    /// The texts that it was made of, if it is not built in.
    fn definition(&self) -> Option<&Definition> {
        None
    }
    /// Whether it runs real nodes: then its cells run one by one, with nothing beside them.
    fn is_real_time(&self) -> bool {
        false
    }
}

impl Cell {
    /// A cell whose key is made of its coordinates.
    pub(crate) fn at(parameters: &[(&'static str, f64)]) -> Cell {
        Cell::of(parameters.to_vec(), Vec::new())
    }

    /// The same, with words among them.
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

    /// One of its coordinates; what is not there is a mistake of the experiment.
    pub(crate) fn parameter(&self, name: &str) -> f64 {
        let found = self.parameters.iter().find(|(key, _)| *key == name);
        found.expect("the experiment made this cell").1
    }

    /// The seed of this cell in a run, in experiments of a family.
    pub(crate) fn seed(&self, family: &str, seed: u64) -> u64 {
        let mut state = seed;
        for byte in family.bytes().chain([0]).chain(self.key.bytes()) {
            state = Rng::new(state ^ u64::from(byte)).next_u64();
        }
        state
    }
}

impl Verdict {
    /// It holds, or not.
    pub(crate) fn of(claim: &'static str, holds: bool, measured: impl Into<String>) -> Verdict {
        Verdict {
            claim,
            measured: measured.into(),
            holds: Some(holds),
            by_construction: false,
            note: String::new(),
        }
    }

    /// It holds because the experiment is made so, or by arithmetic or definition: nothing was put to
    /// a test.
    pub(crate) fn by_construction(claim: &'static str, how: impl Into<String>) -> Verdict {
        Verdict {
            by_construction: true,
            ..Verdict::of(claim, true, how)
        }
    }

    /// The same where that was looked at: it holds by construction, or the experiment is made otherwise.
    pub(crate) fn made(claim: &'static str, holds: bool, how: impl Into<String>) -> Verdict {
        Verdict {
            by_construction: holds,
            ..Verdict::of(claim, holds, how)
        }
    }

    /// How the experiment is made, beside what the paper says of its own: parameters, this run's and the
    /// paper's. Where all are equal it holds by construction; where this run has less of something, as a quick one
    /// has, the claim is not tested; where it has more, or something else, it does not hold.
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

    /// It cannot be tested, and why.
    pub(crate) fn untested(claim: &'static str, why: impl Into<String>) -> Verdict {
        Verdict {
            claim,
            measured: "not measured".into(),
            holds: None,
            by_construction: false,
            note: why.into(),
        }
    }

    /// What was measured nevertheless.
    #[must_use]
    pub(crate) fn measured(mut self, text: impl Into<String>) -> Verdict {
        self.measured = text.into();
        self
    }

    /// With the reason, if it does not hold: after what else the note says.
    #[must_use]
    pub(crate) fn because(self, reason: impl Into<String>) -> Verdict {
        match self.holds {
            Some(false) => self.note(reason),
            _ => self,
        }
    }

    /// With something a reader should know, after what the note says already.
    #[must_use]
    pub(crate) fn note(mut self, note: impl Into<String>) -> Verdict {
        if !self.note.is_empty() {
            self.note.push_str("; ");
        }
        self.note.push_str(&note.into());
        self
    }
}
