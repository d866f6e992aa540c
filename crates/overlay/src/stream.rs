//! Reliable sessions: the messages between the host and the node about streams. [Amir03 §IV]
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
//! A stream belongs to one client of each node. Credit flows both ways: the node says how much may be written, and the
//! host says how much has been taken. So neither has to drop bytes, and neither buffers without bound.

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

/// The most bytes of a stream in one segment. With all headers, including those of UDP and IPv4, the packet has 1400
/// bytes, so that it fits through the usual tunnels.
pub const SEGMENT_BYTES: usize = 1_400 - 28 - HEADROOM - TAG_BYTES - transport::SEGMENT_BYTES;
/// The same in a packet with the longest stamp. Stamps change while segments are in flight.
pub const STAMPED_BYTES: usize =
    SEGMENT_BYTES - wire::data::EXTENSION_LENGTH_BYTES - wire::stamp::STAMP_BYTES_MAX;
/// The first receive window. A message of the greatest length fits.
pub const WINDOW_START: u64 = 128 << 10;
/// The largest receive window: 10 Gbit/s over 200 ms are 250 MB, 238 MiB. The window grows only as far as it is used.
pub const WINDOW_MAX: u64 = 256 << 20;
/// The first limit of bytes that are written and not yet acknowledged.
pub const BUFFER_START: u64 = 128 << 10;
/// The largest limit of bytes that are written and not yet acknowledged, see [`WINDOW_MAX`].
pub const BUFFER_MAX: u64 = 256 << 20;
/// The most streams of one node: as many as it has sockets. Their first windows and buffers come to 1 GiB if all of
/// them are full on both sides. Memory is taken only when there is something to keep.
pub const STREAMS_MAX: usize = crate::sockets::MAX_SOCKETS;
/// The memory that windows and buffers of all streams may take beyond their first size: the largest of both for one
/// stream, or 8 MiB each for 32. It is only a limit: memory is taken when bytes wait.
pub const GROWTH_MAX: u64 = 512 << 20;

/// The class of a stream unless its client has chosen one.
pub const DEFAULT_CLASS: Class = Class {
    link: LinkProtocol::Reliable,
    routing: Routing::ExpectedLatency,
    priority: 2,
};

/// What a stream carries. Both ends know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Bytes,
    /// Messages, all of which arrive.
    Messages,
    /// Messages that are given up when they are too old.
    Expiring,
}

impl Content {
    /// Returns what the caller of a stream asks for. Messages with a deadline are of no use after it.
    pub(crate) fn asked(framing: Framing, deadline: Option<Duration>) -> Content {
        match (framing, deadline) {
            (Framing::Bytes, _) => Content::Bytes,
            (Framing::Messages, None) => Content::Messages,
            (Framing::Messages, Some(_)) => Content::Expiring,
        }
    }

    /// Returns what the flags of a call say.
    pub(crate) fn called(flags: Flags) -> Content {
        match (flags.has(Flags::MESSAGES), flags.has(Flags::EXPIRES)) {
            (false, _) => Content::Bytes,
            (true, false) => Content::Messages,
            (true, true) => Content::Expiring,
        }
    }

    /// Returns the name that clients use.
    pub(crate) fn framing(self) -> Framing {
        match self {
            Content::Bytes => Framing::Bytes,
            Content::Messages | Content::Expiring => Framing::Messages,
        }
    }
}

/// The settings of streams.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The congestion control that decides the window.
    pub congestion: Family,
    /// After this time without a packet of the peer, the stream asks whether the peer is there, and repeats this at the
    /// same interval.
    pub keep_alive: Duration,
    /// After this time without a packet of the peer, the stream gives the peer up.
    pub give_up: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            congestion: Family::Cubic,
            keep_alive: Duration::from_secs(15),
            // Choice: the time that results in Linux from tcp_retries2 = 15 with the least timeout, 924.6 s, rounded to
            // minutes. So a program that survives a partition over TCP survives it here as well.
            give_up: Duration::from_secs(15 * 60),
        }
    }
}

/// The memory that streams may still take.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u64,
}

impl Budget {
    /// Takes this many bytes if that is at most half of what is left, so that later streams still find some. Returns
    /// whether it did.
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

/// Returns the overlay header of a packet that belongs to a stream.
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

/// The name of a stream that has come in and waits to be accepted. A name is not reused while its stream waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// Requests of a client about streams.
#[derive(Debug)]
pub enum StreamRequest {
    /// Takes connections at the socket's port from now on.
    Listen {
        /// The number of streams that may wait to be accepted. Further ones are refused.
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
    /// Takes the stream that [`StreamReply::Incoming`] has announced. The client, a new one, is its end from now on.
    Accept {
        /// The name of the stream.
        stream: StreamId,
    },
    /// Refuses a stream that [`StreamReply::Incoming`] has announced.
    Decline {
        /// The name of the stream.
        stream: StreamId,
    },
    /// Writes, within the credit. If the stream carries messages, the payload is one message.
    Write {
        /// The payload alone.
        payload: Burst,
    },
    /// Nothing more will be written.
    Finish,
    /// The application has gone. The host still reads what the application has written, and the node delivers it, in
    /// bounded time. Then [`StreamRequest::Finish`] and the client's end follow.
    Leave,
    /// The application has taken so many bytes of what was delivered.
    Consumed {
        /// Payload bytes.
        bytes: u32,
    },
    /// Ends the stream at once, in both directions.
    Reset,
    /// Asks how many messages have expired. The answer is [`StreamReply::Expired`].
    AskExpired,
}

/// Messages of the node to a client about streams.
#[derive(Debug)]
pub enum StreamReply {
    /// The port takes connections.
    Listening,
    /// A peer wants to connect. This goes to the listener.
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
    /// The client may write so many more bytes.
    Credit {
        /// Payload bytes.
        bytes: u32,
    },
    /// What the peer has written, in order. If the stream carries messages, this is one message.
    Bytes {
        /// The payload alone, contiguous.
        payload: Burst,
    },
    /// The peer writes nothing more, and everything that it wrote has been delivered.
    Finished,
    /// The numbers of messages that have expired. The node sends this if the client asks, and before the end if there
    /// are any.
    Expired {
        /// Messages that this end has given up. If only the acknowledgement of one was lost, the message has arrived
        /// all the same.
        given_up: u64,
        /// Messages that the peer has given up: they are missing among those delivered.
        missed: u64,
    },
    /// The stream has ended early. Nothing more follows.
    Reset(ResetReason),
}

#[cfg(test)]
mod tests;
