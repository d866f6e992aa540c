//! The verdict on two ways that are compared, and what follows from it.
//!
//! The incumbent is condemned if it is bad and the candidate is good, or in the end clearly better. Then the relays or
//! links that the incumbent has and no good way has are suspect. A retry is the comparison with the roles exchanged:
//! the candidate has the suspects, and clears them if it is good. A trial without a verdict restores the plan from
//! before.
//!
//! The tables may leave the incumbent meanwhile. If the way that they lead to instead is bad, too, it becomes the new
//! incumbent. The trial ends if no packet takes part in it any more.

use super::super::evidence::{Evidences, HEAVY};
use super::suspicion::{RETRY_FIRST, Suspect, Suspicion, backoff, blamed};
use super::way::{IN_USE, Way, WayId};
use super::{Finding, Plan, Stage, Trial, Ways};
use base::{Duration, NodeAddr, Time};
use graph::Topology;
use wire::data::LinkProtocol;

/// Number of suspects on the ways to one destination.
const SUSPECTS_MAX: usize = 16;
/// The least time from the beginning of a trial to the blame. Choice: until then, link state may find that a link has
/// failed. The flow does not suffer meanwhile, because its packets are sent twice.
const BLAME_AFTER: Duration = Duration::from_secs(5);
/// A trial without a verdict ends after [`TRIAL_LASTS`] if there were [`TRIAL_PACKETS`] packets, and after
/// [`TRIAL_LASTS_MOST`] in any case.
const TRIAL_LASTS: Duration = Duration::from_secs(30);
const TRIAL_PACKETS: u64 = 1_000;
const TRIAL_LASTS_MOST: Duration = Duration::from_secs(600);
/// The incumbent may lack a link for this long, and the trial then continues as it was.
const GONE: Duration = Duration::from_secs(5);
/// A way is clearly better if it loses this many times less.
const CLEARLY: f64 = 2.0;

impl Ways {
    pub(super) fn decide_trial(
        &mut self,
        now: Time,
        topology: &Topology,
        ends: (NodeAddr, NodeAddr),
        mut trial: Trial,
    ) -> Option<Finding> {
        let (incumbent, candidate) = (trial.incumbent, trial.candidate);
        let is_retry = trial.stage == Stage::Retry;
        if self.is_whole(incumbent, topology) {
            trial.gone = None;
        } else if !is_retry && now.since(*trial.gone.get_or_insert(now)) < GONE {
            // The link may come back, so the evidence is kept: a member may report a link as up and down in quick
            // succession.
            self.plan = Plan::Trial(trial);
            return None;
        } else {
            // Link state has noticed the failure: the tables have another path, or will have one.
            self.plan = match self.has_suspects() {
                true if self.is_whole(candidate, topology) && !is_retry => Plan::Settled(candidate),
                _ => Plan::Plain,
            };
            return None;
        }
        if !self.is_whole(candidate, topology) {
            match trial.stage {
                Stage::Introduction => self.plan = self.as_before(incumbent),
                Stage::Comparison => self.go_on(now, topology, ends, trial),
                Stage::Retry => self.plan = Plan::Settled(incumbent),
            }
            return None;
        }
        self.plan = Plan::Trial(trial.clone());
        let (all_p, all_q) = (self.evidence(incumbent)?, self.evidence(candidate)?);
        let (p_bad, q_bad) = (all_p.is_bad(), all_q.is_bad());
        match trial.stage {
            Stage::Introduction => return self.decide_introduction(now, trial),
            Stage::Retry => return self.decide_retry(now, trial),
            Stage::Comparison => {}
        }
        let sent = all_p.sent();
        let (p, q) = (all_p.of(trial.of), all_q.of(trial.of));
        let (p_loss, q_loss) = (p.loss(), q.loss());
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
        if let Some(bad) = self.bad_elsewhere(now, &trial) {
            self.turn_to(now, topology, ends, (trial, bad));
            return None;
        }
        if self.is_passed_by(now, &trial) {
            self.plan = self.as_before(incumbent);
            return None;
        }
        let is_long = age >= TRIAL_LASTS && sent >= TRIAL_PACKETS;
        if is_long || age >= TRIAL_LASTS_MOST {
            // The candidate is not known to keep its promise or to break it. It is good enough if it is clearly better.
            if p_bad && q_loss * CLEARLY < p_loss {
                return Some(self.condemn(now, &trial, p_loss));
            }
            self.give_up(now, &trial);
        }
        None
    }

    /// Returns a bad way that the tables have left the incumbent for. Its packets take no part in the trial, so without
    /// a change they would be lost.
    fn bad_elsewhere(&self, now: Time, trial: &Trial) -> Option<WayId> {
        if self.at(trial.incumbent)?.is_wanted(now) {
            return None;
        }
        let counts = |way: &&Way| {
            let is_other = way.id != trial.incumbent && way.id != trial.candidate;
            let goes_by_table = way.is_wanted(now) && !self.is_suspected(way.id);
            is_other && goes_by_table && way.evidence.is_bad()
        };
        self.ways.iter().find(counts).map(|way| way.id)
    }

    /// Begins the trial anew with another incumbent. The ways that were found bad are still avoided.
    fn turn_to(
        &mut self,
        now: Time,
        topology: &Topology,
        ends: (NodeAddr, NodeAddr),
        (mut trial, incumbent): (Trial, WayId),
    ) {
        trial.failed.retain(|failed| *failed != incumbent);
        trial.failed.push(trial.incumbent);
        (trial.incumbent, trial.since, trial.gone) = (incumbent, now, None);
        if let Some(of) = self.evidence(incumbent).and_then(Evidences::worst) {
            trial.of = of;
        }
        self.reset(incumbent);
        self.go_on(now, topology, ends, trial);
    }

    /// Returns whether there are packets, but none takes part in the trial, so that it would never be decided. Packets
    /// take part if their way by table is one of the two, or has a suspect.
    pub(super) fn is_passed_by(&self, now: Time, trial: &Trial) -> bool {
        let takes_part = |way: &Way| {
            way.id == trial.incumbent || way.id == trial.candidate || self.is_suspected(way.id)
        };
        let mut wanted = self.ways.iter().filter(|way| way.is_wanted(now)).peekable();
        wanted.peek().is_some() && !wanted.any(takes_part)
    }

    fn decide_retry(&mut self, now: Time, trial: Trial) -> Option<Finding> {
        let (incumbent, candidate) = (trial.incumbent, trial.candidate);
        let (p, q) = (self.evidence(incumbent)?, self.evidence(candidate)?);
        let (p_worst, q_worst, q_good) = (p.worst(), q.worst(), q.is_good());
        if let Some(of) = q_worst {
            let q_loss = q.of(of).loss();
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
        } else if let Some(of) = p_worst {
            // The way that was settled on is bad, and the way with the suspects may be better.
            self.plan = Plan::Trial(Trial {
                stage: Stage::Comparison,
                of,
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

    /// Ends the trial because the incumbent is bad and the candidate is good: names the suspects, and settles on the
    /// candidate.
    fn condemn(&mut self, now: Time, trial: &Trial, loss: f64) -> Finding {
        let good = |way: &&Way| {
            way.id == trial.candidate
                || now.since(way.used) < IN_USE
                    && way.evidence.of(trial.of).is_good(HEAVY.min(loss))
        };
        let good = self.ways.iter().filter(good);
        let good = good.map(|way| &way.nodes[..]);
        let bad = [trial.incumbent].into_iter().chain(trial.failed.clone());
        let mut groups: Vec<Vec<Suspect>> = Vec::new();
        for bad in bad.filter_map(|id| self.at(id)) {
            // A bad way that already has a suspect needs no further ones.
            let explains = |suspect: &Suspect| suspect.is_on(&bad.nodes);
            if !groups.iter().flatten().any(explains) {
                groups.push(blamed(&bad.nodes, good.clone()).collect());
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

    /// Gives a way with suspects another chance, if packets would take it by table and its retry is due.
    pub(super) fn consider_retry(&mut self, now: Time, settled: WayId, topology: &Topology) {
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
            stage: Stage::Retry,
            of: LinkProtocol::default(),
            failed: Vec::new(),
            gone: None,
        });
    }

    /// Ends a search without a verdict, for example because all ways are alike, and restores the plan from before.
    pub(super) fn give_up(&mut self, now: Time, trial: &Trial) {
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

    /// Returns the plan without a trial of this way. Suspicions from before the trial stay in force.
    pub(super) fn as_before(&self, incumbent: WayId) -> Plan {
        match self.has_suspects() && !self.is_suspected(incumbent) {
            true => Plan::Settled(incumbent),
            false => Plan::Plain,
        }
    }

    /// Returns the places of the active suspicions whose suspect is on a way.
    fn suspects_of(&self, id: WayId) -> Vec<usize> {
        let nodes = self.nodes(id);
        let meets = |suspicion: &Suspicion| suspicion.is_active && suspicion.suspect.is_on(nodes);
        let all = self.suspicions.iter().enumerate();
        all.filter(|(_, suspicion)| meets(suspicion))
            .map(|(at, _)| at)
            .collect()
    }
}
