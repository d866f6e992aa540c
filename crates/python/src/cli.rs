//! The command line, for `python -m sinew` and the script `sinew` of an installed wheel.

use clap::Parser;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// How long the process waits at its end until all data for a node on another host is sent, like
/// the program.
const SETTLE: Duration = Duration::from_secs(10);

/// Runs the command line `argv`, whose first word is the name of the program. Returns the exit
/// status.
#[pyfunction]
pub(crate) fn command_line(py: Python<'_>, argv: Vec<OsString>) -> u8 {
    py.detach(|| {
        let cli = match cli::Cli::try_parse_from(argv) {
            Ok(cli) => cli,
            Err(error) => {
                // Help goes to standard output. If that is closed, there is no place for the error.
                let _ = error.print();
                return u8::try_from(error.exit_code()).unwrap_or(2);
            }
        };
        let outcome = cli::run(&cli);
        client::remote::settle(SETTLE);
        let _ = std::io::stdout().flush();
        match outcome {
            Ok(()) => 0,
            Err(failure) => {
                let _ = failure.report();
                failure.status()
            }
        }
    })
}

/// Names the program that experiments and demonstrations start as nodes: this process is Python.
#[pyfunction]
pub(crate) fn name_program(path: PathBuf) {
    tools::program::name(path);
}

/// Waits until the data that was written to sockets of nodes on other hosts is sent. The package
/// calls this at the end of the process, because threads send the data, and the end of the process
/// does not wait for them.
#[pyfunction]
pub(crate) fn settle(py: Python<'_>) {
    py.detach(|| client::remote::settle(SETTLE));
}
