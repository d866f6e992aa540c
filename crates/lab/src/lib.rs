//! The laboratory: experiments that run the production code, scenarios, reports. No part of the product depends on it:
//! only the laboratory's own commands use it.
//!
//! ```text
//!   demo ──> chain (six node processes) ──┐
//!     │                                   ├─ calls (paced sender, receiver) ──> judge ──> report
//!     └────> emulator (the direct path) ──┘
//! ```
//!
//! For the command line:
//!
//! - [`demo::run`] takes [`demo::DemoOptions`] and gives a [`demo::DemoResult`], which prints as the
//!   table (`Display`) and as the documented JSON ([`demo::DemoResult::json`]).
//! - [`scenario::Scenario::load`] reads a scenario file, [`scenario::simulate`] runs it in virtual time and gives a
//!   [`scenario::Report`], in the same two forms; [`scenario::snapshot_of`] returns what its nodes would learn about
//!   the network.
//! - [`worlds::run`] takes [`worlds::Options`], simulates random histories of whole networks, and gives a
//!   [`worlds::Report`].
//! - [`live::up`] runs a scenario with real nodes, [`live::down`] ends those that were left running.
//! - All of them handle SIGINT and SIGTERM while they run: the demo fails with `Interrupted` when everything that it
//!   started has ended.
#![forbid(unsafe_code)]

pub mod bench;
mod control;
pub mod demo;
pub mod experiment;
mod files;
pub mod live;
mod members;
mod plot;
mod ports;
pub mod scenario;
mod stats;
mod whole;
pub mod worlds;
