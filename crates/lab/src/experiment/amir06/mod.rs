//! [Amir06]: An Overlay Architecture for High Quality VoIP Streams.
//!
//! | experiments | run |
//! |---|---|
//! | fig12, fig13 | graph alone: routes on random topologies |

pub(super) mod claims;
mod routing;

use super::Experiment;

/// All experiments of the paper, in its order.
pub(super) const EXPERIMENTS: &[&dyn Experiment] = &[&routing::FIG12, &routing::FIG13];
