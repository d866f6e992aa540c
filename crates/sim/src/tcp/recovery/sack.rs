//! SACK: the receiver reports what it has; *pipe* estimates what is in flight [RFC 6675, as ns-2's Sack1 does it].

use super::super::packet::Ack;
use super::super::scoreboard::Scoreboard;
use super::super::sender::{DUPACKS, Sender};
use super::Recovery;
use base::Time;

/// The state of SACK.
#[derive(Debug, Default)]
pub(crate) struct Sack {
    board: Scoreboard,
    recovers: bool,
    pipe: i64,
    /// Nothing below this segment is retransmitted in this recovery.
    resend_from: i64,
    /// A timeout retransmits everything. Until something new is acknowledged, duplicates are echoes of those
    /// retransmissions.
    timed_out: bool,
}

impl Sack {
    pub(super) fn on_timeout(&mut self) {
        self.recovers = false;
        self.timed_out = true;
        self.forget();
    }

    fn forget(&mut self) {
        self.board.clear();
        self.resend_from = -1;
    }

    fn resent(&mut self, seq: i64) {
        self.resend_from = self.resend_from.max(seq + 1);
    }
}

impl Sender {
    fn sack_state(&mut self) -> &mut Sack {
        match &mut self.recovery {
            Recovery::Sack(sack) => sack,
            _ => unreachable!("called for SACK only"),
        }
    }

    pub(super) fn sack(&mut self, now: Time, ack: &Ack) {
        let was_recovering = self.sack_state().recovers;
        if was_recovering {
            self.sack_in_recovery(now, ack);
        } else if ack.acked > self.last_ack {
            let acked = self.on_new(now, ack);
            self.control.on_ack(&acked);
            let state = self.sack_state();
            state.timed_out = false;
            state.forget();
        } else if ack.acked == self.last_ack && !self.sack_state().timed_out {
            self.sack_duplicate(now, ack);
        }
        if ack.acked < self.last_ack {
            return;
        }
        // The duplicate that begins recovery sends the missing segment and nothing else, even if the pipe has room.
        if self.dupacks == 0 || was_recovering {
            self.send_more(now, i64::MAX);
        }
    }

    fn sack_duplicate(&mut self, now: Time, ack: &Ack) {
        let acked = self.acked;
        if !self.sack_state().board.update(acked, ack.blocks()).changed {
            return;
        }
        self.dupacks += 1;
        if self.dupacks == DUPACKS && self.is_beyond_recovery() {
            self.recover = self.sent;
            let pipe = self.sent - self.acked - DUPACKS;
            let missing = self.acked + 1;
            self.set_timer(now);
            self.timed = None;
            let state = self.sack_state();
            (state.pipe, state.recovers) = (pipe, true);
            state.resent(missing);
            self.cut(now);
            self.output(now, missing);
        } else if self.dupacks < DUPACKS {
            self.send_one(now);
        }
    }

    fn sack_in_recovery(&mut self, now: Time, ack: &Ack) {
        self.sack_state().pipe -= 1;
        if ack.acked >= self.recover {
            self.recover = 0;
            self.on_new(now, ack);
            let state = self.sack_state();
            (state.recovers, state.timed_out) = (false, false);
            state.forget();
            self.control.on_recovered(now);
        } else if ack.acked > self.acked {
            self.advance(ack.acked);
            let state = self.sack_state();
            state.board.update(ack.acked, ack.blocks());
            // One more transmission has left the path: the retransmission.
            state.pipe -= 1;
            self.rto.relax();
            self.set_timer(now);
        } else {
            let acked = self.acked;
            let changed = self.sack_state().board.update(acked, ack.blocks()).changed;
            self.dupacks += i64::from(changed && self.dupacks > 0);
        }
    }

    pub(super) fn send_sack(&mut self, now: Time) {
        loop {
            let window = self.window();
            let window_max = self.window_max();
            let whole = self.control.window() as i64;
            let (last_ack, acked, next, recover) =
                (self.last_ack, self.acked, self.next, self.recover);
            let state = self.sack_state();
            let open = if state.recovers {
                state.pipe < whole
            } else {
                next <= last_ack + window
            };
            let missing = state.board.next_missing(state.resend_from);
            let limit = if state.recovers { window_max } else { window };
            if !open || last_ack + 1 >= self.end {
                return;
            }
            let seq = match missing {
                Some(seq) if recover > 0 && seq <= acked + window_max => seq,
                None if next <= acked + limit && next < self.end => next,
                _ => return,
            };
            if missing.is_some() {
                self.sack_state().resent(seq);
            }
            self.sack_state().pipe += 1;
            self.output(now, seq);
            self.next = self.next.max(seq + 1);
        }
    }
}
