//! `sinew bench fairness`: the reliable link of a real node beside the kernel's TCP, through one
//! emulated bottleneck. [Amir03 §IV] asks for fairness to TCP.
//!
//! ```text
//!   namespace A                     10 Mbit/s, 10 ms, 50 packets            namespace B
//!   n streams ══ node a ──┐                                          ┌── node b ══ n readers
//!                         ├── TAP ───────── emulator ───────── TAP ──┤
//!   n TCP connections ────┘                                          └── n readers
//! ```
//!
//! All streams are on one link, which behaves like n flows (`reliable.flows`). What the readers get
//! is counted after a warm-up; the wire's use is known from what has come out of it at B.

mod report;

pub use report::{Pairing, Report, Run};

use super::credentials::address;
use super::emulate::link::{Link, Path};
use super::fleet::{Beside, Fleet, Spec};
use super::{BenchError, go_on, usage};
use crate::control;
use crate::scenario::ReliableLinks;
use client::{Node, Options as SocketOptions, Stream, Target};
use congestion::Family;
use std::io::{Read, Write};
use std::net::Shutdown;
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
/// Where the node of B listens for streams.
const PORT: u16 = 5_000;
/// Where nodes listen for each other.
const UDP_PORT: u16 = 7_700;
/// What is written and read at once: little, so that the end is soon seen.
const BLOCK_BYTES: usize = 16 << 10;
/// Slow starts are over after so long.
const WARM_UP: Duration = Duration::from_secs(4);
/// Who hears nothing for so long looks whether the run is over.
const PATIENCE: Duration = Duration::from_millis(500);

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Length of a run, after the warm-up.
    pub seconds: f64,
    /// Runs per pairing.
    pub repeats: usize,
    /// Streams, and as many connections beside them, one table row each.
    pub counts: Vec<usize>,
    /// Pairings of unlike congestion controls too.
    pub crossed: bool,
    /// Instead of all these: a link with this control, beside each of the kernel's.
    pub link: Option<Family>,
    /// The program that is run as `PROGRAM node --config FILE`; `None` for the running one.
    pub program: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seconds: 20.0,
            repeats: 2,
            counts: vec![1, 4],
            crossed: false,
            link: None,
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

    /// Congestion controls of the link and of the kernel.
    fn pairs(&self) -> Vec<(Family, &'static str)> {
        const PAIRS: [(Family, &str); 5] = [
            (Family::NewReno, "reno"),
            (Family::Cubic, "cubic"),
            (Family::NewReno, "cubic"),
            (Family::Cubic, "reno"),
            (Family::Cubic, "bbr"),
        ];
        match self.link {
            Some(link) => ["reno", "cubic", "bbr"].map(|tcp| (link, tcp)).into(),
            None if self.crossed => PAIRS.into(),
            None => PAIRS[..2].into(),
        }
    }
}

/// Measures.
///
/// # Errors
/// [`BenchError`]; nodes and namespaces are gone then.
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
        load: [load_before, usage::load()],
        seconds: options.seconds,
        repeats: options.repeats,
        pairings,
    })
}

/// One run; none if the kernel has no such congestion control.
fn trial(
    options: &Options,
    link: &Link,
    (family, control): (Family, &str),
    count: usize,
    interrupt: &Interrupt,
) -> Result<Option<Run>, BenchError> {
    // From the beginning: what a link has once seen of a shorter path it takes for the path.
    link.set(LINK, LINK);
    let (fleet, streams) = nodes(options, link, family, count, interrupt)?;
    let mut connections = Vec::new();
    for _ in 0..count {
        match link.tcp(control)? {
            Some(connection) => connections.push(connection),
            None => return Ok(None),
        }
    }
    let stop = AtomicBool::new(false);
    let taken: Vec<AtomicU64> = (0..2 * count).map(|_| AtomicU64::new(0)).collect();
    let measured = std::thread::scope(|scope| {
        let (of_streams, of_tcp) = taken.split_at(count);
        for ((to, from), bytes) in streams.iter().zip(of_streams) {
            scope.spawn(|| write(to, &stop));
            scope.spawn(|| read(from, bytes, &stop));
        }
        for ((to, from), bytes) in connections.iter().zip(of_tcp) {
            scope.spawn(|| write(to, &stop));
            scope.spawn(|| read(from, bytes, &stop));
        }
        let look = || -> Result<Vec<u64>, BenchError> {
            let mut all = vec![link.carried_bytes()?];
            all.extend(taken.iter().map(|bytes| bytes.load(Ordering::Relaxed)));
            Ok(all)
        };
        sleep(WARM_UP);
        let before = look();
        sleep(Duration::from_secs_f64(options.seconds));
        let after = look();
        let state = fleet.node(0).snapshot();
        stop.store(true, Ordering::Relaxed);
        link.set("clean", "clean");
        for (to, from) in &streams {
            to.reset();
            from.reset();
        }
        for (to, from) in &connections {
            let _ = to.shutdown(Shutdown::Both);
            let _ = from.shutdown(Shutdown::Both);
        }
        Ok::<_, BenchError>((before?, after?, state?))
    });
    let (before, after, state) = measured?;
    let lane = &state["snapshot"]["links"][0]["reliable"];
    let per_second = |bytes: u64| bytes as f64 * 8.0 / options.seconds;
    let rates: Vec<f64> = after
        .iter()
        .zip(&before)
        .map(|(after, before)| per_second(after - before))
        .collect();
    let number = |key: &str| lane[key].as_u64().unwrap_or_default();
    Ok(Some(Run::new(
        &rates[1..=count],
        &rates[1 + count..],
        rates[0] / RATE_BPS,
        [
            number("originals"),
            number("retransmissions"),
            number("timeouts"),
        ],
    )))
}

/// A node in each namespace, and streams from the first to the second.
fn nodes(
    options: &Options,
    link: &Link,
    family: Family,
    count: usize,
    interrupt: &Interrupt,
) -> Result<(Fleet, Vec<(Stream, Stream)>), BenchError> {
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
        let to = Node::at(first.client_socket())
            .connect(Target::new(address(1), PORT), SocketOptions::stream())
            .map_err(|error| first.error(&error.to_string()))?;
        let from = listener
            .accept_bytes()
            .map_err(|error| last.error(&error.to_string()))?;
        from.set_read_timeout(Some(PATIENCE))?;
        streams.push((to, from));
    }
    Ok((fleet, streams))
}

/// Writes until the run is over.
fn write<'a, W>(to: &'a W, stop: &AtomicBool)
where
    &'a W: Write,
{
    let (mut to, block) = (to, [0x5a; BLOCK_BYTES]);
    while !stop.load(Ordering::Relaxed) && to.write_all(&block).is_ok() {}
}

/// Reads and counts until the run is over.
fn read<'a, R>(from: &'a R, bytes: &AtomicU64, stop: &AtomicBool)
where
    &'a R: Read,
{
    let (mut from, mut block) = (from, vec![0; BLOCK_BYTES]);
    while !stop.load(Ordering::Relaxed) {
        match from.read(&mut block) {
            Ok(0) => return,
            Ok(len) => {
                bytes.fetch_add(len as u64, Ordering::Relaxed);
            }
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock) => {}
            Err(_) => return,
        }
    }
}
