//! `sinew bench bulk`: the rate and cost of a relay, compared with bare proxies.
//!
//! ```text
//!   bare    writer ══▶ proxy ══▶ reader              three threads: splice, or TLS opened and sealed
//!   relay   cp ─▶ node a ══▶ node b ══▶ node c       processes: read, digested, carried, checked
//!   ends    cp ─▶ node a ══▶ proxy ══▶ node c        the same ends: only the middle is another
//! ```
//!
//! Between the first and the last socket all three have one hop through a relay. The ends of a copy do more than those
//! of a bare connection, so the third variant puts them at both sides of a bare proxy, which shows the cost of the
//! relay itself. The report gives the cost of the middle next to each rate. The module `cores` measures the gain from
//! more processors.

mod cores;
mod proxy;
mod report;

pub use cores::{Alone, Apart, Cores, On};
pub use report::{Contender, Pair, Report};

use super::credentials::name;
use super::fleet::{Beside, Fleet, Spec};
use super::usage;
use super::{BenchError, go_on};
use crate::control;
use crate::files::Scratch;
use crate::ports;
use base::Duration;
use net::Clock;
use proxy::{Front, Proxy};
use serde_json::Value;
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use tools::interrupt::Interrupt;
use tools::progress::Progress;

/// Time after which a connection has reached its rate.
const WARM: Duration = Duration::from_millis(500);
/// Number of nodes: a, b and c; b is the relay.
const NODES: usize = 3;
const RELAY: usize = 1;
/// Name of the file that is copied.
const FILE: &str = "zeros";

/// Options of the benchmark.
#[derive(Clone, Debug)]
pub struct Options {
    /// Length of a bare trial.
    pub seconds: f64,
    /// Trials of each contender, taken in turns.
    pub repeats: usize,
    /// Size of the copy in a trial, in megabytes.
    pub megabytes: u64,
    /// The program that is run as `PROGRAM node --config FILE`; `None` for the running one.
    pub program: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seconds: 2.0,
            repeats: 3,
            megabytes: 1_000,
            program: None,
        }
    }
}

impl Options {
    fn check(&self) -> Result<(), BenchError> {
        let bad = |what: &str| Err(BenchError::Option(what.to_owned()));
        if !(0.1..=3_600.0).contains(&self.seconds) {
            return bad("a trial lasts 0.1 to 3600 seconds");
        }
        if !(1..=100).contains(&self.repeats) {
            return bad("there are 1 to 100 trials of each");
        }
        if !(1..=1_000_000).contains(&self.megabytes) {
            return bad("a copy has 1 to 1000000 megabytes");
        }
        Ok(())
    }
}

/// The contenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Bare,
    Relay,
    Ends,
}

impl Who {
    /// The contenders, in the order of their turns.
    const PLAIN: [Who; 3] = [Who::Bare, Who::Relay, Who::Ends];
    const SEALED: [Who; 2] = [Who::Bare, Who::Relay];
}

/// The result of one trial.
#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    bytes: u64,
    span_s: f64,
    /// Processor time of the middle process.
    cpu_ns: u64,
}

/// Runs the measurement.
///
/// # Errors
/// [`BenchError`]; then everything that was started has ended.
pub fn run(options: &Options, progress: Progress) -> Result<Report, BenchError> {
    options.check()?;
    let interrupt = Interrupt::install()?;
    progress.begin("sinew bench bulk: some seconds for each of five contenders, in turns");
    let load_before = usage::load();
    let chain = Chain::start(options, &interrupt, |_| None)?;
    let mut plain: [Vec<Trial>; 3] = Default::default();
    let mut sealed: [Vec<Trial>; 2] = Default::default();
    for _ in 0..options.repeats {
        for (who, trials) in Who::PLAIN.into_iter().zip(&mut plain) {
            go_on(&interrupt)?;
            progress.step(&format!("plain, {who:?}").to_lowercase());
            trials.push(match who {
                Who::Bare => bare(false, options)?,
                Who::Relay => chain.through_relay(false)?,
                Who::Ends => chain.through_proxy()?,
            });
        }
        for (who, trials) in Who::SEALED.into_iter().zip(&mut sealed) {
            go_on(&interrupt)?;
            progress.step(&format!("sealed, {who:?}").to_lowercase());
            trials.push(match who {
                Who::Bare => bare(true, options)?,
                _ => chain.through_relay(true)?,
            });
        }
    }
    let [bare, relay, ends] = plain.map(|trials| Contender::of(&trials));
    let sealed = sealed.map(|trials| Contender::of(&trials));
    drop(chain);
    let cores = cores::measure(options, &interrupt, progress)?;
    Ok(Report {
        load: [load_before, usage::load()],
        seconds: options.seconds,
        repeats: options.repeats,
        plain: Pair::from([bare, relay]),
        same_ends: Pair::from([ends, relay]),
        sealed: Pair::from(sealed),
        cores,
    })
}

fn bare(sealed: bool, options: &Options) -> Result<Trial, BenchError> {
    let proxy = Proxy::start(sealed)?;
    measure(options, || Ok((proxy.arrived(), proxy.cpu_ns())))
}

/// Returns by how much `sample` (bytes, processor time) grows in a trial.
fn measure(
    options: &Options,
    sample: impl Fn() -> Result<(u64, u64), BenchError>,
) -> Result<Trial, BenchError> {
    let sleep =
        |span: Duration| std::thread::sleep(std::time::Duration::from_nanos(span.as_nanos()));
    sleep(WARM);
    let clock = Clock::new();
    let (before, from) = (sample()?, clock.now());
    sleep(Duration::from_secs_f64(options.seconds));
    let (after, until) = (sample()?, clock.now());
    Ok(Trial {
        bytes: after.0 - before.0,
        span_s: until.since(from).as_secs_f64(),
        cpu_ns: after.1.saturating_sub(before.1),
    })
}

/// Three nodes in a row, on loopback.
struct Chain {
    fleet: Fleet,
    program: PathBuf,
    /// The folder with the file to copy, whose bytes are all equal.
    folder: Scratch,
    /// The address at which c listens.
    last: SocketAddr,
}

impl Chain {
    /// Starts the nodes, each confined to the processor that `cpu` returns for it.
    fn start(
        options: &Options,
        interrupt: &Interrupt,
        cpu: impl Fn(usize) -> Option<usize>,
    ) -> Result<Chain, BenchError> {
        let mut fleet = Fleet::new(options.program.as_deref())?;
        let own = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let places: Result<Vec<_>, _> = (0..NODES).map(|_| ports::free(own)).collect();
        let places = places?;
        for index in 0..NODES {
            let beside = |index: usize, dial| Beside {
                index,
                dial,
                impair: None,
            };
            let above = index.checked_sub(1).map(|above| beside(above, None));
            let below = places.get(index + 1).map(|at| beside(index + 1, Some(*at)));
            let spec = Spec {
                listen: places[index],
                neighbors: above.into_iter().chain(below).collect(),
                cpu: cpu(index),
                inside: None,
                realtime: false,
                paper: false,
                settings: &[],
                reliable: crate::scenario::ReliableLinks::default(),
                bridge: None,
                transfers: None,
            };
            fleet.start(index, &spec)?;
        }
        fleet.wait(interrupt, |index, status| {
            control::links_up(status, if index == RELAY { 2 } else { 1 })
        })?;
        let program = match &options.program {
            Some(program) => program.clone(),
            None => tools::program::path()?,
        };
        let folder = Scratch::new("bulk")?;
        let mut file = File::create(folder.path().join(FILE))?;
        // The file contains data and no hole, because a hole would not be sent.
        let bytes = options.megabytes * 1_000_000;
        io::copy(&mut io::repeat(7).take(bytes), &mut file)?;
        Ok(Chain {
            fleet,
            program,
            folder,
            last: places[NODES - 1],
        })
    }

    /// Copies from a through b to c.
    fn through_relay(&self, sealed: bool) -> Result<Trial, BenchError> {
        let relay = self.fleet.node(RELAY).id()?;
        let spent = || usage::whole_cpu_ns(relay);
        self.trial(NODES - 1, &["--via", &name(RELAY)], sealed, spent)
    }

    /// Copies with a bare proxy in the place of b.
    fn through_proxy(&self) -> Result<Trial, BenchError> {
        let proxy = Front::start(self.last)?;
        let via = format!("{}@{}", name(NODES - 1), proxy.at());
        self.trial(NODES - 1, &["--via", &via], false, || Ok(proxy.cpu_ns()))
    }

    /// Copies from a to a node, and measures by how much `spent` grows.
    fn trial(
        &self,
        to: usize,
        way: &[&str],
        sealed: bool,
        spent: impl Fn() -> io::Result<u64>,
    ) -> Result<Trial, BenchError> {
        let mut command = Command::new(&self.program);
        command
            .arg("cp")
            .arg(self.folder.path().join(FILE))
            .arg(format!("{}:/{FILE}", name(to)))
            .args(["--discard", "--fresh", "--json", "--quiet"])
            .args(["--stripes", "1", "--node"])
            .arg(self.fleet.node(0).control_socket())
            .args(way);
        if !sealed {
            command.arg("--plain");
        }
        let before = spent()?;
        let done = command.output()?;
        let after = spent()?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            return Err(BenchError::Start(format!("sinew cp: {}", said.trim_end())));
        }
        let told: Value = serde_json::from_slice(&done.stdout).map_err(io::Error::from)?;
        Ok(Trial {
            bytes: told["bytes"].as_u64().unwrap_or(0),
            span_s: told["seconds"].as_f64().unwrap_or(f64::NAN),
            cpu_ns: after.saturating_sub(before),
        })
    }
}
