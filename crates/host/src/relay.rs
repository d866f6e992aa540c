//! Bulk data through a node: its relay service, and the two ends of a transfer. [Liu04 §III]
//!
//! ```text
//!   sinew cp ─Unix socket─▶ node ═════ TCP ═════▶ node ═════ TCP ═════▶ node ─▶ file
//!   (Origin: seals)         (Service: stage)      (stage)               (stage with a sink: opens)
//! ```
//!
//! Nothing here touches the engine or its thread. A transfer has a thread for each connection, and this thread waits
//! where its connection waits. The number of transfers is bounded, and so is the memory of each (`relay`). Between
//! nodes it uses kernel TCP, at the port with the same number as the node's UDP port. Control messages use TLS 1.3, by
//! which nodes prove their identity. Data is encrypted from end to end, so that relays move it in the kernel; with
//! `--plain`, data is not encrypted.
//!
//! Life of a transfer at a node: accept, handshake, Open, Attach; the stripes; the same towards the nodes behind; bytes
//! and messages until all sinks are done, or until the first failure, which is reported to all and closes everything.

mod account;
mod allow;
mod attributes;
mod awaited;
mod dial;
mod door;
mod duplex;
mod ends;
pub mod failure;
mod greeting;
pub mod join;
pub mod ledger;
mod legs;
mod monitor;
mod ordered;
pub mod origin;
pub mod place;
pub mod probe;
mod pump;
mod recent;
mod roots;
mod service;
mod sink;
pub(crate) mod socket;
mod source;
mod stage;
mod stripes;
pub(crate) mod tls;
mod totals;
mod transfer;
pub mod tree;
mod uplinks;
mod vain;
mod willing;

pub use allow::Allowed;
pub use failure::Failure;
pub use ledger::{Ledger, Limits};
pub use origin::{Order, Progress, Report, pull, push};
pub use place::{Named, Place};
pub use roots::Root;
pub use service::{Passes, ServeError, Service, Settings};
pub use tree::Tree;
pub use willing::decline;

/// The suffix of the local socket of a node's relay service, which is beside its control socket.
pub const SUFFIX: &str = "relay";
