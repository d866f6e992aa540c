//! What is known of groups, for status; and the reports of receivers, up the trees.

use super::Node;
use crate::groups::{Admission, REPORT_EVERY, Slot, admit, branches};
use crate::link::LinkIndex;
use crate::snapshot::{GroupSource, GroupStatus, ReceptionStatus, SettingStatus};
use base::{Duration, NodeAddr, Outbox, Time};
use std::collections::{BTreeMap, BTreeSet};
use wire::control::{Builder, GroupReport, Reception};
use wire::groups::{Setting, TreeBuilder};

/// A slot without packets for so long is not reported on.
const ACTIVE: Duration = Duration::from_secs(10);
/// Bytes of a control datagram with reports; see `control`.
const REPORT_BYTES_MAX: usize = 1_100;
/// Reports of several branches are told together.
const REPORT_GATHER: Duration = Duration::from_millis(100);
/// The least time between two rounds of reports.
const REPORT_SPACING: Duration = Duration::from_secs(1);
/// Groups that are listed.
const LISTED_MAX: usize = 1_024;

impl Node {
    pub(super) fn on_group_report(
        &mut self,
        now: Time,
        index: LinkIndex,
        report: &GroupReport<'_>,
    ) {
        let peer = self.links.at(index).peer;
        self.reports.on_report(now, peer, report);
        // Passed on soon, so that the source does not hear of the past, a hop older each time.
        let soon = (self.reported_at + REPORT_SPACING).max(now + REPORT_GATHER);
        self.reports_at = self.reports_at.min(soon);
    }

    /// Tells the neighbours above what the receivers below have got, when it is time.
    pub(super) fn report_groups(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        if now < self.reports_at {
            return;
        }
        (self.reported_at, self.reports_at) = (now, now + REPORT_EVERY);
        self.reports.expire(now);
        let own = self.own_receptions();
        let mut seen = BTreeSet::new();
        let mut by_link: BTreeMap<LinkIndex, Vec<(NodeAddr, NodeAddr)>> = BTreeMap::new();
        for slot in self
            .trees
            .iter()
            .filter(|slot| now.since(slot.used) < ACTIVE)
        {
            let of = (slot.key.source, slot.key.group);
            let upstream = slot.upstream.and_then(|peer| self.links.by_peer(peer));
            if let Some(link) = upstream.filter(|link| self.links.at(*link).is_up())
                && seen.insert(of)
            {
                by_link.entry(link).or_default().push(of);
            }
        }
        for (link, groups) in by_link {
            let mut bytes = [0; REPORT_BYTES_MAX];
            let mut builder = Builder::new(&mut bytes);
            for of in groups {
                let (receivers, worst) = self.reports.below(now, of, own.get(&of).copied());
                if receivers == 0 {
                    continue;
                }
                if builder.group_report(of, receivers, &worst).is_err() {
                    let len = builder.len();
                    self.links
                        .at_mut(link)
                        .send_control(now, &bytes[..len], out);
                    builder = Builder::new(&mut bytes);
                    // The longest report fits an empty datagram.
                    let _ = builder.group_report(of, receivers, &worst);
                }
            }
            let len = builder.len();
            if len > 0 {
                self.links
                    .at_mut(link)
                    .send_control(now, &bytes[..len], out);
            }
        }
    }

    /// When reports are to be told, if any may be due before the housekeeping.
    pub(super) fn reporting_at(&self) -> Option<Time> {
        let is_due = self.trees.iter().len() > 0 && self.reports_at < self.housekeeping;
        is_due.then_some(self.reports_at)
    }

    /// What this node's own clients have got, by source and group.
    fn own_receptions(&self) -> BTreeMap<(NodeAddr, NodeAddr), Reception> {
        let mut all: BTreeMap<_, Reception> = BTreeMap::new();
        let is_own = |group: NodeAddr| group.is_multicast() && self.groups.is_member(group);
        let flows = self.flows.iter();
        for flow in flows.filter(|flow| is_own(flow.key.destination)) {
            let of = (flow.key.source, flow.key.destination);
            let sum = all.entry(of).or_insert(Reception {
                node: self.addr,
                received: 0,
                recovered: 0,
                lost: 0,
            });
            let add = |to: &mut u32, n: u64| {
                *to = to.saturating_add(u32::try_from(n).unwrap_or(u32::MAX));
            };
            add(&mut sum.received, flow.packets);
            add(&mut sum.recovered, flow.recovered);
            add(&mut sum.lost, flow.missing());
        }
        all
    }

    /// Whether a setting fits, if this node's sources are to have it.
    pub fn admission(&self, setting: &Setting) -> Admission {
        admit(&self.database, self.addr, setting, |node| {
            self.name_of(node)
        })
    }

    /// The groups that this node knows of; with all that can be told of one if it is asked for.
    pub fn group_statuses(&self, now: Time, only: Option<NodeAddr>) -> Vec<GroupStatus> {
        let membership = self.database.membership();
        let own = self.own_receptions();
        let mut groups: BTreeSet<NodeAddr> = membership.groups().take(LISTED_MAX).collect();
        groups.extend(membership.settings().map(|(_, setting)| setting.group));
        groups.extend(
            self.groups
                .groups()
                .take(LISTED_MAX)
                .map(|(group, _)| group),
        );
        groups.extend(self.trees.iter().map(|slot| slot.key.group));
        groups.retain(|group| only.is_none_or(|only| only == *group));
        let clients: BTreeMap<NodeAddr, usize> = self.groups.groups().collect();
        let slots = |group: NodeAddr| self.trees.iter().filter(move |s| s.key.group == group);
        let statuses = groups.into_iter().take(LISTED_MAX).map(|group| {
            let said = membership.said(group);
            let builder = said.map_or(TreeBuilder::LinkState, |(_, setting)| setting.tree);
            let admission = said.filter(|_| only.is_some()).map(|(origin, setting)| {
                admit(&self.database, origin, &setting, |node| self.name_of(node))
            });
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
                setting: said.map(|(origin, setting)| status_of(origin, &setting)),
                sources: slots(group)
                    .map(|slot| self.group_source(now, slot, &own, only.is_some()))
                    .collect(),
                admission,
            }
        });
        statuses.collect()
    }

    fn group_source(
        &self,
        now: Time,
        slot: &Slot,
        own: &BTreeMap<(NodeAddr, NodeAddr), Reception>,
        in_full: bool,
    ) -> GroupSource {
        let of = (slot.key.source, slot.key.group);
        let (receivers, receptions) = self.reports.below(now, of, own.get(&of).copied());
        let members = self.database.membership().members(slot.key.group);
        let tree =
            in_full.then(|| branches(&self.database, (slot.key.source, slot.key.metric), members));
        let links = tree.into_iter().flat_map(|tree| tree.links);
        GroupSource {
            source: slot.key.source.to_string(),
            metric: slot.key.metric.to_string(),
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
            receptions: receptions.iter().map(reception_status).collect(),
            links: links.map(|(a, b)| (a.to_string(), b.to_string())).collect(),
        }
    }
}

fn status_of(origin: NodeAddr, setting: &Setting) -> SettingStatus {
    SettingStatus {
        set_by: origin.to_string(),
        link: setting.class.link.label().to_owned(),
        routing: setting.class.routing.label().to_owned(),
        priority: setting.class.priority,
        deadline_ms: (setting.deadline_ms > 0).then_some(setting.deadline_ms),
        rate_kbps: (setting.rate_kbps > 0).then_some(setting.rate_kbps),
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
    }
}
