//! Routes by table: the topology that the records add up to, and one shortest-path tree per metric,
//! all at the same time, repaired where a change touches them. [Amir06 §IV-B]

use base::{Duration, NodeAddr};
use graph::metric::{Cost, LinkCost, Metric, Parameters};
use graph::table;
use graph::topology::{Change, Topology};

/// A link as a record reports it: the neighbour and what the way there costs.
pub type Reported = (NodeAddr, LinkCost);

/// Routing tables of a node for all metrics.
#[derive(Debug)]
pub struct Tables {
    own: NodeAddr,
    topology: Topology,
    tables: table::Tables,
    /// What each node reports, whether or not the other end agrees.
    reported: base::Map<NodeAddr, Vec<Reported>>,
    changes: Vec<Change>,
    generation: u32,
}

/// A route by table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The neighbour that is next.
    pub next_hop: NodeAddr,
    /// The cost by the metric.
    pub cost: Cost,
    /// The latency of the path of least latency.
    pub latency: Duration,
}

impl Tables {
    /// Tables of the node `own`, without routes.
    pub fn new(own: NodeAddr, parameters: Parameters) -> Tables {
        let mut topology = Topology::new(parameters);
        let mut tables = table::Tables::new(own);
        for metric in Metric::ALL {
            tables.start(&mut topology, metric);
        }
        Tables {
            own,
            topology,
            tables,
            reported: base::Map::default(),
            changes: Vec::new(),
            generation: 1,
        }
    }

    /// Takes the links that `origin` reports; none when it is gone. They count after
    /// [`Tables::update`].
    pub fn report(&mut self, origin: NodeAddr, links: Vec<Reported>) {
        let old = self.reported.insert(origin, links).unwrap_or_default();
        let new = self.reported[&origin].clone();
        let gone = old
            .iter()
            .map(|(to, _)| *to)
            .filter(|to| new.iter().all(|(n, _)| n != to));
        for to in gone {
            self.changes
                .extend(self.topology.set_link(origin, to, None));
            self.changes
                .extend(self.topology.set_link(to, origin, None));
        }
        for (to, cost) in new {
            // An edge counts if both ends report it.
            let back = self
                .reported
                .get(&to)
                .and_then(|links| cost_to(links, origin));
            let there = back.is_some().then_some(cost);
            self.changes
                .extend(self.topology.set_link(origin, to, there));
            self.changes
                .extend(self.topology.set_link(to, origin, back));
        }
    }

    /// Repairs the trees after reports. True if any route may have changed.
    pub fn update(&mut self) -> bool {
        if self.changes.is_empty() {
            return false;
        }
        self.tables.update(&self.topology, &self.changes);
        self.changes.clear();
        // 0 is never a generation, so a flow's empty cache is never taken for valid.
        self.generation = self.generation.wrapping_add(1).max(1);
        true
    }

    /// A number that changes with the routes.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// The neighbour that is next on the way to `to`.
    #[inline]
    pub fn next_hop(&self, metric: Metric, to: NodeAddr) -> Option<NodeAddr> {
        Some(self.tables.route(&self.topology, metric, to)?.next_hop)
    }

    /// The route to `to`.
    pub fn route(&self, metric: Metric, to: NodeAddr) -> Option<Route> {
        let route = self.tables.route(&self.topology, metric, to)?;
        let latency = self.latency(to).unwrap_or_default();
        Some(Route {
            next_hop: route.next_hop,
            cost: route.distance,
            latency,
        })
    }

    /// The least latency of any path to `to`.
    pub fn latency(&self, to: NodeAddr) -> Option<Duration> {
        if to == self.own {
            return Some(Duration::ZERO);
        }
        let route = self.tables.route(&self.topology, Metric::Latency, to)?;
        Some(Duration::from_nanos(route.distance.0))
    }

    /// The latency that is left behind the neighbour `peer` on the way to `to`.
    pub fn latency_from(&self, peer: NodeAddr, to: NodeAddr) -> Option<Duration> {
        Some(self.latency(to)?.saturating_sub(self.latency(peer)?))
    }

    /// All nodes that any record names, but this one.
    pub fn destinations(&self) -> impl Iterator<Item = NodeAddr> {
        let addrs = self.topology.nodes().map(|node| self.topology.addr(node));
        addrs.filter(|addr| *addr != self.own)
    }

    /// How many of them can be reached.
    pub fn reachable(&self) -> usize {
        self.destinations()
            .filter(|to| self.next_hop(Metric::Hops, *to).is_some())
            .count()
    }

    /// The topology, for explanations.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }
}

fn cost_to(links: &[Reported], to: NodeAddr) -> Option<LinkCost> {
    links
        .iter()
        .find(|(neighbor, _)| *neighbor == to)
        .map(|(_, cost)| *cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeAddr = NodeAddr(1);
    const B: NodeAddr = NodeAddr(2);
    const C: NodeAddr = NodeAddr(3);

    fn cost(latency_us: u32) -> LinkCost {
        LinkCost::new(latency_us, 0.0)
    }

    #[test]
    fn an_edge_counts_when_both_ends_report_it() {
        let mut tables = Tables::new(A, Parameters::default());
        tables.report(A, vec![(B, cost(1_000))]);
        tables.update();
        assert_eq!(tables.next_hop(Metric::Hops, B), None);
        tables.report(B, vec![(A, cost(2_000)), (C, cost(5_000))]);
        assert!(tables.update());
        assert_eq!(tables.next_hop(Metric::Hops, B), Some(B));
        assert_eq!(tables.next_hop(Metric::Hops, C), None);
        tables.report(C, vec![(B, cost(5_000))]);
        tables.update();
        assert_eq!(tables.latency(C), Some(Duration::from_micros(6_000)));
        assert_eq!(
            tables.latency_from(B, C),
            Some(Duration::from_micros(5_000))
        );
        let before = tables.generation();
        tables.report(B, vec![(C, cost(5_000))]);
        assert!(tables.update() && tables.generation() != before);
        assert_eq!(
            (tables.reachable(), tables.next_hop(Metric::Latency, C)),
            (0, None)
        );
    }
}
