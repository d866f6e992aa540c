//! Keys of groups: the keys with which this node's sources seal, and the keys that open the packets of other sources.
//!
//! ```text
//!   source                                                          receiver
//!   first packet ──▶ a key ══ told to each member, end to end ════▶ ReceivedKeys
//!        │                                                              ▲    │ key not there: the packet waits,
//!        └──▶ sealed once ──▶ tree ──▶ copies ──▶ … ──────────────▶ open┘    ▼ and the source is asked
//!   a member joins     ──▶ the key is told
//!   one leaves, 10 min ──▶ another key is told ── 1 s ──▶ and used
//! ```
//!
//! A receiver of a group can also forge packets to the other receivers, since all of them have the same key of each
//! source. No relay and no outsider can. Choice: a signature per packet would cost more than everything else that a
//! node does with it.
//!
//! A group is sealed if all its members can open sealed packets, which their records report ([`wire::link_state`],
//! option 15). The members of groups of Scribe are in no records, so all nodes of the network must be able to open.
//! These members do not receive keys without asking; they ask.

mod own;
mod received;
#[cfg(test)]
mod tests;
mod waiting;

pub(crate) use own::OwnKeys;
pub(crate) use received::ReceivedKeys;
pub(crate) use waiting::{Waiting, WaitingPackets};
