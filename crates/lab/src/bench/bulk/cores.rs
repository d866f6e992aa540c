//! The gain from more processors: one sealed connection from a node to its neighbour.
//!
//! ```text
//!   on      cp, a and b together may run on one processor, on two, …, on all of the machine
//!   apart   each of them on a processor of its own choice, and never on another
//! ```
//! The second mode simulates more processors than the machine has: each process does its work on one processor, as it
//! would with that processor for itself, and the processor time that it used tells how fast it would then be. The copy
//! is as fast as the slowest process. This ignores how processors affect each other, as with caches and memory.

use super::{Chain, Options, RELAY, Trial};
use crate::bench::{BenchError, go_on, usage};
use crate::stats;
use net::sched;
use serde::Serialize;
use std::io;
use tools::interrupt::Interrupt;
use tools::progress::Progress;

/// The processes: the command, and the nodes at both ends.
const PROCESSES: [&str; 3] = ["cp", "first node", "last node"];

/// The results.
#[derive(Clone, Debug, Serialize)]
pub struct Cores {
    /// The results on one processor, on two, and so on.
    pub on: Vec<On>,
    /// Each process on one processor.
    pub apart: Apart,
}

/// All processes on this many processors: the median trial.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct On {
    /// Number of processors.
    pub processors: usize,
    /// The rate of the copy.
    pub gbps: f64,
    /// Processor time of all processes for a gigabyte.
    pub cpu_s_per_gb: f64,
    /// The rate for each processor in use, by the time that it was used.
    pub gbps_per_processor: f64,
}

/// A simulation in which each process has a processor for itself.
#[derive(Clone, Debug, Serialize)]
pub struct Apart {
    /// Number of processors that this represents.
    pub processors: usize,
    /// The rate that the copy would have.
    pub gbps: f64,
    /// The processes.
    pub processes: Vec<Alone>,
}

/// A process on one processor.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Alone {
    /// The process.
    pub process: &'static str,
    /// Its processor time for a gigabyte.
    pub cpu_s_per_gb: f64,
    /// The rate that it would have if it waited for no other process.
    pub gbps: f64,
}

/// Runs the measurement.
pub(super) fn measure(
    options: &Options,
    interrupt: &Interrupt,
    progress: Progress,
) -> Result<Cores, BenchError> {
    let all = sched::processors()?;
    let mut on = Vec::new();
    for count in counts(all.len()) {
        progress.step(&format!("sealed, on {count} of {} processors", all.len()));
        let trials = confined(&all[..count], &all, || {
            let chain = Chain::start(options, interrupt, |_| None)?;
            trials(&chain, options, interrupt)
        })?;
        on.push(On::of(count, &trials));
    }
    progress.step("sealed, each process on one processor");
    let at = |process: usize| all[process % all.len()];
    let chain = Chain::start(options, interrupt, |node| Some(at(1 + node)))?;
    let trials = confined(&[at(0)], &all, || trials(&chain, options, interrupt))?;
    Ok(Cores {
        on,
        apart: Apart::of(&trials),
    })
}

/// Returns the powers of two up to the number of processors, and that number.
fn counts(all: usize) -> Vec<usize> {
    let powers = (0..usize::BITS).map(|power| 1 << power);
    let mut counts: Vec<usize> = powers.take_while(|count| *count < all).collect();
    counts.push(all);
    counts
}

/// Does something while this thread and what it starts may run only on `cpus`; afterwards it may run on `all` again.
fn confined<T>(
    cpus: &[usize],
    all: &[usize],
    work: impl FnOnce() -> Result<T, BenchError>,
) -> Result<T, BenchError> {
    sched::confine(cpus)?;
    let done = work();
    sched::confine(all)?;
    done
}

/// A copy, and the processor time of each process.
type Spent = (Trial, [u64; 3]);

fn trials(
    chain: &Chain,
    options: &Options,
    interrupt: &Interrupt,
) -> Result<Vec<Spent>, BenchError> {
    let spent = || -> io::Result<[u64; 3]> {
        let node = |index: usize| usage::whole_cpu_ns(chain.fleet.node(index).id()?);
        Ok([usage::children_cpu_ns()?, node(0)?, node(RELAY)?])
    };
    let mut all = Vec::new();
    for _ in 0..options.repeats {
        go_on(interrupt)?;
        let before = spent()?;
        let trial = chain.trial(RELAY, &["--direct"], true, || Ok(0))?;
        let mut used = spent()?;
        for (used, before) in used.iter_mut().zip(before) {
            *used = used.saturating_sub(before);
        }
        all.push((trial, used));
    }
    Ok(all)
}

/// Returns the median of a value over the trials.
fn median(trials: &[Spent], value: impl Fn(&Spent) -> f64) -> f64 {
    stats::median(trials.iter().map(value)).unwrap_or_default()
}

fn s_per_gb(cpu_ns: u64, trial: &Trial) -> f64 {
    cpu_ns as f64 / (trial.bytes as f64).max(1.0)
}

impl On {
    fn of(processors: usize, trials: &[Spent]) -> On {
        let cpu_s_per_gb = median(trials, |(trial, used)| s_per_gb(used.iter().sum(), trial));
        On {
            processors,
            gbps: median(trials, |(trial, _)| {
                trial.bytes as f64 * 8.0 / 1e9 / trial.span_s
            }),
            cpu_s_per_gb,
            gbps_per_processor: 8.0 / cpu_s_per_gb,
        }
    }
}

impl Apart {
    fn of(trials: &[Spent]) -> Apart {
        let alone = |(at, process): (usize, &&'static str)| {
            let cpu_s_per_gb = median(trials, |(trial, used)| s_per_gb(used[at], trial));
            Alone {
                process,
                cpu_s_per_gb,
                gbps: 8.0 / cpu_s_per_gb,
            }
        };
        let processes: Vec<Alone> = PROCESSES.iter().enumerate().map(alone).collect();
        let each = processes.iter().map(|alone| alone.gbps);
        Apart {
            processors: processes.len(),
            gbps: each.fold(f64::INFINITY, f64::min),
            processes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(seconds: f64, used_s: [u64; 3]) -> Spent {
        let trial = Trial {
            bytes: 1_000_000_000,
            span_s: seconds,
            cpu_ns: 0,
        };
        (trial, used_s.map(|s| s * 1_000_000_000))
    }

    #[test]
    fn the_slowest_process_says_how_fast_a_processor_each_would_be() {
        let trials = [9.0, 8.0, 7.0].map(|seconds| spent(seconds, [4, 1, 2]));
        let apart = Apart::of(&trials);
        assert_eq!((apart.processors, apart.gbps), (3, 2.0));
        assert_eq!(apart.processes[1].gbps, 8.0);
        let on = On::of(1, &trials);
        assert_eq!((on.cpu_s_per_gb, on.gbps), (7.0, 1.0));
    }

    #[test]
    fn processors_are_doubled_until_there_are_no_more() {
        assert_eq!(
            [1, 2, 6, 8].map(counts),
            [vec![1], vec![1, 2], vec![1, 2, 4, 6], vec![1, 2, 4, 8]]
        );
    }
}
