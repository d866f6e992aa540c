//! Verdicts on the claims, by scenario. The list of claims defines the meaning of a claim's words.

pub(super) mod five;
pub(super) mod four;
pub(super) mod one;
pub(super) mod partial;
pub(super) mod three;
pub(super) mod two;

/// The meaning of "clearly" for a share.
const CLEARLY: f64 = 0.02;
/// The meaning of "clearly" for a goodput, as a ratio.
const CLEARLY_RATIO: f64 = 1.02;
/// Increased contention, in calls.
const CONTENTION: [f64; 2] = [80.0, 120.0];
