//! The losses of a lane over some seconds: the mean of estimates that differ by chance.
//!
//! ```text
//!   estimate over fifty losses, which a trunk has in a second     4  6  5  3  7  5  4  12 11 13
//!   steady   the mean of the estimates of some seconds            4  5  5  5  5  5  5  12 11 12
//!                                                                 └──── by chance ───┘ └ another pace
//! ```
//! A more expensive plan takes effect at once, and a cheaper one after some time. With the estimates alone, the plan
//! would therefore be the one for the highest recent estimate: twenty calls over a link that loses 5 % in runs of two
//! packets had a quarter more repair than with the mean.
//!
//! An estimate that differs by more than chance is not an estimate of the same losses. It counts alone from then on,
//! and the mean follows each estimate until all losses that the estimate covers are new.

use crate::estimate::{LOSS_EVENTS, RUNS_LEAST};
use base::{Duration, Time};

/// The time after which the weight of an estimate has fallen to 1/e. Choice: the minimum time that a cheaper plan
/// waits. One call loses about fifty packets in this time, so its mean follows the estimates.
const OVER: Duration = Duration::from_secs(10);
/// A difference of more than this many standard deviations is never taken for chance.
const PLAINLY: f64 = 4.0;
/// A difference of more than this many standard deviations is not taken for chance if it has lasted until all losses
/// are new. Choice: with two, the plan of twenty calls changes half as often again under steady losses in runs of two
/// packets; with three, it takes half a second longer until doubled losses are recognized.
const LASTING: f64 = 2.5;
/// The largest share for which the usual length of runs is computed: a link that loses nearly everything has none.
const SHARE_MOST: f64 = 0.9;

/// Means of a share of losses, and of the length of their runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steady {
    share: Mean,
    run: Mean,
    /// Number of packets that hellos have reported since the last estimate.
    packets: u64,
    at: Time,
}

/// The packets and losses that an estimate covers.
#[derive(Clone, Copy, Debug)]
struct Over {
    /// Number of packets since the previous estimate, and of losses expected among them.
    packets: f64,
    losses: f64,
    /// Number of losses that an estimate covers.
    events: f64,
    /// The factor by which older estimates still count.
    keeps: f64,
}

/// A mean of estimates.
#[derive(Clone, Copy, Debug)]
struct Mean {
    value: f64,
    /// Number of packets that the mean covers.
    packets: f64,
    /// Number of losses expected since the mean began anew, and since the estimates have differed from it.
    since: f64,
    differs: f64,
}

impl Default for Steady {
    fn default() -> Steady {
        Steady {
            share: Mean::new(0.0),
            run: Mean::new(1.0),
            packets: 0,
            at: Time::ZERO,
        }
    }
}

impl Steady {
    /// Notes that a hello reports this many more packets.
    pub(super) fn on_told(&mut self, packets: u64) {
        self.packets += packets;
    }

    /// Takes the current estimates. Returns the share of losses and the length of their runs over some seconds. If no
    /// hellos report packets, these are the estimates themselves.
    pub(super) fn look(&mut self, now: Time, share: f64, run: f64) -> (f64, f64) {
        let age = now.since(self.at).as_secs_f64() / OVER.as_secs_f64();
        let packets = core::mem::take(&mut self.packets) as f64;
        self.at = now;
        // Runs of independent losses are 1 / (1 - share) long.
        let usual = 1.0 / (1.0 - self.share.value.min(SHARE_MOST));
        let usual = usual.max(self.run.value);
        let over = |events: f64| Over {
            packets,
            losses: packets * share,
            events,
            keeps: (-age).exp(),
        };
        // If each packet of a run is the last one with the same probability, the variance of the mean length r of n
        // runs is r (r - 1) / n. The variance of the share over n losses, relative to its size, is (2 r - 1) / n.
        let events = (LOSS_EVENTS as f64).max(RUNS_LEAST as f64 * usual);
        let off = ((2.0 * usual - 1.0) / events).sqrt();
        let differs = match (share > 0.0, self.share.value > 0.0) {
            (true, true) => (share / self.share.value).ln().abs() / off,
            (false, false) => 0.0,
            _ => f64::INFINITY,
        };
        let steady = self.share.on_told(share, differs, over(events));
        let off = (usual * (usual - 1.0) / LOSS_EVENTS as f64).sqrt();
        let differs = (run - self.run.value).abs() / off.max(f64::MIN_POSITIVE);
        let over = over(LOSS_EVENTS as f64 * usual);
        (steady, self.run.on_told(run, differs, over))
    }
}

impl Mean {
    const fn new(value: f64) -> Mean {
        Mean {
            value,
            packets: 0.0,
            since: 0.0,
            differs: 0.0,
        }
    }

    /// Takes an estimate that differs from the mean by `differs` standard deviations. Returns the new mean.
    fn on_told(&mut self, told: f64, differs: f64, over: Over) -> f64 {
        self.differs = match differs > LASTING {
            true => self.differs + over.losses,
            false => 0.0,
        };
        if differs > PLAINLY || self.differs >= over.events {
            (self.since, self.differs) = (0.0, 0.0);
        }
        self.since += over.losses;
        // Until then, the estimate covers losses from before the change as well.
        self.packets *= if self.since < over.events {
            0.0
        } else {
            over.keeps
        };
        self.packets += over.packets;
        self.value = match self.packets > over.packets {
            true => self.value + (told - self.value) * over.packets / self.packets,
            false => told,
        };
        self.value
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::Losses;
    use super::*;
    use crate::estimate::Loss;
    use base::Rng;

    /// A path that loses packets in runs, and the estimate at its end.
    pub(in super::super) struct Path {
        pub(in super::super) loss: Loss,
        rng: Rng,
        seq: u64,
        is_lost: bool,
    }

    impl Path {
        pub(in super::super) fn new(seed: u64) -> Path {
            Path {
                loss: Loss::default(),
                rng: Rng::new(seed),
                seq: 0,
                is_lost: false,
            }
        }

        pub(in super::super) fn pass(&mut self, packets: u64, losses: Losses) {
            let fresh = losses.share * (1.0 - losses.burst) / (1.0 - losses.share);
            for _ in 0..packets {
                let share = if self.is_lost { losses.burst } else { fresh };
                self.is_lost = self.rng.chance(share);
                if !self.is_lost {
                    self.loss.on_packet(self.seq);
                }
                self.seq += 1;
            }
        }
    }

    /// Takes estimates ten times a second for `seconds` seconds, in each of which `packets` packets pass.
    fn look(
        (steady, path): (&mut Steady, &mut Path),
        from_s: u64,
        seconds: u64,
        packets: u64,
        losses: Losses,
    ) -> Vec<(f64, f64)> {
        let tenths = from_s * 10..(from_s + seconds) * 10;
        let one = |tenth: u64| {
            path.pass(packets / 10, losses);
            steady.on_told(packets / 10);
            let now = Time::ZERO + Duration::from_millis(100 * tenth);
            steady.look(now, path.loss.rate(), path.loss.run())
        };
        tenths.map(one).collect()
    }

    fn worst(looks: &[(f64, f64)], (share, run): (f64, f64)) -> (f64, f64) {
        let by = |is: f64, of: f64| (is / of).max(of / is);
        looks.iter().fold((1.0, 1.0), |worst, look| {
            (worst.0.max(by(look.0, share)), worst.1.max(by(look.1, run)))
        })
    }

    #[test]
    fn estimates_of_the_same_losses_are_averaged() {
        for (run, most) in [(1.0 / 0.95, 1.35), (2.0, 1.6)] {
            let losses = Losses::of(0.05, run);
            let (mut steady, mut path) = (Steady::default(), Path::new(3));
            let looks = look((&mut steady, &mut path), 0, 200, 1_000, losses);
            let (share, runs) = worst(&looks[100..], (0.05, run));
            assert!(share < most && runs < 1.3, "{run}: {share} {runs}");
        }
    }

    #[test]
    fn losses_that_have_changed_count_alone_within_two_seconds() {
        let changes = [
            ((0.0, 1.0), (0.05, 2.0)),
            ((0.05, 1.0), (0.15, 1.0)),
            ((0.05, 1.0), (0.05, 4.0)),
            ((0.10, 2.0), (0.02, 2.0)),
        ];
        for (before, after) in changes {
            let of = |(share, run)| Losses::of(share, run);
            let (mut steady, mut path) = (Steady::default(), Path::new(4));
            look((&mut steady, &mut path), 0, 60, 1_000, of(before));
            let looks = look((&mut steady, &mut path), 60, 5, 1_000, of(after));
            let (share, run) = worst(&looks[20..], after);
            assert!(share < 1.7 && run < 1.8, "{before:?} {after:?}: {looks:?}");
        }
    }

    #[test]
    fn a_call_is_told_of_about_as_by_its_estimate() {
        let (mut steady, mut path) = (Steady::default(), Path::new(5));
        let losses = Losses::of(0.05, 1.0);
        look((&mut steady, &mut path), 0, 100, 50, losses);
        let (share, _) = steady.look(Time::ZERO, path.loss.rate(), path.loss.run());
        let told = path.loss.rate();
        assert!((share / told - 1.0).abs() < 0.3, "{share} {told}");
    }

    #[test]
    fn where_nobody_tells_of_packets_estimates_are_what_they_are() {
        let mut steady = Steady::default();
        for (share, run) in [
            (0.05, 1.2),
            (0.06, 1.0),
            (0.0, 1.0),
            (1.0, 1e9),
            (0.01, 3.0),
        ] {
            assert_eq!(steady.look(Time::ZERO, share, run), (share, run));
        }
    }
}
