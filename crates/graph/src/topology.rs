//! The graph that the link-state database describes: directed links between nodes, with their
//! costs under every metric.
//!
//! Nodes have dense indices. A node gets its index when it is first mentioned and keeps it, so trees are plain arrays.
//! A link is stored at both of its ends: trees grow along outgoing links and repair themselves along incoming ones.
//! Both lists are sorted by the address of the other node, so what is built from a topology does not depend on the
//! order in which its links were learnt.

use crate::metric::{self, Cost, LinkCost, Metric, Parameters};
use crate::width::model::{self, Formula};
use crate::width::{Known, Width};
use base::{Map, NodeAddr};

/// The position of a node in the arrays of one topology and of the trees over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub(crate) u32);

/// A link that was added or removed, or whose cost has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// The node where the link begins.
    pub from: NodeIndex,
    /// The node where the link ends.
    pub to: NodeIndex,
}

/// A link as seen from one of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The node at the other end.
    pub peer: NodeIndex,
    /// The known properties of the link.
    pub link: LinkCost,
    costs: [Cost; 4],
    width: Width,
}

/// Nodes and directed links.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    parameters: Parameters,
    addrs: Vec<NodeAddr>,
    indices: Map<NodeAddr, NodeIndex>,
    out: Vec<Vec<Edge>>,
    into: Vec<Vec<Edge>>,
    links: usize,
    /// Additional knowledge about links, for bulk data. Most links have no entry.
    known: Map<(NodeIndex, NodeIndex), Known>,
    /// The nodes that do not relay bulk data.
    shut: std::collections::BTreeSet<NodeIndex>,
    /// How busy the other relaying nodes are, in quarters of their relay capacity.
    busy: std::collections::BTreeMap<NodeIndex, u8>,
    /// Number of significant bits of widths, if widths are quantised.
    width_bits: Option<u32>,
    formula: Formula,
}

impl Topology {
    /// Creates a topology without nodes.
    pub fn new(parameters: Parameters) -> Topology {
        Topology {
            parameters,
            ..Topology::default()
        }
    }

    /// Builds a topology of the given links. If several links join the same two nodes, the last one counts.
    pub fn from_links(
        parameters: Parameters,
        links: impl IntoIterator<Item = (NodeAddr, NodeAddr, LinkCost)>,
    ) -> Topology {
        let mut topology = Topology::new(parameters);
        for (from, to, link) in links {
            topology.set_link(from, to, Some(link));
        }
        topology
    }

    /// Adds the link, changes its cost, or removes it (`None`). Returns the change to apply to the trees, or `None` if
    /// nothing changed. A link from a node to itself is ignored.
    pub fn set_link(
        &mut self,
        from: NodeAddr,
        to: NodeAddr,
        link: Option<LinkCost>,
    ) -> Option<Change> {
        if from == to {
            return None;
        }
        let (from, to) = match link {
            Some(_) => (self.add_node(from), self.add_node(to)),
            None => (self.index(from)?, self.index(to)?),
        };
        self.set(from, to, link).then_some(Change { from, to })
    }

    /// Makes `links` the outgoing links of `from`: links that are not listed are removed. The changes are appended to
    /// `changes`.
    pub fn set_links_of(
        &mut self,
        from: NodeAddr,
        links: &[(NodeAddr, LinkCost)],
        changes: &mut Vec<Change>,
    ) {
        let from_index = self.add_node(from);
        let gone: Vec<NodeAddr> = self
            .links_from(from_index)
            .iter()
            .map(|edge| self.addr(edge.peer))
            .filter(|addr| links.iter().all(|(to, _)| to != addr))
            .collect();
        changes.extend(
            gone.into_iter()
                .filter_map(|to| self.set_link(from, to, None)),
        );
        for &(to, link) in links {
            changes.extend(self.set_link(from, to, Some(link)));
        }
    }

    /// Records additional knowledge about a link for bulk data: its capacity, the rates that transfers have measured,
    /// and the physical links that it crosses. The knowledge stays with the link until the link is removed. Returns the
    /// change to apply to the trees if this changes the width of the link.
    pub fn set_known(&mut self, from: NodeAddr, to: NodeAddr, known: Known) -> Option<Change> {
        let (from, to) = (self.index(from)?, self.index(to)?);
        let before = *self.link(from, to)?;
        if known == Known::default() {
            self.known.remove(&(from, to));
        } else {
            self.known.insert((from, to), known);
        }
        let width = self.width_of(from, to, before.link);
        if width == before.width {
            return None;
        }
        self.replace_width(from, to, width);
        Some(Change { from, to })
    }

    /// Returns the additional knowledge about a link for bulk data.
    pub fn known(&self, from: NodeIndex, to: NodeIndex) -> Known {
        self.known.get(&(from, to)).copied().unwrap_or_default()
    }

    /// Records whether a node refuses to relay bulk data. A node refuses if it has reached its limit, or if it does not
    /// want to relay.
    pub fn set_shut(&mut self, node: NodeAddr, is_shut: bool) {
        if let Some(index) = self.index(node) {
            match is_shut {
                true => self.shut.insert(index),
                false => self.shut.remove(&index),
            };
        }
    }

    /// Returns true if the node does not relay bulk data.
    pub fn is_shut(&self, node: NodeIndex) -> bool {
        self.shut.contains(&node)
    }

    /// Records how busy a node is with relaying: the number of quarters of its capacity that are taken.
    pub fn set_busy(&mut self, node: NodeAddr, quarters: u8) {
        if let Some(index) = self.index(node) {
            match quarters {
                0 => self.busy.remove(&index),
                _ => self.busy.insert(index, quarters),
            };
        }
    }

    /// Returns how busy a node is with relaying, in quarters.
    pub fn busy(&self, node: NodeIndex) -> u8 {
        self.busy.get(&node).copied().unwrap_or(0)
    }

    /// Returns the relay topology of transfers that begin at `from`. It lacks the nodes that do not relay; these can
    /// still be source or destination [Liu04 §IV-D], so they keep the links that lead to them.
    #[must_use]
    pub fn relaying(&self, from: NodeIndex) -> Topology {
        self.relaying_below(from, u8::MAX)
    }

    /// Returns the same topology, also without the nodes of which this number of quarters, or more, is taken.
    #[must_use]
    pub(crate) fn relaying_below(&self, from: NodeIndex, quarters: u8) -> Topology {
        let mut reduced = self.clone();
        let busy = self.busy.iter().filter(|(_, busy)| **busy >= quarters);
        let mut out: std::collections::BTreeSet<_> = busy.map(|(node, _)| *node).collect();
        out.extend(&self.shut);
        for &node in out.iter().filter(|node| **node != from) {
            let ends = self.links_from(node).iter().map(|edge| edge.peer);
            for to in ends {
                reduced.set_link(self.addr(node), self.addr(to), None);
            }
        }
        reduced
    }

    /// Returns the number of physical links that is assumed for a link whose number is not known: the median of the
    /// known numbers, or the larger of the two middle ones. It is 1 where no number is known.
    ///
    /// Choice: with 1, a link would look short because nobody has measured it. With a large number, it would never be
    /// used. Where nothing is known at all, physical hops are the same as logical hops.
    pub fn assumed_hops(&self) -> u16 {
        let known = self.known.values();
        let mut hops: Vec<u16> = known.filter_map(|known| known.physical_hops).collect();
        match hops.len() {
            0 => 1,
            many => *hops.select_nth_unstable(many / 2).1,
        }
    }

    /// Keeps only this number of significant bits of every width, so that small differences between links decide
    /// nothing [Liu04 §IV-A]. `None` keeps all bits. The caller must build trees over this topology anew.
    pub fn quantise_widths(&mut self, bits: Option<u32>) {
        self.width_bits = bits;
        self.predict_widths();
    }

    /// Predicts widths with this formula from now on, and updates the widths of all existing links.
    pub fn predict_by(&mut self, formula: Formula) {
        self.formula = formula;
        self.predict_widths();
    }

    /// Returns the formula that predicts widths.
    pub fn formula(&self) -> Formula {
        self.formula
    }

    fn predict_widths(&mut self) {
        let all: Vec<(NodeIndex, NodeIndex, LinkCost)> = self
            .nodes()
            .flat_map(|from| {
                let edges = self.links_from(from).iter();
                edges.map(move |edge| (from, edge.peer, edge.link))
            })
            .collect();
        for (from, to, link) in all {
            let width = self.width_of(from, to, link);
            self.replace_width(from, to, width);
        }
    }

    fn width_of(&self, from: NodeIndex, to: NodeIndex, link: LinkCost) -> Width {
        let width = model::of_known(self.formula, link, self.known(from, to));
        self.width_bits.map_or(width, |bits| width.quantised(bits))
    }

    fn replace_width(&mut self, from: NodeIndex, to: NodeIndex, width: Width) {
        let ends = [
            (&mut self.out[from.place()], to),
            (&mut self.into[to.place()], from),
        ];
        for (edges, peer) in ends {
            for edge in edges.iter_mut().filter(|edge| edge.peer == peer) {
                edge.width = width;
            }
        }
    }

    /// Returns the node's index. Adds the node if it is not known yet.
    pub fn add_node(&mut self, addr: NodeAddr) -> NodeIndex {
        let next = NodeIndex(self.addrs.len() as u32);
        let index = *self.indices.entry(addr).or_insert(next);
        if index == next {
            self.addrs.push(addr);
            self.out.push(Vec::new());
            self.into.push(Vec::new());
        }
        index
    }

    /// Returns the node's index, if the node was ever mentioned.
    pub fn index(&self, addr: NodeAddr) -> Option<NodeIndex> {
        self.indices.get(&addr).copied()
    }

    /// Returns the node's address.
    pub fn addr(&self, node: NodeIndex) -> NodeAddr {
        self.addrs[node.place()]
    }

    /// Returns the number of nodes that were ever mentioned.
    pub fn node_count(&self) -> usize {
        self.addrs.len()
    }

    /// Returns the number of directed links.
    pub fn link_count(&self) -> usize {
        self.links
    }

    /// Returns every node, in order of first mention.
    pub fn nodes(&self) -> impl Iterator<Item = NodeIndex> + use<> {
        (0..self.addrs.len() as u32).map(NodeIndex)
    }

    /// Returns the links that begin at `node`, sorted by the address of the far end.
    pub fn links_from(&self, node: NodeIndex) -> &[Edge] {
        &self.out[node.place()]
    }

    /// Returns the links that end at `node`, sorted by the address of the far end.
    pub fn links_to(&self, node: NodeIndex) -> &[Edge] {
        &self.into[node.place()]
    }

    /// Returns the link between two nodes, if there is one.
    pub fn link(&self, from: NodeIndex, to: NodeIndex) -> Option<&Edge> {
        let edges = &self.out[from.place()];
        let at = place_of(&self.addrs, edges, self.addr(to)).ok()?;
        Some(&edges[at])
    }

    /// Returns the parameters that the expected latency depends on besides the links.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Adds, changes or removes a link. Returns true if something changed.
    fn set(&mut self, from: NodeIndex, to: NodeIndex, link: Option<LinkCost>) -> bool {
        // Records mostly repeat known values, so costs are computed only for new values.
        if link.is_some() && self.link(from, to).map(|edge| edge.link) == link {
            return false;
        }
        if link.is_none() {
            self.known.remove(&(from, to));
        }
        let edge = |peer| {
            link.map(|link| Edge {
                peer,
                link,
                costs: Metric::ALL.map(|m| metric::cost(m, link, &self.parameters)),
                width: self.width_of(from, to, link),
            })
        };
        let (out, into) = (edge(to), edge(from));
        let before = self.out[from.place()].len();
        if !put(&self.addrs, &mut self.out[from.place()], to, out) {
            return false;
        }
        put(&self.addrs, &mut self.into[to.place()], from, into);
        self.links = self.links + self.out[from.place()].len() - before;
        true
    }
}

impl NodeIndex {
    /// Returns the index as a position in an array.
    pub fn place(self) -> usize {
        self.0 as usize
    }
}

impl Edge {
    /// Returns the cost of the link under a metric.
    #[inline]
    pub fn cost(&self, metric: Metric) -> Cost {
        self.costs[metric.index()]
    }

    /// Returns the rate of one TCP connection over the link: the measured rate, or the rate that the model predicts.
    #[inline]
    pub fn width(&self) -> Width {
        self.width
    }
}

fn place_of(addrs: &[NodeAddr], edges: &[Edge], addr: NodeAddr) -> Result<usize, usize> {
    edges.binary_search_by_key(&addr, |edge| addrs[edge.peer.place()])
}

/// Puts `edge` into the list of edges, or removes the edge to `peer`. Returns true if the list changed.
fn put(addrs: &[NodeAddr], edges: &mut Vec<Edge>, peer: NodeIndex, edge: Option<Edge>) -> bool {
    match (place_of(addrs, edges, addrs[peer.place()]), edge) {
        (Ok(at), Some(edge)) if edges[at] == edge => false,
        (Ok(at), Some(edge)) => {
            edges[at] = edge;
            true
        }
        (Ok(at), None) => {
            edges.remove(at);
            true
        }
        (Err(at), Some(edge)) => {
            edges.insert(at, edge);
            true
        }
        (Err(_), None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(latency_us: u32) -> LinkCost {
        LinkCost::new(latency_us, 0.0)
    }

    #[test]
    fn links_are_added_changed_and_removed_at_both_ends() {
        let [a, b, c] = [3, 1, 2].map(NodeAddr);
        let mut t = Topology::new(Parameters::default());
        let change = t.set_link(a, b, Some(link(5))).unwrap();
        assert_eq!((t.addr(change.from), t.addr(change.to)), (a, b));
        assert_eq!(t.set_link(a, b, Some(link(5))), None, "as it was");
        assert!(t.set_link(a, b, Some(link(6))).is_some());
        assert!(t.set_link(a, c, Some(link(7))).is_some());
        assert_eq!(t.set_link(a, a, Some(link(7))), None);
        assert_eq!(t.set_link(b, a, None), None, "the other direction");
        assert_eq!(t.link_count(), 2);

        let (ia, ib) = (t.index(a).unwrap(), t.index(b).unwrap());
        assert_eq!(t.link(ia, ib).unwrap().cost(Metric::Latency), Cost(6_000));
        assert_eq!(t.links_to(ib)[0].peer, ia);
        let peers: Vec<NodeAddr> = t.links_from(ia).iter().map(|e| t.addr(e.peer)).collect();
        assert_eq!(peers, [b, c]);

        assert!(t.set_link(a, b, None).is_some());
        assert!(t.link(ia, ib).is_none() && t.links_to(ib).is_empty());
        assert_eq!(t.link_count(), 1);
    }

    #[test]
    fn what_is_known_of_a_link_decides_its_width_until_the_link_goes() {
        let [a, b] = [1, 2].map(NodeAddr);
        let lossy = LinkCost::new(10_000, 0.01);
        let mut t = Topology::from_links(Parameters::default(), [(a, b, lossy)]);
        let (ia, ib) = (t.index(a).unwrap(), t.index(b).unwrap());
        let width = |t: &Topology| t.link(ia, ib).map(Edge::width);
        let modelled = width(&t).unwrap();
        let known = |capacity, one| Known {
            capacity,
            one,
            ..Known::default()
        };
        let [slow, fast] = [Width(1_000_000), Width(900_000_000)];
        assert!(t.set_known(a, b, known(Some(slow), None)).is_some());
        assert_eq!(width(&t), Some(slow), "no more than the capacity");
        assert!(t.set_known(a, b, known(Some(fast), None)).is_some());
        assert_eq!(width(&t), Some(modelled));
        assert_eq!(t.set_known(a, b, Known::default()), None);
        t.set_known(a, b, known(None, Some(slow)));
        t.set_link(a, b, Some(LinkCost::new(20_000, 0.01)));
        assert_eq!(width(&t), Some(slow), "what was measured stays");
        assert_eq!(t.links_to(ib)[0].width(), slow);
        t.set_link(a, b, None);
        t.set_link(a, b, Some(lossy));
        assert_eq!(width(&t), Some(modelled), "another link");
        assert_eq!(t.set_known(b, a, known(None, Some(slow))), None, "no link");
        t.quantise_widths(Some(1));
        assert_eq!(width(&t), Some(modelled.quantised(1)));
        t.quantise_widths(None);
        assert_eq!(width(&t), Some(modelled));
    }

    #[test]
    fn unknown_physical_hops_are_taken_for_the_median_of_the_known() {
        let mut t = Topology::new(Parameters::default());
        assert_eq!(t.assumed_hops(), 1);
        let mut median = Vec::new();
        for (to, hops) in [
            (1, Some(9)),
            (2, None),
            (3, Some(3)),
            (4, Some(5)),
            (5, Some(4)),
        ] {
            t.set_link(NodeAddr(0), NodeAddr(to), Some(link(1)));
            let known = Known {
                physical_hops: hops,
                ..Known::default()
            };
            t.set_known(NodeAddr(0), NodeAddr(to), known);
            median.push(t.assumed_hops());
        }
        assert_eq!(median, [9, 9, 9, 5, 5]);
        t.set_link(NodeAddr(0), NodeAddr(1), None);
        assert_eq!(t.assumed_hops(), 4);
    }

    #[test]
    fn the_links_of_a_node_are_replaced_together() {
        let [a, b, c, d] = [1, 2, 3, 4].map(NodeAddr);
        let mut t = Topology::new(Parameters::default());
        let mut changes = Vec::new();
        t.set_links_of(a, &[(b, link(1)), (c, link(1))], &mut changes);
        assert_eq!(changes.len(), 2);
        changes.clear();
        t.set_links_of(a, &[(c, link(1)), (d, link(1)), (a, link(9))], &mut changes);
        let ends: Vec<NodeAddr> = changes.iter().map(|change| t.addr(change.to)).collect();
        assert_eq!(ends, [b, d], "c stays as it was");
        changes.clear();
        t.set_links_of(a, &[], &mut changes);
        assert_eq!((changes.len(), t.link_count(), t.node_count()), (2, 0, 4));
    }
}
