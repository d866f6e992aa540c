//! Members whose path in the tree has changed, or whose second way has ended. A relay on the path may drop packets, and
//! questions need a second to find this out. Until then the member gets copies ([`super::super::trial`]): they go by the
//! path before and by the new one, or around what this node already suspects.
//!
//! Choice: a member gets copies only if a place for them is free, and within the limit for copies of trials. The
//! reason: if the tables of a source with many members change, the paths to all of them may change at once.

use super::{COPIED_GROUPS_MAX, COPIED_MAX, GroupAudits};
use base::{Duration, Map, NodeAddr, Time};

/// The paths of a group are checked again after this time for each member. Choice: every record of any node changes the
/// tables, and to check one path takes a microsecond or two. With this limit, all members together are checked ten
/// times a second, and a few members at once: packets that a hole drops until then are lost.
const LOOK_AGAIN: Duration = Duration::from_micros(25);

/// What the paths to the members of a group follow from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// The generation of the tables.
    pub(crate) tables: Option<u64>,
    /// How often the group's second ways were determined ([`crate::groups::Slot::looks`]).
    pub(crate) looks: u32,
}

/// The way of packets to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The nodes of the tree's path.
    pub(crate) path: Vec<NodeAddr>,
    /// Packets take a second way as well.
    pub(crate) has_second: bool,
}

impl GroupAudits {
    /// Returns whether the paths of this group were last determined by something else, and may be determined again. If
    /// so, it notes what is known now.
    #[inline]
    pub(crate) fn have_turned(&mut self, now: Time, group: NodeAddr, known: Known) -> bool {
        let Some(audit) = self.groups.get_mut(&group) else {
            return false;
        };
        let (before, looked) = audit.known;
        let rest = LOOK_AGAIN * audit.members.len() as u64;
        let has_turned = before != Some(known) && now.since(looked) >= rest;
        if has_turned {
            audit.known = (Some(known), now);
        }
        has_turned
    }

    /// Returns the members of a group to which the tree takes a path with relays, and the way of packets to them.
    pub(crate) fn paths(&self, group: NodeAddr) -> Vec<(NodeAddr, Turn)> {
        let members = self.groups.get(&group).into_iter();
        let members = members.flat_map(|audit| &audit.members);
        let led = members.filter(|(_, member)| !member.path.is_empty());
        let turn = |member: &super::Member| Turn {
            path: member.path.clone(),
            has_second: member.has_second,
        };
        led.map(|(node, member)| (*node, turn(member))).collect()
    }

    /// Notes that packets take another way to a member from now on. The member gets copies if `is_doubtful` is true and
    /// there is a place.
    pub(crate) fn turn(
        &mut self,
        now: Time,
        (group, node): (NodeAddr, NodeAddr),
        turn: Turn,
        is_doubtful: bool,
    ) {
        let has_place = is_doubtful && self.has_place(node);
        let audit = self.groups.get_mut(&group);
        let Some(member) = audit.and_then(|audit| audit.members.get_mut(&node)) else {
            return;
        };
        member.is_elsewhere(now, turn.path);
        member.set_second(now, turn.has_second);
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
