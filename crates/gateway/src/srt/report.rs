//! The reports of a gateway: plain values for logs, the status page and people.

use super::{Direction, routes};
use crate::video::Seen;
use base::Duration;
use core::fmt;
use core::net::SocketAddr;
use net::srt::{Refusal, Stats};

/// The reason why a caller has no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The gateway refused the caller.
    Refusal(Refusal),
    /// The caller was admitted but did not complete the handshake.
    Handshake,
}

/// An event of the gateway.
#[derive(Debug)]
pub enum Event {
    /// A connection was established.
    Connected {
        /// The other end.
        peer: SocketAddr,
        /// The stream id that the peer requested, or that was requested from it.
        stream_id: String,
        /// The direction of the stream.
        direction: Direction,
        /// The stream of the overlay.
        stream: String,
    },
    /// A connection is over.
    Disconnected(Box<Connection>),
    /// A caller was not let in.
    Refused {
        /// The caller.
        peer: SocketAddr,
        /// The stream id that it requested.
        stream_id: String,
        /// The reason.
        why: Why,
        /// If this is not the first report: the number of further refusals of callers of this host in 10 s.
        again: u64,
    },
    /// An attempt to connect has failed, and will be repeated.
    CallFailed {
        /// The peer.
        to: String,
        /// The reason.
        why: String,
        /// The time until the next attempt.
        again_in: Duration,
    },
    /// A receiver sends packets, which are dropped.
    Unwanted {
        /// The receiver.
        peer: SocketAddr,
    },
    /// The node was lost, or refuses.
    NodeAway(client::Error),
    /// The node is connected again.
    NodeBack,
    /// Another condition that an operator should know.
    Warning(String),
}

impl Event {
    /// Returns the event for a refused caller.
    pub(super) fn refused(peer: SocketAddr, stream_id: String, why: Why, again: u64) -> Event {
        Event::Refused {
            peer,
            stream_id,
            why,
            again,
        }
    }

    /// Returns a word for programs.
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

/// Returns in words why a caller with this stream id has no connection.
fn in_words(why: Why, stream_id: &str) -> &'static str {
    match why {
        Why::Refusal(Refusal::BadRequest) => "its stream id is malformed",
        Why::Refusal(Refusal::Overload) => {
            "there are as many connections as may be (--connections)"
        }
        Why::Refusal(Refusal::NotFound) => "there is no stream that is called so",
        Why::Refusal(Refusal::BadMode) if !routes::has_mode(stream_id) => {
            "its mode is neither m=publish, to send, nor m=request, to receive"
        }
        Why::Refusal(Refusal::BadMode) => "the stream goes the other way",
        Why::Refusal(Refusal::Conflict) => "another one sends this stream already",
        Why::Handshake => {
            "the handshake failed: its passphrase is not that of --passphrase-file, or it has left"
        }
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
                why,
                again,
            } => {
                let why = in_words(*why, stream_id);
                write!(f, "{peer} asked for {stream_id:?} and was refused: {why}")?;
                match again {
                    0 => Ok(()),
                    again => write!(f, "; this host was refused so {again} more times since"),
                }
            }
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

/// The state of a connection.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The other end.
    pub peer: SocketAddr,
    /// The stream id that the peer requested, or that was requested from it.
    pub stream_id: String,
    /// The direction of the stream.
    pub direction: Direction,
    /// The stream of the overlay.
    pub stream: String,
    /// The age of the connection.
    pub age: Duration,
    /// The counters of libsrt.
    pub stats: Stats,
    /// The packets that were received from the peer, or were to be sent to it, with the TR 101 290 counters of received
    /// packets.
    pub seen: Seen,
    /// Packets that were to be sent but were not: libsrt had no room, or they were too long.
    pub dropped: u64,
}

/// A stream out of the overlay.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The place of the stream.
    pub place: String,
    /// The packets that were received.
    pub seen: Seen,
    /// Number of receivers.
    pub receivers: usize,
}

/// Packets that were dropped, and callers that were refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// Packets that the node did not take.
    pub node: u64,
    /// Packets that receivers sent.
    pub unwanted: u64,
    /// Callers that requested an unknown stream, or exceeded a limit.
    pub refused: u64,
    /// Callers that were let in but did not complete the handshake: with a wrong passphrase, or without one.
    pub handshake: u64,
}

/// The state of the gateway.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The connections, the oldest first.
    pub connections: Vec<Connection>,
    /// The streams out of the overlay.
    pub streams: Vec<Stream>,
    /// Number of connections since the start.
    pub connected: u64,
    /// Drops and refusals.
    pub drops: Drops,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_is_wrong() {
        let said = |id: &str, refusal| in_words(Why::Refusal(refusal), id);
        let bidirectional = said("#!::r=x,m=bidirectional", Refusal::BadMode);
        assert!(bidirectional.contains("m=publish"), "{bidirectional}");
        let other = said("#!::r=x,m=request", Refusal::BadMode);
        assert_eq!(other, "the stream goes the other way");
    }
}
