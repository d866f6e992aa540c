//! `sinew bench calls`: many calls at once through a pair of gateways' media planes and their two
//! nodes, beside as many bare forwarders and the kernel alone, in turns.
//!
//! ```text
//!   gateways     phones ── UDP ── plane ══ node ── UDP ── node ══ plane ── UDP ── phones
//!   forwarders   phones ── UDP ── epoll ── epoll ── epoll ── epoll ── phones, four for each direction
//!   kernel       phones ── UDP ── phones
//! ```
//!
//! The calls are G.711 in both directions: RTP of 20 ms, 50 packets/s each way per call, with phases spread evenly over
//! 20 ms. Each packet carries the monotonic time at which it was sent; the receiver reads the same clock. Nodes are
//! processes; planes, forwarders and the phones are threads of this process, all with real-time priority if permitted.
//! The phones of one side share a socket, since their cost is not measured; every call has its own ports at both
//! gateways, and each forwarder one port for all calls.

mod forwarders;
mod phones;
mod planes;
mod report;

pub use report::{PathReport, Report};

use super::{BenchError, apart, go_on, trial, usage};
use base::Duration;
use forwarders::Forwarders;
use phones::{Phones, Plan, Trial};
use planes::Planes;
use std::path::PathBuf;
use tools::interrupt::Interrupt;
use tools::progress::Progress;

/// Most calls at once: each has a UDP port at both gateways, paired with a port for its RTCP.
const CALLS_MAX: u32 = 2_000;
/// Most packets of a trial that the benchmark records: half a gigabyte.
const PACKETS_MAX: f64 = 60e6;

/// Options of the benchmark.
#[derive(Clone, Debug)]
pub struct Options {
    /// Calls at once.
    pub calls: u32,
    /// Length of a trial.
    pub seconds: f64,
    /// Trials per path.
    pub repeats: usize,
    /// The program that is run as `PROGRAM node --config FILE`; `None` for the running one.
    pub program: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            calls: 500,
            seconds: 5.0,
            repeats: 3,
            program: None,
        }
    }
}

impl Options {
    fn check(&self) -> Result<(), BenchError> {
        let bad = |what: &str| Err(BenchError::Option(what.to_owned()));
        if !(1..=CALLS_MAX).contains(&self.calls) {
            return bad(&format!("there are 1 to {CALLS_MAX} calls"));
        }
        let packets = f64::from(self.calls) * 100.0 * self.seconds;
        if !(0.1..=3_600.0).contains(&self.seconds) || packets > PACKETS_MAX || self.repeats == 0 {
            return bad("a trial lasts 0.1 to 3600 s and has 60 million packets at most");
        }
        Ok(())
    }
}

/// The carrier of the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    Kernel,
    Forwarders,
    Gateways,
}

const PATHS: [Path; 3] = [Path::Kernel, Path::Forwarders, Path::Gateways];

impl Path {
    const fn name(self) -> &'static str {
        match self {
            Path::Kernel => "kernel",
            Path::Forwarders => "forwarders",
            Path::Gateways => "gateways",
        }
    }
}

/// Runs the measurement.
///
/// # Errors
/// [`BenchError`]; then everything that was started has ended.
pub fn run(options: &Options, progress: Progress) -> Result<Report, BenchError> {
    options.check()?;
    let interrupt = Interrupt::install()?;
    net::sched::raise_descriptors()?;
    apart(move || measure(options, &interrupt, progress))
}

fn measure(
    options: &Options,
    interrupt: &Interrupt,
    progress: Progress,
) -> Result<Report, BenchError> {
    let trials = options.repeats * PATHS.len();
    progress.begin(&format!(
        "sinew bench calls: {trials} trials, about {:.0} s",
        trials as f64 * (options.seconds + 0.8) + 2.0,
    ));
    let load_before = usage::load();
    let phones = Phones::open()?;
    let forwarders = Forwarders::start(&phones)?;
    let mut planes = Planes::start(options, interrupt, &phones)?;
    let mut found = PATHS.map(|_| Vec::new());
    for repeat in 0..options.repeats {
        for (i, path) in PATHS.into_iter().enumerate() {
            go_on(interrupt)?;
            let share = (repeat * PATHS.len() + i) as f64 / trials as f64;
            progress.draw(share, path.name());
            let plan = Plan {
                calls: options.calls,
                span: Duration::from_secs_f64(options.seconds),
                run: (repeat * PATHS.len() + i) as u32 + 1,
            };
            let trial: Trial = match path {
                Path::Kernel => phones.trial(&plan, |side, _| phones.at(1 - side))?,
                Path::Forwarders => phones.trial(&plan, |side, _| forwarders.entry(side))?,
                Path::Gateways => planes.trial(&phones, &plan)?,
            };
            found[i].push(trial);
        }
    }
    progress.clear();
    let reports = PATHS.into_iter().zip(&found);
    let reports = reports.map(|(path, trials)| PathReport::new(path.name(), trials));
    let quality = planes.quality();
    Ok(Report::new(
        options,
        [load_before, usage::load()],
        trial::scheduling()?,
        planes.scheduling()?,
        reports.collect(),
        quality,
    ))
}
