//! The hosts of a scenario: overlay nodes with keys and certificates, and for each flow outside the overlay two hosts,
//! with a separate path or in the bottleneck of a link.

use super::shifted;
use super::tcp::{self, Connection};
use crate::members::Members;
use crate::scenario::{BothWays, Carrier, Link, Scenario};
use base::{ClientId, Duration, NodeAddr, UnderlayAddr};
use overlay::{Neighbor, Node, Settings};
use sim::tcp::TcpHost;
use sim::{Clock, Either, HostId, UdpHost, World};

/// The engine on a host.
pub(super) type Party = Either<Node, Either<UdpHost, TcpHost>>;

/// The client that gets what arrives at a plain host.
const PLAIN_LISTENER: ClientId = ClientId(0);

// The purposes of the world's generators; the numbers are part of what makes a run repeatable.
const KEYS: u64 = 1;
const NODE: u64 = 2;

/// The hosts of a scenario.
pub(super) struct Network<'s> {
    scenario: &'s Scenario,
    settings: Settings,
    /// The host of each node.
    pub(super) hosts: Vec<HostId>,
    /// For each flow, its two ends if it runs outside the overlay.
    pub(super) direct: Vec<Option<(HostId, HostId)>>,
    /// The connections of TCP, each with its flow.
    pub(super) connections: Vec<Connection>,
    members: Members,
    /// The links of each node.
    links_of: Vec<Vec<usize>>,
    starts: u64,
}

impl<'s> Network<'s> {
    pub(super) fn build(
        scenario: &'s Scenario,
        settings: Settings,
        world: &mut World<Party>,
    ) -> Network<'s> {
        let mut rng = world.rng_of(&[KEYS]);
        let mut members = Members::new(&mut rng, scenario.sealing);
        for node in &scenario.nodes {
            members.add(&mut rng, &node.name, node.address);
        }
        let mut links_of = vec![Vec::new(); scenario.nodes.len()];
        for (n, link) in scenario.links.iter().enumerate() {
            links_of[link.a].push(n);
            links_of[link.b].push(n);
        }
        let mut network = Network {
            scenario,
            settings,
            hosts: Vec::new(),
            direct: vec![None; scenario.flows.len()],
            connections: Vec::new(),
            members,
            links_of,
            starts: 0,
        };
        for (n, node) in scenario.nodes.iter().enumerate() {
            let party = network.start(world, n);
            let host = world.add_host(party);
            world.set_clock(host, Clock::new(node.clock_ahead, node.clock_drift_ppm));
            network.hosts.push(host);
        }
        for link in &scenario.links {
            let (a, b) = (network.hosts[link.a], network.hosts[link.b]);
            world.link_one_way(a, b, shifted(&link.path.there, scenario.settle));
            world.link_one_way(b, a, shifted(&link.path.back, scenario.settle));
            if let Some(second) = &link.second {
                network.set_second(world, link, second);
            }
        }
        for (n, flow) in scenario.flows.iter().enumerate() {
            if let Carrier::Direct(path) = &flow.carrier {
                let plain = || {
                    let host = UdpHost::default().listening(PLAIN_LISTENER);
                    Either::B(Either::A(host))
                };
                let (a, b) = (world.add_host(plain()), world.add_host(plain()));
                world.link_one_way(a, b, shifted(&path.there, scenario.settle));
                world.link_one_way(b, a, shifted(&path.back, scenario.settle));
                network.direct[n] = Some((a, b));
            }
        }
        let (connections, ends) = tcp::connect(scenario, &network.hosts, world);
        for (flow, ends) in ends {
            network.direct[flow] = Some(ends);
        }
        network.connections = connections;
        network
    }

    /// Sets the second path of a link, or changes it.
    pub(super) fn set_second(&self, world: &mut World<Party>, link: &Link, path: &BothWays) {
        let settle = self.scenario.settle;
        for (from, to, model) in [(link.a, link.b, &path.there), (link.b, link.a, &path.back)] {
            let hosts = (self.hosts[from], self.hosts[to]);
            world.link_by(hosts, (second(to), second(from)), shifted(model, settle));
        }
    }

    /// Takes the second path of a link down, or brings it up.
    pub(super) fn set_second_outage(&self, world: &mut World<Party>, link: &Link, outage: bool) {
        for (from, to) in [(link.a, link.b), (link.b, link.a)] {
            world.set_outage_by(self.hosts[from], second(to), outage);
        }
    }

    /// Returns a node's overlay address.
    pub(super) fn address(&self, node: usize) -> NodeAddr {
        self.scenario.nodes[node].address
    }

    /// Starts a node without any state, in the place of one that may still run.
    pub(super) fn restart(&mut self, world: &mut World<Party>, node: usize) {
        let party = self.start(world, node);
        world.restart(self.hosts[node], party);
    }

    /// Returns the ends of direct flows on a node's machine.
    pub(super) fn plain_hosts_at(&self, node: usize) -> Vec<HostId> {
        let flows = self.scenario.flows.iter().zip(&self.direct);
        let ends = flows.filter_map(|(flow, ends)| ends.map(|ends| (flow, ends)));
        let ends = ends.flat_map(|(flow, (a, b))| [(flow.from, a), (flow.to, b)]);
        let ends = ends.filter(|(at, _)| *at == node);
        ends.map(|(_, host)| host).collect()
    }

    /// Returns the bytes of all datagrams between nodes so far.
    pub(super) fn wire_bytes(&self, world: &World<Party>) -> u64 {
        let both = |link: &Link| {
            let (a, b) = (self.hosts[link.a], self.hosts[link.b]);
            let beside = world.bytes_by(a, second(link.b)) + world.bytes_by(b, second(link.a));
            world.bytes(a, b) + world.bytes(b, a) + beside
        };
        self.scenario.links.iter().map(both).sum()
    }

    fn start(&mut self, world: &World<Party>, n: usize) -> Party {
        self.starts += 1;
        let rng = world.rng_of(&[NODE, n as u64, self.starts]);
        let neighbors = self.links_of[n].iter().map(|link| {
            let link = &self.scenario.links[*link];
            let dials = link.a == n;
            let peer = if dials { link.b } else { link.a };
            let more = link.second.iter().map(|_| second(peer));
            Neighbor {
                more: more.filter(|_| dials).collect(),
                capacity_kbps: 0,
                reliable: Default::default(),
                addr: self.scenario.nodes[peer].address,
                name: self.scenario.nodes[peer].name.clone(),
                at: dials.then(|| sim::underlay(peer as u32)),
            }
        });
        let settings = self.settings.clone();
        let config = self.members.config(n, rng, neighbors.collect(), settings);
        let mut node = Node::new(config);
        let mut links = self.links_of[n].iter();
        if links.any(|link| self.scenario.links[*link].second.is_some()) {
            node.set_sockets(vec![sim::underlay(n as u32), second(n)]);
        }
        Either::A(node)
    }
}

/// Returns the address of a node's second uplink.
fn second(node: usize) -> UnderlayAddr {
    sim::attachment(sim::underlay(node as u32), 1)
}

/// The longest scenario is much shorter than the certificates' validity.
const _: () =
    assert!(super::super::DURATION_MAX.as_nanos() < Duration::from_secs(365 * 86_400).as_nanos());
