//! Worlds: random histories of the whole overlay, one per seed, and the conditions that must hold in all of them.
//!
//! ```text
//!   seed ─▶ plan: 2 to 50 nodes, paths, streams, an intruder or none
//!             │
//!   troubles: outages, partitions, crashes,      peace        whole            the end
//!   restarts with lost memory, losses           (heals)    (within 5 s)
//!   ───────────────────────────────────────────▶│──────────────▶│────────────────▶│
//!   nothing twice, nothing late, nothing altered, nothing       all that is sent  every buffer
//!   farther than its time to live, in order, no panic           arrives           is back
//! ```
//!
//! Programs reopen the reliable streams that a restart has ended. Each of their bytes is checked, and after all faults
//! have ended, everything that was written arrives, including the end of the stream.
//!
//! Three of four worlds have groups, whose trees are built by link state or Scribe. Members join and leave as long as
//! there are faults, and some operators change which of the two builds a tree. Each member gets each packet at most
//! once, a node that has left gets none, and after all faults have ended each tree is complete and delivers every
//! packet to every member.
//!
//! Nodes are the production engine with keys and certificates, and seal their messages. Their paths lose, delay,
//! reorder and duplicate packets; half of the worlds have an attacker on the path who replays and forges handshakes and
//! datagrams. After the last fault every path works again, with up to 10 % loss; then every node must have the same
//! records and loop-free routes to every other node. Some worlds run twice, once with datagrams handed over in bursts
//! and once one by one, and must deliver the same packets at the same moments.
//!
//! Messy and hostile worlds are different; they have modules of their own (`messy`, `hostile`).
//!
//! One number identifies a world that fails: `sinew sim world --seed N --trace FILE` runs it again.

mod groups;
mod history;
mod hostile;
mod intruder;
mod messy;
mod network;
mod party;
mod plan;
mod sessions;
#[cfg(test)]
mod shared_trees;
mod streams;
mod trees;

pub use history::WHOLE_WITHIN;
pub use plan::NODES_MAX;

use crate::scenario::TraceFile;
use base::Duration;
use history::Past;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tools::interrupt::Interrupt;
use tools::progress::Progress;

/// Most seeds whose failures are reported.
const FAILURES_MAX: usize = 100;
/// Most threads.
pub const JOBS_MAX: usize = 256;

/// Which worlds to run, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The first seed.
    pub first: u64,
    /// The number of seeds.
    pub seeds: u64,
    /// The number of threads; by default, the number of processors.
    pub jobs: Option<usize>,
    /// Where every packet of the world is written, if only one is run.
    pub trace: Option<PathBuf>,
    /// Whether events are also recorded as text, if only one world is run.
    pub tell: bool,
    /// Whether worlds are messy: their flows are compared with twins over plain UDP.
    pub messy: bool,
    /// Whether worlds are hostile: a member lies, forges, floods or discards packets.
    pub hostile: bool,
    /// How often a messy or hostile world that fails is run again, each time with other losses and delays of the same
    /// paths.
    pub again: u64,
}

impl Options {
    /// Returns the option of the command line for the kind of the worlds.
    fn kind(&self) -> &'static str {
        match (self.messy, self.hostile) {
            (true, _) => " --messy",
            (_, true) => " --hostile",
            _ => "",
        }
    }
}

/// Why worlds did not run to their end.
#[derive(Debug, thiserror::Error)]
pub enum WorldsError {
    /// An option is invalid.
    #[error("{0}")]
    Option(String),
    /// The trace could not be written.
    #[error("cannot write the trace {path}: {error}", path = path.display())]
    Trace {
        /// The trace's file.
        path: PathBuf,
        /// The kernel's error.
        error: io::Error,
    },
    /// Another operation failed in the kernel.
    #[error("the worlds failed: {0}")]
    Io(#[from] io::Error),
    /// Ctrl-C, or the system requested the end.
    #[error("{0}")]
    Interrupted(Partial),
}

/// The worlds that ran before an interrupt: all from the first seed on, without a gap.
#[derive(Debug)]
pub struct Partial {
    ran: u64,
    seeds: u64,
    /// The command for the other worlds.
    rest: String,
    failures: u64,
    /// The command that runs the first failing world again.
    replay: Option<String>,
}

impl Partial {
    fn of(options: &Options, ran: u64, report: &Report) -> Partial {
        let (first, left) = (options.first + ran, options.seeds - ran);
        let kind = options.kind();
        Partial {
            ran,
            seeds: options.seeds,
            rest: format!("sinew sim world{kind} --first {first} --seeds {left}"),
            failures: report.failures,
            replay: report.failed.first().map(|failed| failed.replay.clone()),
        }
    }
}

impl fmt::Display for Partial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Partial { ran, seeds, .. } = self;
        write!(
            f,
            "stopped after {ran} of {seeds} worlds; {} failed",
            self.failures
        )?;
        if let Some(replay) = &self.replay {
            write!(f, ", live the first again: {replay}")?;
        }
        write!(f, "; go on with: {}", self.rest)
    }
}

/// The results of the worlds. The keys of its JSON are a contract; docs/scenario.md defines each.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The first seed.
    pub first: u64,
    /// How many worlds were run.
    pub seeds: u64,
    /// In how many of them a condition was violated.
    pub failures: u64,
    /// The first worlds that failed.
    pub failed: Vec<Failed>,
    /// How many hostile worlds failed by faults of each kind.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds: BTreeMap<String, u64>,
    /// Number of nodes of all worlds together.
    pub nodes: u64,
    /// Simulated time of all worlds together.
    pub simulated_s: f64,
    /// Wake-ups: timers, arrivals, requests.
    pub events: u64,
    /// Packets that clients sent.
    pub sent: u64,
    /// Packets that clients received.
    pub received: u64,
    /// Bytes that reliable streams have delivered, each checked.
    pub stream_bytes: u64,
    /// Reliable streams that ended early and were reopened.
    pub stream_resets: u64,
    /// Packets that clients sent to groups.
    pub group_sent: u64,
    /// Copies of these packets that members received.
    pub group_received: u64,
    /// Flows that were compared with a twin over plain UDP.
    pub compared: u64,
    /// Datagrams that were replayed or forged.
    pub forged: u64,
    /// The longest time from the end of all faults until the network was complete.
    pub whole_after_s: f64,
    /// The seed of that world.
    pub slowest_seed: u64,
    /// A hash of every arrival of every world: equal runs have equal hashes.
    pub trace_hash: String,
    /// The events as text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub told: Vec<String>,
}

/// A world in which a condition was violated.
#[derive(Clone, Debug, Serialize)]
pub struct Failed {
    /// Its seed.
    pub seed: u64,
    /// Why it failed.
    pub why: String,
    /// The command that runs it again.
    pub replay: String,
    /// The world as a scenario file, if it is messy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scene: Option<String>,
    /// How many of the repetitions also failed. A rare failure is a matter of chance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again: Option<u64>,
}

/// Runs the worlds.
///
/// # Errors
/// [`WorldsError`]; worlds that fail are part of the report.
pub fn run(options: &Options, progress: Progress) -> Result<Report, WorldsError> {
    let jobs = check(options)?;
    let interrupt = Interrupt::install()?;
    progress.begin(&format!(
        "{} worlds from seed {}",
        options.seeds, options.first
    ));
    let trace = match &options.trace {
        Some(path) => Some((
            path.clone(),
            TraceFile::create(path).map_err(|error| trace_error(path, error))?,
        )),
        None => None,
    };
    if let Some((path, file)) = trace {
        let lived = live(options.first, options, Some(&file));
        file.finish().map_err(|error| trace_error(&path, error))?;
        return Ok(Report::of(options, vec![lived]));
    }
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let lived = Mutex::new(Vec::new());
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let work = || {
            while !stop.load(Ordering::Relaxed) {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= options.seeds {
                    break;
                }
                let seed = options.first + n;
                let past = live(seed, options, None);
                lived
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(past);
                done.fetch_add(1, Ordering::Relaxed);
            }
        };
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        while !workers.iter().all(|worker| worker.is_finished()) {
            let asked = interrupt.wait(Duration::from_millis(50)).unwrap_or(true);
            stop.fetch_or(asked, Ordering::Relaxed);
            let done = done.load(Ordering::Relaxed);
            progress.draw(
                done as f64 / options.seeds as f64,
                &format!("{done} worlds"),
            );
        }
    });
    progress.clear();
    let mut lived = lived.into_inner().unwrap_or_else(PoisonError::into_inner);
    lived.sort_unstable_by_key(|lived: &Lived| lived.seed);
    // A thread ends the world that it has begun, so there is no gap.
    let ran = lived.len() as u64;
    let report = Report::of(options, lived);
    if ran < options.seeds {
        return Err(WorldsError::Interrupted(Partial::of(options, ran, &report)));
    }
    Ok(report)
}

fn check(options: &Options) -> Result<usize, WorldsError> {
    if options.seeds == 0 || options.first.checked_add(options.seeds).is_none() {
        let what = "choose at least one seed, the last of them below 2^64";
        return Err(WorldsError::Option(what.to_owned()));
    }
    if options.trace.is_some() && options.seeds != 1 {
        let what = "a trace is of one world: choose it by --seed";
        return Err(WorldsError::Option(what.to_owned()));
    }
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    match options.jobs.unwrap_or_else(processors) {
        jobs @ 1..=JOBS_MAX => Ok(jobs),
        jobs => Err(WorldsError::Option(format!(
            "{jobs} jobs: choose 1 to {JOBS_MAX}"
        ))),
    }
}

fn trace_error(path: &std::path::Path, error: io::Error) -> WorldsError {
    WorldsError::Trace {
        path: path.to_owned(),
        error,
    }
}

/// The result of a world: its history, or why it did not complete; and its events.
struct Lived {
    seed: u64,
    past: Result<Past, Worse>,
    told: Vec<String>,
}

fn live(seed: u64, options: &Options, trace: Option<&TraceFile>) -> Lived {
    let witness = trace.map(|file| {
        let mut sink = file.sink();
        let witness: history::Witness =
            Box::new(move |packet| sim::Trace::packet(&mut sink, packet));
        witness
    });
    let told = history::Told::default();
    let teller = options.tell.then(|| told.clone());
    let past = guarded(seed, options, || match (options.messy, options.hostile) {
        (true, _) => messy::live(seed, 0, teller, witness),
        (_, true) => hostile::live(seed, 0, teller, witness),
        _ => history::live(seed, teller, witness).map_err(Worse::from),
    });
    let past = past.map_err(|worse| Worse {
        again: ((options.messy || options.hostile) && options.again > 0).then(|| {
            let live = if options.messy {
                messy::live
            } else {
                hostile::live
            };
            let fails =
                |draw: &u64| guarded(seed, options, || live(seed, *draw, None, None)).is_err();
            (1..=options.again).filter(fails).count() as u64
        }),
        ..worse
    });
    Lived {
        seed,
        past,
        told: told.take(),
    }
}

/// Runs a world. A panic is a failure like any other.
fn guarded(
    seed: u64,
    options: &Options,
    live: impl FnOnce() -> Result<Past, Worse>,
) -> Result<Past, Worse> {
    catch_unwind(AssertUnwindSafe(live)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Worse {
            why: format!("panic: {}", text.unwrap_or("without words")),
            scene: options.messy.then(|| messy::scene_of(seed)),
            again: None,
            kinds: vec!["fault"],
        })
    })
}

/// Why a world failed.
struct Worse {
    why: String,
    /// The world as a scenario file, if it is messy.
    scene: Option<String>,
    /// How many of its repetitions failed.
    again: Option<u64>,
    /// The causes, if the world is hostile.
    kinds: Vec<&'static str>,
}

impl From<String> for Worse {
    fn from(why: String) -> Worse {
        Worse {
            why,
            scene: None,
            again: None,
            kinds: Vec::new(),
        }
    }
}

impl Report {
    fn of(options: &Options, lived: Vec<Lived>) -> Report {
        let mut report = Report {
            first: options.first,
            seeds: options.seeds,
            failures: 0,
            failed: Vec::new(),
            kinds: BTreeMap::new(),
            nodes: 0,
            simulated_s: 0.0,
            events: 0,
            sent: 0,
            received: 0,
            stream_bytes: 0,
            stream_resets: 0,
            group_sent: 0,
            group_received: 0,
            compared: 0,
            forged: 0,
            whole_after_s: 0.0,
            slowest_seed: options.first,
            trace_hash: String::new(),
            told: Vec::new(),
        };
        let (mut hash, mut simulated) = (0u64, Duration::ZERO);
        for Lived { seed, past, told } in lived {
            report.told.extend(told);
            match past {
                Ok(past) => {
                    hash = (hash ^ past.digest).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    hash = hash.rotate_left(29);
                    simulated += past.simulated;
                    report.add(seed, past);
                }
                Err(worse) => report.fail(options, seed, worse),
            }
        }
        report.simulated_s = simulated.as_secs_f64();
        report.trace_hash = format!("{hash:016x}");
        report
    }

    fn fail(&mut self, options: &Options, seed: u64, worse: Worse) {
        self.failures += 1;
        for kind in &worse.kinds {
            *self.kinds.entry((*kind).to_owned()).or_default() += 1;
        }
        if self.failed.len() < FAILURES_MAX {
            let kind = options.kind();
            self.failed.push(Failed {
                seed,
                why: worse.why,
                replay: format!("sinew sim world{kind} --seed {seed} --trace world-{seed}.jsonl"),
                scene: worse.scene,
                again: worse.again,
            });
        }
    }

    fn add(&mut self, seed: u64, past: Past) {
        self.nodes += past.nodes as u64;
        self.events += past.events;
        self.sent += past.sent;
        self.received += past.received;
        self.stream_bytes += past.stream_bytes;
        self.stream_resets += past.stream_resets;
        self.group_sent += past.group_sent;
        self.group_received += past.group_received;
        self.forged += past.forged;
        self.compared += past.compared;
        if past.whole_after.as_secs_f64() > self.whole_after_s {
            (self.whole_after_s, self.slowest_seed) = (past.whole_after.as_secs_f64(), seed);
        }
    }

    /// Returns the events of the single requested world, or the first failed world as a scenario file. Lines are not
    /// wrapped, so that the file can be run.
    #[must_use]
    pub fn story(&self) -> Option<String> {
        if !self.told.is_empty() {
            return Some(self.told.join("\n"));
        }
        let scene = self.failed.iter().find_map(|failed| failed.scene.as_ref());
        scene.map(|scene| format!("the first that failed, as a scenario file:\n\n{scene}"))
    }

    /// Returns whether all conditions held.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.failed.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failed in &self.failed {
            let again = failed.again.map(|n| format!(" (lived again: {n} failed)"));
            writeln!(
                f,
                "seed {}: {}{}\n  {}",
                failed.seed,
                failed.why,
                again.unwrap_or_default(),
                failed.replay
            )?;
        }
        for (kind, worlds) in &self.kinds {
            writeln!(f, "{kind}: {worlds} worlds")?;
        }
        writeln!(
            f,
            "{} worlds from seed {}: {} failed\n\
             {} nodes, {:.0} s simulated, {} events; {} packets sent, {} received; {} forged\n\
             reliable streams: {} bytes in order, {} resets\n\
             groups: {} packets sent, {} copies received\n\
             {} flows held against a twin\n\
             whole {:.2} s after all had healed at most (seed {})\n\
             trace hash {}",
            self.seeds,
            self.first,
            self.failures,
            self.nodes,
            self.simulated_s,
            self.events,
            self.sent,
            self.received,
            self.forged,
            self.stream_bytes,
            self.stream_resets,
            self.group_sent,
            self.group_received,
            self.compared,
            self.whole_after_s,
            self.slowest_seed,
            self.trace_hash
        )
    }
}
