mod against_models;
mod monte_carlo;
mod scripts;
mod ways;
mod world;
