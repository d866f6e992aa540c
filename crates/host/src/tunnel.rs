//! Links over TLS and TCP, for networks that block UDP.
//!
//! ```text
//!   loop ── NoDatagrams ──▶ Dialler ── TCP, TLS, certificates ──▶ the door of the other node's relay service
//!    │                         │                                       │
//!    │◀──── Offer ─────────────┤                                       ├─────── Offer ──────▶ loop over there
//!    │                         ▼                                       ▼
//!    └── SOCK_SEQPACKET ── Carrier ═══════ one TLS connection ═════ Carrier ── SOCK_SEQPACKET ──▶
//! ```
//! For the engine, a tunnel is one more underlay address ([`base::UnderlayAddr::is_stream`]); it knows nothing about
//! TCP. The engine's thread writes a burst into a socket of the tunnel's thread, and never waits for it. The tunnel's
//! thread does the TLS work.
//!
//! TCP has a queue, and queued voice packets are of no use. Therefore, data that the connection does not take at once
//! waits in a backlog of bounded size and age, from which the oldest datagrams are dropped and counted.
//!
//! Life of a tunnel: the node dials it if the engine has no answer by datagrams; offers it to the loop, which keeps one
//! for each neighbour; and ends it if either side ends it, if TCP is silent, or if the link has been back on datagrams
//! for a while (`table`).

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
