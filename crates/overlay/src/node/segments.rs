//! Receiving the segments of streams.
//!
//! ```text
//!   burst:  | headers | bytes | headers | bytes | headers | bytes |      as GRO hands it up
//!   after:  | bytes | bytes | bytes |                                    one reply, nothing copied
//! ```
//! Segments in order are moved together within the burst's own buffer and handed to the host as one piece, so that the
//! host writes once for a burst. Segments out of order go through the stream's ring.

use super::Node;
use super::ends::Around;
use super::receive::drop_one;
use super::streams::{hand_over, tell};
use crate::event::Drop;
use crate::stream::{Admission, Content, Key, Phase, ResetReason, StreamReply, Taken};
use base::{Burst, NodeAddr, Outbox, Time};
use core::ops::Range;
use wire::data::{Header, Repr};
use wire::transport::{Flags, Kind, Parsed, Segment};

impl Node {
    /// Takes segments of one stream; they are whole opened datagrams.
    pub(super) fn on_segments(
        &mut self,
        now: Time,
        around: Around,
        mut run: Burst,
        out: &mut impl Outbox<Node>,
    ) {
        let (mut gathered, mut last, mut of, mut end) = (0, None, None, None);
        for i in 0..run.segments() {
            let packet = packet_of(&run, i, around);
            let header = Header::trusted(&run.bytes()[packet.clone()]);
            let Ok(parsed) = Segment::parse(header.payload()) else {
                drop_one(Drop::Malformed, out);
                continue;
            };
            let (key, congested) = (key_of(&header, &parsed), header.is_congested());
            let flags = parsed.segment.flags;
            let Some(index) = self.streams.by_key(&key) else {
                let header = header.repr();
                if parsed.segment.calls() && !self.may_call(key.peer, around) {
                    drop_one(Drop::BadSource, out);
                    continue;
                }
                self.on_unknown(now, &header, key, &parsed, last, out);
                last = Some(flags);
                continue;
            };
            if flags.has(Flags::RST) {
                of = Some(index);
                end = Some((parsed.segment.reason, true));
                break;
            }
            let bytes = packet.end - parsed.bytes.len()..packet.end;
            let Some(stream) = self.streams.at(index) else {
                continue;
            };
            of = Some(index);
            let reaction = match stream.on_segment(now, run.waited(), &parsed, congested) {
                Ok(reaction) => reaction,
                Err(why) => {
                    end = Some((Some(why), false));
                    break;
                }
            };
            self.streams.touch(index);
            if let Some(ticket) = parsed.segment.ticket
                && flags.has(Flags::ACK)
                && ticket.number == 0
            {
                self.streams.tickets.hold(key.peer, ticket);
            }
            if reaction.opened {
                self.tell_connected(index, out);
            }
            if reaction.is_bad {
                drop_one(Drop::StreamAck, out);
            }
            match reaction.taken {
                Taken::InOrder { skip, len } => {
                    let from = bytes.start + skip;
                    run.bytes_mut().copy_within(from..from + len, gathered);
                    gathered += len;
                }
                Taken::Kept => {}
                Taken::Refused => drop_one(Drop::StreamWindow, out),
            }
        }
        if let Some(index) = of {
            self.finish_segments(now, index, run, gathered, end, out);
        }
    }

    /// Delivers the content of a burst: the bytes at its front, then the bytes that they have completed. `end` says why
    /// the burst was not processed further, and whether the peer is the reason.
    fn finish_segments(
        &mut self,
        now: Time,
        index: u32,
        mut run: Burst,
        gathered: usize,
        end: Option<(Option<ResetReason>, bool)>,
        out: &mut impl Outbox<Node>,
    ) {
        let client = self.streams.at(index).and_then(|stream| stream.client);
        if gathered > 0
            && let Some(client) = client
        {
            run.fill(gathered, gathered);
            hand_over(client, run, out);
        }
        self.deliver_stream(now, index, out);
        match end {
            None => {}
            Some((why, true)) => self.on_reset(now, index, why, out),
            Some((why, false)) => {
                self.abort(now, index, why.unwrap_or(ResetReason::Protocol), out);
            }
        }
    }

    /// The peer reports that the connection no longer exists.
    fn on_reset(
        &mut self,
        now: Time,
        index: u32,
        why: Option<ResetReason>,
        out: &mut impl Outbox<Node>,
    ) {
        let Some(stream) = self.streams.at(index) else {
            return;
        };
        // The peer has forgotten a connection of which only the last acknowledgement was missing.
        let in_peace = stream.receiver.is_finished()
            && stream.sender.is_finished()
            && stream.sender.is_delivered();
        let client = stream.client;
        if in_peace && why == Some(ResetReason::Unknown) {
            return self.streams.retire(now, index);
        }
        self.tell_expired(index, out);
        let why = why.unwrap_or(ResetReason::Peer);
        if let Some(stream) = self.streams.remove(index) {
            self.forget_ticket(&stream, why);
        }
        if let Some(client) = client {
            tell(client, StreamReply::Reset(why), out);
        }
    }

    /// Handles a segment of an unknown connection. `last` are the flags of the segment before it in the same burst: one
    /// answer is enough.
    fn on_unknown(
        &mut self,
        now: Time,
        header: &Repr,
        key: Key,
        parsed: &Parsed<'_>,
        last: Option<Flags>,
        out: &mut impl Outbox<Node>,
    ) {
        let (segment, has_bytes) = (&parsed.segment, !parsed.bytes.is_empty());
        let flags = segment.flags;
        if flags.has(Flags::RST) || last.is_some() {
            return drop_one(Drop::StreamUnknown, out);
        }
        let calls = segment.calls();
        if let Some(ended) = self.streams.ended(&key) {
            if calls {
                // The call was repeated and delayed on its path: the connection existed, and has ended.
                return drop_one(Drop::StreamUnknown, out);
            }
            ended.flow_seq = ended.flow_seq.wrapping_add(1);
            let ended = *ended;
            // A peer that repeats itself has not received the acknowledgement; an acknowledgement requests nothing.
            if has_bytes || flags.has(Flags::FIN) || flags.has(Flags::PROBE) {
                self.acknowledge_ended(now, header, segment, ended, out);
            }
            return;
        }
        if calls {
            return match self.on_call(now, key, parsed, out) {
                Ok(()) => {}
                Err(why) => self.refuse(now, header, segment.connection, why, out),
            };
        }
        drop_one(Drop::StreamUnknown, out);
        self.refuse(now, header, segment.connection, ResetReason::Unknown, out);
    }

    /// Returns true if the caller exists. A sealed segment proves that. For an unsealed one, a record of the node and a
    /// path back to it are required, because otherwise a sender of invented addresses could take all places. A node
    /// whose record has not arrived yet repeats its call, and is then accepted.
    fn may_call(&self, peer: NodeAddr, around: Around) -> bool {
        let is_known =
            || self.router.database().links_of(peer).is_some() && self.router.has_way(peer);
        around.is_end() || peer == self.addr || is_known()
    }

    /// A peer wants to connect.
    fn on_call(
        &mut self,
        now: Time,
        key: Key,
        call: &Parsed<'_>,
        out: &mut impl Outbox<Node>,
    ) -> Result<(), ResetReason> {
        let listener = self.streams.listener(key.port)?;
        if !self.streams.has_room_for(key.peer) {
            return Err(ResetReason::Exhausted);
        }
        let segment = &call.segment;
        let early = match self.streams.tickets.admit(key.peer, segment.ticket) {
            Admission::Early => true,
            Admission::Plain => false,
            // The ticket was used by a connection that has ended: its early bytes are not delivered again.
            Admission::Seen => return Err(ResetReason::Unknown),
        };
        let ticket = (!early && segment.asks_for_ticket()).then(|| {
            let secret = self.rng.next_u64();
            self.streams.tickets.give(key.peer, secret)
        });
        let content = Content::called(segment.flags);
        let options = self.listener_options(listener);
        let stream = self.streams.next_stream();
        let mut connection = self.new_stream(now, key, Phase::Waiting(stream), content, &options);
        connection.on_call(call, early, ticket)?;
        let index = self.streams.add(connection);
        self.streams.wait(stream, index, key.port);
        let incoming = StreamReply::Incoming {
            stream,
            from: key.peer,
            port: key.peer_port,
            framing: content.framing(),
        };
        tell(listener, incoming, out);
        Ok(())
    }
}

/// Returns how many segments at the front of a run belong to one stream; 0 if the first packet is not a segment.
pub(super) fn alike(run: &Burst, around: Around) -> usize {
    let key = |i: usize| {
        let packet = packet_of(run, i, around);
        let header = Header::trusted(&run.bytes()[packet]);
        let payload = header.has_transport().then(|| header.payload())?;
        let is_segment = Kind::of(payload) == Ok(Kind::Segment);
        let connection = payload.get(4..8).filter(|_| is_segment)?;
        let connection: [u8; 4] = connection.try_into().ok()?;
        let from = (header.source(), header.source_port());
        Some((from, header.destination_port(), connection))
    };
    let Some(first) = key(0) else {
        return 0;
    };
    (0..run.segments())
        .take_while(|&i| key(i) == Some(first))
        .count()
}

fn packet_of(run: &Burst, i: usize, around: Around) -> Range<usize> {
    let from = i * run.stride();
    let to = (from + run.stride()).min(run.len());
    from + around.front..to - around.back
}

fn key_of<B: AsRef<[u8]>>(header: &Header<B>, parsed: &Parsed<'_>) -> Key {
    Key {
        peer: header.source(),
        peer_port: header.source_port(),
        port: header.destination_port(),
        connection: parsed.segment.connection,
    }
}
