//! Reliable sessions: what the host and the node tell each other about streams. [Amir03 §IV]
//!
//! ```text
//!   client ── Listen ──▶ node                            client ── Connect{to} ──▶ node
//!   client ◀─ Incoming{stream} ─┤ ◀───── SYN ───────────────────────────────────────┤
//!   client' ─ Accept{stream} ──▶ node                     client ◀──── Connected ────┤
//!            ◀─ Connected, Credit                                 ◀──── Credit ──────┤
//!            ── Write (within credit), Finish ─▶                  ◀── Bytes ─────────┤
//!                                                                 ── Consumed ──────▶
//! ```
//!
//! A stream belongs to one client of each node. Credit flows both ways: the node says how much may
//! be written, the host how much has been taken, so that neither drops, and neither buffers
//! without bound.

use base::{Burst, NodeAddr, VirtualPort};
use core::fmt;

/// A stream that has come in and waits to be accepted. Never reused while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// What a stream carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Framing {
    /// Bytes; the boundaries of writes are not kept.
    #[default]
    Bytes,
    /// Messages; each write is one, and arrives as one.
    Messages,
}

/// What a client asks about streams.
#[derive(Debug)]
pub enum StreamRequest {
    /// Takes connections at the socket's port from now on.
    Listen {
        /// Streams that may wait to be accepted; the next ones are refused.
        backlog: u16,
    },
    /// Opens a stream. The client is its end from now on.
    Connect {
        /// The peer's node.
        to: NodeAddr,
        /// Its port.
        port: VirtualPort,
        /// What the stream carries.
        framing: Framing,
    },
    /// Takes the stream of which [`StreamReply::Incoming`] has told. The client, a new one, is its
    /// end from now on.
    Accept {
        /// Which.
        stream: StreamId,
    },
    /// Refuses it.
    Decline {
        /// Which.
        stream: StreamId,
    },
    /// Writes: within the credit, and one message where the stream carries messages.
    Write {
        /// The payload alone.
        payload: Burst,
    },
    /// Nothing more will be written.
    Finish,
    /// The application has taken so many bytes of what was delivered.
    Consumed {
        /// Payload bytes.
        bytes: u32,
    },
    /// Ends the stream at once, in both directions.
    Reset,
}

/// What a client is told about streams.
#[derive(Debug)]
pub enum StreamReply {
    /// The port takes connections.
    Listening,
    /// Somebody wants to connect; the listener is told.
    Incoming {
        /// The stream's name until it is accepted.
        stream: StreamId,
        /// The peer's node.
        from: NodeAddr,
        /// Its port.
        port: VirtualPort,
        /// What the stream carries.
        framing: Framing,
    },
    /// The stream is open.
    Connected {
        /// The port of this end.
        port: VirtualPort,
    },
    /// So many more bytes may be written.
    Credit {
        /// Payload bytes.
        bytes: u32,
    },
    /// What the peer has written, in order; one message where the stream carries messages.
    Bytes {
        /// The payload alone: datagrams' worth, back to back.
        payload: Burst,
    },
    /// The peer writes nothing more, and everything that it wrote has been delivered.
    Finished,
    /// The stream has ended before its time. Nothing more follows.
    Reset(ResetReason),
}

/// Why a stream has ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResetReason {
    /// The peer, or its node, has ended it.
    Peer,
    /// Nobody listens at the peer's port, or too many wait there.
    Refused,
    /// The peer's node does not know the stream: it has restarted.
    Unknown,
    /// The peer has not answered for too long.
    Timeout,
    /// There has been no route to the peer for too long.
    NoRoute,
    /// An end did not keep to the protocol.
    Protocol,
    /// A node has no room for one more stream.
    Exhausted,
}

impl ResetReason {
    /// All of them, in the order of their labels' first use.
    pub const ALL: [ResetReason; 7] = [
        ResetReason::Peer,
        ResetReason::Refused,
        ResetReason::Unknown,
        ResetReason::Timeout,
        ResetReason::NoRoute,
        ResetReason::Protocol,
        ResetReason::Exhausted,
    ];

    /// A short stable word for people and metrics.
    pub const fn label(self) -> &'static str {
        match self {
            ResetReason::Peer => "peer",
            ResetReason::Refused => "refused",
            ResetReason::Unknown => "unknown",
            ResetReason::Timeout => "timeout",
            ResetReason::NoRoute => "no_route",
            ResetReason::Protocol => "protocol",
            ResetReason::Exhausted => "exhausted",
        }
    }
}

impl fmt::Display for ResetReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResetReason::Peer => "the peer has ended the stream",
            ResetReason::Refused => "nobody takes connections at that port",
            ResetReason::Unknown => "the peer's node has restarted and does not know the stream",
            ResetReason::Timeout => "the peer has not answered for too long",
            ResetReason::NoRoute => "there is no route to the peer",
            ResetReason::Protocol => "an end did not keep to the protocol",
            ResetReason::Exhausted => "a node has no room for one more stream",
        })
    }
}
