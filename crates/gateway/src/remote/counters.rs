//! What has happened to datagrams of ways.

use super::count;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why a datagram that came was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayDrop {
    /// No client has the index that it names.
    Unknown,
    /// The tag does not fit: damaged, or forged.
    Seal,
    /// It was there before, or is too old to tell.
    Replay,
    /// It is no sealed datagram, or holds what no client sends.
    Malformed,
    /// It was sent before the socket became one of payloads only, or is no datagram.
    Mode,
    /// The node takes no more of this client.
    Full,
}

impl WayDrop {
    /// All of them.
    pub const ALL: [WayDrop; 6] = [
        WayDrop::Unknown,
        WayDrop::Seal,
        WayDrop::Replay,
        WayDrop::Malformed,
        WayDrop::Mode,
        WayDrop::Full,
    ];

    /// A short stable word for metrics.
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

/// What has happened to datagrams of ways.
#[derive(Debug, Default)]
pub struct WayCounters {
    /// Ways that were opened.
    pub opened: AtomicU64,
    /// Datagrams of clients that the node took.
    pub received: AtomicU64,
    /// Datagrams to clients by UDP.
    pub sent: AtomicU64,
    /// Datagrams to clients that have a way, by TLS all the same.
    pub sent_by_tls: AtomicU64,
    drops: [AtomicU64; WayDrop::ALL.len()],
}

impl WayCounters {
    /// How many were dropped for this reason.
    pub fn dropped(&self, why: WayDrop) -> u64 {
        self.drops[why as usize].load(Ordering::Relaxed)
    }

    pub(super) fn drop(&self, why: WayDrop) {
        count(&self.drops[why as usize]);
    }
}
