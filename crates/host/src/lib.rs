//! The node's event loop: real sockets, a real clock, and the engine between them.
//!
//! ```text
//!   UDP socket(s) --recvmmsg/GRO--> +--------+ --sendmmsg/GSO--> UDP socket(s)
//!   client sockets --SEQPACKET----> | engine | --SEQPACKET-----> client sockets
//!   timer (epoll timeout) --------> +--------+
//!                                       ^ commands over a channel, snapshots back
//!              control socket (JSON), metrics (HTTP): threads of their own
//! ```
//!
//! One thread owns the engine outright: no lock, no async, no channel per packet. Each turn of the loop takes a bounded
//! number of inputs, gives them to the engine as one batch, flushes, and sends what the engine put into the outbox, so
//! that timers of the real-time lane never starve. Bulk data has threads and sockets of its own ([`crate::relay`]), and
//! never passes through the loop. Everything else that a node does (the operator's socket, metrics, name resolution,
//! files, the writing of its log) happens on other threads. They ask the loop for a snapshot, and never touch the
//! engine.
#![forbid(unsafe_code)]

pub mod addresses;
pub mod admission;
pub mod clients;
pub mod command;
pub mod control;
pub mod counters;
pub mod date;
pub mod driver;
pub mod files;
pub mod hops;
pub mod keeper;
pub mod log;
pub mod mapping;
pub mod metrics;
pub mod notify;
pub mod outbox;
pub mod relay;
pub mod renewal;
pub mod resident;
pub mod resolve;
mod rest;
pub mod station;
pub mod status;
#[cfg(test)]
mod testing;
pub mod tunnel;

pub use command::{Command, Commander};
pub use counters::Counters;
pub use driver::{Driver, HostError, Setup};
pub use status::Status;
