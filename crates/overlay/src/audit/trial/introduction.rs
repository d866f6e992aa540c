//! Introductions: if the tables change to a new way, it must show that it carries packets.
//!
//! Link state describes links. It does not show nodes that drop packets. A way that was not used lately may be a hole,
//! whereas the way before it carried packets a moment ago. So packets go by both until the new way has delivered some,
//! and packets that it drops are not missed. That takes about a second, like the first questions about it. Packets that
//! had no known way before get another path beside the new one.
//!
//! Choice: this needs a second way that has all its links, and enough of the budget for copies. If a link of the way
//! before has failed, packets must not wait: they follow the tables. They also follow the tables if the budget is spent
//! or a link has no room.

use super::super::evidence::Evidences;
use super::way::WayId;
use super::{Finding, Plan, Stage, Trial, Ways};
use base::{Duration, NodeAddr, Time};
use graph::Topology;
use wire::data::LinkProtocol;

/// An introduction ends after this time in any case: if it is not decided by then, there are too few packets.
const INTRODUCED_FOR: Duration = Duration::from_secs(5);

impl Ways {
    /// Notes that packets that took `before` are about to take `new`, and introduces the new way if necessary. `before`
    /// is `None` if they took no known way: a link without relays, or several paths at once.
    pub(in crate::audit) fn introduce(
        &mut self,
        now: Time,
        (new, before): (WayId, Option<WayId>),
        topology: &Topology,
        ends: (NodeAddr, NodeAddr),
    ) {
        let is_proven = self.at(new).is_some_and(|way| way.is_proven(now));
        if is_proven || self.is_suspected(new) {
            return;
        }
        let carried = match &self.plan {
            Plan::Plain => before,
            Plan::Settled(way) => before.filter(|way| !self.is_suspected(*way)).or(Some(*way)),
            Plan::Trial(trial)
                if trial.stage == Stage::Introduction && before == Some(trial.incumbent) =>
            {
                Some(trial.candidate)
            }
            // A trial is already running, and the packets of its ways need it more.
            Plan::Trial(_) => return,
        };
        let candidate = match carried {
            Some(way) => self.is_whole(way, topology).then_some(way),
            None => self.beside(now, new, topology, ends),
        };
        let is_bad = |way: &WayId| self.evidence(*way).is_some_and(|e| e.is_bad());
        let Some(candidate) = candidate.filter(|way| *way != new && !is_bad(way)) else {
            return;
        };
        if let Some(way) = self.ways.iter_mut().find(|way| way.id == new) {
            way.evidence.doubt();
        }
        self.plan = Plan::Trial(Trial {
            since: now,
            incumbent: new,
            candidate,
            stage: Stage::Introduction,
            of: LinkProtocol::default(),
            failed: Vec::new(),
            gone: None,
        });
    }

    /// Notes that packets of a group begin to take the path `new`, without any other way, and that copies of them
    /// follow. `before` is their path before, if it was another. Returns whether the new path is doubtful: it is
    /// introduced, or has a suspect.
    pub(in crate::audit) fn introduce_paths(
        &mut self,
        now: Time,
        (new, before): (Vec<NodeAddr>, Option<Vec<NodeAddr>>),
        topology: &Topology,
        ends: (NodeAddr, NodeAddr),
    ) -> bool {
        let before = before.map(|before| self.enter(now, before));
        let new = self.enter(now, new);
        self.introduce(now, (new, before), topology, ends);
        let is_introduced = match &self.plan {
            Plan::Trial(trial) => trial.incumbent == new,
            _ => false,
        };
        if is_introduced {
            self.want(now, new);
        }
        is_introduced || self.is_suspected(new)
    }

    /// Returns another way without the relays of this one.
    fn beside(
        &mut self,
        now: Time,
        new: WayId,
        topology: &Topology,
        (own, to): (NodeAddr, NodeAddr),
    ) -> Option<WayId> {
        let link = topology.index(own).zip(topology.index(to));
        let link = link.and_then(|(own, to)| topology.link(own, to));
        let nodes = match link.is_some_and(|edge| !edge.link.is_silent()) {
            true => vec![own, to],
            false => self.other(topology, (own, to), &[new], true)?,
        };
        // The new way counts as used, so that it is not forgotten when the other one is entered.
        self.want(now, new);
        Some(self.enter(now, nodes))
    }

    pub(super) fn decide_introduction(&mut self, now: Time, trial: Trial) -> Option<Finding> {
        let Trial {
            incumbent: new,
            candidate: before,
            ..
        } = trial;
        // Some packets still take the way before, or take it again by table, and this way may be bad by now.
        let counts = |id: WayId| match id == before {
            true => now >= self.quiet_until && self.at(id).is_some_and(|way| way.is_wanted(now)),
            false => true,
        };
        let worst = |id: WayId| self.evidence(id).and_then(Evidences::worst);
        let both = [(new, before), (before, new)].into_iter();
        let mut both = both.filter(|(bad, _)| counts(*bad));
        let bad = both.find_map(|(bad, other)| Some((bad, other, worst(bad)?)));
        if let Some((incumbent, candidate, of)) = bad {
            let loss = self.evidence(incumbent)?.of(of).loss();
            self.reset(incumbent);
            self.reset(candidate);
            self.plan = Plan::Trial(Trial {
                since: now,
                incumbent,
                candidate,
                stage: Stage::Comparison,
                of,
                ..trial
            });
            return Some(Finding::Bad { loss });
        }
        let is_over = now.since(trial.since) >= INTRODUCED_FOR;
        let carries = self.evidence(new).is_some_and(Evidences::carries);
        if carries || is_over || self.is_passed_by(now, &trial) {
            self.plan = self.as_before(trial.incumbent);
        }
        None
    }
}
