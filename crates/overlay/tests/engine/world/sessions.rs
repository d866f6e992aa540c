//! Streams between nodes, and the applications at their ends: each written byte depends on its place, so that what
//! arrives is checked byte by byte.

use super::{Nodes, addr, read};
use base::{ClientId, Duration, NodeAddr, Time, VirtualPort};
use overlay::request::Options;
use overlay::stream::{Framing, ResetReason, StreamReply, StreamRequest};
use overlay::{Reply, Request, RequestError};
use std::collections::BTreeMap;
use std::collections::VecDeque;

pub const LISTENER: ClientId = ClientId(50_000);
/// Whether links carry the class "reliable".
pub const RELIABLE_LANES: bool = true;
pub const STREAM_PORT: VirtualPort = VirtualPort(8_080);
/// The first of the clients that connect, and of the clients that are accepted.
const CALLERS: u32 = 60_000;
const CALLED: u32 = 1_000_000;

/// One end of a stream.
#[derive(Debug)]
pub struct End {
    pub framing: Framing,
    /// Bytes still to be written, and bytes written.
    pub to_write: u64,
    pub written: u64,
    /// Messages to be written.
    pub messages: VecDeque<Vec<u8>>,
    /// The end of writing is reported when everything is written.
    pub finishes: bool,
    pub credit: u64,
    pub read: u64,
    /// Bytes delivered and not yet taken.
    pub unread: u64,
    /// The end takes delivered bytes at once.
    pub reads: bool,
    pub received: Vec<(Time, Vec<u8>)>,
    pub connected: Option<Time>,
    pub finished: Option<Time>,
    pub reset: Option<ResetReason>,
    /// Messages that have expired, of this end and of the peer, as last reported.
    pub expired: (u64, u64),
    pub last_read: Time,
    pub longest_pause: Duration,
    finish_sent: bool,
    salt: u64,
}

#[derive(Debug, Default)]
pub struct Sessions {
    pub ends: BTreeMap<(usize, ClientId), End>,
    /// The ends that were accepted, in the order of acceptance, with the peer's port.
    pub accepted: Vec<(usize, ClientId, NodeAddr, VirtualPort)>,
    pub listening: Vec<usize>,
    pub refused: Vec<RequestError>,
    /// Packets of calls in addition to the streams: when each arrived, its number, and when it was sent.
    pub datagrams: Vec<(Time, (u64, Time))>,
    /// How much accepted ends write, and whether they end when the peer does.
    pub answer_bytes: u64,
    pub callers: u32,
    pub called: u32,
}

pub fn byte(place: u64, salt: u64) -> u8 {
    (place.wrapping_add(salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

impl Sessions {
    pub fn listen(&mut self, nodes: &mut Nodes, node: usize, options: Option<Options>) {
        let port = STREAM_PORT;
        nodes.request(node, LISTENER, Request::Bind { port });
        if let Some(options) = options {
            nodes.request(node, LISTENER, Request::Options(options));
        }
        let listen = StreamRequest::Listen { backlog: 64 };
        nodes.request(node, LISTENER, Request::Stream(listen));
    }

    pub fn connect(
        &mut self,
        nodes: &mut Nodes,
        (from, to): (usize, usize),
        framing: Framing,
        options: Option<Options>,
    ) -> (usize, ClientId) {
        self.callers += 1;
        let client = ClientId(CALLERS + self.callers);
        if let Some(options) = options {
            nodes.request(from, client, Request::Options(options));
        }
        let connect = StreamRequest::Connect {
            to: addr(to),
            port: STREAM_PORT,
            framing,
        };
        nodes.request(from, client, Request::Stream(connect));
        let key = (from, client);
        self.ends.insert(key, end(nodes.world.now(), framing, 1));
        key
    }

    pub fn end(&mut self, key: (usize, ClientId)) -> &mut End {
        self.ends.get_mut(&key).unwrap()
    }

    /// Returns the accepted end number `i`.
    pub fn called(&mut self, i: usize) -> &mut End {
        let (node, client, ..) = self.accepted[i];
        self.end((node, client))
    }

    /// Runs for this time; applications act each millisecond.
    pub fn run_ms(&mut self, nodes: &mut Nodes, ms: u64) {
        for _ in 0..ms {
            nodes.run_ms(1);
            self.act(nodes);
        }
    }

    /// Runs until `done`, at most for this time.
    pub fn run_until(
        &mut self,
        nodes: &mut Nodes,
        ms: u64,
        mut done: impl FnMut(&Sessions) -> bool,
    ) -> bool {
        for _ in 0..ms {
            if done(self) {
                return true;
            }
            self.run_ms(nodes, 1);
        }
        done(self)
    }

    fn act(&mut self, nodes: &mut Nodes) {
        for answer in nodes.world.take_replies() {
            let node = nodes.hosts.iter().position(|h| *h == answer.host).unwrap();
            match answer.reply {
                Reply::Stream(reply) => self.on_reply(nodes, answer.at, node, answer.client, reply),
                Reply::Refused(why) => self.refused.push(why),
                Reply::Datagram { payload, .. } => {
                    self.datagrams.push((answer.at, read(payload.bytes())));
                }
                _ => {}
            }
        }
        let keys: Vec<(usize, ClientId)> = self.ends.keys().copied().collect();
        for key in keys {
            self.write(nodes, key);
        }
    }

    fn on_reply(
        &mut self,
        nodes: &mut Nodes,
        at: Time,
        node: usize,
        client: ClientId,
        reply: StreamReply,
    ) {
        if let StreamReply::Incoming {
            stream,
            from,
            port,
            framing,
        } = reply
        {
            self.called += 1;
            let called = ClientId(CALLED + self.called);
            let accept = StreamRequest::Accept { stream };
            nodes.request(node, called, Request::Stream(accept));
            let key = (node, called);
            let mut end = end(at, framing, 2);
            end.to_write = self.answer_bytes;
            end.finishes = true;
            self.ends.insert(key, end);
            self.accepted.push((node, called, from, port));
            return;
        }
        if matches!(reply, StreamReply::Listening) {
            return self.listening.push(node);
        }
        let Some(end) = self.ends.get_mut(&(node, client)) else {
            return;
        };
        assert!(end.reset.is_none(), "{reply:?} after a reset");
        match reply {
            StreamReply::Connected { .. } => end.connected = Some(at),
            StreamReply::Credit { bytes } => {
                assert!(end.connected.is_some());
                end.credit += u64::from(bytes);
            }
            StreamReply::Bytes { payload } => {
                assert!(end.connected.is_some() && end.finished.is_none());
                end.take(at, payload.bytes());
            }
            StreamReply::Finished => {
                assert!(end.finished.is_none(), "twice");
                end.finished = Some(at);
            }
            StreamReply::Reset(why) => end.reset = Some(why),
            StreamReply::Expired { given_up, missed } => end.expired = (given_up, missed),
            StreamReply::Listening | StreamReply::Incoming { .. } => unreachable!(),
        }
    }

    fn write(&mut self, nodes: &mut Nodes, key: (usize, ClientId)) {
        let end = self.ends.get_mut(&key).unwrap();
        if end.reset.is_some() || end.connected.is_none() {
            return;
        }
        let mut requests = Vec::new();
        if end.reads && end.unread > 0 {
            let bytes = end.unread as u32;
            end.unread = 0;
            requests.push(StreamRequest::Consumed { bytes });
        }
        let pool = nodes.world.pool();
        while end.framing == Framing::Bytes && end.to_write > 0 && end.credit > 0 {
            let len = end.to_write.min(end.credit).min(60_000) as usize;
            let bytes: Vec<u8> = (0..len as u64)
                .map(|i| byte(end.written + i, end.salt))
                .collect();
            // A host without a buffer waits.
            let Some(payload) = pool.copy_of(0, &bytes) else {
                break;
            };
            requests.push(StreamRequest::Write { payload });
            end.to_write -= len as u64;
            end.written += len as u64;
            end.credit -= len as u64;
        }
        while let Some(message) = end.messages.front()
            && message.len() as u64 <= end.credit
        {
            let payload = pool.copy_of(0, message).unwrap();
            requests.push(StreamRequest::Write { payload });
            end.credit -= message.len() as u64;
            end.written += message.len() as u64;
            end.messages.pop_front();
        }
        let done = end.to_write == 0 && end.messages.is_empty();
        if end.finishes && done && !end.finish_sent {
            end.finish_sent = true;
            requests.push(StreamRequest::Finish);
        }
        let (node, client) = key;
        for request in requests {
            nodes.request(node, client, Request::Stream(request));
        }
    }

    /// Closes the client of an end.
    pub fn close(&mut self, nodes: &mut Nodes, key: (usize, ClientId)) -> End {
        nodes.request(key.0, key.1, Request::Close);
        self.ends.remove(&key).unwrap()
    }
}

impl End {
    fn take(&mut self, at: Time, bytes: &[u8]) {
        // The peer's bytes have the other salt.
        let salt = 3 - self.salt;
        match self.framing {
            Framing::Bytes => {
                for (i, b) in bytes.iter().enumerate() {
                    let place = self.read + i as u64;
                    assert_eq!(*b, byte(place, salt), "byte {place}");
                }
            }
            Framing::Messages => self.received.push((at, bytes.to_vec())),
        }
        let pause = at.since(self.last_read);
        if self.read > 0 {
            self.longest_pause = self.longest_pause.max(pause);
        }
        self.last_read = at;
        self.read += bytes.len() as u64;
        self.unread += bytes.len() as u64;
    }
}

fn end(now: Time, framing: Framing, salt: u64) -> End {
    End {
        framing,
        to_write: 0,
        written: 0,
        messages: VecDeque::new(),
        finishes: false,
        credit: 0,
        read: 0,
        unread: 0,
        reads: true,
        received: Vec::new(),
        connected: None,
        finished: None,
        reset: None,
        expired: (0, 0),
        last_read: now,
        longest_pause: Duration::ZERO,
        finish_sent: false,
        salt,
    }
}
