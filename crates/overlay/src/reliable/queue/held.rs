//! Held destinations: the neighbour limits how many packets to them it takes. Their flows stand aside, and for each
//! packet that may leave one flow comes back. Packets to other destinations do not wait for them.
//!
//! ```text
//!   turns ── may it go? ── no ──▶ aside: new | old ── one has arrived, there is more room, or the ──▶ turns
//!              │ yes                                  hold has ended
//!              ▼ on its way, counted per destination until it is acknowledged
//! ```

use super::{Flow, Queue};
use crate::reliable::{HOLD_LIFE, HOLDS_MAX};
use base::{NodeAddr, Time};
use std::collections::VecDeque;
use wire::control::Hold;
use wire::data::{Header, Routing};

/// The most packets that this node's own flows to one destination may have aside together.
const ASIDE_PACKETS: usize = 64;

/// The destination and the routing of packets: packets that agree in both take the same branch from any node on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Toward {
    /// A node or a group.
    pub destination: NodeAddr,
    /// The packets' routing.
    pub routing: Routing,
}

/// A destination that is held.
#[derive(Debug)]
pub(super) struct Held {
    /// The number of packets that may be on their way, and the number that are.
    room: usize,
    in_flight: usize,
    until: Time,
    /// The flows that stand aside: those that were new, and the old ones.
    new: VecDeque<u32>,
    old: VecDeque<u32>,
}

/// The packets that wait for one destination.
#[derive(Clone, Copy, Debug)]
pub(in crate::reliable) struct Backlog {
    pub(in crate::reliable) toward: Toward,
    pub(in crate::reliable) packets: usize,
    pub(in crate::reliable) flows: usize,
    /// The number of packets that the neighbour behind this lane allows for the destination, if that is held.
    pub(in crate::reliable) held: Option<usize>,
}

impl Toward {
    /// Returns the destination and routing of an opened packet.
    pub fn of(packet: &[u8]) -> Toward {
        let header = Header::trusted(packet);
        Toward {
            destination: header.destination(),
            routing: header.class().routing,
        }
    }
}

impl From<Hold> for Toward {
    fn from(hold: Hold) -> Toward {
        Toward {
            destination: hold.destination,
            routing: hold.routing,
        }
    }
}

impl Queue {
    /// Allows only `room` packets to a destination to be on their way; `in_flight` packets are at present.
    pub(in crate::reliable) fn hold(
        &mut self,
        now: Time,
        toward: Toward,
        room: usize,
        in_flight: impl FnOnce() -> usize,
    ) {
        let until = now + HOLD_LIFE;
        if let Some(held) = self.held.get_mut(&toward) {
            (held.room, held.until) = (room, until);
        } else if self.held.len() < HOLDS_MAX {
            let held = Held {
                room,
                in_flight: in_flight(),
                until,
                new: VecDeque::new(),
                old: VecDeque::new(),
            };
            self.held.insert(toward, held);
        }
        self.bring_back(toward);
    }

    /// Ends the hold of a destination.
    pub(in crate::reliable) fn let_go(&mut self, toward: Toward) {
        let Some(mut held) = self.held.remove(&toward) else {
            return;
        };
        while let Some(place) = held.new.pop_front() {
            self.enlist(place, true);
        }
        while let Some(place) = held.old.pop_front() {
            self.enlist(place, false);
        }
    }

    /// Whether any destination is held.
    pub(in crate::reliable) fn has_holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Ends all holds.
    pub(in crate::reliable) fn let_all_go(&mut self) {
        while let Some(&toward) = self.held.keys().next() {
            self.let_go(toward);
        }
    }

    /// Ends the holds that the neighbour has not repeated in time.
    pub(in crate::reliable) fn expire_holds(&mut self, now: Time) {
        let is_over = |(toward, held): (&Toward, &Held)| (held.until <= now).then_some(*toward);
        while let Some(toward) = self.held.iter().find_map(is_over) {
            self.let_go(toward);
        }
    }

    /// Returns when the next hold ends.
    pub(in crate::reliable) fn next_timeout(&self) -> Option<Time> {
        self.held.values().map(|held| held.until).min()
    }

    /// Takes in that a packet that was sent has arrived.
    pub(in crate::reliable) fn on_arrived(&mut self, packet: &[u8]) {
        if self.held.is_empty() {
            return;
        }
        let toward = Toward::of(packet);
        if let Some(held) = self.held.get_mut(&toward) {
            held.in_flight = held.in_flight.saturating_sub(1);
            self.bring_back(toward);
        }
    }

    /// Takes in that the packet leaves now.
    pub(super) fn on_leaving(&mut self, packet: &[u8]) {
        if let Some(held) = self.held.get_mut(&Toward::of(packet)) {
            held.in_flight += 1;
        }
    }

    /// Puts the flow whose turn it is aside, if its destination is held and has no room; returns whether it did. The
    /// flow has this number in its list.
    pub(super) fn stands_aside(&mut self, place: u32, (is_new, number): (bool, usize)) -> bool {
        let flow = &mut self.flows[place as usize];
        let Some(toward) = flow.toward() else {
            return false;
        };
        let held = self.held.get_mut(&toward);
        let Some(held) = held.filter(|held| held.in_flight >= held.room) else {
            return false;
        };
        let band = &mut self.bands[usize::from(flow.band)];
        match is_new {
            true => {
                band.new.remove(number);
                flow.is_new = false;
                held.new.push_back(place);
            }
            false => {
                band.old.remove(number);
                flow.is_old = false;
                held.old.push_back(place);
            }
        }
        flow.is_aside = true;
        band.packets -= flow.packets.len();
        self.aside += flow.packets.len();
        self.busy -= 1;
        true
    }

    /// Gives flows turns again, one for each packet that may leave, the new flows first.
    fn bring_back(&mut self, toward: Toward) {
        let Some(held) = self.held.get_mut(&toward) else {
            return;
        };
        for _ in held.in_flight..held.room {
            let Some(held) = self.held.get_mut(&toward) else {
                return;
            };
            let next = held.new.pop_front().map(|place| (place, true));
            let next = next.or_else(|| held.old.pop_front().map(|place| (place, false)));
            let Some((place, is_new)) = next else {
                return;
            };
            self.enlist(place, is_new);
        }
    }

    /// Forgets a flow that stood aside and has no packets any more.
    pub(super) fn leave_aside(&mut self, place: u32, toward: Toward) {
        let flow = &mut self.flows[place as usize];
        flow.is_aside = false;
        let is_listed = flow.is_new || flow.is_old;
        if let Some(held) = self.held.get_mut(&toward) {
            held.new.retain(|other| *other != place);
            held.old.retain(|other| *other != place);
        }
        if !is_listed {
            self.retire(place);
        }
    }

    /// Gives a flow that stood aside turns again.
    fn enlist(&mut self, place: u32, is_new: bool) {
        let flow = &mut self.flows[place as usize];
        let band = &mut self.bands[usize::from(flow.band)];
        flow.is_aside = false;
        band.packets += flow.packets.len();
        self.aside -= flow.packets.len();
        self.busy += usize::from(!flow.packets.is_empty());
        if is_new {
            flow.is_new = true;
            band.new.push_back(place);
        } else if !core::mem::replace(&mut flow.is_old, true) {
            band.old.push_back(place);
        }
    }

    /// Returns how many packets a flow that stands aside may have here. It is only a part of some bursts, because
    /// sessions take packets that wait for long for lost and send them again.
    pub(super) fn share_aside(&self, flow: &Flow) -> Option<usize> {
        let held = self.held.get(&flow.toward().filter(|_| flow.is_aside)?)?;
        Some(ASIDE_PACKETS / (held.new.len() + held.old.len()).max(1))
    }

    /// Returns the packets of the link `came` that wait, by destination.
    pub(in crate::reliable) fn backlogs(&self, came: u16) -> Vec<Backlog> {
        let mut backlogs: Vec<Backlog> = Vec::new();
        for flow in self.flows.iter().filter(|flow| flow.came == Some(came)) {
            let Some(toward) = flow.toward() else {
                continue;
            };
            let known = backlogs.iter_mut().find(|known| known.toward == toward);
            if let Some(known) = known {
                known.packets += flow.packets.len();
                known.flows += 1;
            } else if backlogs.len() < HOLDS_MAX {
                backlogs.push(Backlog {
                    toward,
                    packets: flow.packets.len(),
                    flows: 1,
                    held: self.held.get(&toward).map(|held| held.room),
                });
            }
        }
        backlogs
    }
}

impl Flow {
    /// Returns the destination and routing of its next packet.
    fn toward(&self) -> Option<Toward> {
        self.packets.front().map(|packet| Toward::of(&packet.bytes))
    }
}
