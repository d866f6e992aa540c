//! Keys of groups: what this node's sources seal with, and what opens that of others.
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
//! Who receives a group can also forge to the others who do, since all have one key of each source; no relay and
//! nobody outside can. Choice: a signature per packet would cost more than all else that a node does with it.
//!
//! A group is sealed if all its members can open that, which their records say ([`wire::link_state`], option 15).
//! The members of groups of Scribe stand in no records: all nodes of the network have to be able. They are not
//! told keys unasked either, but ask.

mod own;
mod received;
#[cfg(test)]
mod tests;

pub(crate) use own::OwnKeys;
pub(crate) use received::ReceivedKeys;
