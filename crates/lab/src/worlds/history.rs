//! One world from its beginning to its end: its events, and its conditions.

use super::groups::Groups;
use super::intruder::Intruder;
use super::network::Nodes;
use super::plan::Session;
use super::plan::{DELAY_MAX_US, JITTER_MAX_US, Plan};
use super::sessions::Sessions;
use super::streams::Streams;
use super::trees;
use base::{Duration, Rng, Time};
use overlay::{Drop, Event};
use sim::Arrivals;
use sim::trace::Packet;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The time after the end of all faults within which every node must have the same records, and reach every other.
pub const WHOLE_WITHIN: Duration = Duration::from_secs(5);
/// How far ahead packets are scheduled, and how often a world is checked.
const SLICE: Duration = Duration::from_millis(50);
/// The probability, per check, that a member joins or leaves a group.
const STIRS: f64 = 0.15;
/// Number of attempts to find a second without a change of routes.
const QUIET_TRIES: usize = 20;
/// The longest time that anything stays under way, or waits for its deadline, after streams have ended.
const DRAIN: Duration = Duration::from_secs(3);
/// After all faults have ended, streams progress until their end: a restarted peer of an idle stream is found by the
/// next probe, and losses are recovered by a few retransmissions. After this time without a byte, a stream counts as
/// stuck.
const STUCK_AFTER: Duration = Duration::from_secs(60);
/// The longest time for all streams to finish: a path that loses half of its packets takes long for a full buffer, but
/// not for ever.
const FINISHED_WITHIN: Duration = Duration::from_secs(600);
/// Number of later moments at which idle nodes may have no hello under way. They cover ten seconds: in a part of this
/// time nodes probe for the fate of the last packets, and the links that carry the probes are not idle.
const IDLE_LOOKS: usize = 8_000;
const IDLE_STEP: Duration = Duration::from_micros(1_300);

/// The results of one world.
#[derive(Clone, Debug, Default)]
pub(super) struct Past {
    pub(super) nodes: usize,
    /// Time from the end of all faults until the network was complete.
    pub(super) whole_after: Duration,
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) stream_bytes: u64,
    pub(super) stream_resets: u64,
    pub(super) group_sent: u64,
    pub(super) group_received: u64,
    pub(super) forged: u64,
    /// Number of flows that were compared with twins.
    pub(super) compared: u64,
    pub(super) events: u64,
    pub(super) simulated: Duration,
    pub(super) digest: u64,
}

/// A running world.
struct History<'p> {
    plan: &'p Plan,
    rng: Rng,
    nodes: Nodes<'p>,
    streams: Streams,
    sessions: Sessions,
    groups: Groups,
    /// The generator that determines who joins and leaves.
    stirring: Rng,
    /// Whether members no longer join and leave.
    settled: bool,
    intruder: Intruder,
    dropped: BTreeMap<Drop, u64>,
    originated: u64,
    forwarded: u64,
    route_changes: u64,
    /// Whether a node has lost its record of forwarded packets.
    forgetful: bool,
    past: Past,
    told: Option<Told>,
}

/// The events as text; it remains available if a world fails.
pub(super) type Told = Rc<RefCell<Vec<String>>>;

/// An external observer of each packet.
pub(super) type Witness = Box<dyn FnMut(&Packet<'_>)>;

/// Runs the world of a seed. An error is a violated condition; the caller must handle panics.
pub(super) fn live(
    seed: u64,
    told: Option<Told>,
    witness: Option<Witness>,
) -> Result<Past, String> {
    let plan = Plan::draw(&mut Rng::new(seed));
    let (past, deliveries) = lived(seed, &plan, Arrivals::Bursts, told, witness)?;
    if plan.twice {
        let (_, singly) = lived(seed, &plan, Arrivals::Single, None, None)?;
        for (i, (a, b)) in deliveries.iter().zip(&singly).enumerate() {
            if let Some(n) = (0..a.len().max(b.len())).find(|n| a.get(*n) != b.get(*n)) {
                return Err(format!(
                    "bursts and single packets differ: packet {n} of stream {i} came at {:?} and {:?}",
                    a.get(n),
                    b.get(n)
                ));
            }
        }
    }
    Ok(past)
}

type Deliveries = Vec<Vec<Option<Time>>>;

fn lived(
    seed: u64,
    plan: &Plan,
    arrivals: Arrivals,
    told: Option<Told>,
    witness: Option<Witness>,
) -> Result<(Past, Deliveries), String> {
    let mut history = History::begin(seed, plan, arrivals, told, witness);
    history.troubles()?;
    history.peace()?;
    history.become_whole()?;
    history.serve()?;
    history.end()
}

impl<'p> History<'p> {
    fn begin(
        seed: u64,
        plan: &'p Plan,
        arrivals: Arrivals,
        told: Option<Told>,
        mut witness: Option<Witness>,
    ) -> History<'p> {
        let mut nodes = Nodes::new(seed, plan, arrivals);
        let intruder = Intruder::default();
        let observer = plan.hostile.then(|| intruder.clone());
        if observer.is_some() || witness.is_some() {
            nodes.world.set_trace(move |packet: &Packet<'_>| {
                if let Some(observer) = &observer {
                    observer.observe(packet);
                }
                if let Some(witness) = &mut witness {
                    witness(packet);
                }
            });
        }
        let streams = Streams::open(&mut nodes, plan);
        let sessions = Sessions::open(&mut nodes, plan);
        let groups = Groups::open(&mut nodes, plan);
        let mut history = History {
            plan,
            rng: nodes.world.rng_of(&[3]),
            stirring: nodes.world.rng_of(&[4]),
            nodes,
            streams,
            sessions,
            groups,
            settled: false,
            intruder,
            dropped: BTreeMap::new(),
            originated: 0,
            forwarded: 0,
            route_changes: 0,
            forgetful: false,
            past: Past {
                nodes: plan.nodes,
                ..Past::default()
            },
            told,
        };
        history.tell(|| format!("{} nodes, {}: {plan:#?}", plan.nodes, plan.shape));
        for link in 0..plan.links.len() {
            history.disturb(link);
        }
        history
    }

    fn tell(&self, what: impl FnOnce() -> String) {
        if let Some(told) = &self.told {
            let line = format!("{} {}", self.nodes.world.now(), what());
            told.borrow_mut().push(line);
        }
    }

    /// Draws new losses for a link, separately for each direction.
    fn disturb(&mut self, link: usize) {
        let mut path = || {
            let lossless = self.rng.chance(0.5);
            let loss_pct = if lossless { 0 } else { self.rng.below(12) };
            self.plan.links[link].path(loss_pct, self.rng.below(60))
        };
        let (there, back) = (path(), path());
        self.nodes.set_path(link, &there, &back);
    }

    fn troubles(&mut self) -> Result<(), String> {
        self.run(self.plan.settle)?;
        let faults = self.rng.below(16);
        let patience_ms = if self.rng.chance(0.1) { 6_000 } else { 1_200 };
        for _ in 0..faults {
            // Faults follow each other closely, or after the network has reacted to the previous one.
            let close = self.rng.chance(0.3);
            let span = 1 + self.rng.below(if close { 60 } else { patience_ms });
            self.run(Duration::from_millis(span))?;
            self.fault();
        }
        let span = Duration::from_millis(self.rng.below(3_000));
        self.run(span)
    }

    /// Causes one fault, or ends one.
    fn fault(&mut self) {
        let i = self.rng.below(self.plan.nodes as u64) as usize;
        let link = self.rng.below(self.plan.links.len() as u64) as usize;
        let ends = (self.plan.links[link].a, self.plan.links[link].b);
        match self.rng.below(8) {
            0 | 1 => {
                self.tell(|| format!("outage of {ends:?}"));
                self.nodes.set_outage(link, true);
            }
            2 => {
                self.tell(|| format!("no outage of {ends:?}"));
                self.nodes.set_outage(link, false);
            }
            3 => {
                let rng = &mut self.rng;
                let island: Vec<usize> = (0..self.plan.nodes).filter(|_| rng.chance(0.5)).collect();
                self.tell(|| format!("partition {island:?}"));
                let island: Vec<_> = island.iter().map(|i| self.nodes.hosts[*i]).collect();
                self.nodes.world.partition(&island);
            }
            4 => {
                self.tell(|| "no partition".to_owned());
                self.nodes.world.heal();
            }
            5 if !self.nodes.down[i] => {
                self.tell(|| format!("crash of {i}"));
                self.nodes.crash(i);
                self.groups.on_crash(i);
                self.forgetful = true;
            }
            5 | 6 => self.restart(i),
            _ => {
                self.tell(|| format!("other losses on {ends:?}"));
                self.disturb(link);
            }
        }
    }

    fn restart(&mut self, i: usize) {
        self.tell(|| format!("restart of {i}"));
        self.nodes.restart(i);
        self.forgetful = true;
        self.streams.reopen(&mut self.nodes, i);
        self.sessions.reopen(&mut self.nodes, i);
        self.groups.reopen(&mut self.nodes, i);
    }

    /// Ends all faults, except for the losses of the plan.
    fn peace(&mut self) -> Result<(), String> {
        self.tell(|| "peace".to_owned());
        self.nodes.world.heal();
        for (link, path) in self.plan.links.iter().enumerate() {
            let path = path.path(self.plan.loss_in_peace, 0);
            self.nodes.set_path(link, &path, &path);
            self.nodes.set_outage(link, false);
        }
        for i in 0..self.plan.nodes {
            if self.nodes.down[i] {
                self.restart(i);
            }
        }
        self.settled = true;
        self.groups.settle(&mut self.nodes);
        Ok(())
    }

    /// Lets time pass while the streams run, and checks the conditions.
    fn run(&mut self, span: Duration) -> Result<(), String> {
        let end = self.nodes.world.now() + span;
        while self.nodes.world.now() < end {
            let until = (self.nodes.world.now() + SLICE).min(end);
            // This is done before packets of the same moment are sent.
            if !self.settled && !self.plan.groups.is_empty() && self.stirring.chance(STIRS) {
                let stirred = self.groups.stir(&mut self.nodes, &mut self.stirring);
                if let Some(what) = stirred {
                    self.tell(|| what);
                }
            }
            self.streams.send(&mut self.nodes, until);
            self.groups.send(&mut self.nodes, until);
            if self.plan.hostile && self.rng.chance(0.2) {
                let world = &mut self.nodes.world;
                self.past.forged += self.intruder.strike(&mut self.rng, world);
            }
            self.pass(until)?;
        }
        Ok(())
    }

    fn pass(&mut self, until: Time) -> Result<(), String> {
        self.nodes.world.run_until(until);
        self.observe();
        // A node accepts a packet that would arrive in time with half of its link's delay: this happens once, because
        // no time is left then.
        let doubt_us = DELAY_MAX_US / 2;
        let slack_us = (JITTER_MAX_US + 200) * self.plan.nodes as u64 + doubt_us;
        let slack = Duration::from_micros(slack_us);
        self.streams.receive(
            &mut self.nodes,
            (&mut self.sessions, &mut self.groups),
            slack,
        )?;
        self.sessions.act(&mut self.nodes);
        // A packet crosses each link at most once in each direction, except if nodes lose their record of it; the edges
        // of a shared tree are paths.
        let ways = match self.plan.has_scribe() {
            true => self.plan.nodes * self.plan.nodes,
            false => self.plan.links.len(),
        };
        let most = (self.originated + 1) * 2 * ways as u64;
        if !self.forgetful && self.forwarded > most {
            return Err(format!(
                "{} packets were forwarded {} times",
                self.originated, self.forwarded
            ));
        }
        if let Some(packets) = self.dropped.get(&Drop::NoBuffer) {
            return Err(format!(
                "{packets} packets found no buffer: {:?}",
                self.nodes.world.pool()
            ));
        }
        Ok(())
    }

    fn observe(&mut self) {
        for report in self.nodes.world.take_events() {
            let host = report.host;
            match report.event {
                Event::Originated { packets, .. } => self.originated += u64::from(packets),
                Event::Forwarded { packets, .. } => self.forwarded += u64::from(packets),
                Event::Dropped { reason, packets } => {
                    *self.dropped.entry(reason).or_default() += u64::from(packets);
                }
                Event::RoutesChanged { rerouted: true, .. } => self.route_changes += 1,
                Event::LinkUp { peer } => self.tell(|| format!("{host}: link to {peer} up")),
                Event::LinkDown { peer, why } => {
                    self.tell(|| format!("{host}: link to {peer} down: {why}"));
                }
                _ => {}
            }
        }
    }

    fn become_whole(&mut self) -> Result<(), String> {
        let start = self.nodes.world.now();
        while let Some(complaint) = self.complaint() {
            let waited = self.nodes.world.now().since(start);
            if waited >= WHOLE_WITHIN {
                return Err(format!("not whole after {waited}: {complaint}"));
            }
            self.run(SLICE)?;
        }
        self.past.whole_after = self.nodes.world.now().since(start);
        let took = self.past.whole_after;
        self.tell(|| format!("whole after {took}"));
        Ok(())
    }

    fn complaint(&self) -> Option<String> {
        let trees = || trees::complaint(&self.nodes, &self.groups);
        self.nodes.complaint().or_else(trees)
    }

    /// Checks that the network is complete again, and if links lose nothing, that all packets sent now arrive, as far
    /// as their time to live and their deadline permit.
    fn serve(&mut self) -> Result<(), String> {
        // Streams of restarted nodes need time to find their numbers.
        self.run(Duration::from_secs(1))?;
        let (mut from, mut until) = (Time::ZERO, Time::ZERO);
        let mut quiet = false;
        for _ in 0..QUIET_TRIES {
            // While routes change, packets may enter a loop and be dropped.
            let known = self.route_changes;
            let shape = trees::shape(&self.nodes, &self.groups);
            self.run(Duration::from_millis(300))?;
            from = self.nodes.world.now();
            self.run(Duration::from_secs(1))?;
            until = self.nodes.world.now();
            self.run(Duration::from_millis(700))?;
            quiet = self.route_changes == known && shape == trees::shape(&self.nodes, &self.groups);
            if quiet {
                break;
            }
        }
        let end = self.nodes.world.now() + DRAIN;
        while self.nodes.world.now() < end {
            self.pass(self.nodes.world.now() + SLICE)?;
        }
        if quiet && self.plan.loss_in_peace == 0 {
            self.check_groups(from, until)?;
        }
        self.finish_sessions()?;
        if !quiet || self.plan.loss_in_peace > 0 {
            return Ok(());
        }
        for (i, stream) in self.streams.streams().iter().enumerate() {
            // The limit covers any loop-free path, whatever the metric.
            let hops = (self.plan.nodes - 1) as u64;
            let longest = Duration::from_micros((DELAY_MAX_US + 2 * JITTER_MAX_US) * hops);
            let options = &stream.options;
            if u64::from(options.ttl) < hops || options.deadline.is_some_and(|d| d < longest) {
                continue;
            }
            let lost = self.streams.lost_between(i, from, until);
            if lost > 0 {
                return Err(format!(
                    "{lost} packets of stream {i} lost in peace between {from} and {until}: \
                     {stream:?}, drops {:?}",
                    self.dropped
                ));
            }
        }
        Ok(())
    }

    /// Checks that each member got every packet of its group that was sent in a span, as far as its time to live and
    /// its deadline permit.
    fn check_groups(&self, from: Time, until: Time) -> Result<(), String> {
        for (of, source) in self.groups.sources() {
            let options = &self.groups.groups[of.0].options;
            let hops = trees::longest_way(&self.nodes, &self.groups, of.0, source) as u64;
            let longest = Duration::from_micros((DELAY_MAX_US + 2 * JITTER_MAX_US) * hops);
            if u64::from(options.ttl) < hops || options.deadline.is_some_and(|d| d < longest) {
                continue;
            }
            for member in self.groups.members(of.0) {
                let lost = self.groups.lost_between(of, member, from, until);
                if lost > 0 {
                    return Err(format!(
                        "{lost} packets of source {of:?} at {source} lost on the way to {member} in \
                         peace between {from} and {until}: {:?}, drops {:?}",
                        self.groups.groups[of.0], self.dropped
                    ));
                }
            }
        }
        Ok(())
    }

    /// Waits until all data written on reliable streams arrives, with the streams' ends; then closes all of them.
    fn finish_sessions(&mut self) -> Result<(), String> {
        self.sessions.end();
        let start = self.nodes.world.now();
        let hops = self.plan.hops();
        // Without recovery on the hops, a long lossy path carries next to nothing.
        let kept = 1.0 - self.plan.loss_in_peace as f64 / 100.0;
        let counts = |session: &Session| {
            let hops = 2 * hops[session.from][session.to];
            kept.powi(hops as i32) > 0.3
        };
        let (mut read, mut progress) = (self.sessions.read, start);
        while let Some(complaint) = self.sessions.complaint(self.nodes.world.now(), counts) {
            let now = self.nodes.world.now();
            if self.sessions.read > read {
                (read, progress) = (self.sessions.read, now);
            }
            if now.since(progress) >= STUCK_AFTER || now.since(start) >= FINISHED_WITHIN {
                return Err(format!("{complaint}; drops {:?}", self.dropped));
            }
            self.pass(now + SLICE)?;
        }
        self.sessions.close(&mut self.nodes);
        self.groups.close(&mut self.nodes);
        let end = self.nodes.world.now() + DRAIN;
        while self.nodes.world.now() < end {
            self.pass(self.nodes.world.now() + SLICE)?;
        }
        let station = |i: usize| self.nodes.running(i).and_then(|station| station.scribe());
        match (0..self.plan.nodes).find(|i| station(*i).is_some()) {
            Some(i) => Err(format!("node {i} runs Scribe for no group")),
            None => Ok(()),
        }
    }

    /// Returns the results of the world after all packet buffers have been returned.
    fn end(mut self) -> Result<(Past, Deliveries), String> {
        for look in 0.. {
            if self.nodes.world.pool().in_use() == (0, 0) {
                break;
            }
            if look >= IDLE_LOOKS {
                return Err(format!("nodes keep buffers: {:?}", self.nodes.world.pool()));
            }
            let until = self.nodes.world.now() + IDLE_STEP;
            self.pass(until)?;
        }
        let past = Past {
            sent: self.streams.sent(),
            received: self.streams.received(),
            stream_bytes: self.sessions.read,
            stream_resets: self.sessions.resets,
            group_sent: self.groups.sent(),
            group_received: self.groups.received,
            simulated: self.nodes.world.now().since(Time::ZERO),
            digest: self.nodes.world.digest(),
            ..self.past
        };
        let counters = self.nodes.world.close().map_err(|leak| leak.to_string())?;
        let past = Past {
            events: counters.events,
            ..past
        };
        let mut deliveries = self.streams.deliveries();
        deliveries.extend(self.groups.deliveries());
        Ok((past, deliveries))
    }
}
