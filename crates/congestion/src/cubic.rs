//! CUBIC: after a loss the window returns to its earlier size along a cubic function of *time*, flat around the old
//! maximum, so that flows with long round trips get their share [RFC 9438].
//!
//! ```text
//!  window                          ,'     W(t) = C·(t - K)³ + W_max
//!   W_max ......._____-------_____'       K    = ³√((W_max - window at t=0) / C)
//!               /                         never below what Reno would have: W_est
//!   0.7·W_max  /
//!              |_______ K ________ t
//! ```
//!
//! State: window and threshold; `w_max`, the height of the plateau; the epoch (since when the function runs, from which
//! window, and Reno's window beside it).
//!
//! Slow start is the standard one. Choice: it lacks HyStart++ (a SHOULD of RFC 9438 §4.10), since the users of this
//! crate pace, and the simulator compares with TCPs that do not have it.

use base::{Duration, Time};

use crate::window::Window;
use crate::{Acked, Congestion, Control, Settings};

/// How fast the function grows, in segments per second cubed [RFC 9438 §5].
const C: f64 = 0.4;
/// The share of the window that is kept on congestion [RFC 9438 §4.6].
pub(crate) const BETA: f64 = 0.7;
/// The increase that gets as much as Reno with this decrease: 3(1-β)/(1+β) [RFC 9438 §4.3].
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// The maximum factor by which the function may increase the window within a round trip [RFC 9438 §4.2].
const STEP_MAX: f64 = 1.5;

/// The number of round trips in which a window of whole segments grows by one if no curve requests growth.
const SLOWEST: f64 = 100.0;
/// How often kernels evaluate the curves while the window stays the same: a thirty-second of a second.
const LOOK: Duration = Duration::from_micros(31_250);

/// The window of CUBIC.
#[derive(Clone, Debug)]
pub struct Cubic {
    window: Window,
    /// The plateau: the window at the last congestion, reduced under fast convergence; 0 after a timeout, when there is
    /// no plateau.
    w_max: f64,
    epoch: Option<Epoch>,
    last_ack: Time,
    /// The acknowledged part of the next segment of the window, if the window grows by whole segments.
    counted: f64,
}

/// One period of congestion avoidance.
#[derive(Clone, Debug)]
struct Epoch {
    start: Time,
    /// When the function passes the plateau, in seconds after the start.
    k: f64,
    plateau: f64,
    /// The window that Reno would have by now.
    w_est: f64,
    /// For whole windows: the acknowledged segments beyond that, when the curves were evaluated and at which window,
    /// and how many acknowledged segments they then required for the next.
    est_counted: f64,
    looked_at: Time,
    looked_size: f64,
    per_segment: f64,
}

impl Cubic {
    /// Creates a fresh window.
    pub fn new(settings: Settings) -> Cubic {
        Cubic {
            window: Window::new(settings),
            w_max: 0.0,
            epoch: None,
            last_ack: Time::ZERO,
            counted: 0.0,
        }
    }

    /// Does the same in whole segments. A curve that lies ahead requests one segment for a number of acknowledged ones,
    /// at least two. The curves are evaluated when the window has changed, or after a while.
    fn avoid_whole(&mut self, ack: &Acked, segments: f64) {
        let (size, w_max) = (self.window.size(), self.w_max);
        let epoch = self
            .epoch
            .get_or_insert_with(|| Epoch::new(ack.now, size, w_max));
        epoch.est_counted += segments;
        if size != epoch.looked_size || ack.now.since(epoch.looked_at) > LOOK {
            (epoch.looked_size, epoch.looked_at) = (size, ack.now);
            let grown = (epoch.est_counted * ALPHA / size).floor();
            epoch.est_counted -= grown * size / ALPHA;
            epoch.w_est += grown;
            let target = epoch.cubic(ack.now.since(epoch.start) + ack.srtt).floor();
            let ahead = target.max(epoch.w_est) - size;
            epoch.per_segment = match ahead > 0.0 {
                true => (size / ahead).max(2.0),
                false => SLOWEST * size,
            };
        }
        let per_segment = epoch.per_segment;
        let mut grown = 0.0;
        if self.counted >= per_segment {
            (self.counted, grown) = (0.0, 1.0);
        }
        self.counted += segments;
        let more = (self.counted / per_segment).floor();
        self.counted -= more * per_segment;
        grown += more;
        self.window.set(size + grown);
    }

    fn avoid(&mut self, ack: &Acked, segments: f64) {
        if self.window.settings().whole {
            return self.avoid_whole(ack, segments);
        }
        let size = self.window.size();
        let w_max = self.w_max;
        let epoch = self
            .epoch
            .get_or_insert_with(|| Epoch::new(ack.now, size, w_max));
        // Choice: α stays the same when the window before the cut is passed, where RFC 9438 §4.3 would set it to 1.
        // Kernels keep it, so a sender that changed it would take most of a bottleneck from several of them.
        epoch.w_est += ALPHA * segments / size;
        let t = ack.now.since(epoch.start);
        if epoch.cubic(t) < epoch.w_est {
            // A partial acknowledgement deflates the window but not the estimate. So the window returns by no more than
            // what has left the network.
            let reno = epoch.w_est.min(size + segments);
            self.window.set(size.max(reno));
        } else {
            let target = epoch.cubic(t + ack.srtt).min(STEP_MAX * size).max(size);
            self.window.set(size + (target - size) / size * segments);
        }
    }

    /// Remembers the plateau before a cut. A flow whose plateau is falling makes room faster, for new flows [RFC 9438
    /// §4.7].
    fn remember(&mut self) {
        let size = self.window.size();
        self.w_max = if size < self.w_max {
            size * (1.0 + BETA) / 2.0
        } else {
            size
        };
        self.epoch = None;
    }
}

impl Epoch {
    fn new(start: Time, size: f64, w_max: f64) -> Epoch {
        let plateau = w_max.max(size);
        Epoch {
            start,
            k: ((plateau - size) / C).cbrt(),
            plateau,
            w_est: size,
            est_counted: 0.0,
            looked_at: start,
            looked_size: 0.0,
            per_segment: SLOWEST * size,
        }
    }

    fn cubic(&self, t: Duration) -> f64 {
        C * (t.as_secs_f64() - self.k).powi(3) + self.plateau
    }
}

impl Control for Cubic {
    fn on_ack(&mut self, ack: &Acked) {
        let since = ack.now.since(self.last_ack);
        self.last_ack = ack.now;
        if !ack.limited {
            // The function must not run ahead while the window is not used [RFC 9438 §5.8].
            if let Some(epoch) = &mut self.epoch {
                epoch.start = (epoch.start + since).min(ack.now);
            }
            return;
        }
        let rest = self.window.slow_start(self.window.counted(ack.segments));
        if rest > 0.0 {
            self.avoid(ack, rest);
        }
    }

    fn on_congestion(&mut self, _now: Time, in_flight: f64, _why: Congestion) {
        self.remember();
        let kept = in_flight * BETA;
        let is_whole = self.window.settings().whole;
        self.window.cut(if is_whole { kept.floor() } else { kept });
        self.counted = 0.0;
    }

    fn on_partial(&mut self, deflate: f64) {
        self.window.deflate(deflate);
    }

    fn undo_timeout(&mut self, window: f64, threshold: f64) {
        self.window.restore(window, threshold);
    }

    fn on_timeout(&mut self, _now: Time, in_flight: f64) {
        self.remember();
        // There is no plateau: the first stage after a timeout grows convexly from where slow start ended [RFC 9438
        // §4.8].
        self.w_max = 0.0;
        self.window.collapse(in_flight * BETA);
    }

    fn on_idle(&mut self, idle: Duration, rto: Duration) {
        self.window.restart(idle, rto);
        self.epoch = None;
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

    /// Acknowledges whole windows for `rounds` round trips of `rtt_ms`.
    fn run(cubic: &mut Cubic, from: Time, rounds: u64, rtt_ms: u64) -> Vec<f64> {
        let rtt = Duration::from_millis(rtt_ms);
        (1..=rounds)
            .map(|round| {
                let now = from + rtt * round;
                let n = cubic.window() as u32;
                for _ in 0..n {
                    cubic.on_ack(&Acked {
                        now,
                        srtt: rtt,
                        ..ack(1.0)
                    });
                }
                cubic.window()
            })
            .collect()
    }

    fn at(window: f64) -> Cubic {
        Cubic::new(Settings {
            initial_window: window,
            initial_threshold: 2.0,
            ..Settings::default()
        })
    }

    #[test]
    fn after_a_loss_the_window_is_back_after_k_and_flat_there() {
        let mut cubic = at(1000.0);
        cubic.on_congestion(Time::ZERO, 1000.0, Congestion::Loss);
        assert_eq!((cubic.window(), cubic.threshold()), (700.0, 700.0));
        // K = cbrt(300 / 0.4) = 9.09 s, at a round trip of 100 ms.
        let course = run(&mut cubic, Time::ZERO, 120, 100);
        let at_k = course[90];
        assert!((at_k - 1000.0).abs() < 10.0, "{at_k}");
        let early = course[10] - course[0];
        let flat = course[95] - course[85];
        assert!(flat < early / 10.0, "{flat} {early}");
        assert!(course[119] > 1005.0, "convex beyond: {}", course[119]);
    }

    #[test]
    fn on_a_short_path_it_is_as_fast_as_reno() {
        let mut cubic = at(10.0);
        cubic.on_congestion(Time::ZERO, 10.0, Congestion::Loss);
        // Reno's equivalent with β = 0.7 is 7 + 0.53 each round.
        let course = run(&mut cubic, Time::ZERO, 30, 10);
        assert!(course[4] > 9.2 && course[4] < 10.5, "{}", course[4]);
        assert!(course[29] > 21.0 && course[29] < 25.0, "{}", course[29]);
    }

    #[test]
    fn a_falling_plateau_makes_room() {
        let mut cubic = at(100.0);
        cubic.on_congestion(Time::ZERO, 100.0, Congestion::Loss);
        assert_eq!(cubic.w_max, 100.0);
        cubic.on_congestion(Time::ZERO, 70.0, Congestion::Explicit);
        assert!((cubic.w_max - 70.0 * 0.85).abs() < 1e-9);
        assert!((cubic.window() - 49.0).abs() < 1e-9);
    }

    #[test]
    fn a_timeout_starts_over_without_a_plateau() {
        let mut cubic = at(100.0);
        cubic.on_timeout(Time::ZERO, 100.0);
        assert_eq!((cubic.window(), cubic.threshold()), (1.0, 70.0));
        let course = run(&mut cubic, Time::ZERO, 7, 100);
        assert_eq!(course[5], 64.0, "slow start");
        assert!(course[6] >= 70.0 && course[6] < 72.0, "{}", course[6]);
    }

    #[test]
    fn time_that_nobody_uses_does_not_count() {
        let (mut used, mut idle) = (at(1000.0), at(1000.0));
        for cubic in [&mut used, &mut idle] {
            cubic.on_congestion(Time::ZERO, 1000.0, Congestion::Loss);
            run(cubic, Time::ZERO, 10, 100);
        }
        let second = |s| Time::ZERO + Duration::from_secs(s);
        idle.on_ack(&Acked {
            now: second(31),
            limited: false,
            ..ack(1.0)
        });
        let by_used = run(&mut used, second(1), 10, 100);
        let by_idle = run(&mut idle, second(31), 10, 100);
        assert!(
            (by_used[9] - by_idle[9]).abs() < 0.5,
            "{} {}",
            by_used[9],
            by_idle[9]
        );
    }
}
