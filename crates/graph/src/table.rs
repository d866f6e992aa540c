//! The next hop to every destination, for each metric in use, all at the same time.
//!
//! A metric costs a tree from the moment at which somebody asks for it; all trees follow the same
//! changes. A lookup is one hash of the address and one array access.

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

/// Where to send a packet, and how far its destination is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The neighbour that gets the packet.
    pub next_hop: NodeAddr,
    /// The cost of the whole path.
    pub distance: Cost,
}

impl Tables {
    /// The tables of the node `root`, for no metric yet.
    pub fn new(root: NodeAddr) -> Tables {
        Tables {
            root,
            trees: [const { None }; Metric::ALL.len()],
        }
    }

    /// Takes a metric into use. Does nothing if it is.
    pub fn start(&mut self, topology: &mut Topology, metric: Metric) {
        let root = topology.add_node(self.root);
        self.trees[metric.index()].get_or_insert_with(|| Tree::new(topology, root, metric));
    }

    /// Forgets a metric that nobody uses any more.
    pub fn stop(&mut self, metric: Metric) {
        self.trees[metric.index()] = None;
    }

    /// Follows `changes`, all those that `topology` has seen since the last update.
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

    /// The route to `to`: `None` if it is unreachable, is the root itself, or the metric is not
    /// in use.
    #[inline]
    pub fn route(&self, topology: &Topology, metric: Metric, to: NodeAddr) -> Option<Route> {
        let tree = self.trees[metric.index()].as_ref()?;
        let to = topology.index(to)?;
        Some(Route {
            next_hop: topology.addr(tree.next_hop(to)?),
            distance: tree.distance(to)?,
        })
    }

    /// The tree of a metric in use.
    pub fn tree(&self, metric: Metric) -> Option<&Tree> {
        self.trees[metric.index()].as_ref()
    }

    /// The metrics in use.
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
