//! `sinew sim`: runs scenario files in the simulator, with the production nodes. Also runs worlds.

use crate::failure::{Failure, Outcome};
use crate::table::Page;
use crate::terminal;
use base::Duration;
use clap::{Args, Subcommand};
use lab::scenario::{self, RunError, RunOptions, Scenario};
use lab::worlds::{self, WorldsError};
use overlay::snapshot::NetworkSnapshot;
use std::path::{Path, PathBuf};
use tools::progress::Progress;

/// What to simulate.
#[derive(Debug, Subcommand)]
pub enum Sim {
    /// Simulate a scenario file; equal seeds give equal reports
    #[command(after_help = "\
Examples:
  sinew sim run examples/diamond.toml
  sinew sim run examples/chain.toml --seed 7 --trace chain.pcap --json")]
    Run(Run),
    /// Simulate random histories of whole networks, one per seed, and report failures
    #[command(after_help = "\
Examples:
  sinew sim world --seeds 500
  sinew sim world --seed 4711 --trace world.jsonl
  sinew sim world --messy --seeds 20000
  sinew sim world --hostile --seeds 5000")]
    World(World),
}

/// Returns the network of a scenario file as its nodes would know it, at a time of the scenario.
pub(crate) fn network_at(file: &Path, at: Duration) -> Result<NetworkSnapshot, Failure> {
    let scenario = Scenario::load(file).map_err(Failure::misused)?;
    if at > scenario.duration {
        return Err(Failure::misused(format_args!(
            "--at {at}: the scenario is over after {}",
            scenario.duration
        )));
    }
    Ok(scenario::snapshot_of(&scenario, at))
}

/// Options of `sinew sim run`.
#[derive(Debug, Args)]
pub struct Run {
    /// The scenario file (format: docs/scenario.md)
    pub file: PathBuf,
    /// Seed to use instead of the one in the file
    #[arg(long)]
    pub seed: Option<u64>,
    /// Write every packet to this file: pcap if the name ends in .pcap, else JSON lines
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `sinew sim world`.
#[derive(Debug, Args)]
pub struct World {
    /// Number of worlds
    #[arg(long, default_value_t = 100, value_name = "N")]
    pub seeds: u64,
    /// Seed of the first world; each world has the next number
    #[arg(long, default_value_t = 0)]
    pub first: u64,
    /// Run only the world of this seed, and show what happens in it
    #[arg(long, conflicts_with_all = ["seeds", "first"])]
    pub seed: Option<u64>,
    /// Messy worlds: the faults of the Internet, and each call compared with plain UDP
    #[arg(long)]
    pub messy: bool,
    /// Hostile worlds: a member with a valid certificate lies, forges, floods or swallows
    #[arg(long, conflicts_with = "messy")]
    pub hostile: bool,
    /// Run each failing messy or hostile world N more times, with other losses, and count the failures
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub again: u64,
    /// Worlds at the same time; default: the number of processors
    #[arg(long, value_name = "J")]
    pub jobs: Option<usize>,
    /// With --seed, write every packet to this file: pcap if the name ends in .pcap, else JSON lines
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(sim: &Sim) -> Outcome {
    match sim {
        Sim::Run(args) => args.run(),
        Sim::World(args) => args.run(),
    }
}

impl World {
    fn run(&self) -> Outcome {
        let options = worlds::Options {
            first: self.seed.unwrap_or(self.first),
            seeds: self.seed.map_or(self.seeds, |_| 1),
            jobs: self.jobs,
            trace: self.trace.clone(),
            tell: self.seed.is_some(),
            messy: self.messy,
            hostile: self.hostile,
            again: self.again,
        };
        let report =
            worlds::run(&options, Progress::choose(false)).map_err(|error| match error {
                WorldsError::Option(_) => Failure::misused(error),
                WorldsError::Interrupted(_) => Failure::Interrupted(error.to_string()),
                _ => Failure::failed(error),
            })?;
        if self.json {
            terminal::json(&serde_json::to_value(&report).map_err(Failure::failed)?)?;
        } else {
            if let Some(story) = report.story() {
                terminal::line(story.trim_end())?;
            }
            let page = Page::wrapped(&report.to_string(), &terminal::look(), 2);
            terminal::line(page.to_string().trim_end())?;
        }
        match report.failed.first() {
            None => Ok(()),
            Some(first) => Err(Failure::failed(format!(
                "{} of {} worlds failed; live the first again: {}",
                report.failures, report.seeds, first.replay
            ))),
        }
    }
}

impl Run {
    fn run(&self) -> Outcome {
        let options = RunOptions {
            file: self.file.clone(),
            seed: self.seed,
            trace: self.trace.clone(),
        };
        let report =
            scenario::run(&options, Progress::choose(false)).map_err(|error| match error {
                RunError::Scenario(_) => Failure::misused(error),
                _ => Failure::failed(error),
            })?;
        if self.json {
            let value = serde_json::to_value(&report).map_err(Failure::failed)?;
            return terminal::json(&value);
        }
        let page = Page::wrapped(&report.to_string(), &terminal::look(), 2);
        terminal::line(page.to_string().trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_that_is_not_there_is_misuse() {
        let why = network_at(Path::new("/nowhere/chain.toml"), Duration::ZERO);
        assert!(matches!(why, Err(Failure::Misused(_))), "{why:?}");
    }
}
