//! One end of a stream: its life, and both halves.
//!
//! ```text
//!   initiator   Calling ── SYN ──▶             Waiting   acceptor: the listener is told
//!                  │                              │ accepted
//!                Open   ◀── SYN ACK (and bytes) ─ Open     until the initiator has answered, all that
//!                  │  ─── ACK, bytes ───▶         │        the acceptor sends carries SYN
//!                both directions end: FIN, acknowledged ─▶ remembered for a while, to answer FINs
//!   anything else that ends it: RST with the reason; an end that knows nothing answers with RST
//! ```
//!
//! If the peer has given this node a ticket before, the stream is open for the client at once (Early), and its first
//! bytes go with the SYN, see [`super::tickets`].
//!
//! The acceptor answers only when a client accepts; until then the initiator repeats its call. After silence, an end
//! asks whether the peer is there, and repeats the question until it gives the peer up. A path that is down for a while
//! is no reason to end a stream. A stream ends only if the peer says so, or if the peer is silent for longer than the
//! stream is meant to survive.

use super::receiver::{Receiver, Taken};
use super::rtt;
use super::sender::{Heard, Sender};
use super::tickets::EARLY_BYTES;
use super::{Budget, Chunk, Content, ResetReason, Settings, StreamId, StreamReply};
use crate::flow::FlowKey;
use crate::snapshot::StreamStatus;
use base::{ClientId, Duration, NodeAddr, Time, VirtualPort};
use congestion::Family;
use wire::data::{Class, LinkProtocol, Repr, Routing};
use wire::ipc::{Options, Scheme, StreamControl};
use wire::transport::{Flags, Parsed, RANGES_MAX, Range, Segment, Ticket};

/// How long the initiator waits for the answer to its first SYN. Each further wait is twice as long as the one before.
const CALL_START: Duration = Duration::from_millis(500);
const CALL_MAX: Duration = Duration::from_secs(4);
/// A call ends after this time if nobody has accepted it.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);
/// The least number of questions before the peer is given up.
const QUESTIONS_MIN: u64 = 4;
/// How long a stream without a client continues while the peer is there but takes nothing of what was written.
const LINGER: Duration = Duration::from_secs(60);
/// How long a stream without a client continues at most, so that a very slow reader does not keep the place of another
/// stream.
const LINGER_MAX: Duration = Duration::from_secs(600);

/// The number of segments that one acknowledgement covers, if their sender lets it wait. [RFC 5681 §4.2]
const ACK_EVERY: u32 = 2;

/// How often a stream without a route looks for one again. It also looks when routes change.
const ROUTE_RETRY: Duration = Duration::from_secs(1);

/// The key of a connection at one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    /// The peer's node.
    pub(crate) peer: NodeAddr,
    /// Its port.
    pub(crate) peer_port: VirtualPort,
    /// The port of this end.
    pub(crate) port: VirtualPort,
    /// The number that the initiator chose.
    pub(crate) connection: u32,
}

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// This end has called.
    Calling,
    /// This end has called with a ticket of the peer: bytes go with the call.
    Early(Ticket),
    /// The peer has called; nobody has accepted yet.
    Waiting(StreamId),
    /// The stream is open.
    Open,
}

/// The effect of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reaction {
    /// The connection is open from now on.
    pub(crate) opened: bool,
    /// How its bytes were treated.
    pub(crate) taken: Taken,
    /// The segment contains something impossible, which was ignored.
    pub(crate) is_bad: bool,
}

/// One end of a stream.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) key: Key,
    /// The client of this end. It is the listener while the stream waits, and none when the client has gone.
    pub(crate) client: Option<ClientId>,
    pub(crate) phase: Phase,
    pub(crate) content: Content,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    class: Class,
    ttl: u8,
    pub(crate) scheme: Option<Scheme>,
    pub(crate) deadline: Option<Duration>,
    is_initiator: bool,
    /// At the acceptor: whether bytes that came with the call are taken.
    takes_early: bool,
    /// At the acceptor: the ticket that the peer gets for its next call.
    ticket: Option<Ticket>,
    /// The stamp from which on a call with bytes was repeated.
    repeated: Option<u32>,
    /// The peer has answered.
    confirmed: bool,
    call_due: bool,
    ack_due: bool,
    /// The number of segments whose acknowledgement waits for the next one, and until when it waits at most.
    unanswered: u32,
    ack_at: Option<Time>,
    question_due: bool,
    congested: bool,
    echo_us: u32,
    echoed_us: u32,
    /// The round trip that the receiving half measures.
    rtt: Option<Duration>,
    began: Time,
    call_at: Option<Time>,
    call_wait: Duration,
    heard: Time,
    questions: u32,
    keep_alive: Duration,
    give_up: Duration,
    /// When its client left.
    gone: Option<Time>,
    /// Since when the peer is there and could take the rest of the bytes.
    lingers: Time,
    no_route_since: Option<Time>,
    /// When to look again at the latest, because room has to become free first.
    retry_at: Option<Time>,
    pub(crate) finish_told: bool,
    flow_seq: u32,
}

impl Connection {
    /// Creates a connection that begins now.
    pub(crate) fn new(
        now: Time,
        key: Key,
        phase: Phase,
        content: Content,
        options: &Options,
        settings: &Settings,
        flow_seq: u32,
    ) -> Connection {
        let class = options.class;
        let segment = match class.routing {
            Routing::Stamped => super::STAMPED_BYTES,
            _ => super::SEGMENT_BYTES,
        };
        let is_initiator = matches!(phase, Phase::Calling | Phase::Early(_));
        let give_up = options.give_up.unwrap_or(settings.give_up);
        let control = match options.control {
            None => settings.congestion,
            Some(StreamControl::Cubic) => Family::Cubic,
            Some(StreamControl::Bbr) => Family::Bbr,
        };
        let mut sender = Sender::new(
            now,
            control,
            class.link,
            segment,
            (content, options.deadline),
        );
        if let Phase::Early(_) = phase {
            sender.open(EARLY_BYTES);
        }
        Connection {
            key,
            client: None,
            phase,
            content,
            sender,
            receiver: Receiver::new(now, content),
            class,
            ttl: options.ttl,
            scheme: options.scheme,
            deadline: options.deadline,
            is_initiator,
            takes_early: false,
            ticket: None,
            repeated: None,
            confirmed: false,
            call_due: is_initiator,
            ack_due: false,
            unanswered: 0,
            ack_at: None,
            question_due: false,
            congested: false,
            echo_us: 0,
            echoed_us: 0,
            rtt: None,
            began: now,
            call_at: None,
            call_wait: CALL_START,
            heard: now,
            questions: 0,
            keep_alive: settings.keep_alive.min(give_up.div(QUESTIONS_MIN)),
            give_up,
            gone: None,
            lingers: now,
            no_route_since: None,
            retry_at: None,
            finish_told: false,
            flow_seq,
        }
    }

    /// Takes in that a client accepts the stream.
    pub(crate) fn accept(&mut self, now: Time, client: ClientId) {
        self.client = Some(client);
        self.phase = Phase::Open;
        self.heard = now;
        self.call_due = true;
    }

    /// Takes in that the client has gone after it had written everything. What it wrote is still delivered.
    pub(crate) fn orphan(&mut self, now: Time) {
        self.client = None;
        self.linger(now);
    }

    /// Takes in that the client has gone, while the host still has bytes of it to read.
    pub(crate) fn linger(&mut self, now: Time) {
        self.gone.get_or_insert(now);
    }

    fn linger_until(&self) -> Option<Time> {
        let gone = self.gone?;
        let progress = self.sender.progress().max(gone).max(self.lingers);
        Some((progress + LINGER).min(gone + LINGER_MAX.max(self.give_up)))
    }

    /// Whether the peer was asked and has not answered.
    fn is_silent(&self) -> bool {
        self.questions > 1
    }

    /// Whether this end has opened the stream.
    pub(crate) fn is_initiator(&self) -> bool {
        self.is_initiator
    }

    /// Whether both directions have ended and the peer knows it.
    pub(crate) fn is_over(&self) -> bool {
        let heard_out = match self.client {
            Some(_) => self.receiver.is_finished(),
            None => self.receiver.has_ended(),
        };
        self.sender.is_done() && heard_out
    }

    /// Takes the peer's call, with its bytes if it is `early`. The answer carries `ticket`.
    pub(crate) fn on_call(
        &mut self,
        call: &Parsed<'_>,
        early: bool,
        ticket: Option<Ticket>,
    ) -> Result<(), ResetReason> {
        self.echo_us = call.segment.stamp_us;
        self.sender.open(call.segment.window);
        self.takes_early = early;
        self.ticket = ticket;
        match early {
            true => self.take_early(call),
            false => Ok(()),
        }
    }

    /// Keeps the bytes that came with a call until a client accepts.
    fn take_early(&mut self, call: &Parsed<'_>) -> Result<(), ResetReason> {
        let segment = &call.segment;
        let fin = segment.flags.has(Flags::FIN);
        if u64::from(segment.offset) + call.bytes.len() as u64 <= EARLY_BYTES.into() {
            self.receiver
                .keep_segment(segment.offset, call.bytes, fin)?;
        }
        Ok(())
    }

    /// Returns the ticket for a segment that begins the connection and has room for it.
    pub(crate) fn ticket(&self) -> Option<Ticket> {
        match self.phase {
            Phase::Early(ticket) => Some(ticket),
            _ => self.ticket.filter(|_| !self.confirmed),
        }
    }

    /// Whether bytes go with its call.
    pub(crate) fn is_early(&self) -> bool {
        matches!(self.phase, Phase::Early(_))
    }

    /// Whether the client may write.
    pub(crate) fn may_write(&self) -> bool {
        self.is_open() || self.is_early()
    }

    /// Takes in that the peer has answered a call with bytes. If the peer has not taken the bytes, they are sent again,
    /// unless the node may have taken them before a restart: nothing is delivered twice.
    fn on_early_answer(&mut self, answer: &Segment) -> Result<(), ResetReason> {
        if answer.takes_early {
            self.sender.on_early_answer(true);
            return Ok(());
        }
        let is_first = self.repeated.is_none_or(|repeated| {
            answer.echo_us != 0 && answer.echo_us.wrapping_sub(repeated) > u32::MAX / 2
        });
        if self.sender.end_place() > 0 && !is_first {
            return Err(ResetReason::Unknown);
        }
        self.sender.on_early_answer(false);
        Ok(())
    }

    /// Whether something waits to be sent or to be acknowledged.
    pub(crate) fn has_business(&self) -> bool {
        self.control_due()
            || self.expired_due()
            || self.sender.is_waiting()
            || self.sender.has_unsent()
    }

    /// Takes in whether there is a route to the peer.
    pub(crate) fn on_route(&mut self, now: Time, is_there: bool) {
        match is_there {
            true => self.no_route_since = None,
            false => {
                self.no_route_since.get_or_insert(now);
                self.retry_at = Some(now + ROUTE_RETRY);
            }
        }
    }

    /// Schedules another look after `wait`, because room has to become free first.
    pub(crate) fn retry_after(&mut self, now: Time, wait: Duration) {
        self.retry_at = Some(now + wait);
    }

    /// Takes a segment of the peer that has `waited` in this host's socket. `congested` is true if a relay has marked it.
    pub(crate) fn on_segment(
        &mut self,
        now: Time,
        waited: Duration,
        parsed: &Parsed<'_>,
        congested: bool,
    ) -> Result<Reaction, ResetReason> {
        let segment = &parsed.segment;
        let flags = segment.flags;
        let mut reaction = Reaction {
            opened: false,
            taken: Taken::Kept,
            is_bad: false,
        };
        if matches!(self.phase, Phase::Waiting(_)) {
            if self.takes_early && segment.calls() {
                self.take_early(parsed)?;
            }
            return Ok(reaction);
        }
        if !self.is_open() {
            if !flags.has(Flags::ACK) {
                return Ok(reaction);
            }
            match self.phase {
                Phase::Early(_) => self.on_early_answer(segment)?,
                _ => reaction.opened = true,
            }
            self.phase = Phase::Open;
            self.call_due = false;
            self.call_at = None;
        }
        if self.is_silent() {
            self.lingers = now;
        }
        self.heard = now;
        self.questions = 0;
        // A host that was not scheduled says nothing about the path.
        let came = now - waited;
        let rtt = rtt::since(came, segment.echo_us);
        let taken = !segment.calls() || self.takes_early;
        let carries = taken && (!parsed.bytes.is_empty() || flags.has(Flags::FIN));
        let expired = parsed.tells_expired();
        let asks = expired || flags.has(Flags::SYN) || flags.has(Flags::PROBE);
        self.ack_due |= asks;
        self.echo_us = match segment.stamp_us {
            0 => 0,
            stamp_us => rtt::later(stamp_us, waited),
        };
        self.congested |= congested;
        if carries && segment.echo_us != self.echoed_us {
            self.echoed_us = segment.echo_us;
            let smooth = |old: Duration, new| (old * 3 + new).div(4);
            self.rtt = rtt.map(|new| self.rtt.map_or(new, |old| smooth(old, new)));
        }
        if flags.has(Flags::ACK) {
            if !self.confirmed {
                self.confirmed = true;
                self.call_due = false;
                self.call_at = None;
                if let Some(rtt) = rtt {
                    self.sender.on_first_round_trip(rtt);
                }
            }
            let heard = Heard {
                acknowledged: segment.acknowledged,
                window: segment.window,
                came,
                rtt,
                congested: flags.has(Flags::CONGESTED),
            };
            let come = parsed.ranges().filter(|_| !expired);
            if self.sender.on_heard(now, heard, come).is_err() {
                reaction.is_bad = true;
                return Ok(reaction);
            }
        }
        if expired {
            for range in parsed.ranges() {
                reaction.is_bad |= !self.receiver.on_expired(range);
            }
        }
        if carries {
            self.sender.on_told();
            if self.client.is_none() && self.receiver.lacks(segment.offset, parsed.bytes) {
                // Nobody will ever read these bytes. Repeated bytes are different: the client has read them and only
                // their acknowledgement was lost, and what the client wrote before it left is still on its way.
                return Err(ResetReason::Peer);
            }
            let fin = flags.has(Flags::FIN);
            let (before, had_gaps) = (self.receiver.acknowledged(), self.has_ranges());
            reaction.taken = self
                .receiver
                .on_segment(segment.offset, parsed.bytes, fin)?;
            let is_next = self.receiver.acknowledged() > before && !had_gaps;
            let may_wait = flags.has(Flags::MAY_WAIT) && !flags.has(Flags::SYN);
            self.owe(now, may_wait && is_next && !fin && !self.congested);
        }
        Ok(reaction)
    }

    /// Notes that a segment with bytes is to be acknowledged, together with the next one if the acknowledgement may
    /// wait. If the segment came out of order, again, or with a mark, the peer needs the acknowledgement at once. [RFC
    /// 9000 §13.2.1]
    fn owe(&mut self, now: Time, waits: bool) {
        self.unanswered += 1;
        self.ack_due |= !waits || self.unanswered >= ACK_EVERY;
        self.ack_at.get_or_insert(now + rtt::ACK_WAIT);
    }

    /// Takes in that the application has taken so many bytes.
    pub(crate) fn on_consumed(&mut self, now: Time, bytes: u32, budget: &mut Budget) {
        let rtt = self.rtt.or(self.sender.rtt().smoothed());
        self.ack_due |= self.receiver.on_consumed(now, bytes, rtt, budget);
    }

    /// Whether a segment without bytes of the stream is due: SYN, acknowledgement or question.
    pub(crate) fn control_due(&self) -> bool {
        self.call_due || self.ack_due || self.question_due
    }

    /// Whether the stream is open. Before, only the SYN may be sent.
    pub(crate) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Returns the class of segments with bytes, and of those that open the connection.
    pub(crate) fn class(&self) -> Class {
        self.class
    }

    /// Returns the overlay header of the next packet. Acknowledgements alone do not queue behind the bytes on reliable
    /// links: the next one makes up for a lost one.
    pub(crate) fn header(&mut self, own: NodeAddr, is_bare: bool) -> Repr {
        self.flow_seq = self.flow_seq.wrapping_add(1);
        let mut class = self.class;
        if is_bare && class.link == LinkProtocol::Reliable {
            class.link = LinkProtocol::BestEffort;
        }
        super::packet_header(class, self.ttl, own, self.key, self.flow_seq)
    }

    /// Returns the flow of its packets.
    pub(crate) fn flow(&self, own: NodeAddr) -> FlowKey {
        FlowKey {
            source: own,
            source_port: self.key.port,
            destination: self.key.peer,
            destination_port: self.key.peer_port,
        }
    }

    /// Returns the header of the next segment; `offset` is its place.
    pub(crate) fn segment(&mut self, now: Time, offset: u64, fin: bool) -> Segment {
        let is_calling = self.is_initiator && !self.is_open();
        let syn = is_calling || (!self.is_initiator && !self.confirmed);
        let flags = Flags::NONE
            .with_if(Flags::SYN, syn)
            .with_if(Flags::MESSAGES, syn && self.content != Content::Bytes)
            .with_if(Flags::EXPIRES, syn && self.content == Content::Expiring)
            .with_if(Flags::ACK, !is_calling)
            .with_if(Flags::FIN, fin)
            .with_if(Flags::CONGESTED, self.congested)
            .with_if(Flags::PROBE, self.question_due);
        if syn && self.call_due {
            self.call_due = false;
            self.call_at = Some(now + self.call_wait);
            self.call_wait = (self.call_wait * 2).min(CALL_MAX);
        }
        self.receiver.refresh_edge();
        let echo_us = self.echo(now);
        if self.ack_at.is_some() && echo_us != 0 {
            // The segments that follow send the same echo.
            self.echo_us = echo_us;
        }
        self.ack_due = false;
        self.unanswered = 0;
        self.ack_at = None;
        self.question_due = false;
        self.congested = false;
        let segment = Segment {
            flags,
            reason: None,
            connection: self.key.connection,
            offset: offset as u32,
            acknowledged: self.receiver.acknowledged() as u32,
            window: self.receiver.window(),
            stamp_us: rtt::stamp(now),
            echo_us,
            ticket: None,
            takes_early: syn && self.takes_early,
        };
        match is_calling {
            true => segment.asking(),
            false => segment,
        }
    }

    /// Returns the header of the next segment with bytes, those of `chunk`.
    pub(crate) fn data_segment(&mut self, now: Time, chunk: Chunk) -> Segment {
        let mut segment = self.segment(now, chunk.offset, chunk.fin);
        let may_wait = self.sender.lets_wait() && !segment.flags.has(Flags::SYN);
        segment.flags = segment.flags.with_if(Flags::MAY_WAIT, may_wait);
        segment
    }

    /// Returns the stamp of the last segment of the peer if that came a moment ago, and 0 otherwise. A question after
    /// seconds of silence, or an answer for which a program took its time, says nothing about the round trip. The time
    /// that an acknowledgement has waited is no part of the round trip: the echoed stamp is later by that time.
    fn echo(&self, now: Time) -> u32 {
        let held = now.since(self.heard);
        match self.echo_us {
            0 => 0,
            _ if held >= rtt::ECHO_WITHIN => 0,
            stamp_us if self.ack_at.is_some() => rtt::later(stamp_us, held),
            stamp_us => stamp_us,
        }
    }

    /// Writes the ranges that have come out of order, for a segment of their own.
    pub(crate) fn ranges(&self, out: &mut [Range; RANGES_MAX]) -> usize {
        let all = self.receiver.ranges();
        // If there are more ranges than fit, the last ones say most.
        let skip = all.len().saturating_sub(RANGES_MAX);
        let mut count = 0;
        for ((from, to), place) in all.skip(skip).zip(out.iter_mut()) {
            *place = (from as u32, to as u32);
            count += 1;
        }
        count
    }

    /// Whether the peer is to be told what has expired. It must know the connection already, because segments that
    /// begin it have no ranges of that kind.
    pub(crate) fn expired_due(&self) -> bool {
        self.sender.expired_due() && self.is_open() && (self.is_initiator || self.confirmed)
    }

    /// Returns a segment that tells what has expired.
    pub(crate) fn expired(&mut self, now: Time, out: &mut [Range; RANGES_MAX]) -> (Segment, usize) {
        let count = self.sender.expired(out);
        let mut segment = self.segment(now, self.sender.end_place(), false);
        segment.flags = segment.flags.with_if(Flags::EXPIRES, count > 0);
        (segment, count)
    }

    /// Whether there are ranges to send.
    pub(crate) fn has_ranges(&self) -> bool {
        self.receiver.ranges().len() > 0
    }

    /// Returns when something is due without any input.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        if matches!(self.phase, Phase::Waiting(_)) {
            return Some(self.began + CALL_TIMEOUT);
        }
        let calling = (!self.is_open()).then_some(self.began + CALL_TIMEOUT);
        let silent = self.is_open().then(|| self.question_at());
        let all = [
            self.call_at,
            self.ack_at.filter(|_| !self.ack_due),
            calling,
            silent,
            self.linger_until(),
            self.retry_at,
            self.sender.next_timeout(),
        ];
        all.into_iter().flatten().min()
    }

    fn question_at(&self) -> Time {
        let next = self.heard + self.keep_alive * u64::from(self.questions + 1);
        next.min(self.heard + self.give_up)
    }

    /// Does what is due. If the stream ends by that, returns the reason.
    pub(crate) fn on_timeout(&mut self, now: Time) -> Result<(), ResetReason> {
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        let silence = match self.no_route_since {
            Some(_) => ResetReason::NoRoute,
            None => ResetReason::Timeout,
        };
        if !self.is_open() && now >= self.began + CALL_TIMEOUT {
            return Err(silence);
        }
        if is_due(self.retry_at) {
            self.retry_at = None;
        }
        let repeats = is_due(self.call_at) || is_due(self.sender.next_timeout());
        if self.is_early() && repeats {
            self.repeated.get_or_insert(rtt::stamp(now));
        }
        if is_due(self.call_at) {
            self.call_at = None;
            self.call_due = true;
        }
        self.ack_due |= is_due(self.ack_at);
        if is_due(self.linger_until()) {
            let is_over = is_due(self.gone.map(|gone| gone + LINGER_MAX.max(self.give_up)));
            if is_over || !self.is_silent() {
                return Err(ResetReason::Timeout);
            }
            // A peer that cannot be reached cannot take anything. Only its silence decides when the stream ends.
            self.lingers = now;
        }
        if self.is_open() && now >= self.heard + self.give_up {
            return Err(silence);
        }
        if self.is_open() && now >= self.question_at() {
            self.questions += 1;
            self.question_due = true;
        }
        self.question_due |= self.sender.on_timeout(now);
        Ok(())
    }

    /// Takes in that the routes have changed.
    pub(crate) fn on_route_change(&mut self, now: Time) {
        self.retry_at = None;
        if self.no_route_since.is_some() {
            self.call_due |= self.is_initiator && !self.is_open();
        }
        self.sender.on_route_change(now);
    }

    /// Takes in that there are new keys with the peer: it may have restarted, and packets that it could not open are
    /// lost.
    pub(crate) fn on_end_change(&mut self, now: Time) {
        self.on_route_change(now);
        self.question_due |= self.is_open();
    }

    /// Returns the status for display.
    pub(crate) fn status(&self, own: NodeAddr) -> StreamStatus {
        let state = match (self.phase, self.client) {
            (Phase::Calling | Phase::Early(_), _) => "calling",
            (Phase::Waiting(_), _) => "waiting",
            (Phase::Open, Some(_)) => "open",
            (Phase::Open, None) => "closing",
        };
        let framing = match self.content {
            Content::Bytes => "bytes",
            Content::Messages => "messages",
            Content::Expiring => "expiring messages",
        };
        let srtt = self.sender.rtt().smoothed();
        StreamStatus {
            from: format!("{own}:{}", self.key.port),
            to: format!("{}:{}", self.key.peer, self.key.peer_port),
            state,
            framing,
            link: self.class.link.label(),
            routing: self.class.routing.label(),
            priority: self.class.priority,
            sent: self.sender.acknowledged(),
            unacknowledged: self.sender.buffered(),
            received: self.receiver.received(),
            unread: self.receiver.held(),
            window: self.sender.window(),
            in_flight: self.sender.in_flight(),
            srtt_ms: srtt.map(|srtt| srtt.as_secs_f64() * 1e3),
            retransmissions: self.sender.retransmissions,
            given_up: self.sender.given_up(),
            missed: self.receiver.missed(),
        }
    }

    /// Returns the message for the client about expired messages.
    pub(crate) fn expired_messages(&self) -> StreamReply {
        StreamReply::Expired {
            given_up: self.sender.given_up(),
            missed: self.receiver.missed(),
        }
    }

    /// Returns the last number of the flow, which continues after the end of the connection.
    pub(crate) fn last_flow_seq(&self) -> u32 {
        self.flow_seq
    }
}
