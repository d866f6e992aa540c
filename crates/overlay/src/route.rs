//! The next hop to every destination, by every metric at once.
//!
//! ```text
//!   Database --changes--> graph::table::Tables (a tree per metric, repaired)
//!                              |  the destinations that the change has touched
//!                              v
//!                         one map: destination -> a route per metric
//! ```
//!
//! The packet path only reads the map: one hash. Nothing is computed between two changes of the topology. A change
//! costs the repair of four trees, and the map is written where a tree has changed; `sinew bench routing` measures how
//! long that takes. So the trees of all metrics are kept, used or not.
//!
//! The trees contain silent links at a cost that no other path reaches. So if a silent link is the only way, it is
//! always tried.
//!
//! Hop-by-hop forwarding is free of loops as long as all nodes compute the same from the same records. A node that kept
//! its old next hop because the new one is only a little better would break that. So routes are exactly the shortest
//! paths, and addresses decide ties. Routes do not flap because costs are announced reluctantly (`announce`).
//!
//! [`Tables::generation`] changes when a next hop does: flows that cache a next hop compare it.

use crate::link_state::{Database, Followed};
use crate::mtu::DEFAULT;
use base::{Duration, Map, NodeAddr};
use graph::spf::Tree;
use graph::{Change, Cost, Metric, NodeIndex, Topology, table};

/// The route to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The neighbour that gets the packets.
    pub next_hop: NodeAddr,
    /// The cost of the path, in the metric's unit.
    pub cost: Cost,
    /// The one-way delay of the path.
    pub latency: Duration,
}

/// The changes of the routes, from the smallest to the largest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Changed {
    /// Nothing that matters to packets.
    #[default]
    Nothing,
    /// Packets take the same routes, but whether the other ends of the links on the paths are heard has changed.
    Silence,
    /// A next hop has changed.
    Hops,
}

impl Changed {
    fn between(old: Option<Route>, new: Option<Route>) -> Changed {
        let hop = |route: Option<Route>| route.map(|route| route.next_hop);
        let silent = |route: Option<Route>| route.is_some_and(|route| route.cost.is_silent());
        match (hop(old) == hop(new), silent(old) == silent(new)) {
            (false, _) => Changed::Hops,
            (true, false) => Changed::Silence,
            (true, true) => Changed::Nothing,
        }
    }
}

type Routes = [Option<Route>; Metric::ALL.len()];

/// The routes of one node.
#[derive(Clone, Debug)]
pub struct Tables {
    own: NodeAddr,
    trees: table::Tables,
    routes: Map<NodeAddr, Routes>,
    /// One-way delays of the links to the neighbours.
    links: Map<NodeAddr, Duration>,
    /// The generation of the topology that the routes belong to.
    followed: Option<u64>,
    generation: u32,
}

impl Tables {
    /// Returns the tables of the node `own`, which can reach no other node yet.
    pub fn new(own: NodeAddr) -> Tables {
        Tables {
            own,
            trees: table::Tables::new(own),
            routes: Map::default(),
            links: Map::default(),
            followed: None,
            generation: 0,
        }
    }

    /// Follows the database, and returns what has changed.
    pub fn update(&mut self, database: &mut Database) -> Changed {
        if self.followed == Some(database.generation()) {
            return Changed::Nothing;
        }
        let changed = match database.take_changes() {
            Followed::Changes(changes) if self.followed.is_some() => {
                self.follow(database.topology(), &changes)
            }
            _ => self.start_anew(database.topology_mut()),
        };
        self.followed = Some(database.generation());
        if changed != Changed::Nothing {
            self.generation = self.generation.wrapping_add(1);
        }
        changed
    }

    /// Returns the neighbour that gets packets to `to`: `None` if it is unreachable or this node.
    #[inline]
    pub fn next_hop(&self, metric: Metric, to: NodeAddr) -> Option<NodeAddr> {
        Some(self.route(metric, to)?.next_hop)
    }

    /// Returns the route to `to`: `None` if it is unreachable or this node.
    #[inline]
    pub fn route(&self, metric: Metric, to: NodeAddr) -> Option<Route> {
        self.routes.get(&to)?[metric.index()]
    }

    /// Returns the smallest one-way delay to `to` of any path; zero to this node itself.
    pub fn latency(&self, to: NodeAddr) -> Option<Duration> {
        if to == self.own {
            return Some(Duration::ZERO);
        }
        Some(self.route(Metric::Latency, to)?.latency)
    }

    /// Returns the smallest delay that a packet needs from `neighbor` to `to`. It is this node's shortest path without
    /// the link to the neighbour: no path of the neighbour is shorter, because this node's path would then be shorter,
    /// too.
    pub fn latency_from(&self, neighbor: NodeAddr, to: NodeAddr) -> Option<Duration> {
        if neighbor == to {
            return Some(Duration::ZERO);
        }
        let link = *self.links.get(&neighbor)?;
        Some(self.latency(to)?.saturating_sub(link))
    }

    /// Returns the longest datagram that the present path to `to` carries: the smallest value of its links. `None`
    /// without a path.
    pub fn usable(&self, metric: Metric, to: NodeAddr, database: &Database) -> Option<u16> {
        let topology = database.topology();
        self.trees.tree(metric)?.distance(topology.index(to)?)?;
        let links = self.links_to(metric, to, topology);
        let each = links.map(|(from, to)| database.usable(from, to));
        Some(each.min().unwrap_or(DEFAULT))
    }

    /// Returns true if a queue in front of a link of the present path to `to` drops packets.
    pub(crate) fn is_queued(&self, metric: Metric, to: NodeAddr, database: &Database) -> bool {
        let mut links = self.links_to(metric, to, database.topology());
        links.any(|(from, to)| database.is_queued(from, to))
    }

    /// Returns the links of the present path to `to`, the last one first; none without a path.
    fn links_to(
        &self,
        metric: Metric,
        to: NodeAddr,
        topology: &Topology,
    ) -> impl Iterator<Item = (NodeAddr, NodeAddr)> {
        let tree = self.trees.tree(metric);
        let last = topology.index(to);
        let last = last.filter(|node| tree.is_some_and(|tree| tree.distance(*node).is_some()));
        let up = move |node: &NodeIndex| tree.and_then(|tree| tree.parent(*node));
        let nodes = core::iter::successors(last, up);
        nodes.filter_map(move |node| Some((topology.addr(up(&node)?), topology.addr(node))))
    }

    /// Returns true if the route to `to` leads over a link whose other end is not heard: packets that take it may not
    /// arrive.
    pub fn is_silent(&self, metric: Metric, to: NodeAddr) -> bool {
        self.route(metric, to)
            .is_some_and(|route| route.cost.is_silent())
    }

    /// Returns every node that can be reached over links whose other ends are heard, in order of address.
    pub fn destinations(&self) -> impl Iterator<Item = NodeAddr> {
        let mut all: Vec<NodeAddr> = self.heard().collect();
        all.sort_unstable();
        all.into_iter()
    }

    /// Returns how many nodes can be reached over such links.
    pub fn reachable(&self) -> usize {
        self.heard().count()
    }

    fn heard(&self) -> impl Iterator<Item = NodeAddr> {
        let routes = self.routes.iter();
        // If any path avoids silent links, the path of the fewest hops does.
        let is_heard = |routes: &Routes| {
            let route = routes[Metric::Hops.index()];
            route.is_some_and(|route| !route.cost.is_silent())
        };
        routes.filter_map(move |(to, routes)| is_heard(routes).then_some(*to))
    }

    /// Returns the generation of the topology that the routes belong to.
    pub fn followed(&self) -> Option<u64> {
        self.followed
    }

    /// Returns a number that changes whenever a next hop has changed.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Marks a change that affects packets though no next hop has changed: members of anycast groups.
    pub fn touch(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// Returns the tree behind the routes, for callers that need paths.
    pub fn tree(&self, metric: Metric) -> Option<&Tree> {
        self.trees.tree(metric)
    }

    /// Builds everything from scratch, over a topology whose indices may refer to other nodes than before.
    fn start_anew(&mut self, topology: &mut Topology) -> Changed {
        self.trees = table::Tables::new(self.own);
        for metric in Metric::ALL {
            self.trees.start(topology, metric);
        }
        let before = core::mem::take(&mut self.routes);
        for tree in Metric::ALL.iter().filter_map(|m| self.trees.tree(*m)) {
            for node in topology.nodes() {
                enter(&mut self.routes, topology, tree, node);
            }
        }
        self.measure_links(topology);
        if before.len() != self.routes.len() {
            return Changed::Hops;
        }
        let new = self.routes.iter();
        let changed = new.map(|(to, new)| match before.get(to) {
            None => Changed::Hops,
            Some(old) => {
                let both = old.iter().zip(new);
                let changes = both.map(|(old, new)| Changed::between(*old, *new));
                changes.max().unwrap_or_default()
            }
        });
        changed.max().unwrap_or_default()
    }

    /// Repairs the trees, and the routes to the destinations that the repair has touched.
    fn follow(&mut self, topology: &Topology, changes: &[Change]) -> Changed {
        self.trees.update(topology, changes);
        let mut changed = Changed::Nothing;
        for tree in Metric::ALL.iter().filter_map(|m| self.trees.tree(*m)) {
            for &node in tree.changed() {
                changed = changed.max(enter(&mut self.routes, topology, tree, node));
            }
        }
        let own = topology.index(self.own);
        if changes.iter().any(|change| Some(change.from) == own) {
            self.measure_links(topology);
        }
        changed
    }

    fn measure_links(&mut self, topology: &Topology) {
        self.links.clear();
        if let Some(own) = topology.index(self.own) {
            for edge in topology.links_from(own) {
                let latency = Duration::from_micros(u64::from(edge.link.latency_us));
                self.links.insert(topology.addr(edge.peer), latency);
            }
        }
    }
}

/// Enters the route that a tree has to a destination.
fn enter(
    routes: &mut Map<NodeAddr, Routes>,
    topology: &Topology,
    tree: &Tree,
    node: NodeIndex,
) -> Changed {
    let (to, place) = (topology.addr(node), tree.metric().index());
    let route = tree.next_hop(node).zip(tree.distance(node));
    let Some((next_hop, cost)) = route else {
        let Some(known) = routes.get_mut(&to) else {
            return Changed::Nothing;
        };
        let changed = Changed::between(known[place].take(), None);
        if known.iter().all(Option::is_none) {
            routes.remove(&to);
        }
        return changed;
    };
    let route = Route {
        next_hop: topology.addr(next_hop),
        cost,
        latency: Duration::from_micros(tree.delay_us(node)),
    };
    let old = routes.entry(to).or_default()[place].replace(route);
    Changed::between(old, Some(route))
}

#[cfg(test)]
mod tests;
