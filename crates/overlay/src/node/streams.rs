//! Streams of this node's clients: their requests, the replies, and the timers.

use super::Node;
use crate::event::Event;
use crate::request::{Options, Reply, RequestError};
use crate::sockets::default_options;
use crate::stream::{
    Connection, Content, DEFAULT_CLASS, Framing, Key, Phase, ResetReason, StreamReply,
    StreamRequest,
};
use base::{Burst, ClientId, Duration, NodeAddr, Outbox, Time, VirtualPort};

/// The most bytes of a burst in which ordered bytes go to the host.
const DELIVERY_BYTES_MAX: usize = 60 << 10;
/// How long a stream waits if there is no packet buffer.
pub(super) const BUFFER_RETRY: Duration = Duration::from_millis(2);

impl Node {
    /// Handles a client's request about streams.
    pub(super) fn on_stream_request(
        &mut self,
        now: Time,
        client: ClientId,
        request: StreamRequest,
        out: &mut impl Outbox<Node>,
    ) {
        let done = match request {
            StreamRequest::Listen { backlog } => self.listen(client, backlog, out),
            StreamRequest::Connect { to, port, framing } => {
                self.connect(now, client, (to, port), framing, out)
            }
            other => return self.on_open_stream(now, client, other, out),
        };
        if let Err(why) = done {
            out.deliver(client, Reply::Refused(why));
        }
    }

    fn on_open_stream(
        &mut self,
        now: Time,
        client: ClientId,
        request: StreamRequest,
        out: &mut impl Outbox<Node>,
    ) {
        match request {
            StreamRequest::Accept { stream } => {
                match self.streams.accept(now, stream, client) {
                    Some(index) => {
                        self.tell_connected(index, out);
                        // These are the bytes that came with the call.
                        self.deliver_stream(now, index, out);
                    }
                    // The caller has given up meanwhile.
                    None => tell(client, StreamReply::Reset(ResetReason::Peer), out),
                }
                return;
            }
            StreamRequest::Decline { stream } => {
                if let Some(index) = self.streams.waiting(stream) {
                    self.abort(now, index, ResetReason::Refused, out);
                }
                return;
            }
            _ => {}
        }
        // A stream may have ended before the host learned of it.
        let Some(index) = self.streams.by_client(client) else {
            return;
        };
        self.streams.touch(index);
        let Some((stream, budget)) = self.streams.with_budget(index) else {
            return;
        };
        match request {
            StreamRequest::Write { payload } => {
                if !stream.may_write() || !stream.sender.write(now, payload.bytes()) {
                    self.abort(now, index, ResetReason::Protocol, out);
                }
            }
            StreamRequest::Finish => stream.sender.finish(),
            StreamRequest::Leave => stream.linger(now),
            StreamRequest::Consumed { bytes } => stream.on_consumed(now, bytes, budget),
            StreamRequest::AskExpired => tell(client, stream.expired_messages(), out),
            StreamRequest::Reset => {
                self.streams.leave(client);
                self.end_quietly(now, index, ResetReason::Peer, out);
            }
            StreamRequest::Listen { .. }
            | StreamRequest::Connect { .. }
            | StreamRequest::Accept { .. }
            | StreamRequest::Decline { .. } => {}
        }
    }

    fn listen(
        &mut self,
        client: ClientId,
        backlog: u16,
        out: &mut impl Outbox<Node>,
    ) -> Result<(), RequestError> {
        if self.streams.by_client(client).is_some() {
            return Err(RequestError::PortInUse);
        }
        let port = match self.sockets.open(client, &mut self.rng)?.port {
            Some(port) => port,
            None => {
                let port = self.sockets.bind(client, VirtualPort(0), &mut self.rng)?;
                out.deliver(client, Reply::Bound { port });
                port
            }
        };
        self.streams.listen(port, client, backlog);
        tell(client, StreamReply::Listening, out);
        Ok(())
    }

    fn connect(
        &mut self,
        now: Time,
        client: ClientId,
        (to, port): (NodeAddr, VirtualPort),
        framing: Framing,
        out: &mut impl Outbox<Node>,
    ) -> Result<(), RequestError> {
        if !to.is_node() {
            return Err(RequestError::BadDestination);
        }
        self.check_can_seal(to, port)?;
        if self.streams.by_client(client).is_some() {
            return Err(RequestError::PortInUse);
        }
        if !self.streams.has_room() {
            return Err(RequestError::Exhausted);
        }
        let socket = self.sockets.open(client, &mut self.rng)?;
        let options = stream_options(socket.options);
        let own = match socket.port {
            Some(port) => port,
            None => self.sockets.bind(client, VirtualPort(0), &mut self.rng)?,
        };
        let key = loop {
            let key = Key {
                peer: to,
                peer_port: port,
                port: own,
                connection: self.rng.next_u64() as u32,
            };
            if self.streams.by_key(&key).is_none() {
                break key;
            }
        };
        let content = Content::asked(framing, options.deadline);
        // A node that has to agree on keys first waits for an answer anyway. Its opening would be repeated meanwhile,
        // and its ticket may date from before a restart of the peer.
        let has_keys = !self.seals_to(to, (own, port)) || self.ends.has_session(to);
        let ticket = (options.early && has_keys).then(|| self.streams.tickets.next(to));
        let phase = ticket.flatten().map_or(Phase::Calling, Phase::Early);
        let mut stream = self.new_stream(now, key, phase, content, &options);
        stream.client = Some(client);
        let may_write = stream.may_write();
        let index = self.streams.add(stream);
        if may_write {
            self.tell_connected(index, out);
        }
        Ok(())
    }

    pub(super) fn new_stream(
        &self,
        now: Time,
        key: Key,
        phase: Phase,
        content: Content,
        options: &Options,
    ) -> Connection {
        // The numbers of a flow rise from one stream to the next between the same ports, like the initial sequence
        // numbers of TCP: by a quarter of a million each second.
        let first = self.boot.wrapping_add((now.as_micros() / 4) as u32);
        let settings = &self.settings.streams;
        Connection::new(now, key, phase, content, options, settings, first)
    }

    /// Returns the options of a listener's streams.
    pub(super) fn listener_options(&mut self, client: ClientId) -> Options {
        let socket = self.sockets.client(client);
        stream_options(socket.map_or_else(default_options, |socket| socket.options))
    }

    /// Ends the streams of a client that has gone. If the client had written everything, the stream still delivers
    /// that; otherwise it is reset. Streams that wait at its listener are refused.
    pub(super) fn leave_streams(
        &mut self,
        now: Time,
        client: ClientId,
        out: &mut impl Outbox<Node>,
    ) {
        for index in self.streams.stop_listening(client) {
            self.abort(now, index, ResetReason::Refused, out);
        }
        let Some(index) = self.streams.leave(client) else {
            return;
        };
        let Some(stream) = self.streams.at(index) else {
            return;
        };
        if stream.may_write() && stream.sender.is_finished() {
            stream.orphan(now);
            self.streams.touch(index);
        } else {
            self.end_quietly(now, index, ResetReason::Peer, out);
        }
    }

    /// Ends all streams, because the node stops. The peers are told, because they would take its silence for an outage
    /// for a long time.
    pub(super) fn end_streams(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        for index in self.streams.indices() {
            self.end_quietly(now, index, ResetReason::Peer, out);
        }
    }

    pub(super) fn on_stream_timeouts(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        while let Some(index) = self.streams.pop_due(now) {
            self.streams.touch(index);
            match self.streams.at(index).map(|stream| stream.on_timeout(now)) {
                Some(Err(why)) => self.abort(now, index, why, out),
                // Perhaps there was no buffer for bytes that are complete.
                Some(Ok(())) => self.deliver_stream(now, index, out),
                None => {}
            }
        }
    }

    /// Ends a stream early, and tells both ends why.
    pub(super) fn abort(
        &mut self,
        now: Time,
        index: u32,
        why: ResetReason,
        out: &mut impl Outbox<Node>,
    ) {
        let client = self.streams.at(index).and_then(|stream| stream.client);
        self.tell_expired(index, out);
        self.end_quietly(now, index, why, out);
        if let Some(client) = client {
            tell(client, StreamReply::Reset(why), out);
        }
    }

    /// Ends a stream without a message to the client. If the stream was never accepted, the peer learns that it was
    /// refused.
    fn end_quietly(
        &mut self,
        now: Time,
        index: u32,
        why: ResetReason,
        out: &mut impl Outbox<Node>,
    ) {
        if let Some(mut stream) = self.streams.remove(index) {
            self.forget_ticket(&stream, why);
            let why = match stream.phase {
                Phase::Waiting(_) => ResetReason::Refused,
                Phase::Calling | Phase::Early(_) | Phase::Open => why,
            };
            let header = stream.header(self.addr, true);
            self.send_reset(now, header, stream.key.connection, why, out);
        }
    }

    /// Forgets the ticket after a call with bytes has failed, so that the next call is an ordinary one.
    pub(super) fn forget_ticket(&mut self, stream: &Connection, why: ResetReason) {
        if stream.is_early() && why != ResetReason::Refused {
            self.streams.tickets.forget(stream.key.peer);
        }
    }

    pub(super) fn tell_connected(&mut self, index: u32, out: &mut impl Outbox<Node>) {
        let Some(stream) = self.streams.at(index) else {
            return;
        };
        if let Some(client) = stream.client {
            let port = stream.key.port;
            tell(client, StreamReply::Connected { port }, out);
        }
    }

    /// Hands the host the bytes that are complete, and tells it when the stream has ended.
    pub(super) fn deliver_stream(&mut self, now: Time, index: u32, out: &mut impl Outbox<Node>) {
        loop {
            let Some(stream) = self.streams.at(index) else {
                return;
            };
            let Some(client) = stream.client else {
                return;
            };
            let len = match stream.receiver.ready() {
                Ok(Some(len)) => len,
                Ok(None) => break,
                Err(why) => return self.abort(now, index, why, out),
            };
            let len = match stream.content {
                Content::Bytes => len.min(DELIVERY_BYTES_MAX),
                Content::Messages | Content::Expiring => len,
            };
            let buffer = match len <= base::pool::SMALL_BYTES {
                true => out.pool().small(),
                false => out.pool().large(),
            };
            let Some(mut payload) = buffer else {
                // No bytes are lost: they stay where they are.
                stream.retry_after(now, BUFFER_RETRY);
                break;
            };
            stream.receiver.deliver(&mut payload.spare_mut()[..len]);
            payload.fill(len, len);
            hand_over(client, payload, out);
        }
        let Some(stream) = self.streams.at(index) else {
            return;
        };
        if stream.receiver.is_finished() && !core::mem::replace(&mut stream.finish_told, true) {
            let client = stream.client;
            self.tell_expired(index, out);
            if let Some(client) = client {
                tell(client, StreamReply::Finished, out);
            }
        }
    }

    /// Tells a client how many messages have expired, if any.
    pub(super) fn tell_expired(&mut self, index: u32, out: &mut impl Outbox<Node>) {
        let Some(stream) = self.streams.at(index) else {
            return;
        };
        let some = stream.sender.given_up() + stream.receiver.missed() > 0;
        if let Some(client) = stream.client.filter(|_| some) {
            tell(client, stream.expired_messages(), out);
        }
    }
}

/// Returns the options of a stream's packets: those of its socket, or the defaults of streams if the client has not
/// chosen.
fn stream_options(mut options: Options) -> Options {
    if options == default_options() {
        options.class = DEFAULT_CLASS;
    }
    options
}

pub(super) fn tell(client: ClientId, reply: StreamReply, out: &mut impl Outbox<Node>) {
    out.deliver(client, Reply::Stream(reply));
}

/// Hands bytes of a stream to its client.
pub(super) fn hand_over(client: ClientId, payload: Burst, out: &mut impl Outbox<Node>) {
    out.report(Event::Delivered {
        bytes: payload.len() as u32,
    });
    tell(client, StreamReply::Bytes { payload }, out);
}
