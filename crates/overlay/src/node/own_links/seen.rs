//! Where neighbours see this node, and where it sees them.
//!
//! ```text
//!   b ──── a        a tells b "your datagrams come from 198.51.100.2:40001"; b announces that with its link state
//! ```
//! A node that is seen through streams alone announces the port at which a neighbour has dialled it. Where it has dialled
//! itself it is seen at a port at which nobody listens, and announces that of its own socket, where hosts usually listen for
//! streams too. An endpoint that the router in front of a node leads to it is announced as well.
//!
//! Beside that it tells where it listens by its own interfaces: nodes behind the same router reach it there, and others by a
//! family of addresses by which no neighbour has seen it.

use super::OwnLinks;
use crate::link::Links;
use crate::node::Node;
use crate::snapshot::SeenStatus;
use base::{Duration, NodeAddr, Outbox, Time, UnderlayAddr};
use std::collections::BTreeMap;
use wire::control::{Builder, MESSAGE_HEADER_BYTES, StreamSeenAt};
use wire::{Endpoint, Full};

/// A neighbour is told again where it is seen, as the message may be lost. Choice: soon enough for a NAT that was
/// restarted, and 2 bit/s.
const TOLD_AGAIN: Duration = Duration::from_secs(60);

/// What neighbours have told of this node, and were told of themselves.
#[derive(Debug, Default)]
pub(super) struct Sightings {
    /// Where each neighbour says that it sees this node.
    seen: BTreeMap<NodeAddr, Seen>,
    /// What the router in front of this node leads to it.
    mapped: Option<Endpoint>,
    /// Where this node listens by its own interfaces, the best first.
    hosts: Vec<Endpoint>,
    /// What neighbours were told last, and when.
    told: BTreeMap<NodeAddr, (Told, Time)>,
    /// What the own record says.
    announced: Vec<Endpoint>,
    announced_hosts: Vec<Endpoint>,
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

impl OwnLinks {
    /// What the router in front of the node leads here from now on. The next look at what is to be announced takes it.
    pub(in crate::node) fn set_mapped(&mut self, endpoint: Option<Endpoint>) {
        self.sightings.mapped = endpoint;
    }

    /// Where the node listens from now on, likewise.
    pub(in crate::node) fn set_hosts(&mut self, hosts: Vec<Endpoint>) {
        self.sightings.hosts = hosts;
    }

    /// What the own record says of where this node is seen, and of its interfaces.
    pub(in crate::node) fn announced(&self) -> (&[Endpoint], &[Endpoint]) {
        (&self.sightings.announced, &self.sightings.announced_hosts)
    }

    /// This node itself listens there: another one that says so is on another network.
    pub(super) fn is_own_host(&self, endpoint: Endpoint) -> bool {
        self.sightings.hosts.contains(&endpoint)
    }

    /// A neighbour tells from where it gets this node's datagrams.
    pub(in crate::node) fn on_seen_at(&mut self, by: NodeAddr, endpoint: Endpoint) {
        let is_by_stream = false;
        self.note_seen(
            by,
            Seen {
                endpoint,
                is_by_stream,
            },
        );
    }

    /// A neighbour tells where it sees this node's end of their byte stream.
    pub(in crate::node) fn on_stream_seen_at(&mut self, by: NodeAddr, seen: StreamSeenAt) {
        let endpoint = match seen.is_dialled {
            true => Some(seen.endpoint),
            false => self.listens_at(seen.endpoint),
        };
        if let Some(endpoint) = endpoint {
            let is_by_stream = true;
            self.note_seen(
                by,
                Seen {
                    endpoint,
                    is_by_stream,
                },
            );
        }
    }

    fn note_seen(&mut self, by: NodeAddr, seen: Seen) {
        if self.makes_links() && self.may_dial(seen.endpoint) {
            self.sightings.seen.insert(by, seen);
        }
    }

    /// Once a second: tells neighbours where they are seen. Whether others are to be told where this node is.
    pub(super) fn tend_seen(
        &mut self,
        now: Time,
        links: &mut Links,
        out: &mut impl Outbox<Node>,
    ) -> bool {
        self.tell_neighbours(now, links, out);
        let seen = self.endpoints(links);
        let hosts = self.hosts(&seen);
        let told = (&self.sightings.announced, &self.sightings.announced_hosts);
        if (&seen, &hosts) != told {
            (self.sightings.announced, self.sightings.announced_hosts) = (seen, hosts);
            return true;
        }
        false
    }

    /// The own addresses that others are told, beside those at which neighbours see this node.
    fn hosts(&self, seen: &[Endpoint]) -> Vec<Endpoint> {
        let all = self.sightings.hosts.iter().copied();
        let fits = |host: &Endpoint| host.is_dialable() && !host.is_link_local();
        let new = all.filter(|host| fits(host) && !seen.contains(host));
        let most = match self.host_addresses {
            true => wire::link_state::HOSTS_MAX,
            false => 0,
        };
        new.take(most).collect()
    }

    fn tell_neighbours(&mut self, now: Time, links: &mut Links, out: &mut impl Outbox<Node>) {
        for index in links.indices() {
            let link = links.at(index);
            let at = link.path.at.filter(|_| link.is_up());
            let Some(at) = at.filter(|at| self.may_dial(endpoint(*at))) else {
                self.sightings.told.remove(&link.peer);
                continue;
            };
            let link = links.at_mut(index);
            let tell = match at.is_stream() {
                true => Told::ByStream(StreamSeenAt {
                    endpoint: endpoint(at),
                    is_dialled: link.fallback.has_dialled(at),
                }),
                false => Told::ByDatagrams(endpoint(at)),
            };
            let told = self.sightings.told.get(&link.peer);
            if told.is_some_and(|&(told, at)| told == tell && now.since(at) < TOLD_AGAIN) {
                continue;
            }
            self.sightings.told.insert(link.peer, (tell, now));
            let mut bytes = [0; MESSAGE_HEADER_BYTES + StreamSeenAt::BYTES];
            let mut builder = Builder::new(&mut bytes);
            tell.append(&mut builder).expect("it is made to fit");
            let len = builder.len();
            link.send_control(now, &bytes[..len], out);
        }
    }

    /// Where others can dial this node: where neighbours see it, and the endpoint that the router maps. The mapped one is open
    /// to all, but may lead nowhere, and partners of earlier versions dial one endpoint after the other. It comes first if neighbours see several
    /// ports at its address, which others cannot use, and right after the one that they see if they see only one. If no
    /// neighbour sees that address, the router may be wrong about it: then it comes last. If the record has no room for
    /// all, it stays, and what neighbours see at its address is left out first. A node that gets no datagrams does not
    /// announce it.
    fn endpoints(&mut self, links: &Links) -> Vec<Endpoint> {
        let mut endpoints = self.seen_at(links);
        let mapped = self.sightings.mapped.filter(|at| self.may_dial(*at));
        let mapped = mapped.filter(|_| !links.are_without_datagrams());
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
    fn seen_at(&mut self, links: &Links) -> Vec<Endpoint> {
        let gets_no_datagrams = links.are_without_datagrams();
        let link = |peer: &NodeAddr| links.by_peer(*peer).map(|index| links.at(index));
        let seen = &mut self.sightings.seen;
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

    /// Where streams to this node may be taken, which has dialled a neighbour from that endpoint.
    fn listens_at(&self, from: Endpoint) -> Option<Endpoint> {
        let is_ipv4 = from.ipv4().is_some();
        let like = self.sockets.iter().find(|own| own.is_ipv4() == is_ipv4);
        let own = like.or(self.sockets.first())?;
        Some(Endpoint {
            port: own.port,
            ..from
        })
    }

    pub(in crate::node) fn seen_statuses(&self) -> Vec<SeenStatus> {
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
        self.sightings.seen.iter().map(status).collect()
    }
}

/// An address of the network below, without what concerns this host alone.
pub(super) fn endpoint(at: UnderlayAddr) -> Endpoint {
    Endpoint {
        ip: at.ip,
        port: at.port,
    }
}
