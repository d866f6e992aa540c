//! The paths to one destination (*ways*), and which one packets take if the path by table does not deliver what it
//! promises.
//!
//! ```text
//!              a way is bad                       P bad again, Q good
//!   Plain ───────────────────▶ Trial(P, Q) ──────────────────────────▶ Settled(Q)
//!     ▲  ▲                       │ │    ▲                                 │    ▲
//!     │  │ P good                │ │    │ Q bad: the next Q               │    │ P bad: twice
//!     │  '───────────────────────' └────'                                 ▼    │ as long
//!     │    no Q left, P left, or no verdict                      Trial(Q, P) after 1, 2 ... 60 min
//!     '─────────────────────────────────────────────────── P good ────────┘
//! ```
//! The relays that P has and Q does not have are suspect, or the links if there is no such relay. Packets whose path by
//! table has a suspect take the way that was settled on. All other packets go by table.
//!
//! Choice: a trial ends without a verdict if all ways are alike. So packets are never worse off than by table for
//! longer than a trial lasts, and after that not for a minute or more.
//!
//! While two ways are compared, the tables may lead packets by a third one, into the same hole or into another one.
//! These packets also go by the candidate, until the third way has shown that it carries them.
//!
//! If the tables change to a new way, a trial introduces it. The candidate of this trial is the way before: packets go
//! by both until the new way has shown that it is not a hole.
//!
//! This file holds the plan and decides where packets go. `introduction` begins with a new way, `search` finds Q,
//! `verdict` ends a trial, `suspicion` decides which relays or links are to blame, and `way` is one path with the
//! evidence about it.

mod introduction;
mod search;
mod suspicion;
mod verdict;
mod way;

pub use suspicion::Suspect;
pub(crate) use suspicion::Suspicion;
pub(crate) use way::WayId;

use super::evidence::{Evidence, Evidences, Promise};
use super::ledger::Judged;
use base::token_bucket::TokenBucket;
use base::{NodeAddr, Time};
use graph::Topology;
use suspicion::{RETRY_MOST, blamed};
use way::{Way, stamp_of};
use wire::data::LinkProtocol;

/// Number of ways to one destination that are remembered. Choice: one for each metric, and as many as a search tries.
const WAYS_MAX: usize = 12;
/// Packets per second that are sent twice in a trial, and how many of them at once. Choice: as many as two calls send.
/// Further packets of a flow go by the better of the two ways alone: a trial must cost little if a path is bad because
/// it is full.
const COPIES_PER_S: f64 = 200.0;
const COPIES_BURST: f64 = 50.0;

/// Where packets are to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// Where they would go without audits.
    Table,
    /// By this way.
    One(WayId),
    /// By both ways. Each copy is sealed separately.
    Two(WayId, WayId),
}

/// A finding that the node reports.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Finding {
    /// A way loses this share, which is more than it promises: packets are sent twice.
    Bad { loss: f64 },
    /// The relay or link that is to blame is among these.
    Suspects { suspects: Vec<Suspect>, loss: f64 },
    /// The suspects on a way were found to be good.
    Cleared { suspects: Vec<Suspect> },
}

#[derive(Clone, Debug)]
enum Plan {
    Plain,
    Trial(Trial),
    Settled(WayId),
}

#[derive(Clone, Debug)]
struct Trial {
    since: Time,
    incumbent: WayId,
    candidate: WayId,
    stage: Stage,
    /// The link protocol whose packets the two ways are compared by.
    of: LinkProtocol,
    /// The ways that were found bad.
    failed: Vec<WayId>,
    /// Since when a link of the incumbent is missing.
    gone: Option<Time>,
}

/// What a trial is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The tables have changed from the candidate to the incumbent. It is not known yet whether the incumbent delivers.
    Introduction,
    /// The incumbent is bad.
    Comparison,
    /// The candidate has suspects, and gets another chance.
    Retry,
}

/// All ways to one destination.
#[derive(Debug)]
pub(crate) struct Ways {
    ways: Vec<Way>,
    next: u32,
    plan: Plan,
    suspicions: Vec<Suspicion>,
    copies: TokenBucket,
    /// No search begins until then.
    quiet_until: Time,
    /// Number of searches in vain.
    in_vain: u32,
    /// Whether the last search found no other way to try.
    is_alone: bool,
}

impl Ways {
    pub(super) fn new(now: Time) -> Ways {
        Ways {
            ways: Vec::new(),
            next: 0,
            plan: Plan::Plain,
            suspicions: Vec::new(),
            copies: TokenBucket::new(COPIES_PER_S, COPIES_BURST, now),
            quiet_until: Time::ZERO,
            in_vain: 0,
            is_alone: false,
        }
    }

    pub(super) fn has(&self, id: WayId) -> bool {
        self.at(id).is_some()
    }

    /// Returns the way over these nodes, and remembers it from now on.
    pub(super) fn enter(&mut self, now: Time, nodes: Vec<NodeAddr>) -> WayId {
        if let Some(way) = self.ways.iter_mut().find(|way| way.nodes == nodes) {
            way.used = now;
            return way.id;
        }
        if self.ways.len() >= WAYS_MAX {
            let kept = |id: WayId| match &self.plan {
                Plan::Plain => false,
                Plan::Settled(way) => *way == id,
                Plan::Trial(trial) => {
                    id == trial.incumbent || id == trial.candidate || trial.failed.contains(&id)
                }
            };
            let places = 0..self.ways.len();
            let free = places.filter(|at| !kept(self.ways[*at].id));
            if let Some(oldest) = free.min_by_key(|at| self.ways[*at].used) {
                self.ways.remove(oldest);
            }
        }
        let id = WayId(self.next);
        self.next = self.next.wrapping_add(1);
        self.ways.push(Way {
            id,
            stamp: stamp_of(&nodes),
            nodes,
            evidence: Evidences::default(),
            proven: None,
            used: now,
            wanted: None,
        });
        id
    }

    /// Notes that packets are about to take this way, if they are not diverted.
    #[inline]
    pub(super) fn want(&mut self, now: Time, id: WayId) {
        if let Some(way) = self.ways.iter_mut().find(|way| way.id == id) {
            (way.used, way.wanted) = (now, Some(now));
        }
    }

    pub(crate) fn is_in_trial(&self) -> bool {
        matches!(self.plan, Plan::Trial(_))
    }

    /// Returns whether all packets go by table.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.plan, Plan::Plain)
    }

    /// Returns the stamp of a way.
    pub(crate) fn stamp(&self, id: WayId) -> &[u8] {
        self.at(id).map_or(&[], |way| &way.stamp)
    }

    /// Returns the nodes of a way.
    pub(crate) fn nodes(&self, id: WayId) -> &[NodeAddr] {
        self.at(id).map_or(&[], |way| &way.nodes)
    }

    /// Returns the ways that packets may now take instead of going by table.
    pub(crate) fn planned(&self) -> impl Iterator<Item = WayId> {
        let (first, second) = match &self.plan {
            Plan::Plain => (None, None),
            Plan::Settled(way) => (Some(*way), None),
            Plan::Trial(trial) => (Some(trial.incumbent), Some(trial.candidate)),
        };
        first.into_iter().chain(second)
    }

    /// Returns where `packets` packets go whose path by table, or by their own stamp, is `natural`. `may_copy` says
    /// whether the node may send them twice, to these two neighbours.
    pub(crate) fn course(
        &mut self,
        now: Time,
        natural: Option<WayId>,
        packets: usize,
        may_copy: impl FnOnce([NodeAddr; 2]) -> bool,
    ) -> Course {
        let Some(natural) = natural else {
            return Course::Table;
        };
        match &self.plan {
            Plan::Plain => Course::Table,
            // The stamp names every hop, also if the tables of this node lead around the suspect: the tables of other
            // nodes, which do not know the suspect, may be newer or older.
            Plan::Settled(way) if self.is_suspected(natural) => Course::One(*way),
            Plan::Settled(_) => Course::One(natural),
            Plan::Trial(trial) => {
                let (mut a, b) = (trial.incumbent, trial.candidate);
                let is_third = natural != a && natural != b && !self.is_suspected(natural);
                if is_third && !self.is_in_doubt(now, natural, trial) {
                    return Course::Table;
                }
                if trial.stage == Stage::Introduction && natural == b {
                    // Packets that still take the old way by table take no part in the introduction.
                    return Course::Table;
                }
                if is_third {
                    a = natural;
                } else if trial.gone.is_some() && natural != a {
                    return Course::One(b);
                }
                let hop = |id: WayId| self.nodes(id).get(1).copied();
                if let (Some(first), Some(second)) = (hop(a), hop(b))
                    && self.copies.available(now) >= packets as f64
                    && may_copy([first, second])
                    && self.copies.try_take(now, packets as f64)
                {
                    return Course::Two(a, b);
                }
                match trial.stage {
                    Stage::Introduction if natural == a => Course::Table,
                    Stage::Introduction => Course::One(b),
                    _ if self.loss(b) < self.loss(a) => Course::One(b),
                    _ if is_third => Course::Table,
                    _ => Course::One(a),
                }
            }
        }
    }

    /// Returns whether this way may lead its packets into the same hole as the incumbent of a trial, or into another
    /// one: it has the relays that would be blamed, or it is not known whether it carries packets. Its packets then go
    /// by the candidate, too, because the trial may last for seconds after the tables have left its incumbent for this
    /// way.
    fn is_in_doubt(&self, now: Time, id: WayId, trial: &Trial) -> bool {
        let Some(way) = self.at(id).filter(|_| trial.stage == Stage::Comparison) else {
            return false;
        };
        let good = core::iter::once(self.nodes(trial.candidate));
        let bad = core::iter::once(trial.incumbent).chain(trial.failed.iter().copied());
        let mut blamed = bad.flat_map(|bad| blamed(self.nodes(bad), good.clone()));
        way.evidence.is_bad()
            || !way.is_proven(now)
            || way.proven <= Some(trial.since) && blamed.any(|suspect| suspect.is_on(&way.nodes))
    }

    /// Returns whether packets may now take this way instead of going by table.
    pub(crate) fn is_planned(&self, id: WayId) -> bool {
        self.planned().any(|way| way == id)
    }

    /// Returns the way of packets whose path by table is `natural`, if they take one other way instead.
    pub(crate) fn settled(&self, natural: WayId) -> Option<&[NodeAddr]> {
        match self.plan {
            Plan::Settled(way) if way != natural && self.is_suspected(natural) => {
                Some(self.nodes(way))
            }
            _ => None,
        }
    }

    /// Returns the way that was settled on, for packets whose path has a suspect.
    pub(crate) fn settled_on(&self) -> Option<&[NodeAddr]> {
        match self.plan {
            Plan::Settled(way) => Some(self.nodes(way)),
            _ => None,
        }
    }

    /// Takes in evidence about a path from other packets. It counts only if no trial is running.
    pub(super) fn accuse(
        &mut self,
        now: Time,
        nodes: Vec<NodeAddr>,
        (link, evidence): (LinkProtocol, Evidence),
    ) {
        if self.is_in_trial() {
            return;
        }
        let id = self.enter(now, nodes);
        self.want(now, id);
        if let Some(way) = self.ways.iter_mut().find(|way| way.id == id) {
            *way.evidence.of_mut(link) = evidence;
        }
    }

    /// Takes in how many packets of a run arrived.
    pub(super) fn judge(
        &mut self,
        judged: &Judged,
        promise: &mut impl FnMut(&[NodeAddr], LinkProtocol) -> Option<Promise>,
    ) {
        let Some(way) = self.ways.iter_mut().find(|way| way.id == judged.way) else {
            return;
        };
        way.used = way.used.max(judged.at);
        if let Some(promise) = promise(&way.nodes, judged.link) {
            let evidence = way.evidence.of_mut(judged.link);
            evidence.take(judged.at, judged.sent, judged.lost, promise);
            if evidence.carries() {
                way.proven = way.proven.max(Some(judged.at));
            }
        }
    }

    /// Decides what follows from the present evidence, for packets between these two ends.
    pub(super) fn decide(
        &mut self,
        now: Time,
        topology: &Topology,
        ends: (NodeAddr, NodeAddr),
    ) -> Option<Finding> {
        match self.plan.clone() {
            Plan::Plain => {
                if self.has_suspects() {
                    self.settle_anew(now, topology, ends);
                }
                self.look_for_bad(now, topology, ends)
            }
            Plan::Settled(way) => {
                if !self.is_whole(way, topology) {
                    self.settle_anew(now, topology, ends);
                    return None;
                }
                if let Some(finding) = self.look_for_bad(now, topology, ends) {
                    return Some(finding);
                }
                self.consider_retry(now, way, topology);
                None
            }
            Plan::Trial(trial) => self.decide_trial(now, topology, ends, trial),
        }
    }

    /// Returns whether there are suspects at present.
    pub(crate) fn has_suspects(&self) -> bool {
        self.suspicions.iter().any(|s| s.is_active)
    }

    /// Returns the present suspicions.
    pub(crate) fn suspicions(&self) -> impl Iterator<Item = &Suspicion> {
        self.suspicions.iter().filter(|s| s.is_active)
    }

    /// Forgets suspicions whose retry has been due for [`RETRY_MOST`].
    pub(super) fn expire(&mut self, now: Time) {
        self.suspicions
            .retain(|suspicion| now < suspicion.until + RETRY_MOST);
        if !self.has_suspects() && matches!(self.plan, Plan::Settled(_)) {
            self.plan = Plan::Plain;
        }
    }

    fn is_suspected(&self, id: WayId) -> bool {
        let nodes = self.nodes(id);
        let mut active = self.suspicions.iter().filter(|s| s.is_active);
        active.any(|suspicion| suspicion.suspect.is_on(nodes))
    }

    fn at(&self, id: WayId) -> Option<&Way> {
        self.ways.iter().find(|way| way.id == id)
    }

    fn evidence(&self, id: WayId) -> Option<&Evidences> {
        self.at(id).map(|way| &way.evidence)
    }

    fn loss(&self, id: WayId) -> f64 {
        self.evidence(id).map_or(1.0, Evidences::loss)
    }

    fn reset(&mut self, id: WayId) {
        if let Some(way) = self.ways.iter_mut().find(|way| way.id == id) {
            way.evidence = Evidences::default();
        }
    }
}

#[cfg(test)]
mod tests;
