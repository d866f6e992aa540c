//! Reliable streams of a scenario: a connection for each stream of a flow, whose packets are messages.
//!
//! ```text
//!   sent ─▶ waiting ── credit ──▶ Write ══ node ══ node ══▶ Bytes ─▶ meter
//!                         ▲ Credit              Reset: connect again
//! ```
//!
//! What finds no credit waits; a connection that has ended is opened again, and what it had taken and
//! not delivered is lost.

use super::network::{Network, Party};
use super::streams::{payload, receiver};
use crate::scenario::{FLOWS_MAX, Flow};
use base::{Burst, ClientId, Time};
use overlay::Request;
use overlay::request::Options;
use overlay::stream::{Framing, StreamReply, StreamRequest};
use sim::{Either, World};
use std::collections::VecDeque;

/// The calling clients: of each stream one for each connection that it has had.
const CALLERS: u32 = 1 << 24;
/// Connections of a stream, after which numbers are used again: one each 10 ms for forty minutes.
const CONNECTIONS_MAX: u32 = 1 << 18;
/// The clients that accept, in the order of their connections.
const CALLED: u32 = CALLERS + (FLOWS_MAX as u32) * CONNECTIONS_MAX;
const _: () = assert!(CALLED < u32::MAX / 2 + 1);

/// The connection of a stream.
pub(super) struct Session {
    connection: u32,
    credit: u64,
    /// Numbers and times of messages that the node has not taken.
    waiting: VecDeque<(u32, Time)>,
}

/// What a client of a connection was told.
pub(super) enum Told {
    Nothing,
    /// A message has come for whoever was called.
    Message(Burst),
    /// A caller's connection has ended: it is to be opened again.
    Over(usize),
}

impl Session {
    pub(super) fn new() -> Session {
        Session {
            connection: 0,
            credit: 0,
            waiting: VecDeque::new(),
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
            framing: Framing::Messages,
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
    pub(super) fn push(&mut self, number: u32, at: Time) {
        self.waiting.push_back((number, at));
    }

    /// Hands the node what it takes.
    pub(super) fn write(
        &mut self,
        world: &mut World<Party>,
        network: &Network<'_>,
        n: usize,
        flow: &Flow,
    ) {
        while let Some(&(number, at)) = self.waiting.front()
            && self.credit >= flow.packet as u64
        {
            // A host without a buffer waits.
            let Some(payload) = payload(world, (n as u32, number), at, flow.packet) else {
                return;
            };
            self.waiting.pop_front();
            self.credit -= flow.packet as u64;
            let write = Either::A(Request::Stream(StreamRequest::Write { payload }));
            let host = network.hosts[flow.from];
            world.request_at(at.max(world.now()), host, self.caller(n), write);
        }
    }

    fn caller(&self, n: usize) -> ClientId {
        ClientId(CALLERS + self.connection * FLOWS_MAX as u32 + n as u32)
    }
}

/// The stream of a calling client.
pub(super) fn stream_of(client: ClientId) -> Option<usize> {
    let callers = CALLERS..CALLED;
    callers
        .contains(&client.0)
        .then(|| ((client.0 - CALLERS) % FLOWS_MAX as u32) as usize)
}

/// Takes in what a client was told; `accepted` counts connections.
pub(super) fn on_reply(
    world: &mut World<Party>,
    host: sim::HostId,
    client: ClientId,
    reply: StreamReply,
    (accepted, sessions): (&mut u32, &mut [Option<Session>]),
) -> Told {
    match reply {
        StreamReply::Incoming { stream, .. } => {
            *accepted += 1;
            let accept = Request::Stream(StreamRequest::Accept { stream });
            world.request(host, ClientId(CALLED + *accepted), Either::A(accept));
        }
        StreamReply::Bytes { payload } => {
            let bytes = payload.bytes().len() as u32;
            let consumed = Request::Stream(StreamRequest::Consumed { bytes });
            world.request(host, client, Either::A(consumed));
            return Told::Message(payload);
        }
        StreamReply::Credit { bytes } => {
            if let Some((_, session)) = calling(client, sessions) {
                session.credit += u64::from(bytes);
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

/// The session of a caller, if this is its present connection.
fn calling(client: ClientId, sessions: &mut [Option<Session>]) -> Option<(usize, &mut Session)> {
    let n = stream_of(client)?;
    let session = sessions.get_mut(n)?.as_mut()?;
    (session.caller(n) == client).then_some((n, session))
}
