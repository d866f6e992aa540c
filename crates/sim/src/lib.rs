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
//! A [`World`] has hosts, each with one engine, an address and a [`Clock`] of its own; directed lines between the
//! hosts; and one queue of future wake-ups, ordered by time and then by the order in which they were scheduled. The
//! world handles all inputs of one moment before it flushes any host, as the event loop of a real node does with
//! everything that its sockets hold.
//!
//! - `base::impair` defines what a line does to packets: rate, queue, delay, jitter, order, copies, loss, outages. A
//!   world adds partitions, crashes and restarts.
//! - [`Either`] puts engines of two kinds into one world; [`UdpHost`] is a host without an overlay.
//! - [`tcp`] is TCP with ns-2's semantics, on hosts and routers.
//! - [`traffic`] decides when applications send.
//! - [`trace`] reports every packet.
//!
//! All randomness comes from one seed. Each line draws from a generator made of the seed and the line's two ends, so
//! that adding a host or a line changes nothing for the other lines. Equal seeds and equal calls give an equal
//! [`World::digest`].
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
