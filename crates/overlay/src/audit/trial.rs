//! The ways to one destination: which one its packets take when the path of the tables does not deliver
//! what it promises.
//!
//! ```text
//!              a way is bad                       P bad again, Q good
//!   Plain ───────────────────▶ Trial(P, Q) ──────────────────────────▶ Settled(Q)
//!     ▲  ▲                       │ │    ▲                                 │    ▲
//!     │  │ P good                │ │    │ Q bad: the next Q               │    │ P bad: twice
//!     │  '───────────────────────' └────'                                 ▼    │ as long
//!     │    no Q left, or no verdict in a while                   Trial(Q, P) after 1, 2 ... 60 min
//!     '─────────────────────────────────────────────────── P good ────────┘
//! ```
//! What P has and Q has not is suspect: the relays, or the links where there is no such relay. Packets whose
//! path by table has a suspect take the way that was settled on; all others go by table.
//!
//! Choice: a trial ends without a verdict where all ways are alike, so nothing is ever worse off than by
//! table for more than the time of a trial, and then not for a minute and more.

use super::evidence::{Evidence, HEAVY, Promise};
use super::ledger::Judged;
use base::token_bucket::TokenBucket;
use base::{Duration, NodeAddr, Time};
use core::fmt;
use graph::spf::Tree;
use graph::stamp::Subgraph;
use graph::{Metric, NodeIndex, Topology, paths};
use wire::data::LinkProtocol;
use wire::stamp::{STAMP_BYTES_MAX, emit_subgraph};

/// Ways to one destination that are known. Choice: one of each metric, and as many as a search tries.
const WAYS_MAX: usize = 12;
/// Other ways that one search tries.
const CANDIDATES_MAX: usize = 6;
/// Among so many shortest paths a way is sought that has few suspects, where none has none.
const SHORTEST_MAX: usize = 8;
/// Suspects on the ways to one destination.
const SUSPECTS_MAX: usize = 16;
/// A suspect is tried again after so long, and after twice as long each time it fails.
const RETRY_FIRST: Duration = Duration::from_secs(60);
const RETRY_MOST: Duration = Duration::from_secs(3600);
/// Nobody is blamed sooner after the beginning of a trial. Choice: until then link state may find that a link has
/// failed. The flow is saved meanwhile: its packets go twice.
const BLAME_AFTER: Duration = Duration::from_secs(5);
/// A trial without a verdict ends after so long, if there have been so many packets, and at last.
const TRIAL_LASTS: Duration = Duration::from_secs(30);
const TRIAL_PACKETS: u64 = 1_000;
/// What loses so many times less is better.
const CLEARLY: f64 = 2.0;
const TRIAL_LASTS_MOST: Duration = Duration::from_secs(600);
/// Ways that packets have taken within so long count.
const IN_USE: Duration = Duration::from_secs(5);
/// Where a search finds no other way, the next one is so much later.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Packets per second that go twice in a trial, and at once. Choice: what two calls send. More of a flow goes
/// by the better of the two ways alone: a trial is to cost little where a path is bad because it is full.
const COPIES_PER_S: f64 = 200.0;
const COPIES_BURST: f64 = 50.0;

/// One way to the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WayId(u32);

#[derive(Debug)]
struct Way {
    id: WayId,
    /// From this node to the destination.
    nodes: Vec<NodeAddr>,
    /// Empty if it fits none.
    stamp: Vec<u8>,
    evidence: Evidence,
    /// When packets went by it, and when packets would have done so that nobody diverts.
    used: Time,
    wanted: Option<Time>,
}

#[cfg(test)]
impl WayId {
    pub(super) const fn numbered(n: u32) -> WayId {
        WayId(n)
    }
}

/// What may be to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suspect {
    /// A relay.
    Node(NodeAddr),
    /// A link, in this direction.
    Link(NodeAddr, NodeAddr),
}

/// A suspect, for the paths to one destination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suspicion {
    pub(crate) suspect: Suspect,
    pub(crate) since: Time,
    /// It is tried again then.
    pub(crate) until: Time,
    pub(crate) strikes: u32,
    /// The share that was lost where it was.
    pub(crate) loss: f64,
    /// So many were found together: one of them is to blame.
    pub(crate) among: usize,
    /// It has passed since, or not.
    is_active: bool,
}

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
    /// The candidate has suspects, and may have another chance.
    is_retry: bool,
    /// What was found bad.
    failed: Vec<WayId>,
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

    fn at(&self, id: WayId) -> Option<&Way> {
        self.ways.iter().find(|way| way.id == id)
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
            evidence: Evidence::default(),
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

    /// What the longest stamp takes that packets may get now.
    pub(crate) fn stamp_bytes(&self) -> usize {
        let len = |id: WayId| self.stamp(id).len();
        match &self.plan {
            Plan::Plain => 0,
            Plan::Settled(way) => len(*way),
            Plan::Trial(trial) => len(trial.incumbent).max(len(trial.candidate)),
        }
    }

    /// Where so many packets go whose path by table, or by their own stamp, is `natural`.
    pub(crate) fn course(&mut self, now: Time, natural: Option<WayId>, packets: usize) -> Course {
        let Some(natural) = natural else {
            return Course::Table;
        };
        match &self.plan {
            Plan::Plain => Course::Table,
            Plan::Settled(way) if *way == natural || !self.is_suspected(natural) => Course::Table,
            Plan::Settled(way) => Course::One(*way),
            Plan::Trial(trial) => {
                let (a, b) = (trial.incumbent, trial.candidate);
                if natural != a && natural != b && !self.is_suspected(natural) {
                    return Course::Table;
                }
                if self.copies.try_take(now, packets as f64) {
                    return Course::Two(a, b);
                }
                Course::One(if self.loss(b) < self.loss(a) { b } else { a })
            }
        }
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
            way.evidence
                .take(judged.at, judged.sent, judged.lost, promise);
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

    /// The way that was settled on has lost a link: takes the best one without suspects, if there is one.
    fn settle_anew(&mut self, now: Time, topology: &Topology, ends: (NodeAddr, NodeAddr)) {
        self.plan = match self.other(topology, ends, &[], true) {
            Some(nodes) => Plan::Settled(self.enter_anew(now, nodes)),
            None => Plan::Plain,
        };
    }

    fn look_for_bad(
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
        let (incumbent, loss) = (bad.id, bad.evidence.loss());
        let trial = Trial {
            since: now,
            incumbent,
            candidate: incumbent,
            is_retry: false,
            failed: Vec::new(),
        };
        self.reset(incumbent);
        let was_alone = self.is_alone;
        self.go_on(now, topology, ends, trial);
        (!was_alone).then_some(Finding::Bad { loss })
    }

    /// Seeks another candidate; ends the trial if there is none.
    fn go_on(
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
                // So that it is kept while its place is sought.
                self.plan = Plan::Trial(trial.clone());
                trial.candidate = self.enter_anew(now, nodes);
                trial.is_retry = false;
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

    /// All ways are alike, or no verdict is to be had: back to where the search began.
    fn give_up(&mut self, now: Time, trial: &Trial) {
        self.quiet_until = now + backoff(self.in_vain);
        self.in_vain += 1;
        self.reset(trial.incumbent);
        self.plan = self.as_before(trial.incumbent);
        if matches!(self.plan, Plan::Plain) {
            for suspicion in &mut self.suspicions {
                suspicion.is_active = false;
            }
        }
    }

    /// The plan without a trial of this way: what was found worse before is no better for it.
    fn as_before(&self, incumbent: WayId) -> Plan {
        match self.has_suspects() && !self.is_suspected(incumbent) {
            true => Plan::Settled(incumbent),
            false => Plan::Plain,
        }
    }

    fn decide_trial(
        &mut self,
        now: Time,
        topology: &Topology,
        ends: (NodeAddr, NodeAddr),
        mut trial: Trial,
    ) -> Option<Finding> {
        let (incumbent, candidate) = (trial.incumbent, trial.candidate);
        if !self.is_whole(incumbent, topology) {
            // Link state has caught up: the tables have another path, or will have one.
            self.plan = match self.has_suspects() {
                true if self.is_whole(candidate, topology) && !trial.is_retry => {
                    Plan::Settled(candidate)
                }
                _ => Plan::Plain,
            };
            return None;
        }
        if !self.is_whole(candidate, topology) {
            match trial.is_retry {
                true => self.plan = Plan::Settled(incumbent),
                false => self.go_on(now, topology, ends, trial),
            }
            return None;
        }
        let (p, q) = (self.evidence(incumbent)?, self.evidence(candidate)?);
        let (p_loss, q_loss) = (p.loss(), q.loss());
        let (p_bad, q_bad) = (p.is_bad(), q.is_bad());
        if trial.is_retry {
            return self.decide_retry(now, trial, (p_bad, q_bad, q_loss), q.is_good(0.0));
        }
        if q_bad {
            trial.failed.push(candidate);
            if q_loss < p_loss {
                trial.failed.push(incumbent);
                trial.incumbent = candidate;
            }
            self.go_on(now, topology, ends, trial);
            return None;
        }
        if p.is_good(0.0) {
            self.plan = self.as_before(incumbent);
            return None;
        }
        let age = now.since(trial.since);
        if age >= BLAME_AFTER && p.is_bad_still() && q.is_good(p_loss) {
            return Some(self.condemn(now, &trial, p_loss));
        }
        let is_long = age >= TRIAL_LASTS && p.sent() >= TRIAL_PACKETS;
        if is_long || age >= TRIAL_LASTS_MOST {
            // The other one does not keep its promise, nor break it: it will do if it is clearly better.
            if p_bad && q_loss * CLEARLY < p_loss {
                return Some(self.condemn(now, &trial, p_loss));
            }
            self.give_up(now, &trial);
        }
        None
    }

    fn decide_retry(
        &mut self,
        now: Time,
        trial: Trial,
        (p_bad, q_bad, q_loss): (bool, bool, f64),
        q_good: bool,
    ) -> Option<Finding> {
        let (incumbent, candidate) = (trial.incumbent, trial.candidate);
        if q_bad {
            for at in self.suspects_of(candidate) {
                self.suspicions[at].strike(now, q_loss);
            }
            self.plan = Plan::Settled(incumbent);
        } else if q_good {
            let cleared = self.suspects_of(candidate);
            let suspects = cleared.iter().map(|at| self.suspicions[*at].suspect);
            let suspects = suspects.collect();
            for at in cleared {
                self.suspicions[at].is_active = false;
            }
            self.plan = match self.has_suspects() {
                true => Plan::Settled(incumbent),
                false => Plan::Plain,
            };
            return Some(Finding::Cleared { suspects });
        } else if p_bad {
            // What was settled on is bad, and what was suspect may be better.
            self.plan = Plan::Trial(Trial {
                is_retry: false,
                ..trial
            });
        } else if now.since(trial.since) >= TRIAL_LASTS {
            for at in self.suspects_of(candidate) {
                self.suspicions[at].until = now + RETRY_FIRST;
            }
            self.plan = Plan::Settled(incumbent);
        }
        None
    }

    /// The incumbent is bad, and the candidate good.
    fn condemn(&mut self, now: Time, trial: &Trial, loss: f64) -> Finding {
        let good = |way: &&Way| {
            way.id == trial.candidate
                || now.since(way.used) < IN_USE && way.evidence.is_good(HEAVY.min(loss))
        };
        let good: Vec<&Way> = self.ways.iter().filter(good).collect();
        let bad = [trial.incumbent].into_iter().chain(trial.failed.clone());
        let mut groups: Vec<Vec<Suspect>> = Vec::new();
        for bad in bad.filter_map(|id| self.at(id)) {
            // One that has a suspect already needs no others.
            let explains = |suspect: &Suspect| suspect.is_on(&bad.nodes);
            if !groups.iter().flatten().any(explains) {
                groups.push(blamed(bad, &good));
            }
        }
        for at in self.suspects_of(trial.candidate) {
            self.suspicions[at].is_active = false;
        }
        for group in &groups {
            for suspect in group {
                self.suspect(now, *suspect, loss, group.len());
            }
        }
        self.in_vain = 0;
        self.plan = Plan::Settled(trial.candidate);
        let suspects = groups.into_iter().flatten().collect();
        Finding::Suspects { suspects, loss }
    }

    fn suspect(&mut self, now: Time, suspect: Suspect, loss: f64, among: usize) {
        let known = self.suspicions.iter().position(|s| s.suspect == suspect);
        let at = known.unwrap_or_else(|| {
            if self.suspicions.len() >= SUSPECTS_MAX {
                let places = 0..self.suspicions.len();
                let oldest = places.min_by_key(|at| {
                    let suspicion = &self.suspicions[*at];
                    (suspicion.is_active, suspicion.since)
                });
                self.suspicions.remove(oldest.unwrap_or_default());
            }
            self.suspicions.push(Suspicion {
                suspect,
                since: now,
                until: now,
                strikes: 0,
                loss,
                among,
                is_active: true,
            });
            self.suspicions.len() - 1
        });
        let suspicion = &mut self.suspicions[at];
        if !suspicion.is_active {
            suspicion.since = now;
        }
        (suspicion.is_active, suspicion.among) = (true, among);
        suspicion.strike(now, loss);
    }

    /// Gives a way with suspects another chance, if one that packets would take has its time.
    fn consider_retry(&mut self, now: Time, settled: WayId, topology: &Topology) {
        let is_due = |way: &&Way| {
            let at = self.suspects_of(way.id);
            way.is_wanted(now)
                && way.id != settled
                && !at.is_empty()
                && at.iter().all(|at| self.suspicions[*at].until <= now)
                && self.is_whole(way.id, topology)
        };
        let Some(candidate) = self.ways.iter().find(is_due).map(|way| way.id) else {
            return;
        };
        self.reset(candidate);
        self.reset(settled);
        self.plan = Plan::Trial(Trial {
            since: now,
            incumbent: settled,
            candidate,
            is_retry: true,
            failed: Vec::new(),
        });
    }

    /// The suspicions that a way meets.
    fn suspects_of(&self, id: WayId) -> Vec<usize> {
        let nodes = self.nodes(id);
        let meets = |suspicion: &Suspicion| suspicion.is_active && suspicion.suspect.is_on(nodes);
        let all = self.suspicions.iter().enumerate();
        all.filter(|(_, suspicion)| meets(suspicion))
            .map(|(at, _)| at)
            .collect()
    }

    fn is_suspected(&self, id: WayId) -> bool {
        let nodes = self.nodes(id);
        let mut active = self.suspicions.iter().filter(|s| s.is_active);
        active.any(|suspicion| suspicion.suspect.is_on(nodes))
    }

    /// The best path that avoids what is suspect and the ways in `bad`, as far as it can. None but that of
    /// the suspects, if it must be `clean`.
    fn other(
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
        // Of a way without relays the link itself.
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

    fn reset(&mut self, id: WayId) {
        if let Some(way) = self.ways.iter_mut().find(|way| way.id == id) {
            way.evidence = Evidence::default();
        }
    }

    fn evidence(&self, id: WayId) -> Option<&Evidence> {
        self.at(id).map(|way| &way.evidence)
    }

    fn loss(&self, id: WayId) -> f64 {
        self.evidence(id).map_or(1.0, Evidence::loss)
    }

    /// All links of a way are there and heard, and its packets can be stamped.
    fn is_whole(&self, id: WayId, topology: &Topology) -> bool {
        let Some(way) = self.at(id).filter(|way| !way.stamp.is_empty()) else {
            return false;
        };
        way.nodes.windows(2).all(|hop| {
            let ends = topology.index(hop[0]).zip(topology.index(hop[1]));
            let edge = ends.and_then(|(from, to)| topology.link(from, to));
            edge.is_some_and(|edge| !edge.link.is_silent())
        })
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
}

impl Way {
    fn is_wanted(&self, now: Time) -> bool {
        self.wanted.is_some_and(|at| now.since(at) < IN_USE)
    }

    fn relays(&self) -> &[NodeAddr] {
        &self.nodes[1..self.nodes.len() - 1]
    }

    fn has_link(&self, from: NodeAddr, to: NodeAddr) -> bool {
        self.nodes.windows(2).any(|hop| hop == [from, to])
    }
}

impl Suspicion {
    fn strike(&mut self, now: Time, loss: f64) {
        self.until = now + backoff(self.strikes);
        self.strikes += 1;
        self.loss = loss;
    }
}

impl Suspect {
    /// A path over these nodes has it.
    fn is_on(self, nodes: &[NodeAddr]) -> bool {
        match self {
            Suspect::Node(node) => nodes[..nodes.len().saturating_sub(1)].contains(&node),
            Suspect::Link(from, to) => nodes.windows(2).any(|hop| hop == [from, to]),
        }
    }
}

impl fmt::Display for Suspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Suspect::Node(node) => write!(f, "{node}"),
            Suspect::Link(from, to) => write!(f, "link {from} to {to}"),
        }
    }
}

/// What a bad way has and no good one: the relays, or the links if there is no such relay.
fn blamed(bad: &Way, good: &[&Way]) -> Vec<Suspect> {
    let relays = bad.relays().iter();
    let relays = relays.filter(|node| good.iter().all(|way| !way.nodes.contains(node)));
    let relays: Vec<Suspect> = relays.map(|node| Suspect::Node(*node)).collect();
    if !relays.is_empty() {
        return relays;
    }
    let links = bad.nodes.windows(2).map(|hop| (hop[0], hop[1]));
    let links = links.filter(|(from, to)| !good.iter().any(|way| way.has_link(*from, *to)));
    links.map(|(from, to)| Suspect::Link(from, to)).collect()
}

/// 1, 2, 4 ... 60 minutes.
fn backoff(strikes: u32) -> Duration {
    (RETRY_FIRST * (1 << strikes.min(6))).min(RETRY_MOST)
}

/// The stamp of one path; empty if there is none.
fn stamp_of(path: &[NodeAddr]) -> Vec<u8> {
    let graph = Subgraph::of_paths(&[path]).unwrap_or_default();
    let place = |place: usize| u8::try_from(place).unwrap_or(u8::MAX);
    let links = graph.links.iter();
    let links: Vec<(u8, u8)> = links.map(|&(from, to)| (place(from), place(to))).collect();
    let mut bytes = vec![0; STAMP_BYTES_MAX];
    let len = emit_subgraph(&graph.nodes, &links, &mut bytes).unwrap_or(0);
    bytes.truncate(len);
    bytes
}

#[cfg(test)]
mod tests;
