//! Builds the edges of the graph from what both ends report about a link.

use super::{Database, MAX_ORIGINS};
use base::NodeAddr;
use graph::metric::{Repair, SILENT};
use graph::protection::{Lane, RUN_USUAL_256THS};
use graph::{Change, LinkCost, Topology};
use wire::link_state::{Link, Protection};

/// Maximum number of nodes that a topology may have seen before it is built again: a topology never forgets one.
const MAX_MENTIONED: usize = 4 * MAX_ORIGINS;

/// Changes of the topology since the last call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Followed {
    /// These links have changed.
    Changes(Vec<Change>),
    /// The topology is a new one: indices have changed their meaning.
    Rebuilt,
}

impl Database {
    /// Returns what has changed in the topology since the last call.
    pub(crate) fn take_changes(&mut self) -> Followed {
        let changes = core::mem::take(&mut self.changes);
        if core::mem::take(&mut self.rebuilt) {
            Followed::Rebuilt
        } else {
            Followed::Changes(changes)
        }
    }

    /// Returns the topology, for code that builds trees over it.
    pub(crate) fn topology_mut(&mut self) -> &mut Topology {
        &mut self.topology
    }

    /// Brings the edges at `origin` in line with its record, which had the links `before`.
    pub(super) fn follow_links(&mut self, origin: NodeAddr, before: &[Link]) {
        if self.topology.node_count() > MAX_MENTIONED {
            return self.rebuild();
        }
        let told = self.links_of(origin).unwrap_or_default();
        let mut others: Vec<NodeAddr> = told.iter().chain(before).map(|l| l.neighbor).collect();
        others.sort_unstable();
        others.dedup();
        let mut is_other = false;
        for other in others {
            let (out, back) = self.two_way(origin, other);
            is_other |= self.follow_edge(origin, other, out);
            is_other |= self.follow_edge(other, origin, back);
        }
        self.generation += u64::from(is_other);
    }

    /// Updates an edge. Returns true if it has changed. No tree depends on the edge's alarm.
    fn follow_edge(&mut self, from: NodeAddr, to: NodeAddr, link: Option<LinkCost>) -> bool {
        let ends = self.topology.index(from).zip(self.topology.index(to));
        let before = ends.and_then(|(from, to)| Some(self.topology.link(from, to)?.link));
        let Some(change) = self.topology.set_link(from, to, link) else {
            return false;
        };
        let cost = |link: LinkCost| LinkCost {
            alarm: None,
            ..link
        };
        if before.map(cost) != link.map(cost) {
            self.changes.push(change);
        }
        true
    }

    /// Returns the edges in both directions: both or none.
    fn two_way(&self, a: NodeAddr, b: NodeAddr) -> (Option<LinkCost>, Option<LinkCost>) {
        let (Some(out), Some(back)) = (self.told_cost(a, b), self.told_cost(b, a)) else {
            return (None, None);
        };
        let protected = |link: LinkCost, (from, by): (NodeAddr, NodeAddr), back: u16| LinkCost {
            alarm: self.alarm(from, by),
            repair: self.repair((from, by), (link.loss, back)),
            ..link
        };
        let costs = (
            protected(out, (a, b), back.loss),
            protected(back, (b, a), out.loss),
        );
        (Some(costs.0), Some(costs.1))
    }

    /// Returns the protection of the direction from one node to another, with the packet loss of this direction and of
    /// the way back. The end that misses a packet requests it, and the request goes the other way; the end that sends
    /// adds repair.
    fn repair(&self, (from, to): (NodeAddr, NodeAddr), (loss, back): (u16, u16)) -> Option<Repair> {
        let strikes = self.requests(to, from)?;
        let lane = |told: Protection| Lane {
            run_256ths: told.run_256ths().unwrap_or(RUN_USUAL_256THS),
            repair_16ths: told.repair_16ths(),
        };
        let repair = Repair::new(strikes, loss, back);
        Some(repair.with_lane(self.protection(from, to).map(lane)))
    }

    /// Returns how often a node requests a packet of another that it misses, if it reports that.
    pub(crate) fn requests(&self, by: NodeAddr, of: NodeAddr) -> Option<u8> {
        match self.protection(by, of).is_none_or(Protection::asks) {
            true => self.strikes_of(by),
            false => Some(0),
        }
    }

    /// Returns how a node reports that its lane to another is protected.
    pub(crate) fn protection(&self, from: NodeAddr, to: NodeAddr) -> Option<Protection> {
        let entry = self.link_state_of(from)?;
        let place = entry.links.iter().position(|link| link.neighbor == to)?;
        entry.protections.get(place).copied()
    }

    /// Returns how often a node requests a lost packet, if it reports that.
    pub(crate) fn strikes_of(&self, node: NodeAddr) -> Option<u8> {
        let told = self.link_state_of(node).map(|entry| entry.strikes);
        told.filter(|strikes| *strikes > 0)
    }

    /// Returns whether packets from one node to another are being lost at present, if the receiver watches that.
    ///
    /// Choice: losses in the reverse direction count as well, because requests for lost packets take it. A fault of
    /// both directions is then known as soon as either end has noticed it.
    fn alarm(&self, from: NodeAddr, to: NodeAddr) -> Option<bool> {
        let told = |by| self.link_state_of(by)?.alarms.as_deref();
        let is_back = told(from).is_some_and(|alarms| alarms.contains(&to));
        Some(told(to)?.contains(&from) || is_back)
    }

    fn told_cost(&self, from: NodeAddr, to: NodeAddr) -> Option<LinkCost> {
        let link = self.link(from, to)?;
        let price_us = match self.is_silent(to) {
            true => SILENT,
            false => link.availability.price_us(),
        };
        Some(LinkCost {
            price_us,
            ..LinkCost::of_share(link.latency.micros(), link.loss.0)
        })
    }

    fn rebuild(&mut self) {
        let mut topology = Topology::new(*self.topology.parameters());
        for from in self.nodes().collect::<Vec<_>>() {
            let told = self.links_of(from).unwrap_or_default();
            for to in told.iter().map(|l| l.neighbor).collect::<Vec<_>>() {
                topology.set_link(from, to, self.two_way(from, to).0);
            }
        }
        self.topology = topology;
        self.changes.clear();
        self.rebuilt = true;
        self.generation += 1;
    }
}
