//! Worlds of overlay nodes: identities, topologies, streams, and their results.
#![allow(unreachable_pub, missing_docs, clippy::unwrap_used)]

pub mod groups;
pub mod neighbour;
pub mod party;
pub mod script;
pub mod sessions;
pub mod siege;
pub mod streams;
pub mod totals;
pub mod video;

use base::impair::Model;
use base::{ClientId, Duration, NodeAddr, Rng, Time, UnderlayAddr, VirtualPort};
use neighbour::Neighbour;
use overlay::node::MAX_PAYLOAD;
use overlay::reliable::LinkSettings;
use overlay::request::{Operation, Options};
use overlay::settings::Sealing;
use overlay::sockets::default_options;
use overlay::{Config, Event, Neighbor, Node, Reply, Request, Settings};
use party::{Ask, Party, Tap};
use secure::{Authority, Identity, Keys, Network, PostQuantum, Validity};
use sim::{HostId, World};
use totals::Totals;
use wire::HEADROOM;

pub const RECEIVER: ClientId = ClientId(1);
pub const SENDER: ClientId = ClientId(2);
pub const OPERATOR: ClientId = ClientId(3);
pub const INTRODUCER: ClientId = ClientId(0xffff_0001);
pub const PORT: VirtualPort = VirtualPort(5000);
pub const UNIX_S: u64 = 1_800_000_000;
/// Bytes of payload: 20 ms of G.711.
pub const PAYLOAD: usize = 160;
pub const VALID: Validity = Validity {
    not_before_s: 0,
    not_after_s: 4_000_000_000,
};

pub struct Nodes {
    pub authority: Authority,
    pub world: World<Party>,
    pub hosts: Vec<HostId>,
    /// Everything reported up to the last look.
    pub totals: Totals,
    /// The datagrams that the tapped node has sent.
    pub tap: Tap,
    identities: Vec<Identity>,
    plan: Plan,
    starts: u64,
}

/// The plan of a world's nodes.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The pairs of neighbours; the first of each pair dials.
    pub edges: Vec<(usize, usize)>,
    /// Both neighbours of each pair dial.
    pub mutual: bool,
    pub settings: Settings,
    /// The share of datagrams that arrive twice.
    pub twice: f64,
    /// How far each node's clock is ahead of the world's.
    pub clocks_ahead: Vec<Duration>,
    /// The node whose datagrams are copied.
    pub tapped: Option<usize>,
    /// Nodes with more than one attachment to the underlay network, and how many they have.
    pub attachments: Vec<(usize, u8)>,
    /// Nodes with settings of their own.
    pub own_settings: Vec<(usize, Settings)>,
    /// The capacity that each node announces for its links, in kbit/s.
    pub capacity_kbps: u32,
    /// Settings of reliable lanes from nodes to neighbours that differ from the nodes' settings.
    pub lanes: Vec<((usize, usize), LinkSettings)>,
    /// Nodes whose sealing differs from the settings.
    pub sealing: Vec<(usize, Sealing)>,
    /// Nodes whose wish for post-quantum keys differs from the settings.
    pub post_quantum: Vec<(usize, PostQuantum)>,
    /// Nodes know only the nodes that they dial, as those by which they enter the network.
    pub joined: bool,
    /// Nodes that may dial without being expected; `None` for everybody.
    pub accept: Option<Vec<NodeAddr>>,
}

impl Plan {
    pub fn of(count: usize) -> Plan {
        Plan {
            edges: Vec::new(),
            mutual: false,
            settings: Settings::modern(),
            twice: 0.0,
            clocks_ahead: vec![Duration::ZERO; count],
            tapped: None,
            attachments: Vec::new(),
            own_settings: Vec::new(),
            capacity_kbps: 0,
            lanes: Vec::new(),
            sealing: Vec::new(),
            post_quantum: Vec::new(),
            joined: false,
            accept: None,
        }
    }
}

impl Plan {
    fn reliable_of(&self, from: usize, to: usize) -> LinkSettings {
        let lane = self.lanes.iter().find(|(ends, _)| *ends == (from, to));
        lane.map(|(_, settings)| *settings).unwrap_or_default()
    }

    fn attachments_of(&self, i: usize) -> u8 {
        let of = self.attachments.iter().find(|(node, _)| *node == i);
        of.map_or(1, |(_, attachments)| *attachments)
    }
}

pub fn addr(i: usize) -> NodeAddr {
    NodeAddr(0x0a07_0001 + i as u32)
}

/// The number of the node with this address, as snapshots write it.
pub fn number(address: &str) -> usize {
    let addr: NodeAddr = address.parse().unwrap();
    (addr.0 - 0x0a07_0001) as usize
}

pub fn model(text: &str) -> Model {
    text.parse().unwrap()
}

/// The options of a voice stream: the default class, and 100 ms.
pub fn voice() -> Options {
    Options {
        deadline: Some(Duration::from_millis(100)),
        ..default_options()
    }
}

pub fn chain(n: usize) -> Vec<(usize, usize)> {
    (1..n).map(|i| (i - 1, i)).collect()
}

/// Returns an identity of the network of `authority` with the address of node `i`.
pub fn identity(
    authority: &mut Authority,
    rng: &mut Rng,
    i: usize,
    validity: Validity,
) -> Identity {
    let mut entropy = [0; 64];
    rng.fill(&mut entropy);
    let keys = Keys::generate(&entropy);
    let network = authority.network().id();
    let name = format!("n{i}");
    let request = keys.request(network, addr(i), &name, &[]).unwrap();
    Identity::new(keys, authority.issue(&request, validity).unwrap()).unwrap()
}

pub fn authority(rng: &mut Rng) -> Authority {
    let mut root = [0; 32];
    rng.fill(&mut root);
    Authority::generate(&root)
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
        let plan = Plan {
            edges: edges.to_vec(),
            settings,
            ..Plan::of(count)
        };
        let mut nodes = Nodes::planned(seed, plan);
        for &(a, b) in edges {
            nodes.link(a, b, path);
        }
        nodes
    }

    /// Returns the planned nodes, without any path between them.
    pub fn planned(seed: u64, plan: Plan) -> Nodes {
        let mut rng = Rng::new(seed);
        let mut authority = authority(&mut rng);
        let count = plan.clocks_ahead.len();
        let identities = (0..count)
            .map(|i| identity(&mut authority, &mut rng, i, VALID))
            .collect();
        let mut nodes = Nodes {
            authority,
            world: World::new(seed),
            hosts: Vec::new(),
            totals: Totals::default(),
            tap: Tap::default(),
            identities,
            plan,
            starts: 0,
        };
        for i in 0..count {
            let party = nodes.start(i);
            let ahead = nodes.plan.clocks_ahead[i];
            let at = sim::underlay(i as u32);
            let host = nodes.world.add_host_at(at, ahead, party);
            nodes.hosts.push(host);
        }
        nodes
    }

    fn start(&mut self, i: usize) -> Party {
        let mut party = Party::node(self.node(i));
        if self.plan.twice > 0.0 {
            party.twice = Some((Rng::new(self.starts), self.plan.twice));
        }
        if self.plan.tapped == Some(i) {
            party.tap = Some(self.tap.clone());
        }
        party
    }

    /// Returns a fresh start of node `i`.
    pub fn node(&mut self, i: usize) -> Node {
        let network = self.authority.network();
        let config = self.config(i, network);
        let known: Vec<NodeAddr> = config.neighbors.iter().map(|it| it.addr).collect();
        let mut node = Node::new(config);
        if self.plan.joined {
            node.set_first(&known);
        }
        let own = 0..self.plan.attachments_of(i);
        node.set_sockets(own.map(|k| self.called((i, k), k)).collect());
        node
    }

    /// Sets the settings of nodes that start from now on.
    pub fn set_settings(&mut self, settings: Settings) {
        self.plan.settings = settings;
    }

    /// Returns the configuration of node `i` at its start.
    pub fn config(&mut self, i: usize, network: Network) -> Config {
        let mutual = self.plan.mutual;
        let neighbors = self
            .plan
            .edges
            .iter()
            .filter(|(a, b)| *a == i || (*b == i && !self.plan.joined))
            .map(|&(a, b)| {
                let peer = if a == i { b } else { a };
                let dials = a == i || mutual;
                let others = 1..self.plan.attachments_of(peer);
                let more = others.map(|k| sim::attachment(sim::underlay(peer as u32), k));
                Neighbor {
                    more: more.filter(|_| dials).collect(),
                    capacity_kbps: self.plan.capacity_kbps,
                    reliable: self.plan.reliable_of(i, peer),
                    addr: addr(peer),
                    name: format!("n{peer}"),
                    at: dials.then(|| sim::underlay(peer as u32)),
                }
            })
            .collect();
        let mut settings = self.plan.settings.clone();
        if let Some((_, own)) = self.plan.own_settings.iter().find(|(node, _)| *node == i) {
            settings = own.clone();
        }
        for &(node, sealing) in &self.plan.sealing {
            if node == i {
                settings.sealing = sealing;
            }
        }
        for &(node, post_quantum) in &self.plan.post_quantum {
            if node == i {
                settings.post_quantum = post_quantum;
            }
        }
        self.starts += 1;
        let mut seed = [0; 32];
        Rng::new(self.starts * 1000 + i as u64).fill(&mut seed);
        Config {
            identity: self.identities[i].clone(),
            network,
            neighbors,
            accept: self.plan.accept.clone(),
            settings,
            lab: true,
            seed,
            unix_start_s: UNIX_S,
        }
    }

    /// Lets nodes agree on keys, as nodes have done that sent to each other before: otherwise the first packets are a
    /// round trip late.
    pub fn introduce(&mut self, pairs: &[(usize, usize)]) {
        for &(a, b) in pairs {
            let at = self.world.now();
            let to = (addr(b), VirtualPort(9));
            self.send_to_addr(at, a, INTRODUCER, to, 0, 16);
        }
        self.run_ms(2_000);
        for &(a, _) in pairs {
            self.request(a, INTRODUCER, Request::Close);
        }
        self.run_ms(10);
        self.world.take_replies();
    }

    /// Makes the path between two nodes like `path`, in both directions.
    pub fn link(&mut self, a: usize, b: usize, path: &str) {
        self.world.link(self.hosts[a], self.hosts[b], &model(path));
    }

    /// Makes the path between an attachment of one node and one of another like `path`, in both directions.
    pub fn link_path(&mut self, a: (usize, u8), b: (usize, u8), path: &str) {
        for (from, to) in [(a, b), (b, a)] {
            let ends = (self.called(to, from.1), self.called(from, to.1));
            let hosts = (self.hosts[from.0], self.hosts[to.0]);
            self.world.link_by(hosts, ends, model(path));
        }
    }

    /// Takes such a path down, or brings it up.
    pub fn set_path_outage(&mut self, a: (usize, u8), b: (usize, u8), outage: bool) {
        for (from, to) in [(a, b), (b, a)] {
            let called = self.called(to, from.1);
            self.world.set_outage_by(self.hosts[from.0], called, outage);
        }
    }

    /// Returns the address of an attachment of a node, as another node calls it through its own socket.
    pub fn called(&self, (node, attachment): (usize, u8), socket: u8) -> UnderlayAddr {
        let at = sim::attachment(sim::underlay(node as u32), attachment);
        UnderlayAddr { socket, ..at }
    }

    pub fn set_outage(&mut self, a: usize, b: usize, outage: bool) {
        self.world.set_outage(self.hosts[a], self.hosts[b], outage);
    }

    pub fn crash(&mut self, i: usize) {
        drop(self.world.crash(self.hosts[i]));
    }

    /// Node `i` continues at another address, with these paths to others.
    pub fn move_to_another_address(&mut self, i: usize, paths: &[(usize, &str)]) {
        // Requests that its clients have made by now go with it.
        self.world.run_for(Duration::ZERO);
        let party = self.world.crash(self.hosts[i]).unwrap();
        self.hosts[i] = self.world.add_host(party);
        for (to, path) in paths {
            self.link(i, *to, path);
        }
    }

    /// Takes down a host that is not a node of this program.
    pub fn crash_host(&mut self, host: HostId) {
        drop(self.world.crash(host));
    }

    /// Starts node `i` again, without its state.
    pub fn restart(&mut self, i: usize) {
        let party = self.start(i);
        self.world.restart(self.hosts[i], party);
    }

    /// Starts node `i` on another host as well, with a copy of its state, linked to node `to`.
    pub fn double(&mut self, i: usize, to: usize, path: &str) -> HostId {
        let party = self.start(i);
        let host = self.world.add_host(party);
        self.world.link(host, self.hosts[to], &model(path));
        host
    }

    /// Adds a host that is not a node of this program, linked to node `to`.
    pub fn add_rogue(&mut self, to: usize, rogue: Neighbour, path: &str) -> HostId {
        let host = self.world.add_host(Party::rogue(rogue));
        self.world.link(host, self.hosts[to], &model(path));
        host
    }

    pub fn identity(&self, i: usize) -> &Identity {
        &self.identities[i]
    }

    pub fn set_identity(&mut self, i: usize, identity: Identity) {
        self.identities[i] = identity;
    }

    pub fn certificate(&self, i: usize) -> secure::Certificate {
        self.identities[i].certificate().clone()
    }

    pub fn run_ms(&mut self, ms: u64) {
        self.world.run_for(Duration::from_millis(ms));
    }

    pub fn request(&mut self, i: usize, client: ClientId, request: Request) {
        let host = self.hosts[i];
        self.world.request(host, client, Ask::Client(request));
    }

    pub fn operate(&mut self, i: usize, operation: Operation) {
        self.request(i, OPERATOR, Request::Operate(operation));
    }

    pub fn bind(&mut self, i: usize, options: Options) {
        self.bind_to(i, RECEIVER, PORT, options);
    }

    pub fn bind_to(&mut self, i: usize, client: ClientId, port: VirtualPort, options: Options) {
        self.request(i, client, Request::Bind { port });
        self.request(i, client, Request::Options(options));
    }

    pub fn set_sender(&mut self, i: usize, client: ClientId, options: Options) {
        self.request(i, client, Request::Options(options));
    }

    /// Sends a packet whose payload is its number and the time of sending.
    pub fn send(&mut self, at: Time, from: usize, client: ClientId, to: usize, number: u64) {
        self.send_to(at, from, client, (to, PORT), number, PAYLOAD);
    }

    /// The same with a payload of this length.
    pub fn send_to(
        &mut self,
        at: Time,
        from: usize,
        client: ClientId,
        (to, port): (usize, VirtualPort),
        number: u64,
        bytes: usize,
    ) {
        self.send_to_addr(at, from, client, (addr(to), port), number, bytes);
    }

    /// The same to the address of a node or group.
    pub fn send_to_addr(
        &mut self,
        at: Time,
        from: usize,
        client: ClientId,
        (to, port): (NodeAddr, VirtualPort),
        number: u64,
        bytes: usize,
    ) {
        let mut payload = vec![number as u8; bytes.max(16)];
        payload[..8].copy_from_slice(&number.to_be_bytes());
        payload[8..16].copy_from_slice(&at.as_nanos().to_be_bytes());
        // The longest datagrams fill a buffer; they are fragmented, and need no room before them.
        let headroom = if bytes > MAX_PAYLOAD { 0 } else { HEADROOM };
        let payload = self.world.pool().copy_of(headroom, &payload).unwrap();
        let request = Request::Send { to, port, payload };
        let host = self.hosts[from];
        self.world
            .request_at(at, host, client, Ask::Client(request));
    }

    /// Returns numbers and delays of the packets that clients have received since the last call.
    pub fn arrivals(&mut self) -> Vec<(u64, Duration)> {
        let mut arrivals = Vec::new();
        for answer in self.world.take_replies() {
            if let Reply::Datagram { payload, .. } = answer.reply {
                let (number, sent) = read(payload.bytes());
                arrivals.push((number, answer.at.since(sent)));
            }
        }
        arrivals
    }

    /// Returns the events since the last call.
    pub fn events(&mut self) -> Vec<(Time, HostId, Event)> {
        self.world
            .take_events()
            .into_iter()
            .map(|r| (r.at, r.host, r.event))
            .collect()
    }

    /// Takes in the events since the last call.
    pub fn count(&mut self) -> &mut Totals {
        for report in self.world.take_events() {
            self.totals.add(&report);
        }
        &mut self.totals
    }

    pub fn at(&self, i: usize) -> UnderlayAddr {
        self.world.addr(self.hosts[i])
    }

    pub fn party(&self, i: usize) -> &Party {
        self.world.engine(self.hosts[i]).unwrap()
    }

    pub fn snapshot(&self, i: usize) -> overlay::Snapshot {
        let node = self.party(i).as_node().unwrap();
        node.snapshot(self.world.now())
    }

    /// Returns the status of the link of node `i` to node `peer`.
    pub fn link_status(&self, i: usize, peer: usize) -> overlay::snapshot::LinkStatus {
        let peer = addr(peer).to_string();
        let mut links = self.snapshot(i).links.into_iter();
        links.find(|link| link.peer == peer).unwrap()
    }

    /// Returns node `i`, unless it is down.
    pub fn running(&self, i: usize) -> Option<&Node> {
        self.world.engine(self.hosts[i]).and_then(Party::as_node)
    }

    pub fn all_links_up(&self) -> bool {
        self.world.hosts().all(|host| {
            let node = self.world.engine(host).and_then(Party::as_node);
            node.is_none_or(|node| {
                node.snapshot(self.world.now())
                    .links
                    .iter()
                    .all(|link| link.state == "up")
            })
        })
    }
}

/// Reads the number and the time of sending, as [`Nodes::send`] writes them.
pub fn read(payload: &[u8]) -> (u64, Time) {
    let word = |i: usize| u64::from_be_bytes(payload[i..i + 8].try_into().unwrap());
    let number = word(0);
    assert!(
        payload[16..].iter().all(|&b| b == number as u8),
        "payload was changed"
    );
    (number, Time::from_nanos(word(8)))
}
