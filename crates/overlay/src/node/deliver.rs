//! Delivery: packets for this node's clients, and for the node itself.

use super::Node;
use super::ends::Around;
use super::groups::REPORTS_PORT;
use super::handover::{Arrived, order};
use super::receive::drop_one;
use super::segments;
use super::send::{assemble, own_header};
use crate::ends::PORT;
use crate::event::Drop;
use crate::request::Options;
use base::{Burst, Outbox, Time};
use wire::data::{Header, Repr, Routing};
use wire::echo::{self, ECHO_BYTES, Echo};
use wire::stamp::{STAMP_BYTES_MAX, Stamp};
use wire::{HEADROOM, transport};

impl Node {
    /// Delivers packets whose whole opened datagrams are in the burst. Segments of one stream stay together.
    pub(super) fn deliver_run(
        &mut self,
        now: Time,
        around: Around,
        mut run: Burst,
        out: &mut impl Outbox<Node>,
    ) {
        while !run.is_empty() {
            let alike = segments::alike(&run, around);
            if alike == run.segments() {
                return self.on_segments(now, around, run, out);
            }
            let front = run.split_front(alike.max(1));
            match alike {
                0 => self.deliver_one(now, around, front, out),
                _ => self.on_segments(now, around, front, out),
            }
        }
    }

    /// Delivers one packet whose whole opened datagram is in the burst.
    pub(super) fn deliver_one(
        &mut self,
        now: Time,
        around: Around,
        mut one: Burst,
        out: &mut impl Outbox<Node>,
    ) {
        one.trim(around.front, around.back);
        let header = Header::trusted(one.bytes());
        let (to, to_port) = (header.destination(), header.destination_port());
        let group = (!to.is_node()).then_some(to);
        let mut arrived = Arrived {
            from: header.source(),
            port: header.source_port(),
            to: to_port,
            group,
            recovered: header.is_recovered(),
            remaining: header.remaining(),
            at: now,
            payload: None,
        };
        let (seq, offset) = (header.flow_seq(), header.payload_offset());
        let is_long = header.has_transport();
        if to_port == echo::PORT && !is_long && !to.is_multicast() {
            return self.on_echo(now, one, out);
        }
        if to_port == REPORTS_PORT && !is_long && to == self.addr {
            return self.on_reports(now, &one, out);
        }
        if is_long {
            match transport::Kind::of(header.payload()) {
                Ok(transport::Kind::Fragment) if to_port == PORT && to == self.addr => {
                    return match around.is_end() {
                        true => self.on_part_of_copy(now, one, out),
                        false => drop_one(Drop::Unsupported, out),
                    };
                }
                Ok(transport::Kind::Fragment) => {}
                // Only a sealed message can be believed.
                Ok(transport::Kind::Tally) if around.is_end() => {
                    return self.on_tally(now, one.bytes(), out);
                }
                Ok(transport::Kind::GroupKey) if around.is_end() => {
                    return self.on_group_key(now, one.bytes(), out);
                }
                Ok(transport::Kind::EndRepair) if around.is_end() => {
                    return self.on_end_repair(now, one.bytes(), out);
                }
                Ok(transport::Kind::GroupCopy) if around.is_end() => {
                    let sender = (arrived.from, arrived.remaining);
                    if (to, to_port) != (self.addr, PORT) {
                        return drop_one(Drop::Malformed, out);
                    }
                    one.trim(offset, 0);
                    return self.on_group_copy(now, sender, one.bytes(), out);
                }
                _ => return drop_one(Drop::Unsupported, out),
            }
        }
        let mut clients = core::mem::take(&mut self.receivers);
        match group {
            Some(_) => self.receivers(&header, &mut clients),
            None => clients.extend(self.sockets.bound(to_port).map(|(client, _)| client)),
        }
        one.trim(offset, 0);
        arrived.payload = Some(one);
        match clients.is_empty() {
            // For a group, other clients of the node may have another port, or may be the senders.
            true if group.is_none() => drop_one(Drop::NoSocket, out),
            true => {}
            false => {
                let known = (&mut self.sockets, self.router.membership());
                let order = |client| order((&mut *known.0, known.1), client, to);
                let what = (to, seq, is_long);
                self.handover
                    .deliver_to(now, &clients, what, arrived, order, out);
            }
        }
        clients.clear();
        self.receivers = clients;
    }

    /// Answers an echo request; other messages on the echo port are dropped.
    fn on_echo(&mut self, now: Time, one: Burst, out: &mut impl Outbox<Node>) {
        if !self.answer_echo(now, one.bytes(), echo::Kind::Reply, out) {
            drop_one(Drop::Malformed, out);
        }
    }

    /// Notifies the sender of an echo request that the request came no farther than this node. Only echo requests are
    /// answered, so that answers cannot double a stream of voice.
    pub(super) fn answer_ttl_exceeded(
        &mut self,
        now: Time,
        packet: &[u8],
        out: &mut impl Outbox<Node>,
    ) {
        self.answer_echo(now, packet, echo::Kind::TtlExceeded, out);
    }

    /// Answers a packet if it is an echo request. A stamped request is answered with the stamp of the way back, so that
    /// the answer travels over the same links.
    fn answer_echo(
        &mut self,
        now: Time,
        packet: &[u8],
        kind: echo::Kind,
        out: &mut impl Outbox<Node>,
    ) -> bool {
        let Some((request, asked)) = echo_request(packet) else {
            return false;
        };
        let mut back = [0; STAMP_BYTES_MAX];
        let stamp = match request.class.routing {
            Routing::Stamped => way_back(packet, &mut back),
            _ => &[],
        };
        // Every hop but the first has subtracted one.
        let first = u8::from(request.source != self.addr);
        let hop = Options::TTL_DEFAULT.saturating_sub(request.ttl) + first;
        let mut bytes = [0; ECHO_BYTES];
        let written = asked.answer(kind, self.addr, hop).emit(&mut bytes);
        debug_assert!(written.is_ok(), "the buffer has the length of an echo");
        let to = (request.source, request.source_port);
        let seq = self.next_echo_seq();
        let mut header = own_header(request.class, (self.addr, echo::PORT), to, seq);
        header.has_extension = !stamp.is_empty();
        let payload = out.pool().copy_of(HEADROOM, &bytes);
        let answer = payload.and_then(|payload| assemble(&header, stamp, payload, false, out));
        self.originate_made(now, &header, answer, out);
        true
    }
}

/// The header and content of an echo request.
fn echo_request(packet: &[u8]) -> Option<(Repr, Echo)> {
    let header = Header::trusted(packet);
    let asked = Echo::parse(header.payload()).ok()?;
    let is_request = header.destination_port() == echo::PORT && asked.kind == echo::Kind::Request;
    is_request.then(|| (header.repr(), asked))
}

/// Writes the stamp of the way back for a packet that was stamped.
fn way_back<'a>(packet: &[u8], back: &'a mut [u8; STAMP_BYTES_MAX]) -> &'a [u8] {
    let stamp = Header::trusted(packet);
    let stamp = Stamp::parse(stamp.extension().unwrap_or_default());
    let len = stamp.ok().and_then(|stamp| stamp.emit_reversed(back));
    &back[..len.unwrap_or_default()]
}
