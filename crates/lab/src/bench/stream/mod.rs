//! `sinew bench stream`: the rate of one reliable stream over a chain of three nodes, compared with the same chain
//! without end-to-end seals, with a chain of three bare sealed forwarders, and with TCP, in turns.
//!
//! ```text
//!   nodes        client ══ a ── UDP ── b ── UDP ── c ══ client        ══ the stream's descriptor
//!   forwarders   sender ── UDP ── opens, seals ── ... three times ── counter
//!   tcp          socket ── TCP (in namespaces: routed by the middle host) ── socket
//! ```
//!
//! The sender of the forwarders has neither windows nor loss detection; a search first finds their limit: the highest
//! rate with at most one percent loss, or the rate that arrives when the sender floods them, if that is higher.
//! Datagrams have the size of the nodes', tag included. The forwarders seal each hop and nothing from end to end, as
//! the nodes of the row `hops-sealed`. Everything has normal priority and runs where the kernel decides, so that
//! neither contender starves the programs at its ends.

mod bare;
mod chain;
mod report;
mod transfer;

pub use report::{PathReport, Report};

use super::row::Row;
use super::{BenchError, apart, go_on, usage};
use chain::Chain;
use std::path::PathBuf;
use std::time::Duration;
use tools::interrupt::Interrupt;
use tools::progress::Progress;

/// The nodes with their defaults, which seal each hop, and payloads from end to end.
const NODES: &str = "nodes";
/// Nodes that seal only hops, as the forwarders do.
const HOPS_SEALED: &str = "hops-sealed";
const FORWARDERS: &str = "forwarders";

/// Options of the benchmark.
#[derive(Clone, Debug)]
pub struct Options {
    /// Length of a trial.
    pub seconds: f64,
    /// Trials per number; the median counts.
    pub repeats: usize,
    /// Bytes of a datagram of the forwarders on the wire.
    pub datagram: usize,
    /// Three network namespaces and veth instead of loopback; needs root.
    pub netns: bool,
    /// The program that is run as `PROGRAM node --config FILE`; `None` for the running one.
    pub program: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seconds: 3.0,
            repeats: 3,
            datagram: 1_400,
            netns: false,
            program: None,
        }
    }
}

impl Options {
    fn check(&self) -> Result<(), BenchError> {
        let bad = |what: &str| Err(BenchError::Option(what.to_owned()));
        if !(0.1..=600.0).contains(&self.seconds) || self.repeats == 0 {
            return bad("a trial lasts 0.1 to 600 seconds, and there is at least one");
        }
        if !(100..=1_472).contains(&self.datagram) {
            return bad("a datagram has 100 to 1472 bytes");
        }
        Ok(())
    }

    fn span(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

/// One transfer.
#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    /// Bytes of payload that arrived.
    bytes: u64,
    /// Time from the first to the last of these bytes.
    seconds: f64,
    /// Percentage of the datagrams that were lost; streams lose nothing.
    lost_pct: f64,
    /// Processor time of everything between the ends.
    cpu_ns: u64,
}

impl Trial {
    fn rate_bps(&self) -> f64 {
        if self.seconds > 0.0 {
            self.bytes as f64 * 8.0 / self.seconds
        } else {
            0.0
        }
    }
}

/// Everything that trials need.
struct Arena<'a> {
    options: &'a Options,
    row: Row,
    interrupt: Interrupt,
}

/// Runs the measurement.
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
    let trials = 4 * options.repeats + bare::SEARCH_TRIALS_MAX;
    progress.begin(&format!(
        "sinew bench stream: {trials} trials at most, about {:.0} s",
        trials as f64 * (options.seconds + 0.2) + 2.0
    ));
    let arena = Arena {
        options,
        row: Row::new(3, options.netns)?,
        interrupt,
    };
    let load_before = usage::load();
    progress.draw(0.0, "what the bare forwarders carry");
    let offered_pps = bare::limit(&arena)?;
    let mut chain = Chain::start(&arena, true)?;
    let mut by_hops = Chain::start(&arena, false)?;
    let [mut nodes, mut hops_sealed, mut forwarders, mut tcp] = [const { Vec::new() }; 4];
    for repeat in 0..options.repeats {
        let share = |part: f64| (repeat as f64 + part / 4.0) / options.repeats as f64;
        go_on(&arena.interrupt)?;
        progress.draw(share(0.0), "nodes");
        nodes.push(chain.trial(&arena)?);
        go_on(&arena.interrupt)?;
        progress.draw(share(1.0), "nodes that seal hops alone");
        hops_sealed.push(by_hops.trial(&arena)?);
        go_on(&arena.interrupt)?;
        progress.draw(share(2.0), "forwarders");
        forwarders.push(bare::trial(&arena, offered_pps)?);
        go_on(&arena.interrupt)?;
        progress.draw(share(3.0), "TCP");
        tcp.push(transfer::tcp(&arena)?);
    }
    let wire_bytes = chain.datagram_bytes()?;
    progress.clear();
    let paths = vec![
        PathReport::new(NODES, &nodes),
        PathReport::new(HOPS_SEALED, &hops_sealed),
        PathReport::new(FORWARDERS, &forwarders),
        PathReport::new("tcp", &tcp),
    ];
    Ok(Report::new(
        arena.row.medium(),
        [load_before, usage::load()],
        options,
        wire_bytes,
        paths,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_an_error() {
        Options::default().check().unwrap();
        let with = |change: fn(&mut Options)| {
            let mut options = Options::default();
            change(&mut options);
            options.check()
        };
        for refused in [
            with(|o| o.seconds = f64::NAN),
            with(|o| o.repeats = 0),
            with(|o| o.datagram = 9_000),
        ] {
            assert!(matches!(refused, Err(BenchError::Option(_))));
        }
    }

    #[test]
    fn tcp_and_forwarders_carry_something() {
        let options = Options {
            seconds: 0.1,
            ..Options::default()
        };
        let arena = Arena {
            options: &options,
            row: Row::new(3, false).unwrap(),
            interrupt: Interrupt::install().unwrap(),
        };
        assert!(transfer::tcp(&arena).unwrap().bytes > 0);
        assert!(bare::trial(&arena, 5_000).unwrap().bytes > 0);
    }
}
