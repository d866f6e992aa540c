//! `sinew demo`: the same calls over a lossy path, directly by UDP and over the overlay.
//!
//! ```text
//!   phones ── client socket ── A ── B ── C ═══ D ── E ── F ── client socket ── phones   overlay
//!     │                          10 ms each; C-D loses                             │
//!     └───────── UDP ───────── emulator: 50 ms, the same loss ──────── UDP ────────┘   direct
//! ```
//!
//! Six processes, five links, two paths, one clock. Life cycle of a run:
//!
//! ```text
//!   check options, speech, folder ─> chain is up ─> calls ─> nodes end ─> judge ─> write files
//! ```
//!
//! docs/demo.md defines every number.

mod chain;
mod error;
mod judge;
mod options;
mod output;
mod report;
mod result;
mod talk;

pub use error::DemoError;
pub use options::DemoOptions;
pub use result::{Ceiling, DemoResult, PathResult, Scenario, Score};

use base::Duration;
use chain::{Chain, HOPS, LOSSY_HOP, Links, NAMES};
use judge::Judged;
use net::Clock;
use output::{Output, Said};
use report::Evidence;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use talk::{Live, Times};
use tools::emulator::Emulator;
use tools::interrupt::Interrupt;
use tools::pace::{self, DEADLINE, Schedule};
use tools::progress::Progress;
use tools::quality::Call;
use voice::call::Original;
use voice::frames::FRAME_SAMPLES;

/// Delay of each link of the chain.
const HOP_DELAY: Duration = Duration::from_millis(10);
/// From the threads' start to the first packet.
const LEAD: Duration = Duration::from_millis(50);
/// From the last packet until nobody waits any more: five times the deadline, so that late packets
/// count as late and not as lost.
const TAIL: Duration = Duration::from_millis(500);
/// How often the bar is drawn and the nodes are looked after.
const TICK: Duration = Duration::from_millis(100);
/// A sender that is later than this on 1 % of its packets measures the machine, not the paths.
const BEHIND_MAX_US: u64 = 5_000;

/// Runs the demonstration and writes its files.
///
/// # Errors
/// [`DemoError`]; whatever was started has ended then.
pub fn run(options: &DemoOptions) -> Result<DemoResult, DemoError> {
    options.check()?;
    let progress = options.progress;
    progress.begin(&format!(
        "sinew demo: {} of {} s, directly and over six nodes, {} loss",
        pace::count_calls(options.calls),
        options.seconds,
        tools::share::percent(options.loss),
    ));
    let said = Said::load(options)?;
    let output = Output::prepare(&options.out, &said)?;
    let interrupt = Interrupt::install()?;
    let calls = make_calls(options, &said.original, &interrupt)?;
    let ratio = |wire: f64| wire / calls.payload_bytes.max(1) as f64;
    let mut judged = 0;
    let total = 2 * options.calls as usize;
    let mut judge = |calls: Vec<Call>| -> Result<Judged, DemoError> {
        let before = judged;
        let done = judge::judge(&said.original, calls, |done| {
            judged = before + done;
            progress.draw(
                judged as f64 / total as f64,
                "listening: PESQ of every segment",
            );
            !interrupt.came()
        });
        done.map_err(|error| said.error(&error.to_string()))?
            .ok_or(DemoError::Interrupted)
    };
    let direct = judge(calls.direct)?;
    let overlay = judge(calls.overlay)?;
    progress.clear();
    let ceiling = said.original.ceiling();
    let result = DemoResult {
        scenario: scenario(options, &said),
        direct: judge::summary(&direct, ratio(calls.direct_bytes as f64)),
        overlay: judge::summary(
            &overlay,
            ratio(calls.overlay_bytes as f64 / f64::from(HOPS)),
        ),
        ceiling: judge::ceiling(&said.original),
        report: output.report(),
    };
    let evidence = Evidence {
        direct: &direct,
        overlay: &overlay,
        ceiling: &ceiling,
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

fn scenario(options: &DemoOptions, said: &Said) -> Scenario {
    Scenario {
        nodes: NAMES.len() as u32,
        chain: NAMES.join("-"),
        hop_delay_ms: HOP_DELAY.as_secs_f64() * 1e3,
        lossy_link: NAMES[LOSSY_HOP..LOSSY_HOP + 2].join("-"),
        direct_delay_ms: (HOP_DELAY * u64::from(HOPS)).as_secs_f64() * 1e3,
        loss_pct: 100.0 * options.loss,
        burst_pct: 100.0 * options.burst,
        calls: options.calls,
        seconds: options.seconds,
        deadline_ms: DEADLINE.as_secs_f64() * 1e3,
        codec: "G.711 mu-law".into(),
        packet_ms: pace::FRAME.as_secs_f64() * 1e3,
        speech: said.name.clone(),
    }
}

/// What came out of the calls.
struct Calls {
    direct: Vec<Call>,
    overlay: Vec<Call>,
    /// What the phones handed over, RTP headers included, once per packet.
    payload_bytes: u64,
    direct_bytes: u64,
    overlay_bytes: u64,
    behind_p99_us: u64,
    restarts: u32,
}

fn make_calls(
    options: &DemoOptions,
    original: &Original,
    interrupt: &Interrupt,
) -> Result<Calls, DemoError> {
    let progress = options.progress;
    let program = match &options.program {
        Some(program) => program.clone(),
        None => tools::program::path()?,
    };
    let links = Links {
        clean: options.clean(HOP_DELAY)?,
        lossy: options.impairment(HOP_DELAY)?,
    };
    let started = Chain::start(&program, &links, || interrupt.came());
    let mut chain = unless_interrupted(started, interrupt)?;
    progress.step("six nodes are up, and A has a route to F");

    let listener = talk::listener(&chain, options.calls)?;
    let model = options.impairment(HOP_DELAY * u64::from(HOPS))?;
    let emulator = Emulator::start(model, seed()?, listener.direct_address()?)?;
    let speaker = talk::speaker(&chain, options.calls, emulator.address())?;
    let bytes_before = chain.bytes_out()?;

    let clock = Clock::new();
    let packets = original.packets().len() as u32;
    let schedule = Schedule {
        start: clock.now() + LEAD,
        calls: options.calls,
        packets,
    };
    let live = Arc::new(Live::default());
    let talking = {
        let frames: Vec<[u8; FRAME_SAMPLES]> = original.packets().to_vec();
        let (speaker_live, listener_live) = (Arc::clone(&live), Arc::clone(&live));
        Talking {
            speaker: Some(thread("speaker", move || {
                Ok(speaker.run(clock, schedule, &frames, &speaker_live))
            })?),
            listener: Some(thread("listener", move || {
                listener.run(clock, schedule, &listener_live)
            })?),
            live,
        }
    };
    let end = schedule.due(0, packets) + TAIL;
    attend(
        &mut chain,
        &talking.live,
        (clock, schedule, end),
        progress,
        interrupt,
    )?;
    let (sent, arrived) = talking.finish()?;
    let overlay_bytes = chain.bytes_out()?.saturating_sub(bytes_before);
    let restarts = chain.restarts();
    drop(chain);
    let traffic = emulator.stop()?;
    progress.clear();

    let mut behind_us = sent.behind_us;
    behind_us.sort_unstable();
    let p99 = (behind_us.len() * 99).div_ceil(100).saturating_sub(1);
    let calls = 0..options.calls;
    let of = |sent, arrived| {
        calls
            .clone()
            .map(|c| pace::delays_us(sent, arrived, c))
            .collect()
    };
    Ok(Calls {
        direct: of(&sent.direct, &arrived.direct),
        overlay: of(&sent.overlay, &arrived.overlay),
        payload_bytes: behind_us.len() as u64 * tools::rtp::PACKET_BYTES as u64,
        direct_bytes: traffic.bytes_in,
        overlay_bytes,
        behind_p99_us: behind_us.get(p99).copied().unwrap_or(0),
        restarts,
    })
}

/// Waits for the end of the calls, tells how far they are, and starts killed nodes again.
fn attend(
    chain: &mut Chain,
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
        for name in unless_interrupted(chain.revive(), interrupt)? {
            progress.step(&format!("node {name} was killed: started again"));
        }
        let gone = clock.now().since(schedule.start).as_secs_f64();
        let [sent, direct, overlay] =
            [&live.sent, &live.direct, &live.overlay].map(|n| n.load(Ordering::Relaxed));
        progress.draw(
            gone / span,
            &format!("{sent} sent, arrived: direct {direct}, overlay {overlay}"),
        );
    }
    Ok(())
}

/// Ctrl-C on a terminal reaches the nodes too, perhaps a moment earlier: that they ended is no
/// failure then.
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
    /// Ends the threads: when packets were sent, and when they arrived.
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
            // The first error is already on its way up.
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

/// The losses of the direct path are different in every run, as those of the links are.
fn seed() -> io::Result<u64> {
    let entropy = net::sched::entropy()?;
    let (bytes, _) = entropy.split_first_chunk().expect("there are 32");
    Ok(u64::from_ne_bytes(*bytes))
}
