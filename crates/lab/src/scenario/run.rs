//! A simulation as a command runs it: with progress, an end by Ctrl-C, and a trace in a file.

use super::{Report, Scenario, ScenarioError, Simulation, TraceFile};
use base::Duration;
use std::io;
use std::path::{Path, PathBuf};
use tools::interrupt::Interrupt;
use tools::progress::Progress;

/// Simulated time between two looks at the rest of the world: some 10 ms of ours.
const SLICE: Duration = Duration::from_secs(1);

/// What to run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The scenario's file.
    pub file: PathBuf,
    /// Another seed than the file's.
    pub seed: Option<u64>,
    /// Where every packet is written: pcap if it ends so, else JSON lines.
    pub trace: Option<PathBuf>,
}

/// Why a simulation did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The scenario cannot be used.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The trace could not be written.
    #[error("cannot write the trace {path}: {error}", path = path.display())]
    Trace {
        /// Its file.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// The kernel refused something else.
    #[error("the simulation failed: {0}")]
    Io(#[from] io::Error),
    /// Ctrl-C, or the system asked to end.
    #[error("interrupted: nothing is reported of a scenario that is not over")]
    Interrupted,
}

/// Simulates a scenario file from its beginning to its end.
///
/// # Errors
/// [`RunError`]; a trace that was begun stays as far as it came.
pub fn run(options: &RunOptions, progress: Progress) -> Result<Report, RunError> {
    let scenario = Scenario::load(&options.file)?;
    let interrupt = Interrupt::install()?;
    let mut simulation = Simulation::new(&scenario, options.seed.unwrap_or(scenario.seed));
    let trace = options.trace.as_deref().map(create).transpose()?;
    if let Some((_, file)) = &trace {
        simulation.trace(file.sink());
    }
    progress.begin(&format!(
        "{}: {} nodes, {} s simulated",
        scenario.name,
        scenario.nodes.len(),
        scenario.duration.as_secs_f64()
    ));
    while simulation.run_for(SLICE) {
        if interrupt.came() {
            progress.clear();
            return Err(RunError::Interrupted);
        }
        progress.draw(simulation.progress(), &scenario.name);
    }
    progress.clear();
    let report = simulation.finish();
    if let Some((path, file)) = trace {
        file.finish().map_err(|error| RunError::Trace {
            path: path.to_owned(),
            error,
        })?;
    }
    Ok(report)
}

fn create(path: &Path) -> Result<(&Path, TraceFile), RunError> {
    match TraceFile::create(path) {
        Ok(file) => Ok((path, file)),
        Err(error) => Err(RunError::Trace {
            path: path.to_owned(),
            error,
        }),
    }
}
