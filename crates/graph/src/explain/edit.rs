//! Changes of a topology whose effect a user wants to know.

use crate::metric::{LinkCost, Repair};
use crate::protection::Lane;
use crate::topology::Topology;
use base::NodeAddr;
use core::fmt;

/// A change of the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// A link gets these properties. Properties that are not named stay as they are. A link that does not exist is
    /// added if its latency is named.
    Link {
        /// One end.
        a: NodeAddr,
        /// The other end.
        b: NodeAddr,
        /// The directions that change.
        direction: Direction,
        /// The new one-way latency in microseconds.
        latency_us: Option<u32>,
        /// The new loss, in shares of 65 536.
        loss: Option<u16>,
    },
    /// A link is down, in both directions: nodes do not use a link that is up in only one direction.
    LinkDown {
        /// One end.
        a: NodeAddr,
        /// The other end.
        b: NodeAddr,
    },
    /// A node is down, and so are all its links.
    NodeDown(NodeAddr),
}

/// The directions of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the first end to the second.
    There,
    /// Both directions.
    Both,
}

/// Why a topology cannot be changed in this way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadEdit {
    /// The node is not known.
    Unknown(NodeAddr),
    /// There is no link between the two nodes, and the edit does not say enough to add one.
    NoLink(NodeAddr, NodeAddr),
    /// The link would lead from a node to itself.
    Same(NodeAddr),
}

/// Returns the topology after all edits, in their order.
pub fn apply(topology: &Topology, edits: &[Edit]) -> Result<Topology, BadEdit> {
    let mut after = topology.clone();
    edits.iter().try_for_each(|edit| edit.apply(&mut after))?;
    Ok(after)
}

impl Edit {
    fn apply(&self, topology: &mut Topology) -> Result<(), BadEdit> {
        match *self {
            Edit::Link {
                a,
                b,
                direction,
                latency_us,
                loss,
            } => {
                known(topology, a, b)?;
                for (from, to) in direction.of(a, b) {
                    let link = match (present(topology, from, to), latency_us) {
                        (Some(link), _) => LinkCost {
                            latency_us: latency_us.unwrap_or(link.latency_us),
                            ..loss.map_or(link, |loss| link.with_loss(loss))
                        },
                        (None, Some(latency_us)) => {
                            LinkCost::of_share(latency_us, loss.unwrap_or_default())
                        }
                        (None, None) => return Err(BadEdit::NoLink(a, b)),
                    };
                    topology.set_link(from, to, Some(link));
                }
                // A request takes the other direction, so a loss counts for the requests of both.
                for (from, to) in Direction::Both.of(a, b) {
                    let repair = present(topology, from, to).and_then(|link| link.repair);
                    if let Some(Repair { strikes, lane, .. }) = repair {
                        protect(topology, (from, to), strikes, lane);
                    }
                }
            }
            Edit::LinkDown { a, b } => {
                known(topology, a, b)?;
                if present(topology, a, b)
                    .or(present(topology, b, a))
                    .is_none()
                {
                    return Err(BadEdit::NoLink(a, b));
                }
                topology.set_link(a, b, None);
                topology.set_link(b, a, None);
            }
            Edit::NodeDown(node) => {
                let index = topology.index(node).ok_or(BadEdit::Unknown(node))?;
                let edges = topology
                    .links_from(index)
                    .iter()
                    .chain(topology.links_to(index));
                let peers: Vec<NodeAddr> = edges.map(|edge| topology.addr(edge.peer)).collect();
                for peer in peers {
                    topology.set_link(node, peer, None);
                    topology.set_link(peer, node, None);
                }
            }
        }
        Ok(())
    }
}

impl Direction {
    /// Returns the directions between two ends, as pairs of from and to.
    pub fn of(self, a: NodeAddr, b: NodeAddr) -> impl Iterator<Item = (NodeAddr, NodeAddr)> {
        let back = (self == Direction::Both).then_some((b, a));
        core::iter::once((a, b)).chain(back)
    }
}

/// Sets the protection of a link, if the link exists: how often the end where it leads requests a lost packet, and what
/// the end where it begins announces of its lane.
pub fn protect(
    topology: &mut Topology,
    (from, to): (NodeAddr, NodeAddr),
    strikes: u8,
    lane: Option<Lane>,
) {
    let Some(link) = present(topology, from, to) else {
        return;
    };
    let back = present(topology, to, from).unwrap_or(link);
    let repair = Some(Repair::new(strikes, link.loss, back.loss).with_lane(lane));
    topology.set_link(from, to, Some(LinkCost { repair, ..link }));
}

fn known(topology: &Topology, a: NodeAddr, b: NodeAddr) -> Result<(), BadEdit> {
    if a == b {
        return Err(BadEdit::Same(a));
    }
    match [a, b]
        .into_iter()
        .find(|node| topology.index(*node).is_none())
    {
        Some(node) => Err(BadEdit::Unknown(node)),
        None => Ok(()),
    }
}

fn present(topology: &Topology, from: NodeAddr, to: NodeAddr) -> Option<LinkCost> {
    let ends = topology.index(from).zip(topology.index(to));
    let edge = ends.and_then(|(from, to)| topology.link(from, to));
    edge.map(|edge| edge.link)
}

impl fmt::Display for BadEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadEdit::Unknown(node) => write!(f, "nothing is known of a node {node}"),
            BadEdit::NoLink(a, b) => write!(
                f,
                "there is no link between {a} and {b}: give it a delay to see what it would change"
            ),
            BadEdit::Same(node) => {
                write!(f, "a link leads to another node, not from {node} to itself")
            }
        }
    }
}

impl core::error::Error for BadEdit {}
