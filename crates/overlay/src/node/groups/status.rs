//! The state of groups for status, and the receivers' reports that have come up the trees.

use super::keys::lacks_keys;
use crate::groups::{
    Admission, Branches, Passing, Permit, Second, Slot, admit, branches, edge_links, judge_links,
    reserved, two_trees,
};
use crate::link::LinkIndex;
use crate::node::Node;
use crate::node::operate::percent;
use crate::snapshot::{
    GroupSource, GroupStatus, GroupTotals, IgnoredStatus, PermitStatus, ReceptionStatus,
    SecondStatus, SettingStatus, SourceTotals, TroubleStatus, WaysStatus,
};
use base::{NodeAddr, Time};
use graph::redundant::{Pair, common};
use std::collections::{BTreeMap, BTreeSet};
use wire::control::Reception;
use wire::groups::{Setting, TreeBuilder, Ways, mask};
use wire::ipc::Delivery;

/// Number of edges of trees of Scribe with a rate that are taken into account: each is a search for its path.
const EDGES_MAX: usize = 256;
/// Number of groups with sources here in the metrics.
const SOURCES_TOLD_MAX: usize = 64;
/// Number of members for which the two ways are shown: each is a search.
const WAYS_SHOWN_MAX: usize = 64;
/// Number of groups that are listed.
const LISTED_MAX: usize = 1_024;

impl Node {
    /// Returns what this node has set for a group or range of groups: how it is carried, and who may send and receive.
    pub fn own_rules(&self, (group, prefix): (NodeAddr, u8)) -> (Option<Setting>, Option<Permit>) {
        self.groups.local.rules(group, prefix)
    }

    /// Decides whether the links have room for a setting, if this node's sources are to have it.
    pub fn admission(&self, setting: &Setting) -> Admission {
        self.judged(self.addr, setting)
    }

    /// The same for a setting that a node has announced, or is about to announce.
    fn judged(&self, by: NodeAddr, setting: &Setting) -> Admission {
        match setting.tree {
            TreeBuilder::LinkState => admit(self.router.database(), by, setting, |node| {
                self.name_of(node)
            }),
            TreeBuilder::Scribe => self.judged_here(setting),
        }
    }

    /// Decides whether a setting fits the edges of Scribe's trees at this node: no node knows all edges.
    fn judged_here(&self, setting: &Setting) -> Admission {
        let mut answer = Admission::default();
        let of = |group: &NodeAddr| group.0 & mask(setting.prefix) == setting.group.0;
        for group in self.groups.shared.groups().filter(of).take(LISTED_MAX) {
            let taken = self.taken(group, &[]);
            for child in self.groups.shared.children(group) {
                let links = edge_links(self.router.database(), self.addr, *child, setting);
                let name = |node| self.name_of(node);
                judge_links(
                    self.router.database(),
                    setting,
                    &links,
                    &taken,
                    name,
                    &mut answer,
                );
            }
        }
        let note = "Scribe builds the tree: each of its edges is judged by the node above when one below joins; what is said here is of this node's";
        answer.notes.push(note.to_owned());
        answer.admitted = answer.refusals.is_empty();
        answer
    }

    /// Returns what the links lack to a node that is to be below this one in a tree of Scribe, if they lack anything.
    /// `granted` are further edges, by group, that the node does not know of yet.
    pub fn lacks_for(
        &self,
        group: NodeAddr,
        child: NodeAddr,
        granted: &[(NodeAddr, NodeAddr)],
    ) -> Option<String> {
        let setting = self.router.membership().setting(group)?;
        if setting.rate_kbps == 0 {
            return None;
        }
        let mut answer = Admission::default();
        let taken = self.taken(group, granted);
        let links = edge_links(self.router.database(), self.addr, child, &setting);
        let name = |node| self.name_of(node);
        judge_links(
            self.router.database(),
            &setting,
            &links,
            &taken,
            name,
            &mut answer,
        );
        answer.refusals.into_iter().next()
    }

    /// Returns the rates that other groups take on the links, in kbit/s: groups of link state anywhere, groups of
    /// Scribe on the edges that lead down from here.
    fn taken(
        &self,
        but: NodeAddr,
        granted: &[(NodeAddr, NodeAddr)],
    ) -> BTreeMap<(NodeAddr, NodeAddr), u64> {
        let mut taken = reserved(self.router.database(), but);
        let here = self.groups.shared.groups().flat_map(|group| {
            let children = self.groups.shared.children(group).iter();
            children.map(move |child| (group, *child))
        });
        let membership = self.router.membership();
        let edges = here.chain(granted.iter().copied());
        let counted = edges
            .filter(|(group, _)| *group != but)
            .filter_map(|(group, child)| {
                let setting = membership.setting(group)?;
                (setting.rate_kbps > 0).then_some((child, setting))
            });
        for (child, setting) in counted.take(EDGES_MAX) {
            for link in edge_links(self.router.database(), self.addr, child, &setting) {
                *taken.entry(link).or_insert(0) += u64::from(setting.rate_kbps);
            }
        }
        taken
    }

    /// Returns the groups that this node knows; with all details if a single one is requested.
    pub fn group_statuses(&self, now: Time, only: Option<NodeAddr>) -> Vec<GroupStatus> {
        let membership = self.router.membership();
        let own = self.groups.own_receptions(now, &self.flows);
        let mut groups: BTreeSet<NodeAddr> = membership.groups().take(LISTED_MAX).collect();
        groups.extend(membership.settings().map(|(_, setting)| setting.group));
        groups.extend(membership.permits().groups().take(LISTED_MAX));
        // Each group of a limited range can be requested.
        groups.extend(only.filter(|group| membership.permits().said(*group).next().is_some()));
        groups.extend(
            membership
                .ignored()
                .map(|(_, (group, _))| group)
                .take(LISTED_MAX),
        );
        groups.extend(
            self.groups
                .local
                .groups()
                .take(LISTED_MAX)
                .map(|(group, _)| group),
        );
        groups.extend(self.groups.trees.iter().map(|slot| slot.key.group));
        groups.extend(self.groups.shared.groups().take(LISTED_MAX));
        groups.extend(self.groups.shared.passing().map(|((_, group), _)| group));
        groups.retain(|group| only.is_none_or(|only| only == *group));
        let clients: BTreeMap<NodeAddr, usize> = self.groups.local.groups().collect();
        let slots = |group: NodeAddr| {
            self.groups
                .trees
                .iter()
                .filter(move |s| s.key.group == group)
        };
        let statuses = groups.into_iter().take(LISTED_MAX).map(|group| {
            let said = membership.said(group);
            let builder = said.map_or(TreeBuilder::LinkState, |(_, setting)| setting.tree);
            let said_in_full = said.filter(|_| only.is_some());
            let admission = said_in_full.map(|(origin, setting)| self.judged(origin, &setting));
            let shared = self
                .groups
                .shared
                .passing()
                .filter(|((_, of), _)| *of == group);
            let shared = shared.map(|(of, passing)| self.shared_source(now, of, passing, &own));
            GroupStatus {
                group: group.to_string(),
                kind: if group.is_anycast() {
                    "anycast"
                } else {
                    "multicast"
                }
                .to_owned(),
                tree: builder.label().to_owned(),
                members: membership.members(group).map(|m| m.to_string()).collect(),
                clients: clients.get(&group).copied().unwrap_or(0),
                setting: said.map(|(origin, setting)| SettingStatus::of(origin, &setting)),
                sources: slots(group)
                    .map(|slot| self.group_source(now, slot, &own, only.is_some()))
                    .chain(shared)
                    .collect(),
                refused: None,
                admission,
                permits: membership
                    .permits()
                    .said(group)
                    .map(|(origin, permit)| PermitStatus::of(origin, permit))
                    .collect(),
                kept_out: membership
                    .members(group)
                    .filter(|member| !membership.permits().may_receive(*member, group))
                    .map(|member| member.to_string())
                    .collect(),
                sealed: group
                    .is_multicast()
                    .then(|| self.groups.keys.is_sealed(group, &self.router)),
                cannot_open: match group.is_multicast() {
                    true => lacks_keys(group, &self.router)
                        .map(|node| node.to_string())
                        .collect(),
                    false => Vec::new(),
                },
                keys_told: self.groups.keys.own.told(group),
                starved: self.groups.starved_members(now, group),
                ignored: membership
                    .ignored()
                    .filter(|(_, (first, prefix))| group.0 & mask(*prefix) == first.0)
                    .take(SOURCES_TOLD_MAX)
                    .map(ignored_status)
                    .collect(),
                refused_packets: match membership.permits().may_send(self.addr, group) {
                    true => 0,
                    false => self.groups.refused_packets(group),
                },
            }
        });
        statuses.collect()
    }

    /// Returns the totals of groups at this node, for metrics.
    pub fn group_totals(&self, now: Time) -> GroupTotals {
        let mut sent: BTreeMap<NodeAddr, (u64, u64)> = BTreeMap::new();
        let by_trees = self.groups.trees.iter().map(|slot| {
            let of = (slot.key.source, slot.key.group);
            (of, slot.packets, slot.bytes)
        });
        let shared = self.groups.shared.passing();
        let by_scribe = shared.map(|(of, passing)| (of, passing.packets, passing.bytes));
        for ((source, group), packets, bytes) in by_trees.chain(by_scribe) {
            if source == self.addr {
                let sum = sent.entry(group).or_default();
                *sum = (sum.0 + packets, sum.1 + bytes);
            }
        }
        let sources = sent.into_iter().take(SOURCES_TOLD_MAX);
        let sources = sources.map(|(group, (packets, bytes))| {
            let (receivers, worst) =
                self.groups
                    .reports
                    .heard
                    .below(now, (self.addr, group), None, None);
            SourceTotals {
                group: group.to_string(),
                packets,
                bytes,
                receivers,
                worst_lost_pct: worst
                    .first()
                    .map_or(0.0, |worst| reception_status(worst).lost_after_pct),
                sealed: self.groups.keys.is_sealed(group, &self.router),
            }
        });
        let (starved_found, starved_packets) = self.groups.audits.totals();
        GroupTotals {
            starved: self.groups.audits.starved(),
            starved_found,
            starved_packets,
            joined: self.groups.local.groups().count(),
            link_state_trees: self.groups.trees.iter().len(),
            scribe_trees: self.groups.shared.len(),
            sources: sources.collect(),
            ignored: self
                .router
                .membership()
                .ignored()
                .take(SOURCES_TOLD_MAX)
                .map(ignored_status)
                .collect(),
        }
    }

    fn group_source(
        &self,
        now: Time,
        slot: &Slot,
        own: &BTreeMap<(NodeAddr, NodeAddr), Reception>,
        in_full: bool,
    ) -> GroupSource {
        let of = (slot.key.source, slot.key.group);
        let (receivers, receptions) =
            self.groups
                .reports
                .heard
                .below(now, of, own.get(&of).copied(), None);
        let members = self.router.membership().receivers(slot.key.group);
        let key = &slot.key;
        let tree = match (in_full, key.two_ways) {
            (false, _) => Branches::default(),
            (true, true) => two_trees(
                self.router.database(),
                key.source,
                members.take(WAYS_SHOWN_MAX),
            ),
            (true, false) => branches(self.router.database(), (key.source, key.metric), members),
        };
        let held = self.handover.of_group(key.source, key.group);
        GroupSource {
            source: slot.key.source.to_string(),
            metric: match key.two_ways {
                true => "two-ways".to_owned(),
                false => key.metric.to_string(),
            },
            upstream: slot.upstream.map(|peer| peer.to_string()),
            branches: slot
                .branches()
                .iter()
                .map(|link| self.links.at(*link).peer.to_string())
                .collect(),
            packets: slot.packets,
            bytes: slot.bytes,
            idle_s: now.since(slot.used).as_secs_f64(),
            receivers,
            receptions: receptions
                .iter()
                .map(|one| self.reception(now, of, one))
                .collect(),
            links: tree.links.iter().map(ends).collect(),
            ways: tree.ways.iter().map(ways_status).collect(),
            second: slot.second().map(|second| self.second_status(slot, second)),
            late: held.late,
            given_up: held.missed,
        }
    }

    /// Returns the status of a reception, and how old it is.
    fn reception(
        &self,
        now: Time,
        of: (NodeAddr, NodeAddr),
        reception: &Reception,
    ) -> ReceptionStatus {
        let changed = self.groups.reports.heard.changed(of, reception.node);
        let changed = changed.filter(|_| reception.node != self.addr);
        ReceptionStatus {
            age_s: changed.map(|at| now.since(at).as_secs_f64()),
            ..reception_status(reception)
        }
    }

    fn second_status(&self, slot: &Slot, second: &Second) -> SecondStatus {
        let peer = |link: &LinkIndex| self.links.at(*link).peer.to_string();
        // A silent link gets no copies.
        let is_up = |link: &&LinkIndex| self.links.at(**link).is_up();
        let trouble = second.trouble.iter().take(WAYS_SHOWN_MAX);
        SecondStatus {
            branches: second.links.iter().filter(is_up).map(peer).collect(),
            packets: slot.second_packets,
            trouble: trouble
                .map(|(member, trouble)| TroubleStatus {
                    member: member.to_string(),
                    places: trouble.words().map(str::to_owned).collect(),
                })
                .collect(),
        }
    }

    /// Returns the status of a source's packets that pass along a tree of Scribe.
    fn shared_source(
        &self,
        now: Time,
        (source, group): (NodeAddr, NodeAddr),
        passing: Passing,
        own: &BTreeMap<(NodeAddr, NodeAddr), Reception>,
    ) -> GroupSource {
        let of = (source, group);
        let own = own.get(&of).copied();
        let (receivers, receptions) =
            self.groups
                .reports
                .heard
                .below(now, of, own, passing.upstream);
        let ends = self.groups.shared.edges(group).unwrap_or_default().iter();
        let below = ends.filter(|end| Some(**end) != passing.upstream);
        GroupSource {
            source: source.to_string(),
            metric: TreeBuilder::Scribe.label().to_owned(),
            upstream: passing.upstream.map(|node| node.to_string()),
            branches: below.map(|node| node.to_string()).collect(),
            packets: passing.packets,
            bytes: passing.bytes,
            idle_s: now.since(passing.used).as_secs_f64(),
            receivers,
            receptions: receptions
                .iter()
                .map(|one| self.reception(now, of, one))
                .collect(),
            links: Vec::new(),
            ways: Vec::new(),
            second: None,
            late: self.handover.of_group(source, group).late,
            given_up: self.handover.of_group(source, group).missed,
        }
    }
}

fn ends((from, to): &(NodeAddr, NodeAddr)) -> (String, String) {
    (from.to_string(), to.to_string())
}

fn ways_status((member, pair): (&NodeAddr, &Pair)) -> WaysStatus {
    let words = |nodes: &[NodeAddr]| nodes.iter().map(NodeAddr::to_string).collect();
    let (nodes, links) = common(pair);
    WaysStatus {
        member: member.to_string(),
        ways: [words(&pair[0]), words(&pair[1])],
        common_nodes: words(&nodes),
        common_links: links.iter().map(ends).collect(),
    }
}

impl SettingStatus {
    /// Returns the status of a setting that a node has made.
    pub fn of(origin: NodeAddr, setting: &Setting) -> SettingStatus {
        SettingStatus {
            set_by: origin.to_string(),
            link: setting.class.link.label().to_owned(),
            routing: setting.class.routing.label().to_owned(),
            priority: setting.class.priority,
            deadline_ms: (setting.deadline_ms > 0).then_some(setting.deadline_ms),
            target_pct: setting.aim.target().map(percent),
            most_pct: setting.aim.most().map(percent),
            rate_kbps: (setting.rate_kbps > 0).then_some(setting.rate_kbps),
            ways: 1 + u8::from(setting.ways == Ways::Two),
            asked_ways: setting.ways.label().to_owned(),
            delivery: setting.delivery.map(|delivery| delivery.label().to_owned()),
            release_ms: match setting.delivery {
                Some(Delivery::AsSent(Some(after))) => Some(after.as_micros() / 1_000),
                _ => None,
            },
        }
    }
}

fn range_text(group: NodeAddr, prefix: u8) -> String {
    match prefix {
        32 => group.to_string(),
        bits => format!("{group}/{bits}"),
    }
}

fn ignored_status((by, (group, prefix)): (NodeAddr, (NodeAddr, u8))) -> IgnoredStatus {
    IgnoredStatus {
        said_by: by.to_string(),
        group: range_text(group, prefix),
    }
}

impl PermitStatus {
    /// Returns the status of a permit that a node has set.
    pub fn of(origin: NodeAddr, permit: &Permit) -> PermitStatus {
        PermitStatus {
            said_by: origin.to_string(),
            group: range_text(permit.group, permit.prefix),
            send: permit.send.clone(),
            receive: permit.receive.clone(),
        }
    }
}

fn reception_status(reception: &Reception) -> ReceptionStatus {
    let Reception {
        node,
        received,
        recovered,
        lost,
    } = *reception;
    let sent = f64::from(received) + f64::from(lost);
    let share = |packets: f64| 100.0 * packets / sent.max(1.0);
    ReceptionStatus {
        node: node.to_string(),
        received,
        recovered,
        lost,
        lost_before_pct: share(f64::from(recovered) + f64::from(lost)),
        lost_after_pct: share(f64::from(lost)),
        age_s: None,
    }
}
