//! Checks whether a simulated network is complete: every node has the same records, and reaches every other node.

use base::{Engine, NodeAddr};
use graph::Metric;
use host::station::Station;
use overlay::Node;
use sim::{HostId, World};

/// An engine that is a node, or contains one.
pub(crate) trait Noded: Engine {
    /// Returns the node.
    fn node(&self) -> &Node;
}

impl Noded for Node {
    fn node(&self) -> &Node {
        self
    }
}

impl Noded for Station {
    fn node(&self) -> &Node {
        Station::node(self)
    }
}

/// Returns the overlay address of the `i`-th node.
pub(crate) fn address(i: usize) -> NodeAddr {
    NodeAddr(0x0a07_0001 + i as u32)
}

/// Returns why the nodes on these hosts are not a complete network, or `None`. The `i`-th node has the `i`-th address;
/// nodes that are down do not count.
pub(crate) fn complaint<E: Noded>(world: &World<E>, hosts: &[HostId]) -> Option<String> {
    views_complaint(world, hosts).or_else(|| routes_complaint(world, hosts))
}

/// Finds two nodes that have different records.
fn views_complaint<E: Noded>(world: &World<E>, hosts: &[HostId]) -> Option<String> {
    let mut running = nodes(world, hosts);
    let (first, node) = running.next()?;
    let differs = |other: &Node| !other.database().keys().eq(node.database().keys());
    let (other, _) = running.find(|(_, other)| differs(other))?;
    Some(format!("nodes {first} and {other} know different records"))
}

/// Finds a node without a route to another, or a route that leads in a circle, by any metric.
pub(crate) fn routes_complaint<E: Noded>(world: &World<E>, hosts: &[HostId]) -> Option<String> {
    let running: Vec<(usize, &Node)> = nodes(world, hosts).collect();
    for metric in Metric::ALL {
        for &(to, _) in &running {
            // For each node, whether a packet at that node arrives.
            let mut arrives = vec![false; hosts.len()];
            arrives[to] = true;
            for &(from, _) in &running {
                let (mut at, mut path) = (from, Vec::new());
                while !arrives[at] {
                    path.push(at);
                    if path.len() > hosts.len() {
                        return Some(format!("{metric}: a loop from {from} to {to}"));
                    }
                    let hop = world
                        .engine(hosts[at])
                        .and_then(|engine| engine.node().next_hop(metric, address(to)));
                    let Some(hop) = hop else {
                        return Some(format!("{metric}: node {at} has no route to {to}"));
                    };
                    at = (hop.0 - address(0).0) as usize;
                }
                path.into_iter().for_each(|at| arrives[at] = true);
            }
        }
    }
    None
}

fn nodes<'w, E: Noded>(
    world: &'w World<E>,
    hosts: &'w [HostId],
) -> impl Iterator<Item = (usize, &'w Node)> {
    let hosts = hosts.iter().enumerate();
    hosts.filter_map(|(i, host)| Some((i, world.engine(*host)?.node())))
}
