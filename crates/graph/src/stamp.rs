//! What a source stamps into packets when it decides itself where they go: the links of some
//! paths together, in an order that shows that they have no cycle. No bytes here.
//!
//! ```text
//!   path        s ─▶ a ─▶ b ─▶ t               a node knows the one next node
//!
//!   subgraph    s ─▶ a ─▶ t                    a node forwards the first copy along each of its
//!                ╲   │                         links in the stamp, and drops later copies of the
//!                 ▶  b ─▶ t                    packet by (source, flow, sequence number)
//! ```
//!
//! One subgraph serves single and k disjoint paths, dissemination graphs and source trees. Nodes
//! stand in it before all that their links lead to, so copies end by themselves, even at nodes that
//! have forgotten what they have seen, and a node that reads a stamp can see that. Links are told
//! by the addresses of their ends: numbers for links would mean other ones to nodes whose view of
//! the topology differs while it changes.

use base::NodeAddr;
use std::collections::{BTreeMap, BTreeSet};

/// Some nodes and directed links between them, without cycles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subgraph {
    /// Every node before those to which its links lead.
    pub nodes: Vec<NodeAddr>,
    /// The links by the places of their ends among the nodes, in order, each once.
    pub links: Vec<(usize, usize)>,
}

/// The links lead in a circle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the paths lead in a circle that comes by {0}")]
pub struct Circle(pub NodeAddr);

impl Subgraph {
    /// The links of some paths together, such as disjoint ones.
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

    /// The links by their ends.
    pub fn ends(&self) -> impl Iterator<Item = (NodeAddr, NodeAddr)> {
        let links = self.links.iter();
        links.map(|&(from, to)| (self.nodes[from], self.nodes[to]))
    }
}

/// Takes away nodes that nothing leads to, again and again, the lowest address first.
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
