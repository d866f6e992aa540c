//! Sending: lane, history, seal, and the link's transmission; for forwarded packets, for packets of clients, and for
//! retransmissions.

use super::ends::{Around, is_unsealed};
use super::fragments::MAX_DATAGRAM;
use super::groups::follow_setting;
use super::receive::{drop_one, drop_some};
use super::reliable::is_reliable;
use super::{Node, metric};
use crate::aims::Teller;
use crate::ends::PORT;
use crate::ends::{SEAL_BACK, SEAL_FRONT};
use crate::event::{Drop, Event};
use crate::flow::FlowKey;
use crate::link::{Counts, LinkIndex, Path, mark, place_mut};
use crate::mtu::DEFAULT;
use crate::realtime::{Answer, Protect, Strike};
use crate::request::{Options, Reply, RequestError};
use crate::stamps::Wish;
use base::{Burst, ClientId, NodeAddr, Outbox, Time, VirtualPort};
use congestion::brake::Verdict;
use wire::data::{
    Class, EXTENSION_LENGTH_BYTES, FlowSeq, Header, LaneSeq, LinkProtocol, Remaining, Repr,
    Routing, TTL_MAX,
};
use wire::groups::TreeBuilder;
use wire::ipc::Scheme;
use wire::link::Kind;
use wire::stamp::STAMP_BYTES_MAX;
use wire::{CLEAR_BYTES, HEADER_BYTES, HEADROOM, SEALED_HEADROOM, TAG_BYTES};

/// The longest payload of one packet; longer datagrams are sent in fragments. Choice: what fits into a 1500-byte
/// Ethernet frame below IPv6 and UDP (48 bytes), less 47 bytes of the overlay's headers, less 13 to spare for one more
/// tunnel's header. A stamp takes its bytes from the payload, and the seal from end to end takes 24.
pub const MAX_PAYLOAD: usize = 1_392;

const _: () = assert!(HEADROOM + MAX_PAYLOAD + TAG_BYTES == DEFAULT as usize);

/// The stamp of packets to a group that take two trees.
const TWO_TREES: [u8; 1] = [3];

impl Node {
    /// Sends a run of opened packets: each enters its lane, and those that do not wait there leave as one burst. The
    /// packets are either all this node's own or all forwarded.
    pub(super) fn send_run(
        &mut self,
        now: Time,
        index: LinkIndex,
        mut run: Burst,
        is_own: bool,
        out: &mut impl Outbox<Node>,
    ) {
        while !run.is_empty() {
            // Mostly all packets have the same class.
            let is_queued = is_reliable(run.segment(0));
            let other = (1..run.segments()).find(|&i| is_reliable(run.segment(i)) != is_queued);
            let front = match (is_queued, other) {
                (false, None) => return self.send_now(now, index, run, is_own, out),
                (_, other) => run.split_front(other.unwrap_or(run.segments())),
            };
            match is_queued {
                true => self.queue_run(now, index, &front, is_own, out),
                false => self.send_now(now, index, front, is_own, out),
            }
        }
    }

    /// The same for packets that do not wait in a lane: each is sealed in place.
    #[inline]
    fn send_now(
        &mut self,
        now: Time,
        index: LinkIndex,
        mut run: Burst,
        is_own: bool,
        out: &mut impl Outbox<Node>,
    ) {
        loop {
            let (admitted, stop) = self.links.at_mut(index).admitted(now, &run);
            let Some(stop) = stop else {
                return self.send_admitted(now, index, run, is_own, out);
            };
            if admitted > 0 {
                let front = run.split_front(admitted);
                self.send_admitted(now, index, front, is_own, out);
            }
            let (first, rest) = match run.segments() {
                1 => (run, None),
                _ => (run.split_front(1), Some(run)),
            };
            if let Some(packet) = self.send_past(now, index, first, is_own, out) {
                self.drop_for_room(now, packet, (index, stop), is_own, out);
            }
            match rest {
                Some(rest) => run = rest,
                None => return,
            }
        }
    }

    /// Drops a packet for which a link has no room and for which there is no other path.
    #[cold]
    fn drop_for_room(
        &mut self,
        now: Time,
        packet: Burst,
        (index, stop): (LinkIndex, Verdict),
        is_own: bool,
        out: &mut impl Outbox<Node>,
    ) {
        if is_own {
            if stop == Verdict::Refused {
                self.tell_refused(now, &packet, out);
            }
            let to = Header::trusted(&packet.segment(0)[CLEAR_BYTES..]).destination();
            self.excuse(now, index, to, 1);
        }
        let reason = match stop {
            Verdict::Sent | Verdict::Braked => Drop::Braked,
            Verdict::Refused => Drop::NoRoom,
        };
        drop_one(reason, out);
    }

    /// Notes that own packets that were sealed at `at` have not left by a link: no relay has dropped them.
    pub(super) fn excuse(&mut self, at: Time, index: LinkIndex, to: NodeAddr, packets: u32) {
        match to.is_multicast() {
            true => {
                let next = self.links.at(index).peer;
                let packets = u16::try_from(packets).unwrap_or(u16::MAX);
                self.groups.excuse(at, to, (next, packets));
            }
            false => self.audits.excuse(at, to, packets),
        }
    }

    /// Notifies the client of an own packet that was refused for lack of room. For packets that take several paths, or
    /// go to several nodes, it is unknown what arrives.
    #[cold]
    fn tell_refused(&mut self, now: Time, run: &Burst, out: &mut impl Outbox<Node>) {
        let key = FlowKey::of(&Header::trusted(&run.segment(0)[CLEAR_BYTES..]));
        let (from, to, port) = (key.source_port, key.destination, key.destination_port);
        let Some((client, _)) = self.sockets.bound(from).filter(|_| to.is_node()) else {
            return;
        };
        let Some(socket) = self.sockets.client(client) else {
            return;
        };
        if socket.options.scheme.is_none() && socket.refused(now, (from, to, port)) {
            out.deliver(client, room(from, (to, port), false));
        }
    }

    /// The same for packets that the lane's brake has admitted.
    fn send_admitted(
        &mut self,
        now: Time,
        index: LinkIndex,
        mut run: Burst,
        is_own: bool,
        out: &mut impl Outbox<Node>,
    ) {
        loop {
            let link = self.links.at_mut(index);
            let (router, peer) = (&self.router, link.peer);
            let rest_of_path = |to: NodeAddr| router.rest_from(peer, to);
            let copies = (out.pool(), &mut self.copies);
            let Some(sealed) = link.seal_packets(now, &mut run, copies, rest_of_path, &self.aims)
            else {
                return drop_some(Drop::LinkDown, run.segments() as u32, out);
            };
            let rest = (sealed < run.segments()).then(|| run.split_front(sealed));
            let (front, rest) = match rest {
                Some(front) => (front, Some(run)),
                None => (run, None),
            };
            let (packets, bytes) = (front.segments() as u32, front.len() as u32);
            link.path.transmit(now, front, out);
            if !self.copies.is_empty() {
                link.transmit_beside(now, &mut self.copies, out);
            }
            self.links.touch(index);
            out.report(match is_own {
                true => Event::Originated {
                    peer,
                    packets,
                    bytes,
                },
                false => Event::Forwarded {
                    peer,
                    packets,
                    bytes,
                },
            });
            // The other repair packets follow at the end of the turn, so it does not matter whether packets arrived as
            // one burst.
            if self.links.at_mut(index).ends_run() {
                self.flush_repair(now, index, out);
            }
            match rest {
                Some(rest) => run = rest,
                None => return,
            }
        }
    }

    /// Sends a client's datagram, from its port or from a port of its range.
    pub(super) fn on_send(
        &mut self,
        now: Time,
        client: ClientId,
        from: Option<VirtualPort>,
        to: (NodeAddr, VirtualPort),
        payload: Burst,
        out: &mut impl Outbox<Node>,
    ) {
        if let Err(why) = self.send_from(now, client, from, to, payload, out) {
            out.deliver(client, Reply::Refused(why));
        }
    }

    fn send_from(
        &mut self,
        now: Time,
        client: ClientId,
        from: Option<VirtualPort>,
        (to, port): (NodeAddr, VirtualPort),
        payload: Burst,
        out: &mut impl Outbox<Node>,
    ) -> Result<(), RequestError> {
        if payload.len() > MAX_DATAGRAM {
            return Err(RequestError::TooLong { max: MAX_DATAGRAM });
        }
        if to.0 == 0 {
            return Err(RequestError::BadDestination);
        }
        self.check_can_seal(to, port)?;
        let seals_group = to.is_multicast() && self.groups.seals(to, &self.router);
        let mut socket = self.sockets.open(client, &mut self.rng)?;
        if from.is_none() && socket.port.is_none() {
            let bound = self.sockets.bind(client, VirtualPort(0), &mut self.rng)?;
            out.deliver(client, Reply::Bound { port: bound });
            socket = self.sockets.open(client, &mut self.rng)?;
        }
        let mut options = socket.options;
        let source_port = socket.source(from).ok_or(RequestError::PortNotBound)?;
        let flow = FlowKey {
            source: self.addr,
            source_port,
            destination: to,
            destination_port: port,
        };
        let is_shared = to.is_multicast() && self.router.builder(to) == TreeBuilder::Scribe;
        if to.is_multicast() {
            follow_setting(self.router.membership(), to, &mut options);
            // The packet takes one tree or two, which every node computes itself: nobody stamps other paths. Scribe
            // builds one tree.
            let carried = match options.scheme {
                None => true,
                // On a reliable link, packets would wait for the slower of two ways.
                Some(Scheme::Disjoint) => {
                    !is_shared && options.class.link != LinkProtocol::Reliable
                }
                Some(_) => false,
            };
            if !carried {
                return Err(RequestError::Unsupported);
            }
        }
        let scheme = options.scheme;
        let scheme = scheme.or(self.scheme_of_protection(to, options.class));
        if scheme.is_some() && scheme != options.scheme {
            options.class.routing = Routing::Stamped;
        }
        if scheme.is_some() && to.is_anycast() {
            return Err(RequestError::Unsupported);
        }
        let Options {
            mut class,
            ttl,
            deadline,
            aim,
            ..
        } = options;
        if class.link == LinkProtocol::Reliable {
            let may_wait = !self.seals_to(to, (source_port, port))
                || self.ends.has_room(to, payload.len() + HEADROOM);
            if !may_wait || !self.has_room(now, class.routing, &flow) {
                return Err(RequestError::Congested);
            }
        }
        if !to.is_node() && !self.router.permits().may_send(self.addr, to) {
            drop_one(Drop::NotPermitted, out);
            return self.groups.refuse_sending(now, client, to);
        }
        if to.is_multicast() && !self.groups.police(now, to, payload.len(), &self.router) {
            drop_one(Drop::OverRate, out);
            return Ok(());
        }
        if class.link == LinkProtocol::RealTime {
            self.aims.note(now, flow, aim, Teller::Client(client));
        }
        let socket = self.sockets.open(client, &mut self.rng)?;
        let flow_seq = FlowSeq(socket.next_seq(now, from, (to, port), payload.len()));
        if socket.is_let_in(now, (source_port, to, port)) {
            out.deliver(client, room(source_port, (to, port), true));
        }
        let seals = seals_group || self.seals_to(to, (source_port, port));
        let diversion = self.diversion(to);
        let edge = Node::first_edge(self.addr);
        let mut usable = match to == self.addr {
            true => DEFAULT,
            false => self.router.usable_to(class.routing, to),
        };
        let mut stamp: &[u8] = if is_shared { &edge } else { &[] };
        if scheme.is_some() && to.is_multicast() {
            stamp = &TWO_TREES;
        } else if let Some(scheme) = scheme
            && to != self.addr
        {
            let wish = Wish {
                to,
                scheme,
                link: class.link,
                deadline,
            };
            let unstamped = self.router.usable_to(Routing::ExpectedLatency, to);
            match self.router.stamp(now, wish) {
                Some(known) => stamp = known,
                None => {
                    class.routing = Routing::ExpectedLatency;
                    usable = unstamped;
                    out.report(Event::Unstamped);
                }
            }
        }
        // The edges of a shared tree are paths of several hops each.
        let ttl = if is_shared { TTL_MAX } else { ttl };
        let header = Repr {
            class,
            ttl,
            has_extension: !stamp.is_empty(),
            congested: false,
            recovered: false,
            has_transport: false,
            remaining: Remaining::from_deadline(deadline),
            source: self.addr,
            destination: to,
            source_port,
            destination_port: port,
            flow_seq,
            lane_seq: LaneSeq::new(0),
        };
        let (usable, diverted) = match seals {
            true => (
                usable.min(diversion.usable),
                diversion.stamp_bytes.saturating_sub(extension_bytes(stamp)),
            ),
            false => (usable, 0),
        };
        let max = usize::from(usable) - around_bytes(stamp, seals) - diverted;
        // The node's own service answers packets, not datagrams of several fragments.
        if payload.len() > max && port == wire::echo::PORT {
            return Err(RequestError::TooLong { max });
        }
        if payload.len() > max {
            let mut copy = [0; STAMP_BYTES_MAX];
            copy[..stamp.len()].copy_from_slice(stamp);
            let stamp = &copy[..stamp.len()];
            let number = |node: &mut Node| {
                let socket = node.sockets.client(client);
                FlowSeq(socket.map_or(0, |socket| socket.next_seq(now, from, (to, port), 0)))
            };
            self.send_in_fragments(now, &header, (stamp, seals), (payload, max), number, out);
            return Ok(());
        }
        let packet = assemble(&header, stamp, payload, seals, out);
        self.originate_made(now, &header, packet, out);
        Ok(())
    }

    /// Returns the scheme of a real-time flow whose client has set none, if packets are protected by more paths.
    fn scheme_of_protection(&self, to: NodeAddr, class: Class) -> Option<Scheme> {
        let is_by_paths = self.settings.realtime.aims.protect == Protect::Paths;
        let may_be = to.is_node() && to != self.addr && class.link == LinkProtocol::RealTime;
        // A client that routes by hops or by loss has chosen its path itself.
        let by_default = class.routing == Routing::ExpectedLatency;
        (is_by_paths && may_be && by_default).then_some(Scheme::Targeted)
    }

    /// Sends a packet of this node, as [`assemble`] makes it.
    pub(super) fn originate(
        &mut self,
        now: Time,
        header: &Repr,
        mut packet: Burst,
        out: &mut impl Outbox<Node>,
    ) {
        let mut destination = header.destination;
        if destination.is_multicast() {
            return self.originate_to_group(now, packet, out);
        }
        let routing = header.class.routing;
        if destination.is_anycast() {
            let nearest = metric(routing)
                .and_then(|metric| self.groups.nearest(destination, metric, &self.router));
            match nearest {
                Some(member) => destination = member,
                None => return drop_one(Drop::NoMember, out),
            }
        }
        if destination == self.addr {
            return self.deliver_run(now, Around::HOP, packet, out);
        }
        if is_unsealed(&packet) {
            match self.seal_to(now, destination, packet, out) {
                Some(sealed) => packet = sealed,
                None => return,
            }
        }
        if routing == Routing::Stamped {
            return self.send_copies(now, None, packet, out);
        }
        let hop = self
            .router
            .next_hop(&self.links, routing, destination, None);
        match hop {
            Err(reason) => drop_one(reason, out),
            Ok(index) => {
                if self.doubt.is_doubtful(now, self.links.at(index)) {
                    self.send_around(now, index, None, &packet, out);
                }
                self.send_run(now, index, packet, true, out);
            }
        }
    }

    /// The same for a packet for which there may have been no buffer.
    pub(super) fn originate_made(
        &mut self,
        now: Time,
        header: &Repr,
        packet: Option<Burst>,
        out: &mut impl Outbox<Node>,
    ) {
        match packet {
            Some(packet) => self.originate(now, header, packet, out),
            None => drop_one(Drop::NoBuffer, out),
        }
    }

    /// Returns the header of a message of this node to another one, which is not for a client.
    pub(super) fn message_header(&mut self, class: Class, to: NodeAddr) -> Repr {
        Repr {
            has_transport: true,
            ..own_header(class, (self.addr, PORT), (to, PORT), self.next_echo_seq())
        }
    }

    /// Answers a request for a packet of the real-time lane from its history. [Amir06 §IV-A]
    pub(super) fn retransmit(
        &mut self,
        now: Time,
        index: LinkIndex,
        seq: LaneSeq,
        strike: Strike,
        out: &mut impl Outbox<Node>,
    ) {
        let link = self.links.at_mut(index);
        if !link.carries() {
            return;
        }
        let (peer, way_there) = (link.peer, link.way_there());
        let rest = |to: NodeAddr| self.router.tables().latency_from(peer, to);
        let path = link.sure_place(now);
        let path = place_mut(&mut link.path, &mut link.spares, path);
        let mut answer = link.history.answer(now, seq, strike, way_there, rest);
        if let Some(brake) = &link.brake
            && !brake.allows_redundancy()
        {
            // If congestion drops a packet, it is sent again at most once. [Papadimitriou06 §6]
            answer = match answer {
                Answer::Send {
                    plaintext,
                    remaining,
                    ..
                } if strike.is_first() => Answer::Send {
                    plaintext,
                    remaining,
                    copies: 1,
                },
                _ => Answer::Throttled,
            };
        }
        send_again(now, (peer, path), answer, &mut link.counts, out);
    }

    /// Sends the second copies of answers whose time has come.
    pub(super) fn repeat(&mut self, now: Time, index: LinkIndex, out: &mut impl Outbox<Node>) {
        let link = self.links.at_mut(index);
        let path = link.sure_place(now);
        let path = place_mut(&mut link.path, &mut link.spares, path);
        while let Some(answer) = link.history.poll_repeat(now) {
            send_again(now, (link.peer, path), answer, &mut link.counts, out);
        }
    }

    /// Returns the number of the next packet that this node sends on its own behalf.
    pub(super) fn next_echo_seq(&mut self) -> FlowSeq {
        self.echo_seq = self.echo_seq.wrapping_add(1);
        FlowSeq(self.echo_seq)
    }
}

/// Makes a packet that is not sealed yet: room for the clear header, the header, the stamp if there is one, room for
/// the seal of this end if it `seals`, the payload, room for the tags. The burst holds the payload with room around it
/// for everything but the stamp; otherwise the payload is copied. `None` if there is no buffer for that.
pub(super) fn assemble(
    header: &Repr,
    stamp: &[u8],
    mut payload: Burst,
    seals: bool,
    out: &impl Outbox<Node>,
) -> Option<Burst> {
    let back = if seals {
        TAG_BYTES + SEAL_BACK
    } else {
        TAG_BYTES
    };
    let front = around_bytes(stamp, seals) - back;
    if !stamp.is_empty() || payload.headroom() < front {
        payload = out.pool().copy_of(front, payload.bytes())?;
    }
    payload.push_front(front);
    let len = payload.len();
    payload.fill(len + back, len + back);
    let packet = &mut payload.bytes_mut()[CLEAR_BYTES..];
    emit(header, seals, packet);
    if seals {
        packet[front - CLEAR_BYTES - SEAL_FRONT] = seal_kind(header).byte();
    }
    if !stamp.is_empty() {
        let (length, rest) = packet[HEADER_BYTES..].split_at_mut(EXTENSION_LENGTH_BYTES);
        length.copy_from_slice(&(stamp.len() as u16).to_be_bytes());
        rest[..stamp.len()].copy_from_slice(stamp);
    }
    Some(payload)
}

/// Makes a message of this node's own, like [`assemble`].
pub(super) fn message(
    header: &Repr,
    (stamp, seals): (&[u8], bool),
    bytes: &[u8],
    out: &impl Outbox<Node>,
) -> Option<Burst> {
    let payload = out.pool().copy_of(SEALED_HEADROOM, bytes)?;
    assemble(header, stamp, payload, seals, out)
}

/// Writes a packet's header, as it will be after this end has sealed the packet, if it `seals`.
pub(super) fn emit(header: &Repr, seals: bool, packet: &mut [u8]) {
    let has_transport = header.has_transport || seals;
    let header = Repr {
        has_transport,
        ..*header
    };
    header.emit(packet).expect("the header fits its headroom");
}

/// Returns the kind by which this end's seal describes the packet inside it.
pub(super) fn seal_kind(header: &Repr) -> Kind {
    match header.has_transport {
        true => Kind::Control,
        false => Kind::Data,
    }
}

/// Returns the bytes of a datagram that are not payload.
pub(super) fn around_bytes(stamp: &[u8], seals: bool) -> usize {
    let seal = if seals { SEAL_FRONT + SEAL_BACK } else { 0 };
    HEADROOM + extension_bytes(stamp) + seal + TAG_BYTES
}

/// Returns how many bytes a stamp takes from the payload.
pub(super) fn extension_bytes(stamp: &[u8]) -> usize {
    match stamp.len() {
        0 => 0,
        len => EXTENSION_LENGTH_BYTES + len,
    }
}

/// Sends a packet from the history, if that is the answer. The link's parts are borrowed separately from the history.
fn send_again(
    now: Time,
    (peer, path): (NodeAddr, &mut Path),
    answer: Answer<'_>,
    counts: &mut Counts,
    out: &mut impl Outbox<Node>,
) {
    let Answer::Send {
        plaintext,
        remaining,
        copies,
    } = answer
    else {
        return;
    };
    for _ in 0..copies {
        let Some(mut burst) = out.pool().copy_of(CLEAR_BYTES, plaintext) else {
            return drop_one(Drop::NoBuffer, out);
        };
        burst.set_mark(mark(Header::trusted(plaintext).class()));
        Header::trusted(burst.bytes_mut()).set_remaining(remaining);
        burst.push_front(CLEAR_BYTES);
        let len = burst.len() + TAG_BYTES;
        burst.fill(len, len);
        counts.own += u64::from(crate::ends::is_own(&Header::trusted(plaintext)));
        if path.sessions.seal(Kind::Data, burst.bytes_mut()).is_err() {
            return;
        }
        counts.data_out += 1;
        counts.data_out_bytes += len as u64;
        out.report(Event::Retransmitted {
            peer,
            packets: 1,
            bytes: len as u32,
        });
        path.transmit(now, burst, out);
    }
}

/// Returns the header of a packet that a node sends on its own behalf.
pub(super) fn own_header(
    class: Class,
    from: (NodeAddr, VirtualPort),
    to: (NodeAddr, VirtualPort),
    flow_seq: FlowSeq,
) -> Repr {
    Repr {
        class,
        ttl: Options::TTL_DEFAULT,
        has_extension: false,
        congested: false,
        recovered: false,
        has_transport: false,
        remaining: Remaining::NONE,
        source: from.0,
        destination: to.0,
        source_port: from.1,
        destination_port: to.1,
        flow_seq,
        lane_seq: LaneSeq::new(0),
    }
}

/// Returns the reply that reports whether there is room for a client's flow.
fn room(from: VirtualPort, (to, port): (NodeAddr, VirtualPort), is_there: bool) -> Reply {
    Reply::Room {
        from,
        to,
        port,
        is_there,
    }
}
