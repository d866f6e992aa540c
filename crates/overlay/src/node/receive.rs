//! Receiving: from a burst of the underlay network to a verdict per packet, and onwards.
//!
//! Packets are judged one after the other, in place. Neighbouring packets of a burst with the same verdict stay
//! together as one run, so a burst with one destination leaves as one burst.

use super::Node;
use super::ends::{Around, Arrived, tag_of, whole_of};
use super::metric;
use super::stamped;
use crate::ends::is_own;
use crate::event::{Drop, Event};
use crate::flow::{self, FlowKey, Mark};
use crate::link::{LinkIndex, PathId, Received};
use crate::realtime::Arrival;
use crate::reliable as lane;
use crate::settings::Sealing;
use base::{Burst, Duration, Outbox, Time, UnderlayAddr};
use wire::data::{Header, LinkProtocol, Remaining, Routing};
use wire::link::{Clear, Kind, SessionIndex};
use wire::{CLEAR_BYTES, TAG_BYTES};

/// The result of judging a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Dropped, or handled on the spot.
    Done,
    /// For a client of this node, or for the node itself.
    Local,
    /// The same as `Local`, for a packet that was sealed from end to end and has been opened.
    Opened,
    /// For this node's clients in a group, and nobody else.
    Members,
    /// Onwards over this link.
    Forward(LinkIndex),
    /// Copies over some links, as the stamp says.
    Copies,
    /// Copies to the branches of a group's tree, and to the group's clients here; the flag says whether also on the
    /// links of second ways.
    Group(u32, bool),
    /// The same for copies that have arrived around a link in doubt.
    Around(u32),
    /// Copies along the edges of a group's shared tree, and to the group's clients here.
    Shared,
}

/// The content of a datagram.
enum Found {
    /// Nothing useful. The datagram has been counted.
    Nothing,
    /// A handshake with a neighbour.
    Handshake,
    /// Opened under a session of a link.
    Opened(LinkIndex, SessionIndex, Received),
}

impl Node {
    pub(super) fn on_datagrams(
        &mut self,
        now: Time,
        from: UnderlayAddr,
        mut burst: Burst,
        out: &mut impl Outbox<Node>,
    ) {
        let mut run = (Verdict::Done, 0);
        self.waited = burst.waited();
        for _ in 0..burst.segments() {
            let found = self.open(now, from, burst.segment_mut(run.1), out);
            // A datagram that is answered on the spot must not overtake the ones before it.
            if run.0 != Verdict::Done && self.is_answered(&found, burst.segment(run.1)) {
                let front = burst.split_front(run.1);
                self.dispatch(now, run.0, front, out);
                run = (Verdict::Done, 0);
            }
            let datagram = burst.segment_mut(run.1);
            let verdict = self.judge(now, from, found, datagram, out);
            if verdict != run.0 && run.1 > 0 {
                let front = burst.split_front(run.1);
                self.dispatch(now, run.0, front, out);
                run.1 = 0;
            }
            run = (verdict, run.1 + 1);
            if run.1 < burst.segments()
                && let Some(index) = self.found.take()
            {
                // Restored packets go before later ones, as if each datagram had arrived alone.
                let front = burst.split_front(run.1);
                self.dispatch(now, run.0, front, out);
                self.forward_found(now, index, out);
                run = (Verdict::Done, 0);
            }
        }
        self.dispatch(now, run.0, burst, out);
        if let Some(index) = self.found.take() {
            self.forward_found(now, index, out);
        }
    }

    pub(super) fn dispatch(
        &mut self,
        now: Time,
        verdict: Verdict,
        run: Burst,
        out: &mut impl Outbox<Node>,
    ) {
        match verdict {
            Verdict::Done => {}
            Verdict::Forward(link) => {
                if self.doubt.is_doubtful(now, self.links.at(link)) {
                    self.send_around(now, link, Some(self.came), &run, out);
                }
                self.send_run(now, link, run, false, out);
            }
            Verdict::Copies => self.send_copies(now, Some(self.came), run, out),
            Verdict::Group(slot, takes_second) => {
                self.send_group(now, (slot, takes_second), Some(self.came), run, out);
            }
            Verdict::Around(slot) => self.send_as_of_tree(now, slot, &run, out),
            Verdict::Shared => self.send_shared(now, false, run, out),
            Verdict::Members => self.deliver_group(now, run, out),
            Verdict::Local | Verdict::Opened => {
                let around = verdict.around().unwrap_or(Around::HOP);
                self.deliver_run(now, around, run, out);
            }
        }
    }

    /// Opens one datagram in place.
    fn open(
        &mut self,
        now: Time,
        from: UnderlayAddr,
        datagram: &mut [u8],
        out: &mut impl Outbox<Node>,
    ) -> Found {
        let clear = match Clear::parse(datagram) {
            Ok(clear) => clear,
            Err(_) => match Kind::of(datagram) {
                Ok(kind) if !kind.is_sealed() => return Found::Handshake,
                _ => {
                    drop_one(Drop::Malformed, out);
                    return Found::Nothing;
                }
            },
        };
        let Some(index) = self.links.by_session(clear.session) else {
            drop_one(Drop::UnknownSession, out);
            return Found::Nothing;
        };
        let link = self.links.at_mut(index);
        match link.open(now, from, clear.session, datagram) {
            Ok(opened) => Found::Opened(index, clear.session, opened),
            Err(reason) => {
                drop_one(reason, out);
                Found::Nothing
            }
        }
    }

    /// Returns true if judging the datagram sends something at once, or may do so.
    fn is_answered(&self, found: &Found, datagram: &[u8]) -> bool {
        match found {
            Found::Nothing => false,
            Found::Handshake => true,
            Found::Opened(_, _, opened) => match opened.kind {
                Kind::Data => self.is_end_handshake(&datagram[opened.plaintext.clone()]),
                _ => true,
            },
        }
    }

    /// Decides on a datagram.
    #[inline]
    fn judge(
        &mut self,
        now: Time,
        from: UnderlayAddr,
        found: Found,
        datagram: &mut [u8],
        out: &mut impl Outbox<Node>,
    ) -> Verdict {
        let (index, session, opened) = match found {
            Found::Opened(index, session, opened) => (index, session, opened),
            Found::Handshake => {
                self.on_handshake(now, from, datagram, out);
                return Verdict::Done;
            }
            Found::Nothing => return Verdict::Done,
        };
        self.came = index;
        if opened.confirms {
            self.handshakes.on_confirmed(session);
        }
        if opened.moved {
            self.on_moved(now, index, from, out);
        }
        if opened.alarmed {
            self.own_record.alarm(now);
        }
        let plaintext = &mut datagram[opened.plaintext];
        match opened.kind {
            Kind::Data => settle(
                self.judge_packet(now, (index, opened.path), plaintext, out),
                out,
            ),
            _ => {
                self.on_control(now, (index, opened.path), plaintext, out);
                Verdict::Done
            }
        }
    }

    /// Decides on a packet whose plaintext is available, and rewrites its header for the next hop.
    fn judge_packet(
        &mut self,
        now: Time,
        (index, path): (LinkIndex, PathId),
        packet: &mut [u8],
        out: &mut impl Outbox<Node>,
    ) -> Result<Verdict, Drop> {
        let len = packet.len();
        let header = Header::parse(&*packet).map_err(|_| Drop::Malformed)?;
        let class = header.class();
        let link = self.links.at_mut(index);
        if !link.carries() {
            // A neighbour that has not noticed this node's restart yet continues the former lane numbers. They must not
            // be taken for numbers of the new lane.
            return Err(Drop::LinkDown);
        }
        link.on_data_received(now, path, (is_own(&header), len));
        let (way_here, way_there) = (link.way_here_by(path), link.way_there());
        // The time that the packet waited in this host's own socket is not the path's fault: the program that plays it
        // decides.
        let remaining = left_after(header.remaining(), way_here);
        match class.link {
            LinkProtocol::BestEffort => {}
            LinkProtocol::RealTime => {
                let (to, came) = (header.destination(), link.peer);
                let router = &self.router;
                let in_time = remaining
                    .duration()
                    .map(|left| left - (way_here + way_there));
                let rest = || router.rest(came, to, in_time);
                let seq = header.lane_seq();
                let arrival = match header.is_recovered() {
                    true => link.receiver.on_repaired(now, seq, rest),
                    false => link.receiver.on_packet(now, seq, remaining, rest),
                };
                if arrival == Arrival::New && link.receiver.wants_originals(now) {
                    link.receiver.keep(now, seq, packet);
                    if link.receiver.has_found() {
                        self.found = Some(index);
                    }
                }
                match arrival {
                    Arrival::New => {}
                    Arrival::Recovered { after, .. } => {
                        Header::trusted(&mut *packet).set_recovered();
                        let after_us = u32::try_from(after.as_micros()).unwrap_or(u32::MAX);
                        out.report(Event::Recovered {
                            peer: link.peer,
                            after_us,
                        });
                    }
                    Arrival::Duplicate | Arrival::TooOld => return Err(Drop::Duplicate),
                }
            }
            LinkProtocol::Reliable => {
                // The sender of a duplicate is due another acknowledgement.
                self.links.touch(index);
                let seq = header.lane_seq();
                let link = self.links.at_mut(index);
                let rtt = link.rtt();
                link.reliable.receiver.measure(now, len, rtt);
                match link.reliable.receiver.on_packet(now, self.waited, seq) {
                    lane::Arrival::New | lane::Arrival::Recovered => {}
                    lane::Arrival::Duplicate => return Err(Drop::Duplicate),
                    lane::Arrival::Beyond => return Err(Drop::BeyondWindow),
                }
            }
        }
        self.links.touch(index);
        Header::trusted(&mut *packet).set_remaining(remaining);
        self.judge_flow(now, packet, out)
    }

    /// Decides on a packet that the arriving link has accepted, and whose remaining time is up to date.
    pub(super) fn judge_flow(
        &mut self,
        now: Time,
        packet: &mut [u8],
        out: &mut impl Outbox<Node>,
    ) -> Result<Verdict, Drop> {
        let len = packet.len();
        let mut header = Header::trusted(&mut *packet);
        let routing = header.class().routing;
        let (source, destination) = (header.source(), header.destination());
        let is_stamped = routing == Routing::Stamped;
        if destination.is_multicast() && header.has_extension() && !is_stamped {
            // This also happens at the source: an edge between other nodes may lead through it.
            if let Some(verdict) = self.judge_passing(&mut header)? {
                return Ok(verdict);
            }
        }
        if !source.is_node() || source == self.addr {
            // A flood returns to its source.
            return Err(match is_stamped && source == self.addr {
                true => Drop::Duplicate,
                false => Drop::BadSource,
            });
        }
        // A restored packet has not arrived by a link.
        if is_stamped && !self.end_repairs.is_restoring() {
            let came = self.links.at(self.came).peer;
            // This check comes before the flow's: a bad copy must not make a duplicate of a good one.
            stamped::check(header.extension(), destination, self.addr, came)?;
        }
        if !destination.is_node() && !self.router.permits().may_send(source, destination) {
            return Err(Drop::NotPermitted);
        }
        // This check comes before the flow's: a packet that its source has not sealed must not count in place of one
        // that it has.
        let is_flood = is_stamped && stamped::is_flood(&header);
        let (mut packet, mut arrived) = (packet, Verdict::Local);
        let mut tag = None;
        if destination == self.addr {
            match self.judge_arrival(now, packet, out)? {
                Arrived::Plain => {}
                Arrived::Opened => {
                    let end = len - TAG_BYTES;
                    packet = &mut packet[CLEAR_BYTES..end];
                    arrived = Verdict::Opened;
                }
                Arrived::Done => return Ok(Verdict::Done),
            }
        } else if self.settings.sealing != Sealing::Off
            && destination.is_multicast()
            && self.groups.receives(destination, &self.router)
        {
            return self.judge_received(now, packet);
        } else if !is_flood {
            tag = tag_of(packet);
        }
        let header = Header::trusted(&*packet);
        let key = FlowKey {
            source,
            source_port: header.source_port(),
            destination,
            destination_port: header.destination_port(),
        };
        let local = destination == self.addr
            || destination.is_anycast() && self.groups.receives(destination, &self.router);
        let toward = match destination.is_anycast() && !local {
            true => metric(routing).and_then(|metric| self.router.nearest(destination, metric)),
            false => Some(destination),
        };
        // The node before this one wrote the time left: a late copy must not make a duplicate of one in time.
        if tag.is_some() && header.remaining().is_expired() {
            self.flows.on_expired(now, key);
            return Err(Drop::Expired);
        }
        // The same holds for the time to live: a copy that ends here must not make a duplicate of one that goes on.
        if tag.is_some() && !local && ends_here(&header) {
            drop_one(Drop::TtlExceeded, out);
            if !destination.is_multicast() {
                self.answer_ttl_exceeded(now, packet, out);
            }
            return Ok(Verdict::Done);
        }
        let seq = header.flow_seq();
        // A reliable link can recover packets that others of their flow overtook by seconds.
        let is_late = header.class().link == LinkProtocol::Reliable;
        // While a tree changes, copies arrive by the old and by the new branch.
        let is_spread = is_stamped || destination.is_multicast();
        let (verdict, flow) = match (tag, is_late, is_spread) {
            (Some(tag), _, _) => {
                let whole = || whole_of(&self.marks, packet);
                let mark = Mark {
                    tag,
                    is_final: false,
                    whole,
                };
                self.flows.on_marked(now, key, (seq, mark), len)
            }
            (None, true, _) => self.flows.on_reliable(now, key, seq, len),
            (None, _, true) => self.flows.on_stamped(now, key, seq, len),
            (None, false, false) => self.flows.on_packet(now, key, seq, len),
        };
        let mut header = Header::trusted(&mut *packet);
        if verdict != flow::Verdict::New {
            return Err(Drop::Duplicate);
        }
        flow.class = header.class();
        flow.expect_repairs(header.remaining().duration());
        flow.recovered += u64::from(header.is_recovered());
        if header.remaining().is_expired() {
            flow.expired += 1;
            return Err(Drop::Expired);
        }
        if local {
            return Ok(arrived);
        }
        if destination.is_multicast() {
            return self.groups.judge(now, packet, (&self.router, &self.links));
        }
        let ttl = header.ttl();
        if ttl <= 1 {
            drop_one(Drop::TtlExceeded, out);
            self.answer_ttl_exceeded(now, packet, out);
            return Ok(Verdict::Done);
        }
        header.set_ttl(ttl - 1);
        if is_stamped {
            return self.judge_stamped(&header, out);
        }
        let toward = toward.ok_or(Drop::NoMember)?;
        let cached = Some(&mut flow.cached);
        let mut link = self.router.next_hop(&self.links, routing, toward, cached)?;
        if link == self.came {
            // The packet came from there: while routes change, two nodes can each regard the other as the next hop. The
            // other node would drop it as a duplicate.
            let other =
                self.doubt
                    .way_on(now, link, (routing, toward), (&self.router, &self.links));
            link = other.ok_or(Drop::Loop)?;
        }
        Ok(Verdict::Forward(link))
    }
}

/// Returns the verdict on a packet. A packet that is to be dropped is counted.
#[inline]
pub(super) fn settle(judged: Result<Verdict, Drop>, out: &mut impl Outbox<Node>) -> Verdict {
    judged.unwrap_or_else(|reason| {
        drop_one(reason, out);
        Verdict::Done
    })
}

/// Counts a packet that goes no farther.
pub(super) fn drop_one(reason: Drop, out: &mut impl Outbox<Node>) {
    drop_some(reason, 1, out);
}

/// The same for several.
pub(super) fn drop_some(reason: Drop, packets: u32, out: &mut impl Outbox<Node>) {
    out.report(Event::Dropped { reason, packets });
}

/// Returns true if no node behind this one is to get the packet. Along the edges of a shared tree, the time to live
/// does not limit passing on.
pub(super) fn ends_here<B: AsRef<[u8]>>(header: &Header<B>) -> bool {
    let is_of_edge = header.has_extension() && header.class().routing != Routing::Stamped;
    header.ttl() <= 1 && !is_of_edge
}

/// Returns what is left of a packet's time after the way to here. A packet that may still be in time keeps the smallest
/// value that the header can express: it is delivered, or goes one more hop.
///
/// Choice: a packet may be in time if half of the delay would be short enough. For a link that has always been longer
/// in one direction, the node knows only the round trip, and by plain UDP the packet would have arrived.
fn left_after(left: Remaining, way_here: Duration) -> Remaining {
    let after = left.minus(way_here);
    match after.is_expired() && !left.minus(way_here.div(2)).is_expired() {
        true => Remaining(1),
        false => after,
    }
}
