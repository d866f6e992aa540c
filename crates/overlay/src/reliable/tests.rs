mod against_models;
mod deadlines;
mod monte_carlo;
mod scripts;
mod waits;
mod ways;
pub(super) mod world;
