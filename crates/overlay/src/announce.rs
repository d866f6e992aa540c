//! When a link's cost is told to the other nodes again.
//!
//! ```text
//!   worse, by more than the threshold ------------------------> told, at most every `worse_every`
//!   better, by more than the threshold, for `hold` on end ----> told
//!   worse again soon after a better was told -----------------> `hold` doubles
//!   steady for `forgive` -------------------------------------> `hold` halves
//! ```
//! A change for the worse must be avoided at once; a change for the better may wait until it has
//! proved itself. So a link that flips every few seconds stays at its worse cost and moves no
//! routes, and one that was repaired is used again within seconds. [Amir06 §IV-B] has a fixed
//! interval of 30 s in both directions for the same purpose: `paper` does that.

use base::{Duration, Time};
use graph::metric::{self, LinkCost, Metric, Parameters};

/// The numbers of [`Announce`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Changes of the latency below this share of it are not told, in percent.
    pub latency_pct: u32,
    /// Nor are those below this.
    pub latency_floor_us: u32,
    /// Changes of the loss below this share of 65536 are not told.
    pub loss_floor: u16,
    /// The least time between two announcements, if the later one is worse.
    pub worse_every: Duration,
    /// For how long a better cost must last before it is told.
    pub hold: Duration,
    /// The longest such time.
    pub hold_max: Duration,
    /// Steadiness that halves a hold that has grown.
    pub forgive: Duration,
}

impl Settings {
    /// By threshold and damping.
    pub const fn modern() -> Settings {
        Settings {
            // Choice: a quarter changes no route that was not nearly a tie.
            latency_pct: 25,
            latency_floor_us: 1_000,
            // Choice: one point of loss is where voice begins to suffer. [Amir06 §II-C]
            loss_floor: 655,
            worse_every: Duration::from_secs(1),
            // Choice: longer than the 10 s below which [Amir06 §IV-B] saw instability.
            hold: Duration::from_secs(15),
            hold_max: Duration::from_secs(600),
            forgive: Duration::from_secs(600),
        }
    }

    /// At most every 30 s. [Amir06 §IV-B]
    pub const fn paper() -> Settings {
        Settings {
            latency_pct: 0,
            latency_floor_us: 100,
            loss_floor: 65,
            worse_every: Duration::from_secs(30),
            hold: Duration::from_secs(30),
            hold_max: Duration::from_secs(30),
            forgive: Duration::MAX,
        }
    }
}

/// What has been told of one link, and when it will be told again.
#[derive(Clone, Debug)]
pub struct Announce {
    settings: Settings,
    announced: Option<LinkCost>,
    at: Time,
    hold: Duration,
    better_since: Option<Time>,
    /// The last announcement was of a better cost.
    improved: bool,
}

impl Announce {
    /// Nothing has been told.
    pub fn new(settings: Settings) -> Announce {
        Announce {
            settings,
            announced: None,
            at: Time::ZERO,
            hold: settings.hold,
            better_since: None,
            improved: false,
        }
    }

    /// What the others know.
    pub fn announced(&self) -> Option<LinkCost> {
        self.announced
    }

    /// The link is down: what was told is withdrawn. What was learned of its flapping stays.
    pub fn withdraw(&mut self) {
        self.announced = None;
        self.better_since = None;
    }

    /// Takes the present estimate; true when it is to be told now. Called about once a second.
    pub fn consider(&mut self, now: Time, cost: LinkCost) -> bool {
        let Some(told) = self.announced else {
            self.tell(now, cost, false);
            return true;
        };
        if !self.is_significant(told, cost) {
            self.better_since = None;
            self.forgive(now);
            return false;
        }
        let weigh = |cost| metric::cost(Metric::ExpectedLatency, cost, &Parameters::default());
        if weigh(cost) > weigh(told) {
            self.better_since = None;
            if now.since(self.at) < self.settings.worse_every {
                return false;
            }
            if self.improved && now.since(self.at) < self.hold * 4 {
                self.hold = (self.hold * 2).min(self.settings.hold_max);
            }
            self.tell(now, cost, false);
            return true;
        }
        let since = *self.better_since.get_or_insert(now);
        if now.since(since) < self.hold {
            return false;
        }
        self.tell(now, cost, true);
        true
    }

    fn tell(&mut self, now: Time, cost: LinkCost, improved: bool) {
        self.announced = Some(cost);
        self.at = now;
        self.better_since = None;
        self.improved = improved;
    }

    fn is_significant(&self, told: LinkCost, cost: LinkCost) -> bool {
        let s = &self.settings;
        let by_share = u64::from(told.latency_us) * u64::from(s.latency_pct) / 100;
        let latency = u64::from(told.latency_us.abs_diff(cost.latency_us));
        latency > by_share.max(u64::from(s.latency_floor_us))
            || told.loss.abs_diff(cost.loss) > s.loss_floor
    }

    fn forgive(&mut self, now: Time) {
        if self.hold > self.settings.hold && now.since(self.at) >= self.settings.forgive {
            self.hold = self.hold.div(2).max(self.settings.hold);
            self.at = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(s: u64) -> Time {
        Time::ZERO + Duration::from_secs(s)
    }

    fn run(settings: Settings, loss: impl Fn(u64) -> f64) -> Vec<u64> {
        let mut announce = Announce::new(settings);
        (0..3600)
            .filter(|&s| announce.consider(secs(s), LinkCost::new(10_000, loss(s))))
            .collect()
    }

    #[test]
    fn a_link_that_flips_every_ten_seconds_moves_routes_at_most_six_times_an_hour() {
        let told = run(Settings::modern(), |s| {
            if s / 10 % 2 == 0 { 0.01 } else { 0.08 }
        });
        assert!(told.len() <= 1 + 6, "{told:?}");
        let slower = run(Settings::modern(), |s| {
            if s / 20 % 2 == 0 { 0.01 } else { 0.08 }
        });
        assert!(slower.len() <= 1 + 12, "{slower:?}");
    }

    #[test]
    fn a_lasting_change_is_told_within_seconds() {
        let told = run(Settings::modern(), |s| {
            if (100..200).contains(&s) { 0.05 } else { 0.0 }
        });
        assert_eq!(told[..2], [0, 100]);
        assert!(told.len() == 3 && told[2] <= 216, "{told:?}");
    }

    #[test]
    fn noise_below_the_threshold_is_never_told() {
        let told = run(Settings::modern(), |s| 0.02 + (s % 7) as f64 * 0.001);
        assert_eq!(told, [0]);
    }

    #[test]
    fn the_paper_tells_at_most_every_thirty_seconds() {
        let told = run(Settings::paper(), |s| (s % 5) as f64 * 0.01);
        assert!(told.windows(2).all(|w| w[1] - w[0] >= 30), "{told:?}");
        assert!(told.len() > 10);
    }
}
