//! The observable behavior of a node: events, and the counters that follow from them.

use base::NodeAddr;
use core::fmt;
use wire::Malformed;
use wire::scribe::Refusal;

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The node is in the ring.
    Entered {
        /// Number of nodes in its leaf set.
        leaves: usize,
    },
    /// The node no longer uses another node.
    PeerFailed {
        /// The other node.
        peer: NodeAddr,
        /// How the failure was detected.
        why: Failure,
    },
    /// A parent did not accept this node as its child.
    Refused {
        /// The group.
        group: NodeAddr,
        /// The parent.
        by: NodeAddr,
        /// The reason.
        reason: Refusal,
    },
    /// A message was not used.
    Dropped {
        /// The sender of the message.
        from: NodeAddr,
        /// The reason.
        reason: Dropped,
    },
}

/// How the failure of a node was detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The overlay has no path to the node.
    Unreachable,
    /// Nothing was heard from the node for too long.
    Silent,
}

/// Why a message was not used. The label can be used for a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// The message could not be decoded.
    Malformed(Malformed),
    /// The sender is not another node.
    Sender,
    /// The message uses an address in the wrong place: a group as a node, or a node as a group.
    Address,
    /// This node is not in the ring yet.
    Outside,
    /// The message has visited too many nodes.
    Hops,
    /// The sender requests more than a node may between two beats, or there is no room for its state.
    Flood,
    /// The message answers no open question.
    Stale,
}

impl Dropped {
    /// The labels of all reasons except [`Malformed`], which is counted separately.
    const OTHERS: [&'static str; 6] = ["sender", "address", "outside", "hops", "flood", "stale"];

    /// Returns a short stable word for metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Dropped::Malformed(malformed) => malformed.label(),
            other => Dropped::OTHERS[other.place()],
        }
    }

    const fn place(self) -> usize {
        match self {
            Dropped::Sender => 0,
            Dropped::Address => 1,
            Dropped::Outside => 2,
            Dropped::Hops => 3,
            Dropped::Flood => 4,
            Dropped::Stale | Dropped::Malformed(_) => 5,
        }
    }
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Number of messages received.
    pub received: u64,
    /// Number of messages sent.
    pub sent: u64,
    /// Number of groups in which a child was refused.
    pub refused: u64,
    /// Number of parents that were lost and replaced, one per group.
    pub repaired: u64,
    malformed: u64,
    dropped: [u64; Dropped::OTHERS.len()],
}

impl Stats {
    pub(crate) fn count(&mut self, reason: Dropped) {
        match reason {
            Dropped::Malformed(_) => self.malformed += 1,
            other => self.dropped[other.place()] += 1,
        }
    }

    /// Returns the numbers of messages that were not used, by reason.
    pub fn drops(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let others = Dropped::OTHERS.into_iter().zip(self.dropped);
        core::iter::once(("malformed", self.malformed)).chain(others)
    }

    /// Returns the number of all messages that were not used.
    pub fn dropped(&self) -> u64 {
        self.drops().map(|(_, count)| count).sum()
    }
}

/// Why this node cannot be in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// The address is not a group.
    #[error("{0} is not the address of a group: use one from 224.0.0.0 upwards")]
    NotAGroup(NodeAddr),
    /// The node is already in the maximum number of groups.
    #[error("{0}: this node is in as many groups as it may: leave one first")]
    Full(NodeAddr),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Failure::Unreachable => "unreachable",
            Failure::Silent => "silent",
        })
    }
}
