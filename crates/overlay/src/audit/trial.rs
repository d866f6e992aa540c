//! The ways to one destination: which one its packets take when the path of the tables does not deliver
//! what it promises.
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
//! What P has and Q has not is suspect: the relays, or the links where there is no such relay. Packets whose
//! path by table has a suspect take the way that was settled on; all others go by table.
//!
//! Choice: a trial ends without a verdict where all ways are alike, so nothing is ever worse off than by
//! table for more than the time of a trial, and then not for a minute and more.
//!
//! While two ways are compared the tables may lead packets by a third one, into the same hole or another: they go by the
//! candidate too, until the third way has shown that it carries them.
//!
//! A way that the tables turn to is introduced by a trial of its own, whose candidate is the way before: packets go
//! by both until the new one has shown that it is no hole.
//!
//! This file holds the plan and says where packets go. `introduction` begins with a new way, `search` seeks Q,
//! `verdict` ends a trial, `suspicion` says who is to blame, and `way` is one path with what is known of it.

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
use suspicion::{RETRY_MOST, would_blame};
use way::{Way, stamp_of};
use wire::data::LinkProtocol;

/// Ways to one destination that are known. Choice: one of each metric, and as many as a search tries.
const WAYS_MAX: usize = 12;
/// Packets per second that go twice in a trial, and at once. Choice: what two calls send. More of a flow goes
/// by the better of the two ways alone: a trial is to cost little where a path is bad because it is full.
const COPIES_PER_S: f64 = 200.0;
const COPIES_BURST: f64 = 50.0;

/// Where packets are to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// As without audits.
    Table,
    /// By this way.
    One(WayId),
    /// By both, each sealed for itself.
    Two(WayId, WayId),
}

/// Something that is told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Finding {
    /// A way loses this share, more than it promises: packets go twice.
    Bad { loss: f64 },
    /// What is to blame is among these.
    Suspects { suspects: Vec<Suspect>, loss: f64 },
    /// The suspects on a way have passed.
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
    /// The packets by which the two are compared.
    of: LinkProtocol,
    /// What was found bad.
    failed: Vec<WayId>,
    /// Since when the incumbent lacks a link.
    gone: Option<Time>,
}

/// What a trial is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The tables have turned to the incumbent, of which nobody knows whether it delivers, from the candidate.
    Introduction,
    /// The incumbent is bad.
    Comparison,
    /// The candidate has suspects, and may have another chance.
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
    /// No search until then, and how many were in vain.
    quiet_until: Time,
    in_vain: u32,
    /// The last search found nothing to try.
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

    /// The way over these nodes, which is known from now on.
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

    /// Packets are about to take this way, if nobody diverts them.
    #[inline]
    pub(super) fn want(&mut self, now: Time, id: WayId) {
        if let Some(way) = self.ways.iter_mut().find(|way| way.id == id) {
            (way.used, way.wanted) = (now, Some(now));
        }
    }

    pub(crate) fn is_in_trial(&self) -> bool {
        matches!(self.plan, Plan::Trial(_))
    }

    /// Packets may go otherwise than by table.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.plan, Plan::Plain)
    }

    /// The stamp of a way.
    pub(crate) fn stamp(&self, id: WayId) -> &[u8] {
        self.at(id).map_or(&[], |way| &way.stamp)
    }

    /// The nodes of a way.
    pub(crate) fn nodes(&self, id: WayId) -> &[NodeAddr] {
        self.at(id).map_or(&[], |way| &way.nodes)
    }

    /// The ways that packets may be sent by now, instead of by table.
    pub(crate) fn planned(&self) -> impl Iterator<Item = WayId> {
        let (first, second) = match &self.plan {
            Plan::Plain => (None, None),
            Plan::Settled(way) => (Some(*way), None),
            Plan::Trial(trial) => (Some(trial.incumbent), Some(trial.candidate)),
        };
        first.into_iter().chain(second)
    }

    /// Where so many packets go whose path by table, or by their own stamp, is `natural`. `may_copy` says
    /// whether the node can afford them twice, to these two neighbours.
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
            // Every hop is told, also where the tables of this node lead around the suspect: those of the others,
            // who know of none, may be ahead of them or behind.
            Plan::Settled(way) if self.is_suspected(natural) => Course::One(*way),
            Plan::Settled(_) => Course::One(natural),
            Plan::Trial(trial) => {
                let (mut a, b) = (trial.incumbent, trial.candidate);
                let is_third = natural != a && natural != b && !self.is_suspected(natural);
                if is_third && !self.is_in_doubt(now, natural, trial) {
                    return Course::Table;
                }
                if trial.stage == Stage::Introduction && natural == b {
                    // Packets that the tables have not turned are no part of it.
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

    /// This way may send its packets into the same hole as the incumbent of a trial, or into another one: it has the
    /// relays that would be blamed, or nobody knows what it does with packets. They go by the candidate as well, for the
    /// trial may go on for seconds after the tables have left its incumbent for this way.
    fn is_in_doubt(&self, now: Time, id: WayId, trial: &Trial) -> bool {
        let Some(way) = self.at(id).filter(|_| trial.stage == Stage::Comparison) else {
            return false;
        };
        let bad = [trial.incumbent].into_iter();
        let mut bad = bad.chain(trial.failed.iter().copied());
        let good = self.nodes(trial.candidate);
        way.evidence.is_bad()
            || !way.is_proven(now)
            || way.proven <= Some(trial.since)
                && bad.any(|bad| would_blame(self.nodes(bad), good, &way.nodes))
    }

    /// Packets may be sent by this way now, instead of by table.
    pub(crate) fn is_planned(&self, id: WayId) -> bool {
        self.planned().any(|way| way == id)
    }

    /// The way of packets whose path by table is `natural`, if they go one other way.
    pub(crate) fn settled(&self, natural: WayId) -> Option<&[NodeAddr]> {
        match self.plan {
            Plan::Settled(way) if way != natural && self.is_suspected(natural) => {
                Some(self.nodes(way))
            }
            _ => None,
        }
    }

    /// The way that was settled on, for packets whose path has a suspect.
    pub(crate) fn settled_on(&self) -> Option<&[NodeAddr]> {
        match self.plan {
            Plan::Settled(way) => Some(self.nodes(way)),
            _ => None,
        }
    }

    /// What is known of a path by other packets. It counts only where no way is compared yet.
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

    /// Takes in what became of packets.
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

    /// What follows from what is known by now, for packets between these two.
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

    /// Something is suspect at present.
    pub(crate) fn has_suspects(&self) -> bool {
        self.suspicions.iter().any(|s| s.is_active)
    }

    /// What is suspect at present.
    pub(crate) fn suspicions(&self) -> impl Iterator<Item = &Suspicion> {
        self.suspicions.iter().filter(|s| s.is_active)
    }

    /// Forgets what nobody has met for long.
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
