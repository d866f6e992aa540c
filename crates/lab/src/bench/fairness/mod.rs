//! `sinew bench fairness`: the reliable link of a real node and the kernel's TCP share one emulated bottleneck. [Amir03
//! §IV] asks for fairness to TCP.
//!
//! ```text
//!   namespace A                     10 Mbit/s, 10 ms, 50 packets            namespace B
//!   n streams ══ node a ──┐                                          ┌── node b ══ n readers
//!                         ├── TAP ───────── emulator ───────── TAP ──┤
//!   n TCP connections ────┘                                          └── n readers
//! ```
//!
//! All streams are on one link, which behaves like n flows (`reliable.flows`). The benchmark counts what the readers
//! get after a warm-up; the use of the wire follows from what has come out of it at B. Instead of streams of bytes, it
//! can use messages that expire, or connections of the kernel, which show how much one of the kernel's controls leaves
//! to another.

mod end;
mod report;

pub use report::{Pairing, Report, Run};

use super::credentials::address;
use super::emulate::link::{Link, Path};
use super::fleet::{Beside, Fleet, Spec};
use super::{BenchError, go_on, usage};
use crate::control;
use crate::scenario::ReliableLinks;
use client::{Accepted, Node, Options as SocketOptions, Target};
use congestion::Family;
use end::End;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;
use tools::interrupt::Interrupt;
use tools::progress::Progress;

/// The bottleneck, in both directions.
pub const LINK: &str = "delay=10ms rate=10mbit queue=50";
/// Its rate.
const RATE_BPS: f64 = 10e6;
/// The port at which the node of B listens for streams.
const PORT: u16 = 5_000;
/// The port at which nodes listen for each other.
const UDP_PORT: u16 = 7_700;
/// Time after which slow starts are over.
const WARM_UP: Duration = Duration::from_secs(4);
/// A reader that receives nothing for this long checks whether the run is over.
const PATIENCE: Duration = Duration::from_millis(500);

/// Options of the benchmark.
#[derive(Clone, Debug)]
pub struct Options {
    /// Length of a run, after the warm-up.
    pub seconds: f64,
    /// Runs per pairing.
    pub repeats: usize,
    /// Numbers of streams, each with as many connections; one table row each.
    pub counts: Vec<usize>,
    /// Whether pairings of unlike congestion controls are measured too.
    pub crossed: bool,
    /// Replaces all these pairings: a link with this control, paired with each of the kernel's.
    pub link: Option<Family>,
    /// What is compared with the kernel's TCP.
    pub compared: Compared,
    /// The program that is run as `PROGRAM node --config FILE`; `None` for the running one.
    pub program: Option<PathBuf>,
}

/// What is compared with the kernel's TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// Streams of bytes.
    Bytes,
    /// Streams of messages that expire after this time.
    Messages(Duration),
    /// The kernel's own connections, with the control of the same name.
    Kernel,
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compared::Bytes => f.write_str("streams on a reliable link"),
            Compared::Messages(lifetime) => {
                let ms = lifetime.as_millis();
                write!(f, "messages that expire after {ms} ms on a reliable link")
            }
            Compared::Kernel => {
                f.write_str("connections of the kernel's with the control of that name")
            }
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seconds: 20.0,
            repeats: 2,
            counts: vec![1, 4],
            crossed: false,
            link: None,
            compared: Compared::Bytes,
            program: None,
        }
    }
}

impl Options {
    fn check(&self) -> Result<(), BenchError> {
        let bad = |what: &str| Err(BenchError::Option(what.to_owned()));
        if !(0.5..=3_600.0).contains(&self.seconds) || !(1..=99).contains(&self.repeats) {
            return bad("a run lasts 0.5 to 3600 seconds, and there are 1 to 99");
        }
        let most = overlay::reliable::FLOWS_MAX;
        if self.counts.is_empty() || !self.counts.iter().all(|n| (1..=most).contains(n)) {
            return bad("there are 1 to 64 streams");
        }
        Ok(())
    }

    /// Returns the pairs of congestion controls of the link and of the kernel.
    fn pairs(&self) -> Vec<(Family, &'static str)> {
        const PAIRS: [(Family, &str); 5] = [
            (Family::NewReno, "reno"),
            (Family::Cubic, "cubic"),
            (Family::NewReno, "cubic"),
            (Family::Cubic, "reno"),
            (Family::Cubic, "bbr"),
        ];
        match self.link {
            // The result for a pair of the kernel's controls holds in both directions, so it is measured once.
            None if self.compared == Compared::Kernel => {
                let same = |pair: &(Family, &str)| *pair != (Family::Cubic, "reno");
                PAIRS.into_iter().filter(same).collect()
            }
            Some(link) => ["reno", "cubic", "bbr"].map(|tcp| (link, tcp)).into(),
            None if self.crossed => PAIRS.into(),
            None => PAIRS[..2].into(),
        }
    }
}

/// Runs the measurement.
///
/// # Errors
/// [`BenchError`]; then nodes and namespaces are removed.
pub fn run(options: &Options, progress: Progress) -> Result<Report, BenchError> {
    options.check()?;
    let interrupt = Interrupt::install()?;
    measure(options, &interrupt, progress)
}

fn measure(
    options: &Options,
    interrupt: &Interrupt,
    progress: Progress,
) -> Result<Report, BenchError> {
    let runs = options.pairs().len() * options.counts.len() * options.repeats;
    let one = options.seconds + WARM_UP.as_secs_f64() + 1.0;
    progress.begin(&format!(
        "sinew bench fairness: {runs} runs, about {:.0} s",
        runs as f64 * one
    ));
    let link = Link::new()?;
    let load_before = usage::load();
    let mut pairings = Vec::new();
    for (family, control) in options.pairs() {
        for &count in &options.counts {
            let mut pairing = Pairing::new(family, control, count);
            pairing.judged &= options.compared != Compared::Kernel;
            for repeat in 0..options.repeats {
                go_on(interrupt)?;
                progress.step(&format!(
                    "{count} x {family} against {count} x TCP {control}, run {}",
                    repeat + 1
                ));
                match trial(options, &link, (family, control), count, interrupt)? {
                    Some(run) => pairing.runs.push(run),
                    None => break,
                }
            }
            pairings.extend((!pairing.runs.is_empty()).then_some(pairing));
        }
    }
    link.stop()?;
    Ok(Report {
        link: LINK,
        compared: options.compared.to_string(),
        load: [load_before, usage::load()],
        seconds: options.seconds,
        repeats: options.repeats,
        pairings,
    })
}

/// Does one run; returns `None` if the kernel has no such congestion control.
fn trial(
    options: &Options,
    link: &Link,
    (family, control): (Family, &str),
    count: usize,
    interrupt: &Interrupt,
) -> Result<Option<Run>, BenchError> {
    // Each run starts anew: a link keeps its shortest known delay, also when the path becomes longer.
    link.set(LINK, LINK);
    let (fleet, mut pairs) = match options.compared {
        Compared::Kernel => match connections(link, kernel_name(family), count)? {
            Some(pairs) => (None, pairs),
            None => return Ok(None),
        },
        Compared::Bytes | Compared::Messages(_) => {
            let (fleet, pairs) = nodes(options, link, family, count, interrupt)?;
            (Some(fleet), pairs)
        }
    };
    match connections(link, control, count)? {
        Some(beside) => pairs.extend(beside),
        None => return Ok(None),
    }
    let stop = AtomicBool::new(false);
    let stopped = || stop.load(Ordering::Relaxed);
    let taken: Vec<AtomicU64> = pairs.iter().map(|_| AtomicU64::new(0)).collect();
    let measured = std::thread::scope(|scope| {
        for ((to, from), bytes) in pairs.iter().zip(&taken) {
            scope.spawn(|| to.write(stopped));
            scope.spawn(move || {
                from.read(stopped, |len| {
                    bytes.fetch_add(len, Ordering::Relaxed);
                });
            });
        }
        let look = || -> Result<(Vec<u64>, u64), BenchError> {
            let mut all = vec![link.carried_bytes()?];
            all.extend(taken.iter().map(|bytes| bytes.load(Ordering::Relaxed)));
            let missed = pairs.iter().map(|(_, from)| from.missed());
            Ok((all, missed.sum::<std::io::Result<u64>>()?))
        };
        sleep(WARM_UP);
        let before = look();
        sleep(Duration::from_secs_f64(options.seconds));
        let after = look();
        let state = fleet.as_ref().map(|fleet| fleet.node(0).snapshot());
        stop.store(true, Ordering::Relaxed);
        link.set("clean", "clean");
        for (to, from) in &pairs {
            to.end();
            from.end();
        }
        Ok::<_, BenchError>((before?, after?, state.transpose()?))
    });
    let ((before, missed_before), (after, missed), state) = measured?;
    let lane = state.map(|state| state["snapshot"]["links"][0]["reliable"].clone());
    let per_second = |bytes: u64| bytes as f64 * 8.0 / options.seconds;
    let rates: Vec<f64> = after
        .iter()
        .zip(&before)
        .map(|(after, before)| per_second(after - before))
        .collect();
    let number = |key: &str| lane.as_ref().and_then(|lane| lane[key].as_u64());
    let run = Run::new(
        &rates[1..=count],
        &rates[1 + count..],
        rates[0] / RATE_BPS,
        ["originals", "retransmissions", "timeouts"].map(|key| number(key).unwrap_or_default()),
    );
    Ok(Some(Run {
        missed: missed - missed_before,
        ..run
    }))
}

/// Returns the kernel's name of this control.
fn kernel_name(family: Family) -> &'static str {
    match family {
        Family::NewReno => "reno",
        other => other.label(),
    }
}

/// Opens connections of the kernel from the first namespace to the second; returns `None` if it has no such control.
fn connections(
    link: &Link,
    control: &str,
    count: usize,
) -> Result<Option<Vec<(End, End)>>, BenchError> {
    let mut pairs = Vec::new();
    for _ in 0..count {
        let Some((to, from)) = link.tcp(control)? else {
            return Ok(None);
        };
        pairs.push((End::Tcp(to), End::Tcp(from)));
    }
    Ok(Some(pairs))
}

/// Starts a node in each namespace, and streams from the first to the second.
fn nodes(
    options: &Options,
    link: &Link,
    family: Family,
    count: usize,
    interrupt: &Interrupt,
) -> Result<(Fleet, Vec<(End, End)>), BenchError> {
    let mut fleet = Fleet::new(options.program.as_deref())?;
    let at = Path::Emulated.ends().map(|ip| (ip, UDP_PORT).into());
    for host in 0..2 {
        let beside = Beside {
            index: 1 - host,
            dial: (host == 0).then_some(at[1]),
            impair: None,
        };
        let spec = Spec {
            listen: at[host],
            neighbors: vec![beside],
            cpu: None,
            inside: Some(link.space(host)),
            realtime: true,
            paper: false,
            settings: &[],
            reliable: ReliableLinks {
                congestion: Some(family),
                flows: Some(count),
                spares_random_losses: None,
            },
            bridge: None,
            transfers: None,
        };
        fleet.start(host, &spec)?;
    }
    fleet.wait(interrupt, |host, status| {
        control::links_up(status, 1) && control::has_route(status, &address(1 - host).to_string())
    })?;
    let [first, last] = [0, 1].map(|host| fleet.node(host));
    let listener = Node::at(last.client_socket())
        .listen(PORT, SocketOptions::stream())
        .map_err(|error| last.error(&error.to_string()))?;
    let mut streams = Vec::new();
    for _ in 0..count {
        let (node, target) = (
            Node::at(first.client_socket()),
            Target::new(address(1), PORT),
        );
        let asked = SocketOptions::stream();
        let to = match options.compared {
            Compared::Messages(lifetime) => {
                let deadline = Some(lifetime);
                let to = node.connect_messages(target, SocketOptions { deadline, ..asked });
                to.map(End::Messages)
            }
            Compared::Bytes | Compared::Kernel => node.connect(target, asked).map(End::Bytes),
        };
        let to = to.map_err(|error| first.error(&error.to_string()))?;
        let from = listener.accept();
        let from = match from.map_err(|error| last.error(&error.to_string()))? {
            Accepted::Bytes(from) => {
                from.set_read_timeout(Some(PATIENCE))?;
                End::Bytes(from)
            }
            Accepted::Messages(from) => End::Messages(from),
        };
        streams.push((to, from));
    }
    Ok((fleet, streams))
}
