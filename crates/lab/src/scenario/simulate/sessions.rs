//! Reliable streams of a scenario: a connection for each stream of a flow, whose packets are messages.
//!
//! ```text
//!   sent ─▶ waiting ── credit ──▶ Write ══ node ══ node ══▶ Bytes ─▶ meter, or the answers
//!   bulk ─────────────────┤ Credit              Reset: connect again      │ that wait
//!   meter ◀─ Bytes ══════ node ══ node ══ Write ◀── credit ───────────────┘
//! ```
//!
//! What finds no credit waits; a connection that has ended is opened again, and what it had taken and
//! not delivered is lost.

use super::network::{Network, Party};
use super::streams::{payload, receiver, receiver_of};
use crate::scenario::{FLOWS_MAX, Flow};
use base::{Burst, ClientId, Time};
use overlay::Request;
use overlay::request::Options;
use overlay::stream::{Framing, StreamReply, StreamRequest};
use sim::{Either, HostId, World};
use std::collections::VecDeque;

/// The calling clients: of each stream one for each connection that it has had.
const CALLERS: u32 = 1 << 24;
/// Connections of a stream, after which numbers are used again: one each 10 ms for forty minutes.
const CONNECTIONS_MAX: u32 = 1 << 18;
/// The clients that accept, in the order of their connections.
const CALLED: u32 = CALLERS + (FLOWS_MAX as u32) * CONNECTIONS_MAX;
const _: () = assert!(CALLED < u32::MAX / 2 + 1);

/// Bytes of bulk that are written at once: what fits a large buffer.
const BULK_BYTES: u64 = 60_000;

/// The connection of a stream.
pub(super) struct Session {
    connection: u32,
    credit: u64,
    /// Numbers, times and bytes of messages that the node has not taken.
    waiting: VecDeque<(u32, Time, usize)>,
    /// From when until when it writes as much as it may, if it does.
    bulk: Option<(Time, Time)>,
    /// Who was called last, what it may write, and the answers that its node has not taken.
    called: ClientId,
    called_credit: u64,
    answers: VecDeque<(u32, Time)>,
}

/// What a client of a connection was told.
pub(super) enum Told {
    Nothing,
    /// Something has come for whoever was called, over this stream.
    Called(usize, Burst),
    /// An answer has come.
    Answered(Burst),
    /// A caller's connection has ended: it is to be opened again.
    Over(usize),
}

impl Session {
    /// One that writes messages, or bulk between two moments.
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

    /// The receiver listens.
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

    /// The sender connects, again if it had a connection.
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

    /// A message is to be sent.
    pub(super) fn push(&mut self, number: u32, at: Time, bytes: usize) {
        self.waiting.push_back((number, at, bytes));
    }

    /// A message is to be answered.
    pub(super) fn answer(&mut self, number: u32, sent: Time) {
        self.answers.push_back((number, sent));
    }

    /// Hands both nodes what they take, as far as their hosts are scheduled.
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
            // A host without a buffer waits.
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

/// A client writes, not earlier than then.
fn hand(world: &mut World<Party>, (host, client): (HostId, ClientId), at: Time, payload: Burst) {
    let write = Either::A(Request::Stream(StreamRequest::Write { payload }));
    world.request_at(at.max(world.now()), host, client, write);
}

/// The stream of a calling client.
pub(super) fn stream_of(client: ClientId) -> Option<usize> {
    let callers = CALLERS..CALLED;
    callers
        .contains(&client.0)
        .then(|| ((client.0 - CALLERS) % FLOWS_MAX as u32) as usize)
}

/// Takes in what a client was told; `accepted` has the stream of each connection.
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

/// The stream of a client that was called.
fn called_by(client: ClientId, accepted: &[usize]) -> Option<usize> {
    let place = client.0.checked_sub(CALLED)?;
    accepted.get(place as usize).copied()
}

/// The session of a caller, if this is its present connection.
fn calling(client: ClientId, sessions: &mut [Option<Session>]) -> Option<(usize, &mut Session)> {
    let n = stream_of(client)?;
    let session = sessions.get_mut(n)?.as_mut()?;
    (session.caller(n) == client).then_some((n, session))
}
