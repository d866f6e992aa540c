//! Groups: which nodes are in which group, and where packets to groups go. [Brogle09 §II, Amir06 §III-A]
//!
//! ```text
//!   clients: join, leave ──▶ Local ──▶ parts of the node's groups record ──flooding──▶ all nodes
//!                              │                                                        │
//!                              │ who gets what comes here                               ▼
//!   packet to (group, port) ───┼──▶ Trees: (source, metric, group) ◀── Membership: group -> nodes
//!                              ▼         └ links on which copies leave
//!                          receivers
//! ```
//!
//! A group of class D is multicast: a packet takes the shortest-path tree of its source, by the metric of its class, as
//! far as the tree leads to members. Every node computes the same tree from the same records, so the packet contains
//! only the group; a sender need not be a member. Each edge of the tree is a hop like any other, with the recovery of
//! the packet's class. While records travel, nodes may disagree: a copy that arrives twice is a duplicate of its flow,
//! and the node drops it. A branch that no longer belongs to the tree is served for [`LINGER`] more, so that it ends
//! after its replacement has begun.
//!
//! Packets that are stamped "two trees" take two trees of their source at once, without a common node or link if the
//! network has such trees. The copies meet again at every node to which both trees lead. So if any one node or link
//! fails, no packet is lost meanwhile. The setting of the group asks for that, or the sending socket.
//!
//! If second ways are targeted, packets take the tree, and also a second way to the members whose path in the tree is
//! in trouble: every node on the path determines that itself (`ways.rs`). The setting of the group asks for that, or a
//! node does it for packets with a deadline, if it protects packets automatically.
//!
//! Permits ([`Permits`]) say who may send to a group and who may receive. Every node that a packet passes checks them.
//!
//! A group of class E is anycast: a packet goes to the nearest member, hop by hop.
//!
//! Groups whose trees Scribe builds ([`wire::groups::TreeBuilder`]) are not in the records: the program that runs
//! Scribe for the node reports the trees to it.

mod admission;
mod local;
mod membership;
mod permits;
mod reports;
mod shared;
mod trees;
mod ways;

pub use admission::{
    Admission, Branches, admit, branches, edge_links, judge_links, metric_of, reserved, two_trees,
};
pub use local::{Change, JOINS_MAX, Local, Subscriber, Told};
pub use membership::Membership;
pub(crate) use permits::written;
pub use permits::{Permit, Permits};
pub use reports::{REPORT_EVERY, Reports};
pub use shared::{Errand, Passing, Shared};
pub use trees::{Key, LINGER, LINGER_TWO_WAYS, SLOTS_MAX, Slot, Trees, View};
pub use ways::Second;
