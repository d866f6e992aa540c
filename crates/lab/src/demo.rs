//! `sinew demo`: the same calls over a lossy path, directly by UDP and over the overlay.
//!
//! ```text
//!   phones ── client socket ── A ── B ── C ═══ D ── E ── F ── client socket ── phones   overlay
//!     │                          10 ms each; C-D loses                             │
//!     └───────── UDP ───────── emulator: 50 ms, the same loss ──────── UDP ────────┘   direct
//! ```
//!
//! The demo has six processes, five links, two paths and one clock. `--long` uses another layout: one link of 60 ms,
//! and two overlays, one without protection (`layout.rs`). Life cycle of a run:
//!
//! ```text
//!   check options, speech, folder ─> chains are up ─> calls ─> nodes end ─> judge ─> write files
//! ```
//!
//! docs/demo.md defines every number.

mod chain;
mod error;
mod judge;
mod layout;
mod options;
mod output;
mod report;
mod result;
mod talk;

pub use error::DemoError;
pub use options::DemoOptions;
pub use result::{Ceiling, DemoResult, PathResult, Scenario, Score};

use base::Duration;
use chain::{Blueprint, Chain, Links};
use judge::Judged;
use layout::Layout;
use net::Clock;
use output::{Output, Said};
use report::Evidence;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use talk::{Ask, Live, Times};
use tools::emulator::Emulator;
use tools::interrupt::Interrupt;
use tools::pace::{self, Schedule};
use tools::progress::Progress;
use tools::quality::Call;
use voice::call::{Altered, Original};
use voice::frames::FRAME_SAMPLES;

/// Time from the threads' start to the first packet.
const LEAD: Duration = Duration::from_millis(50);
/// How long the receivers wait after the last packet, in deadlines: late packets count as late and not as lost.
const TAIL_DEADLINES: u64 = 5;
/// How often the progress bar is drawn and the nodes are checked.
const TICK: Duration = Duration::from_millis(100);
/// If a sender is later than this on 1 % of its packets, the run measures the machine and not the paths.
const BEHIND_MAX_US: u64 = 5_000;

/// Runs the demonstration and writes its files.
///
/// # Errors
/// [`DemoError`]; then everything that was started has ended.
pub fn run(options: &DemoOptions) -> Result<DemoResult, DemoError> {
    options.check()?;
    let (progress, layout) = (options.progress, options.layout());
    progress.begin(&format!(
        "sinew demo: {} of {} s, directly and {}, {} loss",
        pace::count_calls(options.calls),
        options.seconds,
        layout.phrase,
        tools::share::percent(options.loss),
    ));
    let said = Said::load(options)?;
    let output = Output::prepare(&options.out, &said, layout.ways.len())?;
    let interrupt = Interrupt::install()?;
    let calls = make_calls(options, &said.original, &interrupt)?;
    let heard = calls.delays.into_iter().zip(&calls.altered).collect();
    let judged = listen(&said, heard, (layout, progress), &interrupt)?;
    let payload = calls.payload_bytes.max(1) as f64;
    let results = judged
        .iter()
        .zip(&calls.wire_bytes)
        .map(|(judged, bytes)| judge::summary(judged, bytes / payload));
    let result = DemoResult {
        scenario: scenario(options, &said),
        ways: layout.ways.iter().zip(results).collect(),
        ceiling: judge::ceiling(&said.original),
        report: output.report(),
    };
    let evidence = Evidence {
        judged: &judged,
        ceiling: &said.original.ceiling(),
        behind_p99_us: calls.behind_p99_us,
        restarts: calls.restarts,
    };
    output.write(&result, &evidence)?;
    if calls.behind_p99_us > BEHIND_MAX_US {
        progress.warn(&format!(
            "this machine was too busy: 1 % of the packets were sent more than {} ms late; numbers \
             of a quiet machine are better",
            calls.behind_p99_us / 1_000
        ));
    }
    Ok(result)
}

/// Evaluates what arrived, path by path.
fn listen(
    said: &Said,
    ways: Vec<(Vec<Call>, &Vec<Altered>)>,
    (layout, progress): (&Layout, Progress),
    interrupt: &Interrupt,
) -> Result<Vec<Judged>, DemoError> {
    let total: usize = ways.iter().map(|(calls, _)| calls.len()).sum();
    let mut before = 0;
    let mut all = Vec::new();
    for (calls, altered) in ways {
        let count = calls.len();
        let heard = (calls, altered.as_slice());
        let judged = judge::judge(&said.original, heard, layout.deadline, |done| {
            progress.draw(
                (before + done) as f64 / total as f64,
                "listening: PESQ of every segment",
            );
            !interrupt.came()
        });
        let judged = judged.map_err(|error| said.error(&error.to_string()))?;
        all.push(judged.ok_or(DemoError::Interrupted)?);
        before += count;
    }
    progress.clear();
    Ok(all)
}

fn scenario(options: &DemoOptions, said: &Said) -> Scenario {
    let layout = options.layout();
    Scenario {
        nodes: layout.names.len() as u32,
        chain: layout.names.join("-"),
        hop_delay_ms: layout.hop_delay.as_secs_f64() * 1e3,
        lossy_link: layout.names[layout.lossy_hop..layout.lossy_hop + 2].join("-"),
        direct_delay_ms: layout.delay().as_secs_f64() * 1e3,
        loss_pct: 100.0 * options.loss,
        burst_pct: 100.0 * options.burst,
        calls: options.calls,
        seconds: options.seconds,
        deadline_ms: layout.deadline.as_secs_f64() * 1e3,
        codec: "G.711 mu-law".into(),
        packet_ms: pace::FRAME.as_secs_f64() * 1e3,
        speech: said.name.clone(),
    }
}

/// The results of the calls.
struct Calls {
    /// The calls of each path.
    delays: Vec<Vec<Call>>,
    /// The payloads of these calls that arrived altered.
    altered: Vec<Vec<Altered>>,
    /// Bytes that the phones sent, RTP headers included, once per packet.
    payload_bytes: u64,
    /// Bytes on one hop of each path.
    wire_bytes: Vec<f64>,
    behind_p99_us: u64,
    restarts: u32,
}

fn make_calls(
    options: &DemoOptions,
    original: &Original,
    interrupt: &Interrupt,
) -> Result<Calls, DemoError> {
    let (progress, layout) = (options.progress, options.layout());
    let mut chains = start_chains(options, interrupt)?;
    let (first, last) = layout.ends();
    progress.step(&format!(
        "{} nodes are up, and {first} has a route to {last}",
        layout.processes()
    ));

    let ask = Ask {
        calls: options.calls,
        deadline: layout.deadline,
    };
    let listener = talk::listener(&chains, &ask)?;
    let model = options.impairment(layout.delay())?;
    let emulator = Emulator::start(model, seed()?, listener.direct_address()?)?;
    let speaker = talk::speaker(&chains, &ask, emulator.address())?;
    let bytes_before = bytes_out(&chains)?;

    let clock = Clock::new();
    let packets = original.packets().len() as u32;
    let schedule = Schedule {
        start: clock.now() + LEAD,
        calls: options.calls,
        packets,
    };
    let live = Arc::new(Live::new(layout.ways.len()));
    let talking = {
        let frames: Arc<[[u8; FRAME_SAMPLES]]> = original.packets().into();
        let heard = Arc::clone(&frames);
        let (speaker_live, listener_live) = (Arc::clone(&live), Arc::clone(&live));
        Talking {
            speaker: Some(thread("speaker", move || {
                Ok(speaker.run(clock, schedule, &frames, &speaker_live))
            })?),
            listener: Some(thread("listener", move || {
                listener.run(clock, schedule, &heard, &listener_live)
            })?),
            live,
        }
    };
    let end = schedule.due(0, packets) + layout.deadline * TAIL_DEADLINES;
    attend(
        (layout, &mut chains),
        &talking.live,
        (clock, schedule, end),
        progress,
        interrupt,
    )?;
    let (sent, arrived) = talking.finish()?;
    let overlay_bytes = bytes_out(&chains)?;
    let restarts = chains.iter().map(Chain::restarts).sum();
    drop(chains);
    let direct_bytes = emulator.stop()?.bytes_in;
    progress.clear();

    let per_hop = overlay_bytes
        .iter()
        .zip(&bytes_before)
        .map(|(after, before)| after.saturating_sub(*before) as f64 / f64::from(layout.hops()));
    let wire_bytes = std::iter::once(direct_bytes as f64)
        .chain(per_hop)
        .collect();
    let delays = sent.ways.iter().zip(&arrived.ways).map(|(sent, arrived)| {
        (0..options.calls)
            .map(|call| pace::delays_us(sent, arrived, call))
            .collect()
    });
    Ok(Calls {
        delays: delays.collect(),
        altered: arrived.altered,
        payload_bytes: sent.behind_us.len() as u64 * voice::rtp::place::PACKET_BYTES as u64,
        wire_bytes,
        behind_p99_us: p99(sent.behind_us),
        restarts,
    })
}

/// Starts the nodes of every overlay.
fn start_chains(options: &DemoOptions, interrupt: &Interrupt) -> Result<Vec<Chain>, DemoError> {
    let layout = options.layout();
    let program = match &options.program {
        Some(program) => program.clone(),
        None => tools::program::path()?,
    };
    let links = Links {
        clean: options.clean(layout.hop_delay)?,
        lossy: options.impairment(layout.hop_delay)?,
    };
    let start = |way| {
        let blueprint = Blueprint {
            layout,
            way,
            links: &links,
        };
        let started = Chain::start(&program, &blueprint, || interrupt.came());
        unless_interrupted(started, interrupt)
    };
    layout.overlays().iter().map(start).collect()
}

/// Returns the bytes that the nodes of each overlay have sent to each other.
fn bytes_out(chains: &[Chain]) -> Result<Vec<u64>, DemoError> {
    chains.iter().map(Chain::bytes_out).collect()
}

/// Returns the 99th percentile, by nearest rank.
fn p99(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    let rank = (values.len() * 99).div_ceil(100).saturating_sub(1);
    values.get(rank).copied().unwrap_or(0)
}

/// Waits for the end of the calls, reports their progress, and restarts killed nodes.
fn attend(
    (layout, chains): (&Layout, &mut [Chain]),
    live: &Live,
    (clock, schedule, end): (Clock, Schedule, base::Time),
    progress: Progress,
    interrupt: &Interrupt,
) -> Result<(), DemoError> {
    let span = end.since(schedule.start).as_secs_f64();
    while clock.now() < end {
        if interrupt.wait(TICK)? {
            return Err(DemoError::Interrupted);
        }
        for chain in &mut *chains {
            for name in unless_interrupted(chain.revive(), interrupt)? {
                progress.step(&format!("node {name} was killed: started again"));
            }
        }
        let gone = clock.now().since(schedule.start).as_secs_f64();
        let sent = live.sent.load(Ordering::Relaxed);
        let arrived = layout.ways.iter().zip(&live.arrived);
        let arrived: Vec<String> = arrived
            .map(|(way, count)| format!("{} {}", way.head, count.load(Ordering::Relaxed)))
            .collect();
        let text = format!("{sent} sent, arrived: {}", arrived.join(", "));
        progress.draw(gone / span, &text);
    }
    Ok(())
}

/// Replaces an error after Ctrl-C: Ctrl-C on a terminal also reaches the nodes, perhaps a moment earlier, and then
/// their end is no failure.
fn unless_interrupted<T>(
    result: Result<T, DemoError>,
    interrupt: &Interrupt,
) -> Result<T, DemoError> {
    match result {
        Err(DemoError::Node { .. }) if interrupt.wait(TICK)? => Err(DemoError::Interrupted),
        other => other,
    }
}

/// The two threads of the calls; dropping it ends them.
struct Talking {
    live: Arc<Live>,
    speaker: Option<JoinHandle<io::Result<Times>>>,
    listener: Option<JoinHandle<io::Result<Times>>>,
}

impl Talking {
    /// Ends the threads. Returns when packets were sent, and when they arrived.
    fn finish(mut self) -> Result<(Times, Times), DemoError> {
        self.live.stop.store(true, Ordering::Release);
        let (speaker, listener) = (self.speaker.take(), self.listener.take());
        Ok((join(speaker)?, join(listener)?))
    }
}

impl Drop for Talking {
    fn drop(&mut self) {
        self.live.stop.store(true, Ordering::Release);
        for thread in [self.speaker.take(), self.listener.take()]
            .into_iter()
            .flatten()
        {
            // The caller already has the first error.
            let _ = thread.join();
        }
    }
}

fn thread(
    name: &str,
    run: impl FnOnce() -> io::Result<Times> + Send + 'static,
) -> io::Result<JoinHandle<io::Result<Times>>> {
    std::thread::Builder::new().name(name.into()).spawn(run)
}

fn join(thread: Option<JoinHandle<io::Result<Times>>>) -> io::Result<Times> {
    let ended = thread.map(JoinHandle::join);
    let Some(Ok(times)) = ended else {
        return Err(io::Error::other("a thread panicked"));
    };
    times
}

/// Draws a seed. The losses of the direct path differ in every run, as those of the links do.
fn seed() -> io::Result<u64> {
    let entropy = net::sched::entropy()?;
    let (bytes, _) = entropy.split_first_chunk().expect("there are 32");
    Ok(u64::from_ne_bytes(*bytes))
}
