//! When the network is told that a link's cost has changed. [Amir06 §IV-B]
//!
//! Every announcement moves routes in the whole network. The paper lets 30 s pass between two announcements of the same
//! link. That is slow for a link that has just become bad, and fast for one that changes all the time. Here, changes
//! for the worse are announced soon, and changes for the better must last:
//!
//! ```text
//!   measured   ____/''''''''\__/'''\______________________
//!   announced  _____|''''''''''''''''''''''''|____________
//!               confirm                 hold      (the best of what the hold has seen is not
//!                                                  announced, the worst of it is)
//! ```
//!
//! If a link becomes worse again soon after its improvement was announced, its hold doubles. So a link that swings is
//! announced at its bad end and stays there. Latency and loss are damped separately: an announcement contains the last
//! announced value of each. The same holds for what is announced of the lane (`lane`).

mod damping;
mod lane;

pub use damping::{Damping, Pending, Quantity};

use base::{Duration, Time};
use graph::LinkCost;
use graph::metric::SILENT;
use lane::Lanes;

/// How much a value must change for an announcement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// The value is worse when it exceeds the announced one by this share,
    pub worse: f64,
    /// clearly worse when it exceeds the announced one by this share,
    pub clearly_worse: f64,
    /// better when it is below the announced one by this share,
    pub better: f64,
    /// clearly better when it is below the announced one by this share,
    pub clearly_better: f64,
    /// and none of these when the difference is smaller than this.
    pub floor: u32,
}

/// The numbers of [`Announce`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Change of the latency, in microseconds.
    pub latency: Threshold,
    /// Change of the loss, in shares of 65 536.
    pub loss: Threshold,
    /// The least time between two announcements.
    pub spacing: Duration,
    /// How long a clear worsening must last.
    pub confirm: Duration,
    /// How long a clear improvement must last.
    pub hold: Duration,
    /// The factor by which an unclear change, for the worse or the better, must last longer.
    pub unclear: u64,
    /// The longest time that a clear improvement must last.
    pub hold_max: Duration,
    /// A worsening within this time after an improvement is a relapse, which doubles the hold.
    pub relapse: Duration,
}

impl Settings {
    /// Announces a worsening within seconds, and an improvement when it has lasted.
    pub const fn modern() -> Settings {
        Settings {
            // Choice: a listener does not notice smaller differences between routes.
            latency: Threshold {
                worse: 0.15,
                clearly_worse: 0.15,
                better: 0.15,
                clearly_better: 0.15,
                floor: 1_000,
            },
            // Choice: half a percent, and half of what is announced. An estimate over 50 losses has a standard
            // deviation of 14 % of itself (1/sqrt(50)), of 20 to 25 % when losses come in bursts, and an hour has many
            // sets of fifty losses. The announced value tends to be a peak of that noise, so only a fall by two thirds
            // is clear.
            loss: Threshold {
                worse: 0.5,
                clearly_worse: 1.0,
                better: 0.3,
                clearly_better: 0.67,
                floor: 328,
            },
            spacing: Duration::from_secs(2),
            confirm: Duration::from_secs(1),
            // Choice: [Amir06 §IV-B] saw instability below 10 s between two route changes.
            hold: Duration::from_secs(20),
            // Choice: 15 s and 5 min, within which most links have 50 new losses.
            unclear: 15,
            hold_max: Duration::from_secs(600),
            // Choice: a link needs ten minutes without a relapse to be trusted again.
            relapse: Duration::from_secs(600),
        }
    }

    /// At least 30 s between two updates of a link. [Amir06 §IV-B]
    pub const fn paper() -> Settings {
        Settings {
            // Choice: the paper gives no threshold; a tenth, with floors at what can be measured.
            latency: Threshold {
                worse: 0.1,
                clearly_worse: 0.1,
                better: 0.1,
                clearly_better: 0.1,
                floor: 500,
            },
            loss: Threshold {
                worse: 0.1,
                clearly_worse: 0.1,
                better: 0.1,
                clearly_better: 0.1,
                floor: 66,
            },
            spacing: Duration::from_secs(30),
            confirm: Duration::ZERO,
            hold: Duration::ZERO,
            unclear: 1,
            hold_max: Duration::ZERO,
            relapse: Duration::ZERO,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings::modern()
    }
}

/// A time in which a value was better, or worse, than the announced one.
#[derive(Clone, Copy, Debug)]
struct Spell {
    since: Time,
    worst: u32,
}

/// One value whose announcements are damped.
#[derive(Clone, Debug)]
struct Damped {
    announced: u32,
    worse: Option<Spell>,
    clearly_worse: Option<Spell>,
    better: Option<Spell>,
    clearly_better: Option<Spell>,
    hold: Duration,
    improved_at: Option<Time>,
}

/// The announcements of one link.
#[derive(Clone, Debug)]
pub struct Announce {
    settings: Settings,
    latency: Damped,
    loss: Damped,
    /// The announced price of outages.
    price_us: u32,
    /// The other end is not heard: the link is announced as silent.
    is_silent: bool,
    /// The last announcement; none while the link is down.
    last: Option<Time>,
    lanes: Lanes,
}

impl Announce {
    /// A link that is down.
    pub fn new(settings: Settings) -> Announce {
        let damped = Damped {
            announced: 0,
            worse: None,
            clearly_worse: None,
            better: None,
            clearly_better: None,
            hold: settings.hold,
            improved_at: None,
        };
        Announce {
            settings,
            latency: damped.clone(),
            lanes: Lanes::new(damped.clone()),
            loss: damped,
            price_us: 0,
            is_silent: false,
            last: None,
        }
    }

    /// The link came up: it is announced at once, at this cost.
    pub fn on_link_up(&mut self, now: Time, cost: LinkCost) {
        self.latency.set(cost.latency_us);
        self.loss.set(u32::from(cost.loss));
        self.price_us = cost.price_us;
        self.lanes.begin();
        self.is_silent = false;
        self.last = Some(now);
    }

    /// The other end is not heard. This is also announced at once: the link remains for packets without another path.
    pub fn on_silence(&mut self) {
        self.is_silent = true;
    }

    /// The link went down, which is also announced at once. The hold, which delays trusting the link again, is kept.
    pub fn on_link_down(&mut self) {
        self.last = None;
    }

    /// Returns the announced cost, while the link is up or silent.
    pub fn announced(&self) -> Option<LinkCost> {
        self.last?;
        let latency_us = self.latency.announced;
        if self.is_silent {
            return Some(LinkCost {
                price_us: SILENT,
                ..LinkCost::of_share(latency_us, u16::MAX)
            });
        }
        Some(LinkCost {
            price_us: self.price_us,
            ..LinkCost::of_share(latency_us, self.loss.announced as u16)
        })
    }

    /// Takes in the link's present cost. Returns the cost to announce if it is to be announced again. To be called
    /// about once per second, and when [`Announce::next_timeout`] is due.
    pub fn on_measure(&mut self, now: Time, cost: LinkCost) -> Option<LinkCost> {
        let last = self.last.filter(|_| !self.is_silent)?;
        let s = &self.settings;
        let spaced = now.since(last) >= s.spacing;
        let latency = self
            .latency
            .follow(now, cost.latency_us, s.latency, spaced, s);
        let loss = self
            .loss
            .follow(now, u32::from(cost.loss), s.loss, spaced, s);
        // The price has coarse steps anyway, and falls by halves.
        let price = core::mem::replace(&mut self.price_us, cost.price_us) != cost.price_us;
        if !latency && !loss && !price {
            return None;
        }
        self.last = Some(now);
        self.announced()
    }

    /// Returns when the cost is to be measured again, if a change waits for its time.
    pub fn next_timeout(&self) -> Option<Time> {
        let last = self.last.filter(|_| !self.is_silent)?;
        let next = |of: [&Damped; 2], last: Time| {
            let next = of.map(|d| d.next(&self.settings));
            let next = next.into_iter().flatten().min()?;
            Some(next.max(last + self.settings.spacing))
        };
        let cost = next([&self.latency, &self.loss], last);
        let lane = self
            .lanes
            .last
            .and_then(|last| next(self.lanes.both(), last));
        [cost, lane].into_iter().flatten().min()
    }

    /// Returns how long an improvement of the loss must last at the moment.
    pub fn loss_hold(&self) -> Duration {
        self.loss.hold
    }
}

impl Spell {
    fn follow(spell: &mut Option<Spell>, now: Time, value: u32, goes_on: bool) {
        *spell = goes_on.then(|| Spell {
            since: spell.map_or(now, |spell| spell.since),
            worst: spell.map_or(value, |spell| spell.worst.max(value)),
        });
    }
}

impl Damped {
    fn set(&mut self, value: u32) {
        self.announced = value;
        self.worse = None;
        self.clearly_worse = None;
        self.better = None;
        self.clearly_better = None;
    }

    /// Returns the spells, each with the time that it must last and with whether it is an improvement.
    fn spells(&self, s: &Settings) -> [(Option<Spell>, Duration, bool); 4] {
        [
            (self.clearly_worse, s.confirm, false),
            (self.worse, s.confirm * s.unclear, false),
            (self.clearly_better, self.hold, true),
            (self.better, self.hold * s.unclear, true),
        ]
    }

    fn next(&self, s: &Settings) -> Option<Time> {
        let ends = |(spell, lasts, _): (Option<Spell>, Duration, bool)| Some(spell?.since + lasts);
        self.spells(s).into_iter().filter_map(ends).min()
    }

    /// Returns true if the value is to be announced; it is then stored as `announced`.
    fn follow(
        &mut self,
        now: Time,
        value: u32,
        threshold: Threshold,
        spaced: bool,
        s: &Settings,
    ) -> bool {
        let step = |share| ((f64::from(self.announced) * share) as u32).max(threshold.floor);
        let above = |share| value > self.announced.saturating_add(step(share));
        let below = |share| value < self.announced.saturating_sub(step(share));
        let is = [
            above(threshold.clearly_worse),
            above(threshold.worse),
            below(threshold.clearly_better),
            below(threshold.better),
        ];
        Spell::follow(&mut self.clearly_worse, now, value, is[0]);
        Spell::follow(&mut self.worse, now, value, is[1]);
        Spell::follow(&mut self.clearly_better, now, value, is[2]);
        Spell::follow(&mut self.better, now, value, is[3]);
        let lasted = |(spell, lasts, better): (Option<Spell>, Duration, bool)| {
            let spell = spell.filter(|spell| spaced && now.since(spell.since) >= lasts)?;
            Some((spell, better))
        };
        match self.spells(s).into_iter().find_map(lasted) {
            None => false,
            Some((spell, true)) => {
                self.improved_at = Some(now);
                self.set(spell.worst);
                true
            }
            Some((_, false)) => {
                self.on_worse(now, s);
                self.set(value);
                true
            }
        }
    }

    fn on_worse(&mut self, now: Time, s: &Settings) {
        let Some(improved_at) = self.improved_at.take() else {
            return;
        };
        self.hold = if now.since(improved_at) < s.relapse.max(self.hold * 2) {
            (self.hold * 2).min(s.hold_max)
        } else {
            self.hold.div(2).max(s.hold)
        };
    }
}

#[cfg(test)]
mod tests;
