//! What audits may cost the network: copies, answers, and questions and answers that go over every link.

use super::AUDITS_MAX;
use base::token_bucket::TokenBucket;
use base::{Map, NodeAddr, Time};

/// Packets per second that are sent twice in the trials of all destinations, and how many of them at once. Choice: this
/// is enough for two trials at full pace. If many paths are bad at the same time, the network is full, and copies would
/// fill it more.
const COPIES_PER_S: f64 = 400.0;
pub(super) const COPIES_BURST: f64 = 100.0;
/// Questions of one end that this node answers per second, and how many of them at once.
const ANSWERS_PER_S: f64 = 20.0;
const ANSWERS_BURST: f64 = 20.0;
/// Answers per second to all ends that go over every link, and how many of them at once. Choice: an end that gets no
/// answer asks over every link at ever longer intervals, so this is enough for some tens of ends. And it keeps other
/// nodes from making this node flood.
const FLOODS_PER_S: f64 = 2.0;
const FLOODS_BURST: f64 = 8.0;
/// The same for this node's own questions. Choice: if a host fails that had sessions with a hundred nodes, no link
/// carries more than twenty questions per second because of it.
const QUESTION_FLOODS_PER_S: f64 = 0.2;
const QUESTION_FLOODS_BURST: f64 = 4.0;

/// What a node spends on its own audits and on those of other nodes.
#[derive(Debug)]
pub(crate) struct Budgets {
    copies: TokenBucket,
    answers: Map<NodeAddr, TokenBucket>,
    floods: TokenBucket,
    question_floods: TokenBucket,
}

impl Default for Budgets {
    fn default() -> Budgets {
        Budgets {
            copies: TokenBucket::new(COPIES_PER_S, COPIES_BURST, Time::ZERO),
            answers: Map::default(),
            floods: TokenBucket::new(FLOODS_PER_S, FLOODS_BURST, Time::ZERO),
            question_floods: TokenBucket::new(
                QUESTION_FLOODS_PER_S,
                QUESTION_FLOODS_BURST,
                Time::ZERO,
            ),
        }
    }
}

impl Budgets {
    /// Returns whether `packets` packets may be sent twice.
    pub(crate) fn take_copies(&mut self, now: Time, packets: usize) -> bool {
        self.copies.try_take(now, packets as f64)
    }

    /// Returns whether this node should answer a question of `source`: it has not asked too many.
    pub(crate) fn take_answer(&mut self, now: Time, source: NodeAddr) -> bool {
        if self.answers.len() >= AUDITS_MAX && !self.answers.contains_key(&source) {
            self.answers
                .retain(|_, bucket| bucket.available(now) < ANSWERS_BURST);
            if self.answers.len() >= AUDITS_MAX {
                return false;
            }
        }
        let bucket = || TokenBucket::new(ANSWERS_PER_S, ANSWERS_BURST, now);
        let bucket = self.answers.entry(source).or_insert_with(bucket);
        bucket.try_take(now, 1.0)
    }

    /// Returns whether a question may go over every link.
    pub(super) fn take_question_flood(&mut self, now: Time) -> bool {
        self.question_floods.try_take(now, 1.0)
    }

    /// Returns whether an answer may go over every link, as the question did.
    pub(crate) fn take_flood(&mut self, now: Time) -> bool {
        self.floods.try_take(now, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Duration;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn answers_are_limited_for_each_asker() {
        let mut budgets = Budgets::default();
        let mut answered = |now: Time, who: u32| budgets.take_answer(now, NodeAddr(who));
        assert_eq!((0..100).filter(|_| answered(at(0), 1)).count(), 20);
        assert!(answered(at(0), 2));
        assert_eq!((0..100).filter(|_| answered(at(1_000), 1)).count(), 20);
        for who in 0..AUDITS_MAX as u32 * 2 {
            answered(at(1_000), who);
        }
        assert!(budgets.answers.len() <= AUDITS_MAX);
    }

    #[test]
    fn floods_for_others_are_limited() {
        let mut budgets = Budgets::default();
        let mut floods = |ms| {
            let answers = 0..100;
            answers.take_while(|_| budgets.take_flood(at(ms))).count()
        };
        assert_eq!((floods(0), floods(1_000), floods(60_000)), (8, 2, 8));
    }
}
