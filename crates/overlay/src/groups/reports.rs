//! The reception of group receivers, as their reports state it on the way up the tree.
//!
//! ```text
//!   leaf: own reception ──▶ inner node: own + heard from its branches ──▶ ... ──▶ source: all
//! ```
//! A report is cumulative and is repeated, so a lost report does no harm.

use super::SLOTS_MAX;
use base::{Duration, Map, NodeAddr, Time};
use std::collections::BTreeMap;
use wire::control::{GroupReport, RECEPTIONS_MAX, Reception};

/// The interval of reports. With 20 receivers below a node, a report is 332 bytes, 1.3 kbit/s.
pub const REPORT_EVERY: Duration = Duration::from_secs(2);
/// A branch that has reported nothing for this long no longer exists: three reports.
const FRESH: Duration = Duration::from_secs(6);

#[derive(Clone, Debug)]
struct Heard {
    at: Time,
    receivers: u32,
    receptions: Vec<Reception>,
    /// When each reception became what it is.
    changed: Vec<Time>,
}

impl Heard {
    fn place(&self, node: NodeAddr) -> Option<usize> {
        self.receptions.iter().position(|one| one.node == node)
    }

    fn changed_at(&self, node: NodeAddr) -> Option<Time> {
        Some(self.changed[self.place(node)?])
    }
}

/// The reports by source and group, from each branch.
#[derive(Clone, Debug, Default)]
pub struct Reports {
    heard: Map<(NodeAddr, NodeAddr), BTreeMap<NodeAddr, Heard>>,
}

impl Reports {
    /// Takes in a report from a neighbour.
    pub fn on_report(&mut self, now: Time, from: NodeAddr, report: &GroupReport<'_>) {
        let key = (report.source, report.group);
        if !self.heard.contains_key(&key) && self.heard.len() >= SLOTS_MAX {
            return;
        }
        let branches = self.heard.entry(key).or_default();
        let before = branches.get(&from);
        let receptions: Vec<Reception> = report.receptions().collect();
        let changed = receptions.iter().map(|one| {
            let before = before.and_then(|before| {
                let place = before.place(one.node)?;
                (before.receptions[place] == *one).then_some(before.changed[place])
            });
            before.unwrap_or(now)
        });
        let heard = Heard {
            at: now,
            receivers: report.receivers,
            changed: changed.collect(),
            receptions,
        };
        branches.insert(from, heard);
    }

    /// Returns what is known of all receivers below this node, including its own reception: their number, and the worst
    /// receptions. What the node above has reported is excluded: while a shared tree turns round, that node was below.
    pub fn below(
        &self,
        now: Time,
        (source, group): (NodeAddr, NodeAddr),
        own: Option<Reception>,
        above: Option<NodeAddr>,
    ) -> (u32, Vec<Reception>) {
        let heard = self.heard.get(&(source, group));
        let below = heard.into_iter().flatten();
        let below = below.filter(|(from, _)| Some(**from) != above);
        let fresh = below.map(|(_, heard)| heard);
        let fresh = fresh.filter(|heard| now.since(heard.at) < FRESH);
        let receivers = fresh.clone().map(|heard| heard.receivers);
        let receivers = receivers.fold(u32::from(own.is_some()), u32::saturating_add);
        let told = fresh.flat_map(|heard| heard.receptions.iter().copied());
        let mut worst: Vec<Reception> = own.into_iter().chain(told).collect();
        worst.sort_by_key(|one| (core::cmp::Reverse(one.lost_share()), one.node));
        // While a tree changes, two branches may report the same receiver.
        let mut nodes: Vec<NodeAddr> = Vec::with_capacity(worst.len());
        worst.retain(|one| {
            let is_new = !nodes.contains(&one.node);
            nodes.push(one.node);
            is_new
        });
        worst.truncate(RECEPTIONS_MAX);
        (receivers, worst)
    }

    /// Returns when the numbers of a node last changed in a report; `None` if no branch has reported the node.
    pub fn changed(&self, of: (NodeAddr, NodeAddr), node: NodeAddr) -> Option<Time> {
        let branches = self.heard.get(&of)?.values();
        branches.filter_map(|heard| heard.changed_at(node)).max()
    }

    /// Forgets old reports.
    pub fn expire(&mut self, now: Time) {
        self.heard.retain(|_, branches| {
            branches.retain(|_, heard| now.since(heard.at) < FRESH);
            !branches.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF: (NodeAddr, NodeAddr) = (NodeAddr(0x0a07_0001), NodeAddr(0xef01_0203));

    fn reception(node: u32, lost: u32) -> Reception {
        Reception {
            node: NodeAddr(node),
            received: 100,
            recovered: 0,
            lost,
        }
    }

    fn told(reports: &mut Reports, now: Time, from: u32, receivers: u32, all: &[Reception]) {
        let mut bytes = vec![10, 7, 0, 1, 0xef, 1, 2, 3];
        bytes.extend(receivers.to_be_bytes());
        bytes.extend(all.iter().flat_map(|one| one.to_bytes()));
        let report = GroupReport::parse(&bytes).unwrap();
        reports.on_report(now, NodeAddr(from), &report);
    }

    #[test]
    fn the_worst_stand_first_each_once_and_all_are_counted() {
        let mut reports = Reports::default();
        let now = Time::ZERO;
        told(
            &mut reports,
            now,
            1,
            40,
            &[reception(5, 9), reception(6, 0)],
        );
        told(&mut reports, now, 2, 1, &[reception(5, 9)]);
        let (receivers, worst) = reports.below(now, OF, Some(reception(9, 3)), None);
        assert_eq!(receivers, 42);
        let nodes: Vec<u32> = worst.iter().map(|one| one.node.0).collect();
        assert_eq!(nodes, [5, 9, 6]);
    }

    /// A node that has failed is reported by the node above it for some seconds, always with the same numbers.
    #[test]
    fn the_age_of_numbers_is_that_of_their_last_change() {
        let mut reports = Reports::default();
        let at = |s| Time::ZERO + Duration::from_secs(s);
        let more = Reception {
            received: 200,
            ..reception(6, 0)
        };
        told(
            &mut reports,
            at(0),
            1,
            2,
            &[reception(5, 0), reception(6, 0)],
        );
        told(&mut reports, at(2), 1, 2, &[reception(5, 0), more]);
        told(&mut reports, at(4), 1, 2, &[reception(5, 0), more]);
        let changed = |node| reports.changed(OF, NodeAddr(node));
        assert_eq!([5, 6, 7].map(changed), [Some(at(0)), Some(at(2)), None]);
    }

    #[test]
    fn a_branch_that_tells_nothing_any_more_is_forgotten() {
        let mut reports = Reports::default();
        told(&mut reports, Time::ZERO, 1, 1, &[reception(5, 9)]);
        let later = Time::ZERO + FRESH;
        assert_eq!(reports.below(later, OF, None, None), (0, Vec::new()));
        reports.expire(later);
        assert!(reports.heard.is_empty());
    }

    #[test]
    fn no_report_is_longer_than_one_may_be() {
        let mut reports = Reports::default();
        for from in 0..4 {
            let all: Vec<_> = (0..32).map(|i| reception(100 * from + i, i)).collect();
            told(&mut reports, Time::ZERO, from, 32, &all);
        }
        let (receivers, worst) = reports.below(Time::ZERO, OF, None, None);
        assert_eq!((receivers, worst.len()), (128, RECEPTIONS_MAX));
        let but_one = reports.below(Time::ZERO, OF, None, Some(NodeAddr(2)));
        assert_eq!(but_one.0, 96);
        assert!(worst.iter().all(|one| one.lost >= 24));
    }
}
