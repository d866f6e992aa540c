//! The node's counters. They are derived from its events and from nothing else.

use overlay::event::{Drop, Event};
use serde::Serialize;
use std::collections::BTreeMap;

/// Totals since the node started.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counters {
    /// Packets forwarded for other nodes.
    pub forwarded_packets: u64,
    /// Their bytes, including all headers of the overlay.
    pub forwarded_bytes: u64,
    /// Packets of this node's clients sent to neighbours.
    pub originated_packets: u64,
    /// Their bytes, including all headers of the overlay.
    pub originated_bytes: u64,
    /// Packets of this node's clients that should have been stamped with a path but were forwarded by table.
    pub unstamped_packets: u64,
    /// Packets handed to clients.
    pub delivered_packets: u64,
    /// Their payload bytes.
    pub delivered_bytes: u64,
    /// Packets of the real-time lane that were requested again.
    pub requested_packets: u64,
    /// Packets of the real-time lane that were retransmitted.
    pub retransmitted_packets: u64,
    /// Their bytes.
    pub retransmitted_bytes: u64,
    /// Repair packets of real-time lanes sent.
    pub repair_packets: u64,
    /// Their bytes.
    pub repair_bytes: u64,
    /// Lost packets that were recovered.
    pub recovered_packets: u64,
    /// Control datagrams sent.
    pub control_packets: u64,
    /// Their bytes.
    pub control_bytes: u64,
    /// Handshakes that led to a session.
    pub sessions: u64,
    /// Handshakes refused, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Links that came up.
    pub links_up: u64,
    /// Links that went down.
    pub links_down: u64,
    /// Neighbours whose underlay address changed.
    pub moved: u64,
    /// Records accepted into the database.
    pub records_accepted: u64,
    /// Records refused.
    pub records_refused: u64,
    /// Refused records that would have introduced another root key than the known one.
    pub roots_refused: u64,
    /// Nodes that have begun to set groups without being allowed to.
    #[serde(default)]
    pub groups_ignored: u64,
    /// Number of route computations.
    pub route_computations: u64,
    /// Dropped packets by reason.
    pub drops: Drops,
}

/// Dropped packets, indexed by the position of their reason in [`Drop::ALL`].
#[derive(Clone, Debug)]
pub struct Drops([u64; Drop::ALL.len()]);

impl Default for Drops {
    fn default() -> Drops {
        Drops([0; Drop::ALL.len()])
    }
}

impl Serialize for Drops {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Drop::ALL.iter().map(|d| (d.label(), self.0[*d as usize])))
    }
}

impl Counters {
    /// Counts one event.
    pub fn apply(&mut self, event: &Event) {
        match *event {
            Event::Forwarded { packets, bytes, .. } => {
                self.forwarded_packets += u64::from(packets);
                self.forwarded_bytes += u64::from(bytes);
            }
            Event::Originated { packets, bytes, .. } => {
                self.originated_packets += u64::from(packets);
                self.originated_bytes += u64::from(bytes);
            }
            Event::Delivered { bytes } => {
                self.delivered_packets += 1;
                self.delivered_bytes += u64::from(bytes);
            }
            Event::Dropped { reason, packets } => {
                self.drops.0[reason as usize] += u64::from(packets);
            }
            Event::Requested { packets, .. } => self.requested_packets += u64::from(packets),
            Event::Retransmitted { packets, bytes, .. } => {
                self.retransmitted_packets += u64::from(packets);
                self.retransmitted_bytes += u64::from(bytes);
            }
            Event::Repair { bytes, .. } => {
                self.repair_packets += 1;
                self.repair_bytes += u64::from(bytes);
            }
            Event::Recovered { .. } => self.recovered_packets += 1,
            Event::Control { bytes, .. } => {
                self.control_packets += 1;
                self.control_bytes += u64::from(bytes);
            }
            Event::Established { .. } => self.sessions += 1,
            Event::Refused { why, .. } => *self.refused.entry(why.label()).or_default() += 1,
            Event::LinkUp { .. } => self.links_up += 1,
            Event::LinkDown { .. } => self.links_down += 1,
            // The reason for a link that is down shows it.
            Event::EndRefused { .. }
            | Event::Unanswered { .. }
            | Event::NoDatagrams { .. }
            | Event::Way { .. } => {}
            // The link's counters contain it.
            Event::PathChanged { .. } => {}
            // The snapshot contains what is suspect.
            Event::PathBad { .. }
            | Event::Suspected { .. }
            | Event::Unsuspected { .. }
            | Event::GroupStarved { .. }
            | Event::GroupWhole { .. } => {}
            Event::Moved { .. } => self.moved += 1,
            Event::RecordAccepted { .. } => self.records_accepted += 1,
            Event::RecordRefused { .. } => self.records_refused += 1,
            Event::RootRefused { .. } => self.roots_refused += 1,
            // The snapshot contains the node.
            Event::Double { .. } => {}
            // The snapshot contains the root's number.
            Event::RootSucceeded { .. } => {}
            Event::GroupsIgnored { .. } => self.groups_ignored += 1,
            Event::Unstamped => self.unstamped_packets += 1,
            Event::RoutesChanged { rerouted, .. } => {
                self.route_computations += u64::from(rerouted);
            }
        }
    }

    /// Returns the number of drops for one reason.
    pub fn dropped(&self, reason: Drop) -> u64 {
        self.drops.0[reason as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_counter_of_its_own() {
        let mut counters = Counters::default();
        for (i, reason) in Drop::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, i, "{reason:?} stands out of order");
            counters.apply(&Event::Dropped {
                reason,
                packets: i as u32 + 1,
            });
        }
        assert!(
            Drop::ALL
                .iter()
                .all(|d| counters.dropped(*d) == *d as u64 + 1)
        );
        let json = serde_json::to_value(&counters).unwrap();
        assert_eq!(json["drops"]["no_route"], Drop::NoRoute as u64 + 1);
    }
}
