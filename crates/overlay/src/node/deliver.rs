//! The way up: packets for this node's clients, and for the node itself.

use super::Node;
use super::ends::{Around, PORT};
use super::segments;
use super::send::{assemble, own_header};
use super::shared_reports::REPORTS_PORT;
use crate::event::{Drop, Event};
use crate::fragment::Key;
use crate::request::{Delivery, Options, Reply};
use crate::resequence::{
    FLOW_BYTES_MAX, FlowKey, HeldTotals, Hold, NODE_BYTES_MAX, Order, Verdict,
};
use crate::snapshot::{HeldStatus, HolderStatus};
use base::pool::KEPT_OVERHEAD;
use base::{Burst, ClientId, Duration, NodeAddr, Outbox, Pool, Time, VirtualPort};
use wire::data::{FlowSeq, Header, Remaining, Repr, Routing};
use wire::echo::{self, ECHO_BYTES, Echo};
use wire::stamp::{STAMP_BYTES_MAX, Stamp};
use wire::{HEADROOM, transport};

/// Flows that wait which the status names: one that has taken all is the first.
const HOLDERS_SHOWN: usize = 8;

/// A datagram for a client, with what its reply tells.
#[derive(Debug)]
pub(super) struct Arrived {
    from: NodeAddr,
    port: VirtualPort,
    to: VirtualPort,
    group: Option<NodeAddr>,
    recovered: bool,
    /// As of `at`.
    remaining: Remaining,
    at: Time,
    /// None stands for a fragment whose datagram has come, or comes, with another.
    payload: Option<Burst>,
}

impl Hold for Arrived {
    fn bytes(&self) -> usize {
        KEPT_OVERHEAD + self.payload.as_ref().map_or(0, Burst::len)
    }

    fn keep(&mut self, pool: &Pool) -> bool {
        self.payload.as_mut().is_none_or(|burst| pool.keep(burst))
    }
}

impl Node {
    /// Delivers packets of which the burst holds the whole opened datagrams. Segments of one stream
    /// stay together.
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

    /// Delivers one packet of which the burst holds the whole opened datagram.
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
                        false => self.drop_one(Drop::Unsupported, out),
                    };
                }
                Ok(transport::Kind::Fragment) => {}
                // Only what was sealed can be believed.
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
                        return self.drop_one(Drop::Malformed, out);
                    }
                    one.trim(offset, 0);
                    return self.on_group_copy(now, sender, one.bytes(), out);
                }
                _ => return self.drop_one(Drop::Unsupported, out),
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
            // Of a group others of the node's clients may have another port, or have sent it.
            true if group.is_none() => self.drop_one(Drop::NoSocket, out),
            true => {}
            false => self.deliver_to(now, &clients, (to, seq, is_long), arrived, out),
        }
        clients.clear();
        self.receivers = clients;
    }

    /// Delivers a datagram, or a fragment of one that is long, to some clients.
    fn deliver_to(
        &mut self,
        now: Time,
        clients: &[ClientId],
        (to, seq, is_long): (NodeAddr, FlowSeq, bool),
        mut arrived: Arrived,
        out: &mut impl Outbox<Node>,
    ) {
        if is_long {
            let key = Key {
                from: (arrived.from, arrived.port),
                to,
                port: arrived.to,
                id: 0,
            };
            let part = arrived.payload.take();
            match self.on_fragment(now, key, arrived.remaining, part, out) {
                // Of a long datagram, what the fragment tells that makes it whole.
                Ok((whole, left)) => (arrived.payload, arrived.remaining) = (whole, left),
                Err(why) => return self.drop_one(why, out),
            }
        }
        let (Some(last), others) = (clients.last(), &clients[..clients.len().saturating_sub(1)])
        else {
            return;
        };
        for client in others {
            let payload = arrived.payload.as_ref();
            let copy = payload.and_then(|payload| out.pool().copy_burst(payload));
            if payload.is_some() && copy.is_none() {
                self.drop_one(Drop::NoBuffer, out);
                continue;
            }
            let copy = Arrived {
                payload: copy,
                ..arrived
            };
            self.deliver_in_order(now, *client, (to, seq), copy, out);
        }
        self.deliver_in_order(now, *last, (to, seq), arrived, out);
    }

    /// Delivers a datagram to a client, as it comes or in order, as the client wants it.
    fn deliver_in_order(
        &mut self,
        now: Time,
        client: ClientId,
        (to, seq): (NodeAddr, FlowSeq),
        arrived: Arrived,
        out: &mut impl Outbox<Node>,
    ) {
        match self.order(client, to) {
            None => hand_over(now, client, arrived, out),
            Some(order) => {
                let key = (client, (to, arrived.to), arrived.from, arrived.port);
                let left = arrived.remaining.duration();
                let pushed =
                    self.resequencer
                        .push(now, key, (seq.0, order), left, arrived, out.pool());
                match pushed {
                    Ok(()) => {
                        let mut ready = Some(key);
                        while let Some(key) = ready {
                            while let Some(next) = self.resequencer.pop(now, key) {
                                hand_over(now, key.0, next, out);
                            }
                            ready = self.resequencer.relieve();
                        }
                    }
                    Err((Verdict::TooLate, _)) => self.drop_one(Drop::TooLateForOrder, out),
                    Err(_) => self.drop_one(Drop::ResequencerFull, out),
                }
            }
        }
    }

    /// In which order a client gets what is sent to an address, none for as it comes: the group says it, or
    /// the socket.
    fn order(&mut self, client: ClientId, to: NodeAddr) -> Option<Order> {
        let setting = match to.is_multicast() {
            true => self.router.database().membership().setting(to),
            false => None,
        };
        let socket = self.sockets.client(client);
        let (own, own_deadline) = socket.map_or_else(Default::default, |socket| {
            (socket.options.delivery, socket.options.deadline)
        });
        let said = setting.and_then(|setting| setting.delivery);
        match said.unwrap_or(own) {
            Delivery::AsItComes => None,
            Delivery::InOrder => Some(Order::AtOnce),
            Delivery::AsSent(after) => {
                let ms = setting.map_or(0, |setting| setting.deadline_ms);
                let deadline = match ms {
                    0 => own_deadline,
                    ms => Some(Duration::from_millis(ms.into())),
                };
                // Of a longer one the header told this much at first, whatever was set.
                let deadline = Remaining::from_deadline(deadline).duration();
                // A packet tells how much time it has left: with the deadline that is its age.
                let left = after.map(|after| deadline.unwrap_or_default() - after);
                Some(Order::AsSent(left))
            }
        }
    }

    /// Hands over what waited for its predecessors, or for its sender's pace.
    pub(super) fn release_resequenced(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        while let Some(((client, ..), arrived)) = self.resequencer.pop_due(now) {
            hand_over(now, client, arrived, out);
        }
    }

    /// What waits for its predecessors, and whose it is.
    pub(super) fn held_status(&self) -> HeldStatus {
        let totals = self.resequencer.totals();
        let holders = self.resequencer.holders().into_iter();
        let holder =
            |((_, (to, port), from, from_port), held): (FlowKey, HeldTotals)| HolderStatus {
                from: format!("{from}:{}", from_port.0),
                to: format!("{to}:{}", port.0),
                packets: held.packets,
                bytes: held.bytes,
                given_up: held.given_up,
            };
        HeldStatus {
            packets: totals.packets,
            bytes: totals.bytes,
            bytes_limit: NODE_BYTES_MAX,
            flow_bytes_limit: FLOW_BYTES_MAX,
            given_up: totals.given_up,
            given_up_lately: self.held_given_up.grown(totals.given_up),
            holders: holders.take(HOLDERS_SHOWN).map(holder).collect(),
        }
    }

    /// Answers an echo request; other messages on the echo port are dropped.
    fn on_echo(&mut self, now: Time, one: Burst, out: &mut impl Outbox<Node>) {
        if !self.answer_echo(now, one.bytes(), echo::Kind::Reply, out) {
            self.drop_one(Drop::Malformed, out);
        }
    }

    /// Tells the sender of an echo request that it came no farther than this node. Only echo
    /// requests are answered, so that no stream of voice doubles itself.
    pub(super) fn answer_ttl_exceeded(
        &mut self,
        now: Time,
        packet: &[u8],
        out: &mut impl Outbox<Node>,
    ) {
        self.answer_echo(now, packet, echo::Kind::TtlExceeded, out);
    }

    /// Answers a packet if it is an echo request. What was stamped is answered by the stamp of the
    /// way back, so that the answers tell of the same links.
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
        // Every hop but the first has taken one off.
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
        match payload.and_then(|payload| assemble(&header, stamp, payload, false, out)) {
            Some(answer) => self.originate(now, &header, answer, out),
            None => self.drop_one(Drop::NoBuffer, out),
        }
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

/// The stamp of the way back of a packet that was stamped.
fn way_back<'a>(packet: &[u8], back: &'a mut [u8; STAMP_BYTES_MAX]) -> &'a [u8] {
    let stamp = Header::trusted(packet);
    let stamp = Stamp::parse(stamp.extension().unwrap_or_default());
    let len = stamp.ok().and_then(|stamp| stamp.emit_reversed(back));
    &back[..len.unwrap_or_default()]
}

fn hand_over(now: Time, client: ClientId, arrived: Arrived, out: &mut impl Outbox<Node>) {
    let Arrived {
        from,
        port,
        to,
        group,
        recovered,
        remaining,
        at,
        payload,
    } = arrived;
    let Some(payload) = payload else {
        return;
    };
    // What waited for its predecessors has less time left.
    let remaining = remaining.minus(now.since(at));
    out.report(Event::Delivered {
        bytes: payload.len() as u32,
    });
    out.deliver(
        client,
        Reply::Datagram {
            from,
            port,
            to,
            group,
            recovered,
            remaining,
            payload,
        },
    );
}
