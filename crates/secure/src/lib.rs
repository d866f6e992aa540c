//! Decides which nodes may be neighbors, and seals the datagrams between neighbors.
//!
//! ```text
//!   Authority (root key, offline)            Handshakes (one per node)
//!      | issue, renew, revoke, rotate           | dial, on_datagram, on_timeout
//!      v                                        v
//!   Certificate + Keys = Identity --.        Established { session, peer }
//!   root public keys   = Network  --+-----.     |
//!                                         '---> v
//!                                            Sessions (one per neighbour): seal, open in place
//! ```
//!
//! The crate does no I/O: datagrams and times are arguments, outgoing datagrams are return values, and entropy is a
//! 32-byte seed. The wall clock (`unix_now_s`) is only used to decide whether a certificate is valid. Equal seeds and
//! inputs give equal bytes.
//!
//! # Life cycle at a node
//!
//! 1. `Handshakes::new(identity, network, seed, now)`.
//! 2. `dial(now, to, expect)` returns the Init to send. Datagrams of the four handshake kinds are passed to
//!    `on_datagram`, which answers with an [`Outcome`]. `on_timeout(now)` returns repetitions to send and the dials
//!    that were given up; `next_timeout()` returns when to call it.
//! 3. [`Outcome::Established`] carries a [`Session`] and the verified [`Peer`]. The node accepts it and reports this by
//!    `on_taken`, or returns its index by `release`. It sends the `reply` (a Finish, or what follows it), puts the
//!    session into the neighbor's [`Sessions`], maps `session.local_index()` to that neighbor, and sends a hello at
//!    once: that first sealed datagram confirms the session to the dialler.
//! 4. The index in [`wire::link::Clear`] identifies the session of a sealed datagram, and [`Sessions::open`] opens it.
//!    If [`Opened::confirms`] is set, the node calls `Handshakes::on_confirmed(index)`, which ends the repetition of
//!    the Finish.
//! 5. When [`Sessions::wants_rekey`], the node dials the same neighbor again. The older session stays valid for opening
//!    until it has been silent for [`sessions::GRACE`]; no packet in flight is lost. [`Sessions::expire`] names indices
//!    to return by `Handshakes::release`.
//!
//! Bulk data has no session: [`ends`] contains what its ends agree on for each transfer. Groups have no session either:
//! a source makes a key for all its receivers, in [`group`].
//!
//! The cost of an outsider's datagrams is bounded: a malformed datagram costs a length check, a stale one a lookup, a
//! well-formed one a MAC. Nothing is allocated, and no answer has more bytes than the datagram that caused it. Above
//! [`limits`] the dialler must come again with a cookie. Every refusal is a [`Refusal`] with a `label()`, for counters.
#![forbid(unsafe_code)]

pub mod armour;
pub mod authority;
pub mod certificate;
mod chain;
pub mod ends;
mod entropy;
pub mod group;
pub mod handshakes;
pub mod identity;
pub mod issuer;
mod kem;
pub mod limits;
mod mac;
mod marks;
pub mod network;
mod noise;
mod replay;
pub mod session;
pub mod sessions;
pub mod signature;
pub mod suite;
#[cfg(test)]
mod world;
mod x25519;

pub use authority::{Authority, AuthorityError, Changes, Grants, Mandate, Validity};
pub use certificate::{Certificate, Delegation, Request, Revocations};
pub use chain::SuccessionError;
pub use group::{GroupKeys, OpeningKey, Route, SealingKey};
pub use handshakes::{DialError, Due, Established, Handshakes, Outcome, PostQuantum, Refusal};
pub use identity::{Identity, IdentityError, Keys};
pub use issuer::{IssueError, Issuer, Newcomer};
pub use marks::PacketMarks;
pub use network::{CertificateError, Network, Peer};
pub use session::{BOUND_BYTES, Bound, OpenError, Opened, SealError, Session, Shown};
pub use sessions::Sessions;
pub use signature::Context;
pub use suite::Memo;
