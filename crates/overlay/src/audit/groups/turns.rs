//! Members whose path in the tree has changed. A relay on the new path may drop packets, and questions need a second to
//! find this out. Until then the member gets copies ([`super::super::trial`]): they go by the path before and by the
//! new one, or around what this node already suspects.
//!
//! Choice: a member gets copies only if a place for them is free, and within the limit for copies of trials. The
//! reason: if the tables of a source with many members change, the paths to all of them may change at once.

use super::{COPIED_GROUPS_MAX, COPIED_MAX, GroupAudits};
use base::{Duration, Map, NodeAddr, Time};

/// The paths of a group are checked again after this time for each member. Choice: every record of any node changes the
/// tables, and to check one path takes a microsecond or two. With this limit, all members together are checked ten
/// times a second, and a few members at once: packets that a hole drops until then are lost.
const LOOK_AGAIN: Duration = Duration::from_micros(25);

impl GroupAudits {
    /// Returns whether the tables differ from those by which the paths of this group were last determined, and the
    /// paths may be checked again. If so, it notes the new tables.
    #[inline]
    pub(crate) fn have_turned(&mut self, now: Time, group: NodeAddr, tables: Option<u64>) -> bool {
        let Some(audit) = self.groups.get_mut(&group) else {
            return false;
        };
        let (known, looked) = audit.tables;
        let rest = LOOK_AGAIN * audit.members.len() as u64;
        let has_turned = known != tables && now.since(looked) >= rest;
        if has_turned {
            audit.tables = (tables, now);
        }
        has_turned
    }

    /// Returns the members of a group to which the tree takes a path with relays, with that path.
    pub(crate) fn paths(&self, group: NodeAddr) -> Vec<(NodeAddr, Vec<NodeAddr>)> {
        let members = self.groups.get(&group).into_iter();
        let members = members.flat_map(|audit| &audit.members);
        let led = members.filter(|(_, member)| !member.path.is_empty());
        led.map(|(node, member)| (*node, member.path.clone()))
            .collect()
    }

    /// Notes that the tree takes another path to a member from now on. The member gets copies if `is_doubtful` is true
    /// and there is a place.
    pub(crate) fn turn(
        &mut self,
        now: Time,
        (group, node): (NodeAddr, NodeAddr),
        path: Vec<NodeAddr>,
        is_doubtful: bool,
    ) {
        let has_place = is_doubtful && self.has_place(node);
        let audit = self.groups.get_mut(&group);
        let Some(member) = audit.and_then(|audit| audit.members.get_mut(&node)) else {
            return;
        };
        member.is_elsewhere(now, path);
        if has_place && member.copied.is_none() {
            member.introduce(now);
            self.settle(group);
        }
    }

    /// Returns whether a member gets copies only because its path is new.
    pub(crate) fn is_introduced(&self, group: NodeAddr, node: NodeAddr) -> bool {
        let audit = self.groups.get(&group);
        let member = audit.and_then(|audit| audit.members.get(&node));
        member.is_some_and(super::Member::is_introduced)
    }

    /// Returns whether a node may get copies of one more group without taking the place of another node.
    fn has_place(&self, node: NodeAddr) -> bool {
        let mut places: Map<NodeAddr, usize> = Map::default();
        for copied in self.groups.values().flat_map(|audit| &audit.copied) {
            *places.entry(*copied).or_default() += 1;
        }
        match places.get(&node) {
            Some(groups) => *groups < COPIED_GROUPS_MAX,
            None => places.len() < COPIED_MAX,
        }
    }
}
