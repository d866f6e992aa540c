//! Westwood: after a loss, the window is what the path was measured to hold, instead of a blind half (Mascolo et al.
//! 2001) [Papadimitriou06 §3.2].
//!
//! ```text
//!   acknowledgements ─▶ rate samples ─▶ low-pass ─▶ bandwidth estimate
//!   on a loss:  threshold = estimate · shortest RTT,  window = min(window, threshold)
//! ```
//!
//! Westwood takes a sample from every acknowledgement. When acknowledgements come in clusters, it measures the link's
//! rate instead of the flow's share. So it overestimates [Papadimitriou06 §3.2] and takes more than its share.
//! Westwood+ takes one sample per round trip and avoids this (Grieco and Mascolo 2004).
//!
//! State: window and threshold; the estimate with its last sample, in segments per second; the
//! shortest RTT; what was acknowledged since the last sample. Growth is Reno's.

use base::{Duration, Time};

use crate::window::Window;
use crate::{Acked, Congestion, Control, Settings};

/// The pole of Westwood's filter [Papadimitriou06 §3.2, Algorithm 1].
const POLE: f64 = 19.0 / 21.0;
/// The pole of Westwood+'s filter (Grieco and Mascolo 2004).
const POLE_PLUS: f64 = 0.9;
/// The minimum length of Westwood+'s samples, as in its authors' code: on a path of microseconds a round trip is too
/// short to measure a rate.
const SAMPLE_MIN: Duration = Duration::from_millis(50);

/// The window of Westwood and Westwood+.
#[derive(Clone, Debug)]
pub struct Westwood {
    window: Window,
    once_per_round: bool,
    estimate: Option<Estimate>,
    rtt_min: Option<Duration>,
    /// When the last sample ended.
    sampled: Option<Time>,
    /// Number of segments that have arrived since then.
    since: f64,
    /// Number of segments that duplicates have counted, which an acknowledgement will cover again.
    accounted: f64,
}

/// The estimated bandwidth, in segments per second.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    rate: f64,
    last_sample: f64,
}

impl Westwood {
    /// Creates a fresh window of Westwood.
    pub fn new(settings: Settings) -> Westwood {
        Westwood {
            window: Window::new(settings),
            once_per_round: false,
            estimate: None,
            rtt_min: None,
            sampled: None,
            since: 0.0,
            accounted: 0.0,
        }
    }

    /// Creates a fresh window of Westwood+.
    pub fn plus(settings: Settings) -> Westwood {
        Westwood {
            once_per_round: true,
            ..Westwood::new(settings)
        }
    }

    /// Returns the measured bandwidth in segments per second.
    pub fn estimate(&self) -> Option<f64> {
        self.estimate.map(|estimate| estimate.rate)
    }

    /// Counts the segments that an acknowledgement reports as arrived, each segment once (Mascolo et al. 2001,
    /// AckedCount). A duplicate counts as one segment; an acknowledgement of more than one segment subtracts the
    /// counted duplicates.
    fn count(&mut self, segments: f64) {
        if segments == 0.0 {
            self.accounted += 1.0;
            self.since += 1.0;
        } else if segments > 1.0 && self.accounted >= segments {
            self.accounted -= segments;
            self.since += 1.0;
        } else if segments > 1.0 {
            self.since += segments - self.accounted;
            self.accounted = 0.0;
        } else {
            self.since += segments;
        }
    }

    fn sample(&mut self, ack: &Acked) {
        self.count(ack.segments);
        let Some(sampled) = self.sampled else {
            self.sampled = Some(ack.now);
            self.since = 0.0;
            return;
        };
        let span = ack.now.since(sampled);
        let enough = if self.once_per_round {
            span >= ack.srtt.max(SAMPLE_MIN)
        } else {
            // Acknowledgements of the same moment are one sample.
            span > Duration::ZERO
        };
        if !enough {
            return;
        }
        let sample = self.since / span.as_secs_f64();
        let rate = match self.estimate {
            None => sample,
            Some(old) if self.once_per_round => POLE_PLUS * old.rate + (1.0 - POLE_PLUS) * sample,
            // [Papadimitriou06 §3.2, Algorithm 1]
            Some(old) => (1.0 - POLE) * (sample + old.last_sample) / 2.0 + POLE * old.rate,
        };
        self.estimate = Some(Estimate {
            rate,
            last_sample: sample,
        });
        self.sampled = Some(ack.now);
        self.since = 0.0;
    }

    /// Returns what the path holds: estimate times shortest RTT. If either is missing, returns Reno's half.
    fn holds(&self, in_flight: f64) -> f64 {
        match (self.estimate, self.rtt_min) {
            (Some(estimate), Some(rtt_min)) => estimate.rate * rtt_min.as_secs_f64(),
            _ => in_flight * self.window.settings().beta,
        }
    }
}

impl Control for Westwood {
    fn on_ack(&mut self, ack: &Acked) {
        if let Some(rtt) = ack.rtt {
            self.rtt_min = Some(self.rtt_min.map_or(rtt, |min| min.min(rtt)));
        }
        self.sample(ack);
        if ack.limited {
            let rest = self.window.slow_start(self.window.counted(ack.segments));
            let size = self.window.size();
            self.window.set(size + rest / size);
        }
    }

    fn on_congestion(&mut self, _now: Time, in_flight: f64, _why: Congestion) {
        let before = self.window.size();
        let holds = self.holds(in_flight);
        self.window.cut(holds);
        if self.window.size() > before {
            self.window.set(before);
        }
    }

    fn on_arrived(&mut self, _now: Time, segments: f64) {
        self.count(segments);
    }

    fn on_partial(&mut self, deflate: f64) {
        self.window.deflate(deflate);
    }

    fn undo_timeout(&mut self, window: f64, threshold: f64) {
        self.window.restore(window, threshold);
    }

    fn on_timeout(&mut self, _now: Time, in_flight: f64) {
        let holds = self.holds(in_flight);
        self.window.collapse(holds);
    }

    fn on_idle(&mut self, idle: Duration, rto: Duration) {
        self.window.restart(idle, rto);
        // Silence is not a low rate.
        self.sampled = None;
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

    /// Acknowledges one segment every `gap_ms`, in clusters of `cluster` 1 ms apart.
    fn feed(westwood: &mut Westwood, acks: u64, gap_ms: u64, cluster: u64) {
        for n in 0..acks {
            let at = n / cluster * cluster * gap_ms + n % cluster;
            westwood.on_ack(&Acked {
                now: Time::ZERO + Duration::from_millis(at),
                ..ack(1.0)
            });
        }
    }

    #[test]
    fn a_loss_leaves_what_the_path_holds() {
        for mut westwood in [
            Westwood::new(Settings::default()),
            Westwood::plus(Settings::default()),
        ] {
            // 100 segments per second and a shortest RTT of 100 ms: the path holds 10.
            feed(&mut westwood, 1000, 10, 1);
            let estimate = westwood.estimate().unwrap();
            assert!((estimate - 100.0).abs() < 1.0, "{estimate}");
            westwood.on_congestion(Time::ZERO, 50.0, Congestion::Loss);
            assert!((westwood.window() - 10.0).abs() < 0.5);
            westwood.on_timeout(Time::ZERO, 50.0);
            assert_eq!(westwood.window(), 1.0);
            assert!((9.0..=10.0).contains(&westwood.threshold()));
        }
    }

    #[test]
    fn clusters_of_acknowledgements_mislead_westwood_but_not_plus() {
        let mut westwood = Westwood::new(Settings::default());
        let mut plus = Westwood::plus(Settings::default());
        feed(&mut westwood, 1000, 10, 5);
        feed(&mut plus, 1000, 10, 5);
        assert!(westwood.estimate().unwrap() > 150.0);
        assert!((plus.estimate().unwrap() - 100.0).abs() < 12.0);
    }

    #[test]
    fn what_arrives_while_losses_are_repaired_counts_once() {
        for mut westwood in [
            Westwood::new(Settings::default()),
            Westwood::plus(Settings::default()),
        ] {
            feed(&mut westwood, 1000, 10, 1);
            // Ten more segments follow in 100 ms, of which the first two were lost: seven duplicates, a partial
            // acknowledgement of one, another of eight, and a last one.
            let last = Time::ZERO + Duration::from_millis(9_990);
            for _ in 0..7 {
                westwood.on_arrived(last, 0.0);
            }
            westwood.on_arrived(last, 1.0);
            westwood.on_arrived(last, 8.0);
            westwood.on_ack(&Acked {
                now: last + Duration::from_millis(100),
                ..ack(1.0)
            });
            let estimate = westwood.estimate().unwrap();
            assert!((estimate - 100.0).abs() < 2.0, "{estimate}");
        }
    }

    #[test]
    fn a_loss_never_raises_the_window() {
        let mut westwood = Westwood::new(Settings {
            initial_window: 4.0,
            initial_threshold: 2.0,
            max_window: 5.0,
            ..Settings::default()
        });
        feed(&mut westwood, 1000, 10, 1);
        let before = westwood.window();
        westwood.on_congestion(Time::ZERO, before, Congestion::Loss);
        assert_eq!(westwood.window(), before);
    }
}
