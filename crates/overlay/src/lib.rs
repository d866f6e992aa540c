//! The overlay node: virtual links between neighbours, link-state routing over them, and the
//! forwarding of packets with recovery on every hop.
//!
//! ```text
//!              clients (host)                 operators (host)
//!                  |  Request/Reply               | snapshot
//!  +---------------+------------------------------+---------------------------+
//!  | Node   socket table   flows   route tables   link-state database  flood  |
//!  |    |                                                                     |
//!  |    +-- Link (one per neighbour)                                          |
//!  |          hello + estimators   real-time history/receiver   session(s)    |
//!  |          impairment line (lab only)                                      |
//!  +---------------------------------+----------------------------------------+
//!                                    | bursts of sealed datagrams
//!                               network below
//! ```
//!
//! A packet's life at a relay: the node opens the packet in place, checks it for duplicates by lane and by flow, lowers
//! its time to live and its time to the deadline, looks up the next hop, copies the packet into the history of the next
//! lane, seals it in place and sends it. A burst stays together as long as its packets have the same next hop.
//! A loss' life: the receiver of a lane sees a gap, requests the missing packet at once, and repeats the request while
//! the answer can still be in time. The sender answers from its history. [Amir06 §IV-A]
//!
//! Only [`Node`] and its links see the outbox. Everything below them is a plain struct whose methods take `now` and
//! return values.
#![forbid(unsafe_code)]

mod aims;
pub mod alarm;
pub mod announce;
mod audit;
pub mod carried;
pub mod detour;
pub mod doubts;
mod ends;
pub mod estimate;
pub mod event;
mod finding;
pub mod flood;
pub mod flow;
pub mod fragment;
mod group_keys;
pub mod groups;
pub mod hello;
mod lately;
pub mod link;
pub mod link_state;
pub mod mtu;
pub mod node;
pub mod realtime;
pub mod reliable;
pub mod request;
pub mod resequence;
pub mod route;
pub mod settings;
pub mod snapshot;
pub mod sockets;
pub mod stamps;
pub mod stream;

pub use audit::Suspect;
pub use event::{Drop, Event};
pub use node::{Config, Neighbor, Node};
pub use request::{Reply, Request, RequestError};
pub use settings::Settings;
pub use snapshot::Snapshot;
