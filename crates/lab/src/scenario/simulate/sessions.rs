//! Reliable streams of a scenario: a connection for each stream of a flow, whose packets are messages.
//!
//! ```text
//!   sent ─▶ waiting ── credit ──▶ Write ══ node ══ node ══▶ Bytes ─▶ meter, or the answers
//!   bulk ─────────────────┤ Credit              Reset: connect again      │ that wait
//!   meter ◀─ Bytes ══════ node ══ node ══ Write ◀── credit ───────────────┘
//! ```
//!
//! Data without credit waits. A connection that has ended is reopened; data that it had accepted and not delivered is
//! lost.

use super::network::{Network, Party};
use super::streams::{payload, receiver, receiver_of};
use crate::scenario::{FLOWS_MAX, Flow};
use base::{Burst, ClientId, Time};
use overlay::Request;
use overlay::request::Options;
use overlay::stream::{Framing, StreamReply, StreamRequest};
use sim::{Either, HostId, World};
use std::collections::VecDeque;

/// The base of the calling clients: each connection of a stream has its own client.
const CALLERS: u32 = 1 << 24;
/// Number of connections of a stream after which client numbers are used again: one each 10 ms for forty minutes.
const CONNECTIONS_MAX: u32 = 1 << 18;
/// The base of the accepting clients, in the order of their connections.
const CALLED: u32 = CALLERS + (FLOWS_MAX as u32) * CONNECTIONS_MAX;
const _: () = assert!(CALLED < u32::MAX / 2 + 1);

/// Bytes of bulk that are written at once: the size that fits a large buffer.
const BULK_BYTES: u64 = 60_000;

/// The connection of a stream.
pub(super) struct Session {
    connection: u32,
    credit: u64,
    /// Numbers, times and sizes of messages that the node has not accepted.
    waiting: VecDeque<(u32, Time, usize)>,
    /// The span in which it writes as much as it may, if it carries bulk.
    bulk: Option<(Time, Time)>,
    /// The client that was called last, its credit, and the answers that its node has not accepted.
    called: ClientId,
    called_credit: u64,
    answers: VecDeque<(u32, Time)>,
}

/// What a client of a connection was notified of.
pub(super) enum Told {
    Nothing,
    /// Data has arrived for the called client, over this stream.
    Called(usize, Burst),
    /// An answer has arrived.
    Answered(Burst),
    /// A caller's connection has ended and must be reopened.
    Over(usize),
}

impl Session {
    /// Creates a session that writes messages, or bulk between two moments.
    pub(super) fn new(bulk: Option<(Time, Time)>) -> Session {
        Session {
            connection: 0,
            credit: 0,
            waiting: VecDeque::new(),
            bulk,
            called: ClientId(0),
            called_credit: 0,
            answers: VecDeque::new(),
        }
    }

    /// Lets the receiver listen.
    pub(super) fn listen(
        world: &mut World<Party>,
        network: &Network<'_>,
        n: usize,
        flow: &Flow,
        options: Options,
    ) {
        let (client, port) = receiver(n);
        for request in [
            Request::Bind { port },
            Request::Options(flow.stream_options(options)),
            Request::Stream(StreamRequest::Listen { backlog: 8 }),
        ] {
            world.request(network.hosts[flow.to], client, Either::A(request));
        }
    }

    /// Lets the sender connect, again if it had a connection.
    pub(super) fn connect(
        &mut self,
        world: &mut World<Party>,
        network: &Network<'_>,
        n: usize,
        flow: &Flow,
        options: Options,
    ) {
        self.connection = (self.connection + 1) % CONNECTIONS_MAX;
        self.credit = 0;
        let connect = StreamRequest::Connect {
            to: network.address(flow.to),
            port: receiver(n).1,
            framing: match self.bulk {
                Some(_) => Framing::Bytes,
                None => Framing::Messages,
            },
        };
        for request in [
            Request::Options(flow.stream_options(options)),
            Request::Stream(connect),
        ] {
            let host = network.hosts[flow.from];
            world.request(host, self.caller(n), Either::A(request));
        }
    }

    /// Queues a message.
    pub(super) fn push(&mut self, number: u32, at: Time, bytes: usize) {
        self.waiting.push_back((number, at, bytes));
    }

    /// Queues an answer to a message.
    pub(super) fn answer(&mut self, number: u32, sent: Time) {
        self.answers.push_back((number, sent));
    }

    /// Hands both nodes the data that they accept, if their hosts are scheduled.
    pub(super) fn write(
        &mut self,
        world: &mut World<Party>,
        network: &Network<'_>,
        n: usize,
        (flow, stalled): (&Flow, [Time; 2]),
    ) {
        let caller = (network.hosts[flow.from], self.caller(n));
        while let Some(&(number, at, bytes)) = self.waiting.front()
            && self.credit >= bytes as u64
        {
            // A host without a free buffer waits.
            let Some(payload) = payload(world, (n as u32, number), at, bytes) else {
                return;
            };
            self.waiting.pop_front();
            self.credit -= bytes as u64;
            hand(world, caller, at, payload);
        }
        let bytes = flow.packet as u64;
        let called = (network.hosts[flow.to], self.called);
        while let Some(&(number, sent)) = self.answers.front()
            && self.called_credit >= bytes
        {
            let Some(payload) = payload(world, (n as u32, number), sent, flow.packet) else {
                return;
            };
            self.answers.pop_front();
            self.called_credit -= bytes;
            hand(world, called, stalled[1], payload);
        }
        let now = world.now();
        let writes = |&(from, until): &(Time, Time)| (from..until).contains(&now);
        while self.bulk.as_ref().is_some_and(writes) && self.credit > 0 && stalled[0] <= now {
            let len = self.credit.min(BULK_BYTES) as usize;
            let Some(mut payload) = world.pool().large() else {
                return;
            };
            payload.spare_mut()[..len].fill(0);
            payload.fill(len, len);
            self.credit -= len as u64;
            hand(world, caller, now, payload);
        }
    }

    fn caller(&self, n: usize) -> ClientId {
        ClientId(CALLERS + self.connection * FLOWS_MAX as u32 + n as u32)
    }
}

/// Lets a client write, not earlier than `at`.
fn hand(world: &mut World<Party>, (host, client): (HostId, ClientId), at: Time, payload: Burst) {
    let write = Either::A(Request::Stream(StreamRequest::Write { payload }));
    world.request_at(at.max(world.now()), host, client, write);
}

/// Returns the stream of a calling client.
pub(super) fn stream_of(client: ClientId) -> Option<usize> {
    let callers = CALLERS..CALLED;
    callers
        .contains(&client.0)
        .then(|| ((client.0 - CALLERS) % FLOWS_MAX as u32) as usize)
}

/// Handles a reply to a client; `accepted` has the stream of each connection.
pub(super) fn on_reply(
    world: &mut World<Party>,
    host: HostId,
    client: ClientId,
    reply: StreamReply,
    (accepted, sessions): (&mut Vec<usize>, &mut [Option<Session>]),
) -> Told {
    match reply {
        StreamReply::Incoming { stream, .. } => {
            let Some(n) = receiver_of(client) else {
                return Told::Nothing;
            };
            let called = ClientId(CALLED + accepted.len() as u32);
            accepted.push(n);
            if let Some(Some(session)) = sessions.get_mut(n) {
                (session.called, session.called_credit) = (called, 0);
                session.answers.clear();
            }
            let accept = Request::Stream(StreamRequest::Accept { stream });
            world.request(host, called, Either::A(accept));
        }
        StreamReply::Bytes { payload } => {
            let bytes = payload.bytes().len() as u32;
            let consumed = Request::Stream(StreamRequest::Consumed { bytes });
            world.request(host, client, Either::A(consumed));
            return match called_by(client, accepted) {
                Some(n) => Told::Called(n, payload),
                None => Told::Answered(payload),
            };
        }
        StreamReply::Credit { bytes } => {
            if let Some((_, session)) = calling(client, sessions) {
                session.credit += u64::from(bytes);
            } else if let Some(n) = called_by(client, accepted)
                && let Some(Some(session)) = sessions.get_mut(n)
                && session.called == client
            {
                session.called_credit += u64::from(bytes);
            }
        }
        StreamReply::Reset(_) => {
            if let Some((n, _)) = calling(client, sessions) {
                return Told::Over(n);
            }
        }
        StreamReply::Listening
        | StreamReply::Connected { .. }
        | StreamReply::Expired { .. }
        | StreamReply::Finished => {}
    }
    Told::Nothing
}

/// Returns the stream of a client that was called.
fn called_by(client: ClientId, accepted: &[usize]) -> Option<usize> {
    let place = client.0.checked_sub(CALLED)?;
    accepted.get(place as usize).copied()
}

/// Returns the session of a caller, if this is its present connection.
fn calling(client: ClientId, sessions: &mut [Option<Session>]) -> Option<(usize, &mut Session)> {
    let n = stream_of(client)?;
    let session = sessions.get_mut(n)?.as_mut()?;
    (session.caller(n) == client).then_some((n, session))
}
