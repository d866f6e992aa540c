//! Destinations of which the neighbour takes no more than it says: their flows stand aside, and come
//! back one for each packet that may go. What goes elsewhere does not wait for them.
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

/// What the flows to a destination may have aside together, of this node's own.
const ASIDE_PACKETS: usize = 64;

/// Where packets go and by which routing: those take one branch from any node on.
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
    /// Packets that may be on their way, and that are.
    room: usize,
    in_flight: usize,
    until: Time,
    /// Flows that stand aside: those that were ahead of the others, and the others.
    new: VecDeque<u32>,
    old: VecDeque<u32>,
}

/// What waits for one destination.
#[derive(Clone, Copy, Debug)]
pub(in crate::reliable) struct Backlog {
    pub(in crate::reliable) toward: Toward,
    pub(in crate::reliable) packets: usize,
    pub(in crate::reliable) flows: usize,
    /// The room that the neighbour behind this lane leaves it.
    pub(in crate::reliable) held: Option<usize>,
}

impl Toward {
    /// Where an opened packet goes.
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
    /// So many packets to a destination may be on their way; `in_flight` are.
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

    /// A destination is not held any more.
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

    /// Some destination is held.
    pub(in crate::reliable) fn has_holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// No destination is held any more.
    pub(in crate::reliable) fn let_all_go(&mut self) {
        while let Some(&toward) = self.held.keys().next() {
            self.let_go(toward);
        }
    }

    /// Ends the holds that nobody has repeated.
    pub(in crate::reliable) fn expire_holds(&mut self, now: Time) {
        let is_over = |(toward, held): (&Toward, &Held)| (held.until <= now).then_some(*toward);
        while let Some(toward) = self.held.iter().find_map(is_over) {
            self.let_go(toward);
        }
    }

    /// When one of them ends.
    pub(in crate::reliable) fn next_timeout(&self) -> Option<Time> {
        self.held.values().map(|held| held.until).min()
    }

    /// A packet that was sent has arrived.
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

    /// The packet leaves now.
    pub(super) fn on_leaving(&mut self, packet: &[u8]) {
        if let Some(held) = self.held.get_mut(&Toward::of(packet)) {
            held.in_flight += 1;
        }
    }

    /// The flow, whose turn it is and which is the one of this number in its list, stands aside if its destination is held
    /// and has no room.
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

    /// As many flows as packets may go have turns again, those that were ahead first.
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

    /// A flow that stood aside has turns again.
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

    /// What a flow that stands aside may have here: a part of some bursts, for what waits for long is
    /// sent again by sessions that believe it lost.
    pub(super) fn share_aside(&self, flow: &Flow) -> Option<usize> {
        let held = self.held.get(&flow.toward().filter(|_| flow.is_aside)?)?;
        Some(ASIDE_PACKETS / (held.new.len() + held.old.len()).max(1))
    }

    /// What waits of the link `came`, by destination.
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
    /// Where its next packet goes.
    fn toward(&self) -> Option<Toward> {
        self.packets.front().map(|packet| Toward::of(&packet.bytes))
    }
}
