//! Liu04: Application level relay for high-bandwidth data transport.
//!
//! | experiments | run |
//! |---|---|
//! | fig8 | a transfer over a chain of six congested links, with relays where the algorithm puts them |
//! | fig9 | transfers over the widest relay paths of 1 to 8 hops in an overlay on a transit-stub network |
//! | fig10, fig11 | shorter paths for less width in the same overlays, by logical and by physical hops |
//! | impact | what relays do to ordinary flows: goodput, fairness, load |
//! | real | the same chain with the kernel's TCP, and `sinew cp` through real relays |
//! | kinds | kinds of links as users have them: what `sinew cp` promises, reaches and adds to round trips |
//! | scavenge | a copy that gives way, one that does not, and calls on the same link |
//!
//! ```text
//!   chain ────▶ simulated TCP (sim::tcp): relays are hosts with bounded buffers, full ones stop the
//!   underlay ─┘                           sender before them
//!      └─▶ overlay graph (graph::Topology) ─▶ graph::pipeline, graph::width decide
//! ```

mod chain;
pub(super) mod claims;
mod fig8;
mod fig9;
mod hosts;
mod impact;
mod kinds;
mod real;
mod tradeoff;
mod underlay;

#[cfg(test)]
mod tests;

use super::Experiment;

/// All experiments of the paper, in its order.
pub(super) const EXPERIMENTS: &[&dyn Experiment] = &[
    &fig8::FIG8,
    &fig9::FIG9,
    &tradeoff::FIG10,
    &tradeoff::FIG11,
    &impact::IMPACT,
    &real::REAL,
    &kinds::EXPERIMENT,
    &real::scavenge::SCAVENGE,
];
