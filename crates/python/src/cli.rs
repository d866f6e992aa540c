//! The command line, for `python -m sinew` and the script `sinew` of an installed wheel.

use clap::Parser;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// How long the end waits for what was written to a node on another host: as the program does.
const SETTLE: Duration = Duration::from_secs(10);

/// Runs the command line `argv`, whose first word is the name of the program; the exit status.
#[pyfunction]
pub(crate) fn command_line(py: Python<'_>, argv: Vec<OsString>) -> u8 {
    py.detach(|| {
        let cli = match cli::Cli::try_parse_from(argv) {
            Ok(cli) => cli,
            Err(error) => {
                // Help goes to standard output. Nobody can be told that it is gone.
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

/// Waits until what was written to sockets of nodes on other hosts is on its way. For the end of the
/// process: threads carry it, and the end does not wait for them.
#[pyfunction]
pub(crate) fn settle(py: Python<'_>) {
    py.detach(|| client::remote::settle(SETTLE));
}
