//! The choice of the packet that leaves next: turns by bytes, among the packets that a path takes.
//!
//! A path that takes only some of the packets passes over the flows whose next packet it does not take. These flows
//! keep their places and their turns. A turn counts only when a packet leaves.

use super::{BANDS, BELOW_EVERY, Band, Flow, Packet, QUANTUM, Queue};

/// The most flows of one priority that a path passes over while it looks for one whose next packet it takes. Choice:
/// only on a very busy link more key strokes wait at once, and each look costs a memory access.
const PASSED_OVER_MAX: usize = 16;

/// The packets that a path takes.
#[derive(Clone, Copy)]
pub(in super::super) struct Takes<'a> {
    /// The most bytes of a packet.
    pub(in super::super) bytes_most: usize,
    /// The least number of packets behind it in its flow: a single packet takes the best path, however soon it could
    /// leave by another one.
    pub(in super::super) behind: usize,
    /// Whether the packet arrives in time by the path, if that matters.
    pub(in super::super) in_time: Option<&'a dyn Fn(&Packet) -> bool>,
}

impl Takes<'static> {
    /// Takes any packet.
    pub(in super::super) const ALL: Takes<'static> = Takes {
        bytes_most: usize::MAX,
        behind: 0,
        in_time: None,
    };
}

impl Queue {
    /// Removes and returns the packet whose turn it is, among those that a path takes.
    pub(in super::super) fn pop(&mut self, takes: Takes<'_>) -> Option<Packet> {
        let first = self.next_band()?;
        let others = (0..BANDS).rev().filter(|band| *band != first);
        core::iter::once(first)
            .chain(others)
            .find_map(|band| self.pop_in(band, takes))
    }

    fn pop_in(&mut self, at: usize, takes: Takes<'_>) -> Option<Packet> {
        let mut passed = 0;
        // New flows go first.
        for is_new in [true, false] {
            let mut number = 0;
            while self.bands[at].packets > 0 && passed < PASSED_OVER_MAX {
                let band = &mut self.bands[at];
                let list = if is_new { &mut band.new } else { &mut band.old };
                let Some(&place) = list.get(number) else {
                    break;
                };
                let flow = &mut self.flows[place as usize];
                let waits = !flow.packets.is_empty() && !flow.is_aside;
                if waits && !flow.has_for(takes) {
                    (passed, number) = (passed + 1, number + 1);
                    continue;
                }
                if waits && flow.deficit > 0 {
                    if !self.held.is_empty() && self.stands_aside(place, (is_new, number)) {
                        continue;
                    }
                    return self.take(at, place);
                }
                list.remove(number);
                if !waits && !is_new {
                    flow.is_old = false;
                    if !flow.is_aside {
                        self.retire(place);
                    }
                    continue;
                }
                if !is_new {
                    flow.deficit += QUANTUM as i64;
                }
                flow.is_new = false;
                if !is_new || !core::mem::replace(&mut flow.is_old, true) {
                    band.old.push_back(place);
                }
            }
        }
        None
    }

    /// Returns the priority whose turn it is: the highest, and from time to time a lower one.
    fn next_band(&self) -> Option<usize> {
        let highest = self.bands.iter().rposition(|band| band.packets > 0)?;
        let mut lower = (0..highest).map(|i| (self.below + i) % highest);
        let lower = lower.find(|at| self.bands[*at].packets > 0);
        Some(
            lower
                .filter(|_| self.above + 1 >= BELOW_EVERY)
                .unwrap_or(highest),
        )
    }

    /// Counts a packet of this priority that leaves.
    fn count_turn(&mut self, at: usize) {
        let waits = |bands: &[Band]| bands.iter().any(|band| band.packets > 0);
        match waits(&self.bands[at + 1..]) {
            true => (self.above, self.below) = (0, at + 1),
            false => self.above += usize::from(waits(&self.bands[..at])),
        }
    }

    /// Removes and returns the first packet of a flow.
    fn take(&mut self, at: usize, place: u32) -> Option<Packet> {
        self.count_turn(at);
        let packet = self.flows[place as usize].packets.pop_front()?;
        self.flows[place as usize].deficit -= packet.bytes.len() as i64;
        self.count_out(place, &packet);
        if !self.held.is_empty() {
            self.on_leaving(&packet.bytes);
        }
        if self.due() == 0 {
            self.rest();
        }
        Some(packet)
    }
}

impl Flow {
    /// Whether its next packet is one that the path takes.
    fn has_for(&self, takes: Takes<'_>) -> bool {
        let fits = |packet: &Packet| {
            let in_time = takes.in_time.is_none_or(|in_time| in_time(packet));
            packet.bytes.len() <= takes.bytes_most && in_time
        };
        self.packets.len() > takes.behind && self.packets.front().is_some_and(fits)
    }
}
