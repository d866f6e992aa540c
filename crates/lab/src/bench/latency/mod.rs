//! `sinew bench latency`: the delay of a packet from client to client over a chain of three nodes, compared with the
//! kernel alone and with three bare forwarders, in turns.
//!
//! ```text
//!   nodes        client ══ a ── UDP ── b ── UDP ── c ══ client         ══ the clients' socket
//!   forwarders   socket ── epoll ── UDP ── epoll ── UDP ── epoll ── socket
//!   kernel       socket ── UDP (in namespaces: forwarded by the middle host) ── socket
//! ```
//!
//! The streams have 50 packets/s, with phases spread evenly over 20 ms. Each packet carries the monotonic time at which
//! it was sent; the receiver reads the same clock. Each node and forwarder is a process, since threads of one address
//! space hand over to each other more cheaply; sender and receiver are threads of this process on every path. Each link
//! of a chain, including the clients, gets its processor by the same rule, and all request the priority of a node.
//! Loops of normal priority can simulate a busy machine [Amir06 §V-A].

mod chain;
mod load;
pub(crate) mod probe;
mod relays;
mod report;

#[cfg(test)]
pub(super) use relays::udp_pair;
pub use report::{Cell, PathReport, Ratios, Report};

use super::row::Row;
use super::trial::{self, Plan, Trial};
use super::{BenchError, apart, go_on, usage};
use base::Duration;
use chain::Chain;
use load::Load;
use relays::Relays;
use serde::Serialize;
use std::path::PathBuf;
use tools::interrupt::Interrupt;
use tools::progress::Progress;

/// Links of a chain: the sender, three that forward, the receiver.
const STATIONS: usize = 5;
/// The index of the node, and of the forwarder, in the middle.
const MIDDLE: usize = 1;
/// Most streams at once: each is a client of the first node, and an open descriptor here.
const STREAMS_MAX: u32 = 1_000;
/// Least payload: it contains time, run and number.
const PAYLOAD_MIN: usize = trial::STAMP_BYTES;

/// Options of the benchmark.
#[derive(Clone, Debug)]
pub struct Options {
    /// Streams at once, one table each.
    pub streams: Vec<u32>,
    /// Bytes of payload.
    pub payload: usize,
    /// Length of a trial.
    pub seconds: f64,
    /// Trials per number.
    pub repeats: usize,
    /// Number of loops of normal priority that keep the processors busy in the meantime.
    pub busy: usize,
    /// The rule for the processor of each link of a chain.
    pub pinning: Pinning,
    /// Three network namespaces and veth instead of loopback; needs root.
    pub netns: bool,
    /// The program that is run as `PROGRAM node --config FILE` and as `PROGRAM bench relay`;
    /// `None` for the running one.
    pub program: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            streams: vec![1, 10, 50, 200],
            payload: 160,
            seconds: 2.0,
            repeats: 5,
            busy: 0,
            pinning: Pinning::Spread,
            netns: false,
            program: None,
        }
    }
}

/// The distribution of the links of a chain over processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pinning {
    /// Neighbours run on different processors: every hand-over wakes another one.
    Spread,
    /// All run on one processor.
    One,
    /// The kernel decides.
    Free,
}

impl Pinning {
    /// Returns the processor of the link at `station` of a chain.
    fn cpu(self, processors: &[usize], station: usize) -> Option<usize> {
        match self {
            Pinning::Spread => processors.get(station % processors.len().max(1)).copied(),
            Pinning::One => processors.first().copied(),
            Pinning::Free => None,
        }
    }
}

impl Options {
    fn check(&self) -> Result<(), BenchError> {
        let bad = |what: &str| Err(BenchError::Option(what.to_owned()));
        let max = overlay::node::MAX_PAYLOAD;
        if !(PAYLOAD_MIN..=max).contains(&self.payload) {
            return bad(&format!("a payload has {PAYLOAD_MIN} to {max} bytes"));
        }
        if self.streams.iter().any(|n| !(1..=STREAMS_MAX).contains(n)) {
            return bad(&format!("there are 1 to {STREAMS_MAX} streams"));
        }
        if !(0.05..=60.0).contains(&self.seconds) || self.repeats == 0 {
            return bad("a trial lasts 0.05 to 60 seconds, and there is at least one");
        }
        if self.busy > 1_000 {
            return bad("there are at most 1000 busy loops");
        }
        Ok(())
    }
}

/// The carrier of the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    Kernel,
    Forwarders,
    Nodes,
}

const PATHS: [Path; 3] = [Path::Kernel, Path::Forwarders, Path::Nodes];

impl Path {
    const fn name(self) -> &'static str {
        match self {
            Path::Kernel => "kernel",
            Path::Forwarders => "forwarders",
            Path::Nodes => "nodes",
        }
    }
}

/// Everything that trials need.
struct Arena<'a> {
    options: &'a Options,
    row: Row,
    processors: Vec<usize>,
    interrupt: Interrupt,
    progress: Progress,
    /// Whether nodes request real-time priority.
    realtime: bool,
}

impl Arena<'_> {
    fn cpu(&self, station: usize) -> Option<usize> {
        self.options.pinning.cpu(&self.processors, station)
    }

    fn plan(&self, streams: u32, run: u32) -> Plan {
        Plan {
            streams,
            payload: self.options.payload,
            span: Duration::from_secs_f64(self.options.seconds),
            run,
            sender_cpu: self.cpu(0),
            receiver_cpu: self.cpu(STATIONS - 1),
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
    // Each of a thousand clients has a descriptor on both sides.
    net::sched::raise_descriptors()?;
    apart(|| measure(options, interrupt, progress))
}

fn measure(
    options: &Options,
    interrupt: Interrupt,
    progress: Progress,
) -> Result<Report, BenchError> {
    let trials = options.streams.len() * options.repeats * PATHS.len();
    progress.begin(&format!(
        "sinew bench latency: {trials} trials, about {:.0} s",
        trials as f64 * (options.seconds + 0.1) + 2.0,
    ));
    let arena = Arena {
        options,
        row: Row::new(3, options.netns)?,
        processors: net::sched::processors()?,
        interrupt,
        progress,
        realtime: true,
    };
    let streams_max = options.streams.iter().copied().max().unwrap_or(1);
    let mut paths = Paths {
        chain: Chain::start(&arena, streams_max)?,
        relays: Relays::start(&arena, streams_max)?,
        runs: 0,
    };
    let load_before = usage::load();
    let busy = Load::start(options.busy, None);
    let mut cells = Vec::new();
    for &streams in &options.streams {
        cells.push(paths.cell(&arena, streams)?);
    }
    drop(busy);
    progress.clear();
    Ok(Report {
        medium: arena.row.medium(),
        scheduling: trial::scheduling()?,
        node_scheduling: paths.chain.scheduling()?,
        pinning: options.pinning,
        processors: arena.processors.clone(),
        busy_loops: options.busy,
        load: [load_before, usage::load()],
        payload_bytes: options.payload,
        packets_per_stream_s: trial::RATE_PPS,
        trial_seconds: options.seconds,
        repeats: options.repeats,
        cells,
    })
}

/// All paths. A path whose turn it is not waits and costs nothing.
struct Paths {
    chain: Chain,
    relays: Relays,
    /// Number of trials so far. It separates late packets of one trial from those of the next.
    runs: u32,
}

impl Paths {
    fn cell(&mut self, arena: &Arena<'_>, streams: u32) -> Result<Cell, BenchError> {
        let mut trials = PATHS.map(|_| Vec::new());
        let repeats = arena.options.repeats;
        for repeat in 0..repeats {
            for (i, path) in PATHS.into_iter().enumerate() {
                go_on(&arena.interrupt)?;
                let share = (repeat * PATHS.len() + i) as f64 / (repeats * PATHS.len()) as f64;
                let text = format!("{streams} streams: {}", path.name());
                arena.progress.draw(share, &text);
                trials[i].push(self.trial(arena, path, streams)?);
            }
        }
        arena.progress.step(&format!("{streams} streams measured"));
        let reports = PATHS.into_iter().zip(&trials);
        let reports = reports.map(|(path, trials)| PathReport::new(path.name(), trials));
        Ok(Cell::new(streams, reports.collect()))
    }

    fn trial(&mut self, arena: &Arena<'_>, path: Path, streams: u32) -> Result<Trial, BenchError> {
        self.runs += 1;
        let plan = arena.plan(streams, self.runs);
        let trial = match path {
            Path::Kernel => self.relays.direct(&plan),
            Path::Forwarders => self.relays.trial(&plan),
            Path::Nodes => self.chain.trial(&plan),
        };
        // Ctrl-C also ends the other processes, and then their end is no error.
        go_on(&arena.interrupt)?;
        trial
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_in_a_chain_are_on_different_processors() {
        let cpus: Vec<_> = (0..STATIONS)
            .map(|i| Pinning::Spread.cpu(&[0, 1], i))
            .collect();
        assert!(cpus.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(Pinning::Spread.cpu(&[4], 3), Some(4));
        assert_eq!(Pinning::Spread.cpu(&[], 3), None);
        assert_eq!(Pinning::One.cpu(&[4, 5], 3), Some(4));
        assert_eq!(Pinning::Free.cpu(&[4, 5], 3), None);
    }

    #[test]
    fn what_cannot_be_is_an_error() {
        let refused = |options: Options| {
            let refused = options.check();
            assert!(matches!(refused, Err(BenchError::Option(_))));
        };
        let fine = Options::default();
        fine.check().unwrap();
        let with = |change: fn(&mut Options)| {
            let mut options = Options::default();
            change(&mut options);
            options
        };
        refused(with(|o| o.payload = PAYLOAD_MIN - 1));
        refused(with(|o| o.payload = 100_000));
        refused(with(|o| o.streams = vec![1, 0]));
        refused(with(|o| o.seconds = f64::NAN));
        refused(with(|o| o.repeats = 0));
        refused(with(|o| o.busy = 1_000_000));
    }
}
