//! What transfers have carried over a link, as it is remembered and told: it ages. [Liu04 §IV-A]
//!
//! A transfer that had only one connection says what one carries, one with several what they carry
//! together; each figure is kept by itself until a newer one of its kind comes.

use base::{Duration, Time};
use wire::link_state::{Rates, SPREAD_MAX};

/// For how long it is told. Choice: paths of the Internet change within hours, and by the hour of the
/// day.
const LIFETIME: Duration = Duration::from_secs(3_600);
/// How much less sure a rate is with each minute, in per cent: by as much as it is worth at the end of
/// its life.
const SPREAD_PER_MINUTE: u64 = 1;

/// One connection may have so much more than all there was, in per cent, before the link has changed.
/// Choice: what TCP has of a capacity differs by less from one transfer to the next.
const FULL_OFF_PCT: u32 = 25;

/// What has been carried over a link, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    rates: Rates,
    at: Time,
}

impl Carried {
    /// What is known after a transfer has carried `rates`, besides what was known before.
    pub(crate) fn after(before: Option<Carried>, rates: Rates, now: Time) -> Carried {
        let known = before.and_then(|carried| carried.told(now));
        if let (0, 0, Some(before)) = (rates.one_kbps, rates.together_kbps, before) {
            // Who has found nothing out makes nothing newer.
            return before;
        }
        let known = known.unwrap_or_default();
        let mut rates = rates;
        if !rates.is_full && rates.together_kbps == rates.one_kbps {
            // One that left room says nothing of several.
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
            // What is newer counts: several carry no less than one. What was all there is stays so while one
            // has little more.
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

    /// What is told of it now; nothing once it is too old.
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

    /// These are news to whoever was told `before`: by more than an eighth, or about what is all.
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
        // A copy by one connection does not make more of what was all.
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
