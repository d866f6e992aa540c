//! Benchmarks: the cost and speed of the node, always compared with a baseline in the same run.
//!
//! ```text
//!   forward   the middle node of a chain of three, beside three bare forwarders
//!   latency   clients over three nodes, beside the kernel and bare forwarders
//!   calls     many calls through a pair of gateways, beside the kernel and bare forwarders
//!   emulate   an emulated link for any IP traffic, beside a cable
//!   bulk      a copy through a relay, beside bare proxies
//!   stream    one reliable stream over three nodes, beside bare sealed forwarders and TCP
//!   fairness  reliable links beside the kernel's TCP through one bottleneck
//!   hops      messages over a chain with losses, recovered by hops and end to end
//!   idle      memory, processor time and control traffic of nodes that have little to do
//!   engine    the node's own code alone, without sockets
//!   routing   routes from scratch and after one change, beside a textbook's algorithm
//!   scale     how a large simulated network finds itself, and what that costs
//!   sim       the simulator, beside a bare event loop and ns-3
//! ```
//!
//! For the command line: each benchmark has plain `Options` and `run(&Options, Progress) -> Result<Report>`; a report
//! prints as a table (`Display`) and serializes to the JSON that docs/bench.md defines. Machines are shared and differ,
//! so absolute numbers mean little: the contenders run in turns, and the report has medians and ratios.

pub mod bulk;
pub mod calls;
pub(crate) mod copying;
pub(crate) mod credentials;
pub mod emulate;
mod endpoint;
pub mod engine;
pub mod fairness;
pub(crate) mod fleet;
pub mod forward;
pub mod hops;
pub mod idle;
pub mod latency;
mod losing;
mod phone;
pub mod relay;
pub mod routing;
mod row;
pub mod scale;
pub mod sim;
pub mod stream;
mod trial;
pub(crate) mod usage;
mod volley;

use std::io;
use tools::interrupt::Interrupt;

/// Why a benchmark failed. By then, everything that it had started has ended.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// An option is invalid; the command was misused.
    #[error("{0}")]
    Option(String),
    /// Nodes or networks could not be set up.
    #[error("cannot start the benchmark: {0}")]
    Start(String),
    /// An operation failed in the kernel.
    #[error("the benchmark failed: {0}")]
    Io(#[from] io::Error),
    /// Ctrl-C, or the system requested the end.
    #[error("interrupted: everything that was started has ended")]
    Interrupted,
}

/// Fails after the process was asked to end.
fn go_on(interrupt: &Interrupt) -> Result<(), BenchError> {
    if interrupt.came() {
        Err(BenchError::Interrupted)
    } else {
        Ok(())
    }
}

/// Runs the measurement on a thread of its own, which may be pinned, take priority and move between networks: the
/// caller's thread stays unchanged.
fn apart<T: Send>(measure: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let measuring = scope.spawn(measure);
        measuring
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Returns the first row of a table.
fn heading<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).into()
}
