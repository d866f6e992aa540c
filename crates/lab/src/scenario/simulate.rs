//! A scenario in the simulator: production nodes, virtual time.
//!
//! ```text
//!   Scenario ─▶ World (nodes, plain hosts of direct flows) ─▶ settle ─▶ slices of 10 ms ─▶ Report
//!                                                               packets to send ┘ └ replies, events
//! ```
//!
//! Nodes have real keys and certificates and seal what they send; all of it is drawn from the seed. When a node
//! crashes, its clients' packets are lost; when it restarts, its clients reconnect at once.

mod chosen;
mod network;
mod sessions;
mod streams;
mod tcp;
mod ways;

use super::overridden;
use super::record::{LinkRecord, PacketRecord};
use super::recording::OwnLink;
use super::report::{FlowReport, Report};
use super::{Fault, FaultKind, Flow, Place, Scenario};
use crate::scenario::meter::rounded;
use base::impair::Model;
use base::{Duration, Pool, Time};
use chosen::Looks;
use network::{Network, Party};
use overlay::node::MAX_PAYLOAD;
use overlay::snapshot::{NetworkSnapshot, ProtectionStatus};
use overlay::{Event, Settings};
use sim::{Either, HostId, World};
use streams::Streams;
use voice::call::Altered;
use voice::frames::FRAME_SAMPLES;
use ways::Ways;
use wire::{HEADROOM, TAG_BYTES};

/// How far ahead packets are scheduled, and how long replies wait: their buffers are in use until then. 10 ms of 600
/// 000 packets/s are 6 000 buffers, of 131 072.
const SLICE: Duration = Duration::from_millis(10);
/// The same if a flow is answered, or written as fast as it is accepted: programs act once per slice.
const SHORT_SLICE: Duration = Duration::from_millis(1);
/// Number of datagrams that the socket of a program holds while nobody reads. Linux gives it 212 992 bytes, of which a
/// small datagram takes 1 280 over a pair of virtual interfaces and 2 304 from a network card that fills half pages:
/// 166 or 92. Choice: 1 664 bytes for each, between both.
pub(crate) const SOCKET_DATAGRAMS: usize = 212_992 / 1_664;
/// The same for a node, which requests 4 MiB and is granted twice as much if permitted (packages set this up).
pub(crate) const NODE_DATAGRAMS: usize = (8 << 20) / 1_664;
/// How long packets under way may take to arrive after the end.
const DRAIN: Duration = Duration::from_secs(1);

/// One stream's packets at one receiver: the delay of each in microseconds, in the order of sending; `None` for a
/// packet that never arrived.
pub(crate) type Call = Vec<Option<u32>>;

/// Runs a scenario to its end. Equal seeds give equal reports.
#[must_use]
pub fn simulate(scenario: &Scenario, seed: u64) -> Report {
    let mut simulation = Simulation::new(scenario, seed);
    while simulation.run_for(Duration::from_secs(3_600)) {}
    simulation.finish()
}

/// A scenario that is being simulated.
pub struct Simulation<'s> {
    scenario: &'s Scenario,
    seed: u64,
    network: Network<'s>,
    world: World<Party>,
    streams: Streams<'s>,
    slice: Duration,
    report: Report,
    /// The faults that have not happened yet.
    faults: core::slice::Iter<'s, Fault>,
    next_fault: Option<&'s Fault>,
    /// Bytes on the wire before the scenario's time began.
    settled_bytes: Option<u64>,
    watch: Option<Watch>,
    look: Option<Looks>,
    ways: Ways,
}

/// Is called for each event that a node reports: with its time, by the scenario's time, and the node's index.
type Watch = Box<dyn FnMut(Duration, usize, &Event)>;

impl<'s> Simulation<'s> {
    /// Creates a simulation at its beginning: nodes exist and have not sent anything.
    #[must_use]
    pub fn new(scenario: &'s Scenario, seed: u64) -> Simulation<'s> {
        Simulation::with_settings(scenario, seed, scenario.node_settings())
    }

    /// Creates a simulation with timers and thresholds that no profile has.
    pub(crate) fn with_settings(
        scenario: &'s Scenario,
        seed: u64,
        settings: Settings,
    ) -> Simulation<'s> {
        let settings = overridden::apply(settings);
        let mut world = World::new(seed);
        let network = Network::build(scenario, settings, &mut world);
        let streams = Streams::open(scenario, &mut world, &network);
        let mut faults = scenario.faults.iter();
        Simulation {
            scenario,
            seed,
            next_fault: faults.next(),
            faults,
            slice: {
                let acts = |flow: &Flow| flow.is_bulk || flow.is_answered;
                let acts = scenario.flows.iter().any(acts);
                if acts { SHORT_SLICE } else { SLICE }
            },
            network,
            streams,
            report: Report::head(scenario, seed),
            world,
            settled_bytes: None,
            watch: None,
            look: None,
            ways: Ways::default(),
        }
    }

    /// Gives each node as many packet buffers as a real one has: they can run out.
    pub(crate) fn give_buffers_of_nodes(&mut self) {
        for host in &self.network.hosts {
            self.world.set_pool(*host, Pool::of_node());
        }
    }

    /// Reports every packet to `trace` from now on. Its times count from the nodes' start.
    pub fn trace(&mut self, trace: impl sim::Trace + 'static) {
        self.world.set_trace(trace);
    }

    /// Calls `watch` for everything that nodes report from the scenario's zero on: with its time, by the scenario's
    /// time, and the node's index.
    pub(crate) fn watch(&mut self, watch: impl FnMut(Duration, usize, &Event) + 'static) {
        self.watch = Some(Box::new(watch));
    }

    /// Runs the simulation for `span`; returns false when the scenario is over.
    pub fn run_for(&mut self, span: Duration) -> bool {
        self.run_for_while(span, |_| true)
    }

    /// Runs the simulation while `go_on` returns true. Before each slice of some milliseconds, `go_on` gets the
    /// completed share, from 0 to 1.
    pub fn run_for_while(&mut self, span: Duration, mut go_on: impl FnMut(f64) -> bool) -> bool {
        let end = self.end() + DRAIN;
        let until = (self.world.now() + span).min(end);
        while self.world.now() < until && go_on(self.progress()) {
            self.slice(until);
        }
        self.world.now() < end
    }

    /// Returns each link in each direction at this moment, in the scenario's order.
    pub(crate) fn links(&self) -> Vec<LinkRecord> {
        let links = self.scenario.links.iter();
        links
            .flat_map(|link| [(link.a, link.b), (link.b, link.a)])
            .map(|(from, to)| self.link(from, to))
            .collect()
    }

    /// Returns the protection of the real-time lane from a node to its neighbour at this moment; `None` while either is
    /// down.
    pub(crate) fn protection(&self, from: usize, to: usize) -> Option<ProtectionStatus> {
        let Some(Either::A(node)) = self.world.engine(self.network.hosts[from]) else {
            return None;
        };
        let peer = self.network.address(to).to_string();
        let mut links = node.snapshot(self.world.now()).links.into_iter();
        let link = links.find(|link| link.peer == peer)?;
        Some(link.realtime.protection)
    }

    /// Returns the result of each packet, if packets were kept.
    pub(crate) fn packets(&self) -> Vec<PacketRecord> {
        self.streams.packets()
    }

    fn link(&self, from: usize, to: usize) -> LinkRecord {
        let now = self.world.now();
        let status = |node: usize, peer: usize| {
            let Some(Either::A(node)) = self.world.engine(self.network.hosts[node]) else {
                return None;
            };
            let peer = self.network.address(peer).to_string();
            let mut links = node.snapshot(now).links.into_iter();
            links.find(|link| link.peer == peer)
        };
        let (sender, receiver) = (status(from, to), status(to, from));
        let lane = sender.as_ref().map(|link| &link.realtime);
        LinkRecord {
            from: self.scenario.nodes[from].name.clone(),
            to: self.scenario.nodes[to].name.clone(),
            state: sender
                .as_ref()
                .map_or("crashed", |link| link.state)
                .to_owned(),
            rtt_ms: sender.as_ref().and_then(|link| link.rtt_ms),
            loss_pct: receiver.map(|link| link.loss_in_pct),
            wire_bytes: self
                .world
                .bytes(self.network.hosts[from], self.network.hosts[to]),
            originals: lane.map_or(0, |lane| lane.originals),
            retransmissions: lane.map_or(0, |lane| lane.retransmissions),
            repairs: lane.map_or(0, |lane| lane.repairs),
        }
    }

    /// Returns the network as a node knows it at this moment; `None` while the node is down. The function assumes that
    /// the node's clock is the world's.
    #[must_use]
    pub fn network_snapshot(&self, node: usize) -> Option<NetworkSnapshot> {
        match self.world.engine(*self.network.hosts.get(node)?)? {
            Either::A(node) => Some(node.network_snapshot(self.world.now())),
            Either::B(_) => None,
        }
    }

    /// Returns the links of a node as it measures them, for a [`super::Recording`].
    #[must_use]
    pub fn own_links(&self, node: usize) -> Vec<OwnLink> {
        let host = self.network.hosts.get(node);
        let Some(Either::A(node)) = host.and_then(|host| self.world.engine(*host)) else {
            return Vec::new();
        };
        let links = node.snapshot(self.world.now()).links.into_iter();
        let json = links.filter_map(|link| serde_json::to_value(link).ok());
        json.filter_map(|link| OwnLink::read(&link)).collect()
    }

    /// Returns the bytes that the reliable lanes of a node hold at this moment: waiting packets, and unacknowledged
    /// ones, each counted as a full packet. Returns 0 while the node is down.
    pub(crate) fn held_bytes(&self, node: usize) -> usize {
        let Some(Either::A(node)) = self.world.engine(self.network.hosts[node]) else {
            return 0;
        };
        let links = node.snapshot(self.world.now()).links.into_iter();
        let held = links.map(|link| {
            let lane = link.reliable;
            lane.queued_bytes + lane.in_flight * MAX_PAYLOAD
        });
        held.sum()
    }

    /// Returns the completed share, from 0 to 1.
    #[must_use]
    pub fn progress(&self) -> f64 {
        self.world.now().as_secs_f64() / (self.end() + DRAIN).as_secs_f64()
    }

    /// Returns the bytes of all datagrams between nodes since the scenario's zero, except for control packets.
    pub(crate) fn carried_bytes(&self) -> u64 {
        let all = self.network.wire_bytes(&self.world);
        let since = all - self.settled_bytes.unwrap_or(all);
        since.saturating_sub(self.report.overlay.control_bytes)
    }

    /// Returns the results so far.
    #[must_use]
    pub fn finish(mut self) -> Report {
        let judged = self.streams.judge(&self.world, &self.network);
        let flows = self.scenario.flows.iter().zip(judged);
        self.report.flows = flows
            .map(|(flow, packets)| FlowReport::of(self.scenario, flow, packets))
            .collect();
        for (flow, changes) in self.report.flows.iter_mut().zip(self.ways.changes()) {
            flow.route_changes = changes;
        }
        let before = self.settled_bytes.unwrap_or_default();
        let overlay = &mut self.report.overlay;
        overlay.wire_bytes = self.network.wire_bytes(&self.world) - before;
        overlay.wire_bytes_per_payload_byte = (overlay.payload_bytes > 0)
            .then(|| rounded(overlay.wire_bytes as f64 / overlay.payload_bytes as f64, 4));
        let counters = self.world.counters();
        (self.report.events, self.report.datagrams) = (counters.events, counters.delivered);
        self.report.trace_hash = format!("{:016x}", self.world.digest());
        self.report.seed = self.seed;
        self.report
    }

    /// Lets all streams of packets of 160 bytes carry these payloads in turn, so that the speech can be evaluated.
    pub(crate) fn say(&mut self, speech: &[[u8; FRAME_SAMPLES]]) {
        self.streams.say(speech);
    }

    /// Returns the payloads that arrived altered, stream by stream.
    pub(crate) fn altered(&self) -> Vec<Altered> {
        self.streams.altered()
    }

    /// Returns the results, and the packets of each flow's streams.
    pub(crate) fn finish_with_calls(self) -> (Report, Vec<Vec<Call>>) {
        let calls = self.streams.calls(&self.world, &self.network);
        (self.finish(), calls)
    }

    /// Returns the scenario's zero.
    fn zero(&self) -> Time {
        Time::ZERO + self.scenario.settle
    }

    fn end(&self) -> Time {
        self.zero() + self.scenario.duration
    }

    fn slice(&mut self, until: Time) {
        let now = self.world.now();
        if now >= self.zero() && self.settled_bytes.is_none() {
            self.settled_bytes = Some(self.network.wire_bytes(&self.world));
            self.ways.follow(self.scenario, &self.world, &self.network);
        }
        while let Some(fault) = self.next_fault
            && self.zero() + fault.at <= now
        {
            self.happen(&fault.kind);
            self.next_fault = self.faults.next();
        }
        let mut end = (now + self.slice).min(until);
        for moment in [Some(Duration::ZERO), self.next_fault.map(|fault| fault.at)] {
            let moment = moment.map_or(Time::FAR, |at| self.zero() + at);
            if now < moment {
                end = end.min(moment);
            }
        }
        for connection in &mut self.network.connections {
            connection.look(&self.world, self.scenario);
        }
        self.streams.send(&mut self.world, &self.network, end);
        self.streams.write(&mut self.world, &self.network);
        self.world.run_until(end);
        self.streams.receive(&mut self.world, &self.network);
        self.observe();
        self.show();
    }

    fn observe(&mut self) {
        let from = self.zero();
        let known = self.report.overlay.route_changes;
        for report in self.world.take_events() {
            if let Either::A(event) = report.event
                && report.at >= from
            {
                if let Some(watch) = &mut self.watch {
                    watch(report.at.since(from), report.host.place(), &event);
                }
                self.count(event);
            }
        }
        if self.report.overlay.route_changes != known {
            self.ways.follow(self.scenario, &self.world, &self.network);
        }
    }

    fn count(&mut self, event: Event) {
        let overlay = &mut self.report.overlay;
        match event {
            Event::Forwarded { packets, bytes, .. } | Event::Originated { packets, bytes, .. } => {
                let around = u64::from(packets) * (HEADROOM + TAG_BYTES) as u64;
                overlay.payload_bytes += u64::from(bytes).saturating_sub(around);
            }
            Event::Retransmitted { packets, bytes, .. } => {
                overlay.retransmitted += u64::from(packets);
                overlay.retransmitted_bytes += u64::from(bytes);
            }
            Event::Repair { bytes, .. } => {
                overlay.repair += 1;
                overlay.repair_bytes += u64::from(bytes);
            }
            Event::Requested { packets, .. } => overlay.requested += u64::from(packets),
            Event::Recovered { .. } => overlay.recovered += 1,
            Event::Control { bytes, .. } => overlay.control_bytes += u64::from(bytes),
            Event::LinkUp { .. } => overlay.links_up += 1,
            Event::LinkDown { .. } => overlay.links_down += 1,
            Event::Unstamped => overlay.unstamped += 1,
            Event::RoutesChanged { rerouted: true, .. } => overlay.route_changes += 1,
            Event::Dropped { reason, packets } => {
                *overlay.dropped.entry(reason.label()).or_default() += u64::from(packets);
            }
            _ => {}
        }
    }

    fn happen(&mut self, kind: &FaultKind) {
        match kind {
            FaultKind::Down(place) => self.set_outage(*place, true),
            FaultKind::Up(place) => self.set_outage(*place, false),
            FaultKind::Set(Place::Second(link), path) => {
                let link = &self.scenario.links[*link];
                self.network.set_second(&mut self.world, link, path);
            }
            FaultKind::Set(place, path) => {
                let (a, b) = self.ends(*place);
                let models = [(a, b, &path.there), (b, a, &path.back)];
                for (from, to, model) in models {
                    let model = shifted(model, self.scenario.settle);
                    self.world.link_one_way(from, to, model);
                }
            }
            FaultKind::Follow(link, path) => {
                let (a, b) = self.ends(Place::Link(*link));
                for (from, to, model) in [(a, b, &path.there), (b, a, &path.back)] {
                    let model = shifted(model, self.scenario.settle);
                    self.world.follow_one_way(from, to, model);
                }
            }
            FaultKind::Crash(node) => drop(self.world.crash(self.network.hosts[*node])),
            FaultKind::Restart(node) => {
                self.network.restart(&mut self.world, *node);
                self.streams.reopen(&mut self.world, &self.network, *node);
            }
            FaultKind::Stall(node, span) => {
                let until = self.world.now() + *span;
                self.world
                    .stall(self.network.hosts[*node], until, NODE_DATAGRAMS);
                for host in self.network.plain_hosts_at(*node) {
                    self.world.stall(host, until, SOCKET_DATAGRAMS);
                }
                self.streams.stall(*node, until);
            }
            FaultKind::Partition(groups) => {
                for group in groups {
                    let island: Vec<HostId> =
                        group.iter().map(|node| self.network.hosts[*node]).collect();
                    self.world.partition(&island);
                }
            }
            FaultKind::Heal => self.world.heal(),
        }
    }

    fn set_outage(&mut self, place: Place, outage: bool) {
        if let Place::Second(link) = place {
            let link = &self.scenario.links[link];
            return self
                .network
                .set_second_outage(&mut self.world, link, outage);
        }
        let (a, b) = self.ends(place);
        self.world.set_outage(a, b, outage);
    }

    fn ends(&self, place: Place) -> (HostId, HostId) {
        match place {
            Place::Link(link) | Place::Second(link) => {
                let link = &self.scenario.links[link];
                (self.network.hosts[link.a], self.network.hosts[link.b])
            }
            Place::Flow(flow) => self.network.direct[flow]
                .expect("only direct flows have paths of their own to name"),
        }
    }
}

/// Returns a path whose scheduled outages count from the scenario's zero, in the world's time.
fn shifted(model: &Model, settle: Duration) -> Model {
    let outages = model.outages().iter();
    let outages = outages.map(|&(from, until)| (from + settle, until + settle));
    model
        .clone()
        .with_outages(outages.collect())
        .expect("outages are as long as they were, and as many")
}
