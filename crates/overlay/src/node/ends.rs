//! Sealing from end to end, at the node: which packets are sealed, which are accepted unsealed, and the transport of
//! the handshakes. [`crate::ends`] has the sessions.
//!
//! Packets from one node to another are sealed, if both can do so: datagrams, streams, the node's own reports. Two
//! kinds are not sealed: echoes, which nodes on the path also answer, and packets to anycast addresses, whose receiver
//! the entry does not know. `groups::keys` seals packets to groups.

use super::Node;
use super::receive::{Verdict, drop_one, drop_some, settle};
use super::send::{around_bytes, message};
use crate::audit::WayId;
use crate::ends::{Opened, Sealed, has_seal};
use crate::event::{Drop, Event};
use crate::flow::FlowKey;
use crate::request::RequestError;
use crate::settings::Sealing;
use crate::snapshot::EndStatus;
use base::{Burst, NodeAddr, Outbox, Time, VirtualPort};
use secure::{Established, Outcome, PacketMarks, Refusal, Session};
use wire::data::{Class, Header, LinkProtocol, Routing};
use wire::{CLEAR_BYTES, HEADER_BYTES, TAG_BYTES, echo, link, transport};

/// The class of handshakes of ends: hops recover them, and they have precedence over the packets that wait for them.
pub(super) const CLASS: Class = Class {
    link: LinkProtocol::RealTime,
    routing: Routing::ExpectedLatency,
    priority: 6,
};
/// The result of judging a packet for this node, before its flow notes it.
pub(super) enum Arrived {
    /// The packet is unsealed, as its source sent it, and may be believed.
    Plain,
    /// The packet was sealed by its source. It now begins later and ends earlier.
    Opened,
    /// The packet has been handled.
    Done,
}

impl Node {
    /// Returns true if packets from these ports to another node are to be sealed.
    pub(super) fn seals_to(&self, to: NodeAddr, ports: (VirtualPort, VirtualPort)) -> bool {
        self.settings.sealing != Sealing::Off
            && to != self.addr
            && to.is_node()
            && ports.0 != echo::PORT
            && ports.1 != echo::PORT
            && self.is_end(to)
    }

    /// Returns true if a node opens packets sealed for it, and seals what it sends to this node.
    fn is_end(&self, node: NodeAddr) -> bool {
        // While nothing is known of the node, the existing session continues.
        self.router.database().seals(node)
            || self.router.database().links_of(node).is_none() && self.ends.has_session(node)
    }

    /// Checks whether a client may send to an address that might only be reachable without sealing.
    pub(super) fn check_can_seal(
        &mut self,
        to: NodeAddr,
        port: VirtualPort,
    ) -> Result<(), RequestError> {
        if self.settings.sealing != Sealing::Always {
            return Ok(());
        }
        let is_fine = match to.is_multicast() {
            true => self.groups.seals(to, &self.router),
            false => to == self.addr || port == echo::PORT || to.is_node() && self.is_end(to),
        };
        is_fine.then_some(()).ok_or(RequestError::Unsealed)
    }

    /// Seals packets of this node for their exit. `None` if they wait or are dropped.
    pub(super) fn seal_to(
        &mut self,
        now: Time,
        to: NodeAddr,
        packets: Burst,
        out: &mut impl Outbox<Node>,
    ) -> Option<Burst> {
        let count = packets.segments() as u32;
        // Without a path to the exit, a handshake would only find that out later.
        if !self.ends.has_session(to) && !self.router.has_way(to) {
            drop_some(Drop::NoRoute, count, out);
            return None;
        }
        let way = self.natural_way(now, to, &packets);
        let packets = self.divert(now, to, way, packets, out)?;
        self.seal_noted(now, to, packets, way, out)
    }

    /// The same for packets that take this path, whatever is known about it.
    pub(super) fn seal_noted(
        &mut self,
        now: Time,
        to: NodeAddr,
        packets: Burst,
        way: Option<WayId>,
        out: &mut impl Outbox<Node>,
    ) -> Option<Burst> {
        let count = packets.segments() as u32;
        let note = self.note_of(to, way, &packets);
        match self.ends.seal(now, to, packets, out.pool()) {
            Sealed::Ready(packets, counters) => {
                self.audits.note(now, to, note.sealed(counters, count));
                self.cover_to_end(now, to, &packets, counters);
                return Some(packets);
            }
            Sealed::Waits(Some(init)) => self.send_handshake(now, to, &init, out),
            Sealed::Waits(None) => {}
            Sealed::Dropped(reason) => {
                drop_some(reason, count, out);
            }
        }
        None
    }

    /// Returns true if a packet is a handshake with this node, which is answered as soon as it is judged.
    pub(super) fn is_end_handshake(&self, packet: &[u8]) -> bool {
        let is_handshake = |payload: &[u8]| {
            let kind = transport::Kind::of(payload);
            matches!(kind, Ok(transport::Kind::End(kind)) if !kind.is_sealed())
        };
        Header::parse(packet).is_ok_and(|header| {
            header.has_transport()
                && header.destination() == self.addr
                && is_handshake(header.payload())
        })
    }

    /// Judges a packet for this node: opens it, or decides whether it may be believed as it is.
    pub(super) fn judge_arrival(
        &mut self,
        now: Time,
        packet: &mut [u8],
        out: &mut impl Outbox<Node>,
    ) -> Result<Arrived, Drop> {
        let header = Header::trusted(&*packet);
        let source = header.source();
        let transport = header
            .has_transport()
            .then(|| transport::Kind::of(header.payload()));
        match transport {
            Some(Ok(transport::Kind::End(kind))) if kind.is_sealed() => {
                let noted = self.end_repairs.note(now, source, packet);
                let opened = self.ends.open(now, source, packet);
                if let (Ok(_), Some(noted)) = (&opened, noted) {
                    self.end_repairs.on_opened(now, source, noted);
                    self.forward_restored(now, source, out);
                }
                match opened {
                    Ok(Opened::Packet) => Ok(Arrived::Opened),
                    Ok(Opened::Nothing) => Ok(Arrived::Done),
                    Err(Drop::EndNoSession) => {
                        let from = (source, self.came);
                        if self.ends.keep_early(now, from, packet, out.pool()) {
                            return Ok(Arrived::Done);
                        }
                        self.ask_end(now, source, packet, out);
                        Err(Drop::EndNoSession)
                    }
                    Err(reason) => {
                        if reason == Drop::Duplicate {
                            if let Some(noted) = noted {
                                self.end_repairs.on_duplicate(source, noted);
                            }
                            self.flows
                                .on_duplicate(FlowKey::of(&Header::trusted(&*packet)));
                        }
                        Err(reason)
                    }
                }
            }
            Some(Ok(transport::Kind::End(_))) => {
                let at = header.payload_offset();
                // A handshake that had to be sent by two paths is answered by two paths.
                let is_doubled = header.class().routing == Routing::Stamped;
                self.on_end_handshake(now, (source, is_doubled), &packet[at..], out);
                Ok(Arrived::Done)
            }
            _ if self.believes(&header) => Ok(Arrived::Plain),
            _ => Err(Drop::EndUnsealed),
        }
    }

    /// Returns true if an unsealed packet may be from the source that it names: the source does not seal, or the packet
    /// is an echo or the answer to one, which nodes on the path must read.
    fn believes(&self, header: &Header<&[u8]>) -> bool {
        let is_echo = || {
            let echo = echo::Echo::parse(header.payload()).map(|echo| echo.kind);
            match echo {
                Ok(echo::Kind::Request) => header.destination_port() == echo::PORT,
                Ok(_) => header.source_port() == echo::PORT,
                Err(_) => false,
            }
        };
        match self.settings.sealing {
            Sealing::Off => true,
            Sealing::On if !self.is_end(header.source()) => true,
            Sealing::On | Sealing::Always => !header.has_transport() && is_echo(),
        }
    }

    fn ask_end(&mut self, now: Time, of: NodeAddr, packet: &[u8], out: &mut impl Outbox<Node>) {
        if self.settings.sealing != Sealing::Off
            && self.router.database().seals(of)
            && let Some(init) = self.ends.ask(now, of, packet)
        {
            self.send_handshake(now, of, &init, out);
        }
    }

    fn on_end_handshake(
        &mut self,
        now: Time,
        (source, is_doubled): (NodeAddr, bool),
        datagram: &[u8],
        out: &mut impl Outbox<Node>,
    ) {
        if self.settings.sealing == Sealing::Off {
            return drop_one(Drop::Unsupported, out);
        }
        let unix_s = self.trust.unix_s(now);
        let outcome = self.ends.on_handshake(now, unix_s, source, datagram);
        self.follow_roots(now, out);
        match outcome {
            Outcome::Reply(datagrams) => {
                for bytes in &datagrams {
                    self.send_shaking(now, (source, is_doubled), bytes, out);
                }
            }
            Outcome::Cookie(bytes) => self.send_shaking(now, (source, is_doubled), &bytes, out),
            Outcome::Established(established) => {
                self.on_end_established(now, (source, is_doubled), *established, out);
            }
            Outcome::Refused(Refusal::Stale) if self.ends.knows_finished(source, datagram) => {
                self.confirm_end(now, source, out);
            }
            Outcome::Refused(why) => self.on_end_refused(now, source, why, out),
            Outcome::Failed { reason, reply, .. } => {
                if let Some(bytes) = reply {
                    self.send_shaking(now, (source, is_doubled), &bytes, out);
                }
                self.on_end_refused(now, source, reason, out);
            }
        }
    }

    /// A handshake has led to nothing. If one of the two nodes requires what the other does not offer, no packet needs
    /// to wait.
    fn on_end_refused(
        &mut self,
        now: Time,
        source: NodeAddr,
        why: Refusal,
        out: &mut impl Outbox<Node>,
    ) {
        drop_one(Drop::EndHandshake, out);
        // The source has proved its identity: no node can claim this on behalf of another.
        if ![Refusal::NotHybrid(source), Refusal::HybridAlone(source)].contains(&why) {
            return;
        }
        let (packets, is_news) = self.ends.on_apart(now, source, why);
        if packets > 0 {
            drop_some(Drop::EndClassic, packets, out);
        }
        if is_news {
            out.report(Event::EndRefused { node: source, why });
        }
    }

    fn on_end_established(
        &mut self,
        now: Time,
        (source, is_doubled): (NodeAddr, bool),
        established: Established,
        out: &mut impl Outbox<Node>,
    ) {
        let Established {
            session,
            peer,
            reply,
            ..
        } = established;
        let is_unconfirmed = session.is_unconfirmed();
        // A node that sends in the name of another shows its own certificate here.
        if peer.address() != source || self.trust.is_outdated(&peer) {
            self.ends.release(session.local_index());
            return drop_one(Drop::BadSource, out);
        }
        let had_session = self.ends.has_session(source);
        let boot = self.router.database().boot_of(source);
        if !self.ends.install(now, (source, boot), session) {
            return drop_one(Drop::EndHandshake, out);
        }
        for bytes in &reply {
            self.send_shaking(now, (source, is_doubled), bytes, out);
        }
        if !is_unconfirmed {
            self.confirm_end(now, source, out);
            self.judge_early(now, source, out);
        }
        // Packets to an end that had forgotten its session have not arrived.
        self.streams.touch_if(|stream| {
            let concerned = had_session && stream.key.peer == source;
            if concerned {
                stream.on_end_change(now);
            }
            concerned
        });
        for (since, mut burst) in self.ends.take_waiting(source) {
            let waited = now.since(since);
            for i in 0..burst.segments() {
                let mut header = Header::trusted(&mut burst.segment_mut(i)[CLEAR_BYTES..]);
                header.set_remaining(header.remaining().minus(waited));
            }
            let header = Header::trusted(&burst.segment(0)[CLEAR_BYTES..]).repr();
            self.originate(now, &header, burst, out);
        }
    }

    /// Judges packets that arrived before the handshake was finished.
    fn judge_early(&mut self, now: Time, source: NodeAddr, out: &mut impl Outbox<Node>) {
        for early in self.ends.take_early(source) {
            let (mut datagram, waited) = (early.packet, now.since(early.at));
            let end = datagram.len() - TAG_BYTES;
            let packet = &mut datagram.bytes_mut()[CLEAR_BYTES..end];
            let mut header = Header::trusted(&mut *packet);
            header.set_remaining(header.remaining().minus(waited));
            let came = core::mem::replace(&mut self.came, early.came);
            let verdict = settle(self.judge_flow(now, packet, out), out);
            self.came = came;
            self.dispatch(now, verdict, datagram, out);
        }
    }

    /// Sends an empty packet under a new session, to show that this end has it.
    fn confirm_end(&mut self, now: Time, to: NodeAddr, out: &mut impl Outbox<Node>) {
        let header = self.message_header(CLASS, to);
        let empty = message(&header, (&[], true), &[], out);
        self.originate_made(now, &header, empty, out);
    }

    pub(super) fn send_handshake(
        &mut self,
        now: Time,
        to: NodeAddr,
        datagram: &[u8],
        out: &mut impl Outbox<Node>,
    ) {
        self.send_shaking(now, (to, false), datagram, out);
    }

    /// The same, by two paths at once if `is_doubled` and if the datagram is not too long for that.
    fn send_shaking(
        &mut self,
        now: Time,
        (to, is_doubled): (NodeAddr, bool),
        datagram: &[u8],
        out: &mut impl Outbox<Node>,
    ) {
        let mut header = self.message_header(CLASS, to);
        let usable = usize::from(self.router.usable_to(Routing::Stamped, to));
        let fits = |stamp: &[u8]| around_bytes(stamp, false) + datagram.len() <= usable;
        let stamp = match is_doubled {
            true => self.disjoint_stamp(now, to).filter(|stamp| fits(stamp)),
            false => None,
        };
        let stamp = stamp.unwrap_or_default();
        if !stamp.is_empty() {
            (header.class.routing, header.has_extension) = (Routing::Stamped, true);
        }
        let packet = message(&header, (stamp, false), datagram, out);
        self.originate_made(now, &header, packet, out);
    }

    /// Sends repetitions of handshakes, and drops packets that have waited for one in vain.
    pub(super) fn drive_ends(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        if self.ends.take_look(now) {
            self.prepare_ends(now, out);
        }
        let (due, in_vain) = self.ends.on_timeout(now);
        for (to, datagram) in due {
            // No answer has arrived: a relay may have dropped the handshake.
            let is_doubled = self.settings.audit;
            self.send_shaking(now, (to, is_doubled), &datagram, out);
        }
        if in_vain > 0 {
            drop_some(Drop::EndNoSession, in_vain, out);
        }
    }

    /// Slow housekeeping of sessions.
    pub(super) fn tend_ends(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        let database = self.router.database();
        for (to, init) in self.ends.tend(now, |node| database.seals(node)) {
            self.send_handshake(now, to, &init, out);
        }
    }

    /// Returns why there can be no session with a node.
    pub(super) fn refused_end(&self, now: Time, node: NodeAddr) -> Option<String> {
        let why = self.ends.apart(now, node);
        why.filter(|_| !self.ends.has_session(node))
            .map(|why| why.to_string())
    }

    /// Returns how packets are sealed, for each node with which this node communicates or could.
    pub(super) fn end_statuses(&self, now: Time) -> Vec<EndStatus> {
        let mut nodes = self.ends.nodes();
        nodes.extend(
            self.router
                .database()
                .nodes()
                .filter(|node| *node != self.addr),
        );
        nodes.sort_unstable();
        nodes.dedup();
        let status = |node: NodeAddr| {
            let (session, counts) = self.ends.status(node).unzip();
            let counts = counts.unwrap_or_default();
            let (repair, restored) = self.end_repairs.status(node);
            EndStatus {
                node: node.to_string(),
                seals: self.router.database().seals(node),
                session_age_s: session.map(|it| now.since(it.established()).as_secs_f64()),
                post_quantum: session.is_some_and(Session::is_hybrid),
                reason: self.refused_end(now, node),
                sealed: counts.sealed,
                opened: counts.opened,
                refused: counts.refused,
                repair,
                restored,
            }
        };
        nodes.into_iter().map(status).collect()
    }
}

impl Verdict {
    /// Returns the bytes around a packet for this node in its datagram.
    pub(super) fn around(self) -> Option<Around> {
        match self {
            Verdict::Local => Some(Around::HOP),
            Verdict::Opened => Some(Around::END),
            _ => None,
        }
    }
}

/// The bytes before and behind a packet in its datagram: those of the hop's seal, and of the end's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around {
    pub(super) front: usize,
    pub(super) back: usize,
}

impl Around {
    /// Returns true if the packet was sealed by its source.
    pub(super) fn is_end(self) -> bool {
        self.front > Around::HOP.front
    }

    /// The seal of the last hop only.
    pub(super) const HOP: Around = Around {
        front: CLEAR_BYTES,
        back: TAG_BYTES,
    };
    /// The seal of the last hop and that of the entry.
    pub(super) const END: Around = Around {
        front: CLEAR_BYTES + crate::ends::SEAL_FRONT,
        back: TAG_BYTES + crate::ends::SEAL_BACK,
    };
}

/// Returns true if the first packet of a run was laid out to be sealed.
pub(super) fn is_unsealed(run: &Burst) -> bool {
    has_seal(&Header::trusted(&run.segment(0)[CLEAR_BYTES..]))
}

/// Returns the tag by which relays recognize a packet that was sealed from end to end. Together with the mark of the
/// whole packet it covers all bytes that no hop changes. A copy that somebody has changed is another packet, so it does
/// not harm the one from the source. Unsealed packets are recognized only by their numbers, which anybody can write.
#[inline]
pub(super) fn tag_of(packet: &[u8]) -> Option<u32> {
    let header = Header::trusted(packet);
    let at = header.payload_offset();
    let first = packet.get(at).filter(|_| header.has_transport())?;
    let tail: &[u8; 4] = packet.last_chunk()?;
    // Repetitions of a handshake are identical, except for their numbers.
    (first >> 4 == link::VERSION)
        .then(|| u32::from_be_bytes(*tail) ^ header.flow_seq().0.rotate_left(16))
}

/// Returns the mark of the whole packet. See [`tag_of`].
pub(super) fn whole_of(marks: &PacketMarks, packet: &[u8]) -> u32 {
    let header = Header::trusted(packet);
    // A stamp stays unchanged. Other extensions belong to one edge only.
    let from = match header.class().routing {
        Routing::Stamped => HEADER_BYTES,
        _ => header.payload_offset(),
    };
    marks.of(header.class_byte(), &header.bound(), &packet[from..])
}
