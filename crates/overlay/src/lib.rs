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
//! A packet's life at a relay: opened in place, checked for duplicates by lane and by flow, its
//! time to live and time to deadline lowered, looked up, copied into the next lane's history,
//! sealed in place, sent; a burst stays together as long as its packets go the same way.
//! A loss' life: the receiver of a lane sees a gap, asks at once, asks again while the answer can
//! still be in time; the sender answers from its history. [Amir06 §IV-A]
//!
//! Only [`Node`] and its links see the outbox; all below are plain structs whose methods take
//! `now` and return values.
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
