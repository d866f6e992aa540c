//! What a client tells of its ways.

use base::Duration;
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
    /// Of those that were sent under the present keys the share that was lost, towards the gate and
    /// from there, as far as it is known.
    pub loss: (f64, f64),
    /// Probes, and those without an answer in time.
    pub probes: (u64, u64),
    /// What has come by UDP and was not used: not sealed by the gate, or seen before.
    pub strange: u64,
    /// What has come by UDP when the socket had no room.
    pub full: u64,
}

/// The ways to one gate that there are.
#[derive(Debug, Default)]
pub struct Ways(Mutex<Vec<Weak<Told>>>);

impl Ways {
    /// What they tell, the oldest first.
    pub fn reports(&self) -> Vec<WayReport> {
        let ways = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let live = ways.iter().filter_map(Weak::upgrade);
        live.map(|told| *told.report()).collect()
    }

    pub(super) fn begin(&self) -> Arc<Told> {
        let told = Arc::new(Told::default());
        let mut ways = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ways.retain(|way| way.strong_count() > 0);
        ways.push(Arc::downgrade(&told));
        told
    }
}

/// One way's report, which its pump writes.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<WayReport>);

impl Told {
    fn report(&self) -> MutexGuard<'_, WayReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_up(&self, is_up: bool) {
        self.report().is_udp = is_up;
    }

    pub(super) fn sent(&self) {
        self.report().sent += 1;
    }

    pub(super) fn sent_by_tls(&self) {
        self.report().sent_by_tls += 1;
    }

    pub(super) fn came(&self) {
        self.report().came += 1;
    }

    pub(super) fn strange(&self) {
        self.report().strange += 1;
    }

    pub(super) fn full(&self) {
        self.report().full += 1;
    }

    pub(super) fn probed(&self, probes: (u64, u64)) {
        self.report().probes = probes;
    }

    /// In each direction how many came of how many.
    pub(super) fn heard(&self, rtt: Option<Duration>, outward: (u64, u64), inward: (u64, u64)) {
        let loss = |(came, of): (u64, u64)| match of {
            0 => 0.0,
            of => of.saturating_sub(came) as f64 / of as f64,
        };
        let mut report = self.report();
        report.rtt = rtt.map(|rtt| core::time::Duration::from_nanos(rtt.as_nanos()));
        report.loss = (loss(outward), loss(inward));
    }
}
