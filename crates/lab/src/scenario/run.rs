//! Runs a simulation for a command: with progress, an end by Ctrl-C, and a trace in a file.

use super::{Report, Scenario, ScenarioError, Simulation, TraceFile};
use base::Duration;
use std::io;
use std::path::{Path, PathBuf};
use tools::interrupt::Interrupt;
use tools::progress::Progress;

/// Simulated time between two checks for Ctrl-C: some 10 ms of real time.
const SLICE: Duration = Duration::from_secs(1);

/// Options of a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The scenario's file.
    pub file: PathBuf,
    /// A seed that replaces the file's.
    pub seed: Option<u64>,
    /// The file to which every packet is written: pcap if its name has that ending, else JSON lines.
    pub trace: Option<PathBuf>,
}

/// Why a simulation did not complete.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The scenario is not valid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The trace could not be written.
    #[error("cannot write the trace {path}: {error}", path = path.display())]
    Trace {
        /// The trace's file.
        path: PathBuf,
        /// The kernel's error.
        error: io::Error,
    },
    /// Another operation failed in the kernel.
    #[error("the simulation failed: {0}")]
    Io(#[from] io::Error),
    /// Ctrl-C, or the system requested the end.
    #[error("interrupted: nothing is reported of a scenario that is not over")]
    Interrupted,
}

/// Simulates a scenario file from its beginning to its end.
///
/// # Errors
/// [`RunError`]; an incomplete trace stays.
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
