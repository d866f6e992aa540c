//! The network as this node knows it, and the ways through it.
//!
//! ```text
//!   records ─▶ database ─▶ topology ─┬─▶ tables: the next hop to each destination, by each metric
//!                                    └─▶ stamps: subgraphs for packets that are stamped at their source
//! ```
//! The other rooms of the node look at this one and at the links. Records change the database at any time; the tables
//! follow once per flush, in [`Router::update`], so that all packets of a batch take the same routes.

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

/// What is known of the network, and what follows from it.
pub(super) struct Router {
    own: NodeAddr,
    database: Database,
    tables: Tables,
    stamps: Stamps,
}

impl Router {
    /// The router of the node `own`, which can reach nobody.
    pub(super) fn new(own: NodeAddr, database: Database) -> Router {
        Router {
            own,
            database,
            tables: Tables::new(own),
            stamps: Stamps::default(),
        }
    }

    /// The node.
    pub(super) fn own(&self) -> NodeAddr {
        self.own
    }

    /// What the records say.
    #[inline]
    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    /// For records that come, and for what is said in the node's own.
    #[inline]
    pub(super) fn database_mut(&mut self) -> &mut Database {
        &mut self.database
    }

    /// The routes.
    #[inline]
    pub(super) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Follows the database, and says what has changed.
    pub(super) fn update(&mut self) -> Changed {
        self.tables.update(&mut self.database)
    }

    /// What packets go by has changed though no next hop has: members of anycast groups.
    pub(super) fn touch(&mut self) {
        self.tables.touch();
    }

    /// The link towards `to`. `cached` is the flow's slot, valid while the routes have the generation that it names, so
    /// that a flow costs one look-up per change.
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

    /// The link by which packets to `to` leave that go by expected latency, as the node's own do.
    pub(super) fn first_link(&self, links: &Links, to: NodeAddr) -> Option<LinkIndex> {
        links.by_peer(self.tables.next_hop(Metric::ExpectedLatency, to)?)
    }

    /// Whether packets to `to` can leave by expected latency.
    pub(super) fn has_way(&self, to: NodeAddr) -> bool {
        self.tables.next_hop(Metric::ExpectedLatency, to).is_some()
    }

    /// The nodes on the path that the tables of all nodes make, both ends included.
    pub(super) fn path(&self, metric: Metric, to: NodeAddr) -> Option<Vec<NodeAddr>> {
        let topology = self.database.topology();
        let path = self.tables.tree(metric)?.path(topology.index(to)?);
        Some(path.into_iter().map(|node| topology.addr(node)).collect())
    }

    /// The topology, and which one it is.
    pub(super) fn known(&self) -> (u64, &Topology) {
        (self.database.generation(), self.database.topology())
    }

    /// This node's path to a destination takes a link.
    pub(super) fn takes(&self, metric: Metric, to: NodeAddr, edge: Edge) -> bool {
        let topology = self.database.topology();
        let tree = self.tables.tree(metric).zip(topology.index(to));
        tree.is_some_and(|(tree, to)| path(topology, tree, to).any(|taken| taken == edge))
    }

    /// The longest datagram that the way to `to` carries, as far as this node knows. Mostly no link carries less than
    /// others, and one comparison tells; else the path of the packet's metric is walked. Choice: for stamps, which
    /// are whole subgraphs, the least of the whole network.
    pub(super) fn usable_to(&self, routing: Routing, to: NodeAddr) -> u16 {
        let least = self.database.least_usable();
        if least == DEFAULT {
            return DEFAULT;
        }
        let metric = metric(routing);
        let along = metric.and_then(|metric| self.tables.usable(metric, to, &self.database));
        along.unwrap_or(least)
    }

    /// The way from this node to where a packet ends that the neighbour `came` has sent; of a group, to the farthest
    /// member that can still be served `in_time`, of those that are not reached by way of `came`. A member that is too
    /// far away for a repetition does not keep it from the others.
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

    /// The way from a neighbour to where a packet ends; of a group, to the farthest member that is reached by way of it.
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

    /// The other member of an anycast group that is nearest by the metric; none without members in reach. The lowest
    /// address, of several.
    pub(super) fn nearest(&self, group: NodeAddr, metric: Metric) -> Option<NodeAddr> {
        let members = self.membership().receivers(group);
        let reached = members.filter_map(|member| {
            let route = self.tables.route(metric, member)?;
            Some((route.cost, member))
        });
        reached.min().map(|(_, member)| member)
    }

    /// The stamp for what this node sends; none where there is no such subgraph.
    pub(super) fn stamp(&mut self, now: Time, wish: Wish) -> Option<&[u8]> {
        let (generation, topology) = (self.database.generation(), self.database.topology());
        self.stamps.stamp(now, self.own, wish, generation, topology)
    }

    /// The paths that are stamped at present.
    pub(super) fn stamped(&self, wish: &Wish) -> impl Iterator<Item = &[NodeAddr]> {
        self.stamps.present(wish)
    }

    /// What the records say of groups.
    #[inline]
    pub(super) fn membership(&self) -> &Membership {
        self.database.membership()
    }

    /// Who may send to groups and receive, as the network says.
    #[inline]
    pub(super) fn permits(&self) -> &Permits {
        self.membership().permits()
    }

    /// Who builds the tree of a group. Anycast has none.
    pub(super) fn builder(&self, group: NodeAddr) -> TreeBuilder {
        self.membership().builder(group)
    }
}

/// The metric by which a class is routed by table.
pub(crate) fn metric(routing: Routing) -> Option<Metric> {
    match routing {
        Routing::Hops => Some(Metric::Hops),
        Routing::Latency => Some(Metric::Latency),
        Routing::Loss => Some(Metric::Loss),
        Routing::ExpectedLatency => Some(Metric::ExpectedLatency),
        Routing::Width | Routing::Stamped => None,
    }
}
