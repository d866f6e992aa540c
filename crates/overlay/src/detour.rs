//! Detours around a link that is in doubt: the neighbours to which copies go while it is unknown whether the link still
//! carries packets.
//!
//! ```text
//!        0          150 ms                    420 ms                       silence of the link
//!   ─────┼────────────┼─────────────────────────┼──────────────────────▶
//!   sent │ lost       │ lost, and a copy by     │ by the other way alone:
//!        │            │ another way arrives     │ the link is down
//! ```
//! Before a node gives up a link that falls silent, it probes the link ([`crate::hello`]), because most silences are a
//! few lost hellos. If it is an outage, packets sent meanwhile are lost. So as long as the link is in doubt, the node
//! sends real-time packets twice: over the link, and to the neighbour that is next on the best path without it. That
//! neighbour does not know of the doubt and follows its own tables. So the node uses it only if the neighbour's own
//! path leads neither back here nor over the link (RFC 5286 calls it a loop-free alternate). A node that gets both
//! copies drops the second, as it drops any packet of a flow that it has seen.
//!
//! The link may also be one farther along the path, if its near end has no such neighbour and has reported that
//! ([`crate::doubts`]).
//!
//! Choice: the papers wait until the hello protocol has declared the link down.

use base::{Duration, Map, NodeAddr, Time};
use graph::spf::Tree;
use graph::{Metric, NodeIndex, Topology};

/// The most links in doubt for which detours are kept. If more are in doubt at once, the whole host is cut off.
const LINKS_MAX: usize = 8;
/// The most neighbours per link in doubt that are checked for whether they lead back: each costs a tree.
const NEIGHBORS_MAX: usize = 4;
/// The shortest time before detours are computed anew for another topology. If the topology changes faster, the old
/// ones stay in use. One computation for a thousand nodes takes less than a millisecond.
const ANEW_AFTER: Duration = Duration::from_millis(50);

/// A link in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Where it begins.
    pub from: NodeAddr,
    /// Where it ends.
    pub to: NodeAddr,
}

/// The detours around links, from one node.
#[derive(Debug, Default)]
pub struct Detours {
    entries: Vec<Entry>,
    /// After trees were computed for one link, none are computed for another link for this long.
    rest: Duration,
    rests_until: Time,
}

#[derive(Debug)]
struct Entry {
    edge: Edge,
    metric: Metric,
    /// The topology for which the entry was computed.
    generation: u64,
    at: Time,
    /// The paths of this node without the link.
    tree: Tree,
    /// The paths of the neighbours that are next on these paths.
    neighbors: Vec<(NodeIndex, Tree)>,
    /// The next hops found so far, by destination.
    next: Map<NodeAddr, Option<NodeAddr>>,
}

impl Detours {
    /// Creates detours that packets of other nodes may ask for: they are computed only at intervals. Choice: a tree for
    /// the link and four for neighbours in 50 ms take at most a tenth of a node's time in a network of a thousand
    /// nodes, whatever the others send.
    pub fn resting() -> Detours {
        Detours {
            rest: ANEW_AFTER,
            ..Detours::default()
        }
    }

    /// Returns the neighbour that brings packets of `own` to `to` although a link may carry nothing, or none if there
    /// is no such neighbour. `topology` is that of `generation`.
    pub fn next_hop(
        &mut self,
        now: Time,
        (own, edge, metric): (NodeAddr, Edge, Metric),
        to: NodeAddr,
        (generation, topology): (u64, &Topology),
    ) -> Option<NodeAddr> {
        let is_of = |entry: &Entry| (entry.edge, entry.metric) == (edge, metric);
        let place = match self.entries.iter().position(is_of) {
            Some(place) => place,
            None => {
                if now < self.rests_until {
                    return None;
                }
                self.rests_until = now + self.rest;
                let entry = Entry::new(now, (own, edge, metric), generation, topology)?;
                if self.entries.len() >= LINKS_MAX {
                    self.entries.remove(0);
                }
                self.entries.push(entry);
                self.entries.len() - 1
            }
        };
        let entry = &mut self.entries[place];
        let is_old = entry.generation != generation;
        if is_old && now.since(entry.at) >= ANEW_AFTER && now >= self.rests_until {
            self.rests_until = now + self.rest;
            *entry = Entry::new(now, (own, edge, metric), generation, topology)?;
        }
        let is_old = entry.generation != generation;
        if let Some(known) = entry.next.get(&to) {
            return *known;
        }
        if is_old {
            // The indices of the entry may mean other nodes by now.
            return None;
        }
        let found = entry.find(topology, to);
        entry.next.insert(to, found);
        found
    }
}

impl Entry {
    fn new(
        now: Time,
        (own, edge, metric): (NodeAddr, Edge, Metric),
        generation: u64,
        topology: &Topology,
    ) -> Option<Entry> {
        let root = topology.index(own)?;
        let ends = (topology.index(edge.from)?, topology.index(edge.to)?);
        let tree = Tree::without(topology, root, metric, |from, to| (from, to) == ends);
        Some(Entry {
            edge,
            metric,
            generation,
            at: now,
            tree,
            neighbors: Vec::new(),
            next: Map::default(),
        })
    }

    fn find(&mut self, topology: &Topology, to: NodeAddr) -> Option<NodeAddr> {
        let to = topology.index(to)?;
        if self.tree.distance(to)?.is_silent() {
            return None;
        }
        let next = self.tree.next_hop(to)?;
        if !self.neighbors.iter().any(|(node, _)| *node == next) {
            if self.neighbors.len() >= NEIGHBORS_MAX {
                return None;
            }
            let tree = Tree::new(topology, next, self.metric);
            self.neighbors.push((next, tree));
        }
        let (_, tree) = self.neighbors.iter().find(|(node, _)| *node == next)?;
        let own = topology.addr(self.tree.root());
        let leads_back = path(topology, tree, to).any(|edge| edge.from == own || edge == self.edge);
        (!leads_back).then(|| topology.addr(next))
    }
}

/// Returns the links of a tree's path to a node, the last one first.
pub fn path(topology: &Topology, tree: &Tree, to: NodeIndex) -> impl Iterator<Item = Edge> {
    let mut node = to;
    core::iter::from_fn(move || {
        let before = tree.parent(node)?;
        let edge = Edge {
            from: topology.addr(before),
            to: topology.addr(node),
        };
        node = before;
        Some(edge)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::metric::{LinkCost, Parameters};

    const NODES: [NodeAddr; 4] = [NodeAddr(1), NodeAddr(2), NodeAddr(3), NodeAddr(4)];

    /// Creates links in both directions, each with its delay in milliseconds.
    fn topology(links: &[(usize, usize, u32)]) -> Topology {
        let both = links.iter().flat_map(|&(a, b, ms)| {
            let cost = LinkCost::new(ms * 1_000, 0.0);
            [(NODES[a], NODES[b], cost), (NODES[b], NODES[a], cost)]
        });
        Topology::from_links(Parameters::default(), both)
    }

    const FIRST: Edge = Edge {
        from: NODES[0],
        to: NODES[1],
    };

    fn around(topology: &Topology, to: usize) -> Option<NodeAddr> {
        around_link(topology, FIRST, to)
    }

    fn around_link(topology: &Topology, link: Edge, to: usize) -> Option<NodeAddr> {
        let doubt = (NODES[0], link, Metric::ExpectedLatency);
        Detours::default().next_hop(Time::ZERO, doubt, NODES[to], (1, topology))
    }

    #[test]
    fn copies_go_to_a_neighbour_whose_path_does_not_lead_back() {
        // A triangle, and a node behind the link in doubt.
        let triangle = topology(&[(0, 1, 10), (0, 2, 10), (1, 2, 10), (1, 3, 10)]);
        assert_eq!(around(&triangle, 1), Some(NODES[2]));
        assert_eq!(around(&triangle, 3), Some(NODES[2]));
        // The third node's own path to the second leads over the first.
        let far = topology(&[(0, 1, 10), (0, 2, 10), (1, 2, 90)]);
        assert_eq!(around(&far, 1), None);
        // There is no other way.
        let chain = topology(&[(0, 1, 10), (1, 2, 10), (2, 3, 10)]);
        assert_eq!(around(&chain, 3), None);
        assert_eq!(around(&chain, 1), None);
    }

    #[test]
    fn copies_avoid_a_link_farther_on() {
        // The short path to the third node leads over the second, whose other path leads back.
        let topology = topology(&[(0, 1, 4), (1, 2, 4), (0, 2, 75), (0, 3, 5), (3, 1, 5)]);
        let far = Edge {
            from: NODES[1],
            to: NODES[2],
        };
        assert_eq!(around_link(&topology, far, 2), Some(NODES[2]));
        // A node that is not behind the link is reached as before.
        assert_eq!(around_link(&topology, far, 1), Some(NODES[1]));
        // The fourth node's own path uses the link too.
        let near = self::topology(&[(0, 1, 4), (1, 2, 4), (0, 3, 5), (3, 1, 5), (3, 2, 90)]);
        assert_eq!(around_link(&near, far, 2), None);
    }

    #[test]
    fn another_topology_is_looked_at_after_a_while() {
        let doubt = (NODES[0], FIRST, Metric::ExpectedLatency);
        let triangle = topology(&[(0, 1, 10), (0, 2, 10), (1, 2, 10)]);
        let chain = topology(&[(0, 1, 10), (1, 2, 10)]);
        let mut detours = Detours::default();
        let mut ask = |ms, generation, topology: &Topology| {
            let now = Time::ZERO + Duration::from_millis(ms);
            detours.next_hop(now, doubt, NODES[1], (generation, topology))
        };
        assert_eq!(ask(0, 1, &triangle), Some(NODES[2]));
        assert_eq!(ask(49, 2, &chain), Some(NODES[2]));
        assert_eq!(ask(50, 2, &chain), None);
        assert_eq!(ask(60, 3, &triangle), None);
        assert_eq!(ask(100, 3, &triangle), Some(NODES[2]));
    }

    #[test]
    fn what_others_send_has_a_tree_computed_now_and_then_and_not_for_each_packet() {
        let square = topology(&[(0, 1, 10), (0, 2, 10), (0, 3, 10), (1, 2, 10), (2, 3, 10)]);
        let edge = |to: usize| Edge {
            to: NODES[to],
            ..FIRST
        };
        let asked = |ways: &mut Detours, ms: u64, edge, to: usize| {
            let now = Time::ZERO + Duration::from_millis(ms);
            let without = (NODES[0], edge, Metric::ExpectedLatency);
            ways.next_hop(now, without, NODES[to], (1, &square))
        };
        let mut ways = Detours::resting();
        assert_eq!(asked(&mut ways, 0, edge(1), 1), Some(NODES[2]));
        assert_eq!(asked(&mut ways, 49, edge(3), 3), None, "it rests");
        assert_eq!(
            asked(&mut ways, 49, edge(1), 1),
            Some(NODES[2]),
            "it is known"
        );
        assert_eq!(asked(&mut ways, 50, edge(3), 3), Some(NODES[2]));
        // Links in doubt do not wait for each other.
        let mut ways = Detours::default();
        assert!(asked(&mut ways, 0, edge(1), 1).is_some());
        assert!(asked(&mut ways, 0, edge(3), 3).is_some());
    }
}
