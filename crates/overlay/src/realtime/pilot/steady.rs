//! What is lost as long as nothing changes: the mean of what the looks of late have estimated.
//!
//! ```text
//!   estimates   .  '. . '  .  ' .        ' '  . '
//!   mean        ─────────────────        ────────
//!                                └ too far from it to be chance: begins anew there
//! ```
//! One estimate is over fifty losses and forty runs, so it is off by a seventh and a ninth by chance, and what a plan leaves
//! follows it with the fourth power and more: by a factor of two and a half. A plan that was chosen by single estimates would
//! be chosen anew again and again, or would have to be dearer by so much than what losses take.

/// Looks that the mean is over at most. Choice: half a minute. A trunk of twenty calls has fifteen independent estimates by
/// then, which makes a quarter of the error; one call has about one.
const LOOKS: f64 = 30.0;
/// An estimate that is so many times the mean, or less by as much, is no chance: three standard deviations.
const OTHER: f64 = 1.5;

/// The mean share of losses and the mean length of their runs, over some looks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Steady {
    share: f64,
    run: f64,
    looks: f64,
}

impl Steady {
    /// Notes what a look has estimated.
    pub(super) fn note(&mut self, share: f64, run: f64) {
        if is_other(share, self.share) || is_other(run, self.run) {
            self.looks = 0.0;
        }
        self.looks = (self.looks + 1.0).min(LOOKS);
        self.share += (share - self.share) / self.looks;
        self.run += (run - self.run) / self.looks;
    }

    /// What an estimate is taken for: the mean, or itself if it is far from it.
    pub(super) fn of(&self, share: f64, run: f64) -> (f64, f64) {
        match self.looks > 0.0 && !is_other(share, self.share) && !is_other(run, self.run) {
            true => (self.share, self.run),
            false => (share, run),
        }
    }
}

fn is_other(estimate: f64, mean: f64) -> bool {
    estimate > mean * OTHER || estimate * OTHER < mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wanders_is_taken_for_its_mean_and_what_jumps_for_itself() {
        let mut steady = Steady::default();
        assert_eq!(steady.of(0.05, 2.0), (0.05, 2.0), "nothing is known");
        for n in 0..40 {
            let off = if n % 2 == 0 { 1.15 } else { 0.85 };
            steady.note(0.05 * off, 2.0 / off);
        }
        let (share, run) = steady.of(0.065, 2.2);
        assert!(
            (share - 0.05).abs() < 0.001 && (run - 2.04).abs() < 0.05,
            "{share} {run}"
        );
        assert_eq!(steady.of(0.10, 2.0), (0.10, 2.0));
        assert_eq!(steady.of(0.05, 4.0), (0.05, 4.0));
        steady.note(0.0, 1.0);
        assert_eq!(steady.of(0.0, 1.0), (0.0, 1.0));
    }

    #[test]
    fn what_drifts_is_followed() {
        let mut steady = Steady::default();
        (0..100).for_each(|n| steady.note(0.02 + 0.0005 * f64::from(n), 1.0));
        let (share, _) = steady.of(0.07, 1.0);
        assert!(share > 0.05, "{share}");
    }
}
