//! TCP outside the overlay: the simulator's, between two hosts for each flow.
//!
//! ```text
//!   own path      host ══ path ══ host
//!   shared        host ══ the rate, queue and losses of a link between nodes ══ host
//!   answered      host ══▶ host: reads in order, writes each message to a second connection ══▶ back
//! ```

use super::network::Party;
use crate::scenario::meter::Meter;
use crate::scenario::{BothWays, Carrier, Flow, Profile, Scenario, Way};
use base::{Duration, Time};
use congestion::Family;
use sim::tcp::{self, Forward, Relay, Settings, Traffic};
use sim::traffic::Pattern;
use sim::{Either, HostId, World};

/// A connection of a flow.
pub(super) struct Connection {
    /// The flow, by its index.
    flow: usize,
    /// The connection from the sender to the receiver.
    there: tcp::Flow,
    /// The flow whose arrivals are measured: at the receiver, or, if messages are answered, back at the sender.
    measured: tcp::Flow,
    traffic: Traffic,
    segment_bytes: u64,
    /// For bulk: number of segments that had arrived at the beginning and at the end of the judged span.
    counts: [Option<u64>; 2],
}

/// The two ends of each TCP flow, with the flow's index.
pub(super) type Ends = Vec<(usize, (HostId, HostId))>;

/// Creates the connections of a scenario's TCP, with their ends.
pub(super) fn connect(
    scenario: &Scenario,
    nodes: &[HostId],
    world: &mut World<Party>,
) -> (Vec<Connection>, Ends) {
    let mut network = tcp::Network::beside(world.hosts().count());
    let (mut connections, mut ends) = (Vec::new(), Vec::new());
    for (n, flow) in scenario.flows.iter().enumerate() {
        let Carrier::Tcp(family, way) = &flow.carrier else {
            continue;
        };
        let (a, b) = (network.host(), network.host());
        ends.push((n, (a, b)));
        match way {
            Way::Own(path) => {
                let path = shifted(path, scenario.settle);
                network.link_one_way(a, b, path.there);
                network.link_one_way(b, a, path.back);
            }
            Way::Link(_) => {
                let (from, to) = (nodes[flow.from], nodes[flow.to]);
                network.link_through(a, b, (from, to));
                network.link_through(b, a, (to, from));
            }
        }
        let settings = settings(scenario.profile, *family);
        for i in 0..flow.count {
            let traffic = traffic(scenario, flow, i);
            let there = network.connect(a, b, settings.clone(), traffic);
            let relay = Relay {
                forward: Forward::InOrder,
                pace: None,
            };
            let measured = match flow.is_answered {
                true => network.relay(there, relay, a, settings.clone()),
                false => there,
            };
            if flow.is_bulk {
                network.count_only(there);
            }
            connections.push(Connection {
                flow: n,
                there,
                measured,
                traffic,
                segment_bytes: settings.payload_bytes() as u64,
                counts: [None; 2],
            });
        }
    }
    network.join(world, |host| Either::B(Either::B(host)));
    (connections, ends)
}

fn shifted(path: &BothWays, settle: Duration) -> BothWays {
    BothWays {
        there: super::shifted(&path.there, settle),
        back: super::shifted(&path.back, settle),
    }
}

/// Returns the settings of a present-day kernel, or ns-2's defaults, with which the papers measured.
fn settings(profile: Profile, family: Family) -> Settings {
    match profile {
        Profile::Modern => Settings::linux(family),
        Profile::Paper => Settings::ns2(family),
    }
}

/// Returns what connection number `i` of a flow writes.
fn traffic(scenario: &Scenario, flow: &Flow, i: usize) -> Traffic {
    let zero = scenario.settle;
    let (traffic, phase) = match flow.is_bulk {
        true => (Traffic::unlimited(), Duration::ZERO),
        false => {
            let (Pattern::Cbr { interval } | Pattern::OnOff { interval, .. }) = flow.pattern;
            let load = tcp::Load::Messages {
                pattern: flow.pattern,
                bytes: flow.packet,
            };
            let phase = (interval * i as u64).div(flow.count as u64);
            (Traffic::always(load), phase)
        }
    };
    traffic.between(zero + flow.start + phase, zero + flow.stop)
}

impl Connection {
    /// Returns the flow, by its index.
    pub(super) fn flow(&self) -> usize {
        self.flow
    }

    /// Notes the count of segments when the judged span of bulk begins, and when it ends.
    pub(super) fn look(&mut self, world: &World<Party>, scenario: &Scenario) {
        let flow = &scenario.flows[self.flow];
        let (from, until) = flow.judged(scenario.measure.from);
        for (count, at) in self.counts.iter_mut().zip([from, until]) {
            if flow.is_bulk && count.is_none() && world.now() >= Time::ZERO + scenario.settle + at {
                *count = Some(self.there.received(world).delivered);
            }
        }
    }

    /// Returns a meter with the arrivals.
    pub(super) fn meter(&self, world: &World<Party>, scenario: &Scenario) -> Meter {
        let flow = &scenario.flows[self.flow];
        let (Pattern::Cbr { interval } | Pattern::OnOff { interval, .. }) = flow.pattern;
        let mut meter = Meter::new(interval, flow.deadline);
        if flow.is_bulk {
            let now = self.there.received(world).delivered;
            let [from, until] = self.counts.map(|count| count.unwrap_or(now));
            meter.bulk_bytes = (until - from) * self.segment_bytes;
            return meter;
        }
        let (from, _) = flow.judged(scenario.measure.from);
        let judged_from = Time::ZERO + scenario.settle + from;
        let written = self.there.writes(world, self.traffic);
        for at in written.take_while(|at| *at <= world.now()) {
            meter.on_sent(at >= judged_from);
        }
        for (number, message) in self.measured.deliveries(world).iter().enumerate() {
            let bytes = flow.packet;
            meter.on_arrival(number as u32, message.written, message.delivered, bytes);
        }
        meter
    }
}
