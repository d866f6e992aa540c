//! A group that a node is in, and the digest of many groups.
//!
//! An entry is small, because there are many. The children are one sorted slice on the heap, which is absent in the
//! usual case of a member without children. The parent is an address, 0 for none.

use crate::id::Id;
use base::NodeAddr;

/// The state of one group at a node: 24 bytes, and 4 for each child.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    children: Box<[NodeAddr]>,
    parent: NodeAddr,
    pub(crate) is_member: bool,
}

const _: () = assert!(size_of::<Tree>() <= 24);

impl Tree {
    pub(crate) fn parent(&self) -> Option<NodeAddr> {
        (self.parent.0 != 0).then_some(self.parent)
    }
    pub(crate) fn set_parent(&mut self, parent: Option<NodeAddr>) {
        self.parent = parent.unwrap_or_default();
    }
    pub(crate) fn children(&self) -> &[NodeAddr] {
        &self.children
    }
    pub(crate) fn has_child(&self, child: NodeAddr) -> bool {
        self.children.binary_search(&child).is_ok()
    }

    /// Adds a child. Returns false if it is already there.
    pub(crate) fn add_child(&mut self, child: NodeAddr) -> bool {
        let Err(place) = self.children.binary_search(&child) else {
            return false;
        };
        let mut children = Vec::with_capacity(self.children.len() + 1);
        children.extend_from_slice(&self.children[..place]);
        children.push(child);
        children.extend_from_slice(&self.children[place..]);
        self.children = children.into_boxed_slice();
        true
    }

    /// Removes a child. Returns false if it is not there.
    pub(crate) fn remove_child(&mut self, child: NodeAddr) -> bool {
        let Ok(place) = self.children.binary_search(&child) else {
            return false;
        };
        let mut children = core::mem::take(&mut self.children).into_vec();
        children.remove(place);
        self.children = children.into_boxed_slice();
        true
    }

    /// Returns whether the node must be in the tree: it is a member or has children.
    pub(crate) fn is_needed(&self) -> bool {
        self.is_member || !self.children.is_empty()
    }
}

/// The digest of a set of groups. Equal sets have equal digests; different sets have different ones, except with a
/// probability of one in 2^64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) count: u32,
    pub(crate) digest: u64,
}

impl Share {
    pub(crate) fn add(&mut self, group: NodeAddr) {
        self.count += 1;
        self.digest ^= Id::of_group(group).0 as u64;
    }
    pub(crate) fn remove(&mut self, group: NodeAddr) {
        self.count -= 1;
        self.digest ^= Id::of_group(group).0 as u64;
    }
    pub(crate) fn of(groups: impl Iterator<Item = NodeAddr>) -> Share {
        let mut share = Share::default();
        groups.for_each(|group| share.add(group));
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn children_are_a_sorted_set(steps in prop::collection::vec((1u32..12, any::<bool>()), 0..60)) {
            let mut tree = Tree::default();
            let mut model = BTreeSet::new();
            let mut share = Share::default();
            for (n, adds) in steps {
                let child = NodeAddr(n);
                if adds {
                    let new = model.insert(child);
                    prop_assert_eq!(tree.add_child(child), new);
                    if new { share.add(child); }
                } else {
                    let old = model.remove(&child);
                    prop_assert_eq!(tree.remove_child(child), old);
                    if old { share.remove(child); }
                }
                prop_assert!(tree.children().iter().eq(&model));
                prop_assert_eq!(tree.is_needed(), !model.is_empty());
                prop_assert!((0..12).all(|n| tree.has_child(NodeAddr(n)) == model.contains(&NodeAddr(n))));
                prop_assert_eq!(share, Share::of(model.iter().copied()));
            }
        }
    }
}
