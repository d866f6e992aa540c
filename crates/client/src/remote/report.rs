//! What a client tells of its ways.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// How the datagrams of one socket travel to the gate. Counts are of this end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WayReport {
    /// By UDP; else by TLS.
    pub is_udp: bool,
    /// The round trip to the gate by UDP, once it is known.
    pub rtt: Option<core::time::Duration>,
    /// Datagrams that were sent by UDP, and by TLS.
    pub sent: u64,
    /// See `sent`.
    pub sent_by_tls: u64,
    /// Datagrams that have come by UDP.
    pub came: u64,
    /// Of those that were sent lately the share that was lost, towards the gate and from there.
    pub loss: (f64, f64),
    /// The longest that goes by UDP now, in bytes of UDP; longer ones go by TLS.
    pub longest: usize,
    /// Probes, and those without an answer in time.
    pub probes: (u64, u64),
    /// What has come by UDP and was not used: not sealed by the gate, or seen before.
    pub strange: u64,
    /// What has come by UDP late, from before the socket became one of payloads only.
    pub late: u64,
    /// What has come by UDP when the socket had no room.
    pub full: u64,
}

/// The ways to one gate that there are.
#[derive(Debug, Default)]
pub struct ClientWays(Mutex<Vec<Weak<ReportCell>>>);

impl ClientWays {
    /// What they tell, the oldest first.
    pub fn reports(&self) -> Vec<WayReport> {
        let ways = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let live = ways.iter().filter_map(Weak::upgrade);
        live.map(|cell| *cell.report()).collect()
    }

    pub(super) fn begin(&self) -> Arc<ReportCell> {
        let cell = Arc::new(ReportCell::default());
        let mut ways = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ways.retain(|way| way.strong_count() > 0);
        ways.push(Arc::downgrade(&cell));
        cell
    }
}

/// One way's report, which its pump writes.
#[derive(Debug, Default)]
pub(super) struct ReportCell(Mutex<WayReport>);

impl ReportCell {
    pub(super) fn report(&self) -> MutexGuard<'_, WayReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
