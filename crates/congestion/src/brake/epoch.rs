//! What a lane sent between two judgements, and what the other end told meanwhile.

use super::OTHERS_SHARE;
use base::{Duration, Time};

/// So many packets of an outage are taken for lost at most.
const OUTAGE_COUNTED: u64 = 3;
/// Losses that are less apart belong together.
const APART: Duration = Duration::from_secs(1);

/// The last losses that belong together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    lost: u64,
    last: Time,
}

impl Run {
    /// Takes in what was lost in an epoch that ends now.
    pub(super) fn add(&mut self, now: Time, epoch: &Epoch) {
        if epoch.lost == 0 {
            return;
        }
        if now.since(self.last) > APART {
            self.lost = 0;
        }
        (self.lost, self.last) = (self.lost + epoch.lost, now);
    }

    /// They are no more than what counts of an outage: a queue that is full goes on to lose.
    pub(super) fn is_outage(&self) -> bool {
        self.lost <= OUTAGE_COUNTED
    }
}

/// What has happened since the last judgement.
#[derive(Clone, Debug)]
pub(super) struct Epoch {
    pub(super) since: Time,
    pub(super) sent: u64,
    pub(super) sent_bytes: u64,
    pub(super) offered_bytes: u64,
    /// The least slack of a packet that was offered.
    pub(super) slack: Duration,
    /// What other lanes of the sender have sent, those that wait.
    pub(super) beside_bytes: u64,
    /// Packets of the link of which the other end has told, and those of them that were lost.
    pub(super) told: u64,
    pub(super) lost: u64,
    /// A bit for each flow's hash: how many are set tells how many flows there are.
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

    /// Lanes that wait gave so much of what the sender gave that the losses may be theirs.
    pub(super) fn waited_beside(&self) -> bool {
        let given = self.sent_bytes + self.beside_bytes;
        self.beside_bytes as f64 > OTHERS_SHARE * given as f64
    }

    pub(super) fn lost_share(&self) -> f64 {
        self.lost as f64 / self.told.max(1) as f64
    }

    /// How many flows there probably were, by the share of bits that none has set (linear
    /// counting); 64 bits tell up to about 260.
    pub(super) fn flows(&self) -> f64 {
        let unset = self.flows.count_zeros().max(1);
        (64.0 * (64.0 / f64::from(unset)).ln()).max(1.0)
    }
}
