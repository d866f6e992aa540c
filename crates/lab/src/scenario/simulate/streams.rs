//! The traffic of a scenario: clients that send and receive, and a meter for each stream.

use super::Call;
use super::network::{Network, Party};
use crate::scenario::meter::{Judgement, Meter};
use crate::scenario::{Carrier, FLOWS_MAX, Scenario, stamp};
use base::{Burst, ClientId, Duration, Time, VirtualPort};
use overlay::{Reply, Request};
use sim::traffic::{Pattern, Source};
use sim::{Either, HostId, World, udp};
use wire::HEADROOM;

/// The sending client of stream 0; the others follow.
const SENDERS: u32 = 1 << 16;
/// The receiving client of stream 0.
const RECEIVERS: u32 = 1 << 17;
/// The port of stream 0's receiver. 4096 of them stay below those that nodes give out.
const PORTS: u16 = 1_024;
const _: () = assert!(PORTS as usize + FLOWS_MAX <= overlay::sockets::EPHEMERAL_FIRST as usize);
// Which generator of the world is for traffic.
const TRAFFIC: u64 = 3;

/// The traffic of a scenario.
pub(super) struct Streams<'s> {
    scenario: &'s Scenario,
    streams: Vec<Stream>,
    /// Of each node: until when nothing there is scheduled.
    stalled_until: Vec<Time>,
}

struct Stream {
    /// The flow it belongs to, by its place.
    flow: usize,
    source: Source,
    /// Of the first packet, after the world's beginning.
    start: Time,
    stop: Time,
    meter: Meter,
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
            let (Pattern::Cbr { interval } | Pattern::OnOff { interval, .. }) = flow.pattern;
            for i in 0..flow.count as u64 {
                let phase = Duration::from_nanos(
                    (u128::from(interval.as_nanos()) * u128::from(i) / flow.count as u128) as u64,
                );
                let rng = world.rng_of(&[TRAFFIC, n as u64, i]);
                streams.push(Stream {
                    flow: n,
                    source: Source::new(flow.pattern, rng),
                    start: zero + flow.start + phase,
                    stop: zero + flow.stop,
                    meter: Meter::new(interval, flow.deadline),
                });
            }
        }
        let streams = Streams {
            scenario,
            streams,
            stalled_until: vec![Time::ZERO; scenario.nodes.len()],
        };
        for node in 0..scenario.nodes.len() {
            streams.reopen(world, network, node);
        }
        streams
    }

    /// Opens the sockets at a node, as clients do when their node has started again.
    pub(super) fn reopen(&self, world: &mut World<Party>, network: &Network<'_>, node: usize) {
        let host = network.hosts[node];
        for (n, stream) in self.streams.iter().enumerate() {
            let flow = &self.scenario.flows[stream.flow];
            let Carrier::Overlay(options) = flow.carrier else {
                continue;
            };
            if flow.to == node {
                let (client, port) = receiver(n);
                world.request(host, client, Either::A(Request::Bind { port }));
                world.request(host, client, Either::A(Request::Options(options)));
            }
            if flow.from == node {
                world.request(host, sender(n), Either::A(Request::Options(options)));
            }
        }
    }

    /// Nothing at a node is scheduled until then: its clients send later what they would have sent.
    pub(super) fn stall(&mut self, node: usize, until: Time) {
        let stalled = &mut self.stalled_until[node];
        *stalled = until.max(*stalled);
    }

    /// Schedules all packets up to `until`.
    pub(super) fn send(&mut self, world: &mut World<Party>, network: &Network<'_>, until: Time) {
        let from = Time::ZERO + self.scenario.settle + self.scenario.measure.from;
        for (n, stream) in self.streams.iter_mut().enumerate() {
            loop {
                let at = stream.start + stream.source.peek();
                if at >= until.min(stream.stop) {
                    break;
                }
                stream.source.next();
                let number = stream.meter.on_sent(at >= from);
                let flow = &self.scenario.flows[stream.flow];
                let at = at.max(self.stalled_until[flow.from]);
                let Some(payload) = payload(world, (n as u32, number), at, flow.packet) else {
                    // Nothing is left to send with: the packet is lost at its source.
                    continue;
                };
                match network.direct[stream.flow] {
                    None => {
                        let request = Request::Send {
                            to: self.scenario.nodes[flow.to].address,
                            port: receiver(n).1,
                            payload,
                        };
                        let host: HostId = network.hosts[flow.from];
                        world.request_at(at, host, sender(n), Either::A(request));
                    }
                    Some((host, to)) => {
                        let to = world.addr(to);
                        let request = udp::Send { to, payload };
                        world.request_at(at, host, sender(n), Either::B(request));
                    }
                }
            }
        }
    }

    /// Takes in what clients were told.
    pub(super) fn receive(&mut self, world: &mut World<Party>) {
        for answer in world.take_replies() {
            match answer.reply {
                Either::A(Reply::Datagram { payload, .. }) => self.arrived(answer.at, &payload),
                Either::B(udp::Arrived { payload, .. }) => self.arrived(answer.at, &payload),
                Either::A(Reply::Refused(_)) => self.refused(answer.client),
                Either::A(_) => {}
            }
        }
    }

    /// The packets of each flow's streams.
    pub(super) fn calls(&self) -> Vec<Vec<Call>> {
        let mut calls: Vec<Vec<Call>> = vec![Vec::new(); self.scenario.flows.len()];
        for stream in &self.streams {
            calls[stream.flow].push(stream.meter.delays_us());
        }
        calls
    }

    /// The streams of each flow, judged together.
    pub(super) fn judge(&mut self) -> Vec<Judgement> {
        let mut meters: Vec<Vec<Meter>> = Vec::new();
        meters.resize_with(self.scenario.flows.len(), Vec::new);
        for stream in self.streams.drain(..) {
            meters[stream.flow].push(stream.meter);
        }
        let gap = self.scenario.measure.gap;
        let judged = meters.iter().map(|meters| Judgement::of(meters, gap));
        judged.collect()
    }

    fn arrived(&mut self, at: Time, payload: &Burst) {
        for i in 0..payload.segments() {
            let Some((stream, number, sent)) = stamp::read(payload.segment(i)) else {
                continue;
            };
            if let Some(stream) = self.streams.get_mut(stream as usize) {
                stream.meter.on_arrival(number, sent, at);
            }
        }
    }

    fn refused(&mut self, client: ClientId) {
        let n = client.0 % SENDERS;
        if let Some(stream) = self.streams.get_mut(n as usize) {
            stream.meter.refused += 1;
        }
    }
}

fn payload(
    world: &World<Party>,
    (stream, number): (u32, u32),
    at: Time,
    bytes: usize,
) -> Option<Burst> {
    // A payload of the overlay leaves from behind its headers, with room for the tag.
    let mut burst = if bytes + HEADROOM + wire::TAG_BYTES <= base::pool::SMALL_BYTES {
        world.pool().small()?
    } else {
        world.pool().large()?
    };
    burst.reserve_front(HEADROOM);
    let spare = &mut burst.spare_mut()[..bytes];
    spare.fill(0);
    stamp::put(spare, stream, number, at);
    burst.fill(bytes, bytes);
    Some(burst)
}

fn sender(stream: usize) -> ClientId {
    ClientId(SENDERS + stream as u32)
}

fn receiver(stream: usize) -> (ClientId, VirtualPort) {
    let port = VirtualPort(PORTS + stream as u16);
    (ClientId(RECEIVERS + stream as u32), port)
}
