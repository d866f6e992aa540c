//! Builds a world of TCP hosts: the hosts, their links, and the flows between them.

use super::host::{Datagrams, Incoming, Kind, Outgoing, TcpHost};
use super::partial::{Partial, PartialSettings};
use super::receiver::{Delivery, Order, Reader, Received, Receiver};
use super::sender::{Sender, Sent};
use super::settings::Settings;
use super::traffic::{Application, Traffic, Write};
use crate::arrival::Arrivals;
use crate::either::Either;
use crate::host::{HostId, underlay};
use crate::world::World;
use base::impair::Model;
use base::{Duration, Engine, Time, UnderlayAddr};
use std::collections::VecDeque;

/// Bytes of IP and UDP header for each datagram of a flow without a connection.
const UDP_HEADER_BYTES: usize = 28;

/// A network to be.
///
/// ```
/// use base::{Duration, Time};
/// use congestion::Family;
/// use sim::tcp::{Network, Settings, Traffic};
///
/// let mut network = Network::default();
/// let (a, router, b) = (network.host(), network.host(), network.host());
/// let wire = "rate=10mbit delay=10ms queue=50".parse().unwrap();
/// network.link(a, router, &wire);
/// network.link(router, b, &wire);
/// let file = network.connect(a, b, Settings::ns2(Family::NewReno), Traffic::unlimited());
/// let mut world = network.build(1);
/// world.run_until(Time::ZERO + Duration::from_secs(2));
/// assert!(file.received(&world).delivered > 500);
/// ```
#[derive(Default)]
pub struct Network {
    /// Number of hosts, of other kinds, that the world already has.
    before: u32,
    hosts: u32,
    links: Vec<(u32, u32, Way)>,
    flows: Vec<Plan>,
}

/// The properties of a link.
enum Way {
    Own(Model),
    /// The link shares the bottleneck of a link that its world already has.
    Through(HostId, HostId),
}

/// An engine that may be a TCP host, in a world whose flows can be examined.
pub trait Party: Engine {
    /// Returns the TCP host, if this engine is one.
    fn tcp_host(&self) -> Option<&TcpHost>;
}

impl Party for TcpHost {
    fn tcp_host(&self) -> Option<&TcpHost> {
        Some(self)
    }
}

/// In an `Either`, TCP hosts are of the second kind.
impl<A: Engine, B: Party> Party for Either<A, B> {
    fn tcp_host(&self) -> Option<&TcpHost> {
        self.b().and_then(Party::tcp_host)
    }
}

/// A flow of a network, from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    id: u32,
    from: HostId,
    to: HostId,
}

/// The order in which a relay forwards data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// In the order of the incoming connection, as a program reads a socket.
    InOrder,
    /// At once and in the order of arrival; the last receiver restores the order [Amir03 §III].
    AsItComes,
}

/// A relay between two connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relay {
    /// The order in which it forwards data.
    pub forward: Forward,
    /// The time that it takes to read one segment. `None`: it reads whenever there is room.
    pub pace: Option<Duration>,
}

struct Plan {
    from: u32,
    to: u32,
    /// `None` if the flow has no connection.
    settings: Option<Settings>,
    /// The settings of a partially reliable flow.
    partial: Option<PartialSettings>,
    /// `None` if a relay feeds the flow.
    traffic: Option<Traffic>,
    /// The flow that continues this one, and the relay between the two.
    onward: Option<(u32, Relay)>,
    /// Whether the last receiver restores the order by the first sender's numbers.
    as_they_come: bool,
    /// The pace of a slow reader at the end of the flow.
    pace: Option<Duration>,
    records: bool,
}

impl Network {
    /// Creates a network whose hosts join a world that already has this number of hosts.
    pub fn beside(hosts: usize) -> Network {
        Network {
            before: hosts as u32,
            hosts: hosts as u32,
            ..Network::default()
        }
    }

    /// Adds a host, which also routes.
    pub fn host(&mut self) -> HostId {
        self.hosts += 1;
        HostId(self.hosts - 1)
    }

    /// Links two hosts with the same model in both directions.
    pub fn link(&mut self, a: HostId, b: HostId, model: &Model) {
        self.link_one_way(a, b, model.clone());
        self.link_one_way(b, a, model.clone());
    }

    /// Links a host to another, in this direction.
    pub fn link_one_way(&mut self, from: HostId, to: HostId, model: Model) {
        self.links.push((from.0, to.0, Way::Own(model)));
    }

    /// Links a host to another, in this direction, through the bottleneck of a link that the world already has.
    pub fn link_through(&mut self, from: HostId, to: HostId, of: (HostId, HostId)) {
        self.links.push((from.0, to.0, Way::Through(of.0, of.1)));
    }

    /// Adds a connection, with the traffic of its application.
    pub fn connect(
        &mut self,
        from: HostId,
        to: HostId,
        settings: Settings,
        traffic: Traffic,
    ) -> Flow {
        self.add(from, to, Some(settings), Some(traffic))
    }

    /// Adds a flow of messages without a connection. Each message is a datagram with 28 bytes of headers.
    pub fn datagrams(&mut self, from: HostId, to: HostId, traffic: Traffic) -> Flow {
        self.add(from, to, None, Some(traffic))
    }

    /// Adds a flow of messages that are retransmitted only while they can arrive in time, under congestion control.
    pub fn partial(
        &mut self,
        from: HostId,
        to: HostId,
        settings: PartialSettings,
        traffic: Traffic,
    ) -> Flow {
        let flow = self.add(from, to, None, Some(traffic));
        self.flows[flow.id as usize].partial = Some(settings);
        flow
    }

    /// Adds another connection from the end of an existing flow, and the relay that forwards to it. Use the returned
    /// flow to examine what arrives at the end.
    pub fn relay(&mut self, flow: Flow, relay: Relay, to: HostId, settings: Settings) -> Flow {
        let onward = self.add(flow.to, to, Some(settings), None);
        self.flows[flow.id as usize].onward = Some((onward.id, relay));
        if relay.forward == Forward::AsItComes {
            self.flows[onward.id as usize].as_they_come = true;
            self.flows[flow.id as usize].as_they_come = true;
        }
        onward
    }

    /// Lets the application at the end of a flow take one segment per `pace`.
    pub fn read_slowly(&mut self, flow: Flow, pace: Duration) {
        self.flows[flow.id as usize].pace = Some(pace);
    }

    /// Lets the receiver of a flow take segments in the order of arrival and restore the order by the numbers of the
    /// first sender: the modified connection of [Amir03 §III], without a relay.
    pub fn deliver_by_number(&mut self, flow: Flow) {
        self.flows[flow.id as usize].as_they_come = true;
    }

    /// Counts what a flow delivers without a record of each message.
    pub fn count_only(&mut self, flow: Flow) {
        self.flows[flow.id as usize].records = false;
    }

    /// Builds the world. Equal networks and seeds give equal runs.
    pub fn build(self, seed: u64) -> World<TcpHost> {
        let mut world = World::new(seed);
        world.set_arrivals(Arrivals::Single);
        self.join(&mut world, |host| host);
        world
    }

    /// Adds the hosts and links to a world that has the number of hosts given to [`Network::beside`]; `party` turns
    /// each TCP host into an engine of that world.
    pub fn join<E: Party>(self, world: &mut World<E>, party: impl Fn(TcpHost) -> E) {
        let place = |host: u32| (host - self.before) as usize;
        let mut hosts: Vec<TcpHost> = (self.before..self.hosts)
            .map(|me| TcpHost::new(me, self.routes(me)))
            .collect();
        for (id, plan) in self.flows.iter().enumerate() {
            self.add_sender(id as u32, plan, &mut hosts[place(plan.from)], world);
        }
        for (id, plan) in self.flows.iter().enumerate() {
            let incoming = incoming(id as u32, plan);
            hosts[place(plan.to)].add_incoming(id as u32, incoming);
        }
        for (upstream, plan) in self.flows.iter().enumerate() {
            if let Some((onward, _)) = plan.onward {
                hosts[place(plan.to)].join(upstream as u32, onward);
            }
        }
        for (host, me) in hosts.into_iter().zip(self.before..) {
            let id = world.add_host(party(host));
            debug_assert_eq!(id, HostId(me), "the world has as many hosts as was said");
        }
        for (from, to, way) in self.links {
            match way {
                Way::Own(model) => world.link_one_way(HostId(from), HostId(to), model),
                Way::Through(a, b) => world.link_through(HostId(from), HostId(to), (a, b)),
            }
        }
    }

    fn add(
        &mut self,
        from: HostId,
        to: HostId,
        settings: Option<Settings>,
        traffic: Option<Traffic>,
    ) -> Flow {
        let id = self.flows.len() as u32;
        self.flows.push(Plan {
            from: from.0,
            to: to.0,
            settings,
            partial: None,
            traffic,
            onward: None,
            as_they_come: false,
            pace: None,
            records: true,
        });
        Flow { id, from, to }
    }

    fn add_sender<E: Engine>(&self, id: u32, plan: &Plan, host: &mut TcpHost, world: &World<E>) {
        let phase = world.rng_of(&[FLOWS, u64::from(id)]).unit();
        let kind = match (&plan.settings, plan.partial) {
            (Some(settings), _) => {
                let sender = Sender::new(plan.to, id, settings.clone(), phase);
                Kind::Connection(Box::new(sender))
            }
            (None, Some(settings)) => Kind::Partial(Box::new(Partial::new(plan.to, id, settings))),
            (None, None) => Kind::Datagrams(Datagrams {
                to: plan.to,
                flow: id,
                header_bytes: UDP_HEADER_BYTES,
                counts: Sent::default(),
            }),
        };
        let outgoing = Outgoing {
            kind,
            application: plan.traffic.map(|traffic| application(id, traffic, world)),
            upstream: None,
            queued: Time::FAR,
        };
        host.add_outgoing(id, outgoing);
    }

    /// Returns the next hop from `me` to each host on the path with the fewest links; among equal paths, the link that
    /// was added first decides.
    fn routes(&self, me: u32) -> Vec<Option<UnderlayAddr>> {
        let mut first = vec![None; self.hosts as usize];
        let mut queue = VecDeque::from([me]);
        while let Some(at) = queue.pop_front() {
            for (from, to, _) in &self.links {
                if *from == at && *to != me && first[*to as usize].is_none() {
                    first[*to as usize] = if at == me {
                        Some(*to)
                    } else {
                        first[at as usize]
                    };
                    queue.push_back(*to);
                }
            }
        }
        first.into_iter().map(|hop| hop.map(underlay)).collect()
    }
}

/// Separates the generators of flows from those of wires.
const FLOWS: u64 = 0x7463_7000;

/// Returns the application of a flow. With equal seeds and flow numbers it writes the same, whatever transport carries
/// the data.
fn application<E: Engine>(id: u32, traffic: Traffic, world: &World<E>) -> Application {
    let mut rng = world.rng_of(&[FLOWS, u64::from(id)]);
    // The first draw is for the phase of a sender's clock.
    let _ = rng.unit();
    Application::new(traffic, rng)
}

fn incoming(id: u32, plan: &Plan) -> Incoming {
    let waits = plan.onward.is_some() || plan.pace.is_some();
    let reader = if waits {
        Reader::Waits
    } else {
        Reader::Application
    };
    let order = if plan.as_they_come {
        Order::AsTheyCome
    } else {
        Order::Connection
    };
    let mut receiver = Receiver::new(plan.from, id, reader, order);
    if let Some(settings) = &plan.settings {
        receiver = receiver.with(settings.receive_buffer, settings.delayed_ack);
    }
    receiver.records = plan.records;
    let relay_pace = plan.onward.and_then(|(_, relay)| relay.pace);
    Incoming {
        receiver,
        downstream: plan.onward.map(|(flow, _)| flow),
        pace: plan.pace.or(relay_pace),
        reads_at: None,
        queued: Time::FAR,
    }
}

impl Flow {
    /// Returns the host where the flow starts.
    pub fn from(&self) -> HostId {
        self.from
    }

    /// Returns the host where the flow ends.
    pub fn to(&self) -> HostId {
        self.to
    }

    /// Returns the counters of the flow's sender.
    pub fn sent<E: Party>(&self, world: &World<E>) -> Sent {
        let host = world.engine(self.from).and_then(Party::tcp_host);
        host.and_then(|host| host.sent(self.id)).unwrap_or_default()
    }

    /// Returns the counters of the flow's receiver.
    pub fn received<E: Party>(&self, world: &World<E>) -> Received {
        let host = world.engine(self.to).and_then(Party::tcp_host);
        host.and_then(|host| host.received(self.id))
            .unwrap_or_default()
    }

    /// Returns the messages that the flow delivered, in order.
    pub fn deliveries<'a, E: Party>(&self, world: &'a World<E>) -> &'a [Delivery] {
        let host = world.engine(self.to).and_then(Party::tcp_host);
        host.map_or(&[], |host| host.deliveries(self.id))
    }

    /// Returns when the flow's application writes each message, calculated from the world's seed. The list includes
    /// messages that were never delivered. `traffic` must be the traffic with which the flow was made. A file has no
    /// messages.
    pub fn writes<E: Engine>(
        &self,
        world: &World<E>,
        traffic: Traffic,
    ) -> impl Iterator<Item = Time> + use<E> {
        let mut application = application(self.id, traffic, world);
        let mut is_file = false;
        std::iter::from_fn(move || {
            let at = application.next().filter(|_| !is_file)?;
            is_file = !matches!(application.write(), Write::Message(_));
            (!is_file).then_some(at)
        })
    }

    /// Returns the flow's congestion window in segments; 0 for datagrams.
    pub fn window<E: Party>(&self, world: &World<E>) -> f64 {
        let host = world.engine(self.from).and_then(Party::tcp_host);
        host.and_then(|host| host.window(self.id)).unwrap_or(0.0)
    }
}
