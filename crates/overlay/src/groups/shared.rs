//! The trees that Scribe builds, as far as they pass this node, and the roots of groups to which
//! this node's clients send. [Brogle09 §II]
//!
//! ```text
//!   packet on the edge (from, to):   to is not this node   -> by table, towards `to`
//!                                    to is this node       -> a copy on each other edge, and to the
//!                                                             clients here
//!   packet of a client:  in the tree -> on each edge;  else -> to the root, which is asked for
//! ```
//! Who runs Scribe is told which groups this node's clients are in, and whose root is wanted; it
//! tells the edges and roots.

use base::{Duration, Map, NodeAddr, Time};
use std::collections::VecDeque;

/// A root that is in use is asked for again so often: it is told of changes for 30 s.
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// Groups outside of whose trees this node's clients send.
const ROOTS_MAX: usize = 16_384;

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
    asked: Time,
}

/// The edges at this node, and what is asked of Scribe.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    /// By group, the neighbours in its tree: nodes, not links.
    edges: Map<NodeAddr, Box<[NodeAddr]>>,
    roots: Map<NodeAddr, Root>,
    errands: VecDeque<Errand>,
}

impl Shared {
    /// The node's neighbours in a group's tree; none outside of it.
    #[inline]
    pub fn edges(&self, group: NodeAddr) -> Option<&[NodeAddr]> {
        self.edges.get(&group).map(|edges| &**edges)
    }

    /// The tree of a group is now so from here; without edges and client the node is not in it.
    pub fn set_edges(&mut self, group: NodeAddr, edges: Vec<NodeAddr>, is_in_tree: bool) {
        match is_in_tree {
            true => drop(self.edges.insert(group, edges.into())),
            false => drop(self.edges.remove(&group)),
        }
    }

    /// The root of a group, for a sender outside of its tree; it is asked for now and then.
    pub fn root(&mut self, now: Time, group: NodeAddr) -> Option<NodeAddr> {
        if !self.roots.contains_key(&group) && self.roots.len() >= ROOTS_MAX {
            self.roots
                .retain(|_, root| now.since(root.asked) < ASK_AGAIN);
            if self.roots.len() >= ROOTS_MAX {
                return None;
            }
        }
        let asked = Time::ZERO;
        let root = self.roots.entry(group).or_insert(Root { at: None, asked });
        if root.asked == Time::ZERO || now.since(root.asked) >= ASK_AGAIN {
            root.asked = now;
            self.errands.push_back(Errand::Locate(group));
        }
        root.at
    }

    /// Where the root of a group is.
    pub fn set_root(&mut self, group: NodeAddr, at: NodeAddr) {
        if let Some(root) = self.roots.get_mut(&group) {
            root.at = Some(at);
        }
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
