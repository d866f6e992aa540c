//! How losses are found and repaired.
//!
//! | | detects a loss by | retransmits | during recovery |
//! |---|---|---|---|
//! | Tahoe | 3 duplicates | the lost segment and all later ones | – |
//! | Reno | 3 duplicates | the lost segment | each duplicate inflates the window; the first new acknowledgement ends recovery |
//! | NewReno | 3 duplicates | the lost segment, and the next one on each partial acknowledgement | the same until the window of the loss is acknowledged [RFC 6582] |
//! | SACK | 3 duplicates with new information | what the receiver's blocks show to be missing | *pipe* estimates what is in flight [RFC 6675] |
//! | FACK | a gap of 3 below the highest that arrived | the same | in flight is what lies beyond the highest that arrived |
//! | Vegas | its own fine timeout, checked on the first duplicates, or 3 of them | the lost segment | as Reno |
//!
//! | RACK | the order of transmissions, however often they were sent | what was overtaken | in flight is known [RFC 8985] |
//!
//! Westwood, Westwood+ and TCP-Real recover as NewReno, CUBIC as SACK, and BBR by RACK. Every family can be set to use
//! RACK ([`Settings::linux`](super::Settings::linux)).

mod fack;
mod inflating;
mod rack;
mod sack;
mod vegas;

use super::packet::Ack;
use super::sender::Sender;
use super::settings::Settings;
use base::Time;
use congestion::Family;
use fack::Fack;
use inflating::NewReno;
use rack::Rack;
use sack::Sack;
use vegas::Vegas;

/// The method of recovery, and its state.
#[derive(Debug)]
pub(crate) enum Recovery {
    Tahoe,
    Reno,
    NewReno(NewReno),
    Sack(Sack),
    Fack(Fack),
    Vegas(Vegas),
    Rack(Rack),
}

impl Recovery {
    pub(crate) fn of(settings: &Settings) -> Recovery {
        match settings.family {
            _ if settings.rack => Recovery::Rack(Rack::default()),
            Family::Bbr => Recovery::Rack(Rack::default()),
            Family::Tahoe => Recovery::Tahoe,
            Family::Reno => Recovery::Reno,
            Family::NewReno | Family::Westwood | Family::WestwoodPlus | Family::Real => {
                Recovery::NewReno(NewReno::default())
            }
            Family::Sack | Family::Cubic => Recovery::Sack(Sack::default()),
            Family::Fack => Recovery::Fack(Fack::default()),
            Family::Vegas => Recovery::Vegas(Vegas::default()),
        }
    }
}

impl Sender {
    /// Handles an acknowledgement by the method of recovery.
    pub(super) fn recover_by(&mut self, now: Time, ack: &Ack) {
        match self.recovery {
            Recovery::Tahoe => self.tahoe(now, ack),
            Recovery::Reno => self.reno(now, ack),
            Recovery::NewReno(_) => self.new_reno(now, ack),
            Recovery::Sack(_) => self.sack(now, ack),
            Recovery::Fack(_) => self.fack(now, ack),
            Recovery::Vegas(_) => self.vegas(now, ack),
            Recovery::Rack(_) => self.rack(now, ack),
        }
    }

    /// Sends what the window allows; at most `burst` segments.
    pub(super) fn send_more(&mut self, now: Time, burst: i64) {
        match self.recovery {
            Recovery::Sack(_) => self.send_sack(now),
            Recovery::Fack(_) => self.send_fack(now),
            Recovery::Rack(_) => self.send_rack(now),
            _ => self.send_in_order(now, burst),
        }
        if self.timer.is_none() && self.next < self.end {
            // The receiver accepts nothing: set the timer to probe it, in case its update is lost.
            self.set_timer(now);
        }
    }

    /// Ends every recovery before a timeout is handled.
    pub(super) fn before_timeout(&mut self, now: Time) {
        self.dupacks = 0;
        self.inflation = 0;
        // FACK continues until the data that was in flight before has arrived.
        if !matches!(self.recovery, Recovery::Fack(_)) {
            self.recover = self.sent;
        }
        self.last_ack = self.last_ack.max(self.acked);
        if matches!(self.recovery, Recovery::Rack(_)) {
            self.rack_expire();
        }
        match &mut self.recovery {
            Recovery::Sack(sack) => sack.on_timeout(),
            Recovery::Fack(fack) => fack.on_timeout(self.acked),
            Recovery::Vegas(vegas) => vegas.on_timeout(now),
            Recovery::Tahoe | Recovery::Reno | Recovery::NewReno(_) | Recovery::Rack(_) => {}
        }
    }

    /// Returns whether three duplicates may count. Within the last recovery they do not: they are echoes of its
    /// retransmissions [RFC 6582 §3.2, step 1, the careful variant].
    fn is_beyond_recovery(&self) -> bool {
        self.acked > self.recover || self.acked == 0
    }
}
