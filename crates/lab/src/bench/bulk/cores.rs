//! What more processors bring: one connection, sealed, from a node to its neighbour.
//!
//! ```text
//!   on      cp, a and b together may run on one processor, on two, …, on all of the machine
//!   apart   each of them on a processor of its own choice, and never on another
//! ```
//! More processors than the machine has are simulated by the second: each process does its work on one processor, as
//! it would if it had that for itself, and the time that it used tells how fast that would be. The copy is as fast
//! as the slowest of them. That leaves out what processors do to each other, as with caches and memory.

use super::{Chain, Options, RELAY, Trial};
use crate::bench::{BenchError, go_on, usage};
use crate::stats;
use net::sched;
use serde::Serialize;
use std::io;
use tools::interrupt::Interrupt;
use tools::progress::Progress;

/// Who takes part: the command, and the nodes at both ends.
const PROCESSES: [&str; 3] = ["cp", "first node", "last node"];

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct Cores {
    /// On one processor, on two, and so on.
    pub on: Vec<On>,
    /// Each process on one.
    pub apart: Apart,
}

/// All processes on so many processors: the median trial.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct On {
    /// How many.
    pub processors: usize,
    /// What the copy carried.
    pub gbps: f64,
    /// Processor time of all processes for a gigabyte.
    pub cpu_s_per_gb: f64,
    /// What it carried for each processor that it used, by the time that it used them.
    pub gbps_per_processor: f64,
}

/// As if each process had a processor for itself: simulated.
#[derive(Clone, Debug, Serialize)]
pub struct Apart {
    /// Processors that this stands for.
    pub processors: usize,
    /// What the copy would carry.
    pub gbps: f64,
    /// The processes.
    pub processes: Vec<Alone>,
}

/// A process on one processor.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Alone {
    /// Which.
    pub process: &'static str,
    /// Its processor time for a gigabyte.
    pub cpu_s_per_gb: f64,
    /// What it would carry if it waited for nobody.
    pub gbps: f64,
}

/// Measures.
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

/// Powers of two, and all.
fn counts(all: usize) -> Vec<usize> {
    let powers = (0..usize::BITS).map(|power| 1 << power);
    let mut counts: Vec<usize> = powers.take_while(|count| *count < all).collect();
    counts.push(all);
    counts
}

/// Does it where this thread and what it starts may run on these processors only; then it may run on `all` again.
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

/// The median of what trials give.
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
