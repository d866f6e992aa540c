//! A link that has become much longer from one moment to the next is in doubt until routes know.
//!
//! ```text
//!   round trips   41 40 42 41 270 269 270 ...                 usual, four deviations and a floor: 85
//!                             ^ late: copies by another way ──────────▶ routes have followed, or this is how it is
//! ```
//! Routes follow a latency after it has lasted for a second, and announcements come at most every two seconds. A call
//! is late for all that time, though the far end hears each packet. So a link is in doubt from the first answer that is
//! later than any answer before ([`Rtt::patience`]), and copies take another path ([`crate::doubts`]).
//!
//! Packets *from* the neighbour that arrive later than usual show the same sooner, if the path has become longer in
//! both directions, but not if it has not. This evidence counts until an answer has arrived.

use crate::estimate::Rtt;
use base::{Duration, Time};

/// How much an answer may exceed four deviations. Choice: a third of a call's deadline.
const FLOOR: Duration = Duration::from_millis(50);
/// How long the doubt from one answer lasts. Choice: two hellos of a link in use, one of them lost, and half of one
/// more.
const LASTS: Duration = Duration::from_millis(250);
/// How long the doubt from all answers of a spell lasts. Choice: routes follow after three seconds; a node that has no
/// other path by then sends copies in vain.
const SPELL: Duration = Duration::from_secs(5);

/// Whether answers are late.
#[derive(Clone, Debug, Default)]
pub(super) struct Lateness {
    /// A round trip that exceeds this is late.
    bound: Option<Duration>,
    /// Round trips without the time by which their way here took longer than usual, and the bound for them. They vary
    /// less than round trips.
    there: Rtt,
    there_bound: Duration,
    /// When the first of the late answers in a row arrived.
    since: Option<Time>,
    /// The last hello of the neighbour was late.
    comes_late: bool,
    until: Time,
}

impl Lateness {
    /// Returns true if the link is in doubt.
    #[inline]
    pub(super) fn is_on(&self, now: Time) -> bool {
        now < self.until
    }

    /// A hello has arrived, later than usual by `excess`. It may have brought a round trip, which `rtt` already
    /// contains.
    pub(super) fn on_hello(
        &mut self,
        now: Time,
        excess: Duration,
        round_trip: Option<Duration>,
        rtt: &Rtt,
    ) {
        let there = round_trip.map(|round_trip| round_trip.saturating_sub(excess));
        if let Some(there) = there {
            self.there.on_sample(now, there);
        }
        let Some(bound) = self.bound else {
            if round_trip.is_some() {
                self.set_bounds(rtt);
            }
            return;
        };
        let more = bound - rtt.least().unwrap_or_default();
        let comes_late = excess > more;
        if comes_late && !self.comes_late {
            self.until = self.until.max(now + LASTS);
        }
        self.comes_late = comes_late;
        let Some((round_trip, there)) = round_trip.zip(there) else {
            return;
        };
        let since = self.since.unwrap_or(now);
        if round_trip <= bound || now.since(since) >= SPELL {
            self.since = None;
            self.until = now;
            self.set_bounds(rtt);
            return;
        }
        self.since = Some(since);
        if there > self.there_bound {
            self.until = now + LASTS;
        }
    }

    fn set_bounds(&mut self, rtt: &Rtt) {
        self.bound = Some(rtt.patience(FLOOR) + FLOOR);
        self.there_bound = self.there.patience(FLOOR) + FLOOR;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// One end of a link that sends a hello each tenth of a second.
    #[derive(Default)]
    struct End {
        lateness: Lateness,
        rtt: Rtt,
        now: Time,
    }

    impl End {
        /// A hello that is later than usual by `excess`, and the round trip that it brings.
        fn hear(&mut self, excess_ms: u64, rtt_ms: u64) -> bool {
            self.now += ms(100);
            self.rtt.on_sample(self.now, ms(rtt_ms));
            let (excess, rtt) = (ms(excess_ms), Some(ms(rtt_ms)));
            self.lateness.on_hello(self.now, excess, rtt, &self.rtt);
            self.lateness.is_on(self.now)
        }

        fn usual() -> End {
            let mut end = End::default();
            assert!((0..50).all(|i| !end.hear(0, 40 + i % 3)));
            end
        }
    }

    #[test]
    fn a_way_there_that_is_longer_is_doubted_until_routes_know() {
        let mut end = End::usual();
        let doubted = (0..100).filter(|_| end.hear(0, 240)).count();
        assert_eq!(doubted, 50);
        // The longer round trip is normal now. A still longer one is doubted again.
        assert!(end.hear(0, 600));
        assert!(!end.hear(0, 240), "and an answer in time ends it");
    }

    #[test]
    fn a_way_here_that_is_longer_is_doubted_until_answers_have_told() {
        let mut end = End::usual();
        assert!(end.hear(150, 190));
        let doubted = (0..100).filter(|_| end.hear(150, 190)).count();
        assert!(doubted <= 2, "{doubted}");
    }

    #[test]
    fn a_path_with_jitter_that_is_longer_both_ways_is_doubted_until_routes_know() {
        for longer_ms in [130, 150, 200] {
            let mut rng = base::Rng::new(4);
            let mut end = End::default();
            for _ in 0..200 {
                let (here, there) = (rng.below(46), rng.below(46));
                end.hear(here, 48 + here + there);
            }
            let doubted = (0..40).filter(|_| {
                let excess = longer_ms + rng.below(5);
                end.hear(excess, 48 + longer_ms + excess)
            });
            assert_eq!(doubted.count(), 40, "{longer_ms}");
        }
    }

    #[test]
    fn jitter_is_not_doubted() {
        let mut rng = base::Rng::new(3);
        let mut end = End::default();
        for _ in 0..50 {
            let (here, there) = (rng.below(60), rng.below(60));
            end.hear(here, 20 + here + there);
        }
        let doubted = (0..10_000)
            .filter(|_| {
                let (here, there) = (rng.below(60), rng.below(60));
                end.hear(here, 20 + here + there)
            })
            .count();
        assert!(doubted <= 50, "{doubted}");
    }
}
