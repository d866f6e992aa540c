//! `sinew demo`: the same calls directly and over the overlay, side by side.

use crate::failure::{Failure, Outcome};
use crate::terminal;
use clap::Args;
use lab::demo::{DemoError, DemoOptions};
use std::path::PathBuf;
use tools::progress::Progress;

/// What the demonstration is asked.
#[derive(Debug, Args)]
pub struct Demo {
    /// Use one link of 60 ms instead of five of 10 ms: retransmissions are too late there. The calls
    /// also take an overlay without protection
    #[arg(long)]
    pub long: bool,
    /// Calls in parallel, on each path
    #[arg(long, default_value_t = 10)]
    pub calls: u32,
    /// Packet loss of the lossy link, in each direction
    #[arg(long, default_value = "5%", value_parser = tools::share::parse)]
    pub loss: f64,
    /// Chance that the datagram after a lost one is lost too; 0 for independent losses
    #[arg(long, default_value = "25%", value_parser = tools::share::parse)]
    pub burst: f64,
    /// Length of the calls
    #[arg(long, value_name = "TIME", default_value = "36", value_parser = crate::quantity::whole_seconds)]
    pub seconds: u32,
    /// Your own speech: a WAV file of any common rate, mono or stereo
    #[arg(long)]
    pub speech: Option<PathBuf>,
    /// Directory for the report, the WAV files and the numbers
    #[arg(long, default_value = "sinew-demo")]
    pub out: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Print every step, even if the output is not a terminal
    #[arg(long)]
    pub verbose: bool,
}

/// Runs the demonstration.
pub fn run(args: &Demo) -> Outcome {
    let options = DemoOptions {
        long: args.long,
        calls: args.calls,
        loss: args.loss,
        burst: args.burst,
        seconds: args.seconds,
        speech: args.speech.clone(),
        out: args.out.clone(),
        program: None,
        progress: Progress::choose(args.verbose),
    };
    let result = lab::demo::run(&options).map_err(|error| match error {
        DemoError::Option(_) => Failure::misused(error),
        _ => Failure::failed(error),
    })?;
    if args.json {
        return terminal::line(&result.json());
    }
    terminal::line(&result.to_string())
}
