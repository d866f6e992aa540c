//! The choices for a lane: shares of repair packets, and what each of them would leave lost.

use super::super::Share;
use super::predict::{Losses, Predictions};
use super::spacing::PARTS;
use graph::protection::table::SHARES;

/// Repair is not worth its bytes if it leaves more than this fraction of the losses.
const WORTH: f64 = 0.7;
/// A more expensive plan is not worth its cost if it leaves less by at most this factor.
pub(super) const NEARLY: f64 = 1.25;

/// The state of a lane for which a share is chosen.
pub(super) struct Case<'a> {
    pub(super) losses: Losses,
    pub(super) predictions: &'a mut Predictions,
    /// Number of packets that follow before a packet is late, for equal parts of the packets, in ascending order.
    pub(super) reaches: [u32; PARTS],
    pub(super) cap: f64,
    pub(super) saved: f64,
}

impl Case<'_> {
    /// Returns the number of packets that follow a typical packet before it is late.
    pub(super) fn reach(&self) -> u32 {
        self.reaches[PARTS / 2]
    }

    /// Returns the shares that the cap allows, in ascending order.
    pub(super) fn shares(&self) -> impl DoubleEndedIterator<Item = Share> + use<> {
        // A cap of a half allows a half despite rounding. Different lengths of packets change the cap by more.
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

    /// Returns a share with the window that is possible now. Copies stay copies, and come while a packet is useful.
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

    /// Returns the cheapest share that leaves no more than the target, or about as little as is possible, and what it
    /// leaves. Returns `None` if repair is not worth its bytes.
    pub(super) fn cheapest(&mut self, target: f64) -> Option<(Share, f64)> {
        let shares: Vec<Share> = self.shares().collect();
        let dearest = self.best_of(*shares.last()?);
        let enough = target.max(dearest.1 * NEARLY);
        // A more expensive share leaves less.
        let at = shares.partition_point(|share| self.best_of(*share).1 > enough);
        let found = shares.get(at).map_or(dearest, |share| self.best_of(*share));
        let before = self.losses.share * self.saved;
        (found.1 < before * WORTH).then_some(found)
    }

    /// Returns the better of two kinds of repair: combinations of the last packets or, if there are as many repair
    /// packets as packets, copies that come later. Such copies survive longer runs.
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

/// The maximum number of packets by which a copy comes later: the longest runs that are not outages.
const LAG_MOST: u32 = 8;
