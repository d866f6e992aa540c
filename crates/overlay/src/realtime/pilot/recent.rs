//! The losses that hellos report, used while the estimate of the loss rate still describes earlier losses.
//!
//! ```text
//!   losses end        the estimate takes minutes to fall:          zero, if many losses were expected and none came
//!   they come again   the estimate still describes earlier ones:   the share by the distance of the last three losses
//! ```
//! Only clear cases count: steady losses are never taken for an end. Losses that begin are left to the estimate,
//! because they may come from a queue. It takes a second to recognize a queue, and repair would make the queue longer.
//!
//! The estimate detects an end by itself, too ([`Loss`](crate::estimate::Loss)), and routes depend on that. It waits
//! for six times as many expected losses, because a route that changes too soon costs more than repair that pauses.

/// Number of losses, since losses have ended, from which on the lane counts as losing packets again.
const BEGUN: usize = 3;
/// Losses have ended when this many runs of losses were expected and none came. Choice: by chance that happens once in
/// nine million runs, which are 41 days of one call over a link that loses 5 %, and some days if the estimate is too
/// high by two of its standard deviations (a third).
const ENDED: f64 = 16.0;
/// The estimate has caught up when it is no more than this multiple of the share that hellos report.
const CAUGHT_UP: f64 = 2.0;

/// The losses that hellos have reported.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recent {
    /// Number of datagrams that have arrived or were lost.
    position: u64,
    /// The positions of the last losses, the oldest first.
    last: [u64; BEGUN],
    /// The position at which losses have ended, until the estimate has caught up.
    ended: Option<u64>,
}

impl Recent {
    /// Takes from a hello how many datagrams have arrived and how many were lost since the previous hello.
    pub(super) fn on_told(&mut self, arrived: u64, lost: u64) {
        self.position += arrived + lost;
        let lost = usize::try_from(lost).map_or(BEGUN, |lost| lost.min(BEGUN));
        self.last.rotate_left(lost);
        self.last[BEGUN - lost..].fill(self.position);
    }

    /// Returns the share of losses, given its estimate and the mean length of runs, and true if losses have ended just
    /// now.
    pub(super) fn share(&mut self, estimate: f64, run: f64) -> (f64, bool) {
        if let Some(ended) = self.ended {
            let told = self.told_since(ended);
            if estimate > told * CAUGHT_UP {
                return (told.min(estimate), false);
            }
            self.ended = None;
            return (estimate, false);
        }
        let since_loss = self.position - self.last[BEGUN - 1];
        if since_loss as f64 * estimate < ENDED * run.max(1.0) {
            return (estimate, false);
        }
        self.ended = Some(self.position);
        (0.0, true)
    }

    /// Returns the share by the distance of the last losses since a position. It is zero if there are fewer than
    /// [`BEGUN`].
    fn told_since(&self, position: u64) -> f64 {
        match self.last[0] > position {
            true => BEGUN as f64 / (self.position - self.last[0]).max(BEGUN as u64) as f64,
            false => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Loss;
    use base::Rng;

    /// A lane of a link, and the estimate at its other end.
    #[derive(Default)]
    struct Lane {
        recent: Recent,
        loss: Loss,
        seq: u64,
    }

    impl Lane {
        /// Reports `hellos` hellos about `each` datagrams each, of which a share is lost. Returns the answers.
        fn tell(&mut self, rng: &mut Rng, hellos: u64, each: u64, share: f64) -> Vec<(f64, bool)> {
            let hello = |_| {
                let before = self.loss.totals();
                for _ in 0..each {
                    if !rng.chance(share) {
                        self.loss.on_packet(self.seq);
                    }
                    self.seq += 1;
                }
                let (arrived, lost) = self.loss.totals();
                self.recent.on_told(arrived - before.0, lost - before.1);
                self.recent.share(self.loss.rate(), self.loss.run())
            };
            (0..hellos).map(hello).collect()
        }
    }

    #[test]
    fn losses_that_end_are_known_before_the_estimate_and_one_loss_does_not_bring_them_back() {
        let (mut lane, mut rng) = (Lane::default(), Rng::new(1));
        lane.tell(&mut rng, 50, 120, 0.05);
        let told = lane.tell(&mut rng, 20, 120, 0.0);
        let over = told.iter().position(|(_, is_over)| *is_over);
        assert!(over.is_some_and(|over| over < 10), "{told:?}");
        assert_eq!(told.last(), Some(&(0.0, false)));
        lane.recent.on_told(120, 1);
        assert_eq!(lane.recent.share(0.04, 1.0), (0.0, false));
        let again = lane.tell(&mut rng, 20, 120, 0.05);
        assert!((0.02..0.1).contains(&again.last().unwrap().0), "{again:?}");
    }

    #[test]
    fn fewer_losses_than_before_the_end_come_back_too() {
        // A call: six datagrams for each hello, ten hellos a second.
        for share in [0.002, 0.005, 0.02] {
            let (mut lane, mut rng) = (Lane::default(), Rng::new(2));
            lane.tell(&mut rng, 500, 6, 0.05);
            lane.tell(&mut rng, 600, 6, 0.0);
            // The estimate follows after a dozen losses. The test checks the last twenty of sixty losses.
            let hellos = (60.0 / share / 6.0) as u64;
            let told = lane.tell(&mut rng, hellos, 6, share);
            let late = &told[told.len() * 2 / 3..];
            let mean = late.iter().map(|(share, _)| share).sum::<f64>() / late.len() as f64;
            assert!(
                (share / 2.0..share * 2.0).contains(&mean),
                "{share}: {mean}"
            );
        }
    }

    #[test]
    fn steady_losses_do_not_end() {
        for (share, each) in [(0.05, 6), (0.05, 120), (0.01, 6), (0.01, 120)] {
            let (mut lane, mut rng) = (Lane::default(), Rng::new(3));
            lane.tell(&mut rng, 2_000, each, share);
            let told = lane.tell(&mut rng, 36_000, each, share);
            let ends = told.iter().filter(|(_, is_over)| *is_over).count();
            assert_eq!(ends, 0, "{share} of {each}");
        }
    }
}
