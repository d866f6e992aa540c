//! [Amir06]: An Overlay Architecture for High Quality VoIP Streams.
//!
//! | experiments | run |
//! |---|---|
//! | fig1, fig2, fig9, fig10 | speech over direct paths and over production nodes, scored by P.862 |
//! | fig4 to fig7 | production nodes in the simulator: what recovery leaves, and how late it is |
//! | fig12, fig13 | graph alone: routes on random topologies |
//! | reroute | production nodes in the simulator: links that fail, or come and go |

mod chain;
pub(super) mod claims;
mod delay;
mod quality;
mod recovery;
mod reroute;
mod routing;
mod speech;

use super::Experiment;

/// All experiments of the paper, in its order.
pub(super) const EXPERIMENTS: &[&dyn Experiment] = &[
    &quality::FIG1,
    &quality::FIG2,
    &recovery::FIG4,
    &recovery::FIG5,
    &delay::FIG6,
    &delay::FIG7,
    &quality::FIG9,
    &quality::FIG10,
    &routing::FIG12,
    &routing::FIG13,
    &reroute::REROUTE,
];
