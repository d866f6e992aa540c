//! The next hop to every destination, for several metrics at the same time.
//!
//! A metric has a tree only once it is in use; all trees follow the same changes. A lookup is one hash of the address
//! and one array access.

use crate::metric::{Cost, Metric};
use crate::spf::{Tree, Work};
use crate::topology::{Change, Topology};
use base::NodeAddr;

/// The routes of one node.
#[derive(Clone, Debug)]
pub struct Tables {
    root: NodeAddr,
    trees: [Option<Tree>; Metric::ALL.len()],
}

/// The next hop for a packet, and the distance to its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The neighbor that gets the packet.
    pub next_hop: NodeAddr,
    /// The cost of the whole path.
    pub distance: Cost,
}

impl Tables {
    /// Creates the tables of the node `root`, without a metric in use.
    pub fn new(root: NodeAddr) -> Tables {
        Tables {
            root,
            trees: [const { None }; Metric::ALL.len()],
        }
    }

    /// Starts using a metric. Does nothing if it is already in use.
    pub fn start(&mut self, topology: &mut Topology, metric: Metric) {
        let root = topology.add_node(self.root);
        self.trees[metric.index()].get_or_insert_with(|| Tree::new(topology, root, metric));
    }

    /// Drops a metric that is no longer used.
    pub fn stop(&mut self, metric: Metric) {
        self.trees[metric.index()] = None;
    }

    /// Applies `changes`: all changes of `topology` since the last update.
    pub fn update(&mut self, topology: &Topology, changes: &[Change]) -> Work {
        self.trees
            .iter_mut()
            .flatten()
            .map(|tree| tree.update(topology, changes))
            .fold(Work::default(), |all, work| Work {
                settled: all.settled + work.settled,
                links: all.links + work.links,
            })
    }

    /// Returns the route to `to`; `None` if `to` is unreachable or the root itself, or if the metric is not in use.
    #[inline]
    pub fn route(&self, topology: &Topology, metric: Metric, to: NodeAddr) -> Option<Route> {
        let tree = self.trees[metric.index()].as_ref()?;
        let to = topology.index(to)?;
        Some(Route {
            next_hop: topology.addr(tree.next_hop(to)?),
            distance: tree.distance(to)?,
        })
    }

    /// Returns the tree of a metric in use.
    pub fn tree(&self, metric: Metric) -> Option<&Tree> {
        self.trees[metric.index()].as_ref()
    }

    /// Returns the metrics in use.
    pub fn in_use(&self) -> impl Iterator<Item = Metric> {
        Metric::ALL
            .into_iter()
            .filter(|metric| self.trees[metric.index()].is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{LinkCost, Parameters};

    #[test]
    fn each_metric_has_its_own_way_and_follows_changes() {
        let [a, b, c, d] = [1, 2, 3, 4].map(NodeAddr);
        let mut topology = Topology::from_links(
            Parameters::default(),
            [
                (a, d, LinkCost::new(90_000, 0.10)),
                (a, b, LinkCost::new(10_000, 0.05)),
                (b, d, LinkCost::new(10_000, 0.05)),
                (a, c, LinkCost::new(50_000, 0.0)),
                (c, d, LinkCost::new(50_000, 0.0)),
            ],
        );
        let mut tables = Tables::new(a);
        for metric in Metric::ALL {
            tables.start(&mut topology, metric);
        }
        let hops = |tables: &Tables, topology: &Topology| {
            Metric::ALL.map(|m| tables.route(topology, m, d).unwrap().next_hop)
        };
        assert_eq!(hops(&tables, &topology), [d, b, c, b]);
        assert_eq!(
            tables.route(&topology, Metric::Hops, a),
            None,
            "nowhere to go"
        );
        assert_eq!(tables.route(&topology, Metric::Hops, NodeAddr(9)), None);

        let change = topology.set_link(b, d, None).unwrap();
        tables.update(&topology, &[change]);
        assert_eq!(hops(&tables, &topology), [d, d, c, c]);

        tables.stop(Metric::Hops);
        assert_eq!(tables.route(&topology, Metric::Hops, d), None);
        assert_eq!(tables.in_use().count(), 3);
    }
}
