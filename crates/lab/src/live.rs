//! A scenario with real nodes: processes on loopback whose links are emulated, and real clients.
//!
//! ```text
//!   Scenario ─▶ can it run live? ─▶ nodes (bench::fleet) ─▶ all links up ─▶ its zero
//!                                                                             │
//!   Report ◀─ meters ◀─ clients send and receive, faults happen at their times ◀─┘
//! ```
//!
//! The nodes at both ends of a link emulate its impairments, as `sinew link set` does; [`tools::emulator`] emulates the
//! paths of direct flows. A crash kills a process, a partition takes down the links between its groups, a stall stops a
//! process and the ends of its direct flows. Times are the machine's: two runs are similar, not equal.
//!
//! [`up`] ends everything that it started, whatever happens, unless the nodes are to be kept; then a state file in the
//! folder lists them, and [`down`] ends exactly those.

mod check;
mod end;
mod network;
mod session;
mod state;
mod traffic;

#[cfg(test)]
mod tests;

pub(crate) use check::can_run;
pub use state::{Kept, down};

use crate::bench::BenchError;
use crate::scenario::{Fault, FaultKind, FlowReport, Place, Report, Scenario, ScenarioError};
use base::{Duration, Time};
use net::Clock;
use network::Network;
use serde_json::Value;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use tools::interrupt::Interrupt;
use tools::progress::Progress;
use traffic::Traffic;

/// How long packets under way may take to arrive after the end.
const DRAIN: Duration = Duration::from_secs(1);
/// How often the run checks that the nodes are still there, and whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Options of a live run.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// The scenario's file.
    pub file: PathBuf,
    /// Ends the run earlier.
    pub seconds: Option<f64>,
    /// Where the nodes' files and the report are written; `None` for a folder that is removed again.
    pub out: Option<PathBuf>,
    /// Leaves the nodes running at the end. Without flows they are always left running.
    pub keep: bool,
    /// The program, run as `PROGRAM node --config FILE`.
    pub program: PathBuf,
}

/// The result of a live run.
#[derive(Clone, Debug)]
pub struct LiveResult {
    /// The report, in the form of a simulation's, if there was traffic.
    pub report: Option<Report>,
    /// The nodes that are still running.
    pub kept: Option<Kept>,
}

/// Why a live run did not complete.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The scenario is not valid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The scenario uses something that only the simulator supports.
    #[error("{file}: {key}: {what}")]
    NotLive {
        /// The scenario's file.
        file: String,
        /// The key and the item that it belongs to.
        key: String,
        /// The reason, and what to do.
        what: String,
    },
    /// An option is invalid; the command was misused.
    #[error("{0}")]
    Option(String),
    /// A node could not be started, or has ended.
    #[error("{0}")]
    Node(String),
    /// A file or folder could not be used.
    #[error("{}: {error}", path.display())]
    At {
        /// The file or folder.
        path: PathBuf,
        /// The kernel's error.
        error: io::Error,
    },
    /// Another operation failed in the kernel.
    #[error("the live run failed: {0}")]
    Io(#[from] io::Error),
    /// Ctrl-C, or the system requested the end.
    #[error("interrupted: all nodes have been ended")]
    Interrupted,
}

impl From<BenchError> for LiveError {
    fn from(error: BenchError) -> LiveError {
        match error {
            BenchError::Option(text) | BenchError::Start(text) => LiveError::Node(text),
            BenchError::Io(error) => LiveError::Io(error),
            BenchError::Interrupted => LiveError::Interrupted,
        }
    }
}

/// Runs a scenario with real nodes.
///
/// # Errors
/// [`LiveError`]; then everything that was started has ended.
pub fn up(options: &LiveOptions, progress: Progress) -> Result<LiveResult, LiveError> {
    let scenario = Scenario::load(&options.file)?;
    let scenario = match options.seconds {
        Some(seconds) if (0.1..=86_400.0).contains(&seconds) => {
            scenario.shortened(Duration::from_secs_f64(seconds))
        }
        Some(_) => {
            let what = "a run lasts 0.1 to 86400 seconds";
            return Err(LiveError::Option(what.to_owned()));
        }
        None => scenario,
    };
    can_run(&scenario).map_err(|(key, what)| LiveError::NotLive {
        file: options.file.display().to_string(),
        key,
        what,
    })?;
    let keep = options.keep || scenario.flows.is_empty();
    let folder = state::Folder::open(&scenario, options.out.as_deref(), keep)?;
    let interrupt = Interrupt::install()?;
    net::sched::raise_descriptors()?;
    progress.begin(&format!(
        "{}: {} node processes, {} links, {} s",
        scenario.name,
        scenario.nodes.len(),
        scenario.links.len(),
        scenario.duration.as_secs_f64()
    ));
    let mut network = Network::start(&scenario, &options.program, folder.path())?;
    network.wait(&interrupt)?;
    progress.step("all links are up");
    let report = match scenario.flows.is_empty() {
        true => None,
        false => Some(run(&scenario, &mut network, &interrupt, progress)?),
    };
    progress.clear();
    if let (Some(report), Some(out)) = (&report, &options.out) {
        let path = out.join("report.json");
        let json = serde_json::to_string_pretty(&json(report)).map_err(io::Error::other)?;
        let written = crate::files::write(&path, (json + "\n").as_bytes());
        written.map_err(|error| LiveError::At { path, error })?;
    }
    let kept = match keep {
        true => Some(folder.keep(&scenario, network)?),
        false => {
            drop(network);
            None
        }
    };
    Ok(LiveResult { report, kept })
}

/// Returns the report of a scenario with flows that runs with real nodes. The caller must handle signals.
pub(crate) fn report_of(scenario: &Scenario, program: &Path) -> Result<Report, LiveError> {
    can_run(scenario).map_err(|(key, what)| LiveError::NotLive {
        file: scenario.name.clone(),
        key,
        what,
    })?;
    let folder = state::Folder::open(scenario, None, false)?;
    let interrupt = Interrupt::elsewhere()?;
    net::sched::raise_descriptors()?;
    let mut network = Network::start(scenario, program, folder.path())?;
    network.wait(&interrupt)?;
    run(scenario, &mut network, &interrupt, Progress::Silent)
}

/// Runs the scenario from its zero to its end.
fn run(
    scenario: &Scenario,
    network: &mut Network<'_>,
    interrupt: &Interrupt,
    progress: Progress,
) -> Result<Report, LiveError> {
    let clock = Clock::new();
    let before = network.totals();
    let zero = clock.now();
    let mut traffic = Traffic::start(scenario, network, clock, zero)?;
    let end = zero + scenario.duration;
    let mut faults = scenario.faults.iter().peekable();
    while clock.now() < end {
        let now = clock.now();
        while let Some(fault) = faults.next_if(|fault| zero + fault.at <= now) {
            happen(fault, network, &traffic, zero + fault.at)?;
        }
        network.resume(clock.now())?;
        let next = faults.peek().map_or(end, |fault| zero + fault.at);
        let next = network.next_resume().map_or(next, |at| next.min(at));
        let pause = next.min(end).since(clock.now()).min(LOOK);
        if interrupt.wait(pause)? {
            return Err(LiveError::Interrupted);
        }
        network.check()?;
        traffic.check()?;
        let share = clock.now().since(zero).as_secs_f64() / scenario.duration.as_secs_f64();
        progress.draw(share.min(1.0), &scenario.name);
    }
    // Stalls end with the scenario at the latest.
    traffic.resume();
    network.resume(Time::FAR)?;
    traffic.stop_sending()?;
    let drained = clock.now() + DRAIN;
    while clock.now() < drained {
        if interrupt.wait(drained.since(clock.now()).min(LOOK))? {
            return Err(LiveError::Interrupted);
        }
    }
    let mut report = Report::head(scenario, scenario.seed);
    report.overlay = network.totals().since(&before);
    let judged = scenario.flows.iter().zip(traffic.judge()?);
    report.flows = judged
        .map(|(flow, packets)| FlowReport::of(scenario, flow, packets))
        .collect();
    Ok(report)
}

fn happen(
    fault: &Fault,
    network: &mut Network<'_>,
    traffic: &Traffic,
    at: Time,
) -> Result<(), LiveError> {
    match &fault.kind {
        FaultKind::Down(Place::Link(link)) => network.set_outage(*link, true),
        FaultKind::Up(Place::Link(link)) => network.set_outage(*link, false),
        FaultKind::Set(Place::Link(link), path) | FaultKind::Follow(link, path) => {
            network.set_path(*link, path);
        }
        // The check before the start has refused these.
        FaultKind::Down(Place::Second(_))
        | FaultKind::Up(Place::Second(_))
        | FaultKind::Set(Place::Second(_), _) => {}
        FaultKind::Down(Place::Flow(flow)) => traffic.set_outage(*flow, true),
        FaultKind::Up(Place::Flow(flow)) => traffic.set_outage(*flow, false),
        FaultKind::Set(Place::Flow(flow), path) => traffic.set_path(*flow, path),
        FaultKind::Crash(node) => return network.crash(*node),
        FaultKind::Restart(node) => return network.restart(*node),
        FaultKind::Partition(groups) => network.partition(groups),
        FaultKind::Heal => network.heal(),
        FaultKind::Stall(node, span) => {
            traffic.stall(*node, at + *span);
            return network.stall(*node, at + *span);
        }
    }
    Ok(())
}

/// Returns a report without the values that only the simulator has.
fn json(report: &Report) -> Value {
    let mut value = serde_json::to_value(report).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        for key in ["events", "datagrams", "trace_hash"] {
            fields.remove(key);
        }
        fields.insert("live".to_owned(), true.into());
    }
    value
}

impl LiveResult {
    /// Returns the documented JSON: a simulation's without the values that only the simulator has, and with
    /// `nodes_left`.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut value = match &self.report {
            Some(report) => json(report),
            None => serde_json::json!({"live": true}),
        };
        if let (Some(kept), Some(fields)) = (&self.kept, value.as_object_mut()) {
            let left = serde_json::to_value(kept).unwrap_or_default();
            fields.insert("left".to_owned(), left);
        }
        value
    }
}

impl fmt::Display for LiveResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(report) = &self.report {
            writeln!(f, "{}", report.to_string().trim_end())?;
        }
        match &self.kept {
            Some(kept) => write!(f, "{kept}"),
            None => Ok(()),
        }
    }
}
