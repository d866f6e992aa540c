//! The knowledge of a node about the nodes that offer themselves, their order, and the words for why links are kept.

use super::LINKS_ENOUGH;
use base::{Duration, NodeAddr};
use core::fmt;

/// A node that offers itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// The node.
    pub(crate) addr: NodeAddr,
    /// The delay of the shortest path over other nodes; `None` if it is not reached.
    pub(crate) one_way: Option<Duration>,
    /// The number of links that it reports, or that others report of it, whichever is more.
    pub(crate) links: usize,
    /// An address is known at which it may be dialled.
    pub(crate) can_dial: bool,
    /// There is a link to it.
    pub(crate) is_up: bool,
    /// The round trip over that link.
    pub(crate) rtt: Option<Duration>,
}

impl Seen {
    /// Returns true if it may be given one more link.
    pub(super) fn has_room(&self) -> bool {
        self.links < LINKS_ENOUGH
    }
}

/// Why a link is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Role {
    /// Its ends are neighbours in the ring.
    Ring,
    /// The link crosses the ring.
    Chord,
    /// The link is one of the shortest.
    Near { rtt: Duration, among: usize },
    /// The link is being measured.
    Tried,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Role::Ring => f.write_str("keeps the network whole: next in the ring"),
            Role::Chord => f.write_str("keeps the network whole: a chord of the ring"),
            Role::Near { rtt, among } => {
                let ms = rtt.as_secs_f64() * 1e3;
                write!(f, "nearest of {among} measured: {ms:.1} ms")
            }
            Role::Tried => f.write_str("is being measured"),
        }
    }
}

/// Returns the others in the order of the ring, beginning after `own`.
pub(super) fn ring(own: NodeAddr, others: &[Seen]) -> Vec<Seen> {
    let mut ring = others.to_vec();
    let start = place(own);
    ring.sort_by_key(|seen| {
        let (hash, addr) = place(seen.addr);
        // The order begins at the node's own place and goes around the ring.
        ((hash, addr) < start, hash, addr)
    });
    ring
}

/// Returns the place of a node in the ring. Choice: neighbours in a region have neighbouring addresses, and the ring is
/// to cross regions.
pub(super) fn place(node: NodeAddr) -> (u64, NodeAddr) {
    let mut x = u64::from(node.0).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31), node)
}
