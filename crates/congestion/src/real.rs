//! TCP-Real: the receiver measures the rate at which data arrives, and reports it in its acknowledgements. The sender
//! grows, waits or slows down by that rate, and takes a loss for congestion only if the rate agrees (Tsaoussidis and
//! Zhang 2002) [Papadimitriou06 §3.1].
//!
//! ```text
//!   once per round trip, in congestion avoidance, the rate of this wave against the last one's:
//!     not lower                           window + α          (α = 1)
//!     a little lower                      window as it is
//!     lower by more than γ                window · (1 - γ)    (γ = 1/8), before anything is lost
//!   a loss, or the first timeout since something arrived:
//!     rate kept and delivery steady       a random error of a wireless link: nothing changes
//!     otherwise                           window · β, or back to one segment
//! ```
//!
//! The paper gives no numbers for "a little", "high" and "low jitter"; the constants below define them. Jitter is how
//! much longer the quickest packet of a wave took than the quickest packet ever. Packets of one burst wait for each
//! other on the best of paths, but a queue of other traffic makes all of them wait. So a sender whose losses come from
//! a queue backs off as Reno does, and a sender whose losses come from the medium does not. The method fails for a
//! queue that is too short to be distinguished from no queue. If a receiver reports only its rate, the jitter is taken
//! from the sender's round trips. Without a rate this is Reno.
//!
//! A rate is compared only with a rate that the same window could have produced. So the comparison does not span a cut,
//! and it does not run while the application leaves the window unused, because then the rate is the application's.
//!
//! State: window and threshold; the rate of this wave and of the last one; the jitter, and its measurement if the
//! receiver does not report it; when the round trip ends, and what was observed in it.

use base::{Duration, Time};

use crate::window::Window;
use crate::{Acked, Congestion, Control, Settings};

/// Choice: delivery is steady if the quickest packet of a wave waited no longer than this share of the least round
/// trip; a queue of half a window, where TCPs begin to take turns, is far beyond that.
const STEADY: f64 = 1.0 / 16.0;
/// Choice: the same limit for short paths, where hosts alone cause as much delay.
const STEADY_MIN: Duration = Duration::from_millis(1);
/// Choice: the rates of this number of round trips after a cut are not compared. The first was sent before the cut, and
/// in the second the losses are repaired.
const SETTLES: u32 = 2;
/// Choice: from this share of the window in flight on, the window limits the sender. A sender that paces never quite
/// reaches the window.
const USED: f64 = 0.75;

/// The window of TCP-Real.
#[derive(Clone, Debug)]
pub struct Real {
    window: Window,
    /// The latest measurement, in bits per second.
    rate: Option<f64>,
    /// The measurement at the end of the last round trip, if it can be compared.
    rate_before: Option<f64>,
    /// The last comparison found a fall.
    fell: bool,
    /// Number of round trips until rates can be compared again.
    settles: u32,
    jitter: Duration,
    rtt_min: Duration,
    /// The least of this round trip, for receivers that do not report a jitter.
    rtt_round: Duration,
    round_ends: Time,
    /// The window was full during the whole round trip.
    used: bool,
    grows: bool,
    /// The window was cut, and what was in flight then has not all arrived. A timeout in that time belongs to the same
    /// congestion, whatever the path is like by then.
    congested: bool,
    /// A timeout was taken for a random error, and nothing has arrived since.
    aborted: bool,
}

impl Real {
    /// Creates a fresh window.
    pub fn new(settings: Settings) -> Real {
        Real {
            window: Window::new(settings),
            rate: None,
            rate_before: None,
            fell: false,
            settles: 0,
            jitter: Duration::ZERO,
            rtt_min: Duration::MAX,
            rtt_round: Duration::MAX,
            round_ends: Time::ZERO,
            used: true,
            grows: true,
            congested: false,
            aborted: false,
        }
    }

    fn measure(&mut self, ack: &Acked) {
        if let Some(rtt) = ack.rtt {
            self.rtt_min = self.rtt_min.min(rtt);
            self.rtt_round = self.rtt_round.min(rtt);
        }
        if let Some(rate_bps) = ack.receive_rate_bps {
            self.rate = Some(rate_bps as f64);
        }
        if let Some(jitter) = ack.receive_jitter {
            self.jitter = jitter;
        }
        let used = ack.in_flight + 1.0 >= USED * self.window.size().floor();
        self.used &= ack.limited && used;
        self.aborted = false;
    }

    fn end_round(&mut self, ack: &Acked) {
        self.round_ends = ack.now + ack.srtt;
        if ack.receive_jitter.is_none() && self.rtt_round < Duration::MAX {
            self.jitter = self.rtt_round.saturating_sub(self.rtt_min);
        }
        self.rtt_round = Duration::MAX;
        self.judge();
        self.used = true;
    }

    /// Compares this wave's rate with the last one's. [Papadimitriou06 §3.1]
    fn judge(&mut self) {
        (self.grows, self.fell) = (true, false);
        let comparable = self.settles == 0 && self.used;
        self.settles = self.settles.saturating_sub(1);
        let before = core::mem::replace(&mut self.rate_before, self.rate.filter(|_| comparable));
        let (Some(rate), Some(before), true) = (self.rate, before, comparable) else {
            return;
        };
        let (size, gamma) = (self.window.size(), self.window.settings().gamma);
        // One segment of a wave more or less is the resolution of the measurement.
        let grain = 1.0 / size;
        let fall = 1.0 - rate / before;
        self.grows = fall <= grain;
        // Choice: a fall of more than γ leads to a reduction by γ.
        self.fell = fall > gamma.max(grain);
        if self.fell && !self.window.in_slow_start() {
            self.window.set(size * (1.0 - gamma));
            self.settle();
        }
    }

    /// Handles a change of the window by more than its growth: rates have to be measured again.
    fn settle(&mut self) {
        self.settles = SETTLES;
        self.rate_before = None;
    }

    /// Returns whether a missing packet is an error of the medium: packets still arrive at the earlier rate, and
    /// steadily. [Papadimitriou06 §5.1]
    fn is_random_error(&self) -> bool {
        let steady = self.rtt_min.mul_f64(STEADY).max(STEADY_MIN);
        // In slow start, the last wave had half of the window that meets the loss, so it shows nothing.
        let measured = self.rate.is_some() && !self.window.in_slow_start();
        measured && !self.fell && self.jitter <= steady
    }
}

impl Control for Real {
    fn on_ack(&mut self, ack: &Acked) {
        self.measure(ack);
        if ack.now >= self.round_ends {
            self.end_round(ack);
        }
        if !ack.limited {
            return;
        }
        let rest = self.window.slow_start(self.window.counted(ack.segments));
        if self.grows {
            let (size, alpha) = (self.window.size(), self.window.settings().alpha);
            self.window.set(size + alpha * rest / size);
        }
    }

    fn on_congestion(&mut self, _now: Time, in_flight: f64, why: Congestion) {
        self.settle();
        if why == Congestion::Loss && self.is_random_error() {
            return;
        }
        let kept = in_flight.min(self.window.size()) * self.window.settings().beta;
        self.congested = true;
        self.window.cut(kept);
    }

    fn on_recovered(&mut self, _now: Time) {
        self.congested = false;
        self.settle();
    }

    fn aborts_timeout(&self) -> bool {
        !self.aborted && !self.congested && self.is_random_error()
    }

    fn undo_timeout(&mut self, window: f64, threshold: f64) {
        self.window.restore(window, threshold);
    }

    fn on_timeout(&mut self, _now: Time, in_flight: f64) {
        self.settle();
        if self.aborts_timeout() {
            self.aborted = true;
            return;
        }
        self.congested = false;
        self.window
            .collapse(in_flight * self.window.settings().beta);
    }

    fn on_partial(&mut self, deflate: f64) {
        if !self.is_random_error() {
            self.window.deflate(deflate);
        }
    }

    fn on_idle(&mut self, idle: Duration, rto: Duration) {
        self.window.restart(idle, rto);
        self.settle();
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

    fn at(window: f64) -> Real {
        Real::new(Settings {
            initial_window: window,
            initial_threshold: 2.0,
            ..Settings::default()
        })
    }

    /// Simulates a round trip in which the receiver measures this rate and this jitter.
    fn round(real: &mut Real, number: u64, rate_kbps: u64, jitter_ms: u64) {
        let in_flight = real.window();
        for _ in 0..in_flight as u32 {
            real.on_ack(&Acked {
                now: Time::ZERO + Duration::from_millis(100 * number),
                receive_rate_bps: Some(rate_kbps * 1000),
                receive_jitter: Some(Duration::from_millis(jitter_ms)),
                in_flight,
                ..ack(1.0)
            });
        }
    }

    #[test]
    fn the_receivers_rate_steers_the_window() {
        let mut real = at(32.0);
        round(&mut real, 1, 1000, 0);
        round(&mut real, 2, 1000, 0);
        assert!((real.window() - 34.0).abs() < 0.2, "{}", real.window());
        let before = real.window();
        round(&mut real, 3, 950, 0);
        assert_eq!(real.window(), before, "a little lower: it waits");
        round(&mut real, 4, 800, 0);
        assert!(real.window() >= before * 0.875, "{}", real.window());
        assert!(real.window() < before * 0.875 + 1.0, "eased by γ, then on");
        let eased = real.window();
        round(&mut real, 5, 700, 0);
        assert!(real.window() > eased, "of its own cut: not another fall");
    }

    #[test]
    fn a_rate_that_the_application_makes_is_no_fall() {
        let mut real = at(32.0);
        for (number, rate_kbps) in [(1, 1000), (2, 1000), (3, 100), (4, 1000), (5, 100)] {
            let before = real.window();
            real.on_ack(&Acked {
                now: Time::ZERO + Duration::from_millis(100 * number),
                receive_rate_bps: Some(rate_kbps * 1000),
                receive_jitter: Some(Duration::ZERO),
                in_flight: 3.0,
                ..ack(1.0)
            });
            assert!(real.window() >= before, "{number}");
        }
    }

    #[test]
    fn a_loss_at_a_kept_rate_and_without_a_queue_is_not_congestion() {
        let mut real = at(16.0);
        round(&mut real, 1, 1000, 1);
        let before = real.window();
        real.on_congestion(Time::ZERO, before, Congestion::Loss);
        assert_eq!(real.window(), before);
        real.on_congestion(Time::ZERO, before, Congestion::Explicit);
        assert_eq!(real.window(), before / 2.0, "a mark is no error");

        let mut queued = at(16.0);
        round(&mut queued, 1, 1000, 50);
        queued.on_congestion(Time::ZERO, 16.0, Congestion::Loss);
        assert_eq!(queued.window(), 8.0);

        let mut slower = at(16.0);
        round(&mut slower, 1, 1000, 1);
        round(&mut slower, 2, 700, 1);
        let before = slower.window();
        slower.on_congestion(Time::ZERO, before, Congestion::Loss);
        assert_eq!(slower.window(), before / 2.0);
    }

    #[test]
    fn the_first_timeout_of_a_clear_path_changes_nothing_and_the_second_does() {
        let mut real = at(16.0);
        round(&mut real, 1, 1000, 1);
        let before = real.window();
        assert!(real.aborts_timeout());
        real.on_timeout(Time::ZERO, before);
        assert_eq!(real.window(), before);
        assert!(!real.aborts_timeout(), "nothing has arrived since");
        real.on_timeout(Time::ZERO, before);
        assert_eq!(real.window(), 1.0);

        let mut cut = at(16.0);
        round(&mut cut, 1, 1000, 1);
        cut.on_congestion(Time::ZERO, 16.0, Congestion::Explicit);
        assert!(!cut.aborts_timeout(), "it is of the congestion");
        cut.on_recovered(Time::ZERO);
        assert!(cut.aborts_timeout());
    }

    #[test]
    fn a_receiver_without_a_jitter_leaves_it_to_the_round_trips() {
        for (rtt_ms, forgives) in [(101, true), (150, false)] {
            let mut real = at(16.0);
            for (number, rtt_ms) in [(1, 100), (2, rtt_ms), (3, rtt_ms), (4, rtt_ms)] {
                real.on_ack(&Acked {
                    now: Time::ZERO + Duration::from_millis(200 * number),
                    rtt: Some(Duration::from_millis(rtt_ms)),
                    receive_rate_bps: Some(1_000_000),
                    in_flight: 16.0,
                    ..ack(1.0)
                });
            }
            let before = real.window();
            real.on_congestion(Time::ZERO, before, Congestion::Loss);
            assert_eq!(real.window() == before, forgives, "{rtt_ms}");
        }
    }

    #[test]
    fn without_a_rate_it_is_reno() {
        let mut real = at(16.0);
        real.on_ack(&ack(16.0));
        assert_eq!(real.window(), 17.0);
        real.on_congestion(Time::ZERO, 17.0, Congestion::Loss);
        assert_eq!(real.window(), 8.5);
        assert!(!real.aborts_timeout());
    }
}
