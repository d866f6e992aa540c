//! Pastry and Scribe: groups with trees that no node knows completely. [Brogle09 §I, its references 8 to 11]
//!
//! ```text
//!   ring of ids (Pastry)                 tree of a group (Scribe)
//!
//!        .--o--.      Join: one hop            root: the node closest to the group's id
//!      o'       'o    closer to the           /    \
//!     o  group's  o   group's id at        o        o   forwarders: where joins met
//!     o    id *   o   every node         / | \      |
//!      'o--o--o--'                      m  m  m     m   members
//!
//!            enter, join, leave, locate             branches, root, report
//!   client ──────────────────────────▶ Scribe ──────────────────────────▶ Outlet (the overlay)
//!            on_message, on_peer_gone, on_timeout   send, proximity_us
//! ```
//!
//! - [`id`]: positions on the ring. - [`leaf`], [`table`]: the nodes that a node knows, and its next hop to any id.
//! - [`Scribe`]: one node. It enters the ring, maintains its tables, and joins and repairs trees.
//!
//! The crate does no I/O: its input is a message, its output is messages and changes of branches. It does not handle
//! data: the overlay itself forwards data along the branches.
//!
//! **No loops, ever.** A parent is strictly closer to the group's id than its child: every next hop is chosen in this
//! way, and a Join that breaks the order is refused. So a walk from child to parent comes closer at each step and
//! cannot return, whatever was lost, delayed or forged, and at any moment of a change. The last node on the walk knows
//! no closer node: it is the root.
//!
//! **State and messages do not grow with groups.** A group costs one entry of 24 bytes and its children. A node sends
//! one Keep per beat to a neighbor, with a digest of all groups that they share. If the two ends differ, they halve
//! ranges until one page of groups resolves the difference. There are seven timers, whatever the number of groups.
#![forbid(unsafe_code)]

pub mod id;
pub mod leaf;
pub mod table;

mod config;
mod event;
mod node;
mod outlet;
mod peer;
mod ring;
mod timers;
mod tree;

pub use config::{Config, Settings};
pub use event::{Dropped, Event, Failure, JoinError, Stats};
pub use id::Id;
pub use node::Scribe;
pub use outlet::Outlet;
