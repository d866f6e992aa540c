//! TCP with ns-2's semantics, on hosts that are joined by links and routers.
//!
//! ```text
//!   Traffic ─▶ Sender ─▶ segments ─▶ wire ─▶ router ─▶ wire ─▶ Receiver ─▶ deliveries, with delays
//!   (writes)   │  ▲                                              │   │
//!              │  └────────────── acknowledgements ◀─────────────┘   └─▶ the next Sender, on a relay
//!           congestion::Control says how much, recovery says what
//! ```
//!
//! - [`Network`] builds a world of TCP hosts from hosts, links and flows, and finds the routes.
//! - [`TcpHost`] is the engine: any number of senders and receivers, datagram flows, and a router for packets that are
//!   addressed to other hosts.
//! - [`Settings`] are those of one connection. The window comes from the same `congestion` crate that the overlay uses.
//!   The family determines how losses are found and repaired: Tahoe's go-back-n, Reno's and NewReno's inflation, SACK's
//!   pipe, FACK's forward acknowledgement, Vegas' fine timeouts.
//!
//! All windows and buffers count segments of equal size. Numbers begin at 0, an acknowledgement names the last segment
//! in order, and connections need no handshake, as with ns-2's one-way agents. The details (clock ticks in the RTT,
//! when the timer is restarted, what a partial acknowledgement does) follow ns-2.35's observed behaviour, because they
//! affect the mean delay of a stream more than the window does; tests/tcp.rs compares them with tables of ns-2's
//! results.
//!
//! [Amir03 §III] joins connections hop by hop: each relay forwards arriving data at once, in whatever order, and the
//! last receiver restores the order by the number that the first sender gave ([`Forward::AsItComes`]).

mod host;
mod network;
mod packet;
mod partial;
mod receiver;
mod recovery;
mod rto;
mod scoreboard;
mod sender;
mod settings;
mod traffic;

#[cfg(test)]
mod tests;

pub use host::TcpHost;
pub use network::{Flow, Forward, Network, Party, Relay};
pub use partial::PartialSettings;
pub use receiver::{Delivery, Received};
pub use sender::Sent;
pub use settings::{Settings, Timer};
pub use traffic::{Load, Traffic};
