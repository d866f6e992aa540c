//! The common parts of the video gateways: the side of the overlay, and the counters.
//!
//! ```text
//!   encoder ──SRT, RIST, RTP──▶ Outlet ──▶ node ══ overlay ══ nodes ──▶ Inlet ──SRT, RIST, RTP──▶ decoders
//!                     Watch ──┘                                    └── Watch
//! ```
//! Each datagram of the encoder's protocol becomes a datagram of the overlay, unchanged. So all of these gateways work
//! with each other, and with programs that use the overlay themselves.

pub mod backoff;
mod inlet;
pub mod line;
mod outlet;
mod outward;
mod pace;
mod watch;

pub use inlet::{Inlet, Packet, Place};
pub use outlet::Outlet;
pub(crate) use outward::{Outward, Sink};
pub use watch::{Seen, Watch};

use base::Duration;
use client::{Error, ErrorCode};

/// The time between attempts to reach the node, after it was lost or not found.
const NODE_AGAIN: Duration = Duration::from_millis(500);

/// Returns whether a node only announces that it stops. The loss of the connection follows, and is reported.
pub(crate) fn is_farewell(error: &Error) -> bool {
    matches!(
        error,
        Error::Refused {
            code: ErrorCode::Stopping,
            ..
        }
    )
}
