//! What recent outages cost a path that takes the link: availability, as a price in latency.
//!
//! ```text
//!   price   64 |  ,----.            ,----.                each outage adds `first`, up to `most`;
//!           32 |  |    '----.       |96  '----.           what is there halves every `halves_every`
//!           16 |  |         '----.  |         '----.
//!            0 |--'              '--'              '---   told as 64, 16, 4 ms; below, nothing
//! ```
//!
//! A gap that is too short for an outage adds a quarter of `first`. A link that has less room than the traffic that it
//! is given costs as much as one that has failed once, while this lasts and while the price falls afterwards.
//!
//! A price does not block a link: a link that keeps failing carries packets that have no better path. The price keeps
//! routes from following a link that comes and goes: they leave it at once, and come back when every other path is
//! longer by the remaining price. [Amir06 §IV-B] saw instability when routes changed because of a single link faster
//! than 10 s apart.

use base::{Duration, Time};

/// The numbers of the price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The price of one outage; zero for none.
    pub first: Duration,
    /// The highest price, however often the link fails.
    pub most: Duration,
    /// The time in use after which the price halves.
    pub halves_every: Duration,
}

/// The lowest remaining price that is reported, as the least step. Choice: a call does not notice 4 ms, and each step
/// is a record that goes to all nodes.
const LEAST_US: u32 = 2_000;
const STEP_US: u32 = 4_000;

/// A gap costs an outage's price divided by this. Choice: a gap costs a call at most a fifth of a second, and some gaps
/// of a lossy link are mere chance.
const GAP_SHARE: u64 = 4;

/// The price of one link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Price {
    settings: Settings,
    us: u32,
    /// From this moment on the price falls. It does not fall while the link is down.
    since: Time,
}

impl Price {
    pub(super) fn new(settings: Settings) -> Price {
        Price {
            settings,
            us: 0,
            since: Time::ZERO,
        }
    }

    /// Notes that the link has failed.
    pub(super) fn on_outage(&mut self, now: Time) {
        self.add(now, self.settings.first);
    }

    /// Notes that the link was silent for a moment that is shorter than an outage.
    pub(super) fn on_gap(&mut self, now: Time) {
        self.add(now, self.settings.first.div(GAP_SHARE));
    }

    fn add(&mut self, now: Time, more: Duration) {
        let s = &self.settings;
        let us = |span: Duration| u32::try_from(span.as_micros()).unwrap_or(u32::MAX);
        let sum = self.left_us(now).saturating_add(us(more));
        *self = Price {
            us: sum.min(us(s.most)),
            since: now,
            ..*self
        };
    }

    /// Notes that the link is in use again.
    pub(super) fn on_up(&mut self, now: Time) {
        self.since = now;
    }

    /// Removes the price: the node at the other end was gone, not the link.
    pub(super) fn forget(&mut self) {
        self.us = 0;
    }

    /// Returns the price in microseconds, as the nearest power of four of milliseconds. The steps are coarse, because
    /// each is reported to the whole network.
    pub(super) fn told_us(&self, now: Time) -> u32 {
        match self.left_us(now) / LEAST_US {
            0 => 0,
            times => STEP_US << (times.ilog2() & !1),
        }
    }

    /// Returns when no price is reported any more, if the link does not fail again.
    pub(super) fn ends(&self, now: Time) -> Option<Time> {
        let halvings = match self.us / LEAST_US {
            0 => return None,
            times => 1 + u64::from(times.ilog2()),
        };
        let ends = self.since + self.settings.halves_every * halvings;
        (ends > now).then_some(ends)
    }

    fn left_us(&self, now: Time) -> u32 {
        let every = self.settings.halves_every.as_nanos().max(1);
        let halvings = now.since(self.since).as_nanos() / every;
        self.us >> halvings.min(31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Settings = Settings {
        first: Duration::from_millis(64),
        most: Duration::from_millis(200),
        halves_every: Duration::from_secs(60),
    };

    fn at(s: u64) -> Time {
        Time::ZERO + Duration::from_secs(s)
    }

    #[test]
    fn an_outage_has_a_price_that_halves_and_ends() {
        let mut price = Price::new(SETTINGS);
        assert_eq!((price.told_us(at(5)), price.ends(at(5))), (0, None));
        price.on_outage(at(10));
        // The price does not fall while the link is down.
        price.on_up(at(100));
        let told = [100, 219, 220, 339, 340, 459, 460].map(|s| price.told_us(at(s)) / 1_000);
        assert_eq!(told, [64, 64, 16, 16, 4, 4, 0]);
        assert_eq!(price.ends(at(100)), Some(at(460)));
        assert_eq!(price.ends(at(460)), None);
    }

    #[test]
    fn outages_add_up_to_a_bound_and_a_restart_is_none() {
        let mut price = Price::new(SETTINGS);
        for s in [10, 70, 80, 90, 100] {
            price.on_outage(at(s));
        }
        // The prices are 64, 32 + 64, 160, 200 and 200 ms, reported as powers of four.
        assert_eq!(price.told_us(at(100)), 256_000);
        assert_eq!(price.left_us(at(100)), 200_000);
        price.forget();
        assert_eq!(price.told_us(at(100)), 0);
    }

    #[test]
    fn four_gaps_are_an_outage() {
        let mut price = Price::new(SETTINGS);
        let told = [1, 2, 3, 4].map(|s| {
            price.on_gap(at(s));
            price.left_us(at(s)) / 1_000
        });
        assert_eq!(told, [16, 32, 48, 64]);
    }

    #[test]
    fn the_paper_has_no_price() {
        let mut price = Price::new(Settings {
            first: Duration::ZERO,
            most: Duration::ZERO,
            ..SETTINGS
        });
        price.on_outage(at(10));
        assert_eq!((price.told_us(at(10)), price.ends(at(10))), (0, None));
    }
}
