//! Wide paths, for bulk data: how fast one TCP connection per link would go, and the paths whose
//! slowest link is fast. [Liu04 §IV]
//!
//! ```text
//!   width of a link   B = C / (d·√p)         width of a path: that of its narrowest link
//!
//!   widest            the width of every node from one root, repaired as links change (Widths)
//!   hop-limited       the widest path of at most so many links              (widest_within)
//!   shortest-widest   of all widest paths the shortest, by any metric       (shortest_widest)
//!   constrained       the shortest of all that are wide enough              (shortest_of_width)
//! ```
//!
//! None of these is safe by table: a piece of such a path need not be such a path, and with ties
//! the tables of two nodes may send packets in a circle [Liu04 §IV-C]. So the source computes the
//! whole path and stamps it. Widths themselves are numbers without ties to break.

mod limited;
mod tree;

pub use limited::{HopLimited, widest_within};
pub use tree::Widths;

use crate::metric::{LinkCost, Metric};
use crate::paths::{NoPath, Path, ends, price};
use crate::spf::Tree;
use crate::topology::Topology;
use base::NodeAddr;
use core::fmt;

/// A rate in bits per second. The wider the better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Width(pub u64);

impl Width {
    /// Nothing gets through: there is no path.
    pub const NONE: Width = Width(0);
    /// What a path without links has.
    pub const UNLIMITED: Width = Width(u64::MAX);
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            u64::MAX => f.write_str("unlimited"),
            rate @ 10_000_000_000.. => write!(f, "{:.0} Gbit/s", rate as f64 / 1e9),
            rate @ 10_000_000.. => write!(f, "{:.0} Mbit/s", rate as f64 / 1e6),
            rate @ 1_000_000.. => write!(f, "{:.1} Mbit/s", rate as f64 / 1e6),
            rate => write!(f, "{:.0} kbit/s", rate as f64 / 1e3),
        }
    }
}

/// What one TCP connection over the link would carry: C/(d·√p), C = 1460 bytes · √(3/2), d the
/// round trip, twice the latency. [Liu04 §III-A (1)]
///
/// Choice: a link of which no loss is known is taken to lose half of the least that a record can
/// tell, and none takes less than a microsecond; the formula is of no use for either. Whole
/// numbers, as with costs, so that all nodes agree.
pub fn of_link(link: LinkCost) -> Width {
    /// (1460 · 8)² · 3/2 · 65 536 · 10¹² / 4, twice, since losses are counted in halves.
    const SQUARE: u128 = 11_680 * 11_680 * 3 / 2 * 65_536 * 500_000_000_000;
    let latency_us = u128::from(link.latency_us.max(1));
    let half_losses = u128::from(link.loss).max(1) * 2 - u128::from(link.loss == 0);
    // At most 2.6 · 10¹² bit/s.
    Width((SQUARE / (latency_us * latency_us * half_losses)).isqrt() as u64)
}

/// The shortest by `metric` of all paths that are as wide as any. [Liu04 §IV-C]
pub fn shortest_widest(
    topology: &Topology,
    src: NodeAddr,
    dst: NodeAddr,
    metric: Metric,
) -> Result<Path, NoPath> {
    let (from, to) = ends(topology, src, dst)?;
    let widest = Widths::new(topology, from).width(to);
    shortest_of_width(topology, src, dst, metric, widest)
}

/// The shortest by `metric` of all paths that are at least so wide. [Liu04 §IV-C]
pub fn shortest_of_width(
    topology: &Topology,
    src: NodeAddr,
    dst: NodeAddr,
    metric: Metric,
    at_least: Width,
) -> Result<Path, NoPath> {
    let (from, to) = ends(topology, src, dst)?;
    let narrow = |from, to| {
        topology
            .link(from, to)
            .is_none_or(|edge| edge.width() < at_least)
    };
    let nodes = Tree::without(topology, from, metric, narrow).path(to);
    if nodes.is_empty() {
        return Err(NoPath::Unreachable(src, dst));
    }
    Ok(price(topology, metric, &nodes))
}

impl Path {
    /// The width of the narrowest link.
    pub fn width(&self) -> Width {
        let widths = self.hops.iter().map(|hop| of_link(hop.link));
        widths.min().unwrap_or(Width::UNLIMITED)
    }
}

#[cfg(test)]
mod tests;
