//! A client's reports about its ways.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// How the datagrams of one socket travel to the gate. The counts are of this end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WayReport {
    /// True if they travel by UDP; otherwise they travel by TLS.
    pub is_udp: bool,
    /// The round trip to the gate by UDP, if it is known.
    pub rtt: Option<core::time::Duration>,
    /// Number of datagrams that were sent by UDP.
    pub sent: u64,
    /// Number of datagrams that were sent by TLS.
    pub sent_by_tls: u64,
    /// Number of datagrams that have arrived by UDP.
    pub came: u64,
    /// The shares of recently sent datagrams that were lost, towards the gate and from the gate.
    pub loss: (f64, f64),
    /// The longest datagram that goes by UDP now, in bytes of UDP; longer ones go by TLS.
    pub longest: usize,
    /// Number of probes, and of those without an answer in time.
    pub probes: (u64, u64),
    /// Number of UDP datagrams that were dropped because they were not encrypted by the gate, or seen before.
    pub strange: u64,
    /// Number of late UDP datagrams, from before the socket carried bare payloads only.
    pub late: u64,
    /// Number of UDP datagrams that arrived when the socket had no room.
    pub full: u64,
}

/// The present ways to one gate.
#[derive(Debug, Default)]
pub struct ClientWays(Mutex<Vec<Weak<ReportCell>>>);

impl ClientWays {
    /// Returns their reports, the oldest way first.
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

/// The report of one way, which its pump writes.
#[derive(Debug, Default)]
pub(super) struct ReportCell(Mutex<WayReport>);

impl ReportCell {
    pub(super) fn report(&self) -> MutexGuard<'_, WayReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
