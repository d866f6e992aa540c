//! One way to the destination: the nodes it takes, the stamp that makes packets take it, and what is known
//! of how it delivers.
//!
//! A way is what a trial compares. It has a number of its own, so what became of packets counts for the way
//! that they took, also when the tables have another path by then.

use super::super::evidence::Evidences;
use base::{Duration, NodeAddr, Time};
use graph::stamp::Subgraph;
use wire::stamp::{STAMP_BYTES_MAX, emit_subgraph};

/// Ways that packets have taken within so long count.
pub(super) const IN_USE: Duration = Duration::from_secs(5);

/// What has carried packets that left so lately is no hole. Choice: in use, a way is judged every second.
const PROVEN_FOR: Duration = Duration::from_secs(2);

/// One way to the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WayId(pub(super) u32);

#[derive(Debug)]
pub(super) struct Way {
    pub(super) id: WayId,
    /// From this node to the destination.
    pub(super) nodes: Vec<NodeAddr>,
    /// Empty if it fits none.
    pub(super) stamp: Vec<u8>,
    pub(super) evidence: Evidences,
    /// When it carried packets last, as far as they were judged by now.
    pub(super) proven: Option<Time>,
    /// When packets went by it, and when packets would have done so that nobody diverts.
    pub(super) used: Time,
    pub(super) wanted: Option<Time>,
}

#[cfg(test)]
impl WayId {
    pub(in crate::audit) const fn numbered(n: u32) -> WayId {
        WayId(n)
    }
}

impl Way {
    pub(super) fn is_wanted(&self, now: Time) -> bool {
        self.wanted.is_some_and(|at| now.since(at) < IN_USE)
    }

    pub(super) fn is_proven(&self, now: Time) -> bool {
        self.proven.is_some_and(|at| now.since(at) < PROVEN_FOR)
    }

    pub(super) fn relays(&self) -> &[NodeAddr] {
        &self.nodes[1..self.nodes.len() - 1]
    }

    pub(super) fn has_link(&self, from: NodeAddr, to: NodeAddr) -> bool {
        self.nodes.windows(2).any(|hop| hop == [from, to])
    }
}

/// The stamp of one path; empty if there is none.
pub(super) fn stamp_of(path: &[NodeAddr]) -> Vec<u8> {
    let graph = Subgraph::of_paths(&[path]).unwrap_or_default();
    let place = |place: usize| u8::try_from(place).unwrap_or(u8::MAX);
    let links = graph.links.iter();
    let links: Vec<(u8, u8)> = links.map(|&(from, to)| (place(from), place(to))).collect();
    let mut bytes = vec![0; STAMP_BYTES_MAX];
    let len = emit_subgraph(&graph.nodes, &links, &mut bytes).unwrap_or(0);
    bytes.truncate(len);
    bytes
}
