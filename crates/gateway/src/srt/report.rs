//! What the gateway tells of itself: plain values, for logs, status and people.

use super::Direction;
use crate::video::Seen;
use base::Duration;
use core::fmt;
use core::net::SocketAddr;
use net::srt::{Refusal, Stats};

/// Something that happened.
#[derive(Debug)]
pub enum Event {
    /// A connection is there.
    Connected {
        /// The other end.
        peer: SocketAddr,
        /// What it asked for, or was asked for.
        stream_id: String,
        /// Which way it goes.
        direction: Direction,
        /// The stream of the overlay.
        stream: String,
    },
    /// It is over.
    Disconnected(Box<Connection>),
    /// A caller was not let in.
    Refused {
        /// Who.
        peer: SocketAddr,
        /// What it asked for.
        stream_id: String,
        /// Why.
        why: Refusal,
    },
    /// A call has failed, and is tried again.
    CallFailed {
        /// Who was called.
        to: String,
        /// Why.
        why: String,
        /// How long it is waited.
        again_in: Duration,
    },
    /// A receiver sends, which is dropped.
    Unwanted {
        /// Who.
        peer: SocketAddr,
    },
    /// The node has gone, or refuses.
    NodeAway(client::Error),
    /// It is back.
    NodeBack,
    /// Something else that an operator should know.
    Warning(String),
}

impl Event {
    /// A word for it, for programs.
    pub fn label(&self) -> &'static str {
        match self {
            Event::Connected { .. } => "connected",
            Event::Disconnected(_) => "disconnected",
            Event::Refused { .. } => "refused",
            Event::CallFailed { .. } => "call_failed",
            Event::Unwanted { .. } => "unwanted",
            Event::NodeAway(_) => "node_away",
            Event::NodeBack => "node_back",
            Event::Warning(_) => "warning",
        }
    }
}

/// Why a caller is refused, in words.
pub fn why(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::BadRequest => "its stream id is malformed",
        Refusal::Overload => "there are as many connections as may be (--connections)",
        Refusal::NotFound => "there is no stream that is called so",
        Refusal::BadMode => "the stream goes the other way",
        Refusal::Conflict => "another one sends this stream already",
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Connected {
                peer,
                stream_id,
                direction: Direction::In,
                stream,
            } => write!(f, "{peer} sends {stream_id:?} to {stream}"),
            Event::Connected {
                peer,
                stream_id,
                stream,
                ..
            } => write!(f, "{peer} receives {stream_id:?} from {stream}"),
            Event::Disconnected(connection) => {
                let seen = connection.seen;
                write!(
                    f,
                    "{} has gone, after {} packets",
                    connection.peer, seen.packets
                )
            }
            Event::Refused {
                peer,
                stream_id,
                why: refusal,
            } => write!(
                f,
                "{peer} asked for {stream_id:?} and was refused: {}",
                why(*refusal)
            ),
            Event::CallFailed { to, why, again_in } => {
                write!(f, "{to}: {why}; called again in {again_in}")
            }
            Event::Unwanted { peer } => {
                write!(
                    f,
                    "{peer} sends to where streams are received; it is dropped: call a listener with --to"
                )
            }
            Event::NodeAway(error) => write!(f, "the gateway's node: {error}"),
            Event::NodeBack => write!(f, "the gateway's node is back"),
            Event::Warning(text) => f.write_str(text),
        }
    }
}

/// A connection so far.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The other end.
    pub peer: SocketAddr,
    /// What it asked for, or was asked for.
    pub stream_id: String,
    /// Which way it goes.
    pub direction: Direction,
    /// The stream of the overlay.
    pub stream: String,
    /// For how long it has been there.
    pub age: Duration,
    /// What libsrt counts.
    pub stats: Stats,
    /// What came by it, or was to go by it; TR 101 290 of what came.
    pub seen: Seen,
    /// Packets that were to go and did not: libsrt had no room, or they were too long.
    pub dropped: u64,
}

/// A stream that comes out of the overlay.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Where it is.
    pub place: String,
    /// What came.
    pub seen: Seen,
    /// How many receive it.
    pub receivers: usize,
}

/// Packets and callers that came to nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// Packets that the node did not take.
    pub node: u64,
    /// Packets of receivers.
    pub unwanted: u64,
    /// Callers that asked for nothing that is here, or for too much.
    pub refused: u64,
    /// Callers that were let in and have not shaken hands: a wrong passphrase, or none at all.
    pub handshake: u64,
}

/// The gateway so far.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The connections, the oldest first.
    pub connections: Vec<Connection>,
    /// What comes out of the overlay.
    pub streams: Vec<Stream>,
    /// Connections since the start.
    pub connected: u64,
    /// What came to nothing.
    pub drops: Drops,
}
