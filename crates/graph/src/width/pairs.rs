//! The widest paths of few links between all pairs of nodes. [Liu04 §IV-B]
//!
//! The paper's recursion, from the bottom up: a path of at most k links from s to t consists of a link to a neighbor s'
//! and a path of at most k−1 links from there.

use super::Width;
use crate::metric::Metric;
use crate::paths::{Path, price};
use crate::topology::{NodeIndex, Topology};

/// For each s and t: the width of the widest path, and the node after s on it.
type Table = Vec<(Width, NodeIndex)>;

/// The widest paths between all pairs, of at most a given number of links.
#[derive(Clone, Debug)]
pub struct AllPairs {
    nodes: usize,
    /// One table for each number of links from 1, with 16 bytes for each pair. The last table is the first beyond which
    /// no width grows, or the limit.
    tables: Vec<Table>,
}

/// Returns the widest paths of at most `hops` links between all pairs. Each step looks at every link once for each
/// destination.
pub fn all_pairs_within(topology: &Topology, hops: usize) -> AllPairs {
    let nodes = topology.node_count();
    let at = |s: NodeIndex, t: NodeIndex| s.place() * nodes + t.place();
    let mut first: Table = topology
        .nodes()
        .flat_map(|s| std::iter::repeat_n((Width::NONE, s), nodes))
        .collect();
    for s in topology.nodes() {
        // Choice: the width from a node to itself is unlimited; the paper leaves it open.
        first[at(s, s)].0 = Width::UNLIMITED;
        // if <s,t> ∈ E then W[s,t,1] ← B(s,t) else W[s,t,1] ← 0 [Liu04 §IV-B]
        for edge in topology.links_from(s).iter().filter(|_| hops > 0) {
            first[at(s, edge.peer)] = (edge.width(), edge.peer);
        }
    }
    let mut tables = vec![first];
    for _ in 2..=hops.min(nodes) {
        let before = &tables[tables.len() - 1];
        let mut table = before.clone();
        for s in topology.nodes() {
            for edge in topology.links_from(s) {
                for t in topology.nodes() {
                    // WP(s') = min{W[s',t,k-1], B(s,s')}, ∀ s' ∈ N(s);
                    // W[s,t,k] = max{W[s,t,k-1], max WP(s')}
                    let wide = before[at(edge.peer, t)].0.min(edge.width());
                    // Links are sorted by the address of the far end, so of equal ones the lowest stays.
                    if wide > table[at(s, t)].0 {
                        table[at(s, t)] = (wide, edge.peer);
                    }
                }
            }
        }
        if table == *before {
            break;
        }
        tables.push(table);
    }
    AllPairs { nodes, tables }
}

impl AllPairs {
    /// Returns the width of the widest path from `s` to `t`; [`Width::NONE`] if none is short enough.
    pub fn width(&self, s: NodeIndex, t: NodeIndex) -> Width {
        self.entry(self.tables.len() - 1, s, t).0
    }

    /// Returns the path, priced by `metric`; `None` if none is short enough. Of equally wide paths it has the fewest
    /// links.
    pub fn path(
        &self,
        topology: &Topology,
        s: NodeIndex,
        t: NodeIndex,
        metric: Metric,
    ) -> Option<Path> {
        if self.width(s, t) == Width::NONE {
            return None;
        }
        let (mut at, mut table) = (s, self.tables.len() - 1);
        let mut nodes = vec![s];
        while at != t {
            // This finds the table in which this width first appears: from the next node, one link less is needed.
            while table > 0 && self.entry(table - 1, at, t).0 == self.entry(table, at, t).0 {
                table -= 1;
            }
            at = self.entry(table, at, t).1;
            table = table.saturating_sub(1);
            nodes.push(at);
        }
        Some(price(topology, metric, &nodes))
    }

    fn entry(&self, table: usize, s: NodeIndex, t: NodeIndex) -> (Width, NodeIndex) {
        self.tables[table][s.place() * self.nodes + t.place()]
    }
}
