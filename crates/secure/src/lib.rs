//! Who may be a neighbour, and how neighbours seal what they say.
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
//! Sans-IO: datagrams and times come in as arguments, datagrams go out as values, entropy is a
//! 32-byte seed, and the wall clock (`unix_now_s`) is asked only for whether a certificate counts.
//! Equal seeds and inputs give equal bytes.
//!
//! # Life cycle at a node
//!
//! 1. `Handshakes::new(identity, network, seed, now)`.
//! 2. `dial(now, to, expect)` gives the Init to send. Datagrams of the four handshake kinds go to
//!    `on_datagram`, which answers with an [`Outcome`]; `on_timeout(now)` gives repetitions to send
//!    and says which dials were given up; `next_timeout()` says when.
//! 3. [`Outcome::Established`] carries a [`Session`] and the verified [`Peer`]. The node takes it, and says so by
//!    `on_taken`, or gives its index back by `release`. It sends its
//!    `reply` (a Finish, or what is behind it), puts the session into the neighbour's [`Sessions`], maps `session.local_index()` to
//!    that neighbour, and says hello at once: that first sealed datagram confirms the session to
//!    the dialler.
//! 4. Sealed datagrams are found by [`wire::link::Clear`]'s index and opened by
//!    [`Sessions::open`]. If [`Opened::confirms`] is set, the node calls
//!    `Handshakes::on_confirmed(index)`, which ends the repetition of the Finish.
//! 5. When [`Sessions::wants_rekey`], the node dials the same neighbour again. The older session
//!    stays valid for opening until it has been silent for [`sessions::GRACE`]; no packet in
//!    flight is lost. [`Sessions::expire`] names indices to give back by `Handshakes::release`.
//!
//! Bulk data has no session: what its ends agree on for each transfer is in [`ends`]. Nor have groups: a source
//! makes a key for all its receivers, in [`group`].
//!
//! What an outsider can cost: a malformed datagram a length check, a stale one a lookup, a
//! well-formed one a MAC; nothing is allocated and nothing is answered by more bytes than came in.
//! Above [`limits`] the dialler must come again with a cookie. Every refusal is a [`Refusal`] with
//! a `label()`, for counters.
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
