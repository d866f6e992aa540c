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

mod connection;
mod ranges;
mod receiver;
mod ring;
mod rtt;
mod sender;
mod sent;
mod table;
mod tickets;

pub(crate) use connection::{Connection, Key, Phase};
pub(crate) use ranges::Ranges;
pub use receiver::MESSAGE_BYTES_MAX;
pub(crate) use receiver::Taken;
pub(crate) use sent::Chunk;
pub(crate) use table::{Ended, Streams};
pub(crate) use tickets::{Admission, Tickets};

use base::{Burst, Duration, NodeAddr, VirtualPort};
use congestion::Family;
use wire::data::{Class, FlowSeq, LaneSeq, LinkProtocol, Remaining, Repr, Routing};
pub use wire::ipc::{Framing, ResetReason};
use wire::transport::Flags;
use wire::{HEADROOM, TAG_BYTES, transport};

/// Bytes of a stream in one segment: with all headers, UDP's and IPv4's the packet has 1400 bytes,
/// so that it fits below the tunnels that are usual.
pub const SEGMENT_BYTES: usize = 1_400 - 28 - HEADROOM - TAG_BYTES - transport::SEGMENT_BYTES;
/// The same behind the longest stamp; stamps change while segments are under way.
pub const STAMPED_BYTES: usize =
    SEGMENT_BYTES - wire::data::EXTENSION_LENGTH_BYTES - wire::stamp::STAMP_BYTES_MAX;
/// The receive window at first. A message of the greatest length fits.
pub const WINDOW_START: u64 = 128 << 10;
/// The largest receive window: 10 Gbit/s over 200 ms are 250 MB, 238 MiB. It grows to what is used.
pub const WINDOW_MAX: u64 = 256 << 20;
/// What may be written and not yet acknowledged at first, and at most.
pub const BUFFER_START: u64 = 128 << 10;
/// See [`WINDOW_MAX`].
pub const BUFFER_MAX: u64 = 256 << 20;
/// Streams of one node: as many as it has sockets. Their windows and buffers at first come to
/// 1 GiB, when all of them are full on both sides; memory is taken when there is something to keep.
pub const STREAMS_MAX: usize = crate::sockets::MAX_SOCKETS;
/// What windows and buffers of all streams may take beyond their start: the largest of both for one
/// stream, or 8 MiB each for 32. It is a promise; memory is taken when bytes wait.
pub const GROWTH_MAX: u64 = 512 << 20;

/// What a stream does unless its client has chosen.
pub const DEFAULT_CLASS: Class = Class {
    link: LinkProtocol::Reliable,
    routing: Routing::ExpectedLatency,
    priority: 2,
};

/// What a stream carries, as both ends know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Bytes,
    /// Messages, all of which come.
    Messages,
    /// Messages that are given up when they are too old.
    Expiring,
}

impl Content {
    /// What the caller of a stream asks for: messages with a deadline are of no use after it.
    pub(crate) fn asked(framing: Framing, deadline: Option<Duration>) -> Content {
        match (framing, deadline) {
            (Framing::Bytes, _) => Content::Bytes,
            (Framing::Messages, None) => Content::Messages,
            (Framing::Messages, Some(_)) => Content::Expiring,
        }
    }

    /// What the flags of its call say.
    pub(crate) fn called(flags: Flags) -> Content {
        match (flags.has(Flags::MESSAGES), flags.has(Flags::EXPIRES)) {
            (false, _) => Content::Bytes,
            (true, false) => Content::Messages,
            (true, true) => Content::Expiring,
        }
    }

    /// As clients name it.
    pub(crate) fn framing(self) -> Framing {
        match self {
            Content::Bytes => Framing::Bytes,
            Content::Messages | Content::Expiring => Framing::Messages,
        }
    }
}

/// The numbers of streams.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What decides the window.
    pub congestion: Family,
    /// After so long without a word of the peer it is asked, and again and again as often.
    pub keep_alive: Duration,
    /// After so long without a word of the peer it is given up.
    pub give_up: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            congestion: Family::Cubic,
            keep_alive: Duration::from_secs(15),
            // Choice: what Linux makes of tcp_retries2 = 15 at its least timeout, 924.6 s, in round
            // minutes: what outlives a partition over TCP does so here.
            give_up: Duration::from_secs(15 * 60),
        }
    }
}

/// Memory that streams may still take.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u64,
}

impl Budget {
    /// Takes so much, at most half of what is left: who comes later still finds something.
    fn take(&mut self, bytes: u64) -> bool {
        let is_there = bytes <= self.left / 2;
        if is_there {
            self.left -= bytes;
        }
        is_there
    }

    fn give_back(&mut self, bytes: u64) {
        self.left += bytes;
    }
}

/// The overlay header of a packet that belongs to a stream.
pub(crate) fn packet_header(class: Class, ttl: u8, own: NodeAddr, key: Key, flow_seq: u32) -> Repr {
    Repr {
        class,
        ttl,
        has_extension: false,
        congested: false,
        recovered: false,
        has_transport: true,
        remaining: Remaining::NONE,
        source: own,
        destination: key.peer,
        source_port: key.port,
        destination_port: key.peer_port,
        flow_seq: FlowSeq(flow_seq),
        lane_seq: LaneSeq::new(0),
    }
}

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
    /// The application is gone. What it has written is still to be read and delivered, in bounded
    /// time; then [`StreamRequest::Finish`] and the client's end follow.
    Leave,
    /// The application has taken so many bytes of what was delivered.
    Consumed {
        /// Payload bytes.
        bytes: u32,
    },
    /// Ends the stream at once, in both directions.
    Reset,
    /// How many messages have expired: answered by [`StreamReply::Expired`].
    AskExpired,
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
    /// Messages that have expired: told when asked for, and before the end if there are any.
    Expired {
        /// Of this end: given up. One of which only the acknowledgement was lost has arrived all the same.
        given_up: u64,
        /// Of the peer: they are missing among what was delivered.
        missed: u64,
    },
    /// The stream has ended before its time. Nothing more follows.
    Reset(ResetReason),
}

#[cfg(test)]
mod tests;
