//! ns-3, if this machine has it: runs the plain chain in a process of its own.

use super::{DELAY_NS, HOPS, INTERVAL_NS, RATE_BPS, Speed};
use crate::bench::BenchError;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SCRIPT: &str = include_str!("../../../peers/ns3_chain.py");
/// The program that is checked for ns-3's bindings by default.
const PYTHON: &str = "python3";

/// A way to run ns-3.
pub(super) struct Peer {
    program: PathBuf,
    /// Whether it is a Python, which runs the script.
    python: bool,
}

#[derive(Deserialize)]
struct Outcome {
    events: u64,
    seconds: f64,
    received: u64,
}

impl Peer {
    /// Returns the named program, which must be suitable, or the system's Python if it has ns-3.
    pub(super) fn find(named: Option<&Path>) -> Result<Option<Peer>, BenchError> {
        let program = named.unwrap_or(Path::new(PYTHON)).to_owned();
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let python = name.starts_with("python");
        let peer = Peer { program, python };
        if python {
            if peer.has_bindings() {
                return Ok(Some(peer));
            }
        } else if peer.program.is_file() {
            return Ok(Some(peer));
        }
        match named {
            None => Ok(None),
            Some(program) => Err(BenchError::Option(format!(
                "{} is neither a Python with the package ns3 nor a program: see \
                 crates/lab/peers",
                program.display()
            ))),
        }
    }

    fn has_bindings(&self) -> bool {
        let spec = "import sys, importlib.util as u; sys.exit(u.find_spec('ns') is None)";
        let status = Command::new(&self.program)
            .args(["-c", spec])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    }

    /// Sends the packets over ns-3's chain.
    pub(super) fn measure(&self, packets: u64, payload: usize) -> Result<Speed, BenchError> {
        let mut command = Command::new(&self.program);
        if self.python {
            command.args(["-c", SCRIPT]);
        }
        let numbers = [
            packets,
            payload as u64,
            INTERVAL_NS,
            HOPS as u64,
            DELAY_NS,
            RATE_BPS,
        ];
        command.args(numbers.map(|number| number.to_string()));
        let output = command.stdin(Stdio::null()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let last = text.lines().last().unwrap_or_default();
        let outcome: Outcome = serde_json::from_str(last).map_err(|_| {
            let errors = String::from_utf8_lossy(&output.stderr);
            let why = errors.lines().last().unwrap_or("it printed nothing");
            BenchError::Start(format!("ns-3 failed ({}): {why}", self.program.display()))
        })?;
        if outcome.received != packets {
            let received = outcome.received;
            return Err(BenchError::Start(format!(
                "ns-3 delivered {received} of {packets}"
            )));
        }
        Ok(Speed::new(
            outcome.events,
            packets * HOPS as u64,
            outcome.seconds,
        ))
    }
}
