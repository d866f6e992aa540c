//! `sinew bench emulate`: the precision and rate of the emulated link of `sinew emulate`, and the goodput of the
//! kernel's TCP over it; compared with a plain cable in the same run.
//!
//! ```text
//!   namespace A ══ veth ═══════════════ namespace B       the kernel alone
//!              ╚══ TAP ── emulator ── TAP ══╝             clean, and with 10 ms
//! ```

pub(super) mod link;
mod report;
mod tcp;

pub use report::{Delay, Rate, Report, Tcp};

use super::forward::search::Search;
use super::trial::{self, Plan};
use super::volley::{Counting, copies, volley};
use super::{BenchError, apart, go_on, usage};
use base::{Duration, Pool};
use link::{Link, Path};
use std::net::UdpSocket;
use tools::interrupt::Interrupt;
use tools::progress::Progress;

/// The delay of the second emulated link.
const DELAY: Duration = Duration::from_millis(10);
const DELAYED: &str = "delay=10ms";
const PAYLOAD_BYTES: usize = 160;
/// The rate at which a search begins.
const START_PPS: u64 = 20_000;
/// Length of one volley of a search.
const VOLLEY_S: f64 = 0.4;
/// All losses are tried, with each kind of congestion control that the kernel has.
const LOSSES: [&str; 3] = ["0%", "1%", "2%"];
const CONTROLS: [&str; 3] = ["reno", "cubic", "bbr"];

/// Options of the benchmark.
#[derive(Clone, Debug)]
pub struct Options {
    /// Streams of 50 packets/s at once, one table each.
    pub streams: Vec<u32>,
    /// Length of a trial.
    pub seconds: f64,
    /// Trials per number.
    pub repeats: usize,
    /// Length of each connection; 0 for no connections.
    pub tcp_seconds: f64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            streams: vec![10, 200],
            seconds: 3.0,
            repeats: 3,
            tcp_seconds: 15.0,
        }
    }
}

impl Options {
    fn check(&self) -> Result<(), BenchError> {
        let bad = |what: &str| Err(BenchError::Option(what.to_owned()));
        if self.streams.is_empty() || !self.streams.iter().all(|n| (1..=1_000).contains(n)) {
            return bad("there are 1 to 1000 streams");
        }
        if !(0.1..=600.0).contains(&self.seconds) || !(0.0..=600.0).contains(&self.tcp_seconds) {
            return bad("a trial lasts 0.1 to 600 seconds, a connection 0 to 600");
        }
        if !(1..=99).contains(&self.repeats) {
            return bad("each number is measured 1 to 99 times");
        }
        Ok(())
    }
}

/// Runs the measurement.
///
/// # Errors
/// [`BenchError`]; then the namespaces are removed.
pub fn run(options: &Options, progress: Progress) -> Result<Report, BenchError> {
    options.check()?;
    let interrupt = Interrupt::install()?;
    progress.begin("sinew bench emulate: two namespaces, a cable, and an emulated link");
    let load_before = usage::load();
    let link = Link::new()?;
    let mut report = Report {
        scheduling: trial::scheduling()?,
        emulator_scheduling: String::new(),
        load: [load_before; 2],
        trial_seconds: options.seconds,
        repeats: options.repeats,
        delays: Vec::new(),
        rates: Vec::new(),
        tcp: Vec::new(),
    };
    for &streams in &options.streams {
        progress.step(&format!("delay of {streams} streams"));
        report
            .delays
            .extend(delays(options, &link, streams, &interrupt)?);
    }
    progress.step("packets per second");
    report.rates = rates(options, &link, &interrupt)?;
    if options.tcp_seconds > 0.0 {
        for control in CONTROLS {
            for loss in LOSSES {
                go_on(&interrupt)?;
                progress.step(&format!("TCP: {control}, {loss} loss"));
                let goodput = tcp::goodput(&link, control, loss, options.tcp_seconds)?;
                report.tcp.extend(goodput);
            }
        }
    }
    report.load[1] = usage::load();
    report.emulator_scheduling = link.stop()?;
    Ok(report)
}

/// Measures one-way delays over the cable and over the link, clean and with a delay, in turns.
fn delays(
    options: &Options,
    link: &Link,
    streams: u32,
    interrupt: &Interrupt,
) -> Result<Vec<Delay>, BenchError> {
    let contenders = [
        ("kernel", Path::Cable, "clean", Duration::ZERO),
        ("emulated, clean", Path::Emulated, "clean", Duration::ZERO),
        ("emulated, 10 ms", Path::Emulated, DELAYED, DELAY),
    ];
    let mut trials = vec![Vec::new(); contenders.len()];
    for round in 0..options.repeats {
        for (place, (_, path, model, _)) in contenders.iter().enumerate() {
            go_on(interrupt)?;
            link.set(model, "clean");
            let (sources, drain) = link.udp(*path, streams as usize)?;
            let plan = Plan {
                streams,
                payload: PAYLOAD_BYTES,
                span: Duration::from_secs_f64(options.seconds),
                run: (round * contenders.len() + place) as u32,
                sender_cpu: None,
                receiver_cpu: None,
            };
            trials[place].push(apart(|| trial::run(&plan, &sources, &drain))?);
        }
    }
    let named = contenders.iter().zip(&trials);
    Ok(named
        .map(|((name, _, _, delay), trials)| Delay::new(name, streams, *delay, trials))
        .collect())
}

/// Finds the highest rate of single packets that the cable and the clean link carry.
fn rates(options: &Options, link: &Link, interrupt: &Interrupt) -> Result<Vec<Rate>, BenchError> {
    link.set("clean", "clean");
    let contenders = [("kernel", Path::Cable), ("emulated, clean", Path::Emulated)];
    let mut found = vec![Vec::new(); contenders.len()];
    for _ in 0..options.repeats {
        for (place, (_, path)) in contenders.iter().enumerate() {
            let mut search = Search::from(START_PPS);
            while let Some(rate_pps) = search.next() {
                go_on(interrupt)?;
                let (carried, achieved) = apart(|| attempt(link, *path, rate_pps))?;
                search.tell(carried, achieved);
            }
            found[place].push(search.best());
        }
    }
    let named = contenders.iter().zip(found);
    Ok(named
        .map(|((name, _), found)| Rate::new(name, found))
        .collect())
}

/// Tries a rate. Returns whether it is carried, and the rate that was achieved. The sender has a node's priority.
fn attempt(link: &Link, path: Path, rate_pps: u64) -> Result<(bool, u64), BenchError> {
    trial::prepare(None)?;
    let (source, socket): (UdpSocket, _) = link.counted(path)?;
    let mut sink = Counting::new(socket);
    let pool = Pool::new(256, 256);
    let packets = (rate_pps as f64 * VOLLEY_S) as u64;
    let bursts = copies(&pool, &[0x5a; PAYLOAD_BYTES], PAYLOAD_BYTES, packets.max(1));
    let fire = |burst: base::Burst| {
        // A full buffer is a loss, which is visible at the other end.
        let _ = source.send(burst.bytes());
    };
    let outcome = volley(bursts, rate_pps, Duration::ZERO, fire, &mut sink);
    let achieved = outcome.rate_pps() as u64;
    Ok((outcome.is_carried(Duration::ZERO), achieved))
}
