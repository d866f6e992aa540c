//! What hellos tell of losses, while the estimate of the loss rate still speaks of what was before.
//!
//! ```text
//!   losses end        the estimate falls by the packets that come, for minutes:   none where many were due
//!   they come again   it is still of before:                                      the distance of the last three
//! ```
//! Only what is plain counts: steady losses are never taken for an end. And losses that begin are left to the estimate: they
//! may be those of a queue, which takes a second to be known, and would be longer by the repair.
//!
//! The estimate has an end of its own ([`Loss`](crate::estimate::Loss)), which routes go by. It waits for six times as many
//! losses that were due, as a route that changes too soon costs more than repair that pauses.

/// After they have ended, losses are those of before again, or others, from so many on.
const BEGUN: usize = 3;
/// Losses have ended when so many runs of them were expected and none came. Choice: by chance that happens once in
/// nine million runs, which are 41 days of one call over a link that loses 5 %, and some days if the estimate is too
/// high by two of its standard deviations (a third).
const ENDED: f64 = 16.0;
/// The estimate has caught up when it is no more than so many times what is told.
const CAUGHT_UP: f64 = 2.0;

/// What hellos have told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recent {
    /// Datagrams that have arrived or were lost.
    position: u64,
    /// Where the last losses were, the oldest first.
    last: [u64; BEGUN],
    /// Losses have ended here, and the estimate does not know it yet.
    ended: Option<u64>,
}

impl Recent {
    /// So many datagrams arrived since the hello before, and so many were lost.
    pub(super) fn on_told(&mut self, arrived: u64, lost: u64) {
        self.position += arrived + lost;
        let lost = usize::try_from(lost).map_or(BEGUN, |lost| lost.min(BEGUN));
        self.last.rotate_left(lost);
        self.last[BEGUN - lost..].fill(self.position);
    }

    /// What is lost, where the estimate says this much in runs of this length. True with it if losses ended just now.
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

    /// By the distance of the last losses since a position; none if there are fewer.
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

    /// A lane of a link, and what its other end estimates.
    #[derive(Default)]
    struct Lane {
        recent: Recent,
        loss: Loss,
        seq: u64,
    }

    impl Lane {
        /// So many hellos about so many datagrams each, of which a share is lost; what is answered.
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
            // The estimate follows after a dozen losses; of sixty the last twenty are looked at.
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
