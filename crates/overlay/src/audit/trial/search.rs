//! The search finds a way that is bad, and other ways to try in its place.
//!
//! A search begins with the best path that has none of the suspects, and none of the relays of the ways that were found
//! bad. If no such path is left, it takes the one with the fewest of these among a few shortest paths. The sibling
//! `verdict` decides the comparison.

use super::suspicion::Suspect;
use super::way::{Way, WayId};
use super::{Finding, Plan, Stage, Trial, Ways};
use base::{Duration, NodeAddr, Time};
use graph::spf::Tree;
use graph::{Metric, NodeIndex, Topology, paths};

/// Number of other ways that one search tries.
const CANDIDATES_MAX: usize = 6;
/// If no path is free of suspects, the search takes the one with the fewest among this many shortest paths.
const SHORTEST_MAX: usize = 8;
/// If a search finds no other way, the next search begins after this time.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

impl Ways {
    /// Replaces the way that was settled on, which has lost a link, by the best one without suspects, if there is one.
    pub(super) fn settle_anew(
        &mut self,
        now: Time,
        topology: &Topology,
        ends: (NodeAddr, NodeAddr),
    ) {
        self.plan = match self.other(topology, ends, &[], true) {
            Some(nodes) => Plan::Settled(self.enter_anew(now, nodes)),
            None => Plan::Plain,
        };
    }

    pub(super) fn look_for_bad(
        &mut self,
        now: Time,
        topology: &Topology,
        ends: (NodeAddr, NodeAddr),
    ) -> Option<Finding> {
        if now < self.quiet_until {
            return None;
        }
        let settled = match self.plan {
            Plan::Settled(way) => Some(way),
            _ => None,
        };
        let counts = |way: &&Way| {
            let goes_by_table = settled.is_none() || !self.is_suspected(way.id);
            let in_use = goes_by_table && way.is_wanted(now);
            (in_use || Some(way.id) == settled) && way.evidence.is_bad()
        };
        let bad = self.ways.iter().find(counts)?;
        let of = bad.evidence.worst()?;
        let (incumbent, loss) = (bad.id, bad.evidence.of(of).loss());
        let trial = Trial {
            since: now,
            incumbent,
            candidate: incumbent,
            stage: Stage::Comparison,
            of,
            failed: Vec::new(),
            gone: None,
        };
        self.reset(incumbent);
        let was_alone = self.is_alone;
        self.go_on(now, topology, ends, trial);
        (!was_alone).then_some(Finding::Bad { loss })
    }

    /// Searches for another candidate, and ends the trial if there is none.
    pub(super) fn go_on(
        &mut self,
        now: Time,
        topology: &Topology,
        ends: (NodeAddr, NodeAddr),
        mut trial: Trial,
    ) {
        let mut bad = trial.failed.clone();
        bad.push(trial.incumbent);
        let other = (trial.failed.len() < CANDIDATES_MAX)
            .then(|| self.other(topology, ends, &bad, false))
            .flatten();
        match other {
            Some(nodes) => {
                self.is_alone = false;
                // The plan keeps the ways of the trial from being forgotten when the new one is entered.
                self.plan = Plan::Trial(trial.clone());
                trial.candidate = self.enter_anew(now, nodes);
                trial.stage = Stage::Comparison;
                self.plan = Plan::Trial(trial);
            }
            None if trial.failed.is_empty() => {
                self.is_alone = true;
                self.quiet_until = now + LOOK_AGAIN;
                self.plan = self.as_before(trial.incumbent);
            }
            None => self.give_up(now, &trial),
        }
    }

    /// Returns whether all links of a way exist and are not silent, and whether its packets can be stamped.
    pub(super) fn is_whole(&self, id: WayId, topology: &Topology) -> bool {
        let Some(way) = self.at(id).filter(|way| !way.stamp.is_empty()) else {
            return false;
        };
        way.nodes.windows(2).all(|hop| {
            let ends = topology.index(hop[0]).zip(topology.index(hop[1]));
            let edge = ends.and_then(|(from, to)| topology.link(from, to));
            edge.is_some_and(|edge| !edge.link.is_silent())
        })
    }

    /// Returns the best path that avoids the suspects and the ways in `bad`. If there is none, returns a path with few
    /// of them, or `None` if the path must be `clean`.
    pub(super) fn other(
        &self,
        topology: &Topology,
        (own, to): (NodeAddr, NodeAddr),
        bad: &[WayId],
        clean: bool,
    ) -> Option<Vec<NodeAddr>> {
        let (from, goal) = (topology.index(own)?, topology.index(to)?);
        let bad: Vec<&[NodeAddr]> = bad.iter().map(|id| self.nodes(*id)).collect();
        let active = || self.suspicions.iter().filter(|s| s.is_active);
        let blamed = |node: NodeAddr| {
            let relays = |nodes: &[NodeAddr]| nodes[1..nodes.len().max(2) - 1].contains(&node);
            bad.iter().any(|nodes| relays(nodes))
                || active().any(|s| s.suspect == Suspect::Node(node))
        };
        // A bad path without relays consists of one link, so this link is avoided.
        let cut = |a: NodeAddr, b: NodeAddr| {
            bad.iter().any(|nodes| *nodes == [a, b])
                || active().any(|s| s.suspect == Suspect::Link(a, b))
        };
        let banned = |a: NodeIndex, b: NodeIndex| {
            let (a, b) = (topology.addr(a), topology.addr(b));
            cut(a, b) || b != to && blamed(b)
        };
        let tree = Tree::without(topology, from, Metric::ExpectedLatency, banned);
        if tree.distance(goal).is_some_and(|cost| !cost.is_silent()) {
            let nodes = tree.path(goal).into_iter();
            return Some(nodes.map(|node| topology.addr(node)).collect());
        }
        if clean {
            return None;
        }
        let metric = Metric::ExpectedLatency;
        let found = paths::shortest(topology, own, to, metric, SHORTEST_MAX).ok()?;
        let heard = found.into_iter().filter(|path| !path.total.is_silent());
        let nodes = heard.map(|path| path.nodes().collect::<Vec<_>>());
        let others = nodes.filter(|nodes| bad.iter().all(|bad| bad != nodes));
        let blame = |nodes: &Vec<NodeAddr>| {
            let relays = nodes.iter().filter(|node| **node != to && blamed(**node));
            relays.count() + nodes.windows(2).filter(|hop| cut(hop[0], hop[1])).count()
        };
        others.min_by_key(blame)
    }

    fn enter_anew(&mut self, now: Time, nodes: Vec<NodeAddr>) -> WayId {
        let id = self.enter(now, nodes);
        self.reset(id);
        id
    }
}
