//! One run of the paper's network: hosts, links and flows of the simulator.
//!
//! All sources of voice share one host, and so do all sinks: access links have no rate limit, so sharing them changes
//! nothing, and errors affect each packet independently. [Papadimitriou06 Figure 1]

use super::metrics::{Call, Packet};
use super::setup::{
    ENTER, FTP_BYTES, HEADER_BYTES, Network, Setup, TCP_HEADER_BYTES, Transport, UDP_HEADER_BYTES,
    VOICE_BPS,
};
use base::impair::{LossModel, Model};
use base::{Duration, Rng, Time};
use congestion::Family;
use sim::HostId;
use sim::tcp::{self, Flow, Load, Settings, TcpHost, Traffic};
use sim::traffic::Pattern;
use sim::{World, tcp::PartialSettings};

/// Time for packets that are still under way when speakers stop.
const DRAIN: Duration = Duration::from_secs(1);
/// The deadline of the partially reliable class. [Papadimitriou06 Table II]
const DEADLINE: Duration = Duration::from_millis(150);

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) calls: Vec<Call>,
    pub(super) voice: Voice,
    pub(super) ftp: Ftp,
    /// Packets dropped by the queue of R1 towards R2, and by that of R2 towards R3.
    pub(super) first_lost: u64,
    pub(super) second_lost: u64,
}

/// All voice together, in packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Voice {
    /// Packets sent for the first time, and packets sent in total.
    pub(super) first_sent: u64,
    pub(super) sent: u64,
    /// Packets lost on the path, whatever happened to them later; and those of them that queues lost, not errors.
    pub(super) lost: u64,
    pub(super) queue_lost: u64,
    /// Number of reductions of windows.
    pub(super) cuts: u64,
}

/// All FTP together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ftp {
    pub(super) bytes: u64,
    pub(super) cuts: u64,
}

struct Hosts {
    sources: HostId,
    sinks: HostId,
    ftp_sources: HostId,
    ftp_sinks: HostId,
    routers: [HostId; 3],
}

/// Runs it. Equal setups and seeds give equal outcomes; with equal seeds the same people speak at the same moments over
/// every transport.
pub(super) fn run(setup: &Setup, seed: u64) -> Outcome {
    let mut network = tcp::Network::default();
    let hosts = lay(&mut network, &setup.network, setup.errors);
    let mut rng = Rng::new(seed);
    let mut enter = || Duration::from_nanos(rng.below(ENTER.as_nanos()));
    let calls: Vec<(Flow, Traffic)> = (0..setup.calls)
        .map(|_| call(&mut network, &hosts, setup, enter()))
        .collect();
    let ftp: Vec<Flow> = (0..setup.ftp)
        .map(|_| {
            let traffic = Traffic::unlimited().between(enter(), setup.span);
            let mut settings = Settings::ns2(Family::Reno);
            settings.segment_bytes = FTP_BYTES + TCP_HEADER_BYTES;
            let flow = network.connect(hosts.ftp_sources, hosts.ftp_sinks, settings, traffic);
            network.count_only(flow);
            flow
        })
        .collect();
    let mut world = network.build(seed);
    world.run_until(Time::ZERO + setup.span);
    let ftp = told_ftp(&world, &ftp);
    world.run_for(DRAIN);
    let [r1, r2, r3] = hosts.routers;
    let errors = world.counts(r3, hosts.sinks).lost;
    Outcome {
        voice: told_voice(&world, &calls, errors),
        calls: calls
            .iter()
            .map(|(flow, traffic)| told_call(&world, *flow, *traffic, setup))
            .collect(),
        ftp,
        first_lost: world.counts(r1, r2).queue,
        second_lost: world.counts(r2, r3).queue,
    }
}

fn lay(network: &mut tcp::Network, figure: &Network, errors: f64) -> Hosts {
    let hosts = Hosts {
        sources: network.host(),
        sinks: network.host(),
        ftp_sources: network.host(),
        ftp_sinks: network.host(),
        routers: [network.host(), network.host(), network.host()],
    };
    let [r1, r2, r3] = hosts.routers;
    let access = Model::default()
        .with_delay(figure.access)
        .unwrap_or_default();
    let lossy = access.clone().with_loss(LossModel::Bernoulli { p: errors });
    network.link(hosts.sources, r1, &access);
    network.link(r1, r2, &figure.first_link());
    network.link(r2, r3, &figure.second_link());
    // "Configured on both (forward and reverse) directions" [Papadimitriou06 §4.2]
    network.link(r3, hosts.sinks, &lossy.unwrap_or_else(|_| access.clone()));
    network.link(hosts.ftp_sources, r2, &access);
    network.link(r3, hosts.ftp_sinks, &access);
    hosts
}

/// Adds a call that begins `enter` after the start.
fn call(
    network: &mut tcp::Network,
    hosts: &Hosts,
    setup: &Setup,
    enter: Duration,
) -> (Flow, Traffic) {
    let speech = |bytes: usize| {
        let pattern = Pattern::pareto(VOICE_BPS, setup.bytes);
        Traffic::always(Load::Messages { pattern, bytes }).between(enter, setup.span)
    };
    let (from, to) = (hosts.sources, hosts.sinks);
    let connect = |network: &mut tcp::Network, family: Family| {
        let mut settings = Settings::ns2(family);
        settings.segment_bytes = setup.bytes + TCP_HEADER_BYTES;
        (
            network.connect(from, to, settings, speech(setup.bytes)),
            speech(setup.bytes),
        )
    };
    match setup.transport {
        Transport::Vegas => connect(network, Family::Vegas),
        Transport::Westwood => connect(network, Family::Westwood),
        Transport::Real => connect(network, Family::Real),
        Transport::Reno => connect(network, Family::Reno),
        Transport::Udp => {
            // The payload includes RTP.
            let traffic = speech(setup.bytes + HEADER_BYTES - UDP_HEADER_BYTES);
            (network.datagrams(from, to, traffic), traffic)
        }
        Transport::Partial => {
            let traffic = speech(setup.bytes);
            let settings = PartialSettings {
                header_bytes: HEADER_BYTES,
                ..PartialSettings::within(DEADLINE)
            };
            (network.partial(from, to, settings, traffic), traffic)
        }
    }
}

fn told_ftp(world: &World<TcpHost>, flows: &[Flow]) -> Ftp {
    let mut ftp = Ftp::default();
    for flow in flows {
        let sent = flow.sent(world);
        ftp.bytes += flow.received(world).delivered * FTP_BYTES as u64;
        ftp.cuts += sent.recoveries + sent.timeouts - sent.forgiven;
    }
    ftp
}

fn told_voice(world: &World<TcpHost>, calls: &[(Flow, Traffic)], errors: u64) -> Voice {
    let mut voice = Voice::default();
    let mut arrived = 0;
    for (flow, _) in calls {
        let (sent, received) = (flow.sent(world), flow.received(world));
        voice.sent += sent.segments;
        voice.first_sent += sent.segments - sent.again;
        voice.cuts += sent.recoveries + sent.timeouts - sent.forgiven;
        arrived += received.segments + received.duplicates + received.beyond;
    }
    voice.lost = voice.sent.saturating_sub(arrived);
    voice.queue_lost = voice.lost.saturating_sub(errors);
    voice
}

/// Returns each packet that the speaker wrote, with its time of delivery.
fn told_call(world: &World<TcpHost>, flow: Flow, traffic: Traffic, setup: &Setup) -> Call {
    let packet = |written: Time| Packet {
        written,
        arrived: None,
    };
    let mut packets: Vec<Packet> = flow.writes(world, traffic).map(packet).collect();
    for delivery in flow.deliveries(world) {
        // A packet is one segment, so the segment's number is the packet's.
        if let Some(packet) = packets.get_mut(delivery.number as usize) {
            packet.arrived.get_or_insert(delivery.delivered);
        }
    }
    let interval_ns = setup.bytes as u64 * 8 * 1_000_000_000 / VOICE_BPS;
    Call {
        packets,
        bytes: setup.bytes,
        interval: Duration::from_nanos(interval_ns),
    }
}
