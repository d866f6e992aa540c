//! Groups: who is in which, and where packets to them go. [Brogle09 §II, Amir06 §III-A]
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
//! A group of class D is multicast: a packet goes along the shortest-path tree of its source, by
//! the metric of its class, as far as the tree leads to members. Every node computes the same tree
//! from the same records, so nothing stands in the packet but the group; a sender need not be a
//! member. Each edge of the tree is a hop like any other, with the recovery of the packet's class.
//! While records travel, nodes may disagree: a copy that comes twice is a duplicate of its flow,
//! and ends there. A branch that is no longer of a tree is served for [`LINGER`] more, so that one
//! branch ends after the other has begun.
//!
//! Packets that are stamped "two trees" go along two trees of their source at once, without a common node or link
//! where the network has that, and meet again at every node that both lead to: whatever one node or link
//! fails, nothing is lost meanwhile. The setting of the group asks for that, or the socket that sends.
//!
//! Where second ways are targeted, packets go along the tree, and along a second way to the members that the tree leads to
//! through trouble: every node on the way finds that out itself (`ways.rs`). The setting of the group asks for that, or a
//! node does it for packets with a deadline, if it protects by itself.
//!
//! Who may send to a group and who may receive is said by permits ([`Permits`]); every node that a packet passes looks.
//!
//! A group of class E is anycast: a packet goes to the nearest member, hop by hop.
//!
//! Groups that Scribe builds ([`wire::groups::TreeBuilder`]) are not in the records: their tree is
//! told to the node by whoever runs Scribe beside it.

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
