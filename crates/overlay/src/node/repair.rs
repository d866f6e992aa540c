//! Coded repair of the real-time lane: sending repair packets, and forwarding the packets that they have restored.

use super::Node;
use super::receive::{drop_one, settle};
use crate::event::{Drop, Event};
use crate::link::LinkIndex;
use crate::realtime::Arrival;
use base::{Outbox, Time};
use wire::control::{MESSAGE_HEADER_BYTES, kind};
use wire::data::{Header, LinkProtocol};
use wire::{CLEAR_BYTES, TAG_BYTES};

/// The longest plaintext of a repair packet's datagram: as much as fits into a small slot together with its seal.
const PLAINTEXT_MAX: usize = base::pool::SMALL_BYTES - CLEAR_BYTES - TAG_BYTES;

impl Node {
    /// Sends the repair packets that are due.
    pub(super) fn flush_repair(
        &mut self,
        now: Time,
        index: LinkIndex,
        out: &mut impl Outbox<Node>,
    ) {
        let link = self.links.at_mut(index);
        if link.pilot.begins() {
            link.weigh_protection(now);
        }
        if !link.history.owes_repair() {
            return;
        }
        // If congestion drops packets, more packets do not help. [Papadimitriou06 §6]
        let is_random = link.takes_redundancy();
        if !is_random || !link.carries() {
            return link.history.forgo_repair();
        }
        let fits = usize::from(link.path.mtu.usable()) - CLEAR_BYTES - TAG_BYTES;
        let mut bytes = [0; PLAINTEXT_MAX];
        let room = &mut bytes[..fits.min(PLAINTEXT_MAX)];
        while let Some(len) = link
            .history
            .poll_repair(now, &mut room[MESSAGE_HEADER_BYTES..])
        {
            let [high, low] = (len as u16).to_be_bytes();
            room[..MESSAGE_HEADER_BYTES].copy_from_slice(&[kind::REPAIR, high, low]);
            let plaintext = &room[..MESSAGE_HEADER_BYTES + len];
            match out.pool().copy_of(CLEAR_BYTES, plaintext) {
                Some(burst) => link.transmit_repair(now, burst, out),
                None => drop_one(Drop::NoBuffer, out),
            }
        }
    }

    /// Forwards the packets that repair packets of a link have restored.
    #[cold]
    pub(super) fn forward_found(
        &mut self,
        now: Time,
        index: LinkIndex,
        out: &mut impl Outbox<Node>,
    ) {
        self.came = index;
        self.links.touch(index);
        loop {
            let link = self.links.at_mut(index);
            let Some((arrival, seq, due, bytes)) = link.receiver.poll_found(now) else {
                return;
            };
            let Arrival::Recovered { after } = arrival else {
                // The packet has arrived meanwhile, by itself or on request.
                continue;
            };
            let Some(mut burst) = out.pool().copy_of(CLEAR_BYTES, bytes) else {
                drop_one(Drop::NoBuffer, out);
                continue;
            };
            let (peer, way_here) = (link.peer, link.path.way_here());
            let Ok(mut header) = Header::parse(burst.bytes_mut()) else {
                drop_one(Drop::Malformed, out);
                continue;
            };
            if header.class().link != LinkProtocol::RealTime {
                drop_one(Drop::Malformed, out);
                continue;
            }
            header.set_lane_seq(seq);
            header.set_recovered();
            let remaining = header.remaining().minus(way_here + now.since(due));
            header.set_remaining(remaining);
            let rest = self.router.rest(peer, header.destination(), None);
            if remaining.is_expired() || !remaining.allows(rest) {
                link.receiver.on_found_late(seq);
            }
            let after_us = u32::try_from(after.as_micros()).unwrap_or(u32::MAX);
            out.report(Event::Recovered { peer, after_us });
            burst.push_front(CLEAR_BYTES);
            let len = burst.len() + TAG_BYTES;
            burst.fill(len, len);
            let packet = &mut burst.bytes_mut()[CLEAR_BYTES..len - TAG_BYTES];
            let verdict = settle(self.judge_flow(now, packet, out), out);
            self.dispatch(now, verdict, burst, out);
        }
    }
}
