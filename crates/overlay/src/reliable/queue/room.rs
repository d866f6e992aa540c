//! Room: how much of each of this node's own flows may wait in a lane, and who waits for it. Sources that
//! wait are the queue's better half: what they have is still with them, and a flow with little finds
//! room whatever the others have.
//!
//! ```text
//!   flow a  [ ][ ][ ]   its share: waits until half of it has left ──┐
//!   flow b  [ ]         has room                                     ├──▶ ready
//!   flow c              has room, unless the whole queue is full ────┘
//! ```

use super::{QUEUE_PACKETS, Queue};
use crate::flow::FlowKey;

/// Room that is left to flows without a packet in the queue.
const KEPT_FOR_NEW: usize = 256;

impl Queue {
    /// How many more packets a flow of this node's own may put in, if all that have some may have
    /// `all` together and each flow `least`. A flow without packets always has room, unless there
    /// is hardly any left.
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

    /// The same for one who waits if there is none: [`Queue::pop_ready`] will tell.
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

    /// One who waited for room, and has some.
    pub(in crate::reliable) fn pop_ready(&mut self) -> Option<u32> {
        self.ready.pop()
    }

    /// A flow has become shorter: who waited for that has room, and who waited for the whole queue
    /// perhaps.
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
