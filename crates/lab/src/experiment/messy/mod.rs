//! Never worse: the results of the overlay on a messy Internet, compared with plain UDP over the same path.
//!
//! ```text
//!   Sweep ─ cases ─▶ Case ─ scenes ─▶ Scene ─▶ scenario file ─▶ production nodes, both profiles, UDP
//!                      └─ bars ─────────────────────────────────▶ a verdict on each case
//! ```
//!
//! A *scene* is a network of one or more paths from `a` to `b`, the impairments of its links, and one recurring fault.
//! A *case* is a sentence about one scene or a grid of them, with the goals that the defaults must reach in each. The
//! paper's profile is also measured but not judged: its ten seconds until a link counts as down are the paper's.

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

/// Returns the promises of all cases.
pub(super) fn claims() -> impl Iterator<Item = &'static ClaimText> {
    cases::ALL
        .iter()
        .flat_map(|sweep| sweep.cases)
        .map(|case| &case.claim)
}
