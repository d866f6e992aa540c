//! The node whose clock a network follows, and the neighbor nearest to that node.
//!
//! Nodes pass the clock on along a tree from the reference node. A link of the tree is assumed to have the same delay
//! in both directions. So the tree minimises round trips, and the present cost of a direction does not change it.

use crate::topology::{NodeIndex, Topology};
use base::NodeAddr;
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// The reference node, as one node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The node with the lowest address that can be reached over links whose other end is heard.
    pub node: NodeAddr,
    /// The first hop of the path to the reference with the shortest round trip; `None` at the reference itself.
    pub by: Option<NodeAddr>,
}

/// Returns the reference of the node `from`, with one run of Dijkstra's algorithm over round trips.
pub fn reference(topology: &Topology, from: NodeAddr) -> Reference {
    let own = Reference {
        node: from,
        by: None,
    };
    let Some(root) = topology.index(from) else {
        return own;
    };
    let mut settled = vec![false; topology.node_count()];
    let mut heap = BinaryHeap::from([Reverse((0u64, root, None::<NodeIndex>))]);
    let mut lowest = own;
    while let Some(Reverse((distance, node, first))) = heap.pop() {
        if core::mem::replace(&mut settled[node.place()], true) {
            continue;
        }
        if topology.addr(node) < lowest.node {
            lowest = Reference {
                node: topology.addr(node),
                by: first.map(|hop| topology.addr(hop)),
            };
        }
        for edge in topology.links_from(node) {
            let Some(back) = topology.link(edge.peer, node) else {
                continue;
            };
            if settled[edge.peer.place()] || edge.link.is_silent() || back.link.is_silent() {
                continue;
            }
            let round_trip = u64::from(edge.link.latency_us) + u64::from(back.link.latency_us);
            let first = first.unwrap_or(edge.peer);
            heap.push(Reverse((
                distance + round_trip.max(1),
                edge.peer,
                Some(first),
            )));
        }
    }
    lowest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{LinkCost, Parameters};

    const fn node(n: u32) -> NodeAddr {
        NodeAddr(n)
    }

    #[test]
    fn the_lowest_address_counts_and_the_shortest_round_trip_leads_there() {
        let link = |a, b, there_ms: u32, back_ms: u32| {
            [
                (node(a), node(b), LinkCost::new(there_ms * 1_000, 0.0)),
                (node(b), node(a), LinkCost::new(back_ms * 1_000, 0.0)),
            ]
        };
        // The link 3-1 is the shortest in one direction, but its round trip is the longest.
        let links = [link(3, 1, 1, 90), link(3, 2, 20, 20), link(2, 1, 20, 20)];
        let mut topology = Topology::from_links(Parameters::default(), links.concat());
        let by = |topology: &Topology, from| {
            let reference = reference(topology, node(from));
            (reference.node.0, reference.by.map(|hop| hop.0))
        };
        assert_eq!(by(&topology, 3), (1, Some(2)));
        assert_eq!(by(&topology, 2), (1, Some(1)));
        assert_eq!(by(&topology, 1), (1, None));
        assert_eq!(by(&topology, 9), (9, None));
        // A link that only one end hears is not used.
        topology.set_link(node(1), node(2), None);
        assert_eq!(by(&topology, 3), (1, Some(1)));
        topology.set_link(node(3), node(1), None);
        assert_eq!(by(&topology, 3), (2, Some(2)));
    }
}
