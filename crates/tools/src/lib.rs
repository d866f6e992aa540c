//! The parts of the command line's tools. They are below the command line and do not need the laboratory.
//!
//! ```text
//!   sinew why, whatif, plan ──> explain      what a node or a file knows of the network, and what follows
//!   sinew call ───────────────> call         calls over a running network, and directly beside it
//!   sinew emulate ────────────> emulate      two networks joined by an emulated link
//!   lab, demo ────────────────> emulator, pace, quality
//!   all ──────────────────────> table, progress, share, spelling, interrupt
//! ```
//!
//! For the command line:
//!
//! - [`explain::View`] reads a snapshot of the network; [`explain::what_if`] and [`explain::plan`] answer
//!   from it, as text (`Display`) and as documented JSON.
//! - [`call::run`] takes [`call::CallOptions`] and gives a [`call::CallResult`], in the same two forms;
//!   [`call::answer`] takes [`call::AnswerOptions`] and answers such calls until Ctrl-C.
//! - [`emulate::run`] joins two networks through an emulated link until Ctrl-C.
//! - [`share::parse`] reads shares such as `5%`.
//! - [`progress::Progress`] decides what the tools write to standard error while they run;
//!   [`progress::Progress::choose`] picks the form for a terminal, a pipe, or `--verbose`.
//! - All tools take over SIGINT and SIGTERM while they run ([`interrupt::Interrupt`]): calls end early, and their
//!   result covers the packets until then.
#![forbid(unsafe_code)]

pub mod call;
pub mod emulate;
pub mod emulator;
pub mod explain;
pub mod interrupt;
pub mod pace;
pub mod program;
pub mod progress;
pub mod quality;
pub mod share;
pub mod spelling;
pub mod table;
