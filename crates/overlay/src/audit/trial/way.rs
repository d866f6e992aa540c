//! One way to the destination: its nodes, the stamp that makes packets take it, and the evidence about how it delivers.
//!
//! A way is what a trial compares. It has a number of its own. So the result for a packet counts for the way that the
//! packet took, also if the tables have another path by then.

use super::super::evidence::Evidences;
use base::{Duration, NodeAddr, Time};
use graph::stamp::Subgraph;
use wire::stamp::{STAMP_BYTES_MAX, emit_subgraph};

/// A way is in use if packets took it within this time.
pub(super) const IN_USE: Duration = Duration::from_secs(5);

/// A way that has carried packets which left within this time is not a hole. Choice: a way in use is judged every
/// second.
const PROVEN_FOR: Duration = Duration::from_secs(2);

/// The number of one way to the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WayId(pub(super) u32);

#[derive(Debug)]
pub(super) struct Way {
    pub(super) id: WayId,
    /// From this node to the destination.
    pub(super) nodes: Vec<NodeAddr>,
    /// The stamp of the way. It is empty if the way does not fit into a stamp.
    pub(super) stamp: Vec<u8>,
    pub(super) evidence: Evidences,
    /// When the last packets left that are known to have been carried.
    pub(super) proven: Option<Time>,
    /// When the way was last used.
    pub(super) used: Time,
    /// When packets last took the way, or would have taken it if they were not diverted.
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
}

/// Returns the stamp of one path. It is empty if there is none.
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
