//! The addresses at which neighbours see this node, and at which it sees them.
//!
//! ```text
//!   b ──── a        a tells b "your datagrams come from 198.51.100.2:40001"; b announces that with its link state
//! ```
//! A node that is seen only through streams announces the port at which a neighbour has dialled it. If the node has
//! dialled, it is seen at a port at which nobody listens. It then announces the port of its own socket, where hosts
//! usually listen for streams too. An endpoint that the router in front of a node forwards to it is announced as well.
//!
//! In addition, the node announces where it listens on its own interfaces: nodes behind the same router reach it there,
//! and others reach it by an address family by which no neighbour has seen it.

use super::OwnLinks;
use crate::link::Links;
use crate::node::Node;
use crate::snapshot::SeenStatus;
use base::{Duration, NodeAddr, Outbox, Time, UnderlayAddr};
use std::collections::BTreeMap;
use wire::control::{Builder, MESSAGE_HEADER_BYTES, StreamSeenAt};
use wire::{Endpoint, Full};

/// The interval at which a neighbour is told again where it is seen, as the message may be lost. Choice: soon enough
/// for a NAT that was restarted, and 2 bit/s.
const TOLD_AGAIN: Duration = Duration::from_secs(60);

/// The neighbours' reports about this node, and this node's reports about them.
#[derive(Debug, Default)]
pub(super) struct Sightings {
    /// The endpoint at which each neighbour reports that it sees this node.
    seen: BTreeMap<NodeAddr, Seen>,
    /// The endpoint that the router in front of this node forwards to it.
    mapped: Option<Endpoint>,
    /// The endpoints at which this node listens on its own interfaces, the best one first.
    hosts: Vec<Endpoint>,
    /// The last report to each neighbour, and when it was sent.
    told: BTreeMap<NodeAddr, (Told, Time)>,
    /// The endpoints in the own record.
    announced: Vec<Endpoint>,
    announced_hosts: Vec<Endpoint>,
}

/// The endpoint at which this node is seen, and how.
#[derive(Clone, Copy, Debug)]
struct Seen {
    endpoint: Endpoint,
    is_by_stream: bool,
}

/// The endpoint at which a neighbour is seen.
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
    /// Sets the endpoint that the router in front of the node forwards to it from now on. The next check of the
    /// announcements uses it.
    pub(in crate::node) fn set_mapped(&mut self, endpoint: Option<Endpoint>) {
        self.sightings.mapped = endpoint;
    }

    /// Sets where the node listens from now on, in the same way.
    pub(in crate::node) fn set_hosts(&mut self, hosts: Vec<Endpoint>) {
        self.sightings.hosts = hosts;
    }

    /// Returns what the own record announces: where this node is seen, and where it listens on its interfaces.
    pub(in crate::node) fn announced(&self) -> (&[Endpoint], &[Endpoint]) {
        (&self.sightings.announced, &self.sightings.announced_hosts)
    }

    /// Returns true if this node itself listens there: another node that announces the same address is on another
    /// network.
    pub(super) fn is_own_host(&self, endpoint: Endpoint) -> bool {
        self.sightings.hosts.contains(&endpoint)
    }

    /// A neighbour reports from where it gets this node's datagrams.
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

    /// A neighbour reports where it sees this node's end of their byte stream.
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

    /// Once a second: reports to neighbours where they are seen. Returns true if the announcements about this node have
    /// changed.
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

    /// Returns the own addresses to announce in addition to those at which neighbours see this node.
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

    /// Returns where others can dial this node: where neighbours see it, and the endpoint that the router maps. The
    /// mapped endpoint is open to all, but may lead nowhere, and nodes of earlier versions dial one endpoint after the
    /// other. It comes first if neighbours see several ports at its address, which other nodes cannot use. It comes
    /// right after the only port that neighbours see there, if there is one. If no neighbour sees that address, the
    /// router may be wrong about it, and it comes last. If the record has no room for all, the mapped one stays, and
    /// other endpoints at its address are left out first. A node that gets no datagrams does not announce it.
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

    /// Returns where neighbours see this node: first the endpoint that most of them report. Endpoints seen through
    /// streams count only if no datagrams arrive.
    fn seen_at(&mut self, links: &Links) -> Vec<Endpoint> {
        let gets_no_datagrams = links.are_without_datagrams();
        let link = |peer: &NodeAddr| links.by_peer(*peer).map(|index| links.at(index));
        let seen = &mut self.sightings.seen;
        seen.retain(|peer, _| link(peer).is_some_and(|link| link.is_up()));
        let mut counts: BTreeMap<Endpoint, usize> = BTreeMap::new();
        for (peer, seen) in seen {
            // An endpoint seen in the other way says nothing about where the node is seen now.
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

    /// Returns where this node may accept streams, if it has dialled a neighbour from that endpoint.
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

/// Returns an underlay address without the parts that concern only this host.
pub(super) fn endpoint(at: UnderlayAddr) -> Endpoint {
    Endpoint {
        ip: at.ip,
        port: at.port,
    }
}
