//! The trees that Scribe builds, as far as they pass this node, and the roots of groups to which
//! this node's clients send. [Brogle09 §II]
//!
//! ```text
//!   packet on the edge (from, to):   to is not this node   -> by table, towards `to`
//!                                    to is this node       -> a copy on each other edge, and to the
//!                                                             clients here
//!   packet of a client:  in the tree -> on each edge;  else -> to the root, which is asked for
//!   to is this node, which is not in the tree, since the root has moved:  -> to the root that it knows
//! ```
//! Who runs Scribe is told which groups this node's clients are in, and whose root is wanted; it
//! tells the edges and roots.
//!
//! When a root moves, packets go to the old one as well for [`BOTH`]: the new one may not be the old
//! one's parent yet. Copies that meet are duplicates of their flow.
//!
//! Of what passes, it is remembered by source from where it came: the way of receivers' reports.

use super::SLOTS_MAX;
use base::{Duration, Map, NodeAddr, Time};
use std::collections::VecDeque;

/// A root that is in use is asked for again so often: it is told of changes for 30 s.
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// And one that is not known yet so often: what was asked of a Scribe that had just begun is forgotten.
const ASK_FOR_FIRST: Duration = Duration::from_secs(1);
/// Groups outside of whose trees this node's clients send.
const ROOTS_MAX: usize = 16_384;

/// How long packets go to the old root as well. Choice: the old root learns of the new one by its
/// heart-beat, at most a beat later than whoever asked for the root.
const BOTH: Duration = Duration::from_secs(1);
/// What passes here is forgotten after so long without a packet.
const PASSED: Duration = Duration::from_secs(60);

/// What Scribe is to do for this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    /// Be in the group.
    Join(NodeAddr),
    /// Be in it no longer.
    Leave(NodeAddr),
    /// Find its root.
    Locate(NodeAddr),
}

#[derive(Clone, Copy, Debug)]
struct Root {
    at: Option<NodeAddr>,
    /// The one before, and until when it is served.
    former: Option<(NodeAddr, Time)>,
    asked: Time,
}

#[derive(Clone, Debug)]
struct Edges {
    ends: Box<[NodeAddr]>,
    /// The first end is the parent.
    has_parent: bool,
}

/// Packets of one source to one group, as they pass a node along a tree of Scribe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passing {
    /// The node of the tree, or the source outside of it, that they come from; none where they begin.
    pub upstream: Option<NodeAddr>,
    /// How many.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When the last one came.
    pub used: Time,
}

/// The edges at this node, and what is asked of Scribe.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    /// By group, the neighbours in its tree: nodes, not links.
    edges: Map<NodeAddr, Edges>,
    roots: Map<NodeAddr, Root>,
    /// By source and group.
    passing: Map<(NodeAddr, NodeAddr), Passing>,
    errands: VecDeque<Errand>,
}

impl Shared {
    /// The node's neighbours in a group's tree; none outside of it.
    #[inline]
    pub fn edges(&self, group: NodeAddr) -> Option<&[NodeAddr]> {
        self.edges.get(&group).map(|edges| &*edges.ends)
    }

    /// Those that are below this one.
    pub fn children(&self, group: NodeAddr) -> &[NodeAddr] {
        let edges = self.edges.get(&group);
        edges.map_or(&[], |edges| &edges.ends[usize::from(edges.has_parent)..])
    }

    /// The groups whose trees pass this node, in no particular order but the same in every run.
    pub fn groups(&self) -> impl Iterator<Item = NodeAddr> + '_ {
        self.edges.keys().copied()
    }

    /// The tree of a group is now so from here; without edges and client the node is not in it.
    /// The first edge leads to the parent, if there is one.
    pub fn set_edges(
        &mut self,
        group: NodeAddr,
        (ends, has_parent): (Vec<NodeAddr>, bool),
        is_in_tree: bool,
    ) {
        let has_parent = has_parent && !ends.is_empty();
        let ends = ends.into();
        match is_in_tree {
            true => drop(self.edges.insert(group, Edges { ends, has_parent })),
            false => drop(self.edges.remove(&group)),
        }
    }

    /// The root of a group, for a sender outside of its tree, and the one before; it is asked for
    /// now and then.
    pub fn roots(&mut self, now: Time, group: NodeAddr) -> [Option<NodeAddr>; 2] {
        if !self.roots.contains_key(&group) && self.roots.len() >= ROOTS_MAX {
            self.roots
                .retain(|_, root| now.since(root.asked) < ASK_AGAIN);
            if self.roots.len() >= ROOTS_MAX {
                return [None; 2];
            }
        }
        let root = self.roots.entry(group).or_insert(Root {
            at: None,
            former: None,
            asked: Time::ZERO,
        });
        let wait = match root.at {
            Some(_) => ASK_AGAIN,
            None => ASK_FOR_FIRST,
        };
        if root.asked == Time::ZERO || now.since(root.asked) >= wait {
            root.asked = now;
            self.errands.push_back(Errand::Locate(group));
        }
        let former = root.former.filter(|(_, until)| now < *until);
        [root.at, former.map(|(former, _)| former)]
    }

    /// Where the root of a group is.
    pub fn set_root(&mut self, now: Time, group: NodeAddr, at: NodeAddr) {
        if let Some(root) = self.roots.get_mut(&group)
            && root.at != Some(at)
        {
            root.former = root.at.map(|former| (former, now + BOTH));
            root.at = Some(at);
        }
    }

    /// A node that a packet of a group may come from, or a report: an end of an edge here, or the
    /// root for who is outside of the tree.
    pub fn is_beside(&self, now: Time, group: NodeAddr, node: NodeAddr) -> bool {
        if self.edges(group).is_some_and(|ends| ends.contains(&node)) {
            return true;
        }
        self.roots.get(&group).is_some_and(|root| {
            let former = root.former.filter(|(_, until)| now < *until);
            root.at == Some(node) || former.is_some_and(|(former, _)| former == node)
        })
    }

    /// Packets of a source have come, or begin here.
    pub fn on_passing(
        &mut self,
        now: Time,
        of: (NodeAddr, NodeAddr),
        upstream: Option<NodeAddr>,
        (packets, bytes): (u64, u64),
    ) {
        if !self.passing.contains_key(&of) && self.passing.len() >= SLOTS_MAX {
            return;
        }
        let passing = self.passing.entry(of).or_insert(Passing {
            upstream,
            packets: 0,
            bytes: 0,
            used: now,
        });
        passing.upstream = upstream;
        passing.packets += packets;
        passing.bytes += bytes;
        passing.used = now;
    }

    /// What passes here, by source and group, in no particular order but the same in every run.
    pub fn passing(&self) -> impl ExactSizeIterator<Item = ((NodeAddr, NodeAddr), Passing)> + '_ {
        self.passing.iter().map(|(of, passing)| (*of, *passing))
    }

    /// Forgets what passes no more. Call it about once per second.
    pub fn expire(&mut self, now: Time) {
        self.passing
            .retain(|_, passing| now.since(passing.used) < PASSED);
    }

    /// Asks something of Scribe.
    pub fn ask(&mut self, errand: Errand) {
        self.errands.push_back(errand);
    }

    /// The next thing that is asked of Scribe.
    pub fn next_errand(&mut self) -> Option<Errand> {
        self.errands.pop_front()
    }

    /// Forgets everything: Scribe has ended.
    pub fn clear(&mut self) {
        *self = Shared::default();
    }

    /// How many trees pass this node.
    pub fn len(&self) -> usize {
        self.edges.len()
    }

    /// No tree passes this node.
    pub fn is_empty(&self) -> bool {
        self.edges.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: NodeAddr = NodeAddr(0xefc0_0001);

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_secs(100) + Duration::from_millis(ms)
    }

    #[test]
    fn a_root_that_moves_is_served_beside_the_new_one_for_a_while() {
        let (a, b) = (NodeAddr(1), NodeAddr(2));
        let mut shared = Shared::default();
        assert_eq!(shared.roots(at(0), GROUP), [None, None]);
        assert_eq!(shared.next_errand(), Some(Errand::Locate(GROUP)));
        shared.set_root(at(10), GROUP, a);
        assert_eq!(shared.roots(at(10), GROUP), [Some(a), None]);
        shared.set_root(at(20), GROUP, a);
        assert_eq!(shared.roots(at(20), GROUP), [Some(a), None]);
        shared.set_root(at(1_000), GROUP, b);
        assert_eq!(shared.roots(at(1_999), GROUP), [Some(b), Some(a)]);
        assert!(shared.is_beside(at(1_999), GROUP, a));
        assert_eq!(shared.roots(at(2_000), GROUP), [Some(b), None]);
        assert!(!shared.is_beside(at(2_000), GROUP, a));
        assert_eq!(shared.next_errand(), None, "not asked for again so soon");
    }

    #[test]
    fn children_are_the_ends_without_the_parent() {
        let ends = vec![NodeAddr(9), NodeAddr(2), NodeAddr(3)];
        let mut shared = Shared::default();
        shared.set_edges(GROUP, (ends.clone(), true), true);
        assert_eq!(shared.children(GROUP), &ends[1..]);
        shared.set_edges(GROUP, (ends.clone(), false), true);
        assert_eq!(shared.children(GROUP), &ends[..]);
        shared.set_edges(GROUP, (Vec::new(), true), true);
        assert!(shared.children(GROUP).is_empty() && shared.edges(GROUP).is_some());
        shared.set_edges(GROUP, (Vec::new(), false), false);
        assert!(shared.children(GROUP).is_empty() && shared.edges(GROUP).is_none());
    }

    #[test]
    fn what_passes_is_bounded_and_forgotten() {
        let mut shared = Shared::default();
        let source = |n: usize| (NodeAddr(n as u32), GROUP);
        for n in 0..SLOTS_MAX + 5 {
            shared.on_passing(at(0), source(n), None, (1, 100));
        }
        assert_eq!(shared.passing().len(), SLOTS_MAX);
        shared.on_passing(at(59_000), source(7), Some(NodeAddr(9)), (2, 200));
        shared.expire(at(60_000));
        let all: Vec<_> = shared.passing().collect();
        let passing = Passing {
            upstream: Some(NodeAddr(9)),
            packets: 3,
            bytes: 300,
            used: at(59_000),
        };
        assert_eq!(all, [(source(7), passing)]);
    }
}
