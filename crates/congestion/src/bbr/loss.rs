//! The losses of a path by itself, and when it loses more than that.
//!
//! ```text
//!   calm rounds, no queue ─▶ usual, at most 10 %
//!   a round:  lost > n · (usual + 2 %) + 3 · √(n · (usual + 2 %))   ⇒ too many
//! ```
//! The second term is what chance adds in one round of a thousand. This margin is needed because a probe lasts for
//! hundreds of acknowledgements, and each is an opportunity for a wrong decision: on a path that loses 2 %, chance may
//! lose two of 20 packets, and sixty of 2000.

/// Losses beyond the usual share by this are congestion (draft-ietf-ccwg-bbr: BBR.LossThresh).
const BEYOND: f64 = 0.02;
/// Choice: the share that a path may lose by itself. Links that lose more are congested by somebody, or of no use.
const USUAL_MAX: f64 = 0.1;
/// The total number of packets over which the average is taken.
const MEMORY: f64 = 2_000.0;

/// The losses of one sender, in segments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Losses {
    usual: f64,
    seen: f64,
    lost: f64,
    arrived: f64,
}

impl Losses {
    pub(crate) fn on_delivered(&mut self, arrived: f64, lost: f64) {
        self.arrived += arrived;
        self.lost += lost;
    }

    /// Returns true if the current round has lost too many packets.
    pub(crate) fn are_too_many(&self) -> bool {
        self.exceed(self.usual + BEYOND)
    }

    /// Returns true if the loss is more than any path loses by itself.
    pub(crate) fn are_a_flood(&self) -> bool {
        self.exceed(USUAL_MAX + BEYOND)
    }

    fn exceed(&self, share: f64) -> bool {
        let expected = (self.lost + self.arrived) * share;
        self.lost > 1.0 && self.lost > expected + 3.0 * expected.sqrt()
    }

    /// Ends a round. Returns whether it has lost too many packets. If `learns` is set, its losses count as usual.
    pub(crate) fn end_round(&mut self, learns: bool) -> bool {
        let too_many = self.are_too_many();
        let count = self.lost + self.arrived;
        if learns && count > 0.0 {
            self.seen = (self.seen + count).min(MEMORY.max(count));
            self.usual += (self.lost / count - self.usual) * (count / self.seen);
            self.usual = self.usual.min(USUAL_MAX);
        }
        self.forget_round();
        too_many
    }

    pub(crate) fn forget_round(&mut self) {
        (self.lost, self.arrived) = (0.0, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_usual_is_not_too_much_and_more_is() {
        let mut losses = Losses::default();
        losses.on_delivered(19.0, 1.0);
        assert!(!losses.are_too_many(), "one is chance");
        losses.forget_round();
        losses.on_delivered(188.0, 12.0);
        assert!(losses.are_too_many() && !losses.are_a_flood());
        for _ in 0..50 {
            losses.forget_round();
            losses.on_delivered(95.0, 5.0);
            losses.end_round(true);
        }
        losses.on_delivered(95.0, 5.0);
        assert!(!losses.end_round(true));
        losses.on_delivered(80.0, 20.0);
        assert!(losses.are_too_many());
        losses.forget_round();
        losses.on_delivered(600.0, 400.0);
        assert!(losses.are_a_flood());
        for _ in 0..50 {
            losses.on_delivered(50.0, 50.0);
            losses.end_round(true);
        }
        losses.on_delivered(70.0, 30.0);
        assert!(losses.are_too_many(), "no path loses so many of itself");
    }
}
