//! Real engines in a row, with clients at both ends.

use super::{DELAY_NS, HOPS, Options, Speed, cpu};
use crate::bench::BenchError;
use crate::members::Members;
use base::impair::Model;
use base::{ClientId, Duration, NodeAddr, VirtualPort};
use overlay::request::Options as SocketOptions;
use overlay::sockets::default_options;
use overlay::{Neighbor, Node, Reply, Request, Settings};
use sim::{HostId, World};
use wire::HEADROOM;
use wire::data::{Class, LinkProtocol, Routing};

/// Most packets at one moment: their buffers are in use at the same time.
pub(super) const BURST_MAX: usize = 64;
/// Time for handshakes, hellos and routes.
const SETTLE: Duration = Duration::from_secs(4);
/// Time between two bursts: 20 µs per packet, as in the plain chain.
const SPACING: Duration = Duration::from_micros(20);
/// How far ahead packets are scheduled.
const SLICE: Duration = Duration::from_millis(5);
const RECEIVER: ClientId = ClientId(1);
const SENDER: ClientId = ClientId(2);
const PORT: VirtualPort = VirtualPort(5_000);

fn addr(i: usize) -> NodeAddr {
    NodeAddr(0x0a07_0001 + i as u32)
}

/// Sends the packets from one end to the other, in bursts.
pub(super) fn measure(options: &Options, link: &str, burst: usize) -> Result<Speed, BenchError> {
    let (mut world, hosts) = settled(link)?;
    let payload = vec![0x5a; options.payload];
    let before = world.counters().events;
    let (delivered, cpu_s) = cpu::timed(|| {
        let (mut sent, mut delivered) = (0, 0);
        let mut next = world.now();
        while sent < options.packets {
            let slice = world.now() + SLICE;
            while next < slice && sent < options.packets {
                let now = (burst as u64).min(options.packets - sent);
                for _ in 0..now {
                    let payload = world.pool().copy_of(HEADROOM, &payload);
                    let payload = payload.ok_or_else(|| BenchError::Start(NO_BUFFER.to_owned()))?;
                    let request = Request::Send {
                        to: addr(HOPS),
                        port: PORT,
                        payload,
                    };
                    world.request_at(next, hosts[0], SENDER, request);
                }
                sent += now;
                next += SPACING * burst as u64;
            }
            world.run_until(slice);
            delivered += received(&mut world);
        }
        world.run_for(Duration::from_secs(1));
        Ok(delivered + received(&mut world))
    })?;
    if delivered != options.packets {
        return Err(BenchError::Start(format!(
            "{delivered} of {} packets arrived over a chain that loses none",
            options.packets
        )));
    }
    let events = world.counters().events - before;
    Ok(Speed::new(events, options.packets * HOPS as u64, cpu_s))
}

const NO_BUFFER: &str = "all packet buffers are in use";

/// Returns the number of packets that arrived since the last call.
fn received(world: &mut World<Node>) -> u64 {
    world.take_events();
    let replies = world.take_replies();
    let datagram = |reply: &Reply| matches!(reply, Reply::Datagram { .. });
    replies.iter().filter(|a| datagram(&a.reply)).count() as u64
}

/// Returns the chain when its links are up, its routes known and its sockets bound.
fn settled(link: &str) -> Result<(World<Node>, Vec<HostId>), BenchError> {
    let mut world = World::new(1);
    let mut rng = world.rng_of(&[1]);
    let mut members = Members::new(&mut rng, false);
    for i in 0..=HOPS {
        members.add(&mut rng, &format!("n{i}"), addr(i));
    }
    let mut hosts = Vec::new();
    for i in 0..=HOPS {
        let neighbor = |peer: usize| Neighbor {
            more: Vec::new(),
            capacity_kbps: 0,
            reliable: Default::default(),
            addr: addr(peer),
            name: format!("n{peer}"),
            at: (peer > i).then(|| sim::underlay(peer as u32)),
        };
        let peers = i
            .checked_sub(1)
            .into_iter()
            .chain((i < HOPS).then_some(i + 1));
        let rng = world.rng_of(&[2, i as u64]);
        let config = members.config(i, rng, peers.map(neighbor).collect(), Settings::modern());
        hosts.push(world.add_host(Node::new(config)));
    }
    let model = Model::default()
        .with_delay(Duration::from_nanos(DELAY_NS))
        .map_err(|error| BenchError::Start(error.to_string()))?;
    for pair in hosts.windows(2) {
        world.link(pair[0], pair[1], &model);
    }
    let options = SocketOptions {
        class: Class {
            link: match link {
                "real-time" => LinkProtocol::RealTime,
                _ => LinkProtocol::BestEffort,
            },
            routing: Routing::Latency,
            priority: 0,
        },
        deadline: None,
        ..default_options()
    };
    world.request(hosts[HOPS], RECEIVER, Request::Bind { port: PORT });
    world.request(hosts[0], SENDER, Request::Options(options));
    world.run_for(SETTLE);
    let reached = world.engine(hosts[0]).is_some_and(|node| {
        let routes = node.snapshot(world.now()).routes;
        routes
            .iter()
            .any(|route| route.to == addr(HOPS).to_string())
    });
    received(&mut world);
    match reached {
        true => Ok((world, hosts)),
        false => Err(BenchError::Start(
            "the chain's nodes did not find each other".to_owned(),
        )),
    }
}
