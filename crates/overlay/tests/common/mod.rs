//! Worlds of overlay nodes: identities, topologies, streams, and what became of them.
#![allow(dead_code, unreachable_pub, missing_docs)]

use base::impair::Model;
use base::{ClientId, Duration, NodeAddr, Rng, Time, VirtualPort};
use overlay::{Config, Event, Neighbor, Node, Reply, Request, Settings};
use secure::{Authority, Identity, Keys, Validity};
use sim::{HostId, World};
use wire::HEADROOM;

pub const RECEIVER: ClientId = ClientId(1);
pub const SENDER: ClientId = ClientId(2);
pub const PORT: VirtualPort = VirtualPort(5000);
pub const UNIX_S: u64 = 1_800_000_000;
const VALID: Validity = Validity {
    not_before_s: 0,
    not_after_s: 4_000_000_000,
};

pub struct Nodes {
    pub authority: Authority,
    pub world: World<Node>,
    pub hosts: Vec<HostId>,
    identities: Vec<Identity>,
    edges: Vec<(usize, usize)>,
    settings: Settings,
    starts: u64,
}

pub fn addr(i: usize) -> NodeAddr {
    NodeAddr(0x0a07_0001 + i as u32)
}

pub fn model(text: &str) -> Model {
    text.parse().unwrap()
}

impl Nodes {
    /// `count` nodes, linked as `edges` say; the earlier node of an edge dials.
    pub fn new(seed: u64, count: usize, edges: &[(usize, usize)], path: &str) -> Nodes {
        Nodes::with(seed, count, edges, path, Settings::modern())
    }

    pub fn with(
        seed: u64,
        count: usize,
        edges: &[(usize, usize)],
        path: &str,
        settings: Settings,
    ) -> Nodes {
        let mut rng = Rng::new(seed);
        let mut root = [0; 32];
        rng.fill(&mut root);
        let mut authority = Authority::generate(&root);
        let identities = (0..count)
            .map(|i| {
                let mut entropy = [0; 64];
                rng.fill(&mut entropy);
                let keys = Keys::generate(&entropy);
                let network = authority.network().id();
                let name = format!("n{i}");
                let request = keys.request(network, addr(i), &name, &[]).unwrap();
                Identity::new(keys, authority.issue(&request, VALID).unwrap()).unwrap()
            })
            .collect();
        let mut nodes = Nodes {
            authority,
            world: World::new(seed),
            hosts: Vec::new(),
            identities,
            edges: edges.to_vec(),
            settings,
            starts: 0,
        };
        for i in 0..count {
            let node = nodes.node(i);
            let host = nodes.world.add_host(node);
            nodes.hosts.push(host);
        }
        for &(a, b) in edges {
            nodes
                .world
                .link(nodes.hosts[a], nodes.hosts[b], &model(path));
        }
        nodes
    }

    /// A fresh start of node `i`.
    pub fn node(&mut self, i: usize) -> Node {
        let neighbors = self
            .edges
            .iter()
            .filter(|(a, b)| *a == i || *b == i)
            .map(|&(a, b)| {
                let peer = if a == i { b } else { a };
                Neighbor {
                    addr: addr(peer),
                    name: format!("n{peer}"),
                    at: (a == i).then(|| sim::underlay(peer as u32)),
                }
            })
            .collect();
        self.starts += 1;
        let mut seed = [0; 32];
        Rng::new(self.starts * 1000 + i as u64).fill(&mut seed);
        Node::new(Config {
            identity: self.identities[i].clone(),
            network: self.authority.network(),
            neighbors,
            accept: None,
            settings: self.settings.clone(),
            lab: true,
            seed,
            unix_start_s: UNIX_S,
        })
    }

    pub fn certificate(&self, i: usize) -> secure::Certificate {
        self.identities[i].certificate().clone()
    }

    pub fn run_ms(&mut self, ms: u64) {
        self.world.run_for(Duration::from_millis(ms));
    }

    pub fn bind(&mut self, i: usize, options: overlay::request::Options) {
        let host = self.hosts[i];
        self.world
            .request(host, RECEIVER, Request::Bind { port: PORT });
        self.world
            .request(host, RECEIVER, Request::Options(options));
    }

    pub fn set_sender(&mut self, i: usize, client: ClientId, options: overlay::request::Options) {
        self.world
            .request(self.hosts[i], client, Request::Options(options));
    }

    /// Sends a packet whose payload is its number and the time of sending.
    pub fn send(&mut self, at: Time, from: usize, client: ClientId, to: usize, number: u64) {
        let mut payload = [0; 160];
        payload[..8].copy_from_slice(&number.to_be_bytes());
        payload[8..16].copy_from_slice(&at.as_nanos().to_be_bytes());
        let payload = self.world.pool().copy_of(HEADROOM, &payload).unwrap();
        let request = Request::Send {
            to: addr(to),
            port: PORT,
            payload,
        };
        self.world.request_at(at, self.hosts[from], client, request);
    }

    /// Numbers and delays of what clients have received since the last call.
    pub fn arrivals(&mut self) -> Vec<(u64, Duration)> {
        let mut arrivals = Vec::new();
        for answer in self.world.take_replies() {
            if let Reply::Datagram { payload, .. } = answer.reply {
                let word =
                    |i: usize| u64::from_be_bytes(payload.bytes()[i..i + 8].try_into().unwrap());
                let sent = Time::from_nanos(word(8));
                arrivals.push((word(0), answer.at.since(sent)));
            }
        }
        arrivals
    }

    /// Events since the last call.
    pub fn events(&mut self) -> Vec<(Time, HostId, Event)> {
        self.world
            .take_events()
            .into_iter()
            .map(|r| (r.at, r.host, r.event))
            .collect()
    }

    pub fn snapshot(&self, i: usize) -> overlay::Snapshot {
        self.world
            .engine(self.hosts[i])
            .unwrap()
            .snapshot(self.world.now())
    }

    pub fn all_links_up(&self) -> bool {
        self.world.hosts().all(|host| {
            let engine = self.world.engine(host);
            engine.is_none_or(|node| {
                node.snapshot(self.world.now())
                    .links
                    .iter()
                    .all(|link| link.state == "up")
            })
        })
    }
}

pub fn chain(n: usize) -> Vec<(usize, usize)> {
    (1..n).map(|i| (i - 1, i)).collect()
}
