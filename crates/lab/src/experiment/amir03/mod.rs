//! Amir03: Reliable Communication in Overlay Networks.
//!
//! | experiments | run |
//! |---|---|
//! | table1 | one stream over a chain, for each way to recover: mean delay |
//! | fig3 to fig6 | FACK end to end and hop by hop over the same chain: delay, jitter, distribution |
//! | fig7 | the same path in 1 to 10 hops |
//! | fig9 | throughput of one connection against the loss rate, beside the analytical model |
//!
//! All of them run the simulator's TCP ([`sim::tcp`]), whose own tests compare it with ns-2.35; [`path`] is the chain
//! that they share.

pub(super) mod claims;
mod delay;
mod distribution;
mod hops;
mod path;
mod table1;
mod throughput;

use super::Experiment;

/// All experiments of the paper, in its order.
pub(super) const EXPERIMENTS: &[&dyn Experiment] = &[
    &table1::TABLE1,
    &delay::FIG3,
    &delay::FIG4,
    &delay::FIG5,
    &distribution::FIG6,
    &hops::FIG7,
    &throughput::FIG9,
];
