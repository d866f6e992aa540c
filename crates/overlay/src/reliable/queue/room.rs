//! Room: how much of each of this node's own flows may wait in a lane, and which clients wait for room. It is better
//! that sources wait than that their packets do: a flow with few packets then finds room whatever the others have.
//!
//! ```text
//!   flow a  [ ][ ][ ]   its share: waits until half of it has left ──┐
//!   flow b  [ ]         has room                                     ├──▶ ready
//!   flow c              has room, unless the whole queue is full ────┘
//! ```

use super::Queue;
use crate::flow::FlowKey;
use crate::reliable::QUEUE_PACKETS;

/// Packets of the queue that are reserved for flows without a packet in it.
const KEPT_FOR_NEW: usize = 256;

impl Queue {
    /// Returns how many more packets a flow of this node may put in, if all flows with packets may have `all` together
    /// and each flow `least`. A flow without packets always has room, unless the queue is nearly full.
    pub(in crate::reliable) fn room(&self, key: &FlowKey, all: usize, least: usize) -> usize {
        let share = self.share(key, all, least);
        share.saturating_sub(self.waiting(key))
    }

    fn share(&self, key: &FlowKey, all: usize, least: usize) -> usize {
        let place = self.places.get(key);
        let flow = place.map(|&place| &self.flows[place as usize]);
        let is_busy = flow.is_some_and(|flow| !flow.packets.is_empty() && !flow.is_aside);
        let share = all / (self.busy + usize::from(!is_busy));
        let aside = flow.and_then(|flow| self.share_aside(flow));
        match self.packets {
            n if n >= QUEUE_PACKETS - KEPT_FOR_NEW => 0,
            n if n >= QUEUE_PACKETS / 2 => 1,
            _ => aside.map_or(share, |aside| aside.min(share)).max(least),
        }
    }

    fn waiting(&self, key: &FlowKey) -> usize {
        let place = self.places.get(key);
        place.map_or(0, |&place| self.flows[place as usize].packets.len())
    }

    /// Returns the same as [`Queue::room`]. If there is no room, `who` waits for it, and [`Queue::pop_ready`] returns
    /// it later.
    pub(in crate::reliable) fn ask_room(
        &mut self,
        key: &FlowKey,
        all: usize,
        least: usize,
        who: u32,
    ) -> usize {
        let share = self.share(key, all, least);
        let waiting = self.waiting(key);
        if waiting < share {
            return share - waiting;
        }
        let waiters = match self.places.get(key).filter(|_| waiting > 0) {
            Some(&place) => {
                let flow = &mut self.flows[place as usize];
                flow.wake_at = share / 2;
                &mut flow.waiters
            }
            None => &mut self.crowd,
        };
        if !waiters.contains(&who) {
            waiters.push(who);
        }
        0
    }

    /// Returns one of those that waited for room and now have some.
    pub(in crate::reliable) fn pop_ready(&mut self) -> Option<u32> {
        self.ready.pop()
    }

    /// Takes in that a flow has become shorter. If it is short enough, those that waited for it have room. If the whole
    /// queue is short enough, those that waited for the queue have room as well.
    pub(super) fn wake(&mut self, place: u32) {
        let flow = &mut self.flows[place as usize];
        if flow.packets.len() <= flow.wake_at {
            self.ready.append(&mut flow.waiters);
        }
        if self.packets < QUEUE_PACKETS - 2 * KEPT_FOR_NEW {
            self.ready.append(&mut self.crowd);
        }
    }
}
