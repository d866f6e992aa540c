//! Direct links: two nodes that have traffic for each other and no link between them make one, through NAT or not. Links
//! that [`super::find`] chooses are opened in the same way.
//!
//! ```text
//!   b ──── a ──── c        a sees both: it tells b "your datagrams come from 198.51.100.2:40001", and c likewise
//!   │NAT           NAT│    b and c announce that with their link state
//!   └─── dial ─── dial ┘   traffic from b to c passes a: b and c see it, and dial each other at the same time
//! ```
//! An endpoint that the router in front of a node leads to it is announced too: it is open to all, whatever their NAT is.
//! The first datagram of each opens the NAT of its sender for the other one's. That works unless both NATs give each
//! destination a port of its own; then the traffic stays on its way over `a`. A node whose links all run over byte streams
//! asks its host for one to the endpoint; so a node without UDP links to those that are open to streams. Two nodes without
//! UDP link so as well: who is seen through streams alone announces the port at which a neighbour has dialled it. Where it
//! has dialled itself it is seen at a port at which nobody listens, and announces that of its own socket, where hosts
//! usually listen for streams too.
//! A link that is up competes by its cost
//! like any other: nothing is rerouted because it is direct.
//!
//! Life of an attempt: traffic ─▶ dial each announced endpoint for [`PATIENCE`] ─▶ up, until nobody has had
//! traffic for [`IDLE`]; or given up for a while, twice as long each time.
//!
//! A member may announce an endpoint that is somebody else's. Only nodes that have traffic for this member, or have chosen
//! it, dial there, with handshakes that are no longer than any first datagram and with one TCP connection every other
//! second. For traffic they begin with [`DIRECT_MAX`] members at a time; choices are bounded where they are made.

use super::Node;
use crate::link::{Dialling, LinkIndex, Made};
use crate::snapshot::SeenStatus;
use base::{Duration, NodeAddr, Outbox, Time, UnderlayAddr};
use std::collections::{BTreeMap, BTreeSet};
use wire::control::{Builder, MESSAGE_HEADER_BYTES, StreamSeenAt};
use wire::{Endpoint, Full};

/// With so many attempts and links under way, traffic begins no other. Choice: twice as many as a node that joins has at
/// first.
const DIRECT_MAX: usize = 8;
/// Traffic is present for so long after its last packet. Choice: a call's pause, or an interactive session's.
const PRESENT: Duration = Duration::from_secs(10);
/// An endpoint is dialled for so long. Choice: two of the other node's looks at its traffic, and a handshake over a
/// long path.
const PATIENCE: Duration = Duration::from_secs(5);
/// The rest after all endpoints of a node have been dialled in vain, at first and at most.
const REST: Duration = Duration::from_secs(60);
const REST_MAX: Duration = Duration::from_secs(3_600);
/// A direct link without traffic of its two ends ends after so long. Choice: people call back within minutes.
const IDLE: Duration = Duration::from_secs(600);
/// A neighbour is told again where it is seen, as the message may be lost. Choice: soon enough for a NAT that was
/// restarted, and 2 bit/s.
const TOLD_AGAIN: Duration = Duration::from_secs(60);

/// Where neighbours see this node, and the direct links that it makes.
#[derive(Debug, Default)]
pub(super) struct Direct {
    /// Where each neighbour says that it sees this node.
    seen: BTreeMap<NodeAddr, Seen>,
    /// What the router in front of this node leads to it.
    mapped: Option<Endpoint>,
    /// What neighbours were told last, and when.
    told: BTreeMap<NodeAddr, (Told, Time)>,
    /// What the own record says.
    announced: Vec<Endpoint>,
    attempts: BTreeMap<NodeAddr, Attempt>,
}

/// Where this node is seen, and how.
#[derive(Clone, Copy, Debug)]
struct Seen {
    endpoint: Endpoint,
    is_by_stream: bool,
}

/// Where a neighbour is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    ByDatagrams(Endpoint),
    ByStream(StreamSeenAt),
}

impl Told {
    fn append(self, builder: &mut Builder<'_>) -> Result<(), Full> {
        match self {
            Told::ByDatagrams(endpoint) => builder.seen_at(endpoint),
            Told::ByStream(seen) => builder.stream_seen_at(seen),
        }
    }
}

/// One node with which a direct link is wanted.
#[derive(Debug)]
struct Attempt {
    /// When there was traffic last, if there was any.
    wanted: Option<Time>,
    /// The endpoint that is dialled, and since when; none before the first dial and while it rests.
    dialled: Option<(usize, Time)>,
    /// Nothing is dialled until then.
    rests_until: Time,
    /// The next rest.
    rest: Duration,
}

impl Direct {
    /// What the router leads here from now on. The next look at what is to be announced takes it.
    pub(super) fn set_mapped(&mut self, endpoint: Option<Endpoint>) {
        self.mapped = endpoint;
    }

    /// A link to this node is made, or was, because there is traffic for it.
    pub(super) fn is_attempted(&self, to: NodeAddr) -> bool {
        self.attempts.contains_key(&to)
    }

    /// What the own record says of where this node is seen.
    pub(super) fn announced(&self) -> &[Endpoint] {
        &self.announced
    }
}

impl Node {
    /// A neighbour tells from where it gets this node's datagrams.
    pub(super) fn on_seen_at(&mut self, index: LinkIndex, endpoint: Endpoint) {
        let is_by_stream = false;
        self.note_seen(
            index,
            Seen {
                endpoint,
                is_by_stream,
            },
        );
    }

    /// A neighbour tells where it sees this node's end of their byte stream.
    pub(super) fn on_stream_seen_at(&mut self, index: LinkIndex, seen: StreamSeenAt) {
        let endpoint = match seen.is_dialled {
            true => Some(seen.endpoint),
            false => self.listens_at(seen.endpoint),
        };
        if let Some(endpoint) = endpoint {
            let is_by_stream = true;
            self.note_seen(
                index,
                Seen {
                    endpoint,
                    is_by_stream,
                },
            );
        }
    }

    fn note_seen(&mut self, index: LinkIndex, seen: Seen) {
        if self.makes_links() && self.may_dial(seen.endpoint) {
            self.direct.seen.insert(self.links.at(index).peer, seen);
        }
    }

    /// The node makes links by itself.
    pub(super) fn makes_links(&self) -> bool {
        self.settings.direct_links || self.settings.find_links
    }

    /// A neighbour may be there. An address of the own host leads to one only where all are on one host, as in a laboratory.
    fn may_dial(&self, endpoint: Endpoint) -> bool {
        let is_own = |own: &UnderlayAddr| self::endpoint(*own).is_loopback();
        endpoint.is_dialable()
            || endpoint.is_loopback()
                && !self.own_sockets.is_empty()
                && self.own_sockets.iter().all(is_own)
    }

    /// Where a node says that it is, as far as this one may dial there.
    pub(super) fn dialable_endpoints(&self, of: NodeAddr) -> Vec<Endpoint> {
        let told = self.database.endpoints_of(of).iter().copied();
        told.filter(|endpoint| self.may_dial(*endpoint)).collect()
    }

    /// Where streams to this node may be taken, which has dialled a neighbour from that endpoint.
    fn listens_at(&self, from: Endpoint) -> Option<Endpoint> {
        let is_ipv4 = from.ipv4().is_some();
        let like = self.own_sockets.iter().find(|own| own.is_ipv4() == is_ipv4);
        let own = like.or(self.own_sockets.first())?;
        Some(Endpoint {
            port: own.port,
            ..from
        })
    }

    pub(super) fn seen_statuses(&self) -> Vec<SeenStatus> {
        let status = |(by, seen): (&NodeAddr, &Seen)| SeenStatus {
            by: by.to_string(),
            at: UnderlayAddr {
                ip: seen.endpoint.ip,
                port: seen.endpoint.port,
                socket: 0,
                local: 0,
            }
            .to_string(),
            by_stream: seen.is_by_stream,
        };
        self.direct.seen.iter().map(status).collect()
    }

    /// Once a second: what neighbours are to know, and what is to be dialled or given up.
    pub(super) fn tend_direct(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        if !self.makes_links() {
            return;
        }
        self.tell_neighbours(now, out);
        let seen = self.endpoints();
        if seen != self.direct.announced {
            self.direct.announced = seen;
            self.own_record_due = true;
        }
        if self.settings.direct_links {
            for partner in self.partners(now) {
                self.want(now, partner, true);
            }
        }
        for chosen in self.wanted_links() {
            self.want(now, chosen, false);
        }
        let attempts: Vec<NodeAddr> = self.direct.attempts.keys().copied().collect();
        for to in attempts {
            self.attempt(now, to, out);
        }
    }

    fn tell_neighbours(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        for index in self.links.indices() {
            let link = self.links.at(index);
            let at = link.path.at.filter(|_| link.is_up());
            let Some(at) = at.filter(|at| self.may_dial(endpoint(*at))) else {
                self.direct.told.remove(&link.peer);
                continue;
            };
            let link = self.links.at_mut(index);
            let tell = match at.is_stream() {
                true => Told::ByStream(StreamSeenAt {
                    endpoint: endpoint(at),
                    is_dialled: link.fallback.has_dialled(at),
                }),
                false => Told::ByDatagrams(endpoint(at)),
            };
            let told = self.direct.told.get(&link.peer);
            if told.is_some_and(|&(told, at)| told == tell && now.since(at) < TOLD_AGAIN) {
                continue;
            }
            self.direct.told.insert(link.peer, (tell, now));
            let mut bytes = [0; MESSAGE_HEADER_BYTES + StreamSeenAt::BYTES];
            let mut builder = Builder::new(&mut bytes);
            tell.append(&mut builder).expect("it is made to fit");
            let len = builder.len();
            link.send_control(now, &bytes[..len], out);
        }
    }

    /// Where this node is to be dialled: where neighbours see it, and what the router leads to it. That is open to all, but
    /// may lead nowhere, and partners dial one endpoint after the other. So it comes first only where neighbours see
    /// several ports of the router, which others cannot use; after a single one; and last, but in any case, where no
    /// neighbour sees that address: the router may be wrong about its own. Where a record has no room for all, it replaces
    /// what is seen of the router. It leads datagrams, and is left out where none come.
    fn endpoints(&mut self) -> Vec<Endpoint> {
        let mut endpoints = self.seen_at();
        let mapped = self.direct.mapped.filter(|at| self.may_dial(*at));
        let mapped = mapped.filter(|_| !self.gets_no_datagrams());
        let room = wire::link_state::ENDPOINTS_MAX;
        if let Some(mapped) = mapped {
            let is_of_router = |seen: &Endpoint| seen.ip == mapped.ip;
            let ports = endpoints.iter().filter(|seen| is_of_router(seen)).count();
            let first = endpoints.iter().position(is_of_router);
            endpoints.retain(|seen| *seen != mapped);
            let place = match first {
                None => endpoints.len(),
                Some(_) if ports > 1 => 0,
                Some(first) if endpoints.get(first).is_some_and(is_of_router) => first + 1,
                Some(first) => first,
            };
            endpoints.insert(place, mapped);
            while endpoints.len() > room {
                let mut seen = endpoints.iter();
                let less = seen.rposition(|it| is_of_router(it) && *it != mapped);
                let less = less.or_else(|| endpoints.iter().rposition(|it| *it != mapped));
                endpoints.remove(less.unwrap_or(room));
            }
        }
        endpoints.truncate(room);
        endpoints
    }

    /// Where neighbours see this node: what most of them say first. What is seen through streams counts where there is
    /// nothing else.
    fn seen_at(&mut self) -> Vec<Endpoint> {
        let gets_no_datagrams = self.gets_no_datagrams();
        let links = &self.links;
        let link = |peer: &NodeAddr| links.by_peer(*peer).map(|index| links.at(index));
        let seen = &mut self.direct.seen;
        seen.retain(|peer, _| link(peer).is_some_and(|link| link.is_up()));
        let mut counts: BTreeMap<Endpoint, usize> = BTreeMap::new();
        for (peer, seen) in seen {
            // What was seen the other way says nothing of where the node is seen now.
            let is_by_stream = link(peer).is_some_and(|link| link.is_over_stream());
            let is_of_use = !seen.is_by_stream || gets_no_datagrams;
            if seen.is_by_stream == is_by_stream && is_of_use {
                *counts.entry(seen.endpoint).or_default() += 1;
            }
        }
        let mut seen: Vec<(Endpoint, usize)> = counts.into_iter().collect();
        seen.sort_by_key(|&(_, count)| core::cmp::Reverse(count));
        seen.into_iter().map(|(endpoint, _)| endpoint).collect()
    }

    /// The nodes with which this one exchanges packets.
    fn partners(&self, now: Time) -> BTreeSet<NodeAddr> {
        let sent = self.sockets.outgoing();
        let sent = sent.filter(|(.., flow)| now.since(flow.last) < PRESENT);
        let sent = sent.map(|(_, _, to, ..)| to);
        let received = self.flows.iter().filter(|flow| {
            flow.key.destination == self.addr && now.since(flow.last_seen) < PRESENT
        });
        let received = received.map(|flow| flow.key.source);
        let streams = self.streams.iter().map(|stream| stream.key.peer);
        let all = sent.chain(received).chain(streams);
        all.filter(|to| to.is_node() && *to != self.addr).collect()
    }

    /// There is traffic for `to`, or a link to it was chosen. Links that are configured, and nodes that this one does not
    /// accept, stay as they are.
    fn want(&mut self, now: Time, to: NodeAddr, is_traffic: bool) {
        if let Some(attempt) = self.direct.attempts.get_mut(&to) {
            if is_traffic {
                attempt.wanted = Some(now);
            }
            return;
        }
        let is_accepted = self.accept.as_ref().is_none_or(|list| list.contains(&to));
        let link = self.links.by_peer(to).map(|index| self.links.at(index));
        let is_by_hand = link.is_some_and(|link| link.dial.is_some() && link.made == Made::Hand);
        let is_there = is_by_hand || is_traffic && link.is_some_and(|link| link.is_up());
        let of_traffic = self.direct.attempts.values();
        let of_traffic = of_traffic.filter(|it| it.wanted.is_some()).count();
        // The number of links of choice is bounded by what chooses them.
        let is_room = !is_traffic || of_traffic < DIRECT_MAX;
        let is_known = !self.dialable_endpoints(to).is_empty() || self.is_first(to);
        let is_up = link.is_some_and(|link| link.is_up());
        if is_accepted && !is_there && is_room && (is_known || is_up) {
            let attempt = Attempt {
                wanted: is_traffic.then_some(now),
                dialled: None,
                rests_until: now,
                rest: REST,
            };
            self.direct.attempts.insert(to, attempt);
        }
    }

    /// It is configured where the node is.
    fn is_first(&self, of: NodeAddr) -> bool {
        let link = self.links.by_peer(of).map(|index| self.links.at(index));
        link.is_some_and(|link| link.made == Made::First && link.dial.is_some())
    }

    /// Goes on with one attempt.
    fn attempt(&mut self, now: Time, to: NodeAddr, out: &mut impl Outbox<Node>) {
        let index = self.links.by_peer(to);
        let is_up = index.is_some_and(|index| self.links.at(index).is_up());
        let is_first = self.is_first(to);
        let endpoints = self.dialable_endpoints(to);
        let places = if is_first { 1 } else { endpoints.len() };
        let is_chosen = self.finding.wants(to);
        let Some(attempt) = self.direct.attempts.get_mut(&to) else {
            return;
        };
        let is_silent = attempt.wanted.is_none_or(|at| now.since(at) >= IDLE);
        if (is_silent && !is_chosen) || (places == 0 && !is_up) {
            self.direct.attempts.remove(&to);
            return self.end_direct(now, to, out);
        }
        if is_up {
            attempt.rest = REST;
            attempt.dialled = attempt.dialled.map(|(place, _)| (place, now));
            return;
        }
        if now < attempt.rests_until {
            return;
        }
        let place = match attempt.dialled {
            Some((_, since)) if now.since(since) < PATIENCE => return,
            Some((place, _)) => place + 1,
            None => 0,
        };
        if place >= places {
            attempt.dialled = None;
            attempt.rests_until = now + attempt.rest;
            attempt.rest = (attempt.rest * 2).min(REST_MAX);
            if is_chosen {
                self.finding.on_silent(now, to);
            }
            return self.end_direct(now, to, out);
        }
        attempt.dialled = Some((place, now));
        if is_first {
            // Its configured address is dialled as long as there is an attempt.
            return;
        }
        if let Some(at) = self.dialable(endpoints[place]) {
            let neighbor = super::Neighbor {
                addr: to,
                name: String::new(),
                at: Some(at),
                more: Vec::new(),
                capacity_kbps: 0,
                reliable: Default::default(),
            };
            // Full: the next attempt may find room.
            let _ = self.meet(now, neighbor, out);
            if let Some(index) = self.links.by_peer(to) {
                let link = self.links.at_mut(index);
                if link.made == Made::Came {
                    link.made = Made::Found;
                }
            }
        }
    }

    /// All links that are up run over streams.
    pub(super) fn gets_no_datagrams(&self) -> bool {
        let up = self.links.iter().filter(|(_, link)| link.is_up());
        let mut over_stream = up.map(|(_, link)| link.is_over_stream()).peekable();
        over_stream.peek().is_some() && over_stream.all(|it| it)
    }

    /// An endpoint, by the socket through which neighbours of the same family are reached. A node whose links all run over
    /// streams has a socket all the same: it may be that only some hosts take no datagrams of it.
    fn dialable(&self, endpoint: Endpoint) -> Option<UnderlayAddr> {
        let is_ipv4 = endpoint.ipv4().is_some();
        let reached = self.links.iter().filter_map(|(_, link)| link.path.at);
        let mut reached = reached.filter(|at| !at.is_stream());
        let like = reached.find(|at| self::endpoint(*at).ipv4().is_some() == is_ipv4);
        let of_own = || {
            let fits = |own: &UnderlayAddr| own.is_ipv4() == is_ipv4;
            let place = self.own_sockets.iter().position(fits).unwrap_or_default();
            self.gets_no_datagrams()
                .then(|| u8::try_from(place).unwrap_or_default())
        };
        let socket = like.map(|like| like.socket).or_else(of_own)?;
        Some(UnderlayAddr {
            ip: endpoint.ip,
            port: endpoint.port,
            socket,
            local: 0,
        })
    }

    /// Ends a direct link, or what was to be one.
    fn end_direct(&mut self, now: Time, to: NodeAddr, out: &mut impl Outbox<Node>) {
        let Some(index) = self.links.by_peer(to) else {
            return;
        };
        let link = self.links.at(index);
        if self.settings.find_links && (link.is_up() || link.made == Made::Hand) {
            // The other end may keep it: see `find`.
            return;
        }
        self.let_go(now, index, out);
        // That nobody answered is no news: nobody has configured it.
        self.links.at_mut(index).dialling = Dialling::default();
    }
}

/// An address of the network below, without what concerns this host alone.
fn endpoint(at: UnderlayAddr) -> Endpoint {
    Endpoint {
        ip: at.ip,
        port: at.port,
    }
}
