//! Handshakes and control datagrams: hellos, requests for lost packets, tail probes and records. The answers of a flush
//! to one link go into one control datagram, or a few if they do not fit.

use super::Node;
use super::receive::drop_one;
use crate::aims::{TOLD_AT_ONCE, Teller, key_of};
use crate::event::{Drop, Event};
use crate::hello::{self, State, Why};
use crate::link::{Link, LinkIndex, Made, Obstacle, Path, PathId, is_same_far_end};
use crate::realtime::{NACK_SEQS, Strike};
use base::{NodeAddr, Outbox, Time, UnderlayAddr};
use secure::{CertificateError, DialError, Due, Established, Outcome, Refusal};
use wire::control::{
    Builder, FlowAim, Hello, LaneReport, MESSAGE_HEADER_BYTES, Message, Messages, MtuAnswer,
};
use wire::link::SessionIndex;
use wire::{CLEAR_BYTES, TAG_BYTES};

/// The longest plaintext of a control datagram. With 8 + 16 bytes of seal and 48 of IPv6 and UDP it stays below the
/// 1500 bytes of Ethernet, and leaves room for the header of one more tunnel.
const MAX_CONTROL: usize = 1_400;
/// The plaintext of the longest record alone: message header (3), record header (5), body.
const RECORD_ALONE: usize = MESSAGE_HEADER_BYTES + 5 + wire::record::BODY_BYTES_MAX;
/// The most control datagrams per link and flush.
const MAX_DATAGRAMS_PER_FLUSH: usize = 8;

impl Node {
    pub(super) fn on_handshake(
        &mut self,
        now: Time,
        from: UnderlayAddr,
        datagram: &[u8],
        out: &mut impl Outbox<Node>,
    ) {
        let unix_s = self.trust.unix_s(now);
        let outcome = self.handshakes.on_datagram(now, unix_s, from, datagram);
        self.follow_roots(now, out);
        match outcome {
            Outcome::Reply(datagrams) => self.send_each_plain(from, &datagrams, out),
            Outcome::Cookie(bytes) => self.send_plain(from, &bytes, out),
            Outcome::Established(established) => self.on_established(now, *established, out),
            Outcome::Refused(why) => self.on_refused(now, from, why, out),
            Outcome::Failed {
                to, reason, reply, ..
            } => {
                self.send_each_plain(to, reply.as_slice(), out);
                self.on_refused(now, to, reason, out);
            }
        }
    }

    /// Takes in that a handshake has failed. If it was with an address at which a neighbour is dialled, this is why its
    /// link is not up. Otherwise it does not concern any link.
    fn on_refused(
        &mut self,
        now: Time,
        from: UnderlayAddr,
        why: Refusal,
        out: &mut impl Outbox<Node>,
    ) {
        out.report(Event::Refused { from, why });
        // These reasons are temporary, and another handshake continues.
        if matches!(why, Refusal::Crossed | Refusal::Stale) {
            return;
        }
        self.note_obstacle(now, from, Obstacle::Refused(why));
    }

    /// Notes why links that are dialled at an address are not up.
    fn note_obstacle(&mut self, now: Time, at: UnderlayAddr, what: Obstacle) {
        for index in self.links.indices() {
            let link = self.links.at_mut(index);
            // Handshakes use all sockets of this node, so the answer may come by a socket other than the one in the
            // place.
            let is_dialled = |place: &UnderlayAddr| is_same_far_end(*place, at);
            // A failure at a place that the neighbour has announced says nothing about a configured one. So if any
            // place is configured, only configured ones count.
            let configured = link.dial.into_iter().chain(link.dial_more.iter().copied());
            let mut places: Vec<UnderlayAddr> = configured.collect();
            if places.is_empty() {
                places = link.places(self.own_links.sockets());
            }
            if !link.is_up() && places.iter().any(is_dialled) {
                link.dialling.on_obstacle(now, what);
            }
        }
    }

    /// Dials the neighbours that are due to be dialled.
    pub(super) fn redial(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        let gets_none = self.links.are_without_datagrams();
        self.next_step = None;
        for index in self.links.indices() {
            let link = self.links.at_mut(index);
            let Some(to) = link.dialled_at() else {
                continue;
            };
            let peer = link.peer;
            if let Some(silence) = link.dialling.poll(now) {
                out.report(Event::Unanswered {
                    peer,
                    at: to,
                    silence,
                });
            }
            let silence = link.unanswered(now);
            // At an address that a member has announced, this node dials a stream only if it gets no datagrams from
            // anywhere: the member could name a port of a host that only this node can reach.
            let is_configured = matches!(link.made, Made::Hand | Made::First);
            let is_asked = gets_none || is_configured || !self.own_links.is_attempted(peer);
            if let Some(at) = link.dial
                && is_asked
                && link.fallback.asks(now, silence)
            {
                out.report(Event::NoDatagrams { peer, at });
            }
            let datagrams = link.dial.filter(|_| to.is_stream());
            if let Some(to) = datagrams.filter(|_| link.fallback.probes(now))
                && let Ok(init) = self.handshakes.dial(now, to, Some(peer))
            {
                self.send_plain(to, &init, out);
            }
            self.dial_places(now, index, out);
        }
    }

    /// Dials a neighbour at the next of its places, if it is due to be dialled.
    fn dial_places(&mut self, now: Time, index: LinkIndex, out: &mut impl Outbox<Node>) {
        let link = self.links.at_mut(index);
        let (peer, places) = (link.peer, link.places(self.own_links.sockets()));
        if link.wants_dial(now, places.len()) {
            // If there are other paths, the new session belongs to the path in use.
            let is_rekey = link.is_up() && !link.spares.is_empty();
            let turn = link.path.dials as usize;
            for i in 0..places.len() {
                let to = places[(turn + i) % places.len()];
                let init = match is_rekey {
                    true => self.handshakes.dial_further(now, to, peer),
                    false => self.handshakes.dial(now, to, Some(peer)),
                };
                let link = self.links.at_mut(index);
                match init {
                    Ok(init) => {
                        link.path.dialled = Some(now);
                        link.path.dials += 1;
                        link.dialling.on_dial(now);
                        self.send_plain(to, &init, out);
                        break;
                    }
                    // A dial that is in progress continues by itself.
                    Err(DialError::InProgress) => link.dialling.on_dial(now),
                    Err(DialError::TooMany) => break,
                }
            }
        }
        let step = self.links.at(index).next_step(now, places.len());
        self.next_step = self.next_step.into_iter().chain(step).min();
    }

    pub(super) fn drive_handshakes(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        for due in self.handshakes.on_timeout(now) {
            match due {
                Due::Send { to, datagram } => self.send_plain(to, &datagram, out),
                Due::GaveUp { .. } => {}
                Due::Unfinished { to, .. } => self.note_obstacle(now, to, Obstacle::Silent),
                Due::Unconfirmed { session, .. } => {
                    if let Some(index) = self.links.by_session(session) {
                        let link = self.links.at_mut(index);
                        if let Some(path) = link.path_with(session) {
                            path.sessions.remove(session);
                        }
                        if !link.is_up() {
                            link.dialling.on_obstacle(now, Obstacle::Silent);
                        }
                    }
                    self.drop_session(session);
                }
            }
        }
    }

    fn on_established(&mut self, now: Time, established: Established, out: &mut impl Outbox<Node>) {
        let Established {
            session,
            peer,
            from,
            reply,
            is_further,
            ..
        } = established;
        let address = peer.address();
        let link = match self.trust.is_outdated(&peer) {
            true => Err(CertificateError::OldRoot.into()),
            false => self.link_for(now, address, peer.name(), out),
        };
        let index = match link {
            Ok(index) => index,
            Err(why) => {
                self.handshakes.release(session.local_index());
                return out.report(Event::Refused { from, why });
            }
        };
        let local = session.local_index();
        let Some((id, ended)) = self.links.at_mut(index).path_for(now, from, is_further) else {
            self.handshakes.release(local);
            let why = Refusal::TooManyPaths(address);
            return out.report(Event::Refused { from, why });
        };
        self.handshakes.on_taken(from, address);
        let link = self.links.at(index);
        if link.path.id == id && !link.is_up() {
            // This place is the first that has answered.
            for place in link.places(self.own_links.sockets()) {
                self.handshakes.on_taken(place, address);
            }
        }
        self.release(ended);
        self.send_each_plain(from, &reply, out);
        // If a list of a stolen root had expelled one of the two, and it is admitted again, the neighbour may have
        // forgotten the records that it had confirmed. So this node sends them anew.
        if self.links.at(index).path.hello.state() != State::Up {
            self.flood
                .on_session_again(now, index, self.router.database());
        }
        let link = self.links.at_mut(index);
        link.name = peer.name().to_owned();
        if link.path.id == id {
            link.move_to(now, from);
        }
        let path = link.path_of_mut(id).expect("it was found just now");
        let evicted = path.sessions.install(now, session);
        path.hello.on_new_session(now);
        if let Some(old) = evicted {
            self.drop_session(old);
        }
        self.links.enter_session(local, index);
        self.note_way(now, index, out);
        self.on_peer_certificate(now, &peer, out);
        out.report(Event::Established {
            peer: address,
            at: from,
        });
        // The first sealed datagram confirms the session to the dialler.
        self.say_hello(now, index, id, out);
        self.links.touch(index);
    }

    /// Returns the link to a neighbour that has proved its identity, if it may be a neighbour.
    fn link_for(
        &mut self,
        now: Time,
        peer: NodeAddr,
        name: &str,
        out: &mut impl Outbox<Node>,
    ) -> Result<LinkIndex, Refusal> {
        let known = self.links.by_peer(peer);
        if let Some(index) = known.filter(|index| !self.links.at(*index).is_left) {
            return Ok(index);
        }
        if !self.own_links.accepts(peer, known.is_some()) {
            return Err(Refusal::NotAccepted(peer));
        }
        self.make_room(now, out);
        if let Some(index) = known {
            if !self.links.has_room() {
                return Err(Refusal::Full);
            }
            let link = self.links.at_mut(index);
            // The time that the link was down before does not count for the new start.
            (link.is_left, link.since) = (false, now);
            return Ok(index);
        }
        let link = Link::new(peer, name, &self.settings, self.boot, now);
        self.links.add(link).ok_or(Refusal::Full)
    }

    /// Ends the link to a neighbour with which there is no session any more, or must be none. If there is a session
    /// again, the link has to come up anew.
    pub(super) fn cut(
        &mut self,
        now: Time,
        index: LinkIndex,
        why: &'static str,
        out: &mut impl Outbox<Node>,
    ) {
        let link = self.links.at_mut(index);
        let peer = link.peer;
        let (was_up, carried) = (link.is_up(), link.carries());
        let mut ended = link.end_spares(now, |_| true);
        ended.extend(link.path.sessions.clear());
        link.path.at = None;
        link.down_why = Some(why);
        link.path.hello = hello::Hello::new(now, self.settings.hello);
        self.release(ended);
        if was_up {
            self.links.at_mut(index).counts.downs += 1;
            out.report(Event::LinkDown { peer, why });
            let (why, tried) = (Why::Closing, false);
            let event = hello::Event::Down { why, tried };
            self.links.at_mut(index).path.on_hello_event(now, event);
            self.on_link_changed(now, index, Some(event));
        } else if carried {
            self.on_link_changed(now, index, Some(hello::Event::GivenUp));
        }
    }

    pub(super) fn drop_session(&mut self, session: SessionIndex) {
        self.links.leave_session(session);
        self.handshakes.release(session);
    }

    fn send_each_plain(
        &mut self,
        to: UnderlayAddr,
        datagrams: &[Vec<u8>],
        out: &mut impl Outbox<Node>,
    ) {
        for datagram in datagrams {
            self.send_plain(to, datagram, out);
        }
    }

    pub(super) fn send_plain(
        &mut self,
        to: UnderlayAddr,
        bytes: &[u8],
        out: &mut impl Outbox<Node>,
    ) {
        match out.pool().copy_of(0, bytes) {
            Some(datagram) => out.send(to, datagram),
            None => drop_one(Drop::NoBuffer, out),
        }
    }

    pub(super) fn on_control(
        &mut self,
        now: Time,
        (index, path): (LinkIndex, PathId),
        plaintext: &[u8],
        out: &mut impl Outbox<Node>,
    ) {
        self.links.touch(index);
        for message in Messages::new(plaintext) {
            match message {
                Ok(Message::Hello(hello)) => self.on_hello(now, (index, path), &hello, out),
                Ok(Message::Nack(nack)) => {
                    let strike = Strike::from_wire(nack.strike);
                    for seq in nack.missing() {
                        self.retransmit(now, index, seq, strike, out);
                    }
                }
                Ok(Message::TailProbe(probe)) => {
                    let receiver = &mut self.links.at_mut(index).receiver;
                    receiver.on_tail_probe(now, probe.next);
                }
                Ok(Message::Repair(repair)) => {
                    let link = self.links.at_mut(index);
                    if link.carries() {
                        link.receiver.on_repair(now, &repair);
                        if link.receiver.has_found() {
                            self.found = Some(index);
                        }
                    }
                }
                Ok(Message::LaneReport(report)) => {
                    self.links.at_mut(index).on_lane_report(&report);
                }
                Ok(Message::Records(records)) => self.on_records(now, index, &records, out),
                Ok(Message::RecordAck(acks)) => self.on_record_acks(now, index, &acks),
                Ok(Message::ReliableAck(ack)) => {
                    self.links
                        .at_mut(index)
                        .reliable
                        .sender
                        .on_ack(now, self.waited, &ack);
                }
                Ok(Message::ReliableSkip(skip)) => {
                    self.links.at_mut(index).reliable.receiver.on_skip(skip);
                }
                Ok(Message::ReliableRate(rate)) => {
                    self.links.at_mut(index).reliable.sender.on_rate(rate);
                }
                Ok(Message::LaneHolds(holds)) => {
                    let sender = &mut self.links.at_mut(index).reliable.sender;
                    holds.holds().for_each(|hold| sender.on_hold(now, hold));
                }
                Ok(Message::MtuProbe(probe)) => self.answer_mtu(now, (index, path), probe, out),
                Ok(Message::MtuAnswer(MtuAnswer { number, bytes })) => {
                    let link = self.links.at_mut(index);
                    let before = link.path.mtu.usable();
                    if let Some(path) = link.path_of_mut(path) {
                        path.mtu.on_answer(now, number, bytes);
                    }
                    self.on_mtu(index, before, out);
                }
                Ok(Message::LinkDoubt(doubt)) => {
                    self.doubt.on_told(now, self.links.at(index).peer, doubt);
                }
                Ok(Message::GroupReport(report)) => self.on_group_report(now, index, &report),
                Ok(Message::SeenAt(endpoint)) => {
                    self.own_links
                        .on_seen_at(self.links.at(index).peer, endpoint);
                }
                Ok(Message::StreamSeenAt(seen)) => {
                    let peer = self.links.at(index).peer;
                    self.own_links.on_stream_seen_at(peer, seen);
                }
                Ok(Message::ClockOffset(clock)) => {
                    self.links.at_mut(index).clock_told = Some((clock, now));
                }
                Ok(Message::FlowAims(aims)) => {
                    let by = Teller::Neighbour(self.links.at(index).peer);
                    let aims = aims.iter().take(TOLD_AT_ONCE);
                    let aims = aims.filter(|aim| aim.source.0 != self.addr);
                    aims.for_each(|aim| self.aims.note(now, key_of(&aim), aim.aim, by));
                }
                Ok(Message::Unknown { .. }) => {}
                Err(_) => drop_one(Drop::Malformed, out),
            }
        }
    }

    fn on_hello(
        &mut self,
        now: Time,
        (index, id): (LinkIndex, PathId),
        hello: &Hello,
        out: &mut impl Outbox<Node>,
    ) {
        let link = self.links.at_mut(index);
        let is_spare = link.path.id != id;
        let restarted = link.peer_boot != Some(hello.boot);
        if restarted && is_spare {
            // A neighbour that has restarted begins with the path in use.
            return;
        }
        if restarted {
            // The neighbour has (re)started: the lanes in both directions begin anew. Other paths belong to the time
            // before its restart.
            link.peer_boot = Some(hello.boot);
            let (peer, start) = (link.peer, (hello.boot, link.path.at));
            self.note_start(now, peer, start, out);
            let link = self.links.at_mut(index);
            let event = link.path.hello.on_restart(now);
            link.reset_lanes(now);
            link.forget_clock();
            let ended = link.end_spares(now, |_| true);
            self.release(ended);
            self.on_hello_event(now, (index, id), event, out);
        }
        let link = self.links.at_mut(index);
        link.peer_knows_paths = hello.knows_paths;
        link.reliable.on_peer(hello.lets_wait);
        let Some(path) = link.path_of_mut(id) else {
            return;
        };
        let measured = path.hello.rtt().samples();
        let event = path.hello.on_hello(now, self.waited, hello);
        let is_answer = path.hello.rtt().samples() > measured;
        if !link.spares.is_empty() {
            link.watch_spares(now);
        }
        link.on_stamp(now - self.waited, id, hello.stamp_us, measured);
        if !is_spare {
            link.on_told(hello.arrived, hello.lost);
            if is_answer {
                link.on_answered(now, hello.echo.map(|echo| echo.stamp_us));
            }
        }
        link.peer_takes_repair = hello.takes_repair;
        link.peer_strikes = self.router.database().requests(link.peer, self.addr);
        link.weigh_copies(now);
        link.weigh_protection(now);
        if restarted && event.is_none() && link.is_up() {
            // The neighbour is back so soon that the link did not go down. It has forgotten the records that it had.
            self.flood.on_link_up(index, self.router.database());
        }
        self.on_hello_event(now, (index, id), event, out);
    }

    pub(super) fn on_link_timeout(
        &mut self,
        now: Time,
        index: LinkIndex,
        out: &mut impl Outbox<Node>,
    ) {
        let expire = |path: &mut Path| path.sessions.expire(now);
        loop {
            let ended = self.links.at_mut(index).paths_mut().find_map(expire);
            let Some(ended) = ended else { break };
            self.drop_session(ended);
        }
        let link = self.links.at(index);
        if link.path.sessions.is_empty() && link.carries() {
            if self.choose_path(now, index, out) {
                return;
            }
            // New handshakes have failed for long, for example because the neighbour's certificate has expired.
            return self.cut(now, index, "its session has ended", out);
        }
        let link = self.links.at_mut(index);
        link.paths_mut()
            .for_each(|path| path.release_impaired(now, out));
        if link.announce.next_timeout().is_some_and(|at| at <= now) {
            self.consider_cost(now, index);
        }
        // The loop uses the ids, because one path may take another's place meanwhile.
        for id in PathId::all() {
            self.on_path_timeout(now, index, id, out);
        }
        let link = self.links.at_mut(index);
        link.watch_spares(now);
        if link.path.is_doubtful(now) && self.watches_reach && link.is_in_doubt(now) {
            self.watch_others(now, index);
        }
    }

    /// Sends the hello that is due on a path, and checks its silence.
    fn on_path_timeout(
        &mut self,
        now: Time,
        index: LinkIndex,
        id: PathId,
        out: &mut impl Outbox<Node>,
    ) {
        let link = self.links.at_mut(index);
        let Some(path) = link.path_of(id) else {
            return;
        };
        if now < path.hello.next_timeout() || path.sessions.is_empty() {
            return;
        }
        let output = link.poll_hello(now, id);
        if let Some(hello) = output.hello {
            link.send_hello(now, id, &hello, out);
        }
        self.on_hello_event(now, (index, id), output.event, out);
    }

    /// Watches the other links closely, because a link that carries data is in doubt. If this node's own uplink has
    /// failed, the idle links have failed with it, and the node would notice that only seconds later.
    #[cold]
    fn watch_others(&mut self, now: Time, doubted: LinkIndex) {
        for index in self.links.indices().filter(|index| *index != doubted) {
            let link = self.links.at_mut(index);
            if link.is_up() {
                link.path.hello.watch_closely(now);
                self.links.touch(index);
            }
        }
    }

    fn on_hello_event(
        &mut self,
        now: Time,
        (index, path): (LinkIndex, PathId),
        event: Option<hello::Event>,
        out: &mut impl Outbox<Node>,
    ) {
        let event = self.settle_path(now, (index, path), event, out);
        let peer = self.links.at(index).peer;
        match event {
            None => return,
            Some(hello::Event::Up) => {
                self.links.at_mut(index).counts.ups += 1;
                out.report(Event::LinkUp { peer });
            }
            Some(hello::Event::GivenUp) => {}
            Some(hello::Event::Down { why, .. }) => {
                self.links.at_mut(index).on_down(now);
                let why = match why {
                    Why::Closing => "the neighbour is stopping",
                    Why::NotHeard => "the neighbour does not hear this node",
                    Why::Silence(_) => "silence",
                };
                self.links.at_mut(index).down_why = Some(why);
                out.report(Event::LinkDown { peer, why });
            }
        }
        self.on_link_changed(now, index, event);
        if let Some(hello::Event::Down {
            why: Why::Closing, ..
        }) = event
        {
            self.follow_end(now, index, out);
        }
        // A neighbour that has fallen silent may have restarted, and may wait to be dialled.
        self.redial(now, out);
    }

    /// Sends a hello at once, regardless of the interval.
    fn say_hello(
        &mut self,
        now: Time,
        index: LinkIndex,
        path: PathId,
        out: &mut impl Outbox<Node>,
    ) {
        let link = self.links.at_mut(index);
        if let Some(hello) = link.poll_hello(now, path).hello {
            link.send_hello(now, path, &hello, out);
        }
    }

    /// Tells the neighbours that this node is about to stop, twice each, because one message may be lost.
    pub(super) fn say_farewell(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        for index in self.links.indices() {
            self.say_farewell_to(now, index, out);
        }
    }

    pub(super) fn say_farewell_to(
        &mut self,
        now: Time,
        index: LinkIndex,
        out: &mut impl Outbox<Node>,
    ) {
        let link = self.links.at_mut(index);
        for _ in 0..2 {
            let (path, hello) = link.farewell(now);
            link.send_hello(now, path, &hello, out);
        }
    }

    /// Sends what is due on a link: requests, tail probes, acknowledgements and records.
    pub(super) fn flush_link(&mut self, now: Time, index: LinkIndex, out: &mut impl Outbox<Node>) {
        if self.links.at(index).path.at.is_none() {
            return;
        }
        self.probe_mtu(now, index, out);
        self.repeat(now, index, out);
        self.flush_repair(now, index, out);
        self.flush_requests(now, index, out);
        self.flush_reliable(now, index, out);
        for _ in 0..MAX_DATAGRAMS_PER_FLUSH {
            let mut bytes = [0; MAX_CONTROL];
            let link = self.links.at_mut(index);
            let fits = usize::from(link.sure_path(now).mtu.proven()) - CLEAR_BYTES - TAG_BYTES;
            let mut builder = Builder::new(&mut bytes[..fits.min(MAX_CONTROL)]);
            if let Some(probe) = link.history.on_timeout(now) {
                // An empty datagram always has room for a tail probe.
                let _ = builder.tail_probe(probe);
            }
            self.acknowledge(now, index, &mut builder);
            self.flood
                .fill(now, index, self.router.database(), &mut builder);
            let mut len = builder.len();
            if len == 0 && fits < MAX_CONTROL {
                // The longest records fit no shorter datagram, so the node sends them even if the path may not carry
                // this one.
                let mut builder = Builder::new(&mut bytes[..RECORD_ALONE]);
                self.flood
                    .fill(now, index, self.router.database(), &mut builder);
                len = builder.len();
            }
            if len == 0 {
                return;
            }
            self.links
                .at_mut(index)
                .send_control(now, &bytes[..len], out);
        }
    }

    fn flush_requests(&mut self, now: Time, index: LinkIndex, out: &mut impl Outbox<Node>) {
        let link = self.links.at_mut(index);
        let rtt = link.round_trip();
        let mut missing = [0; NACK_SEQS];
        while let Some((strike, count)) = link.receiver.poll_nack(now, rtt, &mut missing) {
            let mut bytes = [0; MAX_CONTROL];
            let mut builder = Builder::new(&mut bytes);
            // Requests of one call fit one datagram: see `NACK_SEQS`.
            let named = builder.nack(strike.wire(), &missing[..count]);
            debug_assert_eq!(named, Ok(count));
            let len = builder.len();
            link.send_control(now, &bytes[..len], out);
            out.report(Event::Requested {
                peer: link.peer,
                packets: count as u32,
            });
        }
    }
}

impl Link {
    fn send_hello(&mut self, now: Time, path: PathId, hello: &Hello, out: &mut impl Outbox<Node>) {
        if self.path.id == path {
            self.on_asked(now, hello.stamp_us);
        }
        const AIMS_BYTES: usize = TOLD_AT_ONCE * FlowAim::BYTES + MESSAGE_HEADER_BYTES;
        let mut bytes =
            [0; Hello::BYTES + LaneReport::BYTES + 2 * MESSAGE_HEADER_BYTES + AIMS_BYTES];
        let mut builder = Builder::new(&mut bytes);
        let mut is_written = builder.hello(hello).is_ok();
        if let Some(report) = self.lane_report(now) {
            is_written &= builder.lane_report(report).is_ok();
        }
        if self.path.id == path {
            self.told_aims
                .tell(now, |aim| builder.flow_aim(aim).is_ok());
        }
        let len = builder.len();
        if is_written {
            self.send_control_by(now, path, &bytes[..len], out);
        }
    }

    pub(super) fn send_control(
        &mut self,
        now: Time,
        plaintext: &[u8],
        out: &mut impl Outbox<Node>,
    ) {
        let path = self.sure_path(now).id;
        self.send_control_by(now, path, plaintext, out);
    }

    /// Sends a message about a path by that path.
    pub(super) fn send_control_by(
        &mut self,
        now: Time,
        path: PathId,
        plaintext: &[u8],
        out: &mut impl Outbox<Node>,
    ) {
        // Small slots have room for the longest control datagram: 8 + 1400 + 16 bytes.
        const { assert!(CLEAR_BYTES + MAX_CONTROL + TAG_BYTES <= base::pool::SMALL_BYTES) };
        match out.pool().copy_of(CLEAR_BYTES, plaintext) {
            Some(burst) => self.transmit_control_by(now, path, burst, out),
            None => drop_one(Drop::NoBuffer, out),
        }
    }
}
