//! Verdicts on the claims, by scenario. What a claim's words mean is fixed in the list of claims.

pub(super) mod five;
pub(super) mod four;
pub(super) mod one;
pub(super) mod partial;
pub(super) mod three;
pub(super) mod two;

/// What "clearly" means of a share.
const CLEARLY: f64 = 0.02;
/// What it means of a goodput, as a ratio.
const CLEARLY_RATIO: f64 = 1.02;
/// Increased contention, in calls.
const CONTENTION: [f64; 2] = [80.0, 120.0];
