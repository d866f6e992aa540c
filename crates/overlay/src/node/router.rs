//! The network as this node knows it, and the paths through it.
//!
//! ```text
//!   records ─▶ database ─▶ topology ─┬─▶ tables: the next hop to each destination, by each metric
//!                                    └─▶ stamps: subgraphs for packets that are stamped at their source
//! ```
//! The other rooms of the node read this one and the links. Records change the database at any time; the tables follow
//! once per flush, in [`Router::update`], so that all packets of a batch take the same routes.

use crate::detour::{Edge, path};
use crate::event::Drop;
use crate::flow::Cached;
use crate::groups::{Membership, Permits};
use crate::link::{LinkIndex, Links};
use crate::link_state::Database;
use crate::mtu::DEFAULT;
use crate::route::{Changed, Tables};
use crate::stamps::{Stamps, Wish};
use base::{Duration, NodeAddr, Time};
use graph::{Metric, Topology};
use wire::data::Routing;
use wire::groups::TreeBuilder;

/// The known records of the network, and what follows from them.
pub(super) struct Router {
    own: NodeAddr,
    database: Database,
    tables: Tables,
    stamps: Stamps,
}

impl Router {
    /// Returns the router of the node `own`, which can reach no other node yet.
    pub(super) fn new(own: NodeAddr, database: Database) -> Router {
        Router {
            own,
            database,
            tables: Tables::new(own),
            stamps: Stamps::default(),
        }
    }

    /// Returns the node's address.
    pub(super) fn own(&self) -> NodeAddr {
        self.own
    }

    /// Returns the database of records.
    #[inline]
    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    /// Returns the database, for records that arrive and for the node's own.
    #[inline]
    pub(super) fn database_mut(&mut self) -> &mut Database {
        &mut self.database
    }

    /// Returns the routes.
    #[inline]
    pub(super) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Follows the database, and returns what has changed.
    pub(super) fn update(&mut self) -> Changed {
        self.tables.update(&mut self.database)
    }

    /// Marks a change that affects packets though no next hop has changed: members of anycast groups.
    pub(super) fn touch(&mut self) {
        self.tables.touch();
    }

    /// Returns the link towards `to`. `cached` is the flow's cached hop, valid while the routes have the generation
    /// that it names. So a flow costs one look-up per change.
    #[inline]
    pub(super) fn next_hop(
        &self,
        links: &Links,
        routing: Routing,
        to: NodeAddr,
        cached: Option<&mut Option<Cached>>,
    ) -> Result<LinkIndex, Drop> {
        let generation = self.tables.generation();
        if let Some(Some(hop)) = &cached
            && hop.generation == generation
            && hop.routing == routing
        {
            return Ok(LinkIndex(hop.link as u16));
        }
        let metric = metric(routing).ok_or(Drop::Unsupported)?;
        let hop = self.tables.next_hop(metric, to).ok_or(Drop::NoRoute)?;
        let index = links.by_peer(hop).ok_or(Drop::NoRoute)?;
        if let Some(cached) = cached {
            *cached = Some(Cached {
                generation,
                routing,
                link: u32::from(index.0),
            });
        }
        Ok(index)
    }

    /// Returns the link by which packets to `to` leave that go by expected latency, as the node's own do.
    pub(super) fn first_link(&self, links: &Links, to: NodeAddr) -> Option<LinkIndex> {
        links.by_peer(self.tables.next_hop(Metric::ExpectedLatency, to)?)
    }

    /// Returns true if packets to `to` can leave by expected latency.
    pub(super) fn has_way(&self, to: NodeAddr) -> bool {
        self.tables.next_hop(Metric::ExpectedLatency, to).is_some()
    }

    /// Returns the nodes on the path that the tables of all nodes form, both ends included.
    pub(super) fn path(&self, metric: Metric, to: NodeAddr) -> Option<Vec<NodeAddr>> {
        let topology = self.database.topology();
        let path = self.tables.tree(metric)?.path(topology.index(to)?);
        Some(path.into_iter().map(|node| topology.addr(node)).collect())
    }

    /// Returns the generation of the topology, and the topology.
    pub(super) fn known(&self) -> (u64, &Topology) {
        (self.database.generation(), self.database.topology())
    }

    /// Returns true if this node's path to a destination takes a link.
    pub(super) fn takes(&self, metric: Metric, to: NodeAddr, edge: Edge) -> bool {
        let topology = self.database.topology();
        let tree = self.tables.tree(metric).zip(topology.index(to));
        tree.is_some_and(|(tree, to)| path(topology, tree, to).any(|taken| taken == edge))
    }

    /// Returns the longest datagram that the path to `to` carries, as far as this node knows. Mostly no link carries
    /// less than others, and one comparison is enough; otherwise the path of the packet's metric is followed. Choice:
    /// for stamps, which are whole subgraphs, the smallest value of the whole network.
    pub(super) fn usable_to(&self, routing: Routing, to: NodeAddr) -> u16 {
        let least = self.database.least_usable();
        if least == DEFAULT {
            return DEFAULT;
        }
        let metric = metric(routing);
        let along = metric.and_then(|metric| self.tables.usable(metric, to, &self.database));
        along.unwrap_or(least)
    }

    /// Returns true if a node on the path to `to` reports a queue that drops packets. Choice: for stamps, which are whole
    /// subgraphs, any queue in the network counts.
    pub(super) fn is_queued_to(&self, routing: Routing, to: NodeAddr) -> bool {
        self.database.has_queued()
            && metric(routing)
                .is_none_or(|metric| self.tables.is_queued(metric, to, &self.database))
    }

    /// Returns the delay from this node to the destination of a packet that the neighbour `came` has sent. For a group,
    /// it is the delay to the farthest member that can still be served `in_time`, among the members that are not
    /// reached through `came`. A member that is too far away for a retransmission does not prevent it for the others.
    pub(super) fn rest(&self, came: NodeAddr, to: NodeAddr, in_time: Option<Duration>) -> Duration {
        if !to.is_multicast() {
            return self.tables.latency(to).unwrap_or_default();
        }
        let members = self.membership().receivers(to);
        let behind = members
            .filter(|member| self.tables.next_hop(Metric::ExpectedLatency, *member) != Some(came));
        let ways = behind.filter_map(|member| self.tables.latency(member));
        ways.filter(|way| in_time.is_none_or(|in_time| *way <= in_time))
            .max()
            .unwrap_or_default()
    }

    /// Returns the delay from a neighbour to the destination of a packet; for a group, to the farthest member that is
    /// reached through the neighbour.
    pub(super) fn rest_from(&self, neighbor: NodeAddr, to: NodeAddr) -> Duration {
        if !to.is_multicast() {
            return self.tables.latency_from(neighbor, to).unwrap_or_default();
        }
        let members = self.membership().receivers(to);
        let behind = members.filter(|member| {
            self.tables.next_hop(Metric::ExpectedLatency, *member) == Some(neighbor)
        });
        let ways = behind.filter_map(|member| self.tables.latency_from(neighbor, member));
        ways.max().unwrap_or_default()
    }

    /// Returns the other member of an anycast group that is nearest by the metric; `None` without members in reach.
    /// Among equally near members, the one with the lowest address.
    pub(super) fn nearest(&self, group: NodeAddr, metric: Metric) -> Option<NodeAddr> {
        let members = self.membership().receivers(group);
        let reached = members.filter_map(|member| {
            let route = self.tables.route(metric, member)?;
            Some((route.cost, member))
        });
        reached.min().map(|(_, member)| member)
    }

    /// Returns the stamp for packets of this node; `None` if there is no such subgraph.
    pub(super) fn stamp(&mut self, now: Time, wish: Wish) -> Option<&[u8]> {
        let (generation, topology) = (self.database.generation(), self.database.topology());
        self.stamps.stamp(now, self.own, wish, generation, topology)
    }

    /// Returns the paths that are stamped at present.
    pub(super) fn stamped(&self, wish: &Wish) -> impl Iterator<Item = &[NodeAddr]> {
        self.stamps.present(wish)
    }

    /// Returns what the records report about groups.
    #[inline]
    pub(super) fn membership(&self) -> &Membership {
        self.database.membership()
    }

    /// Returns who may send to groups and who may receive, in the whole network.
    #[inline]
    pub(super) fn permits(&self) -> &Permits {
        self.membership().permits()
    }

    /// Returns the protocol that builds the tree of a group. Anycast groups have no tree.
    pub(super) fn builder(&self, group: NodeAddr) -> TreeBuilder {
        self.membership().builder(group)
    }
}

/// Returns the metric by which a class is routed by table.
pub(crate) fn metric(routing: Routing) -> Option<Metric> {
    match routing {
        Routing::Hops => Some(Metric::Hops),
        Routing::Latency => Some(Metric::Latency),
        Routing::Loss => Some(Metric::Loss),
        Routing::ExpectedLatency => Some(Metric::ExpectedLatency),
        Routing::Width | Routing::Stamped => None,
    }
}
