//! Vegas: a fine timeout, looked at whenever a duplicate comes, finds a loss before three
//! duplicates do (Brakmo and Peterson 1995), as ns-2's Vegas does it.

use super::super::packet::Ack;
use super::super::sender::{Action, DUPACKS, Sender};
use super::Recovery;
use base::{Duration, Time};

/// What Vegas remembers.
#[derive(Debug, Default)]
pub(crate) struct Vegas {
    /// The fine smoothed round trip and its variation, in seconds.
    smoothed: Option<(f64, f64)>,
    timeout_s: f64,
    /// When the window was cut last: what was sent before does not cut it again.
    cut_at: Time,
    /// The next so many acknowledgements are looked at for further losses.
    worried: i64,
}

impl Vegas {
    pub(super) fn on_timeout(&mut self, now: Time) {
        self.cut_at = now;
    }

    fn sample(&mut self, rtt: Duration) {
        let rtt = rtt.as_secs_f64();
        let (smoothed, variation) = self.smoothed.unwrap_or((rtt, rtt));
        let error = rtt - smoothed;
        let smoothed = smoothed + error / 8.0;
        let variation = variation + (error.abs() - variation) / 4.0;
        self.smoothed = Some((smoothed, variation));
        // A sixteenth more than smoothed + 2 · variation, as the authors' fixed-point code has it.
        self.timeout_s = (smoothed + 2.0 * variation) * (17.0 / 16.0);
    }
}

impl Sender {
    fn vegas_state(&mut self) -> &mut Vegas {
        match &mut self.recovery {
            Recovery::Vegas(vegas) => vegas,
            _ => unreachable!("called for Vegas only"),
        }
    }

    pub(super) fn vegas(&mut self, now: Time, ack: &Ack) {
        if ack.acked > self.last_ack {
            self.vegas_new(now, ack);
        } else if ack.acked == self.last_ack {
            self.vegas_duplicate(now);
        } else {
            return;
        }
        if self.dupacks == 0 || self.dupacks >= DUPACKS {
            self.send_more(now, i64::MAX);
        }
    }

    fn vegas_new(&mut self, now: Time, ack: &Ack) {
        // Three duplicates and no more leave the window inflated: so it is in ns-2.
        if self.dupacks > DUPACKS && self.inflation > 0 {
            self.inflation = 0;
            self.control.on_recovered(now);
        }
        let acked = self.on_new(now, ack);
        self.control.on_ack(&acked);
        if let Some(rtt) = acked.rtt {
            self.vegas_state().sample(rtt);
        }
        let state = self.vegas_state();
        if state.worried > 0 {
            state.worried -= 1;
            if self.is_overdue(now) {
                self.dupacks = DUPACKS;
                self.output(now, self.acked + 1);
            } else {
                self.vegas_state().worried = 0;
            }
        }
    }

    fn vegas_duplicate(&mut self, now: Time) {
        self.dupacks += 1;
        if !self.is_overdue(now) && self.dupacks != DUPACKS {
            self.inflation += i64::from(self.dupacks > DUPACKS);
            return;
        }
        if self.acked <= self.recover && self.action == Action::Timeout {
            return;
        }
        let missing = self.last_ack + 1;
        let (sent, times) = self.slot(missing).map_or((now, 1), |s| (s.sent, s.times));
        self.recover = self.sent;
        self.action = Action::Duplicates;
        let worried = (self.next - self.last_ack).min(2);
        let window = self.window() as f64;
        let state = self.vegas_state();
        state.worried = worried;
        state.timeout_s *= if times > 1 { 2.0 } else { 9.0 / 8.0 };
        if state.cut_at < sent {
            state.cut_at = now;
            self.counts.recoveries += 1;
            // A quarter; of what was lost again, a half.
            let from = if times > 1 {
                window * 2.0 / 3.0
            } else {
                window
            };
            self.control
                .on_congestion(now, from, congestion::Congestion::Loss);
            self.inflation = self.dupacks;
        }
        self.rto.back_off();
        self.set_timer(now);
        self.timed = None;
        self.output(now, missing);
        if times == 1 {
            self.dupacks = DUPACKS;
        }
    }

    /// The oldest segment in flight was sent longer ago than the fine timeout.
    fn is_overdue(&mut self, now: Time) -> bool {
        let oldest = self.slot(self.acked + 1).filter(|slot| slot.times > 0);
        let waited = oldest.map(|slot| now.since(slot.sent).as_secs_f64());
        let timeout_s = self.vegas_state().timeout_s;
        waited.is_some_and(|waited| timeout_s > 0.0 && waited >= timeout_s)
    }
}
