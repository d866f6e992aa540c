//! One flow that is put in order: its packets, the next number, and when to look at it again.

use super::lead::Lead;
use super::{
    FIRST_FEW, FLOW_BYTES_MAX, HeldTotals, Hold, Losses, MARGIN, MAX_HELD, Order, PACE_STEP,
    RESTART_JUMP, START_SPACING,
};
use base::{Duration, Time};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub(super) struct Flow<T> {
    /// The difference that is added to the sender's numbers, so that they continue to rise after the sender restarts.
    shift: u32,
    /// The next number to deliver, shifted and widened.
    pub(super) next: u64,
    held: BTreeMap<u64, Held<T>>,
    /// The latest release of each held packet, with its number.
    releases: BTreeSet<(Time, u64)>,
    pub(super) order: Order,
    /// The member is new: it waits for the first numbers until then. `None` after the first packet.
    first_until: Option<Time>,
    pub(super) lead: Lead,
    pub(super) losses: Losses,
    /// Its place in the agenda.
    pub(super) wake: Time,
    /// The bytes of all held packets.
    bytes: usize,
    /// Gaps that were given up for lack of room.
    pub(super) given_up: u64,
    /// When a packet last arrived.
    pub(super) last: Time,
}

#[derive(Debug)]
pub(super) struct Held<T> {
    /// The latest time at which the packet is handed over.
    pub(super) at: Time,
    /// The packet keeps its sender's pace until then.
    pub(super) is_paced: bool,
    pub(super) item: T,
}

impl<T: Hold> Flow<T> {
    /// A flow whose first received packet has the number `seq`. A new member waits for those before it until
    /// `first_until`.
    pub(super) fn new(now: Time, (seq, order): (u32, Order), first_until: Option<Time>) -> Flow<T> {
        Flow {
            shift: 0,
            // The widened numbers start high enough that a late first packet can be below them.
            next: (1 << 32) + u64::from(seq - after_start(seq)),
            held: BTreeMap::new(),
            releases: BTreeSet::new(),
            order,
            first_until,
            lead: Lead::default(),
            losses: Losses::default(),
            wake: Time::FAR,
            bytes: 0,
            given_up: 0,
            last: now,
        }
    }

    /// Returns the place of a packet in the flow. Packets of a restarted sender are placed behind all held packets from
    /// before the restart.
    pub(super) fn number(&mut self, seq: u32) -> u64 {
        let wide = |shift| base::seq::widen(u64::from(seq.wrapping_add(shift)), 32, self.next);
        if wide(self.shift).abs_diff(self.next) > RESTART_JUMP {
            let last = self.held.last_key_value();
            let behind_all = last.map_or(self.next, |(number, _)| number + 1);
            let after = after_start(seq);
            self.shift = (behind_all as u32).wrapping_sub(seq - after);
            return behind_all + u64::from(after);
        }
        wide(self.shift)
    }

    pub(super) fn totals(&self) -> HeldTotals {
        HeldTotals {
            packets: self.held.len(),
            bytes: self.bytes,
            given_up: self.given_up,
        }
    }

    /// Returns true if a packet that has this much time left until `at` waits for its sender's pace.
    pub(super) fn is_early(&self, now: Time, at: Time) -> bool {
        at - self.lead_of(now) > now
    }

    /// Holds a packet. It replaces one with the same number.
    pub(super) fn hold(&mut self, number: u64, held: Held<T>, totals: &mut HeldTotals) {
        let (at, bytes) = (held.at, held.item.bytes());
        if let Some(before) = self.held.insert(number, held) {
            self.on_removed((number, &before), totals);
        }
        self.releases.insert((at, number));
        self.bytes += bytes;
        totals.bytes += bytes;
        totals.packets += 1;
    }

    fn on_removed(&mut self, (number, held): (u64, &Held<T>), totals: &mut HeldTotals) {
        self.releases.remove(&(held.at, number));
        let bytes = held.item.bytes();
        self.bytes -= bytes;
        totals.bytes -= bytes;
        totals.packets -= 1;
    }

    /// Gives up the first gap for lack of room: the packet behind it is handed over next.
    pub(super) fn give_up_gap(&mut self, totals: &mut HeldTotals) {
        let Some(mut first) = self.held.first_entry() else {
            return;
        };
        first.get_mut().is_paced = false;
        let first = *first.key();
        if first != self.next {
            self.losses.missed += first - self.next;
            self.next = first;
            self.count_given_up(totals);
        }
    }

    pub(super) fn count_given_up(&mut self, totals: &mut HeldTotals) {
        self.given_up += 1;
        totals.given_up += 1;
    }

    /// Returns true if the flow holds as much as it may.
    pub(super) fn is_full(&self) -> bool {
        self.held.len() > MAX_HELD || self.bytes > FLOW_BYTES_MAX
    }

    pub(super) fn pop(&mut self, now: Time, totals: &mut HeldTotals) -> Option<T> {
        let (&first, held) = self.held.first_key_value()?;
        let (at, is_paced) = (held.at, held.is_paced);
        let is_full = self.is_full();
        let is_early = is_paced && self.is_early(now, at);
        if !is_full && is_early && first == self.next {
            return None;
        }
        if first != self.next {
            // At a given time, no packet waits any longer, as the receiver wants it.
            let is_timed = is_paced && matches!(self.order, Order::AsSent(Some(_))) && !is_early;
            let are_given_up = self.first_until.is_some_and(|until| until <= now);
            if !is_timed && !are_given_up && self.earliest() > now {
                if !is_full {
                    return None;
                }
                self.count_given_up(totals);
            }
            // What was sent before the member had joined is no loss.
            if self.first_until.is_none() {
                self.losses.missed += first - self.next;
            }
            self.lead.on_gap(now);
        }
        self.first_until = None;
        // Everything before a packet whose time has come is handed over first, so order is kept.
        self.next = first + 1;
        let held = self.held.remove(&first)?;
        self.on_removed((first, &held), totals);
        if is_paced {
            self.lead.on_release(now, at.since(now));
        }
        Some(held.item)
    }

    /// Returns the earliest of the held packets' latest releases.
    fn earliest(&self) -> Time {
        self.releases.first().map_or(Time::FAR, |(at, _)| *at)
    }

    /// Returns the time left, less the margin, with which packets are handed over at present.
    fn lead_of(&self, now: Time) -> Duration {
        match self.order {
            Order::AtOnce => Duration::from_secs(u64::from(u32::MAX)),
            Order::AsSent(Some(left)) => left - MARGIN,
            // A packet that would wait for less than the interval of checks does not wait: the header's time has a
            // precision of 100 µs.
            Order::AsSent(None) => self.lead.at(now) + PACE_STEP,
        }
    }

    /// Returns when there may be a packet to hand over, after a check now.
    pub(super) fn wake_at(&self, now: Time) -> Time {
        let Some((&first, held)) = self.held.first_key_value() else {
            return Time::FAR;
        };
        let is_next = first == self.next;
        let is_timed = matches!(self.order, Order::AsSent(Some(_)));
        let mut at = Time::FAR;
        if held.is_paced && (is_next || is_timed) {
            at = held.at - self.lead_of(now);
            if self.order == Order::AsSent(None) && self.lead.hurries() {
                // As the packet waits, the time left with which it leaves grows.
                at = now + at.since(now).div(2);
            }
        }
        if !is_next {
            // The gap before it is given up when the time of any packet behind the gap has come. If there is no gap,
            // the first packet alone decides.
            let until = self.first_until.unwrap_or(Time::FAR);
            at = at.min(self.earliest()).min(until);
        }
        at.max(now + Duration::from_micros(1))
    }
}

/// Returns how far a number is above the beginning of its flow, if it is one of the first few.
const fn after_start(seq: u32) -> u32 {
    match seq % START_SPACING {
        after if after < FIRST_FEW => after,
        _ => 0,
    }
}
