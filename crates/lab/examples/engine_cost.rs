//! Prints what the node's own code costs per packet, without sockets: `sinew bench engine` as an
//! example, small enough for a profiler.
//!
//! `cargo run --release -p lab --example engine_cost [packets] [burst] [payload] [rate]`
//!
//! With frame pointers (`RUSTFLAGS=-Cforce-frame-pointers=yes`), `perf record -g` shows the callees
//! of `Replay::middle`, which is the measured part.
#![allow(clippy::print_stdout)]

use lab::bench::engine::{Options, run};
use tools::progress::Progress;

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>());
    let mut next = |or: u64| args.next().and_then(Result::ok).unwrap_or(or);
    let defaults = Options::default();
    let packets = next(defaults.packets);
    let (burst, payload) = (next(0) as usize, next(0) as usize);
    let options = Options {
        packets,
        flows: defaults.flows,
        bursts: if burst > 0 {
            vec![burst]
        } else {
            defaults.bursts
        },
        payloads: if payload > 0 {
            vec![payload]
        } else {
            defaults.payloads
        },
        rate_pps: next(defaults.rate_pps),
    };
    match run(&options, Progress::Silent) {
        Ok(report) => print!("{report}"),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}
