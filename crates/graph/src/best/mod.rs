//! The best route: the path that delivers the largest share of packets within a deadline, when
//! every link runs the real-time protocol. [Amir06 §IV-B]
//!
//! A shorter or less lossy link is always better. But which of two partial paths is better depends on what follows
//! [Amir06 Fig. 11], so no cost per link answers the question. The paper computed all paths, up to 16 nodes. Here the
//! search takes labels best first. Each label is a partial path with its exact distribution of delays:
//!
//! ```text
//!   s ──▶ … ──▶ v ─ ─ ─ ─ ─ ▶ t        label:  distribution F of the delay from s to v
//!     F, exact      U_v, bound         bound:  Σ F{x} · U_v(deadline − x)
//!
//!   take the label of the largest bound; stop when it is not above the best path known;
//!   extend it by each link; drop what is late for sure, what is bounded by the best path
//!   known, and what another label at the same node is ahead of at every moment
//! ```
//!
//! **Why it is right.** (1) *More links, less delivery*: a link's shares add up to 1 at most and its delays are not
//! negative, so at any moment no more has arrived behind it than before it. Cutting a loop out of a walk never makes it
//! worse; the best walk is a simple path. (2) *Dominance*: if label A is ahead of label B at the same node at every
//! moment, then A followed by any links is ahead of B followed by the same links. By (1), the best path through B is
//! not better than some simple path through A. So B may be dropped. (3) *Bound*: U_v(y) is what could be delivered from
//! v within y if at every node the next link could be chosen anew, knowing the time that is left. A fixed path is one
//! such choice, so U_v(y) is at least the delivery of every path from v. U satisfies
//!
//! ```text
//!   U_t(y) = 1,   U_v(y) = max over links v→w of (1−p)·U_w(y−T) + r·U_w(y−3T−Δ),   0 for y < 0
//! ```
//!
//! The search computes U on a grid of y with delays rounded *down*, which only makes U larger (module `bound`). Before
//! that, it leaves out links that cannot be part of a path better than the best one known, even if the path had the
//! least delay before and after the link and the least losses (module `relax`). (4) Hence, at every time, an *upper
//! bound* of what any path delivers is the largest of three values: the largest bound in the heap, the largest bound of
//! what was left out, and the delivery of the best path known. The exact delivery of the best path known is a *lower
//! bound*. The search may stop early and has both bounds; when it runs to the end, they are equal except for rounding
//! of floating point ([`ROUNDING`]).
//!
//! Since losses are rare, knowing the time that is left is worth little: U is close to what a fixed path reaches, and
//! few labels are extended. [`Effort::work`] bounds the time, and the number of labels bounds the memory.

mod bound;
pub mod exhaustive;
pub mod greedy;
mod relax;
mod search;
pub mod study;

pub use search::best_route;

use crate::delivery::{Distribution, LONGEST_DEADLINE_US, Recovery};
use crate::paths::NoPath;
use crate::topology::{NodeIndex, Topology};
use base::NodeAddr;
use relax::{Direction, least_delays};

/// Deliveries that differ by less than this count as equal. The value is far above the rounding of sums of up to 2^20
/// products, and far below any difference that matters.
pub const ROUNDING: f64 = 1e-9;

/// The ends of the path, the deadline, and the recovery on the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The node that packets come from.
    pub src: NodeAddr,
    /// The node that packets go to.
    pub dst: NodeAddr,
    /// The deadline; what arrives later does not count. At most [`LONGEST_DEADLINE_US`].
    pub deadline_us: u32,
    /// How the links recover losses.
    pub recovery: Recovery,
}

/// How much effort a search may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// The largest difference between the answer and the best path, in shares of packets; 0 for the best path itself.
    pub tolerance: f64,
    /// The maximum work, in units of one atom of a distribution looked at, about 5 ns each. When the work is used up,
    /// the answer is the best path known so far, with its bounds.
    pub work: u64,
}

/// A path and the bounds of how good it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The nodes from source to destination.
    pub nodes: Vec<NodeIndex>,
    /// The share of packets that the path delivers in time, exactly. It is a lower bound of the best delivery.
    pub delivery: f64,
    /// No path delivers more than this.
    pub upper: f64,
    /// The work done, in the unit of [`Effort::work`].
    pub work: u64,
}

impl Effort {
    /// The effort that finds the best path itself, for comparisons. The result is within rounding of the optimum.
    pub const EXACT: Effort = Effort {
        tolerance: 0.0,
        work: 400_000_000,
    };

    /// The effort that a node spends on a stamp, on the thread that forwards: the same tolerance as
    /// [`Effort::ROUTING`], and at most about 5 ms of search. The result is never worse than the path of the least
    /// expected latency, with which the search begins.
    pub const STAMP: Effort = Effort {
        tolerance: 0.000_5,
        work: 1_000_000,
    };

    /// The effort that a program spends on a route: at most half of a tenth of a percentage point from the optimum, and
    /// at most about a quarter of a second of work.
    pub const ROUTING: Effort = Effort {
        tolerance: 0.000_5,
        work: 50_000_000,
    };
}

impl Route {
    /// Returns by how much the best path can be better than this one.
    pub fn gap(&self) -> f64 {
        self.upper - self.delivery
    }
}

impl Question {
    /// Returns the share of packets that a path delivers in time; `None` if one of its links does not exist.
    pub fn delivery(&self, topology: &Topology, path: &[NodeIndex]) -> Option<f64> {
        let distribution = Distribution::of_path(topology, path, self.recovery, self.deadline_us)?;
        Some(distribution.delivered())
    }

    fn deadline(&self) -> u64 {
        u64::from(self.deadline_us.min(LONGEST_DEADLINE_US))
    }

    fn ends(&self, topology: &Topology) -> Result<(NodeIndex, NodeIndex), NoPath> {
        if self.src == self.dst {
            return Err(NoPath::Same(self.src));
        }
        let index = |addr| topology.index(addr).ok_or(NoPath::Unknown(addr));
        Ok((index(self.src)?, index(self.dst)?))
    }
}

/// The data that every algorithm here needs about a topology: the ends and the least delays.
struct Ground {
    src: NodeIndex,
    dst: NodeIndex,
    deadline: u64,
    recovery: Recovery,
    /// The least delay from the source to each node, in microseconds.
    from_src: Vec<Option<u64>>,
    /// The least delay from each node to the destination.
    to_dst: Vec<Option<u64>>,
}

impl Ground {
    fn new(topology: &Topology, question: &Question) -> Result<Ground, NoPath> {
        let (src, dst) = question.ends(topology)?;
        let to_dst = least_delays(topology, dst, Direction::Towards);
        if to_dst[src.place()].is_none() {
            return Err(NoPath::Unreachable(question.src, question.dst));
        }
        Ok(Ground {
            src,
            dst,
            deadline: question.deadline(),
            recovery: question.recovery,
            from_src: least_delays(topology, src, Direction::Away),
            to_dst,
        })
    }

    /// Returns the latest moment at which a packet can be at `node` and still arrive in time, if any.
    fn latest(&self, node: NodeIndex) -> Option<u64> {
        self.deadline.checked_sub(self.to_dst[node.place()]?)
    }

    /// Returns the time to spare of a packet that reaches `node` as soon as it can; `None` if the packet is late.
    fn slack(&self, node: NodeIndex) -> Option<u64> {
        self.latest(node)?.checked_sub(self.from_src[node.place()]?)
    }
}
