//! The limits of the queue, and which packet makes room for another one.
//!
//! ```text
//!   packets of link 1  ████████████     at most three times as many as there are free places
//!   packets of link 2  ███
//!   packets of clients ██
//!   free places        ████
//! ```
//! The limit of a link follows the free places (Choudhury and Hahne, "Dynamic queue length thresholds", 1998). So a
//! neighbour that ignores back-pressure fills three quarters of the queue, two such neighbours fill three sevenths
//! each, and others find room. It does not matter in how many flows its packets are.

use super::{Flow, Full, Packet, QUANTUM, Queue, Toward};
use crate::reliable::{QUEUE_BYTES, QUEUE_PACKETS};

/// The packets of one link may take this many times as many places as are free. Choice: one neighbour alone has enough
/// to keep the lane busy, and three that ignore back-pressure leave the clients of this node more than the places that
/// are kept for them.
const TIMES_FREE: usize = 3;

impl Queue {
    /// Finds a place for a packet of `bytes` of the flow at `place`, which came on the link `came`. If another packet
    /// has to leave for it, removes and returns that one.
    pub(super) fn admit(
        &mut self,
        place: u32,
        bytes: usize,
        came: Option<u16>,
    ) -> Result<Option<Packet>, Full> {
        let over = (self.bytes + bytes).saturating_sub(QUEUE_BYTES);
        if came.is_some_and(|came| self.is_beyond_share(came)) {
            return self.make_room(place, over, came).map(Some);
        }
        if self.packets < QUEUE_PACKETS && over == 0 {
            return Ok(None);
        }
        self.make_room(place, over, None).map(Some)
    }

    /// Whether the packets of a link take as many places as they may.
    fn is_beyond_share(&self, came: u16) -> bool {
        let own = self.came.get(usize::from(came)).map_or(0, |&n| n as usize);
        own >= TIMES_FREE * QUEUE_PACKETS.saturating_sub(self.packets)
    }

    /// Removes the last packet of the longest flow, of those of the link `of` if there is one, and returns it, unless
    /// that flow is the one at `place` or has at most a turn's bytes more than that one. The packet must have at least
    /// `least` bytes, because short packets make no room for long ones.
    fn make_room(&mut self, place: u32, least: usize, of: Option<u16>) -> Result<Packet, Full> {
        let own = &self.flows[place as usize];
        let is_listed = own.is_new || own.is_old || own.is_aside;
        let own_bytes = own.bytes;
        let longest = (0..self.flows.len())
            .filter(|&at| of.is_none() || self.flows[at].came == of)
            .max_by_key(|&at| (self.flows[at].packets.len(), self.flows[at].bytes));
        let last = |flow: &Flow| flow.packets.back().map_or(0, |packet| packet.bytes.len());
        let longest = longest
            .filter(|&other| other != place as usize)
            .filter(|&other| self.flows[other].bytes > own_bytes + QUANTUM)
            .filter(|&other| last(&self.flows[other]) >= least);
        let packet = longest.and_then(|other| self.flows[other].packets.pop_back());
        let Some((longest, packet)) = longest.zip(packet) else {
            if !is_listed {
                self.retire(place);
            }
            return Err(Full);
        };
        self.count_out(longest as u32, &packet);
        if self.flows[longest].is_aside && self.flows[longest].packets.is_empty() {
            self.leave_aside(longest as u32, Toward::of(&packet.bytes));
        }
        Ok(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Takes;
    use super::*;
    use crate::flow::FlowKey;
    use crate::reliable::tests::world::{at, packet};
    use wire::data::Header;

    #[test]
    fn neighbours_that_ignore_back_pressure_leave_room_for_others_in_however_many_flows_they_send()
    {
        for flows in [1, u32::MAX] {
            let mut queue = Queue::default();
            let flow = |n: u32| 10 + (n % flows) as u16;
            for n in 0..3 * QUEUE_PACKETS as u32 {
                let _ = queue.push(at(0), &packet(flow(n), n, 100), Some((n % 3) as u16));
            }
            assert!(queue.len() < QUEUE_PACKETS - 256, "{} wait", queue.len());
            let bystander = queue.push(at(0), &packet(1, 0, 100), Some(3));
            assert!(matches!(bystander, Ok(None)));
            let own = packet(2, 0, 100);
            let key = FlowKey::of(&Header::trusted(&own));
            assert!(queue.room(&key, 100, 1) > 0, "a client has room");
            while queue.pop(Takes::ALL).is_some() {}
            assert_eq!((queue.len(), queue.bytes(), queue.flows()), (0, 0, 0));
        }
    }

    #[test]
    fn what_replaces_packets_of_its_own_link_keeps_the_limit_of_bytes() {
        let mut queue = Queue::default();
        let came = Some(0);
        for n in 0..QUEUE_PACKETS as u32 {
            let _ = queue.push(at(0), &packet(1, n, 1_400), came);
        }
        for flow in 2..500 {
            let _ = queue.push(at(0), &packet(flow, 0, 9_000), came);
        }
        assert!(queue.bytes() <= QUEUE_BYTES, "{}", queue.bytes());
    }

    #[test]
    fn a_flow_that_made_room_while_it_stood_aside_leaves_nothing_behind() {
        let mut queue = Queue::default();
        let long = packet(1, 0, 9_000);
        queue.push(at(0), &long, None).unwrap();
        queue.hold(at(0), Toward::of(&long), 0, || 0);
        assert!(queue.pop(Takes::ALL).is_none());
        for n in 0..QUEUE_PACKETS as u32 {
            let _ = queue.push(at(0), &packet(n as u16 + 2, n, 100), None);
        }
        assert_eq!(queue.due(), QUEUE_PACKETS, "the long one has left");
        assert_eq!(queue.places.len(), QUEUE_PACKETS, "and so has its flow");
        queue.let_all_go();
        while queue.pop(Takes::ALL).is_some() {}
        assert_eq!((queue.len(), queue.bytes(), queue.flows()), (0, 0, 0));
    }
}
