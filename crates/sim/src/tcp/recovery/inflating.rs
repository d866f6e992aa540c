//! Tahoe, Reno and NewReno: they infer losses from the number of duplicates.

use super::super::packet::Ack;
use super::super::sender::{Action, DUPACKS, Sender};
use super::Recovery;
use base::Time;

/// The state of NewReno.
#[derive(Debug, Default)]
pub(crate) struct NewReno {
    /// A partial acknowledgement has arrived: later ones do not restart the timer, so that it cuts a recovery of many
    /// losses short [RFC 6582 §4, the impatient variant].
    partial: bool,
}

/// Most segments that NewReno sends on one acknowledgement during recovery.
const BURST: i64 = 2;

impl Sender {
    pub(super) fn tahoe(&mut self, now: Time, ack: &Ack) {
        if ack.acked > self.last_ack {
            let acked = self.on_new(now, ack);
            self.control.on_ack(&acked);
        } else if ack.acked == self.last_ack {
            self.dupacks += 1;
            if self.dupacks == DUPACKS {
                if self.is_beyond_recovery() {
                    self.recover = self.sent;
                    self.cut(now);
                    self.set_timer(now);
                    self.next = self.acked + 1;
                    self.timed = None;
                }
            } else if self.dupacks < DUPACKS {
                self.send_one(now);
            }
        } else {
            return;
        }
        self.send_more(now, i64::MAX);
    }

    pub(super) fn reno(&mut self, now: Time, ack: &Ack) {
        if ack.acked > self.last_ack {
            self.leave_recovery(now);
            let acked = self.on_new(now, ack);
            self.control.on_ack(&acked);
        } else if ack.acked == self.last_ack {
            let again = self.action == Action::Duplicates;
            self.on_duplicate(now, again);
        } else {
            return;
        }
        if self.dupacks == 0 || self.dupacks >= DUPACKS {
            self.send_more(now, i64::MAX);
        }
    }

    pub(super) fn new_reno(&mut self, now: Time, ack: &Ack) {
        if ack.acked > self.last_ack {
            if ack.acked >= self.recover || self.action != Action::Duplicates {
                if self.inflation > 0 {
                    self.leave_recovery(now);
                }
                self.set_partial(false);
                let acked = self.on_new(now, ack);
                self.control.on_ack(&acked);
            } else {
                self.on_partial(now, ack);
            }
        } else if ack.acked == self.last_ack {
            self.on_duplicate(now, false);
        } else {
            return;
        }
        if self.dupacks == 0 {
            self.send_more(now, i64::MAX);
        } else if self.dupacks >= DUPACKS {
            self.send_more(now, BURST);
        }
    }

    fn on_duplicate(&mut self, now: Time, again: bool) {
        self.dupacks += 1;
        self.control.on_arrived(now, 0.0);
        if self.dupacks == DUPACKS {
            if self.is_beyond_recovery() || again {
                self.recover = self.sent;
                self.cut(now);
                self.set_timer(now);
                self.timed = None;
                self.output(now, self.last_ack + 1);
                self.inflation = DUPACKS;
            }
        } else if self.dupacks > DUPACKS {
            if self.action == Action::Duplicates {
                self.inflation += 1;
            }
        } else {
            self.send_one(now);
        }
    }

    /// Handles a partial acknowledgement: some, but not all, of the window of the loss has arrived, so the next segment
    /// is missing too.
    fn on_partial(&mut self, now: Time, ack: &Ack) {
        if !self.set_partial(true) {
            self.set_timer(now);
        }
        let arrived = ack.acked - self.last_ack;
        self.control.on_arrived(now, arrived as f64);
        if self.inflation > arrived {
            self.inflation -= arrived - 1;
        } else {
            let deflate = (arrived - self.inflation) as f64;
            self.control.on_partial(deflate);
            // The inflation stays above zero, which marks that recovery goes on.
            self.inflation = 1;
        }
        self.advance(ack.acked);
        self.last_ack = ack.acked;
        if self.timed.is_some_and(|(seq, _)| ack.acked >= seq) {
            self.timed = None;
            self.rto.relax();
        }
        self.output(now, self.last_ack + 1);
    }

    /// Sets the mark and returns its previous value.
    fn set_partial(&mut self, partial: bool) -> bool {
        match &mut self.recovery {
            Recovery::NewReno(state) => core::mem::replace(&mut state.partial, partial),
            _ => false,
        }
    }

    fn leave_recovery(&mut self, now: Time) {
        self.inflation = 0;
        if self.action == Action::Duplicates {
            self.action = Action::Exited;
            self.control.on_recovered(now);
        }
    }
}
