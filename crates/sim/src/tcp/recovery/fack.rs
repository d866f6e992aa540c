//! FACK: the segments beyond the highest one that has arrived are in flight, and so are retransmissions, but nothing
//! else (Mathis and Mahdavi 1996), as ns-2's Fack does it.
//!
//! Three details of ns-2 determine its delays. It leaves slow start for recovery with one segment and a halved
//! threshold and grows on every acknowledgement of the recovery, so that it is back at half the window after a round
//! trip. It restarts the timer and measures a round trip on every duplicate. And when a retransmission is lost again,
//! it waits for the timer.

use super::super::packet::Ack;
use super::super::scoreboard::Scoreboard;
use super::super::sender::{Action, DUPACKS, Sender};
use super::Recovery;
use base::Time;

/// The state of FACK.
#[derive(Debug)]
pub(crate) struct Fack {
    board: Scoreboard,
    recovers: bool,
    /// The highest segment that has arrived.
    highest: i64,
    /// Number of retransmissions that have not yet arrived.
    resent: i64,
    /// A retransmission was lost again: nothing is sent until the timer expires.
    waits: bool,
}

impl Default for Fack {
    fn default() -> Fack {
        Fack {
            board: Scoreboard::default(),
            recovers: false,
            highest: -1,
            resent: 0,
            waits: false,
        }
    }
}

impl Fack {
    pub(super) fn on_timeout(&mut self, acked: i64) {
        self.highest = acked;
        self.forget();
    }

    fn forget(&mut self) {
        self.board.clear();
        self.resent = 0;
        self.waits = false;
    }
}

impl Sender {
    fn fack_state(&mut self) -> &mut Fack {
        match &mut self.recovery {
            Recovery::Fack(fack) => fack,
            _ => unreachable!("called for FACK only"),
        }
    }

    pub(super) fn fack(&mut self, now: Time, ack: &Ack) {
        if self.fack_state().recovers {
            self.fack_in_recovery(now, ack);
            return self.send_more(now, i64::MAX);
        }
        if ack.acked > self.last_ack && ack.blocks_len == 0 {
            let acked = self.on_new(now, ack);
            self.control.on_ack(&acked);
            let highest = self.last_ack;
            let state = self.fack_state();
            state.highest = highest;
            state.forget();
        } else if ack.acked >= self.last_ack {
            self.fack_duplicate(now, ack);
        }
        if self.dupacks == 0 {
            self.send_more(now, i64::MAX);
        }
    }

    fn fack_duplicate(&mut self, now: Time, ack: &Ack) {
        let acked = self.acked;
        let state = self.fack_state();
        state.resent -= state.board.update(acked, ack.blocks()).resent_arrived;
        self.fack_note(now, ack);
        self.dupacks = self.fack_state().highest - self.last_ack - 1;
        if self.dupacks < DUPACKS {
            return;
        }
        self.recover = self.next;
        self.counts.recoveries += 1;
        self.action = Action::Duplicates;
        let window = self.effective_window();
        // The window falls to one segment and grows again by the recovery's own acknowledgements.
        self.control.on_timeout(now, window);
        self.set_timer(now);
        self.timed = None;
        let (missing, next) = (self.last_ack + 1, self.next);
        let state = self.fack_state();
        state.recovers = true;
        state.resent += 1;
        state.board.resent(missing, next);
        self.output(now, missing);
    }

    fn fack_in_recovery(&mut self, now: Time, ack: &Ack) {
        let in_flight = (self.next - 1 - self.last_ack) as f64;
        let segments = (ack.acked - self.last_ack).max(1) as f64;
        let rtt = self.rtt_of(now, ack.acked);
        self.fack_note(now, ack);
        let acked = self.acked;
        let state = self.fack_state();
        state.resent -= state.board.update(acked, ack.blocks()).resent_arrived;
        state.waits |= state.board.lost_again(ack.blocks());
        let told = self.acknowledged(now, ack, segments, in_flight, rtt);
        self.control.on_ack(&told);
        if ack.blocks_len == 0 && self.last_ack >= self.recover {
            let state = self.fack_state();
            state.recovers = false;
            state.forget();
            self.dupacks = 0;
            self.control.on_recovered(now);
        }
    }

    /// Does what every acknowledgement does, except a plain new one.
    fn fack_note(&mut self, now: Time, ack: &Ack) {
        self.advance(ack.acked);
        self.last_ack = ack.acked.max(self.last_ack);
        if self.timed.is_some_and(|(seq, _)| ack.acked >= seq) {
            self.timed = None;
            self.rto.relax();
        }
        self.set_timer(now);
        self.rto.sample(now, now.since(ack.echo));
        let highest = ack.blocks().iter().map(|(_, to)| to - 1).max();
        let highest = highest.unwrap_or(-1).max(ack.acked);
        let state = self.fack_state();
        state.highest = state.highest.max(highest);
        self.next = self.next.max(highest + 1);
    }

    pub(super) fn send_fack(&mut self, now: Time) {
        loop {
            let window = self.window();
            let (acked, next, window_max) = (self.acked, self.next, self.window_max());
            let state = self.fack_state();
            if state.waits || next > state.highest + window - state.resent {
                return;
            }
            if let Some(missing) = state.board.next_missing(acked + 1) {
                state.board.resent(missing, next);
                state.resent += 1;
                self.output(now, missing);
                continue;
            }
            if next >= self.end || (self.fack_state().recovers && next > acked + window_max) {
                return;
            }
            self.output(now, next);
            self.next += 1;
        }
    }
}
