//! The reason that delays an announcement at the moment, and the end of the delay: for explanations of why routes stay
//! as they are.

use super::{Announce, Damped, Settings};
use base::{Duration, Time};
use graph::LinkCost;

/// How the announcements of one link are delayed.
#[derive(Clone, Debug, PartialEq)]
pub struct Damping {
    /// The announced cost.
    pub announced: LinkCost,
    /// Nothing is announced before this time, whatever is measured: the spacing.
    pub not_before: Time,
    /// Changes that are measured and wait for their announcement.
    pub pending: Vec<Pending>,
    /// How long a clear improvement of the latency must last at the moment.
    pub latency_hold: Duration,
    /// How long a clear improvement of the loss must last at the moment.
    pub loss_hold: Duration,
}

/// A change that has not lasted long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The quantity that has changed.
    pub what: Quantity,
    /// The change is an improvement.
    pub better: bool,
    /// When the change is announced if it lasts.
    pub due: Time,
}

/// A quantity that is damped on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// The latency.
    Latency,
    /// The loss.
    Loss,
}

impl Announce {
    /// Returns what delays announcements; `None` while the link is down.
    pub fn damping(&self) -> Option<Damping> {
        let not_before = self.last.filter(|_| !self.is_silent)? + self.settings.spacing;
        let pending = [
            (Quantity::Latency, &self.latency),
            (Quantity::Loss, &self.loss),
        ];
        Some(Damping {
            announced: self.announced()?,
            not_before,
            pending: pending
                .into_iter()
                .flat_map(|(what, damped)| damped.pending(&self.settings, what, not_before))
                .collect(),
            latency_hold: self.latency.hold,
            loss_hold: self.loss.hold,
        })
    }
}

impl Damped {
    /// Returns at most one change: a value is either better or worse.
    fn pending(&self, s: &Settings, what: Quantity, not_before: Time) -> Option<Pending> {
        let ends = self
            .spells(s)
            .into_iter()
            .filter_map(|(spell, lasts, better)| {
                let due = (spell?.since + lasts).max(not_before);
                Some(Pending { what, better, due })
            });
        ends.min_by_key(|pending| pending.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Time {
        Time::ZERO + Duration::from_secs(s)
    }

    fn cost(latency_ms: u32, loss: f64) -> LinkCost {
        LinkCost::new(latency_ms * 1_000, loss)
    }

    #[test]
    fn what_waits_is_told_with_its_time() {
        let mut announce = Announce::new(Settings::modern());
        assert_eq!(announce.damping(), None, "the link is down");
        let start = at(100);
        announce.on_link_up(start, cost(20, 0.0));
        let damping = announce.damping().unwrap();
        assert_eq!(damping.announced, cost(20, 0.0));
        assert_eq!(damping.not_before, start + Duration::from_secs(2));
        assert_eq!(damping.pending, []);
        // A change for the worse is delayed by the spacing. A change for the better is delayed by the hold.
        let soon = start + Duration::from_millis(100);
        announce.on_measure(soon, cost(10, 0.2));
        let damping = announce.damping().unwrap();
        let pending = |what, better, due| Pending { what, better, due };
        assert_eq!(
            damping.pending,
            [
                pending(Quantity::Latency, true, soon + Duration::from_secs(20)),
                pending(Quantity::Loss, false, start + Duration::from_secs(2)),
            ]
        );
        // The reported times are the times at which the announcements happen.
        let early = start + Duration::from_millis(1_999);
        assert_eq!(announce.on_measure(early, cost(10, 0.2)), None);
        let due = announce.damping().unwrap().pending[1].due;
        assert_eq!(announce.on_measure(due, cost(10, 0.2)), Some(cost(20, 0.2)));
        let due = announce.damping().unwrap().pending[0].due;
        assert_eq!(announce.on_measure(due, cost(10, 0.2)), Some(cost(10, 0.2)));
        assert_eq!(announce.damping().unwrap().pending, []);
    }

    #[test]
    fn the_paper_waits_half_a_minute() {
        let mut announce = Announce::new(Settings::paper());
        announce.on_link_up(at(0), cost(20, 0.0));
        announce.on_measure(at(1), cost(40, 0.0));
        let damping = announce.damping().unwrap();
        assert_eq!(damping.not_before, at(30));
        assert_eq!(damping.pending[0].due, at(30));
    }
}
