//! The trees that Scribe builds, as far as they pass this node, and the roots of groups to which this node's clients
//! send. [Brogle09 §II]
//!
//! ```text
//!   packet on the edge (from, to):   to is not this node   -> by table, towards `to`
//!                                    to is this node       -> a copy on each other edge, and to the
//!                                                             clients here
//!   packet of a client:  in the tree -> on each edge;  else -> to the root, which is asked for
//!   to is this node, which is not in the tree, since the root has moved:  -> to the root that it knows
//! ```
//! The program that runs Scribe learns from this node in which groups its clients are and which roots are wanted. It
//! reports the edges and roots to the node.
//!
//! When a root moves, packets also go to the old one for [`BOTH`], because the new one may not be the old one's parent
//! yet. Copies that meet are duplicates of their flow.
//!
//! For passing packets, the node remembers by source from where they came: receivers' reports take that path.

use super::SLOTS_MAX;
use base::{Duration, Map, NodeAddr, Time};
use std::collections::VecDeque;

/// The interval at which the node asks again for a root that is in use: it is notified of changes for 30 s.
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// The same for a root that is not known yet: a Scribe that had just begun forgets a request.
const ASK_FOR_FIRST: Duration = Duration::from_secs(1);
/// Maximum number of groups to which this node's clients send from outside the tree.
const ROOTS_MAX: usize = 16_384;

/// How long packets also go to the old root. Choice: the old root learns of the new one by its heart-beat, at most a
/// beat later than the node that asked for the root.
const BOTH: Duration = Duration::from_secs(1);
/// Time without a packet after which passing packets are forgotten.
const PASSED: Duration = Duration::from_secs(60);

/// A task for Scribe on behalf of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    /// Join the group.
    Join(NodeAddr),
    /// Leave the group.
    Leave(NodeAddr),
    /// Find the root of the group.
    Locate(NodeAddr),
}

#[derive(Clone, Copy, Debug)]
struct Root {
    at: Option<NodeAddr>,
    /// The former root, and until when it is served.
    former: Option<(NodeAddr, Time)>,
    asked: Time,
}

#[derive(Clone, Debug)]
struct Edges {
    ends: Box<[NodeAddr]>,
    /// The first end is the parent.
    has_parent: bool,
}

/// Packets of one source to one group that pass a node along a tree of Scribe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passing {
    /// The node of the tree, or the source outside of it, from which the packets arrive; `None` at the source.
    pub upstream: Option<NodeAddr>,
    /// Number of packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When the last packet arrived.
    pub used: Time,
}

/// The edges at this node, and the tasks for Scribe.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    /// The neighbours in each group's tree, by group: nodes, not links.
    edges: Map<NodeAddr, Edges>,
    roots: Map<NodeAddr, Root>,
    /// The packets that pass, by source and group.
    passing: Map<(NodeAddr, NodeAddr), Passing>,
    errands: VecDeque<Errand>,
}

impl Shared {
    /// Returns the node's neighbours in a group's tree; `None` outside the tree.
    #[inline]
    pub fn edges(&self, group: NodeAddr) -> Option<&[NodeAddr]> {
        self.edges.get(&group).map(|edges| &*edges.ends)
    }

    /// Returns the neighbours below this node.
    pub fn children(&self, group: NodeAddr) -> &[NodeAddr] {
        let edges = self.edges.get(&group);
        edges.map_or(&[], |edges| &edges.ends[usize::from(edges.has_parent)..])
    }

    /// Returns the groups whose trees pass this node, in no particular order but the same in every run.
    pub fn groups(&self) -> impl Iterator<Item = NodeAddr> + '_ {
        self.edges.keys().copied()
    }

    /// Sets the edges of a group's tree at this node; without edges and clients the node is not in the tree. The first
    /// edge leads to the parent, if there is one.
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

    /// Returns the root of a group, for a sender outside its tree, and the former root. The node asks for the root from
    /// time to time.
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

    /// Sets the root of a group.
    pub fn set_root(&mut self, now: Time, group: NodeAddr, at: NodeAddr) {
        if let Some(root) = self.roots.get_mut(&group)
            && root.at != Some(at)
        {
            root.former = root.at.map(|former| (former, now + BOTH));
            root.at = Some(at);
        }
    }

    /// Returns true if a packet or a report of a group may come from this node: it is an end of an edge here, or the
    /// root if this node is outside the tree.
    pub fn is_beside(&self, now: Time, group: NodeAddr, node: NodeAddr) -> bool {
        if self.edges(group).is_some_and(|ends| ends.contains(&node)) {
            return true;
        }
        self.roots.get(&group).is_some_and(|root| {
            let former = root.former.filter(|(_, until)| now < *until);
            root.at == Some(node) || former.is_some_and(|(former, _)| former == node)
        })
    }

    /// Notes packets of a source that have arrived or begin here.
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

    /// Returns the passing packets by source and group, in no particular order but the same in every run.
    pub fn passing(&self) -> impl ExactSizeIterator<Item = ((NodeAddr, NodeAddr), Passing)> + '_ {
        self.passing.iter().map(|(of, passing)| (*of, *passing))
    }

    /// Forgets sources and groups whose packets no longer pass. Call it about once per second.
    pub fn expire(&mut self, now: Time) {
        self.passing
            .retain(|_, passing| now.since(passing.used) < PASSED);
    }

    /// Adds a task for Scribe.
    pub fn ask(&mut self, errand: Errand) {
        self.errands.push_back(errand);
    }

    /// Returns the next task for Scribe.
    pub fn next_errand(&mut self) -> Option<Errand> {
        self.errands.pop_front()
    }

    /// Forgets everything: Scribe has ended.
    pub fn clear(&mut self) {
        *self = Shared::default();
    }

    /// Returns how many trees pass this node.
    pub fn len(&self) -> usize {
        self.edges.len()
    }

    /// Returns true if no tree passes this node.
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
