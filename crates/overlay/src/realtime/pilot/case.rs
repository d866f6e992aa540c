//! What there is to choose from for a lane: shares of repair packets, and what each would leave.

use super::super::Share;
use super::predict::{Losses, Predictions};
use super::spacing::PARTS;
use graph::protection::table::SHARES;

/// Repair is not worth its bytes where it leaves more than this of what is lost.
const WORTH: f64 = 0.7;
/// What is missing to the target by so little is not worth a dearer plan.
pub(super) const NEARLY: f64 = 1.25;

/// What there is to choose from.
pub(super) struct Case<'a> {
    pub(super) losses: Losses,
    pub(super) predictions: &'a mut Predictions,
    /// Packets that follow before a packet is late: of equal parts of the packets, rising.
    pub(super) reaches: [u32; PARTS],
    pub(super) cap: f64,
    pub(super) saved: f64,
}

impl Case<'_> {
    /// Packets that follow half of the packets before they are late.
    pub(super) fn reach(&self) -> u32 {
        self.reaches[PARTS / 2]
    }

    /// What is allowed, rising.
    pub(super) fn shares(&self) -> impl DoubleEndedIterator<Item = Share> + use<> {
        // A cap of a half allows a half, whatever rounding makes of it; packets of different lengths take more.
        let cap = self.cap * 1.001;
        let allowed =
            move |(repairs, packets): &(u16, u16)| f64::from(*repairs) <= f64::from(*packets) * cap;
        let width = self.reach() + 1;
        SHARES
            .into_iter()
            .filter(allowed)
            .map(move |(repairs, packets)| Share {
                repairs: repairs.into(),
                packets: packets.into(),
                lag: 0,
                width,
            })
    }

    /// A share over the window that there is now. Copies stay copies, and come no later than a packet is of use.
    pub(super) fn fitted(&self, share: Share) -> Share {
        let lag = share.lag.min(self.reach());
        match lag > 0 {
            true => Share { lag, ..share },
            false => Share {
                lag: 0,
                width: self.reach() + 1,
                ..share
            },
        }
    }

    pub(super) fn leaves(&mut self, share: Share) -> f64 {
        let predictions = &mut *self.predictions;
        let of = |reach| predictions.repair(self.losses, share, reach);
        self.reaches.map(of).iter().sum::<f64>() / PARTS as f64 * self.saved
    }

    /// The cheapest that leaves no more than the target, or about the least.
    pub(super) fn cheapest(&mut self, target: f64) -> Option<(Share, f64)> {
        let shares: Vec<Share> = self.shares().collect();
        let dearest = self.best_of(*shares.last()?);
        let enough = target.max(dearest.1 * NEARLY);
        // The dearer, the less is left.
        let at = shares.partition_point(|share| self.best_of(*share).1 > enough);
        let found = shares.get(at).map_or(dearest, |share| self.best_of(*share));
        let before = self.losses.share * self.saved;
        (found.1 < before * WORTH).then_some(found)
    }

    /// Combinations of the last packets or, of as many repair packets as packets, copies that come later: they
    /// survive longer runs.
    fn best_of(&mut self, share: Share) -> (Share, f64) {
        let mut best = (share, self.leaves(share));
        let most = match share.repairs == share.packets {
            true => self.reach().min(LAG_MOST),
            false => 0,
        };
        for lag in 1..=most {
            let copies = Share {
                lag,
                width: 1,
                ..share
            };
            let leaves = self.leaves(copies);
            if leaves < best.1 {
                best = (copies, leaves);
            }
        }
        best
    }
}

/// Packets that a copy comes later at most: the longest runs that are no outages.
const LAG_MOST: u32 = 8;
