//! The node: sockets above, links below, routes between.
//!
//! ```text
//!   handle(Datagrams)  -> receive: open, judge -> forward | deliver | control
//!   handle(Request)    -> send, bind, impair, ...
//!   handle(Timeout)    -> timers of links, handshakes, records, flows
//!   flush              -> own record, routes, and one control datagram per link that has news
//! ```
//! State that belongs together is a room: a struct with private fields, whose methods take what they need from other
//! rooms, mostly from the router and the links. Code that sends or delivers on behalf of a room belongs to the node and
//! is in the room's directory.
//!
//! | room | what is in it |
//! |---|---|
//! | `router` | the network as it is known, and the paths through it |
//! | `doubles` | nodes whose key is in use on two hosts |
//! | `doubt` | links in doubt, and the paths around them |
//! | `groups` | joins, trees, keys, reports and audits of groups |
//! | `own_links` | the links that the node makes automatically |
//! | `own_record` | the node's announcements about itself |
//! | `trust` | roots, and the nodes that may sign records |
//! | `handover` | the last step of datagrams for clients |
//! | `clock` | the clock that all nodes have in common |

mod audit;
mod clock;
pub(crate) mod control;
mod deliver;
mod divert;
mod doubles;
mod doubt;
mod end_repair;
mod ends;
mod flows;
mod fragments;
mod groups;
mod handover;
mod mtu;
mod network;
mod operate;
mod own_links;
mod own_record;
mod paths;
mod prepare;
mod receive;
mod reliable;
mod repair;
mod router;
mod routing;
mod segments;
mod send;
mod stamped;
mod streams;
mod transmit;
mod trust;
mod tunnel;

pub use fragments::MAX_DATAGRAM;
pub use groups::REPORTS_PORT;
pub(crate) use router::metric;
pub use send::MAX_PAYLOAD;

use crate::aims::FlowAims;
use crate::audit::Audits;
use crate::ends::Ends;
use crate::event::Event;
use crate::flood::Flood;
use crate::flow::Flows;
use crate::groups::Errand;
use crate::link::{Link, LinkIndex, Links, Made};
use crate::link_state::Database;
use crate::request::{Options, Reply, Request};
use crate::settings::{MetricOf, Settings};
use crate::sockets::Sockets;
use crate::stream::Streams;
use base::{
    Burst, ClientId, Duration, Engine, Input, NodeAddr, Outbox, Rng, Time, UnderlayAddr,
    VirtualPort,
};
use graph::metric::Metric;
use secure::{Handshakes, Identity, Network, PacketMarks};

/// How often the slow housekeeping runs: expiry of flows, own record, sessions without a link.
const HOUSEKEEPING: Duration = Duration::from_secs(1);

/// The values that a node gets at its start.
#[derive(Debug)]
pub struct Config {
    /// Certificate and keys.
    pub identity: Identity,
    /// The network's root key and revocations.
    pub network: Network,
    /// Neighbours that this node dials, and those that it expects.
    pub neighbors: Vec<Neighbor>,
    /// Nodes that may become neighbours by dialling this node; `None` for every node of the network.
    pub accept: Option<Vec<NodeAddr>>,
    /// Timers and thresholds.
    pub settings: Settings,
    /// The operator may impair links.
    pub lab: bool,
    /// Entropy: for keys, and for the protocol's own choices.
    pub seed: [u8; 32],
    /// Wall-clock time at [`Time::ZERO`], in seconds since 1970.
    pub unix_start_s: u64,
}

/// A neighbour as the configuration has it.
#[derive(Clone, Debug)]
pub struct Neighbor {
    /// Its overlay address.
    pub addr: NodeAddr,
    /// Its name.
    pub name: String,
    /// The address to dial; `None` waits for the neighbour to dial, or for
    /// [`Operation::Locate`](crate::request::Operation::Locate).
    pub at: Option<UnderlayAddr>,
    /// Further addresses, for further paths of the link.
    pub more: Vec<UnderlayAddr>,
    /// The capacity of the link to it, in kbit/s; 0 if it is not known.
    pub capacity_kbps: u32,
    /// The settings of its reliable lane that differ from the node's.
    pub reliable: crate::reliable::LinkSettings,
}

/// A node of the overlay.
pub struct Node {
    addr: NodeAddr,
    name: String,
    lab: bool,
    /// The host must learn soon when no node is reached any more.
    watches_reach: bool,
    settings: Settings,
    handshakes: Handshakes,
    own_links: own_links::OwnLinks,
    clock: clock::Clock,
    /// Sessions with the nodes at which this node's packets leave the overlay.
    ends: Ends,
    /// Repairs packets on the whole path between this node and others.
    end_repairs: end_repair::EndRepairs,
    /// Checks whether packets that this node seals arrive.
    audits: Audits,
    /// The generation of the topology by which the paths of audits were last reviewed.
    reviewed: Option<u64>,
    links: Links,
    sockets: Sockets,
    flows: Flows,
    /// The aims of some flows, which say what repair their senders want.
    aims: FlowAims,
    /// The marks by which packets sealed from end to end are recognized.
    marks: PacketMarks,
    handover: handover::Handover,
    router: router::Router,
    flood: Flood,
    origins: routing::Origins,
    doubt: doubt::Doubt,
    doubles: doubles::Doubles,
    groups: groups::Groups,
    streams: Streams,
    /// There is more to send on streams than one flush sends.
    streams_again: Option<Time>,
    /// A link whose repair packets have restored packets.
    found: Option<LinkIndex>,
    /// The link by which the present packets arrived.
    came: LinkIndex,
    /// How long they waited in this host's socket.
    waited: Duration,
    /// Reliable lanes that still hold packets although their links are down.
    stranded: Vec<reliable::Stranded>,
    /// Copies for a second path of a link: kept only to reuse the memory.
    copies: Vec<Burst>,
    /// The links that copies of a packet take: kept for the same reason.
    ways: Vec<LinkIndex>,
    /// The clients that get a packet: kept for the same reason.
    receivers: Vec<ClientId>,
    rng: Rng,
    /// A number that differs for each start of this node: hellos carry it.
    boot: u32,
    echo_seq: u32,
    own_record: own_record::OwnRecord,
    housekeeping: Time,
    /// When the next address of a neighbour is to be dialled.
    next_step: Option<Time>,
    trust: trust::Trust,
}

impl Node {
    /// Returns a node that knows its neighbours and has not sent anything yet. It dials them when it is first flushed
    /// or woken.
    pub fn new(config: Config) -> Node {
        let addr = config.identity.address();
        let name = config.identity.name().to_owned();
        let mut seed = [0; 8];
        seed.copy_from_slice(&config.seed[..8]);
        let mut rng = Rng::new(u64::from_le_bytes(seed) ^ u64::from(addr.0));
        let boot = rng.next_u64() as u32;
        let mut links = Links::default();
        for neighbor in &config.neighbors {
            let mut link = Link::new(
                neighbor.addr,
                &neighbor.name,
                &config.settings,
                boot,
                Time::ZERO,
            );
            link.made = Made::Hand;
            link.dial = neighbor.at;
            link.dial_more.clone_from(&neighbor.more);
            link.capacity_kbps = neighbor.capacity_kbps;
            let reliable = config.settings.reliable.of_link(neighbor.reliable);
            link.reliable.sender.configure(reliable);
            links.add(link);
        }
        let parameters = config.settings.parameters();
        let groups = groups::Groups::new(addr, &config.network, &config.seed, &config.settings);
        let (identity, network) = (config.identity.clone(), config.network.clone());
        let mut handshakes = Handshakes::new(identity, network, config.seed, Time::ZERO);
        handshakes.set_post_quantum(config.settings.post_quantum);
        let mut database = Database::with_parameters(addr, parameters);
        database.set_doubt_after(config.settings.node_doubt_after);
        database.set_clock(config.unix_start_s);
        let marks = PacketMarks::new(&config.seed);
        let mut node = Node {
            addr,
            name,
            lab: config.lab,
            watches_reach: false,
            ends: Ends::new(
                config.identity,
                config.network,
                config.seed,
                &config.settings,
            ),
            end_repairs: end_repair::EndRepairs::default(),
            audits: Audits::default(),
            reviewed: None,
            own_links: own_links::OwnLinks::new(addr, config.accept, &config.settings),
            clock: clock::Clock::default(),
            handshakes,
            links,
            sockets: Sockets::default(),
            flows: Flows::new(marks.salt()),
            aims: FlowAims::default(),
            marks,
            handover: handover::Handover::default(),
            router: router::Router::new(addr, database),
            flood: Flood::new(),
            origins: routing::Origins::default(),
            doubt: doubt::Doubt::new(&config.settings.hello),
            doubles: doubles::Doubles::new(config.unix_start_s),
            groups,
            receivers: Vec::new(),
            streams: Streams::default(),
            streams_again: None,
            found: None,
            came: LinkIndex(0),
            waited: Duration::ZERO,
            stranded: Vec::new(),
            ways: Vec::new(),
            copies: Vec::new(),
            rng,
            boot,
            // The numbers do not begin where those of an earlier start began, because other nodes may still remember
            // its packets.
            echo_seq: boot.rotate_left(16),
            own_record: own_record::OwnRecord::new(config.settings.alarms),
            settings: config.settings,
            housekeeping: Time::ZERO,
            next_step: None,
            trust: trust::Trust::new(config.unix_start_s),
        };
        node.enter_stored();
        node
    }

    /// Returns the node's overlay address.
    pub fn address(&self) -> NodeAddr {
        self.addr
    }

    /// Announces the version of the program that the node runs, from the node's next record on: printable ASCII of at
    /// most [`wire::link_state::VERSION_BYTES_MAX`] bytes.
    pub fn set_version(&mut self, version: &'static str) {
        self.own_record.set_version(version);
    }

    /// Sets where the host's sockets are bound, in their order. If there are several, the node's links may have several
    /// paths.
    pub fn set_sockets(&mut self, own: Vec<UnderlayAddr>) {
        self.own_links.set_sockets(own);
    }

    /// Returns the node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the network that the node belongs to, with the roots and revocations that it knows.
    pub fn network(&self) -> &Network {
        self.handshakes.network()
    }

    /// Returns what the node knows of the network: the records of all nodes.
    pub fn database(&self) -> &Database {
        self.router.database()
    }

    /// Returns the neighbour that gets packets to `to` by `metric`.
    pub fn next_hop(&self, metric: Metric, to: NodeAddr) -> Option<NodeAddr> {
        self.router.tables().next_hop(metric, to)
    }

    /// Returns the next task for the Scribe that runs for this node.
    pub fn next_errand(&mut self) -> Option<Errand> {
        self.groups.next_errand()
    }

    /// Returns true if Scribe builds the trees of some groups of the network.
    pub fn wants_scribe(&self) -> bool {
        self.router.membership().wants_scribe()
    }

    /// Returns true if places for groups have become free since a client's join was refused for lack of one.
    pub fn take_has_places(&mut self) -> bool {
        self.groups.take_has_places()
    }

    /// Returns the nodes that can be reached, in order of address.
    pub fn reachable(&self) -> impl Iterator<Item = NodeAddr> {
        self.router.tables().destinations()
    }

    /// Returns the smallest one-way delay to a node; `None` if it cannot be reached.
    pub fn latency(&self, to: NodeAddr) -> Option<Duration> {
        self.router.tables().latency(to)
    }

    /// Opens the socket of a service that runs with this node, at a port that belongs to the node.
    pub fn open_service(&mut self, client: ClientId, port: VirtualPort, options: Options) {
        let opened = self
            .sockets
            .open_service(client, port, options, &mut self.rng);
        opened.expect("a node has a socket for each of its services");
    }

    fn on_request(
        &mut self,
        now: Time,
        client: ClientId,
        request: Request,
        out: &mut impl Outbox<Node>,
    ) {
        let reply = match request {
            Request::Send { to, port, payload } => {
                return self.on_send(now, client, None, (to, port), payload, out);
            }
            Request::SendFrom {
                from,
                to,
                port,
                payload,
            } => return self.on_send(now, client, Some(from), (to, port), payload, out),
            Request::Close => {
                self.leave_streams(now, client, out);
                self.groups.close(client, &mut self.router);
                self.sockets.close(client);
                self.handover.leave(client, None);
                return;
            }
            Request::Bind { port } => {
                let bound = self.sockets.bind(client, port, &mut self.rng);
                bound.map(|port| Reply::Bound { port })
            }
            Request::BindRange { first, last } => {
                let bound = self
                    .sockets
                    .bind_range(client, (first, last), &mut self.rng);
                bound.map(|port| Reply::Bound { port })
            }
            Request::Join { group, port } => {
                let opened = self.sockets.open(client, &mut self.rng).map(drop);
                let (router, to) = (&mut self.router, (group, port));
                let joined = opened.and_then(|()| self.groups.join(client, to, router));
                if joined == Ok(true) {
                    self.handover.join(now, client, to);
                }
                let refused = |why| Reply::NotJoined { group, why };
                Ok(joined.map_or_else(refused, |_| Reply::Joined))
            }
            Request::Leave { group, port } => {
                self.handover.leave(client, Some((group, port)));
                self.groups.leave(client, (group, port), &mut self.router)
            }
            Request::Options(options) => self.set_options(client, options),
            Request::Stream(request) => {
                return self.on_stream_request(now, client, request, out);
            }
            Request::Operate(operation) => self.operate(now, operation, out),
        };
        out.deliver(client, reply.unwrap_or_else(Reply::Refused));
    }

    fn on_timeout(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        while let Some(index) = self.links.pop_due(now) {
            self.on_link_timeout(now, index, out);
            self.links.touch(index);
        }
        let due: Vec<LinkIndex> = self.flood.due(now).collect();
        for index in due {
            self.links.touch(index);
        }
        self.handover.on_timeout(now, out);
        self.on_stream_timeouts(now, out);
        self.drive_handshakes(now, out);
        self.drive_ends(now, out);
        self.end_repairs.on_timeout(now);
        self.drive_audits(now, out);
        self.drive_group_audits(now, out);
        self.router.database_mut().settle_doubts(now);
        if self.next_step.is_some_and(|at| at <= now) {
            self.redial(now, out);
        }
        if now >= self.housekeeping {
            self.housekeeping = now + HOUSEKEEPING;
            self.flows.expire(now);
            self.aims.expire(now);
            self.groups.expire(now);
            self.tend_finding(now, out);
            self.redial(now, out);
            self.tend_paths(now, out);
            self.tend_ends(now, out);
            self.end_repairs.expire(now);
            self.audits.expire(now);
            self.prepare_ends(now, out);
            self.tend_direct(now, out);
            if self.settings.metric == MetricOf::Measured {
                self.clock.tend(now, &self.router, &mut self.links, out);
            }
            self.end_old_roots(now, out);
            self.keep_records(now);
            self.handover.look(now);
        }
        self.report_groups(now, out);
    }
}

impl core::fmt::Debug for Node {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Node {{ {} {} }}", self.name, self.addr)
    }
}

impl Engine for Node {
    type Request = Request;
    type Reply = Reply;
    type Event = Event;

    fn handle(&mut self, now: Time, input: Input<Request>, out: &mut impl Outbox<Node>) {
        match input {
            Input::Datagrams { from, burst } => self.on_datagrams(now, from, burst, out),
            Input::Request { client, request } => self.on_request(now, client, request, out),
            Input::TooLong { to, bytes } => self.on_too_long(now, to, bytes, out),
            Input::Timeout => self.on_timeout(now, out),
        }
    }

    fn flush(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        self.update_routing(now, out);
        self.update_groups(now, out);
        self.drive_group_keys(now, out);
        self.reroute_stranded(now, out);
        self.flush_streams(now, out);
        self.flush_end_repairs(now, out);
        while let Some(index) = self.links.pop_touched() {
            self.flush_link(now, index, out);
            self.links.schedule(index);
        }
    }

    fn next_timeout(&self) -> Option<(Time, &'static str)> {
        [
            (self.links.next_timeout(), "link"),
            (self.flood.next_timeout().map(|(at, _)| at), "flood"),
            (self.handshakes.next_timeout(), "handshake"),
            (self.next_step, "dial"),
            (self.ends.next_timeout(), "end"),
            (self.end_repairs.next_timeout(), "end"),
            (self.audits.next_timeout(), "audit"),
            (self.streams.next_timeout(), "stream"),
            (self.streams_again, "stream"),
            (self.own_record.next_timeout(), "record"),
            (self.router.database().next_doubt(), "doubt"),
            (Some(self.housekeeping), "housekeeping"),
        ]
        .into_iter()
        .chain(self.groups.timeouts(self.housekeeping))
        .chain(self.handover.timeouts())
        .filter_map(|(at, whose)| Some((at?, whose)))
        .min()
    }
}
