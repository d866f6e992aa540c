//! Counters for the datagrams of ways.

use super::count;
use std::sync::atomic::{AtomicU64, Ordering};

/// The reason why a received datagram was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayDrop {
    /// No client has the index in the datagram.
    Unknown,
    /// The tag is wrong: the datagram is damaged or forged.
    Seal,
    /// The datagram is a repetition, or is too old to know.
    Replay,
    /// The bytes are not an encrypted datagram, or contain something that no client sends.
    Malformed,
    /// The datagram was sent before the socket switched to raw mode, or its content is not a datagram.
    Mode,
    /// The node takes no more from this client.
    Full,
}

impl WayDrop {
    /// All reasons.
    pub const ALL: [WayDrop; 6] = [
        WayDrop::Unknown,
        WayDrop::Seal,
        WayDrop::Replay,
        WayDrop::Malformed,
        WayDrop::Mode,
        WayDrop::Full,
    ];

    /// Returns a short stable word for metrics.
    pub const fn label(self) -> &'static str {
        match self {
            WayDrop::Unknown => "unknown",
            WayDrop::Seal => "seal",
            WayDrop::Replay => "replay",
            WayDrop::Malformed => "malformed",
            WayDrop::Mode => "mode",
            WayDrop::Full => "full",
        }
    }
}

/// Counters for the datagrams of ways.
#[derive(Debug, Default)]
pub struct WayCounters {
    /// Number of ways that were opened.
    pub opened: AtomicU64,
    /// Number of datagrams of clients that the node took.
    pub received: AtomicU64,
    /// Number of datagrams that went to clients by UDP.
    pub sent: AtomicU64,
    /// Number of datagrams that went by TLS to clients that have a way.
    pub sent_by_tls: AtomicU64,
    drops: [AtomicU64; WayDrop::ALL.len()],
}

impl WayCounters {
    /// Returns how many datagrams were dropped for this reason.
    pub fn dropped(&self, why: WayDrop) -> u64 {
        self.drops[why as usize].load(Ordering::Relaxed)
    }

    pub(super) fn drop(&self, why: WayDrop) {
        count(&self.drops[why as usize]);
    }
}
