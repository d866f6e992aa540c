//! The reliable lanes of the links. Packets enter by the path that all packets out take, and leave when window and pace
//! permit. Packets that are left on a link that is down find another path.
//!
//! ```text
//!   send_run ──▶ queue_run ──▶ Lane ── flush_reliable ──▶ sealed bursts
//!                                    │  ▲
//!            link down, other routes │  '── ReliableAck
//!                                    '──▶ reroute_stranded ──▶ another lane, or dropped and counted
//! ```

use super::Node;
use super::receive::drop_some;
use crate::event::{Drop, Event};
use crate::flow::FlowKey;
use crate::link::{Link, LinkIndex, PathId, mark};
use crate::reliable::{HELD_BYTES, Packet, RestOfPath};
use base::pool::SMALL_BYTES;
use base::{Burst, Duration, NodeAddr, Outbox, Time};
use wire::control::{Builder, ReliableSkip};
use wire::data::{Header, LinkProtocol, Routing};
use wire::link::Kind;
use wire::{CLEAR_BYTES, TAG_BYTES};

/// Packets of one burst: as many as a kernel segments at once.
const BURST_PACKETS: usize = 64;
/// Bytes of one burst: the longest datagram of IPv4.
const BURST_BYTES: usize = 65_507;
/// Packets that one flush sends on one lane, so that other links get their turn.
const FLUSH_PACKETS: usize = 1_024;
/// How long packets whose link is down wait for it, or for another path.
const STRANDED_MAX: Duration = Duration::from_secs(5);
/// The memory of a waiting packet.
const PACKET_BYTES: usize = 1_500;
/// The window that is announced to a neighbour while there is room for all that it may send.
const WINDOW_OPEN: u16 = 16_384;

/// A lane whose link is down and that still holds packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stranded {
    index: LinkIndex,
    since: Time,
    /// The generation of the routes by which another path was last sought.
    generation: Option<u32>,
}

/// Returns true if the packet waits in the lane of its link.
pub(super) fn is_reliable(datagram: &[u8]) -> bool {
    let packet = &datagram[CLEAR_BYTES..];
    Header::trusted(packet).class().link == LinkProtocol::Reliable
}

impl Node {
    /// Puts reliable packets into the lane of their link.
    pub(super) fn queue_run(
        &mut self,
        now: Time,
        index: LinkIndex,
        run: &Burst,
        is_own: bool,
        out: &mut impl Outbox<Node>,
    ) {
        let link = self.links.at_mut(index);
        let came = (!is_own).then_some(self.came.0);
        let packets = run.segments() as u32;
        if !link.is_up() {
            if is_own {
                let to = Header::trusted(&run.segment(0)[CLEAR_BYTES..]).destination();
                self.excuse(now, index, to, packets);
            }
            return drop_some(Drop::LinkDown, packets, out);
        }
        let (mut dropped, mut made_room, mut too_long) = (0, 0, 0);
        // Own packets that have made room: when they were sealed, and their destination.
        let mut evicted = Vec::new();
        for i in 0..run.segments() {
            let datagram = run.segment(i);
            if datagram.len() > usize::from(link.path.mtu.usable()) {
                // The node would send such a packet again for ever, and delay the packets behind it.
                too_long += 1;
                continue;
            }
            let packet = &datagram[CLEAR_BYTES..datagram.len() - TAG_BYTES];
            match link.reliable.sender.push(now, packet, came) {
                Ok(None) => {}
                Ok(Some(other)) => {
                    if other.came.is_none() {
                        let to = Header::trusted(&other.bytes[..]).destination();
                        evicted.push((other.entered, to));
                    }
                    link.reliable.sender.recycle(other);
                    made_room += 1;
                }
                Err(_) => dropped += 1,
            }
        }
        self.links.touch(index);
        if is_own && dropped + too_long > 0 {
            let to = Header::trusted(&run.segment(0)[CLEAR_BYTES..]).destination();
            self.excuse(now, index, to, dropped + too_long);
        }
        for (entered, to) in evicted {
            self.excuse(entered, index, to, 1);
        }
        dropped += made_room;
        for (reason, packets) in [(Drop::LaneFull, dropped), (Drop::TooLong, too_long)] {
            if packets > 0 {
                drop_some(reason, packets, out);
            }
        }
    }

    /// Returns true if a client's packet finds room for its flow in the lane of the first link. If there is no such
    /// link, returns true: the packet itself will find that out.
    pub(super) fn has_room(&mut self, now: Time, routing: Routing, flow: &FlowKey) -> bool {
        let to = flow.destination;
        if to.is_multicast() {
            let ways = (&self.router, &self.links);
            return self.groups.has_room(now, routing, flow, ways);
        }
        let diverted = self.diverted_hop(routing, to);
        let by_table = || self.router.next_hop(&self.links, routing, to, None);
        match diverted.map_or_else(by_table, Ok) {
            Ok(index) if to != self.addr => self.links.at(index).reliable.sender.room(flow) > 0,
            _ => true,
        }
    }

    /// Sends the packets that may leave on the lane of a link.
    pub(super) fn flush_reliable(
        &mut self,
        now: Time,
        index: LinkIndex,
        out: &mut impl Outbox<Node>,
    ) {
        let link = self.links.at_mut(index);
        if !link.is_up() {
            return;
        }
        let rtt = link.rtt();
        link.reliable.sender.seed_rtt(now, rtt);
        link.spread(now);
        link.reliable.sender.on_timeout(now);
        let (tables, peer) = (self.router.tables(), link.peer);
        let rest = |to: NodeAddr| tables.latency_from(peer, to);
        let mut left = FLUSH_PACKETS;
        for id in link.path_ids() {
            let (sender, path) = link.lane_and_path(id);
            if sender.take_timeout(id.0) {
                path.mtu.suspect(now);
            }
            while left > 0 {
                let Some(sent) = link.send_reliable(now, id, left, &rest, out) else {
                    break;
                };
                left -= sent;
            }
        }
        if left == 0 {
            link.reliable.sender.try_again(now);
        }
        let packets = link.reliable.sender.take_overdue();
        if packets > 0 {
            drop_some(Drop::Expired, packets, out);
        }
        while let Some(stream) = self.links.at_mut(index).reliable.sender.pop_ready() {
            self.streams.touch(stream);
            self.streams_again = Some(now);
        }
    }

    /// Appends the acknowledgement that is due for the lane of a link, and the packets that its sender has given up.
    pub(super) fn acknowledge(&mut self, now: Time, index: LinkIndex, builder: &mut Builder<'_>) {
        if !self.links.at(index).is_up() {
            return;
        }
        if self.links.at(index).reliable.receiver.is_due(now) {
            let window = self.window(now);
            let receiver = &mut self.links.at_mut(index).reliable.receiver;
            let head = receiver.acknowledge(now, window);
            if let Some(rate) = receiver.poll_rate() {
                let _ = builder.reliable_rate(rate);
            }
            // An empty datagram has room for the fixed part and some hundred ranges.
            let _ = builder.reliable_ack(&head, receiver.ranges());
        }
        if self.links.at(index).reliable.told.is_due(now) {
            self.tell_holds(now, index, builder);
        }
        if let Some(ReliableSkip { first }) = self.links.at_mut(index).reliable.sender.poll_skip() {
            let _ = builder.reliable_skip(ReliableSkip { first });
        }
    }

    /// Notifies a neighbour of the destinations whose packets wait here.
    fn tell_holds(&mut self, now: Time, index: LinkIndex, builder: &mut Builder<'_>) {
        let mut holds = Vec::new();
        for (_, link) in self.links.iter().filter(|(_, link)| link.is_up()) {
            link.reliable.sender.holds_for(now, index.0, &mut holds);
        }
        let told = &mut self.links.at_mut(index).reliable.told;
        told.tell(now, &holds, builder);
    }

    /// Returns how many packets of a neighbour this node accepts: fewer when it holds nearly as much as it may. Lanes
    /// that are stalled do not count.
    fn window(&self, now: Time) -> u16 {
        let lanes = self.links.iter().filter(|(_, link)| link.is_up());
        let lanes = lanes.map(|(_, link)| &link.reliable.sender);
        let moving = lanes.filter(|sender| !sender.is_stalled(now));
        let held: usize = moving.map(|sender| sender.queued_bytes()).sum();
        let left = HELD_BYTES.saturating_sub(held) / PACKET_BYTES;
        u16::try_from(left).unwrap_or(WINDOW_OPEN).min(WINDOW_OPEN)
    }

    /// A link has gone down or come up: packets under way on its lane wait, or continue.
    pub(super) fn on_lane_changed(&mut self, now: Time, index: LinkIndex, is_up: bool) {
        self.stranded.retain(|stranded| stranded.index != index);
        let sender = &mut self.links.at_mut(index).reliable.sender;
        if is_up {
            sender.resume(now);
        } else if !sender.is_empty() {
            self.stranded.push(Stranded {
                index,
                since: now,
                generation: None,
            });
        }
    }

    /// Sends packets that wait for links that are down by another path, if there is one by now.
    pub(super) fn reroute_stranded(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        let generation = self.router.tables().generation();
        for i in (0..self.stranded.len()).rev() {
            let Stranded {
                index,
                since,
                generation: sought,
            } = self.stranded[i];
            let is_over = now.since(since) >= STRANDED_MAX;
            if sought == Some(generation) && !is_over {
                continue;
            }
            self.stranded[i].generation = Some(generation);
            if is_over {
                self.stranded.swap_remove(i);
            }
            self.reroute(index, is_over, out);
        }
    }

    fn reroute(&mut self, index: LinkIndex, is_over: bool, out: &mut impl Outbox<Node>) {
        let mut packets = Vec::new();
        let sender = &mut self.links.at_mut(index).reliable.sender;
        sender.give_up(|packet| packets.push(packet));
        let mut dropped = 0;
        for packet in packets {
            match self.other_way(index, &packet) {
                Some(other) => {
                    let sender = &mut self.links.at_mut(other).reliable.sender;
                    sender.push_again(packet);
                    self.links.touch(other);
                }
                None if is_over => {
                    dropped += 1;
                    if packet.came.is_none() {
                        let to = Header::trusted(&packet.bytes[..]).destination();
                        self.excuse(packet.entered, index, to, 1);
                    }
                }
                None => self.links.at_mut(index).reliable.sender.push_again(packet),
            }
        }
        self.links.touch(index);
        if dropped > 0 {
            drop_some(Drop::LinkDown, dropped, out);
        }
    }

    /// Returns the link by which a packet goes now that `index` is down.
    fn other_way(&self, index: LinkIndex, packet: &Packet) -> Option<LinkIndex> {
        let header = Header::trusted(&packet.bytes[..]);
        let (routing, to) = (header.class().routing, header.destination());
        let other = self.router.next_hop(&self.links, routing, to, None).ok()?;
        (other != index && self.links.at(other).is_up()).then_some(other)
    }
}

impl Link {
    /// Sends a burst of packets of one length by a path, as many as may leave now up to `most`. Returns their number;
    /// `None` if none may leave.
    fn send_reliable(
        &mut self,
        now: Time,
        id: PathId,
        most: usize,
        rest: RestOfPath<'_>,
        out: &mut impl Outbox<Node>,
    ) -> Option<usize> {
        let (sender, path) = self.lane_and_path(id);
        let first = CLEAR_BYTES + sender.peek(now, id.0, rest)? + TAG_BYTES;
        let is_single = sender.queued() == 0 && first <= SMALL_BYTES;
        let buffer = match is_single {
            true => out.pool().small(),
            false => out.pool().large().or_else(|| out.pool().small()),
        };
        let Some(mut burst) = buffer.filter(|burst| first <= burst.capacity()) else {
            sender.try_again(now);
            return None;
        };
        let capacity = burst.capacity().min(BURST_BYTES);
        let mut sent = Sent::default();
        while sent.packets() < most.min(BURST_PACKETS)
            && let Some(bytes) = sender.peek(now, id.0, rest)
        {
            let (bytes, len) = (CLEAR_BYTES + bytes + TAG_BYTES, burst.len());
            // Only the last packet of a burst may be shorter.
            let is_uniform = bytes <= first && len.is_multiple_of(first);
            if !is_uniform || len + bytes > capacity {
                break;
            }
            let Some(packet) = sender.take(now, id.0) else {
                break;
            };
            if burst.is_empty() {
                burst.set_mark(mark(Header::trusted(packet.bytes).class()));
            }
            let datagram = &mut burst.spare_mut()[..bytes];
            datagram[CLEAR_BYTES..bytes - TAG_BYTES].copy_from_slice(packet.bytes);
            sent.count(&packet, bytes);
            if path.sessions.seal(Kind::Data, datagram).is_err() {
                // Without a session the packet counts as lost, and is sent again.
                break;
            }
            burst.fill(len + bytes, first);
        }
        if burst.is_empty() {
            return None;
        }
        path.hello.on_data_sent(now);
        path.mtu.on_sent(first);
        let (packets, bytes) = (burst.segments() as u64, burst.len() as u64);
        path.transmit(now, burst, out);
        self.counts.data_out += packets;
        self.counts.data_out_bytes += bytes;
        if id != self.path.id {
            self.counts.spread_out_bytes += bytes;
        } else if let Some(brake) = &mut self.brake {
            brake.on_beside(bytes);
        }
        sent.report(self.peer, out);
        Some(sent.packets())
    }
}

/// The content of a burst for the events that report it: (packets, bytes).
#[derive(Default)]
struct Sent {
    own: (u32, u32),
    forwarded: (u32, u32),
    again: (u32, u32),
}

impl Sent {
    fn packets(&self) -> usize {
        (self.own.0 + self.forwarded.0 + self.again.0) as usize
    }

    fn count(&mut self, packet: &crate::reliable::Outgoing<'_>, bytes: usize) {
        let kind = match (packet.is_again, packet.is_own) {
            (true, _) => &mut self.again,
            (_, true) => &mut self.own,
            _ => &mut self.forwarded,
        };
        kind.0 += 1;
        kind.1 += bytes as u32;
    }

    fn report(&self, peer: NodeAddr, out: &mut impl Outbox<Node>) {
        if let (packets @ 1.., bytes) = self.own {
            out.report(Event::Originated {
                peer,
                packets,
                bytes,
            });
        }
        if let (packets @ 1.., bytes) = self.forwarded {
            out.report(Event::Forwarded {
                peer,
                packets,
                bytes,
            });
        }
        if let (packets @ 1.., bytes) = self.again {
            out.report(Event::Retransmitted {
                peer,
                packets,
                bytes,
            });
        }
    }
}
