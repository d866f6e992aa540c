//! The members of each group, as the records of nodes report them, and the settings that say how groups are carried.
//!
//! ```text
//!   setting of any node ──flooding──▶ said ──┐
//!   its certificate: rights ─────────────────┴──▶ counts? ──▶ of those that count the highest version
//! ```
//! Any node may be a member, but a setting is valid only if the certificate of the node that has made it covers its
//! groups. Invalid settings are kept: a later certificate may cover them.

use super::Permits;
use base::NodeAddr;
use std::collections::{BTreeMap, BTreeSet};
use wire::certificate::{Certificate, GroupRange};
use wire::groups::{Groups, Setting, TreeBuilder, mask};
use wire::record::Key;

type Range = (NodeAddr, u8);

/// A setting that a node has announced.
#[derive(Clone, Copy, Debug)]
struct Said {
    setting: Setting,
    /// The node's certificate covers the setting.
    counts: bool,
}

/// All groups of the network that records report.
#[derive(Clone, Debug, Default)]
pub struct Membership {
    /// The members of each group, in order of address. A node is listed once for each of its parts that names the
    /// group.
    members: BTreeMap<NodeAddr, Vec<NodeAddr>>,
    /// Settings by range (first group, length of the common prefix) and by the node that announced them.
    settings: BTreeMap<Range, BTreeMap<NodeAddr, Said>>,
    /// The prefix lengths in use, the longest first.
    prefixes: Vec<u8>,
    settings_changed: bool,
    carriage_changed: bool,
    /// Nodes with invalid settings or permits that have already been reported.
    known_ignored: BTreeSet<NodeAddr>,
    changed: BTreeSet<NodeAddr>,
    permits: Permits,
}

impl Membership {
    /// Returns the members of a group, in order of address.
    pub fn members(&self, group: NodeAddr) -> impl Iterator<Item = NodeAddr> + Clone + '_ {
        let all = self.members.get(&group).map_or(&[][..], Vec::as_slice);
        let is_first = |&i: &usize| i == 0 || all[i - 1] != all[i];
        (0..all.len()).filter(is_first).map(|i| all[i])
    }

    /// Returns true if a node is a member of the group.
    pub fn is_member(&self, node: NodeAddr, group: NodeAddr) -> bool {
        let all = self.members.get(&group);
        all.is_some_and(|all| all.binary_search(&node).is_ok())
    }

    /// Returns the members that may receive what is sent to the group.
    pub fn receivers(&self, group: NodeAddr) -> impl Iterator<Item = NodeAddr> + Clone + '_ {
        let may = move |member: &NodeAddr| self.permits.may_receive(*member, group);
        self.members(group).filter(may)
    }

    /// Returns who may send to groups, and who may receive.
    #[inline]
    pub fn permits(&self) -> &Permits {
        &self.permits
    }

    pub(crate) fn permits_mut(&mut self) -> &mut Permits {
        &mut self.permits
    }

    /// Returns all groups that have members, in order of address.
    pub fn groups(&self) -> impl Iterator<Item = NodeAddr> + '_ {
        self.members.keys().copied()
    }

    /// Returns how a group is to be carried: the valid setting with the highest version.
    #[inline]
    pub fn setting(&self, group: NodeAddr) -> Option<Setting> {
        if self.settings.is_empty() {
            return None;
        }
        self.said(group).map(|(_, setting)| setting)
    }

    /// Returns this setting, and the node that has announced it.
    pub fn said(&self, group: NodeAddr) -> Option<(NodeAddr, Setting)> {
        let base = |prefix: &u8| (NodeAddr(group.0 & mask(*prefix)), *prefix);
        let said = self.prefixes.iter().map(base);
        let mut said = said.filter_map(|range| best_of(self.settings.get(&range)?));
        said.next()
    }

    /// The same for a range itself.
    pub fn said_of(&self, group: NodeAddr, prefix: u8) -> Option<(NodeAddr, Setting)> {
        best_of(self.settings.get(&(group, prefix))?)
    }

    /// Returns the protocol that builds the tree of a group. Anycast groups have no tree.
    pub fn builder(&self, group: NodeAddr) -> TreeBuilder {
        let setting = self.setting(group).filter(|_| group.is_multicast());
        setting.map_or(TreeBuilder::LinkState, |setting| setting.tree)
    }

    /// Returns all valid settings, with the nodes that have announced them, in order of address.
    pub fn settings(&self) -> impl Iterator<Item = (NodeAddr, Setting)> + '_ {
        self.settings.values().filter_map(best_of)
    }

    /// Returns the settings and permits that are invalid because the nodes that announce them have no right to do so:
    /// the node, and the group or range.
    pub fn ignored(&self) -> impl Iterator<Item = (NodeAddr, Range)> + '_ {
        let settings = self.settings.iter().flat_map(|(range, said)| {
            let ignored = said.iter().filter(|(_, said)| !said.counts);
            ignored.map(|(who, _)| (*who, *range))
        });
        settings.chain(self.permits.ignored())
    }

    /// Returns the nodes that announce something without the right to do so and did not at the last call, each with one
    /// group or range.
    pub(crate) fn newly_ignored(&mut self) -> BTreeMap<NodeAddr, Range> {
        let now: BTreeMap<NodeAddr, Range> = self.ignored().collect();
        let before = core::mem::replace(&mut self.known_ignored, now.keys().copied().collect());
        let is_new = |(who, _): &(NodeAddr, Range)| !before.contains(who);
        now.into_iter().filter(is_new).collect()
    }

    /// Returns true if Scribe builds the trees of some groups.
    pub fn wants_scribe(&self) -> bool {
        let mut settings = self.settings();
        settings.any(|(_, setting)| setting.tree == TreeBuilder::Scribe)
    }

    /// Returns true if how some groups are carried has changed since the last call.
    pub fn take_carriage_changed(&mut self) -> bool {
        core::mem::take(&mut self.carriage_changed)
    }

    /// Returns true if settings, or the nodes that announce them, have changed since the last call.
    pub fn take_settings_changed(&mut self) -> bool {
        core::mem::take(&mut self.settings_changed)
    }

    /// Returns the groups that have changed since the last call.
    pub fn take_changed(&mut self) -> BTreeSet<NodeAddr> {
        core::mem::take(&mut self.changed)
    }

    /// A node has another certificate, or no known one.
    pub(crate) fn on_certificate(&mut self, node: NodeAddr, now: Option<&Certificate<'_>>) {
        self.permits.on_names_changed();
        for (range, said) in &mut self.settings {
            if let Some(said) = said.get_mut(&node) {
                let counts = may_set(now, *range);
                self.settings_changed |= said.counts != counts;
                self.carriage_changed |= said.counts != counts;
                said.counts = counts;
            }
        }
    }

    /// Takes in a part of a node's groups. `before` is the body of the edition that it replaces; `now` is `None` when
    /// the part has gone. What the part says about how groups are carried is valid as far as the node's certificate
    /// covers it.
    pub(crate) fn follow(
        &mut self,
        key: Key,
        before: Option<&[u8]>,
        now: Option<&Groups<'_>>,
        certificate: Option<&Certificate<'_>>,
    ) {
        // The record was parsed before, so it can be parsed again.
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
        let said_of = |groups: Option<&Groups<'_>>| -> Vec<Setting> {
            groups.into_iter().flat_map(Groups::settings).collect()
        };
        let (unsaid, said) = (said_of(before.as_ref()), said_of(now));
        let ranges: BTreeSet<Range> = unsaid.iter().chain(&said).map(range_of).collect();
        let counted = self.counted(&ranges);
        for setting in unsaid {
            let range = range_of(&setting);
            if let Some(said) = self.settings.get_mut(&range) {
                said.remove(&key.origin);
                if said.is_empty() {
                    self.settings.remove(&range);
                }
            }
            self.settings_changed = true;
        }
        for setting in said {
            let range = range_of(&setting);
            let said = self.settings.entry(range).or_default();
            let counts = may_set(certificate, range);
            said.insert(key.origin, Said { setting, counts });
            self.settings_changed = true;
        }
        self.carriage_changed |= counted != self.counted(&ranges);
        let permits = now.into_iter().flat_map(Groups::permits);
        self.permits.follow((key.origin, key.kind), permits);
        if self.settings_changed {
            self.prefixes = self.settings.keys().map(|(_, prefix)| *prefix).collect();
            self.prefixes
                .sort_unstable_by_key(|prefix| core::cmp::Reverse(*prefix));
            self.prefixes.dedup();
        }
    }

    /// Returns the valid setting for each of these ranges.
    fn counted(&self, ranges: &BTreeSet<Range>) -> Vec<Option<Setting>> {
        let of = |range| Some(best_of(self.settings.get(range)?)?.1);
        ranges.iter().map(of).collect()
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

/// Returns the groups that a setting applies to.
fn range_of(setting: &Setting) -> Range {
    (setting.group, setting.prefix)
}

/// Returns the setting in force: the highest version from the nodes that may announce it.
fn best_of(said: &BTreeMap<NodeAddr, Said>) -> Option<(NodeAddr, Setting)> {
    let said = said.iter().filter(|(_, said)| said.counts);
    let best = said.max_by_key(|(who, said)| (said.setting.version, **who));
    best.map(|(who, said)| (*who, said.setting))
}

/// Returns true if the certificate allows its node to set these groups. A node without a known certificate may set
/// nothing.
pub(super) fn may_set(certificate: Option<&Certificate<'_>>, (group, prefix): Range) -> bool {
    let range = GroupRange::new(group, prefix);
    certificate.is_some_and(|own| range.is_ok_and(|range| own.may_set(range)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::groups::Repr;
    use wire::record::{BODY_BYTES_MAX, RecordKind, RecordSeq};

    #[test]
    fn a_setting_without_the_right_to_it_changes_what_is_said_and_not_how_groups_are_carried() {
        let origin = NodeAddr(0x0a07_0001);
        let repr = Repr {
            origin,
            seq: RecordSeq(1),
            lifetime_s: 60,
            certificate_serial: 1,
            part: 0,
            members: &[],
            settings: &[Setting::of(NodeAddr(0xef01_0101))],
            permits: &[],
        };
        let mut body = [0; BODY_BYTES_MAX];
        let len = repr.emit(&mut body, |_| [0; _]).unwrap();
        let groups = Groups::parse(RecordKind::GROUPS, &body[..len]).unwrap();
        let mut membership = Membership::default();
        membership.follow(groups.key(), None, Some(&groups), None);
        assert!(membership.take_settings_changed());
        assert_eq!(membership.ignored().count(), 1);
        assert!(!membership.take_carriage_changed());
    }
}
