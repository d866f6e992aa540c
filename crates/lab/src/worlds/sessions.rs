//! The reliable streams of a world: the written bytes follow from their position, so every byte that arrives is
//! checked, and after all faults have ended everything that was written must arrive.

use super::network::Nodes;
use super::plan::{Plan, Session};
use base::{ClientId, Time, VirtualPort};
use overlay::Request;
use overlay::stream::{Framing, StreamReply, StreamRequest};
use std::collections::BTreeMap;

/// Bytes that an application writes at a time.
const STEP: u64 = 3_000;
/// The longest message.
const MESSAGE_MAX: u64 = 5_000;
/// Bytes at the beginning of a connection that identify it.
const LABEL_BYTES: u64 = 8;

/// The calling end.
#[derive(Debug, Default)]
struct Caller {
    /// The number of the connection within the session.
    connection: u64,
    connected: bool,
    over: bool,
    credit: u64,
    written: u64,
    messages: u64,
    finished: bool,
}

/// The called end.
#[derive(Debug, Default)]
struct Called {
    session: usize,
    /// The number of the connection within the session, once its label has arrived.
    label: [u8; LABEL_BYTES as usize],
    read: u64,
    messages: u64,
    finished: bool,
    over: bool,
}

/// All reliable streams.
pub(super) struct Sessions {
    sessions: Vec<Session>,
    callers: Vec<Caller>,
    called: BTreeMap<(usize, ClientId), Called>,
    accepted: u32,
    /// Whether nothing more is written.
    ending: bool,
    /// Bytes that have arrived.
    pub(super) read: u64,
    /// Streams that have ended early.
    pub(super) resets: u64,
}

impl Sessions {
    /// Opens the listeners and calls.
    pub(super) fn open(nodes: &mut Nodes<'_>, plan: &Plan) -> Sessions {
        let mut all = Sessions {
            sessions: plan.sessions.clone(),
            callers: Vec::new(),
            called: BTreeMap::new(),
            accepted: 0,
            ending: false,
            read: 0,
            resets: 0,
        };
        for i in 0..all.sessions.len() {
            all.callers.push(Caller::default());
            all.listen(nodes, i);
            all.call(nodes, i);
        }
        all
    }

    /// Replaces the clients of a restarted node.
    pub(super) fn reopen(&mut self, nodes: &mut Nodes<'_>, node: usize) {
        self.called.retain(|(at, _), _| *at != node);
        for i in 0..self.sessions.len() {
            if self.sessions[i].to == node {
                self.listen(nodes, i);
            }
            if self.sessions[i].from == node {
                self.call(nodes, i);
            }
        }
    }

    fn listen(&self, nodes: &mut Nodes<'_>, i: usize) {
        let session = &self.sessions[i];
        let (client, port) = listener(i);
        let requests = [
            Request::Bind { port },
            Request::Options(session.options),
            Request::Stream(StreamRequest::Listen { backlog: 8 }),
        ];
        for request in requests {
            nodes.request(session.to, client, request);
        }
    }

    fn call(&mut self, nodes: &mut Nodes<'_>, i: usize) {
        let session = &self.sessions[i];
        let connection = self.callers[i].connection + 1;
        self.callers[i] = Caller {
            connection,
            ..Caller::default()
        };
        let client = caller(i, connection);
        let connect = StreamRequest::Connect {
            to: nodes.addr(session.to),
            port: listener(i).1,
            framing: session.framing,
        };
        nodes.request(session.from, client, Request::Options(session.options));
        nodes.request(session.from, client, Request::Stream(connect));
    }

    /// Handles a reply of the engine to a client.
    pub(super) fn on_reply(
        &mut self,
        nodes: &mut Nodes<'_>,
        node: usize,
        client: ClientId,
        reply: StreamReply,
    ) -> Result<(), String> {
        if let StreamReply::Incoming { stream, .. } = reply {
            self.accepted += 1;
            let called = ClientId(CALLED + self.accepted);
            let session = (client.0 - LISTENERS) as usize;
            let end = Called {
                session,
                ..Called::default()
            };
            self.called.insert((node, called), end);
            let accept = StreamRequest::Accept { stream };
            nodes.request(node, called, Request::Stream(accept));
            return Ok(());
        }
        if client.0 >= CALLED {
            return self.on_called(nodes, node, client, reply);
        }
        let i = ((client.0.saturating_sub(CALLERS)) / CONNECTIONS_MAX) as usize;
        let Some(end) = self.callers.get_mut(i) else {
            return Ok(());
        };
        if client != caller(i, end.connection) {
            // The reply belongs to a connection before its last reset.
            return Ok(());
        }
        match reply {
            StreamReply::Connected { .. } => end.connected = true,
            StreamReply::Credit { bytes } => end.credit += u64::from(bytes),
            StreamReply::Reset(_) => {
                end.over = true;
                self.resets += 1;
            }
            StreamReply::Bytes { .. } => return Err("bytes that nobody has written".to_owned()),
            StreamReply::Finished => {}
            StreamReply::Listening | StreamReply::Incoming { .. } | StreamReply::Expired { .. } => {
            }
        }
        Ok(())
    }

    fn on_called(
        &mut self,
        nodes: &mut Nodes<'_>,
        node: usize,
        client: ClientId,
        reply: StreamReply,
    ) -> Result<(), String> {
        let Some(end) = self.called.get_mut(&(node, client)) else {
            return Ok(());
        };
        match reply {
            StreamReply::Bytes { payload } => {
                let bytes = payload.bytes();
                let session = &self.sessions[end.session];
                end.take(bytes, session.framing)?;
                self.read += bytes.len() as u64;
                let consumed = StreamRequest::Consumed {
                    bytes: bytes.len() as u32,
                };
                nodes.request(node, client, Request::Stream(consumed));
            }
            StreamReply::Finished => end.finished = true,
            StreamReply::Reset(_) => end.over = true,
            _ => {}
        }
        Ok(())
    }

    /// Lets applications write, and call again when a connection has ended.
    pub(super) fn act(&mut self, nodes: &mut Nodes<'_>) {
        for i in 0..self.sessions.len() {
            let from = self.sessions[i].from;
            if nodes.down[from] {
                continue;
            }
            if self.callers[i].over {
                self.call(nodes, i);
                continue;
            }
            self.write(nodes, i);
        }
    }

    fn write(&mut self, nodes: &mut Nodes<'_>, i: usize) {
        let session = &self.sessions[i];
        let end = &mut self.callers[i];
        if !end.connected || end.finished {
            return;
        }
        let client = caller(i, end.connection);
        // At least the label is written, so that the receiver knows which connection has ended.
        if self.ending && end.written >= LABEL_BYTES {
            end.finished = true;
            let finish = Request::Stream(StreamRequest::Finish);
            return nodes.request(session.from, client, finish);
        }
        let len = match session.framing {
            Framing::Bytes => STEP.min(end.credit),
            Framing::Messages => message_bytes(end.messages),
        };
        if len == 0 || len > end.credit {
            return;
        }
        let bytes: Vec<u8> = (0..len)
            .map(|k| byte(i, end.connection, end.written + k))
            .collect();
        // A host without a free buffer waits.
        let Some(payload) = nodes.world.pool().copy_of(0, &bytes) else {
            return;
        };
        end.credit -= len;
        end.written += len;
        end.messages += 1;
        let write = StreamRequest::Write { payload };
        nodes.request(session.from, client, Request::Stream(write));
    }

    /// Stops writing from now on, and ends all streams.
    pub(super) fn end(&mut self) {
        self.ending = true;
    }

    /// Returns why written data has not arrived, or its end is not known.
    pub(super) fn complaint(&self, now: Time, counts: impl Fn(&Session) -> bool) -> Option<String> {
        for (i, end) in self.callers.iter().enumerate() {
            if !counts(&self.sessions[i]) {
                continue;
            }
            let came = self.called.values().find(|called| {
                called.session == i
                    && called.read >= LABEL_BYTES
                    && u64::from_be_bytes(called.label) == end.connection
            });
            let done = came.is_some_and(|called| called.read == end.written && called.finished);
            if !done {
                return Some(format!(
                    "session {i} at {now}: {:?}, {end:?}, {came:?}",
                    self.sessions[i]
                ));
            }
        }
        None
    }

    /// Closes all clients.
    pub(super) fn close(&mut self, nodes: &mut Nodes<'_>) {
        for (i, end) in self.callers.iter().enumerate() {
            let session = &self.sessions[i];
            nodes.request(session.from, caller(i, end.connection), Request::Close);
            nodes.request(session.to, listener(i).0, Request::Close);
        }
        for (node, client) in self.called.keys() {
            nodes.request(*node, *client, Request::Close);
        }
        self.callers.clear();
        self.sessions.clear();
        self.called.clear();
    }
}

impl Called {
    fn take(&mut self, bytes: &[u8], framing: Framing) -> Result<(), String> {
        if self.finished || self.over {
            return Err(format!("bytes after the end of {self:?}"));
        }
        if framing == Framing::Messages && bytes.len() as u64 != message_bytes(self.messages) {
            return Err(format!("a message of {} bytes at {self:?}", bytes.len()));
        }
        self.messages += 1;
        for got in bytes {
            if self.read < LABEL_BYTES {
                self.label[self.read as usize] = *got;
            } else {
                let connection = u64::from_be_bytes(self.label);
                if *got != byte(self.session, connection, self.read) {
                    return Err(format!("a wrong byte at {self:?}"));
                }
            }
            self.read += 1;
        }
        Ok(())
    }
}

/// The first numbers of clients that call, that listen, and that are called.
const CALLERS: u32 = 10_000_000;
const CONNECTIONS_MAX: u32 = 100_000;
const LISTENERS: u32 = 20_000_000;
const CALLED: u32 = 30_000_000;

fn caller(i: usize, connection: u64) -> ClientId {
    ClientId(CALLERS + i as u32 * CONNECTIONS_MAX + connection as u32 % CONNECTIONS_MAX)
}

fn listener(i: usize) -> (ClientId, VirtualPort) {
    (
        ClientId(LISTENERS + i as u32),
        VirtualPort(7_000 + i as u16),
    )
}

/// Returns the byte at a position of a connection; the first ones are its label.
fn byte(session: usize, connection: u64, place: u64) -> u8 {
    if place < LABEL_BYTES {
        return connection.to_be_bytes()[place as usize];
    }
    let mixed =
        (place ^ connection << 40 ^ (session as u64) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as u8
}

/// Returns the length of a message by its number.
fn message_bytes(number: u64) -> u64 {
    LABEL_BYTES + number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % MESSAGE_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_not_be_delivered_is_noticed() {
        let stream =
            |from: u64, to: u64| -> Vec<u8> { (from..to).map(|p| byte(3, 7, p)).collect() };
        let mut end = Called {
            session: 3,
            ..Called::default()
        };
        end.take(&stream(0, 5), Framing::Bytes).unwrap();
        end.take(&stream(5, 900), Framing::Bytes).unwrap();
        assert!(
            end.take(&stream(901, 902), Framing::Bytes).is_err(),
            "one lost"
        );
        let mut end = Called {
            session: 3,
            ..Called::default()
        };
        let first = message_bytes(0);
        end.take(&stream(0, first), Framing::Messages).unwrap();
        let short = stream(first, first + message_bytes(1) - 1);
        assert!(end.take(&short, Framing::Messages).is_err(), "cut");
        end.finished = true;
        assert!(end.take(&stream(first, first + 1), Framing::Bytes).is_err());
    }
}
