//! Amir06: An Overlay Architecture for High Quality VoIP Streams.
//!
//! | experiments | run |
//! |---|---|
//! | fig1, fig2, fig9, fig10 | speech over direct paths and over production nodes, scored by P.862 |
//! | fig4 to fig7 | production nodes in the simulator: loss after recovery, and its delay |
//! | fig12, fig13 | graph alone: routes on random topologies |
//! | fig15, load | real nodes in real time |
//! | fig16, fig17, fig18 | production nodes in the simulator: the sites of Planetlab |
//! | reroute | production nodes in the simulator: links that fail, or come and go |

mod chain;
pub(super) mod claims;
mod delay;
mod forwarding;
mod load;
mod planetlab;
mod quality;
mod recovery;
mod reroute;
mod routing;
pub(super) mod speech;

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
    &forwarding::FIG15,
    &planetlab::FIG16,
    &planetlab::FIG17,
    &planetlab::FIG18,
    &load::LOAD,
    &reroute::REROUTE,
];
