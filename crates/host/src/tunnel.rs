//! Links over TLS and TCP, where UDP does not get through.
//!
//! ```text
//!   loop ── NoDatagrams ──▶ Dialler ── TCP, TLS, certificates ──▶ the door of the other node's relay service
//!    │                         │                                       │
//!    │◀──── Offer ─────────────┤                                       ├─────── Offer ──────▶ loop over there
//!    │                         ▼                                       ▼
//!    └── SOCK_SEQPACKET ── Carrier ═══════ one TLS connection ═════ Carrier ── SOCK_SEQPACKET ──▶
//! ```
//! The engine sees one more address below ([`base::UnderlayAddr::is_stream`]) and nothing of TCP. Its thread writes a
//! burst into a socket of the tunnel's thread, and never waits for it; TLS is that thread's work.
//!
//! TCP has a queue, and a queue of voice is of no use: what the connection does not take at once waits in a
//! backlog of bounded bytes and age, from which the oldest is dropped and counted.
//!
//! Life of a tunnel: dialled when the engine has no answer by datagrams; offered to the loop, which keeps one for each
//! neighbour; ended by either side, by silence of TCP, or when the link has been back on datagrams for a
//! while (`table`).

mod backlog;
mod carrier;
mod dial;
mod greeting;
mod table;

pub use dial::{Dialler, Targets, Wanted};
pub use table::{Counts, Ended, Offer, TUNNELS_MAX, Tunnels};

pub(crate) use carrier::Carrier;
pub(crate) use dial::carry;
pub(crate) use greeting::{read_hello, write_hello};
