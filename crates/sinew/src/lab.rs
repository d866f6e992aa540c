//! `sinew lab`: the papers' figures as experiments, each with the paper's claims and a verdict. Also scenarios with
//! real nodes.

mod cluster;

use crate::failure::{Failure, Outcome};
use crate::link;
use crate::quantity::counted;
use crate::table::Page;
use crate::terminal;
use clap::{Args, Subcommand};
use cluster::Cluster;
use lab::experiment::{self, LabError, LabOptions, LabSummary, Override, Shard, Size};
use lab::live::{self, LiveError, LiveOptions};
use std::path::PathBuf;
use tools::progress::Progress;

/// What to do in the laboratory.
#[derive(Debug, Subcommand)]
pub enum Lab {
    /// Show all experiments
    #[command(after_help = "Example:\n  sinew lab list")]
    List(List),
    /// Run experiments: figures, numbers, and a page with a verdict on every claim
    #[command(after_help = "\
Examples:
  sinew lab run amir06/fig12 --out out
  sinew lab run amir06/all --full --out out
  sinew lab run examples/experiments/recovery.toml --out out
  sinew lab run messy/loss --set settings.hello_interval=50ms
  sinew lab run all --shard 2/5 --out part-2
  sinew lab run amir06/all --full --on slurm --out job")]
    Run(Run),
    /// Run a scenario file with real nodes and emulated links on this machine
    #[command(after_help = "\
Examples:
  sinew lab up examples/diamond.toml
  sinew lab up examples/chain.toml --seconds 10 --json
  sinew lab up examples/partition.toml --out ring --keep")]
    Up(Up),
    /// End the nodes that `lab up --keep` left running
    #[command(after_help = "Example:\n  sinew lab down ring")]
    Down(Down),
    /// Impair the packets from node A to its neighbour B, or end this (nodes with `lab = true`)
    #[command(after_help = "\
Words: loss=5% burst=25% delay=10ms jitter=2ms reorder rate=10mbit queue=50
  outage gilbert=..

Examples:
  sinew lab impair ams fra loss=5% burst=25% delay=10ms
  sinew lab impair ams fra delay=10ms rate=10mbit --both
  sinew lab impair ams fra --clear")]
    Impair(link::Impair),
    /// Merge the parts of runs with --shard
    #[command(after_help = "Example:\n  sinew lab merge part-1 part-2 part-3 --out out")]
    Merge(Merge),
}

/// Options of `sinew lab list`.
#[derive(Debug, Args)]
pub struct List {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `sinew lab run`.
#[derive(Debug, Args)]
pub struct Run {
    /// Experiments: their names, PAPER/all, all, or a file of your own (format: docs/lab.md)
    #[arg(required = true, value_name = "ID")]
    pub experiments: Vec<String>,
    /// Run at the size of the papers, instead of under a minute each
    #[arg(long)]
    pub full: bool,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "out")]
    pub out: PathBuf,
    /// Run only part I of N, to be merged later
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Run nothing, but write the files with which a cluster runs it in parts: for SLURM, Kubernetes, or
    /// hosts that you reach by ssh
    #[arg(long, value_name = "CLUSTER", conflicts_with = "shard")]
    pub on: Option<Cluster>,
    /// How many parts, with --on slurm or k8s [default: 16]
    #[arg(long, value_name = "N", requires = "on", value_parser = parts)]
    pub parts: Option<usize>,
    /// Recording of speech, 12 s or longer, for experiments on voice quality
    #[arg(long, value_name = "FILE.wav")]
    pub speech: Option<PathBuf>,
    /// Change a parameter: values of the grid (loss=1,2,5) or a setting of simulated nodes
    /// (settings.hello_interval=50ms). No claim of a paper is judged then
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<Override>,
    /// Exit with status 1 if a claim that was put to a test does not hold, or if none was
    #[arg(long, conflicts_with_all = ["shard", "on"])]
    pub strict: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print every step, even if the output is not a terminal
    #[arg(long)]
    pub verbose: bool,
}

/// Options of `sinew lab up`.
#[derive(Debug, Args)]
pub struct Up {
    /// The scenario file (format: docs/scenario.md)
    pub file: PathBuf,
    /// The folder for the nodes' files, their logs and the report
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// End it after this time; a bare number is in seconds
    #[arg(long, value_name = "TIME", value_parser = crate::quantity::fraction_of_seconds)]
    pub seconds: Option<f64>,
    /// Leave the nodes running at the end
    #[arg(long)]
    pub keep: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print every step, even if the output is not a terminal
    #[arg(long)]
    pub verbose: bool,
}

/// Options of `sinew lab down`.
#[derive(Debug, Args)]
pub struct Down {
    /// The folder of `lab up`, given by you or printed
    pub dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `sinew lab merge`.
#[derive(Debug, Args)]
pub struct Merge {
    /// The folders of the parts
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "out")]
    pub out: PathBuf,
    /// Exit with status 1 if a claim that was put to a test does not hold, or if none was
    #[arg(long)]
    pub strict: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(lab: &Lab) -> Outcome {
    match lab {
        Lab::List(args) => list(args),
        Lab::Run(args) => run_experiments(args),
        Lab::Up(args) => up(args),
        Lab::Down(args) => down(args),
        Lab::Impair(args) => link::impair(args),
        Lab::Merge(args) => {
            let summary = experiment::merge(&args.folders, &args.out);
            tell(&summary.map_err(failure)?, args.json, args.strict)
        }
    }
}

/// The column at which titles begin after the experiments' names.
const ID: usize = 16;

fn list(args: &List) -> Outcome {
    let entries = experiment::list();
    if args.json {
        return terminal::json(&serde_json::to_value(&entries).map_err(Failure::failed)?);
    }
    for entry in entries {
        let real = if entry.real_time { ", real nodes" } else { "" };
        let claims = counted(entry.claims as u64, "claim");
        let line = format!("{:<ID$} {} ({claims}{real})", entry.id, entry.title);
        let page = Page::wrapped(&line, &terminal::look(), ID + 1);
        terminal::line(page.to_string().trim_end())?;
    }
    Ok(())
}

/// Reads the number of parts.
fn parts(text: &str) -> Result<usize, String> {
    let shard: Result<Shard, _> = format!("1/{text}").parse();
    let count = text.parse().ok().filter(|_| shard.is_ok());
    count.ok_or_else(|| "write 1 to 10000".to_owned())
}

fn size(args: &Run) -> Size {
    match args.full {
        true => Size::Full,
        false => Size::Quick,
    }
}

fn run_experiments(args: &Run) -> Outcome {
    if let Some(on) = args.on {
        return cluster::write(args, on);
    }
    let options = LabOptions {
        experiments: args.experiments.clone(),
        size: size(args),
        seed: args.seed,
        out: args.out.clone(),
        shard: args.shard,
        program: tools::program::path().map_err(Failure::failed)?,
        speech: args.speech.clone(),
        overrides: args.set.clone(),
    };
    let summary = experiment::run(&options, Progress::choose(args.verbose));
    tell(&summary.map_err(failure)?, args.json, args.strict)
}

fn up(args: &Up) -> Outcome {
    let options = LiveOptions {
        file: args.file.clone(),
        seconds: args.seconds,
        out: args.out.clone(),
        keep: args.keep,
        program: tools::program::path().map_err(Failure::failed)?,
    };
    let result = live::up(&options, Progress::choose(args.verbose)).map_err(live_failure)?;
    if args.json {
        return terminal::json(&result.json());
    }
    let page = Page::wrapped(&result.to_string(), &terminal::look(), 4);
    terminal::line(page.to_string().trim_end())
}

fn down(args: &Down) -> Outcome {
    let ended = live::down(&args.dir).map_err(live_failure)?;
    if args.json {
        return terminal::json(&serde_json::to_value(&ended).map_err(Failure::failed)?);
    }
    terminal::line(&format!(
        "{} nodes of {} have ended",
        ended.nodes.len(),
        ended.scenario
    ))
}

fn live_failure(error: LiveError) -> Failure {
    match error {
        LiveError::Scenario(_) | LiveError::NotLive { .. } | LiveError::Option(_) => {
            Failure::misused(error)
        }
        _ => Failure::failed(error),
    }
}

fn tell(summary: &LabSummary, json: bool, is_strict: bool) -> Outcome {
    match json {
        true => terminal::json(&serde_json::to_value(summary).map_err(Failure::failed)?)?,
        false => terminal::line(summary.to_string().trim_end())?,
    }
    match summary.failing() {
        _ if !is_strict => Ok(()),
        Some(claims) => Err(Failure::failed(claims)),
        None if summary.judged() == 0 => Err(Failure::failed("no claim was judged")),
        None => Ok(()),
    }
}

fn failure(error: LabError) -> Failure {
    match error {
        LabError::Unknown(_)
        | LabError::NoRows(_)
        | LabError::Override { .. }
        | LabError::Definition(_)
        | LabError::Twice(_) => Failure::misused(error),
        _ => Failure::failed(error),
    }
}
