//! `sinew cp` over nodes of the chain: a node process in every host, with its relay.

use super::site::{HOSTS, LINKS, Site, address};
use crate::bench::credentials::{address as overlay_address, name};
use crate::bench::fleet::{Beside, Fleet, Spec};
use crate::control;
use crate::experiment::CellError;
use crate::interrupt::Interrupt;
use serde_json::Value;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const UDP_PORT: u16 = 8_100;
const BLOCK_BYTES: usize = 64 * 1024;

/// Running nodes; they end when this is dropped.
pub(super) struct Relays {
    program: PathBuf,
    fleet: Fleet,
}

/// A copy through all relays.
#[derive(Clone, Debug)]
pub(super) struct Copy<'a> {
    pub(super) bytes: usize,
    pub(super) congestion: &'a str,
    /// Connections side by side on each segment.
    pub(super) stripes: [u8; LINKS],
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
        for host in 0..HOSTS {
            let beside = |index: usize, dial| Beside {
                index,
                dial,
                impair: None,
            };
            let above = host.checked_sub(1).map(|above| beside(above, None));
            let below = (host + 1 < HOSTS).then(|| {
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
            let others = (0..HOSTS).filter(|other| *other != host);
            let mut others = others.map(|other| overlay_address(other).to_string());
            others.all(|address| control::has_route(status, &address))
        });
        ready.map_err(|error| text(&error))?;
        Ok(Relays {
            program: program.to_owned(),
            fleet,
        })
    }

    /// Copies from the first host to the last, which throws the data away.
    pub(super) fn copy(&mut self, copy: &Copy<'_>) -> Result<Copied, CellError> {
        let via: Vec<String> = (1..LINKS).map(name).collect();
        let stripes: Vec<String> = copy.stripes.iter().map(u8::to_string).collect();
        let mut command = Command::new(&self.program);
        command
            .args(["cp", "-", &format!("{}:/dev/null", name(LINKS))])
            .args(["--discard", "--json", "--quiet"])
            .args(["--via", &via.join(","), "--stripes", &stripes.join(",")])
            .args(["--congestion", copy.congestion, "--node"])
            .arg(self.fleet.node(0).control_socket())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let failed = |error: std::io::Error| CellError(format!("sinew cp: {error}"));
        let mut child = command.spawn().map_err(failed)?;
        let input = child.stdin.take();
        let bytes = copy.bytes;
        let feeder = std::thread::spawn(move || {
            let block = [0; BLOCK_BYTES];
            // If the copy fails, that is seen by its end.
            input.map(|mut input| {
                let mut left = bytes;
                while left > 0 && input.write_all(&block[..left.min(BLOCK_BYTES)]).is_ok() {
                    left -= left.min(BLOCK_BYTES);
                }
            })
        });
        let ended = child.wait_with_output().map_err(failed)?;
        let _ = feeder.join();
        self.fleet
            .check()
            .map_err(|error| CellError(error.to_string()))?;
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
