//! Stamps: what a source writes into a packet when it decides itself where the packet goes. No
//! bytes here; [`LinkSet::mask`] and [`LinkSet::links`] are what a format can be made of.
//!
//! ```text
//!   path        s ─▶ a ─▶ b ─▶ t               a node knows the one next node
//!
//!   subgraph    s ─▶ a ─▶ t                    a node forwards the first copy along each of its
//!                ╲   │                         links in the stamp, and drops later copies of the
//!                 ▶  b ─▶ t                    packet by (source, flow, sequence number)
//! ```
//!
//! A stamped subgraph serves k disjoint paths, constrained flooding and source trees alike. Copies
//! end because each node forwards a packet once, so a subgraph may have cycles (flooding has
//! nothing else); one without cycles ends by itself, even at nodes that have forgotten what they
//! have seen. [`LinkSet::cycle`] tells which kind it is, [`check_path`] refuses paths that come by
//! a node twice.
//!
//! As a bit mask a subgraph takes one bit per link of the network. The places are those of a
//! [`Numbering`]: all links in order of their ends' addresses. Both ends of the wire must mean the
//! same links, so masks go with the numbering's [`fingerprint`](Numbering::fingerprint), and nodes
//! drop what was stamped by a different view of the topology.

use crate::topology::Topology;
use base::NodeAddr;
use std::collections::{BTreeMap, BTreeSet};

/// Nodes on a stamped path: more than the diameter of any network in use, and what a time to live
/// of 8 bits allows in the end.
pub const MOST_PATH_NODES: usize = 64;
/// Links in a stamped subgraph: all of 1000 nodes with 4000 two-way links.
pub const MOST_LINKS: usize = 8_000;

/// A link in one direction.
pub type LinkId = (NodeAddr, NodeAddr);

/// Why a stamp is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadStamp {
    /// No link is in it.
    #[error("the stamp holds no link: name a source and a destination at least")]
    Empty,
    /// More than is ever of use.
    #[error("the stamp holds {0} links or nodes, too many: at most 64 nodes of a path, 8000 links")]
    TooLong(usize),
    /// A path that comes by a node twice.
    #[error("the stamped path comes by {0} twice")]
    Loops(NodeAddr),
    /// A link that does not exist.
    #[error("there is no link from {0} to {1}")]
    NoSuchLink(NodeAddr, NodeAddr),
    /// A mask for a different set of links.
    #[error("the mask is of another topology: stamp anew")]
    OtherTopology,
}

/// Some links of a network, each in one direction: the edges of a stamped subgraph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkSet {
    links: BTreeSet<LinkId>,
}

/// The places of links in masks: every link of a topology, in order of its ends' addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbering {
    links: Vec<LinkId>,
    fingerprint: u32,
}

/// Checks a path that came from outside: at least one link, not too long, no node twice.
pub fn check_path(nodes: &[NodeAddr]) -> Result<(), BadStamp> {
    match nodes.len() {
        0 | 1 => return Err(BadStamp::Empty),
        n if n > MOST_PATH_NODES => return Err(BadStamp::TooLong(n)),
        _ => {}
    }
    let mut seen = BTreeSet::new();
    match nodes.iter().find(|node| !seen.insert(**node)) {
        Some(node) => Err(BadStamp::Loops(*node)),
        None => Ok(()),
    }
}

/// Checks that every link of a path exists.
pub fn check_links(topology: &Topology, nodes: &[NodeAddr]) -> Result<(), BadStamp> {
    let missing = nodes
        .windows(2)
        .find(|hop| !has_link(topology, hop[0], hop[1]));
    missing.map_or(Ok(()), |hop| Err(BadStamp::NoSuchLink(hop[0], hop[1])))
}

/// The node after `at` on a path; `None` at its end and for nodes that are not on it.
pub fn next_on_path(nodes: &[NodeAddr], at: NodeAddr) -> Option<NodeAddr> {
    let place = nodes.iter().position(|node| *node == at)?;
    nodes.get(place + 1).copied()
}

fn has_link(topology: &Topology, from: NodeAddr, to: NodeAddr) -> bool {
    let ends = topology.index(from).zip(topology.index(to));
    ends.is_some_and(|(from, to)| topology.link(from, to).is_some())
}

impl LinkSet {
    /// The links of some paths together, such as disjoint ones.
    pub fn of_paths<P: AsRef<[NodeAddr]>>(paths: &[P]) -> LinkSet {
        let hops = paths.iter().flat_map(|path| path.as_ref().windows(2));
        hops.map(|hop| (hop[0], hop[1])).collect()
    }

    /// Every link of the topology: flooding.
    pub fn of_all(topology: &Topology) -> LinkSet {
        all_links(topology).collect()
    }

    /// Adds a link. False if it was there.
    pub fn insert(&mut self, from: NodeAddr, to: NodeAddr) -> bool {
        self.links.insert((from, to))
    }

    /// Whether the link is in the set.
    pub fn contains(&self, from: NodeAddr, to: NodeAddr) -> bool {
        self.links.contains(&(from, to))
    }

    /// The links, in order of their ends' addresses.
    pub fn links(&self) -> impl Iterator<Item = LinkId> {
        self.links.iter().copied()
    }

    /// How many links.
    pub fn len(&self) -> usize {
        self.links.len()
    }

    /// Whether there is no link.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Where `node` sends its copies: the far ends of its links in the set, in order of address.
    pub fn out_links(&self, node: NodeAddr) -> impl Iterator<Item = NodeAddr> {
        let from_here = self
            .links
            .range((node, NodeAddr(0))..=(node, NodeAddr(u32::MAX)));
        from_here.map(|(_, to)| *to)
    }

    /// The nodes that a packet from `src` reaches along the set, `src` included.
    pub fn reach(&self, src: NodeAddr) -> BTreeSet<NodeAddr> {
        let mut reached = BTreeSet::from([src]);
        let mut stack = vec![src];
        while let Some(node) = stack.pop() {
            stack.extend(self.out_links(node).filter(|to| reached.insert(*to)));
        }
        reached
    }

    /// The links that can be of use from `src` to `dst`: those on some way from one to the other.
    /// The rest would carry copies that lead nowhere.
    pub fn between(&self, src: NodeAddr, dst: NodeAddr) -> LinkSet {
        // Nothing comes back to the source, and nothing leaves the destination.
        let inner = self.links().filter(|(from, to)| *to != src && *from != dst);
        let inner: LinkSet = inner.collect();
        let back: LinkSet = inner.links().map(|(from, to)| (to, from)).collect();
        let (from_src, to_dst) = (inner.reach(src), back.reach(dst));
        let of_use = |(from, to): &LinkId| from_src.contains(from) && to_dst.contains(to);
        inner.links().filter(of_use).collect()
    }

    /// A cycle, as its nodes in order from the lowest address, none repeated; `None` if copies end by
    /// themselves.
    pub fn cycle(&self) -> Option<Vec<NodeAddr>> {
        // Take away nodes that nothing leads to, again and again; what is left has cycles.
        let mut ways_in: BTreeMap<NodeAddr, usize> = BTreeMap::new();
        for (from, to) in self.links() {
            ways_in.entry(from).or_default();
            *ways_in.entry(to).or_default() += 1;
        }
        let nothing_in = |ways_in: &BTreeMap<NodeAddr, usize>| -> Vec<NodeAddr> {
            ways_in
                .iter()
                .filter(|(_, ways)| **ways == 0)
                .map(|(node, _)| *node)
                .collect()
        };
        let mut free = nothing_in(&ways_in);
        while let Some(node) = free.pop() {
            ways_in.remove(&node);
            for to in self.out_links(node) {
                if let Some(ways) = ways_in.get_mut(&to) {
                    *ways -= 1;
                    if *ways == 0 {
                        free.push(to);
                    }
                }
            }
        }
        self.walk_back(&ways_in)
    }

    /// Walks against the links among nodes that all have a way in, until one comes again.
    fn walk_back(&self, left: &BTreeMap<NodeAddr, usize>) -> Option<Vec<NodeAddr>> {
        let before = |node: NodeAddr| {
            let mut into = self
                .links()
                .filter(|(from, to)| *to == node && left.contains_key(from));
            into.next().map(|(from, _)| from)
        };
        let (&first, _) = left.first_key_value()?;
        let mut walk = vec![first];
        loop {
            let node = before(*walk.last()?)?;
            if let Some(start) = walk.iter().position(|seen| *seen == node) {
                let mut cycle = walk.split_off(start);
                cycle.reverse();
                let lowest = (0..cycle.len())
                    .min_by_key(|place| cycle[*place])
                    .unwrap_or(0);
                cycle.rotate_left(lowest);
                return Some(cycle);
            }
            walk.push(node);
        }
    }

    /// The set as one bit per link of the numbering, the first in the lowest bit of the first byte.
    /// Trailing zero bytes are left away.
    pub fn mask(&self, numbering: &Numbering) -> Result<Vec<u8>, BadStamp> {
        let mut mask = vec![0; numbering.links.len().div_ceil(8)];
        for (from, to) in self.links() {
            let place = numbering
                .place(from, to)
                .ok_or(BadStamp::NoSuchLink(from, to))?;
            mask[place / 8] |= 1 << (place % 8);
        }
        let used = mask
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        mask.truncate(used);
        Ok(mask)
    }

    /// The set that a mask stands for. Bits beyond the last link are refused: they were set for
    /// another topology.
    pub fn from_mask(mask: &[u8], numbering: &Numbering) -> Result<LinkSet, BadStamp> {
        if mask.len() > numbering.links.len().div_ceil(8) {
            return Err(BadStamp::OtherTopology);
        }
        let bits = mask.iter().enumerate().flat_map(|(byte, bits)| {
            (0..8)
                .filter(move |bit| bits >> bit & 1 == 1)
                .map(move |bit| byte * 8 + bit)
        });
        bits.map(|place| {
            numbering
                .links
                .get(place)
                .copied()
                .ok_or(BadStamp::OtherTopology)
        })
        .collect()
    }
}

impl FromIterator<LinkId> for LinkSet {
    fn from_iter<I: IntoIterator<Item = LinkId>>(links: I) -> LinkSet {
        LinkSet {
            links: links.into_iter().collect(),
        }
    }
}

fn all_links(topology: &Topology) -> impl Iterator<Item = LinkId> {
    topology.nodes().flat_map(move |node| {
        let links = topology.links_from(node).iter();
        links.map(move |edge| (topology.addr(node), topology.addr(edge.peer)))
    })
}

impl Numbering {
    /// The numbering of all links of a topology; the same for all that have the same links.
    pub fn of(topology: &Topology) -> Result<Numbering, BadStamp> {
        if topology.link_count() > MOST_LINKS {
            return Err(BadStamp::TooLong(topology.link_count()));
        }
        let mut links: Vec<LinkId> = all_links(topology).collect();
        links.sort_unstable();
        let fingerprint = fingerprint(&links);
        Ok(Numbering { links, fingerprint })
    }

    /// A number that differs, but once in 2^32 times, for different sets of links. It tells stale
    /// masks apart, not forged ones: those are refused by who signed the packet.
    pub fn fingerprint(&self) -> u32 {
        self.fingerprint
    }

    /// The links in order.
    pub fn links(&self) -> &[LinkId] {
        &self.links
    }

    /// The place of a link.
    pub fn place(&self, from: NodeAddr, to: NodeAddr) -> Option<usize> {
        self.links.binary_search(&(from, to)).ok()
    }

    /// The places of the links that begin at `node`: all that a node needs to look at in a mask.
    pub fn places_from(&self, node: NodeAddr) -> core::ops::Range<usize> {
        let start = self.links.partition_point(|(from, _)| *from < node);
        let end = self.links.partition_point(|(from, _)| *from <= node);
        start..end
    }

    /// Where `node` sends copies of a packet with this mask. Allocates nothing.
    pub fn out_links<'a>(
        &'a self,
        mask: &'a [u8],
        node: NodeAddr,
    ) -> impl Iterator<Item = NodeAddr> + 'a {
        let is_set = |place: usize| {
            mask.get(place / 8)
                .is_some_and(|b| b >> (place % 8) & 1 == 1)
        };
        let places = self.places_from(node).filter(move |place| is_set(*place));
        places.map(|place| self.links[place].1)
    }
}

/// FNV-1a over the addresses, 64 bits folded to 32.
fn fingerprint(links: &[LinkId]) -> u32 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for (from, to) in links {
        for byte in from.0.to_be_bytes().into_iter().chain(to.0.to_be_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    (hash ^ (hash >> 32)) as u32
}
