//! What the gateways for video have in common: the side of the overlay, and what they watch.
//!
//! ```text
//!   encoder ──SRT, RIST, RTP──▶ Outlet ──▶ node ══ overlay ══ nodes ──▶ Inlet ──SRT, RIST, RTP──▶ decoders
//!                     Watch ──┘                                    └── Watch
//! ```
//! A datagram of the encoder's protocol is a datagram of the overlay, as it is. So all of these gateways, and
//! programs that use the overlay themselves, understand each other.

pub mod backoff;
mod inlet;
pub mod line;
mod outlet;
mod outward;
mod watch;

pub use inlet::{Inlet, Packet, Place};
pub use outlet::Outlet;
pub(crate) use outward::{Outward, Sink};
pub use watch::{Seen, Watch};

use base::Duration;

/// How long after the node was lost, or not found, it is looked for again.
const NODE_AGAIN: Duration = Duration::from_millis(500);
