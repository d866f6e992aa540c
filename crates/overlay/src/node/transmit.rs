//! Sends the segments of streams.
//!
//! ```text
//!   poll ── chunk ── chunk ── chunk (the last may be short)
//!           ▼        ▼        ▼
//!   | clear | header | stamp? | segment | bytes | tag |  ...  equal strides in one large buffer
//! ```
//! Segments that leave at one moment are written into one buffer, sealed in place and handed to the network below in
//! one call. Acknowledgements are combined: there is at most one for each batch of inputs, one for two segments if
//! their sender lets it wait, and none if bytes leave that carry the acknowledgement.

use super::Node;
use super::ends::{Around, is_unsealed};
use super::metric;
use super::receive::drop_one;
use super::send::{around_bytes, emit, seal_kind};
use super::streams::{BUFFER_RETRY, tell};
use crate::ends::SEAL_FRONT;
use crate::event::{Drop, Event};
use crate::link::LinkIndex;
use crate::mtu::DEFAULT;
use crate::request::Options;
use crate::stamps::Wish;
use crate::stream::{
    Chunk, Connection, DEFAULT_CLASS, Key, ResetReason, StreamReply, packet_header,
};
use base::{Burst, Outbox, Time};
use wire::CLEAR_BYTES;
use wire::data::{EXTENSION_LENGTH_BYTES, HEADER_BYTES, Header, LinkProtocol, Repr, Routing};
use wire::stamp::STAMP_BYTES_MAX;
use wire::transport::{Flags, RANGE_BYTES, RANGES_MAX, SEGMENT_BYTES, Segment, TICKET_BYTES};

/// The most bursts that one stream sends in one flush: about a millisecond at 2 Gbit/s.
const BURSTS_PER_FLUSH: usize = 6;
/// The most bursts of all streams in one flush: some milliseconds of work, which is the longest that other inputs wait.
const BURSTS_PER_FLUSH_ALL: usize = 64;

/// Where a stream's packets go from here.
#[derive(Clone, Copy)]
enum Way {
    /// To this node itself.
    Here,
    /// Over this link.
    Link(LinkIndex),
    /// Along the paths of a stamp of so many bytes.
    Stamped(usize),
}

/// The stamp of a stream's packets.
type StampBytes = [u8; STAMP_BYTES_MAX];

impl Node {
    /// Sends what is due on the streams.
    pub(super) fn flush_streams(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        self.streams_again = None;
        let mut bursts = 0;
        while let Some(index) = self.streams.pop_touched() {
            bursts += self.flush_stream(now, index, out);
            if bursts >= BURSTS_PER_FLUSH_ALL {
                // The rest follows after the inputs that wait meanwhile.
                self.streams_again = Some(now);
                return;
            }
        }
    }

    /// Sends what is due on one stream. Returns how many bursts it has sent.
    fn flush_stream(&mut self, now: Time, index: u32, out: &mut impl Outbox<Node>) -> usize {
        self.grant(index, out);
        let Some(stream) = self.streams.at(index) else {
            return 0;
        };
        if !stream.has_business() {
            match stream.is_over() {
                true => self.streams.retire(now, index),
                false => self.streams.schedule(index, None),
            }
            return 0;
        }
        let mut stamp = [0; STAMP_BYTES_MAX];
        let way = self.way_of(now, index, &mut stamp, out);
        let mut bursts = 0;
        if let Some(way) = way {
            self.fit(index, way);
            bursts = self.send_segments(now, index, way, &stamp, out);
        }
        if let Some(stream) = self.streams.at(index) {
            stream.sender.on_flushed();
            if stream.is_over() && !stream.has_business() {
                self.streams.retire(now, index);
                return bursts;
            }
            let again = (bursts >= BURSTS_PER_FLUSH).then_some(now);
            self.streams.schedule(index, again);
        }
        bursts
    }

    /// Tells the host how much more may be written.
    fn grant(&mut self, index: u32, out: &mut impl Outbox<Node>) {
        let Some((stream, budget)) = self.streams.with_budget(index) else {
            return;
        };
        let Some(client) = stream.client.filter(|_| stream.may_write()) else {
            return;
        };
        if let Some(bytes) = stream.sender.grant(budget) {
            tell(client, StreamReply::Credit { bytes }, out);
        }
    }

    /// Returns where a stream's packets go, and writes the stamp that they carry.
    fn way_of(
        &mut self,
        now: Time,
        index: u32,
        stamp: &mut StampBytes,
        out: &mut impl Outbox<Node>,
    ) -> Option<Way> {
        let stream = self.streams.at(index)?;
        let (to, class) = (stream.key.peer, stream.class());
        if to == self.addr {
            return Some(Way::Here);
        }
        let mut routing = class.routing;
        if let Some(scheme) = stream.scheme {
            let wish = Wish {
                to,
                scheme,
                link: class.link,
                deadline: stream.deadline,
            };
            if let Some(known) = self.router.stamp(now, wish) {
                stamp[..known.len()].copy_from_slice(known);
                stream.on_route(now, true);
                return Some(Way::Stamped(known.len()));
            }
            routing = Routing::ExpectedLatency;
            out.report(Event::Unstamped);
        }
        let hop = self.router.next_hop(&self.links, routing, to, None);
        // A stream waits for a link that answers: whatever it sends over a silent link it has to send again.
        let is_silent =
            metric(routing).is_some_and(|metric| self.router.tables().is_silent(metric, to));
        let hop = hop.ok().filter(|_| !is_silent);
        let link = hop.filter(|link| self.links.at(*link).is_up());
        stream.on_route(now, link.is_some());
        // If packets are diverted, the room in the lane of the link by which they leave counts.
        let diverted = self.diverted_hop(routing, to);
        link.map(|link| Way::Link(diverted.unwrap_or(link)))
    }

    /// Limits a stream's segments to the size that its way carries.
    fn fit(&mut self, index: u32, way: Way) {
        let Some(stream) = self.streams.at(index) else {
            return;
        };
        let (to, routing) = (stream.key.peer, stream.class().routing);
        let ports = (stream.key.port, stream.key.peer_port);
        let seals = self.seals_to(to, ports);
        let (usable, stamp) = match way {
            Way::Here => (DEFAULT, 0),
            Way::Link(_) => {
                let routing = match routing {
                    Routing::Stamped => Routing::ExpectedLatency,
                    other => other,
                };
                (self.router.usable_to(routing, to), 0)
            }
            Way::Stamped(len) => {
                let usable = self.router.usable_to(Routing::Stamped, to);
                (usable, EXTENSION_LENGTH_BYTES + len)
            }
        };
        let diversion = self.diversion(to);
        let usable = usable.min(diversion.usable);
        if let Some(stream) = self.streams.at(index) {
            let ticket = if stream.is_early() { TICKET_BYTES } else { 0 };
            let stamp = stamp.max(diversion.stamp_bytes);
            let around = around_bytes(&[], seals) + stamp + SEGMENT_BYTES + ticket;
            stream.sender.set_fit(usize::from(usable) - around);
        }
    }

    fn send_segments(
        &mut self,
        now: Time,
        index: u32,
        way: Way,
        stamp: &StampBytes,
        out: &mut impl Outbox<Node>,
    ) -> usize {
        let stamp = match way {
            Way::Stamped(len) => &stamp[..len],
            Way::Here | Way::Link(_) => &[],
        };
        // Ranges go in a segment of their own, so that segments with bytes are of equal length.
        let tells = self
            .streams
            .at(index)
            .is_some_and(|stream| stream.control_due() && stream.has_ranges());
        if self.streams.at(index).is_some_and(|s| s.is_early()) {
            return self.send_early(now, index, way, stamp, out);
        }
        if tells || !self.is_open(index) {
            self.send_control(now, index, way, stamp, out);
        }
        let key = self.streams.at(index).map(|stream| stream.key);
        let seals = key.is_some_and(|key| self.seals_to(key.peer, (key.port, key.peer_port)));
        let (mut bursts, mut carried) = (0, None);
        while bursts < BURSTS_PER_FLUSH || carried.is_some() {
            let Some(stream) = self.streams.at(index).filter(|stream| stream.is_open()) else {
                return bursts;
            };
            let mut most = usize::MAX;
            if let Way::Link(link) = way
                && stream.class().link == LinkProtocol::Reliable
            {
                // The lane's queue is not a second send buffer. The lane reports when it has room again.
                let flow = stream.flow(self.addr);
                most = self
                    .links
                    .at_mut(link)
                    .reliable
                    .sender
                    .ask_room(&flow, index);
                if most == 0 && carried.is_none() {
                    break;
                }
            }
            let stream = (stream, most.max(1));
            let built = build(now, self.addr, stream, (stamp, seals), &mut carried, out);
            let Some(burst) = built else { break };
            self.send_on(now, way, burst, out);
            bursts += 1;
        }
        let due = |s: &mut Connection| s.control_due() || s.expired_due();
        while self.streams.at(index).is_some_and(due) {
            if !self.send_control(now, index, way, stamp, out) {
                break;
            }
        }
        bursts
    }

    /// Sends a call and the bytes that go with it. Returns how many bursts that was. It never uses a reliable lane:
    /// such a lane keeps packets that its neighbour has not acknowledged, and would send them again to a neighbour that
    /// has restarted.
    fn send_early(
        &mut self,
        now: Time,
        index: u32,
        way: Way,
        stamp: &[u8],
        out: &mut impl Outbox<Node>,
    ) -> usize {
        let mut bursts = 0;
        let own = self.addr;
        let key = self.streams.at(index).map(|stream| stream.key);
        let seals = key.is_some_and(|key| self.seals_to(key.peer, (key.port, key.peer_port)));
        while let Some(stream) = self.streams.at(index) {
            let Some(mut burst) = out.pool().small() else {
                stream.retry_after(now, BUFFER_RETRY);
                break;
            };
            let Some(chunk) = stream.sender.poll(now) else {
                break;
            };
            let mut segment = stream.segment(now, chunk.offset, chunk.fin);
            segment.ticket = stream.ticket();
            let mut header = stream.header(own, true);
            let head = SEGMENT_BYTES + TICKET_BYTES;
            let packet = write_headers(&mut burst, 0, &mut header, (stamp, seals));
            segment
                .emit(&[], &mut packet[..head])
                .expect("a small buffer holds all headers");
            let len = chunk.len as usize;
            stream.sender.read(chunk, &mut packet[head..head + len]);
            let len = around_bytes(stamp, seals) + head + len;
            burst.fill(len, len);
            self.send_on(now, way, burst, out);
            bursts += 1;
        }
        self.send_control(now, index, way, stamp, out);
        bursts
    }

    fn is_open(&mut self, index: u32) -> bool {
        self.streams
            .at(index)
            .is_some_and(|stream| stream.is_open())
    }

    /// Sends a segment without bytes: SYN, acknowledgement, question, or what has expired. Returns false if none could
    /// be sent.
    fn send_control(
        &mut self,
        now: Time,
        index: u32,
        way: Way,
        stamp: &[u8],
        out: &mut impl Outbox<Node>,
    ) -> bool {
        let own = self.addr;
        let Some(stream) = self.streams.at(index) else {
            return false;
        };
        if !stream.control_due() && !stream.expired_due() {
            return false;
        }
        let Some(mut burst) = out.pool().small() else {
            stream.retry_after(now, BUFFER_RETRY);
            drop_one(Drop::NoBuffer, out);
            return false;
        };
        let mut ranges = [(0, 0); RANGES_MAX];
        let mut header = stream.header(own, true);
        let (segment, count) = match stream.control_due() {
            true => {
                let count = stream.ranges(&mut ranges);
                let ticket = stream.ticket();
                let segment = stream.segment(now, stream.sender.end_place(), false);
                (Segment { ticket, ..segment }, count)
            }
            false => stream.expired(now, &mut ranges),
        };
        let ticket = segment.ticket.map_or(0, |_| TICKET_BYTES);
        let len = SEGMENT_BYTES + count * RANGE_BYTES + ticket;
        let seals = self.seals_to(
            header.destination,
            (header.source_port, header.destination_port),
        );
        let packet = write_headers(&mut burst, 0, &mut header, (stamp, seals));
        segment
            .emit(&ranges[..count], &mut packet[..len])
            .expect("a small buffer holds all headers");
        let len = around_bytes(stamp, seals) + len;
        burst.fill(len, len);
        self.send_on(now, way, burst, out);
        true
    }

    fn send_on(&mut self, now: Time, way: Way, mut burst: Burst, out: &mut impl Outbox<Node>) {
        if is_unsealed(&burst) {
            let to = Header::trusted(&burst.segment(0)[CLEAR_BYTES..]).destination();
            match self.seal_to(now, to, burst, out) {
                Some(sealed) => burst = sealed,
                None => return,
            }
        }
        match way {
            Way::Here => self.deliver_run(now, Around::HOP, burst, out),
            Way::Link(link) => self.send_run(now, link, burst, true, out),
            Way::Stamped(_) => self.send_copies(now, None, burst, out),
        }
    }

    /// Tells the peer that a connection has ended; `header` is the packet's.
    pub(super) fn send_reset(
        &mut self,
        now: Time,
        mut header: Repr,
        connection: u32,
        why: ResetReason,
        out: &mut impl Outbox<Node>,
    ) {
        let segment = Segment {
            flags: Flags::RST,
            reason: Some(why),
            connection,
            ..Segment::default()
        };
        if header.class.routing == Routing::Stamped {
            header.class.routing = Routing::ExpectedLatency;
        }
        self.send_single(now, header, &segment, out);
    }

    /// Answers a packet whose connection this node refuses.
    pub(super) fn refuse(
        &mut self,
        now: Time,
        to: &Repr,
        connection: u32,
        why: ResetReason,
        out: &mut impl Outbox<Node>,
    ) {
        let key = answer_key(to, connection);
        let seq = self.next_echo_seq().0;
        let mut class = DEFAULT_CLASS;
        class.link = LinkProtocol::BestEffort;
        let header = packet_header(class, Options::TTL_DEFAULT, self.addr, key, seq);
        self.send_reset(now, header, connection, why, out);
    }

    /// Tells a peer once more that everything has arrived.
    pub(super) fn acknowledge_ended(
        &mut self,
        now: Time,
        to: &Repr,
        asked: &Segment,
        ended: crate::stream::Ended,
        out: &mut impl Outbox<Node>,
    ) {
        let key = answer_key(to, asked.connection);
        let mut class = DEFAULT_CLASS;
        class.link = LinkProtocol::BestEffort;
        let ttl = Options::TTL_DEFAULT;
        let header = packet_header(class, ttl, self.addr, key, ended.flow_seq);
        let segment = Segment {
            flags: Flags::ACK,
            connection: asked.connection,
            offset: ended.offset,
            acknowledged: ended.acknowledged,
            echo_us: asked.stamp_us,
            ..Segment::default()
        };
        self.send_single(now, header, &segment, out);
    }

    fn send_single(
        &mut self,
        now: Time,
        mut header: Repr,
        segment: &Segment,
        out: &mut impl Outbox<Node>,
    ) {
        let Some(mut burst) = out.pool().small() else {
            return drop_one(Drop::NoBuffer, out);
        };
        let seals = self.seals_to(
            header.destination,
            (header.source_port, header.destination_port),
        );
        let packet = write_headers(&mut burst, 0, &mut header, (&[], seals));
        segment
            .emit(&[], packet)
            .expect("a small buffer holds all headers");
        let len = around_bytes(&[], seals) + SEGMENT_BYTES;
        burst.fill(len, len);
        self.originate(now, &header, burst, out);
    }
}

/// Returns the key of a packet's connection at this node.
fn answer_key(to: &Repr, connection: u32) -> Key {
    Key {
        peer: to.source,
        peer_port: to.source_port,
        port: to.destination_port,
        connection,
    }
}

/// Builds a burst of what a stream may send now, of at most `most` segments: equal ones, and perhaps a shorter one at
/// the end. `carried` is a segment that did not fit the burst before.
fn build(
    now: Time,
    own: base::NodeAddr,
    (stream, most): (&mut Connection, usize),
    (stamp, seals): (&[u8], bool),
    carried: &mut Option<Chunk>,
    out: &mut impl Outbox<Node>,
) -> Option<Burst> {
    let large = (most > 1 && stream.sender.has_many())
        .then(|| out.pool().large())
        .flatten();
    let Some(mut burst) = large.or_else(|| out.pool().small()) else {
        stream.retry_after(now, BUFFER_RETRY);
        return None;
    };
    let around = around_bytes(stamp, seals) + SEGMENT_BYTES;
    let capacity = burst.capacity();
    let (mut used, mut stride) = (0, 0);
    for _ in 0..most {
        if stride > 0 && used + stride > capacity {
            break;
        }
        let Some(chunk) = carried.take().or_else(|| stream.sender.poll(now)) else {
            break;
        };
        let len = around + chunk.len as usize;
        if stride > 0 && len > stride {
            *carried = Some(chunk);
            break;
        }
        let mut header = stream.header(own, false);
        let segment = stream.data_segment(now, chunk);
        let packet = write_headers(&mut burst, used, &mut header, (stamp, seals));
        let (head, bytes) = packet.split_at_mut(SEGMENT_BYTES);
        segment
            .emit(&[], head)
            .expect("the front of the packet is the header's");
        stream.sender.read(chunk, &mut bytes[..chunk.len as usize]);
        used += len;
        if stride == 0 {
            stride = len;
        } else if len < stride {
            break;
        }
    }
    if used == 0 {
        return None;
    }
    burst.fill(used, stride);
    Some(burst)
}

/// Writes a packet's header and stamp at `at` of an empty burst, and returns the room behind them.
fn write_headers<'a>(
    burst: &'a mut Burst,
    at: usize,
    header: &mut Repr,
    (stamp, seals): (&[u8], bool),
) -> &'a mut [u8] {
    // Without a stamp, the packets of a stamped stream are routed by expected latency.
    header.has_extension = !stamp.is_empty();
    if stamp.is_empty() && header.class.routing == Routing::Stamped {
        header.class.routing = Routing::ExpectedLatency;
    }
    let packet = &mut burst.spare_mut()[at + CLEAR_BYTES..];
    emit(header, seals, packet);
    let mut rest = &mut packet[HEADER_BYTES..];
    if !stamp.is_empty() {
        let (length, behind) = rest.split_at_mut(EXTENSION_LENGTH_BYTES);
        length.copy_from_slice(&(stamp.len() as u16).to_be_bytes());
        let (place, behind) = behind.split_at_mut(stamp.len());
        place.copy_from_slice(stamp);
        rest = behind;
    }
    if !seals {
        return rest;
    }
    rest[0] = seal_kind(header).byte();
    &mut rest[SEAL_FRONT..]
}
