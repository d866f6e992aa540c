//! The laboratory: experiments that run the production code, emulated paths beside it, reports.
//!
//! ```text
//!   demo ──> chain (six node processes) ──┐
//!     │                                   ├─ calls (paced sender, receiver) ──> judge ──> report
//!     └────> emulator (the direct path) ──┘
//!   call ──> the same calls over a running network, and directly to the other end's UDP port
//! ```
//!
//! For the command line:
//!
//! - [`demo::run`] takes [`demo::DemoOptions`] and gives a [`demo::DemoResult`], which prints as the
//!   table (`Display`) and as the documented JSON ([`demo::DemoResult::json`]).
//! - [`call::run`] takes [`call::CallOptions`] and gives a [`call::CallResult`], in the same two forms;
//!   [`call::answer`] takes [`call::AnswerOptions`] and answers such calls until Ctrl-C.
//! - [`scenario::Scenario::load`] reads a scenario file, [`scenario::simulate`] runs it in virtual time
//!   and gives a [`scenario::Report`], in the same two forms.
//! - [`worlds::run`] takes [`worlds::Options`], lives random histories of whole networks, and gives a
//!   [`worlds::Report`].
//! - [`live::up`] runs the same with real nodes, [`live::down`] ends those that were left running.
//! - [`emulate::run`] joins two networks through an emulated link until Ctrl-C.
//! - Shares such as `5%` are read by [`share::parse`].
//! - What happens meanwhile goes to standard error as [`progress::Progress`] says;
//!   [`progress::Progress::choose`] picks the form for a terminal, a pipe, or `--verbose`.
//! - All take over SIGINT and SIGTERM while they run: the demo fails with `Interrupted` when
//!   everything that it started has ended; calls end early and are judged as far as they came.
#![forbid(unsafe_code)]

pub mod bench;
pub mod call;
mod control;
pub mod demo;
pub mod emulate;
pub mod emulator;
pub mod experiment;
pub mod explain;
mod files;
mod interrupt;
pub mod live;
mod members;
mod pace;
mod plot;
pub mod progress;
pub mod quality;
pub mod rtp;
pub mod scenario;
pub mod share;
mod table;
mod whole;
pub mod worlds;
