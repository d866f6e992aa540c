//! Bulk data through a node: its relay service, and the two ends of a transfer. [Liu04 §III]
//!
//! ```text
//!   sinew cp ─Unix socket─▶ node ═════ TCP ═════▶ node ═════ TCP ═════▶ node ─▶ file
//!   (Origin: seals)         (Service: stage)      (stage)               (stage with a sink: opens)
//! ```
//!
//! Nothing here touches the engine or its thread. A transfer has a thread for each connection, which
//! waits where its connection waits; how many transfers there are is bounded, and so is what each
//! holds (`relay`). Between nodes runs kernel TCP, at the port whose number the node has for UDP.
//! Control runs over TLS 1.3, by which nodes prove who they are. Data is sealed from end to end,
//! so that relays move it in the kernel; nothing of it is sealed with `--plain`.
//!
//! Life of a transfer at a node: accept, handshake, Open, Attach; the stripes; the same towards the
//! nodes behind; bytes and messages until all sinks are done, or until the first failure, which is
//! told to all and shuts everything.

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

/// The local socket of a node's relay service stands beside its control socket, and ends so.
pub const SUFFIX: &str = "relay";
