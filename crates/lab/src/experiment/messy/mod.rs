//! Never worse: what the overlay makes of a messy Internet, with plain UDP over the same path beside.
//!
//! ```text
//!   Sweep ─ cases ─▶ Case ─ scenes ─▶ Scene ─▶ scenario file ─▶ production nodes, both profiles, UDP
//!                      └─ bars ─────────────────────────────────▶ a verdict on each case
//! ```
//!
//! A *scene* is a network of one or more ways from `a` to `b`, what its links do, and one trouble
//! that comes again and again. A *case* is a sentence about one scene or a grid of them, with the
//! bars that the defaults must reach in each. The paper's profile is measured beside and not judged:
//! its ten seconds until a link is down are the paper's.

mod bars;
mod cases;
mod measure;
mod scene;
mod sweep;

use super::{ClaimText, Experiment};

/// All experiments.
pub(super) const EXPERIMENTS: &[&dyn Experiment] = &[
    &cases::OUTAGES,
    &cases::RELAYS,
    &cases::LOSS,
    &cases::JITTER,
    &cases::CAPACITY,
    &cases::FLAPS,
    &cases::REAL,
];

/// What each case promises.
pub(super) fn claims() -> impl Iterator<Item = &'static ClaimText> {
    cases::ALL
        .iter()
        .flat_map(|sweep| sweep.cases)
        .map(|case| &case.claim)
}
