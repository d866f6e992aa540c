//! What the last hellos tell of losses, while the estimate of the loss rate still speaks of what was before.
//!
//! ```text
//!   losses end      it falls by the packets that come, for minutes:   none where many are expected
//!   they are back   it is still high, or follows ten runs later:      the last second or two tell
//! ```
//! Only what is plain counts: steady losses are never taken for an end. And losses that begin are left to the estimate: they
//! may be those of a queue, which takes a second to be known, and would be longer by the repair.

use base::{Duration, Time};

/// What is told is counted over one to two of these.
const SPAN: Duration = Duration::from_secs(1);
/// After they have ended, losses have begun again from so many on.
const BEGUN: f64 = 3.0;
/// Losses have ended when so many runs of them were expected and none came. Choice: by chance that happens once in
/// nine million runs, which are 17 days of one call over a link that loses 5 %.
const ENDED: f64 = 16.0;
/// The estimate has caught up when it is no more than so many times what is told.
const CAUGHT_UP: f64 = 2.0;

/// Datagrams, and those of them that were lost.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    arrived: u64,
    lost: u64,
}

/// What hellos have told of late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recent {
    spans: [Counted; 2],
    turned: Time,
    /// Datagrams since the last loss.
    since_loss: u64,
    /// Losses have ended, and the estimate does not know it yet.
    has_ended: bool,
}

impl Recent {
    /// So many datagrams arrived since the hello before, and so many were lost.
    pub(super) fn on_told(&mut self, now: Time, arrived: u64, lost: u64) {
        let passed = now.since(self.turned);
        if passed >= SPAN {
            let before = if passed < SPAN * 2 {
                self.spans[1]
            } else {
                Counted::default()
            };
            (self.spans, self.turned) = ([before, Counted::default()], now);
        }
        let [_, span] = &mut self.spans;
        (span.arrived, span.lost) = (span.arrived + arrived, span.lost + lost);
        self.since_loss = match lost {
            0 => self.since_loss + arrived,
            _ => 0,
        };
    }

    /// What is lost, where the estimate says this much in runs of this length. True with it if losses ended just now.
    pub(super) fn share(&mut self, estimate: f64, run: f64) -> (f64, bool) {
        let [before, span] = self.spans;
        let lost = (before.lost + span.lost) as f64;
        let all = (before.arrived + span.arrived) as f64 + lost;
        let share = lost / all.max(1.0);
        if self.has_ended {
            let told = if lost >= BEGUN { share } else { 0.0 };
            self.has_ended = estimate > told * CAUGHT_UP;
            return (told.min(estimate), false);
        }
        self.has_ended = self.since_loss as f64 * estimate >= ENDED * run.max(1.0);
        let is_over = self.has_ended;
        (if is_over { 0.0 } else { estimate }, is_over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    /// Hellos each 100 ms about so many datagrams, of which a share is lost; the last answer.
    fn tell(
        recent: &mut Recent,
        from_ms: u64,
        ms: u64,
        each: u64,
        share: f64,
        estimate: f64,
    ) -> Vec<(f64, bool)> {
        let mut rng = Rng::new(from_ms + 1);
        (0..ms / 100)
            .map(|n| {
                let lost = (0..each).filter(|_| rng.chance(share)).count() as u64;
                let now = Time::ZERO + Duration::from_millis(from_ms + n * 100);
                recent.on_told(now, each - lost, lost);
                recent.share(estimate, 1.0)
            })
            .collect()
    }

    #[test]
    fn losses_that_end_are_known_before_the_estimate_and_one_loss_does_not_bring_them_back() {
        let mut recent = Recent::default();
        tell(&mut recent, 0, 5_000, 120, 0.05, 0.05);
        let told = tell(&mut recent, 5_000, 2_000, 120, 0.0, 0.05);
        let over = told.iter().position(|(_, is_over)| *is_over);
        assert!(over.is_some_and(|over| over < 10), "{told:?}");
        assert_eq!(told.last(), Some(&(0.0, false)));
        recent.on_told(Time::ZERO + Duration::from_secs(7), 120, 1);
        assert_eq!(recent.share(0.04, 1.0), (0.0, false));
        let again = tell(&mut recent, 7_100, 2_000, 120, 0.05, 0.04);
        assert!((0.03..0.08).contains(&again.last().unwrap().0), "{again:?}");
    }

    #[test]
    fn steady_losses_neither_begin_nor_end() {
        for (share, each) in [(0.05, 6), (0.05, 120), (0.01, 6), (0.01, 120)] {
            let told = tell(&mut Recent::default(), 0, 3_600_000, each, share, share);
            let odd = told.iter().filter(|told| **told != (share, false)).count();
            assert!(odd <= 10, "{share} of {each}: {odd}");
        }
    }
}
