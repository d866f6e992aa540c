//! The program `sinew`; see the crate's library.
#![forbid(unsafe_code)]

use clap::Parser;
use std::process::ExitCode;
use std::time::Duration;

/// How long the end waits for what was written to a node on another host.
const SETTLE: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let outcome = cli::run(&cli::Cli::parse());
    // What was written to a node on another host is carried by threads.
    client::remote::settle(SETTLE);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
