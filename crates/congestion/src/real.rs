//! TCP-Real: the receiver measures at which rate data arrives and says so in its acknowledgements;
//! the sender grows, waits or eases off by that rate, and takes a loss for congestion only if the
//! rate agrees (Tsaoussidis and Zhang 2002) [Papadimitriou06 §3.1].
//!
//! ```text
//!   once per round trip, in congestion avoidance:
//!     rate not below the last one         window + α          (α = 1)
//!     a little below                      window as it is
//!     clearly below                       window · (1 - γ)    (γ = 1/8), before anything is lost
//!   a loss:
//!     rate high and spacing steady        a random error of a wireless link: no cut
//!     otherwise                           window · β
//! ```
//!
//! "A little", "high" and "steady" have no numbers in the paper; the constants below say what they
//! are here. A sender whose acknowledgements carry no rate is Reno.
//!
//! State: window and threshold; the rate of the current round trip and of the last; the highest
//! rate, forgotten slowly; when the round trip ends and how much it adds.

use base::{Duration, Time};

use crate::window::Window;
use crate::{Acked, Congestion, Control, Settings};

/// Choice: below this share of the last rate the fall is real; between it and 1 the window waits.
const FALL: f64 = 0.9;
/// Choice: a rate of at least this share of the highest is high.
const HIGH: f64 = 0.9;
/// Choice: how much of the highest rate is forgotten each round trip, so that a path that became
/// slower is not measured by what it once was; 1/64 forgets half in 44 round trips.
const FORGET: f64 = 1.0 / 64.0;
/// Choice: arrivals are steady if they vary by no more than this share of the round trip.
const STEADY: f64 = 0.125;

/// The window of TCP-Real.
#[derive(Clone, Debug)]
pub struct Real {
    window: Window,
    /// Latest measurement, in bits per second.
    rate: Option<f64>,
    /// The one at the end of the last round trip.
    rate_before: Option<f64>,
    highest: f64,
    jitter: Duration,
    srtt: Duration,
    round_ends: Time,
    grows: bool,
}

impl Real {
    /// A fresh window.
    pub fn new(settings: Settings) -> Real {
        Real {
            window: Window::new(settings),
            rate: None,
            rate_before: None,
            highest: 0.0,
            jitter: Duration::ZERO,
            srtt: Duration::ZERO,
            round_ends: Time::ZERO,
            grows: true,
        }
    }

    fn measure(&mut self, ack: &Acked) {
        self.srtt = ack.srtt;
        if let Some(rate_bps) = ack.receive_rate_bps {
            let rate = rate_bps as f64;
            self.rate = Some(rate);
            self.highest = self.highest.max(rate);
        }
        if let Some(jitter) = ack.receive_jitter {
            self.jitter = jitter;
        }
    }

    /// Compares this round trip's rate with the last one's.
    fn judge(&mut self) {
        let (rate, before) = (self.rate, self.rate_before);
        self.rate_before = rate;
        self.highest *= 1.0 - FORGET;
        self.grows = true;
        let (Some(rate), Some(before)) = (rate, before) else {
            return;
        };
        // Choice: an eighth of a window below eight segments is less than the segment that the
        // rate is measured with, so there the window only waits.
        let gamma = self.window.settings().gamma;
        if rate < before * FALL && !self.window.in_slow_start() {
            let size = self.window.size();
            self.window.set(size * (1.0 - gamma));
            self.grows = false;
        } else if rate < before {
            self.grows = false;
        }
    }

    /// Whether a loss is an error of the medium: what arrives does so at a high rate, and steadily.
    fn is_random_error(&self) -> bool {
        match self.rate {
            Some(rate) => rate >= HIGH * self.highest && self.jitter < self.srtt.mul_f64(STEADY),
            None => false,
        }
    }
}

impl Control for Real {
    fn on_ack(&mut self, ack: &Acked) {
        self.measure(ack);
        if ack.now >= self.round_ends {
            self.round_ends = ack.now + ack.srtt;
            self.judge();
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
        if why == Congestion::Loss && self.is_random_error() {
            // Slow start ends all the same: the path has shown a limit of some kind.
            if self.window.in_slow_start() {
                self.window.set_threshold(self.window.size());
            }
            return;
        }
        let kept = in_flight.min(self.window.size()) * self.window.settings().beta;
        self.window.cut(kept);
    }

    fn on_timeout(&mut self, _now: Time, in_flight: f64) {
        self.window
            .collapse(in_flight * self.window.settings().beta);
        self.rate_before = None;
    }

    fn on_partial(&mut self, deflate: f64) {
        if !self.is_random_error() {
            self.window.deflate(deflate);
        }
    }

    fn on_idle(&mut self, idle: Duration, rto: Duration) {
        self.window.restart(idle, rto);
        self.rate_before = None;
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

    /// A round trip in which the receiver measures this rate.
    fn round(real: &mut Real, number: u64, rate_kbps: u64, jitter_ms: u64) {
        for _ in 0..real.window() as u32 {
            real.on_ack(&Acked {
                now: Time::ZERO + Duration::from_millis(100 * number),
                receive_rate_bps: Some(rate_kbps * 1000),
                receive_jitter: Some(Duration::from_millis(jitter_ms)),
                ..ack(1.0)
            });
        }
    }

    #[test]
    fn the_receivers_rate_steers_the_window() {
        let mut real = at(16.0);
        round(&mut real, 1, 1000, 0);
        round(&mut real, 2, 1000, 0);
        assert!((real.window() - 18.0).abs() < 0.2, "{}", real.window());
        let before = real.window();
        round(&mut real, 3, 950, 0);
        assert_eq!(real.window(), before, "a little lower: it waits");
        round(&mut real, 4, 500, 0);
        assert!((real.window() - before * 0.875).abs() < 1e-9, "eased by γ");
    }

    #[test]
    fn a_loss_at_a_high_and_steady_rate_is_not_congestion() {
        let mut real = at(16.0);
        round(&mut real, 1, 1000, 1);
        let before = real.window();
        real.on_congestion(Time::ZERO, before, Congestion::Loss);
        assert_eq!(real.window(), before);
        real.on_congestion(Time::ZERO, before, Congestion::Explicit);
        assert_eq!(real.window(), before / 2.0, "a mark is no error");

        let mut unsteady = at(16.0);
        round(&mut unsteady, 1, 1000, 50);
        unsteady.on_congestion(Time::ZERO, 16.0, Congestion::Loss);
        assert_eq!(unsteady.window(), 8.0);

        let mut slower = at(16.0);
        round(&mut slower, 1, 1000, 1);
        round(&mut slower, 2, 700, 1);
        slower.on_congestion(Time::ZERO, 14.0, Congestion::Loss);
        assert_eq!(slower.window(), 7.0);
    }

    #[test]
    fn without_a_rate_it_is_reno() {
        let mut real = at(16.0);
        real.on_ack(&ack(16.0));
        assert_eq!(real.window(), 17.0);
        real.on_congestion(Time::ZERO, 17.0, Congestion::Loss);
        assert_eq!(real.window(), 8.5);
    }
}
