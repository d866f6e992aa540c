//! `sinew cp` over nodes of the chain: a node process in every host, with its relay.

use super::site::{Site, address};
use crate::bench::credentials::{address as overlay_address, name};
use crate::bench::fleet::{Beside, Fleet, Spec};
use crate::control;
use crate::experiment::CellError;
use crate::interrupt::Interrupt;
use serde_json::Value;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

const UDP_PORT: u16 = 8_100;
const BLOCK_BYTES: usize = 64 * 1024;

/// Running nodes; they end when this is dropped.
pub(super) struct Relays {
    program: PathBuf,
    fleet: Fleet,
}

/// A copy from the first host through all relays to the last, which throws the data away.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy<'a> {
    pub(super) bytes: u64,
    pub(super) congestion: &'a str,
    /// Connections side by side on each segment.
    pub(super) stripes: &'a [u8],
    /// It gives way to everybody else.
    pub(super) scavenges: bool,
}

/// A copy that is under way.
pub(super) struct Copying {
    child: Child,
    fed: Arc<AtomicU64>,
    feeder: JoinHandle<()>,
    stop: Arc<AtomicBool>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Copied {
    pub(super) rate_bps: f64,
    /// What the node expected; NaN if it did not know.
    pub(super) predicted_bps: f64,
}

impl Relays {
    /// Starts a node in every host, and waits until they know ways to each other.
    pub(super) fn start(program: &Path, site: &Site) -> Result<Relays, CellError> {
        let text = |error: &dyn std::fmt::Display| CellError(error.to_string());
        let mut fleet = Fleet::new(Some(program)).map_err(|error| text(&error))?;
        let hosts = site.hosts();
        for host in 0..hosts {
            let beside = |index: usize, dial| Beside {
                index,
                dial,
                impair: None,
            };
            let above = host.checked_sub(1).map(|above| beside(above, None));
            let below = (host + 1 < hosts).then(|| {
                let dial = (address(host + 1), UDP_PORT).into();
                beside(host + 1, Some(dial))
            });
            let spec = Spec {
                listen: (Ipv4Addr::UNSPECIFIED, UDP_PORT).into(),
                neighbors: above.into_iter().chain(below).collect(),
                cpu: None,
                inside: Some(site.host(host)),
                realtime: true,
                paper: false,
                reliable: None,
                bridge: None,
            };
            fleet.start(host, &spec).map_err(|error| text(&error))?;
        }
        let interrupt = Interrupt::elsewhere().map_err(|error| text(&error))?;
        let ready = fleet.wait(&interrupt, |host, status| {
            let others = (0..hosts).filter(|other| *other != host);
            let mut others = others.map(|other| overlay_address(other).to_string());
            others.all(|address| control::has_route(status, &address))
        });
        ready.map_err(|error| text(&error))?;
        Ok(Relays {
            program: program.to_owned(),
            fleet,
        })
    }

    /// A command of the program, told to use the node of a host.
    pub(super) fn command(&self, words: &[&str], host: usize) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(words)
            .arg("--node")
            .arg(self.fleet.node(host).control_socket())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Begins to copy.
    pub(super) fn begin(&self, copy: &Copy<'_>) -> Result<Copying, CellError> {
        let last = self.fleet.nodes().len() - 1;
        let via: Vec<String> = (1..last).map(name).collect();
        let stripes: Vec<String> = copy.stripes.iter().map(u8::to_string).collect();
        let to = format!("{}:/dev/null", name(last));
        let words = ["cp", "-", &to, "--discard", "--json", "--quiet"];
        let mut command = self.command(&words, 0);
        command
            .args(["--stripes", &stripes.join(",")])
            .args(["--congestion", copy.congestion]);
        if !via.is_empty() {
            command.args(["--via", &via.join(",")]);
        }
        if copy.scavenges {
            command.arg("--scavenge");
        }
        let mut child = command.spawn().map_err(failed)?;
        let fed = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let input = child.stdin.take().expect("it was asked for");
        let (counter, end, bytes) = (Arc::clone(&fed), Arc::clone(&stop), copy.bytes);
        let feeder = std::thread::spawn(move || feed(input, bytes, &counter, &end));
        Ok(Copying {
            child,
            fed,
            feeder,
            stop,
        })
    }

    /// Copies, and waits until that is done.
    pub(super) fn copy(&mut self, copy: &Copy<'_>) -> Result<Copied, CellError> {
        let copied = self.begin(copy)?.end()?;
        let checked = self.fleet.check();
        checked.map_err(|error| CellError(error.to_string()))?;
        Ok(copied)
    }
}

impl Copying {
    /// Bytes that the copy has taken so far.
    pub(super) fn fed(&self) -> u64 {
        self.fed.load(Ordering::Relaxed)
    }

    /// Gives it no more, and waits until it is done.
    pub(super) fn stop(self) -> Result<Copied, CellError> {
        self.stop.store(true, Ordering::Relaxed);
        self.end()
    }

    fn end(self) -> Result<Copied, CellError> {
        let ended = self.child.wait_with_output().map_err(failed)?;
        // It ends when the copy takes no more.
        let _ = self.feeder.join();
        if !ended.status.success() {
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            return Err(CellError(format!("sinew cp: {}", said.trim_end())));
        }
        let told: Value = serde_json::from_slice(&ended.stdout)
            .map_err(|error| CellError(format!("sinew cp --json: {error}")))?;
        let number = |key: &str| told[key].as_f64().unwrap_or(f64::NAN);
        Ok(Copied {
            rate_bps: number("rate_bps"),
            predicted_bps: number("predicted_bps"),
        })
    }
}

fn feed(mut input: ChildStdin, bytes: u64, fed: &AtomicU64, stop: &AtomicBool) {
    let block = [0; BLOCK_BYTES];
    while !stop.load(Ordering::Relaxed) {
        let left = bytes - fed.load(Ordering::Relaxed);
        let next = left.min(BLOCK_BYTES as u64) as usize;
        // Why a copy takes no more is seen by its end.
        if next == 0 || input.write_all(&block[..next]).is_err() {
            break;
        }
        fed.fetch_add(next as u64, Ordering::Relaxed);
    }
}

fn failed(error: std::io::Error) -> CellError {
    CellError(format!("sinew: {error}"))
}
