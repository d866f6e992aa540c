//! Direct links: two nodes that have traffic for each other and no link between them make one, with or without NAT.
//! Links that [`super::find`] chooses are opened in the same way.
//!
//! ```text
//!   b ──── a ──── c        a sees both, and tells them where: see [`super::seen`]
//!   │NAT           NAT│    b and c announce that with their link state
//!   └─── dial ─── dial ┘   traffic from b to c passes a: b and c see it, and dial each other at the same time
//! ```
//! An endpoint that the router in front of a node forwards to the node is announced too: it is open to all nodes,
//! whatever their NAT does. The first datagram of each node opens the NAT of its sender for the other's datagrams. That
//! works unless both NATs use a different port for each destination; then the traffic stays on its path over `a`. A
//! node whose links all run over byte streams asks its host for a stream to the endpoint. So a node without UDP links
//! to nodes that accept streams, and two nodes without UDP can link in the same way. A link that is up competes by its
//! cost like any other: nothing is rerouted just because a link is direct.
//!
//! The life of an attempt begins with traffic, or with a choice. The node dials the configured address and each
//! announced endpoint, a short step apart, for [`PATIENCE`], and uses the first that answers. A link that comes up
//! lasts until there has been no traffic for [`IDLE`] and the link is not chosen. A failed attempt is given up for a
//! while, each time twice as long. If the node finds links automatically, an existing link with traffic between its two
//! ends is kept in the same way.
//!
//! Two nodes behind one router often cannot reach each other at its outer address. So nodes also announce where they
//! listen on their own interfaces. A node dials these addresses if they are public, or all of them if both nodes are
//! seen at the same address.
//!
//! A member may announce an endpoint that belongs to somebody else. Only nodes that have traffic for this member, or
//! have chosen it, dial it there, with handshakes that are no longer than any first datagram and with one TCP
//! connection every other second. For traffic, they begin with [`DIRECT_MAX`] members at a time; the number of choices
//! is limited where they are made.

use super::{Known, OwnLinks, seen};
use crate::link::{Dialling, Links, Made};
use crate::node::{Neighbor, Node};
use base::{Duration, NodeAddr, Outbox, Time, UnderlayAddr};
use std::collections::{BTreeMap, BTreeSet};
use wire::Endpoint;

/// Maximum number of attempts and links for traffic alone; if there are this many, traffic begins no other. Choice:
/// twice as many as a node that joins has at first.
const DIRECT_MAX: usize = 8;
/// How long traffic counts as present after its last packet. Choice: a pause in a call, or in an interactive session.
const PRESENT: Duration = Duration::from_secs(10);
/// How long a node is dialled: by datagrams at all its addresses, by streams at each. Choice: the time in which the
/// other node checks its traffic twice, and a handshake over a long path.
const PATIENCE: Duration = Duration::from_secs(5);
/// The rest after all endpoints of a node have been dialled in vain, at first and at most.
const REST: Duration = Duration::from_secs(60);
const REST_MAX: Duration = Duration::from_secs(3_600);
/// Time after which a direct link without traffic of its two ends ends. Choice: people call back within minutes.
const IDLE: Duration = Duration::from_secs(600);
/// The direct links that this node makes, or would make.
#[derive(Debug, Default)]
pub(super) struct Direct {
    attempts: BTreeMap<NodeAddr, Attempt>,
}

/// A node with which a direct link is wanted.
#[derive(Debug)]
struct Attempt {
    /// When there was last traffic, if there was any.
    wanted: Option<Time>,
    /// The address that is dialled by streams, and since when; `None` before the first dial and during a rest.
    dialled: Option<(usize, Time)>,
    /// Nothing is dialled until then.
    rests_until: Time,
    /// The next rest.
    rest: Duration,
}

impl OwnLinks {
    /// Returns true if a link to this node is being made, or was made, because there is traffic for it or because it
    /// was chosen.
    pub(in crate::node) fn is_attempted(&self, to: NodeAddr) -> bool {
        self.direct.attempts.contains_key(&to)
    }

    /// Returns true if a neighbour may be at this endpoint. An address of the own host leads to a neighbour only if all
    /// nodes are on one host, as in a laboratory.
    pub(super) fn may_dial(&self, endpoint: Endpoint) -> bool {
        let is_own = |own: &UnderlayAddr| seen::endpoint(*own).is_loopback();
        endpoint.is_dialable()
            || endpoint.is_loopback() && !self.sockets.is_empty() && self.sockets.iter().all(is_own)
    }

    /// Returns the addresses that a node announces and that this one may dial, each with the own socket to use. A
    /// non-public address of the node's interfaces is dialled only behind the same router, and first: elsewhere it
    /// belongs to a stranger, or to nobody.
    pub(super) fn places_of(&self, of: NodeAddr, known: Known<'_>) -> Vec<UnderlayAddr> {
        let (router, links) = known;
        let seen = match router.database().endpoints_of(of) {
            [] => self.finding.remembered(of),
            told => told,
        };
        let hosts = match self.host_addresses {
            true => router.database().hosts_of(of),
            false => &[],
        };
        let is_near = self.is_beside(seen);
        let inside = hosts.iter().filter(|at| is_near && !at.is_public());
        let outside = hosts.iter().filter(|at| at.is_public());
        let all = inside.chain(seen).chain(outside).copied();
        let other = all.filter(|at| self.may_dial(*at) && !self.is_own_host(*at));
        let mut places: Vec<UnderlayAddr> = Vec::new();
        for at in other.filter_map(|at| self.dialable(at, links)) {
            if !places.contains(&at) {
                places.push(at);
            }
        }
        places
    }

    /// Returns true if a node that is seen at these endpoints is behind the same router as this one: both are seen at
    /// one address, or no neighbour sees either.
    fn is_beside(&self, seen: &[Endpoint]) -> bool {
        let (own, _) = self.announced();
        let is_known = |at: &Endpoint| own.iter().any(|own| own.is_beside(*at));
        own.is_empty() && seen.is_empty() || seen.iter().any(is_known)
    }

    /// There is traffic for `to`, or a link to it was chosen. Nothing changes for configured links, and for nodes that
    /// this one does not accept.
    fn want(&mut self, now: Time, to: NodeAddr, is_traffic: bool, known: Known<'_>) {
        let (_, links) = known;
        let of_traffic = self.direct.attempts.iter();
        let of_traffic =
            of_traffic.filter(|(of, it)| it.wanted.is_some() && !self.finding.wants(**of));
        // The choosing code limits the number of chosen links.
        let is_room = !is_traffic || of_traffic.count() < DIRECT_MAX;
        let is_alone = links.are_down();
        let is_chosen = self.finding.wants(to);
        if let Some(attempt) = self.direct.attempts.get_mut(&to) {
            if is_traffic && (attempt.wanted.is_some() || is_chosen || is_room) {
                attempt.wanted = Some(now);
            }
            if is_alone && !is_traffic && attempt.dialled.is_none() {
                // The missing answers say nothing about this node: the own uplink may have been down.
                (attempt.rests_until, attempt.rest) = (now, REST);
            }
            return;
        }
        let is_accepted = self.is_accepted(to);
        let link = links.by_peer(to).map(|index| links.at(index));
        let is_by_hand = link.is_some_and(|link| link.dial.is_some() && link.made == Made::Hand);
        let is_up = link.is_some_and(|link| link.is_up());
        // If links are found automatically, a link without an attempt may be ended.
        let is_there = is_by_hand || is_traffic && is_up && !self.find_links;
        let is_known = !self.places_of(to, known).is_empty() || links.is_first(to);
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

    /// Returns an endpoint with the socket through which neighbours of the same address family are reached, or else
    /// with an own socket of that family. If there are no neighbours, or none by datagrams, the first socket is tried,
    /// because it may support both families.
    fn dialable(&self, endpoint: Endpoint, links: &Links) -> Option<UnderlayAddr> {
        let at = UnderlayAddr {
            ip: endpoint.ip,
            port: endpoint.port,
            socket: 0,
            local: 0,
        };
        let reached = links.iter().filter_map(|(_, link)| link.path.at);
        let mut reached = reached.filter(|at| !at.is_stream());
        let like = reached.find(|reached| reached.is_ipv4() == at.is_ipv4());
        let of_own = || {
            let kind = |it: &UnderlayAddr| (it.is_ipv4(), it.is_loopback());
            let mut own = self.sockets.iter();
            let place = own.position(|own| kind(own) == kind(&at));
            let is_other = links.are_without_datagrams() || links.are_down();
            place.or(is_other.then_some(0))
        };
        let socket = match like {
            Some(like) => like.socket,
            None => u8::try_from(of_own()?).ok()?,
        };
        Some(UnderlayAddr { socket, ..at })
    }
}

impl Node {
    /// Once a second: reports to neighbours, dials, and gives up attempts.
    pub(in crate::node) fn tend_direct(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        if !self.own_links.makes_links() {
            return;
        }
        if self.own_links.tend_seen(now, &mut self.links, out) {
            self.own_record.note();
        }
        for partner in self.partners(now) {
            // An existing link is kept for this traffic, whether new ones are made or not.
            if self.settings.direct_links || self.links.is_up(partner) {
                self.own_links
                    .want(now, partner, true, (&self.router, &self.links));
            }
        }
        for chosen in self.own_links.wanted_links() {
            self.own_links
                .want(now, chosen, false, (&self.router, &self.links));
        }
        let attempts: Vec<NodeAddr> = self.own_links.direct.attempts.keys().copied().collect();
        for to in attempts {
            self.attempt(now, to, out);
        }
    }

    /// Returns the nodes with which this one exchanges packets.
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

    /// Continues one attempt.
    fn attempt(&mut self, now: Time, to: NodeAddr, out: &mut impl Outbox<Node>) {
        let index = self.links.by_peer(to);
        let is_up = index.is_some_and(|index| self.links.at(index).is_up());
        let by_hand = index.filter(|index| self.links.at(*index).made == Made::Hand);
        if let Some(index) = by_hand {
            // The node is dialled at the configured address.
            self.links.at_mut(index).announced.clear();
            self.own_links.direct.attempts.remove(&to);
            return;
        }
        let is_first = self.links.is_first(to);
        let announced = self.own_links.places_of(to, (&self.router, &self.links));
        let places = usize::from(is_first) + announced.len();
        let is_chosen = self.own_links.finding.wants(to);
        let gets_none = self.links.are_without_datagrams();
        let Some(attempt) = self.own_links.direct.attempts.get_mut(&to) else {
            return;
        };
        let is_silent = attempt.wanted.is_none_or(|at| now.since(at) >= IDLE);
        // If no links are made for traffic, one that has gone is not made again.
        let is_over = is_silent || !is_up && !self.settings.direct_links;
        if (is_over && !is_chosen) || (places == 0 && !is_up) {
            self.own_links.direct.attempts.remove(&to);
            return self.end_direct(now, to, out);
        }
        if is_up {
            attempt.rest = REST;
            attempt.dialled = attempt.dialled.map(|(turn, _)| (turn, now));
            return self.set_announced(to, announced);
        }
        if now < attempt.rests_until {
            return;
        }
        let turn = match attempt.dialled {
            Some((_, since)) if now.since(since) < PATIENCE => {
                return self.set_announced(to, announced);
            }
            Some((turn, _)) => turn + 1,
            None => 0,
        };
        // Streams are dialled one after the other.
        let turns = if gets_none && !is_first { places } else { 1 };
        if turn >= turns {
            attempt.dialled = None;
            attempt.rests_until = now + attempt.rest;
            attempt.rest = (attempt.rest * 2).min(REST_MAX);
            if is_chosen {
                self.own_links.finding.on_silent(now, to);
            }
            return self.end_direct(now, to, out);
        }
        attempt.dialled = Some((turn, now));
        if !is_first && let Some(at) = announced.get(turn) {
            self.meet_found(now, to, *at, out);
        }
        self.set_announced(to, announced);
        self.redial(now, out);
    }

    /// Begins a link that is not configured anywhere, with one of the addresses.
    fn meet_found(
        &mut self,
        now: Time,
        to: NodeAddr,
        at: UnderlayAddr,
        out: &mut impl Outbox<Node>,
    ) {
        let neighbor = Neighbor {
            addr: to,
            name: String::new(),
            at: Some(at),
            more: Vec::new(),
            capacity_kbps: 0,
            reliable: Default::default(),
        };
        // If there is no room, the next attempt may find some.
        let _ = self.meet(now, neighbor, out);
        if let Some(index) = self.links.by_peer(to) {
            let link = self.links.at_mut(index);
            if link.made == Made::Came {
                link.made = Made::Found;
            }
        }
    }

    fn set_announced(&mut self, of: NodeAddr, announced: Vec<UnderlayAddr>) {
        if let Some(index) = self.links.by_peer(of) {
            self.links.at_mut(index).announced = announced;
        }
    }

    /// Ends a direct link, or an attempt at one.
    fn end_direct(&mut self, now: Time, to: NodeAddr, out: &mut impl Outbox<Node>) {
        let Some(index) = self.links.by_peer(to) else {
            return;
        };
        let link = self.links.at(index);
        if self.settings.find_links && (link.is_up() || link.made == Made::Hand) {
            // The other end may keep it: see `find`.
            self.links.at_mut(index).announced.clear();
            return;
        }
        self.let_go(now, index, out);
        // The missing answer is not reported: nobody has configured the node.
        self.links.at_mut(index).dialling = Dialling::default();
    }
}
