//! Which nodes are in which group, as their records say.

use super::Permits;
use base::NodeAddr;
use std::collections::{BTreeMap, BTreeSet};
use wire::groups::{Groups, Setting, TreeBuilder, mask};
use wire::record::Key;

type Range = (NodeAddr, u8);

/// All groups of the network that are told by records.
#[derive(Clone, Debug, Default)]
pub struct Membership {
    /// In order of address; a node stands here once for each of its parts that names the group.
    members: BTreeMap<NodeAddr, Vec<NodeAddr>>,
    /// By range (first group, length of what they have in common) and who said so.
    settings: BTreeMap<Range, BTreeMap<NodeAddr, Setting>>,
    /// The lengths in use, the longest first.
    prefixes: Vec<u8>,
    settings_changed: bool,
    changed: BTreeSet<NodeAddr>,
    permits: Permits,
}

impl Membership {
    /// The members of a group, in order of address.
    pub fn members(&self, group: NodeAddr) -> impl Iterator<Item = NodeAddr> + Clone + '_ {
        let all = self.members.get(&group).map_or(&[][..], Vec::as_slice);
        let is_first = |&i: &usize| i == 0 || all[i - 1] != all[i];
        (0..all.len()).filter(is_first).map(|i| all[i])
    }

    /// A node is among them.
    pub fn is_member(&self, node: NodeAddr, group: NodeAddr) -> bool {
        let all = self.members.get(&group);
        all.is_some_and(|all| all.binary_search(&node).is_ok())
    }

    /// Those of them who may receive what is sent to the group.
    pub fn receivers(&self, group: NodeAddr) -> impl Iterator<Item = NodeAddr> + Clone + '_ {
        let may = move |member: &NodeAddr| self.permits.may_receive(*member, group);
        self.members(group).filter(may)
    }

    /// Who may send to groups, and who may receive.
    #[inline]
    pub fn permits(&self) -> &Permits {
        &self.permits
    }

    pub(crate) fn permits_mut(&mut self) -> &mut Permits {
        &mut self.permits
    }

    /// All groups that have members, in order of address.
    pub fn groups(&self) -> impl Iterator<Item = NodeAddr> + '_ {
        self.members.keys().copied()
    }

    /// How a group is to be carried: of what the nodes say, that with the highest version.
    #[inline]
    pub fn setting(&self, group: NodeAddr) -> Option<Setting> {
        if self.settings.is_empty() {
            return None;
        }
        self.said(group).map(|(_, setting)| setting)
    }

    /// The same, and who has said so.
    pub fn said(&self, group: NodeAddr) -> Option<(NodeAddr, Setting)> {
        let base = |prefix: &u8| (NodeAddr(group.0 & mask(*prefix)), *prefix);
        let said = self.prefixes.iter().map(base);
        let said = said.filter_map(|range| self.settings.get(&range)).next()?;
        best_of(said)
    }

    /// The same of a range itself.
    pub fn said_of(&self, group: NodeAddr, prefix: u8) -> Option<(NodeAddr, Setting)> {
        best_of(self.settings.get(&(group, prefix))?)
    }

    /// All settings that count, and who has said so, in order of address.
    pub fn settings(&self) -> impl Iterator<Item = (NodeAddr, Setting)> + '_ {
        self.settings.values().filter_map(best_of)
    }

    /// Scribe builds the trees of some groups.
    pub fn wants_scribe(&self) -> bool {
        let mut settings = self.settings();
        settings.any(|(_, setting)| setting.tree == TreeBuilder::Scribe)
    }

    /// Settings have changed since the last call.
    pub fn take_settings_changed(&mut self) -> bool {
        core::mem::take(&mut self.settings_changed)
    }

    /// The groups that have changed since the last call.
    pub fn take_changed(&mut self) -> BTreeSet<NodeAddr> {
        core::mem::take(&mut self.changed)
    }

    /// Takes in a part of a node's groups; `before` is the body of the edition that it replaces,
    /// `now` is none when it is gone.
    pub(crate) fn follow(&mut self, key: Key, before: Option<&[u8]>, now: Option<&Groups<'_>>) {
        // It was read before, so it can be read again.
        let before = before.and_then(|body| Groups::parse(key.kind, body).ok());
        let members = |groups: Option<&Groups<'_>>| -> BTreeSet<NodeAddr> {
            groups.iter().flat_map(|groups| groups.members()).collect()
        };
        let (old, new) = (members(before.as_ref()), members(now));
        for group in old.difference(&new) {
            self.remove(*group, key.origin);
        }
        for group in new.difference(&old) {
            let members = self.members.entry(*group).or_default();
            let place = members.partition_point(|member| *member < key.origin);
            members.insert(place, key.origin);
            self.changed.insert(*group);
        }
        for setting in before.iter().flat_map(Groups::settings) {
            let range = (setting.group, setting.prefix);
            if let Some(said) = self.settings.get_mut(&range) {
                said.remove(&key.origin);
                if said.is_empty() {
                    self.settings.remove(&range);
                }
            }
            self.settings_changed = true;
        }
        for setting in now.into_iter().flat_map(Groups::settings) {
            let range = (setting.group, setting.prefix);
            let said = self.settings.entry(range).or_default();
            said.insert(key.origin, setting);
            self.settings_changed = true;
        }
        let permits = now.into_iter().flat_map(Groups::permits);
        self.permits.follow((key.origin, key.kind), permits);
        if self.settings_changed {
            self.prefixes = self.settings.keys().map(|(_, prefix)| *prefix).collect();
            self.prefixes
                .sort_unstable_by_key(|prefix| core::cmp::Reverse(*prefix));
            self.prefixes.dedup();
        }
    }

    fn remove(&mut self, group: NodeAddr, member: NodeAddr) {
        if let Some(members) = self.members.get_mut(&group) {
            if let Ok(place) = members.binary_search(&member) {
                members.remove(place);
            }
            if members.is_empty() {
                self.members.remove(&group);
            }
        }
        self.changed.insert(group);
    }
}

/// What counts of what some nodes say: the highest version.
fn best_of(said: &BTreeMap<NodeAddr, Setting>) -> Option<(NodeAddr, Setting)> {
    let best = said.iter().max_by_key(|(who, s)| (s.version, **who));
    best.map(|(who, setting)| (*who, *setting))
}
