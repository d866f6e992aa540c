//! The last round: how often the last request for a packet is sent, and how often it is answered.
//!
//! ```text
//!   requests    ─▶                        ─▶ ─▶ ─▶        2 ms apart, as long as there is time
//!   answers          ◀─                        ◀─ ◀─
//!              a round before           the last round
//! ```
//!
//! A round before the last one has one request and one answer: the next round repairs what they miss. Nothing follows
//! the last round, so it has copies. There are so many that seldom all of them are lost: more on a way that loses more,
//! or in longer runs. The numbers are computed when the losses are measured, not for each packet. Further copies than
//! the least number are sent only if the budget is at least half full, and if there are 2 ms between them.
//!
//! This is the idea of Hairpin: the fewer rounds are left, the more redundancy.

use super::receiver::REQUEST_RATIO;
use super::{Losses, RETRANSMIT_RATIO};

/// All copies of the last round are lost less often than this.
///
/// Choice: three requests in a row, and two answers, are lost as often with 5 % loss in bursts of 25 %. The way back
/// often carries only requests, so a burst of losses there is a run of requests. Requests are small, answers are not.
const REQUESTS_FAIL: f64 = 1.0 / 300.0;
const ANSWERS_FAIL: f64 = 1.0 / 75.0;
/// The factor by which this is less for a round that is also the first: nothing before it may have saved the packet.
const ONLY: f64 = 4.0;
/// Maximum number of copies. Choice: eight take 14 ms.
const MOST: u8 = 8;

/// How often the last request for a packet and its answer are sent, if there were rounds before, and if there were
/// none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastRound {
    requests: [u8; 2],
    answers: [u8; 2],
}

impl LastRound {
    /// The least copies. They cost little on a link that loses little, and losses may grow at any moment.
    pub const LEAST: LastRound = LastRound {
        requests: [3, 4],
        answers: [2, 3],
    };

    /// Returns the copies for a way with these losses, on which `apart` datagrams pass between two copies of an answer.
    pub fn of(losses: Losses, apart: f64) -> LastRound {
        let again = losses.after(apart.max(1.0));
        let least = LastRound::LEAST;
        let copies = |(again, fail): (f64, f64), least: [u8; 2]| {
            let [more, only] = [fail, fail / ONLY].map(|fail| copies(losses.share, again, fail));
            [more.max(least[0]), only.max(least[1])]
        };
        LastRound {
            requests: copies((losses.burst, REQUESTS_FAIL), least.requests),
            answers: copies((again, ANSWERS_FAIL), least.answers),
        }
    }

    /// Returns the copies for which the default budgets last even if each lost packet takes as many.
    pub fn lasting(losses: Losses, apart: f64) -> LastRound {
        let (planned, least) = (LastRound::of(losses, apart), LastRound::LEAST);
        let lasting = |planned: [u8; 2], least: [u8; 2], ratio: f64| {
            let lasts = |copies: &u8| losses.share * f64::from(*copies) <= ratio;
            [0, 1].map(|kind| Some(planned[kind]).filter(lasts).unwrap_or(least[kind]))
        };
        LastRound {
            requests: lasting(planned.requests, least.requests, REQUEST_RATIO),
            answers: lasting(planned.answers, least.answers, RETRANSMIT_RATIO),
        }
    }

    /// Returns how often the last request is sent. `is_only`: no other was sent before.
    pub fn requests(self, is_only: bool) -> u8 {
        self.requests[usize::from(is_only)]
    }

    /// Returns how often the last request is answered.
    pub fn answers(self, is_only: bool) -> u8 {
        self.answers[usize::from(is_only)]
    }
}

/// Returns the number of copies of which all are lost with a probability of at most `fail`.
fn copies(first: f64, again: f64, fail: f64) -> u8 {
    let mut lost = first;
    let mut copies = 1;
    while lost > fail && copies < MOST {
        lost *= again;
        copies += 1;
    }
    copies
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_sent_where_more_is_lost() {
        let of = |share, burst, apart| LastRound::of(Losses { share, burst }, apart);
        assert_eq!(of(0.0, 0.0, 1.0), LastRound::LEAST);
        assert_eq!(of(0.05, 0.25, 1.0), LastRound::LEAST);
        let heavy = of(0.2, 0.5, 1.0);
        assert_eq!(heavy.requests, [7, 8]);
        assert_eq!(heavy.answers, [5, 7]);
        // On a busy lane, the copies of an answer are seldom in one run of losses.
        assert_eq!(of(0.2, 0.5, 20.0).answers, [3, 4]);
        assert_eq!(of(1.0, 1.0, 1.0).requests, [MOST; 2]);
    }

    #[test]
    fn all_copies_are_seldom_lost() {
        for share in [0.01, 0.1, 0.3] {
            for burst in [share, 0.3, 0.6] {
                let last = LastRound::of(Losses { share, burst }, 1.0);
                for (is_only, fail) in [(false, REQUESTS_FAIL), (true, REQUESTS_FAIL / ONLY)] {
                    let copies = last.requests(is_only);
                    let lost = share * f64::powi(burst, i32::from(copies) - 1);
                    assert!(lost <= fail || copies == MOST, "{share} {burst}: {lost}");
                }
            }
        }
    }
}
