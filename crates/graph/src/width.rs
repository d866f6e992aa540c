//! Wide paths, for bulk data: the rate of one TCP connection per link, and the paths whose slowest link is fast. [Liu04
//! §IV]
//!
//! ```text
//!   width of a link   B = C / (d·√p), or as measured  (model)   width of a path: its narrowest link's
//!
//!   widest            the width of every node from one root, repaired as links change (Widths)
//!   in both directions alike: one tree for all pairs                       (SpanningTree)
//!   hop-limited       the widest path of at most so many links, from one   (widest_within, Dense)
//!                     root or between all pairs                            (all_pairs_within)
//!   shortest-widest   of all widest paths the shortest, by any length      (shortest_widest)
//!   constrained       the shortest of all that are wide enough             (shortest_of_width)
//!   relaxed           the same, narrower than the widest by a margin       (relaxed)
//! ```
//!
//! None of these is safe by table: a part of such a path need not be such a path, and with ties the tables of two nodes
//! may send packets in a circle [Liu04 §IV-C]. So the source computes the whole path and stamps it. Widths themselves
//! are numbers without ties to break.

mod constrained;
mod improved;
mod limited;
pub mod model;
mod pairs;
mod spanning;
mod tree;

pub(crate) use constrained::PhysicalHops;
pub use constrained::{
    LOGICAL_HOPS, Length, Relaxed, all_shortest_widest, relaxed, shortest_of_width, shortest_widest,
};
pub use improved::Dense;
pub use limited::{HopLimited, widest_within};
pub use model::{Known, of_link};
pub use pairs::{AllPairs, all_pairs_within};
pub use spanning::SpanningTree;
pub use tree::Widths;

use crate::paths::Path;
use core::fmt;

/// A rate in bits per second. A larger rate is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Width(pub u64);

impl Width {
    /// The width if there is no path: nothing gets through.
    pub const NONE: Width = Width(0);
    /// The width of a path without links.
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

impl Path {
    /// Returns the width of the narrowest link.
    pub fn width(&self) -> Width {
        let widths = self.hops.iter().map(|hop| hop.width);
        widths.min().unwrap_or(Width::UNLIMITED)
    }
}

#[cfg(test)]
mod tests;
