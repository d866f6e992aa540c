//! The nodes of a world, with Scribe if groups need it.

use super::hostile::Treason;
use super::party::Party;
use super::plan::Plan;
use crate::members::Members;
use crate::whole::{self, address};
use base::impair::Model;
use base::{ClientId, NodeAddr, Pool};
use host::station::Station;
use overlay::{Neighbor, Node, Request, Settings};
use sim::{Arrivals, Clock, HostId, World};

/// Packet buffers per node: for the packets that streams send in a slice and have under way, all at once when a
/// partition ends, for copies, and for control on all its links.
const LARGE_PER_NODE: usize = 32;
const SMALL_PER_NODE: usize = 2_048;

// The purposes of the world's generators; the numbers are part of what makes a run repeatable.
const KEYS: u64 = 1;
const NODE: u64 = 2;
const SCRIBE: u64 = 5;

/// Nodes with keys and certificates, which seal their messages.
pub(super) struct Nodes<'p> {
    pub(super) world: World<Party>,
    pub(super) hosts: Vec<HostId>,
    pub(super) down: Vec<bool>,
    plan: &'p Plan,
    members: Members,
    starts: u64,
    /// The node that is not honest, and its deeds.
    traitor: Option<(usize, Treason)>,
}

impl<'p> Nodes<'p> {
    /// Creates all nodes of the plan, with clean paths.
    pub(super) fn new(seed: u64, plan: &'p Plan, arrivals: Arrivals) -> Nodes<'p> {
        Nodes::with_traitor(seed, plan, arrivals, None)
    }

    /// Creates them with one hostile node.
    pub(super) fn with_traitor(
        seed: u64,
        plan: &'p Plan,
        arrivals: Arrivals,
        traitor: Option<(usize, Treason)>,
    ) -> Nodes<'p> {
        let pool = Pool::new(plan.nodes * LARGE_PER_NODE, plan.nodes * SMALL_PER_NODE);
        let mut world = World::with_pool(seed, pool);
        world.set_arrivals(arrivals);
        let mut rng = world.rng_of(&[KEYS]);
        let mut members = Members::new(&mut rng, true);
        for i in 0..plan.nodes {
            members.add(&mut rng, &format!("n{i}"), address(i));
        }
        if let Some((traitor, _)) = &traitor {
            members.disentitle(*traitor);
        }
        let mut nodes = Nodes {
            world,
            hosts: Vec::new(),
            down: vec![false; plan.nodes],
            plan,
            members,
            starts: 0,
            traitor,
        };
        for (i, (ahead, drift_ppm)) in plan.clocks.iter().enumerate() {
            let node = nodes.start(i);
            let host = nodes.world.add_host(node);
            nodes.world.set_clock(host, Clock::new(*ahead, *drift_ppm));
            nodes.hosts.push(host);
        }
        nodes
    }

    /// Starts node `i` without any state.
    fn start(&mut self, i: usize) -> Party {
        self.starts += 1;
        let rng = self.world.rng_of(&[NODE, i as u64, self.starts]);
        let seed = self.world.rng_of(&[SCRIBE, i as u64, self.starts]);
        let seed = { seed }.next_u64();
        let neighbors = self
            .plan
            .links
            .iter()
            .filter(|link| link.a == i || link.b == i)
            .map(|link| {
                let peer = if link.a == i { link.b } else { link.a };
                let dials = link.a == i || self.plan.mutual;
                Neighbor {
                    more: Vec::new(),
                    capacity_kbps: 0,
                    reliable: Default::default(),
                    addr: address(peer),
                    name: format!("n{peer}"),
                    at: dials.then(|| sim::underlay(peer as u32)),
                }
            });
        let neighbors = neighbors.collect();
        let config = self.members.config(i, rng, neighbors, Settings::modern());
        let station = Station::new(Node::new(config), seed);
        match &self.traitor {
            Some((at, treason)) if *at == i => {
                let peers = self.plan.neighbors(i).map(|peer| {
                    let identity = self.members.identity(peer).clone();
                    (sim::underlay(peer as u32), identity)
                });
                let own = (sim::underlay(i as u32), self.members.identity(i).clone());
                let network = self.members.network().clone();
                Party::hostile(treason.clone(), station, own, network, peers.collect())
            }
            _ => Party::Honest(Box::new(station)),
        }
    }

    pub(super) fn addr(&self, i: usize) -> NodeAddr {
        address(i)
    }

    /// Sets the models of a link, separately for each direction.
    pub(super) fn set_path(&mut self, link: usize, there: &str, back: &str) {
        let link = &self.plan.links[link];
        let (a, b) = (self.hosts[link.a], self.hosts[link.b]);
        for (from, to, path) in [(a, b, there), (b, a, back)] {
            let model: Model = path.parse().expect("a plan's paths are well formed");
            self.world.link_one_way(from, to, model);
        }
    }

    pub(super) fn set_outage(&mut self, link: usize, outage: bool) {
        let link = &self.plan.links[link];
        let (a, b) = (self.hosts[link.a], self.hosts[link.b]);
        self.world.set_outage(a, b, outage);
    }

    pub(super) fn crash(&mut self, i: usize) {
        drop(self.world.crash(self.hosts[i]));
        self.down[i] = true;
    }

    pub(super) fn restart(&mut self, i: usize) {
        let node = self.start(i);
        self.world.restart(self.hosts[i], node);
        self.down[i] = false;
    }

    /// Returns a node that is not down.
    pub(super) fn running(&self, i: usize) -> Option<&Station> {
        self.world.engine(self.hosts[i]).map(Party::station)
    }

    /// Returns the party on a host that is not down.
    pub(super) fn party(&self, i: usize) -> Option<&Party> {
        self.world.engine(self.hosts[i])
    }

    pub(super) fn request(&mut self, i: usize, client: ClientId, request: Request) {
        self.world.request(self.hosts[i], client, request);
    }

    /// Returns why the network is not complete, or `None`.
    pub(super) fn complaint(&self) -> Option<String> {
        whole::complaint(&self.world, &self.hosts)
    }
}
