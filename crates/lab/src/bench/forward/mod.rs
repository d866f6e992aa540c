//! `sinew bench forward`: the rate and cost of the middle node of a chain of three, compared with three bare forwarders
//! in the same run.
//!
//! ```text
//!   this process, one thread                         a process (or a thread) of its own
//!   engine a ── seals ahead, fires bursts ──UDP──> middle node: opens, judges, keeps, seals
//!   engine c <── opens, judges, counts    <──UDP── ┘      or a bare forwarder in its place
//! ```
//!
//! First the search finds the limit of each contender: the highest rate at which less than 0.1 % is lost and no queue
//! grows, by doubling and halving, with all contenders in turns. Then all run at one common rate and each at its limit,
//! several times in turns; the report has medians. Finally the node gets an outgoing link that loses and delays
//! packets, and a search finds the rate at which it recovers. If requested, another node codes its packets, in
//! comparison with one that does not; and another chain seals by hops only, in comparison with one that seals from end
//! to end as well.
//!
//! One core is for the forwarder and one for the traffic, which one loop that never sleeps generates and counts.
//! docs/bench.md defines every number.

mod bare;
mod chain;
mod coded;
mod ends;
mod impaired;
mod report;
pub(crate) mod search;

pub use report::{Cell, Coded, Ends, Impaired, Measured, Ratios, Report};

use super::row::Row;
use super::volley::Outcome;
use super::{BenchError, apart, go_on, usage};
use bare::Bare;
use base::Duration;
use chain::{Behind, Chain};
use search::Search;
use std::path::PathBuf;
use tools::interrupt::Interrupt;
use tools::progress::Progress;

/// Bytes of a packet in addition to its payload.
const OVERHEAD_BYTES: usize = wire::HEADROOM + wire::TAG_BYTES;
/// Memory for the packets of one volley.
const VOLLEY_BYTES: usize = super::endpoint::SEALED_BYTES - (16 << 20);
/// Real-time priority of the measured programs, if permitted. It is below a node's own (10), so that the node, which
/// waits on the same core for its turn, can send hellos in the meantime.
const PRIORITY: u8 = 8;
/// Most trials of one search.
const TRIALS_MAX: usize = 24;
/// Approximate number of trials of all searches of a cell together: eight each, failures twice.
const SEARCH_TRIALS: usize = 44;
/// The same for the search over the bad link.
const IMPAIRED_TRIALS: usize = 6;

/// Options of the benchmark.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of payload.
    pub payloads: Vec<usize>,
    /// Packets per burst.
    pub bursts: Vec<usize>,
    /// Number of flows; the packets belong to them in turn.
    pub flows: u32,
    /// Length of a trial.
    pub seconds: f64,
    /// Trials at the common rate and at the limit.
    pub repeats: usize,
    /// The common rate for single packets.
    pub single_pps: u64,
    /// The common rate for bursts.
    pub burst_pps: u64,
    /// Three network namespaces and veth instead of loopback; needs root.
    pub netns: bool,
    /// Also measure the node with a coded lane.
    pub protect: bool,
    /// Also measure the node between ends that seal by hops only.
    pub ends: bool,
    /// The program that is run as `PROGRAM node --config FILE`; `None` for the running one.
    pub program: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            payloads: vec![160, 1_200],
            bursts: vec![1, 8, 16, 32],
            flows: 10,
            seconds: 0.4,
            repeats: 3,
            single_pps: 40_000,
            burst_pps: 100_000,
            netns: false,
            protect: false,
            ends: false,
            program: None,
        }
    }
}

impl Options {
    fn check(&self) -> Result<(), BenchError> {
        let bad = |what: &str| Err(BenchError::Option(what.to_owned()));
        let max = overlay::node::MAX_PAYLOAD;
        if self
            .payloads
            .iter()
            .any(|&payload| payload == 0 || payload > max)
        {
            return bad(&format!("a payload has 1 to {max} bytes"));
        }
        if self.bursts.iter().any(|&burst| !(1..=48).contains(&burst)) {
            return bad("a burst has 1 to 48 packets");
        }
        if !(0.05..=10.0).contains(&self.seconds) || self.repeats == 0 {
            return bad("a trial lasts 0.05 to 10 seconds, and there is at least one");
        }
        if !(1..=1_000).contains(&self.flows) || self.single_pps == 0 || self.burst_pps == 0 {
            return bad("there are 1 to 1000 flows, and rates above 0");
        }
        Ok(())
    }

    /// Returns the text at the start.
    fn heading(&self) -> String {
        let cells = self.payloads.len() * self.bursts.len();
        // Packets are sealed before they are sent, which takes the same time again.
        let trial = 2.0 * self.seconds + 0.1;
        let trials = SEARCH_TRIALS + (2 * CONTENDERS.len() + 1) * self.repeats + IMPAIRED_TRIALS;
        format!(
            "sinew bench forward: {cells} combinations of payload and burst, about {:.0} s",
            2.0 + (cells * trials) as f64 * trial,
        )
    }

    fn common_pps(&self, burst: usize) -> u64 {
        if burst == 1 {
            self.single_pps
        } else {
            self.burst_pps
        }
    }
}

/// The contenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contender {
    Node,
    Batched,
    Offloaded,
    Sealed,
}

const CONTENDERS: [Contender; 4] = [
    Contender::Node,
    Contender::Batched,
    Contender::Offloaded,
    Contender::Sealed,
];

impl Contender {
    const fn name(self) -> &'static str {
        match self {
            Contender::Node => "node",
            Contender::Batched => "recvmmsg/sendmmsg",
            Contender::Offloaded => "GRO/GSO",
            Contender::Sealed => "GRO/GSO, AES-GCM",
        }
    }
}

/// One volley through a forwarder, and its cost there.
#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    outcome: Outcome,
    cpu_ns: u64,
    wakeups: u64,
}

impl Trial {
    fn ns_per_packet(&self) -> f64 {
        self.cpu_ns as f64 / self.outcome.sent.max(1) as f64
    }

    /// Returns the share of its core that the forwarder used.
    fn busy(&self) -> f64 {
        self.cpu_ns as f64 / self.outcome.span.as_nanos().max(1) as f64
    }
}

/// The size, burst length and rate of a trial's packets.
#[derive(Clone, Copy, Debug)]
struct Shape {
    payload: usize,
    burst: usize,
    rate_pps: u64,
    packets: u64,
}

/// Everything that trials need.
struct Arena<'a> {
    options: &'a Options,
    row: Row,
    /// The forwarder's processor and that of the traffic; `None` if there are fewer than two.
    cpus: Option<[usize; 2]>,
    interrupt: Interrupt,
    progress: Progress,
}

/// Runs the measurement, pinned and with real-time priority, if permitted.
///
/// # Errors
/// [`BenchError`]; then everything that was started has ended.
pub fn run(options: &Options, progress: Progress) -> Result<Report, BenchError> {
    options.check()?;
    let interrupt = Interrupt::install()?;
    apart(|| measure(options, interrupt, progress))
}

fn measure(
    options: &Options,
    interrupt: Interrupt,
    progress: Progress,
) -> Result<Report, BenchError> {
    let cpus = match *net::sched::processors()?.as_slice() {
        [forwarder, .., traffic] => Some([forwarder, traffic]),
        _ => None,
    };
    progress.begin(&options.heading());
    let row = Row::new(3, options.netns)?;
    let arena = Arena {
        options,
        row,
        cpus,
        interrupt,
        progress,
    };
    let mut chain = Chain::start(&arena, Behind::Clean)?;
    if let Some([_, traffic]) = cpus {
        net::sched::pin(traffic)?;
    }
    let scheduling = net::sched::real_time(PRIORITY).to_string();
    let load_before = usage::load();
    let mut cells = Vec::new();
    for &payload in &options.payloads {
        for &burst in &options.bursts {
            cells.push(arena.cell(&mut chain, payload, burst)?);
        }
    }
    drop(chain);
    for cell in &mut cells {
        cell.impaired = Some(impaired::measure(&arena, cell)?);
    }
    if options.protect {
        coded::measure(&arena, &mut cells)?;
    }
    if options.ends {
        ends::measure(&arena, &mut cells)?;
    }
    Ok(Report {
        medium: arena.row.medium(),
        scheduling,
        processors: cpus.map(Vec::from).unwrap_or_default(),
        load: [load_before, usage::load()],
        trial_seconds: options.seconds,
        repeats: options.repeats,
        flows: options.flows,
        cells,
    })
}

impl Arena<'_> {
    /// Measures one payload and burst: limits, common rate, and each at its limit.
    fn cell(&self, chain: &mut Chain, payload: usize, burst: usize) -> Result<Cell, BenchError> {
        self.progress
            .step(&format!("{payload} bytes, bursts of {burst}"));
        let limits = self.limits(chain, payload, burst)?;
        let common_pps = self.options.common_pps(burst);
        let at = |rate| self.shape(payload, burst, rate);
        let mut at_common = CONTENDERS.map(|_| Vec::new());
        let mut at_limit = CONTENDERS.map(|_| Vec::new());
        let mut sealed_at_node = Vec::new();
        for _ in 0..self.options.repeats {
            for (i, contender) in CONTENDERS.into_iter().enumerate() {
                at_common[i].push(self.trial(chain, contender, at(common_pps))?);
                at_limit[i].push(self.trial(chain, contender, at(limits[i]))?);
            }
            // The load is the node's own limit, which comes first.
            let shape = at(limits[0].min(limits[CONTENDERS.len() - 1]));
            sealed_at_node.push(self.trial(chain, Contender::Sealed, shape)?);
        }
        let sealed_at_node = median(&mut sealed_at_node).ns_per_packet();
        let measured = CONTENDERS.into_iter().enumerate().map(|(i, contender)| {
            let (common, limit) = (median(&mut at_common[i]), median(&mut at_limit[i]));
            Measured {
                name: contender.name(),
                max_pps: limits[i],
                ns_per_packet_common: common.ns_per_packet(),
                wakeups_per_packet_common: common.wakeups as f64 / common.outcome.sent as f64,
                ns_per_packet_max: limit.ns_per_packet(),
                busy_pct_max: 100.0 * limit.busy(),
                lost_pct_max: 100.0 * limit.outcome.loss(),
            }
        });
        Ok(Cell::new(
            payload,
            burst,
            common_pps,
            measured.collect(),
            sealed_at_node,
        ))
    }

    /// Finds the highest rate that each contender carries; all search in turns.
    fn limits(
        &self,
        chain: &mut Chain,
        payload: usize,
        burst: usize,
    ) -> Result<[u64; 4], BenchError> {
        let mut searches = CONTENDERS.map(|_| Search::from(self.options.common_pps(burst)));
        for round in 0..TRIALS_MAX {
            let mut all_done = true;
            for (i, contender) in CONTENDERS.into_iter().enumerate() {
                let Some(rate) = searches[i].next() else {
                    continue;
                };
                all_done = false;
                let shape = self.shape(payload, burst, rate);
                let mut outcome = self.trial(chain, contender, shape)?.outcome;
                if !outcome.is_carried(Duration::ZERO) {
                    // The trial is repeated, because the machine may have done other work.
                    outcome = self.trial(chain, contender, shape)?.outcome;
                }
                let text = format!("{}: {rate} packets/s", contender.name());
                self.progress.draw(round as f64 / TRIALS_MAX as f64, &text);
                searches[i].tell(
                    outcome.is_carried(Duration::ZERO),
                    outcome.rate_pps() as u64,
                );
            }
            if all_done {
                break;
            }
        }
        self.progress.clear();
        Ok(searches.map(|search| search.best()))
    }

    /// Returns the shape of a trial with as many packets as its length needs, limited by memory.
    fn shape(&self, payload: usize, burst: usize, rate_pps: u64) -> Shape {
        let fit = (VOLLEY_BYTES / (payload + OVERHEAD_BYTES)) as u64;
        let packets = ((rate_pps as f64 * self.options.seconds) as u64).clamp(1, fit);
        Shape {
            payload,
            burst,
            rate_pps,
            packets: packets.next_multiple_of(burst as u64),
        }
    }

    fn trial(
        &self,
        chain: &mut Chain,
        contender: Contender,
        shape: Shape,
    ) -> Result<Trial, BenchError> {
        go_on(&self.interrupt)?;
        match contender {
            Contender::Node => {
                chain.wait(self)?;
                chain.trial(shape, self.options.flows, Duration::ZERO)
            }
            bare => Bare {
                arena: self,
                contender: bare,
            }
            .trial(shape, chain),
        }
    }
}

/// Returns the trial of median cost.
fn median(trials: &mut [Trial]) -> Trial {
    trials.sort_by(|a, b| a.ns_per_packet().total_cmp(&b.ns_per_packet()));
    trials.get(trials.len() / 2).copied().unwrap_or_default()
}
