//! The sum of what nodes have reported.

use base::{NodeAddr, Time};
use overlay::event::{Drop, Event, PathWhy};
use secure::Refusal;
use sim::{HostId, Report};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Totals {
    pub originated: u64,
    pub forwarded: u64,
    pub delivered: u64,
    pub requested: u64,
    pub retransmitted: u64,
    pub retransmitted_bytes: u64,
    pub repairs: u64,
    pub repair_bytes: u64,
    /// Repair packets and their bytes, by sender and neighbour.
    pub repair_of: BTreeMap<(HostId, NodeAddr), (u64, u64)>,
    /// The times from the detection of the gap to the arrival, in microseconds.
    pub recovered_after_us: Vec<u32>,
    pub dropped: BTreeMap<Drop, u64>,
    pub refused: BTreeMap<&'static str, u64>,
    pub records_refused: u64,
    /// The nodes that have learned of a root, and the root.
    pub roots: Vec<(HostId, u8)>,
    pub roots_refused: u64,
    /// The nodes whose key was found on two hosts, when, and by which node.
    pub doubles: Vec<(Time, HostId, NodeAddr)>,
    pub ignored: Vec<(NodeAddr, NodeAddr)>,
    /// When links came up, at which node, and to which neighbour.
    pub ups: Vec<(Time, HostId, NodeAddr)>,
    pub downs: Vec<(Time, HostId, NodeAddr)>,
    pub route_changes: Vec<(Time, HostId)>,
    pub moves: u64,
    pub established: Vec<(Time, HostId)>,
    pub path_changes: Vec<(Time, HostId, PathWhy)>,
    pub unstamped: u64,
}

impl Totals {
    pub fn add(&mut self, report: &Report<Event>) {
        let (at, host) = (report.at, report.host);
        match report.event {
            Event::Originated { packets, .. } => self.originated += u64::from(packets),
            Event::Forwarded { packets, .. } => self.forwarded += u64::from(packets),
            Event::Delivered { .. } => self.delivered += 1,
            Event::Requested { packets, .. } => self.requested += u64::from(packets),
            Event::Retransmitted { packets, bytes, .. } => {
                self.retransmitted += u64::from(packets);
                self.retransmitted_bytes += u64::from(bytes);
            }
            Event::Repair { peer, bytes } => {
                let (packets, sum) = self.repair_of.entry((host, peer)).or_default();
                (*packets, *sum) = (*packets + 1, *sum + u64::from(bytes));
                self.repairs += 1;
                self.repair_bytes += u64::from(bytes);
            }
            Event::Recovered { after_us, .. } => self.recovered_after_us.push(after_us),
            Event::Dropped { reason, packets } => {
                *self.dropped.entry(reason).or_default() += u64::from(packets);
            }
            Event::Refused { why, .. } => *self.refused.entry(why.label()).or_default() += 1,
            Event::RecordRefused { .. } => self.records_refused += 1,
            Event::RootSucceeded { number, .. } => self.roots.push((host, number)),
            Event::RootRefused { .. } => self.roots_refused += 1,
            Event::Double { node, .. } => self.doubles.push((at, host, node)),
            Event::GroupsIgnored { by, group, .. } => self.ignored.push((by, group)),
            Event::LinkUp { peer } => self.ups.push((at, host, peer)),
            Event::EndRefused { .. }
            | Event::Unanswered { .. }
            | Event::NoDatagrams { .. }
            | Event::Way { .. } => {}
            // The snapshot shows the suspects.
            Event::PathBad { .. }
            | Event::Suspected { .. }
            | Event::Unsuspected { .. }
            | Event::GroupStarved { .. }
            | Event::GroupWhole { .. } => {}
            Event::LinkDown { peer, .. } => self.downs.push((at, host, peer)),
            Event::Unstamped => self.unstamped += 1,
            Event::RoutesChanged { .. } => self.route_changes.push((at, host)),
            Event::Moved { .. } => self.moves += 1,
            Event::PathChanged { why, .. } => self.path_changes.push((at, host, why)),
            Event::Established { .. } => self.established.push((at, host)),
            Event::Control { .. } | Event::RecordAccepted { .. } => {}
        }
    }

    pub fn drops(&self, reason: Drop) -> u64 {
        self.dropped.get(&reason).copied().unwrap_or_default()
    }

    pub fn refusals(&self, why: Refusal) -> u64 {
        self.refused.get(why.label()).copied().unwrap_or_default()
    }

    pub fn route_changes_of(&self, host: HostId) -> usize {
        self.route_changes
            .iter()
            .filter(|(_, h)| *h == host)
            .count()
    }
}
