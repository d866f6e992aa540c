//! The data that a source stamps into packets when it chooses their path itself: the links of several paths together,
//! in an order that proves that they have no cycle. The encoding is not part of this module.
//!
//! ```text
//!   path        s ─▶ a ─▶ b ─▶ t               a node knows the one next node
//!
//!   subgraph    s ─▶ a ─▶ t                    a node forwards the first copy along each of its
//!                ╲   │                         links in the stamp, and drops later copies of the
//!                 ▶  b ─▶ t                    packet by (source, flow, sequence number)
//! ```
//!
//! One subgraph serves single paths, k disjoint paths, dissemination graphs and source trees. Each node comes before
//! all nodes that its links lead to. So copies end by themselves, even at nodes that have forgotten which packets they
//! have seen, and a node that reads a stamp can check the order. A link is named by the addresses of its ends: link
//! numbers would mean different links to nodes whose view of the topology differs while it changes.

use base::NodeAddr;
use std::collections::{BTreeMap, BTreeSet};

/// Several nodes and directed links between them, without cycles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subgraph {
    /// The nodes, each before those to which its links lead.
    pub nodes: Vec<NodeAddr>,
    /// The links, as the positions of their ends in `nodes`, sorted, each once.
    pub links: Vec<(usize, usize)>,
}

/// The links form a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the paths lead in a circle that comes by {0}")]
pub struct Circle(pub NodeAddr);

impl Subgraph {
    /// Returns the links of several paths together, such as disjoint ones.
    pub fn of_paths<P: AsRef<[NodeAddr]>>(paths: &[P]) -> Result<Subgraph, Circle> {
        let mut next: BTreeMap<NodeAddr, BTreeSet<NodeAddr>> = BTreeMap::new();
        let mut ways_in: BTreeMap<NodeAddr, usize> = BTreeMap::new();
        for hop in paths.iter().flat_map(|path| path.as_ref().windows(2)) {
            ways_in.entry(hop[0]).or_default();
            let ways = ways_in.entry(hop[1]).or_default();
            if next.entry(hop[0]).or_default().insert(hop[1]) {
                *ways += 1;
            }
        }
        let nodes = in_order(&next, ways_in)?;
        let places: BTreeMap<NodeAddr, usize> = nodes.iter().copied().zip(0..).collect();
        let places = &places;
        let links = next
            .iter()
            .flat_map(|(from, all)| all.iter().map(move |to| (places[from], places[to])));
        let mut links: Vec<(usize, usize)> = links.collect();
        links.sort_unstable();
        Ok(Subgraph { nodes, links })
    }

    /// Returns the links as the addresses of their ends.
    pub fn ends(&self) -> impl Iterator<Item = (NodeAddr, NodeAddr)> {
        let links = self.links.iter();
        links.map(|&(from, to)| (self.nodes[from], self.nodes[to]))
    }
}

/// Sorts the nodes: repeatedly removes the node with the lowest address of those that no link leads to.
fn in_order(
    next: &BTreeMap<NodeAddr, BTreeSet<NodeAddr>>,
    mut ways_in: BTreeMap<NodeAddr, usize>,
) -> Result<Vec<NodeAddr>, Circle> {
    let free = ways_in.iter().filter(|(_, ways)| **ways == 0);
    let mut free: BTreeSet<NodeAddr> = free.map(|(node, _)| *node).collect();
    let mut order = Vec::new();
    while let Some(node) = free.pop_first() {
        ways_in.remove(&node);
        order.push(node);
        for to in next.get(&node).into_iter().flatten() {
            if let Some(ways) = ways_in.get_mut(to) {
                *ways -= 1;
                if *ways == 0 {
                    free.insert(*to);
                }
            }
        }
    }
    match ways_in.first_key_value() {
        Some((left, _)) => Err(Circle(*left)),
        None => Ok(order),
    }
}
