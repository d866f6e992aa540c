//! `sinew sim`: scenario files through the simulator, with the production nodes.

use crate::failure::{Failure, Outcome};
use crate::terminal;
use clap::{Args, Subcommand};
use lab::progress::Progress;
use lab::scenario::{self, RunError, RunOptions};
use std::path::PathBuf;

/// What to simulate.
#[derive(Debug, Subcommand)]
pub enum Sim {
    /// Simulate a scenario file: equal seeds give equal reports
    #[command(after_help = "\
Examples:
  sinew sim run examples/diamond.toml
  sinew sim run examples/chain.toml --seed 7 --trace chain.pcap --json")]
    Run(Run),
}

/// Options of `sinew sim run`.
#[derive(Debug, Args)]
pub struct Run {
    /// The scenario, as docs/scenario.md has it
    pub file: PathBuf,
    /// Another seed than the file's
    #[arg(long)]
    pub seed: Option<u64>,
    /// Write every packet here: as pcap if the name ends so, else as JSON lines
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Simulates.
pub fn run(sim: &Sim) -> Outcome {
    let Sim::Run(args) = sim;
    let options = RunOptions {
        file: args.file.clone(),
        seed: args.seed,
        trace: args.trace.clone(),
    };
    let report = scenario::run(&options, Progress::choose(false)).map_err(|error| match error {
        RunError::Scenario(_) => Failure::misused(error),
        _ => Failure::failed(error),
    })?;
    if args.json {
        let value = serde_json::to_value(&report).map_err(Failure::failed)?;
        return terminal::json(&value);
    }
    terminal::line(report.to_string().trim_end())
}
