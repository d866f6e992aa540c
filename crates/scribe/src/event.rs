//! What can be observed of a node: events, and counters that follow from them.

use base::NodeAddr;
use core::fmt;
use wire::Malformed;
use wire::scribe::Refusal;

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The node is in the ring.
    Entered {
        /// Nodes of its leaf set.
        leaves: usize,
    },
    /// A node is no longer reckoned with.
    PeerFailed {
        /// Which.
        peer: NodeAddr,
        /// How that was found out.
        why: Failure,
    },
    /// A parent did not take this node for its child.
    Refused {
        /// The group.
        group: NodeAddr,
        /// The parent.
        by: NodeAddr,
        /// Why.
        reason: Refusal,
    },
    /// A message was not used.
    Dropped {
        /// Who sent it.
        from: NodeAddr,
        /// Why.
        reason: Dropped,
    },
}

/// How the failure of a node was found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The overlay has no way to it.
    Unreachable,
    /// Nothing was heard for too long.
    Silent,
}

/// Why a message was not used. The label is fit for a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// It was not understood.
    Malformed(Malformed),
    /// Its sender is not another node.
    Sender,
    /// It names what cannot be: a group as a node, a node as a group.
    Address,
    /// This node is not in the ring yet.
    Outside,
    /// It has come by too many nodes.
    Hops,
    /// Its sender asks for more than a node may between two beats, or state for it has no room.
    Flood,
    /// It answers nothing that was asked.
    Stale,
}

impl Dropped {
    /// Those that are counted apart from [`Malformed`].
    const OTHERS: [&'static str; 6] = ["sender", "address", "outside", "hops", "flood", "stale"];

    /// A short stable word for metrics.
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
    /// Messages that came.
    pub received: u64,
    /// Messages that went.
    pub sent: u64,
    /// Groups in which a child was refused.
    pub refused: u64,
    /// Parents that were lost and replaced, one per group.
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

    /// Messages that were not used, by reason.
    pub fn drops(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let others = Dropped::OTHERS.into_iter().zip(self.dropped);
        core::iter::once(("malformed", self.malformed)).chain(others)
    }

    /// All messages that were not used.
    pub fn dropped(&self) -> u64 {
        self.drops().map(|(_, count)| count).sum()
    }
}

/// Why this node cannot be in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// It is no group.
    #[error("{0} is not the address of a group: use one from 224.0.0.0 upwards")]
    NotAGroup(NodeAddr),
    /// Too many groups.
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
