//! A discrete-event simulator that hosts engines: the production code, driven by virtual time.
//!
//! ```text
//!            ┌ request ┐                               ┌─▶ events, replies (with the true time)
//!            ▼         │                               │
//!   Host ─ Engine ─ Outbox::send ─▶ impair::Line ─▶ Queue ─▶ Input::Datagrams ─▶ Engine ─ Host
//!            ▲                      (one per direction)  │
//!            └───────────── Input::Timeout ◀─────────────┘
//! ```
//!
//! A [`World`] has hosts, each with one engine, an address and a [`Clock`] of its own; directed
//! lines between them; and one queue of what happens next, ordered by time and then by the order
//! in which it was scheduled. All inputs of one moment are handled before any host is flushed, as a
//! host's event loop does with what its sockets hold.
//!
//! - What a line does to packets is `base::impair`'s: rate, queue, delay, jitter, order, copies,
//!   loss, outages. On top of it a world has partitions, crashes and restarts.
//! - [`Either`] puts engines of two kinds into one world; [`UdpHost`] is one without an overlay.
//! - [`tcp`] is TCP with ns-2's semantics, on hosts and routers.
//! - [`traffic`] says when applications send.
//! - [`trace`] tells of every packet.
//!
//! Everything random comes from one seed: each line draws from a generator made of the seed and
//! its two ends, so that adding a host or a line changes nothing for the others. Equal seed and
//! equal calls give an equal [`World::digest`].
#![forbid(unsafe_code)]

mod arrival;
mod clock;
mod either;
mod host;
mod journal;
mod queue;
pub mod tcp;
pub mod trace;
pub mod traffic;
pub mod udp;
mod world;

pub use arrival::Arrivals;
pub use clock::{Clock, DRIFT_PPM_MAX};
pub use either::Either;
pub use host::{HostId, attachment, underlay};
pub use journal::{Answer, Counters, Leak, RECORDS_MAX, Report};
pub use trace::Trace;
pub use udp::UdpHost;
pub use world::{INSTANT_EVENTS_MAX, POOL_LARGE, POOL_SMALL, World};
