//! `sinew cp` over nodes: a node process in every host of a site, with its relay.

use super::site::{Site, address};
use crate::bench::copying::Copying;
use crate::bench::credentials::{address as overlay_address, name};
use crate::bench::fleet::{Beside, Fleet, Spec};
use crate::control;
use crate::experiment::CellError;
use serde_json::Value;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tools::interrupt::Interrupt;

const UDP_PORT: u16 = 8_100;
/// The share of payload in a full Ethernet frame of TCP.
const PAYLOAD_SHARE: f64 = 1_448.0 / 1_514.0;
/// Bytes that a copy has read when it has begun: more than a pipe holds.
const BEGUN_BYTES: u64 = 1 << 20;
/// The longest time of the probes of a path.
const PROBED: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// Running nodes; they end when this is dropped.
pub(in super::super) struct Relays {
    program: PathBuf,
    fleet: Fleet,
}

/// A copy through relays to a host, which discards the data.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Copy {
    /// The destination.
    pub(in super::super) to: usize,
    /// The relays on its path; `None` if the copy chooses.
    pub(in super::super) via: Option<Vec<usize>>,
    /// Parallel connections on each segment; empty if the copy chooses.
    pub(in super::super) stripes: Vec<u8>,
    /// Whether it measures its path before.
    pub(in super::super) probes: bool,
    /// Whether it gives way to all other traffic.
    pub(in super::super) scavenges: bool,
}

/// The time for a copy to reach its rate, and the time in which it is measured.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Spans {
    pub(in super::super) warm: Duration,
    pub(in super::super) span: Duration,
}

/// The result of a copy.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Copied {
    /// The rate at the last host after the copy had reached its rate.
    pub(in super::super) rate_bps: f64,
    /// The rate from the start of the command to its end, without probes.
    pub(in super::super) whole_bps: f64,
    /// The rate that the node predicted; NaN if it had no prediction.
    pub(in super::super) predicted_bps: f64,
}

impl Relays {
    /// Starts a node in every host, and waits until they have routes to each other. Each host in `full` accepts at most
    /// one transfer.
    pub(in super::super) fn start(
        program: &Path,
        site: &Site,
        full: &[usize],
    ) -> Result<Relays, CellError> {
        let text = |error: &dyn std::fmt::Display| CellError(error.to_string());
        let mut fleet = Fleet::new(Some(program)).map_err(|error| text(&error))?;
        let hosts = site.hosts();
        for host in 0..hosts {
            let ends = site.links().iter().enumerate();
            let beside = ends.filter_map(|(link, one)| match one.ends {
                [near, far] if near == host => {
                    Some((far, Some((address(link, 1), UDP_PORT).into())))
                }
                [near, far] if far == host => Some((near, None)),
                _ => None,
            });
            let spec = Spec {
                listen: (Ipv4Addr::UNSPECIFIED, UDP_PORT).into(),
                neighbors: beside
                    .map(|(index, dial)| Beside {
                        index,
                        dial,
                        impair: None,
                    })
                    .collect(),
                cpu: None,
                inside: Some(site.host(host)),
                realtime: true,
                paper: false,
                settings: &[],
                reliable: crate::scenario::ReliableLinks::default(),
                bridge: None,
                transfers: full.contains(&host).then_some(1),
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

    /// Returns a command of the program that uses the node of a host.
    pub(in super::super) fn command(&self, words: &[&str], host: usize) -> Command {
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

    /// Returns the command of a copy from the first host.
    pub(in super::super) fn copy_of(&self, site: &Site, source: &str, copy: &Copy) -> Command {
        let to = format!("{}:/nowhere", name(copy.to));
        let words = ["cp", source, &to, "--discard", "--json"];
        let mut command = self.command(&words, 0);
        match copy.via.as_deref() {
            None => {}
            Some([]) if site.are_neighbors(0, copy.to) => {
                command.arg("--direct");
            }
            Some(via) => {
                command.args(["--via", &way(site, via, copy.to)]);
            }
        }
        if !copy.stripes.is_empty() {
            let stripes: Vec<String> = copy.stripes.iter().map(u8::to_string).collect();
            command.args(["--stripes", &stripes.join(",")]);
        }
        command.args(copy.probes.then_some("--probe"));
        command.args(copy.scavenges.then_some("--background"));
        command
    }

    /// Starts a copy of zeros without a limit.
    pub(in super::super) fn begin(&self, site: &Site, copy: &Copy) -> Result<Copying, CellError> {
        Copying::begin(self.copy_of(site, "-", copy), u64::MAX).map_err(failed)
    }

    /// Copies until the copy has reached its rate, and then for `span`.
    pub(in super::super) fn copy(
        &mut self,
        site: &Site,
        copy: &Copy,
        Spans { warm, span }: Spans,
    ) -> Result<Copied, CellError> {
        let copying = self.begin(site, copy)?;
        let latest = Instant::now() + PROBED;
        while copy.probes && copying.fed() < BEGUN_BYTES && Instant::now() < latest {
            sleep(LOOK);
        }
        let arrived = || site.received(copy.to);
        sleep(warm);
        let (before, from) = (arrived()?, Instant::now());
        sleep(span);
        let (after, took) = (arrived()?, from.elapsed());
        let told = copying.stop().map_err(failed)?;
        self.check()?;
        Ok(Copied {
            rate_bps: payload_bps(after - before, took),
            whole_bps: number(&told, "rate_bps"),
            predicted_bps: number(&told, "predicted_bps"),
        })
    }

    /// Fails if a node has ended.
    pub(in super::super) fn check(&mut self) -> Result<(), CellError> {
        let checked = self.fleet.check();
        checked.map_err(|error| CellError(error.to_string()))
    }
}

/// Returns the rate of a copy's payload in this many bytes of Ethernet frames.
pub(in super::super) fn payload_bps(bytes: u64, took: Duration) -> f64 {
    bytes as f64 * 8.0 * PAYLOAD_SHARE / took.as_secs_f64()
}

/// Returns a number from a copy's output; NaN if it is not known.
pub(in super::super) fn number(told: &Value, key: &str) -> f64 {
    told[key].as_f64().unwrap_or(f64::NAN)
}

/// Returns the words of `--via`: with an address for each host that has no link with the one before.
fn way(site: &Site, via: &[usize], to: usize) -> String {
    let at = |host: usize| format!("{}@{}:{UDP_PORT}", name(host), site.address(host));
    let (mut words, mut last) = (Vec::new(), 0);
    for &host in via.iter().chain([&to]) {
        match site.are_neighbors(last, host) {
            true if host == to => {}
            true => words.push(name(host)),
            false => words.push(at(host)),
        }
        last = host;
    }
    words.join(",")
}

fn failed(error: std::io::Error) -> CellError {
    CellError(format!("sinew: {error}"))
}
