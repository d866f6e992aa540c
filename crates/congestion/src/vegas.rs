//! Vegas: the signal is the queue that a flow builds, long before anything is lost (Brakmo and Peterson 1995)
//! [Papadimitriou06 §3.3].
//!
//! ```text
//!   expected = in flight / shortest RTT       diff = (expected - actual) · shortest RTT
//!   actual   = sent in the last RTT / RTT          = segments of ours that wait in queues
//!
//!        diff:   0 ──── 1 ──────── 3 ────────▶
//!      window:    + 1      as is      - 1          once per round trip
//! ```
//!
//! In slow start the window grows only in every other round trip, until diff exceeds γ = 1. Then the window gives up an
//! eighth, and congestion avoidance begins. A loss costs a quarter of the window. The rules and thresholds are those of
//! the authors' code in ns-2.35.
//!
//! State: window and threshold; the shortest RTT; the current round trip (how many segments end it, the RTTs measured
//! in it) and how much the window grows in it.

use base::{Duration, Time};

use crate::window::Window;
use crate::{Acked, Congestion, Control, Settings};

/// The window grows while fewer segments than this are in queues [Papadimitriou06 §3.3].
const ALPHA: f64 = 1.0;
/// The window shrinks while more segments than this are in queues.
const BETA: f64 = 3.0;
/// Slow start ends when more segments than this are in queues.
const GAMMA: f64 = 1.0;
/// The window never shrinks below this, and restarts from it after a timeout.
const WINDOW_MIN: f64 = 2.0;
/// A window that exceeds the flight by this number of segments is not used, and does not grow.
const UNUSED_MAX: f64 = 2.0;

/// The window of Vegas.
#[derive(Clone, Debug)]
pub struct Vegas {
    window: Window,
    base_rtt: Option<Duration>,
    round: Round,
    /// How much each acknowledgement adds to the window in this round trip.
    step: Step,
    /// In slow start, every other round trip only measures.
    grows: bool,
}

/// One round trip.
#[derive(Clone, Debug)]
struct Round {
    began: Time,
    /// Number of segments that will be acknowledged until the round trip is over.
    left: f64,
    rtt_sum: Duration,
    rtts: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    None,
    /// The window grows by one segment per acknowledgement.
    Double,
    /// The window grows by one segment per round trip. Each acknowledgement adds this part of a segment, computed when
    /// the round trip began.
    Add(f64),
}

impl Vegas {
    /// Creates a fresh window.
    pub fn new(settings: Settings) -> Vegas {
        Vegas {
            window: Window::new(settings),
            base_rtt: None,
            round: Round::new(Time::ZERO, 0.0),
            step: Step::None,
            grows: true,
        }
    }

    /// Makes the decision of a round trip. `flying` segments are in flight, `sent` were sent in it.
    fn decide(&mut self, now: Time, flying: f64, sent: f64) {
        let rtt = self.round.mean_rtt(now);
        if rtt == Duration::ZERO {
            return;
        }
        // With one segment per round trip none of our segments can wait: the path itself has changed.
        let base = match self.base_rtt {
            Some(base) if rtt >= base && sent > 1.0 => base,
            _ => rtt,
        };
        self.base_rtt = Some(base);
        let queued = flying - sent * (base.as_secs_f64() / rtt.as_secs_f64());
        let queued = (queued + 0.5).floor();
        if self.window.in_slow_start() {
            self.decide_in_slow_start(queued);
        } else if queued > BETA {
            self.shrink_to(self.window.size() - 1.0);
            self.step = Step::None;
        } else if queued < ALPHA {
            self.step = Step::Add(1.0 / self.window.size());
        } else {
            self.step = Step::None;
        }
    }

    fn decide_in_slow_start(&mut self, queued: f64) {
        self.grows = !self.grows;
        self.step = if !self.grows {
            Step::None
        } else if queued > GAMMA {
            self.window.set_threshold(WINDOW_MIN);
            self.shrink_to(self.window.size() * 7.0 / 8.0);
            Step::None
        } else {
            Step::Double
        };
    }

    fn shrink_to(&mut self, size: f64) {
        self.window
            .set(size.max(WINDOW_MIN.min(self.window.size())));
    }

    fn grow(&mut self, ack: &Acked) {
        if self.step == Step::Double && !self.window.in_slow_start() {
            self.step = Step::None;
        }
        let size = self.window.size();
        // An acknowledgement of many segments leaves a gap in the flight.
        if !ack.limited || size - flying(ack) > UNUSED_MAX {
            return;
        }
        let segments = self.window.counted(ack.segments);
        match self.step {
            Step::None => {}
            Step::Double => self.window.set(size + segments),
            Step::Add(step) => self.window.set(size + segments * step),
        }
    }
}

/// Returns the segment that an acknowledgement ends with and those behind it: they were in flight until now.
fn flying(ack: &Acked) -> f64 {
    (ack.in_flight - ack.segments + 1.0).max(1.0)
}

impl Round {
    fn new(began: Time, left: f64) -> Round {
        Round {
            began,
            left,
            rtt_sum: Duration::ZERO,
            rtts: 0,
        }
    }

    fn mean_rtt(&self, now: Time) -> Duration {
        match self.rtts {
            0 => now.since(self.began),
            n => self.rtt_sum.div(n),
        }
    }
}

impl Control for Vegas {
    fn on_ack(&mut self, ack: &Acked) {
        self.round.left -= ack.segments;
        if self.round.left <= 0.0 {
            let flying = flying(ack);
            let sent = flying - self.round.left;
            self.decide(ack.now, flying, sent);
            self.round = Round::new(ack.now, flying);
        }
        self.grow(ack);
        if let Some(rtt) = ack.rtt {
            self.round.rtt_sum += rtt;
            self.round.rtts += 1;
            if self.base_rtt.is_none_or(|base| rtt < base) {
                self.base_rtt = Some(rtt);
            }
        }
    }

    fn on_congestion(&mut self, _now: Time, in_flight: f64, _why: Congestion) {
        let whole = in_flight.floor();
        let kept = if whole <= 3.0 {
            WINDOW_MIN
        } else {
            whole - (whole / 4.0).floor()
        };
        self.window
            .set(kept.min(self.window.size().max(WINDOW_MIN)));
    }

    fn on_recovered(&mut self, _now: Time) {
        self.window.set_threshold(WINDOW_MIN);
    }

    fn undo_timeout(&mut self, window: f64, threshold: f64) {
        self.window.restore(window, threshold);
    }

    fn on_timeout(&mut self, _now: Time, in_flight: f64) {
        self.window.collapse(in_flight / 2.0);
        self.window.set(WINDOW_MIN);
    }

    fn on_idle(&mut self, idle: Duration, rto: Duration) {
        if idle >= rto {
            self.on_timeout(Time::ZERO, self.window.size());
        }
    }

    fn window(&self) -> f64 {
        self.window.size()
    }

    fn threshold(&self) -> f64 {
        self.window.threshold()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::ack;

    fn vegas(window: f64, threshold: f64) -> Vegas {
        Vegas::new(Settings {
            initial_window: window,
            initial_threshold: threshold,
            ..Settings::default()
        })
    }

    /// Acknowledges `rounds` whole windows, one by one, at this RTT.
    fn run(vegas: &mut Vegas, from: u64, rounds: u64, rtt_ms: u64) -> Vec<f64> {
        let rtt = Duration::from_millis(rtt_ms);
        (from..from + rounds)
            .map(|round| {
                for _ in 0..vegas.window() as u32 {
                    let in_flight = vegas.window().floor();
                    vegas.on_ack(&Acked {
                        now: Time::ZERO + rtt * round,
                        in_flight,
                        rtt: Some(rtt),
                        ..ack(1.0)
                    });
                }
                vegas.window()
            })
            .collect()
    }

    #[test]
    fn it_grows_until_its_own_queue_shows_and_then_stands() {
        let mut vegas = vegas(10.0, 2.0);
        let growing = run(&mut vegas, 1, 5, 100);
        assert!(growing[4] > 13.0 && growing[4] < 16.0, "{growing:?}");
        // 10 % of 14 segments wait: between 1 and 3.
        run(&mut vegas, 6, 2, 112);
        let before = vegas.window();
        let standing = run(&mut vegas, 8, 5, 112);
        assert_eq!(standing[4], before);
        // 30 % wait: too many.
        let shrinking = run(&mut vegas, 13, 4, 145);
        assert!(shrinking[3] <= before - 2.0, "{shrinking:?}");
    }

    #[test]
    fn slow_start_doubles_every_other_round_trip_and_ends_early() {
        let mut vegas = vegas(2.0, 100.0);
        let course = run(&mut vegas, 1, 6, 100);
        // Doubling in each round trip would reach 128.
        assert!((8.0..=32.0).contains(&course[5]), "{course:?}");
        let (before, after) = (vegas.window(), run(&mut vegas, 7, 4, 200));
        assert!(!vegas.in_slow_start());
        assert!(after[3] < before, "{before} {after:?}");
    }

    #[test]
    fn a_loss_costs_a_quarter_and_a_timeout_nearly_all() {
        let mut vegas = vegas(20.0, 2.0);
        vegas.on_congestion(Time::ZERO, 20.0, Congestion::Loss);
        assert_eq!(vegas.window(), 15.0);
        vegas.on_timeout(Time::ZERO, 15.0);
        assert_eq!((vegas.window(), vegas.threshold()), (2.0, 7.0));
    }
}
