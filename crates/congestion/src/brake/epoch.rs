//! The traffic of a lane between two judgements, and the reports of the other end in that time.

use super::OTHERS_SHARE;
use base::{Duration, Time};

/// The maximum number of packets of an outage that count as lost.
const OUTAGE_COUNTED: u64 = 3;
/// Losses that are closer together than this form one run.
const APART: Duration = Duration::from_secs(1);

/// The last run of losses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    lost: u64,
    last: Time,
}

impl Run {
    /// Adds the losses of an epoch that ends now.
    pub(super) fn add(&mut self, now: Time, epoch: &Epoch) {
        if epoch.lost == 0 {
            return;
        }
        if now.since(self.last) > APART {
            self.lost = 0;
        }
        (self.lost, self.last) = (self.lost + epoch.lost, now);
    }

    /// Returns true if the run is no longer than what counts of an outage. A full queue would go on losing.
    pub(super) fn is_outage(&self) -> bool {
        self.lost <= OUTAGE_COUNTED
    }
}

/// The events since the last judgement.
#[derive(Clone, Debug)]
pub(super) struct Epoch {
    pub(super) since: Time,
    pub(super) sent: u64,
    pub(super) sent_bytes: u64,
    pub(super) offered_bytes: u64,
    /// The least slack of the packets that were offered.
    pub(super) slack: Duration,
    /// The bytes that other lanes of the sender have sent, which wait.
    pub(super) beside_bytes: u64,
    /// The number of packets of the link that the other end has reported, and the number of them that were lost.
    pub(super) told: u64,
    pub(super) lost: u64,
    /// A bit for each flow's hash. The number of set bits shows how many flows there are.
    pub(super) flows: u64,
}

impl Epoch {
    pub(super) fn new(since: Time) -> Epoch {
        Epoch {
            since,
            sent: 0,
            sent_bytes: 0,
            offered_bytes: 0,
            slack: Duration::MAX,
            beside_bytes: 0,
            told: 0,
            lost: 0,
            flows: 0,
        }
    }

    pub(super) fn add(&mut self, other: &Epoch) {
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.offered_bytes += other.offered_bytes;
        self.beside_bytes += other.beside_bytes;
        self.told += other.told;
        self.lost += other.lost;
    }

    /// Returns true if lanes that wait sent such a part of the traffic that the losses may be theirs.
    pub(super) fn waited_beside(&self) -> bool {
        let given = self.sent_bytes + self.beside_bytes;
        self.beside_bytes as f64 > OTHERS_SHARE * given as f64
    }

    pub(super) fn lost_share(&self) -> f64 {
        self.lost as f64 / self.told.max(1) as f64
    }

    /// Estimates the number of flows from the share of bits that are not set (linear counting); 64 bits can count up to
    /// about 260.
    pub(super) fn flows(&self) -> f64 {
        let unset = self.flows.count_zeros().max(1);
        (64.0 * (64.0 / f64::from(unset)).ln()).max(1.0)
    }
}
