//! The values that client and node exchange about streams: the content of a stream, and the reason for its end.

use crate::Malformed;
use core::fmt;

/// The content of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Framing {
    /// Bytes; the boundaries of writes are not kept.
    #[default]
    Bytes,
    /// Messages; each write is one message, and arrives as one.
    Messages,
}

/// The congestion control of a stream, if its client has chosen one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamControl {
    /// The usual control of kernels: a loss means congestion [RFC 9438].
    Cubic,
    /// A model of the path, which tolerates the path's own losses.
    Bbr,
}

impl StreamControl {
    /// All controls.
    pub const ALL: [StreamControl; 2] = [StreamControl::Cubic, StreamControl::Bbr];

    /// Returns the name for people.
    pub const fn label(self) -> &'static str {
        match self {
            StreamControl::Cubic => "cubic",
            StreamControl::Bbr => "bbr",
        }
    }

    /// Returns the number on the wire: 0 if the client has not chosen.
    pub const fn to_byte(chosen: Option<StreamControl>) -> u8 {
        match chosen {
            None => 0,
            Some(StreamControl::Cubic) => 1,
            Some(StreamControl::Bbr) => 2,
        }
    }

    /// Returns the meaning of a number on the wire.
    pub const fn from_byte(byte: u8) -> Result<Option<StreamControl>, Malformed> {
        match byte {
            0 => Ok(None),
            1 => Ok(Some(StreamControl::Cubic)),
            2 => Ok(Some(StreamControl::Bbr)),
            _ => Err(Malformed::Value),
        }
    }
}

/// Why a stream has ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResetReason {
    /// The peer, or its node, has ended the stream.
    Peer,
    /// Nothing listens at the peer's port, or too many streams wait there.
    Refused,
    /// The peer's node does not know the stream, because it has restarted.
    Unknown,
    /// The peer has been silent for too long.
    Timeout,
    /// There has been no route to the peer for too long.
    NoRoute,
    /// An end has violated the protocol.
    Protocol,
    /// A node has no room for another stream.
    Exhausted,
}

impl Framing {
    /// Returns the number on the wire.
    pub const fn to_byte(self) -> u8 {
        match self {
            Framing::Bytes => 0,
            Framing::Messages => 1,
        }
    }

    /// Returns the meaning of a number on the wire.
    pub const fn from_byte(byte: u8) -> Result<Framing, Malformed> {
        match byte {
            0 => Ok(Framing::Bytes),
            1 => Ok(Framing::Messages),
            _ => Err(Malformed::Value),
        }
    }
}

impl ResetReason {
    /// All reasons, in the order of their numbers on the wire, which begin at 1.
    pub const ALL: [ResetReason; 7] = [
        ResetReason::Peer,
        ResetReason::Refused,
        ResetReason::Unknown,
        ResetReason::Timeout,
        ResetReason::NoRoute,
        ResetReason::Protocol,
        ResetReason::Exhausted,
    ];

    /// Returns the number on the wire.
    pub const fn to_byte(self) -> u8 {
        match self {
            ResetReason::Peer => 1,
            ResetReason::Refused => 2,
            ResetReason::Unknown => 3,
            ResetReason::Timeout => 4,
            ResetReason::NoRoute => 5,
            ResetReason::Protocol => 6,
            ResetReason::Exhausted => 7,
        }
    }

    /// Returns the meaning of a number on the wire.
    pub const fn from_byte(byte: u8) -> Result<ResetReason, Malformed> {
        match byte {
            1 => Ok(ResetReason::Peer),
            2 => Ok(ResetReason::Refused),
            3 => Ok(ResetReason::Unknown),
            4 => Ok(ResetReason::Timeout),
            5 => Ok(ResetReason::NoRoute),
            6 => Ok(ResetReason::Protocol),
            7 => Ok(ResetReason::Exhausted),
            _ => Err(Malformed::Value),
        }
    }

    /// Returns a short stable word for people and metrics.
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
