//! Hostile worlds: one member of the network, with a valid certificate, behaves arbitrarily.
//!
//! ```text
//!   seed ─▶ scene: 3 to 10 nodes, calls, groups, streams of honest nodes; a member, and what it does
//!             │
//!             ├─▶ the world with the member:  all well │ it turns │ honest nodes react │ judged │ end
//!             │                               ─────────┼──────────┼────────────────────┼───────▶│
//!             └─▶ its twin: the member is dead from the beginning                      └ compared ┘
//! ```
//!
//! Honest flows must keep the quality that honest paths allow, which the twin shows: a flow whose only path leads
//! through the member loses everything there too. The comparison begins after the honest nodes had time to react. The
//! time for a black hole depends on the share that it discards; a lie about links causes a black hole that discards
//! everything; other deeds have no such time.
//!
//! ```text
//!   lost <= the twin's + 0.5 points + three standard errors of it
//! ```
//!
//! At all times: an application gets only packets that their honest sender has sent, unaltered, once, in order;
//! reliable streams deliver every byte and end; no buffers are missing; the nodes' tables stay small; no node panics.
//! Packets in the name of the member, or of a non-existent node, may contain anything. Members of groups are honest: a
//! member of a group has its keys, and could forge.
//!
//! Each fault has a [`Kind`]. Some kinds are open faults of the engine; docs/security.md lists them. They fail a world
//! like any other.

mod craft;
mod kind;
mod member;
mod mind;
mod scene;
mod treason;

pub(super) use member::Member;
pub(super) use treason::Treason;

use super::Worse;
use super::groups::Groups;
use super::history::{Past, Told, Witness};
use super::network::Nodes;
use super::party::Party;
use super::sessions::Sessions;
use super::streams::Streams;
use base::{ClientId, Duration, NodeAddr, Time};
use host::station::Station;
use kind::Kind;
use overlay::stream::{StreamReply, StreamRequest};
use overlay::{Drop, Event, Reply, Request};
use scene::Scene;
use sim::trace::Packet;
use sim::{Answer, Arrivals};
use std::collections::BTreeMap;
use treason::LIE_FELT;

/// How far ahead packets are scheduled, and how often a world is checked.
const SLICE: Duration = Duration::from_millis(50);
/// A packet that has not arrived after this time counts as lost.
const DRAIN: Duration = Duration::from_secs(1);
/// The time within which streams must end.
const FINISHED_WITHIN: Duration = Duration::from_secs(60);
/// The share that a flow may lose in addition to its twin.
const WORSE: f64 = 0.005;
/// A flow that loses this share in the twin has no other path.
const CUT_OFF: f64 = 0.5;
/// The largest addition by the member's deeds to the memory that a node needs for packets.
const GROWTH_BYTES: usize = 16 << 20;
/// Records of one origin: its links, its certificate, its groups.
const RECORDS_PER_ORIGIN: usize = 2 + wire::groups::PARTS;
/// Most faults that are reported of one world.
const FAULTS_MAX: usize = 6;

/// The results of the flows of a world in the judged span.
struct Outcome {
    /// The judged span.
    judged: (Time, Time),
    /// For each call and then for each member of each group: the name, the lost packets, and the number of packets.
    flows: Vec<(String, usize, usize)>,
    unfinished: Option<String>,
    resets: u64,
    buffers: usize,
    faults: Vec<(Kind, String)>,
    past: Past,
}

/// Runs the world of a seed and its twin. An error is a violated condition; the caller must handle panics. Each `draw`
/// is another course of the same scene: other losses, other delays, and other random choices of the member.
pub(super) fn live(
    seed: u64,
    draw: u64,
    told: Option<Told>,
    witness: Option<Witness>,
) -> Result<Past, Worse> {
    let scene = Scene::draw(seed);
    if let Some(told) = &told {
        told.borrow_mut().push(format!("{scene:#?}"));
    }
    let course = seed ^ (draw << 32);
    let mut world = Life::begin(course, &scene, true, told, witness).lived(None)?;
    let twin = Life::begin(course, &scene, false, None, None).lived(Some(world.judged))?;
    let mut faults = core::mem::take(&mut world.faults);
    let kind = scene.kind_of_loss();
    for ((what, lost, sent), (_, gone, _)) in world.flows.iter().zip(&twin.flows) {
        let share = *gone as f64 / (*sent).max(1) as f64;
        let error = (*sent as f64 * share * (1.0 - share)).sqrt();
        let most = *gone as f64 + WORSE * *sent as f64 + 3.0 * error;
        if share < CUT_OFF && *lost as f64 > most {
            let fault = format!("{what} lost {lost} of {sent}, {gone} without the member");
            faults.push((kind, fault));
        }
    }
    if let (Some(unfinished), None) = (&world.unfinished, &twin.unfinished) {
        let fault = format!("a stream did not end: {unfinished}");
        faults.push((kind, fault));
    }
    if world.resets > twin.resets {
        let fault = format!("{} streams were reset", world.resets);
        faults.push((kind, fault));
    }
    if world.buffers > twin.buffers + GROWTH_BYTES {
        let (here, there) = (world.buffers, twin.buffers);
        let fault = format!("packets took {here} bytes of memory, {there} without the member");
        faults.push((Kind::Fault, fault));
    }
    if faults.is_empty() {
        return Ok(world.past);
    }
    let mut kinds: Vec<&str> = faults.iter().map(|(kind, _)| kind.label()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let told: Vec<&str> = faults.iter().map(|(_, fault)| fault.as_str()).collect();
    let told = told[..told.len().min(FAULTS_MAX)].join("; ");
    Err(Worse {
        kinds,
        ..Worse::from(format!("[{}] {told}", scene.treason.told()))
    })
}

/// A running world.
struct Life<'s> {
    scene: &'s Scene,
    nodes: Nodes<'s>,
    streams: Streams,
    sessions: Sessions,
    groups: Groups,
    dropped: BTreeMap<Drop, u64>,
    buffers: usize,
    faults: Vec<(Kind, String)>,
    /// Number of streams that the member opened and that were accepted.
    strangers: u32,
    told: Option<Told>,
}

impl<'s> Life<'s> {
    fn begin(
        seed: u64,
        scene: &'s Scene,
        hostile: bool,
        told: Option<Told>,
        witness: Option<Witness>,
    ) -> Life<'s> {
        let plan = &scene.plan;
        let traitor = Some((scene.traitor, scene.treason.clone())).filter(|_| hostile);
        let mut nodes = Nodes::with_traitor(seed, plan, Arrivals::Bursts, traitor);
        if !hostile {
            nodes.crash(scene.traitor);
        }
        if let Some(mut witness) = witness {
            nodes
                .world
                .set_trace(move |packet: &Packet<'_>| witness(packet));
        }
        for (link, loss) in scene.losses.iter().enumerate() {
            let path = plan.links[link].path(*loss, 0);
            nodes.set_path(link, &path, &path);
        }
        Life {
            scene,
            streams: Streams::open(&mut nodes, plan),
            sessions: Sessions::open(&mut nodes, plan),
            groups: Groups::open(&mut nodes, plan),
            nodes,
            dropped: BTreeMap::new(),
            buffers: 0,
            faults: Vec::new(),
            strangers: 0,
            told,
        }
    }

    /// Runs to the end. The twin is judged over the same span as the world.
    fn lived(mut self, judged: Option<(Time, Time)>) -> Result<Outcome, Worse> {
        let (mut from, mut until) = judged.unwrap_or(self.scene.judged);
        self.run(until, true);
        let member = self.nodes.party(self.scene.traitor).and_then(Party::member);
        let lied_at = member.and_then(Member::lied_at);
        if let Some(felt_until) = lied_at.map(|at| at + LIE_FELT).filter(|at| *at > from) {
            until += felt_until.since(from);
            from = felt_until;
            self.run(until, true);
        }
        self.run(until + DRAIN, false);
        self.check_tables();
        let flows = self.flows(from, until);
        self.sessions.end();
        let end = self.nodes.world.now() + FINISHED_WITHIN;
        let mut unfinished = self.unfinished();
        while unfinished.is_some() && self.nodes.world.now() < end {
            self.run(self.nodes.world.now() + SLICE * 4, false);
            unfinished = self.unfinished();
        }
        let misdeeds = self.nodes.party(self.scene.traitor).and_then(Party::member);
        let past = Past {
            nodes: self.scene.plan.nodes,
            sent: self.streams.sent(),
            received: self.streams.received(),
            stream_bytes: self.sessions.read,
            stream_resets: self.sessions.resets,
            group_sent: self.groups.sent(),
            group_received: self.groups.received,
            compared: flows.len() as u64,
            forged: misdeeds.map_or(0, Member::misdeeds),
            simulated: self.nodes.world.now().since(Time::ZERO),
            digest: self.nodes.world.digest(),
            ..Past::default()
        };
        let resets = self.sessions.resets;
        let events = self.nodes.world.close().map_err(|leak| leak.to_string())?;
        Ok(Outcome {
            judged: (from, until),
            flows,
            unfinished,
            resets,
            buffers: self.buffers,
            faults: self.faults,
            past: Past {
                events: events.events,
                ..past
            },
        })
    }

    fn fault(&mut self, kind: Kind, what: String) {
        self.tell(|| what.clone());
        // Only one fault of each beginning is kept: the same fault affects many packets.
        let front: String = what
            .chars()
            .filter(|c| !c.is_ascii_digit())
            .take(40)
            .collect();
        let same = |other: &String| {
            let other: String = other
                .chars()
                .filter(|c| !c.is_ascii_digit())
                .take(40)
                .collect();
            other == front
        };
        if !self.faults.iter().any(|(_, other)| same(other)) {
            self.faults.push((kind, what));
        }
    }

    fn tell(&self, what: impl FnOnce() -> String) {
        if let Some(told) = &self.told {
            let line = format!("{} {}", self.nodes.world.now(), what());
            told.borrow_mut().push(line);
        }
    }

    /// Lets time pass; with `sends`, calls and groups continue.
    fn run(&mut self, until: Time, sends: bool) {
        while self.nodes.world.now() < until {
            let next = (self.nodes.world.now() + SLICE).min(until);
            if sends {
                self.streams.send(&mut self.nodes, next);
                self.groups.send(&mut self.nodes, next);
            }
            self.nodes.world.run_until(next);
            self.observe();
            for answer in self.nodes.world.take_replies() {
                if let Err(fault) = self.on_answer(answer) {
                    self.fault(Kind::Fault, fault);
                }
            }
            self.sessions.act(&mut self.nodes);
            let pool = self.nodes.world.pool();
            let (large, small) = pool.in_use();
            let kept = pool.kept_bytes().0;
            let bytes = large * base::pool::LARGE_BYTES + small * base::pool::SMALL_BYTES + kept;
            self.buffers = self.buffers.max(bytes);
        }
    }

    fn observe(&mut self) {
        for report in self.nodes.world.take_events() {
            let host = report.host;
            match report.event {
                Event::Dropped { reason, packets } => {
                    *self.dropped.entry(reason).or_default() += u64::from(packets);
                    self.tell(|| format!("{host}: {packets} dropped: {}", reason.label()));
                    if reason == Drop::NoBuffer {
                        self.fault(Kind::Fault, format!("{host} has no buffers"));
                    }
                }
                Event::LinkUp { peer } => self.tell(|| format!("{host}: link to {peer} up")),
                Event::LinkDown { peer, why } => {
                    self.tell(|| format!("{host}: link to {peer} down: {why}"));
                }
                Event::PathBad { to, lost } => {
                    self.tell(|| format!("{host}: a path to {to} lost {lost} of 1000"));
                }
                Event::Suspected {
                    suspect,
                    to,
                    lost,
                    among,
                } => self.tell(|| {
                    format!(
                        "{host}: {suspect}, 1 of {among}, suspect on paths to {to}, lost {lost} of 1000"
                    )
                }),
                Event::GroupStarved { group, to, lost } => {
                    self.tell(|| format!("{host}: the tree of {group} lost {lost} of 1000 for {to}"));
                }
                Event::GroupWhole { group, to } => {
                    self.tell(|| format!("{host}: the tree of {group} is whole for {to}"));
                }
                Event::Unsuspected { suspect, to } => {
                    self.tell(|| format!("{host}: {suspect} cleared on paths to {to}"));
                }
                _ => {}
            }
        }
    }

    /// Checks a reply: what claims to be from an honest node must be; applications must deal with everything else.
    fn on_answer(&mut self, answer: Answer<Reply>) -> Result<(), String> {
        let is_honest = |from: NodeAddr| {
            let honest = (0..self.nodes.hosts.len()).filter(|i| *i != self.scene.traitor);
            honest.into_iter().any(|i| self.nodes.addr(i) == from)
        };
        match &answer.reply {
            Reply::Datagram { from, .. } if !is_honest(*from) => return Ok(()),
            Reply::Stream(StreamReply::Incoming { from, stream, .. }) if !is_honest(*from) => {
                // An application accepts any caller, checks it, and closes.
                self.strangers += 1;
                let client = ClientId(STRANGERS + self.strangers);
                let node = answer.host.place();
                let accept = StreamRequest::Accept { stream: *stream };
                self.nodes.request(node, client, Request::Stream(accept));
                self.nodes.request(node, client, Request::Close);
                return Ok(());
            }
            _ if answer.client.0 >= STRANGERS && answer.client.0 < u32::MAX => return Ok(()),
            _ => {}
        }
        let all = (&mut self.sessions, &mut self.groups);
        // The loss already covers how late a packet is: a liar takes time from packets on the path.
        let slack = Duration::from_secs(3_600);
        self.streams.on_answer(&mut self.nodes, all, answer, slack)
    }

    /// Checks that the tables of honest nodes are no larger than the network requires.
    fn check_tables(&mut self) {
        let most = RECORDS_PER_ORIGIN * self.scene.plan.nodes + 1;
        for i in 0..self.scene.plan.nodes {
            if i == self.scene.traitor {
                continue;
            }
            let records = self.nodes.running(i).map(Station::node);
            let records = records.map_or(0, |node| node.database().keys().count());
            if records > most {
                self.fault(Kind::Fault, format!("node {i} keeps {records} records"));
            }
        }
    }

    fn flows(&self, from: Time, until: Time) -> Vec<(String, usize, usize)> {
        let mut flows = Vec::new();
        let sent = |interval: Duration| {
            (until.since(from).as_nanos() / interval.as_nanos().max(1)) as usize
        };
        for (i, stream) in self.streams.streams().iter().enumerate() {
            let (a, b) = (stream.from, stream.to);
            let what = format!("call {i} from {a} to {b}");
            let lost = self.streams.lost_between(i, from, until);
            flows.push((what, lost, sent(stream.interval)));
        }
        for (of, source) in self.groups.sources() {
            for member in self.groups.members(of.0) {
                let what = format!("group {} from {source} to {member}", of.0);
                let lost = self.groups.lost_between(of, member, from, until);
                flows.push((what, lost, sent(self.groups.groups[of.0].interval)));
            }
        }
        flows
    }

    fn unfinished(&self) -> Option<String> {
        self.sessions.complaint(self.nodes.world.now(), |_| true)
    }
}

/// The first client numbers for streams of the member.
const STRANGERS: u32 = 50_000_000;

#[cfg(test)]
mod tests;
