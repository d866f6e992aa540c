//! Every format that leaves a process: datagrams between neighbors, the records that they flood, and the messages
//! between a client and its node.
//!
//! ```text
//!   link     clear header of 8 bytes, then sealed:
//!   |-- data      overlay header of 23 bytes | (stamp) | payload (echo: that of virtual port 7;
//!   |                                                      transport: streams, long datagrams)
//!   '-- control   messages back to back: Hello | Nack | TailProbe | Records | RecordAck
//!                                                                   '-- record: link_state, ...
//!   handshake     what neighbours say before they can seal; carries certificate
//!   ipc           client <-> node over a Unix socket
//!   remote        client on another host <-> the node's gate, within TLS; carries ipc
//!   relay         bulk data over TCP between nodes, and what is copied: entries of a directory
//!   scribe        Pastry rings and Scribe trees, between nodes that the overlay connects
//!   mapping       a node and the router in front of it: PCP, NAT-PMP and UPnP, by their documents
//! ```
//!
//! Formats that a hop rewrites have a *view* that works in place ([`data::Header`]). The others are small values with
//! `parse` and `emit`, or iterators over borrowed bytes. The formats between nodes need no allocation. All numbers are
//! in network byte order. Bytes that cannot be decoded cause an error with a label ([`Malformed`]), never a guess and
//! never a panic. docs/wire.md describes the same formats for humans.
#![forbid(unsafe_code)]

mod aim;
pub mod bytes;
pub mod certificate;
pub mod control;
pub mod data;
pub mod echo;
mod endpoint;
pub mod exit;
pub mod groups;
pub mod handshake;
pub mod ipc;
pub mod link;
pub mod link_state;
pub mod mapping;
mod measure;
pub mod record;
pub mod relay;
pub mod remote;
pub mod scribe;
pub mod stamp;
pub mod transport;
pub mod tunnel;

pub use aim::{Aim, BadAim};
pub use data::{HEADER_BYTES, HEADROOM, SEALED_HEADROOM};
pub use endpoint::Endpoint;
pub use link::{CLEAR_BYTES, TAG_BYTES};
pub use measure::{Availability, Latency, Loss};

/// Why bytes could not be decoded. The label can be used for a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Malformed {
    /// The bytes end before the format does.
    #[error("truncated: the bytes end before the format does")]
    Short,
    /// A length contradicts the bytes around it, or bytes are left over.
    #[error("a length that contradicts its surroundings")]
    Length,
    /// The version is not supported by this code.
    #[error("a version that is not spoken here")]
    Version,
    /// The kind of datagram, message or record is unknown.
    #[error("an unknown kind")]
    Kind,
    /// An unknown item is marked as critical: its container must not be used.
    #[error("an unknown critical item")]
    Critical,
    /// A field holds a reserved or impossible value.
    #[error("a reserved or impossible value")]
    Value,
    /// There are more entries than the format's named limit.
    #[error("more entries than the limit")]
    Count,
    /// The text is not UTF-8.
    #[error("text that is not UTF-8")]
    Text,
}

impl Malformed {
    /// All values, for tables of counters.
    pub const ALL: [Malformed; 8] = [
        Malformed::Short,
        Malformed::Length,
        Malformed::Version,
        Malformed::Kind,
        Malformed::Critical,
        Malformed::Value,
        Malformed::Count,
        Malformed::Text,
    ];

    /// Returns a short stable word for metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Malformed::Short => "short",
            Malformed::Length => "length",
            Malformed::Version => "version",
            Malformed::Kind => "kind",
            Malformed::Critical => "critical",
            Malformed::Value => "value",
            Malformed::Count => "count",
            Malformed::Text => "text",
        }
    }
}

/// The output does not fit into the buffer, or exceeds a limit of the format. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("does not fit: send what is written and begin a new buffer")]
pub struct Full;
