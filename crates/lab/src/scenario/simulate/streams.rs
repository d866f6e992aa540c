//! The traffic of a scenario: clients that send and receive, and a meter for each stream.

mod speech;
mod view;

use super::network::{Network, Party};
use super::sessions::{self, Session, Told};
use crate::scenario::custom::{Moments, PacketSource};
use crate::scenario::meter::{Judgement, Meter};
use crate::scenario::{Carrier, FLOWS_MAX, Flow, PACKETS_MAX, Scenario, stamp};
use base::{Burst, ClientId, Duration, NodeAddr, Time, VirtualPort};
use overlay::request::{Operation, Options};
use overlay::stream::StreamReply;
use overlay::{Reply, Request};
use sim::traffic::{Pattern, Source};
use sim::{Either, HostId, World, udp};
use speech::Frame;
use voice::call::Altered;
use voice::frames::FRAME_SAMPLES;
use wire::HEADROOM;
use wire::groups::Setting;

/// The sending client of stream 0; the others follow.
const SENDERS: u32 = 1 << 16;
/// The receiving client of stream 0.
const RECEIVERS: u32 = 1 << 17;
/// The port of stream 0's receiver. The 4096 ports stay below those that nodes assign.
const PORTS: u16 = 1_024;
const _: () = assert!(PORTS as usize + FLOWS_MAX <= overlay::sockets::EPHEMERAL_FIRST as usize);
/// The group of flow 0, 239.7.0.0; 4096 follow.
const GROUPS: u32 = 0xef07_0000;
// The purpose of the world's generator for traffic.
const TRAFFIC: u64 = 3;

/// The traffic of a scenario.
pub(super) struct Streams<'s> {
    scenario: &'s Scenario,
    streams: Vec<Stream>,
    /// For each stream: its connection, if it is a reliable one.
    sessions: Vec<Option<Session>>,
    /// The stream of each accepted connection.
    accepted: Vec<usize>,
    /// For each node: the time until which nothing there is scheduled.
    stalled_until: Vec<Time>,
    keeps_packets: bool,
    /// Number of packets that programs' sources may still send, all together. It stops a source that never ends, or
    /// whose time stands still.
    chosen_left: u64,
    /// The payloads that all streams carry, packet by packet, if speech is evaluated.
    speech: Vec<Frame>,
    /// For each stream: the payloads that arrived altered.
    altered: Vec<Altered>,
}

/// Most packets of a program's source in one slice; further ones wait for the next slice, so that an observer can end
/// the simulation.
const CHOSEN_AT_ONCE: usize = 10_000;

struct Stream {
    /// The flow that it belongs to, by its index.
    flow: usize,
    /// Its number in the flow.
    number: usize,
    source: Moments,
    /// The time of the first packet, after the world's beginning.
    start: Time,
    stop: Time,
    /// When each judged packet was sent, if packets are kept.
    sent_at: Vec<Time>,
    /// One meter for each receiver.
    meters: Vec<Meter>,
}

impl<'s> Streams<'s> {
    /// Opens the sockets; nothing is sent yet.
    pub(super) fn open(
        scenario: &'s Scenario,
        world: &mut World<Party>,
        network: &Network<'_>,
    ) -> Streams<'s> {
        let zero = Time::ZERO + scenario.settle;
        let mut streams = Vec::new();
        for (n, flow) in scenario.flows.iter().enumerate() {
            if matches!(flow.carrier, Carrier::Tcp(..)) {
                continue;
            }
            let (Pattern::Cbr { interval } | Pattern::OnOff { interval, .. }) = flow.pattern;
            for i in 0..flow.count as u64 {
                let phase = Duration::from_nanos(
                    (u128::from(interval.as_nanos()) * u128::from(i) / flow.count as u128) as u64,
                );
                let rng = world.rng_of(&[TRAFFIC, n as u64, i]);
                streams.push(Stream {
                    flow: n,
                    number: i as usize,
                    source: Moments::Drawn(Source::new(flow.pattern, rng)),
                    start: zero + flow.start + phase,
                    stop: zero + flow.stop,
                    sent_at: Vec::new(),
                    meters: {
                        let of = |_| Meter::new(interval, flow.deadline);
                        flow.receivers().map(of).collect()
                    },
                });
            }
        }
        let is_reliable = |stream: &Stream| scenario.flows[stream.flow].is_stream;
        let session = |stream: &Stream| {
            let flow = &scenario.flows[stream.flow];
            let bulk = flow
                .is_bulk
                .then_some((zero + flow.start, zero + flow.stop));
            is_reliable(stream).then(|| Session::new(bulk))
        };
        let sessions = streams.iter().map(session);
        let mut streams = Streams {
            scenario,
            sessions: sessions.collect(),
            accepted: Vec::new(),
            streams,
            stalled_until: vec![Time::ZERO; scenario.nodes.len()],
            keeps_packets: false,
            chosen_left: PACKETS_MAX,
            speech: Vec::new(),
            altered: Vec::new(),
        };
        for node in 0..scenario.nodes.len() {
            streams.reopen(world, network, node);
        }
        streams
    }

    /// Lets a stream of a flow send the packets of a program's source, from the flow's start on.
    pub(super) fn choose(&mut self, (flow, number): (usize, usize), source: PacketSource) {
        let start = Time::ZERO + self.scenario.settle + self.scenario.flows[flow].start;
        let mut streams = self.streams.iter_mut();
        if let Some(stream) = streams.find(|s| (s.flow, s.number) == (flow, number)) {
            (stream.source, stream.start) = (Moments::chosen(source), start);
            stream.meters.iter_mut().for_each(Meter::keep_moments);
        }
    }

    /// Lets all streams whose packets have this length carry these payloads in turn, except for the stamp at the head
    /// of each. Payloads that arrive altered are kept.
    pub(super) fn say(&mut self, speech: &[Frame]) {
        self.speech = speech.to_vec();
        self.altered = vec![Altered::new(); self.streams.len()];
    }

    /// Returns the payloads that arrived altered, in the order of [`Streams::calls`], for streams with one receiver.
    pub(super) fn altered(&self) -> Vec<Altered> {
        let mut streams: Vec<usize> = (0..self.altered.len()).collect();
        streams.sort_by_key(|n| self.streams[*n].flow);
        streams
            .into_iter()
            .map(|n| self.altered[n].clone())
            .collect()
    }

    /// Records from now on when each packet is sent.
    pub(super) fn keep_packets(&mut self) {
        self.keeps_packets = true;
    }

    /// Opens the sockets at a node, as clients do when their node has restarted.
    pub(super) fn reopen(&mut self, world: &mut World<Party>, network: &Network<'_>, node: usize) {
        let host = network.hosts[node];
        for (n, stream) in self.streams.iter().enumerate() {
            let flow = &self.scenario.flows[stream.flow];
            let Carrier::Overlay(options) = flow.carrier else {
                continue;
            };
            if let Some(session) = &mut self.sessions[n] {
                if flow.to == node {
                    Session::listen(world, network, n, flow, options);
                }
                if flow.from == node {
                    session.connect(world, network, n, flow, options);
                }
                continue;
            }
            if flow.receivers().any(|receiver| receiver == node) {
                let (client, port) = receiver(n);
                let opens = match group(stream.flow, flow) {
                    Some(group) => Request::Join { group, port },
                    None => Request::Bind { port },
                };
                world.request(host, client, Either::A(opens));
                world.request(host, client, Either::A(Request::Options(options)));
            }
            if flow.from == node {
                world.request(host, sender(n), Either::A(Request::Options(options)));
                if let Some(set) = setting(stream.flow, flow, options) {
                    world.request(host, sender(n), Either::A(Request::Operate(set)));
                }
            }
        }
    }

    /// Schedules nothing at a node until then: its clients send their packets later.
    pub(super) fn stall(&mut self, node: usize, until: Time) {
        let stalled = &mut self.stalled_until[node];
        *stalled = until.max(*stalled);
    }

    /// Schedules all packets up to `until`.
    pub(super) fn send(&mut self, world: &mut World<Party>, network: &Network<'_>, until: Time) {
        let from = Time::ZERO + self.scenario.settle + self.scenario.measure.from;
        for (n, stream) in self.streams.iter_mut().enumerate() {
            if self.scenario.flows[stream.flow].is_bulk {
                continue;
            }
            let mut at_once = 0;
            while let Some(sending) = stream.source.peek() {
                let due = stream.start + sending.at;
                if due >= until.min(stream.stop) {
                    break;
                }
                if matches!(stream.source, Moments::Chosen { .. }) {
                    if at_once == CHOSEN_AT_ONCE || self.chosen_left == 0 {
                        break;
                    }
                    at_once += 1;
                    self.chosen_left -= 1;
                }
                stream.source.advance();
                let numbers = stream
                    .meters
                    .iter_mut()
                    .map(|meter| meter.on_sent_at(due >= from, due));
                let number = numbers.max().unwrap_or_default();
                let flow = &self.scenario.flows[stream.flow];
                let at = due.max(self.stalled_until[flow.from]);
                if self.keeps_packets && due >= from {
                    stream.sent_at.push(at);
                }
                let bytes = sending.bytes.unwrap_or(flow.packet);
                if let Some(session) = &mut self.sessions[n] {
                    session.push(number, at, bytes);
                    continue;
                }
                let place = stream.meters.first().and_then(|meter| meter.place(number));
                let said = place.filter(|_| bytes == FRAME_SAMPLES);
                let said = said.and_then(|place| speech::said(&self.speech, place));
                let said = said.map(Frame::as_slice).unwrap_or_default();
                let Some(payload) = payload_of(world, (n as u32, number), at, bytes, said) else {
                    // No buffer is free: the packet is lost at its source.
                    continue;
                };
                match network.direct[stream.flow] {
                    None => {
                        let node = self.scenario.nodes[flow.to].address;
                        let request = Request::Send {
                            to: group(stream.flow, flow).unwrap_or(node),
                            port: receiver(n).1,
                            payload,
                        };
                        let host: HostId = network.hosts[flow.from];
                        world.request_at(at, host, sender(n), Either::A(request));
                    }
                    Some((host, to)) => {
                        let to = world.addr(to);
                        let request = udp::Send { to, payload };
                        world.request_at(at, host, sender(n), Either::B(Either::A(request)));
                    }
                }
            }
        }
    }

    /// Lets reliable streams hand their nodes the data that these accept.
    pub(super) fn write(&mut self, world: &mut World<Party>, network: &Network<'_>) {
        for (n, session) in self.sessions.iter_mut().enumerate() {
            if let Some(session) = session {
                let flow = &self.scenario.flows[self.streams[n].flow];
                let stalled = [flow.from, flow.to].map(|node| self.stalled_until[node]);
                session.write(world, network, n, (flow, stalled));
            }
        }
    }

    fn stream_told(
        &mut self,
        world: &mut World<Party>,
        network: &Network<'_>,
        answer: (Time, HostId, ClientId),
        reply: StreamReply,
    ) {
        let (at, host, client) = answer;
        let known = (&mut self.accepted, self.sessions.as_mut_slice());
        match sessions::on_reply(world, host, client, reply, known) {
            Told::Nothing => {}
            Told::Called(n, payload) => self.came(n, at, &payload),
            Told::Answered(payload) => self.arrived(at, None, &payload),
            Told::Over(n) => {
                self.streams[n].meters[0].reopened += 1;
                let flow = &self.scenario.flows[self.streams[n].flow];
                if let (Carrier::Overlay(options), Some(session)) =
                    (&flow.carrier, &mut self.sessions[n])
                {
                    session.connect(world, network, n, flow, *options);
                }
            }
        }
    }

    /// Handles data that arrived over a reliable stream for the called client.
    fn came(&mut self, n: usize, at: Time, payload: &Burst) {
        let flow = &self.scenario.flows[self.streams[n].flow];
        if flow.is_bulk {
            let (from, until) = flow.judged(self.scenario.measure.from);
            let zero = Time::ZERO + self.scenario.settle;
            if (zero + from..zero + until).contains(&at) {
                self.streams[n].meters[0].bulk_bytes += payload.len() as u64;
            }
        } else if !flow.is_answered {
            self.arrived(at, None, payload);
        } else if let (Some(session), Some((_, number, sent))) =
            (&mut self.sessions[n], stamp::read(payload.bytes()))
        {
            session.answer(number, sent);
        }
    }

    /// Handles the replies to clients.
    pub(super) fn receive(&mut self, world: &mut World<Party>, network: &Network<'_>) {
        for answer in world.take_replies() {
            let place = network.hosts.iter().position(|host| *host == answer.host);
            match answer.reply {
                Either::A(Reply::Datagram { payload, .. }) => {
                    self.arrived(answer.at, place, &payload);
                }
                Either::B(Either::A(udp::Arrived { payload, .. })) => {
                    self.arrived(answer.at, None, &payload);
                }
                Either::A(Reply::Stream(reply)) => {
                    let of = (answer.at, answer.host, answer.client);
                    self.stream_told(world, network, of, reply);
                }
                Either::A(Reply::Refused(_)) => self.refused(answer.client),
                Either::A(_) => {}
                Either::B(Either::B(never)) => match never {},
            }
        }
    }

    /// Judges the streams of each flow together.
    pub(super) fn judge(&mut self, world: &World<Party>, network: &Network<'_>) -> Vec<Judgement> {
        let mut meters: Vec<Vec<Meter>> = Vec::new();
        meters.resize_with(self.scenario.flows.len(), Vec::new);
        for stream in self.streams.drain(..) {
            meters[stream.flow].extend(stream.meters);
        }
        for connection in &network.connections {
            let meter = connection.meter(world, self.scenario);
            meters[connection.flow()].push(meter);
        }
        let gap = self.scenario.measure.gap;
        let judged = meters.iter().map(|meters| Judgement::of(meters, gap));
        judged.collect()
    }

    /// Handles a packet that arrived at a node or at the end of a direct flow.
    fn arrived(&mut self, at: Time, node: Option<usize>, payload: &Burst) {
        for i in 0..payload.segments() {
            let Some((stream, number, sent)) = stamp::read(payload.segment(i)) else {
                continue;
            };
            let n = stream as usize;
            let Some(stream) = self.streams.get_mut(n) else {
                continue;
            };
            let flow = &self.scenario.flows[stream.flow];
            let is_here = |receiver| node.is_none_or(|node| node == receiver);
            if let Some(place) = flow.receivers().position(is_here) {
                let packet = payload.segment(i);
                let meter = &mut stream.meters[place];
                let is_first = meter.on_arrival(number, sent, at, packet.len());
                if let Some(place) = meter.place(number).filter(|_| is_first)
                    && let Some(said) = speech::said(&self.speech, place)
                    && let Some(heard) = speech::differing(packet, said)
                    && let Some(altered) = self.altered.get_mut(n)
                {
                    altered.insert(place, heard);
                }
            }
        }
    }

    fn refused(&mut self, client: ClientId) {
        let n = sessions::stream_of(client).unwrap_or((client.0 % SENDERS) as usize);
        if let Some(stream) = self.streams.get_mut(n) {
            stream.meters[0].refused += 1;
        }
    }
}

pub(super) fn payload(
    world: &World<Party>,
    packet: (u32, u32),
    at: Time,
    bytes: usize,
) -> Option<Burst> {
    payload_of(world, packet, at, bytes, &[])
}

/// Returns a payload with the data after the stamp: the end of a longer text, or zeros.
fn payload_of(
    world: &World<Party>,
    (stream, number): (u32, u32),
    at: Time,
    bytes: usize,
    said: &[u8],
) -> Option<Burst> {
    // A payload of the overlay begins after the space for its headers, and leaves room for the tag.
    let mut burst = if bytes + HEADROOM + wire::TAG_BYTES <= base::pool::SMALL_BYTES {
        world.pool().small()?
    } else {
        world.pool().large()?
    };
    burst.reserve_front(HEADROOM);
    let spare = &mut burst.spare_mut()[..bytes];
    spare.fill(0);
    for (byte, said) in spare.iter_mut().zip(said) {
        *byte = *said;
    }
    stamp::put(spare, stream, number, at);
    burst.fill(bytes, bytes);
    Some(burst)
}

/// Returns the group that a flow is sent to, if it has several receivers.
fn group(place: usize, flow: &Flow) -> Option<NodeAddr> {
    (!flow.also.is_empty()).then(|| NodeAddr(GROUPS + place as u32))
}

/// Returns the setting of the source's node for the group of a flow, if there is one.
fn setting(place: usize, flow: &Flow, options: Options) -> Option<Operation> {
    let (group, ways) = (group(place, flow)?, flow.ways?);
    let ms = options.deadline.map_or(0, |deadline| deadline.as_millis());
    let setting = Setting {
        class: options.class,
        deadline_ms: u16::try_from(ms).unwrap_or(u16::MAX),
        ways,
        ..Setting::of(group)
    };
    Some(Operation::SetGroup {
        group,
        prefix: setting.prefix,
        setting: Some(setting),
    })
}

fn sender(stream: usize) -> ClientId {
    ClientId(SENDERS + stream as u32)
}

pub(super) fn receiver(stream: usize) -> (ClientId, VirtualPort) {
    let port = VirtualPort(PORTS + stream as u16);
    (ClientId(RECEIVERS + stream as u32), port)
}

/// Returns the stream of a listening client.
pub(super) fn receiver_of(client: ClientId) -> Option<usize> {
    client.0.checked_sub(RECEIVERS).map(|n| n as usize)
}
