//! The program `sinew`; see the crate's library.
#![forbid(unsafe_code)]

use clap::Parser;
use std::process::ExitCode;
use std::time::Duration;

/// How long the program waits at its end until all data for a node on another host is sent.
const SETTLE: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let outcome = cli::run(&cli::Cli::parse());
    // Threads send the data that was written to a node on another host.
    client::remote::settle(SETTLE);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
