//! `sinew cp` over nodes of the chain: a node process in every host, with its relay.

use super::site::{Site, address};
use crate::bench::copying::Copying;
use crate::bench::credentials::{address as overlay_address, name};
use crate::bench::fleet::{Beside, Fleet, Spec};
use crate::control;
use crate::experiment::CellError;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tools::interrupt::Interrupt;

const UDP_PORT: u16 = 8_100;
/// What of a full Ethernet frame of TCP is its payload.
const PAYLOAD_SHARE: f64 = 1_448.0 / 1_514.0;

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

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Copied {
    /// What arrived at the last host, once the copy had found its rate.
    pub(super) rate_bps: f64,
    /// All of it, from the start of the command to its end.
    pub(super) whole_bps: f64,
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
                settings: &[],
                reliable: crate::scenario::ReliableLinks::default(),
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
        Copying::begin(command, copy.bytes).map_err(failed)
    }

    /// Copies for as long as it takes to find its rate, and then for `span`.
    pub(super) fn copy(
        &mut self,
        site: &Site,
        copy: &Copy<'_>,
        (warm, span): (Duration, Duration),
    ) -> Result<Copied, CellError> {
        let copying = self.begin(copy)?;
        let last = site.hosts() - 1;
        let arrived = || site.counted(last, last - 1).map(|(received, _)| received);
        sleep(warm);
        let (before, from) = (arrived()?, Instant::now());
        sleep(span);
        let (after, took) = (arrived()?, from.elapsed());
        let told = copying.stop().map_err(failed)?;
        let checked = self.fleet.check();
        checked.map_err(|error| CellError(error.to_string()))?;
        let number = |key: &str| told[key].as_f64().unwrap_or(f64::NAN);
        Ok(Copied {
            rate_bps: (after - before) as f64 * 8.0 * PAYLOAD_SHARE / took.as_secs_f64(),
            whole_bps: number("rate_bps"),
            predicted_bps: number("predicted_bps"),
        })
    }
}

fn failed(error: std::io::Error) -> CellError {
    CellError(format!("sinew: {error}"))
}
