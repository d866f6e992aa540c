mod against_models;
mod deadlines;
mod monte_carlo;
mod scripts;
mod ways;
mod world;
