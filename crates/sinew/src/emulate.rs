//! `sinew emulate`: a link for any IP traffic between two networks of this machine.

use crate::failure::{Failure, Outcome};
use crate::terminal;
use base::impair::Model;
use clap::Args;
use tools::emulate::{self, EmulateError, Options, Place};
use tools::progress::Progress;

/// Options of `sinew emulate`.
#[derive(Debug, Args)]
pub struct Emulate {
    /// The two ends: network namespaces by name or file, or `tap:NAME` in this network
    #[arg(long, num_args = 2, value_names = ["A", "B"], required = true)]
    pub between: Vec<Place>,
    /// The link from A to B: loss, burst, delay, jitter, reorder, duplicate, rate, queue, outage, as
    /// `sinew lab impair` has them
    #[arg(value_name = "LINK")]
    pub link: Model,
    /// The link from B to A, if it differs
    #[arg(long, value_name = "LINK")]
    pub back: Option<Model>,
    /// An address with prefix length for the interface in A; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    pub address_a: Vec<String>,
    /// An address with prefix length for the interface in B; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    pub address_b: Vec<String>,
    /// Name of the interface in each namespace
    #[arg(long, default_value = "emu0", value_name = "NAME")]
    pub interface: String,
    /// Longest IP packet
    #[arg(long, default_value_t = 1500, value_name = "BYTES")]
    pub mtu: usize,
    /// Seed of the random faults; equal seeds treat equal packets alike
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// End after this time, instead of with Ctrl-C
    #[arg(long, value_name = "TIME", value_parser = crate::quantity::fraction_of_seconds)]
    pub seconds: Option<f64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Joins the two networks until the user or the time ends it, and reports what happened to the
/// packets.
pub fn run(args: &Emulate) -> Outcome {
    let [a, b] = args.between.as_slice() else {
        return Err(Failure::misused("a link has two ends: --between A B"));
    };
    let back = args.back.as_ref().unwrap_or(&args.link);
    let options = Options {
        between: [a.clone(), b.clone()],
        models: [args.link.clone(), back.clone()],
        interface: args.interface.clone(),
        addresses: [args.address_a.clone(), args.address_b.clone()],
        mtu: args.mtu,
        seed: args.seed,
        seconds: args.seconds,
    };
    let report = emulate::run(&options, Progress::choose(false)).map_err(|error| match error {
        EmulateError::Option(_) => Failure::misused(error),
        _ => Failure::failed(error),
    })?;
    if args.json {
        return terminal::json(&serde_json::to_value(&report).map_err(Failure::failed)?);
    }
    terminal::line(report.to_string().trim_end())
}
