//! Additive increase, multiplicative decrease: the window of Tahoe, Reno, NewReno, SACK and FACK
//! [RFC 5681 §3].
//!
//! ```text
//!  window                      /|        slow start   + what was acknowledged
//!    |                  /|   /  |        avoidance    + α per round trip
//!    |           /|   /  | /    |        loss         · β   (Tahoe: to 1)
//!    |  slow   /  | /                    timeout      to 1, threshold · β
//!    |__start_/_________________ time
//! ```
//!
//! These protocols differ in how they find and repair losses, which is the task of the sender. They share this window.
//! α = 1 and β = 1/2 are TCP; other pairs with α = 4(1 - β²)/3 take as much as TCP does and vary less [Papadimitriou06
//! §3.1].
//!
//! State: window and threshold, nothing else.

use base::{Duration, Time};

use crate::window::Window;
use crate::{Acked, Congestion, Control, Settings};

/// The window of Tahoe to FACK.
#[derive(Clone, Debug)]
pub struct Aimd {
    window: Window,
    /// The effect of fast retransmit on the window.
    on_loss: OnLoss,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnLoss {
    Cut,
    /// Tahoe has no fast recovery: it treats a loss that it finds early like a timeout, but without the wait.
    StartOver,
}

impl Aimd {
    /// Creates the window of Reno, NewReno, SACK and FACK.
    pub fn new(settings: Settings) -> Aimd {
        Aimd {
            window: Window::new(settings),
            on_loss: OnLoss::Cut,
        }
    }

    /// Creates the window of Tahoe.
    pub fn tahoe(settings: Settings) -> Aimd {
        Aimd {
            on_loss: OnLoss::StartOver,
            ..Aimd::new(settings)
        }
    }

    fn kept(&self, in_flight: f64) -> f64 {
        in_flight * self.window.settings().beta
    }
}

impl Control for Aimd {
    fn on_ack(&mut self, ack: &Acked) {
        if !ack.limited {
            return;
        }
        let rest = self.window.slow_start(self.window.counted(ack.segments));
        let size = self.window.size();
        self.window
            .set(size + self.window.settings().alpha * rest / size);
    }

    fn on_congestion(&mut self, _now: Time, in_flight: f64, _why: Congestion) {
        let kept = self.kept(in_flight);
        match self.on_loss {
            OnLoss::Cut => self.window.cut(kept),
            OnLoss::StartOver => self.window.collapse(kept),
        }
    }

    fn on_partial(&mut self, deflate: f64) {
        self.window.deflate(deflate);
    }

    fn undo_timeout(&mut self, window: f64, threshold: f64) {
        self.window.restore(window, threshold);
    }

    fn on_timeout(&mut self, _now: Time, in_flight: f64) {
        self.window.collapse(self.kept(in_flight));
    }

    fn on_idle(&mut self, idle: Duration, rto: Duration) {
        self.window.restart(idle, rto);
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

    fn from_one() -> Settings {
        Settings {
            initial_window: 1.0,
            max_window: 20.0,
            ..Settings::default()
        }
    }

    #[test]
    fn slow_start_doubles_and_avoidance_adds_one_each_round() {
        let mut reno = Aimd::new(Settings {
            initial_threshold: 8.0,
            ..from_one()
        });
        let mut rounds = Vec::new();
        for _ in 0..6 {
            for _ in 0..reno.window() as u32 {
                reno.on_ack(&ack(1.0));
            }
            rounds.push(reno.window().round());
        }
        assert_eq!(rounds, [2.0, 4.0, 8.0, 9.0, 10.0, 11.0]);
    }

    #[test]
    fn a_large_acknowledgement_ends_slow_start_at_the_threshold() {
        let mut reno = Aimd::new(Settings {
            initial_threshold: 8.0,
            ..from_one()
        });
        reno.on_ack(&ack(15.0));
        // 7 segments count in slow start, and the other 8 make one round of avoidance.
        assert_eq!(reno.window(), 9.0);
    }

    #[test]
    fn a_loss_halves_and_a_timeout_starts_over() {
        let mut reno = Aimd::new(from_one());
        reno.on_ack(&ack(30.0));
        assert_eq!(reno.window(), 20.0);
        reno.on_congestion(Time::ZERO, 15.0, Congestion::Loss);
        assert_eq!((reno.window(), reno.threshold()), (7.5, 7.0));
        assert!(!reno.in_slow_start());
        reno.on_timeout(Time::ZERO, 7.0);
        assert_eq!((reno.window(), reno.threshold()), (1.0, 3.0));
        reno.on_timeout(Time::ZERO, 1.0);
        assert_eq!((reno.window(), reno.threshold()), (1.0, 2.0));
    }

    #[test]
    fn tahoe_starts_over_on_every_loss() {
        let mut tahoe = Aimd::tahoe(from_one());
        tahoe.on_ack(&ack(30.0));
        tahoe.on_congestion(Time::ZERO, 20.0, Congestion::Loss);
        assert_eq!((tahoe.window(), tahoe.threshold()), (1.0, 10.0));
    }

    #[test]
    fn a_gentler_member_gives_up_less_and_grows_less() {
        let mut gentle = Aimd::new(Settings {
            alpha: 0.31,
            beta: 0.875,
            initial_window: 16.0,
            initial_threshold: 2.0,
            ..Settings::default()
        });
        gentle.on_ack(&ack(16.0));
        assert!((gentle.window() - 16.31).abs() < 1e-9);
        gentle.on_congestion(Time::ZERO, 16.0, Congestion::Loss);
        assert_eq!(gentle.window(), 14.0);
    }

    #[test]
    fn an_unused_window_does_not_grow_and_silence_shrinks_it() {
        let mut reno = Aimd::new(Settings {
            initial_window: 4.0,
            ..Settings::default()
        });
        reno.on_ack(&Acked {
            limited: false,
            ..ack(4.0)
        });
        assert_eq!(reno.window(), 4.0);
        reno.on_ack(&ack(28.0));
        let rto = Duration::from_millis(200);
        reno.on_idle(Duration::from_millis(199), rto);
        assert_eq!(reno.window(), 32.0);
        reno.on_idle(rto, rto);
        assert_eq!(reno.window(), 4.0);
    }
}
