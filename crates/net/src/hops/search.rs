//! Decides which distance is probed next, and when the distance of the host is known.
//!
//! ```text
//!   1 ... passed │  undecided: asked upwards, then again  │ arrived ... 32
//!   routers say  │  (silent routers, or the host)         │ the host says
//! ```
//! The nearest distance at which the host has answered is its own if all distances below it are routers, or have stayed
//! silent for the largest number of tries. Distances below a router that has answered do not matter. Times are counted
//! from the beginning; nothing here waits.

use super::answer::Answer;
use super::{IN_FLIGHT, PATIENCE, TOTAL, TRIES, TTL_MAX};
use std::num::NonZeroU8;
use std::time::Duration;

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Send a probe.
    Send {
        /// The distance.
        ttl: u8,
        /// How many probes were sent there before.
        turn: u8,
    },
    /// Wait for answers, until this time.
    Wait {
        /// The time since the beginning.
        until: Duration,
    },
    /// The result is known, or cannot be found.
    Done(Option<NonZeroU8>),
}

/// A probe on its way.
#[derive(Clone, Copy, Debug)]
struct Flying {
    ttl: u8,
    until: Duration,
}

/// The search for one host.
#[derive(Debug)]
pub(super) struct Search {
    /// The farthest router that has answered.
    passed: u8,
    /// The nearest distance at which the host has answered.
    arrived: Option<u8>,
    /// The largest distance from which an answer is possible.
    limit: u8,
    tries: [u8; TTL_MAX as usize + 1],
    flying: Vec<Flying>,
}

impl Search {
    /// Creates a search without any knowledge.
    pub(super) fn new() -> Search {
        Search {
            passed: 0,
            arrived: None,
            limit: TTL_MAX,
            tries: [0; TTL_MAX as usize + 1],
            flying: Vec::with_capacity(IN_FLIGHT),
        }
    }

    /// Returns the next step. A probe that has to be sent counts as sent.
    pub(super) fn next(&mut self, now: Duration) -> Step {
        let undecided = self.passed + 1..self.arrived.unwrap_or(self.limit + 1);
        self.flying
            .retain(|probe| probe.until > now && undecided.contains(&probe.ttl));
        if now >= TOTAL {
            return self.done();
        }
        let tries = &self.tries;
        let is_flying = |ttl: &u8| self.flying.iter().any(|probe| probe.ttl == *ttl);
        let open = undecided.filter(|ttl| tries[usize::from(*ttl)] < TRIES && !is_flying(ttl));
        let next = open.min_by_key(|ttl| (tries[usize::from(*ttl)], *ttl));
        match (next, self.flying.iter().map(|probe| probe.until).min()) {
            (Some(ttl), _) if self.flying.len() < IN_FLIGHT => self.send(ttl, now),
            (_, Some(first)) => Step::Wait {
                until: first.min(TOTAL),
            },
            (_, None) => self.done(),
        }
    }

    /// Handles the answer to a probe of this distance.
    pub(super) fn on_answer(&mut self, ttl: u8, answer: Answer) {
        let is_nearer = self.arrived.is_none_or(|arrived| ttl < arrived);
        match answer {
            // Paths may differ from probe to probe: the nearest answer of the host counts.
            Answer::Passed if is_nearer => self.passed = self.passed.max(ttl),
            Answer::Arrived if is_nearer => self.arrived = Some(ttl),
            Answer::Refused => self.limit = self.limit.min(ttl.saturating_sub(1)),
            Answer::Passed | Answer::Arrived => {}
        }
    }

    fn send(&mut self, ttl: u8, now: Duration) -> Step {
        let tries = &mut self.tries[usize::from(ttl)];
        let turn = *tries;
        *tries += 1;
        let until = now + PATIENCE;
        self.flying.push(Flying { ttl, until });
        Step::Send { ttl, turn }
    }

    fn done(&self) -> Step {
        Step::Done(self.arrived.and_then(NonZeroU8::new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The result of a search.
    #[derive(Debug, PartialEq)]
    struct Outcome {
        hops: Option<u8>,
        sent: usize,
        took_ms: u128,
    }

    /// Runs a search in a network that answers a probe, depending on its distance, after this many milliseconds.
    fn search(mut network: impl FnMut(u8) -> Option<(u64, Answer)>) -> Outcome {
        let (mut search, mut now, mut sent) = (Search::new(), Duration::ZERO, 0);
        let mut answers: Vec<(Duration, u8, Answer)> = Vec::new();
        loop {
            answers.retain(|&(at, ttl, answer)| {
                if at <= now {
                    search.on_answer(ttl, answer);
                }
                at > now
            });
            match search.next(now) {
                Step::Send { ttl, turn } => {
                    assert!((1..=TTL_MAX).contains(&ttl) && turn < TRIES);
                    assert!(search.flying.len() <= IN_FLIGHT);
                    sent += 1;
                    if let Some((ms, answer)) = network(ttl) {
                        answers.push((now + Duration::from_millis(ms), ttl, answer));
                    }
                }
                Step::Wait { until } => {
                    let next = answers.iter().map(|(at, ..)| *at).min();
                    let until = next.map_or(until, |next| next.min(until));
                    assert!(until > now, "no busy wait");
                    now = until;
                }
                Step::Done(hops) => {
                    let hops = hops.map(NonZeroU8::get);
                    let took_ms = now.as_millis();
                    return Outcome {
                        hops,
                        sent,
                        took_ms,
                    };
                }
            }
        }
    }

    /// Models a host behind routers, some of which are silent.
    fn host(at: u8, silent: &[u8]) -> impl Fn(u8) -> Option<(u64, Answer)> + use<> {
        let silent = silent.to_vec();
        move |ttl| match ttl < at {
            _ if silent.contains(&ttl) => None,
            true => Some((10 * u64::from(ttl), Answer::Passed)),
            false => Some((10 * u64::from(at), Answer::Arrived)),
        }
    }

    #[test]
    fn a_host_is_found_where_it_is() {
        for at in 1..=TTL_MAX {
            let outcome = search(host(at, &[]));
            assert_eq!(outcome.hops, Some(at));
            assert!(
                outcome.sent < usize::from(at) + IN_FLIGHT,
                "{at}: {outcome:?}"
            );
        }
        assert_eq!(search(host(TTL_MAX + 1, &[])).hops, None);
    }

    #[test]
    fn routers_that_keep_silent_cost_time_only_right_before_the_host() {
        let far = search(host(9, &[2, 3, 6]));
        assert_eq!(far.hops, Some(9));
        assert!(far.took_ms < PATIENCE.as_millis(), "{far:?}");
        let near = search(host(9, &[7, 8]));
        assert_eq!(near.hops, Some(9));
        let all = u128::from(TRIES) * PATIENCE.as_millis();
        assert!((all..2 * all).contains(&near.took_ms), "{near:?}");
    }

    #[test]
    fn a_lost_answer_of_the_host_is_asked_for_again() {
        let mut first = true;
        let there = host(5, &[]);
        let outcome = search(|ttl| {
            let is_lost = ttl == 5 && std::mem::take(&mut first);
            there(ttl).filter(|_| !is_lost)
        });
        assert_eq!(outcome.hops, Some(5));
    }

    #[test]
    fn nobody_answers_or_nobody_but_routers() {
        let silent = search(|_| None);
        let all = usize::from(TTL_MAX) * usize::from(TRIES);
        assert_eq!((silent.hops, silent.took_ms), (None, TOTAL.as_millis()));
        assert!(
            (usize::from(TTL_MAX)..=all).contains(&silent.sent),
            "{silent:?}"
        );
        let filtered = search(|ttl| (ttl < 4).then_some((20, Answer::Passed)));
        assert_eq!(filtered.hops, None);
        assert!(filtered.took_ms <= TOTAL.as_millis());
    }

    #[test]
    fn behind_who_refuses_nothing_is_looked_for() {
        let refused = search(|ttl| {
            let answer = if ttl < 3 {
                Answer::Passed
            } else {
                Answer::Refused
            };
            Some((10, answer))
        });
        assert_eq!((refused.hops, refused.sent, refused.took_ms), (None, 6, 10));
    }

    #[test]
    fn a_host_that_answers_six_at_once_is_found_at_its_place() {
        for at in 1..20 {
            let mut left = 6;
            let there = host(at, &[]);
            let outcome = search(|ttl| match there(ttl) {
                Some((_, Answer::Arrived)) if left == 0 => None,
                Some((ms, Answer::Arrived)) => {
                    left -= 1;
                    Some((ms, Answer::Arrived))
                }
                other => other,
            });
            assert_eq!(outcome.hops, Some(at));
        }
    }

    #[test]
    fn answers_that_come_after_their_time_count_too() {
        let slow = |ttl| {
            let answer = if ttl < 8 {
                Answer::Passed
            } else {
                Answer::Arrived
            };
            Some((900, answer))
        };
        assert_eq!(search(slow).hops, Some(8));
    }

    proptest! {
        /// For all answers in any order, the result is a distance at which the host has answered.
        #[test]
        fn any_network_ends_in_time(
            said in proptest::collection::vec((0u8..4, 0u64..2_000), 97),
        ) {
            let mut nth = 0;
            let mut arrived = Vec::new();
            let outcome = search(|ttl| {
                let (what, ms) = said[nth];
                nth += 1;
                match what {
                    0 => None,
                    1 => Some((ms, Answer::Passed)),
                    2 => {
                        arrived.push(ttl);
                        Some((ms, Answer::Arrived))
                    }
                    _ => Some((ms, Answer::Refused)),
                }
            });
            prop_assert!(outcome.took_ms <= TOTAL.as_millis());
            prop_assert!(outcome.sent <= usize::from(TTL_MAX) * usize::from(TRIES));
            prop_assert!(outcome.hops.is_none_or(|hops| arrived.contains(&hops)));
        }
    }
}
