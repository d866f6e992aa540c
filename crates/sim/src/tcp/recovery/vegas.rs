//! Vegas: a fine timeout, checked on every duplicate, finds a loss before three duplicates do (Brakmo and Peterson
//! 1995), as ns-2's Vegas does it.
//!
//! ns-2 keeps the time and number of transmissions of each segment in a ring with as many places as the largest window.
//! An acknowledgement that spans the end of the ring leaves some places unchanged. The next segment in such a place
//! counts as a retransmission: its round trip is not measured, and its loss costs half of the window and doubles the
//! timeout. On the chain of [Amir03 Table I] this makes an eighth of the mean delay, so this implementation has the
//! ring too.

use super::super::packet::Ack;
use super::super::sender::{Action, DUPACKS, Sender};
use super::Recovery;
use base::{Duration, Time};

/// The state of Vegas.
#[derive(Debug, Default)]
pub(crate) struct Vegas {
    /// The fine smoothed round trip and its variation, in seconds.
    smoothed: Option<(f64, f64)>,
    timeout_s: f64,
    /// When the window was last cut: losses of earlier transmissions do not cut it again.
    cut_at: Time,
    /// Number of acknowledgements that are still checked for further losses.
    worried: i64,
    /// The transmissions by segment number, modulo the length of the ring.
    ring: Vec<Place>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    sent: Option<Time>,
    times: u32,
}

impl Vegas {
    pub(super) fn on_timeout(&mut self, now: Time) {
        self.cut_at = now;
    }

    /// Notes a transmission; `window` is the largest window.
    pub(crate) fn on_output(&mut self, now: Time, seq: i64, window: u32) {
        if self.ring.is_empty() {
            self.ring = vec![Place::default(); window.max(1) as usize];
        }
        let at = self.at(seq);
        self.ring[at].sent = Some(now);
        self.ring[at].times += 1;
    }

    /// Notes that everything up to `acked` has arrived, where `before` was acknowledged before. Returns the round trip
    /// of `acked` if it was sent only once.
    fn on_acked(&mut self, now: Time, before: i64, acked: i64) -> Option<Duration> {
        if self.ring.is_empty() {
            return None;
        }
        let last = self.at(acked);
        let place = self.ring[last];
        let (mut at, mut left) = (self.at(before + 1), acked - before);
        while at <= last && left > 0 {
            self.ring[at] = Place::default();
            at = (at + 1) % self.ring.len();
            left -= 1;
        }
        let sent = place.sent.filter(|_| place.times == 1)?;
        Some(now.since(sent))
    }

    fn place(&self, seq: i64) -> Place {
        let at = seq.rem_euclid(self.ring.len().max(1) as i64) as usize;
        self.ring.get(at).copied().unwrap_or_default()
    }

    fn at(&self, seq: i64) -> usize {
        seq.rem_euclid(self.ring.len() as i64) as usize
    }

    fn sample(&mut self, rtt: Duration) {
        let rtt = rtt.as_secs_f64();
        let (smoothed, variation) = self.smoothed.unwrap_or((rtt, rtt));
        let error = rtt - smoothed;
        let smoothed = smoothed + error / 8.0;
        let variation = variation + (error.abs() - variation) / 4.0;
        self.smoothed = Some((smoothed, variation));
        // The timeout is a sixteenth more than smoothed + 2 · variation, as in the authors' fixed-point code.
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
        // Exactly three duplicates leave the window inflated, as in ns-2.
        if self.dupacks > DUPACKS && self.inflation > 0 {
            self.inflation = 0;
            self.control.on_recovered(now);
        }
        let before = self.last_ack;
        let mut acked = self.on_new(now, ack);
        acked.rtt = self.vegas_state().on_acked(now, before, ack.acked);
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
        let Place { sent, times } = self.vegas_state().place(missing);
        self.recover = self.sent;
        self.action = Action::Duplicates;
        let worried = (self.next - self.last_ack).min(2);
        let window = self.window() as f64;
        let state = self.vegas_state();
        state.worried = worried;
        state.timeout_s *= if times > 1 { 2.0 } else { 9.0 / 8.0 };
        if sent.is_some_and(|sent| state.cut_at < sent) {
            state.cut_at = now;
            self.counts.recoveries += 1;
            // The cut is a quarter, or a half if a retransmission was lost.
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

    /// Returns whether the oldest segment in flight was sent longer ago than the fine timeout. A segment that was never
    /// sent counts as sent long ago, as in ns-2: once after a recovery the next new segment is sent twice.
    fn is_overdue(&mut self, now: Time) -> bool {
        let oldest = self.acked + 1;
        if oldest >= self.end {
            return false;
        }
        let state = self.vegas_state();
        let waited = match state.place(oldest).sent {
            Some(sent) => now.since(sent),
            None => Duration::MAX,
        };
        state.timeout_s > 0.0 && waited.as_secs_f64() >= state.timeout_s
    }
}
