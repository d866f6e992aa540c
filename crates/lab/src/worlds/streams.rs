//! The streams of a world, and the fate of each of their packets.

use super::groups::Groups;
use super::network::Nodes;
use super::plan::{Plan, Stream};
use super::sessions::Sessions;
use base::{ClientId, Duration, NodeAddr, Time, VirtualPort};
use overlay::request::Delivery;
use overlay::{Reply, Request};
use sim::Answer;
use wire::HEADROOM;

/// Bytes of payload that identify the packet and contain its time of sending.
const LABEL_BYTES: usize = 16;

/// All streams.
pub(super) struct Streams {
    streams: Vec<Stream>,
    start: Time,
    /// Per stream and packet: when it arrived, if it did.
    arrivals: Vec<Vec<Option<Time>>>,
    /// Per stream: the number of the latest delivered packet.
    latest: Vec<Option<u32>>,
    /// Per node: when it last lost its memory.
    forgot: Vec<Option<Time>>,
    /// The fewest hops between any two nodes.
    hops: Vec<Vec<usize>>,
    /// How often clients got another reply than a datagram.
    pub(super) refused: u64,
}

impl Streams {
    /// Opens the sockets; packets are sent when [`Streams::send`] is called.
    pub(super) fn open(nodes: &mut Nodes<'_>, plan: &Plan) -> Streams {
        let streams = plan.streams.clone();
        let all = Streams {
            start: nodes.world.now(),
            arrivals: vec![Vec::new(); streams.len()],
            latest: vec![None; streams.len()],
            forgot: vec![None; nodes.hosts.len()],
            streams,
            hops: plan.hops(),
            refused: 0,
        };
        for i in 0..all.streams.len() {
            all.open_one(nodes, i);
        }
        all
    }

    /// Reopens the sockets of a restarted node's clients.
    pub(super) fn reopen(&mut self, nodes: &mut Nodes<'_>, node: usize) {
        self.forgot[node] = Some(nodes.world.now());
        for i in 0..self.streams.len() {
            if self.streams[i].from == node || self.streams[i].to == node {
                self.open_one(nodes, i);
            }
        }
    }

    fn open_one(&self, nodes: &mut Nodes<'_>, i: usize) {
        let (stream, (client, port)) = (&self.streams[i], receiver(i));
        let options = Request::Options(stream.options);
        nodes.request(stream.to, client, Request::Bind { port });
        nodes.request(stream.to, client, options);
        nodes.request(stream.from, sender(i), Request::Options(stream.options));
    }

    /// Schedules the packets that are sent before `until`.
    pub(super) fn send(&mut self, nodes: &mut Nodes<'_>, until: Time) {
        for (i, stream) in self.streams.iter().enumerate() {
            loop {
                let n = self.arrivals[i].len() as u64;
                let at = self.sent_at(i, n as usize);
                if at >= until {
                    break;
                }
                self.arrivals[i].push(None);
                let mut bytes = vec![n as u8; stream.bytes.max(LABEL_BYTES)];
                bytes[..8].copy_from_slice(&((i as u64) << 32 | n).to_be_bytes());
                bytes[8..16].copy_from_slice(&at.as_nanos().to_be_bytes());
                // A host without a free buffer sends nothing, and the packet counts as lost.
                let Some(payload) = nodes.world.pool().copy_of(HEADROOM, &bytes) else {
                    continue;
                };
                let request = Request::Send {
                    to: nodes.addr(stream.to),
                    port: receiver(i).1,
                    payload,
                };
                let host = nodes.hosts[stream.from];
                nodes.world.request_at(at, host, sender(i), request);
            }
        }
    }

    /// Handles the replies to clients. Returns an error if a condition is violated.
    pub(super) fn receive(
        &mut self,
        nodes: &mut Nodes<'_>,
        (sessions, groups): (&mut Sessions, &mut Groups),
        slack: Duration,
    ) -> Result<(), String> {
        for answer in nodes.world.take_replies() {
            self.on_answer(nodes, (&mut *sessions, &mut *groups), answer, slack)?;
        }
        Ok(())
    }

    /// Handles one reply to a client.
    pub(super) fn on_answer(
        &mut self,
        nodes: &mut Nodes<'_>,
        (sessions, groups): (&mut Sessions, &mut Groups),
        answer: Answer<Reply>,
        slack: Duration,
    ) -> Result<(), String> {
        match answer.reply {
            Reply::Datagram {
                from,
                group: Some(group),
                payload,
                ..
            } => {
                let to = (answer.host.place(), answer.client);
                let way = (from, group);
                groups.on_datagram(answer.at, to, way, payload.bytes(), slack)?;
            }
            Reply::Datagram { from, payload, .. } => {
                let (at, client) = (answer.at, answer.client);
                self.on_datagram(at, client, from, payload.bytes(), nodes, slack)?;
            }
            Reply::Refused(_) => self.refused += 1,
            Reply::Stream(reply) => {
                let node = nodes.hosts.iter().position(|host| *host == answer.host);
                if let Some(node) = node {
                    sessions.on_reply(nodes, node, answer.client, reply)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn on_datagram(
        &mut self,
        at: Time,
        client: ClientId,
        from: NodeAddr,
        payload: &[u8],
        nodes: &Nodes<'_>,
        slack: Duration,
    ) -> Result<(), String> {
        let word = |i: usize| payload.get(i..i + 8).and_then(|w| w.try_into().ok());
        let (Some(number), Some(sent)) = (word(0), word(8)) else {
            return Err("a payload was cut short".to_owned());
        };
        let (number, sent) = (u64::from_be_bytes(number), u64::from_be_bytes(sent));
        let (i, n, sent) = (
            (number >> 32) as usize,
            number as u32,
            Time::from_nanos(sent),
        );
        let Some(stream) = self.streams.get(i) else {
            return Err(format!("a packet of stream {i}, which does not exist"));
        };
        let intact = payload.len() == stream.bytes.max(LABEL_BYTES)
            && payload[LABEL_BYTES..].iter().all(|byte| *byte == n as u8)
            && (n as usize) < self.arrivals[i].len()
            && sent == self.sent_at(i, n as usize);
        if !intact || client != receiver(i).0 || from != nodes.addr(stream.from) {
            return Err(format!("packet {n} of stream {i} is not what was sent"));
        }
        let delay = at.since(sent);
        if stream
            .options
            .deadline
            .is_some_and(|most| delay > most + slack)
        {
            return Err(format!(
                "packet {n} of stream {i} came after {delay}: {stream:?}"
            ));
        }
        if self.hops[stream.from][stream.to] > usize::from(stream.options.ttl) {
            return Err(format!(
                "packet {n} went farther than its time to live: {stream:?}"
            ));
        }
        // A receiver that has restarted since then does not know what it had received.
        let forgot = self.forgot[stream.to];
        if let Some(before) = self.arrivals[i][n as usize].replace(at)
            && forgot.is_none_or(|forgot| forgot < before)
        {
            return Err(format!(
                "packet {n} of stream {i} was delivered at {before} and again at {at}"
            ));
        }
        let latest = self.latest[i].replace(n);
        let restarted = forgot.is_some() || self.forgot[stream.from].is_some();
        if stream.options.delivery == Delivery::InOrder
            && !restarted
            && latest.is_some_and(|latest| latest > n)
        {
            return Err(format!("stream {i} is out of order: {latest:?} before {n}"));
        }
        Ok(())
    }

    pub(super) fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Returns the number of packets sent by all streams.
    pub(super) fn sent(&self) -> u64 {
        self.arrivals.iter().map(|all| all.len() as u64).sum()
    }

    /// Returns the number of packets that arrived.
    pub(super) fn received(&self) -> u64 {
        self.arrivals.iter().flatten().flatten().count() as u64
    }

    /// Returns the number of packets of stream `i` that were sent in a span and did not arrive.
    pub(super) fn lost_between(&self, i: usize, from: Time, until: Time) -> usize {
        let all = self.arrivals[i].iter().enumerate();
        let lost = all.filter(|(n, arrival)| {
            arrival.is_none() && (from..until).contains(&self.sent_at(i, *n))
        });
        lost.count()
    }

    /// Returns which packets arrived and when: this must not depend on how datagrams are handed over.
    pub(super) fn deliveries(self) -> Vec<Vec<Option<Time>>> {
        self.arrivals
    }

    fn sent_at(&self, i: usize, n: usize) -> Time {
        let stream = &self.streams[i];
        self.start + stream.phase + stream.interval * (n as u64 / stream.burst)
    }
}

fn sender(i: usize) -> ClientId {
    ClientId(100 + i as u32)
}

fn receiver(i: usize) -> (ClientId, VirtualPort) {
    (ClientId(1_000 + i as u32), VirtualPort(6_000 + i as u16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;
    use sim::Arrivals;

    /// Returns packet `n` of the first stream as it was sent at `at`.
    fn payload(stream: &Stream, n: u64, at: Time) -> Vec<u8> {
        let mut bytes = vec![n as u8; stream.bytes.max(LABEL_BYTES)];
        bytes[..8].copy_from_slice(&n.to_be_bytes());
        bytes[8..16].copy_from_slice(&at.as_nanos().to_be_bytes());
        bytes
    }

    #[test]
    fn what_must_not_be_delivered_is_noticed() {
        let mut plan = Plan::draw(&mut Rng::new(1));
        let stream = &mut plan.streams[0];
        (stream.burst, stream.options.ttl) = (1, 63);
        stream.options.deadline = Some(Duration::from_millis(100));
        stream.options.delivery = Delivery::InOrder;
        let stream = stream.clone();
        let mut nodes = Nodes::new(1, &plan, Arrivals::Bursts);
        let mut streams = Streams::open(&mut nodes, &plan);
        streams.send(&mut nodes, Time::ZERO + Duration::from_secs(1));
        let from = nodes.addr(stream.from);
        let sent = |n: u64| Time::ZERO + stream.phase + stream.interval * n;
        let mut deliver = |n: u64, bytes: &[u8], delay_ms: u64, nodes: &Nodes<'_>| {
            let at = sent(n) + Duration::from_millis(delay_ms);
            let slack = Duration::from_millis(1);
            streams.on_datagram(at, receiver(0).0, from, bytes, nodes, slack)
        };
        let packet = |n| payload(&stream, n, sent(n));
        assert_eq!(deliver(2, &packet(2), 50, &nodes), Ok(()));
        let again = deliver(2, &packet(2), 60, &nodes).unwrap_err();
        assert!(again.contains("and again"), "{again}");
        let late = deliver(3, &packet(3), 102, &nodes).unwrap_err();
        assert!(late.contains("came after"), "{late}");
        let back = deliver(1, &packet(1), 90, &nodes).unwrap_err();
        assert!(back.contains("out of order"), "{back}");
        let mut altered = packet(4);
        altered[LABEL_BYTES] ^= 1;
        assert!(deliver(4, &altered, 10, &nodes).is_err());
        assert!(deliver(4, &packet(4)[..LABEL_BYTES], 10, &nodes).is_err());
        assert!(deliver(4, &[], 10, &nodes).is_err());
        let never_sent = payload(&stream, 1 << 20, sent(1 << 20));
        assert!(deliver(1 << 20, &never_sent, 10, &nodes).is_err());
    }
}
