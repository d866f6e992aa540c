//! The stamp: the data that a source writes into a packet when it chooses the packet's path itself. It is the extension
//! after the fixed header of packets with the routing "stamped", and no hop changes it.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+
//! |    kind 0     |  nodes, n     |                  subgraph
//! +---------------+---------------+-------------------------------+
//! |                  n times: the address of a node               |
//! +---------------+---------------+-------------------------------+
//! | link from ..  |  .. to        |  m times: places in the list of nodes, from 0
//! +---------------+---------------+
//!
//! +---------------+
//! |    kind 1     |                                  flooding: every link that is up
//! +---------------+
//! ```
//!
//! +---------------+
//! |    kind 3     |                                  two trees: only of packets to a group
//! +---------------+
//!
//! Two trees are too long to be written into a packet: those of a group of 64 nodes take 500 bytes, and packets of
//! video leave room for some 40. So the packet only says that it takes both trees, and every node computes them from
//! the same records.
//!
//! Packets to a group whose tree Scribe builds have routing by table and this extension: the edge of the tree that the
//! packet is on. Nodes between its ends forward it by table towards `to`. A node of the tree rewrites both addresses in
//! place, for each further edge. The extension has a fixed length, so no bytes move.
//!
//! ```text
//! +---------------+
//! |    kind 2     |                                  tree edge
//! +---------------+-----------------------------------------------+
//! |                             from                              |
//! +---------------------------------------------------------------+
//! |                              to                               |
//! +---------------------------------------------------------------+
//! ```
//!
//! A node forwards the first copy of a packet along each of its links in the stamp, never back, and drops later copies
//! by (source, flow, sequence number). So one mechanism serves single paths, k disjoint paths, dissemination graphs and
//! source trees.
//!
//! The stamp has explicit lists, because the nodes' views of the topology differ while it changes: a position in a bit
//! mask over all links would mean different links to different nodes. The nodes are sorted so that every link leads to
//! a later one. So a subgraph has no cycles, copies end by themselves even at nodes that have forgotten which packets
//! they have seen, and a reader can check this in one pass.

use crate::Malformed;
use base::NodeAddr;

/// The maximum number of nodes of a subgraph: three disjoint paths of 20 hops, or one that is as long as the largest
/// time to live.
pub const NODES_MAX: usize = 64;
/// The maximum number of links of a subgraph: twice as many, more than any set of disjoint paths needs.
pub const LINKS_MAX: usize = 128;
/// The maximum length of a stamp: 2 + 64 · 4 + 128 · 2 = 514 bytes, so that 850 bytes of payload fit behind the longest
/// stamp.
pub const STAMP_BYTES_MAX: usize = 2 + 4 * NODES_MAX + 2 * LINKS_MAX;

const SUBGRAPH: u8 = 0;
const FLOODING: u8 = 1;
const TREE_EDGE: u8 = 2;
const TWO_TREES: u8 = 3;

/// Why a stamp is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum BadStamp {
    /// The bytes are not a stamp.
    #[error("not a stamp: {0}")]
    Malformed(#[from] Malformed),
    /// The stamp has more bytes, nodes or links than allowed.
    #[error("the stamp is too long: at most 64 nodes and 128 links")]
    TooLong,
    /// The stamp names a node twice, or a link leads back to an earlier node.
    #[error("the stamp loops: name each node once, and before all that it leads to")]
    Loops,
}

/// A stamp that has been parsed and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp<'a> {
    /// The packet travels along these links.
    Subgraph(Subgraph<'a>),
    /// The packet travels along every link.
    Flooding,
    /// The packet travels to a group, along two trees of the source that are as far apart as the network allows.
    TwoTrees,
}

/// The edge of a group's tree that a packet is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeEdge {
    /// The node of the tree that has sent the packet.
    pub from: NodeAddr,
    /// The node of the tree that will get the packet.
    pub to: NodeAddr,
}

impl TreeEdge {
    /// Number of bytes on the wire.
    pub const BYTES: usize = 9;

    /// Reads an extension.
    pub fn parse(bytes: &[u8]) -> Result<TreeEdge, Malformed> {
        let [kind, f0, f1, f2, f3, t0, t1, t2, t3] =
            *<&[u8; TreeEdge::BYTES]>::try_from(bytes).map_err(|_| Malformed::Length)?;
        let edge = TreeEdge {
            from: NodeAddr(u32::from_be_bytes([f0, f1, f2, f3])),
            to: NodeAddr(u32::from_be_bytes([t0, t1, t2, t3])),
        };
        match (kind, edge.from.is_node() && edge.to.is_node()) {
            (TREE_EDGE, true) => Ok(edge),
            (TREE_EDGE, false) => Err(Malformed::Value),
            _ => Err(Malformed::Kind),
        }
    }

    /// Returns the wire format.
    pub const fn to_bytes(self) -> [u8; TreeEdge::BYTES] {
        let [f0, f1, f2, f3] = self.from.0.to_be_bytes();
        let [t0, t1, t2, t3] = self.to.0.to_be_bytes();
        [TREE_EDGE, f0, f1, f2, f3, t0, t1, t2, t3]
    }
}

/// Several nodes and directed links between them, without cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subgraph<'a> {
    nodes: &'a [[u8; 4]],
    links: &'a [[u8; 2]],
}

impl<'a> Stamp<'a> {
    /// Reads a stamp, the extension of a packet without its length. The work is bounded by [`STAMP_BYTES_MAX`] bytes,
    /// and by 64·63/2 pairs of nodes.
    pub fn parse(bytes: &'a [u8]) -> Result<Stamp<'a>, BadStamp> {
        if bytes.len() > STAMP_BYTES_MAX {
            return Err(BadStamp::TooLong);
        }
        let (kind, rest) = bytes.split_first().ok_or(Malformed::Short)?;
        match *kind {
            SUBGRAPH => Subgraph::parse(rest).map(Stamp::Subgraph),
            FLOODING if rest.is_empty() => Ok(Stamp::Flooding),
            TWO_TREES if rest.is_empty() => Ok(Stamp::TwoTrees),
            FLOODING | TWO_TREES => Err(Malformed::Length.into()),
            _ => Err(Malformed::Kind.into()),
        }
    }

    /// Writes the stamp at the front of `out` and returns its length; `None` if there is no room.
    pub fn emit(&self, out: &mut [u8]) -> Option<usize> {
        match self {
            Stamp::Flooding => *out.first_mut()? = FLOODING,
            Stamp::TwoTrees => *out.first_mut()? = TWO_TREES,
            Stamp::Subgraph(graph) => {
                let out = out.get_mut(..self.len())?;
                let (nodes, links) = begin(out, graph.nodes.len());
                nodes.copy_from_slice(graph.nodes);
                links.copy_from_slice(graph.links);
            }
        }
        Some(self.len())
    }

    /// Writes the stamp of the reverse path, with every link in the opposite direction. Returns the same as
    /// [`Stamp::emit`].
    pub fn emit_reversed(&self, out: &mut [u8]) -> Option<usize> {
        let Stamp::Subgraph(graph) = self else {
            return self.emit(out);
        };
        let out = out.get_mut(..self.len())?;
        let (nodes, links) = begin(out, graph.nodes.len());
        for (node, forth) in nodes.iter_mut().zip(graph.nodes.iter().rev()) {
            *node = *forth;
        }
        // Positions count from the other end.
        let last = (graph.nodes.len() - 1) as u8;
        for (link, [from, to]) in links.iter_mut().zip(graph.links) {
            *link = [last - to, last - from];
        }
        links.sort_unstable();
        Some(self.len())
    }

    /// Returns the number of bytes on the wire.
    pub fn len(&self) -> usize {
        match self {
            Stamp::Flooding | Stamp::TwoTrees => 1,
            Stamp::Subgraph(graph) => 2 + 4 * graph.nodes.len() + 2 * graph.links.len(),
        }
    }

    /// Returns false: a stamp contains at least its kind.
    pub const fn is_empty(&self) -> bool {
        false
    }
}

impl<'a> Subgraph<'a> {
    fn parse(rest: &'a [u8]) -> Result<Subgraph<'a>, BadStamp> {
        let (&count, rest) = rest.split_first().ok_or(Malformed::Short)?;
        let count = usize::from(count);
        if count > NODES_MAX {
            return Err(BadStamp::TooLong);
        }
        if count < 2 {
            return Err(Malformed::Value.into());
        }
        let (nodes, rest) = rest.split_at_checked(4 * count).ok_or(Malformed::Short)?;
        let (nodes, _) = nodes.as_chunks();
        let (links, odd) = rest.as_chunks();
        if links.is_empty() || !odd.is_empty() {
            return Err(Malformed::Short.into());
        }
        if links.len() > LINKS_MAX {
            return Err(BadStamp::TooLong);
        }
        let graph = Subgraph { nodes, links };
        graph.check_nodes()?;
        graph.check_links()?;
        Ok(graph)
    }

    fn check_nodes(&self) -> Result<(), BadStamp> {
        for (place, node) in self.nodes.iter().enumerate() {
            if !address(node).is_node() {
                return Err(Malformed::Value.into());
            }
            if self.nodes[..place].contains(node) {
                return Err(BadStamp::Loops);
            }
        }
        Ok(())
    }

    /// Checks that each link occurs once, in order, between nodes of the list, and leads to a later one.
    fn check_links(&self) -> Result<(), BadStamp> {
        let mut before = None;
        for link @ [from, to] in self.links {
            if usize::from(*from.max(to)) >= self.nodes.len() {
                return Err(Malformed::Value.into());
            }
            if from >= to {
                return Err(BadStamp::Loops);
            }
            if before >= Some(link) {
                return Err(Malformed::Value.into());
            }
            before = Some(link);
        }
        Ok(())
    }

    /// Returns the nodes, each before those to which its links lead.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = NodeAddr> + use<'a> {
        self.nodes.iter().map(address)
    }

    /// Returns the links.
    pub fn links(&self) -> impl ExactSizeIterator<Item = (NodeAddr, NodeAddr)> + use<'a> {
        let nodes = self.nodes;
        let at = move |place: u8| address(&nodes[usize::from(place)]);
        self.links
            .iter()
            .map(move |[from, to]| (at(*from), at(*to)))
    }

    /// Returns the nodes to which `node` sends its copies: the far ends of its links.
    pub fn next(&self, node: NodeAddr) -> impl Iterator<Item = NodeAddr> + use<'a> {
        let place = self.place(node);
        let mine = move |link: &&[u8; 2]| Some(link[0]) == place;
        let nodes = self.nodes;
        let links = self.links.iter().filter(mine);
        links.map(move |[_, to]| address(&nodes[usize::from(*to)]))
    }

    /// Returns whether the link is in the subgraph.
    pub fn has_link(&self, from: NodeAddr, to: NodeAddr) -> bool {
        let ends = self.place(from).zip(self.place(to));
        ends.is_some_and(|(from, to)| self.links.contains(&[from, to]))
    }

    fn place(&self, node: NodeAddr) -> Option<u8> {
        let bytes = node.0.to_be_bytes();
        let place = self.nodes.iter().position(|other| *other == bytes)?;
        Some(place as u8)
    }
}

/// Writes a subgraph at the front of `out` and returns its length. The nodes must be in an order in which links lead to
/// later ones; the links are sorted, as positions in the list of nodes.
pub fn emit_subgraph(
    nodes: &[NodeAddr],
    links: &[(u8, u8)],
    out: &mut [u8],
) -> Result<usize, BadStamp> {
    let len = 2 + 4 * nodes.len() + 2 * links.len();
    if nodes.len() > NODES_MAX || links.len() > LINKS_MAX {
        return Err(BadStamp::TooLong);
    }
    let out = out.get_mut(..len).ok_or(BadStamp::TooLong)?;
    let (table, pairs) = begin(out, nodes.len());
    for (place, node) in table.iter_mut().zip(nodes) {
        *place = node.0.to_be_bytes();
    }
    for (pair, (from, to)) in pairs.iter_mut().zip(links) {
        *pair = [*from, *to];
    }
    Stamp::parse(out).map(|_| len)
}

/// Writes the bytes before the nodes. Returns the places of the nodes and of the links.
fn begin(out: &mut [u8], nodes: usize) -> (&mut [[u8; 4]], &mut [[u8; 2]]) {
    let (head, rest) = out.split_at_mut(2);
    head.copy_from_slice(&[SUBGRAPH, nodes as u8]);
    let (table, pairs) = rest.split_at_mut(4 * nodes);
    (table.as_chunks_mut().0, pairs.as_chunks_mut().0)
}

fn address(bytes: &[u8; 4]) -> NodeAddr {
    NodeAddr(u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests;
