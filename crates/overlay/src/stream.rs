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
pub use wire::ipc::{Framing, ResetReason};

/// A stream that has come in and waits to be accepted. Never reused while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

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
