//! The budget of this node for checking the signatures of a neighbour's records. Other neighbours have budgets of their
//! own. A record that is not checked is not confirmed either, so an honest neighbour sends it again.

use crate::link_state::{Judgement, MAX_ORIGINS};
use base::Time;
use base::token_bucket::TokenBucket;

/// Signatures per second. Checking one takes at most 0.1 ms, so a neighbour with endless news costs a tenth of a core.
/// A network of 1024 nodes may announce one change per second and node.
const PER_SECOND: f64 = 1_000.0;
/// Signatures at once: the whole database of a network of the largest size, with a certificate and a record for each
/// origin. A node that joins receives this.
const AT_ONCE: f64 = 2.0 * MAX_ORIGINS as f64;
/// The cost of a bad signature, in good ones. Honest neighbours check before they forward, so bad signatures come from
/// the node that made them: 100 per second, a hundredth of a core, after 200 at once.
const BAD: f64 = 10.0;
/// The cost of a record that must wait for a certificate or a root: the node has read its bytes and checked no
/// signature.
const WAITS: f64 = 0.1;

/// The budget of one neighbour.
#[derive(Debug)]
pub(crate) struct Verifications(TokenBucket);

impl Verifications {
    pub(super) fn new(now: Time) -> Verifications {
        Verifications(TokenBucket::new(PER_SECOND, AT_ONCE, now))
    }

    /// Calls `judge` if the budget allows it.
    pub(crate) fn spend(&mut self, now: Time, judge: impl FnOnce() -> Judgement) -> Judgement {
        if !self.0.try_take(now, 1.0) {
            return Judgement::TooMany;
        }
        let judgement = judge();
        match judgement {
            Judgement::Refused | Judgement::Rival(_) => {
                let more = (BAD - 1.0).min(self.0.available(now));
                self.0.try_take(now, more);
            }
            Judgement::NoCertificate => self.0.credit(1.0 - WAITS),
            Judgement::Good
            | Judgement::Certified(_)
            | Judgement::Outdated
            | Judgement::TooMany => {}
        }
        judgement
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Duration;

    /// Returns how many of `count` records that all get this judgement are checked at one moment.
    fn looked_at(budget: &mut Verifications, now: Time, count: u32, judgement: Judgement) -> u32 {
        let mut looked = 0;
        for _ in 0..count {
            budget.spend(now, || {
                looked += 1;
                judgement
            });
        }
        looked
    }

    #[test]
    fn a_whole_database_is_looked_at_at_once_and_forgeries_are_not() {
        let now = Time::ZERO;
        let later = now + Duration::from_secs(1);
        let mut good = Verifications::new(now);
        assert_eq!(looked_at(&mut good, now, 9_999, Judgement::Good), 2_048);
        assert_eq!(looked_at(&mut good, later, 9_999, Judgement::Good), 1_000);
        let mut bad = Verifications::new(now);
        assert_eq!(looked_at(&mut bad, now, 9_999, Judgement::Refused), 205);
        assert_eq!(looked_at(&mut bad, later, 9_999, Judgement::Refused), 100);
        assert_eq!(bad.spend(later, || Judgement::Good), Judgement::TooMany);
    }

    #[test]
    fn what_waits_for_a_certificate_costs_little_and_not_nothing() {
        let (now, later) = (Time::ZERO, Time::ZERO + Duration::from_secs(1));
        let mut budget = Verifications::new(now);
        let waits = looked_at(&mut budget, now, 99_999, Judgement::NoCertificate);
        assert!((20_000..21_000).contains(&waits), "{waits}");
        let waits = looked_at(&mut budget, later, 99_999, Judgement::NoCertificate);
        assert!((9_900..10_100).contains(&waits), "{waits}");
    }
}
