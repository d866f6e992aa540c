//! Pastry and Scribe: groups whose trees no node knows as a whole. [Brogle09 §I, its references
//! 8 to 11]
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
//! - [`id`]: places on the ring. - [`leaf`], [`table`]: whom a node knows, and its next hop to any id.
//! - [`Scribe`]: one node: enters the ring, keeps its tables, joins and mends trees.
//!
//! Sans-IO: a message in, messages and changes of branches out. Data never passes here: it follows
//! the branches by the overlay's own forwarding.
//!
//! **No loops, ever.** A parent is strictly closer to the group's id than its child: every next hop
//! is chosen so, and a Join that breaks the order is refused. So whoever walks from child to parent
//! comes closer at each step and cannot return, whatever was lost, delayed or forged, and at the
//! moment of any change. The last node on the walk knows nobody closer: it is the root.
//!
//! **State and messages do not grow with groups.** A group costs one entry of 24 bytes and its
//! children. Between two neighbours one Keep goes per beat, over a digest of all groups that they
//! share; when the two ends differ, ranges are halved until a page of groups settles it. There are
//! seven timers, whatever the number of groups.
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
