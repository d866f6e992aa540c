//! Whether a client's datagrams go by the way or by TLS.
//!
//! One probe is awaited at a time. While datagrams pass, the way is probed every [`BUSY`], so that
//! one that dies in a call is left within some two seconds; else every [`IDLE`], which keeps the
//! mappings of NATs. A way that fails is tried again after [`BACK_OFF`], and then after twice as long
//! each time.

use base::{Duration, Time};
use std::collections::VecDeque;

/// From an answer to the next probe while datagrams pass.
const BUSY: Duration = Duration::from_secs(1);
/// The same while none do. Choice: half of the 30 s after which the quickest NATs forget (RFC 4787
/// asks for two minutes), and a little less.
const IDLE: Duration = Duration::from_secs(12);
/// Probes without an answer after which the way is left.
const MISSES: u32 = 3;
/// How long the first answer is waited for: as long as for a SYN (RFC 6298).
const FIRST: Duration = Duration::from_secs(1);
/// The least and the most of what later ones are waited for, four round trips in between.
const WAIT_MIN: Duration = Duration::from_millis(250);
const WAIT_MAX: Duration = Duration::from_secs(2);
/// How long a way that has failed is left alone, at first and at most.
const BACK_OFF: Duration = Duration::from_secs(2);
const BACK_OFF_MAX: Duration = Duration::from_secs(64);
/// Probes that are remembered: a late answer tells the round trip too.
const ASKED_MAX: usize = 8;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Send a probe that says this.
    Probe {
        /// Its number.
        number: u32,
        /// The gate's challenge that was heard last.
        challenge: u32,
    },
    /// Tell the gate that the way does not work.
    Leave,
}

/// Where the way is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Proving,
    Up { since: Time },
    Down,
}

/// The choice of a client.
#[derive(Clone, Debug)]
pub struct Choice {
    state: State,
    asked: VecDeque<(u32, Time)>,
    numbers: u32,
    /// Until when the answer to the last probe is awaited.
    awaited: Option<Time>,
    missed: u32,
    /// When the next probe is due, or the next attempt.
    next: Time,
    answered: Time,
    challenge: u32,
    rtt: Option<Duration>,
    back_off: Duration,
    /// Probes, and those of them that had no answer in time.
    probes: (u64, u64),
}

impl Choice {
    /// A way that is to be proven.
    pub fn new(now: Time) -> Choice {
        Choice {
            state: State::Proving,
            asked: VecDeque::with_capacity(ASKED_MAX),
            numbers: 0,
            awaited: None,
            missed: 0,
            next: now,
            answered: now,
            challenge: 0,
            rtt: None,
            back_off: BACK_OFF,
            probes: (0, 0),
        }
    }

    /// Datagrams go by the way.
    pub fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    /// The round trip of its probes.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// How many probes were sent, and how many had no answer in time.
    pub fn probes(&self) -> (u64, u64) {
        self.probes
    }

    /// When [`Choice::poll`] has something to do.
    pub fn next_timeout(&self) -> Time {
        self.awaited.unwrap_or(self.next)
    }

    /// What is due; asked until there is nothing more.
    pub fn poll(&mut self, now: Time) -> Option<Act> {
        if now < self.next_timeout() {
            return None;
        }
        if self.state == State::Down {
            self.state = State::Proving;
            self.missed = 0;
        } else if self.awaited.take().is_some() {
            self.missed += 1;
            self.probes.1 += 1;
            if self.missed >= MISSES {
                return self.leave(now);
            }
        }
        self.numbers = self.numbers.wrapping_add(1).max(1);
        if self.asked.len() >= ASKED_MAX {
            self.asked.pop_front();
        }
        self.asked.push_back((self.numbers, now));
        self.probes.0 += 1;
        let wait = self.rtt.map_or(FIRST, |rtt| {
            Duration::from_nanos(rtt.as_nanos().saturating_mul(4))
                .max(WAIT_MIN)
                .min(WAIT_MAX)
        });
        self.awaited = Some(now + wait);
        Some(Act::Probe {
            number: self.numbers,
            challenge: self.challenge,
        })
    }

    fn leave(&mut self, now: Time) -> Option<Act> {
        let was = core::mem::replace(&mut self.state, State::Down);
        self.asked.clear();
        self.rtt = None;
        if let State::Up { since } = was
            && now.since(since) >= IDLE
        {
            self.back_off = BACK_OFF;
        }
        self.next = now + self.back_off;
        self.back_off = (self.back_off + self.back_off).min(BACK_OFF_MAX);
        matches!(was, State::Up { .. }).then_some(Act::Leave)
    }

    /// An answer has come.
    pub fn on_answer(&mut self, now: Time, number: u32, challenge: u32) {
        let asked = self.asked.iter().find(|(asked, _)| *asked == number);
        if let Some(&(_, at)) = asked {
            let rtt = now.since(at);
            self.rtt = Some(match self.rtt {
                // As TCP's (RFC 6298).
                Some(before) => Duration::from_nanos((before.as_nanos() * 7 + rtt.as_nanos()) / 8),
                None => rtt,
            });
            self.asked.retain(|(asked, _)| *asked != number);
            self.missed = 0;
            self.awaited = None;
            self.answered = now;
            self.next = now + IDLE;
            if !self.is_up() {
                self.state = State::Up { since: now };
            }
        }
        // The gate wants to know whether this address hears.
        if challenge != 0 && challenge != self.challenge && self.state != State::Down {
            self.challenge = challenge;
            self.awaited = None;
            self.next = now;
        }
    }

    /// A datagram has passed by the way.
    pub fn on_carried(&mut self) {
        if self.is_up() {
            self.next = self.next.min(self.answered + BUSY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(30);

    /// A way on a clock of its own, and what is answered.
    struct Run {
        choice: Choice,
        now: Time,
        challenge: u32,
        left: u32,
    }

    impl Run {
        fn new() -> Run {
            Run {
                choice: Choice::new(Time::ZERO),
                now: Time::ZERO,
                challenge: 1,
                left: 0,
            }
        }

        /// Goes on for `span` with datagrams every 20 ms, or none; each probe is answered, or none.
        fn go(&mut self, span: Duration, is_busy: bool, is_answered: bool) -> u32 {
            let (end, mut probes) = (self.now + span, 0);
            while self.now < end {
                if is_busy {
                    self.choice.on_carried();
                }
                let mut answers = Vec::new();
                while let Some(act) = self.choice.poll(self.now) {
                    match act {
                        Act::Probe { number, .. } => {
                            probes += 1;
                            answers.push(number);
                        }
                        Act::Leave => self.left += 1,
                    }
                }
                for number in answers.into_iter().filter(|_| is_answered) {
                    let later = self.now + RTT;
                    self.choice.on_answer(later, number, self.challenge);
                }
                self.now += Duration::from_millis(10);
            }
            probes
        }
    }

    #[test]
    fn it_is_used_once_a_probe_was_answered_and_keeps_saying_so() {
        let mut run = Run::new();
        assert!(!run.choice.is_up());
        let Some(Act::Probe {
            number,
            challenge: 0,
        }) = run.choice.poll(Time::ZERO)
        else {
            panic!("no probe");
        };
        assert_eq!(run.choice.poll(Time::ZERO), None, "one at a time");
        run.now = Time::ZERO + RTT;
        run.choice.on_answer(run.now, number, 1);
        assert!(run.choice.is_up());
        assert_eq!(run.choice.rtt(), Some(RTT));
        // The gate's challenge is repeated at once, and the same one not again.
        assert_eq!(
            run.choice.poll(run.now),
            Some(Act::Probe {
                number: 2,
                challenge: 1
            })
        );
        run.choice.on_answer(run.now + RTT, 2, 1);
        assert_eq!(run.choice.poll(run.now + RTT), None);
        let idle = run.go(Duration::from_secs(60), false, true);
        assert!((4..=5).contains(&idle), "{idle}");
        let busy = run.go(Duration::from_secs(60), true, true);
        assert!((50..=60).contains(&busy), "{busy}");
        assert_eq!((run.left, run.choice.probes().1), (0, 0));
    }

    #[test]
    fn one_that_dies_in_a_call_is_left_within_two_seconds_and_comes_back() {
        let mut run = Run::new();
        run.go(Duration::from_secs(30), true, true);
        let died = run.now;
        while run.choice.is_up() {
            run.go(Duration::from_millis(10), true, false);
        }
        assert!(run.now.since(died) < Duration::from_secs(2), "{}", run.now);
        assert_eq!(run.left, 1);
        // Four attempts within half a minute: 2, 4, 8, 16 s, each of three probes.
        let probes = run.go(Duration::from_secs(32), true, false);
        assert!((6..=12).contains(&probes), "{probes}");
        assert_eq!(run.left, 1, "it was not up again");
        run.go(BACK_OFF_MAX, true, true);
        assert!(run.choice.is_up());
    }

    #[test]
    fn where_udp_is_blocked_ever_fewer_probes_are_sent() {
        let mut run = Run::new();
        let first = run.go(Duration::from_secs(60), true, false);
        let hour = run.go(Duration::from_secs(3_600), true, false);
        assert!(first <= 18, "{first}");
        assert!(hour <= 3 * 3_600 / 64, "{hour}");
        assert_eq!(run.left, 0);
    }

    #[test]
    fn one_that_is_up_for_a_moment_only_is_not_tried_ever_faster() {
        let mut run = Run::new();
        let mut gaps = Vec::new();
        run.go(Duration::from_millis(100), true, true);
        for _ in 0..4 {
            while run.choice.is_up() {
                run.go(Duration::from_millis(10), true, false);
            }
            let since = run.now;
            while !run.choice.is_up() {
                run.go(Duration::from_millis(10), true, true);
            }
            gaps.push(run.now.since(since));
        }
        assert!(
            gaps.is_sorted() && gaps[3] > Duration::from_secs(14),
            "{gaps:?}"
        );
    }

    #[test]
    fn a_single_loss_and_a_late_answer_do_not_matter() {
        let mut choice = Choice::new(Time::ZERO);
        assert!(choice.poll(Time::ZERO).is_some());
        choice.on_answer(Time::ZERO + RTT, 1, 0);
        let at = choice.next_timeout();
        assert_eq!(
            choice.poll(at),
            Some(Act::Probe {
                number: 2,
                challenge: 0
            })
        );
        let missed = choice.next_timeout();
        assert_eq!(missed, at + WAIT_MIN);
        assert_eq!(
            choice.poll(missed),
            Some(Act::Probe {
                number: 3,
                challenge: 0
            })
        );
        choice.on_answer(missed + RTT, 2, 0);
        assert!(choice.is_up() && choice.awaited.is_none());
        // What nobody asked for proves nothing.
        let mut other = Choice::new(Time::ZERO);
        other.on_answer(Time::ZERO, 0, 5);
        other.on_answer(Time::ZERO, 77, 5);
        assert!(!other.is_up());
        assert_eq!(
            other.poll(Time::ZERO),
            Some(Act::Probe {
                number: 1,
                challenge: 5
            })
        );
    }
}
