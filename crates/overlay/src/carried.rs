//! The rates that transfers have reached over a link, as a node remembers and announces them. They age. [Liu04 §IV-A]
//!
//! A transfer with a single connection measures the rate of one connection. A transfer with several measures their rate
//! together. The node keeps each of the two figures until a newer one of its kind arrives.

use base::{Duration, Time};
use wire::link_state::{Rates, SPREAD_MAX};

/// How long a rate is announced. Choice: paths of the Internet change within hours, and by the hour of the day.
const LIFETIME: Duration = Duration::from_secs(3_600);
/// The percentage by which a rate becomes less certain with each minute. At the end of its life, the uncertainty is
/// about as large as the rate.
const SPREAD_PER_MINUTE: u64 = 1;

/// The percentage by which one connection may exceed the full rate before the node takes the link for changed. Choice:
/// TCP's share of a capacity differs by less from one transfer to the next.
const FULL_OFF_PCT: u32 = 25;

/// The rate that a link has carried, and the time of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    rates: Rates,
    at: Time,
}

impl Carried {
    /// Returns what is known after a transfer has carried `rates`, together with what was known before.
    pub(crate) fn after(before: Option<Carried>, rates: Rates, now: Time) -> Carried {
        let known = before.and_then(|carried| carried.told(now));
        if let (0, 0, Some(before)) = (rates.one_kbps, rates.together_kbps, before) {
            // A transfer without a measurement does not make the figures newer.
            return before;
        }
        let known = known.unwrap_or_default();
        let mut rates = rates;
        if !rates.is_full && rates.together_kbps == rates.one_kbps {
            // A single connection that left room says nothing about several connections.
            rates.together_kbps = 0;
        }
        let mut merged = rates;
        if merged.one_kbps == 0 {
            merged.one_kbps = known.one_kbps;
        }
        if merged.together_kbps == 0 {
            (merged.together_kbps, merged.is_full) = (known.together_kbps, known.is_full);
        }
        if rates.together_kbps == 0 && merged.together_kbps < merged.one_kbps {
            // The newer figure counts: several connections carry no less than one. A full rate stays full while one
            // connection carries little more.
            let most_kbps = u64::from(merged.together_kbps) * u64::from(100 + FULL_OFF_PCT) / 100;
            merged.is_full &= u64::from(merged.one_kbps) <= most_kbps;
            merged.together_kbps = if merged.is_full { merged.one_kbps } else { 0 };
        }
        if rates.one_kbps == 0 && merged.is_full {
            merged.one_kbps = merged.one_kbps.min(merged.together_kbps);
        }
        Carried {
            rates: merged,
            at: now,
        }
    }

    /// Returns the rates to announce now; nothing once they are too old.
    pub(crate) fn told(&self, now: Time) -> Option<Rates> {
        let age = now.since(self.at);
        let minutes = age.as_micros() / 60_000_000;
        let spread = u64::from(self.rates.spread_pct) + minutes * SPREAD_PER_MINUTE;
        let spread = u8::try_from(spread).unwrap_or(SPREAD_MAX);
        (age < LIFETIME).then_some(Rates {
            spread_pct: spread.min(SPREAD_MAX),
            ..self.rates
        })
    }

    /// Returns true if the rates are news to a node that knows `before`: they differ by more than an eighth, or in
    /// whether the rate is the full one.
    pub(crate) fn is_news(&self, before: Option<Rates>) -> bool {
        let Some(before) = before else {
            return true;
        };
        let differ = |now: u32, then: u32| now.abs_diff(then) > then / 8;
        self.rates.is_full != before.is_full
            || differ(self.rates.one_kbps, before.one_kbps)
            || differ(self.rates.together_kbps, before.together_kbps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(one_kbps: u32, together_kbps: u32, is_full: bool) -> Rates {
        Rates {
            one_kbps,
            together_kbps,
            is_full,
            spread_pct: 10,
        }
    }

    #[test]
    fn each_kind_of_figure_is_kept_until_a_newer_one_comes() {
        let at = |s| Time::ZERO + Duration::from_secs(s);
        let one = Carried::after(None, rates(20, 0, false), at(0));
        let both = Carried::after(Some(one), rates(0, 60, true), at(10));
        assert_eq!(both.told(at(10)), Some(rates(20, 60, true)));
        let slower = Carried::after(Some(both), rates(0, 8, true), at(20));
        assert_eq!(slower.told(at(20)), Some(rates(8, 8, true)));
        let faster = Carried::after(Some(both), rates(90, 0, false), at(20));
        assert_eq!(faster.told(at(20)), Some(rates(90, 0, false)));
        // A copy by one connection does not change that the rate is the full one.
        let full = Carried::after(None, rates(96, 96, true), at(0));
        let again = Carried::after(Some(full), rates(97, 97, false), at(10));
        assert_eq!(again.told(at(10)), Some(rates(97, 97, true)));
        let more = Carried::after(Some(full), rates(200, 200, false), at(10));
        assert_eq!(more.told(at(10)), Some(rates(200, 0, false)));
        assert!(both.is_news(Some(rates(20, 60, false))) && both.is_news(None));
        assert!(!both.is_news(Some(rates(20, 66, true))));
    }

    #[test]
    fn what_found_nothing_out_makes_nothing_newer() {
        let at = |s| Time::ZERO + Duration::from_secs(s);
        let one = Carried::after(None, rates(20, 0, false), at(0));
        let nothing = Rates {
            spread_pct: 1,
            ..rates(0, 0, false)
        };
        let after = Carried::after(Some(one), nothing, at(600));
        let told = after.told(at(600)).unwrap();
        assert_eq!((told.one_kbps, told.spread_pct), (20, 20));
    }

    #[test]
    fn it_ages_and_is_forgotten() {
        let at = |s| Time::ZERO + Duration::from_secs(s);
        let one = Carried::after(None, rates(20, 0, false), at(0));
        let told = |s| one.told(at(s)).map(|rates| rates.spread_pct);
        assert_eq!(
            (told(59), told(60), told(3_599)),
            (Some(10), Some(11), Some(69))
        );
        assert_eq!(told(3_600), None);
    }
}
