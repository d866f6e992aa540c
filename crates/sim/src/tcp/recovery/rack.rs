//! RACK finds losses by the order of transmissions, as present-day kernels do [RFC 8985]. A transmission is lost when a
//! transmission that left three places later has arrived, or one that left a quarter of a round trip later. So the loss
//! of a retransmission is found like a first loss, and the number in flight is known and not estimated. If the control
//! sets a pace, transmissions are paced.
//!
//! ns-2's TCPs do not use this method: it is for younger controls, and for comparisons with a kernel.

use super::super::packet::Ack;
use super::super::sender::{DUPACKS, Place, Sender};
use super::Recovery;
use base::{Duration, Time};
use congestion::Congestion;
use congestion::delivery::Sampler;

/// The state of RACK.
#[derive(Debug, Default)]
pub(crate) struct Rack {
    sampler: Sampler,
    /// The number of the last transmission.
    order: u64,
    /// The latest transmission that has arrived, and when it was sent.
    newest: (u64, Time),
    in_flight: u32,
    lost: u32,
    /// The window was cut for losses among the transmissions up to this one.
    recovers: Option<u64>,
    /// When the pace allows the next transmission.
    due: Time,
}

impl Sender {
    fn rack_state(&mut self) -> &mut Rack {
        match &mut self.recovery {
            Recovery::Rack(rack) => rack,
            _ => unreachable!("called for RACK only"),
        }
    }

    pub(super) fn rack(&mut self, now: Time, ack: &Ack) {
        let before = self.rack_state().in_flight;
        let mut rtt = None;
        let mut arrived = 0.0;
        let cumulative = (self.acked, ack.acked + 1);
        for (from, to) in core::iter::once(cumulative).chain(ack.blocks().iter().copied()) {
            for seq in from.max(self.acked + 1)..to.min(self.sent + 1) {
                arrived += self.rack_arrived(now, seq, &mut rtt);
            }
        }
        let is_new = ack.acked > self.last_ack;
        let told = is_new.then(|| self.on_new(now, ack));
        if arrived == 0.0 {
            return self.send_more(now, i64::MAX);
        }
        self.rack_detect(now);
        let (window, limited) = (self.window(), i64::from(before) + 1 >= self.window());
        let state = self.rack_state();
        let in_flight = f64::from(state.in_flight);
        let delivered = state.sampler.take(now, rtt, in_flight, limited);
        let (newest, recovers) = (state.newest.0, state.recovers);
        self.control.on_delivered(&delivered);
        if recovers.is_some_and(|until| newest > until) {
            self.rack_state().recovers = None;
            self.control.on_recovered(now);
        }
        let mut acked = match told {
            Some(told) => told,
            None => self.acknowledged(now, ack, 0.0, f64::from(before), rtt),
        };
        acked.segments = arrived;
        acked.limited = self.settings.grows_unused || limited && window > 0;
        match recovers {
            Some(_) => self.control.on_arrived(now, arrived),
            None => self.control.on_ack(&acked),
        }
        self.set_timer(now);
        self.send_more(now, i64::MAX);
    }

    /// Notes the arrival of a segment. Returns 1 if it was not known yet, else 0.
    fn rack_arrived(&mut self, now: Time, seq: i64, rtt: &mut Option<Duration>) -> f64 {
        let Some(slot) = self.slot_mut(seq) else {
            return 0.0;
        };
        let was = core::mem::replace(&mut slot.place, Place::Arrived);
        if matches!(was, Place::Arrived | Place::Waiting) {
            return 0.0;
        }
        let (order, sent, stamp) = (slot.order, slot.sent, slot.stamp);
        let once = slot.times == 1;
        let state = self.rack_state();
        match was {
            Place::InFlight => state.in_flight -= 1,
            _ => state.lost -= 1,
        }
        state.sampler.on_arrived(now, Some(&stamp), 1.0);
        if order > state.newest.0 {
            state.newest = (order, sent);
        }
        if once {
            *rtt = Some(now.since(sent));
        }
        1.0
    }

    /// Marks transmissions as lost that later ones have overtaken.
    fn rack_detect(&mut self, now: Time) {
        let reorder = self.srtt().div(4);
        let window = self.control.window();
        let next = self.rack_state().order;
        let (newest, newest_at) = self.rack_state().newest;
        let mut cut = false;
        for seq in self.acked + 1..=self.sent {
            let recovers = self.rack_state().recovers;
            let Some(slot) = self.slot_mut(seq) else {
                break;
            };
            let overtaken =
                slot.order + DUPACKS as u64 <= newest || slot.sent + reorder <= newest_at;
            if slot.place != Place::InFlight || slot.order >= newest || !overtaken {
                continue;
            }
            slot.place = Place::Lost;
            cut |= recovers.is_none_or(|until| slot.order > until);
            let state = self.rack_state();
            state.in_flight -= 1;
            state.lost += 1;
            state.sampler.on_lost(1.0);
        }
        if cut && self.rack_state().recovers.is_none() {
            self.rack_state().recovers = Some(next);
            self.counts.recoveries += 1;
            self.control.on_congestion(now, window, Congestion::Loss);
        }
    }

    /// Marks everything in flight as lost after a timeout.
    pub(super) fn rack_expire(&mut self) {
        for seq in self.acked + 1..=self.sent {
            if let Some(slot) = self.slot_mut(seq)
                && slot.place == Place::InFlight
            {
                slot.place = Place::Lost;
                self.rack_state().lost += 1;
            }
        }
        let state = self.rack_state();
        state.in_flight = 0;
        state.recovers = None;
        state.sampler.on_timeout();
    }

    pub(super) fn send_rack(&mut self, now: Time) {
        self.paced = None;
        let mut lost_from = self.acked + 1;
        loop {
            let (window, pace) = (self.window(), self.control.pace());
            let state = self.rack_state();
            if i64::from(state.in_flight) >= window {
                return;
            }
            let lost = (state.lost > 0)
                .then(|| self.rack_lost(lost_from))
                .flatten();
            let new = self.sent + 1;
            let is_open = new < self.end && new <= self.acked + self.window_max();
            let Some(seq) = lost.or(is_open.then_some(new)) else {
                let in_flight = f64::from(self.rack_state().in_flight);
                return self.rack_state().sampler.on_nothing_to_send(in_flight);
            };
            let state = self.rack_state();
            if let Some(pace) = pace {
                if state.due > now {
                    self.paced = Some(state.due);
                    return;
                }
                state.due = state.due.max(now) + Duration::from_secs_f64(1.0 / pace);
            }
            self.output(now, seq);
            self.next = self.next.max(seq + 1);
            lost_from = if lost.is_some() { seq + 1 } else { lost_from };
        }
    }

    /// Returns the first segment from `from` on that must be retransmitted.
    fn rack_lost(&self, from: i64) -> Option<i64> {
        (from..=self.sent).find(|seq| self.slot(*seq).is_some_and(|s| s.place == Place::Lost))
    }

    /// Notes a transmission.
    pub(crate) fn rack_sent(&mut self, now: Time, seq: i64) {
        let Some(was) = self.slot(seq).map(|slot| slot.place) else {
            return;
        };
        let state = self.rack_state();
        let stamp = state.sampler.on_sent(now, f64::from(state.in_flight), 1.0);
        state.order += 1;
        let order = state.order;
        match was {
            Place::Waiting => state.in_flight += 1,
            Place::Lost => {
                state.lost -= 1;
                state.in_flight += 1;
            }
            Place::InFlight | Place::Arrived => {}
        }
        if let Some(slot) = self.slot_mut(seq) {
            (slot.stamp, slot.order, slot.place) = (stamp, order, Place::InFlight);
        }
    }
}
